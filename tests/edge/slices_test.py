# SPDX-License-Identifier: Apache-2.0
"""`RecomputePass(..., slices="auto")`: programs in slices compute the same in ExecuTorch's runtime, in a smaller arena.

REMORA_ALL_CASES=1 runs all random programs.
"""

from __future__ import annotations

import os
import random
from typing import Any

import operators
import programs
import pytest
import torch
import torch.nn.functional as F  # noqa: N812
import torchvision
from executorch.exir import EdgeProgramManager, to_edge
from executorch.exir.memory_planning import greedy
from executorch.exir.pass_base import ExportedProgramPassBase, ExportedProgramPassResult
from executorch.exir.passes.constant_prop_pass import constant_prop_pass
from operators_test import NO_KERNEL, NOT_EXPORTED, NOT_RUN, RANDOM, UNDEFINED
from programs import within
from torch import nn

import remora
from remora.asking import ask
from remora.executorch import RecomputePass, planning_algo
from remora.executorch._program import Program
from remora.executorch._recompute import work_of
from remora.executorch._slices import COST, Axes, in_slices
from remora.limits import Limits

CASES = 50 if "REMORA_ALL_CASES" in os.environ else 8
OPS = operators.core_ops()
NOT_CUT = {*NOT_EXPORTED, *NO_KERNEL, *NOT_RUN, "_local_scalar_dense", *RANDOM, *UNDEFINED}
NOT_COMPARED = {
    "max_pool2d_with_indices_backward",  # its kernel adds to what its result's memory has
    *(name for name in OPS if name.startswith("sym_")),  # results are no tensors
}


def exported(made: nn.Module, inputs: programs.Inputs) -> EdgeProgramManager:
    """A program whose transposed weights are constants."""
    program = torch.export.export(made.eval().requires_grad_(False), inputs)
    return to_edge(constant_prop_pass(program.run_decompositions()))


def check_close(found: list[torch.Tensor], expected: list[torch.Tensor]) -> None:
    """Equal but for the rounding of means over slices, and its way through what follows."""
    for a, b in zip(found, expected, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-5, equal_nan=True)


class Named(ExportedProgramPassBase):  # type: ignore[misc]
    """Puts what is named in slices."""

    def __init__(self, words: list[str]) -> None:
        super().__init__()
        self.words, self.regions = words, ()

    def call(self, exported_program: Any) -> ExportedProgramPassResult:
        program = Program(exported_program)
        axes = Axes(program)
        graph, nodes = program.graph(work_of, 1, axes.of_engine())
        limits = Limits(work_limit=100)
        found = ask(graph, "1000%", limits, order="input", slices=self.words, slice_cost=COST)
        assert isinstance(found, remora.Schedule)
        self.regions = found.slices
        return ExportedProgramPassResult(in_slices(program, nodes, axes, found), True)


def check_unless_refused(edge: Any, forced: Named, inputs: Any, expected: list[torch.Tensor]) -> bool:
    """Compares what a program computes in the named slices; False where they are refused by name."""
    try:
        small = edge.transform([forced])
    except Exception as error:
        assert isinstance(error.__cause__, remora.InputError), error
        return False
    check_close(programs.run(programs.planned(small, planning_algo), inputs), expected)
    return True


def axes_of(edge: EdgeProgramManager) -> dict[str, int]:
    """How many axes each node has."""
    program = Program(edge.exported_program())
    return {node.name: len(found) for node, found in Axes(program).axes.items()}


@pytest.mark.parametrize(("name", "share"), [("MobileNetV2", 60), ("MobileNetV2", 25), ("DS-CNN", 60)])
def test_the_arena_is_as_small_as_asked(name: str, share: int) -> None:
    torch.manual_seed(0)
    if name == "MobileNetV2":
        made, inputs = torchvision.models.mobilenet_v2(), (torch.randn(1, 3, 224, 224),)
    else:
        made, inputs = programs.network(name)
    edge = exported(made, inputs)
    whole = programs.planned(edge, greedy)
    budget = programs.arenas(whole)[0] * share // 100
    recompute = RecomputePass(budget, slices="auto")
    small = programs.planned(edge.transform([recompute]), within(budget))
    assert recompute.schedule is not None and recompute.regions
    assert programs.arenas(small)[0] <= recompute.schedule.peak <= budget
    assert 0 < recompute.overhead < (0.05 if name == "MobileNetV2" else 1.1)
    found, expected = programs.run(small, inputs), programs.run(whole, inputs)
    if name == "MobileNetV2":
        assert programs.same(found, expected)
    else:
        check_close(found, expected)  # the mean over all rows is a sum over slices


