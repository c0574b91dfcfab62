# SPDX-License-Identifier: Apache-2.0
"""From a family to the plan that is applied: its replay and its run must hold the budget, and equal eager."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

import torch

from ._checkpoint_apply import apply_checkpoints, remove_checkpoints
from ._checkpoint_choice import Chosen, Cut, Search
from ._checkpoint_family import Family
from ._checkpoint_plan import CheckpointPlan, Figures
from ._checkpoint_replay import Choice, Replay
from ._checkpoint_trace import CheckpointError, Clock, EagerStep, same_bits
from ._costs import allocated, random_state
from ._solver import Options

TRIES = 4
"""So often a plan is looked for again where what was summed over units, or predicted, is not what a plan takes."""
SHARED = 0.001
"""If units share less than this part of the budget, one search is enough."""


@dataclass
class Outcome:
    """What a step left behind, on the CPU."""

    values: dict[str, torch.Tensor]


def outcome_of(step: EagerStep) -> Outcome:
    """Runs a step, and leaves all as it was."""
    with step.kept():
        values = {"the loss": step.run().cpu()}
        gradients = ((f"the gradient of {n}", p.grad) for n, p in step.model.named_parameters())
        buffers = ((f"the buffer {n}", b) for n, b in step.model.named_buffers())
        found = [(name, value) for name, value in (*gradients, *buffers) if value is not None]
        values |= {name: _own(value.detach()).to("cpu", copy=True) for name, value in found}
        values["the generator"] = random_state(step.device).cpu()
    return Outcome(values)


def _own(value: torch.Tensor) -> torch.Tensor:
    """Of a sharded tensor this process's part."""
    local: torch.Tensor = value.to_local() if hasattr(value, "to_local") else value
    return local


def differences(mine: Outcome, eager: Outcome) -> list[str]:
    """What is not equal in every bit."""
    there = set(mine.values) ^ set(eager.values)
    return sorted(there) + [
        n for n, v in mine.values.items() if n in eager.values and not same_bits(v, eager.values[n])
    ]


def peak_of(step: EagerStep) -> int:
    """The most that a step takes beyond what was there, in bytes."""
    if step.device.type == "cpu":
        return allocated(step.run)[1]
    torch.cuda.synchronize(step.device)
    torch.cuda.reset_peak_memory_stats(step.device)
    before = int(torch.cuda.memory_allocated(step.device))
    step.run()
    torch.cuda.synchronize(step.device)
    return int(torch.cuda.max_memory_allocated(step.device)) - before


