# SPDX-License-Identifier: Apache-2.0
"""Plans before the device is there: totals to the byte on the CPU, graphs of a GPU that is not there, what fits."""

from __future__ import annotations

import functools
import itertools
import json
import os
import re
import runpy
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import checking
import models
import pytest
import torch
import torch.nn.functional as F  # noqa: N812
import zoo
from torch.autograd import Variable
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import _disable_current_modes

import remora.asking
import remora.fit
import remora.torch as rt
from remora.errors import InputError
from remora.torch import fit
from remora.torch.capture.graph import tensors_in
from remora.torch.capture.optimizer import OPTIMIZERS, optimizer_memory, optimizer_of
from remora.torch.capture.read import read_step
from remora.torch.cost.calls import Call, memory_of
from remora.torch.fit._absent import _Engine
from remora.torch.fit._fit import LEAST, PART, Steps
from remora.torch.fit._memory import size_of
from remora.torch.fit._question import Question
from remora.torch.fit._rates import device_json
from remora.torch.fit._sizes import Sizes
from remora.torch.fit._smaller import Smaller
from remora.torch.fit._subject import Captures, subject_of
from remora.torch.measure import allocated

ADAMW = functools.partial(torch.optim.AdamW, lr=1e-4)
SOLVER: dict[str, Any] = {"time_limit": 2.0, "threads": 1}
HERE = {**SOLVER, "device": checking.DEVICE.type}
QUICK = ["gpt2", "unet", "experts"]
WORDS = torch.randint(0, 64, (4, 32))


def small_gpt() -> torch.nn.Module:
    return models.Gpt(layers=2, dropout=0.0)


def next_word(model: torch.nn.Module, x: torch.Tensor) -> torch.Tensor:
    return F.cross_entropy(model(x).flatten(0, 1), x.flatten())


# -- To the byte -------------------------------------------------------------------------------------------------------


def planned(make: Callable[[], zoo.Entry]) -> tuple[rt.FitPlan, int]:
    """A network, planned without memory, and the most bytes that were allocated meanwhile."""
    _, inputs, loss = make()
    given = {"optimizer": ADAMW, **HERE}
    # Kineto, with which `checking` counts, hears of nothing more once the costs of an op were recorded beside it.
    return allocated(lambda: rt.plan(lambda: make()[0], inputs, loss, **given))


def taken_by(entry: zoo.Entry, budget: int | str, plan: Path | None = None) -> int:
    """The most bytes that two iterations take: parameters, buffers, batch, and what the profiler sees beyond."""
    model, inputs, loss = entry
    given = checking.OPTIONS if plan is None else {**checking.OPTIONS, "plan": plan}
    step = rt.train_step(checking.Case.body(model, loss), budget=budget, **given)
    step(*inputs)  # captured, measured and planned
    model.zero_grad()

    def loop() -> None:
        optimizer = ADAMW(model.parameters())
        for _ in range(2):
            step(*inputs)
            optimizer.step()
            optimizer.zero_grad()

    there = [*model.parameters(), *model.buffers(), *(t for t in inputs if isinstance(t, torch.Tensor))]
    lying = sum({t.untyped_storage()._cdata: t.untyped_storage().nbytes() for t in there}.values())
    return lying + max(0, step.plan.fixed_memory - lying) + checking.peak_of(loop)[0]


@pytest.mark.parametrize("name", [n if n in QUICK else pytest.param(n, marks=pytest.mark.slow) for n in zoo.ZOO])
def test_the_total_is_what_the_process_allocates(name: str) -> None:
    plan, meanwhile = planned(zoo.ZOO[name])
    real = taken_by(zoo.ZOO[name](), "100%")
    print(f"{name}: planned {plan.total:,}, allocated {real:,}; while planning {meanwhile / plan.total:.1%}")
    assert plan.fits and plan.total == real
    # Convolutions run as they are: what a smaller one takes says nothing of a larger one.
    assert meanwhile <= max(LEAST, PART * plan.total) or "convolution" in kinds_of(plan)


def test_what_a_large_vocabulary_takes_is_told_from_a_part_of_it() -> None:
    def make() -> zoo.Entry:
        return models.Gpt(width=64, vocabulary=16384, dropout=0.0), (WORDS,), next_word

    plan, meanwhile = planned(make)
    print(f"while planning {meanwhile:,} of {plan.total:,}")
    assert meanwhile <= PART * plan.total > LEAST
    assert plan.total == taken_by(make(), "100%")


F32 = functools.partial(torch.empty, dtype=torch.float32)
CALLS: dict[str, Callable[[], tuple[Any, ...]]] = {
    "add.Tensor": lambda: (F32(64, 48, 8), torch.empty(48, 8, dtype=torch.int32)),
    "mul.Tensor": lambda: (F32(4, 8, 512), F32(512)),
    "gelu_backward": lambda: (F32(1, 96, 40), F32(1, 40, 96).transpose(1, 2)),
    "native_dropout": lambda: (F32(2, 96, 40), 0.3, True),
    "_log_softmax": lambda: (F32(128, 64), 1, False),
    "_softmax_backward_data": lambda: (F32(32, 4, 16, 16), F32(32, 4, 16, 16), -1, torch.float32),
    "addmm": lambda: (F32(64), F32(16, 256).t(), F32(16, 64)),
    "mm": lambda: (F32(8, 512), F32(16, 512).t()),
    "embedding": lambda: (F32(512, 8), torch.zeros(4, dtype=torch.long)),
    "embedding_dense_backward": lambda: (F32(4, 8), torch.zeros(4, dtype=torch.long), 512, -1, False),
    "nll_loss_forward": lambda: (F32(8, 512), torch.zeros(8, dtype=torch.long), None, 1, -100),
    "nll_loss_backward": lambda: (
        *(torch.ones(()), F32(8, 512), torch.zeros(8, dtype=torch.long), None, 1, -100),
        torch.ones(()),
    ),
    "bmm": lambda: (F32(48, 8, 16), F32(48, 16, 8).transpose(1, 2).contiguous().transpose(1, 2)),
    "cat": lambda: ([F32(32, 8, 4, 4), F32(32, 3, 4, 4)], 1),
    "native_layer_norm_backward": lambda: (
        *(F32(96, 64), F32(96, 64), [64], F32(96, 1), F32(96, 1), F32(64), F32(64)),
        [True, True, True],
    ),
    "native_batch_norm_backward": lambda: (
        *(F32(32, 8, 6, 6), F32(32, 8, 6, 6)),
        *(F32(8) for _ in range(5)),
        *(True, 1e-5, [True, True, True]),
    ),
    "max_pool2d_with_indices_backward": lambda: (
        *(F32(32, 8, 4, 4), F32(32, 8, 8, 8), [2, 2], [2, 2], [0, 0], [1, 1], False),
        torch.empty(32, 8, 4, 4, dtype=torch.long),
    ),
    "upsample_nearest2d_backward": lambda: (F32(32, 8, 8, 8), [8, 8], [32, 8, 4, 4]),
}


