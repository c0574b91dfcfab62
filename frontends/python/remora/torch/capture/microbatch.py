# SPDX-License-Identifier: Apache-2.0
"""The steps of a pipeline's stage: the whole schedule, and the first microbatch alone, as the schedule gives it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.utils import _pytree as pytree

from ..internals import instead
from ..measure import Clock
from ..step import EagerStep, Timing
from .graph import tensors_in


class ScheduledStep(EagerStep):
    """A step of the whole schedule; gradients exist before it, as zeros."""

    def __init__(self, stage: Any, schedule_step: Callable[[], Any]) -> None:
        super().__init__(stage.submod, lambda: torch.zeros(()), stage.device, [])
        self.stage, self.schedule_step = stage, schedule_step

    def run(self, backward: bool = True) -> torch.Tensor:
        """Runs all microbatches; the loss is that of other processes, too, and not compared."""
        self.schedule_step()
        return self.loss()

    def run_timed(self) -> tuple[torch.Tensor, Timing]:
        """Runs all microbatches; the forward cannot be told from the backward."""
        clock = Clock(self.device)
        start = clock.mark()
        loss = self.run()
        seconds = clock.between(start, clock.mark())
        return loss, Timing(seconds, seconds, [])

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Restores generators, buffers and gradients."""
        with super().kept():
            for p in self.model.parameters():
                p.grad = torch.zeros_like(p) if p.requires_grad else None
            self.stage.clear_runtime_states()  # outputs of the step before
            yield


class _Feed(torch.autograd.Function):
    """Stands for the stages behind: gives the output's gradients."""

    @staticmethod
    def forward(ctx: Any, gradients: tuple[torch.Tensor, ...], *outputs: torch.Tensor) -> torch.Tensor:
        ctx.gradients = gradients
        return torch.zeros((), device=outputs[0].device)

    @staticmethod
    def backward(ctx: Any, *_: Any) -> Any:
        return None, *(g.clone() for g in ctx.gradients)


def microbatch_of(step: ScheduledStep, schedule: Any) -> EagerStep:
    """The step of the first microbatch alone."""
    stage, module, loss = step.stage, step.model, schedule._loss_fn
    (arguments, named, output), target = _first_of(step, schedule)
    outputs = [t for t in tensors_in(output) if t.is_floating_point()]
    generator = torch.Generator(outputs[0].device).manual_seed(0)
    fed = [torch.randn(t.shape, dtype=t.dtype, device=t.device, generator=generator) for t in outputs]
    held: list[Any] = []  # as the schedule holds it until the backward has ended

    def run() -> torch.Tensor:
        held.clear()
        received, words = arguments, named
        if not stage.is_first:  # as they come from the stage before
            received, words = pytree.tree_map_only(
                torch.Tensor, lambda t: t.clone().requires_grad_(t.is_floating_point()), (arguments, named)
            )
        made = module(*received, **words)
        kept = [t for t in tensors_in(made) if t.is_floating_point()]
        held.extend([received, words, [t.detach() for t in kept]])
        if stage.is_last and loss is not None:
            value: torch.Tensor = loss(made, *target)
            return value
        fed_back: torch.Tensor = _Feed.apply(tuple(fed), *kept)
        return fed_back

    there = [*module.parameters(), *module.buffers(), *tensors_in((arguments, named, fed, target))]
    return EagerStep(module, run, stage.device, there)


def _first_of(step: ScheduledStep, schedule: Any) -> tuple[Any, list[Any]]:
    """Inputs and outputs of the module for the first microbatch, and its target, if there is one."""
    first, targets, loss = list[Any](), list[Any](), schedule._loss_fn

    def note(_: Any, args: Any, kwargs: Any, output: Any) -> None:
        if not first:
            first.append(pytree.tree_map_only(torch.Tensor, lambda t: t.detach().clone(), (args, kwargs, output)))

    def noting(output: Any, target: Any, *rest: Any, **named: Any) -> torch.Tensor:
        targets.append(target)
        found: torch.Tensor = loss(output, target, *rest, **named)
        return found

    hook = step.model.register_forward_hook(note, with_kwargs=True)
    try:
        with instead(schedule, "_loss_fn", None if loss is None else noting), step.kept():
            step.run()
    finally:
        hook.remove()
    return first[0], targets[:1]
