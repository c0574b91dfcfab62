# SPDX-License-Identifier: Apache-2.0
"""Plans a training step for a device that need not exist here.

subject     model, batch and loss on tensors without memory      _subject.py
graph       the step as that device would run it                 _absent.py
memory      what else is allocated on it                         _memory.py, capture/optimizer.py
costs       time and workspaces of its ops there                 _rates.py
schedule    the engine's, under what the rest leaves of the budget
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import fx

from remora.errors import InputError

from ..capture.graph import StepGraph, tensors_in
from ..capture.optimizer import OptimizerMemory, in_form, optimizer_memory, optimizer_of
from ..capture.read import read_step
from ..capture.simplify import simplify
from ..capture.updates import Updates, update_of, updates_in
from ..cost.calls import Cost, adopt_sizes, by_flops, measured
from ..decide.slices import cost_of_slices, solve_with_slices
from ..decide.step import solve
from ..errors import BudgetError
from ..options import Options
from ..planning import SchedulePlan
from ..problem.aten import StepProblem, fixed_memory
from ._memory import Item, Sharding, shard_graph, size_of, throughout
from ._question import Question
from ._rates import FitDevice, device_of
from ._result import FitPlan, holes_of
from ._smaller import Smaller
from ._subject import Captures, subject_of

CONTEXT, WORKSPACES = "context of the driver", "workspaces of cuBLAS"
PART, LEAST = 0.05, 1 << 20
"""Ops that are measured on this machine take no more than this part of what is planned, or so many bytes."""


@dataclass
class Captured:
    """A step on a device, before anything is said of a budget."""

    problem: StepProblem  # with costs on the device; its name is that of the model's class
    shapes: list[list[Any]]  # type and shape of each tensor of the batch
    items: list[Item]  # memory on the device in addition to the step's own tensors
    optimizer: OptimizerMemory
    gradients: int  # bytes
    device: FitDevice | None = None
    # micro-steps to an update. Where there are several the step is a later one, and `items` has the gradients.
    accumulate: int = 1
    checkpoints: int = 0  # the model's own, which are taken out of the step
    updates: Updates | None = None  # that run inside the step
    # reads another graph of the step, and finds its costs on the device
    reader: Callable[[fx.GraphModule, Captured], StepProblem] | None = None
    seconds: dict[str, float] = field(default_factory=dict)

    @property
    def resident(self) -> int:
        """Permanently resident bytes."""
        return sum(item.size for item in self.items if item.when == "throughout")

    @property
    def reserve(self) -> int:
        """Bytes that are there during the step, and that its own fixed memory does not hold."""
        return sum(item.size for item in self.items) - self.problem.fixed

    @property
    def update(self) -> int:
        """The most that is there while the optimizer works, in bytes; 0 where it works inside the step."""
        if self.updates is not None:
            return 0
        gradients = self.gradients if self.accumulate == 1 else 0  # else they are resident already
        first = self.resident - self.optimizer.state + self.optimizer.first
        return gradients + max(self.resident + self.optimizer.later, first)

    @property
    def unscheduled(self) -> int:
        """Bytes at the peak of the step without recompute."""
        return self.problem.unscheduled + self.reserve

    def limit(self, budget: int | str | None) -> int:
        """A budget in bytes; without one, the device's memory less its allocator's holes, or the step's memory."""
        if budget is None and self.device is not None:
            constant = sum(item.size for item in self.items if item.name in (CONTEXT, WORKSPACES))
            return constant + int((self.device.memory - constant) / (1 + holes_of(self.device)))
        asked = Options(budget=budget if budget is not None else "100%")
        size = asked.in_bytes(self.problem)
        return max(size + self.reserve, self.update) if asked.is_share else size


class Steps:
    """The steps of a question on its device, by batch; `sizes`: as for `Captures`."""

    def __init__(self, question: Question, sizes: Sequence[str] = ()) -> None:
        start = time.perf_counter()
        self._question = question
        self._place, self._target = _place(question.device)
        self._sharding = Sharding(question.ranks, question.sharding)
        self._here = question.cost == "measured" or (question.cost is None and self._target is None)
        if self._here and self._place.type == "cuda" and not torch.cuda.is_available():
            raise InputError("cost", '"measured" runs ops on the device, which is not there')
        self._optimizer = in_form(optimizer_of(question.optimizer), question.update)
        inside = self._optimizer if question.update == "in backward" else None
        self.subject = subject_of(
            question.model, question.batch, question.loss, question.precision, self._place, question.train
        )
        self._captures = Captures(self.subject, question.accumulate > 1, inside, sizes)
        self._seconds = time.perf_counter() - start

    def of(self, batch: Any) -> Captured:
        """The step of a batch of the subject's own kind."""
        start, question, name = time.perf_counter(), self._question, self.subject.name
        found = self._captures.of(batch)
        step, trained = found.step, found.trained
        items, state, gradients = self._items(step, trained, tensors_in(batch))
        shapes = [[str(t.dtype).removeprefix("torch."), *map(int, t.shape)] for t in tensors_in(batch)]
        problem = StepProblem(step, by_flops(step), name)
        captured = Captured(
            problem, shapes, items, state, gradients, accumulate=question.accumulate, checkpoints=found.checkpoints
        )
        captured.updates = found.updates
        costs = _measured_here(captured, step, self._place) if self._here else problem.costs
        shard_graph(step, trained, self._sharding)
        captured.problem = StepProblem(step, costs, name)

        def read(module: fx.GraphModule, known: Captured) -> StepProblem:
            other = read_step(module)
            simplify(other)
            other.accumulates = step.accumulates
            if known.device is not None:
                costs = known.device.costs(other)
            else:
                costs = _measured_here(known, other, self._place) if self._here else by_flops(other)
            shard_graph(other, trained, self._sharding)
            return StepProblem(other, costs, name)

        captured.reader = read
        self._seconds += time.perf_counter() - start
        captured.seconds = {"capture": self._seconds}
        return captured if self._here or self._target is None else on_device(captured, self._target)

    def _items(
        self, step: StepGraph, trained: list[torch.nn.Parameter], batch: list[torch.Tensor]
    ) -> tuple[list[Item], OptimizerMemory, int]:
        """Memory in addition to the step's own tensors, that of the optimizer, and the bytes of the gradients."""
        question, sharding = self._question, self._sharding
        state = optimizer_memory(self._optimizer, trained, self._place, self.subject.mode)
        gradients = sum(sharding.part(p) for p in trained)
        if sharding.divides:
            state = state.part(gradients / max(1, sum(size_of(p) for p in trained)))
        items = throughout(self.subject.model, batch, state, trained, sharding, question.average)
        given = {s for n in step.placeholders for s in step.needs.get(n, ())}
        states = sum(update_of(op.nodes[0]).memory_on(step.device).state for op in updates_in(step))
        constants = fixed_memory(step) - states - sum(step.storages[s].size for s in given)
        if constants:
            items.append(Item("constants of the step", constants, "throughout", True))
        if question.accumulate > 1:
            items.append(Item("gradients", gradients, "throughout", True, "of earlier micro-steps"))
        if question.reserve:
            items.append(Item("reserved", question.reserve, "throughout", False, "as given"))
        return items, state, gradients