@pytest.mark.parametrize("name", CALLS)
def test_what_a_large_op_takes_is_told_from_a_part_of_its_rows(name: str) -> None:
    call = call_of(name, CALLS[name]())
    with _disable_current_modes():
        taken = [t.untyped_storage().nbytes() for t in tensors_in(call.arguments())]
        limit = sum(taken) // 2 + 1024
        told, peak = allocated(lambda: Smaller(limit)(call))
        assert told is not None and told.duration > 0
        workspace, outputs = memory_of(call)
        assert (told.workspace, list(told.outputs)) == (workspace, outputs)
        assert 0 < peak <= limit
        assert Smaller(10 * (sum(taken) + sum(outputs)))(call) is None


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("sum", lambda: (F32(64, 64),)),  # not row by row
        ("add.Tensor", lambda: (F32(64, 128)[:, ::2], 1)),  # with gaps
        ("add.Tensor", lambda: (F32(2, 1), 1)),  # too few rows
        ("convolution", lambda: (F32(8, 16, 8, 8), F32(16, 16, 3, 3), None, [1, 1], [1, 1], [1, 1], False, [0, 0], 1)),
    ],
)
def test_an_op_that_cannot_be_cut_runs_as_it_is(name: str, given: Callable[[], tuple[Any, ...]]) -> None:
    call = call_of(name, given())
    with _disable_current_modes():
        assert Smaller(16)(call) is None


def call_of(name: str, given: tuple[Any, ...]) -> Call:
    """A call of an op, alone in a graph."""
    packet, _, overload = name.partition(".")
    target = getattr(getattr(torch.ops.aten, packet), overload or "default")
    leaves, spec = pytree.tree_flatten(given)
    places = [i for i, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]

    def run(*tensors: torch.Tensor) -> list[Any]:
        by_place = dict(zip(places, tensors, strict=True))
        filled = [by_place.get(i, leaf) for i, leaf in enumerate(leaves)]
        return tensors_in(target(*pytree.tree_unflatten(filled, spec)))

    step = read_step(make_fx(run, tracing_mode="fake")(*(leaves[i] for i in places)))
    node = next(node for op in step.ops for node in op.nodes if node.target is target)
    return Call(step, node)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_an_optimizers_memory_is_what_it_takes(name: str) -> None:
    make, model = optimizer_of(name), small_gpt()
    assert make is not None
    subject = subject_of(small_gpt, (WORDS,), None, "fp32", torch.device("cpu"), True)
    found = optimizer_memory(make, subject.model.parameters(), subject.device, subject.mode)
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter)
    made: list[torch.optim.Optimizer] = []

    def first() -> None:
        made.append(make(list(model.parameters())))
        made[0].step()

    # Numbers beside tensors take up to twelve bytes for the time of an op.
    assert 0 <= checking.peak_of(first)[0] - found.first <= 24
    assert 0 <= checking.peak_of(made[0].step)[0] - found.later <= 24
    kept = {
        t.untyped_storage()._cdata: t.nbytes for s in made[0].state.values() for t in s.values() if torch.is_tensor(t)
    }
    assert found.state == sum(kept.values())


PERCEPTRON: zoo.Entry = (
    torch.nn.Sequential(torch.nn.Linear(128, 128), torch.nn.Linear(128, 128), torch.nn.Linear(128, 10)),
    (torch.randn(4, 128), torch.randint(0, 10, (4,))),
    lambda model, x, y: F.cross_entropy(model(x), y),
)
UPDATED: dict[str, Callable[[], zoo.Entry]] = {
    "perceptron": lambda: PERCEPTRON,
    "gpt": lambda: (models.Gpt(width=64, dropout=0.0), (WORDS[:1].clone(),), next_word),
    "unet": lambda: (
        models.Unet(width=16),
        (torch.randn(1, 3, 8, 8), torch.randint(0, 2, (1, 8, 8))),
        lambda model, x, y: F.cross_entropy(model(x), y),
    ),
}


@pytest.mark.parametrize("form", ["fused", "foreach", "in backward"])
@pytest.mark.parametrize("name", UPDATED)
def test_the_total_is_what_each_form_of_an_update_allocates(name: str, form: str) -> None:
    model, inputs, loss = UPDATED[name]()
    plan = rt.plan(lambda: UPDATED[name]()[0], inputs, loss, optimizer=ADAMW, update=form, **HERE)
    optimizer = ADAMW(model.parameters(), foreach=form == "foreach", fused=form == "fused")
    inside = {"update": optimizer} if form == "in backward" else {}
    step = rt.train_step(checking.Case.body(model, loss), **inside, **checking.OPTIONS)

    def iteration() -> None:
        step(*inputs)
        if not inside:
            optimizer.step()
            optimizer.zero_grad()

    for _ in range(2):
        iteration()
    peak, _ = checking.peak_of(iteration)
    state = [t for row in optimizer.state.values() for t in row.values() if isinstance(t, torch.Tensor)]
    there = [*model.parameters(), *model.buffers(), *inputs, *state]
    lying = sum({t.untyped_storage()._cdata: t.untyped_storage().nbytes() for t in there}.values())
    print(f"{name}, {form}: planned {plan.total:,}, allocated {lying + peak:,}")
    assert plan.total == lying + max(0, plan.step.fixed_memory - lying) + peak
    assert (plan.update == 0) == (form == "in backward")


