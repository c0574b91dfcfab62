# SPDX-License-Identifier: Apache-2.0
"""Wide MLPs in slices (ms-swift#7090): hidden 4096 and 12288 inside, a sixteenth of that here, for several lengths.

Usage: wide_layers.py [--tokens 2048,4096,8192,16384] [--shards 4] [--layers 2]

For each length a table row has the eager step's peak; that of each MLP in so many checkpointed shards, whatever the
length, as trainers tile them; the least of `auto_checkpoint` without and with `slices="auto"`; and its plan, with
slices, at the peak of the shards. Peaks, in MiB, are measured, with parameters and batch.
"""

from __future__ import annotations

import argparse

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

import remora.torch as rt
from remora.torch.measure import allocated

WIDTH, INNER = 4096 // 16, 12288 // 16


class Gated(nn.Module):
    """The MLP of a transformer; in several shards of tokens, each checkpointed, if there are to be more than one."""

    def __init__(self) -> None:
        super().__init__()
        self.gate, self.up = nn.Linear(WIDTH, INNER, bias=False), nn.Linear(WIDTH, INNER, bias=False)
        self.down = nn.Linear(INNER, WIDTH, bias=False)
        self.shards = 1

    def rows(self, x: torch.Tensor) -> torch.Tensor:
        return self.down(nn.functional.silu(self.gate(x)) * self.up(x))  # type: ignore[no-any-return]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.shards == 1:
            return self.rows(x)
        return torch.cat([checkpoint(self.rows, part, use_reentrant=False) for part in x.chunk(self.shards, 1)], 1)


class Network(nn.Module):
    def __init__(self, layers: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Gated() for _ in range(layers))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = x + layer(x)
        return x


def loss(model: nn.Module, x: torch.Tensor) -> torch.Tensor:
    return model(x).square().mean()  # type: ignore[no-any-return]


def peak_of(layers: int, x: torch.Tensor, shards: int) -> int:
    """Bytes of a step."""
    model = Network(layers)
    for layer in model.layers:
        layer.shards = shards
    there = sum(tensor.nbytes for tensor in (x, *model.parameters()))
    return there + allocated(lambda: loss(model, x).backward())[1]


def least_of(layers: int, x: torch.Tensor, slices: str) -> int:
    """Bytes of the smallest plan."""
    try:
        rt.auto_checkpoint(Network(layers), x, "1%", loss=loss, slices=slices, time_limit=3)
    except rt.BudgetError as error:
        return error.least
    raise AssertionError("one percent is enough")


def plan_of(layers: int, x: torch.Tensor, budget: int) -> str:
    """The peak, the overhead that is predicted, and the slices of each layer that has some."""
    model = Network(layers)
    try:
        rt.auto_checkpoint(model, x, budget, loss=loss, slices="auto", time_limit=3)
    except rt.BudgetError as error:
        return f"{error.least / 2**20:.1f} at least"
    plan = rt.checkpoints(model)
    told = ", ".join(str(count) for count in plan.slices.values()) or "none"
    return f"{plan.measured_peak / 2**20:.1f}, +{100 * plan.overhead:.0f} %, slices: {told}"


def main() -> None:
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("--tokens", default="2048,4096,8192,16384")
    words.add_argument("--shards", type=int, default=4)
    words.add_argument("--layers", type=int, default=2)
    given = words.parse_args()
    print(
        f"| tokens | eager | {given.shards} shards | least | least in slices | in slices, at the peak of the shards |"
    )
    print("|---|---|---|---|---|---|")
    for tokens in map(int, given.tokens.split(",")):
        x = torch.randn(1, tokens, WIDTH)
        peaks = [peak_of(given.layers, x, shards) for shards in (1, given.shards)]
        peaks += [least_of(given.layers, x, slices) for slices in ("none", "auto")]
        cells = [f"{peak / 2**20:.1f}" for peak in peaks]
        print(f"| {tokens} | {' | '.join(cells)} | {plan_of(given.layers, x, peaks[1])} |", flush=True)


if __name__ == "__main__":
    main()
