# SPDX-License-Identifier: Apache-2.0
"""Slices of captured steps: each rule of `problem.nests`, random programs in random regions, and steps that train.

What is cut by rows is equal; a sum over slices is equal within its rounding.
"""

from __future__ import annotations

import functools
import os
import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import checking
import cuda_graph_test
import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from torch import fx, nn
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils import _pytree as pytree

import remora
import remora.torch as rt
from remora.torch.capture.graph import GROWS, SLICE
from remora.torch.capture.read import read_step
from remora.torch.capture.regions import Region
from remora.torch.capture.simplify import simplify
from remora.torch.capture.sums import split_means
from remora.torch.carry.cuda_graph import Recorded
from remora.torch.carry.fuse import fuse
from remora.torch.cost.calls import by_flops
from remora.torch.problem.aten import graph_of
from remora.torch.problem.axes import axes_of
from remora.torch.problem.slices import in_slices

aten = torch.ops.aten
Given = Sequence[torch.Tensor]


class Captured:
    """A function of tensors as a graph with axes."""

    def __init__(self, function: Callable[..., Any], given: Given, joined: bool = True, clones: bool = False) -> None:
        self.given = given

        def called(*values: torch.Tensor) -> list[torch.Tensor]:
            # Arguments of the step are no tensors of the engine's graph; what ops make is.
            made = function(*[v.clone() for v in values]) if clones else function(*values)
            return pytree.tree_leaves(made)

        traced = make_fx(called, tracing_mode="fake")(*given)
        self.module = split_means(traced) or traced
        self.step = read_step(self.module)
        if joined:
            simplify(self.step)
        self.axes = axes_of(self.step)
        self.graph = graph_of(self.step, by_flops(self.step), "step", self.axes)

    def in_slices(self, words: str | list[str]) -> fx.GraphModule:
        """The graph in the slices that the engine's own words ask for."""
        found = remora.solve(self.graph, "400%", slices=words, time_limit=1, threads=1)
        module = in_slices(self.step, self.axes, found)
        module.graph.lint()
        return module

    def run(self, module: fx.GraphModule) -> list[torch.Tensor]:
        """The results, after the graph was read as each captured graph is."""
        step = read_step(module)
        simplify(step)
        return list(module(*[t.clone() for t in self.given]))

    def check(self, words: str | list[str], digits: float = 1e-11) -> None:
        """The graph in slices gives the same."""
        for mine, theirs in zip(self.run(self.in_slices(words)), self.run(self.module), strict=True):
            assert mine.dtype == theirs.dtype and mine.shape == theirs.shape and mine.stride() == theirs.stride()
            torch.testing.assert_close(mine, theirs, rtol=digits, atol=digits, equal_nan=True)


def drawn(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, dtype=torch.float64)


def labels(*shape: int, classes: int = 7) -> torch.Tensor:
    found = torch.randint(0, classes, shape)
    return found.masked_fill(torch.rand(shape) < 0.3, -100)


def attended(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, g: torch.Tensor) -> Any:
    out, sums = aten._scaled_dot_product_flash_attention_for_cpu.default(q, k, v)
    return aten._scaled_dot_product_flash_attention_for_cpu_backward.default(g, q, k, v, out, sums, 0.0, False), out


def weights(q: torch.Tensor, k: torch.Tensor, bias: torch.Tensor | None, causal: bool) -> torch.Tensor:
    scores = q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5 + (0.0 if bias is None else bias)
    return scores.masked_fill(~torch.ones_like(scores, dtype=torch.bool).tril(), -torch.inf) if causal else scores


def forward_on_cpu(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, bias: Any, causal: bool) -> Any:
    scores = weights(q, k, bias, causal)
    return scores.softmax(-1) @ v, scores.logsumexp(-1).float()


def backward_on_cpu(g: torch.Tensor, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, bias: Any, causal: bool) -> Any:
    shares = weights(q, k, bias, causal).softmax(-1)
    scores = torch.ops.aten._softmax_backward_data(g @ v.transpose(-1, -2), shares, -1, q.dtype) * q.shape[-1] ** -0.5
    return [scores @ k, scores.transpose(-1, -2) @ q, shares.transpose(-1, -2) @ g]


def by_position(x: torch.Tensor) -> torch.Tensor:
    """Laid out as the memory-efficient kernel does."""
    return x.transpose(1, 2).contiguous().transpose(1, 2)


SEED = torch.zeros((), dtype=torch.long)


def flash(q: Any, k: Any, v: Any, p: float = 0.0, causal: bool = False, mask: bool = False, scale: Any = None) -> Any:
    out, sums = forward_on_cpu(q, k, v, None, causal)
    seeds = torch.zeros(2, dtype=torch.uint64), torch.zeros((), dtype=torch.uint64)
    return out, sums, None, None, q.shape[2], k.shape[2], *seeds, q.new_empty(0)


