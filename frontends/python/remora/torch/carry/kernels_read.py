# SPDX-License-Identifier: Apache-2.0
"""Inductor's program of a whole graph, read: which call reads and writes which memory.

The program is straight: it allocates buffers, calls kernels and library functions on them, and returns some. So it is
read by running it once, on tensors without memory and with kernels that only note what they are called with
(capture/launches.py). What a kernel writes stands in its signature:

    cpp_fused_0 = async_compile.cpp_pybinding(['const float*', 'float*'], ...)      reads the first, writes the second
    triton_poi_fused_0 = async_compile.triton('...', "... def ...(in_ptr0, out_ptr0, xnumel, ...)")          the same

and what a library function writes, in the schema of its op.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch._subclasses import FakeTensor, FakeTensorMode
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes

from ..capture.graph import tensors_in
from ..capture.launches import Kernel, Look, line_of_program, look_of, without_kernels, written_by
from ..errors import CaptureError


@dataclass(frozen=True)
class View:
    """A tensor of the program: the number of its memory, and how it lies there."""

    memory: int
    look: Look


@dataclass(frozen=True)
class Stream:
    """The stream of a GPU, which a kernel is told when it is called."""

    device: int


@dataclass(frozen=True)
class Line:
    """One call of the program.

    Attributes
    ----------
    target
        An op of PyTorch, or a `Kernel`.
    given
        Arguments and keyword arguments, with a `View` for each tensor.
    writes : tuple of int
        Memory that was there before, and that the call changes.
    results
        Of an op, with a `View` for each tensor; of a kernel None.
    """

    target: Any
    given: Any
    writes: tuple[int, ...]
    results: Any = None


@dataclass
class Reading:
    """A program of Inductor.

    Attributes
    ----------
    lines : list of Line
    memory : list of Look
        How each memory's first tensor lies: of arguments, of constants, of what is allocated, of what ops give.
    allocated : set of int
        Memory that the program allocates itself; it holds nothing until a call writes to it.
    constants : dict of int to Tensor
    results : list
        With a `View` for each tensor.
    names : dict of Kernel to str
        What the program calls its kernels.
    buffers : dict of str to int
        The memory of the program's variables.
    """

    lines: list[Line] = field(default_factory=list)
    memory: list[Look] = field(default_factory=list)
    allocated: set[int] = field(default_factory=set)
    constants: dict[int, torch.Tensor] = field(default_factory=dict)
    results: list[Any] = field(default_factory=list)
    names: dict[Kernel, str] = field(default_factory=dict)
    buffers: dict[str, int] = field(default_factory=dict)


def views_in(value: Any) -> list[View]:
    """The views in a value of any nesting."""
    return [leaf for leaf in pytree.tree_leaves(value) if isinstance(leaf, View)]


class _Reader(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Notes what a program does."""

    def __init__(self, source: str) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.found = Reading()
        self._source = source.splitlines()
        self._numbers: dict[int, int] = {}
        self._alive: list[torch.Tensor] = []  # else another tensor might take a storage's place

    def view(self, leaf: Any) -> Any:
        """What stands for a tensor; anything else is given back. Memory that is new gets a number."""
        if not isinstance(leaf, torch.Tensor):
            return leaf
        key = leaf.untyped_storage()._cdata
        if key not in self._numbers:
            self._numbers[key] = len(self.found.memory)
            self._alive.append(leaf)
            if not isinstance(leaf, FakeTensor):
                self.found.constants[len(self.found.memory)] = leaf
            self.found.memory.append(look_of(leaf))
        return View(self._numbers[key], look_of(leaf))

    def noted(self, kernel: Kernel, given: Any) -> None:
        """A kernel is called."""
        seen = pytree.tree_map(self.view, given)
        places = written_by(kernel)
        for i, leaf in enumerate(seen[0]):
            if isinstance(leaf, View) and i not in places:
                raise CaptureError(f"Inductor's {kernel.how} has a signature that cannot be read")
        writes = [leaf.memory for i, leaf in enumerate(seen[0]) if isinstance(leaf, View) and places[i]]
        if views_in(seen[1]):
            raise CaptureError(f"Inductor's {kernel.how} is given tensors by name")
        self.found.lines.append(Line(kernel, seen, tuple(dict.fromkeys(writes))))

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func.namespace == "prim":  # asks for a tensor's device
            return func(*args, **(kwargs or {}))
        known = len(self.found.memory)
        seen = pytree.tree_map(self.view, (args, kwargs or {}))
        if any(i not in self.found.constants for i in range(known, len(self.found.memory))):
            raise CaptureError(f"Inductor's program gives {func} a tensor of unknown origin")
        result = func(*args, **(kwargs or {}))
        known = len(self.found.memory)
        made = pytree.tree_map(self.view, result)
        if isinstance(made, View) and made.memory >= known:
            variable = re.match(r"\s*(\w+) = ", line_of_program(self._source))
            self.found.buffers.setdefault(variable[1] if variable else "", made.memory)
        if func is torch.ops.aten.empty_strided.default:
            self.found.allocated.add(made.memory)
            return result
        writes = tuple(_changed(func, *seen))
        if writes or len(self.found.memory) > known or not tensors_in(result):
            self.found.lines.append(Line(func, seen, writes, made))
        elif not func.is_view:  # as what waits for a collective
            raise CaptureError(f"Inductor's program calls {func}, which gives back what it is given")
        return result


def _changed(func: Any, args: Sequence[Any], named: dict[str, Any]) -> Iterable[int]:
    """The memory that an op changes, as its schema says."""
    for i, argument in enumerate(func._schema.arguments):
        if argument.alias_info is not None and argument.alias_info.is_write:
            given = args[i] if i < len(args) else named.get(argument.name)
            yield from (view.memory for view in views_in(given))


def read_program(source: str, names: dict[str, Any], inputs: Sequence[Any]) -> Reading:
    """Reads a program of Inductor.

    Parameters
    ----------
    source : str
    names : dict
        Those of the program as a module, constants among them.
    inputs : sequence
        Fake tensors, and whatever else it is called with. Their memory gets the first numbers.

    Raises
    ------
    CaptureError
        What the program does that is not understood.
    """
    reader = _Reader(source)
    looks = [look_of(leaf) for leaf in inputs]
    with _disable_current_modes(), torch.no_grad(), torch._C._DisableAutocast():
        space = without_kernels(source, names, reader.noted)
        space["get_raw_stream"] = Stream
        mode = FakeTensorMode(allow_non_fake_inputs=True)
        arguments = [leaf.fake(mode) if isinstance(leaf, Look) else leaf for leaf in looks]
        for leaf in arguments:
            reader.view(leaf)
        try:
            with mode, reader:
                results = space["call"](list(arguments))
        except CaptureError:
            raise
        except Exception as error:
            raise CaptureError(f"Inductor's program cannot be read: {type(error).__name__}: {error}") from error
        reader.found.results = [reader.view(leaf) for leaf in results]
    reader.found.names = {value: name for name, value in space.items() if isinstance(value, Kernel)}
    return reader.found