def test_a_plan_with_the_update_inside_is_run_by_a_step_with_it(tmp_path: Path) -> None:
    model, inputs, loss = PERCEPTRON
    plan = rt.plan(lambda: PERCEPTRON[0], inputs, loss, optimizer=ADAMW, update="in backward", **HERE)
    assert plan.fits and "updates included" in str(plan) and "peak of the update" not in str(plan)
    plan.save(tmp_path / "plan.json")
    assert rt.FitPlan.load(tmp_path / "plan.json").update == 0
    given = {**checking.OPTIONS, "plan": str(tmp_path / "plan.json")}
    step = rt.train_step(
        checking.Case.body(model, loss), budget=plan.step.budget, update=ADAMW(model.parameters()), **given
    )
    step(*inputs)
    assert step.plan.predicted_peak <= plan.step.budget


def test_a_gpus_optimizer_takes_its_foreach_variant() -> None:
    subject = subject_of(small_gpt, (WORDS,), None, "fp32", torch.device("cuda"), True)
    parameters = [*subject.model.parameters()]
    found = optimizer_memory(torch.optim.AdamW, parameters, subject.device, subject.mode)
    every = sum(size_of(p) for p in parameters)
    assert (found.state, found.first, found.later) == (2 * every, 3 * every, every)
    one_by_one = optimizer_memory(
        functools.partial(torch.optim.AdamW, foreach=False), parameters, subject.device, subject.mode
    )
    assert 2 * max(map(size_of, parameters)) <= one_by_one.later < every // 2


def test_no_parameter_is_allocated() -> None:
    def large() -> torch.nn.Module:
        return torch.nn.Sequential(*[torch.nn.Linear(8192, 8192) for _ in range(8)])

    taken, plan = checking.peak_of(
        lambda: rt.plan(large, (torch.empty(4, 8192, device="meta"),), lambda m, x: m(x).sum(), device="h100", **SOLVER)
    )
    assert plan.items[0].size == 8 * (8192 * 8192 * 4 + 8192 * 4)
    assert taken < plan.total // 1000


# -- A GPU that is not there -------------------------------------------------------------------------------------------


def text_of(entry: zoo.Entry, own_engine: bool) -> list[str]:
    """The ops of a captured step."""
    model, inputs, loss = entry
    subject = subject_of(model, inputs, loss, "fp32", torch.device("cpu"), True)
    engine = Variable._execution_engine
    try:
        if own_engine:
            Variable._execution_engine = _Engine(engine)  # type: ignore[assignment]
        step = Captures(subject).of(subject.batch).step
    finally:
        Variable._execution_engine = engine
    return [f"{op.name} {op.backward} {op.inputs} {op.outputs}" for op in step.ops]


@pytest.mark.parametrize("name", ["unet", "experts"])
def test_a_backward_pass_in_python_is_that_of_pytorchs_engine(name: str) -> None:
    entry = zoo.ZOO[name]()
    assert text_of(entry, True) == text_of(entry, False)


def kinds_of(plan: rt.FitPlan) -> set[str]:
    assert plan.step is not None
    return {kind for op in plan.step.graph["ops"] for kind in op["type"].split()}


class Attention(torch.nn.Module):
    """One layer of attention, with a mask or without."""

    def __init__(self, masked: bool) -> None:
        super().__init__()
        self.masked, self.make = masked, torch.nn.Linear(64, 192)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.make(x).unflatten(-1, (3, 4, 16)).permute(2, 0, 3, 1, 4)
        mask = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool, device=x.device).tril() if self.masked else None
        return F.scaled_dot_product_attention(q, k, v, mask)


@pytest.mark.parametrize(
    ("precision", "masked", "kernel"),
    [("bf16", False, "flash"), ("bf16", True, "efficient"), ("fp32", False, "efficient")],
)
def test_kernels_are_those_of_a_gpu(precision: str, masked: bool, kernel: str) -> None:
    plan = rt.plan(
        lambda: Attention(masked),
        (torch.randn(2, 24, 64),),
        lambda m, x: m(x).square().mean(),
        device="h100",
        precision=precision,
        **SOLVER,
    )
    name = f"_scaled_dot_product_{kernel}_attention"
    assert {name, f"{name}_backward"} <= kinds_of(plan)


def test_a_model_of_transformers_gets_no_mask() -> None:
    t = pytest.importorskip("transformers")
    sizes = {"hidden_size": 64, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 64}
    plan = rt.plan(
        lambda: t.LlamaForCausalLM(t.LlamaConfig(**sizes, vocab_size=64, use_cache=False)),
        (torch.empty(2, 64, dtype=torch.long, device="meta"),),
        lambda m, x: m(input_ids=x).logits.square().mean(),
        device="h100",
        precision="bf16",
        **SOLVER,
    )
    assert "_scaled_dot_product_flash_attention" in kinds_of(plan)  # which takes none


def test_batch_normalization_is_cudnns() -> None:
    plan = rt.plan(models.Unet, (torch.randn(2, 3, 32, 32),), lambda m, x: m(x).mean(), device="rtx-4090", **SOLVER)
    assert "_batch_norm_with_update_functional" in kinds_of(plan)


@pytest.mark.slow
def test_the_peak_of_gpt2_medium_is_that_of_an_h200() -> None:
    """The H200 planned 11,354,906,112 bytes above what was there, and took 11,354,880,396 (results/steps_gpu)."""
    import transformers as t

    none = {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0, "use_cache": False}
    plan = rt.plan(
        lambda: t.GPT2LMHeadModel(t.GPT2Config(n_embd=1024, n_layer=24, n_head=16, **none)),
        (torch.empty(8, 512, dtype=torch.long, device="meta"),) * 2,
        lambda m, x, y: F.cross_entropy(m(input_ids=x).logits.flatten(0, 1), y.flatten()),
        device="h200",
        precision="bf16",
        **SOLVER,
    )
    assert plan.step is not None
    assert plan.step.predicted_peak - plan.step.fixed_memory == 11_354_906_112


# -- What lies there throughout ----------------------------------------------------------------------------------------


def perceptron() -> torch.nn.Module:
    return torch.nn.Sequential(*[layer for _ in range(4) for layer in (torch.nn.Linear(64, 64), torch.nn.GELU())])


