# SPDX-License-Identifier: Apache-2.0
"""Axes of a captured step's ops (docs/design/slices.md): what a range of iterations touches of each storage.

The loops of an op (`problem.nests`) name dimensions of tensors; an axis has rows of storages. Strides say which rows
those are, so a view needs no rule, whether it splits, merges or permutes dimensions:

    y [b, t, c] in a storage of b * t * c     loops b and t as one: rows b * t, stride c, one block
    y.transpose(0, 1)                         loop t: rows t, stride c, b blocks

Loops become one axis where all tensors have them next to each other. An op whose nodes work in place, one after the
other, has the axes that all of them have.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import torch
from torch import fx

import remora

from ..capture.graph import Op, Storage
from ..measure import rounded
from .nests import Call, Dims, Nest, Place, Rule, Values, chains, nest_of

Chain = tuple[str, ...]
"""Loops as one, the outermost first."""


class Storages(Values, Protocol):
    """Ops on storages, as a `StepGraph` has them."""

    ops: list[Op]
    storages: list[Storage]
    device: torch.device

    def storage_of(self, tensor: torch.Tensor) -> int:
        """The number of a fake tensor's storage."""


@dataclass(frozen=True)
class Rows:
    """Rows of a storage that iterations of an axis touch: iteration i `length` of them from `offset` + i * step on.

    rows: of each block; stride: bytes from one row to the next; whole: bytes of the storage as they are asked for.
    """

    rows: int
    stride: int
    offset: int
    whole: int
    step: int = 1
    length: int = 1

    @property
    def block(self) -> int:
        """Bytes of each block."""
        return self.rows * self.stride

    @property
    def cut(self) -> remora.Cut:
        """The same for the engine."""
        return remora.Cut(self.rows, self.stride, self.step, self.offset, self.length)


@dataclass
class OpAxis:
    """An axis of an op. `chains`: by node of the op, its loops; `cuts` and `sums`: by storage."""

    extent: int
    nests: list[Nest] = field(default_factory=list)
    chains: list[Chain] = field(default_factory=list)
    cuts: dict[int, Rows | None] = field(default_factory=dict)  # None: read as a whole
    sums: list[int] = field(default_factory=list)


def axes_of(step: Storages, rules: Mapping[str, Rule] | None = None, is_joined: bool = True) -> dict[Op, list[OpAxis]]:
    """The axes of each op by its `rules`; ops that draw random numbers, run once or change anything have none.

    `is_joined`: neighboring loops form one axis.
    """
    return {op: found for op in step.ops if (found := _axes(step, op, rules, is_joined))}


def engine_axes(axes: Sequence[OpAxis], names: Mapping[int, Any], workspace: int) -> list[remora.Axis]:
    """Axes as the engine takes them; `names`: the tensor of each storage that an op makes."""
    return [
        remora.Axis(
            axis.extent,
            {names[s]: rows.cut for s, rows in axis.cuts.items() if rows and s in names},
            [names[s] for s in axis.sums if s in names],
            workspace // axis.extent,
        )
        for axis in axes
    ]


def positions_of(dims: Dims, chain: Chain) -> list[int] | None:
    """The dimensions that have a chain's loops, if they have all of them, in order and next to each other.

    Empty if they have none; None if they have some, or have them otherwise.
    """
    found = [d for d, loop in enumerate(dims) if loop in chain]
    if not found:
        return []
    row = list(range(found[0], found[0] + len(chain)))
    return row if found == row and tuple(dims[d] for d in row) == chain else None


def rows_read(nest: Nest, chain: Chain, place: Place, value: torch.Tensor) -> tuple[list[int] | None, Rows | None]:
    """The dimensions of an input that a chain of loops cuts, as `positions_of`, and the rows that iterations read."""
    dims = nest.inputs.get(place)
    window = next((w for loop, w in nest.windows.get(place, {}).items() if loop in chain), None)
    if window is not None and len(chain) > 1:
        return None, None
    positions = [window.dim] if window is not None else positions_of(dims, chain) if dims is not None else []
    rows = rows_of(value, positions) if positions else None
    if window is not None and rows is not None:
        rows = replace(rows, offset=rows.offset + window.offset, step=window.step, length=window.length)
    return positions, rows


