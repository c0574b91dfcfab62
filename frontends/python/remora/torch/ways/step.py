# SPDX-License-Identifier: Apache-2.0
"""From a function of PyTorch to graphs, and from planned programs back to something that is called.

Of `train_step`, loss and `loss.backward()` are inside the function. Dynamo traces the autograd ops too, so forward,
loss and backward are one graph, and any schedule of it can run. `ways.parts` has the other way.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
import torch._dynamo
import torch._functorch.config
from torch import fx

import remora

from ..capture.dynamo import alive, boxed, compiled_step
from ..capture.graph import replayable, tensors_in
from ..capture.updates import OF_A_SCALER, Updates, refuse_global_norm
from ..carry.arena import Memory
from ..carry.cuda_graph import Recorded, workspace_in_graph
from ..carry.program import Program
from ..decide.schedules import sweep_graph
from ..errors import BudgetError, CaptureError
from ..ledger import Ledger, Part, place_of_function
from ..measure import rounded
from ..options import Options, check_budget
from ..planning import Plans, SchedulePlan
from ..problem.aten import StepProblem
from ..problem.sized import has_symbols
from .programs import planned, read_graph
from .sized import SizedStep, declared, vary_of


def train_step(
    function: Callable[..., Any] | None = None,
    *,
    budget: int | str = "100%",
    reserve: int = 0,
    cost: str = "measured",
    fuse: bool = False,
    arena: bool = False,
    cuda_graph: bool = False,
    slices: str = "none",
    order: str = "input",
    pure: tuple[str, ...] = (),
    time_limit: float = 15.0,
    threads: int = 0,
    seed: int = 1,
    cache: bool = True,
    progress: bool = False,
    plan: str | Sequence[str] = "",
    sizes: Mapping[str, Any] | None = None,
    lengths: Sequence[int] = (),
    plans: int = 4,
    update: torch.optim.Optimizer | Sequence[torch.optim.Optimizer] = (),
) -> Any:
    """Makes a training step run under a memory budget; loss and `loss.backward()` are inside the function.

    Parameters
    ----------
    function : callable
        Runs the model, calls `backward()` on a loss, and returns what the caller wants, detached. The optimizer's step
        stands outside, unless it is given as `update`.
    budget : int or str
        Bytes ("12GiB", 1500000), permanently resident memory included; or a percentage ("60%") of the memory that
        the captured step uses beyond that if nothing is recomputed. The largest batch so far turns it into bytes.
    reserve, cost, fuse, arena, cuda_graph, slices, order, pure, time_limit, threads, seed, cache, progress, plan
        As in `Options`.
    sizes : mapping, optional
        Sizes of the arguments that vary, by the argument's name (of a tensor in a mapping: its key), as a range of the
        last dimension, `{"tokens": (128, 8192)}`, or by dimension, `{"images": {0: (1, 64)}}`. The first call captures
        the step for all of them, and plans the largest first: a `BudgetError` then comes before the first step. Other
        sizes are rejected. Without it, a size is known to vary once it has changed. Not with `fuse`, `arena`,
        `cuda_graph`, `slices` or `plan`.
    lengths : sequence of int
        How long the calls will be, such as the lengths of a data set: schedules are chosen for the smallest expected
        time. Otherwise all sizes of a range count alike. Only with one range in `sizes`.
    plans : int
        The largest number of schedules for all sizes together.
    update : torch.optim.Optimizer or sequence of them
        Optimizers of `torch.optim` whose updates run inside the step: each parameter is updated as soon as nothing
        reads it any more, its gradient is then released, and `grad` is None after the step. Parameters and states are
        those of `optimizer.step()` after the function, with `foreach=False` (or `fused=True`), bit for bit. The state
        counts as permanently resident from the first step on. Not with gradients that exist already, clipping by a
        global norm, a GradScaler, hooks of the optimizer's step, `fuse`, `arena` or `cuda_graph`.

    Returns
    -------
    TrainStep
        Is called like the function. Gradients that are there already are captured and planned apart.

    Examples
    --------
    >>> model = torch.nn.Linear(8, 4)
    >>> @train_step(budget="60%")
    ... def step(x, y):
    ...     loss = torch.nn.functional.cross_entropy(model(x), y)
    ...     loss.backward()
    ...     return loss.detach()
    """
    given = locals()
    options = Options.of({n: given[n] for n in given if n not in ("function", "sizes", "lengths", "plans", "update")})
    words: dict[str, Any] = {"options": options, "sizes": sizes, "lengths": lengths, "most": plans, "update": update}
    return functools.partial(TrainStep, **words) if function is None else TrainStep(function, **words)


def scale_of(scaler: torch.amp.GradScaler) -> torch.Tensor:
    """A gradient scaler's scale, by which the loss is multiplied inside a step: `(loss * scale).backward()`.

    Give it to the step as an argument. It is a tensor that the scaler's `update` changes, so nothing is planned again.
    """
    device = torch.device(getattr(scaler, "_device", "cuda"))
    if not scaler.is_enabled():
        return torch.ones((), device=device)
    if scaler._scale is None:
        scaler._lazy_init_scale_growth_tracker(device)
    assert scaler._scale is not None
    setattr(scaler._scale, OF_A_SCALER, True)
    return scaler._scale


def padded(tensor: torch.Tensor, lengths: Sequence[int], dim: int = -1, value: float = 0) -> torch.Tensor:
    """A tensor, padded at the end of a dimension to the shortest of a few lengths, so that a few plans serve all.

    Parameters
    ----------
    lengths : sequence of int
        Each of them is captured and planned once.
    dim : int
        What is padded.
    value : float
        What fills it, as the number that the loss ignores, or 0 in a mask.

    Raises
    ------
    ValueError
        If the tensor is longer than the longest.
    """
    length = tensor.shape[dim]
    longest = max(lengths)
    if length > longest:
        raise ValueError(f"padded: {length} is longer than the longest, {longest}")
    shape = list(tensor.shape)
    shape[dim] = min(n for n in lengths if n >= length) - length
    return torch.cat([tensor, tensor.new_full(shape, value)], dim)


@dataclass
class _Captured:
    """A captured graph whose sizes do not vary."""

    problem: StepProblem
    plan: SchedulePlan
    program: Program
    reached: int  # the smallest peak of its plans so far
    part: Part  # of the ledger
    limit: int | None  # what a percentage was when it was planned, in bytes
    ran: int = 0  # the number of the call that ran it last

    @property
    def plans(self) -> list[SchedulePlan]:
        """The plan."""
        return [self.plan]


class TrainStep:
    """A function that runs as planned; what `train_step` gives."""

    def __init__(
        self,
        function: Callable[..., Any],
        options: Options,
        sizes: Mapping[str, Any] | None = None,
        lengths: Sequence[int] = (),
        most: int = 4,
        update: torch.optim.Optimizer | Sequence[torch.optim.Optimizer] = (),
    ) -> None:
        self._updates = Updates(update)
        if self._updates.optimizers and (options.fuse or options.arena or options.cuda_graph):
            raise ValueError("update: not with fuse, arena or cuda_graph")
        functools.update_wrapper(self, function)
        self.function, self.options = function, options
        self._declared = declared(function, options, sizes, lengths, most)
        self.optimizers = self._updates.optimizers
        has_updates = bool(self.optimizers)
        self.ledger = Ledger(place_of_function(function) if has_updates else "")
        traced = self._updates.inside(function) if has_updates else function
        self._limit: int | None = None  # a percentage, in bytes
        self._captured: list[_Captured | SizedStep] = []
        self._memory = Memory() if options.arena else None
        self._calls = itertools.count(1)
        # Dynamo's cache outlives the step, and must not keep its model.
        weak = weakref.WeakMethod(self._compile)
        vary = vary_of(options, self._declared)
        self._compiled = compiled_step(traced, lambda module, inputs: alive(weak)(module, inputs), self.ledger, vary)

    @property
    def plans(self) -> Plans:
        """One for each captured graph, in the order of capture; where sizes vary, one for each schedule.

        As text (`print`), what happens at which sizes.
        """
        sized = (captured for captured in self._captured if isinstance(captured, SizedStep))
        return Plans(
            (plan for captured in self._captured for plan in captured.plans), (e for one in sized for e in one.expected)
        )

    @property
    def plan(self) -> SchedulePlan:
        """The plan of the latest call."""
        if not self._captured:
            raise CaptureError("nothing is planned before the first call")
        return max(self._captured, key=lambda captured: captured.ran).plan

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        """Runs the step."""
        self.ledger.begun = time.perf_counter()
        self._updates.check((arguments, options))
        self._declared.mark(arguments, options)
        result = self._compiled(*arguments, **options)
        for captured in self._captured:
            if isinstance(captured, SizedStep):
                captured.tell()
        return result

    def set_budget(self, budget: int | str) -> None:
        """Plans what is captured, and what will be, for another budget; nothing is captured or measured again."""
        check_budget(budget)
        options = replace(self.options, budget=budget)
        limit: int | None = None

        def in_bytes(asked: Options, problem: StepProblem) -> tuple[Options, int | None]:
            nonlocal limit
            given, limit = asked.fixed_in_bytes(problem, limit)
            return given, limit

        planned_now = [c for c in self._captured if not isinstance(c, SizedStep) or c.is_decided]
        for captured in planned_now:
            in_bytes(options, captured.problem)
        found: list[Any] = []
        for captured in planned_now:
            problem = captured.problem
            if isinstance(captured, SizedStep):
                found.append(captured.decide(options, in_bytes))
                continue
            try:
                given, limit = options.fixed_in_bytes(problem, limit)
                found.append(planned(problem, given, self._memory))
            except BudgetError as refusal:
                if options.fuse or options.arena:
                    raise  # each budget has regions, or addresses, of its own
                raise refusal.knowing(captured.reached + problem.states + options.reserve) from None
        self.options, self._limit = options, limit
        for captured in self._captured:
            if isinstance(captured, SizedStep):
                captured.options = options
        for captured, decision in zip(planned_now, found, strict=True):
            if isinstance(captured, SizedStep):
                captured.adopt(decision)
            else:
                self._replace(captured, *decision)

    def _in_bytes(self, options: Options, problem: StepProblem) -> tuple[Options, int | None]:
        given, self._limit = options.fixed_in_bytes(problem, self._limit)
        return given, self._limit

    def _replace(self, captured: _Captured, plan: SchedulePlan, program: Program) -> None:
        captured.plan, captured.program = plan, self._recorded(program, captured.problem)
        captured.reached, captured.limit = min(captured.reached, plan.predicted_peak), self._limit
        captured.part.keep(plan)

    def _program_of(self, captured: _Captured) -> Program:
        """The program of a captured step, planned again if it recomputes and a larger batch has raised the budget."""
        if captured.limit != self._limit and captured.plan.predicted_time > captured.plan.unscheduled_time:
            options, _ = self.options.fixed_in_bytes(captured.problem, self._limit)
            captured.limit = self._limit
            with contextlib.suppress(BudgetError):  # the plan that it has stays within the budget
                self._replace(captured, *planned(captured.problem, options, self._memory))
        return captured.program

    def sweep(self, points: int = 12, time_limit: float = 60.0) -> remora.Curve:
        """Finds predicted time against budget for the graph of the latest call, in so many seconds."""
        return sweep_graph(self.plan.found.graph, points, time_limit, self.options)

    def _compile(self, module: fx.GraphModule, _: Any) -> Callable[[list[Any]], list[Any]]:
        part = self.ledger.parts[-1]
        refuse_global_norm(module)
        name = str(getattr(self.function, "__qualname__", "step"))
        if self.options.may_vary and not self.ledger.by_size and has_symbols(module):
            return self._runs(SizedStep(module, self.options, name, part, self.ledger, self._declared))
        self.ledger.tell_numbers(self._declared.sizes)
        seconds = {"capture": time.perf_counter() - part.begun}
        nearest = self._nearest(part)
        problem = read_graph(module, self.options, None, seconds, name, known=nearest.problem if nearest else None)
        problem.step.accumulates = part.accumulates
        if self.options.cuda_graph:
            device = problem.step.device
            if device.type != "cuda":
                raise CaptureError(f"cuda_graph: the step runs on {device.type}")
            # Arguments that lie elsewhere in each step are copied.
            copies = sum(rounded(size, device) for size in part.batch)
            problem.step.beside = copies + workspace_in_graph(device)
        options, self._limit = self.options.fixed_in_bytes(problem, self._limit)
        before: list[int] = []
        if nearest is not None and not nearest.plan.slices and nearest.problem.step.form == problem.step.form:
            before = [s.op.index for s in nearest.plan.found.steps]
        plan, program = planned(problem, options, self._memory, seconds, before=before)
        part.keep(plan)
        recorded = self._recorded(program, problem)
        captured = _Captured(problem, plan, recorded, plan.predicted_peak, part, self._limit)
        self.ledger.tell_shapes(part)
        return self._runs(captured)

    def _nearest(self, part: Part) -> _Captured | None:
        """The step as it was captured at the sizes that are nearest to those of a part, if it was."""
        found = [c for c in self._captured if isinstance(c, _Captured) and c.part.accumulates == part.accumulates]
        return min(found, key=lambda c: abs(sum(c.part.batch) - sum(part.batch)), default=None)

    def _runs(self, captured: _Captured | SizedStep) -> Callable[[list[Any]], list[Any]]:
        """Gives what Dynamo calls, which must not keep the step."""
        self._captured.append(captured)
        if isinstance(captured, SizedStep):
            latest = weakref.WeakMethod(captured.latest_plan)
            captured.part.latest = lambda: shown() if (shown := latest()) is not None else None
        step, weak, calls = weakref.ref(self), weakref.ref(captured), self._calls

        def run(arguments: list[Any]) -> list[Any]:
            owner: TrainStep = alive(step)
            found = alive(weak)
            sized = isinstance(found, SizedStep)
            program = found.scheduled(arguments, owner._in_bytes).program if sized else owner._program_of(found)
            results: list[Any] = program.run(arguments)
            found.ran = next(calls)
            return results

        return boxed(run)

    def _recorded(self, program: Program, problem: StepProblem) -> Program:
        """The program, or the CUDA graph of it."""
        if not self.options.cuda_graph:
            return program
        step = problem.step
        values = tensors_in(list(step.value.values()))
        nodes = [node for op in step.ops for node in op.nodes]
        foreign = next((node.target for node in nodes if not replayable(node, self.options.pure)), None)
        name = foreign._schema.name if isinstance(foreign, torch._ops.OpOverload) else str(foreign)
        reasons = {
            "random numbers are drawn again": "set_state(" in program.source,
            "some values lie on another device": any(value.device != step.device for value in values),
            f"{name} may do more than launch kernels (pure= names ops that do not)": foreign is not None,
        }
        for reason in (text for text, holds in reasons.items() if holds):
            self.ledger.tell(f"{reason}: the step runs op by op, not as a CUDA graph")
            return program
        room = step.beside - workspace_in_graph(step.device)
        return Program(program.source, Recorded(program.run, self.ledger.tell, room))
