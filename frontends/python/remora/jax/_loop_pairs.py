# SPDX-License-Identifier: Apache-2.0
"""Plans for modules with loops: a forward loop stacks what a backward loop reads, and less of it is saved.

What the forward loops save is chosen by one schedule of an iteration of each (`_engine.HloPair.graph`): the tensors in
memory at its boundary are saved, in stacks for all iterations, and the ops behind it are recomputed in the bodies of
the backward loops. How many bytes may be saved is one number of a search, as XLA tells what it makes of it. What is
outside of loops is planned as in any other module, and alone where that is enough.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from remora import _engine
from remora._arguments import Budget, budget_text
from remora.asking import ask, lowest
from remora.errors import InputError, NoSchedule
from remora.graph import Graph, Tensor, made_graph
from remora.jax._planning import CPU, DEAR, LIMITS, Loop, Plan, Search, read_module, temporaries_of
from remora.limits import Limits
from remora.onnx import Roofline

__all__ = ["plan", "plan_module"]

_ATTEMPTS = 12
_HALVINGS = 4
_MOST = 0.5
"""The body of a loop with so much of the temporaries is planned by itself."""

Measure = Callable[[bytes], int]


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
    module = read_module(content, device)
    before = module.temporaries
    allowed = _engine.parse_budget(budget_text(budget), 0, before)
    if before <= allowed:
        return None, Plan(made_graph(module.graph(), Graph).name, allowed, before, before, before)
    return plan(content, before, allowed, lambda written: temporaries_of(written, device), limits or LIMITS, device)


@dataclass(frozen=True)
class _Rewritten:
    """A module with smaller stacks.

    Attributes
    ----------
    saved : int
        Bytes that the stacks were allowed.
    told : int
        What its temporaries take by the rules that are known here, in bytes.
    overhead : float
        Of all its instructions, as a part of the duration without a plan.
    recomputes : int
        Instructions that are recomputed in each iteration, of all loops.
    """

    written: bytes
    saved: int
    told: int
    overhead: float
    recomputes: int


def plan(
    content: bytes, before: int, allowed: int, measure: Measure, limits: Limits, device: Roofline
) -> tuple[bytes | None, Plan]:
    """A plan for a module as `Search.run` gives one, with what loops stack chosen as well.

    Parameters
    ----------
    content : bytes
        A serialized ``HloModuleProto``, scheduled.
    before, allowed : int
        Bytes that its temporaries take as it is, and may take: less.
    measure : callable
        What the temporaries of a module take: asked of each plan that may meet the budget.
    limits : Limits
        Of each solve.
    device : Roofline
        What instructions take.
    """
    search = Search(content, limits, device)
    loops = _Loops(content, search, before, allowed, limits, device)
    if loops.stacked == 0:
        return _without_stacks(content, search, before, allowed, measure, before - search.module.temporaries)
    written: bytes | None = None
    outside: Plan | None = None
    search.begin(before, allowed, before, before - search.module.temporaries)
    if search.may_fit():
        written, outside = search.run(before, allowed, measure)
        if written is not None and outside.overhead <= DEAR:
            return written, outside
    inside, found = loops.run(measure)
    if found is not None and (written is None or (outside is not None and found.overhead < outside.overhead)):
        return inside, found
    if written is not None and outside is not None:
        return written, outside
    if loops.smallest is None:
        return _without_stacks(content, search, before, allowed, measure, before - search.module.temporaries)
    return loops.with_the_rest(measure)


def _without_stacks(
    content: bytes, search: Search, before: int, allowed: int, measure: Measure, beyond: int
) -> tuple[bytes | None, Plan]:
    """What is outside of loops is planned, or the body of the loop that takes most of the temporaries."""
    bodies = [one for one in search.module.bodies() if one[1] >= before * _MOST]
    if not bodies:
        return search.run(before, allowed, measure, beyond)
    written: bytes | None = None
    found: Plan | None = None
    search.begin(before, allowed, before, beyond)
    if search.may_fit():
        written, found = search.run(before, allowed, measure, beyond)
        if written is not None and found.overhead <= DEAR:
            return written, found
    # The innermost of those that have most of the memory.
    body, size, runs = bodies[-1]
    loop = Loop(body, search.module.temporaries - size, runs, search.donated, search.own / search.whole - 1)
    inner = Search(content, search.limits, search.device, search.whole, loop)
    inside, plan_inside = inner.run(before, allowed, measure, beyond)
    if found is not None and (inside is None or (written is not None and found.overhead <= plan_inside.overhead)):
        return written, found
    return inside, plan_inside


class _Loops:
    """The pairs of loops of a module, and what they save."""

    def __init__(
        self, content: bytes, search: Search, before: int, allowed: int, limits: Limits, device: Roofline
    ) -> None:
        self.content = content
        self.search = search
        self.before, self.allowed = before, allowed
        self.limits = limits
        self.device = device
        self.beyond = before - search.module.temporaries
        self.pairs = search.module.pairs()
        self.stacked = sum(pair.stacked for pair in self.pairs)
        self.graph, self.room = self._joined()
        self.smallest: _Rewritten | None = None
        self.least = before

    def run(self, measure: Measure) -> tuple[bytes | None, Plan | None]:
        """The module with as much saved as the budget allows, if that is enough."""
        lowest = self._lowest()
        saved = max(lowest, self.stacked - (self.before - self.allowed))
        above: int | None = None
        for _ in range(_ATTEMPTS):
            tried = self._tried(saved)
            if tried is None:
                return None, None
            if self.smallest is None or tried.told < self.smallest.told:
                self.smallest = tried
            excess = tried.told + self.beyond - self.allowed
            if excess <= 0:
                tried = self._more_saved(tried, above)
                taken = measure(tried.written)
                self.least = min(self.least, taken)
                if taken <= self.allowed:
                    return self._given(tried, taken)
                self.beyond = taken - tried.told
                excess = taken - self.allowed
                saved = tried.saved
            if saved <= lowest:
                return None, None
            above = saved
            saved = max(lowest, saved - max(excess, self.stacked // 100))
        return None, None

    def with_the_rest(self, measure: Measure) -> tuple[bytes | None, Plan]:
        """The module with the least saved, and what is outside of loops planned."""
        assert self.smallest is not None
        rest = Search(self.smallest.written, self.limits, self.device, self.search.whole)
        taken = measure(self.smallest.written)
        self.least = min(self.least, taken)
        if taken <= self.allowed:
            return self._given(self.smallest, taken)
        beyond = taken - self.smallest.told
        written, found = _without_stacks(self.smallest.written, rest, self.before, self.allowed, measure, beyond)
        found = replace(found, least=min(self.least, found.least), bound=0.0)
        return written, replace(found, recomputes=found.recomputes + self.smallest.recomputes) if written else found

    def _given(self, found: _Rewritten, taken: int) -> tuple[bytes | None, Plan]:
        name, donated = self.search.graph.name, self.search.donated
        if self.before - taken <= donated:
            note = "XLA forgets donations of a module that is given back: it would take more"
            return None, Plan(name, self.allowed, self.before, self.before, self.least, note=note)
        return found.written, Plan(
            name,
            self.allowed,
            self.before,
            taken,
            self.least,
            overhead=found.overhead,
            recomputes=found.recomputes,
            undonated=donated,
        )

    def _joined(self) -> tuple[Graph, int]:
        """One iteration of every pair, and the memory that the boundary takes by itself."""
        graph = Graph("loops", duration_unit="ns")
        self.tensors: list[tuple[str, int, Tensor]] = []
        needed: list[Tensor] = []
        room = 0
        for number, pair in enumerate(self.pairs):
            own = made_graph(pair.graph, Graph)
            made: dict[Tensor, Tensor] = {}
            for op in own.ops:
                if op.name == "boundary":
                    break
                outputs = [graph.tensor(f"{number}:{tensor.name}", tensor.size) for tensor in op.outputs]
                made.update(zip(op.outputs, outputs, strict=True))
                room += sum(tensor.size for tensor in outputs)
                self.tensors += [(own.name, len(made) - len(outputs) + k, one) for k, one in enumerate(outputs)]
                graph.op(
                    f"{number}:{op.name}",
                    duration=op.duration,
                    outputs=outputs,
                    inputs=[made[tensor] for tensor in op.inputs],
                    recompute=op.recompute,
                )
            needed += [made[tensor] for tensor in own.ops[-1].inputs if tensor in made]
        graph.op("boundary", duration=1, outputs={"boundary": 0}, workspace=room, recompute=False)
        graph.op("backward", duration=1, outputs={"gradients": 0}, inputs=needed, recompute=False)
        return graph, room

    def _lowest(self) -> int:
        found = lowest(self.graph, self.limits, order="input")
        return (self.graph.baseline_peak if found is None else found.peak) - self.room

    def _tried(self, saved: int) -> _Rewritten | None:
        """None where no choice saves so little, or a choice cannot be written."""
        schedule = ask(self.graph, self.room + saved, self.limits, order="input", max_computes=2)
        if isinstance(schedule, NoSchedule):
            return None
        places = [step.op for step in schedule.steps]
        names = [op.name for op in places]
        again = places[names.index("boundary") + 1 : -1]
        behind = {tensor for op in again for tensor in op.outputs}
        read = {tensor for op in [*again, self.graph.ops[-1]] for tensor in op.inputs} - behind
        written = self.content
        try:
            for pair in self.pairs:
                name = made_graph(pair.graph, Graph).name
                chosen = [place for own, place, tensor in self.tensors if own == name and tensor in read]
                current = next(one for one in read_module(written, self.device).pairs() if one.name == name)
                written = current.rewrite(chosen)
        except (InputError, StopIteration):
            return None
        module = read_module(written, self.device)
        duration = sum(op.duration for op in made_graph(module.graph(), Graph).ops)
        return _Rewritten(written, saved, module.temporaries, duration / self.search.whole - 1, len(again))

    def _more_saved(self, found: _Rewritten, above: int | None) -> _Rewritten:
        """What is recomputed less, and meets the budget as far as is known. `above`: too many bytes saved."""
        for _ in range(_HALVINGS if above is not None else 0):
            assert above is not None
            middle = (found.saved + above) // 2
            tried = self._tried(middle)
            if tried is not None and tried.told + self.beyond <= self.allowed:
                found = tried if tried.overhead <= found.overhead else replace(found, saved=middle)
            else:
                above = middle
        return found
