# SPDX-License-Identifier: Apache-2.0
"""A captured graph as ops on storages: views, what works in place, what is updated, and what a schedule takes."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch._dynamo
import torch.nn.functional as F  # noqa: N812
from torch import fx
from torch._dynamo.backends.common import aot_autograd

import remora
import remora.torch as rt
from remora.torch.capture.graph import StepGraph
from remora.torch.capture.read import read_step
from remora.torch.capture.simplify import simplify
from remora.torch.cost.calls import by_flops
from remora.torch.decide.schedules import schedule_for
from remora.torch.options import Sizes
from remora.torch.problem.aten import graph_of, replay, runs_of


def as_captured(module: fx.GraphModule, given: list[torch.Tensor]) -> list[Any]:
    return list(module(*given))


def captured(
    function: Callable[..., Any],
    *inputs: torch.Tensor,
    simple: bool = True,
    run: Callable[[fx.GraphModule, list[torch.Tensor]], list[Any]] = as_captured,
) -> StepGraph:
    """The step that a function's capture gives; `run` runs the graph with its arguments."""
    found: list[StepGraph] = []

    def take(module: fx.GraphModule, _: Any) -> Any:
        found.append(read_step(module))
        if simple:
            simplify(found[0])
        boxed: Any = lambda arguments: run(module, arguments)  # noqa: E731
        boxed._boxed_call = True
        return boxed

    backend = aot_autograd(fw_compiler=take, keep_inference_input_mutations=True)
    with torch._dynamo.config.patch(trace_autograd_ops=True):
        torch.compile(function, backend=backend, fullgraph=True, dynamic=False)(*inputs)
    return found[0]


def kinds(step: StepGraph) -> list[str]:
    return [" ".join(str(step.call_of(n)[0]).split(".")[1] for n in op.nodes) for op in step.ops]


def test_views_lie_in_the_storage_beneath() -> None:
    step = captured(lambda x: (x * 2).view(4, 2).t()[1:].exp(), torch.rand(8))
    assert kinds(step) == ["mul", "exp"]
    assert [step.storages[s].size for op in step.ops for s in op.outputs] == [32, 16]


def test_an_op_takes_the_storage_that_nobody_else_reads() -> None:
    assert kinds(captured(lambda x: torch.relu(x @ x).exp(), torch.rand(4, 4))) == ["mm relu_ exp_"]
    assert kinds(captured(lambda x: torch.relu(x @ x).exp(), torch.rand(4, 4), simple=False)) == ["mm", "relu", "exp"]
    # The sum may take either storage; the product is read twice, and the argument is not ours.
    assert kinds(captured(lambda x: x + x @ x, torch.rand(4, 4))) == ["mm add_"]
    assert kinds(captured(lambda x: torch.relu(p := x @ x) + p.exp(), torch.rand(4, 4)))[0] == "mm"
    assert kinds(captured(lambda x: torch.relu(x), torch.rand(4, 4))) == ["relu"]


def test_an_op_may_take_what_is_released_behind_it() -> None:
    def run(x: torch.Tensor) -> torch.Tensor:
        product = x @ x
        return (product.exp() @ x).sum() + product.sum()

    step = captured(run, torch.rand(8, 8))
    (taker,) = step.takes
    assert taker.nodes[0].target is torch.ops.aten.exp.default
    graph = graph_of(step, by_flops(step), "taking")
    (pairs,) = [op.in_place for op in graph.ops if op.in_place]
    assert [(output.name, taken.name) for output, taken in pairs.items()] == [("exp", "mm")]
    graph.validate()
    # Nothing else lies where a parameter or an argument lies, and no storage of another size is taken.
    assert not captured(lambda x: x.exp() @ x, torch.rand(8, 8)).takes
    assert not captured(lambda x: (p := x @ x)[:4].exp().sum() + p.sum(), torch.rand(8, 8)).takes


def test_no_storage_of_another_layout_or_size_is_taken() -> None:
    assert kinds(captured(lambda x: (x @ x)[:2] + 1, torch.rand(4, 4))) == ["mm", "add"]
    assert kinds(captured(lambda x: (x @ x) > 0.5, torch.rand(4, 4))) == ["mm", "gt"]


