# SPDX-License-Identifier: Apache-2.0
"""One training step of one network by one contender: what it takes, and, whenever it is asked, how long it takes.

Usage: contenders.py NETWORK CONTENDER [DEVICE [LOCK]]

Contenders: eager; checkpoint (each block by torch.utils.checkpoint); selective (the same, matrix products saved);
compiled:R (AOTAutograd's partitioner with activation_memory_budget R, without Inductor) and inductor:R (with it;
inductor:R:greedy and inductor:R:ilp by PyTorch's other solvers); remora:B, fused:B (the same with compiled regions),
and partitioner:B (stock Inductor, remora.torch.inductor) under the budget B: 60%, or 12345678 (bytes beyond what is
there throughout), or "least": the smallest for which a schedule is found, or "activations:60": gradients, and 60 % of
what the step takes beyond them; auto:B (rt.auto_checkpoint), and its rivals plain (as eager), kept (as selective),
every:N (each N-th block by torch.utils.checkpoint) and every:hf (as transformers does it by itself); sliced:B (remora
with slices="auto"), and its rivals whole (as eager), linear:N (linear_cross_entropy in N chunks of tokens) and
chunked:N (head and loss of N chunks, each by torch.utils.checkpoint, as trainers write it); sliced_partitioner:B
(partitioner with slices="auto", its loss compiled too), and its rival chunker:N (Inductor with its auto chunker in N
chunks, 1 for none).

Prepares the step, writes a line of JSON with its measured peak, and then, for each line that it reads, runs the step
twice and writes a line with the two times. One thread; times are CPU seconds of the process, which other work on the
machine hardly changes. On a GPU (DEVICE: cuda) they are seconds of the clock till the GPU has done its work; with LOCK,
a file, several contenders prepare themselves at once, and whoever uses the GPU holds the file's lock.
"""

from __future__ import annotations

import contextlib
import fcntl
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
    """The 8-layer GPT of docs/guide/pytorch.md."""
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


def medium() -> Any:
    """GPT-2 medium's configuration, without dropout."""
    import transformers as t

    no_dropout = {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}
    return t.GPT2Config(n_embd=1024, n_layer=24, n_head=16, use_cache=False, **no_dropout)


def gpt2_medium() -> Network:
    """GPT-2 medium as published, 24 layers of width 1024, without dropout, on eight times 512 tokens."""
    import transformers as t

    model = t.GPT2LMHeadModel(medium())
    words = torch.randint(0, 50257, (8, 512))
    return model, (words, words), in_bf16(named_words_lost), list(model.transformer.h)


def gpt2_24() -> Network:
    """The layers of GPT-2 medium without its head, which takes more memory than many layers."""
    import transformers as t

    model = t.GPT2Model(medium())

    def loss(called: nn.Module, x: torch.Tensor, _: torch.Tensor) -> torch.Tensor:
        return called(input_ids=x).last_hidden_state.square().mean()

    words = torch.randint(0, 50257, (8, 512))
    return model, (words, words), loss, list(model.h)


def llama_1b() -> Network:
    """The shape of Llama 3.2 1B: 16 layers of width 2048, weights in bf16, on two times 1024 tokens."""
    import transformers as t

    config = t.LlamaConfig(
        hidden_size=2048,
        num_hidden_layers=16,
        num_attention_heads=32,
        num_key_value_heads=8,
        intermediate_size=8192,
        vocab_size=128256,
        tie_word_embeddings=True,
        use_cache=False,
    )
    model = t.LlamaForCausalLM(config).bfloat16()
    words = torch.randint(0, 128256, (2, 1024))
    return model, (words, words), named_words_lost, list(model.model.layers)


def vit_l() -> Network:
    """ViT-L/16 as published, on 32 images."""
    import torchvision

    model = torchvision.models.vit_l_16(weights=None)
    inputs = torch.randn(32, 3, 224, 224), torch.randint(0, 1000, (32,))
    return model, inputs, in_bf16(classified), list(model.encoder.layers)


def resnet101() -> Network:
    """ResNet-101 on 64 images."""
    import torchvision

    model = torchvision.models.resnet101(weights=None)
    blocks = [block for layer in (model.layer1, model.layer2, model.layer3, model.layer4) for block in layer]
    return model, (torch.randn(64, 3, 224, 224), torch.randint(0, 1000, (64,))), classified, blocks


