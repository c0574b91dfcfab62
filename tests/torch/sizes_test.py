# SPDX-License-Identifier: Apache-2.0
"""Steps that are captured once for all sizes: bits, peaks, budgets, what is told, and how few captures there are."""

from __future__ import annotations

import copy
import gc
import itertools
import os
import random
import re
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import checking
import models
import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

import remora
import remora.torch as rt
from remora.errors import InputError
from remora.torch.cost.calls import Call
from remora.torch.cost.varying import between
from remora.torch.decide.lengths import expected_time, fewest
from remora.torch.ways import step as steps

Batch = dict[str, torch.Tensor]
Loss = Callable[..., torch.Tensor]


class Wrapped(nn.Module):
    """A model with its loss, given to `wrap`; called as a step is."""

    def __init__(self, model: nn.Module, loss: Loss, **options: Any) -> None:
        super().__init__()
        self.model, self.loss = model, loss
        rt.wrap(self, **options)

    def forward(self, x: Any, y: Any) -> torch.Tensor:
        return self.loss(self.model, x, y)

    def step(self, x: Any, y: Any) -> torch.Tensor:
        value: torch.Tensor = self(x, y)
        value.backward()
        return value.detach()

    @property
    def plan(self) -> rt.Plan:
        plan: rt.Plan = rt.report(self).parts[-1].plan
        return plan

    @property
    def plans(self) -> Any:
        return rt.plans(self)


class Beside:
    """A step for all sizes beside the eager one, both from the same state; `way`: train_step or wrap."""

    def __init__(self, model: nn.Module, loss: Loss, way: str = "train_step", **options: Any) -> None:
        self.model, self.twin = model.to(checking.DEVICE), copy.deepcopy(model).to(checking.DEVICE)
        self.state = copy.deepcopy(model.state_dict())
        self.loss, self.peaks = loss, dict[Any, int]()

        def step(x: Any, y: Any) -> torch.Tensor:
            value = loss(self.model, x, y)
            value.backward()
            return value.detach()

        self.way, chosen = way, {**checking.OPTIONS, **options}
        self.step: Any = rt.train_step(step, **chosen) if way == "train_step" else Wrapped(self.model, loss, **chosen)
        self.run = self.step if way == "train_step" else self.step.step

    def eager(self, x: Any, y: Any) -> torch.Tensor:
        value = self.loss(self.twin, x, y)
        value.backward()
        return value.detach()

    def check(self, x: Any, y: Any) -> rt.Plan:
        """One call: equal to eager in every bit, the predicted peak is the measured one, and within the budget."""
        x, y = checking.on_device((x, y))
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            mine = checking.outcome(self.model, lambda: self.run(x, y), self.state)
        self.said = [str(w.message).removeprefix("remora: ") for w in caught if w.category is rt.RemoraWarning]
        # What a first run of kernels prepares does not count.
        mine = checking.outcome(self.model, lambda: self.run(x, y), self.state)
        eager = checking.outcome(self.twin, lambda: self.eager(x, y), self.state)
        assert checking.differences(mine, eager) == []
        plan: rt.Plan = self.step.plan
        assert plan.predicted_peak <= plan.budget
        predicted = plan.predicted_peak - plan.fixed_memory
        if self.way == "wrap":
            # Which of several captures has run is not said. Beside the plan's are the number of the schedule, the
            # gradient of the loss, and what autograd passes on.
            is_one = len(rt.report(self.step).parts) == 1
            most = predicted if is_one else plan.budget - plan.fixed_memory
            assert (predicted if is_one else 0) <= mine.peak <= most + 64 + checking.rounding_of(plan), (
                f"measured {mine.peak:,}: {plan}"
            )
        else:
            checking.check_peak(mine.peak, predicted, plan)
        return plan


def words(length: int, batch: int = 2) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randint(0, 64, (batch, length)), torch.randint(0, 64, (batch, length))


