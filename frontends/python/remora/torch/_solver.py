# SPDX-License-Identifier: Apache-2.0
"""The one place that calls the engine.

A schedule that was found is kept in a file and found again by the graph (its costs are part of it), the budget, the
options and the number of the engine's answers. All that are known of a graph stand in another file: a solve begins with
the shortest that holds its budget, so a smaller budget never has a shorter schedule than a larger one that was asked
for later, and the least budget that a refusal names has a schedule at once.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import remora
from remora._engine import engine_schema, parse_budget
from remora.errors import InputError

from ._costs import cache_folder, write_json
from ._errors import BudgetError, CaptureError, SolverError, TorchError
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
    fuse : bool or "program"
        Whether Inductor compiles what it makes one loop of; the schedule is then of compiled regions and the other ops.
        Results are close to eager's, not equal in every bit. "program": Inductor compiles the whole step, and the
        schedule is of its kernels; only for `train_step`.
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
    plan : str
        A file of `rt.plan`, made anywhere: the search begins with its schedule. A plan of another step is refused.
    """

    budget: int | str = "100%"
    reserve: int = 0
    cost: str = "measured"
    fuse: bool | str = False
    arena: bool = False
    order: str = "input"
    pure: tuple[str, ...] = ()
    inference: bool = False
    time_limit: float = 15.0
    threads: int = 0
    seed: int = 1
    cache: bool = True
    progress: bool = False
    plan: str = ""


def check_budget(budget: Any, name: str) -> None:
    """Whether a budget can be read, before anything is captured.

    Raises
    ------
    InputError
        With what to write instead.
    """
    if isinstance(budget, bool) or not isinstance(budget, (int, str)):
        hint = ""
        if isinstance(budget, float):
            share = 0 < budget <= 2
            hint = f"; did you mean '{budget * 100:g}%'?" if share else f"; did you mean {int(budget)}?"
        raise InputError(name, f"{budget!r} is neither bytes (12 * 2**30, '12GiB') nor a percentage ('80%'){hint}")
    if isinstance(budget, int):
        if budget < 1:
            raise InputError(name, f"{budget} bytes are no budget")
        return
    try:
        parse_budget(budget, 0, 2**40)
    except InputError as error:
        raise InputError(name, error.message) from None


def in_bytes(options: Options, fixed: int, unscheduled: int) -> int:
    """Gives the budget in bytes; a percentage is of what the unscheduled step takes beyond its fixed memory."""
    budget = options.budget
    if isinstance(budget, int):
        return budget - options.reserve
    try:
        size: int = parse_budget(budget, fixed, unscheduled)
    except InputError as error:
        raise InputError("budget", str(error)) from None
    return size if "%" in budget else size - options.reserve


class Known:
    """The schedules of one graph in one order of its ops, none of them both longer and larger than another.

    Parameters
    ----------
    digest : str
        Of the graph (`digest_of`).
    order : {"input", "free", "auto"}
        Of the problem: a schedule in input order is one in any order, but not the other way round.
    kept : bool
        Whether they are read from a file and written to it.
    """

    def __init__(self, digest: str, order: str, kept: bool) -> None:
        self.path: Path | None = None
        self.rows: list[list[Any]] = []  # peak, duration, ops by number
        if kept:
            self.path = _file("known", digest, order == "input")
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


def digest_of(graph: remora.Graph) -> str:
    """What tells a graph from all others: the digest of its file."""
    return hashlib.sha256(graph.to_json().encode()).hexdigest()


def _file(folder: str, *question: Any) -> Path:
    """Where the answer to a question is kept: the number of the engine's answers is a part of it."""
    key = hashlib.sha256(json.dumps([engine_schema(), *question]).encode()).hexdigest()
    return cache_folder() / folder / f"{key}.json"


def schedule_for(graph: remora.Graph, budget: int, options: Options, seconds: float | None = None) -> remora.Schedule:
    """Finds a schedule in the cache, or by the engine in so many seconds, else in the time limit.

    Raises
    ------
    BudgetError
        With the least budget for which a schedule is known.
    """
    start = _ops_of_plan(options.plan, graph) if options.plan else []
    digest = digest_of(graph)
    path = _file("schedules", digest, budget, options.order, options.time_limit, options.seed, options.arena)

    def found() -> remora.Schedule:
        if options.cache and path.exists():
            return remora.Schedule.load(path, graph)
        known = Known(digest, options.order, options.cache)
        if start:
            known.learn(remora.evaluate(graph, start, order="input" if options.order == "input" else "free"))
        left = _Seconds(options.time_limit if seconds is None else seconds)
        schedule = _solved(graph, budget, options, known, left)
        if options.cache:
            path.parent.mkdir(parents=True, exist_ok=True)
            schedule.save(path)
        return schedule

    def heard(text: str) -> remora.Schedule:
        return remora.Schedule.from_json(text, graph)

    return agreed(f"schedule/{path.stem}", found, remora.Schedule.to_json, heard)


