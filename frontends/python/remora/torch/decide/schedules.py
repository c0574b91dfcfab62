# SPDX-License-Identifier: Apache-2.0
"""Schedules of a captured step: those that are kept, and what the engine is asked.

A schedule is kept in a file and found again by the graph (its costs are part of it), the budget, the options and the
number of the engine's answers. All known schedules of a graph are in another file: a solve begins with the shortest
that fits within its budget, so a smaller budget never has a shorter schedule than a larger one that was asked for
later, and the minimum budget that a refusal names has a schedule at once.
"""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import remora
from remora.asking import ask, lowest, reached, replayed

from ..errors import BudgetError, CaptureError, SolverError, TorchError
from ..job import same_answer
from ..options import GOOD_ENOUGH, Options
from ..problem.aten import LATER
from ..store import answer_file, digest, write_json
from .known import Known

FEW = 2
"""A search begins with so many runs of each op."""
LEAST_SECONDS = 0.5
"""At least so long a call of the engine may take, however much of the time limit is gone."""
FIRST = 0.6
"""The share of the time limit for a first schedule, if none is known; the minimum budget may take the rest."""
MOST = 24
"""So many schedules of one graph are kept."""


class KnownSchedules(Known[list[Any]]):
    """The schedules of one graph, none both longer and larger than another: peak, duration, ops by number.

    In a problem in input order these are schedules in that order; otherwise all of them, since those are in any order.
    """

    def __init__(self, path: Path | None) -> None:
        super().__init__(path)
        self.rows = self.document.get("rows", [])

    def figures(self, row: list[Any]) -> tuple[int, float]:
        """Bytes and nanoseconds of a schedule."""
        return row[0], row[1]

    def start(self, budget: int) -> list[int] | None:
        """The ops of the fastest schedule within a budget."""
        found = self.fastest(budget)
        return None if found is None else found[2]

    def learn(self, found: remora.Schedule | None) -> None:
        """Keeps a schedule, unless there is none, or another is as short and as small."""
        if found is None:
            return
        new = [found.peak, found.duration, [op.index for op in found.ops]]
        if any(row[0] <= new[0] and row[1] <= new[1] for row in self.rows):
            return
        rest = [row for row in self.rows if row[0] < new[0] or row[1] < new[1]]
        self.rows = sorted([*rest, new])[:MOST]
        if self.path is not None:
            write_json(self.path, {"rows": self.rows})


def schedule_for(
    graph: remora.Graph, budget: int, options: Options, seconds: float | None = None, start: Sequence[int] = ()
) -> remora.Schedule:
    """Finds a schedule in the cache, or by the engine in so many seconds, otherwise in the time limit.

    `start`: the ops of a schedule to begin with, by their numbers. Raises BudgetError with the minimum budget for which
    a schedule is known.
    """
    start = _ops_of_plan(options.plan, graph) if options.plan else start
    question = digest(graph.to_json())
    path = answer_file("schedules", question, budget, options.order, options.time_limit, options.seed, options.arena)

    def found() -> remora.Schedule:
        if options.cache and path.exists():
            return remora.Schedule.load(path, graph)
        kept = answer_file("known_schedules", question, options.order == "input")
        known = KnownSchedules(kept if options.cache else None)
        if start:
            known.learn(replayed(graph, start, "input" if options.order == "input" else "free"))
        limit = options.time_limit if seconds is None else seconds
        try:
            schedule = _Question(graph, budget, options, known, limit).answer()
        except TorchError:
            raise
        except remora.Error as error:
            raise SolverError(str(error)) from error
        if options.cache:
            path.parent.mkdir(parents=True, exist_ok=True)
            schedule.save(path)
        return schedule

    def parsed(text: str) -> remora.Schedule:
        return remora.Schedule.from_json(text, graph)

    return same_answer(f"schedule/{path.stem}", found, remora.Schedule.to_json, parsed)


def _ops_of_plan(plan: str | Sequence[str], graph: remora.Graph) -> list[int]:
    """The schedule of a plan's file, if the plan is of this graph, whatever its ops take; of several files of one.

    Raises CaptureError if one cannot be read, or none is of this graph: names the first op that differs.
    """
    paths = [plan] if isinstance(plan, (str, os.PathLike)) else list(plan)
    read = [(path, *_read_plan(path)) for path in paths]
    refused = [_other_step(path, planned, made_by, graph) for path, planned, _, made_by in read]
    fitting = [found for (*_, found, _), reason in zip(read, refused, strict=True) if reason is None]
    if not fitting:
        raise CaptureError("plan: " + "; ".join(reason for reason in refused if reason is not None))
    return _ops_of(fitting[0])


def _read_plan(path: str) -> tuple[remora.Graph, remora.Schedule, Any]:
    """The graph and the schedule of a plan's file, and the versions that made it."""
    try:
        read = json.loads(Path(path).read_text(encoding="utf-8"))
        kept, made_by = read["plan"], read["made_by"]
        planned = remora.Graph.from_json(kept["graph"])
        found = remora.Schedule.from_json(json.dumps(kept["schedule"]), planned)
    except (OSError, ValueError, KeyError, TypeError, remora.Error) as error:
        raise CaptureError(f"plan: {path} holds no schedule: {error}") from None
    return planned, found, made_by


