# SPDX-License-Identifier: Apache-2.0
"""A plan for sizes that vary: the step captured at a few of them, and a few schedules for all.

    captured at 128, 1760, ... 8192 --fits at the largest--> a schedule for each that needs one
        --replayed at all smaller ones--> the few that `decide.lengths` chooses, each with its range

The largest is captured and planned first. A schedule serves what is captured at other sizes only where the ops are the
same; every range is replayed at all sizes that are captured in it, and none is wider than that.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import torch
from torch.utils import _pytree as pytree

from remora.asking import replayed
from remora.errors import InputError

from ..capture.declared import Declared, mark
from ..decide.lengths import Expected, at_most, few_schedules
from ..errors import BudgetError
from ..options import Options
from ..planning import Plans, SchedulePlan
from ._fit import Captured, Steps, solved, under_budget
from ._question import Question
from ._result import FitPlan

POINTS = 6
"""The step is captured at so many sizes."""


class Sizes:
    """The sizes of a batch that vary.

    `points`: some of them, each of all ranges together, in rising order, and how often calls have about these.
    """

    def __init__(self, question: Question, batch: Any) -> None:
        if not question.solver.may_vary:
            raise InputError("sizes", "not with slices or plan, which are for one size")
        if callable(batch):
            raise InputError("sizes", "the batch is a function: give an example, whose tensors have names")
        self._batch = dict(batch) if isinstance(batch, Mapping) else _named(question, batch)
        assert question.sizes is not None
        self._declared = declared = Declared(lambda **_: None, question.sizes, question.lengths, question.plans)
        own, others = declared.within(self._batch)
        self._ranges = {**others, **own}
        names = [name for name, dimensions in declared.sizes.items() for _ in dimensions]
        self._shown = [(f"{name}.shape[{dim}]", r) for name, ((_, dim), r) in zip(names, own.items(), strict=False)]
        ranges = sorted(declared.ranges)
        if declared.lengths:
            ((low, high),) = ranges
            rows = at_most(declared.lengths, high, POINTS)
            self.points = [({(low, high): n}, weight) for n, weight in rows if low <= n]
        else:
            steps = [i / (POINTS - 1) for i in range(POINTS)]
            found = [{r: round(r[0] + (r[1] - r[0]) * step) for r in ranges} for step in steps]
            self.points = [(p, 1.0) for i, p in enumerate(found) if p not in found[:i]]
        self.names, self.most = list(declared.sizes), declared.most
        self._is_mapping = isinstance(batch, Mapping)
        self._tuple = isinstance(batch, (tuple, list))

    def at(self, point: Mapping[tuple[int, int], int]) -> Any:
        """The batch of some sizes."""

        def sized(leaf: Any) -> Any:
            if not isinstance(leaf, torch.Tensor):
                return leaf
            ranges = [self._ranges.get((id(leaf), dim)) for dim in range(leaf.dim())]
            shape = [n if r is None else point[r] for n, r in zip(leaf.shape, ranges, strict=True)]
            return torch.empty(shape, dtype=leaf.dtype, device="meta")

        found = pytree.tree_map(sized, self._batch)
        if self._is_mapping:
            return found
        return tuple(found.values()) if self._tuple else next(iter(found.values()))

    def marked(self, batch: Any) -> Any:
        """A batch of these sizes, with what varies marked for Dynamo."""
        for leaf, sized in zip(pytree.tree_leaves(self._batch), pytree.tree_leaves(batch), strict=True):
            for dim in range(leaf.dim()) if isinstance(leaf, torch.Tensor) else ():
                if (id(leaf), dim) in self._ranges:
                    mark(sized, dim, self._ranges[id(leaf), dim])
        return batch

    def text(self, low: Mapping[tuple[int, int], int], high: Mapping[tuple[int, int], int]) -> str:
        """Sizes as people read them."""
        rows = ((name, low[declared], high[declared]) for name, declared in self._shown)
        return ", ".join(f"{name}: {a:,}{f' to {b:,}' if b != a else ''}" for name, a, b in rows)


def _named(question: Question, batch: Any) -> dict[str, Any]:
    """The arguments of a batch by the names that the loss, or the model's forward, has for them."""
    given = list(batch) if isinstance(batch, (tuple, list)) else [batch]
    function = question.loss
    if function is None and isinstance(question.model, torch.nn.Module):
        function = question.model.forward
    if function is None:
        return {f"argument {i}": value for i, value in enumerate(given)}
    names = list(inspect.signature(function).parameters)
    return dict(zip(names[1:] if question.loss is not None else names, given, strict=False))


@dataclass
class _Schedule:
    """A schedule: its ops by number; its plan, and the place of the size, where it was solved."""

    ops: list[int]
    plan: SchedulePlan | None = None
    place: int = -1


