# SPDX-License-Identifier: Apache-2.0
"""`train_step`: equal to eager in every bit, at the predicted peak, whatever is in the step."""

from __future__ import annotations

import copy
import functools
import inspect
import random
import re
import warnings
from typing import Any

import checking
import models
import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn
from torch.overrides import TorchFunctionMode

import remora.torch as rt
from remora.torch import inductor


def tokens(batch: int = 4, length: int = 32, vocabulary: int = 64) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randint(0, vocabulary, (batch, length)), torch.randint(0, vocabulary, (batch, length))


def images(batch: int = 8, size: int = 12, classes: int = 5) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(batch, 3, size, size), torch.randint(0, classes, (batch,))


def classified(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return F.cross_entropy(model(x), y)


def written(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return F.cross_entropy(model(x).flatten(0, 1), y.flatten())


@pytest.mark.parametrize(
    "budget", [pytest.param("100%", marks=pytest.mark.slow), "75%", pytest.param("55%", marks=pytest.mark.slow)]
)
def test_language_model_with_dropout_and_tied_weights(budget: str) -> None:
    plan = checking.check_step(models.Gpt(), written, tokens(), budget)
    assert (plan.recomputes > 0) == (budget != "100%")


@pytest.mark.slow
def test_another_order_of_the_ops() -> None:
    checking.check_step(models.Gpt(layers=1), written, tokens(), "75%", order="free")


CHUNKS = 6


def chunk_losses(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> list[torch.Tensor]:
    return [F.cross_entropy(model(a), b) for a, b in zip(x.chunk(CHUNKS), y.chunk(CHUNKS), strict=True)]


SUMS: dict[str, checking.Loss] = {
    "one after the other": lambda *given: sum(chunk_losses(*given)) / CHUNKS,
    "a mean of all": lambda *given: torch.stack(chunk_losses(*given)).mean(),
    "no kernel of a loss": lambda m, x, y: sum(m(a).logsumexp(1).sum() for a in x.chunk(CHUNKS)),
    "parts as large as their input": lambda m, x, y: sum(m(a).square() for a in x.chunk(CHUNKS)).mean(),
}


@pytest.mark.parametrize("name", [name for name in SUMS if not name.startswith("parts")])
def test_parts_of_a_loss_run_one_after_the_other(name: str) -> None:
    model = nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 512))
    given = torch.randn(6 * CHUNKS, 8), torch.randint(0, 512, (6 * CHUNKS,))
    plan = checking.check_step(model, SUMS[name], given, "60%", order="auto")
    assert plan.recomputes == 0


def test_parts_whose_sum_is_large_stay_equal() -> None:
    model = nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 64))
    given = torch.randn(6 * CHUNKS, 8), torch.zeros(6 * CHUNKS, dtype=torch.int64)
    checking.check_step(model, SUMS["parts as large as their input"], given, "90%", order="auto")


