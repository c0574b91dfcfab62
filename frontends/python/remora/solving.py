# SPDX-License-Identifier: Apache-2.0
"""The engine's calls: solve, sweep, order, bounds, least_budget."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, SupportsFloat, SupportsIndex, cast, overload

from remora import _engine
from remora._arguments import Budget, boolean, budget_text, count, integer, option_texts, string
from remora.curve import Curve
from remora.device_schedule import DeviceSchedule, found_or_raised, solve_devices
from remora.devices import DeviceGraph
from remora.display import device_schedule_line, schedule_line
from remora.errors import Infeasible, InputError, NoSchedule
from remora.graph import Graph, Op, OpLike, _listed, _op
from remora.modes import Modes, mode_rows
from remora.placement import SCHEDULE_ALIGNMENT, alignment_of
from remora.progress import show_order, show_solve, show_sweep
from remora.schedule import Schedule, graph_of

if TYPE_CHECKING:
    import threading

__all__ = [
    "Bounds",
    "BudgetBracket",
    "Option",
    "Order",
    "Ordering",
    "Progress",
    "SweepProgress",
    "bounds",
    "least_budget",
    "options",
    "order",
    "solve",
    "strategies",
    "sweep",
]

Ordering = Literal["input", "free", "auto"]
"""First computes follow the graph's order; any order; free if a quick search says that it helps."""

# What a solve takes by default: the engine's own default, and three times that for a sweep.
_SWEEP_SECONDS = 180.0
# An infeasible budget names the least one after at most this long a search.
_LEAST_BUDGET_SECONDS = 5.0


@dataclass(frozen=True)
class Progress:
    """What a solve knows at one moment.

    Attributes
    ----------
    seconds : float
        Since the solve began.
    phase : int
        1: looking for a schedule within the budget; 2: shortening it.
    source : str
        What brought the news; empty for a heartbeat.
    duration, peak : int
        Of the best so far; in phase 1 its peak is still above the budget. Of a `DeviceGraph`: what it costs, in the
        objective's unit, 2**63 - 1 as long as there is none; and 0, since each device has its own peak.
    bound : int
        No schedule has a smaller duration.
    work : int
        Units of work done.
    """

    seconds: float
    phase: int
    source: str
    duration: int
    peak: int
    bound: int
    work: int


@dataclass(frozen=True)
class SweepProgress:
    """What a sweep knows after it was busy with one budget.

    Attributes
    ----------
    seconds : float
        Since the sweep began.
    budget : int
        Bytes: the one that it was busy with.
    status : {"optimal", "feasible", "infeasible", "unknown"}
        Of that budget.
    duration, peak, bound : int
        Of that budget.
    points, settled : int
        Budgets so far, and those among them for which nothing is left to search.
    """

    seconds: float
    budget: int
    status: str
    duration: int
    peak: int
    bound: int
    points: int
    settled: int


@dataclass(frozen=True)
class BudgetBracket:
    """The least feasible budget lies between two budgets, in bytes.

    Attributes
    ----------
    proved : int
        No schedule holds less.
    reached : int
        The peak of a schedule that was found.
    ops : tuple of Op
        Of that schedule: what `solve` takes as a warm start, and `evaluate` makes a schedule of. Empty if unknown.
    max_computes : int
        How often an op may run in all this.
    """

    proved: int
    reached: int
    ops: tuple[Op, ...] = field(default=(), repr=False, compare=False)
    max_computes: int = field(default=0, compare=False)

    @property
    def exact(self) -> bool:
        """Whether the least budget is known to the byte."""
        return self.proved == self.reached


@dataclass(frozen=True)
class Bounds:
    """What is proved of a budget without any search.

    Attributes
    ----------
    status : {"optimal", "feasible", "infeasible", "unknown"}
        ``"infeasible"`` where that is proved; ``"optimal"`` where the input order holds the budget
        without recomputation.
    duration : int
        No schedule within the budget has a smaller duration.
    overhead : float
        The same as overhead.
    """

    status: str
    duration: int
    overhead: float


@dataclass(frozen=True)
class Option:
    """An option of the search: `solve` and `sweep` take it by its name.

    Attributes
    ----------
    name, type, default, range, help : str
        As `remora solve --help` says them.
    """

    name: str
    type: str
    default: str
    range: str
    help: str


