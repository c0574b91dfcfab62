# SPDX-License-Identifier: Apache-2.0
"""One eager training step, written down as a list of events: what `problem.eager` replays under a plan.

    forward   an op ran (what it made, the most it took, its time); a storage died, though autograd kept nothing;
              a module was entered and left, with which tensors; autograd saved a tensor, or let go of one that no
              backward asks for
    backward  a saved tensor was asked for; it was let go of; between these, what the backward ops took and gave back

`capture.record` makes it.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field

import torch

PLAIN = (torch.Tensor, type(None), bool, int, float, complex, str, bytes, enum.Enum, torch.dtype, torch.device)
"""Types of arguments with which a forward may run again: they keep no memory of the first run."""
FIXED = -1
"""The storage of a parameter, a buffer or an argument of the step: permanently resident."""


class Event(enum.Enum):
    """Kinds of events, and the meaning of an event's number."""

    OP = 1  # the op
    FREE = 2  # the storage
    ENTER = 3  # the call
    LEAVE = 4  # the call
    SAVE = 5  # the saved tensor
    UNPACK = 6  # the saved tensor
    RELEASE = 7  # the saved tensor
    TAKE = 8  # the stretch


@dataclass
class EagerOp:
    """One dispatched call of the forward."""

    name: str
    made: list[int]  # storages
    most: int = 0  # bytes beyond those that were there when it began, at most
    seconds: float = 0.0
    random: bool = False
    aliasing: bool = False  # gives views, or storages that were there
    foreign: bool = False  # what it made is changed in place later


@dataclass
class ModuleCall:
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
    """A step; amounts in bytes and seconds."""

    events: list[tuple[Event, int]] = field(default_factory=list)
    turn: int = 0  # events from here on are the backward's
    ops: list[EagerOp] = field(default_factory=list)
    calls: list[ModuleCall] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)  # of each storage that the forward made
    saved: list[int] = field(default_factory=list)  # the storage of each saved tensor, or FIXED
    # of each stretch of the backward: the most that its own tensors took beyond its beginning, and what they left
    stretches: list[tuple[int, int]] = field(default_factory=list)
    changed: set[str] = field(default_factory=set)  # buffers that the forward writes
    # of each storage that is written again after it was made, the last event that does so
    written: dict[int, int] = field(default_factory=dict)
    fixed: int = 0  # parameters, buffers, and the step's arguments
    seconds: float = 0.0
    mode_seconds: float = 0.0  # what a dispatch mode of Python takes an op
    marks: dict[str, list[int]] = field(default_factory=dict)  # by a range's name, the events at which it begins
    touched: dict[int, tuple[int, int]] | None = None  # of each saved tensor its first and last event in the backward