def efficient(q: Any, k: Any, v: Any, bias: Any, sums: bool, p: float = 0.0, causal: bool = False, **_: Any) -> Any:
    out, found = forward_on_cpu(q, k, v, bias, causal)
    return by_position(out), F.pad(found, (0, -q.shape[2] % 32)), SEED, SEED


def cudnn(q: Any, k: Any, v: Any, bias: Any, sums: bool, p: float = 0.0, causal: bool = False, *_: Any) -> Any:
    out, found = forward_on_cpu(q, k, v, bias, causal)
    return out, found.unsqueeze(-1), None, None, q.shape[2], k.shape[2], SEED, SEED, None


ON_GPU: dict[str, Callable[..., Any]] = {
    "flash_attention": flash,
    "flash_attention_backward": lambda g, q, k, v, *r, **_: backward_on_cpu(g, q, k, v, None, r[7]),
    "efficient_attention": efficient,
    "efficient_attention_backward": lambda g, q, k, v, bias, *r, **_: (
        *map(by_position, backward_on_cpu(g, q, k, v, bias, r[6])),
        None,
    ),
    "cudnn_attention": cudnn,
    "cudnn_attention_backward": lambda g, q, k, v, *r, **_: backward_on_cpu(g, q, k, v, r[4], r[10]),
}
"""Attention of GPUs, computed here by its definition."""


@pytest.fixture(scope="module", autouse=True)
def kernels_of_gpus() -> Iterator[None]:
    library = torch.library.Library("aten", "IMPL")
    for name, function in ON_GPU.items():
        library.impl(f"_scaled_dot_product_{name}", function, "CPU")
    yield
    library._destroy()  # type: ignore[no-untyped-call]


def attended_by(kernel: str) -> Callable[..., Any]:
    """Attention forward and backward by a kernel of GPUs."""
    forward, backward = (getattr(aten, f"_scaled_dot_product_{kernel}_attention{end}") for end in ("", "_backward"))

    def run(
        q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, g: torch.Tensor, bias: torch.Tensor | None = None
    ) -> Any:
        made = forward(q, k, v, 0.0, True) if kernel == "flash" else forward(q, k, v, bias, True, 0.0, True)
        out, sums, *rest = made
        if kernel == "flash":
            return out, backward(g, q, k, v, out, sums, None, None, *rest[2:4], 0.0, True, *rest[4:6])
        if kernel == "efficient":
            return out, backward(g, q, k, v, bias, out, sums, *rest, 0.0, [True, True, True, False], True)[:3]
        return out, backward(g, q, k, v, out, sums, *rest[4:6], bias, None, None, *rest[2:4], 0.0, True)

    return run


def normed(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor, g: torch.Tensor) -> Any:
    y, mean, rstd = aten.native_layer_norm(x, [5], w, b, 1e-5)
    return y, aten.native_layer_norm_backward(g, x, [5], mean, rstd, w, b, [True, True, True])


def lost(x: torch.Tensor, y: torch.Tensor, w: torch.Tensor | None, is_image: bool = False) -> Any:
    forward = aten.nll_loss2d_forward if is_image else aten.nll_loss_forward
    backward = aten.nll_loss2d_backward if is_image else aten.nll_loss_backward
    loss, number = forward(x, y, w, 1, -100)
    return loss, backward(torch.ones_like(loss), x, y, w, 1, -100, number)


def convolved(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor, g: torch.Tensor) -> Any:
    rest = ([1, 1], [1, 1], [1, 1], False, [0, 0], 1)
    y = aten.convolution(x, w, b, *rest)
    return y, aten.convolution_backward(g, x, w, [4], *rest, [True, True, True])


def convolved_back(x: torch.Tensor, w: torch.Tensor, g: torch.Tensor) -> Any:
    rest = ([2, 2], [0, 0], [1, 1], True, [0, 0], 1)
    return aten.convolution(x, w, None, *rest), aten.convolution_backward(g, x, w, None, *rest, [True, True, False])[:2]


def normed_by_channels(x: torch.Tensor, w: torch.Tensor, g: torch.Tensor) -> Any:
    mean, var = torch.zeros_like(w), torch.ones_like(w)
    y, *stats = aten._native_batch_norm_legit_functional(x, w, w, mean, var, True, 0.1, 1e-5)
    back = aten.native_batch_norm_backward(g, x, w, *stats[2:], *stats[:2], True, 1e-5, [True, True, True])
    z, *more = aten._batch_norm_with_update_functional(x, w, w, mean, var, 0.1, 1e-5)
    last = aten.batch_norm_backward(g, x, w, *more[3:], *more[:2], True, 1e-5, [True, True, True], more[2])
    return y, back, stats, z, last


