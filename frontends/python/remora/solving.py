# SPDX-License-Identifier: Apache-2.0
"""`solve`: a schedule of a graph under a budget."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal, SupportsIndex, cast, overload

from remora import _engine
from remora._arguments import Budget, boolean, budget_text
from remora.budgets import BudgetBracket
from remora.calls import Ordering, interrupt, request, solve_telling, stop_of
from remora.device_schedule import DeviceSchedule, solve_devices
from remora.devices import DeviceGraph
from remora.display import schedule_line
from remora.errors import Infeasible, InputError, NoSchedule, Refusal
from remora.graph import Graph, OpLike, listed, op_at, op_number
from remora.limits import LIMITS, Limits, option_texts
from remora.modes import Modes
from remora.placement import SCHEDULE_ALIGNMENT, alignment_of
from remora.progress import Display, Progress, SolveDisplay
from remora.schedule import Schedule, made_schedule, schedule_core_of

if TYPE_CHECKING:
    import threading

    from typing_extensions import Unpack

    from remora.limits import LimitWords, OptionWords

__all__ = ["solve"]


@overload
def solve(
    graph: Graph,
    budget: Budget,
    *,
    order: Ordering | None = None,
    max_computes: SupportsIndex | None = None,
    modes: Modes | None = None,
    warm_start: Schedule | Iterable[OpLike] | None = None,
    addresses: bool = False,
    alignment: SupportsIndex | None = None,
    limits: Limits | None = None,
    progress: bool = False,
    on_incumbent: Callable[[Schedule], object] | None = None,
    on_progress: Callable[[Progress], object] | None = None,
    stop: threading.Event | None = None,
    **options: Unpack[OptionWords],
) -> Schedule: ...
@overload
def solve(
    graph: DeviceGraph,
    budget: Mapping[str, Budget],
    *,
    order: Literal["input", "free"] | None = None,
    max_computes: SupportsIndex | None = None,
    warm_start: DeviceSchedule | None = None,
    objective: Literal["duration", "energy"] | None = None,
    copies: Literal["sequential", "overlap"] | None = None,
    duration_limit: SupportsIndex | None = None,
    energy_limit: SupportsIndex | None = None,
    limits: Limits | None = None,
    progress: bool = False,
    on_incumbent: Callable[[DeviceSchedule], object] | None = None,
    on_progress: Callable[[Progress], object] | None = None,
    stop: threading.Event | None = None,
    **options: Unpack[LimitWords],
) -> DeviceSchedule: ...
def solve(
    graph: Graph | DeviceGraph,
    budget: Budget | Mapping[str, Budget],
    *,
    order: Ordering | None = None,
    max_computes: SupportsIndex | None = None,
    modes: Modes | None = None,
    warm_start: Schedule | Iterable[OpLike] | DeviceSchedule | None = None,
    addresses: bool = False,
    alignment: SupportsIndex | None = None,
    objective: Literal["duration", "energy"] | None = None,
    copies: Literal["sequential", "overlap"] | None = None,
    duration_limit: SupportsIndex | None = None,
    energy_limit: SupportsIndex | None = None,
    limits: Limits | None = None,
    progress: bool = False,
    on_incumbent: Callable[[Any], object] | None = None,
    on_progress: Callable[[Progress], object] | None = None,
    stop: threading.Event | None = None,
    **options: Unpack[OptionWords],
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
    limits : Limits, optional
        Time, work and threads that the call may take; or by keywords of their own (``time_limit``, ``work_limit``,
        ``gap``, ``stall``, ``threads``, ``seed``).
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
        Of a `DeviceGraph`: one thing at a time, or copies beside computing, each link on its own, and lanes beside each
        other. Default: overlap for a graph with lanes, else sequential.
    duration_limit, energy_limit : int, optional
        Of a `DeviceGraph`: no schedule may take more, whatever is minimised.
    **options
        Any of `options` by its name: ``strategy`` is one of `strategies`, ``"auto"`` by default.

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
    if isinstance(graph, DeviceGraph):
        _refuse("is not for graphs over several devices", modes=modes, addresses=addresses or None, alignment=alignment)
        texts = option_texts(limits, options, "graphs over several devices", LIMITS)
        with SolveDisplay(graph, texts) if progress else Display() as display:
            return solve_devices(
                graph,
                cast(Any, budget),
                texts,
                order=order,
                max_computes=max_computes,
                objective=objective,
                copies=copies,
                duration_limit=duration_limit,
                energy_limit=energy_limit,
                warm_start=cast(Any, warm_start),
                display=display,
                on_incumbent=on_incumbent,
                on_progress=on_progress,
                stop=stop,
            )
    _refuse("is for graphs over several devices", objective=objective, copies=copies)
    _refuse("is for graphs over several devices", duration_limit=duration_limit, energy_limit=energy_limit)
    texts = option_texts(limits, options, "solve")
    asked = request(graph, texts, max_computes, order, modes)
    aligned = alignment_of(alignment, SCHEDULE_ALIGNMENT) if boolean(addresses, "addresses") else None
    if alignment is not None and not addresses:
        raise InputError("alignment", "is for addresses: give addresses=True, too")
    with SolveDisplay(graph, texts) if progress else Display() as display:
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
    )
    if answer.status != "infeasible":
        return NoSchedule(core.refusal_line, answer, refusal)
    # A method that does not search has nothing to offer but the graph as it is.
    known, computes = (found.enough, found.max_computes) if found.enough else (graph.baseline_peak, 1)
    ops = tuple(op_at(graph, number) for number in found.ops)
    bracket = BudgetBracket(found.lower_bound, max(known, found.lower_bound), ops, computes)
    return Infeasible(core.refusal_line, answer, refusal, answer.certificate, bracket)
