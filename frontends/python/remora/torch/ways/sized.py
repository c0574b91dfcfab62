# SPDX-License-Identifier: Apache-2.0
"""A captured step whose sizes vary: a few schedules, and the fastest of these that fits for each call.

    captured once, with symbols --numbers--> a problem for each size --replayed--> the fastest schedule that fits
          |
          +--> schedules: nothing recomputed; for the largest size; for sizes between, chosen by `decide.lengths`

All share one set of ops, so a schedule of one size is one of all. Peaks are those of an exact replay at each size that
runs, and no size runs without one.
"""

from __future__ import annotations

import bisect
import functools
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from torch import fx

from remora.asking import replayed
from remora.errors import InputError

from ..capture.declared import Declared
from ..capture.dynamo import Vary
from ..capture.graph import Cut, Run
from ..carry.program import write_step
from ..cost.calls import op_cost
from ..decide.lengths import Expected, at_most, few_schedules
from ..decide.step import solve
from ..errors import BudgetError, CaptureError, SolverError
from ..ledger import Ledger, Part
from ..options import GOOD_ENOUGH, Options
from ..planning import SchedulePlan
from ..problem.aten import StepProblem, once, replay
from ..problem.sized import SizedProblem, Values
from ..symbols import spans_text

SAMPLES = 24
"""At so many sizes times are estimated to choose schedules."""
KNOWN = 4096
"""So many sizes are remembered."""

# Options with the budget in bytes, and what a percentage is, for a problem.
InBytes = Callable[[Options, StepProblem], tuple[Options, "int | None"]]


@dataclass(eq=False)
class Scheduled:
    """One schedule of a step, for all sizes at which it stays within the budget.

    `plan`: at the size for which it was searched; None where nothing is recomputed. `program`: what runs it.
    """

    runs: list[Run]
    ops: list[int]
    plan: SchedulePlan | None = None
    values: Values = ()
    program: Any = None

    def duration(self, problem: StepProblem) -> int:
        """Nanoseconds at the sizes of a problem."""
        return sum(times * op_cost(op, problem.costs)[0] for op, times in Counter(r.op for r in self.runs).items())

    def peak(self, problem: StepProblem) -> int:
        """Bytes at the sizes of a problem."""
        return replay(problem.step, problem.costs, self.runs)


@dataclass
class Decided:
    """The schedules of a step under one budget, and which of them runs at which sizes."""

    asked: Options
    options: Options  # with the budget in bytes
    limit: int | None  # what a percentage is, in bytes
    schedules: list[Scheduled]
    expected: Expected | None = None
    chosen: dict[Values, Scheduled] = field(default_factory=dict)
    shown: dict[tuple[Values, Scheduled], SchedulePlan] = field(default_factory=dict)


