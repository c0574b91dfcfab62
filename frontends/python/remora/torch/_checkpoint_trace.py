# SPDX-License-Identifier: Apache-2.0
"""One eager training step, written down as a list of events: what `_checkpoint_replay` replays under a plan.

    forward   an op ran (what it made, the most it took, its time); a storage died, though autograd kept nothing;
              a module was entered and left, with which tensors; autograd saved a tensor
    backward  a saved tensor was asked for; it was let go of; between these, what the backward ops took and gave back

Three runs give it. The first two run the forward alone and keep nothing of what autograd saves, so that they show how
long a storage lives by itself: one is timed, in one PyTorch's older profiler tells what the allocator does. The third
runs forward and backward as they are; only what is saved passes through hooks, so that nothing else differs from eager.
"""

from __future__ import annotations

import contextlib
import enum
import itertools
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.autograd.graph import saved_tensors_hooks
from torch.autograd.profiler import record_function
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes

from ._costs import profiled, random_state, rounded
from ._errors import TorchError

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


class _Storages:
    """Numbers for storages, in the order in which they are first seen; the same step has the same numbers."""

    def __init__(self, fixed: Iterable[torch.Tensor], device: torch.device) -> None:
        self.fixed = {t.untyped_storage()._cdata for t in fixed}
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
        if there is not None and not there[1].expired():
            return there[0], False
        self.living[key] = len(self.sizes), StorageWeakRef(storage)
        self.sizes.append(rounded(storage.nbytes(), self.device))
        return len(self.sizes) - 1, True

    def dead(self) -> list[int]:
        """Those that died since the last time."""
        gone = [key for key, (_, weak) in self.living.items() if weak.expired()]
        return [self.living.pop(key)[0] for key in gone]


class _Forward(TorchDispatchMode):
    """Writes the forward's events down."""

    def __init__(self, model: torch.nn.Module, fixed: list[torch.Tensor], device: torch.device) -> None:
        super().__init__()
        self.trace, self.clock, self.device = Trace(), Clock(device), device
        self.storages = _Storages(fixed, device)
        self.marks: list[tuple[Any, Any]] = []
        self.stack: list[int] = []
        self.counts: dict[str, int] = {}
        self.maker: dict[int, Op] = {}
        self.model = model

    def add(self, kind: Kind, number: int) -> None:
        self.trace.events += [(Kind.FREE, s) for s in self.storages.dead()]
        self.trace.events.append((kind, number))

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = [t for t in pytree.tree_leaves((args, kwargs)) if isinstance(t, torch.Tensor)]
        before = random_state(self.device)
        number = len(self.trace.ops)
        op = Op(str(func), [])
        self.trace.ops.append(op)
        foreign = [self.storages.number(t) for t in given]  # made by no op, as from Python's numbers
        self.add(Kind.OP, number)
        start = self.clock.mark()
        with record_function(f"remora op {number}"):
            result = func(*args, **(kwargs or {}))
        with record_function(f"remora end {number}"):
            self.marks.append((start, self.clock.mark()))
        op.random = not torch.equal(before, random_state(self.device))
        op.made += [s for s, new in foreign if new]
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

    def pack(self, tensor: torch.Tensor) -> int:
        self.trace.saved.append(self.storages.number(tensor)[0])
        self.add(Kind.SAVE, len(self.trace.saved) - 1)
        return len(self.trace.saved) - 1

    def unpack(self, _: int) -> torch.Tensor:
        raise CheckpointError("the forward asks for a gradient itself (autograd.grad, a gradient penalty)")

    @contextlib.contextmanager
    def call(self, name: str, module: torch.nn.Module, arguments: Any) -> Iterator[None]:
        leaves = pytree.tree_leaves(arguments)
        opaque = next((type(x).__name__ for x in leaves if not isinstance(x, PLAIN) and not callable(x)), "")
        tensors = [x for x in leaves if isinstance(x, torch.Tensor)]
        count = self.counts[name] = self.counts.get(name, 0) + 1
        parent = self.stack[-1] if self.stack else -1
        storages = [s for s in (self.storages.number(t)[0] for t in tensors) if s != FIXED]
        call = Call(name, count - 1, parent, storages, opaque=opaque)
        number = len(self.trace.calls)
        self.trace.calls.append(call)
        self.stack.append(number)
        with _disable_current_modes():
            old = {key: b.detach().clone() for key, b in module._buffers.items() if b is not None}
        self.add(Kind.ENTER, number)
        call.start = len(self.trace.events)
        start = self.clock.mark()
        yield
        self.marks.append((start, self.clock.mark()))
        self.add(Kind.LEAVE, number)
        call.end = len(self.trace.events) - 1
        self.stack.pop()
        with _disable_current_modes():
            for key, value in old.items():
                now = module._buffers[key]
                if now is None or not same_bits(value, now.detach()):
                    self.trace.changed.add(f"{name}.{key}".lstrip("."))


