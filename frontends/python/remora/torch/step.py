# SPDX-License-Identifier: Apache-2.0
"""An eager training step: runs it, restores what it changed, and compares what two runs left."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch

from .errors import TorchError
from .measure import allocated, random_state, rounded


class CheckpointError(TorchError):
    """A model's step cannot be checkpointed, or not by this plan; the message says why."""


@dataclass
class EagerStep:
    """A training step of a model: what is run, and what it must find each time.

    `loss` gives the scalar whose `backward()` is called.
    """

    model: torch.nn.Module
    loss: Callable[[], torch.Tensor]
    device: torch.device
    fixed: list[torch.Tensor]

    def fixed_bytes(self) -> int:
        """Parameters, buffers and the step's arguments, each storage once."""
        there = [t for t in self.fixed if t.device.type == self.device.type]
        storages = {t.untyped_storage()._cdata: t.untyped_storage().nbytes() for t in there}
        return sum(rounded(size, self.device) for size in storages.values())

    def run(self, backward: bool = True) -> torch.Tensor:
        """The loss's value; gradients are in the parameters if there was a backward."""
        loss = self.loss()
        if not isinstance(loss, torch.Tensor) or loss.numel() != 1:
            raise CheckpointError("the loss must be a tensor of one number: give auto_checkpoint `loss`")
        if backward:
            loss.backward()  # type: ignore[no-untyped-call]
        return loss.detach()

    @contextlib.contextmanager
    def kept(self) -> Iterator[None]:
        """What runs inside leaves generators, buffers and gradients as they were."""
        buffers = [(b, b.detach().clone()) for b in self.model.buffers()]
        gradients = [(p, p.grad) for p in self.model.parameters()]
        for p, _ in gradients:
            p.grad = None
        devices = [self.device] if self.device.type == "cuda" else []
        try:
            with torch.random.fork_rng(devices):
                yield
        finally:
            for p, gradient in gradients:
                p.grad = gradient
            with torch.no_grad():
                for buffer, value in buffers:
                    buffer.copy_(value)


def same_bits(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Equal in every bit; not-a-number is equal to itself."""
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    return torch.equal(a.contiguous().reshape(-1).view(torch.uint8), b.contiguous().reshape(-1).view(torch.uint8))


@dataclass
class Outcome:
    """What a step left behind, on the CPU."""

    values: dict[str, torch.Tensor]


def outcome_of(step: EagerStep) -> Outcome:
    """Runs a step, and leaves all as it was."""
    with step.kept():
        values = {"the loss": step.run().cpu()}
        gradients = ((f"the gradient of {n}", p.grad) for n, p in step.model.named_parameters())
        buffers = ((f"the buffer {n}", b) for n, b in step.model.named_buffers())
        found = [(name, value) for name, value in (*gradients, *buffers) if value is not None]
        values |= {name: _own(value.detach()).to("cpu", copy=True) for name, value in found}
        values["the generator"] = random_state(step.device).cpu()
    return Outcome(values)


def _own(value: torch.Tensor) -> torch.Tensor:
    """Of a sharded tensor this process's part."""
    local: torch.Tensor = value.to_local() if hasattr(value, "to_local") else value
    return local


def differences(mine: Outcome, eager: Outcome) -> list[str]:
    """What is not equal in every bit."""
    there = set(mine.values) ^ set(eager.values)
    return sorted(there) + [
        n for n, v in mine.values.items() if n in eager.values and not same_bits(v, eager.values[n])
    ]


def peak_of(step: EagerStep) -> int:
    """The most that a step takes beyond what was there, in bytes."""
    if step.device.type == "cpu":
        return allocated(step.run)[1]
    torch.cuda.synchronize(step.device)
    torch.cuda.reset_peak_memory_stats(step.device)
    before = int(torch.cuda.memory_allocated(step.device))
    step.run()
    torch.cuda.synchronize(step.device)
    return int(torch.cuda.max_memory_allocated(step.device)) - before
