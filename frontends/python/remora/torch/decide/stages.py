# SPDX-License-Identifier: Apache-2.0
"""Recomputation in the stages of a pipeline: modes by what they save, and the choice for all stages together.

saved    from a microbatch's forward to the end of its backward: what autograd keeps, its input and its output
fixed    parameters, buffers, gradients, and what a step of the schedule as it is takes beyond all this
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import remora
from remora.asking import TRIES, within_each
from remora.pipelining import PipelineOrder

from ..options import Options, Sizes
from ..planning import CheckpointPlan, Choice, StagesPlan
from ..problem.checkpoints import EagerProblem, choices_of
from ..problem.family import family_of
from ..step import CheckpointError
from .modes import ModePlans


@dataclass(frozen=True)
class StageProblem:
    """Data that a process sends to the others about its stage: the modes of a microbatch, and the bytes of a step."""

    modes: list[remora.StageMode]
    choices: list[dict[str, Choice]]
    changed: list[str]
    sizes: Sizes

    @staticmethod
    def of(problem: EagerProblem, sizes: Sizes, most: int) -> StageProblem:
        """A stage with so many modes at most, none both slower and larger than another, the fastest first."""
        trace, family = problem.replay.trace, family_of(problem.replay, offload=False)
        forward = next((call.seconds for call in trace.calls if not call.name), trace.seconds / 2)
        points = []
        for plan in [[], *(plan for cut in family.cuts for plan in ModePlans(family, cut).path())]:
            run = problem.replay.run(choices_of(plan))
            saved = max(0, run.turn - trace.fixed)
            halves = run.high[: trace.turn], run.high[trace.turn :]
            up, down = (max(0, max(half, default=0) - trace.fixed - saved) for half in halves)
            points.append((run.seconds, saved, up, down, choices_of(plan)))
        points.sort(key=lambda p: (p[0], p[1] + max(p[2], p[3])))
        kept = [p for i, p in enumerate(points) if all(p[1] < other[1] for other in points[:i])]
        if len(kept) > most:
            kept = [kept[round(i * (len(kept) - 1) / (most - 1))] for i in range(most)] if most > 1 else kept[:1]
        modes = [
            remora.StageMode(
                f"{len(choices)} checkpoints",
                forward=round(1e9 * forward),
                backward=round(1e9 * (max(0.0, trace.seconds - forward) + seconds)),
                saved=saved,
                forward_transient=up,
                backward_transient=down,
            )
            for seconds, saved, up, down, choices in kept
        ]
        return StageProblem(modes, [choices for *_, choices in kept], sorted(trace.changed), sizes)


class PipelineFitting:
    """Finds the modes of all stages whose steps stay within the budgets.

    `options`: of each stage. `shared`: from what this process found to what the process with the first stage found:
    the search is the same everywhere but for its clock. `tried`: from a plan to the measured bytes of each stage.
    """

    def __init__(
        self,
        stages: list[StageProblem],
        options: list[Options],
        microbatches: int,
        order: PipelineOrder,
        shared: Callable[[Any], Any],
        tried: Callable[[StagesPlan], list[int]],
    ) -> None:
        self.stages, self.options, self.shared, self.tried = stages, options, shared, tried
        self.budgets = [given.in_bytes(stage.sizes) for stage, given in zip(stages, options, strict=True)]
        limits = options[0].limits_in(options[0].time_limit)
        self._engine = partial(remora.pipeline, microbatches=microbatches, schedule=order, limits=limits)
        # What the model of a step does not know, or counts though the schedule has given it back.
        plain = self._engine([remora.Stage(str(i), s.modes[:1], s.sizes.fixed) for i, s in enumerate(stages)])
        self.plain = plain.makespan or 0
        fixed = [s.sizes.fixed + s.sizes.unscheduled - p for s, p in zip(stages, plain.peaks, strict=True)]
        self.made = [
            remora.Stage(f"stage {i}", s.modes, max(0, size))
            for i, (s, size) in enumerate(zip(stages, fixed, strict=True))
        ]
        self.latest: StagesPlan | None = None  # that was run

    def run(self) -> StagesPlan:
        """The plan whose runs stay within the budgets.

        Raises BudgetError if a stage exceeds its budget in every mode. Raises CheckpointError if the runs of all
        plans that are found exceed one.
        """
        plan = within_each(self.budgets, self._attempt, lambda plan: plan.peaks)
        if plan is not None:
            return plan
        if self.latest is None:
            raise CheckpointError("no modes of the stages were found within the time limit: give a longer time_limit")
        over = [peak - budget for peak, budget in zip(self.latest.peaks, self.budgets, strict=True)]
        worst = over.index(max(over))
        raise CheckpointError(
            f"stage {worst} exceeds its budget of {self.budgets[worst]:,} bytes after {TRIES} tries: its peak is "
            f"{self.latest.peaks[worst]:,} bytes where {self.latest.stages[worst].predicted_peak:,} were predicted"
        )

    def _attempt(self, asked: Sequence[int]) -> StagesPlan | None:
        found = self._engine(self.made, budget=[max(0, size) for size in asked])
        needs = [(need.device, need.least, need.enough) for need in found.needs]
        chosen, bound, needs = self.shared(([row[0] for row in found.choice], found.bound, needs))
        if chosen:
            self.latest = self._planned(chosen, bound)
            return self.latest
        if self.latest is None and needs:
            stage, least, enough = needs[0]
            sizes, budget = self.stages[stage].sizes, self.budgets[stage]
            raise sizes.refusal(budget, enough, self.options[stage], least > budget, least)
        return None

    def _planned(self, chosen: Sequence[int], bound: int) -> StagesPlan:
        """The plan of these modes, and its cost when it runs."""
        step = self._engine(
            [remora.Stage(s.name, [s.modes[m]], s.fixed_memory) for s, m in zip(self.made, chosen, strict=True)]
        )
        assert step.makespan is not None, "without budgets"
        plan = StagesPlan(unscheduled_time=self.plain, predicted_time=step.makespan, bound=bound)
        for stage, m, budget, peak in zip(self.stages, chosen, self.budgets, step.peaks, strict=True):
            own = CheckpointPlan(stage.choices[m], stage.changed, budget=budget, predicted_peak=peak)
            sizes = stage.sizes
            own.fixed_memory, own.unscheduled_peak, own.whole = sizes.fixed, sizes.unscheduled, sizes.of
            plan.stages.append(own)
        plan.peaks = self.tried(plan)
        for stage_plan, peak in zip(plan.stages, plan.peaks, strict=True):
            stage_plan.measured_peak = peak
        return plan
