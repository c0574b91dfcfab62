# SPDX-License-Identifier: Apache-2.0
"""Training steps whose loops save less between the forward and the backward pass, within a budget of temporaries.

What the loops save gets a part of the budget: first all that the other temporaries leave. XLA's own figure for the step
then says whether that part has to be smaller, or may be larger.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from remora import _engine
from remora._arguments import Budget, budget_bytes
from remora.asking import ask_again
from remora.errors import InputError, warn_user
from remora.jax._jaxpr import duration
from remora.jax._loops import Choice, Loops, Pair, find_loops
from remora.jax._planning import CPU, LIMITS, Plan
from remora.jax._saving import Saving, Work
from remora.limits import Limits
from remora.onnx import Roofline

__all__ = ["Checkpointed", "checkpoint_loops"]

_LOG = logging.getLogger("remora.jax")
_ATTEMPTS = 8


@dataclass(frozen=True)
class Checkpointed:
    """A function with the same arguments and results as the one it was made from, and what was planned for it.

    Attributes
    ----------
    plan : Plan
        The budget, and what XLA's temporaries take without the plan and with it.
    """

    plan: Plan
    _run: Callable[..., Any]

    def __call__(self, *args: Any) -> Any:
        return self._run(*args)


def checkpoint_loops(
    function: Callable[..., Any],
    *args: Any,
    budget: Budget,
    exact: bool = False,
    jit: Callable[..., Any] = jax.jit,
    limits: Limits | None = None,
    device: Roofline = CPU,
) -> Checkpointed:
    """The training step with less saved in its loops (`jax.lax.scan`, Flax's ``nn.scan``), so that it meets the budget.

    A loop over layers stacks residuals for its backward loop. For each of them the engine chooses whether it is saved
    or recomputed in the backward loop's body; where not even the carries of all iterations fit, only every k-th is
    saved. The step is compiled for each choice that may meet the budget: XLA's own figure decides.

    Parameters
    ----------
    function : callable
        A whole step, gradients included. It runs as traced here, so values that it closes over are constants.
    *args
        Its arguments, or `jax.ShapeDtypeStruct` in place of arrays.
    budget : int or str
        Bytes of XLA's temporaries, ``temp_size_in_bytes`` of ``compiled.memory_analysis()``, or text: ``"2GiB"``,
        ``"60%"`` of the temporaries of the function itself.
    exact : bool
        True to accept only choices with which the results for these arguments, arrays then, are bitwise equal to those
        of the function. It runs once as it is, and once with each choice that is within the budget. Otherwise, results
        may differ in the last bits, as with `jax.checkpoint`: XLA may round differently what it compiles into another
        kernel. The choice keeps them equal where that can be foreseen.
    jit : callable
        How the step will be compiled, if not by `jax.jit` alone: ``functools.partial(jax.jit, donate_argnums=0)``.
    limits : Limits, optional
        Of each search; 16,000 units of work by default.
    device : Roofline
        The device on which equations run.

    Returns
    -------
    Checkpointed
        A function of the same arguments, to be compiled by `jit`.

    Warns
    -----
    RuntimeWarning
        If the budget is not met. The function is left as it is, and the warning gives the minimum that was found.

    Raises
    ------
    InputError
        For a budget that means nothing. The returned function raises it for arguments of other shapes.

    Examples
    --------
    ::

        step = remora.jax.checkpoint_loops(step, parameters, batch, budget="40%")
        print(step.plan)
        step = jax.jit(step)
    """
    budget_bytes(budget, 0, 1 << 40)
    search = _Search(function, args, jit, exact, limits or LIMITS, device)
    allowed = budget_bytes(budget, 0, search.before)
    plan, run = search.run(allowed)
    _LOG.info("%s", plan)
    if plan.note:
        warn_user(f"remora.jax: {plan}", RuntimeWarning)
    return Checkpointed(plan, run)


class _Search:
    """Choices for the loops of one function, each measured once."""

    def __init__(
        self,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        jit: Callable[..., Any],
        exact: bool,
        limits: Limits,
        device: Roofline,
    ) -> None:
        self.function, self.args, self.jit, self.exact = function, args, jit, exact
        self.limits, self.device = limits, device
        jaxpr, shapes = jax.make_jaxpr(function, return_shape=True)(*args)
        self.loops = find_loops(jaxpr)
        self.pairs = list(self.loops.all_pairs())
        self.results = jax.tree.structure(shapes)
        self.duration = max(1, sum(duration(one.eqn, device) for one in self.loops.program.equations))
        self.known: dict[tuple[Choice, ...], int] = {}
        self.equal: dict[tuple[Choice, ...], bool] = {}
        self.expected: list[bytes] = []
        program = self._compiled(function)
        self.before = _temporaries(program)
        if exact:
            self.expected = self._bits(program)

    def run(self, allowed: int) -> tuple[Plan, Callable[..., Any]]:
        """A plan within so many bytes, and the function with it; the function itself where there is none."""
        name = getattr(self.function, "__name__", "function")
        if self.before <= allowed:
            return Plan(name, allowed, self.before, self.before, self.before), self.function
        found = self._within(allowed) if self.pairs else None
        if found is None:
            least = self._minimum() if self.pairs else self.before
            why = (
                f"{100 * least / self.before:.0f} % remain"
                if self.pairs
                else "it has no scan whose residuals a later scan reads: remora.jax.budget plans what is not in loops"
            )
            said = [_engine.bytes_text(size) for size in (allowed, self.before, least)]
            note = f"{said[0]} of {said[1]} is not met; the minimum found is {said[2]} ({why})"
            return Plan(name, allowed, self.before, self.before, least, note=note), self.function
        recomputed = [pair.recomputed(choice) for pair, choice in zip(self.pairs, found, strict=True)]
        plan = Plan(
            name,
            allowed,
            self.before,
            self.known[found],
            min(taken for choices, taken in self.known.items() if self.equal[choices]),
            overhead=self._extra(found) / self.duration,
            recomputes=sum(one.total() for one in recomputed),
        )
        return plan, self._rewritten(found)

    def _within(self, allowed: int) -> tuple[Choice, ...] | None:
        """The choices with the smallest recomputation among those measured that are within so many bytes."""
        stacked = sum(pair.stacked for pair in self.pairs)
        below: int | None = None
        above = stacked
        best: tuple[Choice, ...] | None = None
        seen: set[tuple[Choice, ...]] = set()

        def following(room: int, choices: tuple[Choice, ...]) -> int | None:
            nonlocal below, above, best
            is_new = choices not in seen
            seen.add(choices)
            taken = self._measured(choices)
            if taken <= allowed and self.equal[choices]:
                if best is None or self._extra(choices) < self._extra(best):
                    best = choices
                below, room_then = room, room + allowed - taken
            else:
                above, room_then = room, room - max(1, taken - allowed, sum(self._sizes(choices)) // _ATTEMPTS)
            if below is not None and not below < room_then < above:
                room_then = (below + above) // 2
            return None if not is_new and (below is None or room_then in (below, room)) else room_then

        def decide(room: int) -> tuple[Choice, ...]:
            return choose(self.pairs, room, self.limits, self.device)

        ask_again(allowed - (self.before - stacked), decide, following, _ATTEMPTS)
        return best or self._carries_within(allowed)

    def _carries_within(self, allowed: int) -> tuple[Choice, ...] | None:
        """The choices that save carries alone, in as many iterations as fit."""
        best: tuple[Choice, ...] | None = None
        low, high = 0, max(1, sum(pair.length * pair.carry_bytes for pair in self.pairs))
        room = low
        while room < high:
            choices = carries(self.pairs, room)
            if self._measured(choices) <= allowed and self.equal[choices]:
                best, low = choices, room
            elif best is None:
                break
            else:
                high = room
            room = (low + high + 1) // 2
        return best

    def _minimum(self) -> int:
        """The smallest figure that was measured, if a search with it as the budget finds it again."""
        smallest = min((taken for choices, taken in self.known.items() if self.equal[choices]), default=self.before)
        # Every search without a better choice ends with the one that saves the least.
        last = carries(self.pairs, 0)
        enough = min(self.before, self.known[last] if self.equal[last] else self.before)
        return smallest if smallest < enough and self._within(smallest) else enough

    def _sizes(self, choices: Sequence[Choice]) -> list[int]:
        return [pair.size(choice) for pair, choice in zip(self.pairs, choices, strict=True)]

    def _extra(self, choices: Sequence[Choice]) -> int:
        """Nanoseconds of recompute on the roofline."""
        return sum(
            times * duration(pair.body.equations[place].eqn, self.device)
            for pair, choice in zip(self.pairs, choices, strict=True)
            for place, times in pair.recomputed(choice).items()
        )

    def _measured(self, choices: tuple[Choice, ...]) -> int:
        """Bytes of XLA's temporaries."""
        if choices not in self.known:
            program = self._compiled(self._rewritten(choices))
            self.known[choices] = _temporaries(program)
            self.equal[choices] = not self.exact or self._bits(program) == self.expected
        return self.known[choices]

    def _compiled(self, function: Callable[..., Any]) -> Any:
        return self.jit(lambda *args: function(*args)).lower(*self.args).compile()

    def _bits(self, program: Any) -> list[bytes]:
        # Copies, which the program may take over if it is compiled to.
        results = program(*jax.tree.map(jnp.copy, self.args))
        keys = jax.dtypes.prng_key
        leaves = (
            jax.random.key_data(leaf) if jax.dtypes.issubdtype(leaf.dtype, keys) else leaf
            for leaf in jax.tree.leaves(results)
        )
        return [np.asarray(leaf).tobytes() for leaf in leaves]

    def _rewritten(self, choices: Sequence[Choice]) -> Callable[..., Any]:
        by_pair = {id(pair): choice for pair, choice in zip(self.pairs, choices, strict=True)}
        return _rewritten(self.loops, by_pair, jax.tree.structure(self.args), self.results)


def _temporaries(program: Any) -> int:
    try:
        return int(program.memory_analysis().temp_size_in_bytes)
    except (AttributeError, RuntimeError) as error:
        raise InputError("temporaries", f"XLA does not report them: {error}") from None


def _rewritten(loops: Loops, choices: Mapping[int, Choice], arguments: Any, results: Any) -> Callable[..., Any]:
    shapes = [loops.program.avals[value] for value in loops.program.inputs]

    def run(*args: Any) -> Any:
        leaves, structure = jax.tree.flatten(args)
        if structure != arguments:
            raise InputError("arguments", f"planned for {arguments}, but called with {structure}")
        for number, (leaf, shape) in enumerate(zip(leaves, shapes, strict=True)):
            given = jax.typeof(leaf)
            if given.shape != shape.shape or given.dtype != shape.dtype:
                why = f"planned for {shape.str_short()}, but called with {given.str_short()}"
                raise InputError(f"arguments[{number}]", why)
        return jax.tree.unflatten(results, loops.evaluate(leaves, choices))

    return run


def choose(pairs: Sequence[Pair], allowed: int, limits: Limits, device: Roofline) -> tuple[Choice, ...]:
    """A choice for each pair: together at most so many bytes, where that is possible, with the smallest recomputation.

    All pairs are one problem, in which each value of a body counts as often as the body runs. Where not even the
    carries fit, only some of them are saved.
    """
    ops: list[Work] = []
    sizes: dict[int, int] = {}
    needed: list[int] = []
    shifts = [0]
    for pair in pairs:
        shift = shifts[-1]
        ops += pair.work(device, shift)
        for value in range(len(pair.body.avals)):
            never = max(0, allowed) + 1 if value in pair.fused else 0
            sizes[shift + value] = max(never, pair.length * pair.body.size(value))
        needed += [shift + value for value in pair.needed]
        shifts.append(shift + len(pair.body.avals))
    if allowed >= 0:
        found = Saving(ops, sizes, needed).chosen(allowed, limits)
        if found is not None:
            return tuple(
                Choice(tuple(sorted(value - begin for value in found.values if begin <= value < end)), 1)
                for begin, end in pairwise(shifts)
            )
    return carries(pairs, allowed)


def carries(pairs: Sequence[Pair], allowed: int) -> tuple[Choice, ...]:
    """The choice that saves, for each pair, the same part of the carries: together at most so many bytes."""
    whole = max(1, sum(pair.length * pair.carry_bytes for pair in pairs))
    starts = [max(1, min(pair.length, pair.length * max(0, allowed) // whole)) for pair in pairs]
    return tuple(pair.sparse(-(-pair.length // count)) for pair, count in zip(pairs, starts, strict=True))
