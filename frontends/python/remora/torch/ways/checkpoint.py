# SPDX-License-Identifier: Apache-2.0
"""`auto_checkpoint`: which of a model's own modules to checkpoint, chosen for code that stays eager.

A step is traced once (`capture.trace`), a family of plans is replayed on it (`problem.family`), the engine
chooses (`decide.modes`), and the plan is applied (`carry.checkpoints`), run and compared with eager.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import torch

from ..capture.graph import tensors_in
from ..carry.checkpoints import Module, applied, apply_checkpoints, refuse_own_checkpoints
from ..decide.checkpoints import Fitting
from ..errors import BudgetError, warn
from ..job import same_answer
from ..options import Options
from ..planning import CheckpointPlan
from ..problem.checkpoints import EagerProblem
from ..step import CheckpointError, EagerStep, Reference, loss_of
from ..store import digest
from .slices import planned_in_slices

SLOWER = 1.25
"""A warning is given if a plan runs longer than predicted by this factor."""


def auto_checkpoint(
    model: Module,
    batch: Any,
    budget: int | str,
    *,
    loss: Callable[[Module, Any], torch.Tensor] | None = None,
    reserve: int = 0,
    slices: Literal["none", "auto"] = "none",
    time_limit: float = 15.0,
    threads: int = 0,
    seed: int = 1,
) -> Module:
    """Checkpoints modules of a model so that a training step fits within a memory budget with the smallest overhead.

    The model stays eager and is changed in place: parameters, their names, the state dictionary and classes stay, and
    results, gradients, buffers and generators are bitwise equal to those without checkpoints, which is checked. A few
    steps are run; afterwards parameters, buffers, gradients, generators, and what hooks and the loss change are as they
    were. `checkpoints(model)` has the plan, `remove_checkpoints(model)` undoes it.

    Parameters
    ----------
    model : torch.nn.Module
        In the mode (`train` or `eval`) in which it will run, before DistributedDataParallel or `fully_shard`.
    batch : Any
        The largest that will come: a tensor, a sequence of the model's arguments, or a mapping by name. A batch none of
        whose sizes is larger needs no more memory by the same plan; larger ones have the same results, but their memory
        is not guaranteed.
    budget : int or str
        Bytes ("8GiB") with all permanently resident memory, or a share ("60%") of the eager step's transient memory.
    loss : callable, optional
        Gives the scalar whose `backward()` is called, from the model and the batch. By default what the model returns
        for the batch, or its attribute or key "loss".
    reserve : int
        Bytes that something else takes on the device, as an optimizer's state; a part of a budget given in bytes.
    slices : {"none", "auto"}
        "auto": modules whose rows are independent, and a linear layer with the cross entropy of its product (which the
        model must not read otherwise), may run in slices. Gradients are then equal to within the rounding of sums.
    time_limit : float
        Seconds for the search.
    threads, seed : int
        Of the engine.

    Returns
    -------
    torch.nn.Module
        The model itself.

    Raises
    ------
    BudgetError
        If no plan of the family stays within the budget; `least` is a budget that is enough for one.
    CheckpointError
        If the step cannot be traced, differs from eager when it is run again, or trains the model by a hook with a
        state that cannot be restored.
    """
    options = Options(budget, reserve, slices=slices, time_limit=time_limit, threads=threads, seed=seed).checked()
    refuse(model)
    step = step_of(model, batch, loss)
    reference = Reference(step)
    if reference.unsteady:
        more = f"{reference.unsteady[0]} and {len(reference.unsteady) - 1} more"
        warn(f"two eager steps differ in {more}: only larger differences are found")

    def planned() -> Any:
        """The plan's file as JSON gives it, or the arguments of a BudgetError."""
        problem = EagerProblem(step, reference)
        try:
            plan = _plan_of(step, reference, problem, options)
            return {"plan": plan.to_json(), "excluded": problem.family.excluded}
        except BudgetError as refusal:
            return {"refused": refusal.__reduce__()[1], "excluded": problem.family.excluded}

    shapes = [(str(t.dtype), *t.shape) for t in step.fixed]
    names = [name for name, _ in model.named_modules()]
    line = getattr(getattr(loss, "__code__", None), "co_firstlineno", 0)
    asked = [vars(options), getattr(loss, "__qualname__", ""), line, model.training]
    answer = same_answer(f"checkpoints/{digest([names, shapes, asked])}", planned)
    _tell_excluded(answer["excluded"])
    if "refused" in answer:
        raise BudgetError(*answer["refused"])
    plan = CheckpointPlan.from_json(answer["plan"])
    _tell_slower(plan, step.device)
    return apply_checkpoints(model, plan)


