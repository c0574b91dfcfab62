# SPDX-License-Identifier: Apache-2.0
"""Which layer an op belongs to, and whose gradient a backward op computes: for names, reports and hierarchies.

Dynamo tells the module of a forward node and nothing of a backward one. A backward op computes the gradient of the
forward op with which it shares most tensors, parameters among them; where it shares none (a sum of gradients), none is
named.
"""

from __future__ import annotations

import re

from torch import fx

from ._graph import Op, Step

_ROOT = re.compile(r"^[A-Za-z_]\w*(\['[^']*'\])?\.?")
_KINDS = {"threshold": "relu", "addmm": "mm", "baddbmm": "bmm"}
"""What the backward form of an op, or the product in it, is called."""
_ITEM = re.compile(r"_modules\['([^']*)'\]|\['([^']*)'\]|\[(\d+)\]")


def forward_of(step: Step) -> dict[Op, Op]:
    """For backward ops, the forward op whose gradient they compute, where one is told by what both touch; O(edges)."""
    touching: dict[int, list[Op]] = {}
    found: dict[Op, Op] = {}
    for op in step.ops:
        if op.backward:
            shared: dict[Op, int] = {}
            for storage in op.inputs:
                for forward in touching.get(storage, []):
                    shared[forward] = shared.get(forward, 0) + 1
            if shared:
                # Of those that share most, one of the same kind, the latest of them.
                places = {forward: i for i, forward in enumerate(shared)}
                found[op] = max(shared, key=lambda f: (shared[f], _is_kin(op, f), places[f]))
            continue
        if not op.nodes:
            continue
        for storage in dict.fromkeys([*op.inputs, *op.outputs]):
            touching.setdefault(storage, []).append(op)
    return found


def _kinds(op: Op) -> set[str]:
    names = {
        getattr(getattr(n.target, "overloadpacket", None), "__name__", "").removesuffix("_backward") for n in op.nodes
    }
    return {_KINDS.get(name, name) for name in names}


def _is_kin(backward: Op, forward: Op) -> bool:
    """Whether one is the derivative of the other, by their names."""
    return not _kinds(backward).isdisjoint(_kinds(forward))


def layer_of(node: fx.Node) -> str:
    """The module that a forward node stands in ("blocks.0.norm"), "" where nothing is told."""
    stack = node.meta.get("nn_module_stack")
    if not stack:
        return ""
    path = str(list(stack.values())[-1][0])
    return _ITEM.sub(lambda m: "." + next(g for g in m.groups() if g is not None), _ROOT.sub("", path)).strip(".")


def names_of(step: Step, forward: dict[Op, Op]) -> dict[Op, str]:
    """A name for each op, which no other has: its layer and its node.

    A backward op is of its forward op's layer, or of that of the backward op before it.
    """
    layers: dict[Op, str] = {}
    last = ""
    for op in step.ops:
        if not op.backward:
            layers[op] = layer_of(op.nodes[0]) if op.nodes else ""
        else:
            last = layers[op] = layers[forward[op]] if op in forward else last
    return {op: f"{layer}/{op.name}" if layer else op.name for op, layer in layers.items()}
