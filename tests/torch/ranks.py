# SPDX-License-Identifier: Apache-2.0
"""One process of a job of several: runs a case and compares with the plain loop. Started by distributed_test.py.

usage: ranks CASE RANK SIZE STORE
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
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.nn.parallel import DistributedDataParallel

import remora.torch as rt
from remora.torch import measure
from remora.torch.cost import calls

OPTIONS: dict[str, Any] = {"time_limit": 2.0, "threads": 1}
STEPS = 5


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up, self.down, self.norm = nn.Linear(32, 64), nn.Linear(64, 32), nn.LayerNorm(32)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.down(torch.nn.functional.gelu(self.up(self.norm(x))))


def model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(*[Block() for _ in range(3)])


def batch(i: int) -> torch.Tensor:
    return torch.randn(64, 32, generator=checking.generator(10 * i + dist.get_rank()))


def whole(value: torch.Tensor) -> torch.Tensor:
    return value.full_tensor() if isinstance(value, DTensor) else value


def train(module: nn.Module, step: Callable[[torch.Tensor], Any], gradients: bool = False) -> list[torch.Tensor]:
    """Some optimizer steps; `gradients`: they are averaged over the processes behind the step."""
    optimizer = torch.optim.AdamW(module.parameters(), lr=1e-2)
    for i in range(STEPS):
        step(batch(i))
        if gradients:
            for p in module.parameters():
                assert p.grad is not None
                dist.all_reduce(p.grad)
        optimizer.step()
        optimizer.zero_grad()
    return [whole(p.detach()).clone() for p in module.parameters()]


def backward(module: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[torch.Tensor], torch.Tensor]:
    def run(x: torch.Tensor) -> torch.Tensor:
        loss = module(x).square().mean()
        loss.backward()
        return loss.detach()

    return run


def plans_of(kept: Any) -> list[rt.Plan]:
    return list(rt.plans(kept) if isinstance(kept, nn.Module) else kept.plans)


def all_reduce_in_the_step() -> tuple[Any, Any, list[Any]]:
    mine, plain = model(), model()

    def body(module: nn.Module) -> Callable[[torch.Tensor], torch.Tensor]:
        def run(x: torch.Tensor) -> torch.Tensor:
            loss = module(x).square().mean()
            loss.backward()
            for p in module.parameters():
                dist.all_reduce(p.grad)
            return loss.detach()

        return run

    step = rt.train_step(body(mine), budget="80%", **OPTIONS)
    return train(mine, step), train(plain, body(plain)), [step]


def all_reduce_behind_the_step() -> tuple[Any, Any, list[Any]]:
    mine, plain = model(), model()
    step = rt.train_step(backward(mine), budget="80%", **OPTIONS)
    return train(mine, step, True), train(plain, backward(plain), True), [step]


def ddp_around_a_wrapped_model() -> tuple[Any, Any, list[Any]]:
    # DDP lays its buckets out anew, in the order in which gradients come, and more than two processes add up in an
    # order that depends on where a number lies: so the buckets stay as they are, for both.
    fixed = {"find_unused_parameters": True}
    inner, plain = rt.wrap(model(), budget="80%", **OPTIONS), DistributedDataParallel(model(), **fixed)
    mine = DistributedDataParallel(inner, **fixed)
    return train(mine, backward(mine)), train(plain, backward(plain)), [inner]


def _tensor_parallel() -> nn.Module:
    made, mesh = model(), init_device_mesh("cpu", (dist.get_world_size(),))
    for block in made:
        parallelize_module(block, mesh, {"up": ColwiseParallel(), "down": RowwiseParallel()})
    return made


def tensor_parallel_step() -> tuple[Any, Any, list[Any]]:
    mine, plain = _tensor_parallel(), _tensor_parallel()
    step = rt.train_step(backward(mine), budget="85%", **OPTIONS)
    return train(mine, step), train(plain, backward(plain)), [step]


def tensor_parallel_wrapped() -> tuple[Any, Any, list[Any]]:
    mine, plain = rt.wrap(_tensor_parallel(), budget="85%", **OPTIONS), _tensor_parallel()
    return train(mine, backward(mine)), train(plain, backward(plain)), [mine]


def sharded(wrapped: bool) -> nn.Module:
    made = model()
    for block in made:
        fully_shard(block)
        if wrapped:
            rt.wrap(block, budget="90%", **OPTIONS)
    fully_shard(made)
    return made


def fsdp_by_blocks() -> tuple[Any, Any, list[Any]]:
    mine, plain = sharded(True), sharded(False)
    return train(mine, backward(mine)), train(plain, backward(plain)), list(mine.children())


def checkpointed(module: nn.Module) -> nn.Module:
    """The model under half of what it takes, whose clocks are those of this process."""
    plain_between = measure.Clock.between
    factor = 1.0 + 7.0 * dist.get_rank()
    measure.Clock.between = lambda *marks: factor * plain_between(*marks)  # type: ignore[method-assign]
    rt.auto_checkpoint(module, batch(0), "75%", loss=lambda m, x: m(x).square().mean(), time_limit=2.0, threads=1)
    return module


def checkpoints_in_ddp() -> tuple[Any, Any, list[Any]]:
    inner = checkpointed(model())
    mine, plain = DistributedDataParallel(inner), DistributedDataParallel(model())
    return train(mine, backward(mine)), train(plain, backward(plain)), [inner]


def checkpoints_in_fsdp() -> tuple[Any, Any, list[Any]]:
    mine = checkpointed(model())
    plan = rt.checkpoints(mine)
    for block in mine:
        fully_shard(block)
    fully_shard(mine)
    plain, later = sharded(False), sharded(False)
    rt.apply_checkpoints(later, plan)
    values = train(plain, backward(plain))
    assert all(checking.same(a, b) for a, b in zip(train(later, backward(later)), values, strict=True))
    return train(mine, backward(mine)), values, [later]


def checkpoints_of_ddp() -> str:
    return refusal(lambda: checkpointed(DistributedDataParallel(model())))


def checkpoints_of_fsdp() -> str:
    return refusal(lambda: checkpointed(sharded(False)))


def stock_compile() -> dict[str, Any]:
    """Inductor's partition of one process is that of all, whatever their clocks say."""
    import remora.torch.inductor as inductor
    from remora.torch.cost import kernels

    plain_time = kernels._measured

    def disagreeing(*given: Any) -> list[int]:
        time, workspace = plain_time(*given)
        return [time if dist.get_rank() == 0 else 1 + (time * 7919) % 100_003, workspace]

    kernels._measured = disagreeing
    mine, plain = model(), model()
    with torch._functorch.config.patch(enable_autograd_cache=False), inductor.install("75%", **OPTIONS) as installed:
        trained = train(mine, backward(torch.compile(mine)), True)
    for a, b in zip(trained, train(plain, backward(plain), True), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-4)
    return {"plans": [plan.digest for plan in installed.plans]}


