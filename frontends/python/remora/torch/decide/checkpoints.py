# SPDX-License-Identifier: Apache-2.0
"""From the modes of a step's modules to the plan that is applied: its replay and its run stay within the budget."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

from remora.asking import within

from ..job import ALONE, from_first
from ..options import Options
from ..planning import CheckpointPlan
from ..problem.checkpoints import EagerProblem
from ..step import CheckpointError, Reference
from .modes import Chosen, ModePlans, ModeSearch

SHARED = 0.001
"""If units share less than this part of the budget, one search is enough."""


@dataclass
class Fitting:
    """Finds a plan, tries it, and asks for less where it exceeds the budget."""

    problem: EagerProblem
    reference: Reference
    options: Options
    applied: Callable[[CheckpointPlan], AbstractContextManager[Any]]  # context in which the step runs by a plan
    group: Any = ALONE  # the processes that run the step together; the first of them searches
    bound: int | None = None  # nanoseconds beyond the step as it is
    proved: bool = False  # that no plan stays within the budget
    found: list[CheckpointPlan] = field(default_factory=list)

    def run(self) -> CheckpointPlan:
        """The plan whose replay and whose runs stay within the budget; raises BudgetError if none is found."""
        options, sizes = self.options, self.problem.sizes
        budget = options.in_bytes(sizes)
        plan = within(budget, lambda asked: self._tried(lambda: self._best(asked)), _peak_of)
        if plan is None:
            plan = self._tried(lambda: self.problem.plan(self.least().modes))
        assert plan is not None
        peak = _peak_of(plan)
        if peak > budget:
            proved = from_first(lambda: self.proved and self.problem.proves, CheckpointError, self.group)
            raise sizes.refusal(budget, peak, options, proved, cause=self._emptiness())
        plan.budget = budget
        return plan

    def _emptiness(self) -> str:
        """Says that nothing can be checkpointed, and why; "" if something can."""
        family = self.problem.family
        if any(family.classes):
            return ""
        excluded = [(name, reason) for name, reason in family.excluded.items() if name]
        why = f" ({len(excluded)} cannot run again, as {excluded[0][0]}, which {excluded[0][1]})" if excluded else ""
        return (
            f"nothing in this model can be checkpointed: no module inside it would free memory{why}. Put its layers "
            "into modules of their own, or use remora.torch.wrap, which recomputes single ops"
        )

    def _tried(self, make: Callable[[], CheckpointPlan | None]) -> CheckpointPlan | None:
        """The plan that the first process makes, with its cost on each process."""
        plan = from_first(lambda: self._bounded(make()), CheckpointError, self.group)
        if plan is not None:
            trials = self.reference.tried(self.applied(plan), self.group)
            plan.peaks = [fixed + trial.peak for fixed, trial in zip(self.problem.fixed, trials, strict=True)]
            plan.measured_peak = max(plan.peaks)
            plan.measured_time = round(1e9 * max(trial.seconds for trial in trials))
        return plan

    def _bounded(self, plan: CheckpointPlan | None) -> CheckpointPlan | None:
        if plan is not None:
            plan.bound = min(plan.predicted_time, plan.unscheduled_time + (self.bound or 0))
        return plan

    def _best(self, asked: int) -> CheckpointPlan | None:
        """The fastest plan that is known or found.

        What units share is summed too often, at most as much as where all of them save most. The first search, with so
        much more than the budget, bounds all plans that stay within it. Where its plan does not, less is tried, and the
        budget itself.
        """
        lifts, is_first = [0], self.bound is None
        if is_first:
            family = self.problem.family
            shared = max((self._shared(ModePlans(family, cut)) for cut in family.cuts), default=0)
            lifts = [shared, shared // 4, 0] if shared > SHARED * asked else [shared]
        for lift in lifts:
            search = self._search(asked + lift, self.options.time_limit / len(lifts))
            chosen = search.run()
            if is_first and self.bound is None:
                self.bound, self.proved = (chosen.bound, False) if chosen is not None else (0, search.proved)
            if chosen is not None:
                self.found.append(self.problem.plan(chosen.modes))
                if _peak_of(self.found[-1]) <= asked:
                    break
        return min(
            (plan for plan in self.found if _peak_of(plan) <= asked), key=lambda p: p.predicted_time, default=None
        )

    def _search(self, budget: int, seconds: float, any_plan: bool = False) -> ModeSearch:
        return ModeSearch(self.problem.family, budget, seconds, self.options.threads, self.options.seed, any_plan)

    def _shared(self, cut: ModePlans) -> int:
        """Bytes counted too often if all units save their maximum, at most in any slot."""
        plan = [int(saved.sum(1).argmax()) for saved in cut.saved]
        high = self.problem.high(cut.modes(plan))
        tops = [max(high[a:b], default=0) for a, b in cut.slots]
        return max(0, *(int(load) - top for load, top in zip(cut.loads(plan), tops, strict=True)))

    def least(self) -> Chosen:
        """The plan of the family with the smallest peak, as far as the time goes."""
        cuts = [ModePlans(self.problem.family, cut) for cut in self.problem.family.cuts]
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


def _peak_of(plan: CheckpointPlan) -> int:
    return max(plan.predicted_peak, plan.measured_peak)
