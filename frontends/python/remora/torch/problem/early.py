# SPDX-License-Identifier: Apache-2.0
"""A joint graph in slices, as Inductor compiles it: gradients of the loss's slices are computed in the forward part.

A slice of a loss computes its logits, its term of the loss, and their gradients before the next slice begins. But a
joint graph's gradients begin with the loss's own (a *tangent*), which exists only in the backward part. They are linear
in it, so the slices compute them for 1, and the backward part multiplies by the tangent what leaves the slices:

    slices: logits, loss, dlogits (1), dw (1), dh (1)        backward part: dw * tangent, dh * tangent, what follows

That is done only where every op between is known to be linear in the tangent (`_is_linear`). Gradients in float16 are
not: a loss's scale keeps them from becoming zero.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import fx
from torch.utils.checkpoint import CheckpointPolicy

import remora

from ..capture.graph import GROWS, SLICE, Op, StepGraph, computed_from, tangents_of
from .axes import OpAxis
from .slices import in_slices

_ATEN, _PRIMS = torch.ops.aten, torch.ops.prims


def _add_product(total: torch.Tensor, left: torch.Tensor, right: torch.Tensor) -> None:
    total.addmm_(left, right)


_library: Any = torch.library.Library("remora", "FRAGMENT")  # type: ignore[no-untyped-call]
_library.define("add_product_(Tensor(a!) total, Tensor left, Tensor right) -> ()")
_library.impl("add_product_", _add_product, "CompositeExplicitAutograd")
_library.impl("add_product_", lambda *_: None, "Meta")
CACHEABLE = {"torch.ops.higher_order.control_deps": "stateless"}
"""The op that holds slices apart, as Inductor's setting `unsafe_marked_cacheable_functions` names it."""


def joint_in_slices(
    step: StepGraph, axes: Mapping[Op, Sequence[OpAxis]], found: remora.Schedule
) -> fx.GraphModule | None:
    """A joint graph in the slices of a schedule; None where gradients that slices compute are not linear in a tangent.

    `step`: the joint graph, read without a cut.
    """
    module = in_slices(step, axes, found)
    for node in list(module.graph.nodes):
        _as_inductor_has_it(node)
    if not all(_computed_early(module.graph, part) for part in _parts(module.graph)):
        return None
    module.graph.eliminate_dead_code()
    module.graph.lint()
    module.recompile()
    return module


def _as_inductor_has_it(node: fx.Node) -> None:
    """Joins rows that slices write one by one, which Inductor lets each slice write in place; casts as it has them."""
    if node.target is _ATEN._to_copy.default and set(node.kwargs) == {"dtype"}:
        with node.graph.inserting_before(node):
            cast = node.graph.call_function(_PRIMS.convert_element_type.default, (*node.args, node.kwargs["dtype"]))
        _replace(node, cast)
    if _writes_rows(node) and not any(_writes_rows(user) and user.args[0] is node for user in node.users):
        rows = list(_rows_of(node))
        if rows and node.meta["val"].is_contiguous():
            with node.graph.inserting_before(node):
                joined = node.graph.call_function(_ATEN.cat.default, (rows, node.args[2]))
            _replace(node, joined)


def _replace(node: fx.Node, other: fx.Node) -> None:
    other.meta = {**node.meta}
    node.replace_all_uses_with(other)
    node.graph.erase_node(node)


def _writes_rows(node: fx.Node) -> bool:
    return node.target is _ATEN.slice_scatter.default and GROWS in node.meta


def _rows_of(last: fx.Node) -> Iterator[fx.Node]:
    """The rows that slices write into a result, in order; nothing where some are missing, or read in between."""
    found: list[Any] = []
    node, begin = last, last.meta["val"].shape[last.args[2]]
    while _writes_rows(node):
        _, rows, _, first, behind = node.args
        if behind != begin or (node is not last and len(node.users) > 1):
            return
        found.append(rows)
        begin, node = first, node.all_input_nodes[0]
    if begin == 0:
        yield from reversed(found)


# -- Early gradients ---------------------------------------------------------------------------------------------------


