# SPDX-License-Identifier: Apache-2.0
"""Plans that tags can express for a step of torchtitan's graph trainer, and the best of them.

The trainer's graph holds forward, loss and backward. Its policies tag forward nodes, and `selective_activation_remat`
carries the tags out: what is tagged for recompute is released behind its last reader in the forward part, and
recomputed right before the first node of the backward part that needs it, itself or to recompute something else. From
there on it lives till its last reader. So a plan is a set of forward ops, and each set is one sequence of ops:

    forward:   a  b  c  d | loss | D  C  B  A          a, c recomputed:    a  b  c  d | loss | D  c  C  B  a  A

The engine solves the same graph with recomputes wherever they fit. Its schedules name sets, and its bound holds for all
sets. A set may take another peak than the schedule that named it, so sets are evaluated as sequences, O(nodes) each,
and exchanges follow where that is not the best that there can be.
"""

from __future__ import annotations

import itertools
import operator
import time
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import fx
from torch.utils.checkpoint import CheckpointPolicy

import remora
from remora.asking import TRIES, ask, replayed, within
from remora.torch.capture.graph import StepGraph
from remora.torch.options import Options, Sizes

OUTSIDE = ("lm_head", "loss")
"""Modules whose backward comes before the region in which the trainer makes values again."""
DEPTH = 5
"""An op is exchanged together with what it is made from, fewer steps back than this."""
NEVER = 1 << 60


def _region(nodes: list[fx.Node]) -> tuple[int, int]:
    """From where to where the nodes stand before which the trainer makes values again: the longest row of them."""
    start = max((i + 1 for i, node in enumerate(nodes) if module_of(node) in OUTSIDE), default=0)
    rows: list[tuple[int, int]] = []
    for i in range(start, len(nodes)):
        if is_backward(nodes[i]):
            first = rows[-1][0] if rows and rows[-1][1] == i else i
            rows = [*rows[:-1], (first, i + 1)] if rows and rows[-1][1] == i else [*rows, (i, i + 1)]
    return max(rows, key=lambda row: row[1] - row[0], default=(len(nodes), len(nodes)))


def module_of(node: fx.Node) -> str:
    """The name of the module that a node stands in, as the trainer annotates it; "" where it does not."""
    return str(node.meta.get("custom", {}).get("module_fqn", ""))


def is_backward(node: fx.Node) -> bool:
    """True if autograd made a node."""
    return bool(node.meta.get("autograd_backward"))


def _hands_on(node: fx.Node) -> bool:
    """True if a node's value is one that an op returned, not a view of it."""
    return node.target is operator.getitem or getattr(node.target, "namespace", "") == "_c10d_functional"


@dataclass(frozen=True)
class Tagged:
    """A set of ops to recompute, by their numbers.

    Attributes
    ----------
    peak : int
        Bytes, including permanently resident memory.
    time : int
        Nanoseconds.
    """

    again: frozenset[int]
    peak: int
    time: int


class Family:
    """The sets of ops of a step that tags can name.

    Parameters
    ----------
    step : StepGraph
        Ops of the trainer's graph. Those that no tag can recompute are marked as such.
    """

    def __init__(self, step: StepGraph) -> None:
        self.step = step
        nodes = list(step.module.graph.nodes)
        self.place = {node: i for i, node in enumerate(nodes)}
        self.first, self.end = _region(nodes)
        self._number = {op: i for i, op in enumerate(step.ops)}
        self._bases = self._find_bases(nodes)
        readers: dict[int, list[fx.Node]] = {i: [] for i in range(len(step.ops))}
        for node in nodes:
            for source in node.all_input_nodes:
                for i in self._bases.get(source, ()):
                    readers[i].append(node)
        self._direct = [NEVER] * len(step.ops)
        self._forward: list[list[int]] = [[] for _ in step.ops]
        for i, op in enumerate(step.ops):
            behind = [self.place[n] for n in readers[i] if is_backward(n)]
            self._direct[i] = min(behind, default=NEVER)
            own = {self._number[step.owner[n]] for n in readers[i] if n in step.owner and not is_backward(n)}
            self._forward[i] = sorted(own - {i})
            within = all(self.first <= place < self.end for place in behind)
            ends = any(n.op == "output" for n in readers[i])
            op.recompute = op.recompute and not op.random and not op.backward and within and not ends
        moves: set[int] = set()  # what only the backward part reads would not be made again, but later
        for i in reversed(range(len(step.ops))):
            op = step.ops[i]
            kept = any(step.storages[s].keep for s in op.outputs)
            if not op.backward and not kept and moves.issuperset(self._forward[i]):
                moves.add(i)
                op.recompute = False

    def _find_bases(self, nodes: Iterable[fx.Node]) -> dict[fx.Node, tuple[int, ...]]:
        """For forward nodes, the forward ops that a value is, or is a view of."""
        found: dict[fx.Node, tuple[int, ...]] = {}
        for node in nodes:
            if is_backward(node) or node.op != "call_function":
                continue
            own = self.step.owner.get(node)
            if own is not None:
                found[node] = (self._number[own],) if own in self._number else ()
            else:
                found[node] = tuple(dict.fromkeys(i for n in node.all_input_nodes for i in found.get(n, ())))
        return found

    @cached_property
    def free(self) -> frozenset[int]:
        """The numbers of the ops that may be recomputed."""
        return frozenset(i for i, op in enumerate(self.step.ops) if op.recompute)

    def is_read_behind(self, i: int) -> bool:
        """True if the backward part reads an op's output, or a view of it."""
        return self._direct[i] < NEVER

    def cone(self, i: int, depth: int) -> frozenset[int]:
        """An op and the recomputable ops that it is computed from, some steps back."""
        found = {i}
        for _ in range(depth):
            found |= {j for j in self.free if not found.isdisjoint(self._forward[j])}
        return frozenset(found)

    def sequence(self, again: frozenset[int]) -> list[int]:
        """The sequence that the trainer runs, by numbers of ops."""
        before: dict[int, list[int]] = {}
        at: dict[int, int] = {}
        for i in sorted(again, reverse=True):
            at[i] = min([self._direct[i], *(at[j] for j in self._forward[i] if j in at)])
            if at[i] < NEVER:
                before.setdefault(at[i], []).append(i)
        waiting = sorted(before, reverse=True)
        found: list[int] = []
        for i, op in enumerate(self.step.ops):
            while waiting and op.backward and waiting[-1] <= self.place[op.nodes[0]]:
                found += sorted(before[waiting.pop()])
            found.append(i)
        return found

    def tag(self, again: frozenset[int]) -> None:
        """Tags the graph's forward nodes."""
        for node in self.place:
            if node.op != "call_function" or is_backward(node):
                continue
            own = self.step.owner.get(node)
            if own is None and _hands_on(node):
                own = self.step.owner.get(node.all_input_nodes[0])
            if own is None:
                within = all(self.first <= self.place[n] < self.end for n in node.users if is_backward(n))
                repeated = within and isinstance(node.target, torch._ops.OpOverload)
            else:
                repeated = self._number.get(own) in again
            node.meta["recompute"] = CheckpointPolicy.MUST_RECOMPUTE if repeated else CheckpointPolicy.MUST_SAVE


