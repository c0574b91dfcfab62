# SPDX-License-Identifier: Apache-2.0
"""Addresses: where buffers lie in one block of memory, the arena (docs/guide/place.md)."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, SupportsIndex

from remora import _engine
from remora._arguments import Budget, boolean, budget_text, file_path, integer, signed, string, write_text
from remora.calls import interrupt, stop_of
from remora.errors import InputError
from remora.graph import listed
from remora.limits import LIMITS, Limits, option_texts
from remora.schedule import Schedule, made_schedule, schedule_core_of

if TYPE_CHECKING:
    import threading

    from typing_extensions import Unpack

    from remora.limits import LimitWords

__all__ = ["Buffer", "Placement", "load_banks", "load_buffers", "place"]

SCHEDULE_ALIGNMENT = 64
"""Bytes: of a schedule's addresses by default."""


@dataclass(frozen=True)
class Buffer:
    """Memory that one value holds.

    Attributes
    ----------
    id : str
    lower, upper : int
        It is alive from time `lower` up to but without `upper`.
    size : int
        Bytes.
    alignment : int
        Its offset is a multiple of this.
    offset : int, optional
        Where it has to lie; anywhere if None.
    gaps : sequence of (int, int)
        Stretches from, up to but without, in which it holds no memory; afterwards it is at its offset again.
    banks : mapping of str to int, optional
        Where there are several memories: those that it may lie in, and what that costs. Any of them at no cost if None.
    """

    id: str
    lower: int
    upper: int
    size: int
    alignment: int = 1
    offset: int | None = None
    gaps: Sequence[tuple[int, int]] = ()
    banks: Mapping[str, int] | None = None


@dataclass(frozen=True)
class Placement:
    """Offsets for buffers; true in a condition if there are any within the capacity.

    Attributes
    ----------
    status : {"optimal", "feasible", "infeasible", "unknown"}
        No arena is smaller, or the capacity holds it; a placement, perhaps not the smallest; proved that there is none
        within the capacity, or that fixed buffers share bytes; none within the capacity was found.
    buffers : sequence of Buffer
        As they were given.
    offsets : sequence of int
        One for each buffer; empty if infeasible. If unknown, those of the smallest arena found.
    arena, bound : int
        Bytes: the end of the highest buffer, and what no arena is smaller than.
    seconds : float
    work : int
        Units of work done.
    schedule : Schedule or None
        Where a schedule was placed, that schedule with its `arena`; None if that is above the schedule's budget.
    capacities : mapping of str to int
        The memories, where there are several, with their bytes. Then `status` is about the cost.
    banks : sequence of str
        The memory that each buffer lies in.
    cost, cost_bound : int
        The sum of the buffers' costs, and a lower bound on it.
    """

    status: Literal["optimal", "feasible", "infeasible", "unknown"]
    buffers: Sequence[Buffer]
    offsets: Sequence[int]
    arena: int
    bound: int
    seconds: float
    work: int
    schedule: Schedule | None = None
    capacities: Mapping[str, int] = field(default_factory=dict)
    banks: Sequence[str] = ()
    cost: int = 0
    cost_bound: int = 0

    def __bool__(self) -> bool:
        return self.status in ("optimal", "feasible")

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the buffers with their offsets as google/minimalloc's CSV, with several memories as a remora-banks."""
        rows, offsets = [_row(buffer) for buffer in self.buffers], list(self.offsets)
        if self.capacities:
            names = list(self.capacities)
            placed = [names.index(bank) for bank in self.banks]
            text = _engine.write_banks(rows, _bank_rows(self.buffers, self.capacities), placed, offsets)
        else:
            text = _engine.write_buffers(rows, offsets)
        write_text(path, text)


def load_buffers(path: str | os.PathLike[str]) -> list[Buffer]:
    """Reads a table of buffers, google/minimalloc's CSV (docs/guide/place.md).

    Raises
    ------
    InputError
        With the file and the line of the first fault.
    OSError
        If the file cannot be read.
    """
    with open(file_path(path), "rb") as file:
        return [_buffer(row) for row in _engine.read_buffers(file.read(), file_path(path))]


def load_banks(path: str | os.PathLike[str]) -> tuple[list[Buffer], dict[str, int]]:
    """Reads a remora-banks: its buffers, and the capacities of its memories, as `place` takes them.

    Raises
    ------
    InputError
        With the file and the path of the first fault.
    OSError
        If the file cannot be read.
    """
    with open(file_path(path), "rb") as file:
        rows, (banks, choices) = _engine.read_banks(file.read(), file_path(path))
    names = [name for name, _ in banks]
    buffers = [
        replace(_buffer(row), banks={names[number]: cost for number, cost in costs})
        for row, costs in zip(rows, choices, strict=True)
    ]
    return buffers, dict(banks)