def _parts(graph: fx.Graph) -> list[int]:
    """The parts of regions, by number, that have both forward and backward ops."""
    behind = computed_from(tangents_of(graph), graph)
    found: dict[int, set[bool]] = {}
    for node in graph.nodes:
        if SLICE in node.meta:
            found.setdefault(node.meta[SLICE][0], set()).add(node in behind)
    return [part for part, kinds in found.items() if len(kinds) == 2]


def _computed_early(graph: fx.Graph, part: int) -> bool:
    """Lets a part's gradients be computed for a tangent of 1; False where that is not the same but for the tangent."""
    tangents = tangents_of(graph)
    inside = [n for n in graph.nodes if n.meta.get(SLICE, (-1,))[0] == part]
    reached = {tangent for tangent in tangents if not computed_from([tangent], graph).isdisjoint(inside)}
    if len(reached) != 1:
        return False
    (tangent,) = reached
    behind = computed_from(reached, graph)
    early = [n for n in inside if n in behind]
    ahead = behind.intersection(_to(early)).difference(early, reached)
    if tangent.meta["val"].numel() != 1 or not all(_is_linear(n, behind) for n in (*ahead, *early)):
        return False
    if any(SLICE in n.meta for n in ahead) or any(n.meta["val"].dtype == torch.float16 for n in (*ahead, *early)):
        return False
    value = tangent.meta["val"]
    first = next(n for n in graph.nodes if n in ahead or n is early[0])
    with graph.inserting_before(first):
        one = graph.call_function(
            _ATEN.full.default, (list(value.shape), 1.0), {"dtype": value.dtype, "device": value.device}
        )
    one.meta = {"val": value}
    copies = {tangent: one}
    for node in [n for n in graph.nodes if n in ahead]:
        with graph.inserting_before(node):
            copies[node] = graph.node_copy(node, lambda n: copies.get(n, n))
    for node in early:
        for old, new in copies.items():
            node.replace_input_with(old, new)
    for node in (*copies.values(), *early):
        for key in ("partitioner_tag", "autograd_backward"):
            node.meta.pop(key, None)
    unscaled = {*early, *copies.values()}
    for node in early:
        _scale(node, tangent, unscaled)
    return True


def _scale(node: fx.Node, tangent: fx.Node, unscaled: Container[fx.Node]) -> None:
    """Multiplies an early gradient by the tangent for its readers in the backward part."""
    readers = [user for user in node.users if user not in unscaled]
    if not readers:
        return
    graph = node.graph
    with graph.inserting_after(node):
        scaled = graph.call_function(_ATEN.mul.Tensor, (node, tangent))
    scaled.meta = {key: value for key, value in node.meta.items() if key != SLICE}
    for user in readers:
        user.replace_input_with(node, scaled)
    node.meta["recompute"] = CheckpointPolicy.MUST_SAVE


def _to(nodes: Iterable[fx.Node]) -> set[fx.Node]:
    """All from which nodes are computed."""
    found: set[fx.Node] = set()
    left = list(nodes)
    while left:
        for one in left.pop().all_input_nodes:
            if one not in found:
                found.add(one)
                left.append(one)
    return found


def _is_linear(node: fx.Node, behind: Container[fx.Node]) -> bool:
    """True if a node's value is multiplied by a number where those of what it reads from a tangent are."""
    given = [value for value in (*node.args, *node.kwargs.values()) if isinstance(value, fx.Node)]
    of_tangent = [value in behind for value in given]
    if node.target in _OF_ONE:
        return len(node.all_input_nodes) == 1
    if node.target in _PRODUCTS:
        return sum(of_tangent) == 1
    if node.target in _QUOTIENTS:
        return node.args[0] in behind and (len(given) == 1 or given[1] not in behind)
    if node.target in _SUMS:
        return all(isinstance(v, fx.Node) and (v in behind or _is_zero(v)) for v in node.args)
    if node.target is _ATEN.cat.default:
        return all(v in behind or _is_zero(v) for v in node.all_input_nodes)
    if node.target is _ATEN.where.self:
        return given[0] not in behind and all(v in behind or _is_zero(v) for v in given[1:])
    if node.target is _ATEN.addmm.default:
        return of_tangent[0] and sum(of_tangent[1:]) == 1
    if node.target is _ATEN.slice_scatter.default:
        return (of_tangent[0] or given[0].target is _ATEN.empty_strided.default) and of_tangent[1]
    return False