class SizedStep:
    """A captured graph whose sizes vary.

    `write`: makes what runs a schedule, by default a program; `cut`: of a joint graph, whose parts run apart.
    """

    def __init__(
        self,
        module: fx.GraphModule,
        options: Options,
        name: str,
        part: Part,
        ledger: Ledger,
        declared: Declared,
        write: Callable[[list[Run]], Any] | None = None,
        cut: Cut | None = None,
    ) -> None:
        self.part, self.ledger, self.ran = part, ledger, 0
        self.seconds = {"capture": time.perf_counter() - part.begun}
        self._sized = SizedProblem(module, options, name, part.accumulates, ledger.named, cut)
        ledger.varies = True
        self._write = write or functools.partial(write_step, self._sized.step)
        self.step, self.seconds["read"] = self._sized.step, self._sized.seconds
        self.options, self._lengths, self._most = options, declared.lengths, declared.most
        self._declared = declared.ranges
        self._decided: Decided | None = None
        self._is_told = True
        self.latest: Values = ()
        self._largest: Values = ()

    @property
    def problem(self) -> StepProblem:
        """The step at its largest sizes."""
        return self._sized.at(self._sized.corner(self._largest))

    # -- Decisions -----------------------------------------------------------------------------------------------------

    def scheduled(self, arguments: list[Any], in_bytes: InBytes) -> Scheduled:
        """The fastest schedule that fits a call, with its program; BudgetError if there is none."""
        values = self._sized.values_of(arguments)
        decided = self._decided
        if decided is None:
            decided = self.decide(self.options, in_bytes, values)
            self.adopt(decided)
            self._is_told = False
        if values not in decided.chosen:
            self._choose(decided, values, in_bytes)
        scheduled = decided.chosen[values]
        self.latest, self._largest = values, tuple(map(max, values, self._largest or values))
        self._written(scheduled)
        return scheduled

    def tell(self) -> None:
        """Says, once, that sizes vary from now on, or which of those declared are captured apart."""
        if self._is_told:
            return
        self._is_told = True
        if not self._declared:
            self.ledger.tell_sizes(self.part, sum(self.seconds.values()))
        for name, sizes in zip(self._sized.names.values(), self._sized.ranges, strict=True):
            if sizes is None:
                continue
            around = [r for r in self._declared if r[0] <= sizes[0] and sizes[-1] <= r[1]]
            low, high = min(around, key=lambda r: r[1] - r[0], default=(sizes[0], sizes[-1]))
            if len(sizes) < high - low + 1:
                self.ledger.tell(
                    f"{name}: this capture serves {spans_text(sizes)} of {low:,} to {high:,}, since "
                    "the step, or a kernel of PyTorch's, is another one for other sizes; these are captured when "
                    "they come"
                )

    def _written(self, scheduled: Scheduled) -> Any:
        if scheduled.program is None:
            scheduled.program = self._write(scheduled.runs)
        return scheduled.program

    @property
    def is_decided(self) -> bool:
        """True once a call has been planned."""
        return self._decided is not None

    def adopt(self, decided: Decided) -> None:
        """Runs by these schedules from now on."""
        self._decided = decided

    def decide(self, options: Options, in_bytes: InBytes, values: Values | None = None) -> Decided:
        """Schedules under a budget, first of all for the largest sizes; `values`: of the first call.

        Raises BudgetError if none stays within the budget there.
        """
        start = time.perf_counter()
        values = self.latest if values is None else values
        corner = self._sized.corner(self._largest or values)
        problem = self._sized.at(corner, "measure")
        given, limit = in_bytes(options, problem)
        plain_runs = once(self.step)
        baseline = Scheduled(plain_runs, list(range(len(plain_runs))))
        decided = Decided(options, given, limit, [baseline])
        if baseline.peak(problem) > given.in_bytes(problem):
            decided.schedules.append(self._solved(problem, given, corner))
            if any(self._sized.ranges):
                decided.schedules = self._between(decided, corner)
        self.seconds["plan"] = time.perf_counter() - start
        self._choose(decided, values, in_bytes)
        self.part.keep(self._plan_of(corner, decided.schedules[-1], problem, given))
        return decided

    def _solved(self, problem: StepProblem, options: Options, values: Values, start: Sequence[int] = ()) -> Scheduled:
        plan, runs = solve(problem, options, 1.0, start)
        return Scheduled(runs, [self._number[run.op] for run in runs], plan, values)

    @cached_property
    def _number(self) -> dict[Any, int]:
        return {op: i for i, op in enumerate(self.step.ops)}

    def _samples(self, corner: Values) -> list[tuple[Values, float]]:
        """Some sizes from the smallest to the largest, and how often calls have about these."""
        if self._lengths:
            (sizes,) = self._sized.ranges if len(self._sized.ranges) == 1 else [None]
            if sizes is None:
                raise InputError("lengths", "several sizes of the step vary, and which of them these are is not known")
            served = set(sizes)
            within = [n for n in self._lengths if n in served]
            if within:
                return [((size,), weight) for size, weight in at_most(within, corner[0], SAMPLES)]
        steps = [i / (SAMPLES - 1) for i in range(SAMPLES)]
        rows = [
            tuple(
                v if r is None else r[round((len(r) - 1) * step)]
                for v, r in zip(corner, self._sized.ranges, strict=True)
            )
            for step in steps
        ]
        return [(values, 1.0) for values in dict.fromkeys(rows)]

    def _between(self, decided: Decided, corner: Values) -> list[Scheduled]:
        """The few schedules with the smallest expected time."""
        samples = self._samples(corner)
        middle, first = samples[len(samples) // 2][0], samples[0][0]
        for values in dict.fromkeys((middle, first)):
            self._sized.at(values, "measure")
        problems = [self._sized.at(values, "roughly") for values, _ in samples]

        def solved(place: int, start: Scheduled, share: float) -> Scheduled | None:
            values, options = samples[place][0], decided.options
            options = replace(options, time_limit=max(0.5, share * options.time_limit))
            try:
                return self._solved(self._sized.at(values), options, values, start.ops)
            except (BudgetError, SolverError):
                return None

        step = _Sampled(problems, [weight for _, weight in samples], decided.options, solved)
        plain, largest = decided.schedules
        chosen, decided.expected = few_schedules(step, plain, largest, self._most)
        return [scheduled for scheduled, _ in chosen]

    def _choose(self, decided: Decided, values: Values, in_bytes: InBytes) -> None:
        """Chooses the fastest schedule that stays within the budget at some sizes."""
        problem = self._sized.at(values)
        decided.options, limit = in_bytes(decided.asked, problem)
        if limit != decided.limit:
            decided.limit = limit
            decided.chosen.clear()
        budget = decided.options.in_bytes(problem)
        fitting = [s for s in decided.schedules if s.peak(problem) <= budget]
        best = min(fitting, key=lambda s: s.duration(problem), default=None)
        plain_time = sum(op_cost(op, problem.costs)[0] for op in problem.step.ops)
        is_slow = best is not None and best.duration(problem) > (1 + GOOD_ENOUGH) * plain_time
        if best is None or (is_slow and not any(self._sized.ranges) and len(decided.schedules) < self._most):
            problem = self._sized.at(values, "measure")
            try:
                best = self._solved(problem, decided.options, values, best.ops if best is not None else ())
                decided.schedules.append(best)
                del decided.schedules[1 : max(1, len(decided.schedules) - self._most)]
            except (BudgetError, SolverError):
                if best is None:
                    raise
        while len(decided.chosen) >= KNOWN:
            decided.chosen.pop(next(iter(decided.chosen)))
        decided.chosen[values] = best

    # -- What is shown -------------------------------------------------------------------------------------------------

    @property
    def plan(self) -> SchedulePlan:
        """The plan of the latest call."""
        decided = self._decided
        if decided is None:
            raise CaptureError("nothing is planned before the first call")
        return self._plan_at(decided, self.latest, decided.chosen[self.latest])

    def latest_plan(self) -> SchedulePlan | None:
        """The plan of the latest call; None before the first."""
        return self.plan if self._decided is not None and self.latest in self._decided.chosen else None

    @property
    def plans(self) -> list[SchedulePlan]:
        """One for each schedule that runs, at the largest sizes for which it does."""
        decided = self._decided
        if decided is None:
            return []
        found = []
        for scheduled, (low, high) in self._spans(decided).items():
            plan = self._plan_at(decided, high, scheduled)
            plan.sizes = self._sized.text(low, high)
            found.append(plan)
        return found

    @property
    def expected(self) -> list[Expected]:
        """The expected time, where several schedules were chosen."""
        return [self._decided.expected] if self._decided is not None and self._decided.expected is not None else []

    def _spans(self, decided: Decided) -> dict[Scheduled, tuple[Values, Values]]:
        """The smallest and the largest sizes for which each schedule runs."""
        if len(self._sized.ranges) == 1 and self._sized.ranges[0] is not None:
            return self._intervals(decided, self._sized.ranges[0])
        spans: dict[Scheduled, tuple[Values, Values]] = {}
        for values, scheduled in decided.chosen.items():
            low, high = spans.get(scheduled, (values, values))
            spans[scheduled] = min(low, values), max(high, values, key=lambda v: (sum(v), v))
        return dict(sorted(spans.items(), key=lambda item: item[1][1]))

    def _intervals(self, decided: Decided, sizes: list[int]) -> dict[Scheduled, tuple[Values, Values]]:
        """The same of one size within a range, whether it has run or not."""

        def reach(scheduled: Scheduled) -> int:
            def exceeds(size: int) -> bool:
                problem = self._sized.at((size,), "roughly")
                return scheduled.peak(problem) > decided.options.in_bytes(problem)

            return bisect.bisect_left(sizes, True, key=exceeds)

        spans: dict[Scheduled, tuple[Values, Values]] = {}
        first = 0
        ends = [(reach(scheduled), scheduled) for scheduled in decided.schedules]
        for end, scheduled in sorted(ends, key=lambda row: row[0]):
            if end > first:
                spans[scheduled] = (sizes[first],), (sizes[end - 1],)
                first = end
        return spans

    def _plan_at(self, decided: Decided, values: Values, scheduled: Scheduled) -> SchedulePlan:
        if (values, scheduled) not in decided.shown:
            while len(decided.shown) > 2 * self._most:
                decided.shown.pop(next(iter(decided.shown)))
            problem = self._sized.at(values)
            decided.shown[values, scheduled] = self._plan_of(values, scheduled, problem, decided.options)
        return decided.shown[values, scheduled]

    def _plan_of(self, values: Values, scheduled: Scheduled, problem: StepProblem, options: Options) -> SchedulePlan:
        plan = scheduled.plan
        if plan is None or scheduled.values != values or plan.budget != options.in_bytes(problem):
            plan = SchedulePlan.of(
                replayed(problem.graph, scheduled.ops, "input" if options.order == "input" else "free"),
                budget=options.in_bytes(problem),
                fixed_memory=problem.fixed,
                unscheduled_peak=problem.unscheduled,
                whole=problem.of,
                predicted_peak=scheduled.peak(problem),
            )
        plan.source, plan.checkpoints = self._written(scheduled).source, self.part.checkpoints
        plan.sizes = self._sized.text(values, values)
        plan.seconds = {**self.seconds, **plan.seconds}
        return plan


@dataclass
class _Sampled:
    """A step at a few sizes, by costs between measured ones."""

    problems: list[StepProblem]
    weights: list[float]
    options: Options
    solved: Callable[[int, Scheduled, float], Scheduled | None]

    def fits(self, schedule: Scheduled, place: int) -> bool:
        return schedule.peak(self.problems[place]) <= self.options.in_bytes(self.problems[place])

    def time(self, schedule: Scheduled, place: int) -> float:
        return float(schedule.duration(self.problems[place]))

    def bound(self, schedule: Scheduled) -> float:
        plan = schedule.plan
        return 1.0 if plan is None else plan.bound / plan.unscheduled_time


def declared(
    function: Callable[..., Any],
    options: Options,
    sizes: Mapping[str, Any] | None,
    lengths: Sequence[int],
    most: int,
) -> Declared:
    """The sizes that a user declares of a function's arguments.

    Raises InputError, ValueError: names what cannot be.
    """
    if sizes and not options.may_vary:
        raise ValueError("sizes: not with fuse, arena, cuda_graph, slices or plan, which are for one size")
    return Declared(function, sizes, lengths, most)


def vary_of(options: Options, declared: Declared) -> Vary:
    """Which sizes become symbols."""
    return ("marked" if declared.sizes else "later") if options.may_vary else ""
