# SPDX-License-Identifier: Apache-2.0
"""All that a step can change, found by walking from the step.

From the function the walk goes to the variables of its closure, the globals that it names, its arguments, and on
through modules, optimizers, gradient hooks, containers and the user's own objects. What it finds has the name that the
user would call it by: `model.layers.0.weight`. Iterators, files and data sets have no state that could be set back; of
classes and imported modules only what the user's functions name is looked at.
"""

from __future__ import annotations

import argparse
import enum
import functools
import gc
import random
import sys
import sysconfig
import types
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch

LONGEST = 10_000
"""Containers with more entries are data, which no step changes."""

_DICTIONARIES = (dict, OrderedDict, defaultdict)
_CONTAINERS = (*_DICTIONARIES, list, set, deque)
_LIBRARIES = {*sys.stdlib_module_names, "torch", "numpy", "remora"}
_ENTERED = ("torch.optim", "torch.amp", "torch.cuda.amp")
_CELLS = {sysconfig.get_paths()[key] for key in ("stdlib", "purelib", "platlib")}
_OF_MODULES = ("_parameters", "_buffers", "_modules")
_HOOKS = ("_forward_pre_hooks", "_forward_hooks", "_backward_pre_hooks", "_backward_hooks")


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


@dataclass
class Found:
    """Objects found by a walk."""

    tensors: dict[str, torch.Tensor] = field(default_factory=dict)
    kinds: dict[str, Kind] = field(default_factory=dict)  # of the tensors
    values: dict[str, Any] = field(default_factory=dict)  # numbers, texts, and lengths of lists
    modules: dict[int, str] = field(default_factory=dict)  # names by `id`
    instances: list[torch.nn.Module] = field(default_factory=list)  # the same modules
    generators: dict[str, Any] = field(default_factory=dict)
    arrays: list[Any] = field(default_factory=list)  # numpy's
    names: dict[int, str] = field(default_factory=dict)  # of the tensors, by `id`
    containers: list[Any] = field(default_factory=list)  # what can be filled again
    growing: set[int] = field(default_factory=set)  # containers, by `id`, in which new entries may stay
    # each sets a variable of a closure, or a global one, to what it is now
    variables: list[Callable[[], None]] = field(default_factory=list)
    compiled: bool = False  # whether something is compiled, or runs by Remora
    planned: list[Any] = field(default_factory=list)  # what has plans of Remora (`plans`)

    @property
    def in_slices(self) -> bool:
        """True if a part of a planned step is computed in slices."""
        return any(getattr(plan, "slices", 0) for owner in self.planned for plan in owner.plans)


def walk(roots: dict[str, Any], lazily: bool = False) -> Found:
    """Finds what can be reached; each object once, by its first name.

    With `lazily` modules come last. Of what only they refer to, just tensors, numbers and containers are looked at, and
    what a module makes for itself in its first forward, as a cache, may stay.
    """
    found = Found()
    seen: dict[int, Any] = {id(generator): generator for generator in generators().values()}
    pending = [(name, thing, Kind.STATE) for name, thing in reversed(roots.items())]
    modules: list[tuple[str, Any, Kind]] = []
    is_last = False
    while pending or modules:
        if not pending:
            pending, modules, is_last = modules[::-1], [], True
        name, thing, kind = pending.pop()
        if lazily and not is_last and isinstance(thing, torch.nn.Module):
            modules.append((name, thing, kind))
        elif is_last and not isinstance(thing, _OF_A_MODULE) and state_of(thing) is None:
            continue
        elif isinstance(thing, (bool, int, float, str)):
            found.values[_free(name, found.values)] = thing
        elif thing is not None and id(thing) not in seen:
            seen[id(thing)] = thing
            before = len(found.containers)
            pending += reversed(list(_inside(found, name, thing, kind)))
            if is_last and not isinstance(thing, (list, set, deque)):
                found.growing.update(map(id, found.containers[before:]))
    return found


_OF_A_MODULE = (bool, int, float, str, torch.Tensor, torch.nn.Module, tuple, *_CONTAINERS)


