# SPDX-License-Identifier: Apache-2.0
"""Plans before the device is there: totals to the byte on the CPU, graphs of a GPU that is not there, what fits."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import checking
import models
import pytest
import torch
import torch.nn.functional as F  # noqa: N812
import zoo

import remora.torch as rt

ADAMW = functools.partial(torch.optim.AdamW, lr=1e-4)
QUICK = ["gpt2", "unet", "experts"]


def planned(name: str, **options: Any) -> tuple[rt.FitPlan, int]:
    """A network of the zoo, planned without memory, and the most bytes that were allocated meanwhile."""
    _, inputs, loss = zoo.ZOO[name]()
    given = {"cost": "measured", "optimizer": ADAMW, "time_limit": 2.0, "threads": 1, **options}
    taken, found = checking.peak_of(lambda: rt.plan(lambda: zoo.ZOO[name]()[0], inputs, loss, **given))
    return found, taken


def taken_by(name: str, budget: int | str) -> int:
    """The most bytes that two iterations take: parameters, buffers, batch, and what the profiler sees beyond."""
    torch.manual_seed(0)
    model, inputs, loss = zoo.ZOO[name]()
    step = rt.train_step(checking.Case.body(model, loss), budget=budget, **checking.OPTIONS)
    step(*inputs)  # captured, measured and planned
    model.zero_grad()

    def loop() -> None:
        optimizer = ADAMW(model.parameters())
        for _ in range(2):
            step(*inputs)
            optimizer.step()
            optimizer.zero_grad()

    lying = {t.untyped_storage()._cdata: t.untyped_storage().nbytes() for t in there(model, inputs)}
    constants = step.plan.fixed_memory - sum(lying.values())
    return sum(lying.values()) + max(0, constants) + checking.peak_of(loop)[0]


def there(model: torch.nn.Module, inputs: tuple[Any, ...]) -> list[torch.Tensor]:
    return [*model.parameters(), *model.buffers(), *(t for t in inputs if isinstance(t, torch.Tensor))]


@pytest.mark.parametrize("name", [n if n in QUICK else pytest.param(n, marks=pytest.mark.slow) for n in zoo.ZOO])
def test_the_total_is_what_the_process_allocates(name: str) -> None:
    plan, while_planning = planned(name)
    assert plan.fits
    real = taken_by(name, "100%")
    print(f"{name}: planned {plan.total:,}, allocated {real:,}; while planning {while_planning / plan.total:.1%}")
    assert plan.total == real
