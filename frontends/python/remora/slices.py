# SPDX-License-Identifier: Apache-2.0
"""Slices: parts of a graph that are computed in pieces."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from remora._arguments import boolean, integer, string

if TYPE_CHECKING:
    from remora import _engine
    from remora.graph import Op

__all__ = ["SliceCost", "SlicedRegion", "WithoutSlices"]

Slices = str | Iterable[str] | None
"""``"auto"``, regions (``"loss=8@0"``), or nothing."""


@dataclass(frozen=True)
class SliceCost:
    """The cost of slices beyond their share of an op's duration.

    Attributes
    ----------
    overhead : int
        Duration added to each slice of an op that is not free, such as the launch of a kernel.
    bandwidth : int
        Bytes that are read or written in a unit of duration, where a slice adds to a sum or copies a temporary; 0 if
        that costs nothing.
    temporaries : bool
        If kernels cannot write into a part of a tensor: the slice then counts as workspace, and is copied.
    copies : bool
        If kernels cannot read a part of a tensor: the rows that a slice reads of it are copied, which counts likewise.
    """

    overhead: int = 0
    bandwidth: int = 0
    temporaries: bool = False
    copies: bool = False


@dataclass(frozen=True)
class SlicedRegion:
    """Ops that are computed in slices.

    Attributes
    ----------
    parts : tuple of mapping of Op to int
        Ops that run together, slice by slice, each with the number of the axis along which it is cut. The ops are those
        of the graph that was solved.
    slices : int
        The number of slices.
    saved_peak, saved_minimum : int
        Bytes by which the region lowers the peak without recomputation, and the lower bound on feasible budgets, of the
        graph with the regions before it.
    cost : int
        By which it raises the duration of all ops once.
    """

    parts: tuple[Mapping[Op, int], ...]
    slices: int
    saved_peak: int
    saved_minimum: int
    cost: int

    @property
    def ops(self) -> tuple[Op, ...]:
        """All ops of the region."""
        return tuple(op for part in self.parts for op in part)


@dataclass(frozen=True)
class WithoutSlices:
    """The answer to the same question without slices.

    Attributes
    ----------
    status : {"optimal", "feasible", "infeasible", "unknown"}
    duration : int
        Of its schedule; 0 if there is none.
    bound : int
        No schedule without slices has a smaller duration.
    """

    status: Literal["optimal", "feasible", "infeasible", "unknown"]
    duration: int
    bound: int


@dataclass(frozen=True)
class SliceSource:
    """The source of an op or a tensor of a graph in slices.

    number: of the op or tensor of the graph that was solved; slice: from 0, -1 of what is not cut; first and last: the
    half-open range of iterations, or of the bytes of each block. A tensor that slices assemble or add up has none.
    """

    number: int
    slice: int
    first: int
    last: int


def sources_of(schedule: _engine.Schedule) -> tuple[list[SliceSource], list[SliceSource]]:
    """The sources of all ops and all tensors of a schedule's graph in slices."""
    ops, tensors = schedule.slice_sources()
    return [SliceSource(*row) for row in ops], [SliceSource(*row) for row in tensors]


def slice_words(slices: Slices) -> list[str]:
    """The words as the engine takes them."""
    if slices is None:
        return []
    if isinstance(slices, str):
        return [slices]
    return [string(word, "slices") for word in slices]


def slice_run(cost: SliceCost | None) -> tuple[int, int, bool, bool]:
    """The figures as the engine takes them."""
    if cost is None:
        return 0, 0, False, False
    if not isinstance(cost, SliceCost):
        raise TypeError(f"slice_cost: must be a remora.SliceCost, not {type(cost).__name__}")
    return (
        integer(cost.overhead, "slice_cost.overhead"),
        integer(cost.bandwidth, "slice_cost.bandwidth"),
        boolean(cost.temporaries, "slice_cost.temporaries"),
        boolean(cost.copies, "slice_cost.copies"),
    )