def normed_by_groups(x: torch.Tensor, w: torch.Tensor, g: torch.Tensor) -> Any:
    y, mean, rstd = aten.native_group_norm(x, w, w, *x.shape[:2], 16, 2, 1e-5)
    return y, aten.native_group_norm_backward(g, x, mean, rstd, w, *x.shape[:2], 16, 2, [True, True, True])


def resized(x: torch.Tensor, g: torch.Tensor) -> Any:
    size, whole = [8, 8], list(x.shape)
    return [
        *(f(x, size) for f in (aten.upsample_nearest2d, aten._upsample_nearest_exact2d)),
        *(f(x, size, False) for f in (aten.upsample_bilinear2d, aten.upsample_bicubic2d)),
        *(f(g, size, whole) for f in (aten.upsample_nearest2d_backward, aten._upsample_nearest_exact2d_backward)),
        *(f(g, size, whole, False) for f in (aten.upsample_bilinear2d_backward, aten.upsample_bicubic2d_backward)),
        aten._adaptive_avg_pool2d(x, [2, 2]),
        aten._adaptive_avg_pool2d_backward(g[:, :, :2, :2].clone(), x),
    ]


def differed(x: torch.Tensor, y: torch.Tensor) -> Any:
    """Losses by means, their gradients, and a sum."""
    one = x.new_ones(())
    return [
        aten.mse_loss(x, y),
        aten.mse_loss_backward(one, x, y, 1),
        aten.mse_loss(x, y, 2),
        aten.smooth_l1_loss(x, y, 1, 0.5),
        aten.smooth_l1_loss_backward(one, x, y, 1, 0.5),
        aten.huber_loss(x, y, 1, 0.5),
        aten.huber_loss_backward(one, x, y, 1, 0.5),
        aten.mse_loss(x, y, 0),
    ]


def pooled(x: torch.Tensor, g: torch.Tensor) -> Any:
    y, places = aten.max_pool2d_with_indices(x, [2, 2], [2, 2])
    back = aten.max_pool2d_with_indices_backward(g, x, [2, 2], [2, 2], [0, 0], [1, 1], False, places)
    return (
        y,
        back,
        aten.avg_pool2d(x, [2, 2]),
        aten.avg_pool2d_backward(g, x, [2, 2], [2, 2], [0, 0], False, True, None),
    )


