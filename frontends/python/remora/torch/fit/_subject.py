# SPDX-License-Identifier: Apache-2.0
"""The subject of a plan: a model, a batch, a loss and an optimizer, all of tensors without memory.

A model is given as a function that makes one, as a `transformers` configuration, as a module on the device "meta", or
as a module that has memory already. A function runs where new tensors lie on "meta", so no parameter is ever
allocated. Parameters, buffers and batch are then fake tensors on the device that is planned for.
"""

from __future__ import annotations

import contextlib
import copy
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx
from torch._subclasses import FakeTensorMode
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree
from torch.utils._device import _device_constructors

from remora.errors import InputError

from ..capture.dynamo import boxed, compiled_step, results_of
from ..capture.graph import StepGraph, tensors_in
from ..capture.optimizer import Optimizer
from ..capture.read import read_step
from ..capture.simplify import simplify
from ..capture.updates import Updates, refuse_global_norm, update_of, updates_in
from ..errors import CaptureError
from ..ledger import Ledger, Part
from ..problem.sized import SizedGraph, has_symbols
from ..state import State
from ..step import loss_in
from ..symbols import Numbers
from ..walk import hooked
from ._absent import standing_in

PRECISIONS = {
    "fp32": (torch.float32, None),
    "bf16": (torch.float32, torch.bfloat16),
    "fp16": (torch.float32, torch.float16),
    "pure-bf16": (torch.bfloat16, None),
    "pure-fp16": (torch.float16, None),
}
"""By name: the type of the parameters (None: as they are), and that of autocast."""
FEW = 4096
"""Rows of up to so many numbers have memory while a model is made: constructors read them."""


@dataclass
class Subject:
    """A training step on fake tensors."""

    model: torch.nn.Module  # its parameters and buffers are fake, and lie on the device
    batch: Any  # arguments of the loss after the model, a tuple or a mapping; fake, on the device
    loss: Callable[..., torch.Tensor]  # from the model and the batch to a scalar
    precision: str
    device: torch.device
    mode: FakeTensorMode

    @property
    def name(self) -> str:
        """Name of the model's class."""
        return type(self.model).__name__

    def like(self, batch: Any) -> Any:
        """A batch of fake tensors on the device, in the step's precision."""
        memo: dict[int, Any] = {}
        cast, _ = PRECISIONS[self.precision]
        with self.mode:
            return pytree.tree_map(lambda leaf: _faked(leaf, self.device, cast, memo), batch)


@dataclass
class CapturedStep:
    """A captured step."""

    step: StepGraph
    trained: list[torch.nn.Parameter]  # the parameters that have gradients behind it
    checkpoints: int  # the model's own, which were taken out of it
    updates: Updates | None = None  # what runs inside


