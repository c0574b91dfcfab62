# SPDX-License-Identifier: Apache-2.0
"""Will it fit? A training step planned for a device that need not be there.

subject     model, batch and loss on tensors without memory      _subject.py
graph       the step as that device would run it                 _absent.py
memory      what lies there beside it                            _memory.py, _optimizer.py
costs       what its ops take there                              _rates.py
schedule    the engine's, under what the rest leaves of the budget
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import fx

from remora._engine import parse_budget
from remora.errors import InputError

from .._capture import options_of
from .._costs import Cost, adopt_sizes, by_flops, measured
from .._errors import BudgetError
from .._graph import StepGraph, tensors_in
from .._plan import Plan, fixed_memory, solve, unscheduled_peak
from .._solver import Options, check_budget
from ._memory import Item, Sharding, shard_graph, throughout
from ._optimizer import Optimizer, OptimizerMemory, optimizer_memory, optimizer_of
from ._rates import FitDevice, device_of
from ._result import FitPlan
from ._subject import Subject, subject_of


@dataclass
class Captured:
    """A step on a device, before anything is said of a budget.

    Attributes
    ----------
    step : StepGraph
    costs : dict
        What its nodes take on the device.
    items : list of Item
        What lies there beside it.
    gradients, reserve : int
        Bytes of gradients; of items that are there during the step, and that its own fixed memory does not hold.
    """

    subject: Subject
    step: StepGraph
    costs: dict[fx.Node, Cost]
    items: list[Item]
    optimizer: OptimizerMemory
    gradients: int
    reserve: int
    device: FitDevice | None
    seconds: dict[str, float] = field(default_factory=dict)

    @property
    def resident(self) -> int:
        """Bytes that are there throughout."""
        return sum(item.size for item in self.items if item.when == "throughout")

    @property
    def update(self) -> int:
        """The most that is there while the optimizer works, in bytes."""
        first = self.resident - self.optimizer.state + self.optimizer.first
        return self.gradients + max(self.resident + self.optimizer.later, first)


def plan(
    model: Any,
    batch: Any,
    loss: Callable[..., torch.Tensor] | None = None,
    *,
    budget: int | str | None = None,
    device: str | os.PathLike[str] | FitDevice | None = None,
    optimizer: str | Optimizer | None = None,
    precision: str = "fp32",
    ranks: int = 1,
    sharding: str = "ddp",
    average: bool = False,
    train: bool = True,
    cost: str | None = None,
    **options: Any,
) -> FitPlan:
    """Plans a training step without allocating a parameter: does it fit, and at what price?

    Parameters
    ----------
    model : callable, transformers configuration, or torch.nn.Module
        A function that makes the model; a configuration; or a module, on the device "meta" or with memory.
    batch : tuple, mapping or tensor, or a function that gives one
        What the loss is given beside the model. Only shapes and types count.
    loss : callable, optional
        From the model and the batch to a scalar; by default what the model returns, or its "loss".
    budget : int or str, optional
        Bytes ("24GiB") for all that lies on the device. By default what the device has; "100%" is what the step takes
        without recompute, and another share what `train_step` understands by it.
    device : str, path or FitDevice, optional
        A name of `devices()`, a file that `measure_device` wrote, or "cpu". By default this machine's.
    optimizer : str, class or function of parameters, optional
        "adamw", `torch.optim.AdamW`, or `functools.partial(torch.optim.AdamW, amsgrad=True)`.
    precision : {"fp32", "bf16", "fp16", "pure-bf16", "pure-fp16"}
        "bf16" and "fp16" are autocast; the pure ones have parameters of that type, too.
    ranks, sharding : int and {"ddp", "fsdp"}
        So many processes, each of which has all of the model, or a part of it.
    average : bool
        Whether a moving average of the weights is kept (`torch.optim.swa_utils.AveragedModel`).
    train : bool
        The model's mode.
    cost : {"measured", "flops"}, optional
        "measured" runs single ops on this machine, which then is the device; by default the device's rates.
    **options
        Those of the solver in `Options`: `time_limit`, `threads`, `seed`, `order`, `cache`, `progress`, `pure`.

    Returns
    -------
    FitPlan

    Raises
    ------
    InputError
        If something that is given cannot be read.
    CaptureError
        If PyTorch cannot capture the step.
    """
    given = _options(budget, options)
    captured = capture(
        model, batch, loss, device, optimizer, precision, Sharding(ranks, sharding), average, train, cost
    )
    return under_budget(captured, budget, given)


def _options(budget: int | str | None, options: dict[str, Any]) -> Options:
    for name in ("fuse", "arena", "inference", "reserve", "cost"):
        if name in options:
            raise InputError(name, "is no option of a plan without the device")
    if budget is not None:
        check_budget(budget, "budget")
    return options_of(dict(options))


def capture(
    model: Any,
    batch: Any,
    loss: Callable[..., torch.Tensor] | None,
    device: str | os.PathLike[str] | FitDevice | None,
    optimizer: str | Optimizer | None,
    precision: str,
    sharding: Sharding,
    average: bool,
    train: bool,
    cost: str | None,
) -> Captured:
    """A step with all that lies on its device."""
    place, target = _place(device)
    if cost not in (None, "measured", "flops"):
        raise InputError("cost", f"{cost!r} is none of measured, flops")
    if cost == "measured" and place.type != "cpu" and not torch.cuda.is_available():
        raise InputError("cost", '"measured" runs ops on the device, which is not there')
    make = optimizer_of(optimizer)
    start = time.perf_counter()
    subject = subject_of(model, batch, loss, precision, place, train)
    step, read = subject.graph()
    seconds = {"capture": time.perf_counter() - start}
    trained = [p for p in read if p.requires_grad]
    start = time.perf_counter()
    if cost == "measured":
        costs = measured(step, lambda _: None)
    else:
        costs = target.costs(step) if target is not None else by_flops(step)
    adopt_sizes(step, costs)
    seconds["costs"] = time.perf_counter() - start
    state = optimizer_memory(make, trained, place, subject.mode)
    items = throughout(subject.model, tensors_in(subject.batch), state, trained, sharding, average)
    given = {s for n in step.placeholders for s in step.needs.get(n, ())}
    constants = fixed_memory(step) - sum(step.storages[s].size for s in given)
    if constants:
        items.append(Item("constants of the step", constants, "throughout", True))
    shard_graph(step, trained, sharding)
    if target is not None and target.kind != "cpu":
        items.append(Item("context of the driver", target.context, "throughout", False, "differs by driver"))
        items.append(Item("workspaces of cuBLAS", target.workspaces, "throughout", False, "one handle, one stream"))
    reserve = sum(item.size for item in items) - fixed_memory(step)
    gradients = sum(sharding.part(p) for p in trained)
    return Captured(subject, step, costs, items, state, gradients, reserve, target, seconds)


def _place(device: str | os.PathLike[str] | FitDevice | None) -> tuple[torch.device, FitDevice | None]:
    """PyTorch's device, and what is known of it."""
    if device is None:
        return torch.device("cuda" if torch.cuda.is_available() else "cpu"), None
    if device in ("cpu", "cuda"):
        return torch.device(str(device)), None
    found = device_of(device)
    return found.place, found


