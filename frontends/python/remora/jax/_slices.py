# SPDX-License-Identifier: Apache-2.0
"""A plan for one module of XLA with instructions in slices, where recomputation alone is too little or too expensive.

The engine chooses regions and numbers of slices on the module's graph with axes, as for every other front end. The
module in these slices is an ordinary one: XLA measures it, it is planned as any other where it recomputes as well, and
less is asked for where copies of rows and XLA's packing are above the budget.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from jax.errors import JaxRuntimeError

from remora import _engine
from remora.asking import ask, ask_again
from remora.errors import InputError, NoSchedule
from remora.graph import Graph, Op, made_graph
from remora.jax._loop_pairs import plan as plan_whole
from remora.jax._planning import EXPENSIVE, Plan, read_module
from remora.limits import Limits
from remora.onnx import Roofline
from remora.schedule import Schedule, schedule_core_of
from remora.slices import SliceCost

__all__ = ["plan"]

_ATTEMPTS = 6
_STEP = 64
"""At least such a part of the budget less is asked for each time."""
_NAMED = 2

Measure = Callable[[bytes], int]


def plan(
    content: bytes, before: int, allowed: int, measure: Measure, limits: Limits, device: Roofline
) -> tuple[bytes | None, Plan]:
    """A plan as `_loop_pairs.plan` gives one, with slices where they take less time or make it possible."""
    written, whole = plan_whole(content, before, allowed, measure, limits, device)
    if written is not None and whole.overhead <= EXPENSIVE:
        return written, whole
    slicing = _Slicing(content, before, allowed, measure, limits, device)
    sliced = slicing.run()
    if sliced is None:
        least = min(whole.least, slicing.least)
        return written, replace(whole, least=least, note=whole.note and whole.note + slicing.why())
    found, in_slices = sliced
    if written is not None and whole.overhead <= in_slices.overhead:
        return written, whole
    return found, replace(in_slices, least=min(in_slices.least, whole.least))


@dataclass(frozen=True)
class _Sliced:
    """A module in slices, what XLA's temporaries take in it, and its plan where it recomputes."""

    schedule: Schedule
    written: bytes
    taken: int
    planned: Plan | None = None


class _Slicing:
    """The slices of one module.

    Attributes
    ----------
    least : int
        Bytes of temporaries that XLA needs for the smallest module that was measured.
    """

    def __init__(
        self, content: bytes, before: int, allowed: int, measure: Measure, limits: Limits, device: Roofline
    ) -> None:
        self.module = read_module(content, device)
        self.graph = made_graph(self.module.sliceable_graph(), Graph)
        self.before, self.allowed, self.measure = before, allowed, measure
        self.limits, self.device = limits, device
        self.least = before
        self.room = self.graph.fixed_memory + sum(one.size for op in self.graph.ops for one in op.outputs if one.keep)
        self.duration = max(1, sum(op.duration for op in self.graph.ops))
        self.fault = ""

    def run(self) -> tuple[bytes, Plan] | None:
        """The module in slices with its plan; None where no slices meet the budget."""
        if not any(op.axes for op in self.graph.ops):
            return None
        found = ask_again(self.allowed, self._decided, self._less, _ATTEMPTS)
        if found is None or found.taken > self.allowed or self.before - found.taken <= self.module.donated:
            return None
        return found.written, self._plan_of(found)

    def _decided(self, asked: int) -> _Sliced | None:
        if asked <= 0:
            return None
        cost = SliceCost(*self.module.slice_run)
        schedule = ask(self.graph, self.room + asked, self.limits, order="input", slices="auto", slice_cost=cost)
        if isinstance(schedule, NoSchedule) or not schedule.slices:
            return None
        try:
            written = self.module.in_slices(schedule_core_of(schedule))
            taken = self.measure(written)
        except (InputError, JaxRuntimeError) as error:
            self.fault = str(error).splitlines()[0]
            return None
        self.least = min(self.least, taken)
        found = _Sliced(schedule, written, taken)
        recomputes = len(schedule.ops) > len(schedule.graph.ops)
        return self._with_recomputes(found) if taken > self.allowed and recomputes else found

    def _with_recomputes(self, found: _Sliced) -> _Sliced:
        written, planned = plan_whole(found.written, found.taken, self.allowed, self.measure, self.limits, self.device)
        self.least = min(self.least, planned.least)
        return found if written is None else replace(found, written=written, taken=planned.temporaries, planned=planned)

    def _less(self, asked: int, found: _Sliced) -> int | None:
        excess = found.taken - self.allowed
        return None if excess <= 0 else asked - max(excess, self.allowed // _STEP)

    def _plan_of(self, found: _Sliced) -> Plan:
        ops = made_graph(read_module(found.written, self.device).graph(), Graph).ops
        return Plan(
            self.graph.name,
            self.allowed,
            self.before,
            found.taken,
            min(self.least, found.taken),
            overhead=sum(op.duration for op in ops) / self.duration - 1,
            recomputes=found.planned.recomputes if found.planned else 0,
            undonated=self.module.donated,
            slices=max(region.slices for region in found.schedule.slices),
        )

    def why(self) -> str:
        """Why no slices meet the budget: what XLA or the writer said, or the largest instructions without slices."""
        if self.fault:
            return f"; slices of it are not compiled: {self.fault}"
        without = [op for op in self.graph.ops if not op.axes and _size(op) > self.allowed]
        largest = sorted(without, key=lambda op: (-_size(op), op.name))[:_NAMED]
        if not largest:
            return "; slices do not meet it either"
        named = " and ".join(f"{self._where(op)} ({op.type}, {_engine.bytes_text(_size(op))})" for op in largest)
        return f"; there are no slices of {named}"

    def _where(self, op: Op) -> str:
        place = self.module.source_line(op.index)
        return f"{op.name}, {place}" if place else op.name


def _size(op: Op) -> int:
    return sum(one.size for one in {*op.inputs, *op.outputs}) + op.workspace
