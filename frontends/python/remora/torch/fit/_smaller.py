# SPDX-License-Identifier: Apache-2.0
"""Extrapolates ops that are too large to run while planning on this machine from runs on fewer rows.

Ops that do the same for each row of their largest tensors (samples of a batch, tokens, the longest side of a product)
use so many bytes per row, and a constant. So two runs on a part of the rows give the memory for all of them, and a
third run has to lie on the same line to the byte; otherwise the op runs as it is. Its time grows with its rows.

    _log_softmax, 8192 x 50257: 3.3 GB     runs with 1200, 800 and 400 rows, extrapolated to 8192

Convolutions run as they are, at any size: their kernels and with them their workspaces are chosen by size, so a smaller
one says nothing about a larger one. Extrapolations are not kept with measurements: where the step itself runs, every op
is measured.
"""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils import _pytree as pytree

from ..capture.graph import tensors_in
from ..cost.calls import Call, Cost, memory_of

SPARE = 2
"""Estimate of an op's memory with its workspace, as a multiple of the bytes that it reads and writes."""
_BY_ROW = (
    "_adaptive_avg_pool2d",
    "_log_softmax",
    "_native_batch_norm_legit_functional",
    "_safe_softmax",
    "_softmax",
    "avg_pool2d",
    "bmm",
    "cat",
    "max_pool2d_with_indices",
    "native_batch_norm",
    "native_layer_norm",
    "upsample_bilinear2d",
    "upsample_nearest2d",
)
"""These ops, and those of their backward pass, do the same for each row of their largest tensors; so do all that work
number by number."""
_SIDES: dict[str, dict[int, int | None]] = {
    "embedding": {0: 0},
    "embedding_dense_backward": {2: None},
    "nll_loss_backward": {1: 1},
    "nll_loss_forward": {0: 1},
}
"""These are cut in the number of words or classes: of which argument that is which dimension, or the number itself."""


class _NotCut(Exception):
    """A call cannot be cut."""


@dataclass(frozen=True)
class Rows:
    """So many rows of a call, and its arguments with fewer of them."""

    count: int
    cut: Callable[[int], Any]


