# SPDX-License-Identifier: Apache-2.0
"""Training steps with their layers in a `jax.lax.scan`, each also unrolled, and with `jax.checkpoint` of the body."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from networks import KEY, Step, _attention, _blocks, _norm, _normal, _step

WAYS = ("scan", "checkpoint", "unrolled")


def _repeat(body: Callable[..., Any], carry: Any, xs: Any, way: str) -> tuple[Any, Any]:
    """`lax.scan` in one of three ways."""
    if way == "unrolled":
        ys = []
        for i in range(len(jax.tree.leaves(xs)[0])):
            carry, y = body(carry, jax.tree.map(lambda x, i=i: x[i], xs))
            ys.append(y)
        return carry, jax.tree.map(lambda *parts: jnp.stack(parts), *ys)
    if way == "checkpoint":
        body = jax.checkpoint(body, prevent_cse=False)
    return jax.lax.scan(body, carry, xs)


def layers(way: str = "scan") -> tuple[Step, tuple[Any, ...]]:
    """Twelve gated layers: value and gradient."""

    def body(x: jax.Array, w: jax.Array) -> tuple[jax.Array, None]:
        return jnp.tanh(x @ w[0]) * jax.nn.sigmoid(x @ w[1]) + x, None

    def loss(weights: jax.Array, x: jax.Array) -> jax.Array:
        return jnp.mean(_repeat(body, x, weights, way)[0] ** 2)

    return jax.value_and_grad(loss), (_normal(12, 2, 64, 64, scale=0.1), _normal(512, 64, number=1))


def _stacked(blocks: list[dict[str, jax.Array]]) -> dict[str, jax.Array]:
    return {name: jnp.stack([block[name] for block in blocks]) for name in blocks[0]}


def _gpt_loss(way: str) -> Callable[..., jax.Array]:
    def body(x: jax.Array, block: dict[str, jax.Array]) -> tuple[jax.Array, None]:
        x = _attention(x, block, 4, True)
        return x + jax.nn.gelu(_norm(x) @ block["up"]) @ block["down"], None

    def loss(parameters: Any, tokens: jax.Array) -> jax.Array:
        x = parameters["embedding"][tokens[:, :-1]]
        x, _ = _repeat(body, x, parameters["blocks"], way)
        logits = jax.nn.log_softmax(_norm(x) @ parameters["embedding"].T)
        return -jnp.take_along_axis(logits, tokens[:, 1:, None], axis=-1).mean()

    return loss


def gpt(way: str = "scan") -> tuple[Step, tuple[Any, ...]]:
    """A GPT of eight blocks, with gradient descent."""
    parameters = {"embedding": _normal(96, 64, scale=0.1), "blocks": _stacked(_blocks(64, 8))}
    return _step(_gpt_loss(way)), (parameters, jax.random.randint(KEY, (4, 49), 0, 96))


def module(way: str = "scan") -> tuple[Step, tuple[Any, ...]]:
    """What Flax's ``nn.scan`` makes of a block: stacked variables, split keys for dropout, broadcast inputs, and ys."""

    def block(carry: Any, x: Any, mask: jax.Array) -> tuple[Any, Any]:
        variables, key = x
        hidden, depth = carry
        made = jax.nn.gelu(_norm(hidden) @ variables["up"] + variables["bias"])
        made = jnp.where(jax.random.bernoulli(key, 0.9, made.shape), made / 0.9, 0.0) @ variables["down"]
        hidden = hidden + made * mask
        return (hidden, depth + 1), {"intermediates": (hidden**2).mean()}

    def loss(variables: Any, x: jax.Array, mask: jax.Array, key: jax.Array) -> jax.Array:
        count = variables["layers"]["bias"].shape[0]
        xs = (variables["layers"], jax.random.split(key, count))
        (hidden, depth), sown = _repeat(lambda c, x: block(c, x, mask), (x, jnp.int32(0)), xs, way)
        return ((hidden @ variables["head"]) ** 2).mean() / depth + 0.01 * sown["intermediates"].sum()

    variables = {
        "layers": {
            "up": _normal(10, 48, 192, scale=0.1),
            "bias": _normal(10, 192, scale=0.1, number=1),
            "down": _normal(10, 192, 48, scale=0.1, number=2),
        },
        "head": _normal(48, 8, number=3),
    }
    mask = (jnp.arange(256) % 7 > 0).astype(jnp.float32)[:, None]
    return _step(loss), (variables, _normal(256, 48, number=4), mask, jax.random.key(5))


def accumulation(way: str = "scan") -> tuple[Step, tuple[Any, ...]]:
    """Gradients of four microbatches, added up by a scan, for a GPT of six blocks."""
    loss = _gpt_loss(way)

    def step(parameters: Any, batches: jax.Array) -> tuple[jax.Array, Any]:
        def add(total: Any, tokens: jax.Array) -> tuple[Any, jax.Array]:
            value, gradients = jax.value_and_grad(loss)(parameters, tokens)
            return jax.tree.map(jnp.add, total, gradients), value

        total, values = jax.lax.scan(add, jax.tree.map(jnp.zeros_like, parameters), batches)
        return values.mean(), jax.tree.map(lambda p, g: p - 0.01 / 4 * g, parameters, total)

    parameters = {"embedding": _normal(96, 64, scale=0.1), "blocks": _stacked(_blocks(64, 6))}
    return step, (parameters, jax.random.randint(KEY, (4, 4, 49), 0, 96))


LOOPED: dict[str, Callable[..., tuple[Step, tuple[Any, ...]]]] = {
    "layers": layers,
    "gpt": gpt,
    "module": module,
    "accumulation": accumulation,
}
