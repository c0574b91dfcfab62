# SPDX-License-Identifier: Apache-2.0
"""`auto_checkpoint(..., slices="auto")`: losses over large vocabularies and modules of independent rows in slices."""

from __future__ import annotations

import copy
import os
import pickle
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from distributed_test import outcomes
from torch import nn

import remora.torch as rt
from remora.torch.carry.checkpoints import in_slices_of
from remora.torch.carry.in_slices import Deferred, function_of
from remora.torch.problem.independent import independent_dims

WORDS = 4000


class Language(nn.Module):
    """A causal language model whose head is its embedding, as trainers call it."""

    def __init__(self, returns_logits: bool = True) -> None:
        super().__init__()
        self.embed = nn.Embedding(WORDS, 32)
        self.block = nn.Sequential(nn.LayerNorm(32), nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 32))
        self.head = nn.Linear(32, WORDS, bias=False)
        self.head.weight = self.embed.weight
        self.returns_logits = returns_logits

    def forward(self, x: torch.Tensor) -> Any:
        h = self.embed(x)
        logits = self.head(h + self.block(h)).float()
        loss = F.cross_entropy(logits[:, :-1].reshape(-1, WORDS), x[:, 1:].reshape(-1), ignore_index=0)
        return {"loss": loss, "logits": logits} if self.returns_logits else {"loss": loss}


class Gated(nn.Module):
    """The MLP of a transformer."""

    def __init__(self, width: int = 16, inner: int = 256) -> None:
        super().__init__()
        self.gate, self.up = nn.Linear(width, inner, bias=False), nn.Linear(width, inner, bias=False)
        self.down = nn.Linear(inner, width, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down(F.silu(self.gate(x)) * self.up(x))  # type: ignore[no-any-return]


def gradients(model: nn.Module, loss: torch.Tensor) -> dict[str, torch.Tensor]:
    model.zero_grad()
    loss.backward()
    return {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}


def check_close(found: dict[str, torch.Tensor], expected: dict[str, torch.Tensor]) -> None:
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        size = float(value.abs().max())
        torch.testing.assert_close(found[name], value, rtol=0, atol=1e-5 * size, msg=name)


@pytest.fixture
def words() -> torch.Tensor:
    torch.manual_seed(0)
    return torch.randint(0, WORDS, (2, 257))


def test_a_loss_over_many_words_needs_half_the_memory(words: torch.Tensor) -> None:
    model = Language()
    expected = gradients(model, model(words)["loss"])
    with pytest.raises(rt.BudgetError) as plain:
        rt.auto_checkpoint(model, words, "1%", time_limit=1)
    budget = plain.value.least // 2
    rt.auto_checkpoint(model, words, budget, slices="auto", time_limit=1)
    plan = rt.checkpoints(model)
    assert plan.slices.keys() == {"head"} and plan.slices["head"] > 1
    assert max(plan.predicted_peak, plan.measured_peak) <= budget
    assert "slices" in str(plan)
    result = model(words)
    check_close(gradients(model, result["loss"]), expected)
    assert isinstance(result["logits"], Deferred)
    assert rt.CheckpointPlan.from_json(plan.to_json()).slices == plan.slices
    with torch.no_grad():
        assert not isinstance(model(words)["logits"], Deferred)
    rt.remove_checkpoints(model)
    assert "forward" not in vars(model.head)
    with pytest.raises(rt.BudgetError) as refusal:
        rt.auto_checkpoint(model, words, "1%", slices="auto", time_limit=1)
    assert refusal.value.least <= budget


def test_no_slices_where_they_do_not_pay(words: torch.Tensor) -> None:
    model = Language()
    rt.auto_checkpoint(model, words, "100%", slices="auto", time_limit=1)
    assert not rt.checkpoints(model).slices


def test_modules_of_independent_rows_run_in_slices() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(16, 16), Gated(), Gated(), nn.Linear(16, 1))
    x = torch.randn(2, 256, 16)
    expected = gradients(model, model(x).sum())

    def loss(m: nn.Module, batch: torch.Tensor) -> torch.Tensor:
        return m(batch).sum()  # type: ignore[no-any-return]

    with pytest.raises(rt.BudgetError) as plain:
        rt.auto_checkpoint(model, x, "1%", loss=loss, time_limit=1)
    budget = plain.value.least * 6 // 10
    rt.auto_checkpoint(model, x, budget, loss=loss, slices="auto", time_limit=1)
    plan = rt.checkpoints(model)
    assert plan.slices.keys() == {"1", "2"} and plan.measured_peak <= budget
    check_close(gradients(model, loss(model, x)), expected)
    copied = copy.deepcopy(model)
    check_close(gradients(copied, loss(copied, x)), expected)
    again = pickle.loads(pickle.dumps(model))
    check_close(gradients(again, loss(again, x)), expected)


