# SPDX-License-Identifier: Apache-2.0
"""Small networks of our own, each with what makes its kind hard: dropout and tied weights, normalization in place,
skips, FFTs."""

from __future__ import annotations

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn


class Block(nn.Module):
    """A transformer's block with dropout in three places."""

    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads = heads
        self.before, self.between = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.drop = nn.Dropout(dropout)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        q, k, v = (
            self.qkv(self.before(x)).view(batch, length, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        )
        hidden = torch.ones(length, length, dtype=torch.bool, device=x.device).triu(1)
        scores = (q @ k.transpose(-1, -2)).masked_fill(hidden, float("-inf")).softmax(-1)
        x = x + self.drop(self.out((self.drop(scores) @ v).transpose(1, 2).reshape(batch, length, width)))
        return x + self.drop(self.down(F.gelu(self.up(self.between(x)))))


class Gpt(nn.Module):
    """A language model whose head shares its weight with the embedding."""

    def __init__(
        self, layers: int = 2, width: int = 32, vocabulary: int = 64, length: int = 32, dropout: float = 0.1
    ) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
        self.blocks = nn.ModuleList(Block(width, 4, dropout) for _ in range(layers))
        self.last, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)
        self.head.weight = self.tokens.weight

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.tokens(tokens) + self.places(torch.arange(tokens.shape[1], device=tokens.device))
        for block in self.blocks:
            x = block(x)
        result: torch.Tensor = self.head(self.last(x))
        return result


def convolutions(classes: int = 5) -> nn.Module:
    """Convolutions with batch normalization, ReLUs in place, and dropout."""
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1),
        nn.BatchNorm2d(8),
        nn.ReLU(inplace=True),
        nn.Dropout(0.1),
        nn.Conv2d(8, 8, 3, padding=1),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(8, 16, 3),
        nn.BatchNorm2d(16),
        nn.SiLU(inplace=True),
        nn.Flatten(),
        nn.LazyLinear(classes),
    )


class Unet(nn.Module):
    """Two levels down and up, with skips."""

    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.first, self.second, self.bottom = (
            self.pair(3, width),
            self.pair(width, 2 * width),
            self.pair(2 * width, 4 * width),
        )
        self.up2, self.up1 = nn.ConvTranspose2d(4 * width, 2 * width, 2, 2), nn.ConvTranspose2d(2 * width, width, 2, 2)
        self.third, self.fourth = self.pair(4 * width, 2 * width), self.pair(2 * width, width)
        self.head = nn.Conv2d(width, 2, 1)

    @staticmethod
    def pair(inputs: int, outputs: int) -> nn.Module:
        return nn.Sequential(
            nn.Conv2d(inputs, outputs, 3, padding=1),
            nn.BatchNorm2d(outputs),
            nn.ReLU(inplace=True),
            nn.Conv2d(outputs, outputs, 3, padding=1),
            nn.BatchNorm2d(outputs),
            nn.ReLU(inplace=True),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        a = self.first(x)
        b = self.second(F.max_pool2d(a, 2))
        c = self.bottom(F.max_pool2d(b, 2))
        d = self.third(torch.cat([self.up2(c), b], 1))
        result: torch.Tensor = self.head(self.fourth(torch.cat([self.up1(d), a], 1)))
        return result


class DeepUnet(nn.Module):
    """Any number of levels down and up, with skips; each level halves the image and doubles the channels."""

    def __init__(self, width: int, levels: int) -> None:
        super().__init__()
        widths = [width << level for level in range(levels + 1)]
        self.down = nn.ModuleList(Unet.pair(a, b) for a, b in zip([3, *widths], widths[:-1], strict=False))
        self.bottom = Unet.pair(widths[-2], widths[-1])
        self.rise = nn.ModuleList(nn.ConvTranspose2d(2 * w, w, 2, 2) for w in reversed(widths[:-1]))
        self.up = nn.ModuleList(Unet.pair(2 * w, w) for w in reversed(widths[:-1]))
        self.head = nn.Conv2d(width, 2, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        skips = []
        for level in self.down:
            x = level(x)
            skips.append(x)
            x = F.max_pool2d(x, 2)
        x = self.bottom(x)
        for rise, level in zip(self.rise, self.up, strict=True):
            x = level(torch.cat([skips.pop(), rise(x)], 1))
        result: torch.Tensor = self.head(x)
        return result


class Fno(nn.Module):
    """Layers that multiply the lowest frequencies by complex weights (Fourier neural operator)."""

    def __init__(self, width: int = 8, modes: int = 4, layers: int = 3) -> None:
        super().__init__()
        self.modes = modes
        self.lift, self.head = nn.Conv1d(1, width, 1), nn.Conv1d(width, 1, 1)
        self.local = nn.ModuleList(nn.Conv1d(width, width, 1) for _ in range(layers))
        self.spectral = nn.ParameterList(torch.randn(width, width, modes, 2) / width for _ in range(layers))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.lift(x)
        for local, weight in zip(self.local, self.spectral, strict=True):
            low = torch.fft.rfft(x)[..., : self.modes]
            mixed = torch.einsum("bik,iok->bok", low, torch.view_as_complex(weight))
            full = F.pad(mixed, (0, x.shape[-1] // 2 + 1 - self.modes))
            x = F.gelu(local(x) + torch.fft.irfft(full, n=x.shape[-1]))
        result: torch.Tensor = self.head(x)
        return result


class Recurrent(nn.Module):
    """An LSTM written out over its steps."""

    def __init__(self, width: int = 16, steps: int = 8, classes: int = 4) -> None:
        super().__init__()
        self.width, self.steps = width, steps
        self.mix, self.head = nn.Linear(2 * width, 4 * width), nn.Linear(width, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = c = x.new_zeros(x.shape[0], self.width)
        for t in range(self.steps):
            i, f, g, o = self.mix(torch.cat([x[:, t], h], 1)).chunk(4, 1)
            c = f.sigmoid() * c + i.sigmoid() * g.tanh()
            h = o.sigmoid() * c.tanh()
        result: torch.Tensor = self.head(h)
        return result


class Experts(nn.Module):
    """A mixture of experts whose tokens are dealt out in a fixed pattern, weighted by a gate."""

    def __init__(self, width: int = 16, experts: int = 4, layers: int = 2) -> None:
        super().__init__()
        self.experts = experts
        self.gates = nn.ModuleList(nn.Linear(width, experts) for _ in range(layers))
        self.up = nn.ModuleList(
            nn.ModuleList(nn.Linear(width, 4 * width) for _ in range(experts)) for _ in range(layers)
        )
        self.down = nn.ModuleList(
            nn.ModuleList(nn.Linear(4 * width, width) for _ in range(experts)) for _ in range(layers)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for gate, up, down in zip(self.gates, self.up, self.down, strict=True):
            weights = gate(x).softmax(-1)
            parts = [
                down[e](F.gelu(up[e](x[:, e :: self.experts]))) * weights[:, e :: self.experts, e : e + 1]
                for e in range(self.experts)
            ]
            x = x + torch.stack(parts, 2).flatten(1, 2)
        return x


class Twins(nn.Module):
    """Two outputs and one input beside the features, which the loss weighs."""

    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.body, self.left, self.right = nn.Linear(width, width), nn.Linear(width, 3), nn.Linear(width, 2)

    def forward(self, x: torch.Tensor, scale: torch.Tensor) -> dict[str, torch.Tensor]:
        h = torch.tanh(self.body(x) * scale)
        return {"left": self.left(h), "right": self.right(h)}
