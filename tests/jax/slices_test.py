# SPDX-License-Identifier: Apache-2.0
"""Modules in slices: XLA's own figure is within the budget, and results are those of the module up to rounding.

``REMORA_ALL_CASES=1`` runs 100 random programs, ``REMORA_SEED`` draws others.
"""

from __future__ import annotations

import os
import random
from typing import Any

import jax
import jax.numpy as jnp
import numpy
import pytest
from checks import compiled, planned, temporaries
from jaxlib._hlo import hlo_module_from_text
from networks import NETWORKS

import remora
import remora.jax as rj
from remora.graph import Graph, made_graph
from remora.jax import _pass, _slices
from remora.jax._planning import CPU, read_module
from remora.schedule import schedule_core_of

SEED = int(os.environ.get("REMORA_SEED", "1"))
CASES = 100 if os.environ.get("REMORA_ALL_CASES") == "1" else 15


def normal(*shape: int, seed: int = 0) -> numpy.ndarray[Any, Any]:
    return numpy.random.default_rng(seed).standard_normal(shape).astype(numpy.float32)


def expect_close(one: Any, other: Any, name: str = "") -> None:
    """Up to the rounding of sums over some hundred terms."""
    for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True):
        a, b = numpy.asarray(a), numpy.asarray(b)
        assert a.shape == b.shape and a.dtype == b.dtype, name
        scale = numpy.max(numpy.abs(a), initial=1e-6)
        numpy.testing.assert_allclose(a, b, rtol=1e-4, atol=2e-5 * scale, err_msg=name)


def expect_slices(step: Any, arguments: tuple[Any, ...], part: int) -> rj.Plan:
    """Within so many percent of the temporaries, in slices."""
    plain = compiled(step, arguments)
    budget = temporaries(plain) * part // 100
    program, plans, told = planned(step, arguments, budget, slices="auto")
    plan = max(plans, key=lambda one: one.before)
    print(plan, told)
    assert not plan.note
    assert plan.slices > 1
    assert temporaries(program) == plan.temporaries <= budget
    assert f"in {plan.slices} slices" in str(plan)
    expect_close(program(*arguments), plain(*arguments))
    return plan


def log_sum(x: jax.Array, w: jax.Array) -> jax.Array:
    return jnp.sum(jax.nn.logsumexp(x @ w, axis=-1))


def test_a_loss_over_a_large_product() -> None:
    step = jax.value_and_grad(log_sum, argnums=(0, 1))
    arguments = normal(2048, 64), normal(64, 8192, seed=1)
    program, plans, _ = planned(step, arguments, "50%")
    assert 'slices="auto"' in plans[0].note
    assert temporaries(program) == plans[0].before
    expect_slices(step, arguments, 50)


def test_less_than_an_eighth() -> None:
    step = jax.value_and_grad(log_sum, argnums=(0, 1))
    expect_slices(step, (normal(512, 32), normal(32, 2048, seed=1)), 20)


def test_an_mlp_over_its_rows() -> None:
    def loss(x: jax.Array, first: jax.Array, second: jax.Array) -> jax.Array:
        return jnp.mean((jax.nn.gelu(x @ first) @ second) ** 2)

    arguments = normal(1024, 64), normal(64, 1024, seed=1) * 0.1, normal(1024, 64, seed=2) * 0.1
    expect_slices(jax.value_and_grad(loss, argnums=(1, 2)), arguments, 50)


def test_attention_over_its_heads() -> None:
    def attention(x: jax.Array, q: jax.Array, k: jax.Array, v: jax.Array) -> jax.Array:
        heads = [jnp.einsum("btd,dhe->bhte", x, weights) for weights in (q, k, v)]
        scores = jnp.einsum("bhte,bhse->bhts", heads[0], heads[1]) / 4
        return jnp.einsum("bhts,bhse->bhte", jax.nn.softmax(scores), heads[2])

    weights = tuple(normal(64, 8, 16, seed=seed) * 0.1 for seed in range(3))
    expect_slices(attention, (normal(2, 256, 64, seed=3), *weights), 50)


