# SPDX-License-Identifier: Apache-2.0
"""All that a step can change, found by walking from the step: to run it again and again from the same state.

From the function the walk goes to the variables of its closure, the globals that it names, its arguments, and on
through modules, optimizers, containers and the user's own objects. What it finds has the name that the user would call
it by: `model.layers.0.weight`. Iterators and files have no state that could be set back; classes and imported modules
are left alone. Copies of tensors lie on the CPU, so that they take no memory of a GPU.
"""

from __future__ import annotations

import enum
import functools
import pickle
import random
import sys
import sysconfig
import types
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.utils import _pytree as pytree

LONGEST = 10_000
"""Containers with more entries are data, which no step changes."""

_DICTIONARIES = (dict, OrderedDict, defaultdict)
_CONTAINERS = (*_DICTIONARIES, list, set, deque)
_LIBRARIES = {*sys.stdlib_module_names, "torch", "numpy", "remora"}
_ENTERED = ("torch.optim", "torch.amp", "torch.cuda.amp")
_CELLS = {sysconfig.get_paths()[key] for key in ("stdlib", "purelib", "platlib")}
_OF_MODULES = ("_parameters", "_buffers", "_modules")


class Kind(str, enum.Enum):
    """Kinds of differences."""

    RESULT = "result"
    GRADIENT = "gradient"
    PARAMETER = "parameter"
    BUFFER = "buffer"
    STATE = "state"
    """Any other tensor, number or list that the step can reach: an optimizer's, a counter in a module."""
    GENERATOR = "generator"
    RECOMPUTE = "recompute"
    """An op that a hand-written checkpoint recomputed, which gave other numbers than before."""


Outcome = dict[tuple[Kind, str], Any]
"""State after a run: copies of tensors on the CPU, None, or other values."""


@dataclass
class Found:
    """Objects found by a walk."""

    tensors: dict[str, torch.Tensor] = field(default_factory=dict)
    kinds: dict[str, Kind] = field(default_factory=dict)  # of the tensors
    values: dict[str, Any] = field(default_factory=dict)  # numbers, texts, and lengths of lists
    modules: dict[int, str] = field(default_factory=dict)  # names by `id`
    instances: list[torch.nn.Module] = field(default_factory=list)  # the same modules
    generators: dict[str, Any] = field(default_factory=dict)
    containers: list[Any] = field(default_factory=list)  # what can be filled again
    # each sets a variable of a closure, or a global one, to what it is now
    variables: list[Callable[[], None]] = field(default_factory=list)
    compiled: bool = False  # whether something is compiled, or runs by Remora


def walk(roots: dict[str, Any]) -> Found:
    """Finds what can be reached; each object once, by its first name."""
    found = Found()
    seen: dict[int, Any] = {id(generator): generator for generator in _generators().values()}
    pending = [(name, thing, Kind.STATE) for name, thing in reversed(roots.items())]
    while pending:
        name, thing, kind = pending.pop()
        if isinstance(thing, (bool, int, float, str)):
            found.values[_free(name, found.values)] = thing
        elif thing is not None and id(thing) not in seen:
            seen[id(thing)] = thing
            pending += reversed(list(_inside(found, name, thing, kind)))
    return found


def _inside(found: Found, name: str, thing: Any, kind: Kind) -> Iterator[tuple[str, Any, Kind]]:
    """Notes a thing, and gives what to look at behind it."""
    if isinstance(thing, torch.Tensor):
        name = _free(name, found.tensors)
        found.tensors[name], found.kinds[name] = thing, kind
        for hooks in hooks_of(thing):
            yield f"{name}'s hooks", hooks, Kind.STATE
    elif isinstance(thing, torch.nn.Module):
        yield from _inside_module(found, name, thing)
    elif _state_of(thing) is not None:
        found.generators[_free(name, found.generators)] = thing
    elif isinstance(thing, (*_CONTAINERS, tuple)):
        yield from _inside_container(found, name, thing, kind)
    elif isinstance(thing, functools.partial):
        yield from ((name, part, Kind.STATE) for part in (thing.func, thing.args, thing.keywords))
    elif isinstance(thing, types.MethodType):
        yield "self" if name == "" else name, thing.__self__, Kind.STATE
        yield name, thing.__func__, Kind.STATE
    elif isinstance(thing, types.FunctionType):
        yield from _inside_function(found, thing)
    elif type(thing).__module__.startswith("remora.torch"):
        found.compiled = True
        yield name, getattr(thing, "function", None), Kind.STATE
    elif _is_entered(thing):
        yield name, vars(thing), Kind.STATE


