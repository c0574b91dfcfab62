# SPDX-License-Identifier: Apache-2.0
"""Chooses values to save between a forward and a backward pass, so that recomputation is minimal.

    ops of the forward pass  ->  boundary  ->  backward, which reads what the backward pass needs

An op runs again behind the boundary unless its output is in memory there. The boundary alone needs so much memory that
the budget binds nowhere else, so the schedule with the smallest extra time is the best choice.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from remora.asking import ask, lowest
from remora.errors import NoSchedule
from remora.graph import Graph, Tensor
from remora.limits import Limits


@dataclass(frozen=True)
class Work:
    """An op of the forward pass: what it reads and makes, its duration (ns), and whether it can run a second time."""

    name: str
    duration: int
    reads: tuple[int, ...]
    makes: tuple[int, ...]
    recompute: bool = True


@dataclass(frozen=True)
class Saved:
    """The values that are saved, and the ops that run a second time, by their places."""

    values: set[int]
    again: list[int]


class Saving:
    """Values to choose from.

    Parameters
    ----------
    ops : sequence of Work
        In an order in which they can run. What no op makes is available to the backward pass.
    sizes : mapping
        Bytes of each value that is made, while it is saved. What is larger than all that may be saved is never saved.
    needed : collection of int
        Values that the backward pass reads.
    """

    def __init__(self, ops: Sequence[Work], sizes: Mapping[int, int], needed: Collection[int]) -> None:
        self.ops = ops
        self.room = sum(sizes[value] for op in ops for value in op.makes)
        self.graph = Graph("saved", duration_unit="ns")
        self.producers: dict[int, int] = {}
        tensors: dict[int, Tensor] = {}
        for place, op in enumerate(ops):
            outputs = [self.graph.tensor(f"v{value}", sizes[value]) for value in op.makes]
            inputs = [tensors[value] for value in dict.fromkeys(op.reads) if value in tensors]
            tensors.update(zip(op.makes, outputs, strict=True))
            self.producers.update((value, place) for value in op.makes)
            name, again = f"{place}:{op.name}", op.recompute
            self.graph.op(name, duration=op.duration, outputs=outputs, inputs=inputs, recompute=again)
        self.graph.op("boundary", duration=1, outputs={"boundary": 0}, workspace=self.room, recompute=False)
        self.needed = [value for value in dict.fromkeys(needed) if value in tensors]
        later = [tensors[value] for value in self.needed]
        self.graph.op("backward", duration=1, outputs={"backward": 0}, inputs=later, recompute=False)

    def least(self, limits: Limits) -> int:
        """Bytes that are enough for some choice: the smallest number that was found."""
        found = lowest(self.graph, limits, order="input")
        return (self.graph.baseline_peak if found is None else found.peak) - self.room

    def chosen(self, allowed: int, limits: Limits) -> Saved | None:
        """The best choice of at most so many bytes; None if none was found."""
        schedule = ask(self.graph, self.room + allowed, limits, order="input", max_computes=2)
        if isinstance(schedule, NoSchedule):
            return None
        places = [step.op.index for step in schedule.steps]
        count = len(self.ops)
        again = [place for place in places[places.index(count) + 1 :] if place < count]
        read = {*self.needed, *(value for place in again for value in self.ops[place].reads)}
        made = {value for value in read if value in self.producers}
        return Saved({value for value in made if self.producers[value] not in again}, again)