class Order:
    """The answer to `order`: every op once, in an order of small peak.

    Attributes
    ----------
    ops : tuple of Op
        In the order found.
    peak, input_peak : int
        Bytes: of this order, and of the graph's.
    bound : int
        No order has a smaller peak.
    seconds : float
    work : int
        Units of work done.
    """

    def __init__(self, graph: Graph, found: _engine.OrderAnswer) -> None:
        self.ops: tuple[Op, ...] = tuple(_op(graph, number) for number in found.ops)
        self.peak: int = found.peak
        self.input_peak: int = found.input_peak
        self.bound: int = found.lower_bound
        self.seconds: float = found.seconds
        self.work: int = found.work
        self._graph = graph

    @property
    def is_optimal(self) -> bool:
        """Whether no order has a smaller peak."""
        return self.peak <= self.bound

    def apply(self) -> Graph:
        """A graph of its own with the ops in this order."""
        return Graph._of(_engine.reordered(self._graph._core, [op.index for op in self.ops]))

    def __repr__(self) -> str:
        part = 100 * self.peak / self.input_peak if self.input_peak else 100.0
        proved = ", proved least" if self.is_optimal else ""
        return f"<Order of {self._graph.name!r}: peak {_engine.bytes_text(self.peak)}, {part:.1f} % of input{proved}>"


def options() -> tuple[Option, ...]:
    """Every option of the search that `solve` and `sweep` take by name."""
    return tuple(Option(*row) for row in _engine.option_table())


def strategies() -> tuple[str, ...]:
    """The strategies: the engine's, and the literature's methods (docs/strategies.md)."""
    return tuple(_engine.strategy_names().split(", "))


