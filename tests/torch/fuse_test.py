# SPDX-License-Identifier: Apache-2.0
"""Compiled regions (`fuse=True`): where a graph is cut, and that a region which runs again gives the same bits.

Results are close to eager's, not equal in every bit: Inductor adds up in another order. Everything else holds as it
does for single ops: the predicted peak to the byte, the generator's state, and the same bits in every run.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import checking
import graph_test
import models
import pytest
import torch
import torch.fx.traceback
import torch.nn.functional as F  # noqa: N812
from torch import fx, nn

import remora
import remora.torch as rt
from remora.torch.capture.graph import StepGraph
from remora.torch.capture.read import read_step
from remora.torch.capture.regions import Region
from remora.torch.capture.simplify import simplify
from remora.torch.carry.fuse import fuse
from remora.torch.carry.program import write_program
from remora.torch.cost.calls import by_flops
from remora.torch.problem.aten import graph_of, once, replay, runs_of


def kinds(module: fx.GraphModule) -> list[str]:
    return [str(n.target) for n in module.graph.nodes if isinstance(n.target, Region)]


def silent(_: str) -> None:
    pass


def close(mine: checking.Outcome, eager: checking.Outcome) -> None:
    """Loss, gradients and buffers are close; the generator has drawn as often."""
    torch.testing.assert_close(mine.results, eager.results, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(mine.gradients, eager.gradients, rtol=1e-3, atol=1e-5)
    torch.testing.assert_close(mine.buffers, eager.buffers, rtol=1e-4, atol=1e-5)
    assert torch.equal(mine.generator, eager.generator)


def normed(x: torch.Tensor) -> torch.Tensor:
    y = F.layer_norm((x @ x).sigmoid() + x, (16,))
    return (y @ x).sum() + y.exp().mean()


def test_a_region_is_what_hangs_together_between_products() -> None:
    step = graph_test.captured(normed, torch.rand(16, 16), simple=False)
    first, second = kinds(fuse(step, set(), silent))
    assert first.split()[:4] == ["fused", "sigmoid", "add", "native_layer_norm"]
    assert second == "fused sum add"


def test_parts_of_a_sum_are_regions_of_their_own() -> None:
    def run(x: torch.Tensor) -> torch.Tensor:
        return sum((part @ x.t()).exp().sum() for part in x.chunk(3))  # type: ignore[return-value]

    step = graph_test.captured(run, torch.rand(12, 8), simple=False)
    assert kinds(fuse(step, set(), silent)) == ["fused exp sum add", *["fused exp sum"] * 2, "fused add"]
    # Parts as large as what they are computed from are one loop.
    step = graph_test.captured(lambda x: (x @ x).exp() + (x.t() @ x).sin(), torch.rand(8, 8), simple=False)
    assert kinds(fuse(step, set(), silent)) == ["fused exp sin add"]


def test_a_region_ends_at_what_is_kept() -> None:
    step = graph_test.captured(normed, torch.rand(16, 16), simple=False)
    again = {n for op in step.ops for n in op.nodes if "layer_norm" in n.name}
    found = kinds(fuse(step, again, silent))
    assert found[0] == "fused sigmoid add"
    assert not any("layer_norm" in kind and "sigmoid" in kind for kind in found)


class Gelu(nn.Module):
    """GELU by tanh, written out, as in GPT-2."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return 0.5 * x * (1.0 + torch.tanh(0.7978845608 * (x + 0.044715 * torch.pow(x, 3.0))))


@pytest.mark.skipif(
    not hasattr(torch.fx.traceback, "_mark_autograd_backward"), reason="PyTorch 2.11 does not mark the backward pass"
)
def test_the_backward_pass_computes_what_is_larger_than_its_inputs() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(16, 64), Gelu(), nn.Linear(64, 256, bias=False))
    given: list[torch.Tensor] = []

    def loss(x: torch.Tensor, y: torch.Tensor) -> None:
        with torch.autocast(checking.DEVICE.type, torch.bfloat16):
            F.cross_entropy(model(x), y).backward()

    def take(module: fx.GraphModule, arguments: list[torch.Tensor]) -> list[Any]:
        given[:] = [t.detach() for t in arguments]
        return list(module(*arguments))

    step = graph_test.captured(loss, torch.randn(32, 16), torch.randint(0, 256, (32,)), simple=False, run=take)
    module = fuse(step, set(), silent)
    regions = {str(n.target): n for n in module.graph.nodes if isinstance(n.target, Region)}
    shapes = {name: sorted(tuple(t.shape) for t in node.meta["val"]) for name, node in regions.items()}
    forward = {name: found for name, found in shapes.items() if not regions[name].meta.get("autograd_backward")}
    assert sorted(forward.values()) == [[()], [(32, 64)]], "the sum of the loss's weights, and what the product reads"
    gradient = next(node for name, node in regions.items() if "nll_loss_backward" in name)
    assert gradient.meta["val"][0].dtype == torch.bfloat16 and len(gradient.meta["val"]) == 1
    called: Any = gradient.target
    assert all(t.dtype != torch.float32 or t.numel() == 1 for t in called.inputs)
    assert replay_of(module) < replay_of(step.module) - 4 * 32 * 256
    with torch.no_grad():
        plain, mine = (run(*(t.clone() for t in given)) for run in (step.module, module))
    assert all(map(checking.same, plain, mine))