def _plan_of(step: EagerStep, reference: Reference, problem: EagerProblem, options: Options) -> CheckpointPlan:
    """The fastest plan within the budget; raises BudgetError if there is none."""
    whole: CheckpointPlan | BudgetError
    try:
        whole = Fitting(problem, reference, options, lambda plan: applied(step.model, plan)).run()
    except BudgetError as refusal:
        if options.slices == "none":
            raise
        whole = refusal
    if isinstance(whole, CheckpointPlan) and (options.slices == "none" or not whole.modules):
        return whole
    return planned_in_slices(step, reference, problem, options, whole)


def _tell_slower(plan: CheckpointPlan, device: torch.device) -> None:
    """Says where a plan takes much longer than predicted; on a CPU other work is the usual reason."""
    if device.type == "cpu" or plan.measured_time <= SLOWER * plan.predicted_time:
        return
    took, predicted = plan.measured_time / 1e6, plan.predicted_time / 1e6
    warn(f"the plan takes {took:.1f} ms where {predicted:.1f} were predicted: another one may be faster")


def refuse(model: torch.nn.Module) -> None:
    """Rejects models for which nothing can be chosen."""
    if not isinstance(model, torch.nn.Module):
        raise TypeError(f"auto_checkpoint takes a torch.nn.Module, not {type(model).__name__}")
    refuse_own_checkpoints(model)
    kinds = {type(module).__name__ for module in model.modules()}
    if isinstance(model, torch.nn.parallel.DistributedDataParallel) or "FullyShardedDataParallel" in kinds:
        raise CheckpointError(f"{type(model).__name__} is put around a model after remora.torch.auto_checkpoint(model)")
    if torch.distributed.is_available():
        from torch.distributed.tensor import DTensor

        if any(isinstance(p, DTensor) for p in model.parameters()):
            raise CheckpointError(
                "the model is sharded: choose before fully_shard, or remora.torch.apply_checkpoints a plan to it"
            )


def step_of(model: torch.nn.Module, batch: Any, loss: Callable[..., torch.Tensor] | None) -> EagerStep:
    """The training step that is traced."""
    there = [*model.parameters(), *model.buffers(), *tensors_in(batch)]
    devices = {t.device for t in there if t.device.type != "cpu"} or {torch.device("cpu")}
    if len(devices) > 1 or next(iter(devices)).type not in ("cpu", "cuda"):
        raise CheckpointError(f"a model lies on one device, the CPU or a GPU, not on {sorted(map(str, devices))}")
    if not any(p.requires_grad for p in model.parameters()):
        raise CheckpointError("the model has no parameter that requires a gradient")
    return EagerStep(model, lambda: loss_of(model, batch, loss), next(iter(devices)), there)


def _tell_excluded(excluded: dict[str, str]) -> None:
    """Reports modules that may have hidden state; not those that only work in place, which are many and small."""
    found = [(name, reason) for name, reason in excluded.items() if name and reason.startswith("takes")]
    if found:
        name, reason = found[0]
        warn(
            f"{len(found)} modules are not checkpointed, as {name}, which {reason}. Where that is a cache of keys and "
            "values, set use_cache=False"
        )