@overload
def solve(
    graph: Graph,
    budget: Budget,
    *,
    time_limit: SupportsFloat | None = None,
    work_limit: SupportsIndex | None = None,
    threads: SupportsIndex | None = None,
    seed: SupportsIndex | None = None,
    strategy: str | None = None,
    order: Ordering | None = None,
    max_computes: SupportsIndex | None = None,
    modes: Modes | None = None,
    warm_start: Schedule | Iterable[OpLike] | None = None,
    addresses: bool = False,
    alignment: SupportsIndex | None = None,
    progress: bool = False,
    on_incumbent: Callable[[Schedule], object] | None = None,
    on_progress: Callable[[Progress], object] | None = None,
    stop: threading.Event | None = None,
    **more: bool | int | float | str,
) -> Schedule: ...
@overload
def solve(
    graph: DeviceGraph,
    budget: Mapping[str, Budget],
    *,
    time_limit: SupportsFloat | None = None,
    work_limit: SupportsIndex | None = None,
    threads: SupportsIndex | None = None,
    seed: SupportsIndex | None = None,
    order: Literal["input", "free"] | None = None,
    max_computes: SupportsIndex | None = None,
    progress: bool = False,
    on_incumbent: Callable[[DeviceSchedule], object] | None = None,
    on_progress: Callable[[Progress], object] | None = None,
    objective: Literal["duration", "energy"] = "duration",
    copies: Literal["sequential", "overlap"] = "sequential",
    duration_limit: SupportsIndex | None = None,
    energy_limit: SupportsIndex | None = None,
    warm_start: DeviceSchedule | None = None,
    stop: threading.Event | None = None,
) -> DeviceSchedule: ...
def solve(
    graph: Graph | DeviceGraph,
    budget: Budget | Mapping[str, Budget],
    *,
    time_limit: SupportsFloat | None = None,
    work_limit: SupportsIndex | None = None,
    threads: SupportsIndex | None = None,
    seed: SupportsIndex | None = None,
    strategy: str | None = None,
    order: Ordering | None = None,
    max_computes: SupportsIndex | None = None,
    modes: Modes | None = None,
    warm_start: Schedule | Iterable[OpLike] | DeviceSchedule | None = None,
    addresses: bool = False,
    alignment: SupportsIndex | None = None,
    progress: bool = False,
    on_incumbent: Callable[[Any], object] | None = None,
    on_progress: Callable[[Progress], object] | None = None,
    stop: threading.Event | None = None,
    objective: Any = None,
    copies: Any = None,
    duration_limit: Any = None,
    energy_limit: Any = None,
    **more: bool | int | float | str,
) -> Schedule | DeviceSchedule:
    """Schedules the graph under a memory budget: which ops run again, and when tensors are released.

    Other threads of Python run meanwhile. Ctrl-C ends the search; the `KeyboardInterrupt` that follows carries the best
    schedule so far as its attribute ``schedule`` (None if there is none).

    Parameters
    ----------
    graph : Graph or DeviceGraph
    budget : int or str
        Bytes, fixed memory included; or text: ``"12GiB"``, ``"60%"`` of the input order's peak above fixed memory. Of a
        `DeviceGraph` a mapping of devices to bytes; a device that is left out has no limit.
    time_limit : float, optional
        Seconds; by default 60, and no limit beside a work limit.
    work_limit : int, optional
        Units of work. With it, the same seed gives the same schedule on every machine and with any number of threads.
    threads : int, optional
        By default one per core.
    seed : int, optional
        Seed of all random choices; 1 by default.
    strategy : str, optional
        One of `strategies`; ``"auto"`` by default.
    order : {"input", "free", "auto"}, optional
        Whether first computes follow the graph's order; ``"input"`` by default (``"free"`` for ``"twremat"``).
    max_computes : int, optional
        How often an op may run, the first time counted. By default 2 (64 for ``"rotor"`` and ``"twremat"``), and then
        more where they hold the budget or are shorter; the schedule says which (``max_computes``).
    modes : mapping of Op, str or int to OpModes or sequence of Mode, optional
        Other ways to run some of the ops; a step then says by which of them it runs. Schedules of several modes can be
        verified, but neither saved nor reported.
    warm_start : Schedule or iterable of Op, str or int, or DeviceSchedule, optional
        A schedule of the graph to start from, made for any budget.
    addresses : bool
        Give tensors and workspaces offsets in one arena, too (`Schedule.arena`): it is the arena, not only the sum of
        sizes, that is within the budget. Not for ops of several modes and in place.
    alignment : int, optional
        Offsets are multiples of it; 64 by default. CUDA aligns to 512.
    progress : bool
        Show how it goes, to suit the terminal, the notebook or the log file that standard error is.
    on_incumbent : callable, optional
        Called with every schedule that is better than the one before. One that returns True ends the search.
    on_progress : callable, optional
        Called with a `Progress` for every better schedule and bound, and every phase that begins. One that returns True
        ends the search.
    stop : threading.Event, optional
        Set from another thread, it ends the search with the best schedule so far.
    objective : {"duration", "energy"}
        Of a `DeviceGraph`: what is minimised.
    copies : {"sequential", "overlap"}
        Of a `DeviceGraph`: one thing at a time, or copies beside computing, each link on its own.
    duration_limit, energy_limit : int, optional
        Of a `DeviceGraph`: no schedule may take more, whatever is minimised.
    **more
        Any of `options` by its name.

    Returns
    -------
    Schedule or DeviceSchedule
        Within the budget, and verified.

    Raises
    ------
    NoDeviceSchedule
        Of a `DeviceGraph`: if it is proved that there is none, or none was found.
    Infeasible
        If it is proved that there is none. It names the least feasible budget.
    NoSchedule
        If none was found within the limits.
    InputError
        For an argument that means nothing, and for a graph that is not valid.

    Examples
    --------
    >>> import remora
    >>> g = remora.Graph("figure-1")
    >>> a = g.op("A", duration=1, outputs={"a": 1})
    >>> b, c = (g.op(name.upper(), duration=1, inputs=[a], outputs={name: 1}) for name in "bc")
    >>> d = g.op("D", duration=1, inputs=[b, c], outputs={"d": 1})
    >>> e = g.op("E", duration=1, inputs=[a, d], outputs={"e": 1}, keep=True)
    >>> s = remora.solve(g, 3, work_limit=1000)
    >>> s.status, s.peak, s.overhead
    ('optimal', 3, 0.2)
    >>> [step.op.name for step in s.steps]
    ['A', 'B', 'C', 'D', 'A', 'E']
    """
    if isinstance(graph, DeviceGraph):
        others: dict[str, object] = {"strategy": strategy, "modes": modes, "alignment": alignment}
        others |= {"addresses": addresses or None, **more}
        for name, value in others.items():
            if value is not None:
                raise InputError(name, "is not for graphs over several devices")
        texts = _search_options({}, time_limit, work_limit, threads, seed, None)
        with show_solve(graph, texts, progress) as display:
            found, interruption = solve_devices(
                graph,
                cast(Any, budget),
                texts,
                _ordering(order),
                max_computes,
                objective or "duration",
                copies or "sequential",
                (duration_limit, energy_limit),
                cast(Any, warm_start),
                (
                    _telling(on_incumbent, "on_incumbent", lambda answer: DeviceSchedule._of(answer, graph)),
                    _telling_too(None if display.is_bar else display.solve_told, Progress, on_progress),
                    _telling_too(display.solve_told if display.is_bar else None, Progress, None),
                ),
                _asking(stop),
            )
            display.finish(device_schedule_line(found))
        _interrupt(interruption, found if found else None)
        return found_or_raised(found)
    devices_only = {"objective": objective, "copies": copies, "duration_limit": duration_limit}
    for name, value in (devices_only | {"energy_limit": energy_limit}).items():
        if value is not None:
            raise InputError(name, "is for graphs over several devices")
    graph_of(graph)
    texts = _search_options(more, time_limit, work_limit, threads, seed, strategy)
    text = budget_text(cast(Any, budget))
    aligned = alignment_of(alignment, SCHEDULE_ALIGNMENT) if boolean(addresses, "addresses") else None
    if alignment is not None and not addresses:
        raise InputError("alignment", "is for addresses: give addresses=True, too")
    begun = time.monotonic()
    with show_solve(graph, texts, progress) as display:
        answer, interruption = _engine.solve(
            graph._core,
            text,
            texts,
            count(max_computes, "max_computes"),
            _ordering(order),
            mode_rows(graph, modes),
            _start(graph, cast(Any, warm_start)),
            aligned,
            _telling(on_incumbent, "on_incumbent", lambda found: Schedule._of(found, graph)),
            _telling_too(None if display.is_bar else display.solve_told, Progress, on_progress),
            _telling_too(display.solve_told if display.is_bar else None, Progress, None),
            _asking(stop),
        )
        answer.graph_sha256 = graph._sha256
        schedule = Schedule._of(answer, graph)
        display.finish(schedule_line(schedule))
    _interrupt(interruption, schedule if schedule else None)
    if schedule:
        return schedule
    raise _no_schedule(schedule, dict(texts), max_computes, modes, time.monotonic() - begun, stop)


