# SPDX-License-Identifier: Apache-2.0
"""An eager training step: runs it, restores what it changed, and tries it under a plan."""

from __future__ import annotations

import contextlib
import functools
import gc
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import torch

from .errors import TorchError
from .internals import instead
from .job import ALONE, gathered
from .measure import Clock, allocated, random_state, rounded
from .state import State
from .walk import hooked

Outcome = dict[str, torch.Tensor]
"""Tensors that a step left behind, by their names; on the CPU."""


class CheckpointError(TorchError):
    """A model's step cannot be checkpointed, or not by this plan; the message says why."""


@dataclass(frozen=True)
class Timing:
    """Seconds of a run: of all of it, of its forward, and of each call of a module in the order in which they begin."""

    whole: float
    forward: float
    calls: list[float]


@contextlib.contextmanager
def entered(model: torch.nn.Module, around: Callable[[str, torch.nn.Module, Any], Any]) -> Iterator[None]:
    """Each module's forward runs inside `around(name, module, arguments)`."""

    def wrapped(name: str, module: torch.nn.Module) -> Callable[..., Any]:
        inner = module.forward

        def forward(*arguments: Any, **named: Any) -> Any:
            with around(name, module, (arguments, named)):
                return inner(*arguments, **named)

        return forward

    with contextlib.ExitStack() as stack:
        for name, module in model.named_modules():
            stack.enter_context(instead(module, "forward", wrapped(name, module)))
        yield


@dataclass
class EagerStep:
    """A training step of a model: what is run, and what it must find each time.

    Hooks run as they will when the model is trained, such as those that step an optimizer in the backward.

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
        loss = self._checked_loss()
        if backward:
            loss.backward()  # type: ignore[no-untyped-call]
        return loss.detach()

    def run_timed(self) -> tuple[torch.Tensor, Timing]:
        """The loss's value, and how long the run took."""
        clock, marks = Clock(self.device), list[tuple[Any, Any]]()

        @contextlib.contextmanager
        def around(_: str, __: Any, ___: Any) -> Iterator[None]:
            place, start = len(marks), clock.mark()
            marks.append((start, start))
            yield
            marks[place] = start, clock.mark()

        start = clock.mark()
        with entered(self.model, around):
            loss = self._checked_loss()
        turn = clock.mark()
        loss.backward()  # type: ignore[no-untyped-call]
        end = clock.mark()
        calls = [clock.between(*pair) for pair in marks]
        return loss.detach(), Timing(clock.between(start, end), clock.between(start, turn), calls)

    def _checked_loss(self) -> torch.Tensor:
        loss = self.loss()
        if not isinstance(loss, torch.Tensor) or loss.numel() != 1:
            raise CheckpointError("the loss must be a tensor of one number: give auto_checkpoint `loss`")
        return loss

    @functools.cached_property
    def hooks(self) -> dict[str, Any]:
        """The user's hooks, and the optimizers that these may step."""
        return hooked(self.model)

    @functools.cached_property
    def state(self) -> State:
        """All that the step can change, as it is before the first run."""
        parameters = dict(self.model.named_parameters())
        return State({**self.hooks, **parameters, "the loss": self.loss, "the model": self.model}, lazily=True)

    @contextlib.contextmanager
    def kept(self) -> Iterator[None]:
        """Restores what the step changes: parameters, optimizers of hooks, buffers, generators, gradients."""
        with self.state.run():
            yield


PARAMETER = "the parameter "
"""How the names of parameters begin in an outcome."""


def same_bits(a: torch.Tensor, b: torch.Tensor) -> bool:
    """True if bitwise equal; not-a-number is equal to itself."""
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    return torch.equal(a.contiguous().reshape(-1).view(torch.uint8), b.contiguous().reshape(-1).view(torch.uint8))


def outcome_of(step: EagerStep, run: Callable[[], torch.Tensor]) -> Outcome:
    """Runs a step by `run`, and restores what it changed."""
    with step.kept():
        values = {"the loss": run().cpu()}
        gradients = ((f"the gradient of {n}", p.grad) for n, p in step.model.named_parameters())
        buffers = ((f"the buffer {n}", b) for n, b in step.model.named_buffers())
        parameters = ((f"{PARAMETER}{n}", p) for n, p in step.model.named_parameters() if step.hooks)
        found = [(name, v.detach()) for name, v in (*gradients, *buffers, *parameters) if v is not None]
        # Of a sharded tensor, this process's part.
        own = [(name, value.to_local() if hasattr(value, "to_local") else value) for name, value in found]
        values |= {name: value.to("cpu", copy=True) for name, value in own}
        values["the generator"] = random_state(step.device).cpu()
    return values


def differences(mine: Outcome, eager: Outcome) -> list[str]:
    """Names of the values that are not bitwise equal."""
    return [n for n in {**mine, **eager} if n not in mine or n not in eager or not same_bits(mine[n], eager[n])]


def outcome_and_peak(step: EagerStep, run: Callable[[], torch.Tensor]) -> tuple[Outcome, int]:
    """The outcome of a run, and its peak in bytes beyond what is allocated before it."""
    peak = 0

    def measured() -> torch.Tensor:
        nonlocal peak
        loss: torch.Tensor
        gc.collect()  # what is collected while it runs would lower its peak
        loss, peak = allocated(run, step.device, "allocated_bytes")
        return loss

    return outcome_of(step, measured), peak


@dataclass(frozen=True)
class Trial:
    """A step that ran under a plan: its peak in bytes beyond what is allocated before it, and its seconds."""

    peak: int
    seconds: float


MARGIN = 4.0
"""A value differs if it is off the eager runs' values by more than so many times what these differ by."""


