# SPDX-License-Identifier: Apache-2.0
"""`auto_pipeline`: what each stage of PyTorch's own pipeline schedules recomputes, chosen for all stages together.

Each process writes down a microbatch of its stage and makes its modes: which modules are checkpointed, from none on, by
what they save for a nanosecond. `remora.pipeline` chooses a mode for each stage; each process checkpoints its own.

    saved    from a microbatch's forward to the end of its backward: what autograd keeps, its input and its output
    fixed    parameters, buffers, gradients, and what a step of the schedule as it is takes beyond all this
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.pipelining import Schedule1F1B, ScheduleGPipe
from torch.utils import _pytree as pytree

import remora
from remora.pipelining import PipelineOrder

from ..carry.checkpoints import applied, apply_checkpoints, refuse_own_checkpoints, refuse_planned
from ..checkpoint_plan import CheckpointPlan, Choice
from ..decide.modes import Cut
from ..decide.within import TRIES, within_each
from ..errors import BudgetError
from ..job import gathered
from ..measure import rounded
from ..options import Options, check_budget
from ..problem.checkpoints import EagerProblem, choices_of
from ..problem.family import family_of
from ..step import CheckpointError, EagerStep, Reference, peak_of, tensors_of
from ..store import digest

SCHEDULES: dict[Any, PipelineOrder] = {Schedule1F1B: "1f1b", ScheduleGPipe: "gpipe"}
"""Those whose order the engine knows."""


@dataclass(frozen=True)
class PipelineFit:
    """How the stages of a pipeline run their microbatches; equal on all its processes.

    Attributes
    ----------
    stages : tuple of CheckpointPlan
        Which modules of each stage are checkpointed.
    makespan, bound, uniform_makespan : int
        Nanoseconds of a step, without what is sent: of this choice; no choice of the modes within the budgets takes
        less; of the best choice of one mode for all stages, None where none holds the budgets.
    budgets, predicted_peaks, peaks : tuple of int
        Bytes of each stage, with parameters, buffers and gradients; `peaks` are measured.
    """

    stages: tuple[CheckpointPlan, ...]
    makespan: int
    bound: int
    uniform_makespan: int | None
    budgets: tuple[int, ...]
    predicted_peaks: tuple[int, ...]
    peaks: tuple[int, ...]

    @property
    def digest(self) -> str:
        """SHA-256 of all of it."""
        rows = [json.loads(stage.to_json()) for stage in self.stages]
        rest = [self.makespan, self.bound, self.uniform_makespan, self.budgets, self.predicted_peaks, self.peaks]
        return digest([rows, rest])


def auto_pipeline(
    schedule: Any,
    *args: Any,
    budget: int | str | Sequence[int | str],
    target: Any = None,
    modes: int = 8,
    time_limit: float = 10.0,
    threads: int = 0,
    seed: int = 1,
    **kwargs: Any,
) -> PipelineFit:
    """Checkpoints modules of each stage of a pipeline so that a step holds each process's budget in the least time.

    All processes of the pipeline call it together, as they call `schedule.step`: a few steps are run to measure. Each
    stage's module is changed in place; gradients equal those without checkpoints in every bit, which is checked.
    Afterwards parameters, buffers, gradients and generators are as they were.

    Parameters
    ----------
    schedule : Schedule1F1B or ScheduleGPipe
        Of torch.distributed.pipelining, one stage on each process. On GPUs it was never run.
    *args, target, **kwargs
        What `schedule.step` is given on this process.
    budget : int or str, or a sequence of them
        Bytes ("8GiB") of each process, or one for each, with all that is there throughout; or a share ("60%") of what
        the stage's step takes beyond parameters, buffers and gradients.
    modes : int
        So many ways to run a microbatch are offered for a stage, at most.
    time_limit : float
        Seconds for the choice.
    threads, seed : int
        Of the engine.

    Returns
    -------
    PipelineFit

    Raises
    ------
    BudgetError
        If a stage does not hold its budget in any mode.
    CheckpointError
        If the schedule is another one, or a stage cannot be traced, or differs when it runs again.
    """
    kind = SCHEDULES.get(type(schedule))
    if kind is None:
        known = " and ".join(sorted(c.__name__ for c in SCHEDULES))
        raise CheckpointError(f"auto_pipeline plans for {known}, not for {type(schedule).__name__}")
    stage = schedule._stage
    given = [budget] * stage.num_stages if isinstance(budget, (int, str)) else budget
    if not isinstance(given, Sequence):
        check_budget(given)
    if len(given) != stage.num_stages:
        raise ValueError(f"budget: {len(given)} budgets for {stage.num_stages} stages; give one, or one for each")
    for amount in given:
        Options(amount, time_limit=time_limit, threads=threads, seed=seed).checked()
    if stage.device.type != "cpu" and not torch.cuda.is_available():
        raise CheckpointError(f"a stage lies on the CPU or a GPU, not on {stage.device}")
    pipeline = _Pipeline(stage, schedule, lambda: schedule.step(*args, target=target, **kwargs))
    own = pipeline.jointly(lambda: pipeline.measured_stage(modes))
    return pipeline.fitted(own, list(given), kind, {"time_limit": time_limit, "threads": threads or None, "seed": seed})


@dataclass(frozen=True)
class _Stage:
    """What a process tells the others of its stage."""

    modes: list[remora.StageMode]
    choices: list[dict[str, Choice]]
    changed: list[str]
    fixed: int
    plain_peak: int


class _Feed(torch.autograd.Function):
    """Stands for the stages behind: gives the output's gradients."""

    @staticmethod
    def forward(ctx: Any, gradients: tuple[torch.Tensor, ...], *outputs: torch.Tensor) -> torch.Tensor:
        ctx.gradients = gradients
        return torch.zeros((), device=outputs[0].device)

    @staticmethod
    def backward(ctx: Any, *_: Any) -> Any:
        return None, *(g.clone() for g in ctx.gradients)