def _rank(row: Tagged, budget: int) -> tuple[int, int]:
    """Key for comparing, smaller is better: first within the budget, then shorter."""
    return max(0, row.peak - budget), row.time


class Chooser:
    """Looks for the shortest set of a family that fits within a budget.

    Parameters
    ----------
    family : Family
    graph : remora.Graph
        Of its step.
    """

    def __init__(self, family: Family, graph: remora.Graph) -> None:
        self.family, self.graph = family, graph
        self._known: dict[frozenset[int], Tagged] = {}

    def schedule(self, again: frozenset[int]) -> remora.Schedule:
        """The schedule that the trainer runs for a set."""
        return replayed(self.graph, self.family.sequence(again))

    def tagged(self, again: Iterable[int]) -> Tagged:
        """The costs of a set."""
        chosen = frozenset(again)
        if chosen not in self._known:
            schedule = self.schedule(chosen)
            self._known[chosen] = Tagged(chosen, schedule.peak, schedule.duration)
        return self._known[chosen]

    def named(self, schedule: remora.Schedule) -> Tagged:
        """The set of the ops that a schedule runs again."""
        return self.tagged(op.index for op in schedule.recomputes)

    def best(self, budget: int, options: Options) -> tuple[Tagged, int]:
        """The shortest set that is found within a budget in bytes, and nanoseconds that no set undercuts.

        Raises
        ------
        BudgetError
            With the smallest peak that is known.
        """
        unscheduled = self.tagged(())
        if unscheduled.peak <= budget:
            return unscheduled, unscheduled.time
        bound, proved = self.graph.baseline_duration, False

        def attempt(asked: int) -> Tagged | None:
            nonlocal bound, proved
            schedule = ask(self.graph, asked, options.limits_in(options.time_limit / TRIES), max_computes=2)
            if isinstance(schedule, remora.NoSchedule):
                proved = isinstance(schedule, remora.Infeasible) and asked == budget
                return None
            if asked == budget:
                bound = schedule.bound
            return self.named(schedule)

        within(budget, attempt, lambda tagged: tagged.peak)  # all that were found are known now
        self.tagged(self.family.free)
        end = time.monotonic() + options.time_limit / TRIES
        starts = sorted(self._known.values(), key=lambda row: _rank(row, budget))
        found = starts[0]
        if found.peak > budget or found.time > bound:
            found = min((self._searched(start, budget, end) for start in starts), key=lambda row: _rank(row, budget))
        if found.peak > budget:
            least = min(row.peak for row in self._known.values())
            sizes = Sizes(self.graph.fixed_memory, unscheduled.peak, "the trainer's step without recompute")
            raise sizes.refusal(budget, least, options, proved)
        return found, bound

    def _searched(self, start: Tagged, budget: int, end: float) -> Tagged:
        """The set after exchanges, each the best, till none is better or time is over.

        Exchanged are one op or two, or an op with all that it is made from for some steps back. Better is what takes
        less beyond the budget, summed over the steps; then what is shorter.
        """

        def rank(again: frozenset[int]) -> tuple[int, int]:
            schedule = self.schedule(again)
            return sum(max(0, size - budget) for size in schedule.memory), schedule.duration

        ops = sorted(self.family.free, key=lambda i: -self.graph.ops[i].duration)
        moves = [self.family.cone(i, depth) for depth in range(DEPTH) for i in ops]
        found, best = start.again, rank(start.again)
        better = True
        while better and time.monotonic() < end:
            better = False
            origin = found
            for tried in (moves, itertools.combinations(ops, 2)):
                for move in tried:
                    for after in {origin.symmetric_difference(move), origin.union(move)}:
                        now = rank(after)
                        if now < best:
                            found, best, better = after, now, True
                    if time.monotonic() > end:
                        break
                if better:
                    break
        return self.tagged(found)
