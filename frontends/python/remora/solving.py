# SPDX-License-Identifier: Apache-2.0
"""`solve`: a schedule of a graph under a budget."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, SupportsIndex, cast, overload

from remora import _engine
from remora._arguments import Budget, boolean, budget_text, count, integer, string
from remora.budgets import BudgetBracket
from remora.calls import interrupt, progress_of, request, solve_telling, stop_of
from remora.devices import (
    DeviceGraph,
    DeviceSchedule,
    device_core_of,
    device_names,
    device_schedule_core_of,
)
from remora.display import device_schedule_line, schedule_line
from remora.errors import Infeasible, InputError, NoDeviceSchedule, NoSchedule, Refusal
from remora.graph import Graph, OpLike, listed, op_at, op_number
from remora.limits import LIMITS, DeviceSolveWords, Limits, OptionWords, SolveWords, option_texts
from remora.placement import SCHEDULE_ALIGNMENT, alignment_of
from remora.progress import Display, Progress, SolveDisplay
from remora.schedule import Schedule, made_schedule, schedule_core_of

if TYPE_CHECKING:
    import threading

    from typing_extensions import Unpack

__all__ = ["solve"]

_OF_DEVICES = tuple(name for name in DeviceSolveWords.__annotations__ if name not in LIMITS)
_OF_ONE = tuple(name for name in SolveWords.__annotations__ if name not in OptionWords.__annotations__)


@overload
def solve(
    graph: Graph,
    budget: Budget,
    *,
    warm_start: Schedule | Iterable[OpLike] | None = None,
    limits: Limits | None = None,
    progress: bool | Callable[[Progress], object] = False,
    on_incumbent: Callable[[Schedule], object] | None = None,
    stop: threading.Event | None = None,
    **options: Unpack[SolveWords],
) -> Schedule: ...
@overload
def solve(
    graph: DeviceGraph,
    budget: Mapping[str, Budget],
    *,
    warm_start: DeviceSchedule | None = None,
    limits: Limits | None = None,
    progress: bool | Callable[[Progress], object] = False,
    on_incumbent: Callable[[DeviceSchedule], object] | None = None,
    stop: threading.Event | None = None,
    **options: Unpack[DeviceSolveWords],
) -> DeviceSchedule: ...
def solve(
    graph: Graph | DeviceGraph,
    budget: Budget | Mapping[str, Budget],
    *,
    warm_start: Schedule | Iterable[OpLike] | DeviceSchedule | None = None,
    limits: Limits | None = None,
    progress: bool | Callable[[Progress], object] = False,
    on_incumbent: Callable[[Any], object] | None = None,
    stop: threading.Event | None = None,
    **options: Any,
) -> Schedule | DeviceSchedule:
    """Schedules the graph under a memory budget: which ops run again, and when tensors are released.

    Other threads of Python run meanwhile. Ctrl-C ends the search; the `KeyboardInterrupt` that follows carries the best
    schedule so far as its attribute ``schedule`` (None if there is none).

    Parameters
    ----------
    graph : Graph or DeviceGraph
    budget : int or str
        Bytes, fixed memory included; or text: ``"12GiB"``, ``"60%"`` of the input order's peak above fixed memory; with
        addresses, of the arena that the input order takes. Of a `DeviceGraph` a mapping of devices to bytes; a device
        that is left out has no limit.
    warm_start : Schedule or iterable of Op, str or int, or DeviceSchedule, optional
        A schedule of the graph to start from, made for any budget.
    limits : Limits, optional
        Limits of time, work and threads; each is a keyword of its own, too (``time_limit``, ``work_limit``, ``gap``,
        ``stall``, ``threads``, ``seed``).
    progress : bool or callable
        True shows the progress in the style of the terminal, notebook or log file that standard error is. A callable is
        called with a `Progress` for every better schedule and bound, and every phase that begins; if it returns True,
        the search ends.
    on_incumbent : callable, optional
        Called with every schedule that is better than the one before. If it returns True, the search ends.
    stop : threading.Event, optional
        Set from another thread, it ends the search with the best schedule so far.
    **options
        Any of `options` by its name (``strategy`` is one of `strategies`, ``"auto"`` by default), and those below.

    Other Parameters
    ----------------
    order : {"input", "free", "auto"}, optional
        Whether first evaluations follow the graph's order; ``"input"`` by default.
    max_computes : int, optional
        How often an op may run, the first time included. If it is not given, the search begins with 2 (64 for
        ``"rotor"``) and goes on to more; the schedule reports the number (``max_computes``).
    addresses : bool
        Give tensors and workspaces offsets in one arena (`Schedule.arena`); the arena's size stays within the budget,
        not only the sum of sizes. Not for ops of several modes and in place.
    alignment : int, optional
        Offsets are multiples of it; 64 by default. CUDA aligns to 512.
    slices : str or iterable of str, optional
        ``"auto"``: ops that have axes may be computed in slices, where that makes the schedule shorter or possible.
        ``"loss=8@0"``: in 8 slices along axis 0 of the op ``loss``, from which the region grows over large tensors;
        ``"mm,loss=8"``: these ops, along the best axis of the first. `Schedule.slices` then says which.
    slice_cost : SliceCost, optional
        What each slice costs; nothing by default.
    objective : {"duration", "energy"}
        Of a `DeviceGraph`: what is minimised.
    copies : {"sequential", "overlap"}
        Of a `DeviceGraph`: no overlap, or copies overlap with computation, one at a time per link, and lanes run
        concurrently. Default: overlap for a graph with lanes, otherwise sequential.
    duration_limit, energy_limit : int, optional
        Of a `DeviceGraph`: no schedule may take more, whatever is minimised.

    Returns
    -------
    Schedule or DeviceSchedule
        Within the budget, and verified.

    Raises
    ------
    NoDeviceSchedule
        Of a `DeviceGraph`: if it is proved that there is none, or none was found.
    Infeasible
        If it is proved that there is none. It names a lower bound on any feasible budget, a budget that is enough, and
        the op that is too large by itself, if there is one.
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
    display_of, on_progress = progress_of(progress, SolveDisplay)
    words = {name: options.pop(name, None) for name in dict.fromkeys((*_OF_ONE, *_OF_DEVICES))}
    if isinstance(graph, DeviceGraph):
        _refuse("is not for graphs over several devices", addresses=words["addresses"] or None)
        _refuse(
            "is not for graphs over several devices", **{n: words[n] for n in ("alignment", "slices", "slice_cost")}
        )
        texts = option_texts(limits, options, "graphs over several devices", LIMITS)
        with display_of(graph, texts) as display:
            return _solve_devices(
                graph,
                cast(Any, budget),
                texts,
                **{name: words[name] for name in _OF_DEVICES},
                warm_start=cast(Any, warm_start),
                display=display,
                on_incumbent=on_incumbent,
                on_progress=on_progress,
                stop=stop,
            )
    _refuse("is for graphs over several devices", **{n: words[n] for n in _OF_DEVICES if n not in _OF_ONE})
    texts = option_texts(limits, options, "solve")
    asked = request(graph, texts, words["max_computes"], words["order"], words["slices"], words["slice_cost"])
    if words["slices"] not in (None, "none") and on_incumbent is not None:
        raise InputError("on_incumbent", "not with slices")
    addresses, alignment = boolean(words["addresses"] or False, "addresses"), words["alignment"]
    aligned = alignment_of(alignment, SCHEDULE_ALIGNMENT) if addresses else None
    if alignment is not None and not addresses:
        raise InputError("alignment", "is for addresses: give addresses=True, too")
    with display_of(graph, texts) as display:
        core, interruption = _engine.solve(
            asked,
            budget_text(cast(Any, budget)),
            _start(graph, cast(Any, warm_start)),
            aligned,
            *solve_telling(display, on_incumbent, lambda found: made_schedule(found, graph), on_progress),
            stop_of(stop),
        )
        schedule = made_schedule(core, graph)
        display.finish(schedule_line(schedule))
    interrupt(interruption, schedule if schedule else None)
    if schedule:
        return schedule
    raise _no_schedule(schedule)


