# SPDX-License-Identifier: Apache-2.0
"""Rewrites ops that read only the shape of a tensor, so that it need not exist when they run.

`ones_like(loss)`, with which each backward pass begins, would wait for the whole loss, and so would all gradients:

    loss -> ones_like -> gradients        becomes        loss        ones([]) -> gradients

The op takes the shape as numbers, or as symbols where sizes vary. It lays its result out as before, to the stride, and
runs the same kernel.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import fx

from ..symbols import SYMBOLS, hint_of, plain, surely

_ATEN = torch.ops.aten
_Arguments = tuple[Any, ...]

_FILLED: dict[Any, tuple[Any, Callable[[list[int], _Arguments], _Arguments]]] = {
    _ATEN.zeros_like.default: (_ATEN.zeros.default, lambda size, _: (size,)),
    _ATEN.new_zeros.default: (_ATEN.zeros.default, lambda size, _: (size,)),
    _ATEN.ones_like.default: (_ATEN.ones.default, lambda size, _: (size,)),
    _ATEN.new_ones.default: (_ATEN.ones.default, lambda size, _: (size,)),
    _ATEN.full_like.default: (_ATEN.full.default, lambda size, given: (size, given[1])),
    _ATEN.new_full.default: (_ATEN.full.default, lambda size, given: (size, given[2])),
    _ATEN.rand_like.default: (_ATEN.rand.default, lambda size, _: (size,)),
    _ATEN.randn_like.default: (_ATEN.randn.default, lambda size, _: (size,)),
    _ATEN.randint_like.default: (_ATEN.randint.default, lambda size, given: (given[1], size)),
    _ATEN.randint_like.low_dtype: (_ATEN.randint.low, lambda size, given: (given[1], given[2], size)),
}
"""Ops that fill a new tensor: the op without a first tensor, and its arguments from a size and the given arguments."""
_EMPTY = (_ATEN.empty_like.default, _ATEN.new_empty.default, _ATEN.new_empty_strided.default)


def reads_shape_only(node: fx.Node) -> bool:
    """True if a node reads one tensor, and of that only shape and type."""
    source = node.args[0] if node.args else None
    read = (n for n in node.all_input_nodes if not isinstance(n.meta.get("val"), SYMBOLS))
    return node.target in (*_FILLED, *_EMPTY) and all(n is source for n in read)


def without_source(node: fx.Node, value: Any) -> fx.Node | None:
    """Rewrites such a node, whose fake value is given, in place; returns the node that it is now a view of, if any.

    A dimension of extent 1 may have any stride. If that is not the one it has among the others, nothing changes.
    """
    if not isinstance(value, torch.Tensor) or value.layout != torch.strided or value.is_quantized:
        return None
    size, stride = [plain(n) for n in value.shape], [plain(n) for n in value.stride()]
    options: dict[str, Any] = {"dtype": value.dtype, "layout": value.layout, "device": value.device}
    options |= {"pin_memory": node.kwargs["pin_memory"]} if "pin_memory" in node.kwargs else {}
    if node.target in _EMPTY:
        node.target, node.args, node.kwargs = _ATEN.empty_strided.default, (size, stride), options
        return None
    target, arguments = _FILLED[node.target]
    order = sorted(range(len(size)), key=lambda d: (-hint_of(stride[d]), -hint_of(size[d])))  # outermost first
    laid = [size[d] for d in order]
    if not all(surely(stride[d] == math.prod(laid[i + 1 :])) for i, d in enumerate(order)):
        return None
    given = arguments(laid, node.args)
    if order == list(range(len(size))):
        node.target, node.args, node.kwargs = target, given, options
        return None
    if torch.Tag.nondeterministic_seeded in node.target.tags:  # type: ignore[union-attr]
        return None  # the order of the numbers may depend on the strides
    with node.graph.inserting_before(node):
        filled = node.graph.call_function(target, given, options)
    filled.meta = {**node.meta, "val": value.permute(order)}
    back = [order.index(d) for d in range(len(size))]
    node.target, node.args, node.kwargs = _ATEN.permute.default, (filled, back), {}
    return filled
