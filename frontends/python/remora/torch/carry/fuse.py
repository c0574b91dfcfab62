# SPDX-License-Identifier: Apache-2.0
"""Cuts a captured graph into regions that Inductor compiles, at what a schedule of the graph keeps.

Inductor turns pointwise ops, reductions, and what it decomposes into those (normalizations, softmax) into loops. All
others (products, convolutions, attention, random ops, updates) remain ATen ops, so dropout draws what eager draws. Each
op has a level:

    level of an op = the highest of its arguments' levels, one more where the two may not be one region

Two ops may be one region if both can be fused, both are of the forward or both of the backward pass, both of the same
slice or of none, and a schedule of the single ops runs both once or both again: so a region ends at what is kept, and
running it again computes only what is to be recomputed. A region is a connected set of ops of one level:

    addmm 1 -> add 2 -> layer_norm 2 -> addmm 3          one region {add, layer_norm}
    addmm 1 -> add 2 -> | kept | -> layer_norm 3 -> addmm 4      two, where the sum is kept and the norm recomputed

Every path that leaves a region reaches a higher level, so none leads back into it: the regions form a graph without
cycles. Regions stay apart that would meet only where each hands over a small part of what it reads, as the parts of a
sum of losses do: they may run one after the other. O(edges). A region of the backward pass computes some values of the
forward pass for itself (`carry.inline`).
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Container, Iterable, Mapping
from typing import Any

import torch
from torch import fx
from torch._subclasses import FakeTensorMode
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import _disable_current_modes

from ..capture.graph import GROWS, SLICE, Op, StepGraph, is_random, tensors_in
from ..capture.regions import Region, decomposed
from ..cost.calls import made_like
from ..errors import CaptureError
from ..measure import measuring
from .inline import SMALL, Inlined, Values

_PLAIN = frozenset(("full", "cat", "clone", "where", "index", "embedding", "gather", "var_mean", "constant_pad_nd"))
_PLAIN |= {
    "_low_memory_max_pool_offsets_to_indices",
    "_low_memory_max_pool_with_offsets",
    "scalar_tensor",
    "slice_scatter",
    "select_scatter",
    "convert_element_type",
    "empty_permuted",
    "empty_strided",
    "expand",
    "copy",
    "fill",
    "iota",
}
"""Ops that Inductor makes loops of, though no tag says so."""


def fuse(step: StepGraph, again: Collection[fx.Node], say: Callable[[str], None]) -> fx.GraphModule:
    """Rewrites a step's graph so that ops which Inductor makes one loop of are one node, whose target is a `Region`.

    `step`: as captured, not simplified. `again`: the nodes that a schedule of the step runs more than once. `say`:
    called with a line of progress.
    """
    values, loops = Values(step), _loops(step)
    inlined = Inlined(values, _regions(step, loops, set()), loops)
    region_of = _regions(step, loops, {node for node in again if node not in inlined.nodes})
    for op in loops:
        if inlined.reads(op):
            region_of.setdefault(op, [op])
    module = _Rewriter(values, region_of, inlined).rewritten()
    regions = {n.target.key: n.target for n in module.graph.nodes if isinstance(n.target, Region)}
    missing = [region for region in regions.values() if not region.known]
    for i, region in enumerate(missing):
        say(f"compiling region {i + 1} of {len(missing)}")
        _check(region, region.compiled(step.mode), step.mode)
    return module


def _check(region: Region, run: Callable[..., list[torch.Tensor]], mode: FakeTensorMode) -> None:
    """Runs what was compiled once: results must lie as the captured ops' do, and each in memory of its own."""
    with mode, torch.no_grad():
        expected = region(*region.inputs)
    with _disable_current_modes(), measuring(expected[0].device), torch.no_grad():
        given = [made_like(t) for t in region.inputs]
        results = run(*given)
    for i, (mine, like) in enumerate(zip(results, expected, strict=True)):
        if (mine.dtype, mine.shape, mine.stride()) != (like.dtype, like.shape, like.stride()):
            raise CaptureError(f"{region.name}: Inductor lays result {i} out in another way than the captured ops do")
    places, taken = ([t.untyped_storage().data_ptr() for t in row if t.numel()] for row in (results, given))
    if len(set(places)) < len(places) or not set(places).isdisjoint(taken):
        raise CaptureError(f"{region.name}: two results of Inductor, or a result and an argument, share memory")