@dataclass
class Step:
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


def traced(step: Step) -> Trace:
    """Runs a step a few times, and writes down what it does. The model is left as it was."""
    if torch._C._autograd._profiler_enabled():
        raise CheckpointError("a step is measured by PyTorch's profiler, which runs already: end it first")
    with step.kept():
        step.run()  # kernels prepare themselves once
    times = _timed(step)
    recorder, memory = _forward(step)
    backward = _backward(step)
    trace = recorder.trace
    timed = times.trace
    if [op.name for op in timed.ops] != [op.name for op in trace.ops] or len(trace.saved) != backward.saves:
        raise CheckpointError("two runs of the same step do not run the same ops, so that none can be planned")
    trace.sizes, trace.fixed, trace.turn = recorder.storages.sizes, step.fixed_bytes(), len(trace.events)
    _read_ops(trace, memory)
    for op, seconds in zip(trace.ops, times.op_seconds, strict=True):
        op.seconds = seconds
    for call, seconds in zip(trace.calls, times.call_seconds, strict=True):
        call.seconds = seconds
    trace.mode_seconds, trace.seconds = times.mode_seconds, times.seconds
    _read_backward(trace, backward.memory)
    return trace


@dataclass
class _Times:
    trace: Trace
    op_seconds: list[float]
    call_seconds: list[float]
    mode_seconds: float
    seconds: float


@contextlib.contextmanager
def _entered(model: torch.nn.Module, around: Callable[[str, torch.nn.Module, Any], Any]) -> Iterator[None]:
    """Each module's forward runs inside `around(name, module, arguments)`."""
    own: list[tuple[torch.nn.Module, Any]] = []

    def wrapped(name: str, module: torch.nn.Module) -> Callable[..., Any]:
        inner = module.forward

        def forward(*arguments: Any, **named: Any) -> Any:
            with around(name, module, (arguments, named)):
                return inner(*arguments, **named)

        return forward

    try:
        for name, module in model.named_modules():
            own.append((module, module.__dict__.get("forward")))
            module.forward = wrapped(name, module)
        yield
    finally:
        for module, forward in own:
            if forward is None:
                del module.forward
            else:
                module.forward = forward


# -- Reading the allocator ---------------------------------------------------------------------------------------------


def _read_ops(trace: Trace, threads: list[list[tuple[str, int]]]) -> None:
    """The most that each op took beyond what was there."""
    held = most = 0
    op = Op("", [])
    for name, size in itertools.chain.from_iterable(threads):
        word, _, number = name.rpartition(" ")
        if word == "remora op":
            held = most = 0
            op = trace.ops[int(number)]
        elif word == "remora end":
            op.most = most
        elif size:
            held += size
            most = max(most, held)


