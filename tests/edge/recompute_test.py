# SPDX-License-Identifier: Apache-2.0
"""`RecomputePass`: programs that fit by running nodes again compute the same in ExecuTorch's runtime."""

from __future__ import annotations

import re
from typing import Any

import programs
import pytest
import torch
from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
from executorch.exir import to_edge, to_edge_transform_and_lower
from executorch.exir.banked_memory_planning import BankPlacementError
from executorch.exir.passes.constant_prop_pass import constant_prop_pass
from programs import within
from torch import nn
from torch.export.experimental import _export_forward_backward

import remora
from remora.executorch import RecomputePass, planning_algo


def test_a_program_that_only_fits_with_recomputes_runs() -> None:
    edge, inputs = programs.exported("fan")
    whole = programs.planned(edge, planning_algo)
    budget = programs.arenas(whole)[0] * 6 // 10
    with pytest.raises(BankPlacementError):
        programs.planned(edge, within(budget))
    recompute = RecomputePass(budget)
    small = programs.planned(edge.transform([recompute]), within(budget))
    assert recompute.schedule is not None and recompute.schedule.overhead > 0
    assert programs.arenas(small)[0] <= budget
    assert programs.same(programs.run(whole, inputs), programs.run(small, inputs))
    (size,) = programs.arenas(whole)
    assert programs.arenas(programs.planned(edge, planning_algo)) == [size], "the program given is as it was"


