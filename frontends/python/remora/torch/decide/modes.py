# SPDX-License-Identifier: Apache-2.0
"""Which plan of a family takes least time within a budget: branch and bound, each node a problem of the engine.

A node allows each unit a range of its modes. Its problem is a graph: an op for each slot with what the slot takes, and
for each unit *pieces*, the bytes that one mode saves beyond the one before. A piece is made where the unit's forward
ends, and read where its backward begins; to release it between and make it again takes what the mode takes more. The
engine may release any of a unit's pieces, where a mode stands for all pieces up to its own, and a slot counts the best
that any allowed mode does for it: so each schedule's duration is a bound for the plans of the node. Where the engine's
schedule is no plan, or the plan does not hold the budget, a unit's range is cut in two.

    F0 p0 p0' F1 p1 ... | loss | ... read p1  B1  read p0 p0'  B0
"""

from __future__ import annotations

import heapq
import itertools
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch

import remora
from remora.asking import ask

from ..problem.family import Family, Mode, Unit

Range = tuple[int, int]
NODES = 2000
"""At most so many problems are solved."""
SOLVE = 2.0
"""Seconds for one problem: nearly all take hundredths; of the others what is proved by then counts."""
MOVES = 400
"""Of the greedy start."""


@dataclass
class Chosen:
    """A mode for each unit of a cut.

    Attributes
    ----------
    time, bound : int
        Nanoseconds beyond the step as it is: of this plan; no plan of the family takes less.
    peak : int
        Bytes, summed over the units.
    """

    modes: list[Mode]
    time: int
    peak: int
    bound: int


class Cut:
    """The plans of one cut; mode numbers stand for a plan."""

    def __init__(self, family: Family, cut: Sequence[int]) -> None:
        self.units, self.slots = family.units(cut), family.slots
        self.base = torch.tensor(family.base, device="cpu")
        self.saved = [torch.tensor([m.saved for m in unit.modes], device="cpu") for unit in self.units]  # modes x slots
        self.freed = [_freed(unit) for unit in self.units]
        self._best: dict[tuple[int, Range], torch.Tensor] = {}

    def loads(self, plan: Sequence[int]) -> torch.Tensor:
        """What a plan takes in each slot."""
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

    def uniform(self) -> Iterator[list[Mode]]:
        """Plans that have all units in the same mode, as far as they have it."""
        for most in range(max((len(unit.modes) for unit in self.units), default=0)):
            yield [unit.modes[min(most, len(unit.modes) - 1)] for unit in self.units]

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

    def counted(self, i: int, allowed: Range) -> torch.Tensor:
        """What each allowed mode saves in each slot, with the pieces that it leaves there."""
        (a, b), (low, high), freed = self.units[i].active, allowed, self.freed[i]
        rows = self.saved[i][low : high + 1].clone()
        rows[:, a:b] += torch.tensor([[freed[high] - freed[m]] for m in range(low, high + 1)], device="cpu")
        return rows

    def best(self, i: int, allowed: Range) -> torch.Tensor:
        """The most of that over the modes that are allowed."""
        if (i, allowed) not in self._best:
            self._best[i, allowed] = self.counted(i, allowed).amax(0)
        return self._best[i, allowed]

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
        """The peak with each mode of a unit, now in one of them."""
        found: list[int] = (load + self.saved[i][mode] - self.saved[i]).amax(1).tolist()
        return found

    def repaired(self, plan: Sequence[int], budget: int) -> list[int] | None:
        """A plan within the budget, near another: the change that saves most a nanosecond, and again; then back."""
        plan, load = list(plan), self.loads(plan)
        for _ in range(MOVES):
            top = int(load.argmax())
            if int(load[top]) <= budget:
                return self._cheapened(plan, load, budget)
            there = [saved[:, top].tolist() for saved in self.saved]
            moves = [
                ((there[i][m] - there[i][plan[i]]) / max(1, mode.time - unit.modes[plan[i]].time), i, m)
                for i, unit in enumerate(self.units)
                for m, mode in enumerate(unit.modes)
                if there[i][m] > there[i][plan[i]]
            ]
            if not moves:
                return None
            _, i, m = max(moves)
            load += self.saved[i][plan[i]] - self.saved[i][m]
            plan[i] = m
        return None

    def _cheapened(self, plan: list[int], load: torch.Tensor, budget: int) -> list[int]:
        for i in sorted(range(len(plan)), key=lambda i: -self.units[i].modes[plan[i]].time):
            peaks, modes = self._peaks(load, i, plan[i]), self.units[i].modes
            best = min((m for m, peak in enumerate(peaks) if peak <= budget), key=lambda m: modes[m].time)
            if modes[best].time < modes[plan[i]].time:
                load += self.saved[i][plan[i]] - self.saved[i][best]
                plan[i] = best
        return plan


