# SPDX-License-Identifier: Apache-2.0
"""Memory of a program of Inductor: it runs on tensors without memory, with kernels that do nothing.

So the program's own behaviour is counted: its allocations, its reuse of buffers, its order, the moment at which each
name is deleted. In addition, only the workspaces of library calls and the time of each kernel are needed: both are
measured, once for each kernel and its shapes (cost/kernels.py).
"""

from __future__ import annotations

import re
import weakref
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch._subclasses import FakeTensorMode
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes

from ..errors import CaptureError
from ..internals import frames
from ..measure import rounded
from .graph import storage_of, tensors_in
from .lowered import Lowered

_FILE = "<a program of Inductor>"
_POINTERS = ("in_ptr", "out_ptr", "in_out_ptr", "ws_ptr", "seed_offset")
"""How the names of a Triton kernel's pointers begin."""

Number = Callable[[Any], int]
"""Gives the number of a size that may be a symbol."""


@dataclass(frozen=True)
class Launch:
    """One call that a program makes."""

    target: Any  # an op of PyTorch, or a `Kernel`
    given: Any  # its arguments and keyword arguments, with a `Look` for each tensor
    held: int  # bytes beyond what was there at the start, results of this call included
    line: str  # where the program makes it


@dataclass
class Trace:
    """Recorded actions of a program."""

    launches: list[Launch] = field(default_factory=list)
    peak: int = 0  # the most bytes that were held at once beyond what was there at the start, workspaces not counted
    end: int = 0  # bytes held when it is done
    results: list[Any] = field(default_factory=list)  # fake tensors, and whatever else the program returns
    # what stands for the storages of its arguments; it is `storage_of` a result that lies in one
    given: frozenset[int] = frozenset()


class Kernel:
    """A kernel that Inductor generated, not compiled: calling it is noted and does nothing.

    `noted`: called with each call. `how`: the method of `AsyncCompile` that would compile it. `arguments`: what that
    method is given: signature and source.
    """

    def __init__(self, noted: Callable[..., None], how: str, arguments: tuple[Any, ...], named: dict[str, Any]) -> None:
        self.noted, self.how, self.arguments, self.named = noted, how, arguments, named

    def __call__(self, *arguments: Any, **named: Any) -> None:
        """Records a launch instead of running it."""
        self.noted(self, (arguments, named))

    run = __call__


def written_by(kernel: Kernel) -> dict[int, bool]:
    """For the pointers of a kernel, by their places: whether it writes there."""
    if kernel.how == "cpp_pybinding":
        return {i: not text.startswith("const ") for i, text in enumerate(kernel.arguments[0]) if text.endswith("*")}
    if kernel.how == "triton":
        name, source = kernel.arguments[:2]
        signature = re.search(rf"^def {re.escape(name)}\(([^)]*)\)", source, re.MULTILINE)
        names = [part.partition(":")[0].strip() for part in signature[1].split(",")] if signature else []
        return {i: not text.startswith("in_ptr") for i, text in enumerate(names) if text.startswith(_POINTERS)}
    raise CaptureError(f"Inductor's program has a kernel of a kind that cannot be read ({kernel.how})")


class _Compile:
    """Takes the place of `AsyncCompile` in a program."""

    def __init__(self, noted: Callable[..., None]) -> None:
        self._noted = noted

    def wait(self, _: Any) -> None:
        """Nothing is compiled."""

    def __getattr__(self, how: str) -> Callable[..., Kernel]:
        return lambda *arguments, **named: Kernel(self._noted, how, arguments, named)


