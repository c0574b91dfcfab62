#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The sizes that Remora gives the outputs of random nodes, beside those of what onnxruntime computes.

usage: shapes_test.py BIN ENVIRONMENT

A node of every listed op at every opset that knows it, with random attributes and shapes: what onnxruntime runs, Remora reads,
and every output takes as many bytes as its array. What onnxruntime refuses says nothing,
and there are no windows larger than the data, nor what its kernels do unlike the op's definition (dilations or output_padding with SAME). REMORA_CASES (20 a row) and REMORA_SEED
draw more and others. Exit 77: the environment is not there (tests/onnxruntime/setup).
"""

import concurrent.futures
import json
import os
import subprocess
import sys
import tempfile

if __name__ == "__main__" and len(sys.argv) == 3 and sys.prefix != os.path.abspath(sys.argv[2]):
    python = os.path.join(sys.argv[2], "bin", "python")
    if not os.path.exists(python):
        print("no environment: tests/onnxruntime/setup")
        sys.exit(77)
    os.execv(python, [python, *sys.argv])

import random  # noqa: E402

import numpy as np  # noqa: E402
import onnx  # noqa: E402
import onnxruntime  # noqa: E402
from onnx import TensorProto, helper, numpy_helper  # noqa: E402

F, I, B = np.float32, np.int64, np.bool_


class Case:
    """One node: data inputs, which the model is given, and constants, which it holds."""

    def __init__(self, seed, opset):
        self.draw = random.Random(f"{seed} {opset}")
        self.opset = opset
        self.inputs, self.names, self.attributes, self.outputs = {}, [], {}, 1
        self.constants = {}
        self.domain = ""

    def up_to(self, most, least=1):
        return self.draw.randint(least, most)

    def chance(self, part=0.5):
        return self.draw.random() < part

    def shape(self, least=1, most=4, largest=6):
        return [self.up_to(largest) for _ in range(self.up_to(most, least))]

    def data(self, shape, kind=F):
        name = f"x{len(self.names)}"
        self.inputs[name] = np.ones(shape, kind)
        self.names.append(name)

    def constant(self, array):
        name = f"c{len(self.names)}"
        self.constants[name] = array
        self.names.append(name)

    def integers(self, values):
        self.constant(np.asarray(values, I))

    def leave_out(self):
        self.names.append("")

    def set(self, **attributes):
        self.attributes.update(attributes)

    def axis(self, rank):
        return self.draw.randrange(-rank, rank)

    def axes(self, rank, count=None):
        chosen = self.draw.sample(range(rank), count if count is not None else self.up_to(rank))
        return [a - rank if self.chance(0.3) else a for a in chosen]

    def listed(self, name, values, since):
        """An attribute in old opsets, an input from `since` on."""
        if self.opset >= since:
            self.integers(values)
        else:
            self.set(**{name: values})


def window(case, extents, ceil=True, dilations=True):
    kernel = [case.up_to(min(4, extent)) for extent in extents]
    axes = len(kernel)
    case.set(kernel_shape=kernel)
    if case.chance(0.7):
        case.set(strides=[case.up_to(3) for _ in range(axes)])
    how = case.draw.choice(["", "pads", "SAME_UPPER", "SAME_LOWER", "VALID", "pads"])
    if dilations and case.chance(0.3) and not how.startswith("SAME"):
        case.set(dilations=[case.up_to(2) if 2 * k <= extent else 1 for k, extent in zip(kernel, extents)])
    if how == "pads":
        case.set(pads=[case.draw.randrange(k) for k in kernel] + [case.draw.randrange(k) for k in kernel])
    elif how:
        case.set(auto_pad=how)
    if ceil and case.chance():
        case.set(ceil_mode=1)
    return kernel


def max_pool(case):
    extents = [case.up_to(9) for _ in range(case.up_to(3))]
    case.data([case.up_to(2), case.up_to(3), *extents])
    window(case, extents, case.opset >= 10, case.opset >= 10)
    case.outputs = 1 if case.opset < 8 else case.up_to(2)


def average_pool(case):
    extents = [case.up_to(9) for _ in range(case.up_to(3))]
    case.data([case.up_to(2), case.up_to(3), *extents])
    window(case, extents, case.opset >= 10, case.opset >= 19)
    if case.chance():
        case.set(count_include_pad=1)


def lp_pool(case):
    extents = [case.up_to(9) for _ in range(case.up_to(2))]
    case.data([case.up_to(2), case.up_to(3), *extents])
    window(case, extents, case.opset >= 18, case.opset >= 18)


def conv(case):
    extents, groups = [case.up_to(9) for _ in range(case.up_to(3))], case.up_to(2)
    channels, out = groups * case.up_to(3), groups * case.up_to(3)
    case.data([case.up_to(2), channels, *extents])
    kernel = window(case, extents, ceil=False)
    case.constant(np.ones([out, channels // groups, *kernel], F))
    case.set(group=groups)


def conv_transpose(case):
    extents, groups = [case.up_to(7) for _ in range(case.up_to(2))], case.up_to(2)
    channels, out = groups * case.up_to(3), case.up_to(3)
    case.data([case.up_to(2), channels, *extents])
    kernel = window(case, extents, ceil=False)
    case.constant(np.ones([channels, out, *kernel], F))
    case.set(group=groups)
    strides = case.attributes.get("strides", [1] * len(extents))
    if case.chance(0.3) and not case.attributes.get("auto_pad", "").startswith("SAME"):
        case.set(output_padding=[case.draw.randrange(s) for s in strides])


def reduction(since):
    def make(case):
        shape = case.shape(0 if case.opset >= 18 else 1)
        case.data(shape)
        if case.chance(0.8) and shape:
            case.listed("axes", case.axes(len(shape)), since)
        elif case.opset >= since and case.chance():
            case.integers([])
        if case.chance():
            case.set(keepdims=case.draw.randrange(2))
        if case.opset >= since and case.chance(0.3):
            case.set(noop_with_empty_axes=1)

    return make


def arg_reduction(case):
    shape = case.shape()
    case.data(shape)
    case.set(axis=case.axis(len(shape)), keepdims=case.draw.randrange(2))


def resize(case):
    shape = [case.up_to(2), case.up_to(3), case.up_to(8), case.up_to(8)]
    case.data(shape)
    case.set(mode=case.draw.choice(["nearest", "linear"]))
    axes = None
    if case.opset >= 18 and case.chance(0.4):
        axes = case.axes(4, case.up_to(2))
        case.set(axes=axes)
    picked = [shape[a] for a in axes] if axes else shape
    scales = [case.draw.choice([1.0, 0.5, 2.0, 1.3, 0.7, 2.6]) for _ in picked]
    if not axes:
        scales[:2] = [1.0, 1.0]
    by_sizes = case.opset >= 11 and case.chance()
    if case.opset >= 11:
        case.constant(np.zeros([0], F))
    case.constant(np.asarray([] if by_sizes else scales, F))
    if by_sizes:
        case.integers([max(1, int(e * s)) for e, s in zip(picked, scales)])
        # onnxruntime takes no notice of negative axes there.
        if case.opset >= 18 and case.chance(0.4) and not (axes and min(axes) < 0):
            case.set(keep_aspect_ratio_policy=case.draw.choice(["not_larger", "not_smaller"]))


def pad(case):
    shape = case.shape()
    case.data(shape)
    axes = case.axes(len(shape)) if case.opset >= 18 and case.chance(0.4) else None
    count = len(axes) if axes else len(shape)
    case.listed("pads", [case.draw.randint(-1 if case.chance(0.2) else 0, 3) for _ in range(2 * count)], 11)
    if axes:
        case.leave_out()
        case.integers(axes)


def slice_(case):
    shape = case.shape()
    case.data(shape)
    axes = case.axes(len(shape))
    starts = [case.draw.randint(-8, 8) for _ in axes]
    ends = [case.draw.choice([case.draw.randint(-8, 8), 2**31, 2**62, -(2**62)]) for _ in axes]
    if case.opset >= 10:
        for values in (starts, ends, axes):
            case.integers(values)
        if case.chance():
            case.integers([case.draw.choice([1, 2, 3, -1, -2]) for _ in axes])
    else:
        case.set(starts=starts, ends=[max(-(2**31), min(e, 2**31)) for e in ends], axes=[a % len(shape) for a in axes])


def split(case):
    shape = case.shape(1, 4, 9)
    axis = case.axis(len(shape))
    case.data(shape)
    case.set(axis=axis if case.opset >= 11 else axis % len(shape))
    parts = case.up_to(4)
    case.outputs = parts
    if case.chance():
        cuts = sorted(case.draw.randint(0, shape[axis]) for _ in range(parts - 1))
        lengths = [b - a for a, b in zip([0, *cuts], [*cuts, shape[axis]])]
        case.listed("split", lengths, 13)
    elif case.opset >= 18:
        case.set(num_outputs=parts)


def concat(case):
    shape = case.shape()
    axis = case.axis(len(shape))
    for _ in range(case.up_to(3)):
        part = list(shape)
        part[axis] = case.draw.randint(0 if case.chance(0.2) else 1, 4)
        case.data(part)
    case.set(axis=axis if case.opset >= 11 else axis % len(shape))


def gather(case):
    shape = case.shape()
    axis = case.axis(len(shape))
    case.data(shape)
    case.constant(np.zeros(case.shape(0, 3), I))
    case.set(axis=axis if case.opset >= 11 else axis % len(shape))


def gather_elements(case):
    shape = case.shape()
    case.data(shape)
    case.constant(np.zeros([case.up_to(e) for e in shape], I))
    case.set(axis=case.axis(len(shape)))


def gather_nd(case):
    shape = case.shape(2)
    batch = case.draw.randrange(len(shape)) if case.opset >= 12 and case.chance(0.4) else 0
    depth = case.up_to(len(shape) - batch)
    case.data(shape)
    case.constant(np.zeros(shape[:batch] + case.shape(0, 2) + [depth], I))
    if batch:
        case.set(batch_dims=batch)


def transpose(case):
    shape = case.shape()
    case.data(shape)
    if case.chance(0.8):
        case.set(perm=case.draw.sample(range(len(shape)), len(shape)))


def reshape(case):
    shape = case.shape(1, 3)
    if case.opset >= 14 and case.chance(0.2):
        shape[case.draw.randrange(len(shape))] = 0
    case.data(shape)
    target = list(shape)
    case.draw.shuffle(target)
    if case.chance():
        target[case.draw.randrange(len(target))] = -1
    elif case.chance():
        target = [-1]
    elif case.chance():
        target = [0] * len(shape)
    case.integers(target)
    if case.opset >= 14 and case.chance(0.3):
        case.set(allowzero=1)


def squeeze(case):
    shape = [1 if case.chance() else case.up_to(4) for _ in range(case.up_to(4))]
    case.data(shape)
    ones = [a for a, e in enumerate(shape) if e == 1]
    if ones and case.chance(0.7):
        case.listed("axes", case.draw.sample(ones, case.up_to(len(ones))), 13)


def unsqueeze(case):
    shape = case.shape(0, 3)
    case.data(shape)
    count = case.up_to(2)
    axes = case.draw.sample(range(len(shape) + count), count)
    if case.opset >= 11 and case.chance():
        axes = [a - len(shape) - count for a in axes]
    case.listed("axes", axes, 13)


def flatten(case):
    shape = case.shape()
    case.data(shape)
    case.set(axis=case.draw.randint(-len(shape) if case.opset >= 11 else 0, len(shape)))


def expand(case):
    shape = [1 if case.chance() else case.up_to(4) for _ in range(case.up_to(3))]
    case.data(shape)
    target = [case.up_to(4) if e == 1 else case.draw.choice([1, e]) for e in shape]
    case.integers([case.up_to(3) for _ in range(case.draw.randrange(2))] + target)


def tile(case):
    shape = case.shape()
    case.data(shape)
    case.integers([case.draw.randint(0 if case.chance(0.1) else 1, 3) for _ in shape])


def matmul(case):
    inner = case.up_to(5)
    batch = case.shape(0, 2)
    left = batch + [case.up_to(4), inner]
    right = ([1] * len(batch) if case.chance() else batch) + [inner, case.up_to(4)]
    case.data([inner] if case.chance(0.15) else left)
    case.data([inner] if case.chance(0.15) else right)


def gemm(case):
    m, n, k = case.up_to(5), case.up_to(5), case.up_to(5)
    ta, tb = case.draw.randrange(2), case.draw.randrange(2)
    case.data([k, m] if ta else [m, k])
    case.data([n, k] if tb else [k, n])
    if case.opset < 11 or case.chance():
        case.data([n])
    case.set(transA=ta, transB=tb)


EQUATIONS = [
    "ij,jk->ik",
    "ij,jk",
    "bij,bjk->bik",
    "...ij,...jk->...ik",
    "ii->i",
    "ij->",
    "ij->ji",
    "i,j->ij",
    "bhid,bhjd->bhij",
]


def einsum(case):
    equation = case.draw.choice(EQUATIONS)
    extents = {}
    for term in equation.split("->")[0].split(","):
        hidden = [2, 3] if "..." in term else []
        case.data(hidden + [extents.setdefault(c, case.up_to(5)) for c in term.replace("...", "")])
    case.set(equation=equation)


def binary(kind=F):
    def make(case):
        shape = case.shape(0)
        for _ in range(2):
            operand = [
                1 if case.chance(0.3) else e
                for e in shape[case.draw.randrange(len(shape) + 1) if case.chance(0.3) else 0 :]
            ]
            case.data(operand, kind)

    return make


def prelu(case):
    shape = case.shape()
    case.data(shape)
    case.data([1 if case.chance(0.3) else e for e in shape[case.draw.randrange(len(shape)) :]])


def unary(kind=F):
    def make(case):
        case.data(case.shape(0), kind)

    return make


def where(case):
    shape = case.shape(0)
    for kind in (B, F, F):
        case.data(
            [
                1 if case.chance(0.3) else e
                for e in shape[case.draw.randrange(len(shape) + 1) if case.chance(0.3) else 0 :]
            ],
            kind,
        )


def one_hot(case):
    case.data(case.shape(0, 3), I)
    depth = case.up_to(6)
    case.constant(np.asarray([depth] if case.chance() else depth, I))
    case.constant(np.asarray([0, 1], F))
    case.set(axis=case.draw.choice([-1, 0]))


def top_k(case):
    shape = case.shape()
    axis = case.axis(len(shape))
    case.data(shape)
    k = case.up_to(shape[axis])
    if case.opset >= 10:
        case.integers([k])
    else:
        case.set(k=k)
    case.set(axis=axis if case.opset >= 11 else axis % len(shape))
    case.outputs = 2


def compress(case):
    shape = case.shape()
    case.data(shape)
    if case.chance(0.7):
        axis = case.axis(len(shape))
        case.set(axis=axis if case.opset >= 11 else axis % len(shape))
        length = shape[axis]
    else:
        length = int(np.prod(shape))
    case.constant(np.asarray([case.chance() for _ in range(case.up_to(length))], B))


def range_(case):
    kind = case.draw.choice([F, I])
    start, step = case.draw.randint(-5, 5), case.draw.choice([1, 2, -1, 3, 0.5 if kind is F else 1])
    for value in (start, case.draw.randint(-9, 9), step):
        case.constant(np.asarray(value, kind))


def depth_to_space(case):
    block = case.up_to(3)
    case.data([case.up_to(2), block * block * case.up_to(3), case.up_to(4), case.up_to(4)])
    case.set(blocksize=block)


def space_to_depth(case):
    block = case.up_to(3)
    case.data([case.up_to(2), case.up_to(3), block * case.up_to(4), block * case.up_to(4)])
    case.set(blocksize=block)


def recurrent(gates, outputs):
    def make(case):
        directions = case.up_to(2)
        steps, batch, size, hidden = (case.up_to(4) for _ in range(4))
        case.data([steps, batch, size])
        case.constant(np.ones([directions, gates * hidden, size], F))
        case.constant(np.ones([directions, gates * hidden, hidden], F))
        case.set(hidden_size=hidden, direction="bidirectional" if directions == 2 else "forward")
        case.outputs = outputs

    return make


def layer_norm(case):
    shape = case.shape(1, 4)
    axis = case.axis(len(shape))
    case.data(shape)
    case.constant(np.ones(shape[axis:], F))
    case.set(axis=axis)
    case.outputs = case.draw.choice([1, 3])


def grid_sample(case):
    n, c = case.up_to(2), case.up_to(3)
    case.data([n, c, case.up_to(6), case.up_to(6)])
    case.data([n, case.up_to(5), case.up_to(5), 2])


def non_zero(case):
    shape = case.shape(1, 3)
    case.constant(np.asarray(np.random.default_rng(case.up_to(10**6)).integers(0, 2, shape), F))


def stft(case):
    length = case.up_to(9, 4)
    case.data([case.up_to(2), length + case.draw.randrange(20), 1])
    case.constant(np.asarray(case.up_to(4), I))
    if case.chance():
        case.constant(np.ones([length], F))
        case.chance() and case.constant(np.asarray(length, I))
    else:
        case.leave_out()
        case.constant(np.asarray(length, I))
    case.set(onesided=case.draw.randrange(2))


def col2im(case):
    image, block = [case.up_to(6, 3), case.up_to(6, 3)], [case.up_to(3), case.up_to(3)]
    places = (image[0] - block[0] + 1) * (image[1] - block[1] + 1)
    case.data([case.up_to(2), block[0] * block[1] * case.up_to(3), places])
    case.integers(image)
    case.integers(block)


def bias_gelu(case):
    shape = case.shape(2, 3)
    case.domain = "com.microsoft"
    case.data(shape)
    case.data(shape[-1:])


def skip_norm(case):
    case.domain = "com.microsoft"
    shape = [case.up_to(2), case.up_to(4), case.up_to(6)]
    case.data(shape)
    case.data(shape)
    case.data(shape[-1:])


def ms_attention(case):
    case.domain = "com.microsoft"
    heads, size = case.up_to(3), case.up_to(3) * 2
    hidden, batch, length, inner = heads * size, case.up_to(2), case.up_to(5), case.up_to(5)
    case.data([batch, length, inner])
    case.constant(np.ones([inner, 3 * hidden], F))
    case.constant(np.ones([3 * hidden], F))
    case.set(num_heads=heads)


def ms_multi_head(case):
    case.domain = "com.microsoft"
    heads, size = case.up_to(3), case.up_to(3) * 2
    batch, keys = case.up_to(2), case.up_to(5)
    case.data([batch, case.up_to(5), heads * size])
    case.data([batch, keys, heads * size])
    case.data([batch, keys, heads * size])
    case.set(num_heads=heads)


def ms_group_query(case):
    case.domain = "com.microsoft"
    kept, size = case.up_to(2), case.up_to(2) * 8
    heads, batch, length = kept * case.up_to(3), case.up_to(2), case.up_to(5)
    case.data([batch, length, heads * size])
    case.data([batch, length, kept * size])
    case.data([batch, length, kept * size])
    past = case.draw.choice([0, length])
    case.data([batch, kept, past, size])
    case.data([batch, kept, past, size])
    case.constant(np.full([batch], length - 1, np.int32))
    case.constant(np.asarray(length, np.int32))
    case.set(num_heads=heads, kv_num_heads=kept)
    case.outputs = 3


def matmul_nbits(case):
    case.domain = "com.microsoft"
    blocks, n, block = case.up_to(3), case.up_to(6), 16
    k = blocks * block
    case.data(case.shape(1, 2) + [k])
    case.constant(np.ones([n, blocks, block // 2], np.uint8))
    case.constant(np.ones([n * blocks], F))
    case.set(K=k, N=n, bits=4, block_size=block)


def fused_matmul(case):
    case.domain = "com.microsoft"
    m, n, k, ta, tb = case.up_to(4), case.up_to(4), case.up_to(4), case.draw.randrange(2), case.draw.randrange(2)
    batch = case.shape(0, 2)
    case.data(batch + ([k, m] if ta else [m, k]))
    case.data(batch + ([n, k] if tb else [k, n]))
    case.set(transA=ta, transB=tb)


def qlinear_add(case):
    case.domain = "com.microsoft"
    shape = case.shape(1, 4)
    for k in range(2):
        case.data([1 if k and case.chance(0.3) else e for e in shape], np.uint8)
        case.constant(np.asarray(0.1, F))
        case.constant(np.asarray(0, np.uint8))
    case.constant(np.asarray(0.1, F))
    case.constant(np.asarray(0, np.uint8))


def qlinear_pool(case):
    case.domain = "com.microsoft"
    case.data([case.up_to(2), case.up_to(3), case.up_to(6), case.up_to(6)], np.uint8)
    for _ in range(2):
        case.constant(np.asarray(0.1, F))
        case.constant(np.asarray(0, np.uint8))


# Op: what makes a case, the first opset.
OPS = {
    "MaxPool": (max_pool, 7), "AveragePool": (average_pool, 7), "LpPool": (lp_pool, 7), "Conv": (conv, 7),
    "ConvTranspose": (conv_transpose, 7), "ReduceSum": (reduction(13), 7), "ArgMax": (arg_reduction, 11), "Resize": (resize, 10),
    "Pad": (pad, 7), "Slice": (slice_, 7), "Split": (split, 7), "Concat": (concat, 7), "Gather": (gather, 7),
    "GatherElements": (gather_elements, 11), "GatherND": (gather_nd, 11), "Transpose": (transpose, 7), "Reshape": (reshape, 7),
    "Squeeze": (squeeze, 7), "Unsqueeze": (unsqueeze, 7), "Flatten": (flatten, 7), "Expand": (expand, 8), "Tile": (tile, 7),
    "MatMul": (matmul, 7), "Gemm": (gemm, 7), "Einsum": (einsum, 12), "Where": (where, 9), "OneHot": (one_hot, 9),
    "TopK": (top_k, 7), "Compress": (compress, 9), "Range": (range_, 11), "DepthToSpace": (depth_to_space, 7),
    "SpaceToDepth": (space_to_depth, 7), "LSTM": (recurrent(4, 3), 7), "GRU": (recurrent(3, 2), 7), "RNN": (recurrent(1, 2), 7),
    "LayerNormalization": (layer_norm, 17), "GridSample": (grid_sample, 16), "NonZero": (non_zero, 9), "STFT": (stft, 17),
    "Col2Im": (col2im, 18), "BiasGelu": (bias_gelu, 17), "SkipLayerNormalization": (skip_norm, 17),
    "Attention": (ms_attention, 17), "MultiHeadAttention": (ms_multi_head, 17), "GroupQueryAttention": (ms_group_query, 17),
    "MatMulNBits": (matmul_nbits, 17), "FusedMatMul": (fused_matmul, 17), "QLinearAdd": (qlinear_add, 17),
    "QLinearGlobalAveragePool": (qlinear_pool, 17), "PRelu": (prelu, 9),
}  # fmt: skip
for name in ("Max", "Min", "Mean", "L1", "L2", "Prod", "LogSumExp", "SumSquare", "LogSum"):
    OPS[f"Reduce{name}"] = (reduction(18), 7)
for name in ("Add", "Mul", "Div", "Pow", "Less", "Equal", "Max"):
    OPS[name] = (binary(), 8 if name == "Max" else 7)
for name in ("GreaterOrEqual", "LessOrEqual"):
    OPS[name] = (binary(), 12)
for name in ("And", "Xor"):
    OPS[name] = (binary(B), 7)
for name in ("Relu", "Softmax", "Sigmoid", "Exp", "Identity", "Shape", "Size", "Cast", "Gelu", "HardSwish"):
    OPS[name] = (unary(), {"Gelu": 20, "HardSwish": 14}.get(name, 7))

NEWEST = 23


def make(op, seed, opset):
    case = Case(seed, opset)
    OPS[op][0](case)
    if op == "Cast":
        case.set(to=case.draw.choice([TensorProto.DOUBLE, TensorProto.INT8, TensorProto.BOOL, TensorProto.FLOAT16]))
    outputs = [f"y{k}" for k in range(case.outputs)]
    node = helper.make_node(op, case.names, outputs, "node", domain=case.domain, **case.attributes)
    # What is computed from constants alone is folded away.
    inputs = case.inputs or {"unread": np.ones([1], F)}
    value = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape) for n, a in inputs.items()
    ]
    graph = helper.make_graph(
        [node],
        "g",
        value,
        [onnx.ValueInfoProto(name=name) for name in outputs],
        [numpy_helper.from_array(a, n) for n, a in case.constants.items()],
    )
    imports = [helper.make_opsetid("", opset)] + ([helper.make_opsetid(case.domain, 1)] if case.domain else [])
    return helper.make_model(graph, opset_imports=imports, ir_version=8), inputs, bool(case.inputs)


def run(model, inputs):
    """The arrays; None where onnxruntime refuses the model."""
    settings = onnxruntime.SessionOptions()
    settings.log_severity_level = 4
    settings.intra_op_num_threads = 1
    settings.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    try:
        return onnxruntime.InferenceSession(model.SerializeToString(), settings, ["CPUExecutionProvider"]).run(
            None, inputs
        )
    except Exception:  # noqa: BLE001
        return None


def compare(program, folder, op, seed, opset):
    """Nothing to compare: None; alike: ""; else what differs."""
    model, inputs, is_live = make(op, seed, opset)
    arrays = run(model, inputs)
    if arrays is None:
        return None
    path = os.path.join(folder, f"{op}-{opset}-{seed}.onnx")
    onnx.save(model, path)
    words = [program, "convert", path, "-q"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        return f"{path}: exit {done.returncode}: {done.stderr.strip().splitlines()[-1][:300]}"
    sizes = {tensor["name"]: tensor["size"] for tensor in json.loads(done.stdout)["tensors"]}
    for k, array in enumerate(arrays):
        # A view has its input's memory, what constants alone decide none that counts.
        size = sizes.get(f"y{k}")
        if size is not None and size != array.nbytes:
            return f"{path}: y{k} has {size} bytes, onnxruntime's {array.nbytes} ({list(array.shape)})"
        if (
            size is None
            and is_live
            and k == 0
            and array.nbytes != next(iter(inputs.values())).nbytes
            and op not in ("Shape", "Size")
        ):
            return f"{path}: y{k} has no tensor"
    os.remove(path)
    return ""


def main():
    program = os.path.join(sys.argv[1], "remora")
    cases, seed = int(os.environ.get("REMORA_CASES", "3")), int(os.environ.get("REMORA_SEED", "0"))
    folder = tempfile.mkdtemp(prefix="remora-shapes-")
    rows = [
        (op, seed + k, opset)
        for op, (_, first) in OPS.items()
        for opset in range(first, NEWEST + 1)
        for k in range(cases)
    ]
    with concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        found = list(pool.map(lambda row: compare(program, folder, *row), rows))
    compared = [row for row, what in zip(rows, found) if what is not None]
    faults = [what for what in found if what]
    print(f"{len(rows)} nodes of {len(OPS)} ops: {len(compared)} run in onnxruntime {onnxruntime.__version__}")
    never = sorted(set(OPS) - {op for op, _, _ in compared})
    if never:
        print("never run: " + ", ".join(never))
    for fault in faults[:100]:
        print(fault)
    return 1 if faults or never else 0


if __name__ == "__main__":
    sys.exit(main())
