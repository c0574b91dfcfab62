# SPDX-License-Identifier: Apache-2.0
"""`auto_checkpoint`: which of a model's own modules to checkpoint, chosen for code that stays eager.

A step is traced once (`capture.trace`), a family of plans is replayed on it (`problem.family`), the engine
chooses (`decide.modes`), and the plan is applied (`carry.checkpoints`), run and compared with eager.
"""

from __future__ import annotations

import json
import statistics
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch.utils import _pytree as pytree
from torch.utils.checkpoint import checkpoint

from ..capture.record import traced
from ..capture.trace import Trace
from ..carry.checkpoints import Module, apply_checkpoints, refuse_own_checkpoints
from ..checkpoint_plan import CheckpointPlan, Figures
from ..decide.checkpoints import Fitting
from ..errors import BudgetError, RemoraWarning
from ..job import same_answer
from ..measure import Clock, random_state, rounded
from ..options import Options
from ..problem.eager import Rates, Replay
from ..problem.family import family_of
from ..step import CheckpointError, EagerStep, Outcome, differences, outcome_of, peak_of
from ..store import digest

SLOWER = 1.25
"""A plan that takes so many times what was predicted is told."""


def auto_checkpoint(
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
    """Checkpoints those modules of a model with which a training step holds a memory budget in the least time.

    The model stays eager and is changed in place: parameters, their names, the state dictionary and classes stay, and
    results, gradients, buffers and generators equal those without checkpoints in every bit, which is checked. A few
    steps are run; afterwards parameters, buffers, gradients and generators are as they were. `checkpoints(model)` has
    the plan, `remove_checkpoints(model)` undoes it.

    Parameters
    ----------
    model : torch.nn.Module
        In the mode (`train` or `eval`) in which it will run, before DistributedDataParallel or `fully_shard`.
    batch : Any
        Of the shapes that memory is planned for: a tensor, a sequence of the model's arguments, or a mapping by name.
        Other batches have the same results; their memory is not promised.
    budget : int or str
        Bytes ("8GiB") with all that is there throughout, or a share ("60%") of what the eager step takes beyond that.
    loss : callable, optional
        Gives the scalar whose `backward()` is called, from the model and the batch. By default what the model returns
        for the batch, or its attribute or key "loss".
    reserve : int
        Bytes that something else takes on the device, as an optimizer's state; a part of a budget given in bytes.
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
        If the step cannot be traced, or differs from eager when it is run again.
    """
    options = Options(budget, reserve, time_limit=time_limit, threads=threads, seed=seed).checked()
    refuse(model)
    step = step_of(model, batch, loss)
    eager = outcome_of(step)
    unsteady = differences(outcome_of(step), eager)
    if unsteady:
        warnings.warn(
            f"remora: two eager steps differ in {unsteady[0]} and {len(unsteady) - 1} more, so these are not compared",
            RemoraWarning,
            stacklevel=2,
        )
    shapes = [(str(t.dtype), *t.shape) for t in step.fixed]
    names = [name for name, _ in model.named_modules()]
    question = digest([names, shapes, str(budget), reserve, model.training])
    told = same_answer(f"checkpoints/{question}", lambda: _planned(step, options, eager, unsteady))
    _tell_excluded(told["excluded"])
    if "least" in told:
        raise BudgetError(*told["least"])
    plan = CheckpointPlan.from_json(json.dumps(told))
    _tell_slower(plan, step.device)
    apply_checkpoints(model, plan)
    return model


def _tell_slower(plan: CheckpointPlan, device: torch.device) -> None:
    """Says where a plan takes much longer than predicted; on a CPU other work is the usual reason."""
    figures = plan.figures
    if figures is None or device.type == "cpu" or figures.measured_seconds <= SLOWER * figures.predicted_seconds:
        return
    warnings.warn(
        f"remora: the plan takes {1e3 * figures.measured_seconds:.1f} ms where {1e3 * figures.predicted_seconds:.1f} "
        "were predicted: another one may be faster",
        RemoraWarning,
        stacklevel=3,
    )


def refuse(model: torch.nn.Module) -> None:
    """Refuses models for which nothing can be chosen."""
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
    tensors = [leaf for leaf in pytree.tree_leaves(batch) if isinstance(leaf, torch.Tensor)]
    there = [*model.parameters(), *model.buffers(), *tensors]
    devices = {t.device for t in there if t.device.type != "cpu"} or {torch.device("cpu")}
    if len(devices) > 1 or next(iter(devices)).type not in ("cpu", "cuda"):
        raise CheckpointError(f"a model lies on one device, the CPU or a GPU, not on {sorted(map(str, devices))}")
    if not any(p.requires_grad for p in model.parameters()):
        raise CheckpointError("the model has no parameter that requires a gradient")

    def run() -> torch.Tensor:
        return loss(model, batch) if loss is not None else own_loss(called(model, batch))

    return EagerStep(model, run, next(iter(devices)), there)


def called(model: torch.nn.Module, batch: Any) -> Any:
    """Result of a model for a batch: a tensor, a sequence of arguments, or a mapping by name."""
    if isinstance(batch, torch.Tensor):
        return model(batch)
    return model(**batch) if isinstance(batch, Mapping) else model(*batch)


def own_loss(output: Any) -> torch.Tensor:
    """Loss that a model returns: its result, or the attribute or key "loss" of it."""
    if isinstance(output, torch.Tensor):
        found: Any = output
    else:
        found = output.get("loss") if isinstance(output, Mapping) else getattr(output, "loss", None)
    if not isinstance(found, torch.Tensor) or found.numel() != 1:
        raise CheckpointError("the model returns no loss for this batch: give auto_checkpoint `loss`")
    return found


# -- Planning ----------------------------------------------------------------------------------------------------------


def replay_for(step: EagerStep, trace: Trace) -> Replay:
    """The replay of a trace, with the rates of this machine and copies of the buffers that the step changes."""
    sizes = {name: rounded(b.nbytes, step.device) for name, b in step.model.named_buffers() if name in trace.changed}
    snapshots = {
        name: sum(size for buffer, size in sizes.items() if buffer.startswith(f"{name}."))
        for name, _ in step.model.named_modules()
        if name
    }
    return Replay(trace, _rates(step, trace), snapshots)


def replay_of(step: EagerStep) -> tuple[Replay, Figures]:
    """Traces and measures a step: what it takes under any choice, and as it is."""
    trace = traced(step)
    with step.kept():
        eager_peak = peak_of(step)
    figures = Figures(fixed=trace.fixed, eager_peak=trace.fixed + eager_peak, eager_seconds=trace.seconds)
    replay = replay_for(step, trace)
    trace.fixed += max(0, figures.eager_peak - replay.run({}).peak)  # what no trace shows
    return replay, figures


def _planned(step: EagerStep, options: Options, eager: Outcome, unsteady: list[str]) -> Any:
    """The plan's file as JSON gives it, or what an `BudgetError` is made of."""
    replay, figures = replay_of(step)
    family = family_of(replay, offload=step.device.type == "cuda")
    budget = options.in_bytes(figures.fixed, figures.eager_peak)
    figures.budget = budget + (0 if options.is_share else options.reserve)
    plan, peak, proved = Fitting(step, replay, family, figures, options, eager, unsteady).run(budget)
    if plan is not None:
        return json.loads(plan.to_json())
    lower = budget + 1 if proved else 0
    sizes = [size + options.reserve for size in (budget, max(peak, budget + 1))]
    of_step = [size + options.reserve for size in (figures.fixed, figures.eager_peak)]
    return {"least": [*sizes, proved, *of_step, lower + options.reserve], "excluded": family.excluded}


def _rates(step: EagerStep, trace: Trace) -> Rates:
    """What checkpointing itself takes on this machine."""
    x = torch.ones(8, device=step.device, requires_grad=True)
    clock = Clock(step.device)

    def chain(count: int) -> Callable[[torch.Tensor], torch.Tensor]:
        def run(t: torch.Tensor) -> torch.Tensor:
            for _ in range(count):
                t = t.exp()
            return t

        return run

    def beyond(count: int) -> float:
        run, times = chain(count), list[float]()
        for _ in range(9):
            marks = [clock.mark()]
            for call in (lambda: run(x), lambda: checkpoint(run, x, use_reentrant=False)):
                torch.autograd.grad(call().sum(), x)  # type: ignore[no-untyped-call]
                marks.append(clock.mark())
            times.append(clock.between(marks[1], marks[2]) - clock.between(marks[0], marks[1]))
        return max(0.0, statistics.median(times))

    one, many = beyond(1), beyond(33)
    saved = max(0.0, (many - one) / 32)
    gpu = step.device.type == "cuda"  # generators' states lie on the CPU
    state = 0 if gpu else random_state(step.device).nbytes
    copy = _bandwidth(step.device) if gpu else 1e9
    return Rates(state, max(0.0, one - saved), saved, trace.mode_seconds, copy)


def _bandwidth(device: torch.device) -> float:
    """Bytes per second between a GPU and the CPU's pinned memory, there and back."""
    there = torch.empty(2**26, dtype=torch.uint8, device=device)
    here = torch.empty(2**26, dtype=torch.uint8, pin_memory=True)
    clock = Clock(device)
    times = []
    for _ in range(3):
        start = clock.mark()
        here.copy_(there)
        there.copy_(here)
        times.append(clock.between(start, clock.mark()))
    return 2 * 2**26 / min(times)


def _tell_excluded(excluded: dict[str, str]) -> None:
    """Says which modules may remember; those that only work in place are many, small, and nobody's fault."""
    found = [(name, reason) for name, reason in excluded.items() if name and reason.startswith("takes")]
    if found:
        name, reason = found[0]
        warnings.warn(
            f"remora: {len(found)} modules are not checkpointed, as {name}, which {reason}. Where that is a cache of "
            "keys and values, set use_cache=False",
            RemoraWarning,
            stacklevel=3,
        )