def sweep(
    graph: Graph,
    budgets: Iterable[Budget] | None = None,
    *,
    points: SupportsIndex = 20,
    resolution: float = 0.005,
    time_limit: SupportsFloat | None = None,
    work_limit: SupportsIndex | None = None,
    threads: SupportsIndex | None = None,
    seed: SupportsIndex | None = None,
    strategy: str | None = None,
    order: Literal["input", "free"] | None = None,
    max_computes: SupportsIndex | None = None,
    progress: bool = False,
    on_progress: Callable[[SweepProgress], object] | None = None,
    stop: threading.Event | None = None,
    **more: bool | int | float | str,
) -> Curve:
    """Schedules the graph under many budgets: the curve of memory against time, for little more than a solve or two.

    Parameters
    ----------
    graph : Graph
    budgets : iterable of int or str, optional
        In any order, each at most once; chosen by bisection, where the curve is least known, by default.
    points : int
        Budgets to choose at most.
    resolution : float
        Budgets are not chosen closer than this part of their range.
    time_limit, work_limit
        As for `solve`, of the whole sweep; 180 seconds by default.
    threads, seed, strategy, max_computes, stop, **more
        As for `solve`.
    order : {"input", "free"}, optional
        ``"free"`` is for methods that do not search; sweep the graph that `order` gives instead.
    progress : bool
        Show how it goes.
    on_progress : callable, optional
        Called with a `SweepProgress` after each time that a budget was searched. One that returns True ends the sweep.

    Returns
    -------
    Curve
        One point per budget, each with its schedule, where one was found.

    Raises
    ------
    InputError
        For an argument that means nothing, and for a graph that is not valid.
    """
    graph_of(graph)
    if time_limit is None and work_limit is None:
        time_limit = _SWEEP_SECONDS
    texts = _search_options(more, time_limit, work_limit, threads, seed, strategy)
    if budgets is not None and not (points == 20 and resolution == 0.005):
        raise InputError("points", "budgets are given: there is nothing to choose")
    given = [] if budgets is None else [budget_text(budget, "budgets") for budget in _listed(budgets, "budgets")]
    if budgets is not None and not given:
        raise InputError("budgets", "the list is empty")
    most = integer(points, "points", 2**31 - 1)
    if most < 2:
        raise InputError("points", f"must be at least 2, but is {most}")
    if not 0 <= resolution <= 1:
        raise InputError("resolution", f"must be from 0 to 1, but is {resolution}")
    with show_sweep(graph, len(given) or most, progress) as display:
        answer, interruption = _engine.sweep(
            graph._core,
            given,
            most,
            float(resolution),
            texts,
            count(max_computes, "max_computes"),
            _ordering(order),
            _telling_too(display.sweep_told, SweepProgress, on_progress),
            _asking(stop),
        )
    answer.graph_sha256 = graph._sha256
    curve = Curve._of(answer, graph)
    _interrupt(interruption, curve, "curve")
    return curve


