# SPDX-License-Identifier: Apache-2.0
"""ATen's core ops as programs of one op, and what ExecuTorch has against some of them."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.utils._pytree import tree_flatten, tree_unflatten

Call = tuple[tuple[Any, ...], dict[str, Any]]


def core_ops() -> dict[str, torch._ops.OpOverload]:
    """The ops that torch tags as core ATen, by names such as ``"add.Tensor"``, but for variants that write an `out`."""
    found: dict[str, torch._ops.OpOverload] = {}
    for name in torch._C._dispatch_get_all_op_names():
        space, _, rest = name.partition("::")
        packet, _, overload = rest.partition(".")
        op = getattr(getattr(torch.ops.aten, packet, None), overload or "default", None) if space == "aten" else None
        if op is not None and torch.Tag.core in op.tags and overload != "out":
            found[rest] = op
    return dict(sorted(found.items()))


class OneOp(nn.Module):
    """An op on what tanh gives; each of its results is used twice.

    Tensors of the call, in lists too, are the inputs of the program.
    """

    def __init__(self, op: torch._ops.OpOverload, call: Call) -> None:
        super().__init__()
        self.op = op
        self.leaves, self.form = tree_flatten(call)

    def inputs(self) -> tuple[torch.Tensor, ...]:
        """Inputs to export it by."""
        return tuple(leaf for leaf in self.leaves if isinstance(leaf, torch.Tensor)) or (ROW,)

    def forward(self, *inputs: torch.Tensor) -> tuple[Any, ...]:
        produced = [value.tanh() if value.is_floating_point() else value for value in inputs]
        made = iter(produced)
        leaves = [next(made) if isinstance(leaf, torch.Tensor) else leaf for leaf in self.leaves]
        args, words = tree_unflatten(leaves, self.form)
        results = [value for value in tree_flatten(self.op(*args, **words))[0] if value is not None]
        used = [value.logical_not() for value in results if isinstance(value, torch.Tensor) and not value.is_complex()]
        return (*used, *results, produced[0])


def call(*args: Any, **words: Any) -> Call:
    return args, words


def floats(*shape: int) -> torch.Tensor:
    return torch.rand(shape, generator=torch.Generator().manual_seed(sum(shape))) + 0.1


ROW, TABLE, IMAGE, VIDEO = floats(6), floats(4, 6), floats(1, 2, 6, 6), floats(1, 2, 4, 4, 4)
INTEGERS, PLACES, MASK = torch.arange(24).view(4, 6) % 5, torch.tensor([2, 0, 3]), torch.arange(24).view(4, 6) % 3 == 0
EVERY = torch.arange(24).view(4, 6) % 4
ONES = [1, 1]
PAIR = [1, 1]

CALLS: dict[str, Call] = {
    "_adaptive_avg_pool2d": call(IMAGE, [3, 3]),
    "_adaptive_avg_pool2d_backward": call(floats(1, 2, 3, 3), IMAGE),
    "_adaptive_avg_pool3d": call(VIDEO, [2, 2, 2]),
    "_cdist_forward": call(TABLE, floats(3, 6), 2.0, None),
    "_embedding_bag": call(TABLE, PLACES, torch.tensor([0, 2])),
    "_fft_c2r": call(torch.complex(TABLE, TABLE), [1], 0, 10),
    "_fft_r2c": call(TABLE, [1], 0, True),
    "_local_scalar_dense": call(torch.tensor(3.0)),
    "_log_softmax": call(TABLE, 1, False),
    "_native_batch_norm_legit": call(IMAGE, floats(2), floats(2), floats(2), floats(2), True, 0.1, 1e-5),
    "_native_batch_norm_legit.no_stats": call(IMAGE, floats(2), floats(2), True, 0.1, 1e-5),
    "_native_batch_norm_legit_no_training": call(IMAGE, floats(2), floats(2), floats(2), floats(2), 0.1, 1e-5),
    "_pdist_forward": call(TABLE, 2.0),
    "_softmax": call(TABLE, 1, False),
    "_to_copy": call(TABLE, dtype=torch.int32),
    "adaptive_avg_pool1d": call(floats(2, 6), [3]),
    "addmm": call(ROW, floats(4, 5), floats(5, 6)),
    "arange.start_step": call(0, 6, 2),
    "as_strided": call(TABLE, [2, 3], [6, 2], 1),
    "avg_pool1d": call(floats(2, 6), [2]),
    "avg_pool2d": call(IMAGE, [2, 2]),
    "avg_pool2d_backward": call(floats(1, 2, 3, 3), IMAGE, [2, 2], [2, 2], [0, 0], False, True, None),
    "avg_pool3d": call(VIDEO, [2, 2, 2]),
    "bmm": call(floats(2, 3, 4), floats(2, 4, 5)),
    "cat": call([TABLE, TABLE], 1),
    "clamp": call(TABLE, 0.2, 0.5),
    "clamp.Tensor": call(TABLE, floats(6), None),
    "col2im": call(floats(1, 8, 9), [4, 4], [2, 2], PAIR, [0, 0], PAIR),
    "constant_pad_nd": call(TABLE, [1, 2], 0.5),
    "convolution": call(IMAGE, floats(3, 2, 3, 3), floats(3), PAIR, PAIR, PAIR, False, [0, 0], 1),
    "convolution_backward": call(
        floats(1, 3, 6, 6), IMAGE, floats(3, 2, 3, 3), None, PAIR, PAIR, PAIR, False, [0, 0], 1, [True, True, False]
    ),
    "cumsum": call(TABLE, 1),
    "diagonal": call(TABLE),
    "div.Scalar_mode": call(TABLE, 0.3, rounding_mode="floor"),
    "div.Tensor_mode": call(TABLE, TABLE, rounding_mode="trunc"),
    "embedding": call(TABLE, PLACES),
    "embedding_dense_backward": call(floats(3, 6), PLACES, 4, -1, False),
    "empty.memory_format": call([4, 6]),
    "empty_strided": call([4, 6], [6, 1]),
    "expand": call(ROW, [4, 6]),
    "fill.Scalar": call(TABLE, 2.0),
    "flip": call(TABLE, [1]),
    "full": call([4, 6], 0.5),
    "full_like": call(TABLE, 0.5),
    "gather": call(TABLE, 0, EVERY),
    "grid_sampler_2d": call(IMAGE, floats(1, 3, 3, 2), 0, 0, False),
    "index.Tensor": call(TABLE, [None, PLACES]),
    "index_put": call(TABLE, [PLACES], floats(3, 6), True),
    "index_select": call(TABLE, 1, PLACES),
    "masked_scatter": call(TABLE, MASK, floats(24)),
    "max.dim": call(TABLE, 1),
    "max_pool2d_with_indices": call(IMAGE, [2, 2]),
    "max_pool2d_with_indices_backward": call(
        floats(1, 2, 3, 3), IMAGE, [2, 2], [2, 2], [0, 0], PAIR, False, (torch.arange(18) % 36).view(1, 2, 3, 3)
    ),
    "max_pool3d_with_indices": call(VIDEO, [2, 2, 2]),
    "mean.dim": call(TABLE, [1]),
    "min.dim": call(TABLE, 1),
    "mm": call(TABLE, floats(6, 3)),
    "native_dropout": call(TABLE, 0.5, True),
    "native_group_norm": call(IMAGE, floats(2), floats(2), 1, 2, 36, 2, 1e-5),
    "native_group_norm_backward": call(
        IMAGE, IMAGE, floats(1, 2), floats(1, 2), floats(2), 1, 2, 36, 2, [True, False, True]
    ),
    "native_layer_norm": call(TABLE, [6], floats(6), floats(6), 1e-5),
    "native_layer_norm_backward": call(
        TABLE, TABLE, [6], floats(4, 1), floats(4, 1), floats(6), floats(6), [True, False, True]
    ),
    "permute": call(TABLE, [1, 0]),
    "pow.Scalar": call(2.0, TABLE),
    "prod.dim_int": call(TABLE, 1),
    "rand": call([4, 6]),
    "randn": call([4, 6]),
    "randperm": call(6),
    "reflection_pad1d": call(floats(2, 6), [1, 2]),
    "reflection_pad2d": call(IMAGE, [1, 2, 1, 2]),
    "reflection_pad3d": call(VIDEO, [1, 2, 1, 2, 1, 2]),
    "repeat": call(TABLE, [2, 1]),
    "replication_pad2d": call(IMAGE, [1, 2, 1, 2]),
    "replication_pad3d": call(VIDEO, [1, 2, 1, 2, 1, 2]),
    "resize_": call(TABLE, [2, 3]),
    "scalar_tensor": call(2.0),
    "scatter.src": call(TABLE, 0, EVERY, floats(4, 6)),
    "scatter.value": call(TABLE, 0, EVERY, 2.0),
    "scatter_add": call(TABLE, 0, EVERY, floats(4, 6)),
    "scatter_reduce.two": call(TABLE, 0, EVERY, floats(4, 6), "amax"),
    "select.int": call(TABLE, 0, 1),
    "select_scatter": call(TABLE, ROW, 0, 1),
    "slice.Tensor": call(TABLE, 1, 1, 5, 2),
    "slice_scatter": call(TABLE, floats(2, 6), 0, 1, 3),
    "split_with_sizes": call(TABLE, [1, 3]),
    "squeeze.dim": call(floats(1, 6), 0),
    "squeeze.dims": call(floats(1, 6, 1), [0, 2]),
    "sum.dim_IntList": call(TABLE, [1]),
    "sym_size.int": call(TABLE, 0),
    "sym_stride.int": call(TABLE, 0),
    "topk": call(TABLE, 2),
    "unsqueeze": call(TABLE, 1),
    "upsample_bilinear2d.vec": call(IMAGE, [9, 9], False, None),
    "upsample_nearest2d.vec": call(IMAGE, [9, 9], None),
    "var.correction": call(TABLE, [1], correction=0),
    "var.dim": call(TABLE, [1]),
    "view": call(TABLE, [6, 4]),
    "where.self": call(MASK, TABLE, floats(4, 6)),
}
"""Calls that say more than that one or two tensors are given."""


def call_of(name: str, op: torch._ops.OpOverload) -> Call:
    """The call of a core op: that of the table, or by the types of its arguments."""
    if name in CALLS:
        return CALLS[name]
    tensor = INTEGERS if name.startswith("bitwise") else TABLE
    required = [argument for argument in op._schema.arguments if not argument.has_default_value()]
    kinds = {"Tensor": tensor, "number": 2, "int": 1, "List[int]": [1], "Optional[List[int]]": [1]}
    words = {argument.name: kinds[str(argument.type)] for argument in required if argument.kwarg_only}
    return tuple(kinds[str(argument.type)] for argument in required if not argument.kwarg_only), words
