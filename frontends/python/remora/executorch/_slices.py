# SPDX-License-Identifier: Apache-2.0
"""An edge program in slices (docs/design/slices.md): nodes that the engine chooses run on a few rows at a time.

    convolution, 3 x 3, padding 1       rows 16 .. 31 of the result: slice_copy of rows 15 .. 32, a convolution of that
                                        rows 0 .. 15: constant_pad_nd puts the padding above them

What is read in the same slices is never put together, all else by ``cat``. Constants are not cut, and only sums over
rows of floats are added up: all else is what the whole computes. Slices, padding and ``cat`` are nodes like all others,
so the program is scheduled and placed as any; the engine's choice does not count them all, so less is asked for where
they exceed the budget.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from executorch.exir.dialects._ops import ops
from torch._subclasses.fake_tensor import FakeTensor
from torch.export import ExportedProgram
from torch.fx import Graph as FxGraph
from torch.fx import Node
from torch.fx.node import map_arg

import remora
from remora.executorch._nodes import as_planned, base, is_item, is_view, may_repeat, overload, place_of, results, values
from remora.executorch._program import At, Program, name_of
from remora.schedule import schedule_core_of
from remora.slices import SliceCost, SliceSource, sources_of
from remora.torch.capture.graph import Op, Storage
from remora.torch.problem.axes import OpAxis, Rows, axes_of, engine_axes, positions_of, rows_read
from remora.torch.problem.nests import Call, Place
from remora.torch.problem.windows import ADDED, FORWARD_RULES, MEAN, PADDED

COST = SliceCost(bandwidth=1, temporaries=True, copies=True)
"""A byte that is copied costs as much as one that is read (`work_of`)."""

_EDGE = ops.edge.aten


class Axes:
    """The axes of a program's nodes: tensors lie as the program's memory plan has them, views in what they view."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.device = torch.device("cpu")
        self.ops: list[Op] = []
        self.storages: list[Storage] = []
        self.value: dict[Node, Any] = {}
        self._numbers: dict[int, int] = {}  # by tensor
        self._at: list[At] = []  # by storage
        self._of: dict[At, int] = {}
        for node in program.nodes:
            self._add(node)
        self.axes = {
            op.nodes[0]: row
            for op, found in axes_of(self, FORWARD_RULES, is_joined=False).items()
            if (row := [axis for axis in found if self._is_writable(op, axis)])
        }

    def given(self, node: Node) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The fake arguments of a node."""
        found: tuple[tuple[Any, ...], dict[str, Any]] = map_arg((node.args, node.kwargs), lambda n: self.value[n])
        return found

    def storage_of(self, tensor: torch.Tensor) -> int:
        """The number of a tensor's storage."""
        return self._numbers[id(tensor)]

    def at(self, tensor: torch.Tensor) -> At:
        """The node's result in which a tensor lies."""
        return self._at[self.storage_of(tensor)]

    def numbers_of(self, node: Node) -> list[int]:
        """The storages of a node's results."""
        return [self._of[node, place] for place in results(node)]

    def number_of(self, at: At) -> int:
        """The storage of a node's result."""
        return self._of[at]

    def of_engine(self) -> dict[Node, list[remora.Axis]]:
        """The axes as the engine takes them."""
        held = {at for node in self.program.nodes for at in self.program.storage(node)}
        names = {s: name_of(*at) for s, at in enumerate(self._at) if at in held}
        return {node: engine_axes(found, names, 0) for node, found in self.axes.items()}

    def _add(self, node: Node) -> None:
        if node.op == "output":
            return
        if is_item(node):
            made = self.value[base(node)]
            self.value[node] = made[place_of(node)]
            return
        several = isinstance(node.meta.get("val"), (list, tuple))
        made = [as_planned(value) for value in values(node)]
        self.value[node] = tuple(made) if several else made[0] if made else None
        tensors = {place: value for place, value in enumerate(made) if isinstance(value, torch.Tensor)}
        if is_view(node):
            there = self.value[base(node)]
            self._numbers[id(self.value[node])] = self._numbers[id(there)]
            return
        fixed = node.op == "get_attr" or node.name in self.program.constants
        for place, tensor in tensors.items():
            self._numbers[id(tensor)] = self._of[node, place] = len(self.storages)
            self.storages.append(Storage(name_of(node, place), int(tensor.untyped_storage().nbytes()), fixed))
            self._at.append((node, place))
        if node.op == "call_function" and overload(node) is not None and self._is_plain(node):
            read = [self.storage_of(t) for n in node.all_input_nodes for t in _tensors(self.value[n])]
            written = [self._of[node, place] for place in tensors]
            self.ops.append(Op(node.name, [node], read, written, may_repeat(node), not may_repeat(node)))

    def _is_plain(self, node: Node) -> bool:
        """True if all its tensors lie in the order of their dimensions."""
        return all(
            value.is_contiguous() for other in (node, *node.all_input_nodes) for value in results(other).values()
        )

    def _is_writable(self, op: Op, axis: OpAxis) -> bool:
        """True if constants are whole, and sums those of ops that add up floats."""
        (nest,), (node,) = axis.nests, op.nodes
        same = {op.outputs[i] for i in nest.same}
        is_sum = str(overload(node)) in ADDED and results(node)[0].dtype in (torch.float32, torch.float64)
        return (is_sum or set(axis.sums) <= same) and not any(
            rows and self.storages[s].fixed for s, rows in axis.cuts.items()
        )