def place(
    what: Iterable[Buffer] | Schedule,
    *,
    capacity: Budget | None = None,
    banks: Mapping[str, SupportsIndex] | None = None,
    alignment: SupportsIndex | None = None,
    heuristics: bool = False,
    limits: Limits | None = None,
    stop: threading.Event | None = None,
    **options: Unpack[LimitWords],
) -> Placement:
    """Gives buffers, or the tensors and workspaces of a given schedule, offsets in one arena.

    No two that are alive at one time share a byte. `solve` with ``addresses=True`` chooses recomputes and addresses
    together. Ctrl-C ends the search; the `KeyboardInterrupt` that follows carries the best as its attribute
    ``placement``.

    Parameters
    ----------
    what : iterable of Buffer, or Schedule
    capacity : int or str, optional
        Maximum size of the arena: bytes, or text: ``"12GiB"``, ``"100%"`` of the largest load. By default the smallest
        arena is sought.
    banks : mapping of str to int, optional
        Several memories and the bytes of each: every buffer gets one of its `Buffer.banks`, at the lowest sum of costs.
    alignment : int, optional
        Every offset is a multiple of it, and of the buffer's own alignment; 1, of a schedule 64 by default.
    heuristics : bool
        The fast heuristics alone.
    limits, stop, time_limit, work_limit, threads, seed
        As for `solve`.

    Returns
    -------
    Placement

    Raises
    ------
    InputError
        For an argument that means nothing.

    Examples
    --------
    >>> import remora
    >>> found = remora.place([remora.Buffer("a", 0, 2, 4), remora.Buffer("b", 1, 3, 4), remora.Buffer("c", 2, 4, 4)])
    >>> found.status, found.arena
    ('optimal', 8)
    """
    schedule = what if isinstance(what, Schedule) else None
    aligned = alignment_of(alignment, 1 if schedule is None else SCHEDULE_ALIGNMENT)
    if banks is not None and schedule is not None:
        raise InputError("banks", "are for buffers; a schedule's addresses are in one arena")
    if banks is not None and capacity is not None:
        raise InputError("capacity", "is of one memory; each of the banks has its own")
    if isinstance(what, Schedule):
        rows = _engine.schedule_buffers(schedule_core_of(what), aligned)
        buffers: Sequence[Buffer] = tuple(_buffer(row) for row in rows)
    else:
        buffers = tuple(listed(what, "buffers"))
        rows = [_row(buffer, f"buffers[{place}]") for place, buffer in enumerate(buffers)]
    (found, seconds), interruption = _engine.place(
        rows,
        aligned,
        None if capacity is None else budget_text(capacity, "capacity"),
        None if banks is None else _bank_rows(buffers, banks),
        option_texts(limits, options, "place", LIMITS),
        boolean(heuristics, "heuristics"),
        stop_of(stop),
    )
    placed: Schedule | None = None
    if schedule is not None and found.offsets:
        core = _engine.with_offsets(schedule_core_of(schedule), aligned, found.offsets)
        placed = made_schedule(core, schedule.solved_graph) if core.arena is not None else None
    status: Any = found.status
    placement = Placement(
        status,
        buffers,
        found.offsets,
        found.arena,
        found.lower_bound,
        seconds,
        found.work,
        placed,
        {} if banks is None else {name: integer(size, "banks") for name, size in banks.items()},
        [] if banks is None else [list(banks)[number] for number in found.banks],
        found.cost,
        found.least_cost,
    )
    interrupt(interruption, placement, "placement")
    return placement


def alignment_of(value: SupportsIndex | None, usual: int) -> int:
    """The alignment in bytes; the engine says what is out of range."""
    return usual if value is None else integer(value, "alignment")


def _row(buffer: Buffer, where: str = "buffers") -> Any:
    if not isinstance(buffer, Buffer):
        raise TypeError(f"{where}: must be a remora.Buffer, not {type(buffer).__name__}")
    gaps = [
        (signed(begin, f"{where}.gaps"), signed(end, f"{where}.gaps"))
        for begin, end in _pairs(buffer.gaps, f"{where}.gaps")
    ]
    return (
        string(buffer.id, f"{where}.id"),
        signed(buffer.lower, f"{where}.lower"),
        signed(buffer.upper, f"{where}.upper"),
        integer(buffer.size, f"{where}.size"),
        integer(buffer.alignment, f"{where}.alignment"),
        None if buffer.offset is None else integer(buffer.offset, f"{where}.offset"),
        gaps,
    )


def _bank_rows(buffers: Sequence[Buffer], banks: Mapping[str, SupportsIndex]) -> Any:
    names = {string(name, "banks"): number for number, name in enumerate(banks)}
    choices = []
    for place, buffer in enumerate(buffers):
        costs = dict.fromkeys(names, 0) if buffer.banks is None else buffer.banks
        where = f"buffers[{place}].banks"
        for name in costs:
            if name not in names:
                raise InputError(where, f"there is no bank {name!r}")
        choices.append([(names[name], integer(cost, where)) for name, cost in costs.items()])
    return [(name, integer(size, f"banks[{name!r}]")) for name, size in banks.items()], choices


def _pairs(values: Any, where: str) -> list[tuple[Any, Any]]:
    pairs = [tuple(listed(pair, where)) for pair in listed(values, where)]
    if any(len(pair) != 2 for pair in pairs):
        raise InputError(where, "must be pairs of a beginning and an end")
    return [(pair[0], pair[1]) for pair in pairs]


def _buffer(row: Any) -> Buffer:
    name, lower, upper, size, alignment, offset, gaps = row
    return Buffer(name, lower, upper, size, alignment, offset, tuple(gaps))