class Smaller:
    """Costs of calls that may use more bytes than a limit, extrapolated from parts of them that use less."""

    def __init__(self, limit: int) -> None:
        self.limit = limit

    def __call__(self, call: Call) -> Cost | None:
        """The cost of a call; nothing where it may be run as it is, or has to."""
        rows = rows_of(call)
        if rows is None or self._fits(call, call.given):
            return None
        with contextlib.suppress(_NotCut):
            return self._extrapolated(call, rows)
        return None

    def _fits(self, call: Call, given: Any) -> bool:
        with torch.no_grad():  # of fake tensors: nothing is computed
            made = call.target(*given[0], **given[1])
        storages = {t.untyped_storage()._cdata: int(t.untyped_storage().nbytes()) for t in tensors_in((given, made))}
        return SPARE * sum(storages.values()) <= self.limit

    def _extrapolated(self, call: Call, rows: Rows) -> Cost | None:
        low, high = 0, rows.count
        while low + 1 < high:  # the most rows that fit
            middle = (low + high) // 2
            low, high = (middle, high) if self._fits(call, rows.cut(middle)) else (low, middle)
        third = low // 3
        if third == 0:
            return None
        parts = [copy.copy(call) for _ in range(3)]
        for i, part in enumerate(parts):
            part.given = rows.cut((i + 1) * third)
        one, two, three = ([workspace, *made] for workspace, made in map(memory_of, parts))
        more = [b - a for a, b in zip(one, two, strict=True)]
        if [b + m for b, m in zip(two, more, strict=True)] != three or any(m % third for m in more):
            return None
        workspace, *made = (c + m // third * (rows.count - 3 * third) for c, m in zip(three, more, strict=True))
        duration = round(parts[2].time() * rows.count / (3 * third))
        return Cost(duration, workspace, tuple(made), draws=parts[2].draws)


def rows_of(call: Call) -> Rows | None:
    """The rows of a call, where it does the same for each."""
    if not isinstance(call.target, torch._ops.OpOverload):
        return None
    name = call.target.overloadpacket.__name__
    given, options = call.given
    if name in ("mm", "addmm"):
        count, sides = _longest_side(given)
    elif name in _SIDES:
        count, sides = 0, _SIDES[name]
        for place, side in sides.items():
            count = given[place] if side is None else int(given[place].shape[side])
    else:
        return _first_dimension(call, name)

    def cut(left: int) -> Any:
        cells = list(given)
        for place, side in sides.items():
            cells[place] = left if side is None else _less(cells[place], left, side)
        return tuple(cells), options

    return Rows(count, cut)


def _longest_side(given: Sequence[Any]) -> tuple[int, dict[int, int | None]]:
    """The longest of the three sides of a product of matrices; of which arguments it is which dimension."""
    place = len(given) - 2
    added = given[0] if place else None
    (height, inner), width = given[place].shape, given[place + 1].shape[1]
    sides: list[tuple[int, dict[int, int | None]]] = [
        (int(height), {place: 0}),
        (int(inner), {place: 1, place + 1: 0}),
        (int(width), {place + 1: 1}),
    ]
    if added is not None and added.dim() == 2 and added.shape[0] > 1:
        sides[0][1][0] = 0
    if added is not None and added.shape[-1] > 1:
        sides[2][1][0] = added.dim() - 1
    return max(sides, key=lambda side: side[0])


def _first_dimension(call: Call, name: str) -> Rows | None:
    by_number = torch.Tag.pointwise in call.target.tags or name.startswith("native_dropout")
    if not by_number and name.removesuffix("_data").removesuffix("_backward") not in _BY_ROW:
        return None
    tensors = tensors_in(call.given)
    most = max((t.dim() for t in tensors), default=0)
    if most < 2:
        return None
    shape = max([int(n) for n in t.shape] for t in tensors if t.dim() == most)
    place = shape.index(max(shape)) if by_number else 0
    return Rows(shape[place], lambda left: _cut(call.given, place, shape, left))


def _cut(given: Any, place: int, shape: Sequence[int], left: int) -> Any:
    """A dimension of `shape` is cut, in tensors that are broadcast to it too, and in lists of such sizes."""

    def less(leaf: Any) -> Any:
        if isinstance(leaf, torch.Tensor):
            own = place - (len(shape) - leaf.dim())
            return _less(leaf, left, own) if own >= 0 and leaf.shape[own] == shape[place] else leaf
        if _is_sizes(leaf) and len(leaf) == len(shape) and leaf[place] == shape[place]:
            return [left if i == place else n for i, n in enumerate(leaf)]
        return leaf

    return pytree.tree_map(less, given, is_leaf=_is_sizes)


def _is_sizes(leaf: Any) -> bool:
    return isinstance(leaf, (list, tuple)) and bool(leaf) and all(type(n) is int for n in leaf)


def _less(tensor: torch.Tensor, left: int, place: int = 0) -> torch.Tensor:
    """A fake tensor like another, shorter in one dimension, which lies as densely in the same order."""
    if _strides(tensor, tensor.shape) != list(tensor.stride()):
        raise _NotCut
    shape = [left if i == place else int(n) for i, n in enumerate(tensor.shape)]
    return tensor.new_empty_strided(shape, _strides(tensor, shape))


def _strides(tensor: torch.Tensor, shape: Sequence[int]) -> list[int]:
    """The strides of a dense tensor whose dimensions lie in the order of another's; what is expanded stays so."""
    found, step = list(tensor.stride()), 1
    order = sorted(range(tensor.dim()), key=lambda i: (tensor.stride(i), tensor.shape[i], -i))
    for i in order:
        if tensor.stride(i):
            found[i], step = step, step * int(shape[i])
    return found
