# SPDX-License-Identifier: Apache-2.0
"""A captured graph in the slices that the engine chose: one more graph of ATen ops, which is read like any other.

Each op of a region is called once for each slice, on the rows that the engine names (docs/design/slices.md):

    mm, softmax, dw     becomes     mm of rows 0 .. 255, softmax of those, dw of those, mm of rows 256 .. 511, ...

* A tensor inside the region is a tensor of each slice; whatever reads it lies in it as it lay in the whole.
* Rows of a result that leaves the region are written into one tensor (`slice_scatter`), terms of a sum added up.
  `capture.simplify` makes both work in place. A sum in half precision is added up in float32, and rounded once.

What is not cut stays as it was captured.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx

import remora
from remora.schedule import schedule_core_of
from remora.slices import SliceSource, sources_of

from ..capture.graph import GROWS, SLICE, Op, StepGraph
from .aten import storages_made
from .axes import Chain, OpAxis, positions_of, rows_of
from .nests import Dims, Nest, Place

_ATEN = torch.ops.aten
_HALF = (torch.bfloat16, torch.float16)
_Root = fx.Node | tuple[fx.Node, Any]
"""Where a storage is made: a node, or one result of a node."""


def in_slices(step: StepGraph, axes: Mapping[Op, Sequence[OpAxis]], found: remora.Schedule) -> fx.GraphModule:
    """The graph of a step in the slices of a schedule, whose graph has these axes."""
    return _Rewriting(step, axes, found).result()


@dataclass(frozen=True)
class _Piece:
    """A slice of a storage: a tensor that has bytes `first` to `last` of each block, laid out as in the whole."""

    node: fx.Node
    first: int
    last: int


class _Rewriting:
    def __init__(self, step: StepGraph, axes: Mapping[Op, Sequence[OpAxis]], found: remora.Schedule) -> None:
        self.step, self.found = step, found
        self.graph = fx.Graph()
        self.new: dict[_Root, fx.Node] = {}  # by node of the captured graph
        self.fake: dict[fx.Node, Any] = {}  # by node of the new graph
        self.scheduled = set(step.ops)
        self.pieces: dict[tuple[int, int], _Piece] = {}  # by storage and slice
        self.versions: dict[tuple[int, int], fx.Node] = {}  # what slices have assembled or added up so far
        self.merged: dict[int, fx.Node] = {}  # the last of them, its cut dimensions as one
        parts = [part for region in found.slices for part in region.parts]
        numbers = {op.index: number for part in parts for op, number in part.items()}
        self.axis = {op: axes[step.ops[op]][number] for op, number in numbers.items()}
        self.part = {op.index: i for i, part in enumerate(parts) for op in part}
        self.place = (0, 0)  # the part and the number of the slice that is being written

    def result(self) -> fx.GraphModule:
        """The new graph, in the order of the graph in slices."""
        step = self.step
        for node in step.module.graph.nodes:
            if node.op in ("placeholder", "get_attr"):
                self._copy(node)
        sources, tensors = sources_of(schedule_core_of(self.found))
        storages = dict(enumerate(storages_made(step)))
        last = {s.number: s.slice for s in sources}
        for op, source in zip(self.found.graph.ops, sources, strict=True):
            if source.slice < 0:
                for node in step.ops[source.number].nodes:
                    self._copy(node, is_made=True)
                continue
            read, made = (
                [(storages[s.number], s) for t in row if (s := tensors[t.index]).number in storages]
                for row in (op.inputs, op.outputs)
            )
            self._slice(source, read, made, source.slice == last[source.number])
        for node in step.module.graph.nodes:
            if (node.target is _ATEN.copy_.default and node in step.alias) or node.op == "output":
                self._copy(node)
        module = fx.GraphModule(step.module, self.graph)
        module.meta = dict(step.module.meta)
        return module

    # -- What is not cut ---------------------------------------------------------------------------------------------

    def _copy(self, node: fx.Node, instead: Mapping[_Root, fx.Node] | None = None, is_made: bool = False) -> fx.Node:
        """A node of the captured graph in the new one; `instead`: other values of what it is made from."""
        root = self._root_of(node)
        if instead and root in instead:
            return instead[root]
        if instead and self._base_of(node) not in instead:
            instead = None
        if root in self.new and not instead:
            return self.new[root]
        owner = self.step.owner.get(node)
        assert is_made or owner not in self.scheduled or owner is None, f"{node.name} is read before it is made"
        copied = self.graph.node_copy(node, lambda n: self._copy(n, instead))
        self.fake[copied] = self.step.value.get(self.step.resolve(node))
        if not instead:
            self.new[root] = copied
        return copied

    def _root_of(self, node: fx.Node) -> _Root:
        """The node itself; the same for each node that takes one result of an op."""
        if node.target is operator.getitem:
            source = self.step.resolve(node.args[0])  # type: ignore[arg-type]
            if source in self.step.owner:
                return source, node.args[1]
        return node

    def _base_of(self, node: fx.Node) -> _Root:
        """Where the storage beneath a view is made."""
        node = self.step.resolve(node)
        while node.op == "call_function" and node not in self.step.owner and self._root_of(node) is node:
            node = self.step.resolve(node.all_input_nodes[0])
        return self._root_of(node)

    def _call(self, like: fx.Node, target: Any, *arguments: Any, **named: Any) -> fx.Node:
        """A new call, of the forward or backward part and of the module of another node."""
        node = self.graph.call_function(target, arguments, named)
        given = fx.node.map_arg((arguments, named), lambda n: self.fake[n])
        with self.step.mode, torch.no_grad():
            self.fake[node] = target(*given[0], **given[1])
        node.meta = {**like.meta, "val": self.fake[node], SLICE: self.place}
        return node

    # -- What is cut -------------------------------------------------------------------------------------------------

    def _slice(
        self,
        source: SliceSource,
        read: Sequence[tuple[int, SliceSource]],
        made: Sequence[tuple[int, SliceSource]],
        is_last: bool,
    ) -> None:
        """One slice of an op: its calls, and what becomes of their results."""
        op, axis = self.step.ops[source.number], self.axis[source.number]
        self.place = self.part[source.number], source.slice
        pieces: dict[int, _Piece] = {}
        versions: dict[int, fx.Node] = {}
        for storage, row in read:
            if row.last > row.first:
                pieces[storage] = self.pieces[storage, row.slice]
            elif row.slice >= 0 and storage not in op.outputs:
                versions[storage] = self.versions[storage, row.slice]
        results: dict[int, tuple[_Root, Dims | None, Chain]] = {}
        same: set[int] = set()
        for node, nest, chain in zip(op.nodes, axis.nests, axis.chains, strict=True):
            call = self._called(node, nest, chain, source, pieces, versions)
            value = self.step.value[node]
            for i, dims in enumerate(nest.outputs):
                tensor = value[i] if isinstance(value, (list, tuple)) else value
                if not isinstance(tensor, torch.Tensor):
                    continue
                assert dims is not None or i in nest.same
                is_one = not isinstance(value, (list, tuple))
                storage = self.step.storage_of(tensor)
                result = call if is_one else self._call(node, operator.getitem, call, i)
                rows = axis.cuts.get(storage)
                first, last = (n * (rows.stride if rows else 0) for n in (source.first, source.last))
                if rows is not None:
                    result = self._laid_out(node, result, tensor)
                pieces[storage] = _Piece(result, first, last)
                results[storage] = node if is_one else (node, i), dims, chain
                same |= {storage} if i in nest.same else set()
        for storage, row in made:
            root, dims, chain = results[storage]
            if row.last > row.first:
                self.pieces[storage, row.slice] = pieces[storage]
            elif storage in same:
                self.versions[storage, row.slice] = self.versions.get((storage, 0), pieces[storage].node)
            elif storage in axis.sums:
                self._add(root, storage, row.slice, pieces[storage].node, is_last)
            else:
                self._write(root, storage, pieces[storage].node, positions_of(dims or (), chain) or [], source)
            if (storage, row.slice) in self.versions:
                self.new[root] = self.versions[storage, row.slice]

    def _called(
        self,
        node: fx.Node,
        nest: Nest,
        chain: Chain,
        source: SliceSource,
        pieces: Mapping[int, _Piece],
        versions: Mapping[int, fx.Node],
    ) -> fx.Node:
        """The call of one node on the rows of a slice."""

        def given(place: Place, value: Any) -> Any:
            if place in nest.sizes:
                return self._sized(value, positions_of(nest.sizes[place], chain) or [], source)
            if isinstance(value, (list, tuple)) and not isinstance(place, tuple):
                return [given((place, i), part) for i, part in enumerate(value)]
            if not isinstance(value, fx.Node):
                return value
            positions = positions_of(nest.inputs[place], chain) if place in nest.inputs else []
            assert positions is not None
            found = self._read(node, value, positions, source, pieces, versions)
            whole = self.step.value[self.step.resolve(value)]
            if not _takes_any(node) and whole.is_contiguous() and not self.fake[found].is_contiguous():
                return self._call(node, _ATEN.clone.default, found, memory_format=torch.contiguous_format)
            return found

        arguments = [given(i, value) for i, value in enumerate(node.args)]
        return self._call(node, node.target, *arguments, **{k: given(k, v) for k, v in node.kwargs.items()})

    def _sized(self, value: Any, positions: list[int], source: SliceSource) -> Any:
        """A size, or a list of sizes, of the rows of a slice."""
        sizes = [int(n) for n in (value if isinstance(value, (list, tuple)) else [value])]
        cut = _cut(sizes, positions, source)
        return cut if isinstance(value, (list, tuple)) else cut[0]

    def _read(
        self,
        like: fx.Node,
        node: fx.Node,
        positions: list[int],
        source: SliceSource,
        pieces: Mapping[int, _Piece],
        versions: Mapping[int, fx.Node],
    ) -> fx.Node:
        """The rows that a slice reads of an argument: of its slice, of the rows that exist so far, or of the whole."""
        node = self.step.resolve(node)
        value = self.step.value[node]
        storage = self.step.storage_of(value)
        if storage in pieces:
            return self._in_piece(like, pieces[storage], value, positions, source)
        instead = {self._base_of(node): versions[storage]} if storage in versions else None
        whole = self._copy(node, instead)
        return self._narrow(like, whole, value, positions, source)

    def _narrow(
        self, like: fx.Node, whole: fx.Node, value: torch.Tensor, positions: list[int], source: SliceSource
    ) -> fx.Node:
        """Rows of a tensor."""
        size = [int(n) for n in value.shape]
        cut = _cut(size, positions, source)
        if cut == size:
            return whole
        outer, inner = positions[0], math.prod(cut[d] for d in positions[1:])
        is_inner_whole = cut[outer + 1 : positions[-1] + 1] == size[outer + 1 : positions[-1] + 1]
        if is_inner_whole and source.first % inner == 0 and source.last % inner == 0:
            return self._call(like, _ATEN.slice.Tensor, whole, outer, source.first // inner, source.last // inner)
        merged = self._call(like, _ATEN.view.default, whole, _merged(size, positions))
        rows = self._call(like, _ATEN.slice.Tensor, merged, outer, source.first, source.last)
        return self._call(like, _ATEN.view.default, rows, cut)

    def _in_piece(
        self, like: fx.Node, piece: _Piece, value: torch.Tensor, positions: list[int], source: SliceSource
    ) -> fx.Node:
        """The rows of a view of a storage in a slice of it.

        The slice is made one-dimensional first, which fails where it does not lie as it should.
        """
        rows = rows_of(value, positions) if positions else None
        assert rows is not None, "a slice is read as a whole"
        unit = value.itemsize
        start = (rows.offset + source.first) * rows.stride - piece.first
        count = source.last - source.first
        assert start >= 0 and start + count * rows.stride <= piece.last - piece.first, "a slice lacks rows"
        size = _cut([int(n) for n in value.shape], positions, source)
        block, own = rows.block // unit, (piece.last - piece.first) // unit
        stride = [int(n) if n * unit < rows.block else int(n) // block * own for n in value.stride()]
        for i, d in enumerate(positions):
            stride[d] = rows.stride // unit * math.prod(size[later] for later in positions[i + 1 :])
        offset = int(value.storage_offset())
        begin = offset // block * own + offset % (rows.stride // unit) + start // unit
        there: torch.Tensor = self.fake[piece.node]
        assert there.dtype == value.dtype, "a slice is read as another type"
        if begin == 0 and list(there.shape) == size and _alike(size, stride, there.stride()):
            return piece.node
        flat = self._flat(like, piece.node)
        if begin == 0 and math.prod(size) == self.fake[flat].numel():
            order = sorted(range(len(size)), key=lambda d: (-stride[d], d) if size[d] > 1 else (0, d))
            if _is_contiguous([size[d] for d in order], [stride[d] for d in order]):
                return self._permuted(like, piece.node if there.is_contiguous() else flat, size, order)
        return self._call(like, _ATEN.as_strided.default, flat, size, stride, begin)

    def _permuted(self, like: fx.Node, node: fx.Node, size: list[int], order: list[int]) -> fx.Node:
        """A view of a whole contiguous tensor, whose dimensions lie there in this order."""
        laid = [size[d] for d in order]
        found = node if list(self.fake[node].shape) == laid else self._call(like, _ATEN.view.default, node, laid)
        back = [order.index(d) for d in range(len(order))]
        return found if back == sorted(back) else self._call(like, _ATEN.permute.default, found, back)

    def _flat(self, like: fx.Node, node: fx.Node) -> fx.Node:
        """A tensor that fills its storage, as one dimension in the order of the storage."""
        there: torch.Tensor = self.fake[node]
        lies = there.stride()
        order = sorted(range(there.dim()), key=lambda d: -lies[d] if there.shape[d] > 1 else 0)
        if order != list(range(there.dim())) and not there.is_contiguous():
            node = self._call(like, _ATEN.permute.default, node, order)
        return self._call(like, _ATEN.view.default, node, [there.numel()])

    def _laid_out(self, like: fx.Node, result: fx.Node, whole: torch.Tensor) -> fx.Node:
        """A slice of a result that lies as the whole lay: a copy where the kernel laid it out otherwise."""
        there: torch.Tensor = self.fake[result]
        lies = whole.stride()
        order = sorted(range(there.dim()), key=lambda d: (-lies[d], d) if whole.shape[d] > 1 else (1, d))
        size, stride, step = list(there.shape), [0] * there.dim(), 1
        for d in reversed(order):
            stride[d], step = step, step * size[d]
        if _alike(size, stride, there.stride()) and there.storage_offset() == 0:
            return result
        laid = self._call(like, _ATEN.permute.default, result, order)
        laid = self._call(like, _ATEN.clone.default, laid, memory_format=torch.contiguous_format)
        return self._call(like, _ATEN.permute.default, laid, [order.index(d) for d in range(len(order))])

    def _add(self, root: _Root, storage: int, slice: int, term: fx.Node, is_last: bool) -> None:
        """Adds a term to a sum."""
        like, dtype = _node_of(root), self.fake[term].dtype
        if slice == 0:
            total = self._call(like, _ATEN._to_copy.default, term, dtype=torch.float32) if dtype in _HALF else term
        else:
            total = self._call(like, *self._sum(self.versions[storage, slice - 1], term))
            total.meta[GROWS] = True
        if is_last and dtype in _HALF:
            total = self._call(like, _ATEN._to_copy.default, total, dtype=dtype)
        self.versions[storage, slice] = total

    def _sum(self, before: fx.Node, term: fx.Node) -> tuple[Any, ...]:
        """The call that adds a term to a sum: a product is added up as it is computed."""
        if term.target is not _ATEN.mm.default or self.fake[before].dtype != self.fake[term].dtype:
            return _ATEN.add.Tensor, before, term
        factors = term.args
        self.graph.erase_node(term)
        return _ATEN.addmm.default, before, *factors

    def _write(self, root: _Root, storage: int, part: fx.Node, positions: list[int], source: SliceSource) -> None:
        """Writes rows into what earlier slices have written."""
        like = _node_of(root)
        value = self.step.value[like] if isinstance(root, fx.Node) else self.step.value[like][root[1]]
        size = [int(n) for n in value.shape]
        if source.slice == 0:
            options = {"dtype": value.dtype, "layout": value.layout, "device": value.device}
            stride = [int(n) for n in value.stride()]
            self.merged[storage] = self._call(like, _ATEN.empty_strided.default, size, stride, **options)
            if len(positions) > 1:
                self.merged[storage] = self._call(
                    like, _ATEN.view.default, self.merged[storage], _merged(size, positions)
                )
        if len(positions) > 1:
            part = self._call(like, _ATEN.view.default, part, _merged(_cut(size, positions, source), positions))
        written = self._call(
            like, _ATEN.slice_scatter.default, self.merged[storage], part, positions[0], source.first, source.last
        )
        written.meta[GROWS] = True
        self.merged[storage] = written
        is_merged = len(positions) > 1
        self.versions[storage, source.slice] = (
            self._call(like, _ATEN.view.default, written, size) if is_merged else written
        )


def _takes_any(node: fx.Node) -> bool:
    """True if an op's kernels take any strides. Others may read a tensor as if it had no gaps, if it usually has none.

    The backward of a layer norm on the CPU does so with the mean.
    """
    tags = getattr(node.target, "tags", ())
    return torch.Tag.pointwise in tags or node.target in _ANY_STRIDES


_ANY_STRIDES = (
    _ATEN.mm.default,
    _ATEN.bmm.default,
    _ATEN.addmm.default,
    _ATEN.baddbmm.default,
    _ATEN._to_copy.default,
    _ATEN.sum.default,
    _ATEN.sum.dim_IntList,
    _ATEN.mean.dim,
)


def _node_of(root: _Root) -> fx.Node:
    return root if isinstance(root, fx.Node) else root[0]


def _merged(size: Sequence[int], positions: Sequence[int]) -> list[int]:
    """A size with neighboring dimensions as one."""
    return [*size[: positions[0]], math.prod(size[d] for d in positions), *size[positions[-1] + 1 :]]


def _cut(size: Sequence[int], positions: Sequence[int], source: SliceSource) -> list[int]:
    """A size with the rows of a slice: of neighboring dimensions the inner ones whole, as far as it has all of them.

    Of those around the innermost one that is cut, the extent is 1.
    """
    found, count, whole = list(size), source.last - source.first, 1
    is_cut = False
    for d in reversed(positions):
        inner, whole = whole, whole * size[d]
        if is_cut:
            found[d] = 1
        elif source.first % whole or count % whole:
            found[d], is_cut = count // inner, True
        elif d == positions[0]:
            found[d] = count // inner
    return found


def _is_contiguous(size: Sequence[int], stride: Sequence[int]) -> bool:
    return _alike(size, stride, [math.prod(size[d + 1 :]) for d in range(len(size))])


def _alike(size: Sequence[int], a: Sequence[int], b: Sequence[int]) -> bool:
    """True if two strides are the same for a size."""
    return all(n == 1 or x == y for n, x, y in zip(size, a, b, strict=True))
