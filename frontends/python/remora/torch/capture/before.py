# SPDX-License-Identifier: Apache-2.0
"""Tensors that autograd keeps, until its backward pass, for code that ran before the compiled graph.

A model that breaks into graphs A and B runs A's forward part before B is compiled. So B's inputs lead to what A saved,
and to what any op between them saved:

    A's forward -> sin -> B's inputs            (real tensors, with their grad_fn)
    saved by A  <- saved by sin <- grad_fn      (walked here; each storage counts once)

It is there while B runs, forward and backward. Whoever saved it may have come from Inductor's cache. What is kept
off the path to B's inputs is not found. O(nodes of autograd's graph).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch._guards import TracingContext


@dataclass(frozen=True)
class Before:
    """Nodes of autograd that ran before a graph."""

    held: int = 0  # bytes that autograd keeps of it, beyond the graph's own inputs
    graphs: tuple[int, ...] = ()  # AOTAutograd's numbers of the compiled graphs among it
    # bytes of the gradients that the graph itself leaves to its parameters: they are there while the backward parts of
    # what ran before it run
    gradients: int = 0


def before_this_graph() -> Before:
    """Finds what ran before the graph that is compiled now and leads to its inputs."""
    context = TracingContext.try_get()
    mode: Any = context.fake_mode if context is not None else None
    inputs = list(mode.fake_tensor_converter.meta_converter.describer.lookup_tensor) if mode is not None else []
    sizes: dict[int, int] = {}
    graphs: dict[int, None] = {}
    ahead: list[Any] = [t.grad_fn for t in inputs]
    seen: set[Any] = set()
    while ahead:
        node = ahead.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        ahead.extend(follower for follower, _ in node.next_functions)
        for tensor in _saved(node):
            sizes[tensor.untyped_storage()._cdata] = tensor.untyped_storage().nbytes()
        number = getattr(getattr(node, "_forward_cls", None), "_aot_id", None)
        if number is not None:
            graphs[number] = None
    for tensor in inputs:
        if tensor.layout == torch.strided:
            sizes.pop(tensor.untyped_storage()._cdata, None)
    gradients = sum(t.nbytes for t in inputs if t.is_leaf and t.requires_grad)
    return Before(sum(sizes.values()), tuple(graphs), gradients)


def this_graph() -> int:
    """AOTAutograd's number of the graph that is partitioned now."""
    context = TracingContext.get()
    return int(context.aot_graph_name[0].partition("_")[0])  # type: ignore[index]


def _saved(node: Any) -> Iterator[torch.Tensor]:
    """Tensors that a node of autograd keeps; none if it was released, or hooks keep them elsewhere."""
    names = [name for name in dir(node) if name.startswith("_raw_saved_")]
    for name in names:
        raw = getattr(node, name)
        for one in raw if isinstance(raw, (list, tuple)) else [raw]:
            try:
                tensor = one.data if one.unpack_hook is None else None
            except RuntimeError:  # released
                continue
            if isinstance(tensor, torch.Tensor) and tensor.layout == torch.strided:
                yield tensor
    yield from getattr(node, "_tensors_no_vc_check", None) or ()
