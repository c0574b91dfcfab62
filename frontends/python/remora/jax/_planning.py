# SPDX-License-Identifier: Apache-2.0
"""A plan for one module of XLA: its schedule under a budget of temporaries.

Remora counts temporaries and outputs together: an output's memory serves temporaries until it is written. What XLA
makes of a schedule is told by its own rules (`_engine.HloModule.temporaries`), and then measured, on the module as XLA
compiles it. Where that is more than the budget, for the packing or because an output is too small for what would have
to lie in it, the next plan gets less.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import remora
from remora import _engine
from remora._arguments import Budget, budget_text
from remora.errors import InputError, NoSchedule
from remora.graph import Graph, Op, core_of, made_graph, op_at
from remora.limits import Limits
from remora.onnx import Roofline

CPU = Roofline("a CPU core", 50e9, 10e9, 1e-6)
"""What durations are told by where nobody says otherwise: the proportions count, not the machine."""

LIMITS = Limits(work=2_000)
"""A second or so for a module of some hundred instructions, and the same plan every time."""

_ATTEMPTS = 8
_STEP = 100


@dataclass(frozen=True)
class Plan:
    """What was made of one module.

    Attributes
    ----------
    module : str
        Its name: ``jit_step`` for a function ``step``.
    budget : int
        Bytes that XLA's temporaries may take.
    before, temporaries : int
        Bytes that they take without the plan and with it: XLA's own figures under `budget` and `install`, and what
        Remora knows of XLA's rules where `plan_module` is called alone.
    least : int
        The least that was found for them, in bytes.
    bound : float
        No schedule of this module in its order within the budget has less overhead; 0 where nothing was planned.
    overhead : float
        Extra duration as a part of the duration, by a roofline: a prediction, not a measurement.
    recomputes : int
        Instructions that run once more.
    undonated : int
        Bytes of outputs that lay in donated arguments and do so no more: XLA forgets donations of a module that a pass
        gives back.
    note : str
        Why the module was left as it is; empty if it is planned, or holds the budget as it is.
    """

    module: str
    budget: int
    before: int
    temporaries: int
    least: int
    bound: float = 0.0
    overhead: float = 0.0
    recomputes: int = 0
    undonated: int = 0
    note: str = ""

    def __str__(self) -> str:
        if self.note:
            return f"{self.module}: left as it is: {self.note}"
        if self.before == self.temporaries and not self.recomputes:
            return f"{self.module}: {_said(self.before)} of temporaries hold {_said(self.budget)} as they are"
        donations = f"; {_said(self.undonated)} of donated memory is not reused" if self.undonated else ""
        return (
            f"{self.module}: {_said(self.before)} of temporaries become {_said(self.temporaries)} "
            f"(budget {_said(self.budget)}) with {self.recomputes} recomputes, {100 * self.overhead:.2f} % overhead "
            f"(at least {100 * self.bound:.2f} %){donations}"
        )


def _said(size: int) -> str:
    return _engine.bytes_text(size)


def plan_module(
    content: bytes, budget: Budget, *, limits: Limits | None = None, device: Roofline = CPU
) -> tuple[bytes | None, Plan]:
    """Plans one module.

    Parameters
    ----------
    content : bytes
        A serialized ``HloModuleProto``, scheduled, as XLA hands it to passes.
    budget : int or str
        What its temporaries may take: bytes, or text: ``"2GiB"``, ``"60%"`` of what they take without a plan.
    limits : Limits, optional
        Of each search; 2,000 units of work by default.
    device : Roofline
        What instructions take: the longer of their FLOPs and their bytes, and the overhead of a launch.

    Returns
    -------
    tuple of bytes or None, and Plan
        The module to compile instead, or None if it stays as it is.

    Raises
    ------
    InputError
        For bytes that are no module, one with instructions that are not known, and a budget that means nothing.
    """
    search = Search(content, limits or LIMITS, device)
    before = search.module.temporaries
    allowed = _engine.parse_budget(budget_text(budget), 0, before)
    if before <= allowed:
        return None, Plan(search.graph.name, allowed, before, before, before)
    return search.run(before, allowed, lambda written: temporaries_of(written, device))


def temporaries_of(content: bytes, device: Roofline = CPU) -> int:
    """What XLA takes for the temporaries of a module by the rules that are known here, in bytes."""
    return int(_read(content, "the module", device).temporaries)


def _read(content: bytes, source: str, device: Roofline) -> _engine.HloModule:
    return _engine.HloModule.read(
        content, source, device.name, device.peak_flops, device.bandwidth, device.launch_overhead
    )


class Search:
    """Plans one module until its temporaries hold the budget.

    Parameters
    ----------
    content : bytes
        A serialized ``HloModuleProto``, scheduled.
    limits : Limits
        Of each solve.
    device : Roofline
        What instructions take.
    """

    def __init__(self, content: bytes, limits: Limits, device: Roofline) -> None:
        self.module = _read(content, "module", device)
        self.graph = made_graph(self.module.graph(), Graph)
        self.limits = limits
        self.device = device
        self.before = self.allowed = self.least = 0
        self.bound: float | None = None
        self.is_ordered = False
        """Whether XLA's order was given up already."""

    def run(self, before: int, allowed: int, measure: Callable[[bytes], int]) -> tuple[bytes | None, Plan]:
        """A plan for the module, and the module to compile instead, or None if it stays as it is.

        XLA's order is kept where a schedule in it holds the budget; else the order with the least peak is tried.

        Parameters
        ----------
        before, allowed : int
            Bytes that its temporaries take as it is, and may take: less.
        measure : callable
            What the temporaries of a module take: asked of each plan that may hold the budget. The module that is
            returned is the last that it was asked of.
        """
        self.before, self.allowed, self.least = before, allowed, min(before, self.least or before)
        written, plan = self._in_order(measure)
        if written is not None or self.is_ordered:
            return written, plan
        order = remora.order(self.graph, limits=self.limits)
        other = Search(self._rewritten(order.ops), self.limits, self.device)
        other.is_ordered, other.least = True, self.least
        return other.run(before, allowed, measure)

    def _in_order(self, measure: Callable[[bytes], int]) -> tuple[bytes | None, Plan]:
        # What XLA takes beyond what is known of its rules; at first, what it takes so of the module as it is.
        beyond = 0 if self.is_ordered else self.before - self.module.temporaries
        target = self.allowed
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                ops = self._sequence(target)
            except NoSchedule as error:
                return self._least(error, measure)
            written = self._rewritten(ops)
            told = temporaries_of(written, self.device)
            taken = told + beyond
            if taken <= self.allowed:
                taken = measure(written)
                self.least = min(self.least, taken)
                beyond = taken - told
            if taken <= self.allowed:
                return self._chosen(written, ops, taken)
            target -= max(taken - self.allowed, attempt * self.allowed // _STEP)
            if target <= 0:
                break
        return None, self._left("XLA's packing of the plans found takes more than the sums say")

    def _rewritten(self, ops: Sequence[Op]) -> bytes:
        return self.module.rewrite(core_of(self.graph), [op.index for op in ops])

    def _chosen(self, written: bytes, ops: Sequence[Op], taken: int) -> tuple[bytes | None, Plan]:
        if self.before - taken <= self.module.donated:
            return None, self._left("XLA forgets donations of a module that is given back: it would take more")
        return written, Plan(
            self.graph.name,
            self.allowed,
            self.before,
            taken,
            self.least,
            bound=self.bound or 0.0,
            overhead=sum(op.duration for op in ops) / max(1, sum(op.duration for op in self.graph.ops)) - 1,
            recomputes=len(ops) - len(self.graph.ops),
            undonated=self.module.donated,
        )

    def _least(self, error: NoSchedule, measure: Callable[[bytes], int]) -> tuple[bytes | None, Plan]:
        """Where no schedule holds what is asked for: the one with the least known peak, which XLA may pack better."""
        if self.bound is None:
            self.bound = remora.bounds(self.graph, self._whole(self.allowed), order="input").overhead
        ops, stale = self._mended(remora.least_budget(self.graph, order="input", limits=self.limits).ops)
        if ops and not stale:
            written = self._rewritten(ops)
            taken = measure(written)
            self.least = min(self.least, taken)
            if taken <= self.allowed:
                return self._chosen(written, ops, taken)
        return None, self._left(str(error))

    def _sequence(self, target: int) -> list[Op]:
        """The ops of a schedule, by which nothing is read that is destroyed: who would read so does not run again."""
        while True:
            schedule = remora.solve(self.graph, self._whole(target), order="input", limits=self.limits)
            if self.bound is None:
                self.bound = schedule.least_overhead
            ops, stale = self._mended([step.op for step in schedule.steps])
            if not stale:
                return ops
            if not any(op.recompute for op in stale):
                raise InputError(stale[0].name, "reads what is destroyed before, in every order")
            for op in stale:
                op.recompute = False

    def _whole(self, temporaries: int) -> int:
        return self.graph.fixed_memory + self.module.outputs + temporaries

    def _mended(self, ops: Sequence[Op]) -> tuple[list[Op], list[Op]]:
        """The ops, with what else has to run again for them, and those that still read what is destroyed."""
        core = core_of(self.graph)
        numbers = self.module.mended(core, [op.index for op in ops])
        stale = self.module.stale_reads(core, numbers)
        return [op_at(self.graph, number) for number in numbers], [op_at(self.graph, number) for number in stale]

    def _left(self, why: str) -> Plan:
        note = (
            f"{_said(self.allowed)} of {_said(self.before)} are not held, the least that was found is "
            f"{_said(self.least)} ({why})"
        )
        return Plan(
            self.graph.name, self.allowed, self.before, self.before, self.least, bound=self.bound or 0.0, note=note
        )
