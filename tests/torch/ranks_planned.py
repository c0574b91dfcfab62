# SPDX-License-Identifier: Apache-2.0
"""One process of a job whose plan is made for several devices: FSDP2's flags and checkpoints, stages of a pipeline.

Started by distributed_test.py. usage: ranks_planned CASE RANK SIZE STORE
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

import checking
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import CPUOffloadPolicy, fully_shard
from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleInterleaved1F1B
from torch.distributed.tensor import DTensor

import remora.torch as rt
from remora.torch import measure
from remora.torch.capture.sharded import settled, units_of
from remora.torch.measure import allocated

OPTIONS: dict[str, Any] = {"time_limit": 2.0, "threads": 1}
STEPS, WIDTH, MICROBATCHES = 4, 48, 8


class Block(nn.Module):
    def __init__(self, width: int = WIDTH) -> None:
        super().__init__()
        self.up, self.down, self.norm = nn.Linear(width, 4 * width), nn.Linear(4 * width, width), nn.LayerNorm(width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.down(torch.nn.functional.gelu(self.up(self.norm(x))))


class Longer(Block):
    """A block with one more layer."""

    def __init__(self) -> None:
        super().__init__()
        self.more = nn.Sequential(nn.Linear(WIDTH, WIDTH))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.more(super().forward(x))
        return found


class Net(nn.Module):
    """Blocks, and parameters that are the root's own."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.Sequential(*[Block() for _ in range(5)])
        self.head = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.blocks(x))


