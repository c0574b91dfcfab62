# SPDX-License-Identifier: Apache-2.0
"""Memory of an optimizer: its state, and the temporaries of its step.

The optimizer's own step runs twice on parameters and gradients without memory. Each storage is counted from the op that
makes it until its last reference is gone, at the size that the device's allocator gives it. The first step makes the
state. So foreach and fused variants are counted as PyTorch chooses them for these parameters on this device.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch._subclasses import FakeTensorMode
from torch._subclasses.fake_tensor import FakeTensor, unset_fake_temporarily
from torch.optim.optimizer import _foreach_supported_types
from torch.overrides import TorchFunctionMode

from remora.errors import InputError

from ..errors import first_line
from .graph import storages_bytes, tensors_in
from .launches import Held

Optimizer = Callable[[Iterable[torch.nn.Parameter]], torch.optim.Optimizer]
OPTIMIZERS: dict[str, Optimizer] = {
    "adamw": torch.optim.AdamW,
    "adam": torch.optim.Adam,
    "sgd": torch.optim.SGD,
    "sgd-momentum": lambda parameters: torch.optim.SGD(parameters, lr=0.1, momentum=0.9),
    "rmsprop": torch.optim.RMSprop,
    "adagrad": torch.optim.Adagrad,
    "adafactor": torch.optim.Adafactor,
}
"""By the name that `remora fit` and `plan` take; training_memory.cpp has what they allocate, for ONNX models."""


SCALARS = 64
"""Bytes that an optimizer computes at most of an option that is a tensor of one number."""


@dataclass(frozen=True)
class OptimizerMemory:
    """Bytes on the device."""

    state: int = 0  # what stays
    # first, later: the most that the first step takes beyond parameters and gradients, its state included; the most
    # that a later one takes beyond these and the state
    first: int = 0
    later: int = 0

    @property
    def temporaries(self) -> int:
        """The most that a step takes beyond parameters, gradients and the state, as if this were there before."""
        return max(self.later, self.first - self.state)

    def part(self, share: float) -> OptimizerMemory:
        """That of a process that holds such a share of the parameters."""
        return OptimizerMemory(*(round(share * size) for size in (self.state, self.first, self.later)))


def optimizer_of(given: str | Optimizer | None) -> Optimizer | None:
    """An optimizer's maker, from what a user gives.

    Raises InputError if it is an optimizer that exists already, or a name that is unknown.
    """
    if given is None or given == "none":
        return None
    if isinstance(given, str):
        if given not in OPTIMIZERS:
            raise InputError("optimizer", f"{given!r} is none of {', '.join([*OPTIMIZERS, 'none'])}")
        return OPTIMIZERS[given]
    if isinstance(given, torch.optim.Optimizer) or not callable(given):
        raise InputError(
            "optimizer",
            f"{type(given).__name__} is no class and no function of parameters: torch.optim.AdamW, or "
            "functools.partial(torch.optim.AdamW, lr=1e-4)",
        )
    return given


FORMS = ("fused", "foreach", "in backward")
"""How an optimizer updates: by one kernel, by lists of all parameters, or each as soon as its gradient is there."""


def in_form(make: Optimizer | None, form: str | None) -> Optimizer | None:
    """An optimizer's maker, of one that updates in a form; None: as PyTorch chooses.

    Raises InputError if it has no such form, or there is no optimizer.
    """
    if form is None:
        return make
    if form not in FORMS:
        raise InputError("update", f"{form!r} is none of {', '.join(FORMS)}")
    if make is None:
        raise InputError("update", f"{form!r}, but there is no optimizer")

    def made(parameters: Iterable[torch.nn.Parameter]) -> torch.optim.Optimizer:
        optimizer = make(parameters)
        if form == "in backward":
            return one_by_one(optimizer)
        for group in optimizer.param_groups:
            if form not in group:
                raise InputError("update", f"{type(optimizer).__name__} has no {form} form")
            group.update({other: other == form for other in ("fused", "foreach") if other in group})
        return optimizer

    return made


def optimizer_memory(
    make: Optimizer | None, parameters: Iterable[torch.nn.Parameter], device: torch.device, mode: Any
) -> OptimizerMemory:
    """Memory of an optimizer of these fake parameters, all of which have gradients.

    Raises InputError where its step cannot run on tensors without memory.
    """
    trained = [p for p in parameters if p.requires_grad]
    if make is None or not trained:
        return OptimizerMemory()
    with mode:
        for parameter in trained:
            parameter.grad = torch.empty_like(parameter)
        try:
            with _as_parameters(), _Numbers(), _Counted(device) as first:
                optimizer = make(trained)
                optimizer.step()
            state, numbers = _state_bytes(optimizer, device), _state_bytes(optimizer, device, real=True)
            with _as_parameters(), _Numbers(), _Counted(device) as later:
                optimizer.step()
        except (RuntimeError, TypeError) as error:
            said = f"its step cannot run on tensors without memory: {first_line(error)}"
            raise InputError("optimizer", said) from error
        finally:
            for parameter in trained:
                parameter.grad = None
    return OptimizerMemory(state, first.peak + numbers, later.peak)


def memory_like(
    kind: Callable[..., torch.optim.Optimizer], options: Mapping[str, Any], parameter: torch.nn.Parameter
) -> OptimizerMemory:
    """Memory of an optimizer of one parameter, which it updates without its foreach variant.

    Options that are tensors, as a learning rate may be, count as numbers, with a bound for what is computed of them.
    """
    tensors = {name: value for name, value in options.items() if isinstance(value, torch.Tensor)}
    options = {**options, **{name: value.item() for name, value in tensors.items()}}
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    with mode:
        made = torch.empty_strided(
            parameter.shape, parameter.stride(), dtype=parameter.dtype, device=parameter.device, requires_grad=True
        )
        fake = torch.nn.Parameter(made)

    def make(given: Iterable[torch.nn.Parameter]) -> torch.optim.Optimizer:
        return one_by_one(kind([{**options, "params": list(given)}]))

    found = optimizer_memory(make, [fake], parameter.device, mode)
    return replace(found, later=found.later + SCALARS * len(tensors))


def one_by_one(optimizer: torch.optim.Optimizer) -> torch.optim.Optimizer:
    """The optimizer, without its foreach variant."""
    for group in optimizer.param_groups:
        if "foreach" in group:
            group["foreach"] = False
    return optimizer


@contextlib.contextmanager
def _as_parameters() -> Iterator[None]:
    """Fake tensors count among the types of which PyTorch's optimizers take their foreach variant."""
    _foreach_supported_types.append(FakeTensor)
    try:
        yield
    finally:
        _foreach_supported_types.remove(FakeTensor)


