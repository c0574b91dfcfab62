# SPDX-License-Identifier: Apache-2.0
"""One block of memory for the tensors of a step, each where the schedule says (`arena=True`).

    traced     what a call allocates: recorded once, on tensors made for it
    prepare    the graph then has what lies in the arena, in multiples of its alignment
    Places     of a planned program: for each call the places of its allocations, in their order
    Memory     the block itself, kept from run to run

PyTorch's ops allocate their results themselves; `arena.cpp` is an allocator for the CPU that gives them their places.
It is compiled at first use, by the machine's C++ compiler against torch's own headers, and kept in the cache folder.
"""

from __future__ import annotations

import ctypes
import functools
import os
import subprocess
import threading
import weakref
from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import fx
from torch.utils._python_dispatch import _disable_current_modes

from ..capture.graph import StepGraph, tensors_in
from ..cost.calls import Allocation, Call, Cost
from ..errors import CaptureError, TorchError, first_line
from ..measure import measuring
from ..store import cache_folder, digest

if TYPE_CHECKING:
    from ..capture.graph import Run

ALIGNMENT = 64
"""Offsets are multiples of it, as the addresses of PyTorch's own allocator for the CPU."""
SMALL = 1 << 16
"""Results of up to so many bytes lie outside: who keeps a loss must not keep the whole block."""


@functools.cache
def library() -> Any:
    """The compiled allocator, installed in this process; raises TorchError if there is no compiler, or it fails."""
    source = Path(__file__).with_name("arena.cpp")
    root = Path(torch.__file__).parent
    key = digest(source.read_bytes() + torch.__version__.encode())[:16]
    built = cache_folder() / "arena" / f"{key}.so"
    if not built.exists():
        built.parent.mkdir(parents=True, exist_ok=True)
        draft = built.with_name(f"{key}.{os.getpid()}.so")
        abi = f"-D_GLIBCXX_USE_CXX11_ABI={int(torch.compiled_with_cxx11_abi())}"
        words = [os.environ.get("CXX", "c++"), "-std=c++20", "-O2", "-shared", "-fPIC", abi, f"-I{root / 'include'}"]
        words += [str(source), "-o", str(draft), f"-L{root / 'lib'}", "-lc10"]
        try:
            done = subprocess.run(words, capture_output=True, text=True, check=False)
        except OSError as error:
            raise TorchError(f"arena=True needs a C++ compiler: {error}") from None
        if done.returncode != 0:
            said = first_line(done.stderr) or "it says nothing"
            raise TorchError(f"arena=True: {words[0]} cannot compile {source}: {said}")
        draft.replace(built)
    found = ctypes.PyDLL(str(built))
    for name, result, *given in _FUNCTIONS:
        function = getattr(found, name)
        function.restype, function.argtypes = result, given
    found.remora_install()
    return found


_NUMBER, _ADDRESS = ctypes.c_int64, ctypes.c_void_p
_FUNCTIONS: tuple[tuple[Any, ...], ...] = (
    ("remora_install", None),
    ("remora_record", None),
    ("remora_recorded", _NUMBER),
    ("remora_events", None, _ADDRESS),
    ("remora_map", _ADDRESS, _NUMBER),
    ("remora_in_use", _NUMBER, _ADDRESS),
    ("remora_home", _ADDRESS, _NUMBER),
    ("remora_leave_alone", None, _ADDRESS),
    ("remora_begin", None, _ADDRESS, _ADDRESS, _ADDRESS),
    ("remora_place", None, _NUMBER),
    ("remora_end", _NUMBER),
)