class _ScheduledStep(EagerStep):
    """A step of the whole schedule; gradients exist before it, as zeros."""

    def __init__(self, stage: Any, schedule_step: Callable[[], Any]) -> None:
        super().__init__(stage.submod, lambda: torch.zeros(()), stage.device, [])
        self.stage, self.schedule_step = stage, schedule_step

    def run(self, backward: bool = True) -> torch.Tensor:
        """Runs all microbatches; the loss is that of other processes, too, and not compared."""
        self.schedule_step()
        return self.loss()

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Leaves generators, buffers and gradients as they were."""
        with super().kept():
            for p in self.model.parameters():
                p.grad = torch.zeros_like(p) if p.requires_grad else None
            self.stage.clear_runtime_states()  # outputs of the step before
            yield


class _Pipeline:
    """The part of this process."""

    def __init__(self, stage: Any, schedule: Any, step: Callable[[], Any]) -> None:
        self.stage, self.schedule = stage, schedule
        self.module: torch.nn.Module = stage.submod
        self.step = _ScheduledStep(stage, step)
        self.tried: PipelineFit | None = None  # the latest choice that was run

    def jointly(self, make: Callable[[], Any]) -> Any:
        """What this process makes; where one fails, all do."""
        try:
            found, failed = make(), ""
        except Exception as error:  # the others wait for what this process tells them
            found, failed = (
                None,
                str(error) if isinstance(error, CheckpointError) else f"{type(error).__name__}: {error}",
            )
        told = [f"stage {i}: {text}" for i, text in enumerate(self.gathered(failed)) if text]
        if told:
            raise CheckpointError(told[0])
        return found

    def gathered(self, value: Any) -> list[Any]:
        """Of each process, by its stage."""
        found = gathered((self.stage.stage_index, value), self.stage.group)
        if sorted(index for index, _ in found) != list(range(len(found))):
            raise CheckpointError("each process has to have one stage of the pipeline")
        return [row for _, row in sorted(found, key=lambda pair: pair[0])]

    # -- A stage --

    def measured_stage(self, most: int) -> _Stage:
        """Runs the schedule as it is, traces a microbatch, and makes the modes."""
        refuse_own_checkpoints(self.module)
        refuse_planned(self.module)
        with self.step.kept():
            self.step.run()  # the stages tell each other shapes in the first step
        problem = EagerProblem(self._microbatch())
        self.reference = Reference(self.step)
        with self.step.kept():
            plain_peak = peak_of(self.step)
        fixed = sum(rounded(t.nbytes, self.stage.device) for t in (*self.module.parameters(), *self.module.buffers()))
        fixed += sum(rounded(p.nbytes, self.stage.device) for p in self.module.parameters() if p.requires_grad)
        modes, choices = _front(problem, most)
        return _Stage(modes, choices, sorted(problem.replay.trace.changed), fixed, plain_peak)

    def _microbatch(self) -> EagerStep:
        """The step of the first microbatch alone, as the schedule gives it to the stage."""
        first: list[Any] = []

        def note(_: Any, args: Any, kwargs: Any, output: Any) -> None:
            if not first:
                first.append(pytree.tree_map(_detached, (args, kwargs, output)))

        hook = self.module.register_forward_hook(note, with_kwargs=True)
        loss, targets = self.schedule._loss_fn, list[Any]()

        def noting(output: Any, target: Any, *rest: Any, **named: Any) -> torch.Tensor:
            targets.append(target)
            found: torch.Tensor = loss(output, target, *rest, **named)
            return found

        try:
            self.schedule._loss_fn = None if loss is None else noting
            with self.step.kept():
                self.step.run()
        finally:
            hook.remove()
            self.schedule._loss_fn = loss
        arguments, named, output = first[0]
        outputs = [t for t in tensors_of(output) if t.is_floating_point()]
        generator = torch.Generator(outputs[0].device).manual_seed(0)
        fed = [torch.randn(t.shape, dtype=t.dtype, device=t.device, generator=generator) for t in outputs]
        leaves, spec = pytree.tree_flatten((arguments, named))

        held: list[Any] = []  # as the schedule holds it until the backward has ended

        def run() -> torch.Tensor:
            held.clear()
            received = leaves if self.stage.is_first else [_received(leaf) for leaf in leaves]
            given, words = pytree.tree_unflatten(received, spec)
            made = self.module(*given, **words)
            kept = [t for t in tensors_of(made) if t.is_floating_point()]
            held.extend([received, [t.detach() for t in kept]])
            if self.stage.is_last and loss is not None:
                value: torch.Tensor = loss(made, targets[0])
                return value
            fed_back: torch.Tensor = _Feed.apply(tuple(fed), *kept)
            return fed_back

        there = [*self.module.parameters(), *self.module.buffers(), *tensors_of((leaves, fed, targets[:1]))]
        return EagerStep(self.module, run, self.stage.device, there)

    # -- The choice --

    def fitted(self, own: _Stage, given: list[int | str], kind: PipelineOrder, words: dict[str, Any]) -> PipelineFit:
        """The choice whose steps hold the budgets."""
        stages: list[_Stage] = self.gathered(own)
        budgets = [
            Options(amount).in_bytes(stage.fixed, stage.fixed + stage.plain_peak)
            for amount, stage in zip(given, stages, strict=True)
        ]
        count = self.schedule._n_microbatches
        plain = self._solved(stages, [0] * len(stages), [None] * len(stages), count, kind, words, first_only=True)
        assert plain is not None  # without budgets
        # What the model of a step does not know, or counts though the schedule has given it back.
        beyond = [s.fixed + s.plain_peak - peak for s, peak in zip(stages, plain.peaks, strict=True)]

        def attempt(asked: list[int]) -> PipelineFit | None:
            plan = self._solved(stages, beyond, [max(0, size) for size in asked], count, kind, words)
            self.tried = self._run(stages, plan, budgets) if plan is not None else None
            return self.tried

        fit = within_each(budgets, attempt, lambda fit: fit.peaks)
        if fit is None:
            return self._refused(stages, beyond, budgets, count, kind, words)
        if len(set(self.gathered(fit.digest))) > 1:
            raise CheckpointError("the processes of this pipeline do not have the same plan")
        apply_checkpoints(self.module, fit.stages[self.stage.stage_index])
        return fit

    def _solved(
        self,
        stages: list[_Stage],
        beyond: list[int],
        budgets: Sequence[int | None],
        count: int,
        kind: PipelineOrder,
        words: dict[str, Any],
        first_only: bool = False,
    ) -> remora.PipelinePlan | None:
        """The plan of the process with the first stage, for all; None if it has none."""
        made = self._made(stages, beyond, first_only)
        # The search is the same everywhere but for its clock: the first process's choice is pinned for the others.
        found = remora.pipeline(made, microbatches=count, schedule=kind, budget=budgets, **words)
        chosen = self.gathered([row[0] for row in found.choice])[0]
        told = self.gathered((found.bound, found.uniform_makespan))[0]
        if not chosen:
            return None
        pinned = [remora.Stage(s.name, [s.modes[m]], s.fixed_memory) for s, m in zip(made, chosen, strict=True)]
        plan = remora.pipeline(pinned, microbatches=count, schedule=kind, **words)
        self.chosen, (self.bound, self.uniform) = chosen, told
        return plan

    def _run(self, stages: list[_Stage], plan: remora.PipelinePlan, budgets: list[int]) -> PipelineFit:
        """Runs a plan, and compares its gradients."""
        plans = tuple(CheckpointPlan(s.choices[m], s.changed) for s, m in zip(stages, self.chosen, strict=True))
        trials = self.reference.tried(applied(self.module, plans[self.stage.stage_index]), self.stage.group)
        assert plan.makespan is not None
        own = trials[dist.get_rank(self.stage.group)].peak
        peaks = tuple(self.gathered(stages[self.stage.stage_index].fixed + own))
        return PipelineFit(plans, plan.makespan, self.bound, self.uniform, tuple(budgets), plan.peaks, peaks)

    def _refused(
        self,
        stages: list[_Stage],
        beyond: list[int],
        budgets: list[int],
        count: int,
        kind: PipelineOrder,
        words: dict[str, Any],
    ) -> PipelineFit:
        """Raises the need of the first stage whose budget is too small, or which stage exceeds its prediction."""
        found = remora.pipeline(self._made(stages, beyond), microbatches=count, schedule=kind, budget=budgets, **words)
        for need in found.needs:
            stage, budget = stages[need.device], budgets[need.device]
            unscheduled = stage.fixed + stage.plain_peak
            raise BudgetError(budget, need.enough, need.least > budget, stage.fixed, unscheduled, need.least)
        assert self.tried is not None, "a choice within the budgets was run"
        over = [peak - budget for peak, budget in zip(self.tried.peaks, budgets, strict=True)]
        worst = over.index(max(over))
        raise CheckpointError(
            f"stage {worst} exceeds its budget of {budgets[worst]:,} bytes after {TRIES} tries: it takes "
            f"{self.tried.peaks[worst]:,} bytes where {self.tried.predicted_peaks[worst]:,} were predicted"
        )

    def _made(self, stages: list[_Stage], beyond: list[int], first_only: bool = False) -> list[remora.Stage]:
        """Stages as the engine sees them."""
        return [
            remora.Stage(f"stage {i}", s.modes[:1] if first_only else s.modes, max(0, s.fixed + more))
            for i, (s, more) in enumerate(zip(stages, beyond, strict=True))
        ]


def _detached(value: Any) -> Any:
    return value.detach().clone() if isinstance(value, torch.Tensor) else value


def _received(value: Any) -> Any:
    """A tensor as it comes from the stage before."""
    if not isinstance(value, torch.Tensor):
        return value
    return value.clone().requires_grad_(value.is_floating_point())


def _front(problem: EagerProblem, most: int) -> tuple[list[remora.StageMode], list[dict[str, Choice]]]:
    """Modes of a stage: none of them both slower and larger than another, the fastest first."""
    trace, family = problem.replay.trace, family_of(problem.replay, offload=False)
    forward = next((call.seconds for call in trace.calls if not call.name), trace.seconds / 2)
    points = []
    for modes in [[], *(modes for cut in family.cuts for modes in Cut(family, cut).path())]:
        run = problem.replay.run(choices_of(modes))
        saved = max(0, run.turn - trace.fixed)
        up, down = (
            max(0, max(part, default=0) - trace.fixed - saved)
            for part in (run.high[: trace.turn], run.high[trace.turn :])
        )
        points.append((run.seconds, saved, up, down, choices_of(modes)))
    points.sort(key=lambda p: (p[0], p[1] + max(p[2], p[3])))
    kept = [p for i, p in enumerate(points) if all(p[1] < other[1] for other in points[:i])]
    if len(kept) > most:
        kept = [kept[round(i * (len(kept) - 1) / (most - 1))] for i in range(most)] if most > 1 else kept[:1]
    modes_of_stage = [
        remora.StageMode(
            f"{len(choices)} checkpoints",
            forward=round(1e9 * forward),
            backward=round(1e9 * (max(0.0, trace.seconds - forward) + seconds)),
            saved=saved,
            forward_transient=up,
            backward_transient=down,
        )
        for seconds, saved, up, down, choices in kept
    ]
    return modes_of_stage, [choices for *_, choices in kept]
