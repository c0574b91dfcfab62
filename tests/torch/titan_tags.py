# SPDX-License-Identifier: Apache-2.0
"""Tags of small traced graphs: carried out by the trainer as evaluated here, and chosen as well as by enumeration.

torchtitan_test.py runs these cases in the environment of tests/torch/setup_titan.
"""

from __future__ import annotations

import itertools
import random

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn
from torch.utils.checkpoint import CheckpointPolicy
from torchtitan.experiments.graph_trainer.make_fx_tracer import minimal_fx_tracer

from remora.torch import BudgetError
from remora.torch.decide.schedules import schedule_for
from remora.torch.options import Options
from remora.torch.problem.aten import graph_of, runs_of
from remora.torchtitan._policy import Planned, _carried_out
from remora.torchtitan._rewrite import rewritten
from remora.torchtitan._tags import Chooser, Family

OPTIONS = Options(cost="flops", time_limit=60.0, threads=1, cache=False)


class Block(nn.Module):
    """With an op in place, views, a value that others read from afar, and one that is random."""

    def __init__(self, width: int, dropout: float) -> None:
        super().__init__()
        self.first, self.last, self.dropout = nn.Linear(width, 2 * width), nn.Linear(2 * width, width), dropout

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        scale = x.square().mean(-1, keepdim=True).add_(1e-6).rsqrt()
        inner = F.dropout(F.silu(self.first(x * scale)), self.dropout)
        result: torch.Tensor = x + self.last(inner.transpose(0, 1)).transpose(0, 1)
        return result


def planned(blocks: int, dropout: float = 0.0) -> tuple[Planned, nn.Module, tuple[torch.Tensor, ...]]:
    torch.manual_seed(0)
    model = nn.Sequential(*(Block(8, dropout) for _ in range(blocks)))
    x = torch.randn(16, 12, 8)

    def step(given: torch.Tensor) -> list[torch.Tensor]:
        loss = model(given).square().mean()
        return [loss, *torch.autograd.grad(loss, list(model.parameters()))]

    traced = minimal_fx_tracer(step, module=model)(x)
    return Planned.read(traced.gm, OPTIONS), model, (*model.parameters(), x)


def test_tags_are_carried_out_as_they_are_evaluated() -> None:
    here, _, arguments = planned(2, 0.1)
    family = Family(here.step)
    chooser = Chooser(family, graph_of(here.step, here.costs, "small"))
    draw = random.Random(0)
    expected = None
    for count in range(len(family.free) + 1):
        again = frozenset(draw.sample(sorted(family.free), count))
        family.tag(again)
        random_ones = [n for n in family.place if torch.Tag.nondeterministic_seeded in getattr(n.target, "tags", ())]
        assert random_ones and all(n.meta["recompute"] is CheckpointPolicy.MUST_SAVE for n in random_ones)
        made = _carried_out(here.step.module)
        assert here.peak_of(made) == chooser.tagged(again).peak, sorted(again)
        torch.manual_seed(1)
        with torch.no_grad():
            found = made(*arguments)
        expected = expected or found
        assert all(torch.equal(a, b) for a, b in zip(found, expected, strict=True))


def test_the_choice_is_as_good_as_enumeration() -> None:
    here, _, _ = planned(1)
    family = Family(here.step)
    chooser = Chooser(family, graph_of(here.step, here.costs, "small"))
    free = sorted(family.free)
    assert 6 <= len(free) <= 12
    sets = [c for n in range(len(free) + 1) for c in itertools.combinations(free, n)]
    rows = [Chooser(family, chooser.graph).tagged(again) for again in sets]
    peaks = sorted({row.peak for row in rows})
    assert len(peaks) >= 4
    for budget in peaks:
        found, bound = chooser.best(budget, OPTIONS)
        best = min(row.time for row in rows if row.peak <= budget)
        assert found.peak <= budget and bound <= best == found.time, (budget, sorted(found.again))
    with pytest.raises(BudgetError) as refusal:
        chooser.best(peaks[0] - 1, OPTIONS)
    assert refusal.value.least == peaks[0]


def test_a_schedule_becomes_a_graph_that_takes_what_it_says() -> None:
    here, _, arguments = planned(2, 0.1)
    graph = graph_of(here.step, here.costs, "small")
    torch.manual_seed(1)
    with torch.no_grad():
        expected = here.step.module(*arguments)
    for share in (95, 85, 75):
        found = schedule_for(
            graph, graph.fixed_memory + (here.unscheduled - graph.fixed_memory) * share // 100, OPTIONS
        )
        made = rewritten(here.step, runs_of(here.step, found))
        assert here.peak_of(made) <= found.budget
        torch.manual_seed(1)
        with torch.no_grad():
            results = made(*arguments)
        assert all(torch.equal(a, b) for a, b in zip(results, expected, strict=True))
