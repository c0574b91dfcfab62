#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Gradients of ONNX nodes by PyTorch, for axes_test.py: questions on standard input, answers on standard output,
pickled, each behind its length. Reads what its own parent writes. The answer is None for an op that is not listed."""

import pickle
import struct
import sys

import torch
import torch.nn.functional as T

torch.set_num_threads(1)
ops = {}


def op(*names):
    def add(function):
        for name in names:
            ops[name] = function
        return function

    return add


for _name in [
    "Relu",
    "Sigmoid",
    "Tanh",
    "Exp",
    "Log",
    "Sqrt",
    "Abs",
    "Neg",
    "Erf",
    "Sin",
    "Cos",
    "Tan",
    "Reciprocal",
    "Atan",
    "Sinh",
    "Cosh",
    "Asinh",
]:
    ops[_name] = lambda node, x, f=getattr(torch, _name.lower()): f(x)
ops |= {
    "Add": lambda node, a, b: a + b,
    "Sub": lambda node, a, b: a - b,
    "Mul": lambda node, a, b: a * b,
    "Div": lambda node, a, b: a / b,
    "Pow": lambda node, a, b: a**b,
    "Max": lambda node, a, *more: [a := torch.maximum(a, b) for b in more][-1] if more else a,
    "Min": lambda node, a, *more: [a := torch.minimum(a, b) for b in more][-1] if more else a,
    "Sum": lambda node, *all: sum(all[1:], all[0]),
    "Mean": lambda node, *all: sum(all[1:], all[0]) / len(all),
    "Where": lambda node, c, a, b: torch.where(c, a, b),
    "Clip": lambda node, x, low, high: torch.clamp(x, low, high),
    "PRelu": lambda node, x, slope: torch.where(x < 1, x * slope, x),
    "Selu": lambda node, x: T.selu(x),
    "Softplus": lambda node, x: T.softplus(x),
    "Gelu": lambda node, x: T.gelu(x),
    "LeakyRelu": lambda node, x: T.leaky_relu(x, 0.01),
    "HardSwish": lambda node, x: T.hardswish(x),
    "Mish": lambda node, x: T.mish(x),
    "GlobalAveragePool": lambda node, x: x.mean(dim=list(range(2, x.dim())), keepdim=True),
    "GlobalMaxPool": lambda node, x: x.amax(dim=list(range(2, x.dim())), keepdim=True),
    "MatMul": lambda node, a, b: torch.matmul(a, b),
    "Einsum": lambda node, *all: torch.einsum(node["equation"].replace(" ", ""), *all),
    "Transpose": lambda node, x: x.permute(node.get("perm", list(range(x.dim()))[::-1])),
    "Concat": lambda node, *all: torch.cat(all, node["axis"]),
    "Tile": lambda node, x, repeats: x.repeat(repeats.tolist()),
    "Expand": lambda node, x, shape: x * torch.ones(shape.tolist(), dtype=x.dtype),
    "CumSum": lambda node, x, axis: x.cumsum(int(axis)),
    "Trilu": lambda node, x: torch.triu(x),
    "Softsign": lambda node, x: T.softsign(x),
    "Elu": lambda node, x: T.elu(x, node["alpha"]),
    "BiasGelu": lambda node, x, b: T.gelu(x + b),
}  # fmt: skip


@op("Softmax", "LogSoftmax")
def softmax(node, x):
    axis = node.get("axis", -1 if node["opset"] >= 13 else 1)
    function = torch.softmax if node["op"] == "Softmax" else torch.log_softmax
    if node["opset"] >= 13:
        return function(x, axis)
    return function(x.reshape(*x.shape[: axis % x.dim()], -1), -1).reshape(x.shape)


@op("Gemm")
def gemm(node, a, b, c=None):
    a, b = (x.T if node.get(name) else x for x, name in ((a, "transA"), (b, "transB")))
    return a @ b if c is None else a @ b + c


@op("FusedMatMul")
def fused_product(node, a, b):
    a, b = (x.mT if node.get(name) else x for x, name in ((a, "transA"), (b, "transB")))
    return a @ b


def pads_of(node, extents, kernel, outputs=None):
    """Begins and ends of each dimension."""
    rank = len(kernel)
    strides, dilations = node.get("strides", [1] * rank), node.get("dilations", [1] * rank)
    pads, mode = node.get("pads", [0] * (2 * rank)), node.get("auto_pad", "NOTSET")
    begins, ends = list(pads[:rank]), list(pads[rank:])
    for k in range(rank):
        reach = (kernel[k] - 1) * dilations[k] + 1
        if mode.startswith("SAME"):
            total = max(0, (-(-extents[k] // strides[k]) - 1) * strides[k] + reach - extents[k])
            begins[k] = total // 2 if mode == "SAME_UPPER" else total - total // 2
            ends[k] = total - begins[k]
        elif mode == "VALID":
            begins[k] = ends[k] = 0
        if node.get("ceil_mode") and mode == "NOTSET":
            over = (extents[k] + begins[k] + ends[k] - reach) % strides[k]
            # The last window begins within the data or the padding in front.
            if over and (extents[k] + begins[k] + ends[k] - reach) // strides[k] * strides[k] + strides[k] < (
                extents[k] + begins[k]
            ):
                ends[k] += strides[k] - over
    return begins, ends, strides, dilations


def padded(x, begins, ends, value=0.0):
    flat = [pad for pair in zip(begins[::-1], ends[::-1]) for pad in pair]
    return T.pad(x, flat, value=value)


@op("Conv")
def conv(node, x, w, b=None):
    begins, ends, strides, dilations = pads_of(node, x.shape[2:], w.shape[2:])
    function = (T.conv1d, T.conv2d, T.conv3d)[x.dim() - 3]
    return function(padded(x, begins, ends), w, b, strides, 0, dilations, node.get("group", 1))


@op("ConvTranspose")
def conv_transpose(node, x, w, b=None):
    rank = x.dim() - 2
    if node.get("auto_pad", "NOTSET") != "NOTSET" or rank > 3:
        return None
    strides, dilations = node.get("strides", [1] * rank), node.get("dilations", [1] * rank)
    pads, more = node.get("pads", [0] * (2 * rank)), node.get("output_padding", [0] * rank)
    if any(m >= max(s, d) for m, s, d in zip(more, strides, dilations)):
        return None
    function = (T.conv_transpose1d, T.conv_transpose2d, T.conv_transpose3d)[rank - 1]
    y = function(x, w, b, strides, 0, more, node.get("group", 1), dilations)
    for k in range(rank):
        y = y.narrow(k + 2, pads[k], y.shape[k + 2] - pads[k] - pads[rank + k])
    return y


def windows(node, x, value):
    """[..., windows, elements of one]"""
    kernel = node["kernel_shape"]
    begins, ends, strides, dilations = pads_of(node, x.shape[2:], kernel)
    x = padded(x, begins, ends, value)
    for k in range(len(kernel)):
        reach = (kernel[k] - 1) * dilations[k] + 1
        x = x.unfold(k + 2, reach, strides[k])
        x = x[..., :: dilations[k]]
    return x.reshape(*x.shape[: 2 + len(kernel)], -1)


@op("MaxPool")
def max_pool(node, x):
    return windows(node, x, -torch.inf).amax(-1)


@op("AveragePool")
def average_pool(node, x):
    if node.get("ceil_mode"):
        return None
    count = 1 if node.get("count_include_pad") else 0
    ones = windows(node, torch.ones_like(x), float(count)).sum(-1)
    return windows(node, x, 0.0).sum(-1) / ones


@op("Split")
def split(node, x, sizes=None):
    axis = node.get("axis", 0)
    count = node["outputs"]
    extent = x.shape[axis]
    part = -(-extent // count)
    lengths = (
        sizes.tolist()
        if sizes is not None
        else node.get("split") or [part] * (count - 1) + [extent - part * (count - 1)]
    )
    return torch.split(x, lengths, axis)


@op("Slice")
def slice_(node, x, starts, ends, axes=None, steps=None):
    axes = axes.tolist() if axes is not None else list(range(len(starts)))
    for k, axis in enumerate(axes):
        step = int(steps[k]) if steps is not None else 1
        rows = list(range(x.shape[axis]))[int(starts[k]) : int(ends[k]) : step]
        x = x.index_select(axis, torch.tensor(rows, dtype=torch.long))
    return x


@op("Pad")
def pad(node, x, pads, value=None, axes=None):
    axes = [a % x.dim() for a in axes.tolist()] if axes is not None else list(range(x.dim()))
    begins, ends = [0] * x.dim(), [0] * x.dim()
    for k, axis in enumerate(axes):
        begins[axis], ends[axis] = int(pads[k]), int(pads[len(axes) + k])
    return padded(x, begins, ends)


@op("Gather")
def gather(node, x, indices):
    axis = node.get("axis", 0) % x.dim()
    made = x.index_select(axis, indices.reshape(-1).long())
    return made.reshape(*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :])


@op("GatherElements")
def gather_elements(node, x, indices):
    return torch.gather(x, node.get("axis", 0), indices.long())


@op("TopK")
def top_k(node, x, k):
    return x.topk(int(k.reshape(-1)[0]), node.get("axis", -1), node.get("largest", 1) != 0)[0], None


@op("DepthToSpace")
def depth_to_space(node, x):
    n, c, h, w = x.shape
    b = node["blocksize"]
    if node.get("mode", "DCR") == "DCR":
        return x.reshape(n, b, b, c // b**2, h, w).permute(0, 3, 4, 1, 5, 2).reshape(n, c // b**2, h * b, w * b)
    return x.reshape(n, c // b**2, b, b, h, w).permute(0, 1, 4, 2, 5, 3).reshape(n, c // b**2, h * b, w * b)


@op("SpaceToDepth")
def space_to_depth(node, x):
    n, c, h, w = x.shape
    b = node["blocksize"]
    return x.reshape(n, c, h // b, b, w // b, b).permute(0, 3, 5, 1, 2, 4).reshape(n, c * b * b, h // b, w // b)


@op(
    *("Reduce" + name for name in ["Sum", "Mean", "L1", "SumSquare", "Max", "Min", "Prod", "L2", "LogSumExp", "LogSum"])
)
def reduction(node, x, axes=None):
    axes = axes.tolist() if axes is not None else node.get("axes", [])
    if not axes and node.get("noop_with_empty_axes"):
        return x
    axes = [a % x.dim() for a in axes] or list(range(x.dim()))
    keep = node.get("keepdims", 1) != 0
    name = node["op"][6:]
    if name == "Prod":
        for axis in sorted(axes, reverse=True):
            x = x.prod(axis, keepdim=keep)
        return x
    if not axes:
        return x
    return {
        "Sum": lambda: x.sum(axes, keep),
        "Mean": lambda: x.mean(axes, keep),
        "L1": lambda: x.abs().sum(axes, keep),
        "SumSquare": lambda: (x * x).sum(axes, keep),
        "Max": lambda: x.amax(axes, keep),
        "Min": lambda: x.amin(axes, keep),
        "L2": lambda: (x * x).sum(axes, keep).sqrt(),
        "LogSumExp": lambda: x.logsumexp(axes, keep),
        "LogSum": lambda: x.sum(axes, keep).log(),
    }[name]()


@op("LayerNormalization", "RMSNormalization")
def layer_norm(node, x, scale, bias=None):
    axes = list(range(node.get("axis", -1) % x.dim(), x.dim()))
    if node["op"] == "LayerNormalization":
        x = x - x.mean(axes, True)
    y = x / ((x * x).mean(axes, True) + 1e-5).sqrt() * scale
    return y if bias is None else y + bias


@op("SkipLayerNormalization")
def skip_layer_norm(node, x, skip, scale):
    x = x + skip
    x = x - x.mean(-1, True)
    return x / ((x * x).mean(-1, True) + 1e-5).sqrt() * scale


def normalized(x, axes, scale, bias):
    shape = [1, -1] + [1] * (x.dim() - 2)
    x = x - x.mean(axes, True)
    return x / ((x * x).mean(axes, True) + 1e-5).sqrt() * scale.reshape(shape) + bias.reshape(shape)


@op("BatchNormalization")
def batch_norm(node, x, scale, bias, *statistics):
    return normalized(x, [0, *range(2, x.dim())], scale, bias)


@op("InstanceNormalization")
def instance_norm(node, x, scale, bias):
    return normalized(x, list(range(2, x.dim())), scale, bias)


@op("GroupNormalization")
def group_norm(node, x, scale, bias):
    return T.group_norm(x, node["num_groups"], scale, bias)


@op("MeanVarianceNormalization")
def mean_variance(node, x):
    x = x - x.mean([0, 2, 3], True)
    return x / (x * x).mean([0, 2, 3], True).sqrt()


@op("LpNormalization")
def lp_norm(node, x):
    return x / x.norm(dim=node.get("axis", -1), keepdim=True)


@op("LRN")
def lrn(node, x):
    return T.local_response_norm(x, node["size"])


@op("SoftmaxCrossEntropyLoss", "NegativeLogLikelihoodLoss")
def labels(node, x, labels, weights=None):
    log = torch.log_softmax(x, 1) if node["op"].startswith("S") else x
    ignored = node.get("ignore_index", -100)
    loss = T.nll_loss(log, labels.long(), weights, ignore_index=ignored, reduction=node.get("reduction", "mean"))
    return loss, log


@op("Attention")
def attention(node, q, k, v, mask=None):
    def heads(x, count):
        return x if x.dim() == 4 else x.reshape(*x.shape[:2], count, -1).transpose(1, 2)

    flat = q.dim() == 3
    q, k, v = heads(q, node.get("q_num_heads")), heads(k, node.get("kv_num_heads")), heads(v, node.get("kv_num_heads"))
    group = q.shape[1] // k.shape[1]
    k, v = (x.repeat_interleave(group, 1) for x in (k, v))
    scores = q @ k.mT / q.shape[-1] ** 0.5
    if mask is not None:
        scores = scores + mask
    if node.get("is_causal"):
        scores = scores + torch.full(scores.shape[-2:], -1e30, dtype=scores.dtype).triu(1)
    y = scores.softmax(-1) @ v
    return y.transpose(1, 2).reshape(y.shape[0], y.shape[2], -1) if flat else y


@op("MultiHeadAttention")
def multi_head_attention(node, q, k, v):
    return attention({"q_num_heads": node["num_heads"], "kv_num_heads": node["num_heads"]}, q, k, v)


@op("RotaryEmbedding")
def rotary(node, x, cos, sin):
    a, b = x.chunk(2, -1)
    cos, sin = cos.unsqueeze(1), sin.unsqueeze(1)
    return torch.cat([a * cos - b * sin, a * sin + b * cos], -1)


def matrix_of(rows, made, scale, node):
    """The weights of a Resize along one dimension, from its definition: [made, rows]."""
    result = torch.zeros(made, rows, dtype=torch.float64)
    mode = node.get("coordinate_transformation_mode", "half_pixel")
    for row in range(made):
        x = row / scale if mode == "asymmetric" else (row + 0.5) / scale - 0.5
        if mode == "pytorch_half_pixel" and made == 1:
            x = 0.0
        floor = int(torch.floor(torch.tensor(x)))
        if node.get("mode", "nearest") == "nearest":
            how = node.get("nearest_mode", "round_prefer_floor")
            down = (
                how == "floor"
                or (how == "round_prefer_floor" and x - floor <= 0.5)
                or (how == "round_prefer_ceil" and x - floor < 0.5)
            )
            result[row, min(max(floor if down or x == floor else floor + 1, 0), rows - 1)] += 1
        elif node["mode"] == "linear":
            x = min(max(x, 0.0), rows - 1.0)
            floor = min(int(x), rows - 1)
            result[row, floor] += 1 - (x - floor)
            result[row, min(floor + 1, rows - 1)] += x - floor
        else:
            return None
    return result


@op("Resize")
def resize(node, x, roi=None, scales=None, sizes=None):
    if node["opset"] < 19 or node.get("axes") or node.get("keep_aspect_ratio_policy", "stretch") != "stretch":
        return None
    for k in range(x.dim()):
        scale = int(sizes[k]) / x.shape[k] if sizes is not None and len(sizes) else float(scales[k])
        made = int(sizes[k]) if sizes is not None and len(sizes) else int(x.shape[k] * scale)
        matrix = matrix_of(x.shape[k], made, scale, node)
        if matrix is None:
            return None
        x = torch.tensordot(x, matrix, ([k], [1])).movedim(-1, k)
    return x


def answer(question):
    function = ops.get(question["op"])
    if function is None:
        return None
    node = {
        **question["attributes"],
        "op": question["op"],
        "opset": question["opset"],
        "outputs": len(question["outputs"]),
    }
    inputs = [None if array is None else torch.from_numpy(array.copy()) for array in question["inputs"]]
    inputs = [x.double() if x is not None and x.is_floating_point() else x for x in inputs]
    leaves = [inputs[k].requires_grad_() for k in question["wanted"]]
    made = function(node, *inputs)
    if made is None:
        return None
    made = made if isinstance(made, tuple) else (made,)
    pairs = [
        (y, torch.from_numpy(g).double()) for y, g in zip(made, question["outputs"]) if y is not None and g is not None
    ]
    if not pairs or any(y.shape != g.shape for y, g in pairs):
        return None
    found = torch.autograd.grad([y for y, _ in pairs], leaves, [g for _, g in pairs], allow_unused=True)
    return [(torch.zeros_like(x) if g is None else g).numpy() for g, x in zip(found, leaves)]


def main():
    source, sink = sys.stdin.buffer, sys.stdout.buffer
    while header := source.read(8):
        (size,) = struct.unpack("q", header)
        data = pickle.dumps(answer(pickle.loads(source.read(size))), protocol=4)
        sink.write(struct.pack("q", len(data)) + data)
        sink.flush()


if __name__ == "__main__":
    main()
