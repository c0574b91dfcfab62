# SPDX-License-Identifier: Apache-2.0
"""Decoders with KV caches and masks, as transformers exports them for ExecuTorch: small ones with random weights."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import programs
import pytest
import torch
from executorch.exir import to_edge
from programs import within
from torch import nn
from transformers import (
    Gemma3ForCausalLM,
    Gemma3TextConfig,
    GenerationConfig,
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
)
from transformers.integrations.executorch import TorchExportableModuleForDecoderOnlyLM

import remora
from remora.executorch import RecomputePass, planning_algo

LENGTH = 32
SIZES: dict[str, int] = {
    "vocab_size": 64,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
MODELS: dict[str, Callable[[], Any]] = {
    "GPT-2": lambda: GPT2LMHeadModel(
        GPT2Config(vocab_size=64, n_embd=32, n_layer=2, n_head=4, n_positions=64, bos_token_id=1, eos_token_id=2)
    ),
    "Llama": lambda: LlamaForCausalLM(LlamaConfig(**SIZES)),
    "Gemma 3": lambda: Gemma3ForCausalLM(Gemma3TextConfig(**SIZES, head_dim=8, sliding_window=16)),
}


class Decoder(nn.Module):
    """A step of decoding: the logits of one token, and the caches that it leaves if they are asked for."""

    def __init__(self, model: Any, returns_caches: bool) -> None:
        super().__init__()
        model.generation_config = GenerationConfig(use_cache=True, cache_implementation="static")
        self.step = TorchExportableModuleForDecoderOnlyLM(model.eval(), batch_size=1, max_cache_len=LENGTH).model
        self.returns_caches = returns_caches

    def forward(self, token: torch.Tensor, position: torch.Tensor) -> tuple[torch.Tensor, ...]:
        cache = getattr(self.step, "static_cache", None) or self.step.cache
        for i, layer in enumerate(cache.layers):
            # As the module's buffers: torch 2.15 exports those that the cache itself holds a second time, as constants.
            layer.keys, layer.values = getattr(self.step, f"key_cache_{i}"), getattr(self.step, f"value_cache_{i}")
            layer.cumulative_length = getattr(self.step, f"cumulative_length_{i}")
        logits: torch.Tensor = self.step(input_ids=token, cache_position=position)
        return (logits, *(layer.keys.clone() for layer in cache.layers)) if self.returns_caches else (logits,)


def exported(name: str, returns_caches: bool = False) -> programs.EdgeProgramManager:
    torch.manual_seed(0)
    decoder = Decoder(MODELS[name](), returns_caches).requires_grad_(False)
    with torch.no_grad():
        return to_edge(torch.export.export(decoder, (torch.tensor([[1]]), torch.tensor([0]))))


def expect_the_same_decoding(first: Any, second: Any) -> None:
    """Over some tokens, a rewind of the cache among them."""
    methods = [programs.loaded(program) for program in (first, second)]
    for token, position in zip([3, 14, 15, 9, 26, 5], [0, 1, 2, 3, 2, 3], strict=True):
        inputs = (torch.tensor([[token]]), torch.tensor([position]))
        expected, found = (method.execute(inputs) for method in methods)
        assert programs.same(expected, found)


@pytest.mark.parametrize("reinplace", [False, True])
@pytest.mark.parametrize("name", MODELS)
def test_it_decodes_the_same(name: str, reinplace: bool) -> None:
    edge = exported(name)
    nodes = edge.exported_program().graph.nodes
    assert any(node.target is torch.ops.aten.scalar_tensor.default for node in nodes), "a mask, filled with -inf"
    whole = programs.planned(edge, planning_algo)
    for part in ("100%", "90%"):
        recompute = RecomputePass(part)
        transformed = edge.transform([recompute])
        assert recompute.schedule is not None and remora.verify(recompute.schedule.graph, recompute.schedule)
        assert (recompute.schedule.overhead > 0) == (part == "90%")
        small = programs.planned(transformed, within(recompute.schedule.budget), reinplace)
        assert programs.arenas(small)[0] <= recompute.schedule.budget
        expect_the_same_decoding(whole, small)


@pytest.mark.parametrize("name", MODELS)
def test_it_leaves_the_same_caches(name: str) -> None:
    edge = exported(name, returns_caches=True)
    whole = programs.planned(edge, planning_algo)
    with programs.recomputing_for_every_use():
        everything = edge.transform([RecomputePass("100%")])
    for reinplace in (False, True):
        expect_the_same_decoding(whole, programs.planned(everything, planning_algo, reinplace))


class ReadsWhatWas(nn.Module):
    """A cache whose old rows are read through a view, and again after new ones have been written."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("cache", torch.zeros(8, 16))

    def forward(self, x: torch.Tensor, position: torch.Tensor) -> torch.Tensor:
        old = self.cache.view(4, 32).cos()
        total = old.sum()
        self.cache.index_put_((position,), x.sin())
        new = self.cache.tanh().view(4, 32)
        return old * total + new


def test_what_a_cache_held_before_is_not_read_after() -> None:
    inputs = (torch.rand(1, 16), torch.tensor([2]))
    edge, _ = programs.exported((ReadsWhatWas(), inputs))
    whole = programs.planned(edge, planning_algo)
    with programs.recomputing_for_every_use():
        everything = edge.transform([RecomputePass("100%")])
    for reinplace in (False, True):
        methods = [programs.loaded(whole), programs.loaded(programs.planned(everything, planning_algo, reinplace))]
        for _ in range(3):
            assert programs.same(*(method.execute(inputs) for method in methods))
