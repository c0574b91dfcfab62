# SPDX-License-Identifier: Apache-2.0
"""Slices of a captured step (docs/design/slices.md): the engine chooses them, and the step is planned in them.

    captured graph, axes --engine--> slices --rewriting--> another captured graph --read, measured--> planned as any

The engine's sum is not the real memory of what was rewritten, as workspaces are measured only then. So where the slices
do not stay within the budget, less is asked for.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from torch import fx

import remora
from remora.asking import ask, plan_in_slices
from remora.slices import SliceCost

from ..capture.graph import Run
from ..capture.sums import split_means
from ..cost.calls import generic_machine
from ..errors import BudgetError
from ..job import same_answer
from ..options import GOOD_ENOUGH, Options
from ..planning import SchedulePlan
from ..problem.aten import StepProblem, graph_of
from ..problem.axes import axes_of
from ..problem.slices import in_slices
from ..store import answer_file, digest
from .step import solve

CHOICE = 0.4
"""The share of the time limit for the choice."""
REACH = 0.2
"""The share for what slices would reach, where a budget is rejected without them."""

Read = Callable[[fx.GraphModule, Options], StepProblem]
"""Reads a graph and finds the cost of its ops."""
Decision = tuple[StepProblem, SchedulePlan, list[Run]]
"""A problem as it runs, of ops or of compiled regions, its plan, and the steps of this."""
Decide = Callable[[StepProblem, Options, float], Decision]
"""Plans a problem of ops in a share of the time limit; raises BudgetError."""


def decide_ops(problem: StepProblem, options: Options, share: float = 1.0, before: Sequence[int] = ()) -> Decision:
    """Plans a problem that runs op by op; `before`: ops of a schedule to begin with."""
    return problem, *solve(problem, options, share, before)


def solve_with_slices(
    problem: StepProblem,
    options: Options,
    read: Read,
    decide: Decide = decide_ops,
    cost: SliceCost | None = None,
) -> Decision:
    """Plans a step in slices where these make it faster, or possible, and as it is otherwise.

    `cost`: of slices on another device than this one. Raises BudgetError if neither stays within the budget: what it
    names as enough is enough with these options.
    """
    budget = options.in_bytes(problem)
    given = replace(options, budget=budget + options.reserve)
    choice = _Planning(problem, given, read, decide, cost)
    found = choice.within(budget)
    if isinstance(found, remora.Schedule) and not found.slices:
        with contextlib.suppress(BudgetError):  # what the engine does not count, or regions, may need more
            return decide(problem, given, 1 - CHOICE)
    tried = choice.first_planned(found, budget)
    whole = found.without_slices if isinstance(found, remora.Schedule) else None
    is_faster = tried is not None and (whole is None or not whole.duration or tried[1].predicted_time < whole.duration)
    if tried is not None and is_faster and not options.fuse:
        return tried
    try:
        plain = decide(problem, given, 1 - CHOICE)
        return plain if tried is None or plain[1].predicted_time <= tried[1].predicted_time else tried
    except BudgetError as refusal:
        if tried is not None:
            return tried
        known = choice.lowest
        if known is None or known.least >= refusal.least:
            raise refusal.changed(lower=0, proved=False) from None  # other slices may need less
        raise refusal.changed(least=known.least, lower=0, proved=False, op=None) from None


def with_reach(refusal: BudgetError, problem: StepProblem, options: Options, read: Read) -> BudgetError:
    """A refusal without slices, with what slices would reach; nothing is rewritten or measured for that."""
    given = replace(options, budget=options.in_bytes(problem) + options.reserve)
    slices, enough = _Planning(problem, given, read, decide_ops).reach(options.in_bytes(problem))
    return refusal.changed(slices=slices, in_slices=enough + options.reserve if slices else 0)


class Choice:
    """The slices of one step, for any budget.

    `whole`: the step, its means split. `cost`: of slices on another device than this one.
    """

    def __init__(self, whole: StepProblem, options: Options, cost: SliceCost | None = None) -> None:
        self.whole, self.options = whole, options
        machine = generic_machine(whole.step.device.type)
        self.cost = cost or cost_of_slices(machine.launch_overhead, machine.bandwidth)
        self.axes = axes_of(whole.step)
        self.graph = graph_of(whole.step, whole.costs, whole.name, self.axes)

    def within(self, budget: int) -> remora.Schedule | int:
        """The engine's schedule for a budget in bytes; without one, a budget that is enough in slices, or 0."""
        options = self.options
        question = digest([self.graph.to_json(), repr(self.cost)])
        path = answer_file("slices", question, budget, options.order, options.time_limit, options.seed)

        def found() -> remora.Schedule | int:
            if options.cache and path.exists():
                return remora.Schedule.load(path, self.graph)
            answer = ask(
                self.graph,
                budget,
                options.limits_in(CHOICE * options.time_limit, GOOD_ENOUGH),
                order=options.order,
                progress=options.progress,
                slices="auto",
                slice_cost=self.cost,
            )
            if isinstance(answer, remora.NoSchedule):
                return answer.refusal.enough_in_slices
            if options.cache:
                path.parent.mkdir(parents=True, exist_ok=True)
                answer.save(path)
            return answer

        def text(answer: remora.Schedule | int) -> str | int:
            return answer if isinstance(answer, int) else answer.to_json()

        def parsed(given: str | int) -> remora.Schedule | int:
            return given if isinstance(given, int) else remora.Schedule.from_json(given, self.graph)

        return same_answer(f"slices/{path.stem}", found, text, parsed)

    def reach(self, budget: int) -> tuple[int, int]:
        """For a budget that is too small without slices: how many of them, and how many bytes are then enough."""
        limits = self.options.limits_in(REACH * self.options.time_limit, GOOD_ENOUGH)
        answer = ask(self.graph, budget, limits, order=self.options.order, slice_cost=self.cost)
        if isinstance(answer, remora.Schedule):
            return 0, 0
        return answer.refusal.slices, answer.refusal.enough_in_slices


