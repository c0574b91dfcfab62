# SPDX-License-Identifier: Apache-2.0
"""Whether a planned step does what the eager one does, in every bit, and takes the memory that was predicted.

On the CPU, or where REMORA_TEST_DEVICE says, such as cuda.
"""

from __future__ import annotations

import copy
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.utils._pytree as pytree
from torch.profiler import ProfilerActivity, profile

import remora.torch as rt

Loss = Callable[..., torch.Tensor]
OPTIONS: dict[str, Any] = {"time_limit": 3.0, "threads": 1}
DEVICE = torch.device(os.environ.get("REMORA_TEST_DEVICE", "cpu"))


@dataclass
class Outcome:
    """What a step left behind."""

    results: list[torch.Tensor]
    gradients: dict[str, torch.Tensor | None]
    buffers: dict[str, torch.Tensor]
    generator: torch.Tensor
    peak: int


def peak_of(run: Callable[[], Any]) -> tuple[int, Any]:
    """The most that the device's allocator had given out at once since the call began, in bytes as requested, and the
    call's result."""
    if DEVICE.type == "cuda":
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_stats()["requested_bytes.all.current"]
        result = run()
        torch.cuda.synchronize()
        return torch.cuda.memory_stats()["requested_bytes.all.peak"] - before, result
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
    generator = random_state()
    model.zero_grad()
    results = [leaf.detach().clone() for leaf in pytree.tree_leaves(result) if isinstance(leaf, torch.Tensor)]
    return Outcome(results, gradients, buffers, generator, peak)


def use_device() -> None:
    """From now on tensors that are made lie on the device, unless it is said otherwise.

    `torch.set_default_device` is a mode of functions, in which Dynamo does not trace `backward()`.
    """
    if DEVICE.type == "cuda":
        torch.set_default_tensor_type("torch.cuda.FloatTensor")


def generator(seed: int) -> torch.Generator:
    """A generator of the device."""
    return torch.Generator(DEVICE).manual_seed(seed)


def random_state() -> torch.Tensor:
    """The state of the generator from which the device's ops draw."""
    return torch.cuda.get_rng_state() if DEVICE.type == "cuda" else torch.get_rng_state()


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
        self.model, self.inputs = model.to(DEVICE), on_device(inputs)
        self.state = copy.deepcopy(model.state_dict())
        eager_model = copy.deepcopy(model)
        self.step = rt.train_step(self.body(model, loss), **{**OPTIONS, **options})
        eager = self.body(eager_model, loss)
        # Some kernels prepare themselves once.
        outcome(eager_model, lambda: eager(*self.inputs), self.state)
        self.eager = outcome(eager_model, lambda: eager(*self.inputs), self.state)
        self.unsteady: set[str] = set()
        self.others: list[Outcome] = []
        if DEVICE.type == "cuda":
            again = outcome(eager_model, lambda: eager(*self.inputs), self.state)
            self.unsteady = {text.partition(":")[0] for text in differences(again, self.eager)}
            self.others.append(self._traced(eager_model, loss))

    def _traced(self, model: torch.nn.Module, loss: Loss) -> Outcome:
        """The same kernels, of the program that Dynamo sees: traced, transformers makes masks for other kernels."""
        called = torch.compile(lambda *arguments: loss(model, *arguments), backend="eager", dynamic=False)
        run = self.body(model, lambda _, *arguments: called(*arguments))
        outcome(model, lambda: run(*self.inputs), self.state)
        return outcome(model, lambda: run(*self.inputs), self.state)

    def differences(self, mine: Outcome) -> list[str]:
        """What is not as in eager, which on a GPU need not be as in its own second run, or as when it is traced."""
        found = [
            [text for text in differences(mine, eager) if text.partition(":")[0] not in self.unsteady]
            for eager in (self.eager, *self.others)
        ]
        return min(found, key=len)

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
            found = self.differences(mine)
            assert not found, found
        assert len(self.step.plans) == 1, "the second call was captured anew"
        plan: rt.Plan = self.step.plan
        assert plan.predicted_peak <= plan.budget
        predicted = plan.predicted_peak - plan.fixed_memory
        check_peak(mine.peak, predicted, plan)
        if not any("dropout" in op["type"] or "bernoulli" in op["type"] for op in plan.graph["ops"]):
            assert plan.predicted_peak == plan.schedule["peak_memory"], "replayed as the engine does"
        return plan

    def check_packed(self) -> rt.Plan:
        """The same of a step with an arena: bits, and where memory came from."""
        for _ in range(2):
            mine = outcome(self.model, lambda: self.step(*self.inputs), self.state)
            found = self.differences(mine)
            assert not found, found
        plan: rt.Plan = self.step.plan
        check_arena(plan)
        assert plan.memory is not None and plan.memory.on_heap >= plan.outside
        # Live tensors, as the profiler counts them, are what the schedule says, small results and states beside.
        assert mine.peak <= plan.predicted_peak - plan.fixed_memory + plan.outside
        return plan


def check_peak(measured: int, predicted: int, plan: rt.Plan) -> None:
    """Equal to the byte on the CPU. A GPU's plan counts in multiples of 512 bytes, and what is left must be 1 %."""
    told = f"measured {measured:,}, predicted {predicted:,}: {plan}"
    if DEVICE.type == "cpu":
        assert measured == predicted, told
        return
    assert 0.99 * measured <= predicted <= 1.01 * measured + rounding_of(plan), told


def rounding_of(plan: rt.Plan) -> int:
    """The most bytes by which a plan's tensors count larger than they are: on a GPU in multiples of 512 bytes."""
    return 512 * len(plan.graph["tensors"]) if DEVICE.type == "cuda" else 0


def on_device(value: Any) -> Any:
    """A value of any nesting, its tensors on the device."""
    return pytree.tree_map(lambda leaf: leaf.to(DEVICE) if isinstance(leaf, torch.Tensor) else leaf, value)


def check_step(
    model: torch.nn.Module, loss: Loss, inputs: tuple[Any, ...], budget: int | str, **options: Any
) -> rt.Plan:
    """Checks `train_step` against eager under one budget."""
    return Case(model, loss, inputs, budget=budget, **options).check()


def check_parts(
    model: torch.nn.Module, inputs: tuple[Any, ...], budget: int | str, how: str, **options: Any
) -> rt.Plan:
    """Checks `wrap` or the backend of `torch.compile` against eager; the loss is the sum of the first output."""
    model, inputs = model.to(DEVICE), on_device(inputs)
    eager_model = copy.deepcopy(model)
    state = copy.deepcopy(model.state_dict())
    chosen = {**OPTIONS, **options, "budget": budget}
    backend = rt.Backend(rt.Options(**chosen))
    called = (
        rt.wrap(model, **chosen)
        if how == "wrap"
        else torch.compile(model, backend=backend, dynamic=False, fullgraph=True)
    )

    # A GPU's products of an expanded gradient differ in bits from those of one that lies dense, as ours must: there the
    # loss has a dense one.
    on_gpu = DEVICE.type == "cuda"

    def run(module: Any) -> torch.Tensor:
        # Nothing else holds the output, so its memory is the program's.
        value = (first_tensor(module(*inputs)) * 2.0).sum() if on_gpu else first_tensor(module(*inputs)).sum()
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
    if on_gpu:
        with torch.no_grad():
            mine += 2 * first_tensor(eager_model(*inputs)).nbytes
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