# What an op is given, and the ops that must have axes, with the extents of these.
RULES: dict[str, tuple[Callable[..., Any], Callable[[], Given], dict[str, list[int]]]] = {
    "mm": (lambda a, b: aten.mm(a, b), lambda: (drawn(6, 4), drawn(4, 5)), {"mm": [6, 5, 4]}),
    "mm of a transposed view": (lambda a, b: aten.mm(a.t(), b), lambda: (drawn(4, 6), drawn(4, 5)), {"mm": [6, 5, 4]}),
    "bmm": (lambda a, b: aten.bmm(a, b), lambda: (drawn(3, 6, 4), drawn(3, 4, 5)), {"bmm": [3, 6, 5, 4]}),
    "addmm": (lambda c, a, b: aten.addmm(c, a, b), lambda: (drawn(5), drawn(6, 4), drawn(4, 5)), {"addmm": [6, 5]}),
    "baddbmm": (
        lambda c, a, b: aten.baddbmm(c, a, b),
        lambda: (drawn(3, 6, 5), drawn(3, 6, 4), drawn(3, 4, 5)),
        {"baddbmm": [3, 6, 5]},
    ),
    "softmax": (lambda x: aten._softmax(x, -1, False), lambda: (drawn(3, 4, 5),), {"_softmax": [12, 4]}),
    "log_softmax along the middle": (
        lambda x: aten._log_softmax(x, 1, False),
        lambda: (drawn(3, 7, 5),),
        {"_log_softmax": [3, 5]},
    ),
    "softmax backward": (
        lambda g, y: (aten._softmax_backward_data(g, y, 1, y.dtype), aten._log_softmax_backward_data(g, y, 1, y.dtype)),
        lambda: (drawn(6, 5), drawn(6, 5)),
        {"_softmax_backward_data": [6], "_log_softmax_backward_data": [6]},
    ),
    "loss": (
        lambda x, y: lost(x, y, None),
        lambda: (drawn(9, 7), labels(9)),
        {"nll_loss_forward_default": [9], "nll_loss_backward": [9]},
    ),
    "loss with weights": (
        lost,
        lambda: (drawn(9, 7), labels(9), drawn(7).abs()),
        {"nll_loss_forward_default": [9], "nll_loss_backward": [9]},
    ),
    "loss of images": (
        lambda x, y: lost(x, y, None, True),
        lambda: (drawn(3, 7, 2, 4), labels(3, 2, 4)),
        {"nll_loss2d_forward_default": [3, 8, 4], "nll_loss2d_backward": [3, 8, 4]},
    ),
    "embedding": (
        lambda w, i, g: (aten.embedding(w, i), aten.embedding_dense_backward(g, i, 7, -1, False)),
        lambda: (drawn(7, 5), torch.randint(0, 7, (3, 4)), drawn(3, 4, 5)),
        {"embedding": [12, 4, 5], "embedding_dense_backward": [5, 12, 4]},
    ),
    "layer norm": (
        normed,
        lambda: (drawn(3, 4, 5), drawn(5), drawn(5), drawn(3, 4, 5)),
        {"native_layer_norm": [12, 4], "native_layer_norm_backward": [12, 4]},
    ),
    "sums": (
        lambda x: (x.sum(), x.sum(0), x.sum([1], keepdim=True), x.mean(), x.mean(-1), x.amax(1)),
        lambda: (drawn(6, 5),),
        {"sum_1": [30, 5], "sum_2": [5, 6], "sum_3": [6, 5], "mean_1": [6], "amax": [6]},
    ),
    "pointwise": (
        lambda x, b, c: (F.gelu(x + b), torch.where(x > 0, c, x).float(), (x * 2).transpose(0, 2).clone()),
        lambda: (drawn(3, 4, 5), drawn(5), drawn(3, 1, 5)),
        {"add": [12, 4, 5], "where": [3, 4, 5], "_to_copy": [60, 20, 5]},
    ),
    "gather": (lambda x, i: x.gather(1, i), lambda: (drawn(6, 5), torch.randint(0, 5, (6, 2))), {"gather": [6]}),
    "convolution": (
        convolved,
        lambda: (drawn(5, 3, 6, 6), drawn(4, 3, 3, 3), drawn(4), drawn(5, 4, 6, 6)),
        {"convolution": [5, 4], "convolution_backward": [5, 4]},
    ),
    "convolution, transposed and without bias": (
        convolved_back,
        lambda: (drawn(3, 5, 4, 4), drawn(5, 2, 2, 2), drawn(3, 2, 8, 8)),
        {"convolution": [3, 2, 5], "convolution_backward": [3, 5, 2]},
    ),
    "batch norm": (
        normed_by_channels,
        lambda: (drawn(3, 5, 4, 4), drawn(5), drawn(3, 5, 4, 4)),
        {
            "_native_batch_norm_legit_functional": [5],
            "native_batch_norm_backward": [5],
            "_batch_norm_with_update_functional": [5],
            "batch_norm_backward": [5],
        },
    ),
    "group norm": (
        normed_by_groups,
        lambda: (drawn(3, 4, 4, 4), drawn(4), drawn(3, 4, 4, 4)),
        {"native_group_norm": [3], "native_group_norm_backward": [3]},
    ),
    "sizes of images": (
        resized,
        lambda: (drawn(3, 2, 4, 4), drawn(3, 2, 8, 8)),
        {"upsample_nearest2d": [6, 2], "upsample_bicubic2d_backward": [6, 2], "_adaptive_avg_pool2d_backward": [6, 2]},
    ),
    "differences": (
        differed,
        lambda: (drawn(6, 5), drawn(6, 5)),
        {"mse_loss_1": [30, 5], "mse_loss_backward_default": [30, 5]},
    ),
    "joined": (
        lambda x, y: (torch.cat([x, y], 1), torch.stack([x * 2, x], 1)),
        lambda: (drawn(6, 5, 2), drawn(6, 3, 2)),
        {"cat": [6, 2], "stack": [6, 10, 2]},
    ),
    **{
        f"attention by {kernel}": (
            attended_by(kernel),
            lambda kernel=kernel: (
                *(drawn(2, 3, 4, 8) for _ in range(4)),
                *([] if kernel == "flash" else [drawn(1, 3, 4, 4)]),
            ),
            {f"_scaled_dot_product_{kernel}_attention{end}": first for end in ("", "_backward")},
        )
        for kernel, first in (("flash", [6, 3]), ("efficient", [2, 3]), ("cudnn", [2, 3]))
    },
    "attention of grouped heads": (
        lambda q, k, v: aten._scaled_dot_product_flash_attention_for_cpu.default(q, k, v)[0],
        lambda: (drawn(2, 4, 4, 8), drawn(2, 2, 4, 8), drawn(2, 2, 4, 8)),
        {"_scaled_dot_product_flash_attention_for_cpu": [2]},
    ),
    "pooling": (
        pooled,
        lambda: (drawn(3, 2, 4, 4), drawn(3, 2, 2, 2)),
        {"max_pool2d_with_indices": [6, 2], "max_pool2d_with_indices_backward": [6, 2], "avg_pool2d": [6, 2]},
    ),
    "attention": (
        attended,
        lambda: (drawn(2, 3, 4, 8), drawn(2, 3, 4, 8), drawn(2, 3, 4, 8), drawn(2, 3, 4, 8)),
        {"_scaled_dot_product_flash_attention_for_cpu": [2, 3]},
    ),
}


