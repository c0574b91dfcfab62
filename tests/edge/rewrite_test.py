# SPDX-License-Identifier: Apache-2.0
"""`remora rewrite MODEL.tflite`: outputs stay equal in LiteRT and TFLite Micro, whose arena is as small as told."""

from __future__ import annotations

import random
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tflite_models
from tflite_test import computed, computed_by_micro, drawn, read, remora, same


def arena_of(run: subprocess.CompletedProcess[str]) -> int:
    told = re.search(r"^arena .*?\(?(\d+) (?:bytes\)|B)$", run.stderr, re.MULTILINE)
    assert told is not None, run.stderr
    return int(told[1])


def rewritten(
    content: bytes, folder: Path, budget: str, slices: str = "auto", work: int = 1500
) -> tuple[bytes, subprocess.CompletedProcess[str]]:
    """The written model, no bytes where there is none, and what the command said."""
    (folder / "m.tflite").write_bytes(content)
    words = ["--budget", budget, "--work-limit", str(work), "--threads", "1", "--slices", slices]
    run = remora("rewrite", folder / "m.tflite", *words, "-o", folder / "small.tflite")
    return (folder / "small.tflite").read_bytes() if run.returncode == 0 else b"", run


def random_model(kind: str, seed: int) -> bytes:
    """Convolutions, pools, padding, joins and sums, with a head of dense layers."""
    draw = random.Random(seed)
    b = tflite_models.Builder(kind, seed)
    x = b.tensor((draw.choice([1, 1, 2]), draw.randrange(8, 20), draw.randrange(8, 20), draw.choice([1, 3, 4])))
    made = [x]
    for _ in range(draw.randrange(4, 12)):
        y = draw.choice(made[-2:])
        n, height, width, channels = b.shape(y)
        step = draw.choice(
            ["conv", "conv", "depthwise", "valid", "pool", "pad", "add", "concat", "relu", "resize", "mul"]
        )
        if step in ("conv", "depthwise"):
            size, stride = draw.choice([1, 3, 5]), draw.choice([1, 1, 2])
            y = convolution(b, y, draw.randrange(1, 9), size, stride, step == "depthwise", 0, draw.choice([1, 1, 2]))
        elif step == "valid" and min(height, width) > 4:
            y = convolution(b, y, draw.randrange(1, 9), 3, draw.choice([1, 2]), draw.random() < 0.5, 1, 1)
        elif step == "pool" and min(height, width) > 3:
            name = draw.choice(["MAX_POOL_2D", "AVERAGE_POOL_2D"])
            padding, stride = draw.choice([0, 1]), draw.choice([1, 2])
            rows = [-(-e // stride) if padding == 0 else (e - 2) // stride + 1 for e in (height, width)]
            values = {"padding": padding, "strideH": stride, "strideW": stride, "filterHeight": 2, "filterWidth": 2}
            y = b.op(name, [y], (n, *rows, channels), "Pool2DOptions", **values)
        elif step == "pad":
            pads = [[0, 0], [draw.randrange(2), draw.randrange(3)], [draw.randrange(2), draw.randrange(2)], [0, 0]]
            shape = tuple(e + sum(p) for e, p in zip(b.shape(y), pads, strict=True))
            y = b.op("PAD", [y, b.constant(pads, "int32")], shape, "PadOptions")
        elif step == "add" and (same_shape := [z for z in made if b.shape(z) == b.shape(y)]):
            y = b.add(y, draw.choice(same_shape))
        elif step == "concat" and (beside := [z for z in made if b.shape(z)[:3] == b.shape(y)[:3]]):
            y = b.concatenate(y, draw.choice(beside))
        elif step == "relu":
            y = b.op("RELU", [y], tuple(b.shape(y)))
        elif step == "mul":
            y = b.op("MUL", [y, b.weights(channels)], tuple(b.shape(y)), "MulOptions")
        elif step == "resize" and height * width < 300:
            shape = (n, 2 * height, 2 * width, channels)
            y = b.op(
                "RESIZE_NEAREST_NEIGHBOR", [y, b.constant(shape[1:3], "int32")], shape, "ResizeNearestNeighborOptions"
            )
        made.append(y)
    outputs = [made[-1]] if draw.random() < 0.5 else sorted({made[-1], draw.choice(made[1:])})
    return b.finish([x], outputs)


def convolution(
    b: Any, x: int, width: int, size: int, stride: int, depthwise: bool, padding: int, dilation: int
) -> int:
    n, *rows, channels = b.shape(x)
    dilation = dilation if stride == 1 else 1
    reach = (size - 1) * dilation + 1
    if padding == 1 and min(rows) < reach:
        padding = 0
    made = [-(-e // stride) if padding == 0 else (e - reach) // stride + 1 for e in rows]
    options = {
        "padding": padding, "strideH": stride, "strideW": stride, "fusedActivationFunction": 1,
        "dilationHFactor": dilation, "dilationWFactor": dilation,
    }  # fmt: skip
    if depthwise:
        inputs = [x, b.weights(1, size, size, channels), b.bias(channels)]
        return int(
            b.op(
                "DEPTHWISE_CONV_2D",
                inputs,
                (n, *made, channels),
                "DepthwiseConv2DOptions",
                depthMultiplier=1,
                **options,
            )
        )
    inputs = [x, b.weights(width, size, size, channels), b.bias(width)]
    return int(b.op("CONV_2D", inputs, (n, *made, width), "Conv2DOptions", **options))


def check_equal(content: bytes, written: bytes, kind: str, capfd: pytest.CaptureFixture[str]) -> int:
    """Outputs in both runtimes, and the bytes of TFLite Micro's head."""
    inputs = drawn(read(content).subgraphs[0], kind)
    before, after = computed(content, inputs), computed(written, inputs)
    if kind == "int8":
        assert same(after, before)
    else:
        for a, b in zip(after, before, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4)
    expected, _ = computed_by_micro(content, inputs, capfd)
    outputs, head = computed_by_micro(written, inputs, capfd)
    assert same(outputs, expected)
    return head


@pytest.mark.parametrize("kind", ["int8", "float32"])
@pytest.mark.parametrize("seed", range(50))
def test_random_models_compute_the_same(
    kind: str, seed: int, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    content = random_model(kind, seed)
    for budget in ("50%", "65%", "80%", "95%", "110%"):
        written, run = rewritten(content, tmp_path, budget)
        assert run.returncode in (0, 20, 21), run.stderr
        if written:
            break
    assert written, "the model's own order fits"
    capfd.readouterr()
    assert check_equal(content, written, kind, capfd) == arena_of(run)


@pytest.mark.parametrize("slices", [2, 3, 5])
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("seed", range(8))
def test_slices_that_are_named_compute_the_same(
    axis: int, slices: int, seed: int, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    content = random_model("int8", seed)
    graph = read(content).subgraphs[0]
    op = random.Random(seed * 100 + slices).choice(graph.operators)
    name = graph.tensors[op.outputs[0]].name.decode()
    written, run = rewritten(content, tmp_path, "300%", f"{name}={slices}@{axis}")
    if run.returncode == 65:
        assert "slices" in run.stderr and run.stderr.count("\n") == 1
        return
    assert run.returncode == 0, run.stderr
    capfd.readouterr()
    assert check_equal(content, written, "int8", capfd) == arena_of(run)


@pytest.mark.parametrize(
    ("model", "kib"),
    [
        pytest.param(tflite_models.mobilenet_1_224, 539, id="MobileNet"),
        # What patches by hand need (MCUNetV2, Lin et al. 2021), and the image.
        pytest.param(tflite_models.mobilenet_v2_224, 172 + 147, id="MobileNetV2"),
    ],
)
def test_mobilenets_take_as_little_as_patches_by_hand(model: Callable[[], bytes], kib: int, tmp_path: Path) -> None:
    content = model()
    written, run = rewritten(content, tmp_path, f"{kib}KiB", work=20000)
    assert run.returncode == 0, run.stderr
    assert arena_of(run) <= kib * 1024
    inputs = drawn(read(content).subgraphs[0], "int8")
    assert same(computed(written, inputs), computed(content, inputs))
