# SPDX-License-Identifier: Apache-2.0
"""A captured graph as ops on storages: views, what works in place, what is updated, and what a schedule takes."""

from __future__ import annotations

import functools
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
from remora.torch.capture.graph import Op, StepGraph
from remora.torch.capture.read import read_step
from remora.torch.capture.simplify import simplify
from remora.torch.carry.program import write_program
from remora.torch.cost.calls import by_flops
from remora.torch.decide.schedules import schedule_for
from remora.torch.options import Sizes
from remora.torch.problem.aten import graph_of, once, replay, runs_of


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


def kinds_of(op: Op) -> list[str]:
    return [str(n.target).split(".")[1] for n in op.nodes]


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
    graph = graph_of(step, by_flops(step), "taking")
    pairs = [(output.name, taken.name) for op in graph.ops for output, taken in op.in_place.items()]
    assert pairs == [("exp", "mm"), ("add", "sum_1")]
    graph.validate()
    # Nothing else lies where a parameter or an argument lies, and no storage of another size is taken.
    assert not captured(lambda x: x.exp() @ x, torch.rand(8, 8)).takes
    part = captured(lambda x: (p := x @ x)[:4].exp().sum() + p.sum(), torch.rand(8, 8))
    assert [op.name for op in part.takes] == ["add"]


def test_an_op_may_work_on_two_results_of_the_op_that_it_joins() -> None:
    """As the gradients of a normalization whose weight is its bias, too."""
    step = captured(lambda x: torch.add(*torch.var_mean(x, 0)), torch.rand(8, 8))
    (op,) = step.ops
    assert [node.name for node in op.nodes] == ["var_mean", "add"] and len(op.outputs) == 2
    graph_of(step, by_flops(step), "joined").validate()


PARTS = 3


def in_parts(w: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """The forward passes of all parts, then their backward passes."""
    total = sum((part @ w).exp().sum() for part in x.chunk(PARTS))
    total.backward()
    return total.detach()


def part_by_part(w: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """The backward pass of each part right after its forward pass."""
    total = torch.zeros(())
    for part in x.chunk(PARTS):
        loss = (part @ w).exp().sum()
        loss.backward()
        total = total + loss.detach()
    return total


def smallest_peak(graph: remora.Graph) -> int:
    """The smallest peak of all orders in which every op runs once, by brute force over the sets of ops that ran."""
    ops = graph.ops
    readers = {t: {op for op in ops if t in op.inputs} for op in ops for t in op.outputs}
    needs = {op: {t.producer for t in op.inputs} | set(op.after) for op in ops}

    def resident(done: frozenset[remora.Op]) -> set[remora.Tensor]:
        return {t for t, by in readers.items() if t.producer in done and (t.keep or not by <= done)}

    def after(done: frozenset[remora.Op], op: remora.Op) -> int:
        there, left = resident(done), resident(done | {op})
        taken = sum(t.size for t in op.in_place.values() if t not in left)
        return sum(t.size for t in there) + sum(t.size for t in op.outputs) - taken + op.workspace

    best = {frozenset[remora.Op](): 0}
    for _ in ops:
        found: dict[frozenset[remora.Op], int] = {}
        for done, peak in best.items():
            for op in ops:
                if op not in done and needs[op] <= done:
                    ran = done | {op}
                    found[ran] = min(found.get(ran, 1 << 60), max(peak, after(done, op)))
        best = found
    return graph.fixed_memory + min(best.values())


def test_parts_of_a_sum_may_run_one_after_the_other() -> None:
    x, w = torch.rand(24, 4), torch.rand(4, 32)
    steps = []
    for run in (in_parts, part_by_part):
        w = torch.rand(4, 32, requires_grad=True)
        steps.append(captured(functools.partial(run, w), x))
    mine, by_hand = ((step, by_flops(step)) for step in steps)
    graph, peak = graph_of(*mine, "parts"), replay(*by_hand, once(by_hand[0]))
    peak += 4  # the gradient of the sum, which all parts share
    assert smallest_peak(graph) <= peak < replay(*mine, once(mine[0]))
    found = remora.solve(graph, smallest_peak(graph), order="free", time_limit=3, threads=1)
    assert len(found.ops) == len(graph.ops)
    assert replay(*mine, runs_of(mine[0], found)) == found.peak <= peak


LIKES: list[Callable[[torch.Tensor], torch.Tensor]] = [
    torch.ones_like,
    torch.zeros_like,
    torch.empty_like,
    torch.rand_like,
    torch.randn_like,
    lambda x: torch.full_like(x, 2.5, dtype=torch.float64),
    lambda x: torch.ones_like(x, memory_format=torch.contiguous_format, dtype=torch.bool),
    lambda x: torch.randint_like(x, 7),
    lambda x: torch.randint_like(x, 3, 7),
    lambda x: x.new_empty(3, 2),
    lambda x: x.new_empty_strided((3, 2), (1, 3)),
    lambda x: x.new_full((3, 2), 1.5),
    lambda x: x.new_ones(()),
    lambda x: x.new_zeros(2, dtype=torch.int64),
    lambda x: torch.empty(torch.ops.aten.sym_size.int(x, 0)).fill_(3),
]


@pytest.mark.parametrize("layout", ["contiguous", "transposed", "channels last", "one row", "expanded", "no elements"])
@pytest.mark.parametrize("number", range(len(LIKES)))
def test_what_reads_a_shape_reads_no_memory(number: int, layout: str) -> None:
    shaped: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
        "contiguous": lambda x: x * 2,
        "transposed": lambda x: (x * 2).transpose(0, 2),
        "channels last": lambda x: (x * 2).to(memory_format=torch.channels_last),
        "one row": lambda x: (x * 2)[:, :1],
        "expanded": lambda x: (x * 2)[:1].expand(5, -1, -1, -1),
        "no elements": lambda x: (x * 2)[:0],
    }
    kept: list[list[Any]] = []

    def run(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        given = shaped[layout](x)
        return LIKES[number](given), given.sum()

    def as_planned(module: fx.GraphModule, given: list[torch.Tensor]) -> list[Any]:
        step = read_step(module)
        program = write_program("step", step, once(step), step.placeholders, step.outputs)
        kept.append(program.run(list(given)))
        return kept[-1]

    x = torch.rand(3, 4, 2, 2)
    torch.manual_seed(1)
    expected, _ = run(x)
    torch.manual_seed(1)
    step = captured(run, x, simple=False, run=as_planned)
    (op,) = [op for op in step.ops if not {"mul", "sum", "_to_copy", "clone", "fill"} & set(kinds_of(op))]
    if not op.random or step.value[op.nodes[0]].is_contiguous():  # else the order of the numbers may be another one
        assert op.inputs == []
    result = kept[0][0]
    assert (result.dtype, result.shape, result.stride()) == (expected.dtype, expected.shape, expected.stride())
    assert "empty" in str(op.nodes[0].target) or torch.equal(result, expected)


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