def _inside(found: Found, name: str, thing: Any, kind: Kind) -> Iterator[tuple[str, Any, Kind]]:
    """Notes a thing, and gives what to look at behind it."""
    if isinstance(thing, torch.Tensor):
        yield from _inside_tensor(found, name, thing, kind)
    elif isinstance(thing, torch.nn.Module):
        yield from _inside_module(found, name, thing)
    elif state_of(thing) is not None:
        found.generators[_free(name, found.generators)] = thing
    elif isinstance(thing, (*_CONTAINERS, tuple)):
        yield from _inside_container(found, name, thing, kind)
    elif type(thing).__module__ == "numpy" and type(thing).__name__ == "ndarray":
        found.arrays.append(thing)
    elif isinstance(thing, functools.partial):
        yield from ((name, part, Kind.STATE) for part in (thing.func, thing.args, thing.keywords))
    elif isinstance(thing, types.MethodType):
        yield "self" if name == "" else name, thing.__self__, Kind.STATE
        yield name, thing.__func__, Kind.STATE
    elif isinstance(thing, types.BuiltinMethodType):  # such as a list's append
        yield name, thing.__self__, Kind.STATE
    elif isinstance(thing, types.FunctionType):
        yield from _inside_function(found, thing)
    elif type(thing).__module__.startswith("remora.torch"):
        found.compiled = True
        found.planned += [thing] if hasattr(thing, "plans") else []
        yield name, getattr(thing, "function", None), Kind.STATE
        yield _joined(name, "update"), getattr(thing, "optimizers", None), Kind.STATE
    elif _is_entered(thing):
        yield name, getattr(thing, "__dict__", None), Kind.STATE
        for key in (key for cls in type(thing).__mro__ for key in vars(cls).get("__slots__", ())):
            if key != "__dict__" and hasattr(thing, key):
                found.variables.append(functools.partial(setattr, thing, key, getattr(thing, key)))
                yield _joined(name, key), getattr(thing, key), Kind.STATE
        calls = (vars(cls)["__call__"] for cls in type(thing).__mro__ if "__call__" in vars(cls))
        yield name, next(calls, None), kind


def _inside_tensor(found: Found, name: str, tensor: torch.Tensor, kind: Kind) -> Iterator[tuple[str, Any, Kind]]:
    """A tensor's hooks, its attributes (an optimizer, where PyTorch steps one in the backward), and its parts."""
    name = _free(name, found.tensors)
    found.tensors[name], found.kinds[name] = tensor, kind
    found.names[id(tensor)] = name
    for hooks in (*hooks_of(tensor), *hooks_of_node(tensor)):
        yield f"{name}'s hooks", hooks, Kind.STATE
    yield f"{name}'s attributes", vars(tensor), Kind.STATE
    yield from ((name, part, Kind.STATE) for part in parts_of(tensor))


def _inside_module(found: Found, name: str, module: torch.nn.Module) -> Iterator[tuple[str, Any, Kind]]:
    itself = vars(module)
    found.modules[id(module)] = name
    found.instances.append(module)
    found.containers.append(itself)
    backend = getattr(itself.get("_compiled_call_impl"), "backend", None)
    found.planned += [backend] if backend is not None else []
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
        for i, (key, value) in enumerate(list(thing.items())):
            if is_mark(key):
                continue
            text = found.names.get(id(key), str(i))
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
    names = _names_in(function.__code__)
    for name in names:
        if name in function.__globals__:
            value = function.__globals__[name]
            found.variables.append(functools.partial(function.__globals__.__setitem__, name, value))
            yield name, value, Kind.STATE
            if isinstance(value, (type, types.ModuleType)) and _is_own(value):
                yield from _named_in(found, name, value, names)


def _named_in(found: Found, name: str, owner: Any, names: Iterable[str]) -> Iterator[tuple[str, Any, Kind]]:
    """Attributes of a class or an imported module that a function names."""
    for key in names:
        value = vars(owner).get(key)
        if value is not None and not isinstance(value, (type, types.ModuleType, property)):
            found.variables.append(functools.partial(_put_back, owner, key, value))
            yield f"{name}.{key}", value, Kind.STATE


def _put_back(owner: Any, name: str, value: Any) -> None:
    if vars(owner).get(name) is not value:
        setattr(owner, name, value)


def _is_own(owner: Any) -> bool:
    """True for a class or module in a file of the user's."""
    module = sys.modules.get(owner.__module__) if isinstance(owner, type) else owner
    file = getattr(module, "__file__", None)
    name = getattr(module, "__name__", "")
    return name == "__main__" or (bool(file) and not _is_library(name, str(file)))


