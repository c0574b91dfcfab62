# SPDX-License-Identifier: Apache-2.0
"""Slices of what stock torch.compile compiles: peaks to the byte, gradients, and what is not cut."""

from __future__ import annotations

import copy
import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from inductor_test import _fresh, gradients, measured, step
from torch import nn

import remora.torch as rt
import remora.torch.inductor as ri

__all__ = ["_fresh"]
OPTIONS: dict[str, Any] = {"threads": 1, "time_limit": 3.0, "cost": "flops", "cache": False}
WORDS, WIDTH, TOKENS = 1024, 16, 256
Head = Callable[[torch.Tensor], torch.Tensor]


class Language(nn.Module):
    """A head over many words on top of a layer, and its loss."""

    def __init__(self, bias: bool = False, words: int = WORDS) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.embed, self.layer = nn.Embedding(words, WIDTH), nn.Linear(WIDTH, WIDTH)
        self.head = nn.Linear(WIDTH, words, bias=bias)

    def change(self, logits: torch.Tensor) -> torch.Tensor:
        return logits

    def lost(self, logits: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(logits, y)

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        logits = self.change(self.head(torch.relu(self.layer(self.embed(x)))).float())
        return self.lost(logits.flatten(0, -2), y.flatten())


def batch(tokens: int = TOKENS, words: int = WORDS) -> tuple[torch.Tensor, torch.Tensor]:
    x, y = torch.randint(0, words, (2, 2, tokens // 2))
    y[0, : tokens // 5] = -100
    return x, y


def run(model: nn.Module, inputs: tuple[torch.Tensor, ...], scale: float = 1.0) -> list[torch.Tensor]:
    """The loss and the gradients of a step."""
    loss = model(*inputs)
    (loss * scale).backward()
    return [loss.detach(), *gradients(model)]


def close(mine: list[torch.Tensor], theirs: list[torch.Tensor]) -> None:
    for a, b in zip(mine, theirs, strict=True):
        assert a.dtype == b.dtype and (a - b).abs().max() <= 1e-5 * b.abs().max() + 1e-7


@pytest.mark.parametrize("scale", [1.0, 0.3])
def test_a_loss_in_slices_takes_what_is_predicted_and_gives_the_same(scale: float) -> None:
    model, inputs = Language(bias=True), batch()
    other = copy.deepcopy(model)
    with ri.install("55%", slices="auto", **OPTIONS) as installed:
        compiled = torch.compile(model)
        found = run(compiled, inputs, scale)
        peak = measured(compiled, inputs)
    (plan,) = installed.plans
    assert plan.promised and plan.slices > 1 and f"parts in up to {plan.slices} slices" in str(plan)
    predicted = plan.predicted_peak - plan.fixed_memory
    assert 0.98 * predicted <= peak <= 1.001 * predicted + 64, f"measured {peak:,}: {plan}"
    close(found, run(torch.compile(other), inputs, scale))


def test_slices_reach_what_no_partition_does() -> None:
    model, inputs = Language(), batch()
    with ri.install("45%", **OPTIONS), pytest.raises(rt.BudgetError) as refused:
        step(torch.compile(model), inputs)
    torch._dynamo.reset()
    with ri.install("45%", slices="auto", **OPTIONS) as installed:
        peak = measured(torch.compile(model), inputs)
    (plan,) = installed.plans
    assert plan.slices > 1 and plan.promised and plan.predicted_peak < 0.6 * refused.value.least
    assert peak <= plan.predicted_peak - plan.fixed_memory


def test_there_are_no_slices_where_inductors_own_partition_fits() -> None:
    model, inputs = Language(), batch()
    with ri.install("100%", slices="auto", **OPTIONS) as installed:
        step(torch.compile(model), inputs)
    assert installed.plans[0].slices == 0 and "slices" not in str(installed.plans[0])


def test_what_was_found_in_slices_is_found_for_its_own_peak(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REMORA_CACHE", str(tmp_path))
    model, inputs = Language(), batch()
    options = {**OPTIONS, "cache": True, "slices": "auto"}
    with ri.install("45%", **options) as installed:
        step(torch.compile(model), inputs)
    (plan,) = installed.plans
    torch._dynamo.reset()
    with ri.install(plan.predicted_peak, **options) as installed:
        peak = measured(torch.compile(model), inputs)
    (other,) = installed.plans
    assert other.slices == plan.slices > 1 and other.predicted_peak == plan.predicted_peak == other.budget
    assert peak <= plan.predicted_peak - plan.fixed_memory


class Clipped(torch.autograd.Function):
    """A gradient that is no linear function of the loss's."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x * 1.0

    @staticmethod
    def backward(ctx: Any, *given: torch.Tensor) -> torch.Tensor:
        return given[0].clamp(-1e-4, 1e-4)


class WithClipping(Language):
    def change(self, logits: torch.Tensor) -> torch.Tensor:
        return Clipped.apply(logits)  # type: ignore[no-any-return, no-untyped-call]


class InHalf(Language):
    """Its gradients in float16 would be zero without the scale of its loss."""

    def __init__(self) -> None:
        super().__init__()
        self.half()


@pytest.mark.parametrize("kind, scale", [(WithClipping, 7.0), (InHalf, 1024.0)])
def test_gradients_that_need_the_loss_s_own_are_not_computed_ahead_of_it(kind: Any, scale: float) -> None:
    model, inputs = kind(), batch()
    other = copy.deepcopy(model)
    options = {**OPTIONS, "strict": False, "slices": "auto"}
    with ri.install("55%", **options) as installed, pytest.warns(rt.RemoraWarning, match="float16, or not linear"):
        found = run(torch.compile(model), inputs, scale)
    assert installed.plans[0].slices == 0
    theirs = run(torch.compile(other), inputs, scale)
    for mine, his in zip(found, theirs, strict=True):
        assert (mine - his).abs().max() <= (2e-2 if kind is InHalf else 1e-5) * his.abs().max()


def test_what_varies_from_call_to_call_is_not_cut() -> None:
    model = Language()
    options = {**OPTIONS, "strict": False, "slices": "auto"}
    with ri.install("55%", **options) as installed, pytest.warns(rt.RemoraWarning, match="sizes vary"):
        compiled = torch.compile(model, dynamic=True)
        step(compiled, batch())
        other = batch(2 * TOKENS)
        step(compiled, other)
    assert installed.plans and not any(plan.slices for plan in installed.plans)


class Soft(Language):
    def change(self, logits: torch.Tensor) -> torch.Tensor:
        return 5.0 * torch.tanh(logits / 5.0)


class Smoothed(Language):
    def lost(self, logits: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(logits, y, label_smoothing=0.1)


class Summed(Language):
    def lost(self, logits: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        spread = torch.logsumexp(logits, 1)
        return F.cross_entropy(logits, y, reduction="sum") / 100 + 1e-3 * spread.square().mean()


class Weighted(Language):
    def lost(self, logits: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return (F.cross_entropy(logits, y, reduction="none") * (y % 3)).mean()


class Tied(Language):
    def __init__(self, bias: bool = False, words: int = WORDS) -> None:
        super().__init__(bias, words)
        self.head.weight = self.embed.weight


class InBrain(Language):
    """Parameters in bfloat16, the loss in float32."""

    def __init__(self, bias: bool = False, words: int = WORDS) -> None:
        super().__init__(bias, words)
        self.bfloat16()


KINDS = (Language, Soft, Smoothed, Summed, Weighted, Tied, InBrain)
COUNT = 50 if os.environ.get("REMORA_ALL_CASES") else 3


@pytest.mark.parametrize("seed", range(COUNT))
def test_random_losses(seed: int) -> None:
    kind, draw = KINDS[seed % len(KINDS)], random.Random(seed)
    words, tokens = draw.choice([700, 1024, 2049]), draw.choice([128, 254, 300])
    model, inputs = kind(draw.random() < 0.5, words), batch(tokens, words)
    budget, scale = draw.choice(["55%", "65%", "80%"]), draw.choice([1.0, 0.37])
    other = copy.deepcopy(model)
    with ri.install(budget, slices="auto", **OPTIONS) as installed:
        compiled = torch.compile(model)
        try:
            found = run(compiled, inputs, scale)
        except rt.BudgetError as refusal:
            assert refusal.least > refusal.budget
            return
        peak = measured(compiled, inputs)
    (plan,) = installed.plans
    assert plan.promised and peak <= 1.001 * (plan.predicted_peak - plan.fixed_memory) + 64
    theirs = run(torch.compile(other), inputs, scale)
    digits = 2e-2 if kind is InBrain else 1e-5
    for mine, his in zip(found, theirs, strict=True):
        assert (mine - his).abs().max() <= digits * his.abs().max() + 1e-7


def test_what_is_in_slices_is_found_again_in_inductors_caches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from torch._dynamo.utils import counters

    monkeypatch.setenv("REMORA_CACHE", str(tmp_path / "remora"))
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "inductor"))
    model, inputs = Language(), batch()
    results = []
    for _ in range(2):
        torch._dynamo.reset()
        counters.clear()
        with (
            torch._functorch.config.patch(enable_autograd_cache=True),
            torch._inductor.config.patch(fx_graph_cache=True),
            ri.install("55%", slices="auto", **{**OPTIONS, "cache": True}) as installed,
        ):
            results.append(run(torch.compile(model), inputs))
        model.zero_grad()
    assert not installed.plans, "found again"
    assert counters["aot_autograd"]["autograd_cache_hit"] == 1
    close(results[1], results[0])
