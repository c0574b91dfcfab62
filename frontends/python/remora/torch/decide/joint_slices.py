# SPDX-License-Identifier: Apache-2.0
"""Slices of a joint graph: the engine chooses them on its ATen ops, and its partitions are looked for as any other's.

    joint graph, axes --engine--> slices --rewriting (problem/early.py)--> a joint graph --> partitions, replayed

The engine sees each op's result, where Inductor fuses ops and has fewer buffers. So it is asked for the same share of
its own unscheduled peak as the budget is of the peak of Inductor's own partition, and for less where a replay says so.
"""

from __future__ import annotations

import copy
import functools
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx

import remora
from remora.asking import ask_again

from ..capture.read import read_step
from ..capture.simplify import simplify
from ..cost.calls import by_flops
from ..errors import CaptureError, warn
from ..options import Options
from ..problem.aten import StepProblem
from ..problem.early import joint_in_slices
from ..problem.partition import Joint, Later, Partition, vals
from .partitions import MARGIN, NEEDED, KnownPartitions, Search, key_of, known_partitions, looked
from .slices import Choice

TRIES = 4
"""So many choices of slices are lowered at most."""
ROOM = 0.2
"""Slices that leave a larger share of the budget are followed by larger ones."""


@dataclass
class Sliced:
    """A joint graph in slices, and its partitions.

    `words`: the schedule with the slices, from which each process makes the same graph. `best`: the fastest partition
    within the budget. `least`: the smallest peak that was found.
    """

    words: str
    joint: Joint
    best: Partition | None
    least: Partition
    search: Search | None

    def is_faster(self, other: Partition | None) -> bool:
        """True if it has a partition within the budget that is faster than another one, or the only one."""
        return self.best is not None and (other is None or (1 + MARGIN) * self.best.nanoseconds <= other.nanoseconds)


class JointSlices:
    """The slices of one joint graph.

    `own`: as for `Search`. Nothing is cut where the graph cannot be read op by op, or has symbolic sizes.
    """

    def __init__(self, joint: Joint, options: Options, own: Mapping[str, Any]) -> None:
        self.joint, self.options, self._own = joint, options, own

    @functools.cached_property
    def _choice(self) -> Choice | None:
        module = fx.GraphModule(self.joint.module, copy.deepcopy(self.joint.module.graph))
        module.meta = dict(self.joint.module.meta)
        given = vals(module.graph.find_nodes(op="placeholder"))
        sizes = [size for value in given if isinstance(value, torch.Tensor) for size in value.shape]
        if any(isinstance(size, torch.SymInt) for size in (*given, *sizes)):
            warn("a graph is not computed in slices, as its sizes vary from call to call")
            return None
        try:
            step = read_step(module)
        except CaptureError as error:
            warn(f"a graph is not computed in slices: {error}")
            return None
        simplify(step)
        return Choice(StepProblem(step, by_flops(step), "joint"), self.options)

    @staticmethod
    def number(words: str) -> int:
        """The largest number of slices of a schedule that was chosen."""
        return max(int(region["slices"]) for region in json.loads(words)["slices"]["regions"])

    def of(self, words: str) -> Joint:
        """The graph in slices that were chosen before."""
        assert self._choice is not None
        found = self._joint(remora.Schedule.from_json(words, self._choice.graph))
        assert found is not None, "these slices were written before"
        return found

    def _joint(self, found: remora.Schedule) -> Joint | None:
        choice = self._choice
        assert choice is not None
        module = joint_in_slices(choice.whole.step, choice.axes, found)
        return None if module is None else self.joint.with_graph(module)

    def look(self, budget: int, whole: KnownPartitions) -> list[Sliced]:
        """Joint graphs in slices with their partitions; after the time limit, up to `NEEDED` until one fits.

        Those that were looked at before are taken if one fits, so that what was called enough is enough.
        `budget`: in bytes, with the graph's arguments. `whole`: the graph's partitions without slices.
        """
        tried: list[Sliced] = []
        choice = self._choice
        if choice is None:
            return tried
        assert whole.stock is not None
        known = [row for words in whole.slices if (row := self._known(words, budget)) is not None]
        if known:
            return known
        problem = choice.whole
        unit = (problem.unscheduled - problem.fixed) / max(1, whole.stock.peak(Later()) - self.joint.fixed)

        def decide(asked: int) -> Sliced | None:
            found = choice.within(asked)
            if isinstance(found, int) and found:
                found = choice.within(found)
            words = "" if isinstance(found, int) or not found.slices else found.to_json()
            if not words or any(words == one.words for one in tried):
                return None
            assert isinstance(found, remora.Schedule)
            row = self._planned(found, words, budget)
            tried.extend([row] if row else [])
            return row

        end = time.monotonic() + self.options.time_limit
        in_vain = 0  # the least that was asked for without a partition within the budget

        def following(asked: int, row: Sliced) -> int | None:
            nonlocal in_vain
            if time.monotonic() > end and (row.best is not None or len(tried) >= NEEDED):
                return None
            if row.best is None:
                in_vain, excess = asked, row.least.peak(self.joint.later) - budget
                return max(problem.fixed, asked - max(1, round(excess * unit)))
            left = budget - row.best.peak(self.joint.later)
            return (asked + in_vain) // 2 if in_vain and left > ROOM * (budget - self.joint.fixed) else None

        ask_again(problem.fixed + round((budget - self.joint.fixed) * unit), decide, following, TRIES)
        whole.slices += [row.words for row in tried if row.words not in whole.slices]
        whole.write()
        return tried

    def _planned(self, found: remora.Schedule, words: str, budget: int) -> Sliced | None:
        """The partitions of the graph in slices; None where gradients of the slices need the loss's own."""
        joint = self._joint(found)
        if joint is None:
            warn("a graph is not computed in slices: their gradients are in float16, or not linear in that of the loss")
            return None
        known = self._partitions(joint)
        self.options.say(f"looking at up to {max(region.slices for region in found.slices)} slices")
        search = looked(joint, known, budget, self.options, self._own)
        return Sliced(words, joint, known.best(budget), known.least(), search)

    def _known(self, words: str, budget: int) -> Sliced | None:
        """Slices that were looked at before, if they have a partition within a budget."""
        joint = self.of(words)
        known = self._partitions(joint)
        best = known.best(budget)
        return None if best is None else Sliced(words, joint, best, known.least(), None)

    def _partitions(self, joint: Joint) -> KnownPartitions:
        return known_partitions(key_of(joint, self.options), joint, self.options)