class Adapted(nn.Module):
    """A frozen layer with an adapter of a low rank."""

    def __init__(self, base: nn.Linear, rank: int = 4) -> None:
        super().__init__()
        self.base = base.requires_grad_(False)
        self.down = nn.Linear(base.in_features, rank, bias=False)
        self.up = nn.Linear(rank, base.out_features, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.base(x) + self.up(self.down(x))


class Twice(Net):
    """Its blocks run two times in a step."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.blocks(self.blocks(x)))


def sharded(resharded: bool | None = None) -> nn.Module:
    torch.manual_seed(0)
    made = Net()
    for block in made.blocks:
        fully_shard(block, reshard_after_forward=resharded)
    fully_shard(made)
    return made


def adapted(resharded: bool | None = None) -> nn.Module:
    """Sharded as peft's and LlamaFactory's policies do: each trained layer without children, then each block."""
    torch.manual_seed(0)
    made = Net().requires_grad_(False)
    for block in made.blocks:
        assert isinstance(block, Block)
        block.up, block.down = Adapted(block.up), Adapted(block.down)  # type: ignore[assignment]
        for layer in block.modules():
            if isinstance(layer, nn.Linear) and layer.weight.requires_grad:
                fully_shard(layer, reshard_after_forward=resharded)
        fully_shard(block, reshard_after_forward=resharded)
    fully_shard(made)
    return made


def inner(resharded: bool | None = None) -> nn.Module:
    """Most of each block is sharded by itself, as experts are; in one of them a second time."""
    torch.manual_seed(0)
    made = Net()
    made.blocks[1] = Longer()
    for block in made.blocks:
        if isinstance(block, Longer):
            fully_shard(block.more[0], reshard_after_forward=resharded)
            fully_shard(block.more, reshard_after_forward=resharded)
        fully_shard(block.down, reshard_after_forward=resharded)
        fully_shard(block, reshard_after_forward=resharded)
    fully_shard(made)
    return made


MADE: dict[str, Callable[..., nn.Module]] = {"sharded": sharded, "adapted": adapted, "inner": inner}


def batch(i: int) -> torch.Tensor:
    return torch.randn(96, WIDTH, generator=torch.Generator().manual_seed(10 * i + dist.get_rank()))


def loss(module: nn.Module, x: torch.Tensor) -> torch.Tensor:
    return module(x).square().mean()


def trained(module: nn.Module) -> list[torch.Tensor]:
    optimizer = torch.optim.AdamW(module.parameters(), lr=1e-2)
    for i in range(STEPS):
        loss(module, batch(i)).backward()
        optimizer.step()
        optimizer.zero_grad()
    return [p.full_tensor() if isinstance(p, DTensor) else p.detach() for p in module.parameters()]


def peak(module: nn.Module) -> int:
    """Of a step, with shards and batch, whose collectives are waited for."""
    x = batch(0)
    there = [p.to_local() for p in module.parameters() if isinstance(p, DTensor)]
    fixed = sum(t.untyped_storage().nbytes() for t in [*there, x])
    with settled(units_of(module), torch.device("cpu")):
        found = allocated(lambda: loss(module, x).backward())[1]
    module.zero_grad()
    return fixed + found


def disagree() -> None:
    """Clocks of the processes differ."""
    plain_between = measure.Clock.between
    factor = 1.0 + 7.0 * dist.get_rank()
    measure.Clock.between = lambda *marks: factor * plain_between(*marks)  # type: ignore[method-assign]


def fsdp(budget: int | str, kind: str = "sharded") -> dict[str, Any]:
    make = MADE[kind]
    plain = trained(make())
    keeping = peak(make(False))
    disagree()
    mine = make()
    rt.auto_fsdp(mine, batch(0), budget, loss=loss, **OPTIONS)
    assert all(p.grad is None for p in mine.parameters())
    plan = rt.checkpoints(mine)
    measured = peak(mine)
    assert measured <= plan.budget < keeping, (measured, plan, keeping)
    assert abs(plan.predicted_peak - measured) <= 0.01 * measured, (plan, measured)
    assert abs(plan.unscheduled_peak - keeping) <= 0.01 * keeping, (plan, keeping)
    assert plan.bound <= plan.predicted_time
    values = trained(mine)
    assert all(checking.same(a, b) for a, b in zip(values, plain, strict=True))
    later = rt.apply_checkpoints(make(), rt.Plan.from_json(plan.to_json()))
    assert all(checking.same(a, b) for a, b in zip(trained(later), plain, strict=True))
    assert "remove_checkpoints" in refusal(lambda: rt.auto_fsdp(later, batch(0), budget, loss=loss, **OPTIONS))
    assert peak(rt.remove_checkpoints(later)) == peak(make())
    assert all(checking.same(a, b) for a, b in zip(trained(later), trained(trained_once(make)), strict=True))
    return {"digest": plan.digest, "resharded": plan.reshard, "checkpoints": len(plan.modules)}


def trained_once(make: Callable[..., nn.Module]) -> nn.Module:
    """Without a plan."""
    made = make()
    trained(made)
    return made


def fsdp_some() -> dict[str, Any]:
    return fsdp("85%")


def fsdp_adapted() -> dict[str, Any]:
    return fsdp("75%", "adapted")


def fsdp_inner() -> dict[str, Any]:
    return fsdp("75%", "inner")


def fsdp_least(kind: str = "sharded") -> dict[str, Any]:
    """No plan holds a tenth, and the model is as it was; what is told to be the least has a plan, which needs both."""
    mine = MADE[kind]()
    try:
        rt.auto_fsdp(mine, batch(0), "10%", loss=loss, **OPTIONS)
    except rt.BudgetError as error:
        least = error.least
    assert all(p.grad is None for p in mine.parameters())
    assert all(checking.same(a, b) for a, b in zip(trained(mine), trained(MADE[kind]()), strict=True))
    return fsdp(least, kind)


def fsdp_least_adapted() -> dict[str, Any]:
    return fsdp_least("adapted")


def fsdp_least_inner() -> dict[str, Any]:
    return fsdp_least("inner")


def stepping(module: nn.Module) -> Callable[[], list[torch.Tensor]]:
    """Gives each parameter an optimizer that steps in the backward; what is returned tells what they changed."""
    optimizers = {p: torch.optim.AdamW([p], lr=1e-2) for p in module.parameters()}

    def update(p: torch.Tensor) -> None:
        optimizers[p].step()  # type: ignore[index]
        p.grad = None

    for p in module.parameters():
        p.register_post_accumulate_grad_hook(update)

    def look() -> list[torch.Tensor]:
        moments = [t for o in optimizers.values() for row in o.state.values() for t in row.values()]
        found = [t.to_local() if isinstance(t, DTensor) else t for t in (*module.parameters(), *moments)]
        return [t.detach().clone() for t in found]

    return look


def fsdp_hooks() -> dict[str, Any]:
    """Optimizers that step in the backward have made no step when the plan is there, and make the same ones then."""
    found = []
    for plan in (False, True):
        module = sharded()
        look = stepping(module)
        before = look()
        if plan:
            rt.auto_fsdp(module, batch(0), "90%", loss=loss, **OPTIONS)
            assert len(look()) == len(before)
            assert all(checking.same(a, b) for a, b in zip(look(), before, strict=True))
        for i in range(STEPS):
            loss(module, batch(i)).backward()
        found.append(look())
    assert all(checking.same(a, b) for a, b in zip(*found, strict=True))
    return {"planned": True}


# -- A pipeline --------------------------------------------------------------------------------------------------------


def stage_module() -> nn.Module:
    torch.manual_seed(dist.get_rank())
    return nn.Sequential(*[Block(32) for _ in range(4)])


def scheduled(module: nn.Module) -> tuple[Any, tuple[Any, ...], Any]:
    """A schedule, and what its step is given."""
    rank, size = dist.get_rank(), dist.get_world_size()
    stage = PipelineStage(module, rank, size, torch.device("cpu"))
    schedule = Schedule1F1B(stage, MICROBATCHES, loss_fn=lambda y, t: (y - t).square().mean())
    whole, aim = (torch.randn(64 * MICROBATCHES, 32, generator=torch.Generator().manual_seed(i)) for i in (1, 2))
    return schedule, (whole,) if rank == 0 else (), aim if rank == size - 1 else None


def stage_step(module: nn.Module) -> tuple[Callable[[], Any], Any, tuple[Any, ...], Any]:
    schedule, given, target = scheduled(module)
    return lambda: schedule.step(*given, target=target), schedule, given, target


def one_f_one_b() -> dict[str, Any]:
    plain, mine = stage_module(), stage_module()
    run, schedule, *_ = stage_step(plain)
    run()
    schedule._stage.clear_runtime_states()
    gradients = [p.grad.clone() for p in plain.parameters() if p.grad is not None]
    plain_peak = allocated(run)[1]
    run, schedule, given, target = stage_step(mine)
    disagree()
    fit = rt.auto_pipeline(schedule, *given, target=target, budget=["60%", "65%", "75%", "90%"], **OPTIONS)
    assert all(p.grad is None for p in mine.parameters())
    run()
    for p, gradient in zip(mine.parameters(), gradients, strict=True):
        assert p.grad is not None
        assert checking.same(p.grad, gradient)
    own = dist.get_rank()
    fixed = 2 * sum(p.nbytes for p in mine.parameters())
    schedule._stage.clear_runtime_states()  # outputs of the step before
    measured = fixed + allocated(run)[1]
    predicted = fit.stages[own].predicted_peak
    assert measured <= fit.stages[own].budget < fixed + plain_peak, (measured, fit, plain_peak)
    assert abs(measured - fit.peaks[own]) <= 0.01 * measured, (measured, fit.peaks)
    assert 0.9 * predicted <= measured <= 1.01 * predicted, (measured, fit)
    assert fit.bound <= fit.predicted_time and fit.unscheduled_time <= fit.predicted_time
    return {"digest": fit.digest, "checkpoints": [len(stage.modules) for stage in fit.stages], "fit": str(fit.peaks)}


def pipeline_hooks() -> dict[str, Any]:
    """A pipeline's weights are updated in the backward, past autograd, which saves them for other microbatches."""
    module = stage_module()
    momentum = {p: torch.zeros_like(p) for p in module.parameters()}

    def update(p: torch.Tensor) -> None:
        p.data.sub_(momentum[p].mul_(0.9).add_(p.grad), alpha=0.01)  # type: ignore[index, arg-type]

    for p in module.parameters():
        p.register_post_accumulate_grad_hook(update)
    before = [t.detach().clone() for t in (*momentum.values(), *module.parameters())]
    _, schedule, given, target = stage_step(module)
    rt.auto_pipeline(schedule, *given, target=target, budget="100%", **OPTIONS)
    assert all(checking.same(a, b) for a, b in zip((*momentum.values(), *module.parameters()), before, strict=True))
    return {"planned": True}


# -- What is refused ---------------------------------------------------------------------------------------------------


def refusal(run: Callable[[], Any]) -> str:
    try:
        run()
    except rt.CheckpointError as error:
        return str(error)
    return "not refused"


def refusals() -> dict[str, str]:
    """What is said of each."""
    alone = Net()
    fully_shard(alone)
    own = batch(0)[dist.get_rank() :]  # one row less on the second process
    cpu = torch.device("cpu")
    ahead, offloaded, twice, own_ones = sharded(), Net(), Twice(), sharded()
    ahead.blocks[1].set_modules_to_backward_prefetch([ahead.blocks[0]])
    for module in (*offloaded.blocks, offloaded):
        fully_shard(module, offload_policy=CPUOffloadPolicy(pin_memory=False))
    for module in (*twice.blocks, twice):
        fully_shard(module)
    own_ones.gradient_checkpointing = True
    stages = [PipelineStage(Block(32), i, 4, cpu) for i in (dist.get_rank(), dist.get_rank() + 2)]
    schedule = ScheduleInterleaved1F1B(stages, 4, loss_fn=lambda y, t: (y - t).square().mean())
    return {
        "whole_alone": refusal(lambda: rt.auto_fsdp(alone, batch(0), "80%", loss=loss, **OPTIONS)),
        "not_sharded": refusal(lambda: rt.auto_fsdp(Net(), batch(0), "80%", loss=loss, **OPTIONS)),
        "unlike": refusal(lambda: rt.auto_fsdp(sharded(), own, "80%", loss=loss, **OPTIONS)),
        "ahead": refusal(lambda: rt.auto_fsdp(ahead, batch(0), "80%", loss=loss, **OPTIONS)),
        "offloaded": refusal(lambda: rt.auto_fsdp(offloaded, batch(0), "80%", loss=loss, **OPTIONS)),
        "twice": refusal(lambda: rt.auto_fsdp(twice, batch(0), "80%", loss=loss, **OPTIONS)),
        "own_ones": refusal(lambda: rt.auto_fsdp(own_ones, batch(0), "80%", loss=loss, **OPTIONS)),
        "interleaved": refusal(lambda: rt.auto_pipeline(schedule, budget="80%", **OPTIONS)),
    }


def main(case: str, rank: int, size: int, store: str) -> None:
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    dist.init_process_group("gloo", rank=rank, world_size=size, store=dist.FileStore(store, size))
    print(json.dumps(globals()[case]()))
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4])
