# SPDX-License-Identifier: Apache-2.0
"""A plan for one module of XLA: its schedule under a budget of temporaries.

Remora counts temporaries and outputs together: an output's memory serves temporaries until it is written. What XLA
makes of a schedule is then assigned by its own rules (`_engine.HloModule.temporaries`), and where that is more than the
budget, for the packing or because an output is too small for what would have to lie in it, the next plan gets less.
"""

from __future__ import annotations

from dataclasses import dataclass

import remora
from remora import _engine
from remora._arguments import Budget, budget_text
from remora.errors import Infeasible, InputError, NoSchedule
from remora.graph import Graph, core_of, made_graph, op_at
from remora.limits import Limits
from remora.onnx import Roofline
from remora.schedule import Schedule

CPU = Roofline("a CPU core", 50e9, 10e9, 1e-6)
"""What durations are told by where nobody says otherwise: the proportions count, not the machine."""

LIMITS = Limits(work=2_000)
"""A second or so for a module of some hundred instructions, and the same plan every time."""

_ATTEMPTS = 8
_STEP = 100
_MARGIN = 50
"""A plan keeps a fiftieth below the budget: which of two equal buffers XLA packs first is not known here."""


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
        Bytes that they take by XLA's rules without the plan and with it, as Remora counts them.
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
    module = _read(content, "module", device)
    allowed = _engine.parse_budget(budget_text(budget), 0, module.temporaries)
    graph = made_graph(module.graph(), Graph)
    before = module.temporaries
    if before <= allowed:
        return None, Plan(graph.name, allowed, before, before, before)
    search = _Search(module, graph, allowed, limits or LIMITS, device)
    return search.run()


def _read(content: bytes, source: str, device: Roofline) -> _engine.HloModule:
    return _engine.HloModule.read(
        content, source, device.name, device.peak_flops, device.bandwidth, device.launch_overhead
    )


class _Search:
    """Plans until XLA's assignment holds the budget."""

    def __init__(self, module: _engine.HloModule, graph: Graph, allowed: int, limits: Limits, device: Roofline) -> None:
        self.module = module
        self.graph = graph
        self.allowed = allowed
        self.limits = limits
        self.device = device
        self.least = module.temporaries
        self.bound: float | None = None

    def run(self) -> tuple[bytes | None, Plan]:
        aim = self.allowed - self.allowed // _MARGIN
        target = self.allowed
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                schedule = self._schedule(target)
            except NoSchedule as error:
                self._try_least(error)
                return None, self._left(str(error))
            written, taken = self._written([step.op.index for step in schedule.steps])
            if taken <= aim:
                if self.module.temporaries - taken <= self.module.donated:
                    return None, self._left("XLA forgets donations of a module that is given back: it would take more")
                return written, self._planned(schedule, taken)
            target -= max(taken - aim, attempt * self.allowed // _STEP)
            if target <= 0:
                break
        return None, self._left("XLA's packing of the plans found takes more than the sums say")

    def _written(self, ops: list[int]) -> tuple[bytes, int]:
        """The module in that order, and what XLA takes for its temporaries."""
        written = self.module.rewrite(core_of(self.graph), ops)
        taken = _read(written, "the rewritten module", self.device).temporaries
        self.least = min(self.least, taken)
        return written, taken

    def _try_least(self, error: NoSchedule) -> None:
        """Where no schedule holds the budget: what the one takes that holds the least that is known."""
        if isinstance(error, Infeasible) and error.least_budget is not None:
            ops = [op.index for op in error.least_budget.ops]
            if ops and not self.module.stale_reads(core_of(self.graph), ops):
                self._written(ops)

    def _schedule(self, target: int) -> Schedule:
        """A schedule in which nothing is read that is destroyed: ops that would read so do not run again."""
        whole = self.graph.fixed_memory + self.module.outputs + target
        while True:
            schedule = remora.solve(self.graph, whole, order="input", limits=self.limits)
            if self.bound is None:
                self.bound = schedule.least_overhead
            stale = self.module.stale_reads(core_of(self.graph), [step.op.index for step in schedule.steps])
            if not stale:
                return schedule
            ops = [op_at(self.graph, number) for number in stale]
            if not any(op.recompute for op in ops):
                raise InputError(ops[0].name, "reads what is destroyed before, in every order")
            for op in ops:
                op.recompute = False

    def _planned(self, schedule: Schedule, taken: int) -> Plan:
        return Plan(
            self.graph.name,
            self.allowed,
            self.module.temporaries,
            taken,
            self.least,
            bound=self.bound or 0.0,
            overhead=schedule.overhead,
            recomputes=len(schedule.steps) - len({step.op.index for step in schedule.steps}),
            undonated=self.module.donated,
        )

    def _left(self, why: str) -> Plan:
        before = self.module.temporaries
        note = f"{_said(self.allowed)} of {_said(before)} are not held, the least that was found is {_said(self.least)}"
        return Plan(
            self.graph.name, self.allowed, before, before, self.least, bound=self.bound or 0.0, note=f"{note} ({why})"
        )
