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
from remora.torch._errors import CaptureError
from remora.torch._kernels_read import read_program

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
        "unet": (models.Unet(), lambda m, x: m(x).square().mean(), (torch.randn(2, 3, 16, 16),)),
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


@pytest.mark.parametrize("name", ["convolutions", "gpt", "unet", "tables"])
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