def checkpointed_gpt() -> torch.nn.Module:
    import transformers

    sizes = {"n_embd": 32, "n_layer": 2, "n_head": 2, "vocab_size": 64, "n_positions": 32}
    words = {"bos_token_id": 1, "eos_token_id": 2, "use_cache": False, "attn_pdrop": 0.0}
    model = transformers.GPT2LMHeadModel(transformers.GPT2Config(**sizes, **words, resid_pdrop=0.0, embd_pdrop=0.0))
    model.gradient_checkpointing_enable()
    return model


class PartlyRead(torch.nn.Module):
    """Parameters that are frozen, that get no gradient, and that are used twice."""

    def __init__(self) -> None:
        super().__init__()
        self.frozen, self.read, self.tied = (torch.nn.Linear(48, 48) for _ in range(3))
        self.unread = torch.nn.Linear(48, 48)
        self.frozen.requires_grad_(False)
        self.norm = torch.nn.BatchNorm1d(48)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        shift = self.read(x).detach()
        return self.tied(torch.relu(self.tied(self.norm(torch.tanh(self.frozen(x))))) + shift)


def mean_square(model: torch.nn.Module, x: torch.Tensor) -> torch.Tensor:
    return model(x).square().mean()


def own(model: torch.nn.Module, x: torch.Tensor) -> torch.Tensor:
    found: torch.Tensor = model(input_ids=x, labels=x).loss
    return found


STEPS: dict[str, tuple[Any, Any, Any]] = {
    "perceptron": (perceptron, lambda n: torch.randn(n, 64), mean_square),
    "partly read": (PartlyRead, lambda n: torch.randn(n, 48), mean_square),
    "unet": (models.Unet, lambda n: torch.randn(n, 3, 16, 16), zoo.energy),
    "gpt": (small_gpt, lambda n: torch.randint(0, 64, (n, 16)), next_word),
    "checkpointed": (checkpointed_gpt, lambda n: torch.randint(0, 64, (n, 16)), own),
}
SMALL = [(name, 8, "100%", *more) for name in STEPS for more in ((1, 1_000_003), (2, 0), (4, 1_000_003))]
LARGE = [(name, 2048, "85%", accumulate, 0) for name in ("perceptron", "partly read") for accumulate in (1, 2)]


@pytest.mark.parametrize(("name", "batch", "budget", "accumulate", "reserve"), [*SMALL, *LARGE])
def test_a_micro_step_is_planned_as_train_step_plans_it(
    name: str, batch: int, budget: str, accumulate: int, reserve: int
) -> None:
    make, inputs, loss = STEPS[name]
    x, model = inputs(batch), make()
    step = rt.train_step(checking.Case.body(model, loss), budget=budget, cost="flops", **checking.OPTIONS)
    for _ in range(accumulate):
        step(x)
    mine = step.plan
    given = {"accumulate": accumulate, "reserve": reserve, "cost": "flops", "budget": budget}
    plan = rt.plan(make, (x,), loss, **given, **HERE)
    there = [*model.parameters(), *(p.grad for p in model.parameters() if p.grad is not None and accumulate > 1), x]
    lying = sum({t.untyped_storage()._cdata: t.nbytes for t in [*there, *model.buffers()]}.values())
    beside = lying - mine.fixed_memory + reserve  # what the step does not read, such as frozen and unused parameters
    assert plan.step is not None
    assert plan.unscheduled == mine.unscheduled_peak + beside
    assert plan.budget == max(mine.budget + beside, plan.update) == mine.budget + beside
    assert plan.peak == mine.predicted_peak + beside
    assert plan.accumulate == accumulate
    assert plan.checkpoints == mine.checkpoints == (2 if name == "checkpointed" else 0)
    assert ("taken out" in str(plan)) == (name == "checkpointed")
    again = rt.FitPlan.from_json(plan.to_json())
    assert (again.accumulate, again.checkpoints, str(again)) == (accumulate, plan.checkpoints, str(plan))


@pytest.mark.parametrize("name", ["perceptron", "gpt"])
def test_the_total_with_accumulation_is_what_the_process_allocates(name: str) -> None:
    make, inputs, loss = STEPS[name]
    x, model = inputs(8), make()
    plan = rt.plan(make, (x,), loss, optimizer=ADAMW, accumulate=3, **HERE)
    step = rt.train_step(checking.Case.body(model, loss), **checking.OPTIONS)
    for _ in range(2):
        step(x)
    model.zero_grad()

    def loop() -> None:
        optimizer = ADAMW(model.parameters())
        for _ in range(2):
            for _ in range(3):
                step(x)
            optimizer.step()
            optimizer.zero_grad()

    lying = sum({t.untyped_storage()._cdata: t.nbytes for t in [*model.parameters(), *model.buffers(), x]}.values())
    assert plan.total == lying + checking.peak_of(loop)[0]
    assert {item.name: item.when for item in plan.items}["gradients"] == "throughout"


