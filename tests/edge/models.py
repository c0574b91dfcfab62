# SPDX-License-Identifier: Apache-2.0
"""Networks as they run on small devices, with inputs to export them by."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import torch
import torch.nn.functional as F  # noqa: N812
import torchvision
from torch import nn

Model = tuple[nn.Module, tuple[torch.Tensor, ...]]


def convolution(inputs: int, outputs: int, stride: int = 1, groups: int = 1) -> nn.Module:
    layer = nn.Conv2d(inputs, outputs, 3, stride=stride, padding=1, groups=groups, bias=False)
    return nn.Sequential(layer, nn.BatchNorm2d(outputs), nn.ReLU())


class DsCnn(nn.Sequential):
    """Keyword spotting: depthwise and pointwise convolutions."""

    def __init__(self, width: int = 32, blocks: int = 4) -> None:
        layers: list[nn.Module] = [nn.Conv2d(1, width, (10, 4), stride=2, padding=(5, 1)), nn.ReLU()]
        for _ in range(blocks):
            layers += [convolution(width, width, groups=width), nn.Conv2d(width, width, 1), nn.ReLU()]
        super().__init__(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, 12))


class InvertedResidual(nn.Module):
    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        inner = 4 * inputs
        self.up, self.down = nn.Conv2d(inputs, inner, 1), nn.Conv2d(inner, outputs, 1)
        self.middle = convolution(inner, inner, stride, inner)
        self.skips = stride == 1 and inputs == outputs

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.down(self.middle(F.relu6(self.up(x))))
        return x + y if self.skips else y


class MobileNet(nn.Sequential):
    """Inverted residuals, as MobileNetV2 and MCUNet have them."""

    def __init__(self) -> None:
        widths = [(8, 8, 1), (8, 16, 2), (16, 16, 1), (16, 24, 2), (24, 24, 1)]
        blocks = [InvertedResidual(*width) for width in widths]
        super().__init__(convolution(3, 8, 2), *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(24, 10))


class UNet(nn.Module):
    """Skips from the way down to the way up."""

    def __init__(self, width: int = 8, depth: int = 3) -> None:
        super().__init__()
        widths = [width << level for level in range(depth)]
        self.first = convolution(3, width)
        self.down = nn.ModuleList(convolution(a, b) for a, b in pairwise(widths))
        self.up = nn.ModuleList(convolution(a + b, a) for a, b in pairwise(widths))
        self.last = nn.Conv2d(width, 4, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        levels = [self.first(x)]
        for layer in self.down:
            levels.append(layer(F.max_pool2d(levels[-1], 2)))
        y = levels.pop()
        for layer in reversed(self.up):
            y = layer(torch.cat([levels.pop(), F.interpolate(y, scale_factor=2.0)], 1))
        result: torch.Tensor = self.last(y)
        return result


class Transformer(nn.Module):
    """An encoder for short texts."""

    def __init__(self, width: int = 32, heads: int = 4, layers: int = 2) -> None:
        super().__init__()
        self.heads = heads
        self.words = nn.Embedding(100, width)
        self.layers = nn.ModuleList(
            nn.ModuleList(
                [
                    nn.LayerNorm(width),
                    nn.Linear(width, 3 * width),
                    nn.Linear(width, width),
                    nn.LayerNorm(width),
                    nn.Linear(width, 4 * width),
                    nn.Linear(4 * width, width),
                ]
            )
            for _ in range(layers)
        )
        self.head = nn.Linear(width, 5)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        x = self.words(words)
        batch, length, width = x.shape
        for before, qkv, out, between, up, down in self.layers:
            q, k, v = qkv(before(x)).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
            scores = (q @ k.transpose(-1, -2) / (width // self.heads) ** 0.5).softmax(-1)
            x = x + out((scores @ v).transpose(1, 2).reshape(batch, length, width))
            x = x + down(F.gelu(up(between(x))))
        result: torch.Tensor = self.head(x.mean(1))
        return result


class Lstm(nn.Module):
    """A cell, unrolled over the time steps."""

    def __init__(self, width: int = 24, steps: int = 6) -> None:
        super().__init__()
        self.width, self.steps = width, steps
        self.gates = nn.Linear(8 + width, 4 * width)
        self.head = nn.Linear(width, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        state, cell = x.new_zeros(1, self.width), x.new_zeros(1, self.width)
        for step in range(self.steps):
            i, f, g, o = self.gates(torch.cat([x[:, step], state], 1)).chunk(4, 1)
            cell = f.sigmoid() * cell + i.sigmoid() * g.tanh()
            state = o.sigmoid() * cell.tanh()
        result: torch.Tensor = self.head(state)
        return result


class Dense(nn.Module):
    """Each layer reads all those before it."""

    def __init__(self, growth: int = 6, layers: int = 6) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Conv2d(3 + i * growth, growth, 3, padding=1) for i in range(layers))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found = [x]
        for layer in self.layers:
            found.append(F.relu(layer(torch.cat(found, 1))))
        return torch.cat(found, 1).mean((2, 3))


class Fan(nn.Module):
    """Many wide branches of one input, kept until the end: their sum, weighted by what comes last.

    Each branch is cheap to make again, so it fits where it does not stay."""

    def __init__(self, width: int = 64, branches: int = 6) -> None:
        super().__init__()
        self.branches = nn.ModuleList(nn.Conv2d(4, width, 1) for _ in range(branches))
        self.weights = nn.Linear(branches * width, branches)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        wide = [torch.tanh(branch(x)) for branch in self.branches]
        weights = self.weights(torch.cat([branch.mean((2, 3)) for branch in wide], 1)).softmax(1)
        result = torch.zeros_like(wide[0])
        for i, branch in enumerate(wide):
            result = result + branch * weights[:, i : i + 1, None, None]
        return result.amax((2, 3))


def mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 64), nn.Tanh(), nn.Linear(64, 10))


def autoencoder() -> nn.Module:
    widths = [640, 128, 128, 8, 128, 128, 640]
    return nn.Sequential(*(nn.Sequential(nn.Linear(a, b), nn.ReLU()) for a, b in pairwise(widths)))


def cnn() -> nn.Module:
    layers = [convolution(3, 8), nn.MaxPool2d(2), convolution(8, 16), nn.MaxPool2d(2), convolution(16, 32)]
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(32 * 8 * 8, 10))


def image(size: int, channels: int = 3) -> torch.Tensor:
    return torch.randn(1, channels, size, size)


MODELS: dict[str, Callable[[], Model]] = {
    "MLP": lambda: (mlp(), (torch.randn(1, 64),)),
    "autoencoder": lambda: (autoencoder(), (torch.randn(1, 640),)),
    "CNN": lambda: (cnn(), (image(32),)),
    "DS-CNN": lambda: (DsCnn(), (torch.randn(1, 1, 49, 10),)),
    "MobileNet-like": lambda: (MobileNet(), (image(48),)),
    "U-Net": lambda: (UNet(), (image(32),)),
    "transformer": lambda: (Transformer(), (torch.randint(0, 100, (1, 16)),)),
    "LSTM": lambda: (Lstm(), (torch.randn(1, 6, 8),)),
    "dense": lambda: (Dense(), (image(16),)),
    "fan": lambda: (Fan(), (image(16, 4),)),
    "MobileNetV3": lambda: (torchvision.models.mobilenet_v3_small(), (image(64),)),
    "ShuffleNetV2": lambda: (torchvision.models.shufflenet_v2_x0_5(), (image(64),)),
    "SqueezeNet": lambda: (torchvision.models.squeezenet1_1(), (image(64),)),
    "GoogLeNet": lambda: (torchvision.models.googlenet(init_weights=False, aux_logits=False), (image(64),)),
}
"""Made anew at each call, with the weights that torch's generator gives."""
