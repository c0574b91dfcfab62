# SPDX-License-Identifier: Apache-2.0
"""Finds the fastest plan of a family within a budget: each cut is a graph whose ops have modes, for the engine.

A slot is an op whose workspace is what the step needs there if every unit saves as much as it can. What a mode saves
less is a tensor that is resident in the slot. A unit is a chain of ops: it begins with an op whose modes are those of
the unit, and whose durations are theirs; wherever what the modes save changes from one slot to the next, another op
follows, in the same mode, and replaces the tensor.

    unit u    u ------ t ------> u' ------ t' ---> end
    slots          0         1         2
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch

import remora
from remora.asking import ask

from ..problem.family import Family, Mode

NEVER = 2**62
"""A bound for the plans of a cut that has none within the budget."""


@dataclass
class Chosen:
    """A mode for each unit of a cut."""

    modes: list[Mode]
    # time, bound: nanoseconds beyond the step as it is: of this plan; no plan of the family takes less
    time: int
    peak: int  # bytes, summed over the units
    bound: int


class ModePlans:
    """The plans of one cut; mode numbers stand for a plan."""

    def __init__(self, family: Family, cut: Sequence[int]) -> None:
        self.units, self.slots = family.units(cut), family.slots
        self.base = torch.tensor(family.base, device="cpu")
        self.saved = [torch.tensor([m.saved for m in unit.modes], device="cpu") for unit in self.units]  # modes x slots
        # Bytes that each mode saves at most, and no less than the mode before.
        self.freed = [list(itertools.accumulate(saved.amax(1).tolist(), max)) for saved in self.saved]
        self.fastest = [min(enumerate(unit.modes), key=lambda row: row[1].time)[0] for unit in self.units]

    def loads(self, plan: Sequence[int]) -> torch.Tensor:
        """Memory of a plan in each slot."""
        load = self.base.clone()
        for saved, m in zip(self.saved, plan, strict=True):
            load -= saved[m]
        return load

    def peak(self, plan: Sequence[int]) -> int:
        """The most that a plan takes in any slot."""
        return int(self.loads(plan).max())

    def time(self, plan: Sequence[int]) -> int:
        """Nanoseconds beyond the step as it is."""
        return sum(unit.modes[m].time for unit, m in zip(self.units, plan, strict=True))

    def modes(self, plan: Sequence[int]) -> list[Mode]:
        """The modes of a plan."""
        return [unit.modes[m] for unit, m in zip(self.units, plan, strict=True)]

    def path(self) -> Iterator[list[Mode]]:
        """Plans that save more and more: each changes the mode of one unit, where that saves most for its time."""
        plan = [0] * len(self.units)
        while True:
            steps = [
                ((freed[m] - freed[plan[i]]) / max(1, unit.modes[m].time - unit.modes[plan[i]].time), -i, -m)
                for i, (unit, freed) in enumerate(zip(self.units, self.freed, strict=True))
                for m in range(plan[i] + 1, len(unit.modes))
                if freed[m] > freed[plan[i]]
            ]
            if not steps:
                return
            _, i, m = max(steps)
            plan[-i] = -m
            yield self.modes(plan)

    def descend(self) -> list[int]:
        """A plan of a small peak.

        From all units in the mode that saves most at the eager peak, each in turn is changed for as long as that helps.
        """
        top = int(self.base.argmax())
        plan = [int(saved[:, top].argmax()) for saved in self.saved]
        load, better = self.loads(plan), True
        while better:
            better = False
            for i, unit in enumerate(self.units):
                peaks = self._peaks(load, i, plan[i])
                least = min(range(len(peaks)), key=lambda m: (peaks[m], unit.modes[m].time))
                if (peaks[least], unit.modes[least].time) < (peaks[plan[i]], unit.modes[plan[i]].time):
                    load += self.saved[i][plan[i]] - self.saved[i][least]
                    plan[i], better = least, True
        return plan

    def _peaks(self, load: torch.Tensor, i: int, mode: int) -> list[int]:
        found: list[int] = (load + self.saved[i][mode] - self.saved[i]).amax(1).tolist()
        return found


class ModeSearch:
    """The best plan of a family within a budget."""

    def __init__(
        self, family: Family, budget: int, seconds: float, threads: int, seed: int, any_plan: bool = False
    ) -> None:
        self.family, self.budget = family, budget
        self.end = time.perf_counter() + seconds
        self.threads, self.seed = threads or None, seed
        self.best: Chosen | None = None
        self.proved = False
        self.any_plan = any_plan  # the first one that is found is enough

    def run(self) -> Chosen | None:
        """Returns the plan; None if it is proved that there is none within the budget (`proved`), or none was found."""
        bounds = []
        for number, numbers in enumerate(self.family.cuts):
            left = max(0.2, self.end - time.perf_counter())
            bounds.append(self._solve(ModePlans(self.family, numbers), left / (len(self.family.cuts) - number)))
            if self.any_plan and self.best is not None:
                break
        self.proved = self.best is None and min(bounds) >= NEVER
        if self.best is not None:
            self.best.bound = min(self.best.time, *bounds)
        return self.best

    def _offer(self, cut: ModePlans, plan: Sequence[int]) -> None:
        time, peak = cut.time(plan), cut.peak(plan)
        if peak <= self.budget and (self.best is None or time < self.best.time):
            self.best = Chosen(cut.modes(plan), time, peak, 0)

    def _solve(self, cut: ModePlans, seconds: float) -> int:
        """Offers the best plan of a cut; returns a bound for all its plans."""
        built = _graph(cut, self.budget)
        least = bound = cut.time(cut.fastest)
        if built is None:
            self._offer(cut, cut.fastest)
            return bound
        graph, budget = built

        def is_enough(progress: remora.Progress) -> bool:
            nonlocal bound
            bound = max(bound, least + progress.bound)
            is_found = self.any_plan and progress.phase == 2
            return is_found or (self.best is not None and bound >= self.best.time)

        limits = remora.Limits(time_limit=seconds, gap=0, threads=self.threads, seed=self.seed)
        found = ask(graph, budget, limits, progress=is_enough, max_computes=1)
        if isinstance(found, remora.Infeasible):
            return NEVER
        if isinstance(found, remora.NoSchedule):
            return bound
        chosen = {step.op.name: step.mode for step in found.steps}
        self._offer(cut, [chosen.get(str(i), m) for i, m in enumerate(cut.fastest)])
        return max(bound, least + found.bound)


def _graph(cut: ModePlans, budget: int) -> tuple[remora.Graph, int] | None:
    """Builds the graph of a cut, and its budget; None if every plan stays within the budget.

    The op that a unit begins with has the unit's number as its name. All slots are raised alike, so that no workspace
    is negative and the ops between the slots always fit. Durations are those beyond the fastest mode.
    """
    need, most = cut.base.clone(), cut.base.clone()
    for saved in cut.saved:
        need -= saved.amax(0)
        most -= saved.amin(0)
    slots = (most > budget).nonzero().flatten().tolist()
    if not slots:
        return None
    rows = [(saved.amax(0) - saved).T.tolist() for saved in cut.saved]  # slots x modes
    lift = max(0, -int(need.min()), 2 * sum(max(map(max, sizes)) for sizes in rows) - budget)
    graph = remora.Graph("checkpoints")
    ops: list[remora.Op | None] = [None] * len(rows)
    before = [[0] * len(unit.modes) for unit in cut.units]
    for slot in slots:
        for i, unit in enumerate(cut.units):
            sizes, read = rows[i][slot], ops[i]
            if sizes == before[i]:
                continue
            name, times = f"{i} {slot}", [0] * len(sizes)
            if read is None:
                name, times = f"{i}", [mode.time - unit.modes[cut.fastest[i]].time for mode in unit.modes]
            further = [remora.Mode(time, [size]) for time, size in zip(times[1:], sizes[1:], strict=True)]
            ops[i] = graph.op(
                name,
                duration=times[0],
                inputs=[] if read is None else [read],
                outputs={name: sizes[0]},
                modes=remora.OpModes(further, follows=read),
            )
            before[i] = sizes
        graph.op(f"slot {slot}", duration=0, outputs={f"slot {slot}": 0}, workspace=int(need[slot]) + lift)
    graph.op("end", duration=0, inputs=[op for op in ops if op is not None], outputs={"end": 0})
    return graph, budget + lift
