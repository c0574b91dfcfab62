# SPDX-License-Identifier: Apache-2.0
"""Inductor's own kernels, scheduled (`fuse="program"`): the same bits under every budget, and the peak as predicted.

Results are close to eager's, and dropout draws what Inductor draws, not what eager does.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import checking
import models
import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

import remora.torch as rt
from remora.torch.carry.kernels_read import read_program
from remora.torch.errors import CaptureError

Network = tuple[nn.Module, Callable[..., torch.Tensor], tuple[torch.Tensor, ...]]


class Tables(nn.Module):
    """Parts of one memory that several kernels write: sums by index, and a concatenation of products."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(16, 32)
        self.one, self.other, self.last = nn.Linear(32, 32), nn.Linear(32, 64), nn.Linear(96, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = self.words(x)
        for _ in range(2):
            hidden = torch.cat([self.one(hidden), self.other(hidden.tanh())], -1)[..., :32].exp().sin()
        return self.last(torch.cat([self.one(hidden), self.other(hidden)], -1))


def pooled() -> nn.Module:
    """Windows that reach beyond the image: 0 is not a place in each of them."""
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.MaxPool2d(3, 2, 1),
        nn.Conv2d(8, 8, 3),
        nn.ReLU(),
    )


def words_lost(model: nn.Module, x: torch.Tensor) -> torch.Tensor:
    return F.cross_entropy(model(x).flatten(0, 1), x.flatten() % 16)


def networks() -> dict[str, Network]:
    convolutions = models.convolutions()
    images = torch.randn(8, 3, 12, 12)
    convolutions(images)
    words = torch.randint(0, 16, (4, 32))
    return {
        "convolutions": (convolutions, lambda m, x: m(x).square().mean(), (images,)),
        "gpt": (models.Gpt(vocabulary=16), words_lost, (words,)),
        "pooled": (pooled(), lambda m, x: m(x).square().mean(), (torch.randn(2, 3, 16, 16),)),
        "tables": (Tables(), words_lost, (words,)),
    }


def planned(network: Network, **options: Any) -> checking.Case:
    model, loss, inputs = network
    with warnings.catch_warnings():
        warnings.simplefilter("error", rt.RemoraWarning)
        case = checking.Case(model, loss, inputs, **{"budget": "100%", "fuse": "program", **options})
        case.step(*case.inputs)
        model.zero_grad()
    return case


def run(case: checking.Case) -> checking.Outcome:
    """Runs a step; its peak must be the predicted one."""
    mine = checking.outcome(case.model, lambda: case.step(*case.inputs), case.state)
    plan = case.step.plan
    assert plan.predicted_peak <= plan.budget
    checking.check_peak(mine.peak, plan.predicted_peak - plan.fixed_memory, plan)
    return mine


def lower(case: checking.Case, budget: str) -> None:
    """Sets a budget, or the least one with a known schedule."""
    try:
        case.step.set_budget(budget)
    except rt.BudgetError as refusal:
        case.step.set_budget(refusal.least)


@pytest.mark.parametrize("name", ["convolutions", "gpt", "pooled", "tables"])
def test_the_same_bits_under_every_budget_and_the_peak_as_predicted(name: str) -> None:
    case = planned(networks()[name])
    first = run(case)
    if name != "gpt" and name != "convolutions":  # these draw other random numbers than eager
        torch.testing.assert_close(first.results, case.eager.results, rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(first.gradients, case.eager.gradients, rtol=1e-3, atol=1e-5)
    again = []
    for budget in ("130%", "85%", "1%"):
        lower(case, budget)
        mine = run(case)
        assert checking.differences(mine, first) == []
        again.append(case.step.plan.recomputes)
    assert again[0] == 0 < again[-1]


def test_it_is_what_stock_inductor_computes_where_the_kernels_are_the_same() -> None:
    model = nn.Sequential(nn.Linear(64, 64), nn.GELU(), nn.Dropout(0.2), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 8))
    x, y = torch.randn(32, 64), torch.randint(0, 8, (32,))
    case = planned((model, lambda m, x, y: F.cross_entropy(m(x), y), (x, y)))
    mine = run(case)
    stock = checking.Case.body(torch.compile(model, dynamic=False), lambda m, x, y: F.cross_entropy(m(x), y))
    theirs = checking.outcome(model, lambda: stock(x, y), case.state)
    assert checking.differences(mine, theirs) == []


