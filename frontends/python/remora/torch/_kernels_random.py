# SPDX-License-Identifier: Apache-2.0
"""Random numbers that the backward part of a step draws again, instead of keeping what the forward part made of them.

Inductor draws the numbers of dropout from seeds, at any time the same. Compiled in two parts, as stock `torch.compile`
does it, the backward part draws a mask again, within the kernel that needs it. In one graph of the whole step the mask
would be one buffer, kept from the forward kernel to the backward one:

    seed -> random -> greater -> mul           forward
                          '-----> mul          backward

so that the schedule could only keep it or run the whole forward kernel again. This pass gives the backward part its own
`random` and `greater`, of the same seed.
"""

from __future__ import annotations

import hashlib
import inspect
import sys
from collections.abc import Sequence
from typing import Any

import torch
from torch import fx
from torch._inductor import inductor_prims
from torch._inductor.custom_graph_pass import CustomGraphPass


class DrawnAgain(CustomGraphPass):
    """A pass for Inductor's `post_grad_custom_pre_pass`.

    Parameters
    ----------
    forward : sequence of bool
        Which of the graph's results belong to the forward part; what they come from is that part.
    before
        The pass or passes that are set already: they go first.
    """

    def __init__(self, forward: Sequence[bool], before: Any) -> None:
        self.forward = tuple(forward)
        self.before = before if isinstance(before, (list, tuple)) else [p for p in (before,) if p is not None]

    def __call__(self, graph: fx.Graph) -> None:
        for other in self.before:
            other(graph)
        results = graph.find_nodes(op="output")[0].args[0]
        assert len(results) == len(self.forward), "Inductor keeps a graph's results"
        ahead = {r for r, is_forward in zip(results, self.forward, strict=True) if is_forward}
        for node in reversed(graph.nodes):
            if node in ahead:
                ahead.update(node.all_input_nodes)
        drawn = _drawn(graph)
        again: dict[fx.Node, fx.Node] = {}
        for node in list(graph.nodes):
            if node not in ahead and node.op != "output":
                for given in node.all_input_nodes:
                    if given in ahead and given in drawn:
                        node.replace_input_with(given, _again(graph, given, drawn, again, node))

    def uuid(self) -> Any:
        """Inductor keeps programs by this; None: it keeps none."""
        others = [other.uuid() if isinstance(other, CustomGraphPass) else None for other in self.before]
        return None if None in others else hashlib.sha256(repr((_SOURCE, self.forward, others)).encode()).digest()


_SOURCE = inspect.getsource(sys.modules[__name__])


def _drawn(graph: fx.Graph) -> set[fx.Node]:
    """What is made of random numbers and of nothing else, element by element."""
    found: set[fx.Node] = set()
    for node in graph.nodes:
        given = node.all_input_nodes
        if node.target is inductor_prims.random or (_is_elementwise(node) and given and found.issuperset(given)):
            found.add(node)
    return found


def _is_elementwise(node: fx.Node) -> bool:
    tags = getattr(node.target, "tags", ())
    return torch.Tag.pointwise in tags or node.target is torch.ops.prims.convert_element_type.default


def _again(
    graph: fx.Graph, node: fx.Node, drawn: set[fx.Node], again: dict[fx.Node, fx.Node], reader: fx.Node
) -> fx.Node:
    """The node once more, before its reader, with what it is made of."""
    if node not in again:
        made = {n: _again(graph, n, drawn, again, reader) if n in drawn else n for n in node.all_input_nodes}
        with graph.inserting_before(reader):
            again[node] = graph.node_copy(node, made.__getitem__)
    return again[node]
