# SPDX-License-Identifier: Apache-2.0
"""`arena=True`: equal to eager in every bit, everything in one block, at the offsets of the schedule."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import checking
import models
import pytest
import torch
from step_test import classified, images, tokens, written
from torch import nn

import remora.torch as rt
from remora.torch.carry import arena


@pytest.mark.parametrize(
    "budget", [pytest.param("100%", marks=pytest.mark.slow), "75%", pytest.param("60%", marks=pytest.mark.slow)]
)
def test_language_model_with_dropout_and_tied_weights(budget: str) -> None:
    case = checking.Case(models.Gpt(), written, tokens(), budget=budget, arena=True)
    plan = case.check_packed()
    assert (plan.recomputes > 0) == (budget != "100%")


def test_convolutions_with_batch_norm_and_modules_in_place() -> None:
    model = models.convolutions()
    x, y = images()
    model(x)  # the lazy layer learns its width
    checking.Case(model, classified, (x, y), budget="90%", arena=True).check_packed()


@pytest.mark.slow
@pytest.mark.parametrize("make", [models.Fno, models.Recurrent, models.Experts])
def test_ffts_recurrences_and_experts(make: Any) -> None:
    inputs = {models.Fno: (8, 1, 32), models.Recurrent: (8, 8, 16), models.Experts: (4, 16, 16)}
    x = torch.randn(*inputs[make])
    checking.Case(make(), lambda model, x: model(x).square().mean(), (x,), budget="95%", arena=True).check_packed()


@pytest.mark.slow
def test_skips_at_several_budgets_share_the_block() -> None:
    x, y = torch.randn(2, 3, 16, 16), torch.randint(0, 2, (2, 16, 16))
    case = checking.Case(models.Unet(), classified, (x, y), budget="100%", arena=True)
    largest = case.check_packed().arena
    case.step.set_budget("80%")
    mine = checking.outcome(case.model, lambda: case.step(*case.inputs), case.state)
    assert checking.differences(mine, case.eager) == []
    assert case.step.plan.arena < case.step.plan.memory.size == largest, "a smaller plan runs in the larger block"
    case.step.plan.memory.release()
    assert case.check_packed().arena < largest


def test_results_that_are_kept_stay_as_they_are() -> None:
    model = nn.Sequential(nn.Linear(256, 256), nn.Tanh(), nn.Linear(256, 256))
    x = torch.randn(64, 256)

    @rt.train_step(budget="100%", arena=True, **checking.OPTIONS)
    def step(x: torch.Tensor) -> torch.Tensor:
        loss = model(x).square().sum()
        loss.backward()
        return loss.detach()

    kept = []
    for _ in range(3):
        model.zero_grad()
        loss = step(x)
        kept.append((loss, [p.grad for p in model.parameters()], [p.grad.clone() for p in model.parameters()]))
        x = x * 2
    assert len({float(loss) for loss, _, _ in kept}) == 3
    for _, gradients, copies in kept:
        assert all(checking.same(a, b) for a, b in zip(gradients, copies, strict=True))


@pytest.mark.slow
def test_compiled_regions_too() -> None:
    model, (x, y) = models.Gpt(layers=1, dropout=0.0), tokens()
    step = rt.train_step(
        lambda x, y: written(model, x, y).backward(), budget="80%", arena=True, fuse=True, **checking.OPTIONS
    )
    plain = rt.train_step(lambda x, y: written(model, x, y).backward(), budget="80%", fuse=True, **checking.OPTIONS)
    grads = []
    for run in (step, plain):
        model.zero_grad()
        run(x, y)
        grads.append([p.grad.clone() for p in model.parameters()])
    assert all(torch.allclose(a, b, rtol=1e-4, atol=1e-6) for a, b in zip(*grads, strict=True))
    assert step.plan.memory.size == step.plan.arena


def test_an_allocation_that_was_not_recorded_is_an_error_with_both_sizes() -> None:
    allocator = arena.library()
    memory = arena.Memory()

    class Given:
        size, after = 4096, None
        starts, slots = arena.array("q", [0, 2]), arena.array("q", [256, 0, 256, 128])

    def other(size: int) -> Any:
        def program(arguments: list[Any]) -> list[Any]:
            allocator.remora_place(0)
            return [torch.empty(size, dtype=torch.uint8) for _ in range(2)]

        return program

    with pytest.raises(RuntimeError, match="allocates 64 bytes where 256 were recorded"):
        memory.run(Given, other(64), [])  # type: ignore[arg-type]
    with pytest.raises(RuntimeError, match="the place of 256 bytes at 128 is taken"):
        memory.run(Given, other(256), [])  # type: ignore[arg-type]
    assert torch.empty(64).sum() is not None, "afterwards everything lies on the heap again"


@pytest.mark.parametrize("how", ["wrap", pytest.param("compile", marks=pytest.mark.slow)])
@pytest.mark.parametrize("budget", [pytest.param("100%", marks=pytest.mark.slow), "75%"])
def test_forward_and_backward_of_a_module_share_a_block(how: str, budget: str) -> None:
    plan = checking.check_parts(models.Gpt(), (torch.randint(0, 64, (4, 32)),), budget, how, arena=True)
    checking.check_arena(plan)
    assert (plan.recomputes > 0) == (budget == "75%")


@pytest.mark.slow
def test_compiled_regions_of_a_module_too() -> None:
    model, x = models.Gpt(layers=1, dropout=0.0), torch.randint(0, 64, (4, 32))
    model(x).square().mean().backward()
    expected = [p.grad.clone() for p in model.parameters()]
    model.zero_grad()
    rt.wrap(model, budget="80%", arena=True, fuse=True, **checking.OPTIONS)
    model(x).square().mean().backward()
    for mine, theirs in zip(model.parameters(), expected, strict=True):
        assert torch.allclose(mine.grad, theirs, rtol=1e-4, atol=1e-6)
    checking.check_arena(rt.plans(model)[0])


def test_each_forward_before_its_backward_has_a_block_of_its_own() -> None:
    model, twin = models.Gpt(layers=1), models.Gpt(layers=1)
    twin.load_state_dict(model.state_dict())
    rt.wrap(model, budget="75%", arena=True, **checking.OPTIONS)
    batches = [torch.randint(0, 64, (4, 32)) for _ in range(3)]
    for _ in range(2):  # the second time gradients of the first are there
        for module in (model, twin):
            torch.manual_seed(3)
            losses = [module(x).square().sum() for x in batches]
            for loss in losses[::-1]:
                loss.backward()
    for mine, theirs in zip(model.parameters(), twin.parameters(), strict=True):
        assert checking.same(mine.grad, theirs.grad)


@pytest.mark.slow
def test_outputs_that_are_kept_stay_as_they_are() -> None:
    model, twin = models.Unet(), models.Unet()
    twin.load_state_dict(model.state_dict())
    rt.wrap(model, budget="85%", arena=True, **checking.OPTIONS)
    kept, expected = [], []
    for i in range(3):
        x = torch.randn(2, 3, 16, 16) * (i + 1)
        for module, outputs in ((model, kept), (twin, expected)):
            module.zero_grad()
            outputs.append(module(x))
            outputs[-1].square().mean().backward()
    assert all(checking.same(a, b) for a, b in zip(kept, expected, strict=True))


def test_without_gradients_results_are_the_users() -> None:
    model = nn.Sequential(nn.Linear(256, 256), nn.Tanh(), nn.Linear(256, 256), nn.Tanh(), nn.Linear(256, 256)).eval()
    inputs = [torch.randn(256, 256) for _ in range(3)]
    with torch.no_grad():
        expected = [model(x) for x in inputs]
        rt.wrap(model, budget="100%", arena=True, inference=True, **checking.OPTIONS)
        results = []
        for x in inputs:
            results.append(model(x))
            plan = rt.plans(model)[0]
            assert not arena.library().remora_in_use(plan.memory._handle), "nothing is left in the block"
    assert all(checking.same(a, b) for a, b in zip(results, expected, strict=True))
    assert plan.outside == results[0].untyped_storage().nbytes()
    checking.check_arena(plan)


def test_a_backward_that_runs_twice_is_an_error_and_destroys_nothing() -> None:
    model = models.Gpt(layers=1, dropout=0.0)
    rt.wrap(model, budget="75%", arena=True, **checking.OPTIONS)
    x = torch.randint(0, 64, (4, 32))
    loss = model(x).square().sum()
    with pytest.raises(RuntimeError, match="is taken"):
        loss.backward(retain_graph=True)  # what the schedule has released is still held
    loss.backward()
    mine = [p.grad.clone() for p in model.parameters()]
    torch._dynamo.reset()
    model.zero_grad()
    twin = models.Gpt(layers=1, dropout=0.0)
    twin.load_state_dict(model.state_dict())
    twin(x).square().sum().backward()
    assert all(checking.same(a, p.grad) for a, p in zip(mine, twin.parameters(), strict=True))


def test_without_a_compiler_the_error_says_so(tmp_path: Path) -> None:
    script = "import remora.torch.carry.arena as a; a.library()"
    environment = {**os.environ, "REMORA_CACHE": str(tmp_path), "CXX": "no-such-compiler"}
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=False)
    assert "arena=True needs a C++ compiler" in done.stderr