class Kinds(nn.Module):
    """Views, several results, one of them unused, state, and an output that is early."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("sum", torch.zeros(8))
        self.up, self.down = nn.Linear(8, 512), nn.Linear(512, 8)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        wide = [torch.tanh(self.up(x) * scale) for scale in (1.0, 2.0, 3.0)]
        early = wide[0].view(4, 128).mean(1)
        y = x
        for one in wide + wide[::-1]:
            halves = one.view(2, 256).split(1, 0)
            best, _ = torch.max(torch.cat(halves, 0).view(64, 8), 0)
            y = y + best + self.down(one)
            self.sum.add_(best)
        return early, y * self.sum


def test_views_results_and_state() -> None:
    edge, inputs = programs.exported((Kinds(), (torch.ones(1, 8),)))
    whole = programs.planned(edge, planning_algo)
    (size,) = programs.arenas(whole)
    recompute = RecomputePass("90%")
    small = programs.planned(edge.transform([recompute]), planning_algo)
    assert recompute.schedule is not None and recompute.schedule.overhead > 0
    assert programs.arenas(small)[0] <= recompute.schedule.budget < size
    methods = [programs.loaded(program) for program in (whole, small)]
    for _ in range(3):
        first, second = (method.execute(inputs) for method in methods)
        assert programs.same(first, second)


def test_what_cannot_be_is_refused() -> None:
    edge, _ = programs.exported("dense")
    with pytest.raises(Exception, match="RecomputePass") as caught:
        edge.transform([RecomputePass("90%")])
    assert isinstance(caught.value.__cause__, remora.Infeasible)


class Large(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.repeat(64).tanh().sum()


class Unused(nn.Module):
    """Inputs that nothing reads, which ExecuTorch places next to the others, and one that is no tensor."""

    def forward(self, a: torch.Tensor, b: torch.Tensor, number: int, c: torch.Tensor) -> torch.Tensor:
        return c.tanh() + number


@pytest.mark.parametrize(
    ("made", "reason", "minimum"),
    [
        ((Large(), (torch.ones(16),)), f'node aten_tanh_default (aten.tanh.default, at "{__file__}", line', 8192),
        (
            (Unused(), (torch.rand(64), torch.rand(64), 2, torch.rand(4))),
            "the program's start, with all its inputs, alone needs 528 bytes",
            528,
        ),
    ],
)
def test_an_op_that_is_too_large_by_itself_is_named(made: Any, reason: str, minimum: int) -> None:
    edge, _ = programs.exported(made)
    with pytest.raises(Exception, match="RecomputePass") as caught:
        edge.transform([RecomputePass(256)])
    assert isinstance(caught.value.__cause__, remora.Infeasible)
    refusal = str(caught.value.__cause__)
    assert reason in refusal and "split it" in refusal and f"the minimum budget is {minimum} bytes" in refusal


def test_a_copy_of_a_weight_is_folded_and_not_split() -> None:
    torch.manual_seed(0)
    layers = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10)).eval()
    exported = torch.export.export(layers, (torch.ones(1, 64),))

    def refusal(budget: int) -> str:
        with pytest.raises(Exception, match="RecomputePass") as caught:
            to_edge(exported).transform([RecomputePass(budget)])
        return str(caught.value.__cause__)

    text = refusal(3000)
    assert "32768 of them are the result of aten_permute_copy_default (aten.permute_copy.default)" in text
    assert "split" not in text and "constant_prop_pass" in text and "the minimum budget is 33536 bytes" in text
    assert "for the rest, split it" in refusal(500)
    fold = re.search(r"to_edge\(constant_prop_pass\(exported.run_decompositions\(\)\)\)", text)
    assert fold is not None
    recompute = RecomputePass("100%")
    eval(fold[0], {"to_edge": to_edge, "constant_prop_pass": constant_prop_pass, "exported": exported}).transform(
        [recompute]
    )
    assert recompute.schedule is not None and recompute.schedule.arena.size == 1024


class Rows(nn.Module):
    """Wide branches over rows whose number is known at run time; one shape is computed from it."""

    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(8, 64), nn.Linear(64, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        wide = [torch.tanh(self.up(x) * scale) for scale in (1.0, 2.0, 3.0)]
        y = x
        for one in wide + wide[::-1]:
            y = y + self.down(one).reshape(x.shape[0] * 2, 4).view(-1, 8) + torch.ones(x.shape[0], 1)
        return y


@pytest.mark.parametrize("factor", [1, 2])
@pytest.mark.parametrize("strict", [False, True])
def test_symbolic_sizes_are_planned_at_their_bounds(strict: bool, factor: int) -> None:
    rows = torch.export.Dim("rows", min=4, max=64)
    exported = torch.export.export(
        Rows().eval(), (torch.rand(16, 8),), dynamic_shapes=({0: factor * rows},), strict=strict
    )
    edge = to_edge(exported)
    whole = programs.planned(edge, planning_algo)
    recompute = RecomputePass("80%")
    small = programs.planned(edge.transform([recompute]), planning_algo)
    assert recompute.sizes == {"rows": 64}
    assert recompute.schedule is not None and recompute.schedule.overhead > 0
    assert programs.arenas(small)[0] <= recompute.schedule.budget < programs.arenas(whole)[0]
    methods = [programs.loaded(program) for program in (whole, small)]
    for count in (4, 64, 17):
        inputs = (torch.rand(factor * count, 8),)
        first, second = (method.execute(inputs) for method in methods)
        assert first[0].shape == (factor * count, 8) and programs.same(first, second)


def test_a_refusal_names_the_size() -> None:
    height = torch.export.Dim("height", min=4, max=64)
    exported = torch.export.export(nn.ReLU(), (torch.rand(2, 8),), dynamic_shapes=({1: height},))
    for options, text in ({}, "within 50 bytes, at height = 64: "), ({"slices": "auto"}, "height may vary"):
        with pytest.raises(Exception, match="RecomputePass") as caught:
            to_edge(exported).transform([RecomputePass(50, **options)])
        assert text in str(caught.value.__cause__)


class Unbounded(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        count = x[0].item()
        torch._check(count >= 0)
        return torch.ones(count)


def test_a_size_without_a_bound_is_refused() -> None:
    edge, _ = programs.exported((Unbounded(), (torch.tensor([3]),)))
    with pytest.raises(Exception, match="RecomputePass") as caught:
        edge.transform([RecomputePass("100%")])
    assert isinstance(caught.value.__cause__, remora.InputError)
    assert "which has no upper bound" in str(caught.value.__cause__)


class Mask(nn.Module):
    """A mask whose -inf is a ``torch.ops.aten.scalar_tensor``, which the edge dialect leaves as it is."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.tanh(x)
        return y.masked_fill(y < 0, float("-inf")).softmax(-1) @ torch.tanh(x).T


class Assertion(nn.Module):
    """An op without results: ``torch.ops.aten._assert_async``, left as it is."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x.tanh()
        torch._assert_async(y.sum() < 1000, "too large")
        return y.sin() + y


class Late(nn.Module):
    """Of several results a small one is used late, and the large one early."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        large, _, small = torch.ops.aten.native_layer_norm(x.tanh(), [256], None, None, 1e-5)
        y = large.sum(1, keepdim=True)
        for scale in (2.0, 3.0):
            y = (x * scale + y).cos().amax(1, keepdim=True)
        return y * small