def _refuse(why: str, **given: object) -> None:
    for name, value in given.items():
        if value is not None:
            raise InputError(name, why)


def _start(graph: Graph, warm_start: Schedule | Iterable[OpLike] | None) -> list[int]:
    if warm_start is None:
        return []
    if isinstance(warm_start, Schedule):
        ops: Iterable[OpLike] = warm_start.ops if warm_start.graph is graph else [op.name for op in warm_start.ops]
    else:
        ops = listed(warm_start, "warm_start")
    numbers = [op_number(graph, op, "warm_start") for op in ops]
    if not numbers and len(graph):
        raise InputError("warm_start", "holds no schedule to start from")
    return numbers


def _no_schedule(answer: Schedule) -> NoSchedule:
    graph, core = answer.graph, schedule_core_of(answer)
    found = core.refusal
    is_one_op = found.reason in ("op", "kept", "event")
    refusal = Refusal(
        reason=found.reason,
        op=op_at(graph, found.op) if is_one_op else None,
        needed=found.needed,
        lower_bound=found.lower_bound,
        enough=found.enough,
        slices=found.slices,
        enough_in_slices=found.enough_in_slices,
    )
    if answer.status != "infeasible":
        return NoSchedule(core.refusal_line, answer, refusal)
    # A method that does not search has nothing to offer but the graph as it is.
    known, computes = (found.enough, found.max_computes) if found.enough else (graph.baseline_peak, 1)
    ops = tuple(op_at(graph, number) for number in found.ops)
    bracket = BudgetBracket(found.lower_bound, max(known, found.lower_bound), ops, computes)
    return Infeasible(core.refusal_line, answer, refusal, answer.certificate, bracket)