def test_running_statistics_change_once_and_random_numbers_are_drawn_once() -> None:
    case = planned(networks()["convolutions"])
    lower(case, "1%")
    mine = run(case)
    counts = {name for name in mine.buffers if "num_batches" in name}
    assert counts and all(torch.equal(mine.buffers[name], case.eager.buffers[name]) for name in counts)
    torch.testing.assert_close(mine.buffers["1.running_mean"], case.eager.buffers["1.running_mean"])
    again = [op for op, times in case.step.plan.found.recomputes.items() if times]
    assert again and not any("randint" in op.type for op in again)
    other = checking.outcome(case.model, lambda: case.step(*case.inputs), case.state, seed=1)
    assert checking.differences(other, mine), "another seed draws another mask"


def test_gradients_that_are_there_are_added_to() -> None:
    case = planned(networks()["tables"])
    for _ in range(2):
        case.step(*case.inputs)
    twice = {name: p.grad.clone() for name, p in case.model.named_parameters() if p.grad is not None}
    case.model.zero_grad()
    case.step(*case.inputs)
    for name, p in case.model.named_parameters():
        torch.testing.assert_close(twice[name], 2 * p.grad if p.grad is not None else None)
    assert len(case.step.plans) == 2


def test_memory_that_is_written_twice_is_taken_over_where_that_is_released() -> None:
    case = planned(networks()["tables"], budget="200%")
    in_place = [op for op in case.step.plan.graph["ops"] if op.get("in_place")]
    assert in_place, "sums by index are added to zeros that another kernel writes"
    run(case)


@pytest.mark.parametrize("name", ["convolutions", "tables"])
def test_nothing_works_in_place_in_an_arena_and_the_bits_are_the_same(name: str) -> None:
    case = planned(networks()[name], budget="200%")
    assert any(op.get("in_place") for op in case.step.plan.graph["ops"])
    first = run(case)
    torch.manual_seed(0)
    packed = planned(networks()[name], budget="200%", arena=True)
    assert not any(op.get("in_place") for op in packed.step.plan.graph["ops"])
    mine = checking.outcome(packed.model, lambda: packed.step(*packed.inputs), packed.state)
    assert checking.differences(mine, first) == []
    checking.check_arena(packed.step.plan)


def test_it_is_for_whole_steps() -> None:
    with pytest.raises(ValueError, match="'program' is for train_step"):
        rt.wrap(nn.Linear(2, 2), fuse="program")
    with pytest.raises(ValueError, match="fuse: 'kernels' is none of False, True, 'program'"):
        rt.train_step(lambda: None, fuse="kernels")


PROGRAM = """
import torch
from torch._inductor.async_compile import AsyncCompile
async_compile = AsyncCompile()
kernel = async_compile.%s
empty_strided_cpu = torch.empty_strided
def call(args):
    x, = args
    buf0 = empty_strided_cpu((4, ), (1, ), torch.float32)
    %s
    return (buf0, )
"""


@pytest.mark.parametrize(
    ("kernel", "line", "words"),
    [
        ("cutlass('source')", "kernel(x, buf0)", "a kernel of a kind that cannot be read (cutlass)"),
        ("cpp_pybinding(['const float*'], '')", "kernel(x, buf0)", "a signature that cannot be read"),
        ("cpp_pybinding(['const float*', 'float*'], '')", "kernel(x, buf0 if x.sum() > 0 else x)", "cannot be read"),
    ],
)
def test_what_is_not_understood_is_refused(kernel: str, line: str, words: str) -> None:
    with pytest.raises(CaptureError) as refusal:
        read_program(PROGRAM % (kernel, line), {}, [torch.zeros(4)])
    assert words in str(refusal.value)


def test_a_program_that_is_refused_runs_as_regions_and_a_word_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise CaptureError("Inductor's program changes an argument")

    monkeypatch.setattr("remora.torch.decide.fused.as_kernels", refuse)
    model, loss, inputs = networks()["tables"]
    with pytest.warns(rt.RemoraWarning, match="changes an argument; compiled regions run instead"):
        case = checking.Case(model, loss, inputs, budget="100%", fuse="program")
        case.step(*case.inputs)
    model.zero_grad()
    assert any(op["type"].startswith("fused") for op in case.step.plan.graph["ops"])
    torch.testing.assert_close(run(case).gradients, case.eager.gradients, rtol=1e-3, atol=1e-5)
