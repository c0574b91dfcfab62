# SPDX-License-Identifier: Apache-2.0
"""Budgets that refusals name are real, for random models and each front end of PyTorch.

What is enough is accepted; what is below a minimum or a lower bound is refused. REMORA_ALL_CASES=1 runs 240 models.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import checking
import pytest
import torch
from torch import nn

import remora.torch as rt

QUICK, ALL = 4, 40
"""Models for each front end."""
Net = tuple[Callable[[], nn.Module], tuple[torch.Tensor, ...]]
OPTIONS: dict[str, Any] = {"time_limit": 1.0, "threads": 1}


def perceptron(draw: random.Random) -> Net:
    widths = [draw.choice([8, 16, 40, 64]) for _ in range(draw.randint(2, 6))]
    layers: list[Callable[[], nn.Module]] = []
    for a, b in zip(widths, [*widths[1:], widths[0]], strict=True):
        layers.append(lambda a=a, b=b: nn.Linear(a, b))  # type: ignore[misc]
        layers.append(draw.choice([nn.GELU, nn.Tanh, nn.Sigmoid, lambda: nn.Dropout(0.2)]))
    return lambda: nn.Sequential(*[make() for make in layers]), (torch.randn(draw.choice([1, 8, 64]), widths[0]),)


def convolutional(draw: random.Random) -> Net:
    wide, size, count = draw.choice([4, 8]), draw.choice([8, 12]), draw.randint(1, 3)
    pool = draw.random() < 0.5

    def make() -> nn.Module:
        layers: list[nn.Module] = [nn.Conv2d(3, wide, 3, padding=1)]
        for _ in range(count):
            layers += [nn.BatchNorm2d(wide), nn.ReLU(), nn.Conv2d(wide, wide, 3, padding=1)]
        return nn.Sequential(*layers, *([nn.AvgPool2d(2)] if pool else []))

    return make, (torch.randn(draw.choice([1, 4]), 3, size, size),)


class Layers(nn.Module):
    """A small transformer without dropout."""

    def __init__(self, width: int, heads: int, layers: int) -> None:
        super().__init__()
        sizes = {"d_model": width, "nhead": heads, "dim_feedforward": 2 * width, "dropout": 0.0, "batch_first": True}
        self.blocks = nn.ModuleList(nn.TransformerEncoderLayer(**sizes) for _ in range(layers))  # type: ignore[arg-type]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            x = block(x)
        return x


def transformer(draw: random.Random) -> Net:
    width, heads, layers = draw.choice([8, 16]), draw.choice([1, 2]), draw.randint(1, 3)
    return lambda: Layers(width, heads, layers), (torch.randn(draw.choice([1, 2]), draw.choice([4, 16]), width),)


def square(model: nn.Module, x: torch.Tensor) -> torch.Tensor:
    return model(x).square().mean()


Ask = Callable[[int], int]
"""From a budget in bytes to the peak that a plan has, with what is reserved; raises BudgetError."""


def by_train_step(net: Net, reserve: int, **options: Any) -> Ask:
    make, inputs = net

    def ask(budget: int) -> int:
        given = {"budget": budget, "reserve": reserve, "cost": "flops", **OPTIONS, **options}
        step = rt.train_step(checking.Case.body(make(), square), **given)
        step(*inputs)
        return int(step.plan.predicted_peak) + reserve

    return ask


def by_set_budget(net: Net, reserve: int) -> Ask:
    make, inputs = net
    step = rt.train_step(checking.Case.body(make(), square), reserve=reserve, cost="flops", **OPTIONS)
    step(*inputs)

    def ask(budget: int) -> int:
        step.set_budget(budget)
        return int(step.plan.predicted_peak) + reserve

    return ask


def by_wrap(net: Net, reserve: int) -> Ask:
    make, inputs = net

    def ask(budget: int) -> int:
        model = rt.wrap(make(), budget=budget, reserve=reserve, cost="flops", **OPTIONS)
        model(*inputs).sum().backward()
        return int(rt.plans(model)[0].predicted_peak) + reserve

    return ask


def by_plan(net: Net, reserve: int) -> Ask:
    make, inputs = net

    def ask(budget: int) -> int:
        given = {"optimizer": "adamw" if reserve % 2 else None, "accumulate": 1 + reserve % 3, "cost": "flops"}
        plan = rt.plan(make, inputs, square, budget=budget, reserve=reserve, **given, **OPTIONS)
        assert ("the minimum is" in str(plan)) == (not plan.fits and plan.lower == plan.least)
        if not plan.fits:
            raise rt.BudgetError(plan.budget, plan.least, plan.proved, 0, plan.unscheduled, plan.lower)
        return plan.total

    return ask


def by_auto_checkpoint(net: Net, reserve: int) -> Ask:
    make, inputs = net

    def ask(budget: int) -> int:
        torch.manual_seed(0)
        model = make()
        found = rt.auto_checkpoint(model, inputs, budget, loss=lambda m, x: square(m, *x), reserve=reserve, **OPTIONS)
        return rt.checkpoints(found).measured_peak + reserve

    return ask


DOORS: dict[str, Callable[[Net, int], Ask]] = {
    "train_step": by_train_step,
    "set_budget": by_set_budget,
    "arena": lambda net, reserve: by_train_step(net, reserve, arena=True),
    "wrap": by_wrap,
    "plan": by_plan,
    "auto_checkpoint": by_auto_checkpoint,
}
CASES = [(door, seed) for door in DOORS for seed in range(ALL)]


def refusal(ask: Ask, budget: int) -> rt.BudgetError | None:
    torch._dynamo.reset()
    try:
        assert ask(budget) <= budget
    except rt.BudgetError as error:
        return error
    return None


@pytest.mark.parametrize(
    ("door", "seed"), [c if c[1] < QUICK else pytest.param(*c, marks=pytest.mark.slow) for c in CASES]
)
def test_a_budget_that_is_named_is_real(door: str, seed: int) -> None:
    draw = random.Random(f"{door} {seed}")
    net = draw.choice([perceptron, convolutional, transformer])(draw)
    ask = DOORS[door](net, draw.choice([0, 0, 1, 12_345]))
    told = refusal(ask, 64)
    assert told is not None
    for _ in range(2):  # the second time within what was named: a refusal there names another one
        assert told.budget < told.least and told.lower <= told.least
        assert ("the minimum is" in str(told)) == (told.lower == told.least)
        assert refusal(ask, told.least) is None, f"{told}"
        if told.lower > told.budget:
            below = refusal(ask, told.lower - 1)
            assert below is not None, f"{told}"
            assert below.proved or below.least >= told.lower
        again = refusal(ask, (told.budget + told.least) // 2)
        if again is None:
            assert told.lower < told.least, f"{told}"
            return
        told = again


def test_an_op_that_is_too_large_by_itself_is_named() -> None:
    model = nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 4096), nn.Tanh(), nn.Linear(4096, 8))
    x = torch.randn(64, 8)
    step = rt.train_step(checking.Case.body(model, square), budget=600_000, cost="flops", **OPTIONS)
    with pytest.raises(rt.BudgetError, match=r"alone needs .* smaller batch, or compute that part in pieces") as caught:
        step(x)
    assert caught.value.op
    plan = rt.plan(lambda: model, (x,), square, budget=600_000, cost="flops", **OPTIONS)
    assert plan.op.endswith(caught.value.op) and "alone takes more" in str(plan)
    assert rt.FitPlan.from_json(plan.to_json()).op == plan.op
