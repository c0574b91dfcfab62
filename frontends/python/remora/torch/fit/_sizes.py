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

from ..capture.declared import Declared
from ..decide.lengths import Expected, at_most, expected_time, fewest, total
from ..errors import BudgetError
from ..options import Options
from ..planning import Plans, SchedulePlan
from ._fit import Captured, capture, solved, under_budget
from ._question import Question
from ._result import FitPlan

POINTS = 6
"""The step is captured at so many sizes."""


class Sizes:
    """The sizes of a batch that vary.

    `points`: some of them, each of all ranges together, in rising order, and how often calls have about these.
    """

    def __init__(self, question: Question, batch: Any) -> None:
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
        self.most = declared.most
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
class _Candidate:
    """A schedule: its ops by number, its plan where it was searched, and how many sizes stay within the budget."""

    ops: list[int]
    plan: SchedulePlan | None
    reach: int


def plan_for_sizes(question: Question, limit: int | None = None) -> FitPlan:
    """The plan of the largest sizes, with the schedules for all; `limit`: the budget in bytes, if it is known."""
    sizes = Sizes(question, question.batch)
    points = [point for point, _ in sizes.points]
    first = capture(replace(question, batch=sizes.at(points[-1])))
    found = under_budget(first, question.budget if limit is None else limit, question.solver)
    if found.step is None:
        return found
    captured = [capture(replace(question, batch=sizes.at(point))) for point in points[:-1]] + [first]
    _expect_alike(captured, sizes, points)
    choice = _Choice(captured, found, question.solver, [weight for _, weight in sizes.points])
    chosen = choice.made(sizes.most)
    plans, begin = [], 0
    for k in chosen:
        end = choice.candidates[k].reach
        plan = choice.plan_at(k, end - 1)
        # What lies between two captured sizes belongs to the schedule of the larger one.
        low = {r: points[begin - 1][r] + 1 if begin else r[0] for r in points[-1]}
        plan.sizes = sizes.text(low, points[end - 1])
        plans.append(plan)
        begin = end
    found.plans = Plans(plans, [choice.expected(chosen)])
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


class _Choice:
    """The schedules of steps that are alike, under one budget in bytes."""

    def __init__(self, captured: list[Captured], largest: FitPlan, solver: Options, weights: list[float]) -> None:
        self.captured, self._budget, self._weights = captured, largest.budget, weights
        self._order: Literal["input", "free"] = "input" if solver.order == "input" else "free"
        count = len(captured)
        plain = list(range(len(captured[0].problem.step.ops)))
        assert largest.step is not None
        self.candidates = [_Candidate([s.op.index for s in largest.step.found.steps], largest.step, count)]
        self.plain = [float(c.problem.graph.baseline_duration) for c in captured]
        self.bounds = list(self.plain)
        fitting = next((i for i, c in enumerate(captured) if max(c.unscheduled, c.update) > self._budget), count)
        if fitting:
            self.candidates.append(_Candidate(plain, None, fitting))
        for i in range(fitting, count - 1):
            share = replace(solver, budget=self._budget, reserve=captured[i].reserve)
            share = replace(share, time_limit=max(0.5, solver.time_limit / count))
            try:
                plan = solved(captured[i], share)
            except BudgetError:
                continue
            self.candidates.append(_Candidate([s.op.index for s in plan.found.steps], plan, i + 1))
        for candidate in self.candidates:
            if candidate.plan is not None:
                place = candidate.reach - 1
                self.bounds[place] = max(self.bounds[place], float(candidate.plan.bound))
            self._expect_within(candidate)
        self.times = [
            [float(self.plan_at(k, i).predicted_time) if i < one.reach else 0.0 for i in range(count)]
            for k, one in enumerate(self.candidates)
        ]

    def _expect_within(self, candidate: _Candidate) -> None:
        """A schedule is replayed at all smaller sizes that are captured: memory must not grow as sizes shrink."""
        for i in range(candidate.reach):
            one = self.captured[i]
            schedule = replayed(one.problem.graph, candidate.ops, self._order)
            if one.problem.replayed(schedule).peak + one.reserve > self._budget:
                raise InputError("sizes", "a smaller size needs more memory than a larger one: give narrower ranges")

    def plan_at(self, k: int, place: int) -> SchedulePlan:
        """A schedule at a size that is captured."""
        candidate, one = self.candidates[k], self.captured[place]
        if candidate.plan is not None and place == candidate.reach - 1:
            return candidate.plan
        problem = one.problem
        schedule = replayed(problem.graph, candidate.ops, self._order)
        return SchedulePlan.of(
            schedule,
            budget=self._budget - one.reserve,
            unscheduled_peak=problem.unscheduled,
            whole=problem.of,
            predicted_peak=problem.replayed(schedule).peak,
        )

    def made(self, most: int) -> list[int]:
        """The few with the smallest expected time."""
        return fewest(self.times, [c.reach for c in self.candidates], self._weights, most)

    def expected(self, chosen: Sequence[int]) -> Expected:
        """The expected time of these."""
        reach, weights = [c.reach for c in self.candidates], self._weights
        time = expected_time(self.times, reach, weights, chosen)
        return Expected(time, total(self.bounds, weights), total(self.plain, weights))