def _is_zero(node: fx.Node) -> bool:
    if node.target is _ATEN.full.default:
        return bool(node.args[1] == 0)
    return node.target is _ATEN.scalar_tensor.default and bool(node.args[0] == 0)


_OF_ONE = {
    *(_ATEN.neg.default, _ATEN.clone.default, _ATEN.alias.default, _ATEN.view.default, _ATEN.permute.default),
    *(_ATEN.expand.default, _ATEN.squeeze.dim, _ATEN.squeeze.dims, _ATEN.unsqueeze.default, _ATEN.slice.Tensor),
    *(_ATEN.select.int, _ATEN.as_strided.default, _ATEN.sum.default, _ATEN.sum.dim_IntList, _ATEN.mul.Scalar),
    *(_ATEN.div.Scalar, _PRIMS.convert_element_type.default, _ATEN.reshape.default, _ATEN.t.default),
}
"""Ops of one tensor, linear in it."""
_PRODUCTS = {_ATEN.mul.Tensor, _ATEN.mm.default, _ATEN.bmm.default}
_QUOTIENTS = {_ATEN.div.Tensor}
_SUMS = {_ATEN.add.Tensor, _ATEN.sub.Tensor}


# -- Sums and order ----------------------------------------------------------------------------------------------------


def compiled_slices(module: fx.GraphModule) -> fx.GraphModule:
    """The forward or the backward part of a partition, with its slices as Inductor is to compile them.

    Products are added to sums in place, and each slice of a part begins behind the one before.
    """
    if any(SLICE in node.meta for node in module.graph.nodes):
        for node in list(module.graph.nodes):
            if node.target is _ATEN.addmm.default and GROWS in node.meta and len(node.all_input_nodes[0].users) == 1:
                _add_in_place(node)
        _hold_apart(module)
        module.recompile()
    return module


def _add_in_place(node: fx.Node) -> None:
    """Lets a product be added to a sum in place, where Inductor's `addmm` makes a new sum."""
    total, left, right = node.args
    given = {"left": left, "right": right, "_total_base_index": 0, "_all_bases": [total]}
    value = node.meta["val"]
    with node.graph.inserting_before(node):
        made = node.graph.call_function(_FUNCTIONAL, (torch.ops.remora.add_product_.default,), given)
        made.meta = {**node.meta, "val": (None, value)}
        found = node.graph.call_function(operator.getitem, (made, 1))
    _replace(node, found)


def _hold_apart(module: fx.GraphModule) -> None:
    """Lets each slice of a part begin when the one before is done: Inductor's scheduler keeps to it.

    Only products wait, which are never fused, for products and sums.
    """
    from torch._inductor.fx_passes.control_dependencies import preserve_node_ordering

    slices: dict[int, dict[int, list[fx.Node]]] = {}
    above: dict[fx.Node, set[fx.Node]] = {}  # the products and sums from which a node is computed, with itself
    for node in module.graph.nodes:
        above[node] = set().union(*(above[source] for source in node.all_input_nodes))
        if SLICE in node.meta and (node.target in _KERNELS or _ends(node)):
            part, number = node.meta[SLICE]
            slices.setdefault(part, {}).setdefault(number, []).append(node)
            above[node].add(node)
    waits: dict[fx.Node, Any] = {}
    for rows in slices.values():
        for before, number in itertools.pairwise(sorted(rows)):
            ends = [n for n in rows[before] if not any(n in above[other] for other in rows[before] if other is not n)]
            for node in rows[number]:
                if node.target in _KERNELS and above[node].isdisjoint(set(rows[number]) - {node}):
                    waits[node] = [n for n in ends if n not in above[node]]
    preserve_node_ordering(module.graph, {node: ends for node, ends in waits.items() if ends})


def _ends(node: fx.Node) -> bool:
    """True of what a slice adds to a sum, and of sums of its rows."""
    is_sum = node.target is operator.getitem and node.all_input_nodes[0].target is _FUNCTIONAL
    return is_sum or GROWS in node.meta or node.target in (_ATEN.sum.default, _ATEN.sum.dim_IntList)


_FUNCTIONAL = torch.ops.higher_order.auto_functionalized_v2
_KERNELS = {_ATEN.mm.default, _ATEN.bmm.default, _ATEN.addmm.default, _ATEN.baddbmm.default, _ATEN.convolution.default}
