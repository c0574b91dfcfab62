# SPDX-License-Identifier: Apache-2.0
"""Whether a planned step does what the eager one does, in every bit, and takes the memory that was predicted."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.utils._pytree as pytree
from torch.profiler import ProfilerActivity, profile

import remora.torch as rt

Loss = Callable[..., torch.Tensor]
OPTIONS: dict[str, Any] = {"time_limit": 3.0, "threads": 1}


@dataclass
class Outcome:
    """What a step left behind."""

    results: list[torch.Tensor]
    gradients: dict[str, torch.Tensor | None]
    buffers: dict[str, torch.Tensor]
    generator: torch.Tensor
    peak: int


def peak_of(run: Callable[[], Any]) -> tuple[int, Any]:
    """The most that the allocator of the CPU had given out at once since the call began, in bytes, and the call's
    result."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as recorded:
        result = run()
    events = recorded.profiler.kineto_results.events()
    changes = sorted(
        ((e.start_ns(), e.nbytes()) for e in events if e.name() == "[memory]"), key=lambda change: change[0]
    )
    held = peak = 0
    for _, size in changes:
        held += size
        peak = max(peak, held)
    return peak, result


def outcome(model: torch.nn.Module, run: Callable[[], Any], state: dict[str, Any], seed: int = 0) -> Outcome:
    """Runs a step from a given state and says what it left behind; the model has no gradients before and after."""
    model.load_state_dict(state)
    model.zero_grad()
    torch.manual_seed(seed)
    peak, result = peak_of(run)
    gradients = {name: p.grad for name, p in model.named_parameters()}
    buffers = {name: b.clone() for name, b in model.named_buffers()}
    generator = torch.get_rng_state()
    model.zero_grad()
    results = [leaf.detach().clone() for leaf in pytree.tree_leaves(result) if isinstance(leaf, torch.Tensor)]
    return Outcome(results, gradients, buffers, generator, peak)


def differences(mine: Outcome, eager: Outcome) -> list[str]:
    """What is not equal in every bit."""
    found = [f"result {i}" for i, (a, b) in enumerate(zip(mine.results, eager.results, strict=False)) if not same(a, b)]
    if len(mine.results) != len(eager.results):
        found.append("number of results")
    for name, expected in eager.gradients.items():
        given = mine.gradients[name]
        if (given is None) != (expected is None):
            found.append(f"gradient of {name}: there or not")
        elif given is not None and expected is not None and not same(given, expected):
            found.append(f"gradient of {name}: up to {(given - expected).abs().max().item():.3g}")
    found += [f"buffer {name}" for name, b in eager.buffers.items() if not same(mine.buffers[name], b)]
    if not torch.equal(mine.generator, eager.generator):
        found.append("state of the generator")
    return found


