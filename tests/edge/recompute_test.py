# SPDX-License-Identifier: Apache-2.0
"""`RecomputePass`: programs that fit by running nodes again compute the same in ExecuTorch's runtime."""

from __future__ import annotations

import functools

import programs
import pytest
import torch
from executorch.exir.banked_memory_planning import Bank, BankPlacementError, TargetMemoryMap
from torch import nn

import remora
from remora.executorch import RecomputePass, planning_algo


def within(budget: int) -> functools.partial[object]:
    """Planning that refuses a larger arena."""
    return functools.partial(planning_algo, banks=TargetMemoryMap([Bank("sram", budget, 1)]))


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


class Branches(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cond(x.sum() > 0, lambda v: v.sin(), lambda v: v.cos(), [x]) * 2.0


def test_control_flow_is_refused() -> None:
    edge, _ = programs.exported((Branches(), (torch.ones(8),)))
    with pytest.raises(Exception, match="RecomputePass") as caught:
        edge.transform([RecomputePass("90%")])
    assert isinstance(caught.value.__cause__, remora.InputError) and "control flow" in str(caught.value.__cause__)


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