def next_word(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return F.cross_entropy(model(x).flatten(0, 1), y.flatten())


def captures() -> int:
    return int(torch._dynamo.utils.counters["stats"]["unique_graphs"])


LENGTHS = (48, 20, 100, 9, 48, 128, 21, 127)


# -- One capture -------------------------------------------------------------------------------------------------------


WAYS = ("train_step", "wrap")


@pytest.mark.parametrize("way", WAYS)
def test_all_lengths_of_a_range_are_captured_once_and_the_longest_is_planned_first(way: str) -> None:
    case = Beside(models.Gpt(length=128), next_word, way, budget="60%", sizes={"x": (8, 128)})
    before, plans = captures(), {}
    for length in LENGTHS:
        plans[length] = case.check(*words(length))
        assert case.said == [], "what is declared needs no word"
        assert case.step.plan is case.step.plan
    assert captures() == before + 1
    assert plans[128].recomputes > 0 == plans[9].recomputes
    assert len({plan.budget for plan in plans.values()}) == 1, "60 % of the longest"
    assert plans[9].sizes == "x.shape[1]: 9"
    text = str(case.step.plans)
    assert re.match(r"x\.shape\[1\]: 8 to \d+: nothing recomputed, .* of ", text)
    assert re.search(r"x\.shape\[1\]: \d+ to 128: \d+ recomputes, \+.*bound \+", text)
    (expected,) = case.step.plans.expected
    assert expected.plain <= expected.bound <= expected.time and str(expected) in text
    assert 2 <= len(case.step.plans) <= 4


@pytest.mark.parametrize("way", WAYS)
def test_a_second_length_captures_for_all_of_them_and_says_so(way: str) -> None:
    case = Beside(models.Gpt(length=128), next_word, way, budget="4MiB")
    before, said = captures(), []
    for length in LENGTHS:
        case.check(*words(length))
        said += case.said
    assert captures() == before + 2
    assert len(said) == 1
    assert re.search(r"is captured for all sizes of what has changed: x \(2, 20\), y \(2, 20\)\. That took", said[0])


def test_rows_and_lengths_vary_and_the_last_batch_is_smaller() -> None:
    sizes = {"x": {0: (1, 6), 1: (8, 64)}, "y": {0: (1, 6), 1: (8, 64)}}
    case = Beside(models.Gpt(length=64), next_word, budget="60%", sizes=sizes)
    before = captures()
    for batch, length in ((4, 32), (6, 64), (4, 64), (2, 9), (6, 6 + 3), (5, 40)):
        case.check(*words(length, batch))
    assert captures() == before + 1
    plan = case.check(*words(64, 6))
    assert plan.recomputes > 0


def test_gradients_that_exist_are_a_capture_of_its_own() -> None:
    model = models.Gpt(layers=1, length=64, dropout=0.0)
    twin = copy.deepcopy(model)

    @rt.train_step(budget="80%", sizes={"x": (8, 64)}, **checking.OPTIONS)
    def step(x: torch.Tensor, y: torch.Tensor) -> None:
        next_word(model, x, y).backward()

    before = captures()
    for length in (16, 30, 64, 9):
        for _ in range(2):
            x, y = words(length)
            step(x, y)
            next_word(twin, x, y).backward()
        for mine, theirs in zip(model.parameters(), twin.parameters(), strict=True):
            assert checking.same(mine.grad, theirs.grad)
    assert captures() == before + 2


@pytest.mark.parametrize("way", WAYS)
def test_images_of_any_size_with_statistics(way: str) -> None:
    model = nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1),
        nn.BatchNorm2d(8),
        nn.ReLU(inplace=True),
        nn.Conv2d(8, 8, 3, stride=2),
        nn.BatchNorm2d(8),
        nn.SiLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(8, 4),
    )
    sizes = {"x": {0: (1, 8), 2: (8, 24), 3: (8, 24)}}
    case = Beside(model, lambda m, x, y: F.cross_entropy(m(x), y), way, budget="85%", sizes=sizes)
    for rows, height, width in ((4, 16, 12), (8, 24, 24), (3, 8, 23), (2, 17, 9)):
        case.check(torch.randn(rows, 3, height, width), torch.randint(0, 4, (rows,)))


def test_a_length_that_equals_the_number_of_rows_needs_no_capture() -> None:
    case = Beside(models.Gpt(layers=1, length=64), next_word, budget="80%", sizes={"x": (3, 64)})
    before = captures()
    for length in (31, 3, 40):
        case.check(*words(length, 3))
    assert captures() == before + 1


