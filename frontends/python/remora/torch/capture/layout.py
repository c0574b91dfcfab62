# SPDX-License-Identifier: Apache-2.0
"""Convolutions in channels-last order, as Inductor runs them on a CPU.

oneDNN's kernels read and write that order; tensors in the captured one (channels first) are copied into it and back by
every call. So the first convolution's input is copied once, and the ops behind pass the order on, as they do in eager
PyTorch for such inputs:

    x -> clone(channels_last) -> convolution -> batch_norm -> relu -> convolution ...

Only ops that are known to pass it on see it; for all others, and for what the step gives, tensors are copied back. The
values are those of the captured graph up to the order in which convolutions add up.
"""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch import fx
from torch._subclasses import FakeTensorMode
from torch.utils import _pytree as pytree

from .graph import is_random

_CONVOLUTIONS = {torch.ops.aten.convolution.default: (0,), torch.ops.aten.convolution_backward.default: (0, 1)}
"""Which arguments of them lie in channels-last order: the gradient, the input."""
_PASSING = frozenset(
    (
        "_adaptive_avg_pool2d",
        "_native_batch_norm_legit_functional",
        "avg_pool2d",
        "cat",
        "clone",
        "max_pool2d_with_indices",
        "max_pool2d_with_indices_backward",
        "mean",
        "native_batch_norm_backward",
        "sum",
        "var_mean",
    )
)


def in_channels_last(module: fx.GraphModule, mode: FakeTensorMode) -> fx.GraphModule:
    """The graph with its convolutions in channels-last order; itself where that is not done, as on a GPU. O(nodes)."""
    nodes = list(module.graph.nodes)
    convolutions = [n for n in nodes if n.target in _CONVOLUTIONS and n.meta["val"] is not None]
    known = torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
    if not convolutions or not known or not torch.backends.mkldnn.enabled:
        return module
    given = [n.meta["val"] for node in convolutions for n in node.all_input_nodes]
    if any(t.device.type != "cpu" or t.dim() > 4 for t in given):
        return module
    return _Rewriter(module, mode).rewritten()


class _Rewriter:
    """Writes the graph anew, with the fake value of each node; names stay."""

    def __init__(self, module: fx.GraphModule, mode: FakeTensorMode) -> None:
        self.module, self.mode = module, mode
        self.graph = fx.Graph()
        self.made: dict[fx.Node, fx.Node] = {}
        self.copies: dict[tuple[fx.Node, torch.memory_format], fx.Node] = {}

    def rewritten(self) -> fx.GraphModule:
        for node in self.module.graph.nodes:
            if node.op == "output":
                results = [self._as_captured(n) if isinstance(n, fx.Node) else n for n in node.args[0]]
                self.graph.output(results).meta.update(node.meta)
            else:
                self.made[node] = self._written(node)
        return fx.GraphModule(self.module, self.graph)

    def _written(self, node: fx.Node) -> fx.Node:
        target = node.target
        if node.op != "call_function":
            new = self.graph.node_copy(node)
            if node.op == "get_attr":
                constant = operator.attrgetter(str(target))(self.module)
                if isinstance(constant, torch.Tensor):
                    new.meta["val"] = self.mode.from_tensor(constant, static_shapes=True)
            return new
        if target is torch.ops.aten.copy.default:
            # A gradient is copied to lie like its parameter: the order it has now may need one copy, not two.
            source = self.made[node.args[1]]  # type: ignore[index]
            like = node.meta["val"]
            if source.meta["val"].stride() != like.stride() and source.meta["val"].shape == like.shape:
                return self._as_captured(node, source)
        new = self.graph.node_copy(node, self.made.__getitem__)
        if target in _CONVOLUTIONS:
            for place in _CONVOLUTIONS[target]:
                self._order(new, place, torch.channels_last)
        elif not self._passes_on(node):
            for place in range(len(new.args)):
                self._order(new, place, torch.contiguous_format)
        try:
            new.meta["val"] = self._run(new)
        except (RuntimeError, ValueError):  # a view that this order does not allow
            for place in range(len(new.args)):
                self._order(new, place, torch.contiguous_format)
            new.meta["val"] = self._run(new)
        return new

    def _passes_on(self, node: fx.Node) -> bool:
        target = node.target
        if target is operator.getitem:
            return True
        if not isinstance(target, torch._ops.OpOverload) or is_random(node):
            return False
        return torch.Tag.pointwise in target.tags or target.is_view or target.overloadpacket.__name__ in _PASSING

    def _order(self, new: fx.Node, place: int, order: torch.memory_format) -> None:
        """Copies an argument into an order, if it lies in the other one."""
        given = new.args[place]
        if isinstance(given, (list, tuple)):
            copied = [self._in_order(n, order, new) if isinstance(n, fx.Node) else n for n in given]
            new.update_arg(place, copied)
        elif isinstance(given, fx.Node):
            new.update_arg(place, self._in_order(given, order, new))

    def _in_order(self, given: fx.Node, order: torch.memory_format, before: fx.Node) -> fx.Node:
        value = given.meta["val"]
        if not isinstance(value, torch.Tensor) or value.dim() != 4 or value.is_contiguous(memory_format=order):
            return given
        if order is torch.contiguous_format and not value.is_contiguous(memory_format=torch.channels_last):
            return given  # neither is as it was captured
        if (given, order) not in self.copies:
            with self.graph.inserting_before(before):
                self.copies[given, order] = self._copy(given, order)
        return self.copies[given, order]

    def _copy(self, given: fx.Node, order: torch.memory_format) -> fx.Node:
        copy = self.graph.call_function(torch.ops.aten.clone.default, (given,), {"memory_format": order})
        copy.meta.update({k: v for k, v in given.meta.items() if k != "tensor_meta"})
        copy.meta["val"] = self._run(copy)
        return copy

    def _as_captured(self, node: fx.Node, source: fx.Node | None = None) -> fx.Node:
        source = source or self.made[node]
        mine, captured = source.meta["val"], node.meta["val"]
        if not isinstance(mine, torch.Tensor) or mine.stride() == captured.stride():
            return source
        return self._copy(source, torch.contiguous_format)

    def _run(self, node: fx.Node) -> Any:
        arguments, options = pytree.tree_map_only(fx.Node, lambda n: n.meta["val"], (node.args, dict(node.kwargs)))
        with self.mode, torch.no_grad():
            return node.target(*arguments, **options)  # type: ignore[operator]