class Captures:
    """Captures the step of a subject for batches; with `accumulate` that of a later micro-step, where gradients exist.

    `make`: of an optimizer whose updates run inside the step. `sizes`: names of what is declared to vary; one capture
    then serves all batches whose sizes are marked, if PyTorch can.
    """

    def __init__(
        self, subject: Subject, accumulate: bool = False, make: Optimizer | None = None, sizes: Sequence[str] = ()
    ) -> None:
        self._subject, self._accumulate, self._sizes = subject, accumulate, sizes
        self._ledger = Ledger()
        self._ran: tuple[StepGraph, Part] | None = None
        kind = PRECISIONS[subject.precision][1]

        def step(batch: Any) -> torch.Tensor:
            with torch.autocast(subject.device.type, kind) if kind else contextlib.nullcontext():
                value = called(subject.loss, subject.model, batch)
            value.backward()  # type: ignore[no-untyped-call]
            return value.detach()

        # Dynamo keeps what it captured by code object, and each plan is of its own.
        own: Callable[..., Any] = types.FunctionType(
            step.__code__.replace(), step.__globals__, "step", None, step.__closure__
        )
        self._updates = Updates(())
        if make is not None:
            with subject.mode:
                self._updates = Updates(make([p for p in subject.model.parameters() if p.requires_grad]))
            own = self._updates.inside(own)
        # What hooks and the loss do to lists and counters, Dynamo does as well.
        self._state = State({**hooked(subject.model), "the loss": subject.loss}, lazily=True)
        self._compiled = compiled_step(own, self._compile, self._ledger, "marked" if sizes else "")

    def of(self, batch: Any) -> CapturedStep:
        """The step of a batch of fake tensors.

        Raises CaptureError where PyTorch cannot capture it.
        """
        subject, updates = self._subject, self._updates
        updates.check(batch)
        with self._state.run(), subject.mode, standing_in(subject.device):
            for _ in range(1 + self._accumulate):
                self._compiled(batch)
                for given in tensors_in(batch):
                    given.grad = None  # each micro-step has a batch of its own
        assert self._ran is not None, "the step runs when it is called"
        step, part = self._ran
        updated = {update_of(op.nodes[0]).parameter for op in updates_in(step)}
        trained = [p for p in subject.model.parameters() if p.grad is not None or p in updated]
        subject.model.zero_grad(set_to_none=True)
        if not trained:
            raise CaptureError("the step has no gradients: no parameter that the loss reaches requires one")
        assert step.accumulates == self._accumulate, "a later micro-step is captured with the gradients of the first"
        return CapturedStep(step, trained, part.checkpoints, updates if updates.optimizers else None)

    def _compile(self, module: fx.GraphModule, _: Any) -> Callable[[list[Any]], list[Any]]:
        refuse_global_norm(module)
        part = self._ledger.parts[-1]
        may_vary = bool(self._sizes) and not self._ledger.by_size and has_symbols(module)
        self._ledger.varies = self._ledger.varies or may_vary
        if not may_vary:
            self._ledger.tell_numbers(self._sizes)
        step = read_step(module, may_vary=may_vary)
        step.accumulates = part.accumulates
        simplify(step)
        sized = SizedGraph(step, self._ledger.named) if may_vary else None

        def run(arguments: list[Any]) -> list[Any]:
            numbers = Numbers({}) if sized is None else sized.numbers(sized.values_of(arguments))
            self._ran = step if sized is None else step.at(numbers), part
            return _results(module, numbers, self._subject.mode)

        return boxed(run)


