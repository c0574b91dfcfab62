# SPDX-License-Identifier: Apache-2.0
"""`wrap` and the backend of `torch.compile`: the user calls `backward()`."""

from __future__ import annotations

import json
import re
import warnings
from typing import Any

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

    def made_again(graph: remora.Graph, budget: int, options: rt.Options, *more: Any) -> remora.Schedule:
        schedule = json.loads(found(graph, budget, options, *more).to_json())
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


@pytest.mark.parametrize("way", ["wrap", "train_step"])
def test_infeasible_is_not_hidden_in_another_exception(way: str) -> None:
    model, x = models.Gpt(layers=1), torch.randint(0, 64, (4, 32))
    run = rt.train_step(lambda x: model(x).sum().backward(), budget="1%", **checking.OPTIONS)
    if way == "wrap":
        run = rt.wrap(model, budget="1%", **checking.OPTIONS)
    with pytest.raises(rt.BudgetError) as caught:
        run(x)
    assert not [entry for entry in caught.traceback if "_dynamo" in str(entry.path)]
    assert len(caught.traceback) < 8


def test_new_shapes_of_a_wrapped_module_are_said_once() -> None:
    model, said = rt.wrap(nn.Linear(4, 4), cost="flops", **checking.OPTIONS), []
    for rows in (2, 3, 2, 3):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model(torch.randn(rows, 4)).sum().backward()
        said.append([str(w.message) for w in caught])
        assert {w.filename for w in caught} <= {__file__}
    assert [len(texts) for texts in said] == [0, 1, 0, 0]
    assert re.match(r"remora: Linear \(.*\) is captured for all sizes of what .*: input \(3, 4\)\. That", said[1][0])


class Tiled(nn.Module):
    """Rows in tiles, whose activations the backward computes again: as tiled MLPs are written."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.up, self.down, self.how = nn.Linear(8, 32, bias=False), nn.Linear(32, 8, bias=False), how

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return FUNCTIONS[self.how].apply(x, self.up.weight, self.down.weight)


def tile(x: torch.Tensor, up: torch.Tensor, down: torch.Tensor) -> torch.Tensor:
    return torch.tanh(x @ up.t()) @ down.t()


class ByGrad(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, *weights: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x, *weights)
        return torch.cat([tile(part, *weights) for part in x.chunk(4)])

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        x, *weights = ctx.saved_tensors
        of_x, of_weights = [], [torch.zeros_like(w) for w in weights]
        for part, given in zip(x.chunk(4), gradient.chunk(4), strict=True):
            with torch.enable_grad():
                leaves = [t.detach().requires_grad_() for t in (part, *weights)]
                found = torch.autograd.grad(tile(*leaves), leaves, given)
            of_x.append(found[0])
            of_weights = [a + b for a, b in zip(of_weights, found[1:], strict=True)]
        return (torch.cat(of_x), *of_weights)


class ByBackward(ByGrad):
    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        leaves = [t.detach().requires_grad_() for t in ctx.saved_tensors]
        with torch.enable_grad():
            tiles = [tile(part, *leaves[1:]) for part in leaves[0].chunk(4)]
        torch.autograd.backward(tiles, gradient.chunk(4))
        return tuple(leaf.grad for leaf in leaves)


class BesideIt(torch.autograd.Function):
    """Adds to the gradients of parameters that are not its arguments."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, run: Any) -> torch.Tensor:
        ctx.run = run
        ctx.save_for_backward(x)
        with torch.no_grad():
            return run(x)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        x = ctx.saved_tensors[0].detach().requires_grad_()
        with torch.enable_grad():
            result = ctx.run(x)
        torch.autograd.backward(result, gradient)
        return x.grad, None


FUNCTIONS: dict[str, Any] = {"grad": ByGrad, "backward": ByBackward}


@pytest.mark.parametrize("way", ["wrap", "train_step"])
@pytest.mark.parametrize("how", ["grad", "backward"])
def test_a_function_with_its_own_backward_takes_gradients_inside(how: str, way: str) -> None:
    model = nn.Sequential(nn.Linear(8, 8), Tiled(how), nn.Tanh(), Tiled(how), nn.Linear(8, 8))
    x = torch.randn(64, 8)
    if way == "wrap":
        checking.check_parts(model, (x,), "90%", "wrap")
    else:
        checking.check_step(model, lambda m, x: m(x).square().mean(), (x,), "90%")


@pytest.mark.parametrize("way", ["wrap", "train_step"])
def test_a_function_that_changes_parameters_beside_it_is_named(way: str) -> None:
    inner, x = nn.Linear(8, 8), torch.randn(4, 8)

    class Beside(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.inner = nn.Linear(8, 8), inner

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return BesideIt.apply(self.first(x), self.inner)

    model = Beside()
    run = rt.train_step(lambda x: model(x).sum().backward(), **checking.OPTIONS)
    if way == "wrap":
        run = rt.wrap(model, **checking.OPTIONS)
    said = r"An autograd\.Function changes something outside of it \(.*parts_test\.py:\d+\).*auto_checkpoint"
    with pytest.raises(rt.CaptureError, match=said):
        run(x)
    plain = Beside()
    plain.load_state_dict(model.state_dict())
    rt.auto_checkpoint(plain, x, budget="200%", loss=lambda m, x: m(x).sum(), **checking.OPTIONS)
    plain(x).sum().backward()
    assert all(p.grad is not None for p in plain.parameters())


def test_an_inner_tensor_that_requires_gradients_has_a_hint_of_its_own() -> None:
    class Forces(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.energy = nn.Linear(4, 1)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = x.detach().requires_grad_()
            (force,) = torch.autograd.grad(self.energy(x).square().sum(), x, create_graph=True)
            return force

    with pytest.raises(rt.CaptureError, match=r"the module itself calls requires_grad_\(\): take the loss inside"):
        rt.wrap(Forces(), **checking.OPTIONS)(torch.randn(2, 4))


def test_a_forward_takes_gradients_of_its_argument() -> None:
    class Forces(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.energy = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            energy = self.energy(x).sum()
            (force,) = torch.autograd.grad(energy, x, create_graph=True)
            return energy + force.square().sum()

    checking.check_parts(Forces(), (torch.randn(6, 4).requires_grad_(),), "100%", "wrap")
