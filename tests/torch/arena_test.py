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
from remora.torch import _arena


def check(case: checking.Case) -> rt.Plan:
    """Two runs: bits, and where memory came from."""
    for _ in range(2):
        mine = checking.outcome(case.model, lambda: case.step(*case.inputs), case.state)
        assert checking.differences(mine, case.eager) == []
    plan: rt.Plan = case.step.plan
    memory = case.step.memory
    assert plan.arena > 0
    assert memory.size == plan.arena, "one block of the predicted size"
    assert plan.predicted_peak <= plan.budget
    outside = case.step._captured[-1].step.outside
    states = sum("dropout" in op["type"] for op in plan.graph["ops"]) * 3 * torch.get_rng_state().numel()
    # A small result may be made twice.
    assert outside <= memory.on_heap <= 2 * outside + states, "all else lies in the block"
    # Live tensors, as the profiler counts them, are what the schedule says, small results and states beside.
    assert mine.peak <= plan.predicted_peak - plan.fixed_memory + outside
    return plan


@pytest.mark.parametrize("budget", ["100%", "75%", "60%"])
def test_language_model_with_dropout_and_tied_weights(budget: str) -> None:
    case = checking.Case(models.Gpt(), written, tokens(), budget=budget, arena=True)
    plan = check(case)
    assert (plan.recomputes > 0) == (budget != "100%")


def test_convolutions_with_batch_norm_and_modules_in_place() -> None:
    model = models.convolutions()
    x, y = images()
    model(x)  # the lazy layer learns its width
    check(checking.Case(model, classified, (x, y), budget="90%", arena=True))


@pytest.mark.parametrize("make", [models.Fno, models.Recurrent, models.Experts])
def test_ffts_recurrences_and_experts(make: Any) -> None:
    inputs = {models.Fno: (8, 1, 32), models.Recurrent: (8, 8, 16), models.Experts: (4, 16, 16)}
    x = torch.randn(*inputs[make])
    check(checking.Case(make(), lambda model, x: model(x).square().mean(), (x,), budget="95%", arena=True))


def test_skips_at_several_budgets_share_the_block() -> None:
    x, y = torch.randn(2, 3, 16, 16), torch.randint(0, 2, (2, 16, 16))
    case = checking.Case(models.Unet(), classified, (x, y), budget="100%", arena=True)
    largest = check(case).arena
    case.step.set_budget("80%")
    mine = checking.outcome(case.model, lambda: case.step(*case.inputs), case.state)
    assert checking.differences(mine, case.eager) == []
    assert case.step.plan.arena < case.step.memory.size == largest, "a smaller plan runs in the larger block"
    case.step.memory.release()
    assert check(case).arena < largest


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
    assert step.memory.size == step.plan.arena


def test_an_allocation_that_was_not_recorded_is_an_error_with_both_sizes() -> None:
    allocator = _arena.library()
    memory = _arena.Memory()

    class Given:
        size = 4096
        starts, slots = _arena.array("q", [0, 2]), _arena.array("q", [256, 0, 256, 128])

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


def test_only_a_training_step_has_one() -> None:
    with pytest.raises(ValueError, match="only train_step"):
        rt.wrap(nn.Linear(2, 2), arena=True)


def test_without_a_compiler_the_error_says_so(tmp_path: Path) -> None:
    script = "import remora.torch._arena as a; a.library()"
    environment = {**os.environ, "REMORA_CACHE": str(tmp_path), "CXX": "no-such-compiler"}
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=False)
    assert "arena=True needs a C++ compiler" in done.stderr