@dataclass
class Fitting:
    """What a plan is made of.

    Attributes
    ----------
    figures : Figures
        What is known before: what is there throughout, and what eager takes.
    eager : Outcome
        What a step leaves behind without checkpoints.
    unsteady : list of str
        What of that differs between two eager steps.
    """

    step: EagerStep
    replay: Replay
    family: Family
    figures: Figures
    options: Options
    eager: Outcome
    unsteady: list[str]

    def run(self, budget: int) -> tuple[CheckpointPlan | None, int, bool]:
        """A plan whose replay and whose run hold the budget; without one the least peak, and whether that is proved.

        What units share is summed too often, at most as much as where all of them save most. A search with so much
        more than the budget bounds all plans that hold it. Where its plan does not, less is tried, and the budget
        itself; and there are the plans that do the same with all units.
        """
        shared = max((self._shared(Cut(self.family, cut)) for cut in self.family.cuts), default=0)
        lifts = [shared, shared // 4, 0] if shared > SHARED * budget else [shared]
        found = [self._as_plan(plan) for plan in self._uniform()]
        bound, proved, over = 0, False, 0
        best: CheckpointPlan | None = None
        for turn in range(TRIES):
            for lift in lifts if not turn else [0]:
                seconds = self.options.time_limit / len(lifts)
                search = self._search(budget - over + lift, seconds)
                chosen = search.run()
                if not turn and lift == shared:
                    bound, proved = (chosen.bound, False) if chosen is not None else (0, search.proved)
                if chosen is not None:
                    found.append(self._as_plan(chosen))
                    if _peak_of(found[-1]) <= budget - over:
                        break
            holding = [plan for plan in found if _peak_of(plan) <= budget - over]
            best = min(holding, key=_seconds, default=None)
            if best is None:
                break
            self._measure(best)
            if _peak_of(best) <= budget:
                break
            over += _peak_of(best) - budget
        if best is None or _peak_of(best) > budget:
            best = self._as_plan(self.least())
            self._measure(best)
        assert best.figures is not None
        best.figures.bound_seconds = min(_seconds(best), self.figures.eager_seconds + bound / 1e9)
        return (best if _peak_of(best) <= budget else None), _peak_of(best), proved

    def _search(self, budget: int, seconds: float, any_plan: bool = False) -> Search:
        return Search(self.family, budget, seconds, self.options.threads, self.options.seed, any_plan)

    def _shared(self, cut: Cut) -> int:
        """What is summed too often where all units save most, at most in any slot."""
        plan = [int(saved.sum(1).argmax()) for saved in cut.saved]
        high = self.replay.run({name: c for mode in cut.modes(plan) for name, c in mode.choices.items()}).high
        return max(0, *(int(load) - max(high[a:b]) for load, (a, b) in zip(cut.loads(plan), cut.slots, strict=True)))

    def _uniform(self) -> list[Chosen]:
        """Plans that have all units of a cut in the same mode, as far as they have it."""
        plans = []
        for numbers in self.family.cuts:
            cut = Cut(self.family, numbers)
            for most in range(max((len(unit.modes) for unit in cut.units), default=0)):
                plan = [min(most, len(unit.modes) - 1) for unit in cut.units]
                plans.append(Chosen(cut.modes(plan), cut.time(plan), cut.peak(plan), 0))
        return plans

    def _as_plan(self, found: Chosen) -> CheckpointPlan:
        """A plan with its figures, replayed as a whole."""
        choices: dict[str, Choice] = {name: c for mode in found.modes for name, c in mode.choices.items()}
        replayed = self.replay.run(choices)
        seconds = self.figures.eager_seconds + replayed.seconds
        own = replace(self.figures, predicted_peak=replayed.peak, predicted_seconds=seconds)
        return CheckpointPlan(choices, sorted(self.replay.trace.changed), own, self.family.excluded)

    def least(self) -> Chosen:
        """The plan of the family with the least peak, as far as the time goes."""
        cuts = [Cut(self.family, cut) for cut in self.family.cuts]
        plans = [(cut.peak(plan), i, plan) for i, cut in enumerate(cuts) for plan in [cut.descend()]]
        peak, i, plan = min(plans)
        least = Chosen(cuts[i].modes(plan), cuts[i].time(plan), peak, 0)
        end = time.perf_counter() + self.options.time_limit / 2
        while (left := end - time.perf_counter()) > 0:
            found = self._search(least.peak - 1, left, any_plan=True).run()
            if found is None:
                break
            least = found
        return least

    def _measure(self, plan: CheckpointPlan) -> None:
        """Runs a plan: what it takes, and whether it does what eager does."""
        step, figures = self.step, plan.figures
        assert figures is not None
        model = apply_checkpoints(step.model, plan)
        try:
            found = [name for name in differences(outcome_of(self.step), self.eager) if name not in self.unsteady]
            if found:
                raise CheckpointError(
                    f"with checkpoints {found[0]} differs from eager: a module does something else when it runs again"
                )
            with step.kept():
                figures.measured_peak = figures.fixed + peak_of(step)
            clock, times = Clock(step.device), []
            for _ in range(2):
                with step.kept():
                    start = clock.mark()
                    step.run()
                    times.append(clock.between(start, clock.mark()))
            figures.measured_seconds = min(times)
        finally:
            remove_checkpoints(model)


def _peak_of(plan: CheckpointPlan) -> int:
    assert plan.figures is not None
    return max(plan.figures.predicted_peak, plan.figures.measured_peak)


def _seconds(plan: CheckpointPlan) -> float:
    assert plan.figures is not None
    return plan.figures.predicted_seconds