@pytest.mark.parametrize("name", RULES)
def test_each_rule(name: str) -> None:
    """Each axis of each op alone, in two, three and more slices than fit evenly."""
    torch.manual_seed(0)
    function, given, expected = RULES[name]
    captured = Captured(function, given(), joined=False, clones=True)
    found = {op.name: [axis.extent for axis in captured.axes.get(op, [])] for op in captured.step.ops}
    for op, extents in expected.items():
        assert found[op] == extents, found
    for op, extents in found.items():
        for i, extent in enumerate(extents):
            for slices in {2, 3, extent, extent + 3}:
                captured.check(f"{op},={slices}@{i}")


# -- Random programs -----------------------------------------------------------------------------------------------


class Program:
    """A random step: a network, a loss, and their gradients, as AOTAutograd would capture them."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        torch.manual_seed(seed)
        self.rows, self.long = self.draw.choice([(2, 5), (3, 4), (1, 6)])
        self.width, self.classes = self.draw.choice([4, 6]), self.draw.choice([3, 11])
        self.parameters: list[torch.Tensor] = []
        self.body = [self.draw.choice([self.perceptron, self.attention, self.norm])() for _ in range(2)]
        self.head = self.parameter(self.width, self.classes)
        self.is_weighted = self.draw.random() < 0.4
        self.smoothing = 0.0 if self.is_weighted else self.draw.choice([0.0, 0.0, 0.1])
        self.reduction = self.draw.choice(["mean", "mean", "sum"])
        self.y = labels(self.rows, self.long, classes=self.classes)
        if self.draw.random() < 0.3:
            self.y[0] = -100  # slices without any label

    def parameter(self, *shape: int) -> int:
        self.parameters.append(drawn(*shape) / 2)
        return len(self.parameters) - 1

    def perceptron(self) -> Callable[[torch.Tensor, Given], torch.Tensor]:
        up, down, act = self.parameter(self.width, 8), self.parameter(8, self.width), self.draw.choice([F.gelu, F.silu])
        return lambda x, p: x + act(x @ p[up]) @ p[down]

    def norm(self) -> Callable[[torch.Tensor, Given], torch.Tensor]:
        w = self.parameter(self.width)
        if self.draw.random() < 0.5:
            b = self.parameter(self.width)
            return lambda x, p: F.layer_norm(x, (self.width,), p[w], p[b])
        return lambda x, p: x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-5) * p[w]

    def attention(self) -> Callable[[torch.Tensor, Given], torch.Tensor]:
        qkv, out = self.parameter(self.width, 3 * self.width), self.parameter(self.width, self.width)
        fused = self.draw.random() < 0.3

        def run(x: torch.Tensor, p: Given) -> torch.Tensor:
            parts = (x @ p[qkv]).chunk(3, -1)
            q, k, v = (part.view(self.rows, self.long, 2, -1).transpose(1, 2) for part in parts)
            if fused:
                made = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            else:
                made = (q @ k.transpose(-1, -2) / self.width).softmax(-1) @ v
            return x + made.transpose(1, 2).reshape(x.shape) @ p[out]

        return run

    def step(self, x: torch.Tensor, y: torch.Tensor, weight: torch.Tensor, *parameters: torch.Tensor) -> Any:
        with torch.enable_grad():
            leaves = [p.detach().requires_grad_() for p in parameters]
            value = x
            for part in self.body:
                value = part(value, leaves)
            logits = (value @ leaves[self.head]).flatten(0, 1)
            given = weight if self.is_weighted else None
            loss = F.cross_entropy(logits, y.flatten(), given, reduction=self.reduction, label_smoothing=self.smoothing)
            return loss.detach(), *torch.autograd.grad(loss, leaves)

    def captured(self) -> Captured:
        x, weight = drawn(self.rows, self.long, self.width), drawn(self.classes).abs()
        return Captured(self.step, [x, self.y, weight, *self.parameters])


class Pictures:
    """A random step of convolutions, normalizations, and sizes that change."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        torch.manual_seed(seed)
        self.count, self.channels = self.draw.choice([(2, 6), (3, 4), (5, 2)])
        self.parameters: list[torch.Tensor] = []
        parts = [self.convolution, self.by_channels, self.by_groups, self.down, self.up]
        self.body = [self.draw.choice(parts)() for _ in range(4)]
        self.head = self.parameter(3, self.channels, 1, 1)
        self.reduction = self.draw.choice(["mean", "sum"])
        self.labelled = self.draw.random() < 0.4

    def parameter(self, *shape: int) -> int:
        self.parameters.append(drawn(*shape) / 2)
        return len(self.parameters) - 1

    def convolution(self) -> Callable[[torch.Tensor, Given], torch.Tensor]:
        c, act = self.channels, self.draw.choice([F.relu, F.silu])
        w, b = self.parameter(c, c, 3, 3), self.parameter(c) if self.draw.random() < 0.5 else None
        return lambda x, p: act(F.conv2d(x, p[w], None if b is None else p[b], padding=1))

    def by_channels(self) -> Callable[[torch.Tensor, Given], torch.Tensor]:
        w, act = self.parameter(self.channels), self.draw.choice([F.relu, torch.sigmoid])

        def run(x: torch.Tensor, p: Given) -> torch.Tensor:
            mean, var = torch.zeros_like(p[w]), torch.ones_like(p[w])
            return act(aten._native_batch_norm_legit_functional(x, p[w], p[w], mean, var, True, 0.1, 1e-5)[0])

        return run

    def by_groups(self) -> Callable[[torch.Tensor, Given], torch.Tensor]:
        w = self.parameter(self.channels)
        return lambda x, p: F.group_norm(x, 2, p[w], p[w])

    def down(self) -> Callable[[torch.Tensor, Given], torch.Tensor]:
        return self.draw.choice([lambda x, _: F.max_pool2d(x, 2), lambda x, _: F.adaptive_avg_pool2d(x, 4)])

    def up(self) -> Callable[[torch.Tensor, Given], torch.Tensor]:
        w, mode = self.parameter(self.channels, 2 * self.channels, 1, 1), self.draw.choice(["nearest", "bilinear"])
        return lambda x, p: F.conv2d(
            torch.cat([F.interpolate(x, (8, 8), mode=mode), F.interpolate(x.square(), (8, 8))], 1), p[w]
        )

    def step(self, x: torch.Tensor, *parameters: torch.Tensor) -> Any:
        with torch.enable_grad():
            leaves = [p.detach().requires_grad_() for p in parameters]
            value = x
            for part in self.body:
                value = part(value, leaves)
            made = F.conv2d(value, leaves[self.head])
            if self.labelled:
                wanted = torch.ones_like(made[:, 0], dtype=torch.long)
                loss = F.cross_entropy(made, wanted, reduction=self.reduction)
            else:
                loss = F.mse_loss(made, torch.ones_like(made), reduction=self.reduction)
            return loss.detach(), *torch.autograd.grad(loss, leaves)

    def captured(self) -> Captured:
        return Captured(self.step, [drawn(self.count, self.channels, 8, 8), *self.parameters])