def test_backward_of_several_tensors_at_once() -> None:
    model, twin = (nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 64)) for _ in range(2))
    twin.load_state_dict(model.state_dict())
    x, y = torch.randn(4 * CHUNKS, 8), torch.randint(0, 64, (4 * CHUNKS,))

    def body(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        losses = chunk_losses(model, x, y)
        torch.autograd.backward(losses)
        wide = model(x)
        torch.autograd.backward([wide, wide.sum()], [torch.ones_like(wide) * 0.5, None])
        torch.autograd.backward(model(x).square().mean())
        return torch.stack([loss.detach() for loss in losses])

    step = rt.train_step(functools.partial(body, model), budget="100%", cost="flops", **checking.OPTIONS)
    assert checking.same(step(x, y), body(twin, x, y))
    for mine, theirs in zip(model.parameters(), twin.parameters(), strict=True):
        assert mine.grad is not None and theirs.grad is not None and checking.same(mine.grad, theirs.grad)


@pytest.mark.parametrize("budget", [pytest.param("100%", marks=pytest.mark.slow), "85%"])
def test_convolutions_with_batch_norm_and_modules_in_place(budget: str) -> None:
    model = models.convolutions()
    x, y = images()
    model(x)  # the lazy layer learns its width
    checking.check_step(model, classified, (x, y), budget)


@pytest.mark.parametrize(
    "mode",
    ["bilinear", pytest.param("bicubic", marks=pytest.mark.slow), pytest.param("nearest", marks=pytest.mark.slow)],
)
def test_interpolation_has_the_gradients_of_its_kernel(mode: str) -> None:
    class Enlarging(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 5, 1)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return F.interpolate(self.second(F.max_pool2d(F.relu(self.first(x)), 2)), scale_factor=2, mode=mode)

    labels = torch.randint(0, 5, (4, 16, 16))
    plan = checking.check_step(Enlarging(), classified, (torch.randn(4, 3, 16, 16), labels), "90%")
    # On a GPU, deterministic interpolation is no kernel of its own.
    assert checking.DEVICE.type == "cuda" or any(op["type"].startswith(f"upsample_{mode}") for op in plan.graph["ops"])


@pytest.mark.slow
def test_eval_mode_leaves_running_statistics_alone() -> None:
    model = models.convolutions()
    x, y = images()
    model(x)
    checking.check_step(model.eval(), classified, (x, y), "90%")


def test_captured_graph_needs_no_more_than_eager() -> None:
    model = models.Unet()
    x, y = checking.on_device((torch.randn(2, 3, 16, 16), torch.randint(0, 2, (2, 16, 16))))
    plan = checking.check_step(model, classified, (x, y), "100%")
    eager = checking.outcome(model, lambda: classified(model, x, y).backward(), copy.deepcopy(model.state_dict()))
    assert plan.unscheduled_peak - plan.fixed_memory <= eager.peak * 1.01 + checking.rounding_of(plan), (
        "but for the new running statistics, kept to the end"
    )


def test_dropout_that_is_off_copies_nothing() -> None:
    model = nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.0), nn.LayerNorm(8), nn.Dropout(0.5).eval(), nn.Linear(8, 5))
    plan = checking.check_step(model, classified, checking.on_device((torch.randn(4, 8), torch.arange(4))), "100%")
    assert not any("clone" in op["type"] for op in plan.graph["ops"])


def small_llama() -> nn.Module:
    t = pytest.importorskip("transformers")
    sizes = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 64}
    model: nn.Module = t.LlamaForCausalLM(t.LlamaConfig(**sizes, vocab_size=64, use_cache=False))
    return model


def masks_of(captured: Any) -> list[bool]:
    """Whether the attention of a captured step, forward and backward, is given a mask."""
    found = []
    for node in captured.problem.step.module.graph.nodes:
        if "attention" in str(node.target):
            names = [argument.name for argument in node.target._schema.arguments]
            given = {**dict(zip(names, node.args, strict=False)), **node.kwargs}
            found.append(given.get("attn_mask") is not None or given.get("attn_bias") is not None)
            assert found[-1] != given.get("is_causal", False)
    return found


def test_a_model_of_transformers_calls_the_attention_of_eager_mode() -> None:
    words = torch.randint(0, 64, (2, 16))
    case = checking.Case(small_llama(), lambda m, x: m(input_ids=x).logits.square().mean(), (words,), budget="100%")
    mine = checking.outcome(case.model, lambda: case.step(*case.inputs), case.state)
    assert checking.differences(mine, case.eager) == []
    assert masks_of(case.step._captured[-1]) == [False, False]


@pytest.mark.parametrize("how", ["step", "wrap"])
@pytest.mark.parametrize("what", ["padding", "packing"])
def test_padding_and_packed_sequences_are_masked_as_in_eager_mode(how: str, what: str) -> None:
    """Each batch, with masks or without, calls the kernels that it calls in eager mode."""
    model, words = small_llama(), torch.randint(0, 64, (2, 16))
    twin = copy.deepcopy(model)
    plain, other = (
        (torch.ones(2, 16, dtype=torch.long), (torch.arange(16) < torch.tensor([[12], [16]])).long())
        if what == "padding"
        else (torch.arange(16).expand(2, 16), torch.tensor([[*range(10), *range(6)]] * 2))
    )
    name = "attention_mask" if what == "padding" else "position_ids"

    def loss(model: nn.Module, x: torch.Tensor, given: torch.Tensor) -> torch.Tensor:
        return model(input_ids=x, **{name: given}).logits.square().mean()

    if how == "wrap":
        rt.wrap(model, budget="100%", **checking.OPTIONS)
        step: Any = checking.Case.body(model, loss)
    else:
        step = rt.train_step(checking.Case.body(model, loss), budget="100%", **checking.OPTIONS)
    eager = checking.Case.body(twin, loss)
    words, plain, other = checking.on_device((words, plain, other))
    for given in (plain, other, plain, other):
        for module in (model.to(checking.DEVICE), twin.to(checking.DEVICE)):
            module.zero_grad()
        assert checking.same(step(words, given), eager(words, given))
        for mine, theirs in zip(model.parameters(), twin.parameters(), strict=True):
            assert checking.same(mine.grad, theirs.grad)
    plans = rt.plans(model) if how == "wrap" else step.plans
    assert len(plans) == 2
    if how == "step":
        assert masks_of(step._captured[0]) == [False, False]
        assert masks_of(step._captured[1]) == [True, True]