def _tensors(value: Any) -> list[torch.Tensor]:
    return [v for v in (value if isinstance(value, tuple) else [value]) if isinstance(v, torch.Tensor)]


@dataclass(frozen=True)
class _Piece:
    """A tensor that has bytes `first` to `last` of each block of another one."""

    node: Node
    first: int
    last: int


@dataclass
class _Stored:
    """A tensor of the graph in slices: its pieces along a dimension, in blocks of so many bytes, or all of it."""

    pieces: tuple[_Piece, ...] = ()
    dim: int = 0
    block: int = 0
    whole: Node | None = None


def in_slices(program: Program, nodes: Mapping[remora.Op, Node], axes: Axes, found: remora.Schedule) -> ExportedProgram:
    """The program in the slices of a schedule; `nodes`: of the ops of the graph that was solved."""
    return _Rewriting(program, nodes, axes, found).result()


class _Rewriting:
    def __init__(self, program: Program, nodes: Mapping[remora.Op, Node], axes: Axes, found: remora.Schedule) -> None:
        self.program, self.axes, self.found = program, axes, found
        self.nodes = {op.index: node for op, node in nodes.items()}
        self.graph = FxGraph()
        self.stored: dict[int, _Stored] = {}  # by tensor of the graph in slices
        self.last: dict[At, _Stored] = {}  # by result of a node: what all others than slices read
        self.at = {tensor.index: at for at, tensor in program.tensors.items()}
        self.sources, self.tensors = sources_of(schedule_core_of(found))
        parts = [part for region in found.slices for part in region.parts]
        self.slices = {s.number: s.slice for s in self.sources}  # the last one of each op
        self.axis = {op.index: axes.axes[nodes[op]][number] for part in parts for op, number in part.items()}
        made = [t for node in program.nodes for t in results(node).values()]
        self.mode = next(t.fake_mode for t in made if isinstance(t, FakeTensor))

    def result(self) -> ExportedProgram:
        """The program, its nodes in the order of the graph in slices."""
        for node in self.program.nodes:
            if node.op in ("placeholder", "get_attr"):
                copied = self.graph.node_copy(node)
                self.last[node, 0] = _Stored(whole=copied)
        for op, source in zip(self.found.graph.ops, self.sources, strict=True):
            node = self.nodes.get(source.number)
            if node is None:  # the program's inputs
                continue
            if source.slice < 0:
                for place, made in self._results(node, self.graph.node_copy(node, self._value)).items():
                    self.last[node, place] = _Stored(whole=made)
                continue
            self._run_slice(node, op, source)
        return self.program.with_graph(self.graph, self.graph.node_copy(self.program.nodes[-1], self._value).args[0])

    # -- Values ----------------------------------------------------------------------------------------------------

    def _value(self, node: Node) -> Node:
        """The whole value of a node."""
        if is_view(node):
            return self.graph.node_copy(node, self._value)
        at = (base(node), place_of(node)) if is_item(node) else (node, 0)
        stored = self.last[at]
        if stored.whole is None:
            rows = int(results(at[0])[at[1]].shape[stored.dim])
            stored.whole = self._joined(stored, stored.dim, list(results(at[0])[at[1]].shape), 0, rows)
        return stored.whole

    def _joined(self, stored: _Stored, dim: int, shape: list[int], first: int, last: int) -> Node:
        """Rows of a tensor that has this shape, from the pieces that have them."""
        size = [*shape[:dim], last - first, *shape[dim + 1 :]]
        item = stored.pieces[0].node.meta["val"].itemsize
        row = math.prod(shape[dim + 1 :]) * item
        begin, end, parts = first * row, last * row, []
        while begin < end:
            piece = max((p for p in stored.pieces if p.first <= begin < p.last), key=lambda p: p.last)
            stop = min(piece.last, end)
            if piece.first == begin and piece.last == stop:
                parts.append(piece.node)
            else:  # as one dimension of bytes in each block
                flat = self._shaped(piece.node, [-1, (piece.last - piece.first) // item])
                parts.append(self._rows(flat, 1, (begin - piece.first) // item, (stop - piece.first) // item))
            begin = stop
        if len(parts) == 1:
            return self._shaped(parts[0], size)
        if all(_fits(part.meta["val"].shape, shape, dim) for part in parts):
            return self._call(_EDGE.cat.default, parts, dim)
        blocks = math.prod(shape[:dim])
        flats = [self._shaped(part, [blocks, part.meta["val"].numel() // blocks]) for part in parts]
        return self._shaped(self._call(_EDGE.cat.default, flats, 1), size)

    def _rows(self, node: Node, dim: int, first: int, last: int) -> Node:
        if first == 0 and last == node.meta["val"].shape[dim]:
            return node
        return self._call(_EDGE.slice_copy.Tensor, node, dim, first, last)

    def _shaped(self, node: Node, shape: list[int]) -> Node:
        size = list(node.meta["val"].shape)
        if -1 in shape:
            count = math.prod(size) // math.prod(n for n in shape if n != -1)
            shape = [count if n == -1 else n for n in shape]
        return node if size == shape else self._call(_EDGE.view_copy.default, node, shape)

    def _call(self, target: Any, *arguments: Any) -> Node:
        return self._evaluated(self.graph.call_function(target, arguments))

    def _evaluated(self, node: Node) -> Node:
        """A new node, with its value."""
        given, named = map_arg((node.args, dict(node.kwargs)), lambda n: n.meta["val"])
        run: Any = overload(node) or node.target
        with self.mode:
            node.meta["val"] = run(*given, **named)
        return node

    def _results(self, node: Node, made: Node) -> dict[int, Node]:
        """The results of a new node in place of another one; of several those that are used."""
        if not isinstance(node.meta.get("val"), (list, tuple)):
            return {0: made}
        found: dict[int, Node] = {}
        for item in filter(is_item, node.users):
            if place_of(item) not in found:
                found[place_of(item)] = self.graph.node_copy(item, lambda _: made)
                found[place_of(item)].meta["val"] = made.meta["val"][place_of(item)]
        return found

    # -- Slices ----------------------------------------------------------------------------------------------------

    def _run_slice(self, node: Node, op: remora.Op, source: SliceSource) -> None:
        """One slice of a node, and what becomes of its results."""
        axis = self.axis[source.number]
        (nest,), (chain,) = axis.nests, axis.chains
        is_term = not nest.same and not set(axis.sums).isdisjoint(self.axes.numbers_of(node))
        made = self._changed(node, self._arguments(node, op, axis, source), source, is_term)
        found = self._results(node, made)
        for tensor in op.outputs:
            of = self.tensors[tensor.index]
            at = self.at.get(of.number)
            if at is None or at[1] not in found:
                continue
            dims = nest.outputs[at[1]]
            rows = axis.cuts.get(self.axes.number_of(at))
            if is_term:
                self.last[at] = _Stored(whole=self._added(node, at, found[0], source))
            elif dims is None or rows is None:  # it is the same in every slice
                self.last[at] = _Stored(whole=found[at[1]])
            else:
                piece = _Piece(found[at[1]], source.first * rows.stride, source.last * rows.stride)
                before = self.last[at].pieces if of.last == of.first and of.slice > 0 else ()
                dim = (positions_of(dims, chain) or [0])[0]
                self.stored[tensor.index] = self.last[at] = _Stored((*before, piece), dim, rows.block)

    def _arguments(self, node: Node, op: remora.Op, axis: OpAxis, source: SliceSource) -> dict[Place, Any]:
        """The arguments of a node that are others in a slice."""
        (nest,), (chain,) = axis.nests, axis.chains
        call = Call(self.axes, node)
        read = {self.at[self.tensors[t.index].number]: self._stored(t) for t in op.inputs}
        changed: dict[Place, Any] = {}
        for place, value in call.tensors():
            positions, rows = rows_read(nest, chain, place, value) if value is not None else (None, None)
            if value is None or not positions or rows is None:
                continue
            stored = read[self.axes.at(value)]
            changed[place] = self._read(_argument(node, place), stored, value, positions[0], rows, source)
            if place in nest.windows:
                changed |= self._padded(call, place, changed[place], positions[0], rows, source)
        for place, dims in nest.sizes.items():
            cut = positions_of(dims, chain) or []
            changed[place] = [
                source.last - source.first if d in cut else n for d, n in enumerate(_argument(node, place))
            ]
        return changed

    def _added(self, node: Node, at: At, term: Node, source: SliceSource) -> Node:
        """The sum of the terms so far; a mean is divided in the end."""
        before = self.last[at].whole if source.slice > 0 else None
        total = term if before is None else self._call(_EDGE.add.Tensor, before, term)
        if str(overload(node)) != MEAN or source.slice < self.slices[source.number]:
            return total
        made = results(node)[0].numel()
        count = self.axes.value[node.all_input_nodes[0]].numel() // made
        return self._call(_EDGE.div.Scalar, total, count)

    def _stored(self, tensor: remora.Tensor) -> _Stored:
        return self.stored.get(tensor.index) or self.last[self.at[self.tensors[tensor.index].number]]

    def _read(
        self, node: Node, stored: _Stored, value: torch.Tensor, dim: int, rows: Rows, source: SliceSource
    ) -> Node:
        """The rows that a slice reads of an argument, as far as they exist."""
        first = max(0, source.first * rows.step + rows.offset)
        last = min(rows.rows, (source.last - 1) * rows.step + rows.offset + rows.length)
        if stored.whole is not None or stored.block != rows.block:
            return self._rows(self._value(node), dim, first, last)
        return self._joined(stored, dim, list(value.shape), first, last)

    def _padded(
        self, call: Call, place: Place, given: Node, dim: int, rows: Rows, source: SliceSource
    ) -> dict[Place, Any]:
        """Arguments by which a slice pads its own rows, where the window is over the edge."""
        first = source.first * rows.step + rows.offset
        last = (source.last - 1) * rows.step + rows.offset + rows.length
        before, after = max(0, -first), max(0, last - rows.rows)
        count = given.meta["val"].dim() - 2
        changed: dict[Place, Any] = {}
        if "padding" in (a.name for a in call.arguments) and any(call.argument("padding")):
            padding = list(call.argument("padding"))
            padding = padding if len(padding) == count else padding * count
            changed[call.place("padding")] = [0 if d == dim - 2 else n for d, n in enumerate(padding)]
        if before or after:
            around = [0, 0] * (count + 1 - dim) + [before, after]
            changed[place] = self._call(_EDGE.constant_pad_nd.default, given, around, PADDED[str(overload(call.node))])
        return changed

    def _changed(self, node: Node, changed: Mapping[Place, Any], source: SliceSource, is_term: bool) -> Node:
        """A node's call on other arguments; a term of a mean is a sum."""

        def given(place: Place, value: Any) -> Any:
            if place in changed:
                return changed[place]
            if isinstance(value, (list, tuple)) and not isinstance(place, tuple):
                return [given((place, i), part) for i, part in enumerate(value)]
            return self._value(value) if isinstance(value, Node) else value

        arguments = tuple(given(i, value) for i, value in enumerate(node.args))
        named = {key: given(key, value) for key, value in node.kwargs.items()}
        name = f"{node.name}_slice_{source.slice}"
        target = _EDGE.sum.dim_IntList if is_term and str(overload(node)) == MEAN else node.target
        made = self.graph.create_node("call_function", target, arguments, named, name)
        made.meta = {key: node.meta[key] for key in ("stack_trace", "nn_module_stack") if key in node.meta}
        return self._evaluated(made)


def _argument(node: Node, place: Place) -> Any:
    """The argument at a place of a call."""
    if isinstance(place, tuple):
        return _argument(node, place[0])[place[1]]
    return node.args[place] if isinstance(place, int) else node.kwargs[place]


def _fits(size: Sequence[int], shape: Sequence[int], dim: int) -> bool:
    """True if a size is that of rows of a shape."""
    return len(size) == len(shape) and all(n == m for d, (n, m) in enumerate(zip(size, shape, strict=True)) if d != dim)
