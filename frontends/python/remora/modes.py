# SPDX-License-Identifier: Apache-2.0
"""Several ways to run an op: modes of duration, workspace, output sizes and inputs (docs/design/model.md)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, SupportsIndex

from remora._arguments import count, integer, signed
from remora.graph import Graph, OpLike, TensorLike, listed, op_number, tensor_number

__all__ = ["InnerPeak", "Mode", "Modes", "OpModes"]


@dataclass(frozen=True)
class InnerPeak:
    """A moment inside a compute.

    Attributes
    ----------
    workspace : int
        Bytes in addition to the resident ones, which include all inputs and outputs; negative if some of those are not
        needed.
    freed : iterable of Tensor, Op or str
        Inputs that are no longer needed when the mode runs: released if no later op uses them.
    """

    workspace: SupportsIndex
    freed: Iterable[TensorLike] = ()


@dataclass(frozen=True)
class Mode:
    """One way to run an op.

    Attributes
    ----------
    duration : int
        In the unit of the graph.
    output_sizes : sequence of int
        Bytes of each output, in the order of the op's outputs.
    workspace : int
        Bytes; not read where there are inner peaks.
    unread : iterable of Tensor, Op or str
        Inputs of the op that this mode does not read.
    computes : int
        What a compute by this mode weighs against the op's ``most_computes``.
    inner : sequence of InnerPeak
        The memory of a compute is the most of these.
    """

    duration: SupportsIndex
    output_sizes: Sequence[SupportsIndex]
    workspace: SupportsIndex = 0
    unread: Iterable[TensorLike] = ()
    computes: SupportsIndex = 1
    inner: Sequence[InnerPeak] = ()


@dataclass(frozen=True)
class OpModes:
    """Other ways to run an op than mode 0, which is the graph's own.

    Attributes
    ----------
    further : sequence of Mode or None
        Modes 1, 2, ...; None where this op lacks the mode.
    follows : Op, str or int, optional
        A producer of one of the op's inputs: each compute takes the mode of that one's compute which serves it.
    unread, computes, inner
        Of mode 0, as of a `Mode`.
    most_computes : int, optional
        What the op's computes may weigh together.
    """

    further: Sequence[Mode | None] = ()
    follows: OpLike | None = None
    unread: Iterable[TensorLike] = ()
    computes: SupportsIndex = 1
    inner: Sequence[InnerPeak] = ()
    most_computes: SupportsIndex | None = None


Modes = Mapping[OpLike, OpModes | Sequence[Mode | None]]
"""Further modes of some ops; a sequence lists modes 1, 2, ..."""


def mode_rows(graph: Graph, modes: Modes | None) -> list[Any]:
    """The modes as the engine takes them, or the exception that names what is wrong."""
    if modes is None:
        return []
    if not isinstance(modes, Mapping):
        raise TypeError(f"modes: must be a mapping of ops to modes, not {type(modes).__name__}")
    rows = []
    for op, given in modes.items():
        place = f"modes[{op!r}]"
        own = given if isinstance(given, OpModes) else OpModes(tuple(listed(given, place)))
        rows.append(
            (
                op_number(graph, op, "modes"),
                [
                    None if mode is None else _mode_row(graph, mode, f"{place}.further[{number}]")
                    for number, mode in enumerate(listed(own.further, f"{place}.further"))
                ],
                -1 if own.follows is None else op_number(graph, own.follows, f"{place}.follows"),
                _tensors(graph, own.unread, f"{place}.unread"),
                count(own.computes, f"{place}.computes"),
                _peaks(graph, own.inner, f"{place}.inner"),
                count(own.most_computes, f"{place}.most_computes"),
            )
        )
    return rows


def _mode_row(graph: Graph, mode: Mode, place: str) -> tuple[Any, ...]:
    if not isinstance(mode, Mode):
        raise TypeError(f"{place}: must be a remora.Mode or None, not {type(mode).__name__}")
    return (
        integer(mode.duration, f"{place}.duration"),
        integer(mode.workspace, f"{place}.workspace"),
        [integer(size, f"{place}.output_sizes") for size in listed(mode.output_sizes, f"{place}.output_sizes")],
        _tensors(graph, mode.unread, f"{place}.unread"),
        count(mode.computes, f"{place}.computes"),
        _peaks(graph, mode.inner, f"{place}.inner"),
    )


def _tensors(graph: Graph, tensors: Iterable[TensorLike], place: str) -> list[int]:
    return [tensor_number(graph, tensor, place) for tensor in listed(tensors, place)]


def _peaks(graph: Graph, peaks: Sequence[InnerPeak], place: str) -> list[tuple[int, list[int]]]:
    rows = []
    for peak in listed(peaks, place):
        if not isinstance(peak, InnerPeak):
            raise TypeError(f"{place}: must be remora.InnerPeak, not {type(peak).__name__}")
        rows.append((signed(peak.workspace, f"{place}.workspace"), _tensors(graph, peak.freed, f"{place}.freed")))
    return rows
