# SPDX-License-Identifier: Apache-2.0
"""Splits means into a sum, a count and a division, so that slices of the rows can add up their parts.

A mean over labels, of which some are ignored, divides by a number that follows from the labels alone:

    loss, number = nll_loss(labels, mean)     becomes     number = count(labels), loss = nll_loss(labels, sum) / number

The backward reads that number, and so waits for no row. A mean in half precision stays: its sum may be too large.
The gradient of a mean of differences is that of the sum, and of a loss divided by their number.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import torch
from torch import fx
from torch.utils import _pytree as pytree

_ATEN = torch.ops.aten
_MEAN, _SUM = 1, 2


def split_means(module: fx.GraphModule) -> fx.GraphModule | None:
    """A copy of a captured graph with split means; None where there are none."""
    if not any(_is_mean(node) for node in module.graph.nodes):
        return None
    graph = fx.Graph()
    new: dict[fx.Node, fx.Node] = {}
    end = graph.graph_copy(module.graph, new)
    copied = fx.GraphModule(module, graph)
    copied.meta = dict(module.meta)
    old = module.graph.find_nodes(op="output")[0]
    graph.output(end).meta = dict(old.meta)
    for node in list(graph.nodes):
        if _is_mean(node):
            _SPLIT[node.target](_Writer(node), node)
    copied.recompile()
    return copied


def _is_mean(node: fx.Node) -> bool:
    if node.target not in _SPLIT:
        return False
    place = 2 if node.target in _DIFFERENCES else 3 if node.target in _GRADIENTS else 0
    read = node.args[1 if node.target in _GRADIENTS else 0]
    value = read.meta.get("val") if isinstance(read, fx.Node) else None
    if not isinstance(value, torch.Tensor) or value.dtype in (torch.float16, torch.bfloat16):
        return False
    if place:
        reduction = node.args[place] if len(node.args) > place else _MEAN
        return not node.kwargs and bool(reduction == _MEAN)
    if node.target is _ATEN.mean.default:
        return bool(value.dim() > 0 and value.numel() > 1)
    return len(node.args) == 5 and bool(node.args[3] == _MEAN) and all(u.target is operator.getitem for u in node.users)


class _Writer:
    """Writes calls before a node, each of its part of the step."""

    def __init__(self, node: fx.Node) -> None:
        self.node = node

    def __call__(self, target: Any, *arguments: Any, **named: Any) -> fx.Node:
        values = fx.node.map_arg((arguments, named), lambda n: n.meta["val"])
        with self.node.graph.inserting_before(self.node):
            made = self.node.graph.call_function(target, arguments, named)
        made.meta = dict(self.node.meta)
        tensors = [v for v in pytree.tree_leaves(values) if isinstance(v, torch.Tensor)]
        with tensors[0].fake_mode, torch.no_grad():  # type: ignore[attr-defined]
            made.meta["val"] = target(*values[0], **values[1])
        return made


def _split_loss(call: _Writer, node: fx.Node) -> None:
    rows, labels, weight, _, ignored = node.args
    value = rows.meta["val"]  # type: ignore[union-attr]
    counted = call(_ATEN.ne.Scalar, labels, ignored)
    if weight is not None:
        safe = call(_ATEN.mul.Tensor, labels, counted)  # label 0 where it is ignored
        weights = call(_ATEN.index.Tensor, weight, [safe])
        counted = call(_ATEN.mul.Tensor, weights, counted)
    number = call(_ATEN.sum.default, counted)
    if number.meta["val"].dtype != value.dtype:
        number = call(_ATEN._to_copy.default, number, dtype=value.dtype)
    summed = call(node.target, rows, labels, weight, _SUM, ignored)
    loss = call(_ATEN.div.Tensor, call(operator.getitem, summed, 0), number)
    for user in list(node.users):
        user.replace_all_uses_with(loss if user.args[1] == 0 else number)
        node.graph.erase_node(user)
    node.graph.erase_node(node)


def _split_mean(call: _Writer, node: fx.Node) -> None:
    (value,) = node.args[:1]
    total = call(_ATEN.sum.default, value, **node.kwargs)
    whole: torch.Tensor = value.meta["val"]  # type: ignore[union-attr]
    count = int(whole.numel())
    node.replace_all_uses_with(call(_ATEN.div.Tensor, total, count))
    node.graph.erase_node(node)


def _split_difference(call: _Writer, node: fx.Node) -> None:
    mine, theirs, *more = node.args
    total = call(node.target, mine, theirs, _SUM, *more[1:])
    node.replace_all_uses_with(call(_ATEN.div.Tensor, total, int(mine.meta["val"].numel())))  # type: ignore[union-attr]
    node.graph.erase_node(node)


def _split_gradient(call: _Writer, node: fx.Node) -> None:
    gradient, mine, theirs, *more = node.args
    part = call(_ATEN.div.Tensor, gradient, int(mine.meta["val"].numel()))  # type: ignore[union-attr]
    node.replace_all_uses_with(call(node.target, part, mine, theirs, _SUM, *more[1:]))
    node.graph.erase_node(node)


_DIFFERENCES = (_ATEN.mse_loss.default, _ATEN.smooth_l1_loss.default, _ATEN.huber_loss.default)
_GRADIENTS = (_ATEN.mse_loss_backward.default, _ATEN.smooth_l1_loss_backward.default, _ATEN.huber_loss_backward.default)
_SPLIT: dict[Any, Callable[[_Writer, fx.Node], None]] = {
    _ATEN.nll_loss_forward.default: _split_loss,
    _ATEN.nll_loss2d_forward.default: _split_loss,
    _ATEN.mean.default: _split_mean,
    **dict.fromkeys(_DIFFERENCES, _split_difference),
    **dict.fromkeys(_GRADIENTS, _split_gradient),
}