@pytest.mark.parametrize("tokens", [64, 512, 2048])
def test_wide_layers_never_need_more(tokens: int) -> None:
    """ms-swift's MLP, hidden 4096 and 12288 inside, a sixty-fourth as wide."""
    torch.manual_seed(0)
    model = nn.Sequential(Gated(64, 192), Gated(64, 192), nn.Linear(64, 1))
    x = torch.randn(1, tokens, 64)
    options: Any = {"loss": lambda m, batch: m(batch).sum(), "time_limit": 1}
    rt.auto_checkpoint(model, x, "100%", slices="auto", **options)
    assert not rt.checkpoints(model).slices
    rt.remove_checkpoints(model)
    with pytest.raises(rt.BudgetError) as plain:
        rt.auto_checkpoint(model, x, "1%", **options)
    with pytest.raises(rt.BudgetError) as sliced:
        rt.auto_checkpoint(model, x, "1%", slices="auto", **options)
    assert sliced.value.least <= plain.value.least
    rt.auto_checkpoint(model, x, sliced.value.least, slices="auto", **options)
    plan = rt.checkpoints(model)
    assert plan.measured_peak <= sliced.value.least
    assert bool(plan.slices) == (sliced.value.least < plain.value.least)


@pytest.mark.parametrize(
    ("module", "shape", "count"),
    [
        (Gated(), (2, 8, 16), 2),
        (nn.Sequential(nn.LayerNorm(16), nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 16)), (3, 4, 16), 2),
        (nn.Sequential(nn.Linear(16, 32), nn.Dropout(0.1)), (2, 8, 16), 0),
        (nn.Sequential(nn.Conv1d(4, 4, 3), nn.ReLU()), (5, 4, 16), 1),
        (nn.TransformerEncoderLayer(16, 2, dropout=0.0, batch_first=True), (2, 8, 16), 0),
        (nn.Sequential(nn.Linear(16, 16), nn.BatchNorm1d(8)), (2, 8, 16), 0),
        (nn.Sequential(nn.Softmax(1), nn.Linear(16, 16)), (2, 8, 16), 1),
    ],
)
def test_what_is_independent_is_proved(module: nn.Module, shape: tuple[int, ...], count: int) -> None:
    function, parameters = function_of(module, module.forward)
    assert independent_dims(function, torch.randn(shape), parameters) == count


@pytest.mark.parametrize("slices", [2, 3, 7])
@pytest.mark.parametrize("kind", ["float32", "autocast", "smoothing", "sum", "ignored", "scaled"])
def test_heads_compute_the_same(kind: str, slices: int) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 16), nn.Linear(16, 100))
    x, y = torch.randn(3, 5, 8), torch.randint(0, 100, (3, 5))
    y[0] = -100
    if kind == "ignored":
        y[:] = -100

    def loss() -> torch.Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=kind == "autocast"):
            logits = model(x)
            logits = torch.tanh(logits / 3.0) * 3.0 if kind == "scaled" else logits
            options: Any = {"label_smoothing": 0.1} if kind == "smoothing" else {}
            options |= {"reduction": "sum"} if kind == "sum" else {}
            return F.cross_entropy(logits.view(-1, 100), y.flatten(), **options)

    first = loss()
    expected = gradients(model, first)
    with in_slices_of(model, {"1": slices}):
        second = loss()
        found = gradients(model, second)
    tolerance = 1e-2 if kind == "autocast" else 1e-5
    torch.testing.assert_close(second, first, rtol=tolerance, atol=tolerance, equal_nan=True)
    for name, value in expected.items():
        torch.testing.assert_close(found[name], value, rtol=tolerance, atol=tolerance, equal_nan=True, msg=name)


def test_readers_of_logits_get_them_or_an_error() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 100))
    x, y = torch.randn(6, 8), torch.randint(0, 100, (6,))
    eager = model(x)
    expected = gradients(model, F.cross_entropy(eager, y) + eager.logsumexp(1).sum())
    with in_slices_of(model, {"0": 2}):
        logits = model(x)
        assert torch.equal(logits.argmax(1), eager.argmax(1)) and logits.shape == eager.shape
        check_close(gradients(model, F.cross_entropy(logits, y) + logits.logsumexp(1).sum()), expected)
        logits = model(x)
        check_close(gradients(model, logits.sum()), gradients(model, model(x).sum()))
        with pytest.raises(rt.CheckpointError, match="changed in place"):
            model(x).div_(2)
        with pytest.raises(rt.CheckpointError, match="changed in place"):
            model(x)[0] = 1


def test_ddp_and_fsdp2_train_the_same_or_are_refused(tmp_path: Path) -> None:
    cases = 50 if "REMORA_ALL_CASES" in os.environ else 10
    for told in outcomes(str(cases), 2, tmp_path, Path(__file__).with_name("ranks_slices.py")):
        assert len(told) == cases + 4 and told[-4:] == 4 * ["equal"]
        refused = [text for text in told if text != "equal"]
        assert all("shard it" in text or "give it to fully_shard" in text for text in refused), refused
        assert len(refused) < cases // 3
