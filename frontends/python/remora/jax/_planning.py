# SPDX-License-Identifier: Apache-2.0
"""A plan for one module of XLA: its schedule under a budget of temporaries.

An output's memory serves temporaries until it is written, if it is large enough. How far it does is one number of a
search, its *slack*: at every moment

    temporaries <= budget + slack * outputs not yet written        slack from 1 to 0
    temporaries <= (1 + slack) * budget                            below 0, for XLA's packing

The size of XLA's temporaries for a schedule is predicted by the modelled rules (`_engine.HloModule.temporaries`), and
then measured, on the module as XLA compiles it. The largest slack comes first. If XLA needs more than the budget, the
next plan gets less and is searched from this one, and once one fits, a shorter one is searched from there, with more
slack.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate

import remora
from remora import _engine
from remora.asking import ask, ask_again, lowest, replayed
from remora.errors import InputError, NoSchedule
from remora.graph import Graph, Op, core_of, made_graph, op_at
from remora.limits import Limits
from remora.onnx import Roofline

CPU = Roofline("a CPU core", 50e9, 10e9, 1e-6)
"""Default for predicted durations: the proportions count, not the machine."""

LIMITS = Limits(work_limit=16_000)
"""A second or so for a module of some hundred instructions, and the same plan every time."""

_ATTEMPTS = 8
_NAMED = 2
"""So many arrays are named where a budget is not met."""
_STEP = 100
_SHORTENINGS = 4
_NEAR = 0.01
"""Overhead this near to its bound is good enough."""
_ROUNDING = 1e-9
"""Two sums of the same durations differ by less."""
_MOST = 0.5
"""A loop with so much of the temporaries is named where a budget is not met."""
_CALLING = ("call", "conditional", "while")
"""Instructions that take what others inside of them take."""
EXPENSIVE = 0.05
"""Another order is tried only if it could be better by this much overhead."""
_WORSE = 1.5
"""Another order is given up at so many times the overhead: with less slack, the search may find less still."""


@dataclass(frozen=True)
class Plan:
    """The plan for one module.

    Attributes
    ----------
    module : str
        Its name: ``jit_step`` for a function ``step``.
    budget : int
        Bytes that XLA's temporaries may take.
    before, temporaries : int
        Bytes that they need without the plan and with it: XLA's own figures under `budget` and `install`, and
        predictions by the modelled rules if `plan_module` is called alone.
    least : int
        The minimum that was found for them, in bytes. Where `note` says that the budget is not met, it is enough.
    bound : float or None
        No schedule of this module in its order within the budget has less overhead. None if no bound is known: nothing
        was planned, loops were, or XLA packs the schedule into less memory than the modelled rules do.
    overhead : float
        Extra duration as a part of the duration, by a roofline: a prediction, not a measurement. Below 0 if loops stack
        fewer values and no longer write and read them.
    recomputes : int
        Instructions that run once more.
    undonated : int
        Bytes of outputs that lay in donated arguments and do so no more: XLA forgets donations of a module that a pass
        gives back.
    note : str
        Why the module was left as it is; empty if it is planned, or fits within the budget as it is.
    slices : int
        The largest number of slices in which instructions are computed; 1 without.
    """

    module: str
    budget: int
    before: int
    temporaries: int
    least: int
    bound: float | None = None
    overhead: float = 0.0
    recomputes: int = 0
    undonated: int = 0
    note: str = ""
    slices: int = 1

    def __str__(self) -> str:
        if self.note:
            return f"{self.module}: left unchanged: {self.note}"
        if self.before == self.temporaries and not self.recomputes:
            return f"{self.module}: {_said(self.before)} of temporaries fit within {_said(self.budget)} as they are"
        donations = f"; {_said(self.undonated)} of donated memory is not reused" if self.undonated else ""
        bound = f" (at least {100 * self.bound:.2f} %)" if self.bound else ""
        overhead = f"{100 * self.overhead:.2f} % overhead{bound}"
        if self.overhead < 0:
            overhead = f"{-100 * self.overhead:.2f} % less time predicted, since loops stack fewer values"
        slices = f"in {self.slices} slices " if self.slices > 1 else ""
        return (
            f"{self.module}: {_said(self.before)} of temporaries become {_said(self.temporaries)} "
            f"(budget {_said(self.budget)}) {slices}with {self.recomputes} recomputes, {overhead}{donations}"
        )


def _ops_of(schedule: remora.Schedule | None) -> list[Op]:
    return list(schedule.ops) if schedule is not None else []


def _said(size: int) -> str:
    return _engine.bytes_text(size)


def temporaries_of(content: bytes, device: Roofline = CPU) -> int:
    """Size of the temporaries of a module by the modelled rules, in bytes."""
    return int(read_module(content, device).temporaries)


def read_module(content: bytes, device: Roofline, body: str = "") -> _engine.HloModule:
    """A module as the engine reads it; InputError for what is damaged or not known.

    `body`: the body of a loop whose instructions its graph has, in place of those outside of loops.
    """
    return _engine.HloModule.read(content, "module", device.machine, body)


@dataclass(frozen=True)
class Loop:
    """A loop whose body is planned.

    Attributes
    ----------
    body : str
        The computation.
    outside : int
        Bytes that the temporaries outside of the body take while it runs.
    runs : int
        How often the body runs.
    donated : int
        Bytes of the module's outputs that lie in donated arguments.
    overhead : float
        Duration that the module has gained already, as a part of its first duration.
    """

    body: str
    outside: int
    runs: int
    donated: int
    overhead: float = 0.0


@dataclass(frozen=True)
class _Tried:
    """A schedule, and the module of it.

    Attributes
    ----------
    sequence, ops : sequence of Op
        As it was searched, and with what else has to run again, because something is destroyed.
    overhead : float
        Of `ops`.
    taken : int
        Size of XLA's temporaries, in bytes; above the budget, it may be an estimate.
    """

    sequence: Sequence[Op]
    ops: Sequence[Op]
    overhead: float
    written: bytes
    taken: int


class Search:
    """Plans one module until its temporaries fit within the budget, and then for less overhead.

    Parameters
    ----------
    content : bytes
        A serialized ``HloModuleProto``, scheduled.
    limits : Limits
        Of each solve.
    device : Roofline
        Model of instruction times.
    whole : int, optional
        What overheads are a part of, in nanoseconds: the duration of the module by default.
    loop : Loop, optional
        Whose body is planned, in place of what is outside of loops.

    Attributes
    ----------
    enough : int or None
        Bytes of temporaries for which there is another plan.
    hint : str
        What a refusal suggests.
    """

    def __init__(
        self,
        content: bytes,
        limits: Limits,
        device: Roofline,
        whole: int | None = None,
        loop: Loop | None = None,
    ) -> None:
        self.loop = loop
        self.module = read_module(content, device, loop.body if loop else "")
        self.graph = made_graph(self.module.graph(), Graph)
        self.limits = limits
        self.device = device
        self.own = max(1, sum(op.duration for op in self.graph.ops))
        self.whole = whole or self.own
        self.donated = loop.donated if loop else self.module.donated
        self.sizes = {output: output.size for op in self.graph.ops for output in op.outputs if output.keep}
        self.recomputable = [op for op in self.graph.ops if op.recompute]
        self.before = self.allowed = self.least = self.beyond = 0
        self.enough: int | None = None
        self.bound = 0.0
        self.why = self.hint = ""
        self.lowest: Sequence[Op] = self.graph.ops

    def run(
        self, before: int, allowed: int, measure: Callable[[bytes], int], beyond: int | None = None
    ) -> tuple[bytes | None, Plan]:
        """A plan for the module, and the module to compile instead, or None if it stays as it is.

        XLA's order comes first. The order with the lowest peak is searched where it may be better: if no schedule in
        XLA's order fits within the budget, or if its bound is well below the overhead of the best one.

        Parameters
        ----------
        before, allowed : int
            Bytes that its temporaries take as it is, and may take: less.
        measure : callable
            Returns the size of a module's temporaries: called for each plan that may fit within the budget.
        beyond : int, optional
            Bytes that XLA uses beyond the modelled rules; derived from `before` by default.
        """
        self.begin(before, allowed, before - self.module.temporaries if beyond is None else beyond)
        chosen, found = self, self._in_order(measure)
        if found is None or found.overhead > EXPENSIVE:
            order = remora.order(self.graph, limits=self.limits)
            other = Search(self._rewritten(order.ops), self.limits, self.device, self.whole, self.loop)
            other.enough = self.least
            other.begin(before, allowed, 0)
            if found is None or found.overhead > other.bound + EXPENSIVE:
                again = other._in_order(measure, found)
                self.least = other.least
                if found is None or (again is not None and again.overhead < found.overhead):
                    chosen, found = other, again
        if before - self.least <= self.donated:
            self.least = before
        if found is None:
            return None, self._left(self.why)
        if before - found.taken <= self.donated:
            return None, chosen._left("XLA forgets donations of a module that is given back: it would take more")
        return found.written, Plan(
            self.graph.name,
            allowed,
            before,
            found.taken,
            min(self.least, found.taken),
            bound=None if self.loop or chosen.bound > found.overhead + _ROUNDING else chosen.bound,
            overhead=found.overhead,
            recomputes=len(found.ops) - len(self.graph.ops),
            undonated=self.donated,
        )

    def may_fit(self) -> bool:
        """True unless a bound says that every schedule exceeds the budget."""
        return self._bounds(1.0).status != "infeasible"

    def begin(self, before: int, allowed: int, beyond: int) -> None:
        """Sets the known sizes of the temporaries.

        `beyond`: bytes that XLA uses beyond the modelled rules, as far as known.
        """
        self.before, self.allowed, self.beyond = before, allowed, beyond
        self.least = before if self.enough is None else min(before, self.enough)
        self.bound = self._of_whole(self._bounds(1.0).overhead)

    def _in_order(self, measure: Callable[[bytes], int], other: _Tried | None = None) -> _Tried | None:
        """A plan in the order of the graph, if it may be shorter than the other; `why` tells why there is none."""
        above: float | None = None
        attempts, gives_up = 0, other is not None
        start: Sequence[Op] = ()
        self.why = "XLA packs the schedules that were found into more"

        def decide(slack: float) -> tuple[float, _Tried] | None:
            nonlocal gives_up, start
            if slack <= -1:
                return None
            found = self._sound(partial(self._solved, slack, start))
            start = found[0] if found else ()
            if found is None:
                self.why, gives_up = "no schedule within the budget was found", False
                return None
            if other is not None and self._overhead(found[1]) >= _WORSE * other.overhead:
                return None
            return slack, self._tried(*found, measure)

        def less(slack: float, found: tuple[float, _Tried]) -> float | None:
            nonlocal above, attempts
            excess = found[1].taken - self.allowed
            if excess <= 0:
                return None
            above, attempts = slack, attempts + 1
            if slack > 0:
                return max(0.0, slack - max(0.5, excess / max(1, self.module.outputs)))
            return slack - max(excess / self._room(), attempts / _STEP)

        fitting = ask_again(1.0, decide, less, _ATTEMPTS)
        if fitting is None:
            return None if gives_up else self._of_least(above, measure)
        slack, tried = fitting
        return tried if above is None else self._shortened(tried, slack, above, measure)

    def _of_least(self, above: float | None, measure: Callable[[bytes], int]) -> _Tried | None:
        """From the schedule with the lowest known peak, which XLA may pack better than is asked for, if it fits.

        The same schedules for every budget, so that the minimum that a refusal names is enough.
        """
        for slack in (0.0, 1.0):
            self._within(slack)
            for op in self.recomputable:
                op.recompute = True
            found = self._sound(lambda: _ops_of(lowest(self.graph, self.limits, order="input")))
            if found and slack == 0:
                self.lowest = found[1]
            tried = found and self._tried(*found, measure, always=True)
            if tried and tried.taken <= self.allowed:
                return self._shortened(tried, self._slack_of(tried), above, measure)
        return None

    def _slack_of(self, tried: _Tried) -> float | None:
        """The smallest slack that a schedule keeps to, nearly; None if it keeps to none."""

        def excess(slack: float) -> int:
            budget = self._within(slack)
            return replayed(self.graph, tried.sequence).peak - budget

        if excess(0.0) <= 0:
            return excess(0.0) / self._room()
        if excess(1.0) > 0:
            return None
        below, above = 0.0, 1.0
        while above - below > 1 / _STEP:
            middle = (below + above) / 2
            below, above = (below, middle) if excess(middle) <= 0 else (middle, above)
        return above

    def _shortened(
        self, found: _Tried, below: float | None, above: float | None, measure: Callable[[bytes], int]
    ) -> _Tried:
        """A schedule within the budget with less overhead, searched from one within the budget.

        `below`: a slack that it keeps to. `above`: the smallest slack at which XLA's packing was too large.
        """
        if below is None:
            return found
        for _ in range(_SHORTENINGS):
            slack = 1.0 if above is None else (below + above) / 2
            is_narrow = above is not None and above - below <= 1 / _STEP
            if is_narrow or found.overhead <= self.bound + _NEAR:
                break
            sequence = self._solved(slack, found.sequence)
            assert sequence is not None
            ops, stale = self._mended(sequence)
            if self._overhead(ops) >= found.overhead:
                break
            tried = None if stale else self._tried(sequence, ops, measure)
            if tried is None or tried.taken > self.allowed:
                above = slack
            else:
                found, below = tried, below if above is None else slack
        return found

    def _tried(
        self, sequence: Sequence[Op], ops: Sequence[Op], measure: Callable[[bytes], int], always: bool = False
    ) -> _Tried:
        """XLA is asked where the budget may be held, or `always`."""
        written = self._rewritten(ops)
        predicted = temporaries_of(written, self.device)
        taken = predicted + self.beyond
        if always or taken <= self.allowed:
            taken = measure(written)
            if always:
                self.least = min(self.least, taken)
            self.beyond = taken - predicted
        return _Tried(sequence, ops, self._overhead(ops), written, taken)

    def _overhead(self, ops: Sequence[Op]) -> float:
        return self._of_whole(sum(op.duration for op in ops) / self.own - 1)

    def _of_whole(self, overhead: float) -> float:
        """An overhead of what is planned here as one of the module as it was first."""
        if self.loop:
            return self.loop.overhead + overhead * self.own * self.loop.runs / self.whole
        return (1 + overhead) * self.own / self.whole - 1

    def _rewritten(self, ops: Sequence[Op]) -> bytes:
        return self.module.rewrite(core_of(self.graph), [op.index for op in ops])

    def _room(self) -> int:
        """Bytes of the budget that the instructions planned here may use."""
        return max(1, self.allowed - (self.loop.outside if self.loop else 0))

    def _within(self, slack: float) -> int:
        """Makes the graph that of the slack, and gives its budget."""
        for output, size in self.sizes.items():
            output.size = int(size * max(0.0, slack))
        outputs = sum(output.size for output in self.sizes)
        return self.graph.fixed_memory + outputs + int(self._room() * (1 + min(0.0, slack)))

    def _bounds(self, slack: float) -> remora.Bounds:
        """Whatever the number of computes, of which a solve takes as many as it needs."""
        return remora.bounds(self.graph, self._within(slack), order="input")

    def _solved(self, slack: float, start: Sequence[Op] = ()) -> Sequence[Op] | None:
        """None where no schedule is found. `start`: one that keeps to the slack."""
        if self._bounds(slack).status == "infeasible":
            return None
        schedule = ask(self.graph, self._within(slack), self.limits, order="input", start=start)
        if isinstance(schedule, NoSchedule):
            return None
        if slack == 1 and schedule.status == "optimal":
            self.bound = max(self.bound, self._of_whole(schedule.overhead))
        return _ops_of(schedule)

    def _sound(self, find: Callable[[], Sequence[Op] | None]) -> tuple[Sequence[Op], Sequence[Op]] | None:
        """A sequence that is found, and its ops, by which nothing is read that is destroyed.

        Who would read so does not run again.
        """
        while True:
            sequence = find()
            if not sequence:
                return None
            ops, stale = self._mended(sequence)
            if not stale:
                return sequence, ops
            if not any(op.recompute for op in stale):
                raise InputError(stale[0].name, "reads what is destroyed before, in every order")
            for op in stale:
                op.recompute = False

    def _mended(self, ops: Sequence[Op]) -> tuple[list[Op], list[Op]]:
        """The ops, with what else has to run again for them, and those that still read what is destroyed."""
        core = core_of(self.graph)
        numbers = self.module.mended(core, [op.index for op in ops])
        stale = self.module.stale_reads(core, numbers)
        return [op_at(self.graph, number) for number in numbers], [op_at(self.graph, number) for number in stale]

    def _loop_said(self) -> str:
        """Suggestions if a loop has most of the temporaries and nothing inside of it can be recomputed."""
        name, place, size, inside, is_checkpointed = self.module.largest_loop()
        if self.hint or size < _MOST * self.before or self.module.pairs():
            return ""
        share = min(100, round(100 * size / self.before))
        where = f"{name}, {place}" if place else name
        belongs = f"; {share} % of the temporaries belong to one loop ({where}), "
        if is_checkpointed:
            # What checkpoint_loops saves less of are carries.
            advice = "divide its work into smaller iterations"
            if 2 * inside <= size:
                advice = "use remora.jax.checkpoint_loops"
            return f"{belongs}whose body jax.checkpoint recomputes already: {advice}"
        return (
            f"{belongs}inside of which nothing is recomputed: "
            "use remora.jax.checkpoint_loops, give its body jax.checkpoint, or unroll it"
        )

    def _op_said(self) -> str:
        """The instruction that exceeds the budget by itself, if there is one."""
        found = ask(self.graph, self._within(1.0), self.limits, order="input")
        refusal = found.refusal if isinstance(found, NoSchedule) and found.refusal.reason == "op" else None
        if refusal is None or refusal.op is None or refusal.op.type in _CALLING:
            return ""
        # What lies in the memory of something else counts once.
        size = refusal.needed - self.graph.fixed_memory
        return (
            f"; one instruction ({self._where(refusal.op)}) takes {_said(size)} at once with what it reads and writes, "
            'which no recomputation changes: compute it in slices, with slices="auto" or by jax.lax.map of a '
            "jax.checkpoint over parts of its rows, or in smaller batches"
        )

    def _arrays_said(self) -> str:
        """The largest arrays when those of the schedule with the lowest known peak are largest together.

        Each counts, also where one may lie in the memory of another: XLA may place them apart.
        """
        self._within(0.0)
        schedule = replayed(self.graph, self.lowest)
        changes = [0] * (len(schedule) + 1)
        for stay in schedule.residences:
            changes[stay.first_step] += stay.tensor.size
            changes[stay.last_step + 1] -= stay.tensor.size
        sizes = list(accumulate(changes))
        at = max(range(len(schedule)), key=sizes.__getitem__)
        there = {stay.tensor for stay in schedule.residences if stay.first_step <= at <= stay.last_step}
        makers = {tensor: op for op in self.graph.ops for tensor in op.outputs}
        largest = sorted(there, key=lambda tensor: (-tensor.size, tensor.name))[:_NAMED]
        named = [f"{self._where(makers[one])} ({_said(one.size)})" for one in largest if one.size >= sizes[at] // 10]
        return f"; the largest arrays at its peak are those of {' and '.join(named)}" if named else ""

    def _where(self, op: Op) -> str:
        """The name of an instruction, with the line of the program that it comes from if that is known."""
        place = self.module.source_line(op.index)
        return f"{op.name}, {place}" if place else op.name

    def _left(self, why: str) -> Plan:
        said = self._loop_said() or self._op_said() or self._arrays_said()
        note = (
            f"{_said(self.allowed)} of {_said(self.before)} is not met; the minimum found is "
            f"{_said(self.least)} ({why}){said}{self.hint}"
        )
        return Plan(self.graph.name, self.allowed, self.before, self.before, self.least, note=note)