def under_budget(captured: Captured, budget: int | str | None, options: Options) -> FitPlan:
    """What becomes of a captured step in so many bytes; without a number, in what the device has."""
    device, step, costs = captured.device, captured.step, captured.costs
    if budget is None:
        budget = device.memory if device is not None else "100%"
    share = isinstance(budget, str) and "%" in budget
    limit = 0 if share else budget if isinstance(budget, int) else int(parse_budget(budget, 0, 0))
    reserve = captured.reserve
    asked = replace(options, budget=budget if share else limit, reserve=0 if share else reserve)
    found: Plan | None = None
    least, proved = 0, False
    start = time.perf_counter()
    try:
        found, _ = solve(step, costs, asked, captured.subject.name)
    except BudgetError as refusal:
        least, proved = refusal.least + reserve, refusal.proved
    seconds = {**captured.seconds, "solve": time.perf_counter() - start}
    if found is not None and share:
        limit = max(found.budget + reserve, captured.update)
    graph = found.found.graph if found is not None else None
    baseline = graph.baseline_duration if graph is not None else sum(c.duration for c in costs.values())
    return FitPlan(
        name=captured.subject.name,
        shapes=[[str(t.dtype).removeprefix("torch."), *map(int, t.shape)] for t in tensors_in(captured.subject.batch)],
        device=device,
        budget=limit,
        items=[*captured.items, Item("gradients", captured.gradients, "update", True)],
        step=found,
        unscheduled=unscheduled_peak(step, costs) + reserve,
        peak=found.predicted_peak + reserve if found is not None else 0,
        update=captured.update,
        least=max(least, captured.update) if found is None else 0,
        proved=proved or captured.update > limit,
        unscheduled_seconds=_seconds(device, baseline, len(step.ops)),
        step_seconds=_seconds(device, found.predicted_time, len(found.found.steps)) if found is not None else 0.0,
        seconds=seconds,
    )


def _seconds(device: FitDevice | None, nanoseconds: int, ops: int) -> float:
    return device.step_seconds(nanoseconds / 1e9, ops) if device is not None else nanoseconds / 1e9