def replay_of(module: fx.GraphModule) -> int:
    """The peak of a graph in captured order."""
    step = read_step(module)
    return replay(step, by_flops(step), once(step))


def networks() -> dict[str, tuple[nn.Module, Callable[..., torch.Tensor], tuple[torch.Tensor, ...]]]:
    words = torch.randint(0, 64, (4, 32))
    convolutions = models.convolutions()
    images = torch.randn(8, 3, 12, 12)
    convolutions(images)
    return {
        "gpt": (models.Gpt(), lambda m, x: F.cross_entropy(m(x).flatten(0, 1), x.flatten()), (words,)),
        "convolutions": (convolutions, lambda m, x: m(x).square().mean(), (images,)),
        "unet": (models.Unet(), lambda m, x: m(x).square().mean(), (torch.randn(2, 3, 16, 16),)),
        "experts": (models.Experts(), lambda m, x: m(x).square().mean(), (torch.randn(4, 32, 16),)),
    }


def captured(name: str) -> tuple[StepGraph, list[torch.Tensor]]:
    """A network's step, and what it was called with."""
    model, loss, inputs = networks()[name]
    given: list[torch.Tensor] = []

    def take(module: fx.GraphModule, arguments: list[torch.Tensor]) -> list[Any]:
        given[:] = [t.detach() for t in arguments]
        return list(module(*arguments))

    return graph_test.captured(lambda *x: loss(model, *x).backward(), *inputs, simple=False, run=take), given


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("gpt", marks=pytest.mark.slow),
        "convolutions",
        pytest.param("unet", marks=pytest.mark.slow),
        pytest.param("experts", marks=pytest.mark.slow),
    ],
)
def test_the_rewritten_graph_computes_the_same_and_a_region_that_runs_again_too(name: str) -> None:
    step, given = captured(name)
    module = fuse(step, set(list(step.owner)[::3]), silent)  # cut wherever
    module.graph.lint()
    assert sum(isinstance(n.target, Region) for n in module.graph.nodes) > 2
    # As it stands a region runs its ops one by one: the same bits as the captured graph.

    def results(run: Callable[[list[torch.Tensor]], Any]) -> list[torch.Tensor]:
        torch.manual_seed(1)
        with torch.no_grad():
            return [t for t in run([t.clone() for t in given]) if isinstance(t, torch.Tensor)]

    plain = results(lambda arguments: step.module(*arguments))
    assert all(map(checking.same, plain, results(lambda arguments: module(*arguments))))
    # Compiled, planned with recomputes and without: the same bits, though not those of the captured graph.
    coarse = read_step(module)
    simplify(coarse)
    costs = by_flops(coarse)
    graph = graph_of(coarse, costs, name)
    whole = once(coarse)
    limit = int(0.8 * (replay(coarse, costs, whole) - graph.fixed_memory)) + graph.fixed_memory
    runs = runs_of(coarse, remora.solve(graph, limit, time_limit=3))
    assert any(isinstance(n.target, Region) for run in set(runs) for n in run.op.nodes)
    assert len(runs) > len(coarse.ops)
    one, other = (
        results(write_program("step", coarse, r, coarse.placeholders, coarse.outputs, coarse.updates).run)
        for r in (whole, runs)
    )
    assert all(map(checking.same, one, other))
    torch.testing.assert_close(one, plain, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("name", [pytest.param("gpt", marks=pytest.mark.slow), "unet"])
@pytest.mark.parametrize("budget", [pytest.param("100%", marks=pytest.mark.slow), "70%"])
def test_a_step_of_compiled_regions(name: str, budget: str) -> None:
    model, loss, inputs = networks()[name]
    case = checking.Case(model, loss, inputs, budget=budget, fuse=True)
    first, second = (checking.outcome(model, lambda: case.step(*case.inputs), case.state) for _ in range(2))
    close(first, case.eager)
    assert checking.differences(second, first) == []
    plan = case.step.plan
    assert any(op["type"].startswith("fused") for op in plan.graph["ops"])
    assert plan.predicted_peak <= plan.budget
    checking.check_peak(second.peak, plan.predicted_peak - plan.fixed_memory, plan)
    assert (plan.recomputes > 0) == (budget != "100%")


@pytest.mark.slow
def test_another_budget_cuts_anew() -> None:
    model, loss, inputs = networks()["gpt"]
    case = checking.Case(model, loss, inputs, budget="100%", fuse=True)
    peaks = []
    for budget in ("100%", "65%"):
        case.step.set_budget(budget)
        mine = checking.outcome(model, lambda: case.step(*case.inputs), case.state)
        close(mine, case.eager)
        peaks.append(mine.peak)
        plan = case.step.plan
        checking.check_peak(mine.peak, plan.predicted_peak - plan.fixed_memory, plan)
    assert peaks[1] < peaks[0]


@pytest.mark.parametrize("name", ["convolutions", "unet"])
def test_the_least_budget_that_a_refusal_names_is_held(name: str) -> None:
    model, loss, inputs = networks()[name]
    case = checking.Case(model, loss, inputs, budget="100%", fuse=True)
    case.step(*case.inputs)
    with pytest.raises(rt.BudgetError) as refusal:
        case.step.set_budget("1%")
    # Where a schedule of the captured ops holds it, too, the graph is cut elsewhere; those regions may need more.
    case.step.set_budget(refusal.value.least)
    assert case.step.plan.predicted_peak <= refusal.value.least


@pytest.mark.parametrize("name", ["convolutions", "unet"])
def test_the_least_budget_of_a_wrapped_module_is_held(name: str) -> None:
    model, _, inputs = networks()[name]
    rt.wrap(model, budget="1%", fuse=True, **checking.OPTIONS)
    with pytest.raises(rt.BudgetError) as refusal:
        model(inputs[0])
    rt.wrap(rt.unwrap(model), budget=refusal.value.least, fuse=True, **checking.OPTIONS)
    model(inputs[0]).square().mean().backward()
    assert rt.plans(model)[0].predicted_peak <= refusal.value.least


class Scaled(nn.Module):
    """The backward pass reads `sin(x * f)`, which can be computed from a smaller argument."""

    def __init__(self) -> None:
        super().__init__()
        self.scale, self.l = nn.Parameter(torch.ones(512)), nn.Linear(512, 8)
        self.register_buffer("freq", torch.linspace(0.5, 8, 64))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.l(self.scale * torch.sin(x[:, :, None] * self.freq).flatten(1))


@pytest.mark.parametrize("budget", ["100%", "80%"])
def test_the_backward_part_reads_no_argument_that_the_user_may_change(budget: str) -> None:
    model, first = Scaled(), torch.randn(256, 8)
    eager = copy.deepcopy(model)
    rt.wrap(model, budget=budget, fuse=True, **checking.OPTIONS)
    for module in (model, eager):
        x = first.clone()
        out = module(x)
        x.data.copy_(torch.zeros(256, 8))  # unnoticed by autograd
        out.square().mean().backward()
    for mine, theirs in zip(model.parameters(), eager.parameters(), strict=True):
        torch.testing.assert_close(mine.grad, theirs.grad, rtol=1e-3, atol=1e-5)


def test_a_long_chain_of_loops() -> None:
    model = nn.Linear(64, 64)

    def loss(module: nn.Module, x: torch.Tensor) -> torch.Tensor:
        h = module(x)
        for _ in range(40):
            h = h * torch.sigmoid(h)
        return h.square().mean()

    case = checking.Case(model, loss, (torch.randn(32, 64),), budget="100%", fuse=True)
    close(checking.outcome(model, lambda: case.step(*case.inputs), case.state), case.eager)


@pytest.mark.slow
def test_a_wrapped_module_of_compiled_regions() -> None:
    model, _, (x,) = networks()["gpt"]
    eager = copy.deepcopy(model)
    rt.wrap(model, budget="85%", fuse=True, **checking.OPTIONS)
    outputs = []
    for module in (model, eager):
        torch.manual_seed(2)
        outputs.append(module(x))
        outputs[-1].square().mean().backward()
    assert outputs[0].stride() == outputs[1].stride()
    (plan,) = rt.plans(model)
    assert any(op["type"].startswith("fused") for op in plan.graph["ops"])
    for mine, theirs in zip(model.parameters(), eager.parameters(), strict=True):
        torch.testing.assert_close(mine.grad, theirs.grad, rtol=1e-3, atol=1e-5)