def test_a_size_of_views_alone_varies_too() -> None:
    """Its calls have other costs at other sizes, though no memory that is made has it."""

    def loss(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return model(x.expand(y.shape[0], -1).sum(0, keepdim=True) / y.shape[0]).square().mean()

    case = Beside(nn.Sequential(nn.Linear(64, 64), nn.Tanh()), loss, sizes={"y": {0: (2, 90)}})
    before = captures()
    for rows in (5, 90, 40):
        case.check(torch.randn(1, 64), torch.randn(rows, 3))
    assert captures() == before + 1
    assert case.step.plan.sizes == "y.shape[0]: 40"


def test_two_forwards_of_other_lengths_stand_before_their_backwards() -> None:
    """Each backward runs by the schedule of its own forward, with the dropout of that."""
    model = models.Gpt(layers=2, length=128)
    twin = copy.deepcopy(model)
    rt.wrap(model, budget="60%", sizes={"tokens": (8, 128)}, **checking.OPTIONS)
    xs = [words(length)[0] for length in (128, 9, 100, 128)]
    for module in (model, twin):
        torch.manual_seed(3)
        values = [module(x).square().mean() for x in xs]
        for value in reversed(values):
            value.backward()
    assert any(plan.recomputes for plan in rt.plans(model))
    for mine, theirs in zip(model.parameters(), twin.parameters(), strict=True):
        assert checking.same(mine.grad, theirs.grad)


def test_a_wrapped_module_gives_results_of_all_sizes_and_gradients_of_its_arguments() -> None:
    """Views and arguments among the results, a result that no loss reaches, and a mask that is filled again before the
    backward."""

    class Several(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.Linear(8, 32), nn.Linear(32, 8)

        def forward(self, x: torch.Tensor, mask: torch.Tensor) -> Any:
            hidden = self.first(x).sin() * (mask.cos() * 2).sin()
            return hidden[:, 1:], self.second(hidden), x, hidden.shape[1]

    model = Several()
    twin = copy.deepcopy(model)
    rt.wrap(model, budget="85%", sizes={"x": {1: (4, 64)}}, **checking.OPTIONS)
    for length in (64, 5, 33):
        outcomes = []
        x0, m0 = torch.randn(3, length, 8), torch.randn(3, length, 32)
        for module in (model, twin):
            x, mask = x0.clone().requires_grad_(), m0.clone()
            part, whole, same, count = module(x, mask)
            assert count == length and part.shape == (3, length - 1, 32) and same is x
            mask.zero_()
            whole.square().mean().backward()
            outcomes.append([part, whole, x.grad, *(p.grad for p in module.parameters())])
            module.zero_grad()
        assert all(checking.same(a, b) for a, b in zip(*outcomes, strict=True))
    assert any(plan.recomputes for plan in rt.plans(model))


def test_a_wrapped_module_infers_for_all_sizes() -> None:
    model = models.Gpt(layers=2, length=128).eval()
    twin = copy.deepcopy(model)
    rt.wrap(model, budget="95%", inference=True, sizes={"tokens": (8, 128)}, **checking.OPTIONS)
    before = captures()
    with torch.no_grad():
        for length in (16, 128, 40):
            x, _ = words(length)
            assert checking.same(model(x), twin(x))
    assert captures() == before + 1


def test_casts_to_half_precision() -> None:
    def loss(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        with torch.autocast(x.device.type, dtype=torch.bfloat16):
            return next_word(model, x, y)

    case = Beside(models.Gpt(length=64), loss, budget="80%", sizes={"x": (8, 64)})
    for length in (16, 64, 33):
        case.check(*words(length))


# -- Models of transformers --------------------------------------------------------------------------------------------


def of_transformers(kind: str) -> nn.Module:
    transformers = pytest.importorskip("transformers")
    if kind == "GPT2":
        own = {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64, "bos_token_id": 0, "eos_token_id": 0}
    else:
        own = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
        own |= {"num_key_value_heads": 2}
    config = getattr(transformers, f"{kind}Config")(vocab_size=64, **own)
    name = "GPT2LMHeadModel" if kind == "GPT2" else f"{kind}ForCausalLM"
    model: nn.Module = getattr(transformers, name)(config)
    return model


def masked(batch: Batch) -> torch.Tensor:
    """A mask that pads the first row on the left."""
    mask = torch.ones_like(batch["input_ids"])
    mask[0, :3] = 0
    return mask


def batch_of(length: int, padded: bool) -> Batch:
    x, _ = words(length)
    batch = {"input_ids": x, "labels": x.clone(), "attention_mask": torch.ones_like(x)}
    if padded:
        batch["attention_mask"] = masked(batch)
        batch["labels"][0, :3] = -100
    return batch


PADDED = [(0, 1, 0, 1), (1, 0, 1, 0), (0, 0, 0, 0), (1, 1, 1, 1)]
MODELS = [(kind, padded) for kind in ("Llama", "GPT2", "Qwen2") for padded in PADDED]


@pytest.mark.parametrize(
    ("kind", "padded"),
    [*MODELS[:2], MODELS[4], *(pytest.param(*m, marks=pytest.mark.slow) for m in (*MODELS[2:4], *MODELS[5:]))],
)
@pytest.mark.parametrize("way", WAYS)
def test_models_of_transformers_with_and_without_padding(kind: str, padded: Sequence[int], way: str) -> None:
    case = Beside(
        of_transformers(kind),
        lambda m, batch, _: m(**batch, use_cache=False).loss,
        way,
        budget="70%",
        sizes={"input_ids": (8, 64)},
    )
    before = captures()
    for length, is_padded in zip((24, 64, 9, 40), padded, strict=True):
        case.check(batch_of(length, bool(is_padded)), None)
    assert captures() <= before + 2, "with masks, and without"
    assert any(plan.recomputes for plan in case.step.plans)


# -- Budgets, and what is refused --------------------------------------------------------------------------------------


def test_the_longest_that_does_not_fit_is_refused_before_the_first_step() -> None:
    model = models.Gpt(layers=1, length=512)
    case = Beside(model, next_word, budget=4_000_000, sizes={"x": (8, 512)})
    state = copy.deepcopy(model.state_dict())
    with pytest.raises(rt.BudgetError, match="no schedule"):
        case.step(*words(16))
    assert all(p.grad is None for p in model.parameters())
    assert all(checking.same(value, state[name]) for name, value in model.state_dict().items())


def test_a_longer_one_that_does_not_fit_is_refused_when_it_comes() -> None:
    case = Beside(models.Gpt(layers=1, length=512), next_word, budget=4_000_000)
    for length in (16, 24):
        case.check(*words(length))
    with pytest.raises(rt.BudgetError, match="no schedule"):
        case.step(*words(512))
    case.check(*words(40))


def test_another_budget_needs_no_capture() -> None:
    case = Beside(models.Gpt(length=64), next_word, budget="100%", sizes={"x": (8, 64)})
    case.check(*words(64))
    before, whole = captures(), case.step.plan
    case.step.set_budget("60%")
    assert case.step.plan.budget < whole.budget and case.step.plan.recomputes > 0
    for length in (9, 64, 33):
        case.check(*words(length))
    with pytest.raises(rt.BudgetError):
        case.step.set_budget("1%")
    assert case.check(*words(64)).recomputes > 0
    assert captures() == before


def test_what_cannot_be_is_refused_in_a_line() -> None:
    def step(x: torch.Tensor, batch: Batch) -> None:
        raise AssertionError("nothing runs")

    for sizes, text in (
        ({"z": (1, 8)}, r"sizes: 0 tensors .* named 'z'; there are x, batch\.ids"),
        ({"x": {2: (1, 8)}}, r"x has 2 dimensions, and none is 2"),
        ({"x": (9, 8)}, r"9 to 8 is no range"),
        ({"x": 8}, r"8 is not a range such as"),
        ({"x": (1, 3)}, r"x\.shape\[1\] is 4, not within 1 to 3"),
        ({"ids": {0: (3, 8)}}, r"ids\.shape\[0\] is 2, not within 3 to 8"),
    ):
        with pytest.raises(InputError, match=text):
            rt.train_step(step, sizes=sizes)(torch.zeros(2, 4), {"ids": torch.zeros(2)})
    for options in ({"plans": 0}, {"lengths": [1]}, {"sizes": {"x": (1, 8), "y": (1, 9)}, "lengths": [1]}):
        with pytest.raises(InputError):
            rt.train_step(step, **options)
    with pytest.raises(ValueError, match="not with fuse"):
        rt.train_step(step, sizes={"x": (1, 8)}, fuse=True)


# -- Guards, and what is captured by size ------------------------------------------------------------------------------


@pytest.mark.parametrize("way", WAYS)
def test_a_branch_on_the_length_is_said_and_captured_apart(way: str) -> None:
    def loss(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        value = next_word(model, x, y)
        return value * 2 if x.shape[1] > 40 else value + 1

    case = Beside(models.Gpt(layers=1, length=64), loss, way, budget="80%", sizes={"x": (8, 64)})
    before, said = captures(), []
    for length in (16, 64, 40, 41, 9):
        case.check(*words(length))
        said += case.said
    assert captures() == before + 2
    assert len(said) == 2, said
    assert "x.shape[1]: this capture serves 8 to 40 of 8 to 64" in said[0]
    assert "serves 41 to 64 of 8 to 64" in said[1]


@pytest.mark.parametrize("way", WAYS)
def test_a_size_that_a_guard_excludes_is_captured_apart(way: str) -> None:
    def loss(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        value = next_word(model, x, y)
        return value * 2 if x.shape[1] == 16 else value + 1

    case = Beside(models.Gpt(layers=1, length=64), loss, way, budget="80%", sizes={"x": (8, 64)})
    before, said = captures(), []
    for length in (40, 16, 64):
        case.check(*words(length))
        said += case.said
    assert captures() == before + 2
    assert "x.shape[1]: this capture serves 8 to 15, 17 to 64 of 8 to 64" in said[0]
    assert len(said) == 2 and "has a plan for new shapes: x (2, 16), y (2, 16)" in said[1]


@pytest.mark.parametrize("way", WAYS)
def test_what_reads_a_length_as_a_number_is_captured_by_size_and_said(way: str) -> None:
    def loss(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return next_word(model, x, y) * len([None for _ in range(x.shape[1])])

    case = Beside(models.Gpt(layers=1, length=64), loss, way, budget="80%", sizes={"x": (8, 64)})
    said = []
    for length in (16, 64, 16, 40):
        case.check(*words(length))
        said += case.said
    assert sum("each size is captured and planned by itself" in text for text in said) == 1


def test_what_is_captured_by_size_takes_over_times_and_the_schedule(monkeypatch: pytest.MonkeyPatch) -> None:
    """No op is timed again at a second size, and its search begins with the schedule of the first one."""
    timed, starts = [], []
    own, planned = Call.time, steps.planned
    monkeypatch.setattr(Call, "time", lambda call: timed.append(call.key) or own(call))
    monkeypatch.setattr(
        steps, "planned", lambda *a, before, **b: starts.append(before) or planned(*a, before=before, **b)
    )

    def loss(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return next_word(model, x, y) * len([None for _ in range(x.shape[1])])

    case = Beside(models.Gpt(layers=2, length=112), loss, budget="2MiB")
    counts = []
    for length in (111, 97, 83):
        case.check(*words(length))
        counts.append(len(timed))
    assert [bool(start) for start in starts] == [False, True, True]
    assert 0 < counts[0] == counts[1] == counts[2] and len(case.step.plans) == 3


@pytest.mark.parametrize("way", WAYS)
def test_what_fails_with_symbols_is_captured_by_size_and_said(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: Any) -> None:
        raise rt.CaptureError("symbols are not for this one")

    monkeypatch.setattr("remora.torch.problem.sized.SizedProblem._find_symbols", fails)
    case = Beside(models.Gpt(layers=1, length=64), next_word, way, budget="80%")
    said = []
    for length in (16, 64, 16, 40):
        case.check(*words(length))
        said += [text for text in case.said if "cannot be captured for all sizes" in text]
    assert len(said) == 1 and "symbols are not for this one" in said[0]


def test_no_memory_stays_for_a_length() -> None:
    case = Beside(models.Gpt(length=300), next_word, budget="70%", cost="flops", sizes={"x": (8, 300)})
    lengths = itertools.chain(range(10, 25), range(100, 115))

    def objects() -> int:
        gc.collect()
        return sum(isinstance(thing, torch.Tensor) for thing in gc.get_objects())

    counts = []
    for i, length in enumerate(lengths):
        case.step(*words(length))
        case.model.zero_grad()
        counts += [objects()] if i in (4, 29) else []
    assert counts[1] <= counts[0] + 50


# -- The choice of schedules -------------------------------------------------------------------------------------------


def test_the_chosen_schedules_have_the_smallest_expected_time() -> None:
    draw = random.Random(3)
    for _ in range(200):
        count, most, schedules = draw.randint(1, 6), draw.randint(1, 4), draw.randint(1, 5)
        reach = [*(draw.randint(1, count) for _ in range(schedules - 1)), count]
        times = [[draw.randint(1, 9) for _ in range(count)] for _ in reach]
        weights = [float(draw.randint(0, 3)) for _ in range(count)]

        def expected(
            chosen: Sequence[int], reach: list[int] = reach, times: Any = times, weights: Any = weights
        ) -> float:
            """Each length by the chosen schedule that reaches it and no further than needed."""
            found = 0.0
            for i, weight in enumerate(weights):
                fitting = [k for k in chosen if reach[k] > i]
                nearest = min(reach[k] for k in fitting)
                found += weight * min(times[k][i] for k in fitting if reach[k] == nearest)
            return found

        whole = [
            c
            for size in range(1, most + 1)
            for c in itertools.combinations(range(len(reach)), size)
            if max(reach[k] for k in c) == count and len({reach[k] for k in c}) == size
        ]
        mine = fewest(times, reach, weights, most)
        assert len(mine) <= most and reach[mine[-1]] == count
        assert expected(mine) == min(map(expected, whole)) == expected_time(times, reach, weights, mine)


def test_costs_lie_on_lines_between_measurements() -> None:
    points = [(10, 100), (20, 150), (40, 400)]
    assert [between(points, x) for x in (10, 15, 20, 30, 40, 50)] == [100, 125, 150, 275, 400, 525]
    assert between([(10, 100)], 5) == 50 and between([(10, 100), (10, 90)], 20) == 200


def test_lengths_that_occur_decide_where_schedules_change() -> None:
    reached = []
    for lengths in ([20] * 5 + [100] * 90 + [128] * 5, [20] * 5 + [120] * 90 + [128] * 5):
        case = Beside(
            models.Gpt(length=128), next_word, budget="55%", cost="flops", sizes={"x": (8, 128)}, lengths=lengths
        )
        case.step(*words(20))
        plans = case.step.plans
        assert 2 <= len(plans) <= 4
        reached.append([plan.overhead for plan in plans])
        torch._dynamo.reset()
    assert reached[0] != reached[1]


# -- Random networks ---------------------------------------------------------------------------------------------------


class Random(nn.Module):
    """Some layers of a random kind each, with residual connections, over sequences of any length."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        draw = random.Random(seed)
        self.kinds = [draw.choice(sorted(KINDS)) for _ in range(draw.randint(2, 7))]
        self.embed = nn.Embedding(64, 16)
        self.layers = nn.ModuleList(nn.Linear(16, 16) for _ in self.kinds)
        self.norms = nn.ModuleList(nn.LayerNorm(16) for _ in self.kinds)
        self.head = nn.Linear(16, 64)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.embed(x)
        for kind, layer, norm in zip(self.kinds, self.layers, self.norms, strict=True):
            x = x + KINDS[kind](norm(x), layer)
        found: torch.Tensor = self.head(x)
        return found


def attention(x: torch.Tensor, layer: nn.Module) -> torch.Tensor:
    heads = layer(x).unflatten(-1, (2, 8)).transpose(1, 2)
    found = F.scaled_dot_product_attention(heads, heads, heads, is_causal=True)
    return found.transpose(1, 2).flatten(2)


def written_attention(x: torch.Tensor, layer: nn.Module) -> torch.Tensor:
    mask = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool, device=x.device).tril()
    scores = (x @ x.transpose(1, 2) / x.shape[-1] ** 0.5).masked_fill(~mask, float("-inf"))
    return scores.softmax(-1) @ layer(x)


KINDS: dict[str, Callable[[torch.Tensor, nn.Module], torch.Tensor]] = {
    "mlp": lambda x, layer: F.gelu(layer(x)),
    "relu": lambda x, layer: layer(x).relu_(),
    "dropout": lambda x, layer: F.dropout(layer(x), 0.2),
    "attention": attention,
    "written attention": written_attention,
    "shift": lambda x, layer: F.pad(layer(x)[:, 1:], (0, 0, 0, 1)),
    "cumulated": lambda x, layer: layer(x).cumsum(1) / torch.arange(1, x.shape[1] + 1, device=x.device)[:, None],
    "mean": lambda x, layer: layer(x.mean(1, keepdim=True)).expand(-1, x.shape[1], -1),
    "halves": lambda x, layer: torch.cat([layer(x[:, : x.shape[1] // 2]), x[:, x.shape[1] // 2 :].sin()], 1),
    "flat": lambda x, layer: layer(x.reshape(-1, 16)).sigmoid().view(x.shape),
    "scaled": lambda x, layer: layer(x) * (x.shape[1] ** -0.5),
    "repeated": lambda x, layer: layer(x[:, :1].expand(-1, x.shape[1], -1).mean(1, keepdim=True)),
    "convolution": lambda x, layer: F.conv1d(x.transpose(1, 2), layer.weight[:, :, None], padding=0).transpose(1, 2),
}


@pytest.mark.parametrize("seed", range(100 if os.environ.get("REMORA_ALL_CASES") else 4))
def test_random_networks_of_random_sizes(seed: int) -> None:
    draw = random.Random(seed)
    torch.manual_seed(seed)
    low, high = draw.randint(2, 12), draw.randint(13, 80)
    share = draw.choice((100, 85, 75, 65))
    options: dict[str, Any] = {"budget": f"{share}%", "plans": draw.randint(1, 4)}
    if draw.random() < 0.7:
        options["sizes"] = {"x": (low, high)}
    case = Beside(Random(seed), next_word, draw.choice(WAYS), **options)
    before = captures()
    lengths = [draw.randint(low, high) for _ in range(5)]
    try:
        for length in lengths:
            case.check(*words(length, 3))
    except rt.BudgetError as refusal:
        assert refusal.least > refusal.budget
        return
    assert captures() <= before + (1 if "sizes" in options else 2)


@pytest.mark.parametrize("seed", range(30 if os.environ.get("REMORA_ALL_CASES") else 2))
def test_the_verifier_finds_every_size_of_a_range_within_the_budget(seed: int) -> None:
    draw = random.Random(seed)
    torch.manual_seed(seed)
    low, high = draw.randint(2, 4), draw.randint(20, 30)
    model = Random(seed)
    words_of = {"budget": f"{draw.choice((85, 75, 65))}%", "cost": "flops", "plans": draw.randint(2, 4)}

    @rt.train_step(sizes={"x": (low, high)}, **words_of, **checking.OPTIONS)
    def step(x: torch.Tensor, y: torch.Tensor) -> None:
        next_word(model, x, y).backward()

    ran: dict[int, rt.Plan] = {}
    try:
        for length in range(low, high + 1):
            step(*words(length, 3))
            model.zero_grad()
            ran[length] = step.plan
    except rt.BudgetError:
        assert not ran, "the largest comes first"
        return
    ranges = [(list(map(int, re.findall(r"\d+", plan.sizes.partition(": ")[2]))), plan) for plan in step.plans]
    assert ranges[0][0][0] == low and ranges[-1][0][-1] == high
    for length, plan in ran.items():
        verdict = remora.verify(plan.found.graph, plan.found)
        assert verdict.valid and max(verdict.peak, plan.predicted_peak) <= plan.budget
        (shown,) = [one for served, one in ranges if served[0] <= length <= served[-1]]
        assert plan.predicted_time <= plan.unscheduled_time or plan.recomputes == shown.recomputes