class Search:
    """The best plan of a family within a budget."""

    def __init__(
        self, family: Family, budget: int, seconds: float, threads: int, seed: int, any_plan: bool = False
    ) -> None:
        self.family, self.budget = family, budget
        self.end = time.perf_counter() + seconds
        self.threads, self.seed = threads or None, seed
        self.best: list[Mode] | None = None
        self.best_time = 2**62
        self.best_peak = 0
        self.problems = 0
        self.proved = False
        self.any_plan = any_plan  # the first one that is found will do

    def run(self) -> Chosen | None:
        """The plan; None if it is proved that there is none within the budget (`proved`), or none was found."""
        cuts = [Cut(self.family, cut) for cut in self.family.cuts]
        order = itertools.count()
        nodes: list[tuple[int, int, Cut, tuple[Range, ...]]] = []
        for cut in cuts:
            self._offer(cut, cut.repaired([0] * len(cut.units), self.budget))
            self._offer(cut, cut.repaired(cut.descend(), self.budget))
            nodes.append((0, next(order), cut, tuple((0, len(unit.modes) - 1) for unit in cut.units)))
        while nodes and nodes[0][0] < self.best_time and self._goes_on(len(cuts)):
            bound, _, cut, node = heapq.heappop(nodes)
            for child in self._visit(cut, node):
                heapq.heappush(nodes, (max(bound, child[0]), next(order), cut, child[1]))
        bound = min((row[0] for row in nodes), default=2**62)
        if self.best is None:
            self.proved = not nodes
            return None
        return Chosen(self.best, self.best_time, self.best_peak, min(bound, self.best_time))

    def _goes_on(self, cuts: int) -> bool:
        if self.any_plan and self.best is not None:
            return False
        return self.problems < cuts or (self.problems < NODES and time.perf_counter() < self.end)

    def _offer(self, cut: Cut, plan: Sequence[int] | None) -> None:
        if plan is not None and cut.peak(plan) <= self.budget and cut.time(plan) < self.best_time:
            self.best, self.best_time, self.best_peak = cut.modes(plan), cut.time(plan), cut.peak(plan)

    def _visit(self, cut: Cut, node: tuple[Range, ...]) -> list[tuple[int, tuple[Range, ...]]]:
        """Solves a node; what is left of it, with a bound."""
        solved = self._solve(cut, node)
        if solved is None:
            return []
        bound, dropped = solved
        plan = [max(drops, default=low) for (low, _), drops in zip(node, dropped, strict=True)]
        self._offer(cut, plan)
        if bound >= self.best_time:
            return []
        self._offer(cut, cut.repaired(plan, self.budget))
        return [(bound, child) for child in self._branches(cut, node, plan, dropped)]

    def _branches(
        self, cut: Cut, node: tuple[Range, ...], plan: Sequence[int], dropped: Sequence[set[int]]
    ) -> list[tuple[Range, ...]]:
        """The node in two, along the unit whose share of what the plan falls short is largest."""

        def split(i: int, at: int) -> list[tuple[Range, ...]]:
            low, high = node[i]
            return [(*node[:i], part, *node[i + 1 :]) for part in ((low, at), (at + 1, high))]

        def unlike(i: int) -> int:
            unit, (low, _) = cut.units[i], node[i]
            paid = sum(unit.modes[k].time - unit.modes[k - 1].time for k in dropped[i]) + unit.modes[low].time
            return unit.modes[plan[i]].time - paid

        apart = max(range(len(node)), key=unlike, default=None)
        if apart is not None and unlike(apart) > 0:
            return split(apart, plan[apart] - 1)
        # A plan, but some slot counted on what another mode does.
        top = int(cut.loads(plan).argmax())
        free = [i for i, (a, b) in enumerate(node) if a < b]
        if not free:
            return []
        worst = max(
            free, key=lambda i: int(cut.best(i, node[i])[top] - cut.counted(i, node[i])[plan[i] - node[i][0], top])
        )
        low, high = node[worst]
        return split(worst, min(max(low, plan[worst]), high - 1))

    def _solve(self, cut: Cut, node: tuple[Range, ...]) -> tuple[int, list[set[int]]] | None:
        """A bound for the plans of a node, and which pieces the engine's schedule makes again; None if it has none."""
        self.problems += 1
        built = _graph(cut, node, self.budget)
        fixed = sum(unit.modes[a].time for unit, (a, _) in zip(cut.units, node, strict=True))
        if built is None:
            return fixed, [set() for _ in node]
        graph, budget, once = built
        seconds = min(SOLVE, max(0.2, self.end - time.perf_counter()))
        limits = remora.Limits(time_limit=seconds, threads=self.threads, seed=self.seed)
        found = ask(graph, budget, limits, max_computes=2)
        if isinstance(found, remora.Infeasible):
            return None
        if isinstance(found, remora.NoSchedule):
            return fixed, [set(range(a + 1, b + 1)) for a, b in node]
        seen: set[str] = set()
        dropped: list[set[int]] = [set() for _ in node]
        for step in found.steps:
            if step.op.name in seen:
                unit, _, piece = step.op.name.partition(" ")
                dropped[int(unit)].add(int(piece))
            seen.add(step.op.name)
        return fixed + max(0, found.bound - once), dropped