def _state_bytes(optimizer: torch.optim.Optimizer, device: torch.device, real: bool = False) -> int:
    """The bytes of an optimizer's state; `real`: of what has memory in it, the counters of steps."""
    tensors = (t for t in tensors_in(dict(optimizer.state)) if not (real and isinstance(t, FakeTensor)))
    return storages_bytes(tensors, device)


class _Numbers(TorchFunctionMode):
    """Counters of steps have memory, four bytes each, for optimizers read them; what else they read is 1."""

    def __torch_function__(
        self, function: Any, types: Any, arguments: tuple[Any, ...] = (), options: dict[str, Any] | None = None
    ) -> Any:
        given = tensors_in((arguments, options))
        if function in (torch.Tensor.item, torch.Tensor.__float__) and isinstance(given[0], FakeTensor):
            return 1.0  # sizes do not depend on it
        real = bool(given) and not any(isinstance(t, FakeTensor) for t in given)
        with unset_fake_temporarily() if real or function is torch.tensor else contextlib.nullcontext():
            return function(*arguments, **(options or {}))


class _Counted(Held):  # type: ignore[no-untyped-call]
    """The peak of new storages on a device while it lasts, numbers next to them included."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.own(tensors_in((args, kwargs)), comes=False, goes=False)
        made = super().__torch_dispatch__(func, types, args, kwargs)
        scalar = wrapped_number(func, args) if self.device is not None and self.device.type == "cpu" else 0
        self.peak = max(self.peak, self.held + scalar)
        return made


def wrapped_number(function: Any, arguments: tuple[Any, ...]) -> int:
    """Size of a number next to a tensor while an op of the CPU runs: eight bytes, and one of the tensor's type.

    Ops of lists run on each tensor of theirs.
    """
    name = function.overloadpacket.__name__.rstrip("_").removeprefix("_foreach_")
    if name not in ("add", "sub", "mul", "div") or len(arguments) < 2:
        return 0
    given = [a[0] if isinstance(a, (list, tuple)) and a else a for a in arguments[:2]]
    tensor = next((a for a in given if isinstance(a, torch.Tensor)), None)
    if tensor is None or not any(isinstance(a, (int, float)) for a in given):
        return 0
    return 8 if tensor.itemsize == 8 else 8 + tensor.itemsize