class Delegates(nn.Module):
    """Two parts that XNNPACK runs, and one between them that it does not."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(16, 16), nn.Linear(16, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.first(x).tanh()
        return self.last(torch.cumsum(y, 1)) + torch.cumsum(y, 0)


class Loss(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(16, 16), nn.Linear(16, 4)

    def forward(self, x: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return nn.functional.cross_entropy(self.last(self.first(x).tanh()), labels)


def delegated() -> programs.Exported:
    inputs = (torch.rand(4, 16),)
    program = torch.export.export(Delegates().eval().requires_grad_(False), inputs)
    return to_edge_transform_and_lower(program, partitioner=[XnnpackPartitioner()]), inputs


def trained() -> programs.Exported:
    """A step of training: the loss and all gradients, next to which ExecuTorch returns the parameters."""
    inputs = (torch.rand(4, 16), torch.arange(4))
    return to_edge(_export_forward_backward(torch.export.export(Loss(), inputs))), inputs


KINDS = {
    "mask": lambda: programs.exported((Mask(), (torch.randn(8, 8),))),
    "assertion": lambda: programs.exported((Assertion(), (torch.rand(4, 6),))),
    "unused inputs": lambda: programs.exported((Unused(), (torch.rand(64), torch.rand(64), 2, torch.rand(4)))),
    "late result": lambda: programs.exported((Late(), (torch.rand(4, 256),))),
    "delegates": delegated,
    "training": trained,
}


@pytest.mark.parametrize("kind", KINDS)
def test_arenas_are_as_large_as_the_schedule_says(kind: str) -> None:
    torch.manual_seed(0)
    edge, inputs = KINDS[kind]()
    outputs = programs.run(programs.planned(edge, planning_algo), inputs)
    as_it_is, everything = RecomputePass("100%"), RecomputePass("100%")
    small = [edge.transform([as_it_is])]
    with programs.recomputing_for_every_use():
        small.append(edge.transform([everything]))
    for recompute, transformed in zip((as_it_is, everything), small, strict=True):
        assert recompute.schedule is not None and remora.verify(recompute.schedule.graph, recompute.schedule)
        program = programs.planned(transformed, planning_algo)
        assert programs.arenas(program)[0] <= recompute.schedule.peak
        assert programs.same(programs.run(program, inputs), outputs)
    assert everything.schedule is not None and everything.schedule.overhead > 0


class Branches(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cond(x.sum() > 0, lambda v: v.sin(), lambda v: v.cos(), [x]) * 2.0


def test_control_flow_is_refused() -> None:
    edge, _ = programs.exported((Branches(), (torch.ones(8),)))
    with pytest.raises(Exception, match="RecomputePass") as caught:
        edge.transform([RecomputePass("90%")])
    assert isinstance(caught.value.__cause__, remora.InputError) and "control flow" in str(caught.value.__cause__)


@torch.library.custom_op("remora_tests::write", mutates_args={"kept"})
def write(kept: torch.Tensor, new: torch.Tensor) -> None:
    kept.copy_(new)


class Writes(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("kept", torch.zeros(8))

    def forward(self, x: torch.Tensor) -> Any:
        torch.ops.remora_tests.write(self.kept, x.tanh())
        return self.kept + x


def test_custom_ops_that_write_into_their_arguments_are_refused() -> None:
    edge, _ = programs.exported((Writes(), (torch.ones(8),)))
    with pytest.raises(Exception, match="RecomputePass") as caught:
        edge.transform([RecomputePass("100%")])
    refusal = caught.value.__cause__
    assert isinstance(refusal, remora.InputError) and "custom ops that write into their arguments" in str(refusal)


def test_random_numbers_are_drawn_once() -> None:
    class Noise(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            noise = torch.rand(256)
            return (x + noise).tanh() * noise

    edge, _ = programs.exported((Noise(), (torch.ones(256),)))
    recompute = RecomputePass("100%")
    edge.transform([recompute])
    assert recompute.schedule is not None
    (op,) = [op for op in recompute.schedule.graph.ops if "rand" in op.name]
    assert not op.recompute