def _is_library(name: str, file: str) -> bool:
    return name.partition(".")[0] in _LIBRARIES or any(file.startswith(place) for place in _CELLS)


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
    if isinstance(thing, (type, types.ModuleType, torch.utils.data.Dataset)):
        return False
    if isinstance(thing, (types.SimpleNamespace, argparse.Namespace)):
        return True
    return kind.__module__.startswith(_ENTERED) or kind.__module__.partition(".")[0] not in _LIBRARIES


def hooks_of(tensor: torch.Tensor) -> list[Any]:
    """The dictionaries of a tensor's gradient hooks that are not empty."""
    both: tuple[Any, Any] = tensor._backward_hooks, tensor._post_accumulate_grad_hooks
    return [hooks for hooks in both if hooks]


def hooks_of_node(tensor: torch.Tensor) -> list[Any]:
    """The dictionaries of hooks on the node by which a leaf gets its gradient: only the garbage collector shows them.

    It does so if nothing but the user's own reference keeps that node alive.
    """
    if not (tensor.is_leaf and tensor.requires_grad):
        return []
    node = torch.autograd.graph.get_gradient_edge(tensor).node
    own = {id(hooks) for hooks in hooks_of(tensor)}
    return [hooks for hooks in gc.get_referents(node) if isinstance(hooks, dict) and hooks and id(hooks) not in own]


def is_node_kept(tensor: torch.Tensor) -> bool:
    """True if something keeps that node alive, such as a graph: it may have hooks that nothing shows."""
    if not (tensor.is_leaf and tensor.requires_grad):
        return False
    first: Any = torch.autograd.graph.get_gradient_edge(tensor).node
    first.metadata["remora"] = True
    del first
    again: Any = torch.autograd.graph.get_gradient_edge(tensor).node
    return bool(again.metadata.pop("remora", False))


def is_mark(key: Any) -> bool:
    """True for an attribute by which Dynamo marks the tensors that it has seen: no state of the step."""
    return isinstance(key, str) and key.startswith("_dynamo")


def parts_of(tensor: torch.Tensor) -> list[torch.Tensor]:
    """The tensors that one of a subclass consists of, such as the part of a sharded one that this process has."""
    if type(tensor).__torch_dispatch__ is torch.Tensor.__torch_dispatch__ or not hasattr(tensor, "__tensor_flatten__"):
        return []
    return [getattr(tensor, name) for name in tensor.__tensor_flatten__()[0]]


def hooked(model: torch.nn.Module) -> dict[str, Any]:
    """The user's hooks of a model and of its parameters, with all optimizers of these: roots for a walk.

    PyTorch's own hooks, as those of FSDP2, are none.
    """
    found: dict[str, Any] = {}
    for name, module in model.named_modules():
        found |= {_joined(name, kind): vars(module)[kind] for kind in _HOOKS}
    found |= {kind: hooks for kind, hooks in vars(torch.nn.modules.module).items() if kind.startswith("_global_")}
    found = {name: hooks for name, hooks in found.items() if isinstance(hooks, dict) and _has_own(hooks)}
    for name, p in model.named_parameters():
        if hooks := [*hooks_of(p), *hooks_of_node(p)] or is_node_kept(p):
            found[f"{name}'s hooks"] = hooks
    if found:
        ids = {id(p) for p in model.parameters()}
        for thing in gc.get_objects():
            if issubclass(type(thing), torch.optim.Optimizer):
                rows = (p for group in getattr(thing, "param_groups", ()) for p in group["params"])
                if any(id(p) in ids for p in rows):
                    found[f"an optimizer ({len(found)})"] = thing
    return found


def _has_own(hooks: dict[Any, Any]) -> bool:
    """True if one of a module's hooks is not PyTorch's own."""
    return any(not str(getattr(hook, "__module__", "")).startswith("torch.") for hook in hooks.values())


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


def state_of(generator: Any) -> Any:
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


def set_state(generator: Any, state: Any) -> None:
    """Gives a generator a state that `state_of` gave."""
    if hasattr(generator, "setstate"):
        generator.setstate(state)
    elif hasattr(generator, "bit_generator") and not isinstance(generator, types.ModuleType):
        generator.bit_generator.state = state
    else:
        generator.set_state(state)


def generators() -> dict[str, Any]:
    """The generators from which everything draws that names none."""
    found: dict[str, Any] = {"CPU's": torch.default_generator, "Python's": random}
    if "numpy" in sys.modules:
        found["numpy's"] = sys.modules["numpy"].random
    if torch.cuda.is_available() and torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        found |= {f"CUDA's {i}": generator for i, generator in enumerate(torch.cuda.default_generators)}
    return found