def _inside_module(found: Found, name: str, module: torch.nn.Module) -> Iterator[tuple[str, Any, Kind]]:
    itself = vars(module)
    found.modules[id(module)] = name
    found.instances.append(module)
    found.containers.append(itself)
    found.compiled |= itself.get("_compiled_call_impl") is not None or "_orig_mod" in itself["_modules"]
    for part, kind in zip(_OF_MODULES, (Kind.PARAMETER, Kind.BUFFER, Kind.STATE), strict=True):
        yield name, itself[part], kind
    for key, value in itself.items():
        if key not in _OF_MODULES and key not in ("training", "_compiled_call_impl"):
            yield _joined(name, key), value, Kind.STATE


def _inside_container(found: Found, name: str, thing: Any, kind: Kind) -> Iterator[tuple[str, Any, Kind]]:
    if len(thing) > LONGEST:
        return
    if type(thing) in _CONTAINERS:
        found.containers.append(thing)
    if isinstance(thing, dict):
        names = {id(tensor): key for key, tensor in found.tensors.items()}
        for i, (key, value) in enumerate(thing.items()):
            text = names.get(id(key), str(i))
            yield _joined(name, key) if isinstance(key, str) else f"{name}[{text}]", value, kind
        return
    found.values[_free(f"length of {name}", found.values)] = len(thing)
    yield from ((f"{name}[{i}]", value, kind) for i, value in enumerate(thing))


def _inside_function(found: Found, function: types.FunctionType) -> Iterator[tuple[str, Any, Kind]]:
    """The variables of a function; its globals only if it is the user's own, not a library's."""
    found.compiled |= hasattr(function, "_torchdynamo_orig_callable")
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            value = cell.cell_contents
        except ValueError:  # not yet given
            continue
        found.variables.append(functools.partial(setattr, cell, "cell_contents", value))
        yield name, value, Kind.STATE
    yield from (("defaults", part, Kind.STATE) for part in (function.__defaults__, function.__kwdefaults__))
    yield from ((key, value, Kind.STATE) for key, value in vars(function).items())
    if any(function.__code__.co_filename.startswith(place) for place in _CELLS):
        return
    for name in _names_in(function.__code__):
        if name in function.__globals__:
            value = function.__globals__[name]
            found.variables.append(functools.partial(function.__globals__.__setitem__, name, value))
            yield name, value, Kind.STATE