def aligned(size: int) -> int:
    """The size in whole units of the alignment."""
    return -(-size // ALIGNMENT) * ALIGNMENT


# -- What a call allocates ---------------------------------------------------------------------------------------------


def prepare(step: StepGraph, costs: dict[fx.Node, Cost], theirs: Sequence[Any]) -> dict[fx.Node, Cost]:
    """Makes the step one whose memory is an arena, and records what its calls allocate.

    Sizes are multiples of the alignment; no op takes over an input's storage, for the engine places outputs next
    to inputs. Small results lie outside, and count throughout. So do the values in `theirs`, which the user allocates
    or keeps.
    """
    if step.device.type != "cpu":
        raise TorchError(f"arena=True is for the CPU so far; the step is on {step.device}")
    step.takes.clear()
    handed = {s for node in theirs if isinstance(node, fx.Node) for s in step.storages_of(node)}
    for s in dict.fromkeys(s for op in step.ops for s in op.outputs):
        storage = step.storages[s]
        if s in handed or (storage.keep and storage.size <= SMALL):
            step.outside += storage.size
            storage.size = 0
        else:
            storage.size = aligned(storage.size)
    traced: dict[str, tuple[Allocation, ...]] = {}
    prepared = dict(costs)
    with _disable_current_modes(), measuring(step.device):
        for op in step.ops:
            for node in op.nodes:
                call = Call(step, node)
                if call.key not in traced:
                    traced[call.key] = record(call)
                held = traced[call.key]
                workspace = max((a.offset + aligned(a.size) for a in held if a.output < 0), default=0)
                prepared[node] = replace(costs[node], workspace=workspace, allocations=held)
    return prepared


def record(call: Call) -> tuple[Allocation, ...]:
    """Allocations of a call, in order; those that it releases itself have an offset in the call's workspace."""
    allocator = library()
    call.run(call.arguments())  # some kernels prepare themselves once
    arguments = call.arguments()
    allocator.remora_record()
    try:
        result = call.run(arguments)
    finally:
        count = allocator.remora_recorded()
    rows = array("q", bytes(32 * count))
    allocator.remora_events(rows.buffer_info()[0])
    events = [tuple(rows[i : i + 4]) for i in range(0, 4 * count, 4)]
    made = [] if call.in_place else [t.untyped_storage().data_ptr() for t in tensors_in(result)]
    found: list[Allocation] = []
    alive: list[tuple[int, int, int]] = []  # where, up to where, until when
    for size, address, begin, end in events:
        if end < 0:
            if address not in made:
                raise CaptureError(f"{call.node.name}: {call.target} keeps {size} bytes that are no result of it")
            found.append(Allocation(size, made.index(address), 0))
            continue
        alive = sorted(place for place in alive if place[2] > begin)
        offset = 0
        for start, stop, _ in alive:
            if offset + size <= start:
                break
            offset = max(offset, stop)
        alive.append((offset, offset + aligned(size), end))
        found.append(Allocation(size, -1, offset))
    placed = {a.output for a in found if a.output >= 0}
    for i, address in enumerate(made):
        if address and i not in placed and made.index(address) not in placed:
            raise CaptureError(f"{call.node.name}: {call.target} does not allocate its result by PyTorch's allocator")
    return tuple(found)


# -- A run -------------------------------------------------------------------------------------------------------------


class Places:
    """The places of all allocations of a program: calls are numbered as they run.

    `after`: the number of an argument that lies in the block of the run before (forward), so that this one (backward)
    goes on in it.
    """

    def __init__(
        self, step: StepGraph, runs: Sequence[Run], costs: dict[fx.Node, Cost], size: int, after: int | None = None
    ) -> None:
        self.size, self.after = size, after
        self.starts, self.slots = array("q", [0]), array("q")
        for run in runs:
            for node in run.op.nodes:
                made = [step.storage_of(t) for t in tensors_in(step.value[node])]
                for held in costs[node].allocations:
                    where = run.workspace + held.offset if held.output < 0 else run.offsets.get(made[held.output], -1)
                    self.slots.extend((held.size, where))
                self.starts.append(len(self.slots) // 2)


@dataclass(frozen=True)
class Arena:
    """Memory of a plan's programs: the block and its size, and the allocations of their calls."""

    memory: Memory
    costs: dict[fx.Node, Cost]
    size: int

    def run(
        self, step: StepGraph, runs: Sequence[Run], program: Callable[[list[Any]], list[Any]], after: int | None
    ) -> Callable[[list[Any]], list[Any]]:
        """A program of these runs, run in the memory; `after` as in `Places`."""
        places = Places(step, runs, self.costs, self.size, after)
        return functools.partial(self.memory.run, places, program)


class Memory:
    """The block that a step's programs share. While somebody holds a result in it, the next run gets another one.

    `size`: bytes; 0 before the first run. `on_heap`: bytes that the latest run allocated elsewhere: small results,
    saved states of generators.
    """

    def __init__(self) -> None:
        self.size = self.on_heap = 0
        self._handle: int | None = None
        self._release: Callable[[], Any] = lambda: None
        self._choosing = threading.Lock()

    def run(self, places: Places, program: Callable[[list[Any]], list[Any]], arguments: list[Any]) -> list[Any]:
        """Runs a program whose allocations have these places."""
        if (
            torch._C._len_torch_dispatch_stack() > 0
        ):  # under a mode, as AOTAutograd's in the first run, ops allocate more
            with _disable_current_modes():
                return self.run(places, program, arguments)
        allocator = library()
        with self._choosing:
            handle = None
            if places.after is not None:
                handle = allocator.remora_home(arguments[places.after].untyped_storage().data_ptr())
            handle = handle or self._provide(places.size)
            allocator.remora_begin(handle, places.starts.buffer_info()[0], places.slots.buffer_info()[0])
        try:
            return program(arguments)
        finally:
            self.on_heap = int(allocator.remora_end())

    def release(self) -> None:
        """Gives the memory back, now or with the last result in it; the next run takes it anew."""
        self._release()
        self._handle, self.size = None, 0

    def _provide(self, size: int) -> int:
        """A block in which nothing lies and nothing runs."""
        if self._handle is not None and (size > self.size or library().remora_in_use(self._handle)):
            self.release()
        if self._handle is None:
            size = max(size, ALIGNMENT)
            self._handle = library().remora_map(size)
            if self._handle is None:
                raise TorchError(f"arena=True: the system has no room for {size:,} bytes")
            self.size = size
            self._release = weakref.finalize(self, library().remora_leave_alone, self._handle)
        return self._handle