def _loops(step: StepGraph) -> dict[Op, bool]:
    """The ops that Inductor makes loops of, and whether they are of the backward pass."""
    updated = {source for _, source in step.updates}
    known: dict[Any, bool] = {}
    return {
        op: op.backward
        for op in step.ops
        if op.nodes and op.recompute and op.nodes[0] not in updated and _is_loop(step, op.nodes[0], known)
    }


def _regions(step: StepGraph, loops: Mapping[Op, bool], again: Container[fx.Node]) -> dict[Op, list[Op]]:
    """The regions of two ops and more: for each of their ops, all of them in captured order."""
    maker = {s: op for op in step.ops for s in op.outputs}
    colour = {op: (backward, op.nodes[0] in again, op.nodes[0].meta.get(SLICE)) for op, backward in loops.items()}
    level: dict[Op, int] = {}
    leader: dict[Op, Op] = {}
    widest: dict[Op, int] = {}  # by leader, the bytes of the largest storage that its region reads

    def first(op: Op) -> Op:
        while leader[op] is not op:
            op = leader[op]
        return op

    for op in step.ops:
        before = list(dict.fromkeys(maker[s] for s in op.inputs if s in maker))
        joined = [b for b in before if op in colour and colour.get(b) == colour[op]]
        top = max((level[b] + (b not in joined) for b in before), default=0)
        parts = [b for b in joined if level[b] == top]
        if len({first(b) for b in parts}) > 1:
            joined = [b for b in joined if b not in parts or SMALL * _handed(step, [b], [op]) > widest[first(b)]]
        level[op] = max((level[b] + (b not in joined) for b in before), default=0)
        leader[op] = op
        widest[op] = max((step.storages[s].size for s in op.inputs if not step.storages[s].fixed), default=0)
        for other in joined:
            if level[other] == level[op]:
                widest[op] = max(widest[op], widest[first(other)])
                leader[first(other)] = op
    _join_readers(step, colour, leader, first, widest)
    return {op: ops for ops in _members(step.ops, first).values() if len(ops) > 1 for op in ops}


def _handed(step: StepGraph, ops: Iterable[Op], readers: Iterable[Op]) -> int:
    """Bytes that some ops hand to others."""
    read = {s for op in readers for s in op.inputs}
    return sum(step.storages[s].size for op in ops for s in op.outputs if s in read)


def _members(ops: Iterable[Op], first: Callable[[Op], Op]) -> dict[Op, list[Op]]:
    found: dict[Op, list[Op]] = {}
    for op in ops:
        found.setdefault(first(op), []).append(op)
    return found


def _join_readers(
    step: StepGraph,
    colour: Mapping[Op, tuple[Any, ...]],
    leader: dict[Op, Op],
    first: Callable[[Op], Op],
    widest: dict[Op, int],
) -> None:
    """Joins regions to the one region that reads them, where that keeps no more memory; not parts of a sum of losses.

    All paths that leave such a region lead into that one, so no cycle arises. In the backward pass they depend on the
    forward alone, and have a level far below that of their reader.
    """
    place = {op: i for i, op in enumerate(step.ops)}
    readers: dict[int, list[Op]] = {}
    for op in step.ops:
        for s in op.inputs:
            readers.setdefault(s, []).append(op)
    joined = True
    while joined:
        joined = False
        for head, ops in reversed(_members(colour, first).items()):
            behind = {first(r) for op in ops for s in op.outputs for r in readers.get(s, ())} - {first(head)}
            if len(behind) != 1 or colour.get(target := behind.pop()) != colour[head]:
                continue
            made = {s for op in ops for s in op.outputs}
            there = [op for op in colour if first(op) is target]
            reads = {s for op in there for s in op.inputs}.difference(made, *(op.outputs for op in there))
            is_part = any(not step.storages[s].fixed for s in reads)
            if is_part and SMALL * _handed(step, ops, there) <= widest[first(head)]:
                continue
            held = [
                step.storages[s].size
                for s in {s for op in ops for s in op.inputs} - made
                if not step.storages[s].fixed and max(place[r] for r in readers[s]) < place[target]
            ]
            if sum(held) <= sum(step.storages[s].size for s in made):
                leader[first(head)] = target
                joined = True


