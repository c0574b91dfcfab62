# SPDX-License-Identifier: Apache-2.0
"""The ops of a run, each with a fingerprint of what it gave.

A checkpointed run makes ops of the forward again during its backward:

    forward        linear a    dropout b    linear c
    backward                   linear a    dropout x    ...    recomputed: x is not b

Forward ops of two runs are compared one to one. An op that is recomputed is compared with its own first run: the
recompute is laid along the forward, by op and module. Backward ops are compared by op and by the module of the forward
op whose autograd node they run in (`checking.first`). Of each result only a number of 64 bits is kept.
"""

from __future__ import annotations

import contextlib
import enum
import math
import os
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from ..internals import frames, instead

CHUNK = 1 << 18
"""So many numbers are hashed at once: hashing needs a few megabytes beyond the step."""

_UNCOMPARED = ("empty", "new_empty", "_to_copy", "clone", "resize_", "set_", "_local_scalar_dense")
"""Ops whose results have no values yet, or only copies: autocast keeps some casts for their next use."""

_RUNNING = ("running_mean", "running_var")
_TORCH = os.path.dirname(torch.__file__)
_HERE = os.path.dirname(__file__)


class Phase(str, enum.Enum):
    """When an op ran."""

    FORWARD = "forward"
    AGAIN = "recompute"
    BACKWARD = "backward"


@dataclass(frozen=True)
class Call:
    """One op that ran."""

    op: str  # "aten.addmm"
    # the path of the module that ran it; of a backward op, of the module whose forward op's gradient it computes
    module: str
    kind: str  # the class of the module
    phase: Phase
    number: int  # it was the n-th call of this op in this module and phase, from 1
    where: str  # "train.py:12" in the user's source; "" if that is not known
    results: tuple[Any, ...]  # of each result its shape, type and hash
    random: bool  # whether it draws random numbers
    changes: str  # the tensor that it changes in place, if the walk knows it

    @property
    def key(self) -> tuple[str, str]:
        """By this it is found in another run."""
        return self.op, self.module

    @property
    def types(self) -> list[torch.dtype]:
        """Types of its results."""
        return [dtype for _, dtype, _ in self.results]


