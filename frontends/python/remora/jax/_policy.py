# SPDX-License-Identifier: Apache-2.0
"""A policy for `jax.checkpoint`: which of the values that a function names are saved for its backward pass.

What is saved is chosen by a schedule of the function's equations and of two ops behind them:

    equations of f  ->  boundary  ->  backward, which reads what the backward pass needs of f

An equation runs again behind the boundary unless what it makes is in memory there. Only named values fit: all others
are larger than the budget, and the boundary alone takes so much memory that the budget binds nowhere else. So the
schedule with the least extra time is the best choice of names.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import prod
from typing import Any

import jax
import jax.extend.core as jex

import remora
from remora import _engine
from remora._arguments import Budget, budget_text
from remora.errors import InputError
from remora.graph import Graph, Tensor
from remora.jax._planning import CPU, LIMITS
from remora.limits import Limits
from remora.onnx import Roofline

__all__ = ["policy"]

_LOG = logging.getLogger("remora.jax")
_CALLS = ("jit", "pjit", "closed_call", "core_call")


def policy(
    function: Callable[..., Any], *args: Any, budget: Budget, limits: Limits | None = None, device: Roofline = CPU
) -> Callable[..., Any]:
    """An ordinary policy for `jax.checkpoint`, by names, that saves no more than the budget.

    The function says what may be saved: ``jax.ad_checkpoint.checkpoint_name(value, "name")``. Of these names those are
    saved that make the least work to do again. Nothing of Remora's runs when the function does, on any platform.

    Parameters
    ----------
    function : callable
        What is given to `jax.checkpoint`; differentiable in all of its arguments.
    *args
        Its arguments, or `jax.ShapeDtypeStruct` in place of arrays.
    budget : int or str
        What may be saved between its forward and its backward pass, its arguments not counted: bytes, or text:
        ``"2GiB"``, ``"60%"`` of what JAX saves without `jax.checkpoint`.
    limits : Limits, optional
        Of each search; 2,000 units of work by default.
    device : Roofline
        What equations take.

    Returns
    -------
    callable
        ``jax.checkpoint_policies.save_only_these_names`` of the names chosen; the logger ``remora.jax`` tells them.

    Raises
    ------
    InputError
        For a function that names nothing, or names something inside of a loop or a condition: there, a policy for the
        loop's body is what helps.

    Examples
    --------
    ::

        chosen = remora.jax.policy(layer, weights, x, budget="40%")
        layer = jax.checkpoint(layer, policy=chosen)
    """
    traced = _Traced(function, args)
    allowed = _engine.parse_budget(budget_text(budget), 0, traced.residual_bytes)
    choice = _best(traced, allowed, {}, limits or LIMITS, device)
    _LOG.info(
        "policy: %s saved in %s of %s, %.2f %% of the forward pass again",
        ", ".join(sorted(choice.names)) or "nothing",
        _engine.bytes_text(traced.bytes_of(choice.names)),
        _engine.bytes_text(allowed),
        100 * choice.overhead,
    )
    chosen: Callable[..., Any] = jax.checkpoint_policies.save_only_these_names(*sorted(choice.names))
    return chosen


@dataclass(frozen=True)
class _Choice:
    names: frozenset[str]
    overhead: float


class _Traced:
    """The equations of the forward pass, calls opened, and what the backward pass reads of them."""

    def __init__(self, function: Callable[..., Any], args: tuple[Any, ...]) -> None:
        jaxpr, shapes = jax.make_jaxpr(lambda *given: jax.vjp(function, *given), return_shape=True)(*args)
        outputs = len(jax.tree.leaves(shapes[0]))
        self.equations: list[tuple[jex.JaxprEqn, list[Any], list[int]]] = []
        self.values: list[Any] = []
        found = self._open(jaxpr.jaxpr, [None] * len(jaxpr.jaxpr.invars))
        self.residuals = sorted({value for value in found[outputs:] if value is not None})
        # By value: its name.
        self.names = {made[0]: eqn.params["name"] for eqn, _, made in self.equations if eqn.primitive.name == "name"}
        if not self.names:
            raise InputError("function", "names nothing to save: jax.ad_checkpoint.checkpoint_name does")

    @property
    def residual_bytes(self) -> int:
        return sum(self.size(value) for value in self.residuals)

    def size(self, value: int) -> int:
        return _bytes(self.values[value])

    def bytes_of(self, names: frozenset[str]) -> int:
        return sum(self.size(value) for value, name in self.names.items() if name in names)

    def _open(self, jaxpr: jex.Jaxpr, given: list[int | None]) -> list[int | None]:
        """Adds the equations; numbers of the outputs, None for what is given from outside."""
        numbers: dict[Any, int | None] = dict(zip(jaxpr.invars, given, strict=True))

        def number(variable: Any) -> int | None:
            return None if isinstance(variable, jex.Literal) else numbers.get(variable)

        for eqn in jaxpr.eqns:
            read = [number(variable) for variable in eqn.invars]
            if eqn.primitive.name in _CALLS:
                inner = next(iter(_inner(eqn)))
                numbers.update(zip(eqn.outvars, self._open(inner, read), strict=True))
                continue
            if any(_names_inside(inner) for inner in _inner(eqn)):
                raise InputError("function", f"names a value inside of {eqn.primitive.name}: give its body a policy")
            if not eqn.outvars:
                continue
            made = list(range(len(self.values), len(self.values) + len(eqn.outvars)))
            self.values += [variable.aval for variable in eqn.outvars]
            numbers.update(zip(eqn.outvars, made, strict=True))
            self.equations.append((eqn, [value for value in read if value is not None], made))
        return [number(variable) for variable in jaxpr.outvars]


def _inner(eqn: jex.JaxprEqn) -> Iterator[jex.Jaxpr]:
    for parameter in eqn.params.values():
        for one in parameter if isinstance(parameter, (tuple, list)) else (parameter,):
            if isinstance(one, jex.ClosedJaxpr):
                yield one.jaxpr
            elif isinstance(one, jex.Jaxpr):
                yield one


def _names_inside(jaxpr: jex.Jaxpr) -> bool:
    return any(eqn.primitive.name == "name" or any(_names_inside(inner) for inner in _inner(eqn)) for eqn in jaxpr.eqns)


def _bytes(aval: Any) -> int:
    return int(prod(aval.shape)) * aval.dtype.itemsize if hasattr(aval, "shape") else 0


def _duration(eqn: jex.JaxprEqn, device: Roofline) -> int:
    """Nanoseconds by the roofline; of a loop, of all its runs where their number is known."""
    inner = list(_inner(eqn))
    if inner:
        return int(eqn.params.get("length", 1)) * sum(_duration(one, device) for each in inner for one in each.eqns)
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
    moved = sum(_bytes(variable.aval) for variable in (*eqn.invars, *eqn.outvars))
    return max(1, round(device.seconds(flops, moved) * 1e9))


def _best(traced: _Traced, allowed: int, fixed: dict[str, bool], limits: Limits, device: Roofline) -> _Choice:
    """The best choice with these names saved (True) or not (False).

    What bears one name is saved together: where the best choice of values takes a part of what a name stands for, and
    all of it is too much, both ways are tried.
    """
    values, overhead = _saved(traced, allowed, fixed, limits, device)
    names = frozenset(traced.names[value] for value in values) | {name for name, kept in fixed.items() if kept}
    if traced.bytes_of(names) <= allowed:
        return _Choice(names, overhead)
    name = next(
        name
        for name in sorted(names)
        if name not in fixed and any(other == name and value not in values for value, other in traced.names.items())
    )
    choices = [_best(traced, allowed, {**fixed, name: False}, limits, device)]
    if traced.bytes_of(names & {one for one, kept in fixed.items() if kept} | {name}) <= allowed:
        choices.append(_best(traced, allowed, {**fixed, name: True}, limits, device))
    return min(choices, key=lambda choice: choice.overhead)


def _saved(
    traced: _Traced, allowed: int, fixed: dict[str, bool], limits: Limits, device: Roofline
) -> tuple[set[int], float]:
    """The values in memory at the boundary that are read behind it, and the extra time as a part of all."""
    never = allowed + 1
    room = sum(max(never, traced.size(value)) for value in range(len(traced.values)))
    graph = Graph("policy", duration_unit="ns")
    tensors: list[Tensor] = []
    producers: dict[int, int] = {}
    for place, (eqn, read, made) in enumerate(traced.equations):
        outputs = []
        for value in made:
            kept = fixed.get(traced.names.get(value, ""))
            size = 0 if kept else traced.size(value) if value in traced.names and kept is None else never
            outputs.append(graph.tensor(f"v{value}", size))
            producers[value] = place
        tensors += outputs
        inputs = [tensors[value] for value in read]
        graph.op(f"{place}:{eqn.primitive.name}", duration=_duration(eqn, device), outputs=outputs, inputs=inputs)
    graph.op("boundary", duration=1, outputs={"boundary": 0}, workspace=room, recompute=False)
    needed = [tensors[value] for value in traced.residuals]
    graph.op("backward", duration=1, outputs={"backward": 0}, inputs=needed, recompute=False)
    taken = sum(traced.size(value) for value, name in traced.names.items() if fixed.get(name))
    schedule = remora.solve(graph, room + allowed - taken, order="input", max_computes=2, limits=limits)
    places = [step.op.index for step in schedule.steps]
    again = set(places[places.index(len(traced.equations)) + 1 :])
    read = [value for place in again if place < len(traced.equations) for value in traced.equations[place][1]]
    saved = {value for value in [*read, *traced.residuals] if producers[value] not in again}
    return {value for value in saved if not fixed.get(traced.names[value])}, schedule.overhead
