# SPDX-License-Identifier: Apache-2.0
"""AOTAutograd's joint graph of a forward and a backward part: where it is cut, and what one has of the other."""

from __future__ import annotations

from typing import Any

import torch
from torch import fx

from .dynamo import results_of
from .graph import RUNS_ONCE, Cut, StepGraph, tangents_of


def cut_of(joint: fx.GraphModule, forward_outputs: int) -> Cut:
    """Where a joint graph is cut."""
    return Cut(tangents_of(joint.graph), [n for n in results_of(joint)[:forward_outputs] if isinstance(n, fx.Node)])


def keep_old_values(step: StepGraph, parameters: set[int]) -> bool:
    """Copies arguments whose values may have changed when the backward part makes something from them again.

    These are buffers that the forward changes, and whatever else the user may refill before he calls `backward()`,
    unless backward reads it anyway, as eager's does. Parameters stay: autograd itself forbids to change them.
    """
    joint, cut = step.module, step.cut
    assert cut is not None
    end = joint.graph.find_nodes(op="output")[0]
    changed = {_number_of(getattr(d, "mutated_input", None)) for d in end.meta.get("desc", [])} - {None}
    read_anyway = {storage for op in step.ops if op.backward for storage in op.inputs}
    behind = _behind(step)
    needed = _read_by(joint, [n for n in cut.outputs if not _is_mutation(end, n)], behind)
    found = False
    for node in joint.graph.find_nodes(op="placeholder"):
        number = _number_of(node.meta.get("desc"))
        if node in cut.tangents or number in parameters or not isinstance(node.meta.get("val"), torch.Tensor):
            continue
        ahead = [user for user in node.users if user not in behind and user in needed]
        saved_anyway = not read_anyway.isdisjoint(step.needs[node])
        if not ahead or (saved_anyway and number not in changed):
            continue
        with joint.graph.inserting_before(ahead[0]):
            copied = joint.graph.call_function(torch.ops.aten.clone.default, (node,))
        copied.meta["val"] = node.meta["val"].clone()
        copied.meta[RUNS_ONCE] = True
        for user in ahead:
            user.replace_input_with(node, copied)
        found = True
    joint.recompile()
    return found


def _number_of(description: Any) -> int | None:
    """The place among the graph's inputs that AOTAutograd describes; part of a subclass has that of the whole."""
    while hasattr(description, "base"):
        description = description.base
    return getattr(description, "idx", None)


def _behind(step: StepGraph) -> set[fx.Node]:
    """The nodes of the backward part."""
    nodes = [n for n in step.module.graph.nodes if n.op == "call_function"]
    first = next((i for i, n in enumerate(nodes) if step.is_behind_cut(n)), len(nodes))
    return set(nodes[first:])


def _is_mutation(end: fx.Node, node: fx.Node) -> bool:
    """True if a forward output is only an argument's new value."""
    places = [d for n, d in zip(end.args[0], end.meta.get("desc", []), strict=False) if n is node]  # type: ignore[arg-type]
    return bool(places) and all(hasattr(d, "mutated_input") for d in places)


def _read_by(joint: fx.GraphModule, outputs: list[fx.Node], behind: set[fx.Node]) -> set[fx.Node]:
    """The forward nodes from which one of these outputs, or a value of the backward part, is made."""
    needed = {*outputs, *behind}
    for node in reversed(list(joint.graph.nodes)):
        if node in needed:
            needed.update(node.all_input_nodes)
    return needed


def reached_by(step: StepGraph, forward_outputs: int) -> tuple[list[frozenset[int]], set[frozenset[int]]]:
    """The forward outputs, by number, whose tangents each gradient is made from; the same of all that is computed."""
    assert step.cut is not None
    descriptions = step.module.graph.find_nodes(op="output")[0].meta.get("desc", [])
    places = {str(description): i for i, description in enumerate(descriptions[:forward_outputs])}
    found: dict[fx.Node, frozenset[int]] = {}
    for node in step.module.graph.nodes:
        if node in step.cut.tangents:
            place = places.get(str(getattr(node.meta.get("desc"), "output", None)))
            found[node] = frozenset() if place is None else frozenset([place])
        else:
            found[node] = frozenset().union(*(found[n] for n in node.all_input_nodes))
    ways = {outputs for node, outputs in found.items() if node in step.owner}
    return [found[r] if isinstance(r, fx.Node) else frozenset() for r in step.outputs[forward_outputs:]], ways
