# SPDX-License-Identifier: Apache-2.0
"""The loops of ops of a program that runs forward alone: windows over rows, and copies where autograd has views.

    max_pool2d_with_indices, 3 x 3, stride 2      rows i of the result read rows 2 i - 1 to 2 i + 1

A window that reaches over the edge reads padding there; each has at least one row that exists.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import torch

from .nests import RULES, Call, Dims, Nest, Rule, Window, by, leading, nest, numbered, pointwise, reduced, reduction

PADDED = {"aten.convolution.default": 0.0, "aten.max_pool2d_with_indices.default": float("-inf")}
"""The number that rows beyond the edge count as; ops whose windows have no padding are not here."""


def _spatial(value: torch.Tensor, made: torch.Tensor, windows: Sequence[Window]) -> dict[str, Window]:
    """The windows of which each reads a row, by loop; of all others the dimension is not cut."""
    found: dict[str, Window] = {}
    for window in windows:
        last = (int(made.shape[window.dim]) - 1) * window.step + window.offset
        if -window.offset < window.length and last < value.shape[window.dim] and made.shape[window.dim] > 1:
            found[f"d{window.dim}"] = window
    return found


def _windowed(call: Call, name: str, value: torch.Tensor, made: torch.Tensor, windows: Sequence[Window]) -> Nest | None:
    """The batch, and dimensions over which windows move; other tensors are read as a whole."""
    found = _spatial(value, made, windows)
    dims: Dims = ("n", *(loop if (loop := f"d{d}") in found else None for d in range(1, made.dim())))
    given = [leading(("n",), value) if named == name else None for _, named, _ in call.named()]
    return nest(call, given, [dims for _ in call.outputs], windows={name: found})


def _each(value: Any, dim: int) -> int:
    """A setting of one spatial dimension; a single one is for all."""
    return int(value[dim - 2] if len(value) > 1 else value[0]) if value else 0


def _convolution(call: Call) -> Nest | None:
    """Batch and rows; the channels that it makes would cut its weights, which are constants."""
    value, weight = call.argument("input"), call.argument("weight")
    if call.argument("transposed"):
        return None
    stride, padding, dilation = (call.argument(name) for name in ("stride", "padding", "dilation"))
    windows = [
        Window(d, _each(stride, d), -_each(padding, d), (int(weight.shape[d]) - 1) * _each(dilation, d) + 1)
        for d in range(2, value.dim())
    ]
    return _windowed(call, "input", value, call.outputs[0], windows)


def _pool(call: Call) -> Nest | None:
    """Batch, channels and rows, unless indices are used, which count from the first row of all."""
    value, made = call.argument("self"), call.outputs[0]
    is_max = len(call.outputs) > 1
    uses_indices = any(user.target is operator.getitem and user.args[1] == 1 for user in call.node.users)
    size, padding = call.argument("kernel_size"), call.argument("padding")
    is_over_edges = call.argument("ceil_mode") or any(padding)
    if value.dim() != 4 or uses_indices or (is_over_edges and not (is_max and value.is_floating_point())):
        return None
    stride, dilation = call.argument("stride") or size, call.argument("dilation") if is_max else [1]
    windows = [
        Window(d, _each(stride, d), -_each(padding, d), (_each(size, d) - 1) * _each(dilation, d) + 1) for d in (2, 3)
    ]
    found = _spatial(value, made, windows)
    dims: Dims = ("n", "c", *(loop if (loop := f"d{d}") in found else None for d in (2, 3)))
    return nest(call, [("n", "c", None, None)], [dims for _ in call.outputs], windows={"self": found})


def _batch_norm(call: Call) -> Nest | None:
    """All dimensions but the channels, which would cut constants."""
    dims = numbered(call.first.dim(), frozenset([1]))
    given = [dims if name == "input" else None for _, name, _ in call.named()]
    return nest(call, given, [dims, None, None])


def _permuted(call: Call) -> Nest | None:
    order = [int(d) % max(1, call.first.dim()) for d in call.argument("dims")]
    dims = numbered(call.first.dim())
    return nest(call, [dims], [tuple(dims[d] for d in order)])


def _expanded(call: Call) -> Nest | None:
    (made,) = call.outputs
    dims = numbered(made.dim())
    return nest(call, [dims[made.dim() - call.first.dim() :]], [dims], {"size": dims})


def _squeezed(call: Call) -> Nest | None:
    """Without dimensions of one iteration."""
    value, (made,) = call.first, call.outputs
    given = [call.argument("dim")] if isinstance(call.argument("dim"), int) else list(call.argument("dim"))
    gone = {int(d) % max(1, value.dim()) for d in given if value.shape[d] == 1}
    dims = numbered(value.dim())
    kept = tuple(loop for d, loop in enumerate(dims) if d not in gone)
    return nest(call, [dims], [kept]) if len(kept) == made.dim() else None


def _unsqueezed(call: Call) -> Nest | None:
    (made,) = call.outputs
    dims = list(numbered(call.first.dim()))
    place = int(call.argument("dim")) % made.dim()
    return nest(call, [tuple(dims)], [(*dims[:place], None, *dims[place:])])


def _part(call: Call) -> Nest | None:
    """All dimensions but the one of which it takes a part."""
    dims = numbered(call.first.dim(), reduced(call))
    return nest(call, [dims], [dims])


def _padded(call: Call) -> Nest | None:
    """The dimensions that it does not pad."""
    value = call.first
    padding = list(call.argument("pad"))
    changed = frozenset(value.dim() - 1 - i // 2 for i, count in enumerate(padding) if count)
    dims = numbered(value.dim(), changed)
    return nest(call, [dims], [dims])


def _linear(call: Call) -> Nest | None:
    dims = numbered(call.first.dim(), frozenset([call.first.dim() - 1]))
    return nest(call, [dims, None, None], [dims])


MEAN = "aten.mean.dim"
"""A sum over loops, divided by the number of all iterations in the end."""
ADDED = (MEAN, "aten.sum.dim_IntList")
"""Ops whose results slices may add up."""

FORWARD_RULES: dict[str, Rule] = {
    **RULES,
    "aten.convolution.default": _convolution,
    "aten.max_pool2d_with_indices.default": _pool,
    "aten.avg_pool2d.default": _pool,
    MEAN: reduction(True),
    "aten._native_batch_norm_legit_no_training.default": _batch_norm,
    "aten.permute_copy.default": _permuted,
    "aten.expand_copy.default": _expanded,
    "aten.squeeze_copy.dims": _squeezed,
    "aten.squeeze_copy.dim": _squeezed,
    "aten.unsqueeze_copy.default": _unsqueezed,
    "aten.slice_copy.Tensor": _part,
    "aten.constant_pad_nd.default": _padded,
    "aten.linear.default": _linear,
    "aten.upsample_nearest2d.vec": by("nc..->nc.."),
    "aten.upsample_bilinear2d.vec": by("nc..->nc.."),
    "aten.hardswish.default": pointwise,
    "aten.alias_copy.default": pointwise,
    "dim_order_ops._clone_dim_order.default": pointwise,
    "dim_order_ops._to_dim_order_copy.default": pointwise,
    "quantized_decomposed.quantize_per_tensor.default": pointwise,
    "quantized_decomposed.dequantize_per_tensor.default": pointwise,
}
"""The rule of each op of a forward program."""