def _is_loop(step: StepGraph, node: fx.Node, known: dict[Any, bool]) -> bool:
    """True if Inductor computes a node in loops of its own; asked once for each op and its types."""
    works_in_place = node in step.rebound or GROWS in node.meta
    if (
        not isinstance(node.target, torch._ops.OpOverload)
        or is_random(node)
        or works_in_place
        or _is_strided(step, node)
    ):
        return False
    tensors = tensors_in([step.value[n] for n in step.arguments(node)] + [step.value[node]])
    if any(t.device.type != step.device.type or t.is_complex() for t in tensors):
        return False
    key = (node.target, tuple(t.dtype for t in tensors), tuple(map(repr, pytree.tree_leaves(node.kwargs))))
    if key not in known:
        known[key] = _lowers_to_loops(step, node)
    return known[key]


def _is_strided(step: StepGraph, node: fx.Node) -> bool:
    """True if a node reads a storage as eager PyTorch lays it out; Inductor lays out what a region makes itself."""
    for read in step.arguments(node):
        while read not in step.owner and read.op == "call_function":
            if read.target is torch.ops.aten.as_strided.default:
                return True
            read = step.resolve(read.all_input_nodes[0])
    return False


def _lowers_to_loops(step: StepGraph, node: fx.Node) -> bool:
    leaves, spec = pytree.tree_flatten(step.given(node))
    places = [i for i, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]

    def run(*tensors: torch.Tensor) -> Any:
        arguments, options = pytree.tree_unflatten(
            [tensors[places.index(i)] if i in places else leaf for i, leaf in enumerate(leaves)], spec
        )
        return node.target(*arguments, **options)  # type: ignore[operator]

    lowered = decomposed(run, [leaves[i] for i in places], step.mode)
    return all(_is_plain(n.target) or _is_filled(n) for n in lowered.graph.nodes if n.op == "call_function")


def _is_filled(node: fx.Node) -> bool:
    """True if a node writes one number per row into a constant tensor, which Inductor computes as a loop.

    So the gradient of a cross entropy begins.
    """
    if node.target is not torch.ops.aten.scatter.value:
        return False
    filled, dim, index = node.args[:3]
    if not isinstance(filled, fx.Node) or not isinstance(index, fx.Node):
        return False
    return filled.target is torch.ops.aten.full.default and bool(index.meta["val"].shape[dim] == 1)


def _is_plain(target: Any) -> bool:
    from torch._inductor.lowering import fallbacks, lowerings

    if target is operator.getitem:
        return True
    if not isinstance(target, torch._ops.OpOverload) or target in fallbacks or target not in lowerings:
        return False
    if torch.Tag.pointwise in target.tags or torch.Tag.reduction in target.tags or target.is_view:
        return True
    return target.overloadpacket.__name__ in _PLAIN