def _names_in(code: types.CodeType) -> dict[str, None]:
    """The global names of a function and of those inside it, in the order of the text."""
    names = dict.fromkeys(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            names |= _names_in(constant)
    return names


def _is_entered(thing: Any) -> bool:
    """True if an object's attributes are visited: the user's own, other libraries', and torch's that train."""
    kind = type(thing)
    if isinstance(thing, (type, types.ModuleType)) or not hasattr(thing, "__dict__"):
        return False
    return kind.__module__.startswith(_ENTERED) or kind.__module__.partition(".")[0] not in _LIBRARIES


def hooks_of(tensor: torch.Tensor) -> list[Any]:
    """The dictionaries of a tensor's gradient hooks that are not empty."""
    both: tuple[Any, Any] = tensor._backward_hooks, tensor._post_accumulate_grad_hooks
    return [hooks for hooks in both if hooks]


def _joined(name: str, key: str) -> str:
    if key == "_orig_mod":  # which torch.compile puts before a module
        return name
    return f"{name}.{key}" if name else key


def _free(name: str, taken: dict[str, Any]) -> str:
    """The name, with a number where it is taken."""
    number = 2
    free = name
    while free in taken:
        free, number = f"{name} ({number})", number + 1
    return free


# -- Generators --------------------------------------------------------------------------------------------------------


def _state_of(generator: Any) -> Any:
    """The state of a generator of torch, Python or numpy; None of what is none."""
    if isinstance(generator, torch.Generator):
        return generator.get_state()
    if isinstance(generator, random.Random) or generator is random:
        return generator.getstate()
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(generator, numpy.random.Generator):
        return generator.bit_generator.state
    if numpy is not None and (generator is numpy.random or isinstance(generator, numpy.random.RandomState)):
        return generator.get_state()
    return None


def _set_state(generator: Any, state: Any) -> None:
    if hasattr(generator, "setstate"):
        generator.setstate(state)
    elif hasattr(generator, "bit_generator") and not isinstance(generator, types.ModuleType):
        generator.bit_generator.state = state
    else:
        generator.set_state(state)


def _generators() -> dict[str, Any]:
    found: dict[str, Any] = {"CPU's": torch.default_generator, "Python's": random}
    if "numpy" in sys.modules:
        found["numpy's"] = sys.modules["numpy"].random
    if torch.cuda.is_available() and torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        found |= {f"CUDA's {i}": generator for i, generator in enumerate(torch.cuda.default_generators)}
    return found


# -- States ------------------------------------------------------------------------------------------------------------


@dataclass
class _Kept:
    tensor: torch.Tensor
    memory: torch.Tensor  # the same, so that it is known if other memory is put in its place
    copy: torch.Tensor
    gradient: torch.Tensor | None
    gradient_copy: torch.Tensor | None
    wants: bool

    def restore(self) -> None:
        if (
            self.tensor.shape != self.memory.shape
            or self.tensor.dtype != self.memory.dtype
            or (self.tensor.layout == torch.strided and self.tensor.data_ptr() != self.memory.data_ptr())
        ):
            self.tensor.data = self.memory
        if not same(copied(self.memory), self.copy):
            self.memory.copy_(self.copy)
        if self.tensor.is_leaf and self.tensor.requires_grad != self.wants:
            self.tensor.requires_grad_(self.wants)
        if self.gradient is None:
            if self.tensor.is_leaf and self.tensor.grad is not None:
                self.tensor.grad = None
            return
        assert self.gradient_copy is not None
        if not same(copied(self.gradient), self.gradient_copy):
            self.gradient.data.copy_(self.gradient_copy)
        if self.tensor.grad is not self.gradient:
            self.tensor.grad = self.gradient


class State:
    """Everything that a step can change, as it is when this is made; `roots`: the step and its arguments, by name."""

    def __init__(self, roots: dict[str, Any]) -> None:
        self.roots = roots
        self.found = walk(roots)
        self._tensors = [_kept(tensor) for tensor in self.found.tensors.values()]
        self._containers = [(c, dict(c) if isinstance(c, dict) else list(c)) for c in self.found.containers]
        self._generators = [(g, _state_of(g)) for g in {**_generators(), **self.found.generators}.values()]

    def restore(self) -> None:
        """Brings all back; what did not change is not touched."""
        for thing, before in self._containers:
            _fill(thing, before)
        for put_back in self.found.variables:
            put_back()
        for kept in self._tensors:
            kept.restore()
        for generator, state in self._generators:
            _set_state(generator, state)

    def outcome(self, result: Any) -> Outcome:
        """The present state, after a run that gave this result."""
        found = walk(self.roots)
        left: Outcome = {}
        for i, leaf in enumerate(pytree.tree_leaves(result)):
            left[Kind.RESULT, str(i)] = copied(leaf) if isinstance(leaf, torch.Tensor) else leaf
        for name, tensor in found.tensors.items():
            left[found.kinds[name], name] = copied(tensor)
            if tensor.is_leaf and tensor.requires_grad:
                left[Kind.GRADIENT, name] = None if tensor.grad is None else copied(tensor.grad)
        left |= {(Kind.STATE, name): value for name, value in found.values.items()}
        for name, generator in {**_generators(), **found.generators}.items():
            state = _state_of(generator)
            is_tensor = isinstance(state, torch.Tensor)
            left[Kind.GENERATOR, name] = state.numpy().tobytes() if is_tensor else pickle.dumps(state)
        return left


def copied(tensor: torch.Tensor) -> torch.Tensor:
    """A copy on the CPU, without history."""
    return tensor.detach().to("cpu", copy=True)


def same(a: torch.Tensor, b: torch.Tensor) -> bool:
    """True if two tensors on the CPU have the same values; not-a-number is equal to itself."""
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    if a.layout != torch.strided or b.layout != torch.strided:
        a, b = a.to_dense(), b.to_dense()
    return bool(torch.equal(a, b) or ((a == b) | ((a != a) & (b != b))).all())


def _kept(tensor: torch.Tensor) -> _Kept:
    gradient = tensor.grad if tensor.is_leaf else None
    gradient_copy = None if gradient is None else copied(gradient)
    return _Kept(tensor, tensor.data, copied(tensor), gradient, gradient_copy, tensor.requires_grad)


def _fill(container: Any, before: Any) -> None:
    """Puts back what was in a container, if anything is other than it was."""
    now, then = ([*c, *(c.values() if isinstance(c, dict) else ())] for c in (container, before))
    if len(now) == len(then) and all(a is b for a, b in zip(now, then, strict=True)):
        return
    container.clear()
    container.extend(before) if isinstance(container, (list, deque)) else container.update(before)