def plan_for_sizes(question: Question, limit: int | None = None) -> FitPlan:
    """The plan of the largest sizes, with the schedules for all; `limit`: the budget in bytes, if it is known."""
    sizes = Sizes(question, question.batch)
    points = [point for point, _ in sizes.points]
    steps = Steps(replace(question, batch=sizes.at(points[-1])), sizes.names)
    first = steps.of(sizes.marked(steps.subject.batch))
    found = under_budget(first, question.budget if limit is None else limit, question.solver)
    if found.step is None:
        return found
    smaller = [steps.of(sizes.marked(steps.subject.like(sizes.at(point)))) for point in points[:-1]]
    captured = [*smaller, first]
    _expect_alike(captured, sizes, points)
    sampled = _Sampled(captured, found.budget, question.solver, [weight for _, weight in sizes.points])
    chosen, expected = sampled.chosen(found.step, sizes.most)
    plans, begin = [], 0
    for schedule, end in chosen:
        plan = sampled.plan_at(schedule, end - 1)
        # What lies between two captured sizes belongs to the schedule of the larger one.
        low = {r: points[begin - 1][r] + 1 if begin else r[0] for r in points[-1]}
        plan.sizes = sizes.text(low, points[end - 1])
        plans.append(plan)
        begin = end
    found.plans = Plans(plans, [expected])
    return found


def _expect_alike(captured: Sequence[Captured], sizes: Sizes, points: Sequence[Mapping[tuple[int, int], int]]) -> None:
    """Rejects sizes at which the step has other ops than at the largest."""
    last = captured[-1].problem.step.form
    for one, point in zip(captured, points, strict=True):
        if one.problem.step.form != last:
            raise InputError(
                "sizes",
                f"the step has other ops at {sizes.text(point, point)} than at {sizes.text(points[-1], points[-1])}: "
                "give ranges within which they are the same, each a plan of its own",
            )


class _Sampled:
    """Steps that are alike, under one budget in bytes."""

    def __init__(self, captured: list[Captured], budget: int, solver: Options, weights: list[float]) -> None:
        self._captured, self._budget, self._solver, self.weights = captured, budget, solver, weights
        self._order: Literal["input", "free"] = "input" if solver.order == "input" else "free"
        self._plans: dict[tuple[int, ...], dict[int, SchedulePlan]] = {}

    def chosen(self, largest: SchedulePlan, most: int) -> tuple[list[tuple[_Schedule, int]], Expected]:
        """The few schedules, and how many sizes each reaches; `largest`: the plan of the largest size.

        Raises InputError where a smaller size needs more memory than a larger one.
        """
        plain = _Schedule(list(range(len(self._captured[0].problem.step.ops))))
        found, expected = few_schedules(self, plain, self._solved(largest, len(self._captured) - 1), most)
        begin = 0
        for schedule, end in found:
            if not all(self.fits(schedule, place) for place in range(begin, end)):
                raise InputError("sizes", "a smaller size needs more memory than a larger one: give narrower ranges")
            begin = end
        return found, expected

    def fits(self, schedule: _Schedule, place: int) -> bool:
        one = self._captured[place]
        return max(self.plan_at(schedule, place).predicted_peak + one.reserve, one.update) <= self._budget

    def time(self, schedule: _Schedule, place: int) -> float:
        return float(self.plan_at(schedule, place).predicted_time)

    def bound(self, schedule: _Schedule) -> float:
        plan = schedule.plan
        return 1.0 if plan is None else plan.bound / plan.unscheduled_time

    def solved(self, place: int, start: _Schedule, share: float) -> _Schedule | None:
        one = self._captured[place]
        options = replace(self._solver, budget=self._budget, reserve=one.reserve)
        options = replace(options, time_limit=max(0.5, share * options.time_limit))
        try:
            return self._solved(solved(one, options, start.ops), place)
        except BudgetError:
            return None

    def _solved(self, plan: SchedulePlan, place: int) -> _Schedule:
        return _Schedule([s.op.index for s in plan.found.steps], plan, place)

    def plan_at(self, schedule: _Schedule, place: int) -> SchedulePlan:
        """A schedule at a size that is captured."""
        if schedule.plan is not None and place == schedule.place:
            return schedule.plan
        plans = self._plans.setdefault(tuple(schedule.ops), {})
        if place not in plans:
            plans[place] = self._replayed(schedule, self._captured[place])
        return plans[place]

    def _replayed(self, schedule: _Schedule, one: Captured) -> SchedulePlan:
        problem = one.problem
        found = replayed(problem.graph, schedule.ops, self._order)
        return SchedulePlan.of(
            found,
            budget=self._budget - one.reserve,
            unscheduled_peak=problem.unscheduled,
            whole=problem.of,
            predicted_peak=problem.replayed(found).peak,
        )
