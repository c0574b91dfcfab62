# SPDX-License-Identifier: Apache-2.0
"""One process of a job that trains random models in slices, under DDP and FSDP2: equal, or refused by name.

Started by checkpoint_slices_test.py. usage: ranks_slices CASES RANK SIZE STORE
"""

from __future__ import annotations

import json
import random
import sys
from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F  # noqa: N812
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor
from torch.nn.parallel import DistributedDataParallel

import remora.torch as rt

WORDS, WIDTH = 60, 16


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.mix = nn.Linear(8, 8)
        self.mlp = nn.Sequential(nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 48), nn.GELU(), nn.Linear(48, WIDTH))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.mix(x.transpose(1, 2)).transpose(1, 2)
        return x + self.mlp(x)  # type: ignore[no-any-return]


class Language(nn.Module):
    def __init__(self, draw: random.Random) -> None:
        super().__init__()
        self.embed = nn.Embedding(WORDS, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(draw.randrange(1, 4)))
        self.head = nn.Linear(WIDTH, WORDS, bias=draw.random() < 0.5)
        if draw.random() < 0.5:
            self.head.weight = self.embed.weight
        if draw.random() < 0.3:
            self.blocks.append(self.blocks[0])
        self.outside = draw.random() < 0.3

    def forward(self, x: torch.Tensor) -> Any:
        h = self.embed(x)
        for block in self.blocks:
            h = block(h)
        logits = self.head(h)
        return logits if self.outside else (self.loss(logits, x), logits)

    @staticmethod
    def loss(logits: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(logits[:, :-1].reshape(-1, WORDS), x[:, 1:].flatten())


def trained(seed: int, slices: dict[str, int], is_whole: bool) -> list[torch.Tensor]:
    """The gradients of two steps, which add up; `is_whole`: all logits are read, outside of the module."""
    draw = random.Random(seed)
    torch.manual_seed(seed)
    model: Any = Language(draw)
    if slices:
        rt.apply_checkpoints(model, rt.CheckpointPlan(slices=slices))
    kinds = ["ddp", "ddp_static", "ddp_unused", "fsdp", "fsdp_blocks", "fsdp_inner"]
    is_tied = model.head.weight is model.embed.weight
    kind = draw.choice(kinds if is_tied else [*kinds, "fsdp_head"])  # FSDP2 keeps shared parameters together
    module = model
    if kind.startswith("ddp"):
        module = DistributedDataParallel(
            model, static_graph=kind == "ddp_static", find_unused_parameters=kind == "ddp_unused"
        )
    else:
        inner = {"fsdp_blocks": list(model.blocks), "fsdp_head": [model.head], "fsdp_inner": [model.blocks[0].mlp[1]]}
        for part in dict.fromkeys(inner.get(kind, [])):
            fully_shard(part)
        fully_shard(model)
    for i in range(2):
        x = torch.randint(
            0, WORDS, (2, 8), generator=torch.Generator().manual_seed(100 * seed + 10 * i + dist.get_rank())
        )
        result = module(x)
        loss = Language.loss(result, x) if model.outside else result[0]
        loss = (result if model.outside else result[1]).square().mean() if is_whole else loss
        loss.backward()
    found = [p.grad for p in model.parameters()]
    return [g.full_tensor() if isinstance(g, DTensor) else g for g in found if g is not None]


def case(seed: int, is_whole: bool = False) -> str:
    draw = random.Random(-1 - seed)
    slices = {"head": draw.choice([1, 2, 3, 50])} if draw.random() < 0.8 else {}
    slices |= {"blocks.0.mlp": draw.choice([2, 3])} if draw.random() < 0.6 or not slices else {}
    expected = trained(seed, {}, is_whole)
    try:
        found = trained(seed, slices, is_whole)
    except rt.CheckpointError as error:
        return f"refused: {error}"
    assert len(found) == len(expected), "a parameter has no gradient"
    for a, b in zip(found, expected, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-6)
    return "equal"


def main(cases: int, rank: int, size: int, store: str) -> None:
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=size)
    found = [case(seed) for seed in range(cases)]
    # FSDP2 shards the model alone, and the loss or another reader of the logits is outside.
    found += [case(seed, is_whole) for seed in (34, 47) for is_whole in (False, True)]
    print(json.dumps(found))
    dist.destroy_process_group()


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4])