def _freed(unit: Unit) -> list[int]:
    """What each mode saves while the unit is active, at most, and no less than the one before."""
    a, b = unit.active
    return list(itertools.accumulate((max(m.saved[a:b], default=0) for m in unit.modes), max))


def _graph(cut: Cut, node: tuple[Range, ...], budget: int) -> tuple[remora.Graph, int, int] | None:
    """A node's problem, its budget, and the duration of everything once; None if no slot can exceed the budget.

    All slots are lifted by what all pieces take together, so that none of them takes less than nothing, and that what
    stands between slots always fits.
    """
    pieces = [
        [
            (k, cut.freed[i][k] - cut.freed[i][k - 1], unit.modes[k].time - unit.modes[k - 1].time)
            for k in range(a + 1, b + 1)
        ]
        for i, (unit, (a, b)) in enumerate(zip(cut.units, node, strict=True))
    ]
    most = [sum(size for _, size, _ in rows) for rows in pieces]
    need, there = cut.base.clone(), torch.zeros_like(cut.base)
    for i, (unit, allowed) in enumerate(zip(cut.units, node, strict=True)):
        need -= cut.best(i, allowed)
        there[slice(*unit.active)] += most[i]
    slots = {slot: int(need[slot]) for slot in (need + there > budget).nonzero().flatten().tolist()}
    if not slots:
        return None
    lift = sum(most) + max(0, -min(slots.values()))
    graph = remora.Graph("checkpoints")
    made: dict[tuple[int, int], remora.Tensor] = {}
    once = 0
    for slot in range(len(cut.base) + 1):
        for i, unit in enumerate(cut.units):
            if unit.active[0] == slot < unit.active[1]:
                for k, size, duration in pieces[i]:
                    made[i, k] = graph.op(f"{i} {k}", duration=duration, outputs={f"{i} {k}": size}).outputs[0]
                    once += duration
            if unit.active[1] == slot > unit.active[0]:
                for k, _, _ in pieces[i]:
                    name = f"read {i} {k}"
                    graph.op(name, duration=0, inputs=[made[i, k]], outputs={name: 0}, recompute=False)
        if slot in slots:
            name = f"slot {slot}"
            graph.op(name, duration=0, outputs={name: 0}, workspace=slots[slot] + lift, recompute=False)
    return graph, budget + lift, once
