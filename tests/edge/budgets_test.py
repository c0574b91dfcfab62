# SPDX-License-Identifier: Apache-2.0
"""The budgets that `RecomputePass` names when it refuses one: 200 random programs are planned at them, and below."""

from __future__ import annotations

import random
import re

import programs
import pytest
import torch
from programs import within
from torch import nn

import remora
from remora.executorch import RecomputePass, planning_algo


class Random(nn.Module):
    """Ops on vectors of different sizes: each makes some smaller or larger, and old ones are read again at the end."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.seed = seed
        if seed % 3 == 0:
            self.register_buffer("state", torch.zeros(4))

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
        choice = random.Random(self.seed)
        values = [x, y]
        for _ in range(choice.randint(3, 8)):
            value = choice.choice(values[-3:])
            match choice.choice(["unary", "grow", "shrink", "join", "several"]):
                case "unary":
                    values.append(value.tanh())
                case "grow":
                    values.append(value.repeat(choice.randint(2, 4)))
                case "shrink":
                    values.append(value.view(4, -1).sum(1))
                case "join":
                    values.append(torch.cat([value, choice.choice(values)]))
                case "several":
                    largest, places = torch.topk(value, 4)
                    values += [largest, places.float()]
        total = torch.zeros(())
        for value in choice.sample(values, min(3, len(values))):
            total = total + value.sin().sum()
        if self.seed % 3 == 0:
            self.state.add_(total)
        return total, values[-1]


def refused(edge: programs.EdgeProgramManager, budget: int) -> str:
    """Why a budget is refused."""
    with pytest.raises(Exception, match="RecomputePass") as caught:
        edge.transform([RecomputePass(budget)])
    assert isinstance(caught.value.__cause__, remora.NoSchedule)
    return str(caught.value.__cause__)


def named(refusal: str) -> tuple[int, int]:
    """The budget below which none is feasible, 0 for none, and one that is enough."""
    if minimum := re.search(r"the minimum budget is (\d+) bytes", refusal):
        return int(minimum[1]), int(minimum[1])
    bound = re.search(r"lower bound on any feasible budget: (\d+) bytes", refusal)
    enough = re.search(r"(\d+) bytes are enough", refusal)
    assert enough, refusal
    return int(bound[1]) if bound else 0, int(enough[1])


@pytest.mark.parametrize("seed", range(200))
def test_what_a_refusal_names_is_enough(seed: int) -> None:
    inputs = (torch.rand(8 + 4 * (seed % 5)), torch.rand(4))
    edge, _ = programs.exported((Random(seed), inputs))
    bound, enough = named(refused(edge, 1))
    assert 0 < bound <= enough
    also_enough = named(refused(edge, bound - 1))[1]
    for budget in {enough, also_enough}:
        recompute = RecomputePass(budget)
        program = programs.planned(edge.transform([recompute]), within(budget))
        assert recompute.schedule is not None and remora.verify(recompute.schedule.graph, recompute.schedule)
        assert programs.arenas(program)[0] <= budget
    if seed % 10 == 0:
        whole = programs.planned(edge, planning_algo)
        assert programs.same(programs.run(program, inputs), programs.run(whole, inputs))
