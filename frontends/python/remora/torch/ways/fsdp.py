# SPDX-License-Identifier: Apache-2.0
"""`auto_fsdp`: which blocks of a model that FSDP2 shards are resharded after their forward, and which run again.

Every process runs and measures the step (`problem.sharded`). The first one plans for all, as for `auto_checkpoint`.
Each process then runs the plan, and none may exceed the budget.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.fsdp import FSDPModule

from ..capture.graph import tensors_in
from ..capture.sharded import flags_of, refuse_unlike, settled, step_of, units_of
from ..carry.checkpoints import Module, applied, apply_checkpoints, refuse_own_checkpoints, refuse_planned
from ..decide.checkpoints import Fitting
from ..job import gathered
from ..options import Options
from ..planning import CheckpointPlan
from ..problem.sharded import ShardedProblem
from ..step import CheckpointError, EagerStep, Reference, loss_of
from ..store import digest


def auto_fsdp(
    model: Module,
    batch: Any,
    budget: int | str,
    *,
    loss: Callable[[Module, Any], torch.Tensor] | None = None,
    reserve: int = 0,
    time_limit: float = 15.0,
    threads: int = 0,
    seed: int = 1,
) -> Module:
    """Chooses which blocks of a sharded model are resharded after their forward and which are checkpointed.

    All processes of the job call it together, each with its own batch, all of the same shapes. The first one plans for
    all; each runs the plan, and none may use more than the budget. Results and gradients are bitwise equal to those of
    FSDP2 without the plan, which is checked. Afterwards parameters, buffers, gradients and generators are as they were.

    Parameters
    ----------
    model : torch.nn.Module
        Given to `fully_shard`, and each of its blocks before it.
    batch : Any
        A tensor, a sequence of the model's arguments, or a mapping by name; memory is planned for its shapes.
    budget : int or str
        Bytes of a process ("8GiB") with all permanently resident memory, or a share ("60%") of the step's transient
        memory if all parameters are kept after the forward and nothing is checkpointed.
    loss, reserve, time_limit, threads, seed
        As for `auto_checkpoint`.

    Returns
    -------
    torch.nn.Module
        The model itself; `checkpoints(model)` has the plan, `remove_checkpoints(model)` undoes it.

    Raises
    ------
    BudgetError
        If no plan is found that stays within the budget on each process; `least` is a budget that is enough for one.
    CheckpointError
        If the model is not sharded so that a plan can be made, or its step does something else when it runs again.
    """
    options = Options(budget, reserve, time_limit=time_limit, threads=threads, seed=seed).checked()
    if not dist.is_initialized():
        raise CheckpointError("auto_fsdp plans for a job: torch.distributed.init_process_group comes first")
    units = units_of(model)
    refuse_unlike(model, units)
    refuse_planned(model)
    refuse_own_checkpoints(model)
    _refuse_different(model, units, batch)
    restore = flags_of(units)
    try:
        model.set_reshard_after_forward(False)  # type: ignore[operator]
        plan = _planned(model, units, lambda: loss_of(model, batch, loss), tensors_in(batch), options)
    finally:
        restore()
    return apply_checkpoints(model, plan)


def _planned(
    model: torch.nn.Module,
    units: dict[str, FSDPModule],
    loss: Callable[[], torch.Tensor],
    batch: list[torch.Tensor],
    options: Options,
) -> CheckpointPlan:
    device = next(iter(units.values()))._get_fsdp_state()._fsdp_param_groups[0].device
    first = EagerStep(model, loss, device, [])
    with first.kept():  # between two steps all is sharded
        first.run()  # FSDP prepares itself in the first step
    step = step_of(model, units, device, loss, batch)
    with settled(units, device):
        reference = Reference(step)
        problem = ShardedProblem(step, reference, None)
        plan = Fitting(problem, reference, options, lambda plan: applied(model, plan), None).run()
    if len(set(gathered(plan.digest))) > 1:
        raise CheckpointError("the processes of this job do not have the same plan")
    return plan


def _refuse_different(model: torch.nn.Module, units: Mapping[str, FSDPModule], batch: Any) -> None:
    """A plan of the first process is for all only if all have the same model, and batches of the same shapes."""
    rows = [list(units), [(name, str(p.dtype), *p.shape) for name, p in model.named_parameters()], model.training]
    shapes = [(str(t.dtype), *t.shape) for t in tensors_in(batch)]
    if len(set(gathered(digest([rows, shapes])))) > 1:
        raise CheckpointError(
            "the processes of this job have different models or batches of different shapes: one plan is for all, so "
            "stages of a pipeline are planned by auto_pipeline"
        )
