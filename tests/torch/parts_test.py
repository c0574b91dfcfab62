# SPDX-License-Identifier: Apache-2.0
"""`wrap` and the backend of `torch.compile`: the user calls `backward()`."""

from __future__ import annotations

import json

import checking
import models
import pytest
import torch
from torch import nn

import remora
import remora.torch as rt
from remora.torch.decide import step as decide_step


@pytest.mark.parametrize("how", ["wrap", "compile"])
@pytest.mark.parametrize("budget", [pytest.param("100%", marks=pytest.mark.slow), "75%"])
def test_language_model(how: str, budget: str) -> None:
    plan = checking.check_parts(models.Gpt(), (torch.randint(0, 64, (4, 32)),), budget, how)
    assert (plan.recomputes > 0) == (budget == "75%")


@pytest.mark.slow
def test_batch_norm_is_updated_once() -> None:
    checking.check_parts(models.Unet(), (torch.randn(2, 3, 16, 16),), "85%", "wrap")


def test_two_forwards_before_two_backwards_keep_their_own_dropout() -> None:
    model = models.Gpt(layers=1)
    twin = models.Gpt(layers=1)
    twin.load_state_dict(model.state_dict())
    rt.wrap(model, budget="75%", **checking.OPTIONS)
    x, y = torch.randint(0, 64, (4, 32)), torch.randint(0, 64, (4, 32))
    for module in (model, twin):
        torch.manual_seed(3)
        first, second = module(x).sum(), module(y).square().sum()
        second.backward()
        first.backward()
    assert rt.plans(model)[0].recomputes > 0
    for mine, theirs in zip(model.parameters(), twin.parameters(), strict=True):
        if checking.DEVICE.type == "cpu":
            assert checking.same(mine.grad, theirs.grad)
        else:  # traced, the model runs other kernels; with another mask most of a gradient would be another one
            torch.testing.assert_close(mine.grad, theirs.grad, rtol=1e-3, atol=1e-3 * float(theirs.grad.abs().max()))


def test_what_is_saved_only_to_make_another_saved_value_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """`joined` is there at the cut and is made again behind it, from a product that backward itself never reads."""

    class Joining(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.left, self.right = nn.Linear(16, 16), nn.Linear(32, 8), nn.Linear(32, 8)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            joined = torch.cat([self.first(x), x], 1)
            return self.left(joined) * self.right(joined)

    found = decide_step.schedule_for

    def made_again(graph: remora.Graph, budget: int, options: rt.Options, seconds: float) -> remora.Schedule:
        schedule = json.loads(found(graph, budget, options, seconds).to_json())
        steps = schedule["steps"]
        cat = next(op for op in graph.ops if op.type == "cat")
        (product,), (joined,) = cat.inputs, cat.outputs
        for step in steps:
            step["free"] = [t for t in step.get("free", []) if t not in (product.name, joined.name)]
        reads = [i for i, s in enumerate(steps) if joined in graph.find_op(s["op"]).inputs]
        behind = [i for i in reads if graph.find_op(steps[i]["op"]).phase == "backward"]
        steps[behind[0]]["free"].append(joined.name)
        steps[behind[-1]]["free"] += [product.name, joined.name]
        steps.insert(behind[-1], {"op": cat.name, "free": []})
        return remora.Schedule.from_json(json.dumps(schedule), graph)

    monkeypatch.setattr(decide_step, "schedule_for", made_again)
    plan = checking.check_parts(Joining(), (torch.randn(4, 16),), "200%", "wrap")
    assert plan.recomputes == 1


def test_without_gradients_a_wrapped_module_is_planned_for_inference() -> None:
    model = models.Gpt(layers=1).eval()
    x = torch.randint(0, 64, (4, 32))
    with torch.no_grad():
        expected = model(x)
        assert checking.same(rt.wrap(model, budget="100%", **checking.OPTIONS)(x), expected)


def test_infeasible_is_not_hidden_in_another_exception() -> None:
    model = rt.wrap(models.Gpt(layers=1), budget="1%", **checking.OPTIONS)
    with pytest.raises(rt.BudgetError):
        model(torch.randint(0, 64, (4, 32)))
