# SPDX-License-Identifier: Apache-2.0
"""The one place that calls the engine: graphs and schedules go in and out as `remora-graph` and `remora-schedule`.

A schedule that was found is kept in a file and found again by the graph (its costs are part of it), the budget, the
options and the number of the engine's answers. All that are known of a graph stand in another file: a solve begins with
the shortest that holds its budget, so a smaller budget never has a shorter schedule than a larger one that was asked
for later, and the least budget that a refusal names has a schedule at once.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import remora
from remora._engine import engine_schema

from ._costs import cache_folder, write_json
from ._errors import Infeasible, SolverError, TorchError
from ._ranks import agreed

FEW = 2
"""With so many computes an op a search begins."""
LEAST_SECONDS = 0.5
"""At least so long a call of the engine may take, however much of the time limit is gone."""
FIRST = 0.6
"""The share of the time limit for a first schedule, where none is known; the least budget may take the rest."""
MOST = 24
"""So many schedules of one graph are kept."""


@dataclass
class Options:
    """How a step is planned: the parameters of `train_step` and `wrap`, and the options of the backend.

    Attributes
    ----------
    budget : int or str
        Bytes ("12GiB", 1500000) with all that is there throughout: parameters, buffers, the step's arguments. Or a
        share of what the unscheduled step takes beyond that ("60%").
    reserve : int
        Bytes that something else takes on the device, as an optimizer's state; a part of the budget given in bytes.
    cost : {"measured", "flops"}
        Whether ops are run and measured, or a roofline says what they take.
    fuse : bool
        Whether Inductor compiles what it makes one loop of; the schedule is then of compiled regions and the other ops.
        Results are close to eager's, not equal in every bit.
    arena : bool
        Whether the step's tensors lie in one block of memory, each where the plan says, within the budget. On the CPU
        only; needs a C++ compiler at first use.
    order : {"input", "free", "auto"}
        "input": ops in their captured order, recomputes between them; "free": any order.
    pure : tuple of str
        Custom ops ("library::op") that may run again, since they do nothing but give their results. PyTorch's own ops
        need not be named; any other custom op runs once.
    inference : bool
        Whether a forward without gradients is planned, too. Else it runs as if the module were not wrapped.
    time_limit : float
        Seconds for all calls of the solver that a plan takes.
    threads : int
        Threads of the solver, 0 for one per core.
    seed : int
        Of the solver's random choices.
    cache : bool
        Whether schedules are kept in a file and found again.
    progress : bool
        Whether a line on standard error says what is being done.
    """

    budget: int | str = "100%"
    reserve: int = 0
    cost: str = "measured"
    fuse: bool = False
    arena: bool = False
    order: str = "input"
    pure: tuple[str, ...] = ()
    inference: bool = False
    time_limit: float = 15.0
    threads: int = 0
    seed: int = 1
    cache: bool = True
    progress: bool = False


@dataclass(frozen=True)
class SweepPoint:
    """What a budget costs.

    Attributes
    ----------
    budget : int
        Bytes, with what is there throughout.
    status : {"optimal", "feasible", "infeasible", "unknown"}
    overhead : float or None
        Predicted time beyond every op once, as a share of that; None where there is no schedule.
    peak : int or None
        Bytes.
    bound : float
        No schedule's overhead is smaller.
    """

    budget: int
    status: str
    overhead: float | None
    peak: int | None
    bound: float


class Known:
    """The schedules of one graph in one order of its ops, none of them both longer and larger than another.

    Parameters
    ----------
    graph : dict
        A `remora-graph`.
    order : {"input", "free", "auto"}
        Of the problem: a schedule in input order is one in any order, but not the other way round.
    kept : bool
        Whether they are read from a file and written to it.
    """

    def __init__(self, graph: dict[str, Any], order: str, kept: bool) -> None:
        text = json.dumps([engine_schema(), order == "input", graph], sort_keys=True)
        self.path: Path | None = None
        self.rows: list[list[Any]] = []  # peak, duration, ops by number
        if kept:
            self.path = cache_folder() / "known" / f"{hashlib.sha256(text.encode()).hexdigest()}.json"
            if self.path.exists():
                self.rows = json.loads(self.path.read_text(encoding="utf-8"))

    def start(self, budget: int) -> list[int] | None:
        """The ops of the shortest schedule that holds a budget."""
        holding = [row for row in self.rows if row[0] <= budget]
        return min(holding, key=lambda row: int(row[1]))[2] if holding else None

    @property
    def least(self) -> int | None:
        """The smallest peak, in bytes."""
        return min((int(row[0]) for row in self.rows), default=None)

    def learn(self, found: remora.Schedule) -> None:
        """Keeps a schedule, unless another is as short and as small."""
        new = [found.peak, found.duration, [op.index for op in found.ops]]
        if any(row[0] <= new[0] and row[1] <= new[1] for row in self.rows):
            return
        rest = [row for row in self.rows if row[0] < new[0] or row[1] < new[1]]
        self.rows = sorted([*rest, new])[:MOST]
        if self.path is not None:
            write_json(self.path, self.rows)


def schedule_for(graph: dict[str, Any], budget: int, options: Options, seconds: float | None = None) -> dict[str, Any]:
    """Finds a schedule in the cache, or by the engine in so many seconds, else in the time limit.

    Raises
    ------
    Infeasible
        With the least budget for which a schedule is known.
    """
    question = [engine_schema(), graph, budget, options.order, options.time_limit, options.seed, options.arena]
    key = hashlib.sha256(json.dumps(question, sort_keys=True).encode()).hexdigest()
    path = cache_folder() / "schedules" / f"{key}.json"

    def found() -> Any:
        if options.cache and path.exists():
            return json.loads(path.read_text(encoding="utf-8"))
        schedule = _solved(graph, budget, options, _Seconds(options.time_limit if seconds is None else seconds))
        if options.cache:
            write_json(path, schedule)
        return schedule

    schedule: dict[str, Any] = agreed(f"schedule/{key}", found)
    return schedule


class _Seconds:
    """What is left of a time limit, of which each call of the engine takes its part."""

    def __init__(self, total: float) -> None:
        self._end = time.perf_counter() + total

    def left(self, share: float = 1.0) -> float:
        return max(LEAST_SECONDS, share * (self._end - time.perf_counter()))


def _solved(graph: dict[str, Any], budget: int, options: Options, seconds: _Seconds) -> dict[str, Any]:
    given = remora.Graph.from_json(graph)
    known = Known(graph, options.order, options.cache)
    try:
        answer = _answer(given, budget, options, known, seconds)
    except remora.Infeasible as refusal:
        _learn_least(given, refusal.least_budget, known)
        least = min(refusal.least_budget.reached, known.least or refusal.least_budget.reached)
        raise Infeasible(budget, least, True, given.fixed_memory, given.baseline_peak) from None
    except TorchError:
        raise
    except remora.Error as error:
        raise SolverError(str(error)) from error
    known.learn(answer)
    if options.arena:
        answer = _with_addresses(answer, budget, options, seconds)
    result: dict[str, Any] = json.loads(answer.to_json())
    return result


def _answer(given: remora.Graph, budget: int, options: Options, known: Known, seconds: _Seconds) -> remora.Schedule:
    """A schedule; where none is found in time, the least budget is looked for."""
    words = _words(options)
    start = known.start(budget)
    if start is None or max(Counter(start).values(), default=1) > FEW:
        # What is known with more computes would begin with so many.
        try:
            share = FIRST if start is None else 1.0
            found = remora.solve(given, max(1, budget), **words, time_limit=seconds.left(share))
            known.learn(found)
            if known.start(budget) == _ops_of(found):
                return found
        except remora.NoSchedule as refusal:
            if start is None and isinstance(refusal, remora.Infeasible):
                raise
            if start is None:
                _look_for_least(given, options, known, seconds)
        start = known.start(budget)
        if start is None:
            raise Infeasible(budget, known.least or budget, False, given.fixed_memory, given.baseline_peak)
    return remora.solve(given, budget, **words, time_limit=seconds.left(), warm_start=start)


def _look_for_least(given: remora.Graph, options: Options, known: Known, seconds: _Seconds) -> None:
    """In input order, whose schedules are schedules in any order."""
    threads = options.threads or None
    found = remora.least_budget(given, time_limit=seconds.left(), seed=options.seed, threads=threads)
    _learn_least(given, found, known)


def _with_addresses(found: remora.Schedule, budget: int, options: Options, seconds: _Seconds) -> remora.Schedule:
    """The schedule with offsets; another one where it does not pack into the budget."""
    capacity = max(1, budget - found.graph.fixed_memory)
    threads = options.threads or None
    placed = remora.place(found, capacity=capacity, time_limit=seconds.left(0.5), seed=options.seed, threads=threads)
    if placed.schedule is not None:
        return placed.schedule
    words = {**_words(options), "warm_start": _ops_of(found), "addresses": True}
    try:
        return remora.solve(found.graph, budget, **words, time_limit=seconds.left())
    except remora.NoSchedule:
        fixed = found.graph.fixed_memory
        least = fixed + remora.place(found, time_limit=seconds.left()).arena
        raise Infeasible(budget, least, False, fixed, found.graph.baseline_peak) from None


def _ops_of(schedule: remora.Schedule) -> list[int]:
    return [op.index for op in schedule.ops]


def _learn_least(given: remora.Graph, least: remora.BudgetBracket, known: Known) -> None:
    if least.ops:
        known.learn(remora.evaluate(given, least.ops, order="free"))


def sweep_graph(graph: dict[str, Any], points: int, time_limit: float, options: Options) -> list[SweepPoint]:
    """Solves a graph for many budgets, chosen where the curve is least known."""
    curve = remora.sweep(remora.Graph.from_json(graph), points=points, time_limit=time_limit, **_words(options))
    return [_sweep_point(point, curve.baseline_duration) for point in curve]


def _sweep_point(point: remora.CurvePoint, unscheduled: int) -> SweepPoint:
    found = point.status in ("optimal", "feasible")
    bound = point.bound / unscheduled - 1 if unscheduled else 0.0
    return SweepPoint(
        point.budget, point.status, point.overhead if found else None, point.peak if found else None, bound
    )


def write_report(graph: dict[str, Any], schedule: dict[str, Any], path: str | os.PathLike[str]) -> None:
    """Writes the HTML page that explains a schedule."""
    remora.Schedule.from_json(json.dumps(schedule), remora.Graph.from_json(graph)).report(path)


def _words(options: Options) -> dict[str, Any]:
    threads = {"threads": options.threads} if options.threads else {}
    return {**threads, "seed": options.seed, "order": options.order, "progress": options.progress}
