# SPDX-License-Identifier: Apache-2.0
"""Flags for Megatron and DeepSpeed: the best of those that there are, with words that the trainers know."""

from __future__ import annotations

import functools

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn
from torch.utils.checkpoint import checkpoint

import remora.torch as rt
from remora.errors import InputError
from remora.integrations.flags import CHECKPOINTED, MEGATRON, RELEASED, Flags, deepspeed_config, megatron_flags
from remora.torch.step import EagerStep, peak_of

WIDTH, LENGTH, LAYERS = 64, 256, 4
MODULES = ("core_attn", "moe_act", "layernorm", "mla_up_proj", "mlp", "moe", "shared_experts")
"""What `--recompute-modules` takes, by Megatron-LM's own documentation."""


class CoreAttention(nn.Module):
    def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return torch.softmax(q @ k.transpose(-1, -2) / WIDTH**0.5, -1) @ v


class Layer(nn.Module):
    """Laid out and named like Megatron's."""

    def __init__(self) -> None:
        super().__init__()
        self.input_layernorm, self.pre_mlp_layernorm = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.linear_qkv, self.linear_proj = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.core_attention = CoreAttention()
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.linear_qkv(self.input_layernorm(x)).chunk(3, -1)
        x = x + self.linear_proj(self.core_attention(q, k, v))
        result: torch.Tensor = x + self.mlp(self.pre_mlp_layernorm(x))
        return result


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x)
        return F.mse_loss(x, torch.zeros_like(x))


@pytest.fixture
def model() -> Model:
    torch.manual_seed(0)
    return Model()


def batch() -> torch.Tensor:
    return torch.randn(4, LENGTH, WIDTH)


def values(words: tuple[str, ...], flag: str) -> list[str]:
    """The values of a flag on a command line."""
    rest = words[words.index(flag) + 1 :]
    end = next((i for i, word in enumerate(rest) if word.startswith("--")), len(rest))
    return list(rest[:end])


def measured_peak(model: Model, x: torch.Tensor, modules: tuple[str, ...]) -> int:
    """What a step takes with modules checkpointed as Megatron does, beyond what is there throughout."""
    for name in modules:
        block = model.get_submodule(name)
        forward = block.forward
        block.forward = functools.partial(checkpoint, forward, use_reentrant=False)  # type: ignore[assignment]
    try:
        step = EagerStep(model, lambda: model(x), torch.device("cpu"), [*model.parameters(), x])
        with step.kept():
            return peak_of(step)
    finally:
        for name in modules:
            del model.get_submodule(name).forward


def test_words_are_megatrons() -> None:
    assert set(CHECKPOINTED) | set(RELEASED) == set(MODULES)
    assert set(MEGATRON.values()) == set(CHECKPOINTED)


@pytest.mark.parametrize("budget", ["100%", "80%", "60%", "45%"])
def test_flags_hold_their_budget(model: Model, budget: str) -> None:
    x = batch()
    found = megatron_flags(model, x, budget, layers="layers")
    fixed = sum(p.nbytes for p in model.parameters()) + x.nbytes
    limit = fixed + float(budget[:-1]) / 100 * (found.eager_peak - fixed)
    assert found.peak <= limit
    assert fixed + measured_peak(model, x, found.modules) == pytest.approx(found.peak, rel=0.02)
    if budget == "100%":
        assert found.words == () and found.modules == ()
        return
    (granularity,) = values(found.words, "--recompute-granularity")
    if granularity == "selective":
        chosen = values(found.words, "--recompute-modules")
        assert set(chosen) <= set(MODULES)
        assert {MEGATRON[name.rpartition(".")[2]] for name in found.modules} == set(chosen)
    else:
        assert values(found.words, "--recompute-method") == ["block"]
        assert values(found.words, "--recompute-num-layers") == [str(len(found.modules))]
    assert "peak" in str(found) and str(found).startswith("--recompute-granularity")


def test_what_no_flags_hold_is_refused(model: Model) -> None:
    with pytest.raises(rt.BudgetError) as refusal:
        megatron_flags(model, batch(), "1%", layers="layers")
    assert megatron_flags(model, batch(), refusal.value.least, layers="layers").peak <= refusal.value.least


def test_names_are_the_users(model: Model) -> None:
    found = megatron_flags(model, batch(), "80%", layers="layers", names={"core_attention": "core_attn"})
    assert not found.words or "mlp" not in found.words
    for names in ({"input_layernorm": "layernorm"}, {"mlp": "feed_forward"}):
        with pytest.raises(InputError, match="names"):
            megatron_flags(model, batch(), "80%", layers="layers", names=names)
    with pytest.raises(InputError, match="layers"):
        megatron_flags(model, batch(), "80%", layers="blocks")


def test_deepspeed(model: Model) -> None:
    told, flags = deepspeed_config(model, batch(), "100%", layers="layers")
    assert told == {"pipeline": {"activation_checkpoint_interval": 0}} and flags.modules == ()
    told, flags = deepspeed_config(model, batch(), "60%", layers="layers")
    assert told["pipeline"] == {"activation_checkpoint_interval": 1}
    assert told["activation_checkpointing"]["number_checkpoints"] == LAYERS == len(flags.modules)
    assert isinstance(flags, Flags) and flags.peak < flags.eager_peak
