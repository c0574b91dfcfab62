# SPDX-License-Identifier: Apache-2.0
"""What the tests of remora.jax do with a program: compile it, with a budget or without, and compare."""

from __future__ import annotations

import warnings
from typing import Any

import jax
import numpy

import remora.jax as rj


def compiled(step: Any, arguments: tuple[Any, ...], **words: Any) -> Any:
    """A function of its own each time: JAX compiles one only once."""
    return jax.jit(lambda *given: step(*given), **words).lower(*arguments).compile()


def temporaries(program: Any) -> int:
    """XLA's own figure."""
    return int(program.memory_analysis().temp_size_in_bytes)


def bits(values: Any) -> list[bytes]:
    """Of all arrays."""
    return [numpy.asarray(value).tobytes() for value in jax.tree.leaves(values)]


def planned(step: Any, arguments: tuple[Any, ...], budget: Any, **words: Any) -> tuple[Any, list[rj.Plan], list[str]]:
    """A program under a budget, the plans of its modules, and what the warnings say."""
    with warnings.catch_warnings(record=True) as told, rj.budget(budget, **words) as plans:
        warnings.simplefilter("always")
        program = compiled(step, arguments)
    return program, plans.all, [str(one.message) for one in told]


def expect_plan(step: Any, arguments: tuple[Any, ...], part: int, name: str, **words: Any) -> rj.Plan | None:
    """The pass meets a part of the temporaries (%), or the minimum that it names is enough; results are equal."""
    plain = compiled(step, arguments)
    whole = temporaries(plain)
    budget = max(1, whole * part // 100)
    program, plans, told = planned(step, arguments, budget, **words)
    assert bits(program(*arguments)) == bits(plain(*arguments)), name
    notes = [one for one in told if "left unchanged" in one]
    if not notes:
        plan = max(plans, key=lambda one: one.before)
        assert temporaries(program) == plan.temporaries <= budget, name
        assert plan.before == whole, name
        assert plan.bound is None or plan.bound <= plan.overhead + 1e-9, name
        return plan
    assert len(notes) == 1, name
    assert temporaries(program) == whole, name
    if not plans:  # It cannot be read.
        return None
    refused = max(plans, key=lambda one: one.before)
    assert budget < refused.least <= whole, name
    program, plans, _ = planned(step, arguments, refused.least, **words)
    again = max(plans, key=lambda one: one.before)
    assert not again.note, f"{name}: {again}"
    assert temporaries(program) <= refused.least, name
    assert bits(program(*arguments)) == bits(plain(*arguments)), name
    return refused
