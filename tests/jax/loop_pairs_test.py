# SPDX-License-Identifier: Apache-2.0
"""Layers in a loop under budgets: less is saved for the backward loop, results stay equal in every bit."""

from __future__ import annotations

import warnings
from typing import Any

import jax
import jax.numpy as jnp
import numpy
import pytest
from networks import LOOPS

import remora.jax as rj


def compiled(step: Any, arguments: tuple[Any, ...]) -> Any:
    # A function of its own each time: JAX compiles one only once.
    return jax.jit(lambda *given: step(*given)).lower(*arguments).compile()


def temporaries(program: Any) -> int:
    return int(program.memory_analysis().temp_size_in_bytes)


def bits(values: Any) -> list[bytes]:
    return [numpy.asarray(value).tobytes() for value in jax.tree.leaves(values)]


@pytest.mark.parametrize(
    ("name", "part"), [(name, part) for name in LOOPS for part in (80, 60, 40) if (name, part) != ("scan_reversed", 40)]
)
def test_layers_in_a_loop(name: str, part: int) -> None:
    step, arguments = LOOPS[name]()
    plain = compiled(step, arguments)
    budget = temporaries(plain) * part // 100
    with warnings.catch_warnings(), rj.budget(budget) as plans:
        warnings.simplefilter("error", RuntimeWarning)
        program = compiled(step, arguments)
    plan = plans.largest
    print(name, part, plan)
    assert temporaries(program) == plan.temporaries <= budget
    assert plan.recomputes > 0
    # A roofline counts what is no longer written, so that it may be less than nothing.
    assert -0.5 < plan.overhead < 1.2
    assert bits(program(*arguments)) == bits(plain(*arguments))


def test_the_minimum_is_named_where_a_budget_is_not_met() -> None:
    step, arguments = LOOPS["scan_reversed"]()
    with pytest.warns(RuntimeWarning, match="the least that was found"), rj.budget("40%") as plans:
        program = compiled(step, arguments)
    assert plans.largest.note
    assert temporaries(program) == plans.largest.before
    assert plans.largest.least < plans.largest.before // 2


def test_a_loop_that_is_not_counted_is_named() -> None:
    def step(w: jax.Array, x: jax.Array) -> Any:
        def body(state: Any) -> Any:
            stack, at = state
            return stack.at[at].set(jnp.tanh(stack[at - 1] @ w)), at + 1

        stack = jnp.zeros((20, 128, 64)).at[0].set(x)
        return jax.lax.while_loop(lambda state: state[0][state[1] - 1].sum() < 1e9, body, (stack, 1))[0].sum()

    w, x = jnp.zeros((64, 64)), jnp.ones((128, 64))
    with pytest.warns(RuntimeWarning, match=r"belong to one loop \(while.*loop_pairs_test.py:\d+\).*jax.checkpoint"):  # noqa: SIM117
        with rj.budget("50%"):
            jax.jit(step).lower(w, x).compile()