class Held(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts storages that are made while it lasts, on a device or all, until nothing names them any more."""

    def __init__(self, device: torch.device | None = None) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.device, self.held, self.peak = device, 0, 0
        self._names: Counter[int] = Counter()
        self._sizes: dict[int, int] = {}

    def own(self, tensors: Iterable[torch.Tensor], comes: bool, goes: bool = True) -> None:
        """Follows tensors, whose storages count when they come, and when they go."""
        for tensor in tensors:
            storage = tensor.untyped_storage()
            key = storage._cdata
            if key not in self._sizes:
                counts = goes and (self.device is None or tensor.device.type == self.device.type)
                self._sizes[key] = rounded(int(storage.nbytes()), tensor.device) if counts else 0
                self.held += self._sizes[key] if comes else 0
            self._names[key] += 1
            weakref.finalize(tensor, self._drop, key).atexit = False
        self.peak = max(self.peak, self.held)

    def _drop(self, key: int) -> None:
        self._names[key] -= 1
        if not self._names[key]:
            self.held -= self._sizes.pop(key)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        given = {id(t) for t in tensors_in((args, kwargs))}
        self.own([t for t in tensors_in(result) if id(t) not in given], True)
        return result


class _Watch(Held):  # type: ignore[no-untyped-call]
    """Notes the calls of a program as well."""

    def __init__(self, trace: Trace, source: str) -> None:
        super().__init__()
        self.trace, self._lines = trace, source.splitlines()

    def noted(self, target: Any, given: Any) -> None:
        """One call: whatever it made is held already."""
        line = next((self._lines[f.f_lineno - 1] for f in frames() if f.f_code.co_filename == _FILE), "")
        self.trace.launches.append(Launch(target, pytree.tree_map(look_of, given), self.held, line))

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = super().__torch_dispatch__(func, types, args, kwargs)
        if func is not torch.ops.aten.empty_strided.default and not func.is_view and func.namespace != "prim":
            self.noted(func, (args, kwargs or {}))
        return result


@dataclass(frozen=True)
class Look:
    """How a tensor lies: what is needed to make one like it."""

    shape: tuple[int, ...]
    stride: tuple[int, ...]
    offset: int
    elements: int
    dtype: torch.dtype
    device: torch.device

    @property
    def size(self) -> int:
        """Bytes that are read or written of it: its elements, each once."""
        count = 1
        for length, step in zip(self.shape, self.stride, strict=True):
            count *= length if step else 1
        return count * self.dtype.itemsize

    def fake(self, mode: FakeTensorMode, flat: torch.Tensor | None = None) -> torch.Tensor:
        """A fake tensor that lies like it; `flat`: in the memory of that one."""
        with mode:
            if flat is None:
                flat = torch.empty(self.elements, dtype=self.dtype, device=self.device)
            return flat.as_strided(self.shape, self.stride, self.offset)


def hint_of(size: int | torch.SymInt) -> int:
    """The value of a size when the graph was captured."""
    if isinstance(size, int):
        return size
    found = size.node.hint
    if found is None:
        raise CaptureError("a size is not known before the graph runs, so no peak is")
    return int(found)


def look_of(leaf: Any, number: Number = hint_of) -> Any:
    """How a tensor lies; anything else is given back. `number`: of a size that is a symbol."""
    if isinstance(leaf, torch.SymInt):
        return number(leaf)
    if not isinstance(leaf, torch.Tensor):
        return leaf
    elements = number(leaf.untyped_storage().nbytes()) // leaf.itemsize
    shape, stride = tuple(map(number, leaf.shape)), tuple(map(number, leaf.stride()))
    return Look(shape, stride, number(leaf.storage_offset()), elements, leaf.dtype, leaf.device)


def replay(
    program: Lowered,
    inputs: Sequence[Any],
    kept: Collection[int],
    storages: Sequence[int] = (),
    number: Number = hint_of,
) -> Trace:
    """Runs a program of Inductor without memory.

    `inputs`: its arguments. `kept`: the numbers of the arguments that somebody else holds, too. `storages`: what stands
    for the storage of each argument, 0 for one of its own: views of one buffer share it. `number`: of a size that is a
    symbol.
    """
    trace = Trace()
    watch = _Watch(trace, program.source)
    looks = [look_of(leaf, number) for leaf in inputs]
    with _disable_current_modes(), torch.no_grad(), torch._C._DisableAutocast():
        space = without_kernels(program.source, program.constants, watch.noted)
        mode = FakeTensorMode(allow_non_fake_inputs=True)
        arguments = _arguments(looks, storages or [0] * len(looks), mode)
        held = [arguments[i] for i in kept]
        watch.own(tensors_in(arguments), False)
        alive = [t.untyped_storage() for t in tensors_in(arguments)]  # else a result's might take its place
        trace.given = frozenset(map(storage_of, tensors_in(arguments)))
        try:
            with mode, watch:
                trace.results = list(space["call"](arguments))
        except Exception as error:
            raise CaptureError(f"Inductor's program cannot be replayed: {type(error).__name__}: {error}") from error
        trace.peak, trace.end = watch.peak, watch.held
        del held, alive
    return trace


def _arguments(looks: Sequence[Any], storages: Sequence[int], mode: FakeTensorMode) -> list[Any]:
    """Fake tensors for a program, in the same memory where they share a storage."""
    whole: dict[tuple[int, torch.dtype], Look] = {}
    for look, storage in zip(looks, storages, strict=True):
        if isinstance(look, Look) and storage:
            known = whole.setdefault((storage, look.dtype), look)
            if look.elements > known.elements:
                whole[storage, look.dtype] = look
    with mode:
        flats = {key: torch.empty(look.elements, dtype=look.dtype, device=look.device) for key, look in whole.items()}
    return [
        look.fake(mode, flats.get((storage, look.dtype)) if storage else None) if isinstance(look, Look) else look
        for look, storage in zip(looks, storages, strict=True)
    ]


def without_kernels(source: str, names: dict[str, Any], noted: Callable[..., None]) -> dict[str, Any]:
    """The names of a program of Inductor for fake tensors: its `call` allocates, and only notes calls of kernels.

    `names`: what the program reads and does not define. `noted`: called with each call of a `Kernel`.
    """
    start = "async_compile = AsyncCompile()"
    if start not in source:
        raise CaptureError("this version of Inductor writes programs that cannot be read")
    source = source.replace(start, "async_compile = _remora_compile")
    space: dict[str, Any] = {**names, "__name__": "replay", "_remora_compile": _Compile(noted)}
    exec(compile(source, _FILE, "exec"), space)

    def empty(device: str) -> Callable[..., torch.Tensor]:
        return lambda size, stride, dtype: torch.empty_strided(size, stride, dtype=dtype, device=device)

    def reinterpret(tensor: torch.Tensor, size: Any, stride: Any, offset: int = 0) -> torch.Tensor:
        return torch.as_strided(tensor, size, stride, tensor.storage_offset() + offset)

    for name in space:
        if name.startswith("empty_strided_"):
            space[name] = empty(name.removeprefix("empty_strided_").removesuffix("_pinned"))
        elif name.startswith("assert_"):
            space[name] = lambda *_, **__: None
    space["reinterpret_tensor"] = reinterpret
    return space