def same(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Equal in every bit; not-a-number is equal to itself."""
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    a, b = a.contiguous(), b.contiguous()
    return torch.equal(a.reshape(-1).view(torch.uint8), b.reshape(-1).view(torch.uint8))


class Case:
    """A training step by `train_step` beside the eager one, both from the same state."""

    def __init__(self, model: torch.nn.Module, loss: Loss, inputs: tuple[Any, ...], **options: Any) -> None:
        self.model, self.inputs = model, inputs
        self.state = copy.deepcopy(model.state_dict())
        eager_model = copy.deepcopy(model)
        self.step = rt.train_step(self.body(model, loss), **{**OPTIONS, **options})
        eager = self.body(eager_model, loss)
        outcome(eager_model, lambda: eager(*inputs), self.state)  # warm: some kernels prepare themselves once
        self.eager = outcome(eager_model, lambda: eager(*inputs), self.state)

    @staticmethod
    def body(module: torch.nn.Module, loss: Loss) -> Callable[..., Any]:
        def run(*arguments: Any) -> torch.Tensor:
            value = loss(module, *arguments)
            value.backward()
            return value.detach()

        return run

    def check(self) -> rt.Plan:
        """Runs the step twice and compares results, gradients, buffers, generator and peak."""
        for _ in range(2):
            mine = outcome(self.model, lambda: self.step(*self.inputs), self.state)
            found = differences(mine, self.eager)
            assert not found, found
        assert len(self.step.plans) == 1, "the second call was captured anew"
        plan: rt.Plan = self.step.plan
        assert plan.predicted_peak <= plan.budget
        predicted = plan.predicted_peak - plan.fixed_memory
        assert mine.peak == predicted, f"measured {mine.peak:,}, predicted {predicted:,}: {plan}"
        if not any("dropout" in op["type"] or "bernoulli" in op["type"] for op in plan.graph["ops"]):
            assert plan.predicted_peak == plan.schedule["peak_memory"], "replayed as the engine does"
        return plan

    def check_packed(self) -> rt.Plan:
        """The same of a step with an arena: bits, and where memory came from."""
        for _ in range(2):
            mine = outcome(self.model, lambda: self.step(*self.inputs), self.state)
            found = differences(mine, self.eager)
            assert not found, found
        plan: rt.Plan = self.step.plan
        check_arena(plan)
        assert plan.memory is not None and plan.memory.on_heap >= plan.outside
        # Live tensors, as the profiler counts them, are what the schedule says, small results and states beside.
        assert mine.peak <= plan.predicted_peak - plan.fixed_memory + plan.outside
        return plan


def check_step(
    model: torch.nn.Module, loss: Loss, inputs: tuple[Any, ...], budget: int | str, **options: Any
) -> rt.Plan:
    """Checks `train_step` against eager under one budget."""
    return Case(model, loss, inputs, budget=budget, **options).check()


def check_parts(
    model: torch.nn.Module, inputs: tuple[Any, ...], budget: int | str, how: str, **options: Any
) -> rt.Plan:
    """Checks `wrap` or the backend of `torch.compile` against eager; the loss is the sum of the first output."""
    eager_model = copy.deepcopy(model)
    state = copy.deepcopy(model.state_dict())
    chosen = {**OPTIONS, **options, "budget": budget}
    backend = rt.Backend(rt.Options(**chosen))
    called = (
        rt.wrap(model, **chosen)
        if how == "wrap"
        else torch.compile(model, backend=backend, dynamic=False, fullgraph=True)
    )

    def run(module: Any) -> torch.Tensor:
        value = first_tensor(module(*inputs)).sum()  # nothing else holds the output, so its memory is the program's
        value.backward()
        return value.detach()

    eager = outcome(eager_model, lambda: run(eager_model), state)
    first = outcome(model, lambda: run(called), state)
    second = outcome(model, lambda: run(called), state)
    found = differences(first, eager)
    assert not found, found
    found = differences(second, eager)
    assert not found, found
    plans = rt.plans(model) if how == "wrap" else backend.plans
    assert len(plans) == 1
    plan = plans[0]
    assert plan.predicted_peak <= plan.budget
    mine = 64  # the loss, its gradient, and what autograd passes on
    assert second.peak <= plan.predicted_peak - plan.fixed_memory + plan.outside + mine, (
        f"measured {second.peak:,}: {plan}"
    )
    return plan


def check_arena(plan: rt.Plan) -> None:
    """Whether the latest run of a plan had its memory from one block of the predicted size."""
    memory = plan.memory
    assert memory is not None
    assert plan.arena == memory.size > 0, "one block of the predicted size"
    assert plan.predicted_peak <= plan.budget
    states = sum("dropout" in op["type"] for op in plan.graph["ops"]) * 3 * torch.get_rng_state().numel()
    assert memory.on_heap <= 2 * plan.outside + states, "all but small results lies in the block, made twice at most"


def first_tensor(value: Any) -> torch.Tensor:
    """The first tensor of a value of any nesting."""
    found: torch.Tensor = next(leaf for leaf in pytree.tree_leaves(value) if isinstance(leaf, torch.Tensor))
    return found
