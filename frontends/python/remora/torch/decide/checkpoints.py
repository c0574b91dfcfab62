# SPDX-License-Identifier: Apache-2.0
"""From a family to the plan that is applied: its replay and its run must hold the budget, and equal eager."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

from ..carry.checkpoints import apply_checkpoints, remove_checkpoints
from ..checkpoint_plan import CheckpointPlan, Choice, Figures
from ..measure import Clock
from ..options import Options
from ..problem.eager import Replay
from ..problem.family import Family
from ..step import CheckpointError, EagerStep, Outcome, differences, outcome_of, peak_of
from .modes import Chosen, Cut, Search
from .within import within

SHARED = 0.001
"""If units share less than this part of the budget, one search is enough."""


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
        bound, proved = 0, False

        def attempt(asked: int) -> CheckpointPlan | None:
            nonlocal bound, proved
            for lift in lifts if asked == budget else [0]:
                search = self._search(asked + lift, self.options.time_limit / len(lifts))
                chosen = search.run()
                if asked == budget and lift == shared:
                    bound, proved = (chosen.bound, False) if chosen is not None else (0, search.proved)
                if chosen is not None:
                    found.append(self._as_plan(chosen))
                    if _peak_of(found[-1]) <= asked:
                        break
            best = min((plan for plan in found if _peak_of(plan) <= asked), key=_seconds, default=None)
            if best is not None:
                self._measure(best)
            return best

        best = within(budget, attempt, _peak_of)
        if best is None:
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