def _solve_devices(
    graph: DeviceGraph,
    budget: Mapping[str, Budget],
    texts: list[tuple[str, str]],
    *,
    order: str | None,
    max_computes: SupportsIndex | None,
    objective: str | None,
    copies: str | None,
    duration_limit: SupportsIndex | None,
    energy_limit: SupportsIndex | None,
    warm_start: DeviceSchedule | None,
    display: Display,
    on_incumbent: Callable[[DeviceSchedule], object] | None,
    on_progress: Callable[[Progress], object] | None,
    stop: threading.Event | None,
) -> DeviceSchedule:
    """`remora.solve` of a graph over several devices."""
    if not isinstance(budget, Mapping):
        raise TypeError(f"budget: must be a mapping of devices to budgets, not {type(budget).__name__}")
    names = device_names(graph)
    for name in budget:
        if string(name, "budget") not in names:
            raise InputError("budget", f"the graph has no device {name!r}")
    core, interruption = _engine.solve_devices(
        device_core_of(graph),
        [budget_text(budget[name], f"budget[{name!r}]") if name in budget else None for name in names],
        _one_of("objective", objective, "duration", "energy") == "energy",
        None if copies is None else _one_of("copies", copies, "sequential", "overlap") == "overlap",
        _one_of("order", order, "input", "free") == "free",
        count(max_computes, "max_computes"),
        None if duration_limit is None else integer(duration_limit, "duration_limit"),
        None if energy_limit is None else integer(energy_limit, "energy_limit"),
        texts,
        _device_start(graph, warm_start),
        *solve_telling(display, on_incumbent, lambda found: DeviceSchedule.made(found, graph), on_progress),
        stop_of(stop),
    )
    schedule = DeviceSchedule.made(core, graph)
    display.finish(device_schedule_line(schedule))
    interrupt(interruption, schedule if schedule else None)
    if schedule:
        return schedule
    refusal = core.refusal
    op = graph.ops[refusal.op] if refusal.op >= 0 else None
    needed = {names[device]: bytes for device, bytes in refusal.shortages}
    raise NoDeviceSchedule(core.refusal_line, schedule, refusal.reason, op, needed)


def _one_of(place: str, given: str | None, *known: str) -> str:
    if given is None:
        return known[0]
    if given not in known:
        words = " or ".join(map(repr, known))
        raise InputError(place, f"must be {words} of a graph over several devices, not {given!r}")
    return given


def _device_start(graph: DeviceGraph, warm_start: DeviceSchedule | None) -> _engine.DeviceSchedule | None:
    if warm_start is None:
        return None
    if not isinstance(warm_start, DeviceSchedule):
        raise TypeError(f"warm_start: must be a remora.DeviceSchedule, not {type(warm_start).__name__}")
    if not warm_start:
        raise InputError("warm_start", "holds no schedule to start from")
    same = warm_start if warm_start.graph is graph else DeviceSchedule.from_json(warm_start.to_json(), graph)
    return device_schedule_core_of(same)
