# SPDX-License-Identifier: Apache-2.0
"""One eager training step, written down as a list of events: what `_checkpoint_replay` replays under a plan.

    forward   an op ran (what it made, the most it took, its time); a storage died, though autograd kept nothing;
              a module was entered and left, with which tensors; autograd saved a tensor
    backward  a saved tensor was asked for; it was let go of; between these, what the backward ops took and gave back

`_checkpoint_record` makes it.
"""

from __future__ import annotations

import contextlib
import enum
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch

from ._errors import TorchError
from ._graph import rounded

PLAIN = (torch.Tensor, type(None), bool, int, float, complex, str, bytes, enum.Enum, torch.dtype, torch.device)
"""What a forward may be given again when it runs again: nothing of it remembers the first run."""
FIXED = -1
"""The storage of a parameter, a buffer or an argument of the step: there throughout."""


class CheckpointError(TorchError):
    """A model's step cannot be checkpointed, or not by this plan; the message says why."""


class Kind(enum.Enum):
    """Of an event; what its number says."""

    OP = 1  # the op
    FREE = 2  # the storage
    ENTER = 3  # the call
    LEAVE = 4  # the call
    SAVE = 5  # the saved tensor
    UNPACK = 6  # the saved tensor
    RELEASE = 7  # the saved tensor
    TAKE = 8  # the stretch


@dataclass
class Op:
    """One dispatched call of the forward."""

    name: str
    made: list[int]  # storages
    most: int = 0  # bytes beyond those that were there when it began, at most
    seconds: float = 0.0
    random: bool = False
    aliasing: bool = False  # gives views, or storages that were there
    foreign: bool = False  # what it made is changed in place later


@dataclass
class Call:
    """One call of a module's forward."""

    name: str
    number: int  # of the calls of this module
    parent: int  # the call around it, -1
    arguments: list[int]  # storages of the tensors that it is given
    start: int = 0  # its events are from here
    end: int = 0  # to here, exclusive
    seconds: float = 0.0
    opaque: str = ""  # the type of an argument that may remember the first run


@dataclass
class Trace:
    """A step; amounts in bytes and seconds.

    Attributes
    ----------
    events : list of (Kind, int)
    turn : int
        Events from here on are the backward's.
    sizes : list of int
        Of each storage that the forward made.
    saved : list of int
        The storage of each saved tensor, or FIXED.
    stretches : list of (int, int)
        Of each stretch of the backward: the most that its own tensors took beyond its beginning, and what they left.
    changed : set of str
        Buffers that the forward writes.
    written : dict of int to int
        Of each storage that is written again after it was made, the last event that does so.
    fixed : int
        Parameters, buffers, and the step's arguments.
    """

    events: list[tuple[Kind, int]] = field(default_factory=list)
    turn: int = 0
    ops: list[Op] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    saved: list[int] = field(default_factory=list)
    stretches: list[tuple[int, int]] = field(default_factory=list)
    changed: set[str] = field(default_factory=set)
    written: dict[int, int] = field(default_factory=dict)
    fixed: int = 0
    seconds: float = 0.0
    mode_seconds: float = 0.0  # what a dispatch mode of Python takes an op
    marks: dict[str, list[int]] = field(default_factory=dict)  # by a range's name, the events at which it begins
    touched: dict[int, tuple[int, int]] | None = None  # of each saved tensor its first and last event in the backward


class Clock:
    """Marks in time, on the device."""

    def __init__(self, device: torch.device) -> None:
        self.gpu = device.type == "cuda"

    def mark(self) -> Any:
        if not self.gpu:
            return time.perf_counter() if torch.get_num_threads() > 1 else time.thread_time()
        event = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
        event.record()
        return event

    def between(self, start: Any, end: Any) -> float:
        if not self.gpu:
            return float(end - start)
        end.synchronize()
        return float(start.elapsed_time(end)) / 1e3


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


def set_random_state(state: torch.Tensor, device: torch.device) -> None:
    """Sets the generator from which a device's ops draw."""
    if device.type == "cuda":
        torch.cuda.set_rng_state(state, device)
    else:
        torch.set_rng_state(state)