def test_nothing_is_in_slices_where_that_does_not_pay() -> None:
    edge, _ = programs.exported("MobileNet-like")
    recompute = RecomputePass("100%", slices="auto")
    edge.transform([recompute])
    assert recompute.regions == () and recompute.overhead == 0


def test_a_refusal_says_what_slices_would_do() -> None:
    edge, _ = programs.exported("MobileNet-like")

    def refusal(slices: Any, budget: int) -> str:
        with pytest.raises(Exception, match="RecomputePass") as caught:
            edge.transform([RecomputePass(budget, slices=slices)])
        assert isinstance(caught.value.__cause__, remora.NoSchedule)
        return str(caught.value.__cause__)

    assert 'slices="auto" does that where it can' in refusal("none", 1000)
    text = refusal("auto", 1000)
    assert "slices=" not in text and "bytes are enough in slices" in text
    enough = int(text.split("; ")[-1].split()[0])
    recompute = RecomputePass(enough, slices="auto")
    assert edge.transform([recompute]) and recompute.regions
    with pytest.raises(remora.InputError, match="slices"):
        RecomputePass(1000, slices="always")  # type: ignore[arg-type]


@pytest.mark.parametrize("name", sorted(set(OPS) - NOT_CUT - NOT_COMPARED))
def test_each_axis_of_each_op(name: str, capfd: pytest.CaptureFixture[str]) -> None:
    torch.manual_seed(0)
    one = operators.OneOp(OPS[name], operators.call_of(name, OPS[name]))
    inputs = one.inputs()
    edge, _ = programs.exported((one, inputs))
    expected = programs.run(programs.planned(edge, planning_algo), inputs)
    around = [node for node in axes_of(edge) if "tanh" in node or "logical_not" in node]
    for node, count in axes_of(edge).items():
        for axis in range(count if node not in around[:-1] else 0):
            forced = Named([f"{node}=3@{axis}"])
            check_unless_refused(edge, forced, inputs, expected)