def rows_of(value: torch.Tensor, positions: Sequence[int]) -> Rows | None:
    """The rows of a tensor's storage that iterations over some of its neighboring dimensions touch; None if no such."""
    size, stride = [int(n) for n in value.shape], [int(n) for n in value.stride()]
    if any(stride[d] != stride[d + 1] * size[d + 1] for d in positions[:-1]):
        return None
    whole = int(value.untyped_storage().nbytes()) // value.itemsize
    row, count = stride[positions[-1]], math.prod(size[d] for d in positions)
    others = [d for d in range(value.dim()) if d not in positions and size[d] > 1 and stride[d] > 0]
    outer = [d for d in others if stride[d] >= row]
    block = min((stride[d] for d in outer), default=whole)
    last = sum((size[d] - 1) * stride[d] for d in others if d not in outer)
    offset = int(value.storage_offset())
    if row < 1 or block < 1 or block % row or whole % block or any(stride[d] % block for d in outer):
        return None
    first = offset % block // row
    if offset % row + last >= row or first + count > block // row:
        return None
    return Rows(block // row, row * value.itemsize, first, whole * value.itemsize)


def _axes(step: Storages, op: Op, rules: Mapping[str, Rule] | None, is_joined: bool) -> list[OpAxis]:
    if not op.nodes or op.random or not op.recompute:
        return []
    nests = [nest_of(step, node, rules) for node in op.nodes]
    if any(nest is None for nest in nests):
        return []
    first = op.nodes[0]
    made = step.value[first]
    known = [nest for nest in nests if nest is not None]
    row = enumerate(made if isinstance(made, (list, tuple)) else [made])
    tensors = {i: t for i, t in row if isinstance(t, torch.Tensor)}
    filled = all(i in known[0].same or _is_dense(step, t) for i, t in tensors.items())
    if [step.storage_of(t) for t in tensors.values()] != op.outputs or not filled:
        return []
    longest: dict[str, OpAxis] = {}
    for chain in chains(known[0]):
        before = longest.get(chain[0])
        is_longer = before is None or len(before.chains[0]) < len(chain)
        if is_longer and (is_joined or len(chain) == 1):
            axis = _axis(step, op, known, chain)
            if axis is not None:
                longest[chain[0]] = axis
    return list(longest.values())


def _is_dense(step: Storages, made: torch.Tensor) -> bool:
    """True if a result fills its storage, whose size in the problem is the fake one's."""
    size = int(made.untyped_storage().nbytes())
    is_whole = made.numel() * made.itemsize == size and made.storage_offset() == 0
    there = step.storages[step.storage_of(made)].size
    return bool(is_whole) and size > 0 and rounded(size, step.device) == there


def _axis(step: Storages, op: Op, nests: Sequence[Nest], chain: Chain) -> OpAxis | None:
    """The axis of an op along loops of its first node; None where a tensor is neither cut nor whole nor a sum."""
    axis = OpAxis(_extent(nests[0], chain))
    for i, (node, nest) in enumerate(zip(op.nodes, nests, strict=True)):
        options = [chain] if i == 0 else [c for c in chains(nest) if _extent(nest, c) == axis.extent]
        for own in options:
            if _add_node(step, op, axis, node, nest, own, i == 0):
                break
        else:
            return None
    return axis if any(rows for s, rows in axis.cuts.items() if not step.storages[s].fixed) else None


def _extent(nest: Nest, chain: Chain) -> int:
    return math.prod(nest.extents[loop] for loop in chain)


def _add_node(step: Storages, op: Op, axis: OpAxis, node: fx.Node, nest: Nest, chain: Chain, is_first: bool) -> bool:
    """Adds a node to an axis, whose outputs the first node says; False where the node does not have the axis."""
    cuts, sums = dict(axis.cuts), list(axis.sums)
    made = step.value[node]
    if any(positions_of(dims, chain) is None for dims in nest.sizes.values()):
        return False
    for i, (value, dims) in enumerate(
        zip(made if isinstance(made, (list, tuple)) else [made], nest.outputs, strict=True)
    ):
        if not isinstance(value, torch.Tensor):
            continue
        storage = step.storage_of(value)
        if i in nest.same and is_first:
            sums.append(storage)
            continue
        positions = None if dims is None else positions_of(dims, chain)
        if positions is None:
            return False
        rows = rows_of(value, positions) if positions else None
        if positions and (rows is None or rows.rows != axis.extent):
            return False
        if is_first and rows is None:
            sums.append(storage)
        elif is_first:
            cuts[storage] = rows
        elif cuts.get(storage) != rows or rows is None:
            return False
    for place, value in Call(step, node).tensors():
        if value is None:
            continue
        positions, rows = rows_read(nest, chain, place, value)
        if positions is None:
            return False
        if positions and rows is None and any(value.stride(d) for d in positions):
            return False
        storage = step.storage_of(value)
        if storage in op.outputs:
            if rows is None or cuts.get(storage) != rows:
                return False
        elif cuts.setdefault(storage, rows) != rows:
            cuts[storage] = None
    axis.cuts, axis.sums = cuts, sums
    axis.nests.append(nest)
    axis.chains.append(chain)
    return True