def _read_backward(trace: Trace, threads: list[list[tuple[str, int]]]) -> None:
    """The backward's events: what is asked for and let go of, and stretches of what its own tensors take between.

    What a forward storage gives back when the last saved tensor lets go of it is not the backward's own.
    """
    holders = [0] * len(trace.sizes)
    for storage in trace.saved:
        if storage != FIXED:
            holders[storage] += 1
    dead = {number for kind, number in trace.events if kind is Kind.FREE}
    held = most = 0
    freed: list[int] = []  # of forward storages: comes at once

    def cut() -> None:
        nonlocal held, most
        held += sum(freed)  # something else holds these
        freed.clear()
        if held or most:
            trace.events.append((Kind.TAKE, len(trace.stretches)))
            trace.stretches.append((most, held))
        held = most = 0

    events = itertools.chain.from_iterable(sorted(threads, key=lambda rows: ("remora turn 0", 0) not in rows))
    for name, size in itertools.dropwhile(lambda row: row[0] != "remora turn 0", events):
        word, _, text = name.rpartition(" ")
        if word in ("remora unpack", "remora release"):
            cut()
            kind = Kind.UNPACK if word == "remora unpack" else Kind.RELEASE
            trace.events.append((kind, int(text)))
            storage = trace.saved[int(text)]
            if kind is Kind.RELEASE and storage != FIXED:
                holders[storage] -= 1
                if not holders[storage] and storage in dead:
                    freed.append(trace.sizes[storage])
        elif size < 0 and -size in freed:
            freed.remove(-size)
        elif size:
            held += size
            most = max(most, held)
        elif word == "remora done":
            break
    cut()


# -- The runs ----------------------------------------------------------------------------------------------------------

RUNS = 3
"""The forward's modules are timed so often; the least counts, which other work disturbs least."""


def _timed(step: Step) -> _Times:
    """Seconds of each op, of each call, and of the step."""
    clock = Clock(step.device)
    marks: list[tuple[Any, Any]] = []

    @contextlib.contextmanager
    def around(_: str, __: Any, ___: Any) -> Iterator[None]:
        place = len(marks)
        marks.append((clock.mark(), None))
        yield
        marks[place] = marks[place][0], clock.mark()

    calls: list[list[float]] = []
    whole: list[float] = []
    forwards: list[float] = []
    with step.kept():
        state = random_state(step.device)
        for _ in range(RUNS):
            marks.clear()
            set_random_state(state, step.device)
            start = clock.mark()
            with _entered(step.model, around):
                loss = step.loss()
            middle = clock.mark()
            loss.backward()  # type: ignore[no-untyped-call]
            whole.append(clock.between(start, clock.mark()))
            forwards.append(clock.between(start, middle))
            calls.append([clock.between(a, b) for a, b in marks])
            step.model.zero_grad(set_to_none=True)
            del loss
    best = [min(row) for row in zip(*calls, strict=True)]
    recorder = _Forward(step.model, step.fixed, step.device)
    with step.kept(), saved_tensors_hooks(recorder.pack, recorder.unpack), recorder:
        start = clock.mark()
        step.run(backward=False)
        under = clock.between(start, clock.mark())
    ops = [clock.between(a, b) for a, b in recorder.marks]
    beside = max(0.0, under - min(forwards)) / max(1, len(ops))
    return _Times(recorder.trace, ops, best, min(beside, 1e-4), min(whole))


def _forward(step: Step) -> tuple[_Forward, list[list[tuple[str, int]]]]:
    recorder = _Forward(step.model, step.fixed, step.device)
    with step.kept(), profiled(step.device) as memory:
        with saved_tensors_hooks(recorder.pack, recorder.unpack), _entered(step.model, recorder.call), recorder:
            loss = step.run(backward=False)
            recorder.add(Kind.FREE, FIXED)  # the end, with all that died
        del loss
    return recorder, memory


class _Saved:
    """A saved tensor that tells when autograd asks for it and lets it go."""

    def __init__(self, tensor: torch.Tensor, number: int) -> None:
        self.tensor, self.number = tensor.detach() if tensor.requires_grad else tensor, number

    def __del__(self) -> None:
        with record_function(f"remora release {self.number}"):
            pass


@dataclass
class _Backward:
    saves: int
    memory: list[list[tuple[str, int]]]


def _backward(step: Step) -> _Backward:
    count = itertools.count()
    saves = 0

    def pack(tensor: torch.Tensor) -> _Saved:
        nonlocal saves
        saves += 1
        return _Saved(tensor, next(count))

    def unpack(saved: _Saved) -> torch.Tensor:
        with record_function(f"remora unpack {saved.number}"):
            return saved.tensor

    with step.kept(), profiled(step.device) as memory:
        with saved_tensors_hooks(pack, unpack):
            loss = step.loss()
        with record_function("remora turn 0"):
            pass
        loss.backward()  # type: ignore[no-untyped-call]
        with record_function("remora done 0"):
            pass
        del loss
    return _Backward(saves, memory)


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