def order(
    graph: Graph,
    *,
    target: Budget | None = None,
    time_limit: SupportsFloat | None = None,
    work_limit: SupportsIndex | None = None,
    threads: SupportsIndex | None = None,
    seed: SupportsIndex | None = None,
    progress: bool = False,
    stop: threading.Event | None = None,
) -> Order:
    """Finds an order of the graph's ops of small peak memory, each op once.

    Parameters
    ----------
    graph : Graph
    target : int or str, optional
        An order of this peak will do: as a budget.
    time_limit, work_limit, threads, seed, stop
        As for `solve`.
    progress : bool
        Show how it goes.

    Returns
    -------
    Order

    Raises
    ------
    InputError
        For an argument that means nothing, and for a graph that is not valid.
    """
    graph_of(graph)
    texts = _search_options({}, time_limit, work_limit, threads, seed, None)
    with show_order(graph, progress) as display:
        found, interruption = _engine.order(
            graph._core,
            texts,
            None if target is None else budget_text(target, "target"),
            display.order_told,
            _asking(stop),
        )
    result = Order(graph, found)
    _interrupt(interruption, result, "order")
    return result


def bounds(
    graph: Graph,
    budget: Budget,
    *,
    time_limit: SupportsFloat | None = None,
    order: Ordering | None = None,
    max_computes: SupportsIndex | None = None,
    stop: threading.Event | None = None,
    **more: bool | int | float | str,
) -> Bounds:
    """What is proved of a budget without any search, in a moment (docs/bounds.md).

    Parameters
    ----------
    graph : Graph
    budget, time_limit, order, max_computes, stop, **more
        As for `solve`.

    Returns
    -------
    Bounds
    """
    graph_of(graph)
    texts = _search_options(more, time_limit, None, None, None, "none")
    most = count(max_computes, "max_computes")
    answer, interruption = _engine.solve(
        graph._core,
        budget_text(budget),
        texts,
        most,
        _ordering(order),
        [],
        [],
        None,
        None,
        None,
        None,
        _asking(stop),
    )
    _interrupt(interruption, None)
    return Bounds(answer.status, answer.lower_bound, answer.least_overhead)


def least_budget(
    graph: Graph,
    *,
    time_limit: SupportsFloat | None = None,
    work_limit: SupportsIndex | None = None,
    threads: SupportsIndex | None = None,
    seed: SupportsIndex | None = None,
    order: Literal["input", "free"] | None = None,
    max_computes: SupportsIndex | None = None,
    modes: Modes | None = None,
    stop: threading.Event | None = None,
    **more: bool | int | float | str,
) -> BudgetBracket:
    """Brackets the smallest budget that any schedule of the graph holds.

    Parameters
    ----------
    graph : Graph
    time_limit, work_limit, threads, seed, order, max_computes, modes, stop, **more
        As for `solve`.

    Returns
    -------
    BudgetBracket
    """
    graph_of(graph)
    texts = _search_options(more, time_limit, work_limit, threads, seed, None)
    most = count(max_computes, "max_computes")
    (proved, reached, ops, most_computes), interruption = _engine.least_budget(
        graph._core, texts, most, _ordering(order), mode_rows(graph, modes), _asking(stop)
    )
    bracket = BudgetBracket(proved, reached, tuple(_op(graph, number) for number in ops), most_computes)
    _interrupt(interruption, bracket, "bracket")
    return bracket


def _search_options(
    more: dict[str, Any],
    time_limit: SupportsFloat | None,
    work_limit: SupportsIndex | None,
    threads: SupportsIndex | None,
    seed: SupportsIndex | None,
    strategy: str | None,
) -> list[tuple[str, str]]:
    if time_limit is None and work_limit is not None:
        # A work limit is there to repeat a run, which the default time limit would spoil on a slow machine.
        time_limit = float("inf")
    known: dict[str, Any] = {"work_limit": work_limit, "threads": threads, "seed": seed, "strategy": strategy}
    if time_limit is not None:
        try:
            known["time_limit"] = float(time_limit)
        except (TypeError, ValueError):
            raise TypeError(f"time_limit: must be a number of seconds, not {type(time_limit).__name__}") from None
    return option_texts({**more, **known})


