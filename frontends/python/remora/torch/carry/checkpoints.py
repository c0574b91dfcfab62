# SPDX-License-Identifier: Apache-2.0
"""Carries a plan out: modules whose forward runs inside `torch.utils.checkpoint`, and their way back.

A module keeps its class, its parameters' names and its state dictionary: only its `forward` is another one, inside of
all hooks (so those of FSDP2 and DDP run once), and is copied with it. Bitwise equal to eager: PyTorch restores
generators and autocast; buffers that the forward changes are given their old values while it runs again, and are
changed once; a policy never keeps results of ops that draw random numbers.
"""

from __future__ import annotations

import contextlib
import functools
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch.autograd.graph import saved_tensors_hooks
from torch.utils import _pytree as pytree
from torch.utils.checkpoint import CheckpointPolicy, checkpoint, create_selective_checkpoint_contexts

from ..planning import CheckpointPlan, Choice, Plan
from ..step import CheckpointError
from .in_slices import Note, deferred_head, sliced_module

Module = TypeVar("Module", bound=torch.nn.Module)
_plans = weakref.WeakKeyDictionary[torch.nn.Module, tuple[CheckpointPlan, Callable[[], None] | None]]()


def apply_checkpoints(model: Module, plan: Plan | str | Path | Sequence[str]) -> Module:
    """Checkpoints the modules that a plan names, and sets FSDP2's flags; the model itself is changed.

    Parameters
    ----------
    model : torch.nn.Module
        Names are from here. A plan of `auto_fsdp` is for a model that is sharded as the one for which it was made; any
        other plan for a model that is not yet sharded or wrapped by FSDP or DDP, or the module inside of it.
    plan : Plan, str, path or sequence of str
        What `auto_checkpoint` or `auto_fsdp` found or `Plan.load` read; the file that it was written to; or
        just names of modules, each of which is checkpointed whole.

    Raises
    ------
    CheckpointError
        If the model has no such modules, other modules are sharded, or it has a plan or checkpoints already.
    """
    found = CheckpointPlan.of(plan)
    modules = dict(model.named_modules())
    missing = [name for name in [*found.modules, *found.slices, *map(_owner, found.buffers)] if name not in modules]
    if missing:
        raise CheckpointError(f"the model has no module {missing[0]!r}: the plan was made for another one")
    refuse_planned(model)
    refuse_own_checkpoints(model)
    restore = _resharding(model, found.reshard) if found.reshard else None
    slice_modules(model, found.slices)
    for name, choice in found.modules.items():
        module = modules[name]
        inside = tuple(
            (modules[_owner(b)], b.rpartition(".")[2]) for b in found.buffers if f"{b}.".startswith(f"{name}.")
        )
        inner = module.forward
        run = functools.partial(_offloaded, module, inner) if choice.offload else None
        module.forward = run or functools.partial(_checkpointed, inner, choice, inside)
        module.forward.__wrapped__ = inner
    _plans[model] = found, restore
    return model


def _resharding(model: torch.nn.Module, flags: Mapping[str, bool]) -> Callable[[], None]:
    """Sets FSDP2's flags; gives what sets them as they were."""
    from ..capture.sharded import flags_of, units_of  # loads torch.distributed, which not every PyTorch has

    units = units_of(model)
    if odd := sorted(set(units) ^ set(flags)):
        raise CheckpointError(f"{odd[0] or 'the model itself'} is sharded here or in the plan, but not in both")
    restore = flags_of(units)
    for name, again in flags.items():
        units[name].set_reshard_after_forward(again, recurse=False)
    return restore


def remove_checkpoints(model: Module) -> Module:
    """Undoes `apply_checkpoints`, `auto_checkpoint` and `auto_fsdp`: FSDP2's flags are as they were, too."""
    _, restore = _plans.pop(model, (None, None))
    if restore is not None:
        restore()
    _unwrap(model, (_checkpointed, _offloaded))
    _unwrap(model, (deferred_head, sliced_module))
    return model


def _unwrap(model: torch.nn.Module, kinds: tuple[Any, ...]) -> None:
    for module in model.modules():
        forward = module.__dict__.get("forward")
        if isinstance(forward, functools.partial) and forward.func in kinds:
            del module.forward
            inner = forward.__wrapped__  # type: ignore[attr-defined]
            if getattr(inner, "__func__", None) is not type(module).forward:
                module.forward = inner


def slice_modules(model: torch.nn.Module, slices: Mapping[str, int], notes: Mapping[str, Note] | None = None) -> None:
    """Modules run in slices from now on; `notes`: of linear layers, called for each reader of their products."""
    for name, count in slices.items():
        module: Any = model.get_submodule(name)
        inner = module.forward
        if isinstance(module, torch.nn.Linear):
            run = functools.partial(deferred_head, module, inner, count, (notes or {}).get(name))
        else:
            run = functools.partial(sliced_module, module, inner, count)
        module.forward = run
        module.forward.__wrapped__ = inner


@contextlib.contextmanager
def in_slices_of(
    model: torch.nn.Module, slices: Mapping[str, int], notes: Mapping[str, Note] | None = None
) -> Iterator[None]:
    """While it lasts, modules run in slices."""
    slice_modules(model, slices, notes)
    try:
        yield
    finally:
        _unwrap(model, (deferred_head, sliced_module))


@contextlib.contextmanager
def applied(model: torch.nn.Module, plan: CheckpointPlan) -> Iterator[None]:
    """While it lasts, the model runs by a plan."""
    apply_checkpoints(model, plan)
    try:
        yield
    finally:
        remove_checkpoints(model)