def llama() -> Network:
    """A Llama of six layers of width 256, on four times 256 tokens."""
    import transformers as t

    config = t.LlamaConfig(
        hidden_size=256,
        num_hidden_layers=6,
        num_attention_heads=4,
        num_key_value_heads=2,
        intermediate_size=688,
        vocab_size=4096,
        use_cache=False,
    )
    model = t.LlamaForCausalLM(config)
    words = torch.randint(0, 4096, (4, 256))
    return model, (words, words), named_words_lost, list(model.model.layers)


def gpt2_words() -> Network:
    """GPT-2's 50,257 words on two layers of width 256, on four times 128 tokens."""
    import transformers as t

    no_dropout = {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}
    model = t.GPT2LMHeadModel(t.GPT2Config(n_embd=256, n_layer=2, n_head=4, use_cache=False, **no_dropout))
    words = torch.randint(0, 50257, (4, 128))
    return model, (words, words), named_words_lost, list(model.transformer.h)


def llama_words() -> Network:
    """Llama 3's 128,256 words on two layers of width 128, on four times 128 tokens."""
    import transformers as t

    shape = {"hidden_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2}
    model = t.LlamaForCausalLM(t.LlamaConfig(**shape, intermediate_size=344, vocab_size=128256, use_cache=False))
    words = torch.randint(0, 128256, (4, 128))
    return model, (words, words), named_words_lost, list(model.model.layers)


def moe() -> Network:
    """Four layers of four experts each, of width 256, on four times 512 tokens."""
    model = models.Experts(width=256, layers=4)
    x = torch.randn(4, 512, 256)
    return model, (x, x), lambda called, x, _: called(x).square().mean(), []


def t5() -> Network:
    """A T5 of four and four layers of width 256, on eight times 128 tokens."""
    import transformers as t

    config = t.T5Config(d_model=256, d_kv=64, d_ff=1024, num_layers=4, num_heads=4, vocab_size=4096, use_cache=False)
    model = t.T5ForConditionalGeneration(config)
    words = torch.randint(0, 4096, (8, 128))

    def loss(called: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(called(input_ids=x, decoder_input_ids=y).logits.flatten(0, 1), y.flatten())

    return model, (words, words), loss, [*model.encoder.block, *model.decoder.block]


def images(name: str, size: int, batch: int) -> Network:
    """A network of torchvision for images; its blocks are the parts of its sequences of features."""
    import torchvision

    model = getattr(torchvision.models, name)(weights=None, num_classes=10)
    inputs = torch.randn(batch, 3, size, size), torch.randint(0, 10, (batch,))
    stages = [stage for stage in model.features if isinstance(stage, nn.Sequential)]
    return model, inputs, classified, [block for stage in stages for block in stage if list(block.children())]


def unet_4() -> Network:
    """A U-Net of four levels, from 64 channels, on eight images of 256 x 256."""
    model = models.DeepUnet(width=64, levels=4)
    inputs = torch.randn(8, 3, 256, 256), torch.randint(0, 2, (8, 256, 256))
    return model, inputs, classified, [*model.down, model.bottom, *model.up]


def mlp_mixer() -> Network:
    """MLP-Mixer B/16 on 32 images."""
    import timm

    model = timm.create_model("mixer_b16_224", pretrained=False)
    return model, (torch.randn(32, 3, 224, 224), torch.randint(0, 1000, (32,))), classified, list(model.blocks)


def regnet() -> Network:
    """RegNetX of 3.2 GFLOPs on 64 images."""
    import torchvision

    model = torchvision.models.regnet_x_3_2gf(weights=None)
    blocks = [block for stage in model.trunk_output for block in stage]
    return model, (torch.randn(64, 3, 224, 224), torch.randint(0, 1000, (64,))), classified, blocks


def transformer(layers: int) -> Network:
    """PyTorch's own transformer of so many layers in its encoder and in its decoder, on 32 times 128 vectors."""
    model = nn.Transformer(512, 8, layers, layers, 2048, dropout=0.0, batch_first=True)
    inputs = torch.randn(32, 128, 512), torch.randn(32, 128, 512)

    def loss(called: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return called(x, y).square().mean()

    return model, inputs, loss, [*model.encoder.layers, *model.decoder.layers]


def in_bf16(loss: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    """The loss under autocast, as networks of this size are trained."""

    def under_autocast(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        with torch.autocast(x.device.type, torch.bfloat16):
            return loss(model, x, y)

    return under_autocast


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
FUSED: dict[str, dict[str, Any]] = {
    "remora": {},
    "fused": {"fuse": True},
    "graph": {"cuda_graph": True},
    "fused_graph": {"fuse": True, "cuda_graph": True},
    "sliced": {"slices": "auto", "time_limit": 2 * SECONDS},
}
"""Options of Remora's contenders."""
NETWORKS: dict[str, Callable[[], Network]] = {
    "gpt": gpt,
    "bert": bert,
    "gpt2_6": gpt2_6,
    "gpt2": gpt2,
    "gpt2_words": gpt2_words,
    "llama_words": llama_words,
    "small": small,
    "gpt2_medium": gpt2_medium,
    "gpt2_24": gpt2_24,
    "llama_1b": llama_1b,
    "vit_l": vit_l,
    "resnet101": resnet101,
    "unet_4": unet_4,
    "mlp_mixer": mlp_mixer,
    "regnet": regnet,
    "transformer_6": functools.partial(transformer, 6),
    "transformer_36": functools.partial(transformer, 36),
    "llama": llama,
    "moe": moe,
    "t5": t5,
    "swin": functools.partial(images, "swin_t", 96, 8),
    "convnext": functools.partial(images, "convnext_tiny", 96, 8),
    "efficientnet": functools.partial(images, "efficientnet_b0", 96, 16),
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
        torch.ops.aten._scaled_dot_product_flash_attention.default,
        torch.ops.aten._scaled_dot_product_efficient_attention.default,
    )
    return CheckpointPolicy.MUST_SAVE if op in saved else CheckpointPolicy.PREFER_RECOMPUTE


def checkpointed(blocks: list[nn.Module], **options: Any) -> None:
    """Each block's forward by torch.utils.checkpoint."""
    for block in blocks:
        block.forward = functools.partial(checkpoint, block.forward, use_reentrant=False, **options)


def in_chunks(kind: str, count: int) -> Callable[..., torch.Tensor]:
    """The loss of a language model without all of its logits at once."""

    def lost(hidden: torch.Tensor, weight: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(F.linear(hidden, weight), y, reduction="sum")

    def loss(called: Any, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        hidden, weight = called.base_model(input_ids=x).last_hidden_state, called.get_output_embeddings().weight
        hidden, y = hidden.flatten(0, 1), y.flatten()
        rows = -(-len(y) // count)
        if kind == "linear":
            options = torch.nn.LinearCrossEntropyOptions(batch_chunk_size=rows)
            return F.linear_cross_entropy(hidden, weight, y, options=options)
        parts = zip(hidden.split(rows), y.split(rows), strict=True)
        total: Any = sum(checkpoint(lost, h, weight, wanted, use_reentrant=False) for h, wanted in parts)
        return total / len(y)

    return loss


def step_of(
    contender: str, network: Network, captured: dict[str, Any] | None = None
) -> tuple[Callable[..., Any], Callable[[], dict[str, Any]]]:
    """The step, and what else is reported about it after a run; `captured`: planned steps of earlier calls, by kind."""
    model, _, loss, blocks = network
    kind, _, amount = contender.partition(":")
    called: Any = model
    if contender == "every:hf":
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    elif kind in ("checkpoint", "every"):
        checkpointed(blocks[:: int(amount or 1)])
    elif kind in ("selective", "kept"):
        checkpointed(blocks, context_fn=functools.partial(create_selective_checkpoint_contexts, products_saved))
    elif kind in ("compiled", "inductor"):
        ratio, _, solver = amount.partition(":")
        torch._functorch.config.activation_memory_budget = float(ratio)
        torch._functorch.config.activation_memory_budget_solver = solver or "dp"
        called = compiled(model, "inductor" if kind == "inductor" else "aot_eager_decomp_partition")
    elif kind == "partitioner":
        run = checking.Case.body(compiled(model, "inductor"), loss)
        return run, partitioned(network, amount, run)
    elif kind == "sliced_partitioner":
        run = checking.Case.body(model, torch.compile(loss, dynamic=False))
        return run, partitioned(network, amount, run, slices="auto")
    elif kind == "chunker":
        chunked_by_inductor(int(amount))
        loss = torch.compile(loss, dynamic=False)
    elif kind == "auto":
        return checking.Case.body(model, loss), automatic(network, amount)
    elif kind in ("linear", "chunked"):
        loss = in_chunks(kind, int(amount))
    elif kind not in ("eager", "plain", "whole", "chunker", *FUSED):
        raise SystemExit(f"there is no contender {contender}")

    step = checking.Case.body(called, loss)
    if kind not in FUSED:
        return step, dict
    planned = (captured or {}).get(kind) or captured_step(step, network, FUSED[kind])
    set_amount(planned, network, amount)
    if captured is not None:
        captured[kind] = planned
    return planned, lambda: {
        "budget": planned.plan.budget - planned.plan.fixed_memory,
        "predicted_peak": planned.plan.predicted_peak - planned.plan.fixed_memory,
        "predicted_overhead": planned.plan.overhead,
        "predicted_seconds": planned.plan.predicted_time / 1e9,
        "bound": planned.plan.bound / max(1, planned.plan.unscheduled_time) - 1,
        "planning": planned.plan.seconds,
        "gradients": gradients_of(model),
    }


def chunked_by_inductor(count: int) -> None:
    """Turns Inductor's auto chunker on, for a head of any size, unless there is one chunk."""
    chunker = torch._inductor.config.auto_chunker
    chunker.enable, chunker.num_chunk = count > 1, count
    chunker.output_size_threshold = chunker.amplify_ratio_threshold = 0


def compiled(model: nn.Module, backend: str) -> Any:
    """The model by a backend of its own, so that Dynamo keeps it apart from others; both parts before the first run."""
    torch._functorch.config.force_non_lazy_backward_lowering = True
    return torch.compile(model, backend=GPU.before_run(torch._dynamo.lookup_backend(backend)), dynamic=False)


def captured_step(step: Callable[..., Any], network: Network, options: dict[str, Any]) -> Any:
    """The step at 100 %, captured."""
    import remora.torch as rt

    model, inputs, _, _ = network
    GPU.lead_remora()
    planned = rt.train_step(step, **{"budget": "100%", "time_limit": SECONDS, "threads": 1, **options})
    planned(*inputs)
    model.zero_grad()
    GPU.leave()
    return planned


def set_amount(planned: Any, network: Network, amount: str) -> None:
    """Plans a captured step for a contender's budget."""
    import remora.torch as rt

    if amount == "least":
        try:
            planned.set_budget("1%")
        except rt.BudgetError as refusal:
            planned.set_budget(refusal.least)
    elif amount.isdigit():
        planned.set_budget(planned.plan.fixed_memory + int(amount))
    elif amount.startswith("activations"):
        plan, kept = planned.plan, gradients_of(network[0])
        part = float(amount.partition(":")[2]) / 100
        planned.set_budget(int(plan.fixed_memory + kept + part * (plan.unscheduled_peak - plan.fixed_memory - kept)))
    else:
        planned.set_budget(amount)


def there(network: Network) -> int:
    """The bytes that are there throughout: parameters, buffers and the batch."""
    model, inputs, _, _ = network
    tensors = (*model.parameters(), *model.buffers(), *inputs)
    return sum({t.untyped_storage()._cdata: t.nbytes for t in tensors}.values())


def partitioned(network: Network, amount: str, run: Callable[..., Any], **options: Any) -> Callable[[], dict[str, Any]]:
    """What stock Inductor saves for backward chosen under a budget, from now on; what is told of it after a run."""
    import remora.torch as rt
    import remora.torch.inductor as inductor

    budget: int | str = there(network) + int(amount) if amount.isdigit() else amount
    if amount == "least":
        try:
            with inductor.install("1%", threads=1, time_limit=SECONDS, **options):
                run(*network[1])
        except rt.BudgetError as refusal:
            budget = refusal.least
    installed = inductor.install(budget, threads=1, time_limit=SECONDS, **options)

    def told() -> dict[str, Any]:
        plan = max(installed.plans, key=lambda plan: plan.predicted_peak)
        return {
            "budget": plan.budget - plan.fixed_memory,
            "predicted_peak": plan.predicted_peak - plan.fixed_memory,
            "predicted_overhead": plan.overhead,
            "predicted_seconds": plan.predicted_time / 1e9,
        }

    return told


def automatic(network: Network, amount: str) -> Callable[[], dict[str, Any]]:
    """Checkpoints chosen under a budget; what is told of them."""
    import remora.torch as rt

    model, inputs, loss, _ = network
    budget: int | str = there(network) + int(amount) if amount.isdigit() else amount

    def choose(budget: int | str) -> None:
        rt.auto_checkpoint(
            model, inputs, budget, loss=lambda m, batch: loss(m, *batch), time_limit=2 * SECONDS, threads=1
        )

    try:
        choose("1%" if amount == "least" else budget)
    except rt.BudgetError as refusal:
        if amount != "least":
            raise
        choose(refusal.least)
    plan = rt.checkpoints(model)
    return lambda: {
        "budget": plan.budget - plan.fixed_memory,
        "predicted_peak": plan.predicted_peak - plan.fixed_memory,
        "predicted_overhead": plan.overhead,
        "predicted_seconds": plan.predicted_time / 1e9,
        "bound": plan.bound / plan.unscheduled_time - 1,
        "plan": json.loads(plan.to_json())["modules"],
    }


def gradients_of(model: nn.Module) -> int:
    """The bytes of all gradients."""
    return sum(p.nbytes for p in model.parameters() if p.requires_grad)


class Turns:
    """Who may use the GPU: one process at a time, by the lock of a file. Without a file it does nothing. Nests."""

    def __init__(self) -> None:
        self.file: Any = None
        self.depth, self.leads = 0, False

    def share(self, path: str) -> None:
        self.file = Path(path).open("a")  # noqa: SIM115 - till the process ends

    def enter(self) -> None:
        if self.file is not None:
            fcntl.flock(self.file, fcntl.LOCK_EX)

    def leave(self) -> None:
        """Gives memory back that PyTorch keeps for later, and then the lock, unless a call of `during` goes on."""
        if self.file is not None and not self.depth:
            if checking.DEVICE.type == "cuda":
                torch.cuda.synchronize()
                torch.cuda.empty_cache()
            fcntl.flock(self.file, fcntl.LOCK_UN)

    def during(self, call: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(call)
        def called(*arguments: Any, **options: Any) -> Any:
            self.enter()
            self.depth += 1
            try:
                return call(*arguments, **options)
            finally:
                self.depth -= 1
                self.leave()

        return called

    def lead_remora(self) -> None:
        """From now on Remora enters to trace and to measure, and when a step is planned."""
        import remora.torch as rt
        from remora.torch.cost.kernels import Calls
        from remora.torch.problem.checkpoints import EagerProblem
        from remora.torch.step import Reference
        from remora.torch.ways import programs as decided

        if self.leads or self.file is None:
            return
        self.leads = True
        places = [(decided, "measured"), (EagerProblem, "__init__"), (Reference, "__init__"), (Reference, "tried")]
        for place, name in [*places, (Calls, "run_all")]:
            setattr(place, name, self.during(getattr(place, name)))
        rt.TrainStep._compile = self.before_run(rt.TrainStep._compile)

    def before_run(self, compiler: Callable[..., Any]) -> Callable[..., Any]:
        """The compiler, which enters when it is done, because what it compiled runs next."""

        @functools.wraps(compiler)
        def called(*arguments: Any, **options: Any) -> Any:
            compiled = compiler(*arguments, **options)
            self.enter()
            return compiled

        return called


GPU = Turns()


def seconds_of(run: Callable[[], Any]) -> float:
    """CPU seconds of a call; on a GPU those of the clock till it is done."""
    on_gpu = checking.DEVICE.type == "cuda"
    if on_gpu:
        torch.cuda.synchronize()
    clock = time.perf_counter if on_gpu else time.process_time
    start = clock()
    run()
    if on_gpu:
        torch.cuda.synchronize()
    return clock() - start


def main(name: str, contender: str, device: str = "cpu", lock: str | None = None) -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    checking.DEVICE = torch.device(device)
    if lock is not None:
        GPU.share(lock)
    GPU.enter()
    with checking.DEVICE:
        network = NETWORKS[name]()
    model, inputs, _, _ = network
    kind = contender.partition(":")[0]
    GPU.leave()
    # What others print stays out of the lines of JSON.
    lines = os.fdopen(os.dup(1), "w")
    with contextlib.redirect_stdout(sys.stderr):
        step, more = step_of(contender, network)
        if kind not in ("compiled", "inductor"):  # these enter when they are compiled
            GPU.enter()
        for _ in range(2):  # captured, planned, and kernels prepared
            warm = seconds_of(lambda: step(*inputs))
            model.zero_grad()
        peak, _ = checking.peak_of(lambda: step(*inputs))
        model.zero_grad()
        GPU.leave()
    row = {"network": name, "contender": contender, "peak": peak, "warm": warm, **more()}
    if checking.DEVICE.type == "cuda":
        row["place"] = f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}"
    print(json.dumps(row), file=lines, flush=True)
    for _ in sys.stdin:
        GPU.enter()
        seconds = []
        for turn in range(RUNS + (GPU.file is not None)):
            taken = seconds_of(lambda: step(*inputs))
            if turn or GPU.file is None:  # the first run asks the driver for memory again
                seconds.append(taken)
            model.zero_grad()
        GPU.leave()
        print(json.dumps(seconds), file=lines, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