def _ordering(order: str | None) -> str | None:
    return None if order is None else string(order, "order")


def _start(graph: Graph, warm_start: Schedule | Iterable[OpLike] | None) -> list[int]:
    if warm_start is None:
        return []
    if isinstance(warm_start, Schedule):
        if warm_start.graph is graph:
            numbers = [op for op, _, _ in warm_start._answer.steps]
        else:
            numbers = [graph._op_number(step.op.name, "warm_start") for step in warm_start.steps]
    else:
        numbers = [graph._op_number(op, "warm_start") for op in _listed(warm_start, "warm_start")]
    if not numbers and len(graph):
        raise InputError("warm_start", "holds no schedule to start from")
    return numbers


def _telling(
    listener: Callable[[Any], object] | None, place: str, made: Callable[[Any], object]
) -> Callable[[Any], bool] | None:
    """The listener as the engine calls it: True, and nothing else, ends the search."""
    if listener is None:
        return None
    if not callable(listener):
        raise TypeError(f"{place}: must be callable, not {type(listener).__name__}")
    return lambda news: listener(made(news)) is True


def _telling_too(
    told: Callable[[Any], None] | None, made: type, listener: Callable[[Any], object] | None
) -> Callable[[Any], bool] | None:
    """The display and the user's listener as one; the latter alone may end the search."""
    asked = _telling(listener, "on_progress", lambda news: made(*news))
    if told is None:
        return asked

    def tell(news: Any) -> bool:
        told(made(*news))
        return asked is not None and asked(news)

    return tell


def _asking(stop: threading.Event | None) -> Callable[[], bool] | None:
    if stop is None:
        return None
    asked: Callable[[], bool] | None = getattr(stop, "is_set", None)
    if not callable(asked):
        raise TypeError(f"stop: must be a threading.Event, not {type(stop).__name__}")
    return asked


def _interrupt(interruption: object, found: object, attribute: str = "schedule") -> None:
    """Raises what a callback or a signal ended the call with; what was found until then is attached."""
    if isinstance(interruption, BaseException):
        # An exception with slots of its own cannot carry it.
        with contextlib.suppress(AttributeError):
            setattr(interruption, attribute, found)
        raise interruption


def _amount(graph: Graph, size: int) -> str:
    """``"1.50 GiB (1610612736 bytes, 60.0 % of the peak above fixed memory)"``: bytes and percentage."""
    above = graph.baseline_peak - graph.fixed_memory
    if above <= 0 or size < graph.fixed_memory:
        return f"{_engine.bytes_text(size)} ({size} bytes)"
    part = 100 * (size - graph.fixed_memory) / above
    of_what = "the peak above fixed memory" if graph.fixed_memory else "the peak"
    return f"{_engine.bytes_text(size)} ({size} bytes, {part:.1f} % of {of_what})"


def _no_schedule(
    answer: Schedule,
    texts: dict[str, str],
    max_computes: SupportsIndex | None,
    modes: Modes | None,
    seconds: float,
    stop: threading.Event | None,
) -> NoSchedule:
    found = answer._answer
    size = _amount(answer.graph, found.budget)
    if answer.status != "infeasible":
        peak = found.reached_peak
        reached = f"; the lowest peak found is {_amount(answer.graph, peak)}" if peak else ""
        note = f" ({found.note})" if found.note else ""
        return NoSchedule(
            f"no schedule within {size} was found in {seconds:.1f} s{reached}{note}", answer, found.reached_peak
        )
    given = float(texts.get("time_limit", _LEAST_BUDGET_SECONDS))
    bracket = least_budget(
        answer.graph,
        time_limit=min(given, _LEAST_BUDGET_SECONDS),
        threads=int(texts["threads"]) if "threads" in texts else None,
        seed=int(texts["seed"]) if "seed" in texts else None,
        order=answer.order,
        max_computes=max_computes,
        modes=modes,
        stop=stop,
    )
    certificate = answer.certificate
    why = ""
    if certificate is not None:
        why = f": {certificate.op.name!r} needs {_engine.bytes_text(certificate.required)} while it runs"
    proved = _amount(answer.graph, bracket.proved)
    least = f"the least feasible budget is {proved}"
    if not bracket.exact:
        least = f"no schedule holds less than {proved}; one of {_amount(answer.graph, bracket.reached)} was found"
    return Infeasible(f"no schedule holds {size}{why}; {least}", answer, found.reached_peak, certificate, bracket)
