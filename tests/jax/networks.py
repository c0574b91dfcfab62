# SPDX-License-Identifier: Apache-2.0
"""Small training steps as plain JAX: a function of parameters and data, and the arguments to compile it for.

Each step gives the loss and new parameters (gradient descent), as trainers do.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import jax
import jax.numpy as jnp

Step = Callable[..., Any]
KEY = jax.random.PRNGKey(7)


def _normal(*shape: int, scale: float = 1.0, number: int = 0) -> jax.Array:
    return scale * jax.random.normal(jax.random.fold_in(KEY, number), shape)


def _step(loss: Callable[..., jax.Array]) -> Step:
    def step(parameters: Any, *data: Any) -> tuple[jax.Array, Any]:
        value, gradients = jax.value_and_grad(loss)(parameters, *data)
        return value, jax.tree.map(lambda p, g: p - 0.01 * g, parameters, gradients)

    return step


def _norm(x: jax.Array) -> jax.Array:
    return (x - x.mean(-1, keepdims=True)) * jax.lax.rsqrt(x.var(-1, keepdims=True) + 1e-5)


def mlp() -> tuple[Step, tuple[Any, ...]]:
    def loss(weights: list[jax.Array], x: jax.Array) -> jax.Array:
        for w in weights:
            x = jnp.tanh(x @ w) ** 2
        return jnp.mean(x)

    return _step(loss), ([_normal(64, 64, scale=0.2, number=i) for i in range(10)], _normal(512, 64))


def _attention(x: jax.Array, block: dict[str, jax.Array], heads: int, causal: bool) -> jax.Array:
    batch, length, width = x.shape
    q, k, v = (
        part.reshape(batch, length, heads, width // heads) for part in jnp.split(_norm(x) @ block["qkv"], 3, axis=-1)
    )
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / (width // heads) ** 0.5
    if causal:
        scores = jnp.where(jnp.tril(jnp.ones((length, length), bool)), scores, -1e9)
    mixed = jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores), v).reshape(batch, length, width)
    return x + mixed @ block["out"]


def _blocks(width: int, depth: int) -> list[dict[str, jax.Array]]:
    return [
        {
            "qkv": _normal(width, 3 * width, scale=0.1, number=10 * i),
            "out": _normal(width, width, scale=0.1, number=10 * i + 1),
            "up": _normal(width, 4 * width, scale=0.1, number=10 * i + 2),
            "down": _normal(4 * width, width, scale=0.1, number=10 * i + 3),
        }
        for i in range(depth)
    ]


def gpt() -> tuple[Step, tuple[Any, ...]]:
    def loss(parameters: Any, tokens: jax.Array) -> jax.Array:
        x = parameters["embedding"][tokens[:, :-1]]
        for block in parameters["blocks"]:
            x = _attention(x, block, 4, True)
            x = x + jax.nn.gelu(_norm(x) @ block["up"]) @ block["down"]
        logits = jax.nn.log_softmax(_norm(x) @ parameters["embedding"].T)
        return -jnp.take_along_axis(logits, tokens[:, 1:, None], axis=-1).mean()

    parameters = {"embedding": _normal(96, 64, scale=0.1), "blocks": _blocks(64, 3)}
    return _step(loss), (parameters, jax.random.randint(KEY, (4, 49), 0, 96))


def vit() -> tuple[Step, tuple[Any, ...]]:
    def loss(parameters: Any, images: jax.Array, labels: jax.Array) -> jax.Array:
        batch = images.shape[0]
        patches = images.reshape(batch, 8, 4, 8, 4, 3).transpose(0, 1, 3, 2, 4, 5).reshape(batch, 64, 48)
        x = patches @ parameters["patch"]
        for block in parameters["blocks"]:
            x = _attention(x, block, 4, False)
            x = x + jax.nn.gelu(_norm(x) @ block["up"]) @ block["down"]
        logits = jax.nn.log_softmax(x.mean(1) @ parameters["head"])
        return -jnp.take_along_axis(logits, labels[:, None], axis=-1).mean()

    parameters = {"patch": _normal(48, 32, scale=0.1), "blocks": _blocks(32, 3), "head": _normal(32, 10, number=5)}
    return _step(loss), (parameters, _normal(4, 32, 32, 3), jax.random.randint(KEY, (4,), 0, 10))


def _conv(x: jax.Array, w: jax.Array, stride: int = 1) -> jax.Array:
    return jax.lax.conv_general_dilated(x, w, (stride, stride), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))


def _batch_norm(x: jax.Array) -> jax.Array:
    return (x - x.mean((0, 1, 2))) * jax.lax.rsqrt(x.var((0, 1, 2)) + 1e-5)


def resnet() -> tuple[Step, tuple[Any, ...]]:
    def loss(parameters: Any, x: jax.Array, labels: jax.Array) -> jax.Array:
        x = _conv(x, parameters["stem"])
        for first, second in parameters["blocks"]:
            x = x + _batch_norm(_conv(jax.nn.relu(_batch_norm(_conv(x, first))), second))
        logits = jax.nn.log_softmax(x.mean((1, 2)) @ parameters["head"])
        return -jnp.take_along_axis(logits, labels[:, None], axis=-1).mean()

    blocks = [
        (_normal(3, 3, 16, 16, scale=0.1, number=2 * i), _normal(3, 3, 16, 16, scale=0.1, number=2 * i + 1))
        for i in range(3)
    ]
    parameters = {"stem": _normal(3, 3, 3, 16, scale=0.2), "blocks": blocks, "head": _normal(16, 10, number=99)}
    return _step(loss), (parameters, _normal(4, 16, 16, 3), jax.random.randint(KEY, (4,), 0, 10))


def unet() -> tuple[Step, tuple[Any, ...]]:
    def loss(parameters: Any, x: jax.Array, target: jax.Array) -> jax.Array:
        skips = []
        for w in parameters["down"]:
            x = jax.nn.relu(_conv(x, w))
            skips.append(x)
            x = jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
        for w, skip in zip(parameters["up"], reversed(skips), strict=True):
            x = jnp.repeat(jnp.repeat(x, 2, axis=1), 2, axis=2)
            x = jax.nn.relu(_conv(jnp.concatenate([x, skip], -1), w))
        return jnp.mean((_conv(x, parameters["head"]) - target) ** 2)

    widths = [3, 8, 16, 32]
    parameters = {
        "down": [_normal(3, 3, a, b, scale=0.1, number=a) for a, b in pairwise(widths)],
        "up": [
            _normal(3, 3, 64, 16, scale=0.1, number=40),
            _normal(3, 3, 32, 8, scale=0.1, number=41),
            _normal(3, 3, 16, 8, scale=0.1, number=42),
        ],
        "head": _normal(1, 1, 8, 1, scale=0.1),
    }
    return _step(loss), (parameters, _normal(2, 32, 32, 3), _normal(2, 32, 32, 1, number=3))


def lstm() -> tuple[Step, tuple[Any, ...]]:
    def loss(parameters: Any, x: jax.Array) -> jax.Array:
        for layer in parameters:

            def cell(state: Any, at: jax.Array, layer: Any = layer) -> Any:
                hidden, memory = state
                i, f, g, o = jnp.split(at @ layer["x"] + hidden @ layer["h"], 4, axis=-1)
                memory = jax.nn.sigmoid(f) * memory + jax.nn.sigmoid(i) * jnp.tanh(g)
                hidden = jax.nn.sigmoid(o) * jnp.tanh(memory)
                return (hidden, memory), hidden

            zero = jnp.zeros((x.shape[1], 32))
            x = jnp.tanh(jax.lax.scan(cell, (zero, zero), x)[1])
        return jnp.mean(x**2)

    layers = [
        {"x": _normal(32, 128, scale=0.1, number=2 * i), "h": _normal(32, 128, scale=0.1, number=2 * i + 1)}
        for i in range(3)
    ]
    return _step(loss), (layers, _normal(24, 16, 32))


def moe() -> tuple[Step, tuple[Any, ...]]:
    def loss(parameters: Any, x: jax.Array) -> jax.Array:
        for layer in parameters:
            weights, chosen = jax.lax.top_k(jax.nn.softmax(_norm(x) @ layer["gate"]), 2)
            mask = (jax.nn.one_hot(chosen, 4) * weights[..., None]).sum(1)
            inner = jax.nn.gelu(jnp.einsum("td,edf->tef", x, layer["up"]))
            x = x + jnp.einsum("tef,efd,te->td", inner, layer["down"], mask)
        return jnp.mean(x**2)

    layers = [
        {
            "gate": _normal(32, 4, number=3 * i),
            "up": _normal(4, 32, 64, scale=0.1, number=3 * i + 1),
            "down": _normal(4, 64, 32, scale=0.1, number=3 * i + 2),
        }
        for i in range(3)
    ]
    return _step(loss), (layers, _normal(128, 32))


def mixer() -> tuple[Step, tuple[Any, ...]]:
    def loss(parameters: Any, x: jax.Array, labels: jax.Array) -> jax.Array:
        for layer in parameters["layers"]:
            x = x + (jax.nn.gelu(_norm(x).swapaxes(1, 2) @ layer["in"]) @ layer["out"]).swapaxes(1, 2)
            x = x + jax.nn.gelu(_norm(x) @ layer["up"]) @ layer["down"]
        logits = jax.nn.log_softmax(x.mean(1) @ parameters["head"])
        return -jnp.take_along_axis(logits, labels[:, None], axis=-1).mean()

    layers = [
        {
            "in": _normal(64, 64, scale=0.1, number=4 * i),
            "out": _normal(64, 64, scale=0.1, number=4 * i + 1),
            "up": _normal(32, 128, scale=0.1, number=4 * i + 2),
            "down": _normal(128, 32, scale=0.1, number=4 * i + 3),
        }
        for i in range(3)
    ]
    parameters = {"layers": layers, "head": _normal(32, 10, number=99)}
    return _step(loss), (parameters, _normal(4, 64, 32), jax.random.randint(KEY, (4,), 0, 10))


NETWORKS: dict[str, Callable[[], tuple[Step, tuple[Any, ...]]]] = {
    "mlp": mlp,
    "gpt": gpt,
    "resnet": resnet,
    "vit": vit,
    "unet": unet,
    "lstm": lstm,
    "moe": moe,
    "mixer": mixer,
}
