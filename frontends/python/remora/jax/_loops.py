# SPDX-License-Identifier: Apache-2.0
"""Pairs of loops in a training step: what the forward loop stacks for the backward loop, and what is saved instead.

A *pair* is a scan that stacks residuals, and a later scan of the same length that alone reads them. Both work on one
slice of each stack in an iteration, so an iteration of the backward loop can compute its slices itself, by equations of
the forward loop's body, from whatever is saved for it:

    forward:   c0 -> body -> c1 -> body -> c2 -> ...       saves values of each body, or only every k-th carry c
    backward:  ... <- (body, then body') <- (body, then body')        body' reads residuals, saved or recomputed

Where only every k-th carry is saved, an iteration first repeats the bodies from the last saved carry up to its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.extend.core as jex
import jax.numpy as jnp

from remora.jax._jaxpr import Atom, Equation, Program, arrays, bytes_of, closed, duration, inner_jaxprs, run
from remora.jax._saving import Work
from remora.onnx import Roofline

_SUMS = ("add", "sub", "add_any", "reduce_sum", "cumsum")
_MOVES = ("broadcast_in_dim", "expand_dims", "neg", "reshape", "slice", "split", "squeeze", "transpose")
_APART = ("conv_general_dilated", "dot_general")
"""Primitives that XLA compiles apart from what reads them."""
_NESTING = ("scan", "while", "cond", "checkpoint", "remat", "remat2")
"""Primitives with jaxprs in which pairs are looked for."""


class Scan:
    """An equation that is a scan: its parameters, and its inputs and outputs in their three parts."""

    def __init__(self, equation: Equation) -> None:
        params = equation.eqn.params
        self.length = int(params["length"])
        self.reverse = bool(params["reverse"])
        self.unroll = params.get("unroll", 1)
        self.jaxpr: jex.ClosedJaxpr = params["jaxpr"]
        constants, carry = params["num_consts"], params["num_carry"]
        self.constants = equation.reads[:constants]
        self.carry = equation.reads[constants : constants + carry]
        self.xs = equation.reads[constants + carry :]
        self.carry_out = equation.makes[:carry]
        self.ys = equation.makes[carry:]


@dataclass(frozen=True)
class Choice:
    """The values saved for one pair.

    Attributes
    ----------
    saved : tuple of int
        Values of the forward body that are stacked.
    every : int
        1 if `saved` is enough for each iteration. Otherwise only the carries of every so many iterations are saved.
    """

    saved: tuple[int, ...]
    every: int


class Pair:
    """A forward and a backward scan of a program.

    Attributes
    ----------
    forward, backward : int
        Places of their equations.
    residuals : dict
        By position among the forward scan's ys: position among the backward scan's xs.
    body : Program
        The forward scan's body.
    needed : list of int
        Values of the body that the backward scan reads, its inputs apart from carries not among them.
    carry : list of int
        Positions of the carries from which an iteration's residuals follow.
    fused : set of int
        Values that are not saved, so that results stay equal where that can be foreseen: values that JAX itself does
        not save, apart from products of matrices, and those that a sum of the body reads. XLA may compute them in one
        kernel with what reads them, and what is computed from the value that was saved may differ in the last bit.
    """

    def __init__(self, program: Program, forward: int, backward: int, residuals: dict[int, int]) -> None:
        self.forward, self.backward, self.residuals = forward, backward, residuals
        self.first = Scan(program.equations[forward])
        self.second = Scan(program.equations[backward])
        self.body = Program(self.first.jaxpr)
        constants, carry = len(self.first.constants), len(self.first.carry)
        self.carry_inputs = self.body.inputs[constants : constants + carry]
        self.free = {*self.body.inputs} - {*self.carry_inputs}
        self.needed = [
            value
            for value in (self.body.outputs[carry + position] for position in residuals)
            if isinstance(value, int) and value not in self.free and value not in self.body.constants
        ]
        self.carry = self._carry_needed()
        self.fused = self._fused()

    @property
    def length(self) -> int:
        return self.first.length

    @property
    def stacked(self) -> int:
        """Bytes of all residuals as JAX stacks them."""
        carry = len(self.first.carry)
        outputs = self.first.jaxpr.out_avals
        return self.length * sum(bytes_of(outputs[carry + position]) for position in self.residuals)

    @property
    def carry_bytes(self) -> int:
        """Bytes of the carry of one iteration."""
        return sum(self.body.size(self.carry_inputs[position]) for position in self.carry)

    def _carry_needed(self) -> list[int]:
        wanted: list[Atom] = [*self.needed]
        found: set[int] = set()
        while True:
            read = {value for place in self.body.needed(wanted, ()) for value in self.body.equations[place].values_read}
            read |= {value for value in wanted if isinstance(value, int)}
            more = {at for at, value in enumerate(self.carry_inputs) if value in read} - found
            if not more:
                return sorted(found)
            found |= more
            wanted += [self.body.outputs[position] for position in more]

    def _fused(self) -> set[int]:
        summed: set[int] = set()
        for one in reversed(self.body.equations):
            name = one.eqn.primitive.name
            if name in _SUMS or (name in _MOVES and not summed.isdisjoint(one.makes)):
                summed.update(one.values_read)
        apart = {value for one in self.body.equations if one.eqn.primitive.name in _APART for value in one.makes}
        inputs = {*self.body.inputs}
        sums = {value for one in self.body.equations if one.eqn.primitive.name in _SUMS for value in one.makes}
        natural = apart | inputs | ({*self.needed} - (summed - sums))
        return {*range(len(self.body.avals))} - natural

    def given(self, constants: Sequence[Any], carry: Mapping[int, Any], xs: Sequence[Any]) -> dict[int, Any]:
        """Inputs of the body by value: carries by position, as many as there are."""
        inputs = self.body.inputs
        known = dict(zip(inputs, constants, strict=False))
        known.update((self.carry_inputs[position], array) for position, array in carry.items())
        known.update(zip(inputs[len(constants) + len(self.first.carry) :], xs, strict=True))
        return known

    def work(self, device: Roofline, shift: int) -> list[Work]:
        """Ops of all iterations as one, for `Saving`; the first one makes the carries.

        To save a value takes a write and a read of it. What takes no longer to recompute counts next to nothing.
        """

        def repeated(equation: Equation) -> Work:
            reads = tuple(shift + value for value in equation.values_read if value not in self.free)
            makes = tuple(shift + value for value in equation.makes)
            traffic = device.seconds(0, 2 * sum(map(self.body.size, equation.makes)))
            gain = max(1, duration(equation.eqn, device) - round(1e9 * traffic))
            return Work(equation.eqn.primitive.name, self.length * gain, reads, makes)

        carries = tuple(shift + value for value in self.carry_inputs)
        return [Work("carry", 1, (), carries, recompute=False), *map(repeated, self.body.equations)]

    def size(self, choice: Choice) -> int:
        """Bytes of what is saved."""
        return -(-self.length // choice.every) * sum(map(self.body.size, choice.saved))

    def recomputed(self, choice: Choice) -> Counter[int]:
        """How often an equation of the body runs once more, by its place."""
        is_dense = choice.every == 1
        found = Counter(dict.fromkeys(self.body.needed(self.needed, choice.saved if is_dense else ()), self.length))
        repeats = sum(place % choice.every for place in range(self.length))
        for place in self.body.needed([self.body.outputs[position] for position in self.carry], ()):
            found[place] += repeats
        return found

    def sparse(self, every: int) -> Choice:
        """The choice that saves the carries of every so many iterations, and nothing else."""
        return Choice(tuple(self.carry_inputs[position] for position in self.carry), every)


@dataclass
class Loops:
    """A program with its pairs, and the programs inside its equations that have pairs.

    Attributes
    ----------
    program : Program
        Its equations.
    pairs : list of Pair
        Those at its top level.
    inner : dict
        By place of an equation and number of a jaxpr among its parameters: the loops inside.
    """

    program: Program
    pairs: list[Pair] = field(default_factory=list)
    inner: dict[tuple[int, int], Loops] = field(default_factory=dict)

    def all_pairs(self) -> Iterator[Pair]:
        """The pairs at every level."""
        yield from self.pairs
        for one in self.inner.values():
            yield from one.all_pairs()

    def evaluate(self, given: Sequence[Any], choices: Mapping[int, Choice]) -> list[Any]:
        """Outputs of the program, with these choices for pairs, by id."""
        known = {**self.program.constants, **dict(zip(self.program.inputs, given, strict=True))}
        by_place = {one.forward: one for one in self.pairs} | {one.backward: one for one in self.pairs}
        stacks: dict[int, list[Any]] = {}
        for place, one in enumerate(self.program.equations):
            pair = by_place.get(place)
            choice = choices.get(id(pair))
            if pair is None or choice is None:
                known.update(zip(one.makes, self._run(place, arrays(one.reads, known), choices), strict=True))
            elif place == pair.forward:
                stacks[id(pair)] = run_forward(pair, choice, known)
            else:
                run_backward(pair, choice, known, stacks[id(pair)])
        return arrays(self.program.outputs, known)

    def _run(self, place: int, inputs: Sequence[Any], choices: Mapping[int, Choice]) -> list[Any]:
        eqn = self.program.equations[place].eqn
        numbers = [number for at, number in self.inner if at == place]
        if not numbers:
            return run(eqn, inputs)
        count = 0
        params = dict(eqn.params)

        def rewritten(one: Any) -> Any:
            nonlocal count
            if not isinstance(one, (jex.Jaxpr, jex.ClosedJaxpr)):
                return one
            count += 1
            loops = self.inner.get((place, count - 1))
            if loops is None:
                return one
            shapes = closed(one).in_avals
            made = jax.make_jaxpr(lambda *given: loops.evaluate(given, choices))(*shapes)
            if isinstance(one, jex.ClosedJaxpr):
                return made
            return made.jaxpr

        for name, value in params.items():
            is_several = isinstance(value, (tuple, list))
            params[name] = type(value)(map(rewritten, value)) if is_several else rewritten(value)
        return run(eqn.replace(params=params), inputs)


def find_loops(jaxpr: jex.ClosedJaxpr) -> Loops:
    """The pairs of loops in a program, and in the bodies of its equations."""
    loops = Loops(Program(jaxpr))
    program = loops.program
    readers: dict[int, list[int]] = {}
    for place, one in enumerate(program.equations):
        for value in one.values_read:
            readers.setdefault(value, []).append(place)
    kept = {value for value in program.outputs if isinstance(value, int)}
    taken: set[int] = set()
    for place, one in enumerate(program.equations):
        name = one.eqn.primitive.name
        if name == "scan" and place not in taken and not one.eqn.effects:
            pair = _pair_of(program, place, readers, kept)
            if pair is not None and pair.needed and pair.backward not in taken:
                loops.pairs.append(pair)
                taken |= {place, pair.backward}
                continue
        if name in _NESTING and place not in taken:
            for number, inner in enumerate(inner_jaxprs(one.eqn)):
                found = find_loops(closed(inner))
                if any(found.all_pairs()):
                    loops.inner[place, number] = found
    return loops


def _pair_of(program: Program, place: int, readers: Mapping[int, Sequence[int]], kept: set[int]) -> Pair | None:
    """The pair with this scan as the forward one: the backward one is the scan that reads most of its stacks."""
    first = Scan(program.equations[place])
    found: dict[int, dict[int, int]] = {}
    for position, value in enumerate(first.ys):
        places = readers.get(value, [])
        if len(places) != 1 or value in kept:
            continue
        other = program.equations[places[0]]
        if other.eqn.primitive.name != "scan" or other.eqn.effects or other.eqn.params["length"] != first.length:
            continue
        xs = Scan(other).xs
        if value in xs:
            found.setdefault(places[0], {})[position] = xs.index(value)
    if not found:
        return None

    def size(backward: int) -> int:
        return sum(program.size(first.ys[position]) for position in found[backward])

    backward = max(found, key=size)
    return Pair(program, place, backward, found[backward])


def run_forward(pair: Pair, choice: Choice, known: dict[int, Any]) -> list[Any]:
    """Runs the forward scan without its residuals, and gives the stacks of what is saved instead."""
    scan, body = pair.first, pair.body
    constants, carry, xs = (arrays(part, known) for part in (scan.constants, scan.carry, scan.xs))
    own = [position for position in range(len(scan.ys)) if position not in pair.residuals]
    outputs = [*body.outputs[: len(carry)], *(body.outputs[len(carry) + position] for position in own)]

    def step(state: Sequence[Any], slices: Sequence[Any], wanted: Sequence[int] = ()) -> tuple[list[Any], list[Any]]:
        made = body.evaluate(pair.given(constants, dict(enumerate(state)), slices), [*outputs, *wanted])
        return made[: len(carry)], made[len(carry) :]

    if choice.every == 1:
        last, ys = jax.lax.scan(
            lambda state, slices: step(state, slices, choice.saved),
            carry,
            xs,
            length=scan.length,
            reverse=scan.reverse,
            unroll=scan.unroll,
        )
        stacks = ys[len(own) :]
    else:
        # An iteration writes its ys into arrays that are carried, since segments may differ in length.
        made = [jnp.zeros(known_aval.shape, known_aval.dtype) for known_aval in (_aval_of(pair, at) for at in own)]

        def one(place: Any, state: tuple[list[Any], list[Any]]) -> tuple[list[Any], list[Any]]:
            index = scan.length - 1 - place if scan.reverse else place
            after, ys = step(state[0], [_slice(x, index) for x in xs])
            return after, [
                jax.lax.dynamic_update_index_in_dim(a, y, index, 0) for a, y in zip(state[1], ys, strict=True)
            ]

        def segment(state: Any, begin: Any) -> tuple[Any, list[Any]]:
            end = jnp.minimum(begin + choice.every, scan.length)
            return jax.lax.fori_loop(begin, end, one, state), [state[0][position] for position in pair.carry]

        (last, ys), stacks = jax.lax.scan(segment, (carry, made), jnp.arange(0, scan.length, choice.every))
    known.update(zip(scan.carry_out, last, strict=True))
    known.update((scan.ys[position], stack) for position, stack in zip(own, ys, strict=False))
    return list(stacks)


def _aval_of(pair: Pair, position: int) -> Any:
    aval = pair.first.jaxpr.out_avals[len(pair.first.carry) + position]
    return jax.ShapeDtypeStruct((pair.length, *aval.shape), aval.dtype)


def _slice(array: Any, index: Any) -> Any:
    return jax.lax.dynamic_index_in_dim(array, index, keepdims=False)


def run_backward(pair: Pair, choice: Choice, known: dict[int, Any], stacks: Sequence[Any]) -> None:
    """Runs the backward scan on what is saved, and recomputes the rest of the residuals."""
    scan, first, body = pair.second, pair.first, pair.body
    constants, carry = arrays(scan.constants, known), arrays(scan.carry, known)
    dropped = dict(zip(pair.residuals.values(), pair.residuals, strict=True))
    xs = {at: known_array for at, known_array in enumerate(_where(scan.xs, known, dropped)) if at not in dropped}
    first_constants, first_xs = arrays(first.constants, known), arrays(first.xs, known)
    first_carry = len(first.carry)
    wanted = [body.outputs[first_carry + position] for position in dropped.values()]

    def carry_at(place: Any) -> dict[int, Any]:
        """The carries of an iteration, from the last ones that are saved before."""
        begin = place // choice.every

        def one(at: Any, state: list[Any]) -> list[Any]:
            index = first.length - 1 - at if first.reverse else at
            given = pair.given(
                first_constants, dict(zip(pair.carry, state, strict=True)), [_slice(x, index) for x in first_xs]
            )
            return body.evaluate(given, [body.outputs[position] for position in pair.carry])

        state = jax.lax.fori_loop(begin * choice.every, place, one, [_slice(stack, begin) for stack in stacks])
        return dict(zip(pair.carry, state, strict=True))

    def step(state: Sequence[Any], slices: Any) -> tuple[list[Any], list[Any]]:
        own, other, saved, index = slices
        if choice.every == 1:
            given = pair.given(first_constants, {}, other)
            given.update(zip(choice.saved, saved, strict=True))
        else:
            place = first.length - 1 - index if first.reverse else index
            given = pair.given(first_constants, carry_at(place), other)
        residuals = dict(zip(dropped, body.evaluate(given, wanted), strict=True))
        inputs = [residuals[at] if at in residuals else own[at] for at in range(len(scan.xs))]
        made = jax.extend.core.jaxpr_as_fun(scan.jaxpr)(*constants, *state, *inputs)
        return made[: len(carry)], made[len(carry) :]

    saved = list(stacks) if choice.every == 1 else []
    last, ys = jax.lax.scan(
        step,
        carry,
        (xs, first_xs, saved, jnp.arange(scan.length)),
        length=scan.length,
        reverse=scan.reverse,
        unroll=scan.unroll,
    )
    known.update(zip((*scan.carry_out, *scan.ys), (*last, *ys), strict=True))


def _where(atoms: Sequence[Atom], known: Mapping[int, Any], dropped: Mapping[int, int]) -> list[Any]:
    return [None if at in dropped else arrays([atom], known)[0] for at, atom in enumerate(atoms)]
