# SPDX-License-Identifier: Apache-2.0
"""Layers in a loop under budgets: less is saved for the backward loop, results stay equal in every bit.

``REMORA_ALL_CASES=1`` runs 200 random loops, ``REMORA_SEED`` draws others.
"""

from __future__ import annotations

import os
import random
import warnings
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from checks import bits, compiled, expect_plan, planned, temporaries
from looped import LOOPED, backwards, random_loop

import remora
import remora.jax as rj

SEED = int(os.environ.get("REMORA_SEED", "1"))
LOOPS = {**LOOPED, "backwards": backwards}
CASES = 200 if os.environ.get("REMORA_ALL_CASES") == "1" else 10


@pytest.mark.parametrize(("name", "part"), [(name, part) for name in LOOPS for part in (80, 60, 40)])
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
    assert plan.bound is None or plan.bound <= plan.overhead + 1e-9
    assert ("less time predicted, since loops stack fewer values" in str(plan)) == (plan.overhead < 0)
    assert bits(program(*arguments)) == bits(plain(*arguments))


@pytest.mark.parametrize("name", ("layers", "backwards"))
def test_a_minimum_is_enough_and_one_byte_below_is_not(name: str) -> None:
    step, arguments = LOOPS[name]()
    plain = compiled(step, arguments)
    with pytest.warns(RuntimeWarning, match="the minimum found .*checkpoint_loops"), rj.budget(1) as plans:
        program = compiled(step, arguments)
    least = plans.largest.least
    assert plans.largest.note
    assert temporaries(program) == temporaries(plain) == plans.largest.before
    program, (plan,), _ = planned(step, arguments, least)
    print(name, plan)
    assert not plan.note
    assert temporaries(program) == plan.temporaries <= least
    assert bits(program(*arguments)) == bits(plain(*arguments))
    assert planned(step, arguments, least - 1)[1][0].note


def test_layers_in_a_loop_need_no_more_than_unrolled_ones() -> None:
    least, unrolled = (planned(*LOOPED["layers"](way), 1)[1][0].least for way in ("scan", "unrolled"))
    print(least, unrolled)
    assert least <= 1.1 * unrolled


def test_bodies_with_jax_checkpoint_save_fewer_carries() -> None:
    step, arguments = LOOPED["layers"]("checkpoint")
    plain = compiled(step, arguments)
    program, (plan,), _ = planned(step, arguments, temporaries(plain) // 2)
    assert not plan.note
    assert temporaries(program) <= temporaries(plain) // 2
    assert bits(program(*arguments)) == bits(plain(*arguments))


@pytest.mark.parametrize("group", range(10))
def test_random_loops(group: int) -> None:
    for seed in range(SEED * 10_000 + group, SEED * 10_000 + CASES, 10):
        part = random.Random(seed).randrange(10, 95)
        plan = expect_plan(*random_loop(seed), part, f"seed {seed}", limits=remora.Limits(work_limit=500))
        print(seed, part, plan)


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
