# SPDX-License-Identifier: Apache-2.0
"""Policies by names: what is saved holds the budget, no other choice of names is less work, gradients stay equal."""

from __future__ import annotations

from itertools import combinations, pairwise
from typing import Any

import jax
import jax.numpy as jnp
import numpy
import pytest
from jax._src.ad_checkpoint import saved_residuals
from jax.ad_checkpoint import checkpoint_name

import remora
import remora.jax as rj

WIDTHS = (32, 64, 16, 128, 48, 32)
NAMES = tuple(f"layer{i}" for i in range(5))
WEIGHTS = [0.2 * jax.random.normal(jax.random.PRNGKey(i), shape) for i, shape in enumerate(pairwise(WIDTHS))]
X = jax.random.normal(jax.random.PRNGKey(9), (256, WIDTHS[0]))


def layers(names: tuple[str, ...]) -> Any:
    def run(weights: Any, x: jax.Array) -> jax.Array:
        for name, w in zip(names, weights, strict=True):
            x = jnp.tanh(checkpoint_name(x @ w, name))
        return (x * x).sum()

    return run


def saved_bytes(function: Any, policy: Any) -> int:
    residuals = saved_residuals(jax.checkpoint(function, policy=policy), WEIGHTS, X)
    return sum(aval.size * aval.dtype.itemsize for aval, source in residuals if "argument" not in source)


def work(function: Any, policy: Any) -> float:
    """FLOPs of value and gradient before XLA changes anything, what runs again included."""
    step = jax.jit(jax.value_and_grad(jax.checkpoint(function, policy=policy)))
    return float(step.lower(WEIGHTS, X).cost_analysis()["flops"])


@pytest.mark.parametrize("names", [NAMES, ("a", "b", "a", "b", "a")])
def test_no_other_choice_of_names_is_less_work(names: tuple[str, ...]) -> None:
    function = layers(names)
    # By set of names: bytes and work.
    every = {
        chosen: jax.checkpoint_policies.save_only_these_names(*chosen)
        for count in range(len(set(names)) + 1)
        for chosen in combinations(sorted(set(names)), count)
    }
    known = {chosen: (saved_bytes(function, one), work(function, one)) for chosen, one in every.items()}
    assert len({flops for _, flops in known.values()}) > 2
    expected = jax.grad(function)(WEIGHTS, X)
    for budget in (0, 20_000, 70_000, 150_000, 200_000, 300_000, 1 << 20):
        policy = rj.policy(function, WEIGHTS, X, budget=budget)
        taken = saved_bytes(function, policy)
        flops = work(function, policy)
        print(budget, taken, flops)
        assert taken <= budget
        assert flops == min(other for size, other in known.values() if size <= budget)
    gradients = jax.grad(jax.checkpoint(function, policy=rj.policy(function, WEIGHTS, X, budget="40%")))(WEIGHTS, X)
    for one, other in zip(gradients, expected, strict=True):
        numpy.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


def test_a_part_is_of_what_is_saved_without_checkpoint() -> None:
    function = layers(NAMES)
    whole = saved_bytes(function, jax.checkpoint_policies.everything_saveable)
    for part in (0, 25, 50, 100):
        assert saved_bytes(function, rj.policy(function, WEIGHTS, X, budget=f"{part}%")) <= whole * part // 100


def test_a_body_counts_as_often_as_its_loop_runs() -> None:
    def body(x: jax.Array, w: jax.Array) -> tuple[jax.Array, None]:
        first = jnp.tanh(checkpoint_name(x @ w, "first"))
        return jnp.sin(checkpoint_name(first @ w, "second")) + x, None

    length, weights = 6, 0.1 * jax.random.normal(jax.random.PRNGKey(3), (6, 32, 32))
    one = X.size * X.dtype.itemsize

    def saved(budget: Any, **words: Any) -> int:
        policy = rj.policy(lambda x, w: body(x, w)[0], X, weights[0], budget=budget, **words)

        def loss(x: jax.Array, weights: jax.Array) -> jax.Array:
            return jax.lax.scan(jax.checkpoint(body, policy=policy), x, weights)[0].sum()

        # Of the forward loop's stacks: what is saved beyond its inputs.
        jaxpr = jax.make_jaxpr(jax.grad(loss, (0, 1)))(X, weights)
        (forward, _) = (eqn for eqn in jaxpr.eqns if eqn.primitive.name == "scan")
        return sum(var.aval.shape == (length, *X.shape) for var in forward.outvars) - 1

    assert [saved(part * one, length=length) for part in (0, 6, 11, 12)] == [0, 1, 1, 2]
    assert [saved(part * one) for part in (0, 1, 2)] == [0, 1, 2]
    assert saved("0%", length=length) == 0
    with pytest.raises(remora.InputError, match="length"):
        saved("50%", length=0)


def test_calls_are_opened_and_shapes_will_do() -> None:
    inner = jax.jit(layers(NAMES))
    shapes = jax.tree.map(lambda one: jax.ShapeDtypeStruct(one.shape, one.dtype), (WEIGHTS, X))
    policy = rj.policy(lambda *given: inner(*given), *shapes, budget="60%")
    assert 0 < saved_bytes(layers(NAMES), policy) <= saved_bytes(layers(NAMES), rj.policy(inner, *shapes, budget="60%"))


def test_what_cannot_be_chosen_is_refused() -> None:
    def scanned(x: jax.Array) -> jax.Array:
        return jax.lax.scan(lambda c, _: (jnp.sin(checkpoint_name(c, "c")), None), x, None, length=3)[0].sum()

    with pytest.raises(remora.InputError, match="names nothing"):
        rj.policy(lambda x: jnp.sin(x).sum(), X, budget="50%")
    with pytest.raises(remora.InputError, match="inside scan"):
        rj.policy(scanned, X, budget="50%")
    with pytest.raises(remora.InputError):
        rj.policy(layers(NAMES), WEIGHTS, X, budget="much")