def test_masks_that_a_step_writes_are_kept() -> None:
    """Whether they mask anything is not to be seen before the step runs."""

    def through_view(x: torch.Tensor) -> torch.Tensor:
        mask = torch.ones_like(x)
        mask[:, 10:].zero_()
        return mask

    def where_small(x: torch.Tensor) -> torch.Tensor:
        mask = torch.ones_like(x)
        mask[x < 20] = 0
        return mask

    for mask_of in (through_view, where_small, lambda x: (torch.rand(x.shape, device=x.device) > 0.01).long()):
        words = torch.randint(0, 64, (2, 16))
        case = checking.Case(
            small_llama(),
            lambda m, x, mask_of=mask_of: m(input_ids=x, attention_mask=mask_of(x)).logits.square().mean(),
            (words,),
            budget="100%",
        )
        for _ in range(2):
            mine = checking.outcome(case.model, lambda case=case: case.step(*case.inputs), case.state)
            assert case.differences(mine) == []
        assert masks_of(case.step._captured[-1]) == [True, True]


@pytest.mark.skipif(torch.__version__.startswith("2.11."), reason="its Dynamo does not trace Python's random numbers")
def test_a_padded_batch_draws_pythons_random_numbers_once() -> None:
    words = torch.randint(0, 64, (2, 16), device=checking.DEVICE)
    whole = torch.ones_like(words)
    padded = (torch.arange(16) < torch.tensor([[12], [16]])).long().to(checking.DEVICE)
    model = small_llama().to(checking.DEVICE)

    def loss(m: nn.Module, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        random.random()
        return m(input_ids=x, attention_mask=mask).logits.square().mean()

    eager = checking.Case.body(model, loss)
    step = rt.train_step(eager, budget="100%", **checking.OPTIONS)
    for mask in (whole, padded, padded):
        found = []
        for run in (step, eager):
            random.seed(5)
            found.append((run(words, mask), random.random()))
            model.zero_grad()
        assert torch.allclose(found[0][0], found[1][0]) and found[0][1] == found[1][1]


def test_padded_batches_are_traced_once() -> None:
    model, words = small_llama().to(checking.DEVICE), torch.randint(0, 64, (2, 16), device=checking.DEVICE)
    mask = (torch.arange(16) < torch.tensor([[12], [16]])).long().to(checking.DEVICE)
    step = rt.train_step(
        checking.Case.body(model, lambda m, x, y: m(input_ids=x, attention_mask=y).logits.square().mean()),
        budget="100%",
        **checking.OPTIONS,
    )
    counts = []
    for _ in range(3):
        step(words, mask)
        model.zero_grad()
        counts.append(torch._dynamo.utils.counters["frames"]["total"])
    assert counts[0] == counts[2], "nothing is traced again"
    assert len(step.plans) == 1


def test_bf16_autocast() -> None:
    def loss(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        with torch.autocast(x.device.type, dtype=torch.bfloat16):
            return written(model, x, y)

    checking.check_step(models.Gpt(layers=1), loss, tokens(), "85%")


def test_several_outputs_and_an_argument_that_wants_a_gradient() -> None:
    def loss(model: nn.Module, x: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
        out = model(x, scale)
        return out["left"].square().mean() + out["right"].exp().mean()

    checking.check_step(models.Twins(), loss, (torch.randn(64, 16), torch.rand(64, 16)), "95%")


def test_gradients_accumulate_in_place() -> None:
    model, (x, y) = models.Gpt(layers=1), tokens()
    eager = copy.deepcopy(model)

    @rt.train_step(budget="80%", **checking.OPTIONS)
    def step(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        loss = written(model, x, y)
        loss.backward()
        return loss.detach()

    for run in range(3):
        torch.manual_seed(run)
        written(eager, x, y).backward()
        torch.manual_seed(run)
        before = [p.grad for p in model.parameters()]
        step(x, y)
        assert run == 0 or all(p.grad is g for p, g in zip(model.parameters(), before, strict=True))
    assert len(step.plans) == 2, "with gradients that are there, and without"
    for mine, theirs in zip(model.parameters(), eager.parameters(), strict=True):
        assert checking.same(mine.grad, theirs.grad)
    first, second = step.plans
    beyond = [plan.unscheduled_peak - plan.fixed_memory for plan in (first, second)]
    assert beyond[1] <= beyond[0], "added in place, not beside"


@pytest.mark.slow
def test_other_shapes_are_captured_anew() -> None:
    model = models.Gpt(layers=1)
    eager = copy.deepcopy(model)

    @rt.train_step(budget="80%", **checking.OPTIONS)
    def step(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        loss = written(model, x, y)
        loss.backward()
        return loss.detach()

    for batch in (2, 4, 2):
        x, y = tokens(batch)
        state = copy.deepcopy(model.state_dict())
        mine = checking.outcome(model, lambda: step(x, y), state)  # noqa: B023 - called at once

        def run(x: torch.Tensor = x, y: torch.Tensor = y) -> torch.Tensor:
            loss = written(eager, x, y)
            loss.backward()
            return loss.detach()

        assert checking.differences(mine, checking.outcome(eager, run, state)) == []
    assert len(step.plans) == 2


@pytest.mark.slow
def test_a_hundred_optimizer_steps_give_the_same_losses() -> None:
    model = models.Gpt(layers=1, width=16)
    eager = copy.deepcopy(model)
    x, y = tokens(2)

    @rt.train_step(budget="75%", **checking.OPTIONS)
    def step(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        loss = written(model, x, y)
        loss.backward()
        return loss.detach()

    def plain(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        loss = written(eager, x, y)
        loss.backward()
        return loss.detach()

    curves = []
    for module, run in ((eager, plain), (model, step)):
        optimizer = torch.optim.AdamW(module.parameters(), lr=1e-2)
        torch.manual_seed(7)
        losses = []
        for _ in range(100):
            losses.append(run(x, y).item())
            optimizer.step()
            optimizer.zero_grad()
        curves.append(losses)
    assert curves[0] == curves[1]
    assert curves[0][-1] < curves[0][0]
    assert step.plan.recomputes > 0


@pytest.mark.slow
def test_a_budget_below_what_is_possible_names_the_least() -> None:
    model, (x, y) = models.Gpt(layers=1, dropout=0.0), tokens()

    def plain(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        loss = written(model, x, y)
        loss.backward()
        return loss.detach()

    with pytest.raises(
        rt.BudgetError, match=r"[KM]iB \(.*; (the minimum is )?\d.*[KM]iB fixed \+ \d+\.\d % of the rest of the peak\)"
    ) as caught:
        rt.train_step(plain, budget="5%", **checking.OPTIONS)(x, y)
    assert caught.value.least > caught.value.budget
    step = rt.train_step(plain, budget=caught.value.least, **checking.OPTIONS)
    step(x, y)
    assert step.plan.predicted_peak <= caught.value.least


@pytest.mark.slow
def test_where_two_runs_of_an_op_are_not_enough_there_are_three() -> None:
    def loss(model: nn.Module, x: torch.Tensor) -> torch.Tensor:
        return model(x).square().mean()

    layers = nn.Sequential(*(nn.Sequential(nn.Linear(16, 16), nn.Tanh()) for _ in range(32)))
    case = checking.Case(layers, loss, (torch.randn(256, 16),), budget="100%")
    case.check()
    with pytest.raises(rt.BudgetError) as caught:
        case.step.set_budget("1%")
    case.step.set_budget(caught.value.least)
    plan = case.check()
    steps = [step["op"] for step in plan.schedule["steps"]]
    assert max(map(steps.count, steps)) == 3


def test_another_budget_captures_nothing_again() -> None:
    case = checking.Case(models.Gpt(), written, tokens(), budget="100%")
    plans = []
    for budget in ("100%", "75%", "60%"):
        case.step.set_budget(budget)
        plans.append(case.check())
    assert [plan.recomputes > 0 for plan in plans] == [False, True, True]
    # As many ops may be recomputed at a smaller budget: dearer ones.
    assert plans[0].overhead == 0 < plans[1].overhead < plans[2].overhead
    with pytest.raises(rt.BudgetError) as caught:
        case.step.set_budget("1%")
    assert caught.value.least <= case.step.plan.predicted_peak
    for said in (str(caught.value), str(case.step.plan)):
        assert "100 % is the peak of the captured step" in said
    points = case.step.sweep(points=3, time_limit=3)
    assert [p.budget for p in points] == sorted(p.budget for p in points)
    assert points[-1].overhead == 0


class Passing(TorchFunctionMode):
    def __torch_function__(self, function: Any, types: Any, arguments: Any = (), named: Any = None) -> Any:
        return function(*arguments, **(named or {}))


def small_step(**options: Any) -> tuple[nn.Module, Any, torch.Tensor]:
    model = nn.Linear(4, 4, device="cpu")

    @rt.train_step(cost="flops", threads=1, **options)
    def step(x: torch.Tensor) -> torch.Tensor:
        loss = (model(x) * torch.ones(4, device="cpu")).square().mean()
        loss.backward()
        return loss.detach()

    return model, step, torch.randn(2, 4, device="cpu")


def test_a_default_device_is_set() -> None:
    model, step, x = small_step()
    eager, gradient = step.function(x), model.weight.grad
    default = torch.get_default_device() if torch._C._len_torch_function_stack() else None
    try:
        torch.set_default_device("cpu")
        for place in ("cpu", "cpu", "meta"):
            with torch.device(place):
                model.zero_grad()
                assert torch.equal(step(x), eager) and torch.equal(model.weight.grad, gradient)
        assert torch.get_default_device().type == "cpu" and torch._C._len_torch_function_stack() == 1
        plan = rt.plan(lambda: nn.Linear(4, 4), (x,), lambda model, x: model(x).sum(), cost="flops")
        assert plan.fits
    finally:
        torch.set_default_device(default)


def test_another_mode_of_functions_is_entered() -> None:
    model, step, x = small_step()
    eager, gradient = step.function(x), model.weight.grad
    for _ in range(2):
        model.zero_grad()
        with Passing():
            assert checking.same(step(x), eager)
        assert checking.same(model.weight.grad, gradient)


@pytest.mark.parametrize("order", ["free", "auto"])
def test_a_step_in_any_order_has_a_curve(order: str) -> None:
    model, x = nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 8)), torch.randn(4, 8)
    body = checking.Case.body(model, lambda m, x: m(x).square().mean())
    step = rt.train_step(body, order=order, cost="flops", **checking.OPTIONS)
    step(x)
    assert step.sweep(points=2, time_limit=1).points


PLANNING = [rt.train_step, rt.wrap, rt.plan, rt.largest, rt.fit_table, rt.auto_checkpoint, inductor.install]
PLANNING += [rt.auto_fsdp, rt.auto_pipeline] if torch.distributed.is_available() else []


@pytest.mark.parametrize("called", PLANNING, ids=lambda called: called.__name__)
def test_whoever_plans_names_its_parameters(called: Any) -> None:
    parameters = inspect.signature(called).parameters
    assert "budget" in parameters
    # What auto_pipeline is given beside are arguments of the schedule's step.
    assert called is rt.auto_pipeline or not any(p.kind is p.VAR_KEYWORD for p in parameters.values())


def test_fuse_is_true_or_false() -> None:
    with pytest.raises(TypeError, match="fuse: 'kernels' is neither True nor False"):
        rt.wrap(torch.nn.Linear(2, 2), fuse="kernels")


def test_costs_by_flops_need_no_run(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: Any) -> None:
        raise AssertionError("an op was measured")

    monkeypatch.setattr("remora.torch.cost.calls.memory_of", never)
    model, (x, y) = models.Gpt(layers=1), tokens()
    step = rt.train_step(lambda x, y: written(model, x, y).backward(), budget="80%", cost="flops", **checking.OPTIONS)
    step(x, y)
    assert step.plan.predicted_time > step.plan.unscheduled_time


def test_a_plan_is_saved_loaded_and_reported(tmp_path: Any) -> None:
    model, (x, y) = models.Gpt(layers=1), tokens()
    step = rt.train_step(lambda x, y: written(model, x, y).backward(), budget="80%", **checking.OPTIONS)
    with pytest.raises(rt.CaptureError, match="first call"):
        _ = step.plan
    step(x, y)
    step.plan.save(tmp_path / "plan.json")
    assert rt.Plan.load(tmp_path / "plan.json") == step.plan
    step.plan.report(tmp_path / "plan.html")
    assert "<html" in (tmp_path / "plan.html").read_text()


def test_new_shapes_are_said_once_and_the_plan_is_of_the_latest_call() -> None:
    model = nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 4))
    step = rt.train_step(checking.Case.body(model, lambda m, x: m(x).square().mean()), cost="flops", **checking.OPTIONS)
    peaks, said = {}, []
    for rows in (4, 16, 4, 8, 16, 4):
        model.zero_grad()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            step(torch.randn(rows, 8))
        said.append([str(w.message) for w in caught])
        assert {w.filename for w in caught} <= {__file__}
        assert peaks.setdefault(rows, step.plan.predicted_peak) == step.plan.predicted_peak
    assert [len(texts) for texts in said] == [0, 1, 0, 0, 0, 0]
    assert re.search(r"for all sizes of what has changed: .*\(16, 8\)\. That took [\d.]+ s", said[1][0])
    assert len(step.plans) == 2 and peaks[4] < peaks[8] < peaks[16]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        step(torch.randn(4, 8))  # gradients are there: another plan, of known shapes
    assert len(step.plans) == 3


def test_a_gradient_that_is_returned_lies_elsewhere() -> None:
    layer, added, x = nn.Linear(8, 8), nn.Parameter(torch.zeros(4, 8)), torch.randn(4, 8)

    def function(x: torch.Tensor) -> torch.Tensor:
        y = torch.tanh(layer(x)) + added
        (gradient,) = torch.autograd.grad(y.square().sin().mean(), y, retain_graph=True)
        y.backward(gradient)
        return gradient.t()

    returned = rt.train_step(function, budget="100%", **checking.OPTIONS)(x)
    assert added.grad is not None and torch.equal(returned, added.grad.t())
    assert returned.untyped_storage().data_ptr() != added.grad.untyped_storage().data_ptr()


def filled_part(x: torch.Tensor) -> torch.Tensor:
    noise = torch.zeros(4, 40)
    noise[:, 1:17].normal_()
    return noise[:, :8]


OTHER_NUMBERS: dict[str, tuple[Any, str]] = {
    "a part": (filled_part, "not contiguous"),
    "transposed": (lambda x: torch.empty(8, 4).t().bernoulli_(0.5), "not contiguous"),
    "complex": (lambda x: F.dropout(torch.complex(x, x), 0.3).abs(), "complex numbers"),
    "numpy": (lambda x: torch.from_numpy(np.random.rand(8)).float(), "NumPy's random numbers"),
}


@pytest.mark.parametrize("name", OTHER_NUMBERS)
def test_random_numbers_that_would_be_others_are_refused(name: str) -> None:
    draw, said = OTHER_NUMBERS[name]
    layer = nn.Linear(8, 8)

    def function(x: torch.Tensor) -> None:
        (layer(x) * draw(x)).sum().backward()

    with pytest.raises(rt.CaptureError, match=said):
        rt.train_step(function, budget="100%", **checking.OPTIONS)(torch.randn(4, 8))


def test_unknown_options_are_named() -> None:
    with pytest.raises(TypeError, match="bugdet"):
        rt.train_step(lambda: None, bugdet="5%")
    with pytest.raises(ValueError, match="flops"):
        rt.train_step(lambda: None, cost="guess")
