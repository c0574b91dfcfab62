# SPDX-License-Identifier: Apache-2.0
"""Plans for modules with loops: a forward loop stacks what a backward loop reads, and less of it is saved.

What the forward loops save is chosen by one schedule of an iteration of each (`_saving`): the tensors in memory at its
boundary are saved, in stacks for all iterations, and the ops behind it are recomputed in the bodies of the backward
loops. How many bytes may be saved is one number of a search, as XLA reports what it makes of it. Below the carries of
all iterations, those of some are saved, and the backward loops repeat iterations from there. What is outside of loops
is planned as in any other module, and alone where that is enough.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import remora
from remora import _engine
from remora._arguments import Budget, budget_bytes
from remora.asking import ask_again
from remora.errors import InputError
from remora.graph import Graph, Op, Tensor, core_of, made_graph
from remora.jax._planning import CPU, EXPENSIVE, LIMITS, Loop, Plan, Search, read_module, temporaries_of
from remora.jax._saving import Saving, Work
from remora.limits import Limits
from remora.onnx import Roofline

__all__ = ["plan", "plan_module"]

_ATTEMPTS = 12
_HALVINGS = 4
_HINT = "; remora.jax.checkpoint_loops, which changes the loops in the program itself, may need less"
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
        Maximum of its temporaries: bytes, or text: ``"2GiB"``, ``"60%"`` of their size without a plan.
    limits : Limits, optional
        Of each search; 16,000 units of work by default.
    device : Roofline
        Model of instruction times: the longer of their FLOPs and their bytes, and the overhead of a launch.

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
    allowed = budget_bytes(budget, 0, before)
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
    predicted : int
        Size of its temporaries by the modelled rules, in bytes.
    overhead : float
        Of all its instructions, as a part of the duration without a plan.
    recomputes : int
        Instructions that are recomputed in each iteration, of all loops.
    """

    written: bytes
    saved: int
    predicted: int
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
        Model of instruction times.
    """
    search = Search(content, limits, device)
    loops = _Loops(content, search, before, allowed, limits, device)
    if loops.stacked == 0:
        return _without_stacks(content, search, before, allowed, measure, before - search.module.temporaries)
    written: bytes | None = None
    outside: Plan | None = None
    search.begin(before, allowed, before - search.module.temporaries)
    if search.may_fit():
        written, outside = search.run(before, allowed, measure)
        if written is not None and outside.overhead <= EXPENSIVE:
            return written, outside
    if outside is not None:
        loops.least = min(loops.least, outside.least)
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
    """Plans what is outside of loops, or the body of the loop with most of the temporaries."""
    bodies = [one for one in search.module.bodies() if one[1] >= search.module.temporaries * _MOST]
    if not bodies:
        return search.run(before, allowed, measure, beyond)
    written: bytes | None = None
    found: Plan | None = None
    search.begin(before, allowed, beyond)
    if search.may_fit():
        written, found = search.run(before, allowed, measure, beyond)
        if written is not None and found.overhead <= EXPENSIVE:
            return written, found
    # The innermost of those that have most of the memory.
    body, size, runs = bodies[-1]
    loop = Loop(body, search.module.temporaries - size, runs, search.donated, search.own / search.whole - 1)
    inner = Search(content, search.limits, search.device, search.whole, loop)
    inner.enough, inner.hint = search.least, search.hint
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
        self.owners: list[tuple[str, int]] = []
        self.saving = self._saving()
        self.lowest = self.saving.least(limits)
        self.smallest: _Rewritten | None = None
        self.least = self.taken = before

    def run(self, measure: Measure) -> tuple[bytes | None, Plan | None]:
        """The module with as much saved as the budget allows, if that is enough."""
        above: int | None = None

        def decide(saved: int) -> tuple[_Rewritten, int] | None:
            tried = self._tried(saved) if saved >= self.lowest else None
            if tried is None:
                return None
            if tried.predicted + self.beyond > self.allowed:
                return tried, tried.predicted + self.beyond
            return self._measured(self._more_saved(tried, above), measure)

        def less(_: int, found: tuple[_Rewritten, int]) -> int | None:
            nonlocal above
            above, excess = found[0].saved, found[1] - self.allowed
            if excess <= 0:
                return None
            fewer = above - max(excess, self.stacked // 100)
            return fewer if above <= self.lowest else max(self.lowest, fewer)

        first = max(self.lowest, self.stacked - (self.before - self.allowed))
        fitting = ask_again(first, decide, less, _ATTEMPTS)
        return self._reordered(measure) if fitting is None else self._given(*fitting)

    def _measured(self, found: _Rewritten, measure: Measure) -> tuple[_Rewritten, int]:
        """Adds XLA's own figure for its temporaries; `beyond` is then known."""
        taken = measure(found.written)
        self.beyond = taken - found.predicted
        return found, taken

    def _reordered(self, measure: Measure) -> tuple[bytes | None, Plan | None]:
        """The backward bodies in the order with the lowest peak, and what is carried saved in some iterations alone.

        The same module is measured last for every budget, so that the minimum that a refusal names is enough.
        """
        made = {0: self._ordered(self._tried(self.lowest)), 2: self._ordered(self._sparse(2))}
        ends = [one for one in made.values() if one is not None]
        if not ends:
            return None, None
        self.smallest = min(ends, key=lambda one: one.predicted)

        def found(slots: int) -> _Rewritten | None:
            """With so many slots, or all that is carried for 0, if that meets the budget as far as is known."""
            if slots not in made:
                made[slots] = self._ordered(self._sparse(slots))
            one = made[slots]
            return one if one is not None and one.predicted + self.beyond <= self.allowed else None

        def decide(_: int) -> tuple[_Rewritten, int] | None:
            one = found(0) or found(self._most_slots(found))
            return None if one is None or one is self.smallest else self._measured(one, measure)

        def less(_: int, tried: tuple[_Rewritten, int]) -> int | None:
            return None if tried[1] <= self.allowed else self.beyond

        fitting = ask_again(self.beyond, decide, less, _ATTEMPTS)
        if fitting is not None:
            return self._given(*fitting)
        self.taken = measure(self.smallest.written)
        self.least = min(self.least, self.taken)
        return self._given(self.smallest, self.taken) if self.taken <= self.allowed else (None, None)

    def _most_slots(self, found: Callable[[int], _Rewritten | None]) -> int:
        """As many as meet the budget; 2, the fewest, if none do."""
        below, above = 2, max(pair.trips for pair in self.pairs) + 1
        while above - below > 1:
            middle = (below + above) // 2
            below, above = (middle, above) if found(middle) else (below, middle)
        return below

    def with_the_rest(self, measure: Measure) -> tuple[bytes | None, Plan]:
        """The smallest module that is known, and what is outside of loops planned, or inside of one body."""
        assert self.smallest is not None
        rest = Search(self.smallest.written, self.limits, self.device, self.search.whole)
        rest.enough, rest.hint = self.least, _HINT
        beyond = self.taken - self.smallest.predicted
        written, found = _without_stacks(self.smallest.written, rest, self.before, self.allowed, measure, beyond)
        recomputes = found.recomputes + self.smallest.recomputes if written else 0
        return written, replace(found, bound=None, recomputes=recomputes)

    def _given(self, found: _Rewritten, taken: int) -> tuple[bytes | None, Plan]:
        name, donated = self.search.graph.name, self.search.donated
        if self.before - taken <= donated:
            note = "XLA forgets donations of a module that is given back: it would take more"
            return None, Plan(name, self.allowed, self.before, self.before, self.before, note=note)
        return found.written, Plan(
            name,
            self.allowed,
            self.before,
            taken,
            min(self.least, taken),
            overhead=found.overhead,
            recomputes=found.recomputes,
            undonated=donated,
        )

    def _saving(self) -> Saving:
        """One iteration of every pair; sets `owners`: by value the pair and the place there."""
        ops: list[Work] = []
        sizes: dict[int, int] = {}
        needed: list[int] = []
        for pair in self.pairs:
            graph = made_graph(pair.graph, Graph)
            numbers: dict[Tensor, int] = {}
            for op in graph.ops[:-2]:
                for tensor in op.outputs:
                    self.owners.append((pair.name, len(numbers)))
                    numbers[tensor] = len(sizes)
                    sizes[numbers[tensor]] = tensor.size
                reads, makes = (tuple(numbers[tensor] for tensor in part) for part in (op.inputs, op.outputs))
                ops.append(Work(op.name, op.duration, reads, makes, op.recompute))
            needed += [numbers[tensor] for tensor in graph.ops[-1].inputs if tensor in numbers]
        return Saving(ops, sizes, needed)

    def _tried(self, saved: int) -> _Rewritten | None:
        """None where no choice saves so little, or a choice cannot be written."""
        found = self.saving.chosen(saved, self.limits)
        if found is None:
            return None

        def rewrite(pair: _engine.HloPair) -> bytes:
            chosen = (self.owners[value] for value in sorted(found.values))
            return pair.rewrite([place for name, place in chosen if name == pair.name])

        return self._rewritten(rewrite, saved, len(found.again))

    def _ops_in(self, content: bytes, body: str) -> Sequence[Op]:
        return made_graph(read_module(content, self.device, body).graph(), Graph).ops

    @cached_property
    def _body_ops(self) -> dict[str, Sequence[Op]]:
        """The ops of each backward loop's body as it is."""
        return {pair.body: self._ops_in(self.content, pair.body) for pair in self.pairs}

    def _sparse(self, slots: int) -> _Rewritten | None:
        """With what is carried saved in so many iterations of each loop, and repeated from there in the others."""
        found = self._rewritten(lambda pair: pair.rewrite([], min(slots, pair.trips)), 0, 0)
        if found is None:
            return None
        # The loop that repeats iterations counts as one run: how often it runs depends on data.
        runs = {body: times for body, _, times in self.search.module.bodies()}
        recomputes = duration = 0
        for pair in self.pairs:
            before, after = self._body_ops[pair.body], self._ops_in(found.written, pair.body)
            recomputes += len(after) - len(before)
            known = {op.name for op in before}
            once = sum(op.duration for op in after if op.type == "while" and op.name not in known)
            duration += once * (pair.repeated(min(slots, pair.trips)) - pair.trips) * runs[pair.body] // pair.trips
        return replace(found, recomputes=recomputes, overhead=found.overhead + duration / self.search.whole)

    def _ordered(self, found: _Rewritten | None) -> _Rewritten | None:
        """With the bodies of the backward loops in the order with the lowest peak, if that is lower."""
        if found is None:
            return None
        written = found.written
        for pair in self.pairs:
            module = read_module(written, self.device, pair.body)
            graph = made_graph(module.graph(), Graph)
            order = remora.order(graph, limits=self.limits)
            written = module.rewrite(core_of(graph), [op.index for op in order.ops])
        predicted = temporaries_of(written, self.device)
        return replace(found, written=written, predicted=predicted) if predicted < found.predicted else found

    def _rewritten(self, rewrite: Callable[[_engine.HloPair], bytes], saved: int, recomputes: int) -> _Rewritten | None:
        written = self.content
        try:
            for pair in self.pairs:
                written = rewrite(
                    next(one for one in read_module(written, self.device).pairs() if one.name == pair.name)
                )
        except (InputError, StopIteration):
            return None
        module = read_module(written, self.device)
        duration = sum(op.duration for op in made_graph(module.graph(), Graph).ops)
        return _Rewritten(written, saved, module.temporaries, duration / self.search.whole - 1, recomputes)

    def _more_saved(self, found: _Rewritten, above: int | None) -> _Rewritten:
        """A plan with less recomputation that meets the budget as far as is known. `above`: too many bytes saved."""
        for _ in range(_HALVINGS if above is not None else 0):
            assert above is not None
            middle = (found.saved + above) // 2
            tried = self._tried(middle)
            if tried is not None and tried.predicted + self.beyond <= self.allowed:
                found = tried if tried.overhead <= found.overhead else replace(found, saved=middle)
            else:
                above = middle
        return found
