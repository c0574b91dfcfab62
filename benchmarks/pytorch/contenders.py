# SPDX-License-Identifier: Apache-2.0
"""One training step of one network by one contender: what it takes, and, whenever it is asked, how long it takes.

Usage: contenders.py NETWORK CONTENDER

Contenders: eager; checkpoint (each block by torch.utils.checkpoint); selective (the same, matrix products saved);
compiled:R (AOTAutograd's partitioner with activation_memory_budget R, without Inductor) and inductor:R (with it);
remora:B and fused:B (the same with compiled regions) under the budget B: 60%, or 12345678 (bytes beyond what is there
throughout), or "least": the smallest for which a schedule is found.

Prepares the step, writes a line of JSON with its measured peak, and then, for each line that it reads, runs the step
twice and writes a line with the two times. One thread; times are CPU seconds of the process, which other work on the
machine hardly changes.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn
from torch.utils.checkpoint import CheckpointPolicy, checkpoint, create_selective_checkpoint_contexts

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests" / "torch"))
import checking
import models

Network = tuple[nn.Module, tuple[torch.Tensor, ...], Callable[..., torch.Tensor], list[nn.Module]]


def gpt() -> Network:
    """The 8-layer GPT of docs/pytorch.md."""
    model = models.Gpt(layers=8, width=256, vocabulary=4096, length=256, dropout=0.0)
    words = torch.randint(0, 4096, (8, 256))
    return model, (words, words), words_lost, list(model.blocks)


def small() -> Network:
    """For a test of this program."""
    model = models.Gpt(layers=2, dropout=0.0)
    words = torch.randint(0, 64, (4, 32))
    return model, (words, words), words_lost, list(model.blocks)


def unet() -> Network:
    model = models.Unet(width=16)
    blocks = [model.first, model.second, model.bottom, model.third, model.fourth]
    return model, (torch.randn(8, 3, 64, 64), torch.randint(0, 2, (8, 64, 64))), classified, blocks


def gpt2_6() -> Network:
    """GPT-2 with six layers, a third as wide as published, on four times 256 tokens."""
    import transformers as t

    model = t.GPT2LMHeadModel(t.GPT2Config(n_embd=256, n_layer=6, n_head=4, vocab_size=4096, use_cache=False))
    words = torch.randint(0, 4096, (4, 256))
    return model, (words, words), named_words_lost, list(model.transformer.h)


def gpt2() -> Network:
    """GPT-2 as published, 12 layers of width 768, on two times 256 tokens: what planning takes."""
    import transformers as t

    model = t.GPT2LMHeadModel(t.GPT2Config(use_cache=False))
    words = torch.randint(0, 50257, (2, 256))
    return model, (words, words), named_words_lost, list(model.transformer.h)


def bert() -> Network:
    """BERT with four layers, a third as wide as the smallest published one."""
    import transformers as t

    config = t.BertConfig(
        hidden_size=256,
        num_hidden_layers=4,
        num_attention_heads=4,
        vocab_size=2048,
        intermediate_size=1024,
        max_position_embeddings=128,
    )
    model = t.BertForMaskedLM(config)
    words = torch.randint(0, 2048, (8, 128))
    return model, (words, words), named_words_lost, list(model.bert.encoder.layer)


def resnet50() -> Network:
    import torchvision

    model = torchvision.models.resnet50(weights=None, num_classes=10)
    blocks = [block for layer in (model.layer1, model.layer2, model.layer3, model.layer4) for block in layer]
    return model, (torch.randn(16, 3, 96, 96), torch.randint(0, 10, (16,))), classified, blocks


def vit() -> Network:
    import torchvision

    model = torchvision.models.VisionTransformer(96, 16, 12, 3, 192, 768, num_classes=10)
    return model, (torch.randn(32, 3, 96, 96), torch.randint(0, 10, (32,))), classified, list(model.encoder.layers)


def words_lost(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return F.cross_entropy(model(x).flatten(0, 1), y.flatten())


def named_words_lost(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return F.cross_entropy(model(input_ids=x).logits.flatten(0, 1), y.flatten())


def classified(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return F.cross_entropy(model(x), y)


SECONDS = 6.0
"""For the solver."""
RUNS = 2
"""Of the step in each turn."""
NETWORKS: dict[str, Callable[[], Network]] = {
    "gpt": gpt,
    "bert": bert,
    "gpt2_6": gpt2_6,
    "gpt2": gpt2,
    "small": small,
    "unet": unet,
    "resnet50": resnet50,
    "vit": vit,
}


def products_saved(_: Any, op: Any, *__: Any, **___: Any) -> CheckpointPolicy:
    saved = (
        torch.ops.aten.mm.default,
        torch.ops.aten.addmm.default,
        torch.ops.aten.bmm.default,
        torch.ops.aten.convolution.default,
    )
    return CheckpointPolicy.MUST_SAVE if op in saved else CheckpointPolicy.PREFER_RECOMPUTE


def checkpointed(blocks: list[nn.Module], **options: Any) -> None:
    """Each block's forward by torch.utils.checkpoint."""
    for block in blocks:
        block.forward = functools.partial(checkpoint, block.forward, use_reentrant=False, **options)


