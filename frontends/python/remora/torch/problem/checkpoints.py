# SPDX-License-Identifier: Apache-2.0
"""An eager step as a problem: the family of its plans, and the exact replay of each of them."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import torch
from torch.utils.checkpoint import checkpoint

from ..capture.record import traced
from ..capture.trace import Trace
from ..job import ALONE, gathered
from ..measure import Clock, random_state, rounded, timed
from ..options import Sizes
from ..planning import CheckpointPlan, Choice
from ..step import EagerStep, Reference
from .eager import Rates, Replay
from .family import Family, Mode, family_of


class EagerProblem:
    """A traced and measured step; `reference`: runs of it, which are not repeated.

    `seconds`: of the step as it is. `fixed`: bytes that are always allocated, on each process of the group.
    """

    of = "the eager step"
    proves = True  # that no plan of the family stays within a budget, where the search finds none

    def __init__(self, step: EagerStep, reference: Reference, group: Any = ALONE) -> None:
        self.device = step.device
        trace = traced(step, reference.timings)
        eager_peak = trace.fixed + reference.peak
        self.fixed = gathered(trace.fixed, group)
        self.sizes = Sizes(self.fixed[0], max(gathered(eager_peak, group)), self.of, "choice of checkpoints")
        self.seconds = trace.seconds
        self.replay = _replay_of(step, trace)
        trace.fixed += max(0, eager_peak - self.replayed([])[0])  # what no trace shows

    @cached_property
    def family(self) -> Family:
        """The family of choices."""
        return family_of(self.replay, offload=self.device.type == "cuda")

    def replayed(self, modes: Sequence[Mode]) -> tuple[int, float]:
        """Peak in bytes of a plan, and seconds beyond the eager step's."""
        run = self.replay.run(choices_of(modes))
        return run.peak, run.seconds

    def high(self, modes: Sequence[Mode]) -> list[int]:
        """Bytes at each event of the trace."""
        return self.replay.run(choices_of(modes)).high

    def plan(self, modes: Sequence[Mode]) -> CheckpointPlan:
        """A plan with its figures, replayed as a whole."""
        peak, seconds = self.replayed(modes)
        return CheckpointPlan(
            choices_of(modes),
            sorted(self.replay.trace.changed),
            self.family.excluded,
            fixed_memory=self.sizes.fixed,
            unscheduled_peak=self.sizes.unscheduled,
            whole=self.of,
            predicted_peak=peak,
            unscheduled_time=round(1e9 * self.seconds),
            predicted_time=round(1e9 * (self.seconds + seconds)),
        )


def choices_of(modes: Sequence[Mode]) -> dict[str, Choice]:
    """Choices for modules under modes of units."""
    return {name: choice for mode in modes for name, choice in mode.choices.items()}


def _replay_of(step: EagerStep, trace: Trace) -> Replay:
    """The replay of a trace, with the rates of this machine and copies of the buffers that the step changes."""
    sizes = {name: rounded(b.nbytes, step.device) for name, b in step.model.named_buffers() if name in trace.changed}
    snapshots = {
        name: sum(size for buffer, size in sizes.items() if buffer.startswith(f"{name}."))
        for name, _ in step.model.named_modules()
        if name
    }
    return Replay(trace, _rates(step.device, trace), snapshots)


def _rates(device: torch.device, trace: Trace) -> Rates:
    """Rates of checkpointing itself on this machine."""
    x = torch.ones(8, device=device, requires_grad=True)
    clock = Clock(device)

    def beyond(count: int) -> float:
        def run(t: torch.Tensor) -> torch.Tensor:
            for _ in range(count):
                t = t.exp()
            return t

        times = list[float]()
        for _ in range(9):
            marks = [clock.mark()]
            for call in (lambda: run(x), lambda: checkpoint(run, x, use_reentrant=False)):
                torch.autograd.grad(call().sum(), x)  # type: ignore[no-untyped-call]
                marks.append(clock.mark())
            times.append(clock.between(marks[1], marks[2]) - clock.between(marks[0], marks[1]))
        return max(0.0, statistics.median(times))

    one, many = beyond(1), beyond(33)
    saved = max(0.0, (many - one) / 32)
    gpu = device.type == "cuda"  # generators' states lie on the CPU
    state = 0 if gpu else random_state(device).nbytes
    return Rates(state, max(0.0, one - saved), saved, trace.mode_seconds, _bandwidth(device) if gpu else 1e9)


def _bandwidth(device: torch.device) -> float:
    """Bytes per second between a GPU and the CPU's pinned memory, there and back."""
    there = torch.empty(2**26, dtype=torch.uint8, device=device)
    here = torch.empty(2**26, dtype=torch.uint8, device="cpu", pin_memory=True)
    return 2 * there.nbytes / timed(lambda: there.copy_(here.copy_(there)), device)