def refusal(run: Callable[[], Any]) -> str:
    try:
        run()
    except (rt.CaptureError, rt.CheckpointError) as error:
        return str(error)
    return "not refused"


def fsdp_whole() -> str:
    return refusal(lambda: rt.wrap(sharded(False), budget="90%", **OPTIONS))


def fsdp_in_a_step() -> str:
    return refusal(lambda: rt.train_step(backward(sharded(False)), budget="90%", **OPTIONS)(batch(0)))


def wrapped_ddp() -> str:
    return refusal(lambda: rt.wrap(DistributedDataParallel(model()), budget="90%", **OPTIONS))


def ddp_in_a_step() -> str:
    step = rt.train_step(backward(DistributedDataParallel(model())), budget="90%", **OPTIONS)
    return refusal(lambda: step(batch(0)))


def told_of(kept: list[Any]) -> dict[str, Any]:
    """The plans of a case, and how much runs again."""
    if isinstance(kept[0], nn.Module) and case_of_checkpoints(kept[0]):
        plan = rt.checkpoints(kept[0])
        return {"plans": plan.to_json(), "recomputes": len(plan.modules)}
    plans = [plan for part in kept for plan in plans_of(part)]
    assert plans
    return {"plans": [plan.digest for plan in plans], "recomputes": sum(plan.recomputes for plan in plans)}


def case_of_checkpoints(module: nn.Module) -> bool:
    return any("forward" in part.__dict__ for part in module.modules())


def main(case: str, rank: int, size: int, store: str) -> None:
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True, warn_only=checking.DEVICE.type == "cuda")
    checking.use_device()
    dist.init_process_group(
        "nccl" if checking.DEVICE.type == "cuda" else "gloo",
        rank=rank,
        world_size=size,
        store=dist.FileStore(store, size),
    )
    plain_time = calls.Call.time

    def disagreeing(call: calls.Call) -> int:
        """Another clock on each process, which even orders ops differently."""
        measured = plain_time(call)
        return measured if rank == 0 else 1 + (measured * 7919 * rank) % 100_003

    calls.Call.time = disagreeing  # type: ignore[method-assign]
    outcome = globals()[case]()
    if isinstance(outcome, str):
        print(json.dumps({"refused": outcome}))
    elif isinstance(outcome, dict):
        print(json.dumps(outcome))
    else:
        mine, plain, kept = outcome
        assert all(checking.same(a, b) for a, b in zip(mine, plain, strict=True)), (
            "parameters differ from the plain loop's"
        )
        print(json.dumps(told_of(kept)))
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4])
