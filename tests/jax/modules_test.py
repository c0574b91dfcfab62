# SPDX-License-Identifier: Apache-2.0
"""Random programs, compiled with the pass and without it: equal in every bit. And damaged modules: one clear line each.

``REMORA_ALL_CASES=1`` runs 300 programs, ``REMORA_SEED`` draws others.
"""

from __future__ import annotations

import os
import random
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy
import pytest
from checks import bits, compiled, expect_plan
from jax.extend.xla import PipelineStage, register_hlo_module_transformation

import remora
import remora.jax as rj
from remora.jax import _pass

SEED = int(os.environ.get("REMORA_SEED", "1"))
CASES = 300 if os.environ.get("REMORA_ALL_CASES") == "1" else 40
SEEN: list[bytes] = []


def program(seed: int) -> Any:
    """A function of three matrices: products, loops, conditions, updates in place, and for most its gradient."""
    draw = random.Random(seed)
    size = draw.choice([16, 32, 64])
    choices = [draw.randrange(12) for _ in range(draw.randrange(4, 14))]
    picks = [[draw.random() for _ in range(3)] for _ in choices]

    def run(a: jax.Array, b: jax.Array, c: jax.Array) -> Any:
        values = [a, b, c]
        for kind, pick in zip(choices, picks, strict=True):
            x, y, z = (values[int(p * len(values))] for p in pick)
            if kind == 0:
                made = jnp.tanh(x @ y)
            elif kind == 1:
                made = jnp.sin(x) * y + z
            elif kind == 2:
                made = jax.nn.softmax(x - y)
            elif kind == 3:
                made = jax.lax.fori_loop(0, 3, lambda _, v, y=y: jnp.cos(v @ y) * 0.5, x)
            elif kind == 4:
                made = jax.lax.scan(lambda v, row: (jnp.tanh(v + row), v * row), x[0], y)[1]
            elif kind == 5:
                made = jax.lax.dynamic_update_slice(x, y[:4, :4] * 2, (jnp.int32(2), jnp.int32(3)))
            elif kind == 6:
                made = x.at[jnp.array([1, 3, 5])].add(y[:3])
            elif kind == 7:
                made = jax.lax.cond(x.sum() > 0, lambda u, v: u * v, lambda u, v: jnp.exp(-u * u) + v, x, y)
            elif kind == 8:
                made = jnp.concatenate([x[: size // 2], y[size // 2 :]]).T
            elif kind == 9:
                made = jnp.sort(x, axis=1) + jnp.cumsum(y, axis=0) * 0.01
            elif kind == 10:
                made = jnp.where(x > y, x, z) + jax.random.uniform(jax.random.PRNGKey(seed), x.shape)
            else:
                made = (x - x.mean(0)) / (1 + jnp.abs(y)).sum(1, keepdims=True)
            values.append(made)
        return values[-1], values[-2]

    def loss(a: jax.Array, b: jax.Array, c: jax.Array) -> jax.Array:
        first, second = run(a, b, c)
        return (first * second).sum()

    def both(a: jax.Array, b: jax.Array, c: jax.Array) -> Any:
        return run(a, b, c), jax.grad(loss, argnums=(0, 1))(a, b, c)

    arguments = tuple(
        numpy.random.default_rng(seed + i).standard_normal((size, size)).astype(numpy.float32) for i in range(3)
    )
    return (both if draw.random() < 0.6 else run), arguments


@pytest.mark.parametrize("group", range(10))
def test_random_programs(group: int) -> None:
    for seed in range(SEED * 10_000 + group, SEED * 10_000 + CASES, 10):
        part = random.Random(seed).randrange(45, 95)
        plan = expect_plan(*program(seed), part, f"seed {seed}", limits=remora.Limits(work_limit=200))
        print(seed, part, plan)


def test_what_every_branch_returns_unchanged_is_read_afterwards() -> None:
    """Both branches return an operand, some only for the backward pass: it lies where it lay."""

    def pair(x: jax.Array, y: jax.Array) -> jax.Array:
        made, same = jax.lax.cond(y.sum() > 0, lambda u, v: (u * v, v), lambda u, v: (jnp.tanh(u @ v), v), x, y)
        return (jnp.tanh(made) @ same).sum()

    def saved(x: jax.Array, y: jax.Array) -> jax.Array:
        made = jax.lax.cond(y.sum() > 0, lambda u: jnp.sin(u) * u, lambda u: jnp.tanh(u @ y), x)
        made = made / (1 + jnp.max(jnp.abs(made)))
        return (made * (x + jnp.sort(x, axis=1)) @ y).sum() + (jnp.cumsum(made, axis=0) * x).sum()

    def step(loss: Any, x: jax.Array, y: jax.Array) -> Any:
        value, (dx, dy) = jax.value_and_grad(loss, argnums=(0, 1))(x, y)
        return value, x - 0.1 * dx, y - 0.1 * dy

    arguments = tuple(numpy.random.default_rng(i).standard_normal((64, 64)).astype(numpy.float32) for i in range(2))
    for loss in (pair, saved):
        assert expect_plan(partial(step, loss), arguments, 80, loss.__name__) is not None


def keep(content: bytes) -> None:
    SEEN.append(content)


def seen(seed: int) -> bytes:
    """The module of a program as XLA hands it to passes."""
    if not SEEN:
        register_hlo_module_transformation(keep, name="keep", stage=PipelineStage.POST_SCHEDULER, platforms="cpu")
    function, arguments = program(seed)
    compiled(function, arguments)
    return SEEN[-1]


def test_only_the_module_that_was_planned_is_replaced() -> None:
    one, other = seen(3), seen(12)
    # The number of a compile: field 5, of which the last one counts.
    again = one + b"\x28\x7f"
    assert _pass._Compile(one, b"plan").transform(again) == b"plan"
    assert _pass._Compile(one, b"plan").transform(other) is None
    assert _pass._Compile().transform(one) is None


def test_damaged_modules() -> None:
    whole = seen(3)
    draw = random.Random(SEED)
    refused = 0
    for _ in range(2000):
        damaged = bytearray(whole)
        for _ in range(draw.randrange(1, 6)):
            damaged[draw.randrange(len(damaged))] = draw.randrange(256)
        if draw.random() < 0.3:
            del damaged[draw.randrange(len(damaged)) :]
        try:
            rj.plan_module(bytes(damaged), "100%")
        except remora.InputError as error:
            assert "\n" not in str(error)
            refused += 1
    assert refused > 500


def test_what_cannot_be_read_is_left_with_a_word(monkeypatch: pytest.MonkeyPatch) -> None:
    function, arguments = program(1)
    plain = compiled(function, arguments)
    # Whatever XLA may hand over one day.
    monkeypatch.setattr(_pass._Compile, "transform", lambda self, _: setattr(self, "content", b"\x0a\x01x"))
    with pytest.warns(RuntimeWarning, match="left unchanged"), rj.budget(64) as plans:
        again = compiled(function, arguments)
    assert not plans.all
    assert bits(again(*arguments)) == bits(plain(*arguments))