class _Planning(Choice):
    """The plans of a step in slices."""

    def __init__(
        self, problem: StepProblem, options: Options, read: Read, decide: Decide, cost: SliceCost | None = None
    ) -> None:
        split = split_means(problem.step.module)
        super().__init__(problem if split is None else read(split, options), options, cost)
        self.problem, self.read, self.decide = problem, read, decide
        self.lowest: BudgetError | None = None  # of the slices that were planned: the smallest budget that is enough

    def first_planned(self, found: remora.Schedule | int, budget: int) -> Decision | None:
        """The first plan within the budget."""
        return plan_in_slices(found, budget, self.within, self._planned_within, self.problem.fixed)

    def _planned_within(self, found: remora.Schedule) -> Decision | int:
        try:
            return self.planned(found)
        except BudgetError as refusal:
            if self.lowest is None or refusal.least < self.lowest.least:
                self.lowest = refusal
            return self.lowest.least - self.options.reserve

    def planned(self, found: remora.Schedule) -> Decision:
        """The step in the slices of a schedule; its figures are compared with those of the captured step."""
        problem, start = self.problem, time.perf_counter()
        module = in_slices(self.whole.step, self.axes, found)
        sliced = self.read(module, self.options)
        seconds = time.perf_counter() - start
        sliced, plan, runs = self.decide(sliced, self.options, 1 - CHOICE)
        plan.unscheduled_peak = problem.unscheduled
        if not self.options.fuse:
            plan.unscheduled_time = problem.graph.baseline_duration
        plan.slices = max(region.slices for region in found.slices)
        plan.seconds |= {"slices": seconds}
        return sliced, plan, runs


def cost_of_slices(launch: float, bandwidth: float) -> SliceCost:
    """A slice of an op costs a launch, in seconds; its part of a result is copied or added to a sum at a bandwidth."""
    return SliceCost(round(launch * 1e9), round(bandwidth / 1e9), temporaries=True)