def test_convolutions_over_their_images() -> None:
    def loss(x: jax.Array, *kernels: jax.Array) -> jax.Array:
        for kernel in kernels:
            x = jax.nn.relu(
                jax.lax.conv_general_dilated(x, kernel, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
            )
        return jnp.mean(x**2)

    kernels = normal(3, 3, 3, 32, seed=1) * 0.2, normal(3, 3, 32, 4, seed=2) * 0.2
    expect_slices(jax.value_and_grad(loss, argnums=(1, 2)), (normal(16, 32, 32, 3), *kernels), 60)


def test_nothing_is_in_slices_where_that_is_not_asked_or_needed() -> None:
    step = jax.value_and_grad(log_sum, argnums=(0, 1))
    arguments = normal(512, 32), normal(32, 2048, seed=1)
    _, plans, _ = planned(step, arguments, "50%")
    assert plans[0].slices == 1
    _, plans, _ = planned(step, arguments, "100%", slices="auto")
    assert plans[0].slices == 1


def test_what_has_no_slices_is_named() -> None:
    def step(x: jax.Array) -> jax.Array:
        return jnp.sum(jnp.sort(jnp.tanh(x)) * x)

    arguments = (normal(1 << 18),)
    plain = compiled(step, arguments)
    program, plans, told = planned(step, arguments, temporaries(plain) // 4, slices="auto")
    assert temporaries(program) == temporaries(plain)
    assert "slices" in plans[-1].note
    assert "sort" in plans[-1].note
    assert len(told) == 1


@pytest.mark.parametrize("name", ["mlp", "gpt", "vit"])
def test_training_steps(name: str) -> None:
    """Within the budget or left as they are; never more memory than without slices."""
    step, arguments = NETWORKS[name]()
    plain = compiled(step, arguments)
    whole = temporaries(plain)
    program, plans, _ = planned(step, arguments, whole * 30 // 100, slices="auto")
    plan = max(plans, key=lambda one: one.before)
    print(name, plan)
    assert temporaries(program) == (whole if plan.note else plan.temporaries)
    assert plan.note or plan.temporaries <= plan.budget
    expect_close(program(*arguments), plain(*arguments), name)


def test_words_that_mean_nothing() -> None:
    with pytest.raises(remora.InputError, match="slices: must be 'auto' or None"):
        rj.install("50%", slices="all")  # type: ignore[arg-type]


def drawn(seed: int) -> tuple[Any, tuple[Any, ...]]:
    """A function of matrices: products, rows, sums, reshapes, and for most its gradient."""
    draw = random.Random(seed)
    rows, columns = draw.choice([(48, 32), (64, 64), (96, 40)])
    kinds = [(draw.randrange(10), draw.random(), draw.random()) for _ in range(draw.randrange(3, 9))]

    def run(a: jax.Array, b: jax.Array, w: jax.Array) -> jax.Array:
        values = [a, b]
        for kind, p, q in kinds:
            x, y = values[int(p * len(values))], values[int(q * len(values))]
            if kind == 0:
                made = jnp.tanh(x @ w)
            elif kind == 1:
                made = jnp.sin(x) * y + x
            elif kind == 2:
                made = jax.nn.softmax(x - y)
            elif kind == 3:
                made = jax.nn.softmax(x @ y.T / 8) @ y
            elif kind == 4:
                made = (x - x.mean(0)) / (1 + jnp.abs(y)).sum(1, keepdims=True)
            elif kind == 5:
                made = jnp.reshape(jnp.reshape(x, (4, -1, columns)) * 2, x.shape)
            elif kind == 6:
                made = jnp.where(x > y, x, jnp.roll(y, 3, axis=1))
            elif kind == 7:
                made = jnp.transpose(jnp.exp(-jnp.abs(x.T)) * y.T)
            elif kind == 8:
                made = x @ (y.T @ y) * 0.01
            else:
                made = jnp.concatenate([x[:, : columns // 2], y[:, columns // 2 :]], axis=1)
            values.append(made)
        return values[-1] + values[-2]

    def both(a: jax.Array, b: jax.Array, w: jax.Array) -> Any:
        return run(a, b, w), jax.grad(lambda *given: (run(*given) ** 2).mean(), argnums=(0, 2))(a, b, w)

    arguments = normal(rows, columns, seed=seed), normal(rows, columns, seed=seed + 1)
    return (both if draw.random() < 0.7 else run), (*arguments, normal(columns, columns, seed=seed + 2) * 0.2)


@pytest.mark.parametrize("seed", range(SEED, SEED + CASES))
def test_random_programs(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each region that the engine grows from an op with axes, in a number of slices that need not divide them."""
    step, arguments = drawn(seed)
    plain = compiled(step, arguments)
    expected = plain(*arguments)
    draw = random.Random(seed)

    def in_slices(content: bytes, *_: Any) -> tuple[bytes | None, rj.Plan]:
        module = read_module(content, CPU)
        graph = made_graph(module.sliceable_graph(), Graph)
        before = module.temporaries
        written, words = None, []
        ops = [op for op in graph.ops if op.axes]
        for op in draw.sample(ops, min(len(ops), 4)):
            axis = draw.randrange(len(op.axes))
            words = [f"{op.name}={draw.choice([2, 3, 5])}@{axis}"]
            try:
                schedule = remora.solve(graph, 1 << 40, order="input", slices=words, work_limit=2000)
            except remora.InputError as error:
                print(words, error)
                continue
            written = module.in_slices(schedule_core_of(schedule))
            break
        print(seed, words if written else "nothing is in slices", written and len(schedule.slices[0].ops))
        return written, rj.Plan("drawn", 1 << 40, before, before, before)

    program = in_pass(step, arguments, in_slices, monkeypatch)
    expect_close(program(*arguments), expected, str(seed))


PAIR = """HloModule jit_pair, is_scheduled=true

fused (x: f32[48,32]) -> (f32[48,32], f32[48,32]) {
  x = f32[48,32]{1,0} parameter(0)
  e = f32[48,32]{1,0} exponential(x)
  m = f32[48,32]{1,0} multiply(x, x)
  ROOT both = (f32[48,32]{1,0}, f32[48,32]{1,0}) tuple(e, m)
}

ENTRY main {
  x = f32[48,32]{1,0} parameter(0)
  n = f32[48,32]{1,0} negate(x)
  two = (f32[48,32]{1,0}, f32[48,32]{1,0}) fusion(n), kind=kLoop, calls=fused
  e = f32[48,32]{1,0} get-tuple-element(two), index=0
  m = f32[48,32]{1,0} get-tuple-element(two), index=1
  y = f32[48,32]{1,0} add(e, m)
  flat = f32[1536]{0} bitcast(m)
  ROOT all = (f32[48,32]{1,0}, f32[1536]{0}) tuple(y, flat)
}
"""


@pytest.mark.parametrize("word", ["n=5@0", "n=3@1", "two,y=4@0", "n,two=2@1"])
def test_a_fusion_of_several_results(word: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One is put together, and the other is not, or both are."""
    x = normal(48, 32)

    def in_slices(_: bytes) -> tuple[bytes, rj.Plan]:
        module = read_module(hlo_module_from_text(PAIR).as_serialized_hlo_module_proto(), CPU)
        graph = made_graph(module.sliceable_graph(), Graph)
        schedule = remora.solve(graph, 1 << 40, order="input", slices=[word], work_limit=2000)
        assert any(op.name == "two" for op in schedule.slices[0].ops)
        return module.in_slices(schedule_core_of(schedule)), rj.Plan("pair", 1, 2, 1, 1)

    program = in_pass(lambda a: (jnp.exp(-a) + a * a, (a * a).reshape(-1)), (x,), in_slices, monkeypatch)
    expect_close(program(x), (numpy.exp(-x) + x * x, (x * x).reshape(-1)))


def in_pass(step: Any, arguments: tuple[Any, ...], plan: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The program with what `plan` makes of its module, whatever XLA's temporaries take."""
    inside = False

    def planned_so(content: bytes, _before: int, _allowed: int, measure: Any, *_: Any) -> Any:
        nonlocal inside
        made, found = plan(content)
        inside = True
        if made is not None:
            measure(made)
        inside = False
        return made, found

    with monkeypatch.context() as patched:
        patched.setattr(_slices, "plan", planned_so)
        patched.setattr(_pass, "_temporaries", lambda _: 1 if inside else 2)
        with rj.budget(1, slices="auto"):
            return compiled(step, arguments)
