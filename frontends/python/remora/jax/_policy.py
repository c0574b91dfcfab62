# SPDX-License-Identifier: Apache-2.0
"""A policy for `jax.checkpoint`: which of the values that a function names are saved for its backward pass.

Only named values can be saved: all others are stated as larger than the budget. The choice is that of `Saving`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, SupportsIndex

import jax

from remora import _engine
from remora._arguments import Budget, budget_bytes, count
from remora.errors import InputError
from remora.jax._jaxpr import Program, closed, duration, inner_jaxprs
from remora.jax._planning import CPU, LIMITS
from remora.jax._saving import Saving, Work
from remora.limits import Limits
from remora.onnx import Roofline

__all__ = ["policy"]

_LOG = logging.getLogger("remora.jax")


def policy(
    function: Callable[..., Any],
    *args: Any,
    budget: Budget,
    length: SupportsIndex = 1,
    limits: Limits | None = None,
    device: Roofline = CPU,
) -> Callable[..., Any]:
    """A policy for `jax.checkpoint` that saves, among the values that a function names, as much as the budget allows.

    The function names what may be saved: ``jax.ad_checkpoint.checkpoint_name(value, "name")``. The policy saves the
    names with the smallest recomputation. No code of Remora runs when the function does, on any platform.

    Parameters
    ----------
    function : callable
        What is given to `jax.checkpoint`; differentiable in all of its arguments.
    *args
        Its arguments, or `jax.ShapeDtypeStruct` in place of arrays.
    budget : int or str
        What may be saved between its forward and its backward pass, its arguments not counted: bytes, or text:
        ``"2GiB"``, ``"60%"`` of what JAX saves without `jax.checkpoint`.
    length : int
        Iterations of the loop of which the function is the body (`jax.lax.scan`). Each saved value counts so often.
    limits : Limits, optional
        Of each search; 16,000 units of work by default.
    device : Roofline
        The device on which equations run.

    Returns
    -------
    callable
        ``jax.checkpoint_policies.save_only_these_names`` of the names chosen; the logger ``remora.jax`` reports them.

    Raises
    ------
    InputError
        For a function that names nothing, or names something inside a loop or a condition: there, a policy for the
        loop's body helps, or `checkpoint_loops`.

    Examples
    --------
    ::

        chosen = remora.jax.policy(layer, x, weights[0], budget="40%", length=len(weights))
        y, _ = jax.lax.scan(jax.checkpoint(layer, policy=chosen), x, weights)
    """
    traced = _Traced(function, args)
    repeats = count(length, "length") or 1
    allowed = budget_bytes(budget, 0, repeats * traced.residual_bytes) // repeats
    choice = _best(traced, allowed, {}, limits or LIMITS, device)
    _LOG.info(
        "policy: %s saved in %s of %s, %.2f %% of the forward pass recomputed",
        ", ".join(sorted(choice.names)) or "nothing",
        _engine.bytes_text(repeats * traced.bytes_of(choice.names)),
        _engine.bytes_text(repeats * allowed),
        100 * choice.overhead,
    )
    chosen: Callable[..., Any] = jax.checkpoint_policies.save_only_these_names(*sorted(choice.names))
    return chosen


@dataclass(frozen=True)
class _Choice:
    names: frozenset[str]
    overhead: float


class _Traced:
    """The forward pass of a function, what the backward pass reads of it, and the names of its values."""

    def __init__(self, function: Callable[..., Any], args: tuple[Any, ...]) -> None:
        jaxpr, shapes = jax.make_jaxpr(lambda *given: jax.vjp(function, *given), return_shape=True)(*args)
        self.program = Program(jaxpr)
        outputs = len(jax.tree.leaves(shapes[0]))
        made = self.program.producers
        self.residuals = sorted({value for value in self.program.outputs[outputs:] if value in made})
        self.names: dict[int, str] = {}
        for one in self.program.equations:
            if one.eqn.primitive.name == "name":
                self.names[one.makes[0]] = one.eqn.params["name"]
            if any(_names_inside(inner) for inner in inner_jaxprs(one.eqn)):
                what = one.eqn.primitive.name
                why = f"names a value inside {what}: give its body a policy, or use remora.jax.checkpoint_loops"
                raise InputError("function", why)
        if not self.names:
            raise InputError("function", "names nothing to save: jax.ad_checkpoint.checkpoint_name does")

    @property
    def residual_bytes(self) -> int:
        return sum(self.program.size(value) for value in self.residuals)

    def bytes_of(self, names: frozenset[str]) -> int:
        return sum(self.program.size(value) for value, name in self.names.items() if name in names)


def _names_inside(jaxpr: Any) -> bool:
    return any(
        eqn.primitive.name == "name" or any(_names_inside(inner) for inner in inner_jaxprs(eqn))
        for eqn in closed(jaxpr).jaxpr.eqns
    )


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
    """The values to save beyond the fixed ones, and the extra time as a part of the forward pass."""
    program = traced.program
    never = allowed + 1
    sizes = {}
    for value in program.producers:
        kept = fixed.get(traced.names.get(value, ""))
        if kept:
            sizes[value] = 0
        else:
            sizes[value] = program.size(value) if value in traced.names and kept is None else never
    ops = [
        Work(one.eqn.primitive.name, duration(one.eqn, device), tuple(one.values_read), one.makes)
        for one in program.equations
    ]
    taken = sum(program.size(value) for value, name in traced.names.items() if fixed.get(name))
    found = Saving(ops, sizes, traced.residuals).chosen(allowed - taken, limits)
    if found is None:
        raise InputError("limits", "no choice was found within them")
    free = {value for value in found.values if fixed.get(traced.names[value])}
    extra = sum(ops[place].duration for place in found.again)
    return found.values - free, extra / max(1, sum(op.duration for op in ops))
