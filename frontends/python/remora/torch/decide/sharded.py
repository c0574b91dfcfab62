# SPDX-License-Identifier: Apache-2.0
"""Which plan of a sharded step takes least time within a budget: the engine's, and what is near it.

What the modes of blocks save, and what resharding a unit saves, adds up in each slot of the step (`problem.sharded`),
except for what they share; the plan that is chosen is replayed as a whole.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import torch

import remora

from ..capture.trace import Kind, Trace
from ..checkpoint_plan import Choice
from ..options import Options
from ..problem.family import Mode, choices_for, policies_of, refused_in, worthwhile
from ..problem.sharded import DEVICE, Block, StepGraph, choices_of
from ..problem.sharded_replay import ShardedReplay
from .within import within

MOVES = 1000
"""Of a repair."""


@dataclass
class Chosen:
    """A plan: a mode of each block, and whether its unit is resharded; nanoseconds and bytes."""

    modes: list[int]
    resharded: list[bool]
    time: int = 0
    peak: int = 0


@dataclass
class Planner:
    """What is chosen from; `search` chooses.

    Attributes
    ----------
    bound : int
        No schedule of the graph takes less, in nanoseconds, at the last search's budget.
    """

    replay: ShardedReplay
    overlaps: bool
    options: Options
    blocks: list[Block] = field(default_factory=list)
    excluded: dict[str, str] = field(default_factory=dict)
    bound: int = 0

    def __post_init__(self) -> None:
        trace, units = self.replay.replay.trace, self.replay.outermost
        count = len(units)
        starts = [0, *(u.gathered for u in units[1:]), units[-1].left, *(u.asked for u in reversed(units))]
        self.slots = list(zip(starts, [*starts[1:], len(trace.events)], strict=True))
        base = self._tops({}, ())
        self.base = torch.tensor(base)
        self.excluded = refused_in(trace)
        forward = sum(trace.calls[u.call].seconds for u in units)
        whole = next((call.seconds for call in trace.calls if not call.name), forward)
        backward = max(0.0, trace.seconds - whole)
        for i, unit in enumerate(units):
            modes = [
                self._mode(choices, base)
                for choices in choices_for(unit.name, policies_of(self.replay.replay, unit.call), [], offload=False)
                if not choices or (unit.name not in self.excluded and _saves(trace, unit.call))
            ]
            own = trace.calls[unit.call].seconds
            share = own / max(1e-12, forward)
            kept = worthwhile(modes, (i + 1, 2 * count - i))
            gathers = [u.gather for u in self.replay.units if unit.name in (u.name, u.outer)]
            parameters, seconds = sum(g.parameters for g in gathers), sum(g.seconds for g in gathers)
            with_inner = replace(unit, gather=replace(unit.gather, parameters=parameters, seconds=seconds))
            self.blocks.append(Block(with_inner, kept, round(1e9 * own), round(1e9 * share * backward)))
        self.graph = StepGraph(self.blocks, base, round(1e9 * max(0.0, whole - forward)), self.overlaps)
        self.saved = [torch.tensor([mode.saved for mode in block.modes]) for block in self.blocks]
        self.sharded = [self.base - torch.tensor(self._tops({}, (unit.name,))) for unit in units]
        self.plain = self.time_of(Chosen([0] * count, [False] * count))

    def _tops(self, choices: dict[str, Choice], resharded: Sequence[str]) -> list[int]:
        high = self.replay.high(choices, resharded)
        return [max(high[a:b], default=high[min(a, len(high) - 1)]) for a, b in self.slots]

    def _mode(self, choices: dict[str, Choice], base: Sequence[int]) -> Mode:
        tops = self._tops(choices, ())
        time = round(1e9 * self.replay.plain(choices).seconds)
        return Mode(choices, time, [most - top for most, top in zip(base, tops, strict=True)])

    # -- What a plan takes --

    def names(self, plan: Chosen) -> list[str]:
        """Of the units that are resharded."""
        return [b.unit.name for b, again in zip(self.blocks, plan.resharded, strict=True) if again]

    def load(self, plan: Chosen) -> torch.Tensor:
        """Bytes of each slot, summed."""
        load = self.base.clone()
        for saved, sharded, m, again in zip(self.saved, self.sharded, plan.modes, plan.resharded, strict=True):
            load -= saved[m] + sharded * int(again)
        return load

    def time_of(self, plan: Chosen) -> int:
        """Nanoseconds, by the engine's replay."""
        return self.graph.time_of(plan.modes, self.names(plan))

    def finished(self, plan: Chosen) -> Chosen:
        """With its figures; the peak is that of the whole step's replay."""
        peak = self.replay.peak(choices_of(self.blocks, plan.modes), self.names(plan))
        return Chosen(list(plan.modes), list(plan.resharded), self.time_of(plan), peak)

    # -- The search --

    def search(self, budget: int) -> Chosen | None:
        """The fastest plan that is found within a budget; none if there is none."""
        starts = [*self._uniform(), *self._solved(budget)]
        for start in list(starts):
            plan = within(budget, functools.partial(self._repaired, start), lambda plan: plan.peak)
            if plan is not None:
                starts.append(plan)
        return min((p for p in starts if p.peak <= budget), key=lambda p: (p.time, p.peak), default=None)

    def least(self) -> Chosen:
        """The plan with the least peak that is known."""
        known = [*self._uniform()]
        lowest = min(known, key=lambda p: p.peak)
        while (plan := self._repaired(lowest, lowest.peak - 1)) is not None and plan.peak < lowest.peak:
            lowest = plan
        return lowest

    def _uniform(self) -> Iterator[Chosen]:
        """All units alike, as far as they have the mode; resharded all or none, or all but the last."""
        count = len(self.blocks)
        for again in ([False] * count, [True] * count, [True] * (count - 1) + [False]):
            for most in range(max(len(block.modes) for block in self.blocks)):
                yield self.finished(Chosen([min(most, len(block.modes) - 1) for block in self.blocks], again))

    def _solved(self, budget: int) -> list[Chosen]:
        """The engine's schedule, as the plan that it is."""
        options, graph = self.options, self.graph
        try:
            found = remora.solve(
                graph.graph,
                {DEVICE: max(1, budget + graph.lift)},
                max_computes=2,
                time_limit=options.time_limit,
                threads=options.threads or None,
                seed=options.seed,
            )
        except remora.NoDeviceSchedule:
            self.bound = 0
            return []
        self.bound = found.bound
        modes, names = graph.plan_of(found)
        return [self.finished(Chosen(modes, [b.unit.name in names for b in self.blocks]))]

    def _moves(self, plan: Chosen) -> Iterator[tuple[Chosen, torch.Tensor]]:
        """Plans that differ in one block's mode or one unit's flag, and what they save."""
        for i, block in enumerate(self.blocks):
            for m in range(len(block.modes)):
                if m != plan.modes[i]:
                    modes = [*plan.modes[:i], m, *plan.modes[i + 1 :]]
                    yield Chosen(modes, plan.resharded), self.saved[i][m] - self.saved[i][plan.modes[i]]
            again = [*plan.resharded[:i], not plan.resharded[i], *plan.resharded[i + 1 :]]
            yield Chosen(plan.modes, again), self.sharded[i] * (1 if again[i] else -1)

    def _repaired(self, start: Chosen, budget: int) -> Chosen | None:
        """A plan within the budget by the sum: the move that saves most a nanosecond, and again; then back."""
        plan, load = Chosen(start.modes, start.resharded, self.time_of(start)), self.load(start)
        for _ in range(MOVES):
            top = int(load.argmax())
            if int(load[top]) <= budget:
                return self._cheapened(plan, load, budget)
            best: tuple[float, Chosen, torch.Tensor] | None = None
            for move, saved in self._moves(plan):
                if int(saved[top]) <= 0 or int((load - saved).max()) >= int(load[top]):
                    continue
                move.time = self.time_of(move)
                worth = int(saved[top]) / max(1, move.time - plan.time)
                if best is None or worth > best[0]:
                    best = worth, move, saved
            if best is None:
                return None
            plan, load = best[1], load - best[2]
        return None

    def _cheapened(self, plan: Chosen, load: torch.Tensor, budget: int) -> Chosen:
        better = True
        while better:
            better = False
            best = plan, load
            for move, saved in self._moves(plan):
                if int((load - saved).max()) > budget:
                    continue
                move.time = self.time_of(move)
                if move.time < best[0].time:
                    best, better = (move, load - saved), True
            plan, load = best
        return self.finished(plan)


def _saves(trace: Trace, number: int) -> bool:
    """Whether autograd saves something of a call."""
    call = trace.calls[number]
    return any(kind is Kind.SAVE for kind, _ in trace.events[call.start : call.end])
