# SPDX-License-Identifier: Apache-2.0
"""Addresses: where buffers lie in one block of memory, the arena (docs/place.md)."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import index
from typing import TYPE_CHECKING, Any, Literal, SupportsFloat, SupportsIndex

from remora import _engine
from remora._arguments import Budget, boolean, budget_text, file_path, integer, string, write_text
from remora.errors import InputError
from remora.graph import Graph, Tensor, _listed, _tensor

if TYPE_CHECKING:
    import threading

    from remora.schedule import Schedule

__all__ = ["Arena", "Buffer", "Placement", "load_buffers", "place"]

SCHEDULE_ALIGNMENT = 64
"""Bytes: of a schedule's addresses by default."""


@dataclass(frozen=True)
class Arena:
    """Where a schedule's tensors and workspaces lie; what has no bytes lies nowhere, fixed memory elsewhere.

    Attributes
    ----------
    size, alignment : int
        Bytes: the end of what lies highest, and what every offset is a multiple of.
    inputs : mapping of Tensor to int
        Offsets of the graph's inputs, throughout.
    offsets : sequence of mapping of Tensor to int
        For each step the offsets of the tensors that it allocates.
    workspaces : sequence of int or None
        For each step the offset of its workspace.
    """

    size: int
    alignment: int
    inputs: Mapping[Tensor, int]
    offsets: Sequence[Mapping[Tensor, int]]
    workspaces: Sequence[int | None]


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
    """

    id: str
    lower: int
    upper: int
    size: int
    alignment: int = 1
    offset: int | None = None
    gaps: Sequence[tuple[int, int]] = ()


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
    """

    status: Literal["optimal", "feasible", "infeasible", "unknown"]
    buffers: Sequence[Buffer]
    offsets: Sequence[int]
    arena: int
    bound: int
    seconds: float
    work: int
    schedule: Schedule | None = None

    def __bool__(self) -> bool:
        return self.status in ("optimal", "feasible")

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the buffers with their offsets as google/minimalloc's CSV, whole or not at all."""
        write_text(path, _engine.write_buffers([_row(buffer) for buffer in self.buffers], list(self.offsets)))


def load_buffers(path: str | os.PathLike[str]) -> list[Buffer]:
    """Reads a table of buffers, google/minimalloc's CSV (docs/place.md).

    Raises
    ------
    InputError
        With the file and the line of the first fault.
    OSError
        If the file cannot be read.
    """
    with open(file_path(path), "rb") as file:
        return [_buffer(row) for row in _engine.read_buffers(file.read(), file_path(path))]


def place(
    what: Iterable[Buffer] | Schedule,
    *,
    capacity: Budget | None = None,
    alignment: SupportsIndex | None = None,
    time_limit: SupportsFloat | None = None,
    work_limit: SupportsIndex | None = None,
    threads: SupportsIndex | None = None,
    seed: SupportsIndex | None = None,
    heuristics: bool = False,
    stop: threading.Event | None = None,
) -> Placement:
    """Gives buffers, or the tensors and workspaces of a given schedule, offsets in one arena.

    No two that are alive at one time share a byte. `solve` with ``addresses=True`` chooses recomputes and addresses
    together. Ctrl-C ends the search; the `KeyboardInterrupt` that follows carries the best as its attribute
    ``placement``.

    Parameters
    ----------
    what : iterable of Buffer, or Schedule
    capacity : int or str, optional
        What the arena may take: bytes, or text: ``"12GiB"``, ``"100%"`` of the largest load. By default the
        smallest arena is sought.
    alignment : int, optional
        Every offset is a multiple of it, and of the buffer's own alignment; 1, of a schedule 64 by default.
    time_limit, work_limit, threads, seed, stop
        As for `solve`.
    heuristics : bool
        The fast heuristics alone.

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
    from remora.schedule import Schedule
    from remora.solving import _asking, _interrupt, _search_options

    schedule = what if isinstance(what, Schedule) else None
    aligned = alignment_of(alignment, 1 if schedule is None else SCHEDULE_ALIGNMENT)
    if isinstance(what, Schedule):
        rows = _engine.schedule_buffers(what._answer, aligned)
        buffers: Sequence[Buffer] = tuple(_buffer(row) for row in rows)
    else:
        buffers = tuple(_listed(what, "buffers"))
        rows = [_row(buffer, f"buffers[{place}]") for place, buffer in enumerate(buffers)]
    found, interruption = _engine.place(
        rows,
        aligned,
        None if capacity is None else budget_text(capacity, "capacity"),
        _search_options({}, time_limit, work_limit, threads, seed, None),
        boolean(heuristics, "heuristics"),
        _asking(stop),
    )
    placed: Schedule | None = None
    if schedule is not None and found.offsets:
        answer = _engine.with_offsets(schedule._answer, aligned, found.offsets)
        placed = Schedule._of(answer, schedule.graph) if answer.arena is not None else None
    status: Any = found.status
    placement = Placement(
        status, buffers, found.offsets, found.arena, found.lower_bound, found.seconds, found.work, placed
    )
    _interrupt(interruption, placement, "placement")
    return placement


def alignment_of(value: SupportsIndex | None, usual: int) -> int:
    """The alignment in bytes; the engine says what is out of range."""
    return usual if value is None else integer(value, "alignment")


def arena_of(answer: _engine.Answer, graph: Graph) -> Arena | None:
    """A schedule's addresses, if it has any."""
    if answer.arena is None:
        return None
    alignment, size, inputs, steps = answer.arena
    return Arena(
        size,
        alignment,
        _named(graph, inputs),
        tuple(_named(graph, outputs) for outputs, _ in steps),
        tuple(workspace for _, workspace in steps),
    )


def _named(graph: Graph, rows: Iterable[tuple[int, int]]) -> dict[Tensor, int]:
    return {_tensor(graph, number): offset for number, offset in rows}


def _row(buffer: Buffer, where: str = "buffers") -> Any:
    if not isinstance(buffer, Buffer):
        raise TypeError(f"{where}: must be a remora.Buffer, not {type(buffer).__name__}")
    gaps = [
        (_time(begin, f"{where}.gaps"), _time(end, f"{where}.gaps"))
        for begin, end in _pairs(buffer.gaps, f"{where}.gaps")
    ]
    return (
        string(buffer.id, f"{where}.id"),
        _time(buffer.lower, f"{where}.lower"),
        _time(buffer.upper, f"{where}.upper"),
        integer(buffer.size, f"{where}.size"),
        integer(buffer.alignment, f"{where}.alignment"),
        None if buffer.offset is None else integer(buffer.offset, f"{where}.offset"),
        gaps,
    )


def _pairs(values: Any, where: str) -> list[tuple[Any, Any]]:
    pairs = [tuple(_listed(pair, where)) for pair in _listed(values, where)]
    if any(len(pair) != 2 for pair in pairs):
        raise InputError(where, "must be pairs of a beginning and an end")
    return [(pair[0], pair[1]) for pair in pairs]


def _time(value: SupportsIndex, where: str) -> int:
    try:
        number = index(value)
    except TypeError:
        raise TypeError(f"{where}: must be an integer, not {type(value).__name__}") from None
    if not -(2**63) <= number < 2**63:
        raise InputError(where, f"is beyond 64 bits: {number}")
    return number


def _buffer(row: Any) -> Buffer:
    name, lower, upper, size, alignment, offset, gaps = row
    return Buffer(name, lower, upper, size, alignment, offset, tuple(gaps))
