# SPDX-License-Identifier: Apache-2.0
"""`rt.check` finds what changes a training without a word, names its cause, and leaves everything as it was."""

from __future__ import annotations

import copy
import itertools
import random
from collections.abc import Callable
from typing import Any

import checking
import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn
from torch.utils.checkpoint import checkpoint, checkpoint_sequential

import remora.torch as rt

X = torch.randn(32, 16, generator=checking.generator(1))
Y = torch.randint(0, 16, (32,), generator=checking.generator(2))
StepGraph = Callable[..., torch.Tensor]


class Blocks(nn.Module):
    """Some blocks, each behind a checkpoint with these options."""

    def __init__(self, *blocks: nn.Module, **options: Any) -> None:
        super().__init__()
        self.inside = nn.Linear(16, 16)
        self.blocks = nn.ModuleList(blocks)
        self.options = {"use_reentrant": False, **options}

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.inside(x)
        for block in self.blocks:
            x = checkpoint(block, x, **self.options)
        return x


def block(*more: nn.Module) -> nn.Sequential:
    return nn.Sequential(nn.Linear(16, 16), nn.GELU(), *more)


def step_of(model: nn.Module) -> StepGraph:
    def step(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        return loss.detach()

    return step


def kinds(found: rt.Check) -> set[rt.Kind]:
    return {difference.kind for difference in found.differences}


# -- Right steps -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("reentrant", [False, True])
def test_a_right_checkpoint_is_equal(reentrant: bool) -> None:
    model = Blocks(block(nn.Dropout(0.3)), block(nn.Dropout(0.3)), use_reentrant=reentrant)
    found = rt.check(step_of(model), X, Y)
    assert found.equal, str(found)
    assert not found.wrong
    assert found.first_op is None
    assert found.compared[rt.Kind.GRADIENT] == 6
    assert "The step is right" in str(found)
    assert "1 result, " in str(found)


def test_a_model_a_loss_and_a_batch_are_a_step() -> None:
    model = Blocks(block(nn.Dropout(0.3)))
    assert rt.check(model, F.cross_entropy, (X, Y)).equal
    assert rt.check(model, lambda out: out.square().mean(), X).equal
    assert rt.check(model, lambda out: out.square().mean(), {"x": X}).equal
    model.options["preserve_rng_state"] = False
    found = rt.check(model, F.cross_entropy, (X, Y))
    assert found.wrong
    assert found.first_op is not None
    assert found.first_op.module == "blocks.0.2"


def test_a_step_with_its_optimizer_is_equal() -> None:
    model = Blocks(block(nn.Dropout(0.3)), block())
    optimizer = torch.optim.AdamW(model.parameters())

    def step(x: torch.Tensor) -> torch.Tensor:
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    before = copy.deepcopy(model.state_dict())
    found = rt.check(step, X)
    assert found.equal, str(found)
    assert not optimizer.state
    assert all(checking.same(value, before[name]) for name, value in model.state_dict().items())


def test_planned_and_compiled_steps_are_equal() -> None:
    model = nn.Sequential(block(nn.Dropout(0.3)), block(nn.BatchNorm1d(16)))
    found = rt.check(rt.train_step(step_of(model), budget="100%", **checking.OPTIONS), X, Y)
    assert found.equal, str(found)
    compiled = torch.compile(model, backend="aot_eager")
    assert rt.check(step_of(compiled), X, Y).equal  # type: ignore[arg-type]
    rt.wrap(model, budget="100%", **checking.OPTIONS)
    assert rt.check(step_of(model), X, Y).equal
    assert len(rt.plans(model)) == 1


def test_sequential_checkpoints_are_taken_out() -> None:
    model = nn.Sequential(*[block(nn.Dropout(0.3)) for _ in range(4)])

    def run(preserve: bool) -> rt.Check:
        def step(x: torch.Tensor) -> None:
            out = checkpoint_sequential(model, 2, x, use_reentrant=False, preserve_rng_state=preserve)
            out.square().mean().backward()

        return rt.check(step, X)

    assert run(True).equal
    assert run(False).wrong


# -- Faults ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("reentrant", [False, True])
def test_a_recompute_with_another_generator_is_named(reentrant: bool) -> None:
    model = Blocks(block(nn.Dropout(0.3)), block(nn.Dropout(0.3)), use_reentrant=reentrant, preserve_rng_state=False)
    found = rt.check(step_of(model), X, Y)
    assert found.wrong, str(found)
    assert kinds(found) == {rt.Kind.GRADIENT, rt.Kind.GENERATOR}
    assert all(difference.agrees for difference in found.differences)
    assert all(difference.size > 0 for difference in found.differences)
    first = found.first_op
    assert first is not None
    assert (first.phase, first.module) == (rt.Phase.AGAIN, "model.blocks.1.2"), (
        "the backward begins with the last block"
    )
    assert first.op == ("aten.native_dropout" if checking.DEVICE.type == "cuda" else "aten.bernoulli_")
    assert "preserve_rng_state=True" in str(found)
    assert str(found).startswith("The step is wrong")
    assert len(str(found).splitlines()) < 12


class Average(nn.Module):
    """Adds a running average that it changes before."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(16))
        self.calls = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            self.mean.mul_(0.5).add_(x.mean(0), alpha=0.5)
        self.calls += 1
        return (x + self.mean).tanh()


@pytest.mark.parametrize("reentrant", [False, True])
def test_a_buffer_that_is_changed_twice_is_named(reentrant: bool) -> None:
    model = Blocks(block(Average(), nn.Linear(16, 16)), use_reentrant=reentrant)
    found = rt.check(step_of(model), X, Y)
    assert found.wrong
    assert kinds(found) == {rt.Kind.GRADIENT, rt.Kind.BUFFER, rt.Kind.STATE}
    texts = [str(difference) for difference in found.differences]
    assert "state model.blocks.0.2.calls: 2, not 1" in texts
    assert any(text.startswith("buffer of model.blocks.0.2.mean: by up to ") for text in texts)
    first = found.first_op
    assert first is not None
    assert (first.op, first.module, first.phase) == ("aten.mul_", "model.blocks.0.2", rt.Phase.AGAIN)
    assert first.where.startswith("check_test.py:")
    assert "it changes model.blocks.0.2.mean in place, a second time" in first.cause


def test_batch_normalization_in_a_checkpoint_is_named() -> None:
    model = Blocks(block(nn.BatchNorm1d(16)))
    found = rt.check(step_of(model), X, Y)
    assert found.wrong
    assert kinds(found) == {rt.Kind.BUFFER}, "gradients are right"
    assert found.first_op is not None
    assert found.first_op.module == "model.blocks.0.2"
    assert "changes model.blocks.0.2." in found.first_op.cause


def test_gradients_that_a_reentrant_checkpoint_cuts_off_are_named() -> None:
    class Front(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = block(), nn.Linear(16, 16)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.second(checkpoint(self.first, x, use_reentrant=True))

    model = Front()
    with pytest.warns(UserWarning, match="None of the inputs have requires_grad"):
        found = rt.check(step_of(model), X, Y)
    assert found.wrong
    assert [(d.kind, d.name) for d in found.differences] == [
        (rt.Kind.GRADIENT, "model.first.0.weight"),
        (rt.Kind.GRADIENT, "model.first.0.bias"),
    ]
    assert "None, not a tensor [16, 16] of float32" in str(found.differences[0])
    assert "Use use_reentrant=False" in str(found)
    assert "of model.first is given no tensor that requires a gradient" in str(found)
    assert found.first_op is not None
    assert found.first_op.module == "model.second", "the gradient of its input"
    assert "did not run at all" in found.first_op.text


class ByHand(torch.autograd.Function):
    """A checkpoint as people write it: without autocast and generator."""

    @staticmethod
    def forward(ctx: Any, function: Callable[..., torch.Tensor], x: torch.Tensor) -> torch.Tensor:
        ctx.function = function
        ctx.save_for_backward(x)
        with torch.no_grad():
            return function(x)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[None, torch.Tensor | None]:
        x = ctx.saved_tensors[0].detach().requires_grad_()
        with torch.enable_grad():
            y = ctx.function(x)
        torch.autograd.backward(y, gradient.to(y.dtype))
        return None, x.grad


def by_hand(*more: nn.Module) -> tuple[StepGraph, nn.Module]:
    first, second = nn.Linear(16, 16), block(*more)

    def step(x: torch.Tensor, low: bool = False) -> torch.Tensor:
        with torch.autocast(checking.DEVICE.type, torch.bfloat16, enabled=low):
            loss = ByHand.apply(second, first(x).float()).float().square().mean()
        loss.backward()
        return loss.detach()

    return step, second


def test_autocast_that_is_lost_in_a_recompute_is_named() -> None:
    step, _ = by_hand()
    assert rt.check(step, X).equal
    found = rt.check(step, X, low=True)
    assert found.wrong
    assert kinds(found) == {rt.Kind.RECOMPUTE}, "a hand-written checkpoint cannot be taken out"
    assert found.first_op is not None
    assert (found.first_op.op, found.first_op.module) == ("aten.addmm", "second.0")
    assert "gave float32 when it was recomputed for the backward, bfloat16 before" in str(found)
    assert "torch.autocast is not as it was" in str(found)


def test_a_hand_written_checkpoint_without_generator_is_named() -> None:
    step, _ = by_hand(nn.Dropout(0.3))
    found = rt.check(step, X)
    assert found.wrong
    assert found.first_op is not None
    assert found.first_op.module == "second.2"
    assert "draws random numbers" in str(found)


def test_a_checkpoint_error_is_explained() -> None:
    class Other(nn.Module):
        calls = 0

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.calls += 1
            return x.sin().cos() if self.calls % 2 else x

    found = rt.check(step_of(Blocks(block(Other(), nn.Linear(16, 16)))), X, Y)
    assert found.wrong
    assert "A different number of tensors was saved" in str(found)
    assert found.first_op is not None
    assert (found.first_op.module, found.first_op.phase) == ("model.blocks.0.3", rt.Phase.AGAIN)


def test_a_recompute_of_what_differs_from_run_to_run_is_not_wrong() -> None:
    class Unsteady(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + 1e-6 * (next(NOISE) % 7)

    step, _ = by_hand(Unsteady())
    found = rt.check(step, X)
    assert rt.Kind.RECOMPUTE in kinds(found)
    assert not found.wrong, str(found)


NOISE = itertools.count(1)


def test_what_differs_from_run_to_run_is_not_wrong() -> None:
    class Unsteady(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + 1e-6 * (next(NOISE) % 7)

    model = nn.Sequential(nn.Linear(16, 16), Unsteady(), nn.Linear(16, 16))
    found = rt.check(step_of(model), X, Y)
    assert not found.equal
    assert not found.wrong, str(found)
    assert all(not difference.agrees for difference in found.differences)
    assert str(found).startswith("Not deterministic")
    assert found.first_op is not None
    assert (found.first_op.op, found.first_op.module) == ("aten.add", "model.1")


def test_a_fault_beside_small_noise_is_still_wrong() -> None:
    model = Blocks(block(nn.Dropout(0.3)), preserve_rng_state=False)

    def step(x: torch.Tensor) -> None:
        (model(x) + 1e-6 * (next(NOISE) % 7)).square().mean().backward()

    assert rt.check(step, X).wrong


def test_hooks_that_a_compiled_step_leaves_out_are_named() -> None:
    model = block(nn.Linear(16, 16))
    model[0].weight.register_hook(lambda g: g * 0.5)
    compiled = torch.compile(step_of(model), backend="aot_eager", fullgraph=True)

    def step(x: torch.Tensor, y: torch.Tensor) -> Any:
        with torch._dynamo.config.patch(trace_autograd_ops=True):
            return compiled(x, y)

    found = rt.check(step, X, Y)
    assert found.wrong
    assert [difference.name for difference in found.differences] == ["model.0.weight"]
    assert "leaves out gradient hooks" in str(found)
    assert "are equal" not in str(found)
    assert found.first_op is not None
    assert (found.first_op.op, found.first_op.module) == ("", "model.0"), "compiled ops are others than eager's"
    assert len(model[0].weight._backward_hooks) == 1, "the hook is there again"


def test_wrong_compiled_code_is_found() -> None:
    model = block(nn.Linear(16, 16))

    def twice(graph: torch.fx.GraphModule, _: Any) -> Any:
        return lambda *arguments: tuple(2 * out for out in graph(*arguments))

    found = rt.check(step_of(torch.compile(model, backend=twice)), X, Y)  # type: ignore[arg-type]
    assert found.wrong
    assert found.first_op is not None
    assert found.first_op.phase is rt.Phase.FORWARD


# -- The state ---------------------------------------------------------------------------------------------------------


def test_all_is_as_it_was() -> None:
    model = Blocks(block(Average(), nn.Dropout(0.3), nn.BatchNorm1d(16)), preserve_rng_state=False)
    log: list[float] = []
    own = checking.generator(7)
    inputs = X.clone()
    calls = 0

    def step(x: torch.Tensor) -> torch.Tensor:
        nonlocal calls
        calls += 1
        noise = random.random() + float(np.random.rand()) + torch.rand((), generator=own)
        loss = (model(x) * noise).square().mean()
        loss.backward()
        x.add_(1)
        log.append(loss.item())
        model.extra = calls
        with torch.no_grad():
            model.inside.weight.sub_(model.inside.weight.grad)
        return loss.detach()

    step(inputs)
    model.inside.bias.grad = None
    gradients = {name: p.grad for name, p in model.named_parameters()}
    before = copy.deepcopy((model.state_dict(), gradients, log, inputs))
    drawn = checking.random_state(), random.getstate(), np.random.get_state()[1].copy(), own.get_state()
    assert rt.check(step, inputs).wrong
    after = model.state_dict(), {name: p.grad for name, p in model.named_parameters()}, log, inputs
    for one, other in zip(torch.utils._pytree.tree_leaves(before), torch.utils._pytree.tree_leaves(after), strict=True):
        assert checking.same(one, other) if isinstance(one, torch.Tensor) else one == other
    assert all(model.get_parameter(name).grad is gradient for name, gradient in gradients.items())
    assert calls == 1
    assert model.blocks[0][2].calls == 2
    assert model.extra == 1
    assert torch.equal(drawn[0], checking.random_state())
    assert drawn[1] == random.getstate()
    assert (drawn[2] == np.random.get_state()[1]).all()
    assert torch.equal(drawn[3], own.get_state())
    again = checkpoint(model.inside, X.clone().requires_grad_(), use_reentrant=True)
    assert again.grad_fn.name() == "CheckpointFunctionBackward", "checkpoints are themselves again"


def test_all_is_as_it_was_after_an_error() -> None:
    model = block()

    def step(x: torch.Tensor) -> None:
        model(x).sum().backward()
        raise KeyError("the step's own")

    with pytest.raises(KeyError, match="the step's own"):
        rt.check(step, X)
    assert model[0].weight.grad is None


# -- Wrong use ---------------------------------------------------------------------------------------------------------


def test_wrong_use_is_told_in_one_line() -> None:
    model = block()
    step = step_of(model)
    grown = model(X)
    for arguments, text in [
        ((X,), r"takes a step, a function that calls backward\(\), not Tensor"),
        ((nn.Linear,), "not the class Linear"),
        ((model, X), "three things: a model, a loss function, and a batch"),
        ((model, X, Y), "three things: a model, a loss function, and a batch"),
        ((step, X), r"step\(x.*\) -> .* does not take what is given: missing a required argument: 'y'"),
        ((step, grown, Y), "x is computed with gradients, which run once only; give x.detach()"),
        ((lambda batches: step(*next(batches)), iter([(X, Y)])), "batches is an iterator"),
        ((model, lambda out: out, X), r"the loss must give a tensor with one number, not a tensor \[32, 16\]"),
    ]:
        with pytest.raises(TypeError, match=text) as caught:
            rt.check(*arguments)  # type: ignore[arg-type]
        assert "\n" not in str(caught.value)
    with pytest.raises(rt.CheckError, match=r"calls no backward\(\)"):
        rt.check(lambda: model(X).sum())


def test_a_plain_run_that_fails_is_told() -> None:
    model = Blocks(block())

    def step(x: torch.Tensor) -> None:
        out = model(x)
        if torch._C._functorch.peek_interpreter_stack() is None and out.grad_fn.name() == "GeluBackward0":
            raise RuntimeError("only in plain eager")
        out.square().mean().backward()

    model.options["use_reentrant"] = True
    with pytest.raises(rt.CheckError, match="plain eager fails, though the step runs: only in plain eager"):
        rt.check(step, X)
