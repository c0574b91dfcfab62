# SPDX-License-Identifier: Apache-2.0
"""Plans a captured step: a schedule whose replay stays within the budget."""

from __future__ import annotations

import time

from ..capture.graph import Run
from ..errors import BudgetError
from ..options import Options
from ..planning import Plan
from ..problem.aten import Replayed, StepProblem
from .schedules import LEAST_SECONDS, schedule_for
from .within import within


def solve(problem: StepProblem, options: Options, share: float = 1.0) -> tuple[Plan, list[Run]]:
    """Plans a step under its budget, in a share of the time limit.

    Raises
    ------
    BudgetError
        If no schedule is found whose replay stays within the budget.
    """
    budget = problem.budget(options)
    start = time.perf_counter()
    peaks = [] if options.arena else [problem.unscheduled]
    proved = False

    def attempt(asked: int) -> Replayed | None:
        nonlocal proved
        left = share * options.time_limit - (time.perf_counter() - start)
        try:
            found = problem.replayed(schedule_for(problem.graph, asked, options, max(LEAST_SECONDS, left)))
        except BudgetError as refusal:
            proved = refusal.proved and asked == budget
            peaks.append(refusal.least + problem.states)
            return None
        peaks.append(found.peak)
        return found

    found = within(budget, attempt, lambda replayed: replayed.peak)
    if found is None:
        raise BudgetError(budget, min(peaks), proved, problem.fixed, problem.unscheduled)
    plan = Plan(found.schedule, found.peak, problem.unscheduled, budget, outside=problem.step.outside)
    plan.seconds["solve"] = time.perf_counter() - start
    return plan, found.runs