def test_a_reserve_is_part_of_a_budget_in_bytes() -> None:
    quick: dict[str, Any] = {"cost": "flops", "time_limit": 0.5, "threads": 1, "device": checking.DEVICE.type}
    batch = (torch.randn(512, 64),)
    free = rt.plan(perceptron, batch, mean_square, **quick)
    plan = rt.plan(perceptron, batch, mean_square, budget=free.total, reserve=free.total // 10, **quick)
    assert plan.step is not None
    assert plan.step.recomputes > 0
    assert plan.total <= free.total
    sizes: dict[str, Any] = {"budget": free.total, "multiple": 256, "most": 512, **quick}
    assert rt.largest(perceptron, batch, mean_square, **sizes).without == 512
    assert rt.largest(perceptron, batch, mean_square, reserve=1, **sizes).without == 256
    assert rt.largest(perceptron, batch, mean_square, accumulate=2, **sizes).without == 256
    table = rt.fit_table({"": (perceptron, batch, mean_square)}, ["h100"], accumulate=2, reserve=7, time_limit=0.5)
    assert {item.name: item.size for item in table.plans[""][0].items}["reserved"] == 7


# -- What fits ---------------------------------------------------------------------------------------------------------


def test_it_says_what_takes_the_memory() -> None:
    given = (small_gpt, (WORDS,), next_word)
    one = rt.plan(*given, device="h100", optimizer="adamw", precision="bf16", **SOLVER)
    sizes = {item.name: item.size for item in one.items}
    rounded = sum(-(-p.nbytes // 512) * 512 for p in small_gpt().parameters())
    assert sizes["parameters"] == sizes["gradients"] == rounded and sizes["optimizer state"] == 2 * rounded
    assert one.fits and one.total <= one.upper and "fits without recompute" in str(one)
    assert one.range[0] < one.step_seconds < one.range[1]
    again = rt.FitPlan.from_json(one.to_json())
    assert str(again) == str(one) and again.schedule == one.schedule

    four = rt.plan(*given, device="h100", optimizer="adamw", ranks=4, sharding="fsdp", **SOLVER)
    parts = sum(-(-(-(-p.shape[0] // 4) * p[0].nbytes) // 512) * 512 for p in small_gpt().parameters())
    assert {item.name: item.size for item in four.items}["parameters"] == parts
    both = rt.plan(*given, device="h100", ranks=2, average=True, **SOLVER)
    sizes = {item.name: item.size for item in both.items}
    assert sizes["DDP's buckets"] == rounded and sizes["average of the weights"] == rounded + 512


def test_what_does_not_fit_is_told() -> None:
    plan = rt.plan(small_gpt, (WORDS,), next_word, device="h100", budget="544MiB", **SOLVER)
    assert not plan.fits and plan.proved and plan.least > plan.budget and "does not fit" in str(plan)
    with pytest.raises(InputError, match="does not fit"):
        _ = plan.schedule
    nothing = rt.plan(small_gpt, (WORDS,), next_word, device="h100", budget="1MiB", **SOLVER)
    assert re.search(r"does not fit: 5[\d.]+ MiB are allocated throughout", str(nothing))
    assert "No recompute" not in str(nothing)
    enough = rt.plan(small_gpt, (WORDS,), next_word, device="h100", budget=plan.least, **SOLVER)
    assert enough.fits
    here = rt.plan(small_gpt, (WORDS,), next_word, optimizer="adamw", **HERE)
    less = rt.plan(small_gpt, (WORDS,), next_word, optimizer="adamw", budget=here.update - 1, **HERE)
    assert here.fits and not less.fits and less.proved and "update" in str(less)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"device": "abacus"}, "rtx-4090"),
        ({"device": "none.json"}, "cannot be read"),
        ({"precision": "int3"}, "fp32, bf16"),
        ({"optimizer": "newton"}, "adamw"),
        ({"optimizer": "adamw", "update": "lazily"}, "in backward"),
        ({"update": "fused"}, "there is no optimizer"),
        ({"optimizer": "rmsprop", "update": "fused"}, "RMSprop has no fused form"),
        ({"optimizer": torch.optim.LBFGS, "update": "in backward"}, "it evaluates a closure"),
        ({"optimizer": "adamw", "update": "in backward", "accumulate": 2}, "not 'in backward' with accumulate"),
        ({"optimizer": "adamw", "update": "in backward", "ranks": 2}, "not 'in backward' with ranks"),
        ({"optimizer": torch.optim.SGD([torch.zeros(1)])}, "torch.optim.AdamW"),
        ({"sharding": "zero"}, "ddp, fsdp"),
        ({"ranks": 0}, "at least 1"),
        ({"cost": "guessed"}, "measured, flops"),
        ({"device": "h100", "cost": "measured"}, "not there"),
        ({"accumulate": 0}, "at least 1"),
        ({"accumulate": True}, "at least 1"),
        ({"reserve": -1}, "at least 0"),
        ({"reserve": "2GiB"}, "whole number"),
        ({"budget": 0.5}, "50%"),
    ],
)
def test_what_cannot_be_read_is_refused(wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        rt.plan(small_gpt, (WORDS,), next_word, **wrong)


def test_devices(tmp_path: Path) -> None:
    known = fit.known_devices()
    assert {"h100", "h200", "rtx-4090"} <= known.keys()
    for device in known.values():
        assert device.source and device.rates["fp16"] >= device.rates["fp32"] and device.range[0] < 1 < device.range[1]
    mine = rt.measure_device(tmp_path / "mine.json")
    assert fit.device_of(tmp_path / "mine.json") == mine and mine.kind == "cpu"
    assert rt.plan(small_gpt, (WORDS,), next_word, device=mine, **SOLVER).fits
    for figures, said in (("", "rates: missing"), (', "rates": {"fp32": 1e13}, "bandwidth": 1e12', "memory: missing")):
        (tmp_path / "bad.json").write_text(f'{{"name": "x"{figures}}}')
        with pytest.raises(InputError, match=said):
            fit.device_of(tmp_path / "bad.json")


SIZES: dict[str, tuple[Any, Any, Any]] = {
    "gpt": (small_gpt, lambda n: (torch.randint(0, 64, (n, 32)),), next_word),
    "unet": (models.Unet, lambda n: (torch.randn(n, 3, 32, 32),), zoo.energy),
    "fno": (models.Fno, lambda n: (torch.randn(n, 1, 64),), zoo.energy),
    "lstm": (models.Recurrent, lambda n: (torch.randn(n, 8, 16),), zoo.energy),
    "experts": (models.Experts, lambda n: (torch.randn(n, 32, 16),), zoo.energy),
}


@pytest.mark.parametrize("name", [n if n == "lstm" else pytest.param(n, marks=pytest.mark.slow) for n in SIZES])
def test_the_largest_batch_runs_and_the_next_does_not(name: str, tmp_path: Path) -> None:
    make, batch, loss = SIZES[name]
    limit = int(1.6 * rt.plan(make, batch(8), loss, optimizer=ADAMW, **HERE).total)
    found = rt.largest(make, batch, loss, budget=limit, optimizer=ADAMW, **HERE)
    print(found)
    assert found.within >= found.without >= 8
    assert taken_by((make(), batch(found.without), loss), "100%") <= limit
    assert taken_by((make(), batch(found.without + 1), loss), "100%") > limit
    curve = dict(found.curve)
    plan = curve[found.within]
    plan.save(tmp_path / "plan.json")
    assert plan.step is not None
    assert taken_by((make(), batch(found.within), loss), plan.step.budget, tmp_path / "plan.json") <= limit
    if found.proved:  # else more search may find one
        with pytest.raises(rt.BudgetError):
            taken_by((make(), batch(found.within + 1), loss), plan.step.budget)


def test_models_by_devices() -> None:
    models_of = {
        "gpt": (small_gpt, (WORDS,), next_word),
        "unet": (models.Unet, (torch.randn(2, 3, 32, 32),), zoo.energy),
    }
    large = fit.device_of("h100")
    small = replace(large, name="small", memory=large.context + large.workspaces + 100_000)
    table = rt.fit_table(models_of, [large, "t4", small], optimizer="sgd", **SOLVER)
    assert table.devices == ["h100", "t4", "small"]
    assert all([p.fits for p in row] == [True, True, False] for row in table.plans.values())
    assert all(row[2].budget < row[2].least <= row[0].total for row in table.plans.values())
    fast, slow, _ = table.plans["unet"]
    assert "would do" in str(table)
    assert slow.step_seconds >= fast.step_seconds and "gpt" in str(table)
    assert fit.picture([fast, slow]).startswith("<svg")


@pytest.mark.parametrize(
    ("models_of", "devices", "said"),
    [
        (perceptron, ["h100"], "models: a function, not a mapping"),
        ({}, ["h100"], "models: there is none"),
        ({"mlp": perceptron}, ["h100"], "models: 'mlp' is neither"),
        ({"mlp": (perceptron, (WORDS,))}, "h100", "devices: one device, not a list"),
        ({"mlp": (perceptron, (WORDS,))}, [], "devices: there is none"),
    ],
)
def test_a_table_names_what_it_does_not_understand(models_of: Any, devices: Any, said: str) -> None:
    with pytest.raises(InputError, match=said):
        rt.fit_table(models_of, devices)


# -- Sizes that vary ---------------------------------------------------------------------------------------------------


def batch_loss(model: torch.nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return F.cross_entropy(model(x).flatten(0, 1), y.flatten())


def captures() -> int:
    return int(torch._dynamo.utils.counters["stats"]["unique_graphs"])


def sized(length: int) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.empty(2, length, dtype=torch.long, device="meta"), torch.empty(2, length, dtype=torch.long)


def test_a_plan_for_sizes_is_that_of_the_largest_with_ranges() -> None:
    words: dict[str, Any] = {**HERE, "budget": "60%", "sizes": {"x": (8, 128)}, "cost": "flops"}
    before = captures()
    found = rt.plan(small_gpt, sized(32), batch_loss, **words)
    assert captures() == before + 1
    assert found.fits and found.shapes[0] == ["int64", 2, 128]
    alone = rt.plan(small_gpt, sized(128), batch_loss, **{**words, "sizes": None})
    assert (found.peak, found.budget) == (alone.peak, alone.budget) and not alone.plans
    assert 2 <= len(found.plans) <= 4
    assert found.plans[0].recomputes == 0 < found.plans[-1].recomputes
    assert found.plans[-1] is found.step
    assert all(plan.predicted_peak <= plan.budget == found.plans[0].budget for plan in found.plans)
    bounds = [tuple(map(int, re.findall(r"\d+", plan.sizes.partition(": ")[2]))) for plan in found.plans]
    assert bounds[0][0] == 8 and bounds[-1][1] == 128
    assert all(a[1] + 1 == b[0] for a, b in itertools.pairwise(bounds))
    (expected,) = found.plans.expected
    assert expected.plain <= expected.bound <= expected.time
    assert str(found.plans) in "\n".join(line.strip() for line in str(found).splitlines())
    again = rt.FitPlan.from_json(found.to_json())
    assert [plan.sizes for plan in again.plans] == [plan.sizes for plan in found.plans]
    fewer = rt.plan(small_gpt, sized(32), batch_loss, **words, plans=1)
    assert len(fewer.plans) == 1 and fewer.plans.expected[0].time >= expected.time


@pytest.mark.parametrize("make", [small_gpt, functools.partial(models.Gpt, layers=3, width=32)])
def test_plans_for_sizes_hold_at_every_size(make: Any) -> None:
    """The verifier replays each range's schedule at all of its sizes, those between the planned ones included."""
    words: dict[str, Any] = {**HERE, "budget": "60%", "sizes": {"x": (8, 72)}, "cost": "flops"}
    found = rt.plan(make, sized(32), batch_loss, **words)
    question = Question(make, sized(32), batch_loss, **words)
    sizes, steps, served = Sizes(question, question.batch), Steps(question, ["x"]), set()
    for plan in found.plans:
        low, high = map(int, re.findall(r"\d+", plan.sizes.partition(": ")[2]))
        ops = [s.op.index for s in plan.found.steps]
        for length in range(low, high + 1):
            one = steps.of(sizes.marked(steps.subject.like(sizes.at({(8, 72): length}))))
            replayed = one.problem.replayed(remora.asking.replayed(one.problem.graph, ops, "input"))
            verdict = remora.verify(one.problem.graph, replayed.schedule)
            assert verdict.valid and verdict.recomputes == plan.recomputes
            assert max(verdict.peak, replayed.peak) + one.reserve <= found.budget
            served.add(length)
    assert served == set(range(8, 73)) and len(found.plans) > 1


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_sizes_are_captured_once_for_a_device_that_is_not_there(precision: str) -> None:
    """The kernels of attention on a GPU give sizes among their results."""
    words: dict[str, Any] = {**SOLVER, "budget": "70%", "device": "h100", "precision": precision}
    before = captures()
    found = rt.plan(small_gpt, sized(32), batch_loss, sizes={"x": (16, 128)}, **words)
    assert captures() == before + 1
    alone = rt.plan(small_gpt, sized(128), batch_loss, **words)
    assert (found.peak, found.budget, found.unscheduled) == (alone.peak, alone.budget, alone.unscheduled)


def test_sizes_that_are_numbers_are_captured_one_by_one_and_said() -> None:
    def counting(model: torch.nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return batch_loss(model, x, y) * len([None for _ in range(x.shape[1])])

    words: dict[str, Any] = {**HERE, "budget": "60%", "cost": "flops"}
    before = captures()
    with pytest.warns(rt.RemoraWarning, match="each size is captured and planned by itself"):
        found = rt.plan(small_gpt, sized(32), counting, sizes={"x": (8, 128)}, **words)
    assert captures() == before + 6 and len(found.plans) > 1


def test_the_largest_batch_is_tried_at_the_largest_of_sizes() -> None:
    words: dict[str, Any] = {**HERE, "cost": "flops", "most": 8, "budget": "2560KiB", "optimizer": None}
    found = rt.largest(small_gpt, sized(32), batch_loss, sizes={"x": (8, 64)}, lengths=[9] * 5 + [60], **words)
    alone = rt.largest(small_gpt, sized(64), batch_loss, **words)
    assert (found.within, found.without) == (alone.within, alone.without) and 0 < found.without < found.within
    plan = found.curve[-1][1]
    assert plan.shapes[0] == ["int64", found.within, 64] and plan.plans
    assert plan.plans[0].sizes in str(found)


def test_sizes_of_other_ops_are_refused() -> None:
    def branching(model: torch.nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        value = batch_loss(model, x, y)
        return value.exp() if x.shape[1] > 60 else value

    words: dict[str, Any] = {**HERE, "budget": "80%", "cost": "flops"}
    with pytest.raises(InputError, match=r"other ops at x\.shape\[1\]: 8 than at x\.shape\[1\]: 128"):
        rt.plan(small_gpt, sized(32), branching, sizes={"x": (8, 128)}, **words)
    with pytest.raises(InputError, match="not within 64 to 128"):
        rt.plan(small_gpt, sized(32), batch_loss, sizes={"x": (64, 128)}, **words)
    with pytest.raises(InputError, match="the batch is a function"):
        rt.plan(small_gpt, lambda: sized(32), batch_loss, sizes={"x": (8, 128)}, **words)
    with pytest.raises(InputError, match="sizes: not with slices or plan"):
        rt.plan(small_gpt, sized(32), batch_loss, sizes={"x": (8, 128)}, slices="auto", **words)
    small = rt.plan(small_gpt, sized(32), batch_loss, sizes={"x": (8, 128)}, **{**words, "budget": "1MiB"})
    assert not small.fits and small.least > small.budget and not small.plans


# -- Planned here, run there -------------------------------------------------------------------------------------------


def test_a_plan_runs_elsewhere(tmp_path: Path) -> None:
    plan = rt.plan(small_gpt, (WORDS,), next_word, budget="60%", **HERE)
    assert plan.step is not None and plan.step.recomputes
    plan.save(tmp_path / "plan.json")
    model, budget = small_gpt(), plan.step.budget
    there: dict[str, Any] = {"budget": budget, "plan": str(tmp_path / "plan.json"), **checking.OPTIONS}
    checked = checking.check_step(model, next_word, (WORDS,), **there)
    assert checked.predicted_peak <= budget
    other = rt.train_step(checking.Case.body(models.Gpt(layers=1), next_word), **there)
    with pytest.raises(rt.CaptureError, match="is of a step of"):
        other(WORDS)
    wider = rt.train_step(checking.Case.body(models.Gpt(layers=2, width=64, dropout=0.0), next_word), **there)
    with pytest.raises(rt.CaptureError, match="of another step, by op"):
        wider(WORDS)


def test_a_plan_is_of_the_first_micro_step_or_of_later_ones(tmp_path: Path) -> None:
    x = torch.randn(1024, 64)
    files = {}
    for accumulate in (1, 2):
        plan = rt.plan(perceptron, (x,), mean_square, budget="80%", accumulate=accumulate, **HERE)
        files[accumulate] = str(tmp_path / f"{accumulate}.json")
        plan.save(files[accumulate])
        assert json.loads(Path(files[accumulate]).read_text())["accumulate"] == accumulate

    def started(plan: Any) -> rt.TrainStep:
        made: rt.TrainStep = rt.train_step(
            checking.Case.body(perceptron(), mean_square), budget="80%", plan=plan, **checking.OPTIONS
        )
        return made

    with pytest.raises(rt.CaptureError, match=r"2.json is of a later micro-step.*accumulate=1"):
        started(files[2])(x)
    first = started(files[1])
    first(x)
    with pytest.raises(rt.CaptureError, match=r"1.json is of the first micro-step.*accumulate=2"):
        first(x)
    both = started([files[2], files[1]])
    both(x)
    both(x)
    assert len(both.plans) == 2


# -- The page ----------------------------------------------------------------------------------------------------------


def run_page(wanted: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs the examples of docs/guide/fit.md: of the beginning, and of the section or question that the words begin."""
    monkeypatch.chdir(folder)
    page = (Path(__file__).resolve().parents[2] / "docs/guide/fit.md").read_text()
    first, *parts = re.split(r"\n## |\n\*\*(?=[^*\n]*\?\*\*\n)", page)
    blocks = [
        block
        for text in (first, *(part for part in parts if part.startswith(wanted)))
        for block in re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    ]
    assert len(blocks) == 2
    written = folder / "page.py"
    written.write_text("\n".join(blocks))
    runpy.run_path(str(written), run_name="page")


def test_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run_page("Planned here", tmp_path, monkeypatch)


@pytest.mark.slow
@pytest.mark.parametrize("question", ["I have a card of 24 GB", "How many images does ViT-L", "Which GPU do I rent"])
def test_a_question(question: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run_page(question, tmp_path, monkeypatch)


# -- The command -------------------------------------------------------------------------------------------------------


LLAMA = {
    "model_type": "llama",
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 160,
    "vocab_size": 200,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "max_position_embeddings": 64,
}


class Block(torch.nn.Module):
    """Attention and a perceptron, without biases, which ONNX adds with ops of their own."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = torch.nn.LayerNorm(256)
        wide = {"expand": (256, 1024), "shrink": (1024, 256)}
        for name, sides in (dict.fromkeys(("query", "key", "value", "out"), (256, 256)) | wide).items():
            self.add_module(name, torch.nn.Linear(*sides, bias=False))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows = self.norm(x)
        parts = (self.query(rows), self.key(rows), self.value(rows))
        query, key, value = (part.view(*part.shape[:2], 4, 64).transpose(1, 2) for part in parts)
        mixed = F.softmax(query @ key.transpose(-1, -2) * 0.125, -1) @ value
        x = x + self.out(mixed.transpose(1, 2).reshape(x.shape))
        return x + self.shrink(F.relu(self.expand(self.norm(x))))


def wide_perceptron() -> torch.nn.Module:
    layers = [layer for _ in range(4) for layer in (torch.nn.Linear(1024, 1024), torch.nn.ReLU())]
    return torch.nn.Sequential(*layers, torch.nn.Linear(1024, 16))


def convolutions() -> torch.nn.Module:
    shapes: list[dict[str, Any]] = [
        {"in_channels": 3, "out_channels": 64, "padding": 1},
        {"in_channels": 64, "out_channels": 128, "stride": 2},
        {"in_channels": 128, "out_channels": 128, "stride": 2},
        {"in_channels": 128, "out_channels": 256, "groups": 2},
    ]
    layers = [layer for shape in shapes for layer in (torch.nn.Conv2d(kernel_size=3, **shape), torch.nn.ReLU())]
    return torch.nn.Sequential(*layers, torch.nn.Flatten(), torch.nn.Linear(256 * 13 * 13, 10))


@pytest.mark.parametrize("device", ["h100", "operations"])
@pytest.mark.parametrize(
    ("model", "shape"),
    [
        (wide_perceptron, (4096, 1024)),
        (convolutions, (64, 3, 64, 64)),
        (lambda: torch.nn.Sequential(Block(), Block(), torch.nn.Linear(256, 16, bias=False)), (16, 256, 256)),
    ],
    ids=["perceptron", "convolutions", "attention"],
)
def test_the_program_predicts_the_time_that_plan_predicts(
    model: Callable[[], torch.nn.Module],
    shape: tuple[int, ...],
    device: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """`remora fit` of a model in ONNX; also on a device where only the operations of products take time."""
    from torch.onnx._internal.torchscript_exporter import onnx_proto_utils

    # Exporting needs the package onnx only for functions, of which there are none.
    monkeypatch.setattr(onnx_proto_utils, "_add_onnxscript_fn", lambda model, _: model)
    network, x = model(), torch.randn(shape)
    for parameter in network.parameters():
        torch.nn.init.normal_(parameter)  # equal ones would become one
    torch.onnx.export(network, (x,), tmp_path / "model.onnx", dynamo=False, opset_version=17)
    if device == "operations":
        whole = dict.fromkeys(("product", "product-fp32", "convolution", "attention", "memory"), 1.0)
        h100 = fit.known_devices()["h100"]
        made = replace(h100, bandwidth=1e18, launch=1e-12, host=0.0, multiprocessors=1, efficiency=whole)
        device = str(tmp_path / "operations.json")
        Path(device).write_text(device_json(replace(made, rates={"fp32": 1e13, "tf32": 1e13})))
    planned = rt.plan(network, x, lambda network, x: network(x).sum(), device=device, time_limit=5)
    words = ["fit", tmp_path / "model.onnx", "--training", "--device", device, "--work-limit", "500", "-o", "-"]
    done = subprocess.run([os.environ["REMORA"], *map(str, words)], capture_output=True, text=True, check=True)
    said = json.loads(done.stdout)["devices"][0]
    assert said["seconds"] == pytest.approx(planned.step_seconds, rel=0.01)
    assert said["recomputes"] == 0


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "config.json").write_text(json.dumps(LLAMA))
    (tmp_path / "other.json").write_text("{}")
    model, quick = str(tmp_path / "config.json"), ["--time-limit", "2"]
    told, seen = str(tmp_path / "plans.json"), str(tmp_path / "plans.svg")
    assert remora.fit.main([str(tmp_path), "--device", "h100,rtx-4090", "--output", told, "--svg", seen, *quick]) == 0
    assert "on rtx-4090" in capsys.readouterr().out
    plans = json.loads(Path(told).read_text())
    assert [plan["device"]["name"] for plan in plans] == ["h100", "rtx-4090"]
    assert Path(seen).read_text().startswith("<svg")
    assert remora.fit.main([model, "--device", "h100", "--budget", "544MiB", *quick]) == 20
    assert remora.fit.main([model, "--device", "abacus"]) == 65
    assert remora.fit.main([str(tmp_path / "other.json")]) == 65
    capsys.readouterr()
    assert remora.fit.main([str(tmp_path / "none.json")]) == 65
    assert capsys.readouterr().err == f"remora: {tmp_path / 'none.json'}: No such file or directory\n"
    words = [os.environ["REMORA"], "fit", model, "--device", "h100", *quick]
    done = subprocess.run(words, env={**os.environ, "REMORA_PYTHON": sys.executable}, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "") and "on h100" in done.stdout
    page = subprocess.run([words[0], "fit", "--help"], capture_output=True, text=True).stdout
    assert ", ".join([*OPTIMIZERS, "none"]) in " ".join(page.split()), "one vocabulary"
    words[2] = str(tmp_path / "other.json")
    assert subprocess.run(words, capture_output=True).returncode == 65
    assert remora.fit.main([model, "--batch", "0"]) == 65
    assert remora.fit.main([model, "--accumulate", "0"]) == 65
    assert remora.fit.main([model, "--reserve", "10%"]) == 65
    capsys.readouterr()
    more = ["--accumulate", "4", "--reserve", "1GiB", "--output", told]
    assert remora.fit.main([model, "--device", "h100", *more, *quick]) == 0
    assert "of a later one of 4 micro-steps" in capsys.readouterr().out
    (plan,) = json.loads(Path(told).read_text())
    assert {"reserved": 2**30}.items() <= {item["name"]: item["size"] for item in plan["items"]}.items()
    short = ["--length", "16:64", "--plans", "2", "--output", told]
    assert remora.fit.main([model, "--device", "h100", *short, *quick]) == 0
    assert "input_ids.shape[1]: 16 to" in capsys.readouterr().out
    assert json.loads(Path(told).read_text())[0]["plans"]
    assert remora.fit.main([model, "--length", "64:16"]) == 65
    assert remora.fit.main([model, "--length", "16:64", "--largest", "length"]) == 65
    with pytest.raises(SystemExit) as ended:
        remora.fit.main([model, "--batch", "many"])
    assert ended.value.code == 64