class Layers(nn.Module):
    """Convolutions, pools, joins and sums of images, at random."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.draw = random.Random(seed)
        self.shape = (self.draw.choice([1, 1, 2]), self.draw.choice([1, 3, 4]), *self._size())
        self.layers = nn.ModuleList()
        self.steps: list[tuple[str, Any]] = []
        channels = self.shape[1]
        for _ in range(self.draw.randrange(4, 11)):
            kind = self.draw.choice(
                ["conv", "conv", "depthwise", "norm", "act", "max", "mean", "add", "cat", "up", "pad"]
            )
            self._draw(kind, channels)
            channels = self.layers[-1].out_channels if kind == "conv" else channels
        self.head = self.draw.choice(["none", "mean", "softmax", "linear", "rows"])
        if self.head == "linear":
            self.linear = nn.Linear(channels, 3)

    def _size(self) -> tuple[int, int]:
        return self.draw.randrange(8, 20), self.draw.randrange(8, 20)

    def _draw(self, kind: str, channels: int) -> None:
        size, stride = self.draw.choice([1, 3, 5]), self.draw.choice([1, 1, 2])
        padding, dilation = self.draw.choice([0, size // 2]), self.draw.choice([1, 1, 2])
        layer: nn.Module = nn.Identity()
        if kind in ("conv", "depthwise"):
            groups = channels if kind == "depthwise" else 1
            made = channels if kind == "depthwise" else self.draw.randrange(1, 9)
            layer = nn.Conv2d(channels, made, size, stride, padding, dilation, groups, self.draw.random() < 0.5)
        elif kind == "norm":
            layer = nn.BatchNorm2d(channels)
        elif kind == "act":
            layer = self.draw.choice([nn.ReLU(), nn.ReLU6(), nn.Hardswish(), nn.Sigmoid(), nn.LeakyReLU()])
        elif kind == "max":
            layer = nn.MaxPool2d(3, stride, self.draw.choice([0, 1]), ceil_mode=self.draw.random() < 0.5)
        elif kind == "mean":
            layer = nn.AvgPool2d(2, stride, self.draw.choice([0, 1]), count_include_pad=self.draw.random() < 0.5)
        elif kind == "up":
            layer = nn.Upsample(scale_factor=2)
        elif kind == "pad":
            layer = nn.ZeroPad2d(self.draw.randrange(3))
        self.layers.append(layer)
        self.steps.append((kind, self.draw.random()))

    def forward(self, x: torch.Tensor) -> Any:
        made = [x]
        for layer, (kind, number) in zip(self.layers, self.steps, strict=True):
            y = made[-1]
            fitting = [z for z in made if z.shape == y.shape]
            other = fitting[int(number * len(fitting))]
            if kind == "add":
                y = y + other * 0.5
            elif kind == "cat":
                y = torch.cat([y, other], 2)
            elif not (kind == "up" and y.numel() > 4000) and (
                kind not in ("conv", "depthwise") or self._fits(layer, y)
            ):
                y = layer(y)
            elif kind == "conv":
                y = F.conv2d(y, layer.weight[:, :, :1, :1])
            made.append(y)
        y = made[-1]
        if self.head == "mean":
            y = y.mean((2, 3))
        elif self.head == "softmax":
            y = y.flatten(2).softmax(-1)
        elif self.head == "linear":
            y = self.linear(y.permute(0, 2, 3, 1))
        elif self.head == "rows":
            y = y.transpose(1, 2).reshape(y.shape[0], y.shape[2], -1).amax(2)
        return y, made[len(made) // 2]

    @staticmethod
    def _fits(layer: Any, y: torch.Tensor) -> bool:
        reach = (layer.kernel_size[0] - 1) * layer.dilation[0] + 1
        return min(y.shape[2:]) + 2 * int(layer.padding[0]) >= reach


def random_program(seed: int) -> tuple[EdgeProgramManager, programs.Inputs]:
    torch.manual_seed(seed)
    for attempt in range(100):
        made = Layers(1000 * seed + attempt)
        inputs = (torch.randn(made.shape),)
        try:
            made.eval()(*inputs)
        except RuntimeError:  # an image is smaller than a window
            continue
        return exported(made, inputs), inputs
    raise AssertionError("no program")


@pytest.mark.parametrize("seed", range(CASES))
def test_random_programs_compute_the_same(seed: int) -> None:
    edge, inputs = random_program(seed)
    whole = programs.planned(edge, planning_algo)
    expected = programs.run(whole, inputs)
    limits = Limits(work_limit=1500)
    for budget in ("50%", "65%", "80%", "95%", "110%"):
        recompute = RecomputePass(budget, slices="auto", limits=limits)
        try:
            small = edge.transform([recompute])
            break
        except Exception as error:
            assert isinstance(error.__cause__, remora.NoSchedule), error
    assert recompute.schedule is not None, "the program's own order fits"
    planned = programs.planned(small, within(recompute.schedule.budget))
    check_close(programs.run(planned, inputs), expected)


@pytest.mark.parametrize("seed", range(CASES))
def test_slices_that_are_named_compute_the_same(seed: int) -> None:
    edge, inputs = random_program(seed)
    expected = programs.run(programs.planned(edge, planning_algo), inputs)
    draw = random.Random(seed)
    for _ in range(4):
        name, count = draw.choice(sorted(axes_of(edge).items()))
        forced = Named([f"{name}={draw.choice([2, 3, 5])}@{draw.randrange(count)}"])
        if check_unless_refused(edge, forced, inputs, expected):
            assert forced.regions