@pytest.mark.parametrize("kind", [Program, Pictures])
@pytest.mark.parametrize("seed", range(200 if os.environ.get("REMORA_ALL_CASES") else 20))
def test_random_programs_in_random_regions(seed: int, kind: type[Program | Pictures]) -> None:
    """Regions that grow from a random op, by the engine's own rules; several at once where they are apart."""
    program = kind(seed)
    captured, draw = program.captured(), program.draw
    plain = captured.run(captured.module)
    expected = program.step(*captured.given)
    for mine, theirs in zip(plain, expected, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-11, atol=1e-11, equal_nan=True)
    ops = [op.name for op in captured.graph.ops if op.axes]
    for _ in range(4):
        captured.check(f"{draw.choice(ops)}={draw.choice([2, 3, 4, 7])}")


@pytest.mark.parametrize("seed", [3, 4, 5])
def test_compiled_regions_keep_slices_apart(seed: int) -> None:
    """No region computes what belongs to two slices, and none writes a result of slices anew."""
    program = Program(seed)
    captured = program.captured()
    loss = next(op.name for op in captured.graph.ops if "nll_loss" in op.name)
    module = captured.in_slices(f"{loss}=3")
    module.graph.eliminate_dead_code()
    fused = fuse(read_step(module), set(), lambda _: None)
    regions = [node for node in fused.graph.nodes if isinstance(node.target, Region)]
    assert {0, 1, 2} <= {node.meta[SLICE][1] for node in regions if SLICE in node.meta}
    grown = [sum(GROWS in node.meta for node in graph.graph.nodes) for graph in (module, fused)]
    assert grown[0] == grown[1]
    step = read_step(fused)
    order = [op.nodes[0].meta[SLICE] for op in step.ops if SLICE in op.nodes[0].meta]
    for part in {part for part, _ in order}:
        found = [slice for other, slice in order if other == part]
        assert found == sorted(found)
    for mine, theirs in zip(captured.run(fused), captured.run(captured.module), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-10, atol=1e-10, equal_nan=True)


# -- Steps that train ------------------------------------------------------------------------------------------------

