# SPDX-License-Identifier: Apache-2.0
"""Axes of ops: the loops along which an op may be computed in slices."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from remora._arguments import integer, signed
from remora.errors import InputError

if TYPE_CHECKING:
    from remora.graph import TensorLike

__all__ = ["Axis", "Cut"]

_MOST = 2**31 - 1


@dataclass(frozen=True)
class Cut:
    """Rows of a tensor that belong to iterations of an axis.

    The tensor consists of equal blocks of `rows` rows of `stride` bytes. Iteration i touches the `length` rows from
    ``i * step + offset`` on, as far as they exist. An output has no window: offset 0, and `length` is `step`.

    Parameters
    ----------
    rows : int, optional
        By default, `step` for each iteration.
    stride : int, optional
        Bytes from one row to the next, in row-major order. By default, the tensor is one block: its outermost
        dimension is cut.
    step, offset : int
        For example a convolution's stride and its negated padding.
    length : int, optional
        For example the size of a convolution's dilated kernel. By default, `step`.
    """

    rows: int | None = None
    stride: int | None = None
    step: int = 1
    offset: int = 0
    length: int | None = None

    def _numbers(self, place: str) -> tuple[int | None, int | None, int, int, int | None]:
        def optional(value: int | None, key: str, most: int = _MOST) -> int | None:
            return None if value is None else integer(value, f"{key} of {place}", most)

        step = integer(self.step, f"step of {place}", _MOST)
        offset = signed(self.offset, f"offset of {place}")
        stride = optional(self.stride, "stride", 2**63 - 1)
        return optional(self.rows, "rows"), stride, step, offset, optional(self.length, "length")


@dataclass(frozen=True)
class Axis:
    """A loop of an op with independent iterations, and what they touch (docs/design/slices.md).

    Parameters
    ----------
    extent : int
        The number of iterations.
    cut : mapping of Tensor, Op or str to Cut, or iterable of Tensor, Op or str
        Inputs and outputs of which iterations touch some rows; of an iterable, row i of the outermost dimension. Inputs
        that are left out are read whole.
    sum : iterable of Tensor, Op or str
        Outputs that are the sum of what the iterations give. All other outputs are cut.
    workspace : int
        Bytes of the op's workspace that each iteration needs; the rest is for any number of iterations.

    Examples
    --------
    >>> import remora
    >>> g = remora.Graph("matmul")
    >>> x, w = g.tensor("x", 64 * 16 * 4), g.tensor("w", 16 * 8 * 4)
    >>> rows = remora.Axis(64, cut=["x", "y"])
    >>> inner = remora.Axis(16, cut={"x": remora.Cut(stride=4), "w": remora.Cut()}, sum=["y"])
    >>> y = g.op("mm", duration=9, inputs=[x, w], outputs={"y": 64 * 8 * 4}, axes=[rows, inner])
    >>> y.axes[1].sum
    (<Tensor 'y', 2.00 KiB>,)
    """

    extent: int
    cut: Mapping[TensorLike, Cut] | Iterable[TensorLike] = ()
    sum: Iterable[TensorLike] = ()
    workspace: int = 0


def rows_of_axes(axes: Iterable[Axis], name_of: Any) -> list[tuple[Any, ...]]:
    """The axes as the engine takes them; `name_of(tensor, place)` is the name of a tensor."""
    rows: list[tuple[Any, ...]] = []
    for i, axis in enumerate(axes):
        place = f"axes[{i}]"
        if not isinstance(axis, Axis):
            raise TypeError(f"{place}: must be an Axis, not {type(axis).__name__}")
        cuts = axis.cut if isinstance(axis.cut, Mapping) else {tensor: Cut() for tensor in _listed(axis.cut, place)}
        for cut in cuts.values():
            if not isinstance(cut, Cut):
                raise TypeError(f"{place}.cut: must have values of type Cut, not {type(cut).__name__}")
        names = [(name_of(tensor, f"{place}.cut"), cut) for tensor, cut in cuts.items()]
        rows.append(
            (
                integer(axis.extent, f"extent of {place}", _MOST),
                [(name, *cut._numbers(f"{place}.cut of {name!r}")) for name, cut in names],
                [name_of(tensor, f"{place}.sum") for tensor in _listed(axis.sum, place)],
                integer(axis.workspace, f"workspace of {place}"),
            )
        )
    return rows


def _listed(things: Iterable[TensorLike], place: str) -> Iterable[TensorLike]:
    if isinstance(things, (str, bytes)) or not isinstance(things, Iterable):
        raise InputError(place, f"must have a list of tensors, not {things!r}")
    return things