def test_buffers_are_updated_behind_the_last_op() -> None:
    memory = torch.zeros(4)

    def run(x: torch.Tensor) -> torch.Tensor:
        y = x - memory
        memory.mul_(0.9).add_(x)
        return y * 2

    step = captured(run, torch.rand(4))
    assert len(step.updates) == 1
    place, source = step.updates[0]
    assert place in step.placeholders
    assert all(step.storages[s].keep for s in step.storages_of(source))


def test_gradients_that_are_there_are_added_to_in_place() -> None:
    weight = torch.rand(4, 4, requires_grad=True)
    weight.grad = torch.ones(4, 4)
    step = captured(lambda x: F.relu(x @ weight).sum().backward(), torch.rand(4, 4))
    assert step.updates == []
    (op,) = [op for op in step.ops if op.nodes[0] in step.in_place]
    assert not op.recompute
    assert [step.storages[s].size for s in op.outputs] == [0]


def test_what_is_known_only_when_it_runs_is_refused() -> None:
    step = rt.train_step(lambda x: torch.zeros(int(x.sum().item())).sum(), budget="100%")
    with pytest.raises(rt.CaptureError, match=r"known only|not a number"):
        step(torch.full((3,), 2.0))


def test_ops_tell_their_layer_and_whose_gradient_they_compute() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Tanh(), torch.nn.Linear(4, 4))
    step = captured(lambda x: model(x).exp().sum().backward(), torch.rand(8, 4))
    graph = graph_of(step, by_flops(step), "layers")
    names = [op.name for op in graph.ops]
    assert [name.partition("/")[0] for name in names[:2]] == ["0", "2"], "the second works in the first one's storage"
    of = {op.type: op.backward_of for op in graph.ops if op.phase == "backward"}
    assert of["tanh_backward"] is not None and of["tanh_backward"].name.startswith("0/addmm")
    weights = [op.backward_of for op in graph.ops if op.type == "mm" and op.name.startswith("2/")]
    assert {op is not None and op.name.partition("/")[0] for op in weights} == {"2"}
    graph.validate()


def test_replay_takes_what_the_engine_says() -> None:
    def run(x: torch.Tensor) -> torch.Tensor:
        for _ in range(4):
            y = x @ x
            x = y.tanh() + x.exp() * y.sigmoid()
        return x.sum()

    step = captured(run, torch.rand(8, 8))
    costs = by_flops(step)
    graph = graph_of(step, costs, "chain")
    generator = random.Random(5)
    for _ in range(20):
        budget = generator.uniform(60, 100)
        try:
            answer = remora.solve(graph, f"{budget:.1f}%", time_limit=1, threads=1)
        except remora.NoSchedule:
            continue
        runs = runs_of(step, answer)
        assert replay(step, costs, runs) == answer.peak


def test_an_op_runs_as_often_as_the_budget_needs() -> None:
    # What `a` makes is read after each of two diamonds, beside which there is no room for it.
    g = remora.Graph("diamonds")
    a = g.op("a", duration=1, outputs={"a": 1})
    c = g.op("c", duration=1, inputs=[a], outputs={"c": 1})
    for k in range(2):
        p = g.op(f"p{k}", duration=1, inputs=[c], outputs={f"p{k}": 1})
        q = g.op(f"q{k}", duration=1, inputs=[c, p], outputs={f"q{k}": 1})
        c = g.op(f"c{k}", duration=1, inputs=[q, a], outputs={f"c{k}": 1}, keep=k == 1)
    found = schedule_for(g, 3, rt.Options(time_limit=3, cache=False))
    assert found.status == "optimal"
    assert [op.name for op in found.ops].count("a") == 3
    assert found.solver["limits"]["max_computes"] == 3
    with pytest.raises(rt.BudgetError) as caught:
        schedule_for(g, 2, rt.Options(time_limit=3, cache=False))
    assert caught.value.proved
    assert caught.value.least == 3


@pytest.mark.parametrize(
    ("budget", "expected"),
    [("50%", 60), ("1KiB", 1024), ("2 KB", 2000), (77, 77), ("123", 123), ("12g", 12 << 30), ("80%peak", 80)],
)
def test_budgets(budget: int | str, expected: int) -> None:
    assert rt.Options(budget=budget).in_bytes(Sizes(20, 100, "a step")) == expected


@pytest.mark.parametrize("budget", ["much", "-3", "12 bananas", "60 percent", "0.6"])
def test_budgets_that_mean_nothing(budget: str) -> None:
    with pytest.raises(ValueError, match="budget"):
        rt.Options(budget=budget).in_bytes(Sizes(20, 100, "a step"))
