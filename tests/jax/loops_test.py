# SPDX-License-Identifier: Apache-2.0
"""Layers in loops: XLA's own figure is within the budget or the minimum is named, results are equal in every bit.

``REMORA_ALL_CASES=1`` runs 200 random loops, ``REMORA_SEED`` draws others.
"""

from __future__ import annotations

import os
import random
import warnings
from functools import partial
from typing import Any

import jax
import pytest
from checks import bits, compiled, temporaries
from looped import LOOPED, random_loop
from networks import NETWORKS

import remora
import remora.jax as rj

SEED = int(os.environ.get("REMORA_SEED", "1"))
CASES = 200 if os.environ.get("REMORA_ALL_CASES") == "1" else 10


def planned(step: Any, arguments: Any, budget: Any, **words: Any) -> rj.Checkpointed:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        return rj.checkpoint_loops(step, *arguments, budget=budget, **words)


@pytest.mark.parametrize("name", LOOPED)
def test_layers_in_a_loop_stay_within_the_budget(name: str) -> None:
    step, arguments = LOOPED[name]()
    plain = compiled(step, arguments)
    whole = temporaries(plain)
    expected = bits(plain(*arguments))
    overhead = 0.0
    for part in (80, 60, 40):
        made = planned(step, arguments, f"{part}%")
        program = compiled(made, arguments)
        print(name, part, whole, made.plan)
        assert not made.plan.note
        assert temporaries(program) == made.plan.temporaries <= whole * part // 100
        assert made.plan.overhead >= overhead
        overhead = made.plan.overhead
        assert bits(program(*arguments)) == expected


def test_a_minimum_is_enough_and_one_byte_below_is_not() -> None:
    step, arguments = LOOPED["layers"]()
    with pytest.warns(RuntimeWarning, match="the minimum found is"):
        refused = rj.checkpoint_loops(step, *arguments, budget=1)
    least = refused.plan.least
    assert refused.plan.note
    assert planned(step, arguments, least).plan.temporaries == least
    assert planned(step, arguments, least - 1).plan.note
    expected = bits(compiled(step, arguments)(*arguments))
    assert bits(compiled(planned(step, arguments, least), arguments)(*arguments)) == expected
    # Far below jax.checkpoint of the body, which saves every carry.
    assert least < temporaries(compiled(*LOOPED["layers"]("checkpoint"))) // 3


def test_bodies_with_jax_checkpoint_save_fewer_carries() -> None:
    step, arguments = LOOPED["layers"]("checkpoint")
    plain = compiled(step, arguments)
    made = planned(step, arguments, "60%")
    assert not made.plan.note
    program = compiled(made, arguments)
    assert temporaries(program) <= temporaries(plain) * 6 // 10
    assert bits(program(*arguments)) == bits(plain(*arguments))


@pytest.mark.parametrize("group", range(10))
def test_random_loops(group: int) -> None:
    for seed in range(SEED * 10_000 + group, SEED * 10_000 + CASES, 10):
        step, arguments = random_loop(seed)
        plain = compiled(step, arguments)
        whole = temporaries(plain)
        part = random.Random(seed).randrange(30, 95)
        made = planned(step, arguments, f"{part}%", exact=True, limits=remora.Limits(work_limit=500))
        program = compiled(made, arguments)
        print(seed, whole, made.plan)
        assert bits(program(*arguments)) == bits(plain(*arguments)), f"seed {seed}"
        assert temporaries(program) == made.plan.temporaries, f"seed {seed}"
        if not made.plan.note:
            assert made.plan.temporaries <= made.plan.budget, f"seed {seed}"
            continue
        # The minimum that is named is enough.
        assert made.plan.budget < made.plan.least <= whole, f"seed {seed}"
        again = planned(step, arguments, made.plan.least, exact=True, limits=remora.Limits(work_limit=500))
        assert not again.plan.note, f"seed {seed}"
        assert again.plan.temporaries <= made.plan.least, f"seed {seed}"


def test_what_cannot_be_planned_is_reported() -> None:
    step, arguments = NETWORKS["mlp"]()
    with pytest.warns(RuntimeWarning, match=r"it has no scan .*remora\.jax\.budget"):
        made = rj.checkpoint_loops(step, *arguments, budget="50%")
    assert made.plan.note
    step, arguments = LOOPED["layers"]()
    made = planned(step, arguments, "60%")
    with pytest.raises(remora.InputError, match="planned for float32"):
        made(arguments[0], arguments[1][:4])
    with pytest.raises(remora.InputError):
        rj.checkpoint_loops(step, *arguments, budget="much")


def test_donated_arguments_count_as_they_are_compiled() -> None:
    step, arguments = LOOPED["gpt"]()
    jit = partial(jax.jit, donate_argnums=(0,))
    made = planned(step, arguments, "50%", jit=jit)
    program = compiled(made, arguments, donate_argnums=(0,))
    assert not made.plan.note
    assert temporaries(program) == made.plan.temporaries <= made.plan.budget
    assert program.memory_analysis().alias_size_in_bytes > 0