def _other_step(path: str, planned: remora.Graph, made_by: Any, graph: remora.Graph) -> str | None:
    """By what a plan's graph is that of another step; None where it is not."""
    theirs_is_later, mine_is_later = (LATER.items() <= g.meta.items() for g in (planned, graph))
    if theirs_is_later and not mine_is_later:
        return (
            f"{path} is of a later micro-step, which adds to gradients, and none exist yet: this is the first one. "
            "Plan it with accumulate=1, and give both files"
        )
    if mine_is_later and not theirs_is_later:
        return (
            f"{path} is of the first micro-step, and gradients exist already: this is a later one. Plan it with "
            "accumulate=2 or more, and give both files; or set the gradients to None before each step"
        )
    if len(planned) != len(graph):
        return f"{path} is of a step of {len(planned)} ops, and this has {len(graph)} ({made_by})"
    for mine, theirs in zip(graph.ops, planned.ops, strict=True):
        if _shape_of(mine) != _shape_of(theirs):
            return f"{path} is of another step, by op {mine.index}: {theirs.type} ({made_by})"
    return None


def _shape_of(op: remora.Op) -> Any:
    """Properties of an op, except for its name and cost."""
    made = [(t.index, t.size, t.keep) for t in op.outputs]
    return op.type, [t.index for t in op.inputs], made, op.recompute, [o.index for o in op.after]


class _Question:
    """A graph under a budget, and the time that is left for its schedule."""

    def __init__(
        self, graph: remora.Graph, budget: int, options: Options, known: KnownSchedules, seconds: float
    ) -> None:
        self.graph, self.budget, self.options, self.known = graph, budget, options, known
        self._end = time.perf_counter() + seconds

    def _limits(self, share: float = 1.0, gap: float | None = None) -> remora.Limits:
        return self.options.limits_in(max(LEAST_SECONDS, share * (self._end - time.perf_counter())), gap)

    def _ask(self, share: float = 1.0, **words: Any) -> remora.Schedule | remora.NoSchedule:
        limits, options = self._limits(share, GOOD_ENOUGH), self.options
        words |= {"order": options.order, "progress": options.progress}
        return ask(self.graph, self.budget, limits, **words)

    def answer(self) -> remora.Schedule:
        """A schedule; where none is found in time, the smallest budget is searched for."""
        start = self.known.start(self.budget)
        if start is None or max(Counter(start).values(), default=1) > FEW:
            # The search from a known schedule with more computes would begin with so many.
            found = self._ask(FIRST if start is None else 1.0)
            if isinstance(found, remora.Schedule):
                self.known.learn(found)
                if self.known.start(self.budget) == _ops_of(found):
                    return self._placed(found)
            elif start is None:
                if isinstance(found, remora.Infeasible):
                    self.known.learn(reached(self.graph, found.least_budget))
                else:  # in input order, whose schedules are schedules in any order
                    self.known.learn(lowest(self.graph, self._limits()))
                if isinstance(found, remora.Infeasible) or self.known.start(self.budget) is None:
                    raise self._refused(found)
            start = self.known.start(self.budget)
            assert start is not None, "a schedule is known, or none was found"
        found = self._ask(start=start)
        if isinstance(found, remora.NoSchedule):
            raise self._refused(found)
        self.known.learn(found)
        return self._placed(found)

    def _refused(self, refusal: remora.NoSchedule) -> BudgetError:
        """The error where the engine has no schedule; the peak of any known schedule is enough."""
        graph, why = self.graph, refusal.refusal
        smallest = self.known.smallest()
        least = min(graph.baseline_peak, smallest[0] if smallest is not None else graph.baseline_peak)
        op = (why.op.name, why.needed) if why.reason == "op" and why.op is not None else None
        is_proved = isinstance(refusal, remora.Infeasible)
        return BudgetError(self.budget, least, is_proved, graph.fixed_memory, graph.baseline_peak, why.lower_bound, op)

    def _placed(self, found: remora.Schedule) -> remora.Schedule:
        """With an arena, the schedule with offsets; another one where it does not pack into the budget."""
        if not self.options.arena:
            return found
        graph = self.graph
        capacity = max(1, self.budget - graph.fixed_memory)
        placed = remora.place(found, capacity=capacity, limits=self._limits(0.5))
        if placed.schedule is not None:
            return placed.schedule
        other = self._ask(start=found, addresses=True)
        if isinstance(other, remora.Schedule):
            return other
        least = graph.fixed_memory + remora.place(found, limits=self._limits()).arena
        raise BudgetError(self.budget, least, False, graph.fixed_memory, graph.baseline_peak)


def _ops_of(schedule: remora.Schedule) -> list[int]:
    return [op.index for op in schedule.ops]


def sweep_graph(graph: remora.Graph, points: int, time_limit: float, options: Options) -> remora.Curve:
    """Solves a graph for many budgets in input order, whose schedules are schedules in any order."""
    limits = options.limits_in(time_limit, GOOD_ENOUGH)
    return remora.sweep(graph, points=points, limits=limits, progress=options.progress)