def _ops_of_plan(path: str, graph: remora.Graph) -> list[int]:
    """The schedule of a plan's file, if the plan is of this graph, whatever its ops take.

    Raises
    ------
    CaptureError
        If it cannot be read, or names the first op that differs.
    """
    try:
        read = json.loads(Path(path).read_text(encoding="utf-8"))
        kept, made_by = read["plan"], read["made_by"]
        planned = remora.Graph.from_json(kept["graph"])
        found = remora.Schedule.from_json(json.dumps(kept["schedule"]), planned)
    except (OSError, ValueError, KeyError, TypeError, remora.Error) as error:
        raise CaptureError(f"plan: {path} holds no schedule: {error}") from None
    if len(planned) != len(graph):
        raise CaptureError(f"plan: {path} is of a step of {len(planned)} ops, and this has {len(graph)} ({made_by})")
    for mine, theirs in zip(graph.ops, planned.ops, strict=True):
        if _shape_of(mine) != _shape_of(theirs):
            raise CaptureError(f"plan: {path} is of another step, by op {mine.index}: {theirs.type} ({made_by})")
    return _ops_of(found)


def _shape_of(op: remora.Op) -> Any:
    """What an op is, but for its name and what it takes."""
    made = [(t.index, t.size, t.keep) for t in op.outputs]
    return op.type, [t.index for t in op.inputs], made, op.recompute, [o.index for o in op.after]


class _Seconds:
    """What is left of a time limit, of which each call of the engine takes its part."""

    def __init__(self, total: float) -> None:
        self._end = time.perf_counter() + total

    def left(self, share: float = 1.0) -> float:
        return max(LEAST_SECONDS, share * (self._end - time.perf_counter()))


def _solved(graph: remora.Graph, budget: int, options: Options, known: Known, seconds: _Seconds) -> remora.Schedule:
    try:
        found = _answer(graph, budget, options, known, seconds)
    except remora.Infeasible as refusal:
        _learn_least(graph, refusal.least_budget, known)
        least = min(refusal.least_budget.reached, known.least or refusal.least_budget.reached)
        raise BudgetError(budget, least, True, graph.fixed_memory, graph.baseline_peak) from None
    except TorchError:
        raise
    except remora.Error as error:
        raise SolverError(str(error)) from error
    known.learn(found)
    return _with_addresses(found, budget, options, seconds) if options.arena else found


def _answer(graph: remora.Graph, budget: int, options: Options, known: Known, seconds: _Seconds) -> remora.Schedule:
    """A schedule; where none is found in time, the least budget is looked for."""
    start = known.start(budget)
    if start is None or max(Counter(start).values(), default=1) > FEW:
        # What is known with more computes would begin with so many.
        try:
            share = FIRST if start is None else 1.0
            found = remora.solve(graph, max(1, budget), **_words(options, seconds.left(share)))
            known.learn(found)
            if known.start(budget) == _ops_of(found):
                return found
        except remora.NoSchedule as refusal:
            if start is None and isinstance(refusal, remora.Infeasible):
                raise
            if start is None:
                # In input order, whose schedules are schedules in any order.
                _learn_least(graph, remora.least_budget(graph, limits=_limits(options, seconds.left())), known)
        start = known.start(budget)
        if start is None:
            raise BudgetError(budget, known.least or budget, False, graph.fixed_memory, graph.baseline_peak)
    return remora.solve(graph, budget, **_words(options, seconds.left()), warm_start=start)


def _with_addresses(found: remora.Schedule, budget: int, options: Options, seconds: _Seconds) -> remora.Schedule:
    """The schedule with offsets; another one where it does not pack into the budget."""
    graph = found.graph
    capacity = max(1, budget - graph.fixed_memory)
    placed = remora.place(found, capacity=capacity, limits=_limits(options, seconds.left(0.5)))
    if placed.schedule is not None:
        return placed.schedule
    words = _words(options, seconds.left())
    try:
        return remora.solve(graph, budget, **words, warm_start=found, addresses=True)
    except remora.NoSchedule:
        least = graph.fixed_memory + remora.place(found, time_limit=seconds.left()).arena
        raise BudgetError(budget, least, False, graph.fixed_memory, graph.baseline_peak) from None


def _ops_of(schedule: remora.Schedule) -> list[int]:
    return [op.index for op in schedule.ops]


def _learn_least(graph: remora.Graph, least: remora.BudgetBracket, known: Known) -> None:
    if least.ops:
        known.learn(remora.evaluate(graph, least.ops, order="free"))


def sweep_graph(graph: remora.Graph, points: int, time_limit: float, options: Options) -> remora.Curve:
    """Solves a graph for many budgets, chosen where the curve is least known."""
    return remora.sweep(graph, points=points, **_words(options, time_limit))


def _limits(options: Options, seconds: float) -> remora.Limits:
    return remora.Limits(time=seconds, threads=options.threads or None, seed=options.seed)


def _words(options: Options, seconds: float) -> dict[str, Any]:
    return {"limits": _limits(options, seconds), "order": options.order, "progress": options.progress}


def schedule_over(graph: remora.DeviceGraph, budgets: dict[str, int], options: Options) -> remora.DeviceSchedule:
    """Finds a schedule over several devices in the time limit.

    Raises
    ------
    SolverError
        If none is found.
    """
    try:
        return remora.solve(graph, budgets, time_limit=options.time_limit, seed=options.seed)
    except remora.Error as error:
        raise SolverError(str(error)) from error


def given_schedule(graph: remora.DeviceGraph, schedule: Mapping[str, Any]) -> remora.DeviceSchedule:
    """A `remora-schedule` of a graph over several devices.

    Raises
    ------
    SolverError
        If it is not a right one; the message names the step.
    """
    try:
        found = remora.DeviceSchedule.from_json(json.dumps(dict(schedule)), graph)
        errors = remora.verify(graph, found).errors
    except remora.Error as error:
        raise SolverError(str(error)) from error
    if errors:
        raise SolverError(errors[0])
    return found