def capture(question: Question) -> Captured:
    """A step with all that lies on its device."""
    steps = Steps(question)
    return steps.of(steps.subject.batch)


def _measured_here(captured: Captured, step: StepGraph, place: torch.device) -> dict[fx.Node, Cost]:
    """Measured costs of a step's ops on this machine; on its CPU without more memory than a part of what is planned."""
    limit = max(LEAST, int(PART * max(captured.unscheduled, captured.update)))
    instead = Smaller(limit) if place.type == "cpu" else lambda _: None
    costs = measured(step, lambda _: None, instead=instead)
    adopt_sizes(step, costs)
    return costs


def on_device(captured: Captured, device: FitDevice) -> Captured:
    """The same step on another device of the same kind."""
    items = [item for item in captured.items if item.exact or item.name not in (CONTEXT, WORKSPACES)]
    if device.kind != "cpu":
        items.append(Item(CONTEXT, device.context, "throughout", False, "differs by driver"))
        items.append(Item(WORKSPACES, device.workspaces, "throughout", False, "one handle, one stream"))
    step = captured.problem.step
    problem = StepProblem(step, device.costs(step), captured.problem.name)
    return replace(captured, items=items, problem=problem, device=device)


def _place(device: str | os.PathLike[str] | FitDevice | None) -> tuple[torch.device, FitDevice | None]:
    """PyTorch's device, and its description."""
    if device is None:
        return torch.device("cuda" if torch.cuda.is_available() else "cpu"), None
    if device in ("cpu", "cuda"):
        return torch.device(str(device)), None
    found = device_of(device)
    return torch.device(found.kind), found


def under_budget(captured: Captured, budget: int | str | None, options: Options) -> FitPlan:
    """The plan for a captured step within so many bytes; without a number, within the device's memory."""
    device, problem, reserve = captured.device, captured.problem, captured.reserve
    limit = captured.limit(budget)
    found: SchedulePlan | None = None
    least = lower = captured.update if captured.update > limit else 0
    proved, op = captured.update > limit, ""
    start = time.perf_counter()
    try:
        found = solved(captured, replace(options, budget=limit, reserve=reserve))
    except BudgetError as refusal:
        least, lower = max(refusal.least, captured.update), max(refusal.lower, captured.update)
        proved, op = proved or refusal.proved, refusal.op
    if found is not None:
        found.checkpoints = captured.checkpoints
    is_new = captured.accumulate == 1 and captured.updates is None
    gradients = [Item("gradients", captured.gradients, "update", True)] if is_new else []
    return FitPlan(
        name=problem.name,
        shapes=captured.shapes,
        device=device,
        budget=limit,
        items=[*captured.items, *gradients],
        step=found,
        unscheduled=captured.unscheduled,
        peak=found.predicted_peak + reserve if found is not None else 0,
        update=captured.update,
        least=least,
        proved=proved,
        unscheduled_seconds=_seconds(device, problem.graph.baseline_duration, len(problem.step.ops)),
        step_seconds=_seconds(device, found.predicted_time, len(found.found.steps)) if found is not None else 0.0,
        accumulate=captured.accumulate,
        checkpoints=captured.checkpoints,
        lower=lower,
        op=op,
        seconds={**captured.seconds, "solve": time.perf_counter() - start},
    )


def solved(captured: Captured, options: Options, before: Sequence[int] = ()) -> SchedulePlan:
    """The plan of a captured step, in slices where these are allowed and better; `before`: as for `solve`."""
    reader = captured.reader
    if options.slices == "none" or reader is None:
        return solve(captured.problem, options, before=before)[0]
    device, cost = captured.device, None
    if device is not None:
        cost = cost_of_slices(device.launch, device.bandwidth * device.efficiency.get("memory", 1.0))
    return solve_with_slices(captured.problem, options, lambda module, _: reader(module, captured), cost=cost)[1]


def _seconds(device: FitDevice | None, nanoseconds: int, ops: int) -> float:
    return device.step_seconds(nanoseconds / 1e9, ops) if device is not None else nanoseconds / 1e9