def _results(module: fx.GraphModule, numbers: Numbers, mode: FakeTensorMode) -> list[Any]:
    """Fake results of a graph that is not run: parameters then have the gradients that the step would leave behind."""

    def like(value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return numbers.of(value)
        shape, strides = ([int(numbers.of(n)) for n in lengths] for lengths in (value.shape, value.stride()))
        return torch.empty_strided(shape, strides, dtype=value.dtype, device=value.device)

    results = [node.meta.get("val") if isinstance(node, fx.Node) else node for node in results_of(module)]
    with mode:
        return [like(value) for value in results]


def called(loss: Callable[..., torch.Tensor], model: torch.nn.Module, batch: Any) -> torch.Tensor:
    """The loss of a batch, which is a mapping, a sequence of arguments, or one argument."""
    if isinstance(batch, Mapping):
        return loss(model, **batch)
    return loss(model, *batch) if isinstance(batch, (tuple, list)) else loss(model, batch)


def own_loss(model: torch.nn.Module, *arguments: Any, **named: Any) -> torch.Tensor:
    """The loss that a model returns itself: a scalar, or its attribute or key "loss"."""
    found = loss_in(model(*arguments, **named))
    if found is None:
        raise InputError("loss", "the model returns no loss: give a function of the model and the batch")
    return found


def subject_of(
    model: Any, batch: Any, loss: Callable[..., torch.Tensor] | None, precision: str, device: torch.device, train: bool
) -> Subject:
    """Makes a step of fake tensors of what a user gives.

    Raises InputError if one of them is nothing that can be read.
    """
    if precision not in PRECISIONS:
        raise InputError("precision", f"{precision!r} is none of {', '.join(PRECISIONS)}")
    dtype, _ = PRECISIONS[precision]
    bare = bare_model(model)
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    cast = None if dtype == torch.float32 else dtype
    fake = _faked_model(bare, mode, device, cast)
    fake.train(train)
    made = batch() if callable(batch) else batch
    if not any(isinstance(leaf, torch.Tensor) for leaf in pytree.tree_leaves(made)):
        raise InputError("batch", f"{type(made).__name__} holds no tensor")
    subject = Subject(fake, (), loss or own_loss, precision, device, mode)
    subject.batch = subject.like(made)
    return subject


def bare_model(model: Any) -> torch.nn.Module:
    """A module without memory, or the user's own."""
    if isinstance(model, torch.nn.Module):
        return model
    if hasattr(model, "to_diff_dict") and hasattr(model, "model_type"):
        return bare_model(lambda: _of_configuration(model))
    if not callable(model):
        raise InputError("model", f"{type(model).__name__} is no module, no function that makes one, no configuration")
    with WithoutMemory(), torch.random.fork_rng(devices=[]):
        made = model()
    if not isinstance(made, torch.nn.Module):
        raise InputError("model", f"the function gives no module, but {type(made).__name__}")
    return made


def _of_configuration(configuration: Any) -> torch.nn.Module:
    import transformers

    named = [getattr(transformers, name, None) for name in configuration.architectures or ()]
    kind = next((found for found in named if found is not None), None)
    if kind is not None:
        return kind(configuration)  # type: ignore[no-any-return]
    making: Any = transformers.AutoModelForCausalLM
    return making.from_config(configuration)  # type: ignore[no-any-return]


class WithoutMemory(TorchFunctionMode):
    """New tensors lie on "meta", but for short rows of numbers that a constructor may read (`linspace`)."""

    def __torch_function__(
        self, function: Any, types: Any, arguments: tuple[Any, ...] = (), options: dict[str, Any] | None = None
    ) -> Any:
        options = dict(options or {})
        if function not in _device_constructors() or function is torch.tensor:
            return function(*arguments, **options)
        made = function(*arguments, **{**options, "device": "meta"})
        short = function in (torch.arange, torch.linspace, torch.logspace) and made.numel() <= FEW
        return function(*arguments, **options) if short else made


def _faked_model(
    model: torch.nn.Module, mode: FakeTensorMode, device: torch.device, dtype: torch.dtype | None
) -> torch.nn.Module:
    """The same modules with fake parameters and buffers; ties stay."""
    memo: dict[int, Any] = {}
    with mode:
        for tensor in _tensors_of(model):
            _faked(tensor, device, dtype, memo)
    copied = copy.deepcopy(model, memo)
    copied.zero_grad(set_to_none=True)
    return copied


def _tensors_of(model: torch.nn.Module) -> Iterator[torch.Tensor]:
    for module in model.modules():
        yield from (p for p in module._parameters.values() if p is not None)
        yield from (b for b in module._buffers.values() if b is not None)
        yield from (v for v in vars(module).values() if isinstance(v, torch.Tensor))


def _faked(leaf: Any, device: torch.device, dtype: torch.dtype | None, memo: dict[int, Any]) -> Any:
    """A fake tensor like another, on a device; floating-point numbers of the given type."""
    if not isinstance(leaf, torch.Tensor):
        return leaf
    if id(leaf) not in memo:
        kind = dtype if dtype is not None and leaf.is_floating_point() else leaf.dtype
        made = torch.empty_strided(leaf.shape, leaf.stride(), dtype=kind, device=device)
        if isinstance(leaf, torch.nn.Parameter):
            made = torch.nn.Parameter(made, leaf.requires_grad)
        elif leaf.requires_grad:
            made.requires_grad_()
        memo[id(leaf)] = made
    return memo[id(leaf)]
