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
import jax.numpy as jnp
import numpy
import pytest
from looped import LOOPED
from networks import NETWORKS

import remora
import remora.jax as rj

SEED = int(os.environ.get("REMORA_SEED", "1"))
CASES = 200 if os.environ.get("REMORA_ALL_CASES") == "1" else 10


def bits(values: Any) -> list[bytes]:
    return [numpy.asarray(value).tobytes() for value in jax.tree.leaves(values)]


def temporaries(program: Any) -> int:
    return int(program.memory_analysis().temp_size_in_bytes)


def compiled(step: Any, arguments: Any, **words: Any) -> Any:
    return jax.jit(lambda *given: step(*given), **words).lower(*arguments).compile()


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
    with pytest.warns(RuntimeWarning, match="the minimum that was found is"):
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


def loop(seed: int) -> tuple[Any, Any]:
    """Value and gradient of a random loop: lengths, directions, several carries, ys that are used, constants."""
    draw = random.Random(seed)
    length, width, rows = draw.choice([1, 2, 5, 7, 12]), draw.choice([8, 16, 24]), draw.choice([64, 128])
    reverse, unroll = draw.random() < 0.4, draw.choice([1, 1, 2])
    kinds = [draw.randrange(7) for _ in range(draw.randrange(2, 7))]
    nested = draw.random() < 0.2

    def body(shared: jax.Array, carry: Any, x: Any) -> tuple[Any, Any]:
        hidden, count = carry
        w, number = x
        first = hidden
        for kind in kinds:
            if kind == 0:
                hidden = jnp.tanh(hidden @ w)
            elif kind == 1:
                hidden = jax.nn.sigmoid(hidden) * first
            elif kind == 2:
                hidden = jax.nn.softmax(hidden + number)
            elif kind == 3:
                hidden = (hidden - hidden.mean(-1, keepdims=True)) * jax.lax.rsqrt(hidden.var(-1, keepdims=True) + 1.0)
            elif kind == 4:
                hidden = jax.nn.gelu(hidden @ shared) + first
            elif kind == 5:
                hidden = jnp.where(count % 2 == 0, jnp.sin(hidden), hidden)
            else:
                hidden = jax.nn.relu(hidden @ w.T)
        return (hidden, count + 1), (hidden[0], count)

    def loss(ws: jax.Array, shared: jax.Array, x: jax.Array) -> jax.Array:
        numbers = jnp.arange(length, dtype=jnp.float32)

        def scanned(x: jax.Array) -> tuple[jax.Array, jax.Array]:
            (last, _), (rows_out, counts) = jax.lax.scan(
                partial(body, shared), (x, jnp.int32(0)), (ws, numbers), reverse=reverse, unroll=unroll
            )
            return last, (rows_out * counts[:, None]).sum()

        if not nested:
            last, extra = scanned(x)
            return (last**2).mean() + 0.01 * extra

        def outer(x: jax.Array, _: None) -> tuple[jax.Array, jax.Array]:
            last, extra = jax.checkpoint(scanned)(x)
            return last, extra

        last, extra = jax.lax.scan(outer, x, None, length=2)
        return (last**2).mean() + 0.01 * extra.sum()

    values = numpy.random.default_rng(seed)
    arguments = tuple(
        (scale * values.standard_normal(shape)).astype(numpy.float32)
        for scale, shape in ((0.3, (length, width, width)), (0.3, (width, width)), (1.0, (rows, width)))
    )
    return jax.value_and_grad(loss, argnums=(0, 1, 2)), arguments


@pytest.mark.parametrize("group", range(10))
def test_random_loops(group: int) -> None:
    for seed in range(SEED * 10_000 + group, SEED * 10_000 + CASES, 10):
        step, arguments = loop(seed)
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
