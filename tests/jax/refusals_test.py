# SPDX-License-Identifier: Apache-2.0
"""What is said of modules that no plan fits: arrays and lines by name, and nothing that is not so."""

from __future__ import annotations

import re
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from checks import compiled, planned, temporaries

import remora.jax as rj

ROWS, WIDTH, WORDS, PARTS = 512, 32, 2048, 8
LOGITS = 4 * ROWS * WORDS


def _nll(hidden: jax.Array, w: jax.Array, target: jax.Array) -> jax.Array:
    logits = hidden @ w
    return jax.nn.logsumexp(logits, axis=-1) - jnp.take_along_axis(logits, target[:, None], 1)[:, 0]


def plain(w: jax.Array, x: jax.Array, y: jax.Array) -> jax.Array:
    return jnp.mean(_nll(x, w, y))


def half(w: jax.Array, x: jax.Array, y: jax.Array) -> jax.Array:
    return jnp.mean(_nll(x.astype(jnp.bfloat16), w.astype(jnp.bfloat16), y).astype(jnp.float32))


def _parts(x: jax.Array, y: jax.Array) -> tuple[jax.Array, jax.Array]:
    return x.reshape(PARTS, -1, WIDTH), y.reshape(PARTS, -1)


def scanned(w: jax.Array, x: jax.Array, y: jax.Array) -> jax.Array:
    body = jax.checkpoint(lambda total, part: (total + _nll(part[0], w, part[1]).sum(), None))
    return jax.lax.scan(body, jnp.zeros(()), _parts(x, y))[0] / ROWS


def mapped(w: jax.Array, x: jax.Array, y: jax.Array) -> jax.Array:
    return jax.lax.map(jax.checkpoint(lambda part: _nll(part[0], w, part[1]).sum()), _parts(x, y)).sum() / ROWS


def refused(loss: Any, part: int) -> tuple[rj.Plan, str]:
    """The plan of the gradient at a part of the temporaries (%), and its warning."""
    arguments = (
        jax.random.normal(jax.random.PRNGKey(1), (WIDTH, WORDS)) * 0.1,
        jax.random.normal(jax.random.PRNGKey(0), (ROWS, WIDTH)),
        jax.random.randint(jax.random.PRNGKey(2), (ROWS,), 0, WORDS),
    )
    step = jax.value_and_grad(loss, argnums=(0, 1))
    whole = temporaries(compiled(step, arguments))
    _, plans, told = planned(step, arguments, whole * part // 100)
    (said,) = [one for one in told if "left unchanged" in one]
    plan = max(plans, key=lambda one: one.before)
    assert plan.before == whole
    return plan, said


@pytest.mark.parametrize("part", [90, 50])
def test_the_largest_arrays_are_named(part: int) -> None:
    plan, said = refused(plain, part)
    assert plan.least > LOGITS
    assert plan.bound is None
    array = r"\S+ \S*refusals_test\.py:\d+ \(4\.00 MiB\)"
    named = f"the largest arrays at its peak are those of {array} and {array}$"
    assert re.search(named, said), said


@pytest.mark.parametrize("part", [70, 50])
def test_an_instruction_alone_takes_no_more_than_the_minimum(part: int) -> None:
    plan, said = refused(half, part)
    alone = re.search(r"one instruction .* takes ([\d.]+) MiB at once", said)
    assert alone is None or float(alone[1]) * 2**20 <= plan.least * 1.01, said
    assert "refusals_test.py:" in said


def test_one_instruction_that_is_too_large_is_for_slices_in_the_program() -> None:
    x, w = jnp.ones((2048, 64)), jnp.ones((64, 8192))

    def part(rows: jax.Array, w: jax.Array) -> jax.Array:
        return jax.nn.logsumexp(rows @ w, axis=-1).sum()

    def sliced(x: jax.Array, w: jax.Array) -> jax.Array:
        return jax.lax.map(jax.checkpoint(lambda rows: part(rows, w)), x.reshape(8, -1, 64)).sum()

    told = "by jax.lax.map of a jax.checkpoint over parts of its rows"
    with pytest.warns(RuntimeWarning, match=told), rj.budget("50%") as plans:
        whole = jax.jit(jax.value_and_grad(part, argnums=(0, 1)))(x, w)
    loop = jax.jit(jax.value_and_grad(sliced, argnums=(0, 1))).lower(x, w).compile()
    assert loop.memory_analysis().temp_size_in_bytes <= plans.largest.budget
    for a, b in zip(jax.tree.leaves(whole), jax.tree.leaves(loop(x, w)), strict=True):
        assert jnp.allclose(a, b, rtol=1e-5)


@pytest.mark.parametrize("loss", [scanned, mapped])
def test_a_body_with_jax_checkpoint_is_not_told_to_have_it(loss: Any) -> None:
    _, said = refused(loss, 50)
    assert "whose body jax.checkpoint recomputes already: divide its work into smaller iterations" in said
    assert "give its body" not in said


def test_a_body_without_is_told_to_have_it() -> None:
    def loop(w: jax.Array, x: jax.Array, y: jax.Array) -> jax.Array:
        def body(i: jax.Array, x: jax.Array) -> jax.Array:
            return jnp.tanh(jnp.tanh(x @ w) @ w.T + i)

        return jax.lax.fori_loop(0, y[0] + 1, body, x).sum()

    arguments = jnp.ones((WIDTH, WORDS)), jnp.ones((ROWS, WIDTH)), jnp.ones((1,), jnp.int32)
    whole = temporaries(compiled(loop, arguments))
    _, _, told = planned(loop, arguments, whole // 2)
    assert any("give its body jax.checkpoint" in one for one in told), told