def step_of(contender: str, network: Network) -> tuple[Callable[..., Any], Callable[[], dict[str, Any]]]:
    """The step, and what else is to be told of it after a run."""
    model, _, loss, blocks = network
    kind, _, amount = contender.partition(":")
    called: Any = model
    if kind == "checkpoint":
        checkpointed(blocks)
    elif kind == "selective":
        checkpointed(blocks, context_fn=functools.partial(create_selective_checkpoint_contexts, products_saved))
    elif kind in ("compiled", "inductor"):
        torch._functorch.config.activation_memory_budget = float(amount)
        backend = "inductor" if kind == "inductor" else "aot_eager_decomp_partition"
        called = torch.compile(model, backend=backend, dynamic=False)
    elif kind not in ("eager", "remora", "fused"):
        raise SystemExit(f"there is no contender {contender}")

    def step(*inputs: torch.Tensor) -> torch.Tensor:
        value = loss(called, *inputs)
        value.backward()
        return value.detach()

    if kind not in ("remora", "fused"):
        return step, dict
    planned = planned_step(step, network, amount, kind == "fused")
    return planned, lambda: {
        "predicted_peak": planned.plan.predicted_peak - planned.plan.fixed_memory,
        "predicted_overhead": planned.plan.overhead,
        "predicted_seconds": planned.plan.predicted_time / 1e9,
        "bound": planned.plan.bound / max(1, planned.plan.unscheduled_time) - 1,
        "planning": planned.plan.seconds,
    }


def planned_step(step: Callable[..., Any], network: Network, amount: str, fuse: bool) -> Any:
    """The step under a budget, captured."""
    import remora.torch as rt

    model, inputs, _, _ = network
    planned = rt.train_step(step, budget="100%", fuse=fuse, time_limit=SECONDS, threads=1)
    planned(*inputs)
    model.zero_grad()
    if amount == "least":
        try:
            planned.set_budget("1%")
        except rt.Infeasible as refusal:
            planned.set_budget(refusal.least)
    elif amount.isdigit():
        planned.set_budget(planned.plan.fixed_memory + int(amount))
    elif amount != "100%":
        planned.set_budget(amount)
    return planned


def main(name: str, contender: str) -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    network = NETWORKS[name]()
    model, inputs, _, _ = network
    # What others print stays out of the lines of JSON.
    lines = os.fdopen(os.dup(1), "w")
    with contextlib.redirect_stdout(sys.stderr):
        step, more = step_of(contender, network)
        for _ in range(2):  # captured, planned, and kernels prepared
            start = time.process_time()
            step(*inputs)
            warm = time.process_time() - start
            model.zero_grad()
        peak, _ = checking.peak_of(lambda: step(*inputs))
        model.zero_grad()
    row = {"network": name, "contender": contender, "peak": peak, "warm": warm, **more()}
    print(json.dumps(row), file=lines, flush=True)
    for _ in sys.stdin:
        seconds = []
        for _ in range(RUNS):
            start = time.process_time()
            step(*inputs)
            seconds.append(time.process_time() - start)
            model.zero_grad()
        print(json.dumps(seconds), file=lines, flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
