# SPDX-License-Identifier: Apache-2.0
"""Memory on a device in addition to the tensors of a step, and how it is divided among processes.

    throughout   parameters, buffers, batch, optimizer state, average of the weights, DDP's buckets, context,
                 workspaces, gradients of earlier micro-steps, and what the user reserves
    the step     what the schedule says, gradients included
    the update   gradients, and temporaries of the optimizer

With FSDP each process holds its part of each parameter, gradient and state (the first dimension, divided and rounded
up), and what is whole for a while: the parameters of the unit that runs and of the next one, which is fetched
meanwhile, and the gradients of two units, one being computed and one being summed. What belongs to no unit is whole
throughout forward and backward. That is counted as if all came at once: a bound, not an exact figure.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch

from remora.errors import InputError

from ..capture.graph import StepGraph, storage_bytes, storages_bytes
from ..capture.optimizer import OptimizerMemory
from ..measure import rounded


@dataclass(frozen=True)
class Item:
    """One line of a step's memory: bytes, if they are exact, and when they are allocated.

    `when`: "throughout", "step", "update". `exact`: bytes of tensors, counted one by one; otherwise a constant of the
    device or a bound, as `note` says.
    """

    name: str
    size: int
    when: str
    exact: bool
    note: str = ""


@dataclass(frozen=True)
class Sharding:
    """How many processes share a model, and how: "ddp" (each has all) or "fsdp" (each has a part)."""

    ranks: int = 1
    kind: str = "ddp"

    def __post_init__(self) -> None:
        if self.kind not in ("ddp", "fsdp"):
            raise InputError("sharding", f"{self.kind!r} is none of ddp, fsdp")
        if not isinstance(self.ranks, int) or self.ranks < 1:
            raise InputError("ranks", f"{self.ranks!r} is not a whole number of at least 1")

    @property
    def divides(self) -> bool:
        """True if each process holds a part of the parameters."""
        return self.kind == "fsdp" and self.ranks > 1

    def part(self, tensor: torch.Tensor) -> int:
        """The bytes of one process's part of a parameter, gradient or state."""
        if not self.divides or tensor.dim() == 0:
            return size_of(tensor)
        rows = -(-tensor.shape[0] // self.ranks)
        return rounded(rows * (tensor.numel() // max(1, tensor.shape[0])) * tensor.itemsize, tensor.device)


def size_of(tensor: torch.Tensor) -> int:
    """The bytes of a tensor's storage, as its device's allocator gives them."""
    return storage_bytes(tensor, tensor.device)


def units_of(model: torch.nn.Module) -> list[torch.nn.Module]:
    """The modules that are usually sharded one by one: the members of the model's largest list of modules."""
    lists = [m for m in model.modules() if isinstance(m, (torch.nn.ModuleList, torch.nn.Sequential)) and len(m) > 1]
    weights = {id(m): sum(p.numel() for p in m.parameters()) for m in lists}
    largest = max(lists, key=lambda m: weights[id(m)], default=None)
    return list(largest) if largest is not None else []


def whole_for_a_while(model: torch.nn.Module, sharding: Sharding) -> int:
    """The bytes of what FSDP has whole at once, at most."""
    if not sharding.divides:
        return 0
    sizes = [(storages_bytes(unit.parameters()), _trained(unit.parameters())) for unit in units_of(model)]
    sizes.sort(reverse=True)
    inside = {id(p) for unit in units_of(model) for p in unit.parameters()}
    root = [p for p in model.parameters() if id(p) not in inside]
    of_units = sum(whole + gradients for whole, gradients in sizes[:2])
    return storages_bytes(root) + _trained(root) + of_units


def _trained(parameters: Iterable[torch.nn.Parameter]) -> int:
    return sum(size_of(p) for p in parameters if p.requires_grad)


def shard_graph(step: StepGraph, gradients: Sequence[torch.Tensor], sharding: Sharding) -> None:
    """Gradients and parameters of a captured step count as one process's part of them."""
    if not sharding.divides:
        return
    parts: dict[int, list[int]] = {}
    for gradient in gradients:
        parts.setdefault(size_of(gradient), []).append(sharding.part(gradient))
    for storage in step.storages:
        if (storage.keep or storage.fixed) and parts.get(storage.size):
            storage.size = max(parts[storage.size])


def throughout(
    model: torch.nn.Module,
    batch: Sequence[torch.Tensor],
    optimizer: OptimizerMemory,
    trained: Sequence[torch.nn.Parameter],
    sharding: Sharding,
    average: bool,
) -> list[Item]:
    """Permanently resident memory, in addition to the device's own."""
    parameters = list(model.parameters())
    own = {p.untyped_storage()._cdata for p in parameters}
    buffers = [b for b in model.buffers() if b.untyped_storage()._cdata not in own and b.device.type != "meta"]
    place = parameters[0].device if parameters else torch.device("cpu")
    held = sum(sharding.part(p) for p in parameters) if sharding.divides else storages_bytes(parameters)
    parts = f"1 of {sharding.ranks} parts" if sharding.divides else ""
    items = [
        Item("parameters", held, "throughout", True, parts),
        Item("buffers", storages_bytes(buffers), "throughout", True),
        Item("batch", storages_bytes(t for t in batch if t.device.type == place.type), "throughout", True),
    ]
    if optimizer.state:
        items.append(Item("optimizer state", optimizer.state, "throughout", not sharding.divides, parts))
    if average:
        copied = held + storages_bytes(buffers) + (8 if place.type == "cpu" else 512)
        items.append(Item("average of the weights", copied, "throughout", True))
    if sharding.ranks > 1 and sharding.kind == "ddp":
        buckets = sum(size_of(p) for p in trained)
        items.append(Item("DDP's buckets", buckets, "throughout", False, "none with gradient_as_bucket_view=True"))
    if sharding.divides:
        note = "two units' parameters and gradients, and what is in no unit: a bound"
        items.append(Item("unsharded by FSDP", whole_for_a_while(model, sharding), "step", False, note))
    return [item for item in items if item.size]
