# SPDX-License-Identifier: Apache-2.0
"""Plans a captured step: a schedule whose replay stays within the budget."""

from __future__ import annotations

import time
from collections.abc import Sequence

from remora.asking import within

from ..capture.graph import Run
from ..capture.updates import late_reads
from ..errors import BudgetError, SolverError
from ..options import Options
from ..planning import SchedulePlan
from ..problem.aten import Replayed, StepProblem
from .schedules import LEAST_SECONDS, schedule_for


def solve(
    problem: StepProblem, options: Options, share: float = 1.0, before: Sequence[int] = ()
) -> tuple[SchedulePlan, list[Run]]:
    """Plans a step under its budget, in a share of the time limit; `before`: ops of a schedule to begin with.

    Raises BudgetError if no schedule is found within the budget. Raises SolverError if the replays of all that are
    found exceed it.
    """
    budget = options.in_bytes(problem)
    start = time.perf_counter()
    refused: BudgetError | None = None
    lowest = budget - problem.states  # whatever states are saved, a schedule of so many bytes is within the budget
    is_lowest_open = problem.states > 0

    def attempt(asked: int) -> Replayed | None:
        nonlocal refused, is_lowest_open
        left = share * options.time_limit - (time.perf_counter() - start)
        try:
            while True:
                seconds = max(LEAST_SECONDS, left)
                replayed = problem.replayed(schedule_for(problem.graph, asked, options, seconds, before))
                late = late_reads(problem.step, replayed.runs)
                if not late:
                    return replayed
                problem.forbid(late)
        except BudgetError as refusal:
            least = refusal.least + problem.states
            least = least if options.arena else min(least, problem.unscheduled)
            proved = refusal.proved and asked == budget
            known = refusal.changed(budget=budget, least=least, proved=proved, of=problem.of)
            refused = refused or known
            is_lowest_open = is_lowest_open and lowest < asked < budget
            return None

    found = within(budget, attempt, lambda replayed: replayed.peak)
    if found is None and is_lowest_open:
        found = attempt(lowest)
    if found is None and refused is not None:
        raise refused.beside(options.reserve)
    if found is None or found.peak > budget:
        raise SolverError(f"the schedules that were found for {budget:,} bytes exceed them when they are replayed")
    plan = SchedulePlan.of(
        found.schedule,
        budget=budget,
        fixed_memory=problem.fixed,
        unscheduled_peak=problem.unscheduled,
        whole=problem.of,
        predicted_peak=found.peak,
        outside=problem.step.outside,
        seconds={"solve": time.perf_counter() - start},
    )
    return plan, found.runs
