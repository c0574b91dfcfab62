# SPDX-License-Identifier: Apache-2.0
"""How a step is written down: the runs that make a `Trace`.

Three runs give it, besides those that are timed. The first two run the forward alone and keep nothing of what autograd
saves, so that they show how long a storage lives by itself: in one the ops are timed, in one PyTorch's older profiler
tells what the allocator does. The third runs forward and backward as they are; only what is saved passes through hooks,
so that nothing else differs from eager.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import torch
from torch.autograd.graph import saved_tensors_hooks
from torch.autograd.profiler import record_function
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes

from ..measure import COLLECTED, Clock, mark, profiled, random_state, rounded
from ..step import CheckpointError, EagerStep, Timing, entered, same_bits
from .trace import FIXED, PLAIN, EagerOp, Event, ModuleCall, Trace

MARKED = "FSDP::pre_backward"
"""Where ranges of this name begin in the backward is noted."""


class _Storages:
    """Numbers for storages, in the order in which they are first seen; the same step has the same numbers."""

    def __init__(self, fixed: Iterable[int], device: torch.device) -> None:
        self.fixed = set(fixed)
        self.device, self.sizes = device, list[int]()
        self.living: dict[int, tuple[int, StorageWeakRef]] = {}

    def number(self, tensor: torch.Tensor) -> tuple[int, bool]:
        """The number of a tensor's storage, and whether it is new."""
        if tensor.device.type != self.device.type or tensor.layout != torch.strided:
            return FIXED, False
        storage = tensor.untyped_storage()
        key = storage._cdata
        if key in self.fixed:
            return FIXED, False
        there = self.living.get(key)
        if there is not None and not there[1].expired():  # type: ignore[no-untyped-call]
            return there[0], False
        if not storage.resizable():  # numpy's memory, or a file's
            return FIXED, False
        self.living[key] = len(self.sizes), StorageWeakRef(storage)  # type: ignore[no-untyped-call]
        self.sizes.append(rounded(storage.nbytes(), self.device))
        return len(self.sizes) - 1, True

    def dead(self) -> list[int]:
        """Those that died since the last time."""
        gone = [
            key
            for key, (_, weak) in self.living.items()
            if weak.expired()  # type: ignore[no-untyped-call]
        ]
        return [self.living.pop(key)[0] for key in gone]