class Reference:
    """A step without a plan: the values that it leaves behind, and by how much these differ from one run to the next.

    On a GPU, sums whose order is not fixed differ in their last bits, not in each run and not in each tensor.
    `timings`: of the runs; `peak`: of one that is not the first, in bytes beyond what is allocated before it.
    """

    def __init__(self, step: EagerStep) -> None:
        self.step = step
        self.timings: list[Timing] = []
        self.peak = 0
        self.values = outcome_of(step, self._run_timed)
        self._range: dict[str, tuple[torch.Tensor, torch.Tensor]] = {}  # of the elements of what is unsteady
        self._runs(3 if step.device.type == "cuda" else 1)
        self._refuse_hidden()

    @property
    def unsteady(self) -> list[str]:
        """Names of the values that differ from one eager run to the next."""
        return list(self._range)

    def _refuse_hidden(self) -> None:
        """Rejects hooks that train the model with a state that is not restored: only parameters then differ."""
        names = [name for name in self._range if name.startswith(PARAMETER)]
        if names and len(names) == len(self._range):
            raise CheckpointError(
                f"{names[0]} is updated by a hook whose own state cannot be found and restored, so that no step can be "
                "tried before the training: plan first and register the hook then"
            )

    def _runs(self, count: int) -> None:
        """Runs the step some more times."""
        for _ in range(count):
            found, self.peak = outcome_and_peak(self.step, self._run_timed)
            for name in differences(found, self.values):
                if name not in found or name not in self.values or found[name].shape != self.values[name].shape:
                    raise CheckpointError(f"{name} is not in each eager step, or has another shape")
                self._range.setdefault(name, (self.values[name], self.values[name]))
            for name, (low, high) in self._range.items():
                self._range[name] = torch.minimum(low, found[name]), torch.maximum(high, found[name])

    def _run_timed(self) -> torch.Tensor:
        loss, timing = self.step.run_timed()
        self.timings.append(timing)
        return loss

    def exceeding(self, mine: Outcome, rounding: float = 0.0) -> list[str]:
        """Names of the values in a run that differ by more than those of eager runs do among each other.

        A value that was the same in all of them may differ by as much of its size as the others do; all by so much of
        their size, in roundings of their type.
        """
        found = differences(mine, self.values)
        noise = sorted(_noise(low, high) for low, high in self._range.values())
        usual = noise[len(noise) // 2] if noise else 0.0
        wrong = []
        for name in found:
            eager = self.values.get(name)
            if name not in mine or eager is None or mine[name].shape != eager.shape or not eager.is_floating_point():
                wrong.append(name)
                continue
            low, high = (bound.double() for bound in self._range.get(name, (eager, eager)))
            size = torch.maximum(low.abs(), high.abs()).max()
            own = rounding * torch.finfo(eager.dtype).eps
            slack = MARGIN * torch.clamp(high - low, min=float(size) * max(usual, own, _noise(low, high)))
            value = mine[name].double()
            within = (value >= low - slack) & (value <= high + slack) | (value.isnan() & eager.isnan())
            if not bool(within.all()):
                wrong.append(name)
        return wrong

    def tried(self, applied: AbstractContextManager[Any], group: Any = ALONE) -> list[Trial]:
        """Runs the step under a plan, which is applied for the length of a context; twice on a GPU.

        There the first run requests the blocks of memory that later ones find. Returns one trial for each process of a
        group. Raises CheckpointError in all of them if the step differs in one by more than eager steps do.
        """
        step, clock = self.step, Clock(self.step.device)
        marks: list[Any] = []

        def marked() -> torch.Tensor:
            marks[:] = [clock.mark()]
            loss = step.run()
            marks.append(clock.mark())
            return loss

        with applied:
            mine, peak = outcome_and_peak(step, marked)
            if step.device.type == "cuda":
                with step.kept():
                    marked()
            seconds = clock.between(*marks)
        if any(gathered(bool(self.exceeding(mine)), group)):
            self._runs(4)  # eager may differ, too, only more seldom
        wrong = [names[0] for names in gathered(self.exceeding(mine), group) if names]
        if wrong:
            raise CheckpointError(
                f"with the plan {wrong[0]} differs from eager: a module does something else when it runs again"
            )
        return gathered(Trial(peak, seconds), group)


def _noise(low: torch.Tensor, high: torch.Tensor) -> float:
    """The largest difference between eager runs' values in a tensor, as a share of its largest value."""
    low, high = low.double(), high.double()
    size = float(torch.maximum(low.abs(), high.abs()).max()) if low.numel() else 0.0
    return float((high - low).max()) / size if size else 0.0


def loss_of(model: torch.nn.Module, batch: Any, loss: Callable[..., torch.Tensor] | None) -> torch.Tensor:
    """The loss of a model for a batch: from `loss`, or as the model returns it.

    `batch`: a tensor, a sequence of the model's arguments, or a mapping by name.
    """
    if loss is not None:
        return loss(model, batch)
    if isinstance(batch, torch.Tensor):
        batch = (batch,)
    found = loss_in(model(**batch) if isinstance(batch, Mapping) else model(*batch))
    if found is None:
        raise CheckpointError("the model returns no loss for this batch: give auto_checkpoint `loss`")
    return found


def loss_in(result: Any) -> torch.Tensor | None:
    """The loss in a model's result: a number, or the attribute or key "loss" of it; None if there is none."""
    if not isinstance(result, torch.Tensor):
        result = result.get("loss") if isinstance(result, Mapping) else getattr(result, "loss", None)
    return result if isinstance(result, torch.Tensor) and result.numel() == 1 else None
