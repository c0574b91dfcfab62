# SPDX-License-Identifier: Apache-2.0
"""JAX's programs as numbered values and equations, evaluated in parts."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, TypeAlias

import jax
import jax.extend.core as jex

from remora.onnx import Roofline

CALLS = ("jit", "pjit", "closed_call", "core_call")

Atom: TypeAlias = "int | jex.Literal"
"""A numbered value, or a literal."""


@dataclass(frozen=True)
class Equation:
    """An equation of a jaxpr, with the values that it reads and makes."""

    eqn: jex.JaxprEqn
    reads: tuple[Atom, ...]
    makes: tuple[int, ...]

    @property
    def values_read(self) -> list[int]:
        """Numbers of the values among `reads`."""
        return [atom for atom in self.reads if isinstance(atom, int)]


class Program:
    """A closed jaxpr with its calls opened: values are numbered in the order in which they are made.

    Attributes
    ----------
    inputs : list of int
        Values that are given.
    outputs : list of int or Literal
        Values that are returned.
    avals : list
        Shape and dtype, by value.
    constants : dict
        Arrays that the jaxpr contains, by value.
    """

    def __init__(self, jaxpr: jex.ClosedJaxpr) -> None:
        self.equations: list[Equation] = []
        self.avals: list[Any] = []
        self.constants: dict[int, Any] = {}
        self.inputs = self._numbered(jaxpr.jaxpr.invars)
        self.outputs = self._open(jaxpr.jaxpr, jaxpr.consts, self.inputs)
        self.producers = {value: place for place, one in enumerate(self.equations) for value in one.makes}

    def size(self, value: int) -> int:
        """Bytes of a value."""
        return bytes_of(self.avals[value])

    def needed(self, wanted: Iterable[Atom], given: Collection[int]) -> list[int]:
        """Places of the equations that make the wanted values of those given, in their order."""
        found: set[int] = set()
        open_values = [atom for atom in wanted if isinstance(atom, int)]
        while open_values:
            value = open_values.pop()
            place = self.producers.get(value)
            if value not in given and place is not None and place not in found:
                found.add(place)
                open_values += self.equations[place].values_read
        return sorted(found)

    def evaluate(self, given: Mapping[int, Any], wanted: Sequence[Atom]) -> list[Any]:
        """Arrays of the wanted values; only the equations that they need are evaluated."""
        known = {**self.constants, **given}
        for place in self.needed(wanted, given):
            one = self.equations[place]
            for value, array in zip(one.makes, run(one.eqn, arrays(one.reads, known)), strict=True):
                known.setdefault(value, array)
        return arrays(wanted, known)

    def _numbered(self, variables: Sequence[Any]) -> list[int]:
        first = len(self.avals)
        self.avals += [variable.aval for variable in variables]
        return list(range(first, len(self.avals)))

    def _open(self, jaxpr: jex.Jaxpr, constants: Sequence[Any], given: Sequence[Atom]) -> list[Atom]:
        """Adds the equations of a jaxpr, and gives its outputs."""
        numbers: dict[Any, Atom] = dict(zip(jaxpr.invars, given, strict=True))
        own = self._numbered(jaxpr.constvars)
        self.constants.update(zip(own, constants, strict=True))
        numbers.update(zip(jaxpr.constvars, own, strict=True))

        def atom(variable: Any) -> Atom:
            return variable if isinstance(variable, jex.Literal) else numbers[variable]

        for eqn in jaxpr.eqns:
            reads = tuple(atom(variable) for variable in eqn.invars)
            if eqn.primitive.name in CALLS:
                inner = closed(next(inner_jaxprs(eqn)))
                numbers.update(zip(eqn.outvars, self._open(inner.jaxpr, inner.consts, reads), strict=True))
                continue
            makes = self._numbered(eqn.outvars)
            numbers.update(zip(eqn.outvars, makes, strict=True))
            self.equations.append(Equation(eqn, reads, tuple(makes)))
        return [atom(variable) for variable in jaxpr.outvars]


def arrays(atoms: Iterable[Atom], known: Mapping[int, Any]) -> list[Any]:
    """The array of each atom."""
    return [known[atom] if isinstance(atom, int) else atom.val for atom in atoms]


def run(eqn: jex.JaxprEqn, inputs: Sequence[Any]) -> list[Any]:
    """Outputs of one equation."""
    results: Any = jax.extend.core.jaxpr_as_fun(closed(_alone(eqn)))(*inputs)
    return list(results)


def _alone(eqn: jex.JaxprEqn) -> jex.Jaxpr:
    new = jex.gensym()
    inputs = [new(variable.aval) for variable in eqn.invars]
    outputs = [new(variable.aval) for variable in eqn.outvars]
    equations = [eqn.replace(invars=inputs, outvars=outputs)]
    return jex.Jaxpr([], inputs, outputs, equations, eqn.effects, jex.DebugInfo("remora", "equation", None, None))


def closed(jaxpr: jex.Jaxpr | jex.ClosedJaxpr) -> jex.ClosedJaxpr:
    """The jaxpr, which has no constants if it is not closed yet."""
    return jaxpr if isinstance(jaxpr, jex.ClosedJaxpr) else jex.ClosedJaxpr(jaxpr, [])


def inner_jaxprs(eqn: jex.JaxprEqn) -> Iterator[jex.Jaxpr | jex.ClosedJaxpr]:
    """Jaxprs among the parameters of an equation."""
    for parameter in eqn.params.values():
        for one in parameter if isinstance(parameter, (tuple, list)) else (parameter,):
            if isinstance(one, (jex.Jaxpr, jex.ClosedJaxpr)):
                yield one


def bytes_of(aval: Any) -> int:
    """Bytes of an array with this shape and dtype; 0 for what is not an array."""
    return int(prod(aval.shape)) * aval.dtype.itemsize if hasattr(aval, "shape") else 0


def duration(eqn: jex.JaxprEqn, device: Roofline) -> int:
    """Nanoseconds on the roofline; for a loop, those of all its iterations where their number is known."""
    inner = list(inner_jaxprs(eqn))
    if inner:
        repeats = int(eqn.params.get("length", 1))
        return repeats * sum(duration(one, device) for each in inner for one in closed(each).jaxpr.eqns)
    if eqn.primitive.name == "name":
        return 0
    elements = sum(int(prod(variable.aval.shape)) for variable in eqn.outvars if hasattr(variable.aval, "shape"))
    flops = elements
    if eqn.primitive.name == "dot_general":
        (contracted, _), _ = eqn.params["dimension_numbers"]
        flops = 2 * elements * prod(eqn.invars[0].aval.shape[axis] for axis in contracted)
    elif eqn.primitive.name == "conv_general_dilated":
        kernel = eqn.invars[1].aval.shape
        flops = 2 * elements * prod(kernel) // kernel[eqn.params["dimension_numbers"].rhs_spec[0]]
    moved = sum(bytes_of(variable.aval) for variable in (*eqn.invars, *eqn.outvars))
    return max(1, round(device.seconds(flops, moved) * 1e9))
