# SPDX-License-Identifier: Apache-2.0
"""The networks of the zoo, with random weights and small inputs: each a module, its arguments, and a loss.

Their depth is that of the real networks, so the graphs are; images and sequences are small, so that a run takes
seconds.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import checking
import models
import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

Entry = tuple[nn.Module, tuple[Any, ...], checking.Loss]


def classify(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Cross-entropy of a network's first output, of an auxiliary one too where there is one."""
    out = model(x)
    if isinstance(out, tuple) and len(out) > 1 and isinstance(out[1], torch.Tensor):
        return F.cross_entropy(out[0], y) + 0.4 * F.cross_entropy(out[1], y)
    if isinstance(out, dict):
        return sum((F.cross_entropy(o, y) for o in out.values()), torch.zeros(()))
    return F.cross_entropy(out, y)


def energy(model: nn.Module, *inputs: torch.Tensor) -> torch.Tensor:
    """The mean square of a network's first output."""
    return checking.first_tensor(model(*inputs)).square().mean()


def vision(name: str, size: int = 64, batch: int = 16, **options: Any) -> Callable[[], Entry]:
    def make() -> Entry:
        import torchvision

        model = torchvision.models.get_model(name, weights=None, num_classes=10, **options)
        return model, (torch.randn(batch, 3, size, size), torch.randint(0, 10, (batch,))), classify

    return make


def segmentation(name: str, size: int = 64, batch: int = 8) -> Callable[[], Entry]:
    def make() -> Entry:
        import torchvision

        model = torchvision.models.get_model(name, weights=None, weights_backbone=None, num_classes=5)
        return model, (torch.randn(batch, 3, size, size), torch.randint(0, 5, (batch, size, size))), classify

    return make


def timm_model(name: str, size: int = 64, batch: int = 16, **options: Any) -> Callable[[], Entry]:
    def make() -> Entry:
        import timm

        model = timm.create_model(name, pretrained=False, num_classes=10, **options)
        return model, (torch.randn(batch, 3, size, size), torch.randint(0, 10, (batch,))), classify

    return make


def next_word(model: nn.Module, words: torch.Tensor) -> torch.Tensor:
    """Cross-entropy of a language model's words; one with a decoder reads the same words there."""
    given = {"decoder_input_ids": words} if "T5" in type(model).__name__ else {}
    return F.cross_entropy(model(input_ids=words, **given).logits.flatten(0, 1), words.flatten())


def vgg() -> Entry:
    """VGG-16 without its two hidden layers of 4096, whose gradients would be nearly all of the memory here."""
    import torchvision

    model = torchvision.models.vgg16(weights=None)
    model.avgpool, model.classifier = nn.AdaptiveAvgPool2d(1), nn.Sequential(nn.Dropout(), nn.Linear(512, 10))
    return model, (torch.randn(8, 3, 64, 64), torch.randint(0, 10, (8,))), classify


def vit() -> Entry:
    """The twelve layers of ViT-B/16, a quarter as wide."""
    import torchvision

    model = torchvision.models.VisionTransformer(64, 16, 12, 3, 192, 768, num_classes=10, dropout=0.1)
    return model, (torch.randn(16, 3, 64, 64), torch.randint(0, 10, (16,))), classify


def text(kind: str, batch: int = 2, length: int = 32) -> Callable[[], Entry]:
    """A language model of four layers from a configuration."""

    def make() -> Entry:
        import transformers as t

        width = {"hidden_size": 64, "num_hidden_layers": 4, "num_attention_heads": 4, "vocab_size": 200}
        ends = {"bos_token_id": 1, "eos_token_id": 2, "use_cache": False}
        made: dict[str, Callable[[], nn.Module]] = {
            "gpt2": lambda: t.GPT2LMHeadModel(
                t.GPT2Config(n_embd=64, n_layer=4, n_head=4, vocab_size=200, n_positions=length, **ends)
            ),
            "bert": lambda: t.BertForMaskedLM(
                t.BertConfig(**width, intermediate_size=256, max_position_embeddings=length)
            ),
            "llama": lambda: t.LlamaForCausalLM(
                t.LlamaConfig(**width, intermediate_size=160, num_key_value_heads=2, **ends)
            ),
            "t5": lambda: t.T5ForConditionalGeneration(
                t.T5Config(
                    d_model=64,
                    d_kv=16,
                    d_ff=128,
                    num_layers=3,
                    num_heads=4,
                    vocab_size=200,
                    decoder_start_token_id=0,
                    use_cache=False,
                )
            ),
        }
        return made[kind](), (torch.randint(0, 200, (batch, length)),), next_word

    return make


def speech() -> Entry:
    import transformers as t

    config = t.WhisperConfig(
        d_model=64,
        encoder_layers=3,
        encoder_attention_heads=4,
        encoder_ffn_dim=128,
        num_mel_bins=20,
        max_source_positions=50,
        decoder_layers=1,
        decoder_attention_heads=4,
        decoder_ffn_dim=64,
        vocab_size=100,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
        decoder_start_token_id=1,
    )
    return t.WhisperModel(config).get_encoder(), (torch.randn(2, 20, 100),), energy


def own(make: Callable[[], nn.Module], *shapes: tuple[int, ...]) -> Callable[[], Entry]:
    return lambda: (make(), tuple(torch.randn(*shape) for shape in shapes), energy)


def tied_gpt() -> Entry:
    words = torch.randint(0, 64, (4, 32))
    return models.Gpt(layers=4), (words, words), lambda m, x, y: F.cross_entropy(m(x).flatten(0, 1), y.flatten())


ZOO: dict[str, Callable[[], Entry]] = {
    "resnet50": vision("resnet50"),
    "vgg16": vgg,
    "densenet121": vision("densenet121"),
    "mobilenet_v3": vision("mobilenet_v3_small"),
    "efficientnet_b0": vision("efficientnet_b0"),
    "convnext_tiny": vision("convnext_tiny"),
    "vit_b_16": vit,
    "swin_t": vision("swin_t"),
    "fcn_resnet50": segmentation("fcn_resnet50"),
    "deeplabv3_resnet50": segmentation("deeplabv3_resnet50"),
    "inception_v3": vision("inception_v3", size=96, batch=8, aux_logits=False, init_weights=False),
    "squeezenet": vision("squeezenet1_1"),
    "googlenet": vision("googlenet", aux_logits=False, init_weights=False),
    "shufflenet_v2": vision("shufflenet_v2_x0_5"),
    "regnet": timm_model("regnetx_002"),
    "mlp_mixer": timm_model("mixer_s32_224", img_size=64),
    "gpt2": text("gpt2"),
    "bert": text("bert"),
    "t5": text("t5"),
    "llama": text("llama"),
    "whisper_encoder": speech,
    "unet": own(models.Unet, (2, 3, 32, 32)),
    "fno": own(models.Fno, (8, 1, 64)),
    "lstm": own(models.Recurrent, (16, 8, 16)),
    "experts": own(models.Experts, (4, 32, 16)),
    "gpt_tied": tied_gpt,
}