class _Rewriter:
    """Writes the graph in which each region is one node.

    Views are made anew in whatever graph uses them.
    """

    def __init__(self, values: Values, region_of: dict[Op, list[Op]], inlined: Inlined) -> None:
        self.step, self.values, self.region_of, self.inlined = values.step, values, region_of, inlined
        self.graph = fx.Graph()
        self.made: dict[fx.Node, fx.Node] = {}
        self.leaving = self._leaving()
        self.place = {node: i for i, node in enumerate(self.step.module.graph.nodes)}

    def rewritten(self) -> fx.GraphModule:
        step = self.step
        for node in step.placeholders:
            self.made[node] = self.graph.node_copy(node)
        for op in step.ops:
            region = self.region_of.get(op)
            if op is step.cut_op and step.cut is not None:
                for node in step.cut.outputs:
                    self._outer(node)
            elif region is None or op is region[-1]:
                self._run(op)
        for place, source in step.updates:
            self.graph.call_function(torch.ops.aten.copy_.default, (self._outer(place), self._outer(source)))
        end = step.module.graph.find_nodes(op="output")[0]
        results = [self._outer(n) if isinstance(n, fx.Node) else n for n in step.outputs]
        self.graph.output(results).meta.update(end.meta)
        return fx.GraphModule(step.module, self.graph)

    def _home(self, value: fx.Node) -> list[Op] | None:
        """The region that makes a value."""
        op = self.values.op_of(value)
        return None if op is None else self.region_of.get(op)

    def _leaving(self) -> set[fx.Node]:
        """The values that are read outside the region which makes them."""
        found = set(self.values.results)
        for op in self.step.ops:
            home = self.region_of.get(op)
            read = self.values.read_by(op)
            if op.backward and home is not None:
                read = (source for value in read for source in self.inlined.sources(value))
            found.update(value for value in read if home is None or self._home(value) is not home)
        return found

    def _run(self, op: Op) -> None:
        """Writes an op, or the region that it is in; what it reads is written before."""
        region = self.region_of.get(op)
        node = op.nodes[0]
        if node in self.made or (region is not None and region[0].nodes[0] in self.made):
            return
        if region is None:
            self.made[node] = self.graph.node_copy(node, self._outer)
        else:
            self._run_region(region)

    def _outer(self, node: fx.Node) -> fx.Node:
        """A node of the written graph for a value or view of the captured one."""
        node = self.values.named(node)
        if node not in self.made:
            op = self.values.op_of(node)
            if op is not None:
                self._run(op)
        if node not in self.made:  # a view, a constant, or an item of an op that is not in a region
            self.made[node] = self.graph.node_copy(node, self._outer)
        return self.made[node]

    def _run_region(self, region: list[Op]) -> None:
        graph, made = fx.Graph(), dict[fx.Node, fx.Node]()
        arguments: list[fx.Node] = []
        inside = set(region)

        def inner(node: fx.Node) -> fx.Node:
            node = self.values.named(node)
            if node not in made:
                outside = self.values.is_value(node) and self.values.op_of(node) not in inside
                if outside and not (region[0].backward and node in self.inlined.nodes):
                    made[node] = graph.placeholder(f"argument_{len(arguments)}")
                    arguments.append(node)
                else:
                    made[node] = graph.create_node(
                        node.op, node.target, *fx.node.map_arg((node.args, node.kwargs), inner)
                    )
            return made[node]

        if region[0].backward:
            read = [node for op in region for node in self.values.read_by(op)]
            for node in sorted(self.inlined.nodes.intersection(self.inlined.closure(read)), key=self.place.__getitem__):
                inner(node)
        for op in region:
            inner(op.nodes[0])
        results = [v for v in self.leaving if self.values.op_of(v) in inside]
        results.sort(key=self.place.__getitem__)
        graph.output(tuple(inner(v) for v in results))
        if not results:
            return  # whatever reads them computes them
        graph.eliminate_dead_code()
        for node in [n for n in graph.find_nodes(op="placeholder") if not n.users]:
            graph.erase_node(node)
        arguments = [node for node in arguments if made[node].users]
        kinds = dict.fromkeys(
            str(getattr(op.nodes[0].target, "overloadpacket", "")).removeprefix("aten.") for op in region
        )
        looks = [self.step.value[n] for n in arguments]
        called = Region("fused " + " ".join(kinds), fx.GraphModule(self.step.module, graph), looks)
        name = "fused_" + "_".join(list(kinds)[:3])
        outer = self.graph.create_node("call_function", called, tuple(map(self._outer, arguments)), {}, name=name)
        head = region[0].nodes[0]
        outer.meta.update({k: v for k, v in head.meta.items() if k != "tensor_meta"})
        outer.meta["val"] = tuple(self.step.value[v] for v in results)
        for op in region:
            self.made.setdefault(op.nodes[0], outer)
        for i, value in enumerate(results):
            item = self.graph.create_node("call_function", operator.getitem, (outer, i), {}, name=value.name)
            item.meta.update(value.meta)
            self.made[value] = item