class Recorder(TorchDispatchMode):
    """Notes each op that runs while it is entered; `modules`, `tensors`: their names, by `id`."""

    supports_higher_order_operators = True

    def __init__(self, modules: dict[int, str], tensors: dict[int, str]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.calls: list[Call] = []
        self._modules, self._tensors = modules, tensors
        self._running = threading.local()  # a GPU's backward runs in a thread of its own
        self._counts: Counter[tuple[str, str, Phase]] = Counter()
        self._nodes: dict[int, tuple[str, str, str]] = {}

    def __torch_dispatch__(self, op: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        result = op(*args, **kwargs)
        if isinstance(op, torch._ops.OpOverload) and _is_compared(op):
            self._note(op, args, kwargs, result)
        return result

    @contextlib.contextmanager
    def follow_modules(self) -> Iterator[None]:
        """While it lasts, the recorder knows which module runs."""
        called = torch.nn.Module.__call__

        def call(module: torch.nn.Module, *arguments: Any, **named: Any) -> Any:
            running = self._stack()
            is_again = torch._C._current_autograd_node() is not None
            running.append((self._modules.get(id(module), ""), type(module).__name__, is_again))
            try:
                return called(module, *arguments, **named)
            finally:
                running.pop()

        with instead(torch.nn.Module, "__call__", call):
            yield

    def _stack(self) -> list[tuple[str, str, bool]]:
        """The modules that run: their names and kinds, and whether they were called during a backward."""
        if not hasattr(self._running, "modules"):
            self._running.modules = [("", "", False)]
        found: list[tuple[str, str, bool]] = self._running.modules
        return found

    def _note(self, op: torch._ops.OpOverload, args: Any, kwargs: Any, result: Any) -> None:
        node = torch._C._current_autograd_node()
        module, kind, is_module_again = self._stack()[-1]
        is_again = (is_module_again or torch.is_grad_enabled()) and not _is_called_by_engine()
        phase = Phase.FORWARD if node is None else Phase.AGAIN if is_again else Phase.BACKWARD
        where = ""
        if phase is Phase.BACKWARD:
            module, kind, where = self._nodes.get(node._sequence_nr(), (module, kind, ""))
        else:
            where = _place_of_user()
            self._nodes.setdefault(torch._C._autograd._get_sequence_nr() - 1, (module, kind, where))
        name = f"{op.namespace}.{op._opname}"
        changed = _changed(op, args, kwargs)
        values = [*pytree.tree_leaves(result), *changed]
        self._counts[name, module, phase] += 1
        self.calls.append(
            Call(
                name,
                module,
                kind,
                phase,
                self._counts[name, module, phase],
                where,
                tuple((tuple(t.shape), t.dtype, _hash(t)) for t in values if isinstance(t, torch.Tensor)),
                torch.Tag.nondeterministic_seeded in op.tags,
                next((self._tensors[id(t)] for t in changed if id(t) in self._tensors), ""),
            )
        )


def _is_compared(op: torch._ops.OpOverload) -> bool:
    """True if an op's results can be compared: those of views and of memory without values cannot."""
    if op._opname.startswith(_UNCOMPARED) or "c10d" in op.namespace:
        return False
    aliases = [r.alias_info for r in op._schema.returns]
    return not aliases or any(a is None or a.is_write for a in aliases)


def _changed(op: torch._ops.OpOverload, args: Any, kwargs: Any) -> list[torch.Tensor]:
    """The arguments that an op changes in place."""
    found = []
    for i, argument in enumerate(op._schema.arguments):
        value = args[i] if i < len(args) else kwargs.get(argument.name)
        is_written = argument.alias_info is not None and argument.alias_info.is_write
        if (is_written or argument.name in _RUNNING) and isinstance(value, torch.Tensor):
            found.append(value)
    return found


def _is_called_by_engine() -> bool:
    """True if autograd's engine itself runs the op: not a function that a node of the graph calls."""
    frame = sys._getframe(3)
    return frame is None or frame.f_code.co_name == "_engine_run_backward"


def _place_of_user() -> str:
    """The innermost line of the stack that is not torch's: "train.py:12"."""
    for frame in frames():
        code = frame.f_code
        if code.co_name == "_engine_run_backward":
            break
        if not code.co_filename.startswith((_TORCH, _HERE, "<")):
            return f"{os.path.basename(code.co_filename)}:{frame.f_lineno}"
    return ""


def _hash(tensor: torch.Tensor) -> int:
    """A number of 64 bits for a tensor's values, which also knows their order; 0 of what holds no plain memory."""
    if type(tensor) not in (torch.Tensor, torch.nn.Parameter) or tensor.layout != torch.strided:
        return 0
    with torch.no_grad():
        flat = tensor.detach()
        flat = torch.view_as_real(flat.resolve_conj()) if flat.is_complex() else flat.resolve_neg()
        total = 0
        for i, part in enumerate(_parts(flat)):
            bits = part.contiguous().view(_BITS[part.element_size()]).reshape(-1).long()
            weights = torch.arange(1, bits.numel() + 1, device=bits.device) * -7046029254386353131 | 1
            mixed = bits * weights
            total += (i + 1) * int((mixed ^ (mixed >> 29)).sum())
        return total % (1 << 64)


_BITS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def _parts(tensor: torch.Tensor) -> Iterator[torch.Tensor]:
    """A tensor in pieces of bounded size, cut along its first dimensions."""
    if tensor.numel() <= CHUNK:
        yield tensor
        return
    rows = max(1, CHUNK // max(1, math.prod(tensor.shape[1:])))
    for piece in tensor.split(rows):  # type: ignore[no-untyped-call]
        if piece.numel() <= CHUNK:
            yield piece
        else:
            yield from _parts(piece[0])
