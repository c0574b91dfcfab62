# SPDX-License-Identifier: Apache-2.0
"""Training steps with their layers in a `jax.lax.scan`, each also unrolled, and with `jax.checkpoint` of the body."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy
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


def backwards() -> tuple[Step, tuple[Any, ...]]:
    """Layers from the last to the first, with an output of each, and a number that counts them."""

    def loss(weights: Any, x: jax.Array) -> jax.Array:
        def layer(state: Any, w: jax.Array) -> Any:
            x, at = state
            x = jnp.sin(x @ w) + jax.nn.softmax(x) * at
            return (x, at + 0.5), x.mean(0)

        (x, _), rows = jax.lax.scan(layer, (x, jnp.float32(1)), weights, reverse=True)
        return jnp.mean(x**2) + rows.sum()

    return _step(loss), (_normal(9, 64, 64, scale=0.1), _normal(256, 64, number=1))


def random_loop(seed: int) -> tuple[Any, Any]:
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