def checkpoints(model: torch.nn.Module) -> CheckpointPlan:
    """The plan by which a model runs."""
    if model not in _plans:
        raise CheckpointError(f"this {type(model).__name__} has no checkpoints of remora.torch.auto_checkpoint")
    return _plans[model][0]


def refuse_planned(model: torch.nn.Module) -> None:
    """Rejects a model that runs by a plan."""
    if model in _plans:
        raise CheckpointError(
            "the model has checkpoints already, by a plan: remora.torch.remove_checkpoints(model) takes them off"
        )


def refuse_own_checkpoints(model: torch.nn.Module) -> None:
    """Rejects a model whose own checkpoints are on."""
    own = [name for name, module in model.named_modules() if getattr(module, "gradient_checkpointing", False) is True]
    if own:
        raise CheckpointError(
            f"the model's own checkpoints are on ({own[0] or 'the model itself'}): call "
            "model.gradient_checkpointing_disable() first, since a plan chooses them"
        )


def _owner(buffer: str) -> str:
    return buffer.rpartition(".")[0]


# -- A checkpointed forward --------------------------------------------------------------------------------------------

Buffers = tuple[tuple[torch.nn.Module, str], ...]


def _checkpointed(inner: Callable[..., Any], choice: Choice, buffers: Buffers, *arguments: Any, **named: Any) -> Any:
    """A module's forward by `torch.utils.checkpoint`.

    All tensors among the arguments are given to it as such: those in containers and behind names would else be kept
    alive by the function, also where an outer checkpoint makes them again. One that is given twice is one when the
    forward runs again, too: nn.MultiheadAttention asks whether its query is its key.
    """
    if not torch.is_grad_enabled():
        return inner(*arguments, **named)
    leaves, spec = pytree.tree_flatten((arguments, named))
    places = [i for i, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]
    tensors = list({id(leaves[i]): leaves[i] for i in places}.values())
    numbers = {id(tensor): number for number, tensor in enumerate(tensors)}
    which = [numbers[id(leaves[i])] for i in places]
    for i in places:
        leaves[i] = None
    del arguments, named

    def run(*given: torch.Tensor) -> Any:
        whole = list(leaves)
        for i, number in zip(places, which, strict=True):
            whole[i] = given[number]
        positional, keywords = pytree.tree_unflatten(whole, spec)
        return inner(*positional, **keywords)

    contexts: dict[str, Any] = {"context_fn": lambda: _contexts(choice, buffers)} if choice.save or buffers else {}
    return checkpoint(run, *tensors, use_reentrant=False, preserve_rng_state=True, **contexts)


def _contexts(choice: Choice, buffers: Buffers) -> tuple[Any, Any]:
    """Context managers for the first run and the second."""
    first: Any = contextlib.nullcontext()
    second: Any = contextlib.nullcontext()
    if choice.save:
        first, second = create_selective_checkpoint_contexts(_policy(choice))  # type: ignore[no-untyped-call]
    old = _OldBuffers(buffers)
    return _nested(old.kept(), first), _Anew(lambda: _nested(old.swapped(), second))


@contextlib.contextmanager
def _nested(outer: Any, inner: Any) -> Iterator[None]:
    with outer, inner:
        yield


class _Anew:
    """A context that may be entered several times, one after the other (`retain_graph`)."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self.make = make
        self.now: Any = None

    def __enter__(self) -> None:
        self.now = self.make()
        self.now.__enter__()

    def __exit__(self, *error: Any) -> Any:
        now, self.now = self.now, None
        return now.__exit__(*error)


def _policy(choice: Choice) -> Callable[..., CheckpointPolicy]:
    wanted, seen = set(choice.save), dict[str, int]()

    def decide(_: Any, op: Any, *__: Any, **___: Any) -> CheckpointPolicy:
        name = str(op)
        number = seen[name] = seen.get(name, -1) + 1
        return CheckpointPolicy.MUST_SAVE if (name, number) in wanted else CheckpointPolicy.PREFER_RECOMPUTE

    return decide


class _OldBuffers:
    """The values of buffers when a forward began: its second run finds them, and what it writes is dropped."""

    def __init__(self, buffers: Buffers) -> None:
        self.buffers = buffers
        self.values: list[torch.Tensor] = []

    @contextlib.contextmanager
    def kept(self) -> Iterator[None]:
        self.values = [module.get_buffer(key).detach().clone() for module, key in self.buffers]
        yield

    @contextlib.contextmanager
    def swapped(self) -> Iterator[None]:
        now = [module._buffers[key] for module, key in self.buffers]
        try:
            for (module, key), value in zip(self.buffers, self.values, strict=True):
                module._buffers[key] = value.clone()
            yield
        finally:
            for (module, key), buffer in zip(self.buffers, now, strict=True):
                module._buffers[key] = buffer


# -- An offloaded forward ----------------------------------------------------------------------------------------------


def _offloaded(module: torch.nn.Module, inner: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
    """A module's forward, whose saved tensors lie in the CPU's memory till the backward asks for them."""
    if not torch.is_grad_enabled():
        return inner(*arguments, **named)
    own = {p.untyped_storage()._cdata for p in (*module.parameters(), *module.buffers())}

    def pack(tensor: torch.Tensor) -> Any:
        if tensor.untyped_storage()._cdata in own:
            return tensor
        gpu = tensor.device.type == "cuda"
        copy = torch.empty_like(tensor, device="cpu", pin_memory=gpu)
        copy.copy_(tensor, non_blocking=gpu)
        return tensor.device, copy

    def unpack(packed: Any) -> torch.Tensor:
        if isinstance(packed, torch.Tensor):
            return packed
        device, copy = packed
        result: torch.Tensor = copy.to(device, non_blocking=True, copy=True)
        return result

    with saved_tensors_hooks(pack, unpack):
        return inner(*arguments, **named)