OPTIONS: dict[str, Any] = {"slices": "auto", "time_limit": 4.0, "threads": 1}


class Model(nn.Module):
    """Words in, logits of many words out; the embedding is the head's weight."""

    def __init__(self, words: int = 2000, width: int = 16) -> None:
        super().__init__()
        self.embed = nn.Embedding(words, width)
        self.body = nn.Sequential(nn.Linear(width, 32), nn.GELU(), nn.Linear(32, width), nn.LayerNorm(width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.body(self.embed(x)) @ self.embed.weight.t()


def told(model: nn.Module, x: torch.Tensor, **options: Any) -> torch.Tensor:
    return F.cross_entropy(
        model(x).flatten(0, 1).float(), x.flatten().masked_fill(x.flatten() % 5 == 0, -100), **options
    )


def close(mine: checking.Outcome, eager: checking.Outcome, digits: float) -> None:
    for name, theirs in eager.gradients.items():
        given = mine.gradients[name]
        assert given is not None and theirs is not None and given.dtype == theirs.dtype
        assert float((given - theirs).abs().max()) <= digits * float(theirs.abs().max()), name
    torch.testing.assert_close(mine.results, eager.results, rtol=digits, atol=digits)


@pytest.mark.parametrize("loss", ["mean", "smoothed", "summed"])
def test_a_step_trains_in_slices_below_the_minimum_without(loss: str) -> None:
    """The peak is predicted to the byte, and a budget that is called enough is enough."""
    options = {"mean": {}, "smoothed": {"label_smoothing": 0.1}, "summed": {"reduction": "sum"}}[loss]
    model, x = Model(), torch.randint(0, 2000, (3, 41))
    body = functools.partial(told, **options)
    with pytest.raises(rt.BudgetError) as plain:
        rt.train_step(checking.Case.body(model, body), budget=1, **{**OPTIONS, "slices": "none"})(x)
    with pytest.raises(rt.BudgetError) as refused:
        rt.train_step(checking.Case.body(model, body), budget=1, **OPTIONS)(x)
    least = refused.value.least
    assert least < 0.6 * plain.value.least
    assert least <= 1.2 * plain.value.in_slices < plain.value.least
    assert f"in {plain.value.slices} slices about" in str(plain.value)
    for budget in (least, (least + plain.value.least) // 2):
        case = checking.Case(model, body, (x,), budget=budget, **OPTIONS)
        for _ in range(2):
            mine = checking.outcome(case.model, lambda case=case: case.step(x), case.state)
            close(mine, case.eager, 1e-5)
        plan = case.step.plan
        assert plan.slices > 1 and plan.predicted_peak <= budget
        checking.check_peak(mine.peak, plan.predicted_peak - plan.fixed_memory, plan)
    found = rt.check(case.step, x)
    assert not found.equal and not found.wrong
    assert "rounded otherwise" in str(found) and "embed.weight" in str(found)


def test_a_step_that_fits_has_no_slices() -> None:
    plan = checking.check_step(Model(), told, (torch.randint(0, 2000, (3, 41)),), "100%", slices="auto")
    assert plan.slices == 0


def test_halves_are_added_up_in_float32() -> None:
    """The error of a gradient over many slices is at most twice that of the gradient over one."""
    torch.manual_seed(0)
    a, g = torch.randn(512, 8).bfloat16(), torch.randn(512, 16).bfloat16()
    captured = Captured(lambda a, g: aten.mm(a.clone().t(), g.clone()), (a, g), joined=False)
    exact = a.double().t() @ g.double()
    errors = [float((m[0] - exact).abs().max()) for m in (captured.run(captured.module),)]
    (op,) = [op.name for op in captured.graph.ops if op.type == "mm"]
    found = captured.run(captured.in_slices(f"{op},=64@2"))
    assert found[0].dtype == torch.bfloat16
    assert float((found[0] - exact).abs().max()) <= 2 * errors[0]


def test_a_mean_in_half_precision_is_not_split() -> None:
    """Its sum may be too large for the type."""
    captured = Captured(lambda x: x.clone().mean(), [torch.full((300, 300), 2.0, dtype=torch.float16)])
    assert not any("sum" in op.name for op in captured.step.ops)


def test_a_step_under_autocast() -> None:
    model, x = Model(), torch.randint(0, 2000, (3, 41))

    def loss(model: nn.Module, x: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cpu", torch.bfloat16):
            return told(model, x)

    with pytest.raises(rt.BudgetError) as refused:
        rt.train_step(checking.Case.body(model, loss), budget=1, **OPTIONS)(x)
    case = checking.Case(model, loss, (x,), budget=refused.value.least, **OPTIONS)
    mine = checking.outcome(case.model, lambda: case.step(x), case.state)
    assert case.step.plan.slices > 1
    close(mine, case.eager, 2e-2)


class WithLoss(nn.Module):
    """A model with the loss in its forward, as those of transformers."""

    def __init__(self) -> None:
        super().__init__()
        self.model = Model()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return told(self.model, x)


def test_a_wrapped_module() -> None:
    model, twin, x = WithLoss(), WithLoss(), torch.randint(0, 2000, (3, 41))
    twin.load_state_dict(model.state_dict())
    with pytest.raises(rt.BudgetError) as plain:
        rt.wrap(model, budget=1, time_limit=4)(x)
    rt.unwrap(model)
    with pytest.raises(rt.BudgetError) as refused:
        rt.wrap(model, budget=1, **OPTIONS)(x)
    rt.unwrap(model)
    assert refused.value.least < 0.8 * plain.value.least
    rt.wrap(model, budget=refused.value.least, **OPTIONS)
    for _ in range(2):
        model.zero_grad()
        peak, loss = checking.peak_of(lambda: _trained(model, x))
    expected = _trained(twin, x)
    (plan,) = rt.plans(model)
    assert plan.slices > 1 and "write_rows(" in plan.source
    torch.testing.assert_close(loss, expected, rtol=1e-5, atol=1e-5)
    for mine, theirs in zip(model.parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(mine.grad, theirs.grad, rtol=1e-4, atol=1e-6)
    # The loss and its gradient are the user's, who holds them throughout.
    assert peak <= plan.predicted_peak - plan.fixed_memory + 2 * loss.nbytes


def _trained(model: nn.Module, x: torch.Tensor) -> torch.Tensor:
    loss: torch.Tensor = model(x)
    loss.backward()  # type: ignore[no-untyped-call]
    return loss.detach()


def test_a_plan_says_what_slices_reach() -> None:
    """`rt.plan` without a device, and what is enough for it."""
    make, x = lambda: Model(), torch.randint(0, 2000, (3, 41))
    given = {"batch": (x,), "loss": told, "device": "cpu", "cost": "flops"}
    plain, sliced = (rt.plan(make, budget=1, slices=s, time_limit=4.0, **given) for s in ("none", "auto"))
    assert not sliced.fits and sliced.least < plain.least
    found = rt.plan(make, budget=sliced.least, slices="auto", time_limit=4.0, **given)
    assert found.fits and found.step is not None and found.step.slices > 1


def test_a_second_backward_finds_what_the_first_did() -> None:
    """What the forward part made and autograd saved is not written over."""
    model, twin, x = WithLoss(), WithLoss(), torch.randint(0, 2000, (3, 41))
    twin.load_state_dict(model.state_dict())
    with pytest.raises(rt.BudgetError) as refused:
        rt.wrap(model, budget=1, **OPTIONS)(x)
    rt.unwrap(model)
    rt.wrap(model, budget=refused.value.least, **OPTIONS)
    for net in (model, twin):
        loss = net(x)
        loss.backward(retain_graph=True)
        loss.backward()
    for mine, theirs in zip(model.parameters(), twin.parameters(), strict=True):
        assert float((mine.grad - theirs.grad).abs().max()) <= 1e-5 * float(theirs.grad.abs().max())


@pytest.mark.parametrize("recorded", [False, True])
def test_a_step_of_regions_and_as_a_cuda_graph(recorded: bool) -> None:
    """Regions in slices stay within the budget; a replay of the step does what running it does."""
    model, x, fuse = Model(), torch.randint(0, 2000, (3, 41)), not recorded
    with pytest.raises(rt.BudgetError) as refused:
        rt.train_step(checking.Case.body(model, told), budget=1, **OPTIONS)(x)
    case = checking.Case(model, told, (x,), budget=refused.value.least, fuse=fuse, **OPTIONS)
    case.step(x)
    plan = case.step.plan
    assert plan.slices > 1 and plan.predicted_peak <= refused.value.least
    assert ("fused" in {op["type"].split()[0] for op in plan.graph["ops"]}) == fuse
    if recorded:
        (captured,) = case.step._captured
        captured.program.run = Recorded(captured.program.run, pytest.fail, 0, cuda_graph_test.simulated)
    for _ in range(4):
        mine = checking.outcome(case.model, lambda: case.step(x), case.state)
        close(mine, case.eager, 1e-4)
    if recorded:
        assert captured.program.run.recordings == 1
    else:
        checking.check_peak(mine.peak, plan.predicted_peak - plan.fixed_memory, plan)


def test_what_is_not_supported_is_refused() -> None:
    for options in ({"arena": True}, {"plan": "some.plan"}):
        with pytest.raises(ValueError, match="slices: not with"):
            rt.train_step(lambda: None, slices="auto", **options)
    with pytest.raises(ValueError, match="slices: 'some' is none of"):
        rt.train_step(lambda: None, slices="some")
