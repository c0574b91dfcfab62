# SPDX-License-Identifier: Apache-2.0
"""Several ways to run an op: modes of duration, workspace, output sizes and inputs (docs/design/model.md)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, SupportsIndex

from remora._arguments import count, integer, signed
from remora.errors import InputError

if TYPE_CHECKING:
    from remora.graph import OpLike, TensorLike

__all__ = ["InnerPeak", "Mode", "OpModes"]

_MOST = 2**63 - 1


@dataclass(frozen=True)
class InnerPeak:
    """A moment inside a compute.

    Attributes
    ----------
    workspace : int
        Bytes in addition to the resident ones, which include all inputs and outputs; negative if some of those are not
        needed.
    freed : iterable of Tensor, Op or str, or of pairs of one and bytes
        Inputs that are no longer needed when the mode runs: released if no later op uses them; of a pair, so many bytes
        at most.
    """

    workspace: SupportsIndex
    freed: Iterable[TensorLike | tuple[TensorLike, SupportsIndex]] = ()


@dataclass(frozen=True)
class Mode:
    """One way to run an op.

    Attributes
    ----------
    duration : int
        In the unit of the graph.
    output_sizes : sequence of int, optional
        Bytes of each output, in the order of the op's outputs; by default those of the graph.
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
    output_sizes: Sequence[SupportsIndex] | None = None
    workspace: SupportsIndex = 0
    unread: Iterable[TensorLike] = ()
    computes: SupportsIndex = 1
    inner: Sequence[InnerPeak] = ()


@dataclass(frozen=True)
class OpModes:
    """Other ways to run an op than mode 0, its own duration, workspace and sizes.

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


def modes_row(
    given: OpModes | Iterable[Mode | None] | None,
    tensor: Callable[[TensorLike, str], int],
    op: Callable[[OpLike, str], int],
) -> tuple[Any, ...] | None:
    """The modes as the engine takes them, or the exception that says what is wrong; `tensor` and `op` give numbers."""
    if given is None:
        return None
    own = given if isinstance(given, OpModes) else OpModes(tuple(_listed(given, "modes")))
    return (
        [
            None if mode is None else _mode_row(mode, tensor, f"modes[{number}]")
            for number, mode in enumerate(_listed(own.further, "modes"))
        ],
        -1 if own.follows is None else op(own.follows, "follows"),
        _tensors(own.unread, tensor, "unread"),
        count(own.computes, "computes"),
        _peaks(own.inner, tensor, "inner"),
        count(own.most_computes, "most_computes"),
    )


def modes_of(row: Any, tensor: Callable[[int], TensorLike], op: Callable[[int], OpLike]) -> OpModes | None:
    """The modes that the engine's numbers say."""
    if row is None:
        return None

    def peaks(rows: Any) -> tuple[InnerPeak, ...]:
        return tuple(
            InnerPeak(size, tuple(tensor(t) if most == _MOST else (tensor(t), most) for t, most in freed))
            for size, freed in rows
        )

    further, follows, own_unread, own_computes, own_inner, most_computes = row
    return OpModes(
        tuple(
            mode
            and Mode(
                duration=mode[0],
                workspace=mode[1],
                output_sizes=tuple(mode[2]),
                unread=tuple(map(tensor, mode[3])),
                computes=mode[4],
                inner=peaks(mode[5]),
            )
            for mode in further
        ),
        None if follows < 0 else op(follows),
        tuple(map(tensor, own_unread)),
        own_computes,
        peaks(own_inner),
        most_computes,
    )


def _mode_row(mode: Mode, tensor: Callable[[TensorLike, str], int], place: str) -> tuple[Any, ...]:
    if not isinstance(mode, Mode):
        raise TypeError(f"{place}: must be a remora.Mode or None, not {type(mode).__name__}")
    sizes = mode.output_sizes
    return (
        integer(mode.duration, f"{place}.duration"),
        integer(mode.workspace, f"{place}.workspace"),
        None
        if sizes is None
        else [integer(size, f"{place}.output_sizes") for size in _listed(sizes, f"{place}.output_sizes")],
        _tensors(mode.unread, tensor, f"{place}.unread"),
        count(mode.computes, f"{place}.computes"),
        _peaks(mode.inner, tensor, f"{place}.inner"),
    )


def _tensors(tensors: Iterable[TensorLike], number: Callable[[TensorLike, str], int], place: str) -> list[int]:
    return [number(tensor, place) for tensor in _listed(tensors, place)]


def _peaks(peaks: Sequence[InnerPeak], number: Callable[[TensorLike, str], int], place: str) -> list[Any]:
    rows = []
    for peak in _listed(peaks, place):
        if not isinstance(peak, InnerPeak):
            raise TypeError(f"{place}: must be remora.InnerPeak, not {type(peak).__name__}")
        freed = [one if isinstance(one, tuple) else (one, _MOST) for one in _listed(peak.freed, f"{place}.freed")]
        for one in freed:
            if len(one) != 2:
                raise InputError(f"{place}.freed", f"must have tensors, or pairs of one and bytes, not {one!r}")
        rows.append(
            (
                signed(peak.workspace, f"{place}.workspace"),
                [(number(t, f"{place}.freed"), integer(most, f"{place}.freed")) for t, most in freed],
            )
        )
    return rows


def _listed(things: Iterable[Any], place: str) -> list[Any]:
    if isinstance(things, (str, bytes)) or not isinstance(things, Iterable):
        raise TypeError(f"{place}: must be a list, not {type(things).__name__}")
    return list(things)
