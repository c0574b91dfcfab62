# SPDX-License-Identifier: Apache-2.0
"""`auto_pipeline`: what each stage of PyTorch's own pipeline schedules recomputes, chosen for all stages together.

Each process traces a microbatch of its stage (`capture.microbatch`) and makes its modes: which modules are
checkpointed, from none on. The engine chooses a mode for each stage (`decide.stages`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch.distributed.pipelining import Schedule1F1B, ScheduleGPipe

from remora.pipelining import PipelineOrder

from ..capture.microbatch import ScheduledStep, microbatch_of
from ..carry.checkpoints import applied, apply_checkpoints, refuse_own_checkpoints, refuse_planned
from ..decide.stages import PipelineFitting, StageProblem
from ..job import gathered
from ..measure import rounded
from ..options import Options, Sizes, check_budget
from ..planning import StagesPlan
from ..problem.checkpoints import EagerProblem
from ..step import CheckpointError, Reference

T = TypeVar("T")
SCHEDULES: dict[Any, PipelineOrder] = {Schedule1F1B: "1f1b", ScheduleGPipe: "gpipe"}
"""Those whose order the engine knows."""


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
) -> StagesPlan:
    """Checkpoints modules of each stage so that a pipeline step fits within each process's budget in minimum time.

    All processes of the pipeline call it together, as they call `schedule.step`: a few steps are run to measure. Each
    stage's module is changed in place; gradients are bitwise equal to those without checkpoints, which is checked.
    Afterwards parameters, buffers, gradients and generators are as they were.

    Parameters
    ----------
    schedule : Schedule1F1B or ScheduleGPipe
        Of torch.distributed.pipelining, one stage on each process. On GPUs it was never run.
    *args, target, **kwargs
        What `schedule.step` is given on this process.
    budget : int or str, or a sequence of them
        Bytes ("8GiB") of each process, or one for each, with all permanently resident memory; or a share ("60%") of the
        stage's transient memory, beyond parameters, buffers and gradients.
    modes : int
        So many ways to run a microbatch are offered for a stage, at most.
    time_limit : float
        Seconds for the choice.
    threads, seed : int
        Of the engine.

    Returns
    -------
    StagesPlan
        `stages` has the plan of each, `peaks` the measured bytes; equal on all processes.

    Raises
    ------
    BudgetError
        If a stage does not fit within its budget in any mode.
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
    options = [Options(amount, time_limit=time_limit, threads=threads, seed=seed).checked() for amount in given]
    if stage.device.type != "cpu" and not torch.cuda.is_available():
        raise CheckpointError(f"a stage lies on the CPU or a GPU, not on {stage.device}")
    step = ScheduledStep(stage, lambda: schedule.step(*args, target=target, **kwargs))
    own, reference = _jointly(stage, lambda: _measured(step, schedule, modes))

    def tried(plan: StagesPlan) -> list[int]:
        trials = reference.tried(applied(stage.submod, plan.stages[stage.stage_index]), stage.group)
        peak = trials[dist.get_rank(stage.group)].peak
        return _by_stage(stage, own.sizes.fixed + peak)

    def first(found: Any) -> Any:
        return _by_stage(stage, found)[0]

    plan = PipelineFitting(_by_stage(stage, own), options, schedule._n_microbatches, kind, first, tried).run()
    if len(set(_by_stage(stage, plan.digest))) > 1:
        raise CheckpointError("the processes of this pipeline do not have the same plan")
    apply_checkpoints(stage.submod, plan.stages[stage.stage_index])
    return plan


def _measured(step: ScheduledStep, schedule: Any, modes: int) -> tuple[StageProblem, Reference]:
    """Runs the schedule as it is, traces a microbatch, and makes the modes of this stage."""
    module, device = step.model, step.device
    refuse_own_checkpoints(module)
    refuse_planned(module)
    with step.kept():
        step.run()  # the stages tell each other shapes in the first step
    one = microbatch_of(step, schedule)
    problem, reference = EagerProblem(one, Reference(one)), Reference(step)
    fixed = sum(rounded(t.nbytes, device) for t in (*module.parameters(), *module.buffers()))
    fixed += sum(rounded(p.nbytes, device) for p in module.parameters() if p.requires_grad)
    return StageProblem.of(
        problem,
        Sizes(fixed, fixed + reference.peak, "the stage's step without checkpoints", "choice of checkpoints"),
        modes,
    ), reference


def _by_stage(stage: Any, value: T) -> list[T]:
    found = gathered((stage.stage_index, value), stage.group)
    if sorted(index for index, _ in found) != list(range(len(found))):
        raise CheckpointError("each process has to have one stage of the pipeline")
    return [row for _, row in sorted(found, key=lambda pair: pair[0])]


def _jointly(stage: Any, make: Callable[[], T]) -> T:
    """Result of this process; if one fails, all do."""
    found, failed = None, ""
    try:
        found = make()
    except Exception as error:  # the others wait for what this process tells them
        failed = str(error) if isinstance(error, CheckpointError) else f"{type(error).__name__}: {error}"
    failures = [f"stage {i}: {text}" for i, text in enumerate(_by_stage(stage, failed)) if text]
    if failures:
        raise CheckpointError(failures[0])
    assert found is not None
    return found