class _Forward(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Writes the forward's events down; `others`: storages that are there before the step, in addition to its own."""

    def __init__(self, step: EagerStep, others: Iterable[int] = ()) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.trace, self.clock, self.device = Trace(), Clock(step.device), step.device
        self.storages = _Storages([*(t.untyped_storage()._cdata for t in step.fixed), *others], step.device)
        self.foreign = set[int]()
        self.ended = False
        self.marks: list[tuple[Any, Any]] = []
        self.stack: list[int] = []
        self.counts: dict[str, int] = {}
        self.maker: dict[int, EagerOp] = {}

    def add(self, kind: Event, number: int) -> None:
        self.trace.events += [(Event.FREE, s) for s in self.storages.dead()]
        self.trace.events.append((kind, number))

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = [t for t in pytree.tree_leaves((args, kwargs)) if isinstance(t, torch.Tensor)]
        before = random_state(self.device)
        number = len(self.trace.ops)
        op = EagerOp(str(func), [])
        self.trace.ops.append(op)
        foreign = [self.storages.number(t) for t in given]  # made by no op, as from Python's numbers
        self.add(Event.OP, number)
        start = self.clock.mark()
        with record_function(f"remora op {number}"):
            result = func(*args, **(kwargs or {}))
        with record_function(f"remora end {number}"):
            self.marks.append((start, self.clock.mark()))
        op.random = not torch.equal(before, random_state(self.device))
        op.made += [s for s, new in foreign if new]
        self.foreign.update(s for s, new in foreign if new)
        for tensor in pytree.tree_leaves(result):
            if isinstance(tensor, torch.Tensor):
                storage, new = self.storages.number(tensor)
                op.aliasing |= not new
                if new:
                    op.made.append(storage)
                    self.maker[storage] = op
        if func._schema.is_mutable:
            self._note_writes(func, args, kwargs or {})
        return result

    def _note_writes(self, func: Any, args: Any, kwargs: Any) -> None:
        rows = [*zip(func._schema.arguments, args, strict=False)]
        rows += [(a, kwargs[a.name]) for a in func._schema.arguments if a.name in kwargs]
        written = [value for a, value in rows if a.alias_info is not None and a.alias_info.is_write]
        for tensor in pytree.tree_leaves(written):
            storage = self.storages.number(tensor)[0] if isinstance(tensor, torch.Tensor) else FIXED
            if storage != FIXED:
                self.trace.written[storage] = len(self.trace.events) - 1
                if storage in self.maker:
                    self.maker[storage].foreign = True

    def pack(self, tensor: torch.Tensor) -> _Place:
        self.trace.saved.append(self.storages.number(tensor)[0])
        self.add(Event.SAVE, len(self.trace.saved) - 1)
        return _Place(self, len(self.trace.saved) - 1)

    def unpack(self, _: _Place) -> torch.Tensor:
        raise CheckpointError("the forward asks for a gradient itself (autograd.grad, a gradient penalty)")

    def left(self) -> list[int]:
        """Storages that no op made, and that are still there: of what the loss closes over, such as the targets."""
        there = self.storages.living.items()
        return [key for key, (s, weak) in there if s in self.foreign and not weak.expired()]  # type: ignore[no-untyped-call]

    @contextlib.contextmanager
    def call(self, name: str, module: torch.nn.Module, arguments: Any) -> Iterator[None]:
        leaves = pytree.tree_leaves(arguments)
        opaque = next((type(x).__name__ for x in leaves if not isinstance(x, PLAIN) and not callable(x)), "")
        tensors = [x for x in leaves if isinstance(x, torch.Tensor)]
        count = self.counts[name] = self.counts.get(name, 0) + 1
        parent = self.stack[-1] if self.stack else -1
        storages = [s for s in (self.storages.number(t)[0] for t in tensors) if s != FIXED]
        call = ModuleCall(name, count - 1, parent, storages, opaque=opaque)
        number = len(self.trace.calls)
        self.trace.calls.append(call)
        self.stack.append(number)
        with _disable_current_modes():
            old = {key: b.detach().clone() for key, b in module._buffers.items() if b is not None}
        self.add(Event.ENTER, number)
        call.start = len(self.trace.events)
        start = self.clock.mark()
        yield
        self.marks.append((start, self.clock.mark()))
        self.add(Event.LEAVE, number)
        call.end = len(self.trace.events) - 1
        self.stack.pop()
        with _disable_current_modes():
            for key, value in old.items():
                now = module._buffers[key]
                if now is None or not same_bits(value, now.detach()):
                    self.trace.changed.add(f"{name}.{key}".lstrip("."))


class _Place:
    """A saved tensor's place. If autograd lets go of it in the forward, no backward asks for it (`detach`)."""

    def __init__(self, recorder: _Forward, number: int) -> None:
        self.recorder, self.number = recorder, number

    def __del__(self) -> None:
        if not self.recorder.ended:
            self.recorder.add(Event.RELEASE, self.number)


def traced(step: EagerStep, timings: Sequence[Timing]) -> Trace:
    """Runs a step a few times more than it was timed, and writes down what it does. The model is left as it was."""
    if torch._C._autograd._profiler_enabled():
        raise CheckpointError("a step is measured by PyTorch's profiler, which runs already: end it first")
    timed, call_seconds, others = _timed(step, timings)
    recorder, memory = _forward(step, others)
    saves, backward = _backward(step)
    trace = recorder.trace
    if [op.name for op in timed.ops] != [op.name for op in trace.ops] or len(trace.saved) != saves:
        raise CheckpointError("two runs of the same step do not run the same ops, so that none can be planned")
    trace.sizes, trace.fixed, trace.turn = recorder.storages.sizes, step.fixed_bytes(), len(trace.events)
    _read_ops(trace, memory)
    for op, other in zip(trace.ops, timed.ops, strict=True):
        op.seconds = other.seconds
    for call, seconds in zip(trace.calls, call_seconds, strict=True):
        call.seconds = seconds
    trace.mode_seconds, trace.seconds = timed.mode_seconds, timed.seconds
    _read_backward(trace, backward, step.device)
    if trace.saved and not any(kind is Event.UNPACK for kind, _ in trace.events):
        raise CheckpointError("PyTorch's profiler does not tell when the backward asks for what the forward saved")
    return trace


# -- Reading the allocator ---------------------------------------------------------------------------------------------


def _read_ops(trace: Trace, threads: list[list[tuple[str, int]]]) -> None:
    """The most that each op took beyond what was there."""
    held = most = 0
    op = EagerOp("", [])
    for name, size in itertools.chain.from_iterable(threads):
        word, _, number = name.rpartition(" ")
        if word == "remora op":
            held = most = 0
            op = trace.ops[int(number)]
        elif word == "remora end" or name == COLLECTED:
            op.most = max(op.most, most)
        elif size:
            held += size
            most = max(most, held)


def _read_backward(trace: Trace, threads: list[list[tuple[str, int]]], device: torch.device) -> None:
    """Reads the backward's events: requests and releases, and stretches with the memory of its own tensors between.

    What a forward storage gives back when the last saved tensor lets go of it is not the backward's own.
    """
    holders = [0] * len(trace.sizes)
    released = {number for kind, number in trace.events if kind is Event.RELEASE}
    for number, storage in enumerate(trace.saved):
        if storage != FIXED and number not in released:
            holders[storage] += 1
    dead = {number for kind, number in trace.events if kind is Event.FREE}
    held = most = 0
    freed: list[int] = []  # of forward storages: comes at once

    def cut() -> None:
        nonlocal held, most
        held += sum(freed)  # something else holds these
        freed.clear()
        if held or most:
            trace.events.append((Event.TAKE, len(trace.stretches)))
            trace.stretches.append((most, held))
        held = most = 0

    for name, size in _of_backward(threads, device):
        word, _, text = name.rpartition(" ")
        if word in ("remora unpack", "remora release"):
            cut()
            kind = Event.UNPACK if word == "remora unpack" else Event.RELEASE
            trace.events.append((kind, int(text)))
            storage = trace.saved[int(text)]
            if kind is Event.RELEASE and storage != FIXED:
                holders[storage] -= 1
                if not holders[storage] and storage in dead:
                    freed.append(trace.sizes[storage])
        elif name.startswith(MARKED):
            cut()
            trace.marks.setdefault(name, []).append(len(trace.events))
        elif size < 0 and -size in freed:
            freed.remove(-size)
        elif size:
            held += size
            most = max(most, held)
    cut()


def _of_backward(threads: list[list[tuple[str, int]]], device: torch.device) -> Iterator[tuple[str, int]]:
    """Events while `backward()` runs: those of the thread that calls it, between its two marks.

    On a GPU autograd works in a thread of its own, while that one waits: then what all others recorded.
    """
    own, *others = sorted(threads, key=lambda rows: ("remora turn 0", 0) not in rows)
    begun = itertools.dropwhile(lambda row: row[0] != "remora turn 0", own)
    yield from itertools.takewhile(lambda row: row[0] != "remora done 0", begun)
    if device.type == "cuda":
        yield from itertools.chain.from_iterable(others)


# -- The runs ----------------------------------------------------------------------------------------------------------


def _timed(step: EagerStep, timings: Sequence[Timing]) -> tuple[Trace, list[float], list[int]]:
    """A trace with the seconds of the step and of each op; those of each call; and storages that are always there.

    The minimum of the timings counts, as other work disturbs the others more.
    """
    clock, recorder = Clock(step.device), _Forward(step)
    with step.kept(), saved_tensors_hooks(recorder.pack, recorder.unpack), recorder:
        start = clock.mark()
        loss = step.loss()
        recorder.ended = True
        under = clock.between(start, clock.mark())
    del loss
    trace = recorder.trace
    for op, (start, end) in zip(trace.ops, recorder.marks, strict=True):
        op.seconds = clock.between(start, end)
    trace.mode_seconds = min(max(0.0, under - min(t.forward for t in timings)) / max(1, len(trace.ops)), 1e-4)
    trace.seconds = min(t.whole for t in timings)
    return trace, [min(row) for row in zip(*(t.calls for t in timings), strict=True)], recorder.left()


def _forward(step: EagerStep, others: list[int]) -> tuple[_Forward, list[list[tuple[str, int]]]]:
    recorder = _Forward(step, others)
    with step.kept(), profiled(step.device) as memory:
        with saved_tensors_hooks(recorder.pack, recorder.unpack), entered(step.model, recorder.call), recorder:
            loss = step.loss()
            recorder.add(Event.FREE, FIXED)  # the end, with all that died
        recorder.ended = True
        del loss
    return recorder, memory


class _Saved:
    """A saved tensor that tells when autograd asks for it and lets it go."""

    def __init__(self, tensor: torch.Tensor, number: int) -> None:
        self.tensor, self.number = tensor.detach() if tensor.requires_grad else tensor, number

    def __del__(self) -> None:
        mark(f"remora release {self.number}")


def _backward(step: EagerStep) -> tuple[int, list[list[tuple[str, int]]]]:
    """How many tensors autograd saves, and what is recorded while it runs."""
    saves = 0

    def pack(tensor: torch.Tensor) -> _Saved:
        nonlocal saves
        saves += 1
        return _Saved(tensor, saves - 1)

    def unpack(saved: _Saved) -> torch.Tensor:
        with record_function(f"remora unpack {saved.number}"):
            return saved.tensor

    with step.kept(), profiled(step.device) as memory:
        with saved_tensors_hooks(pack, unpack):
            loss = step.loss()
        mark("remora turn 0")
        loss.backward()  # type: ignore[no-untyped-call]
        mark("remora done 0")
        del loss
    return saves, memory
