# SPDX-License-Identifier: Apache-2.0
"""`train_step(update=optimizer)`: parameters and states equal those of the optimizer's own step in every bit, and the
peak is the predicted one."""

from __future__ import annotations

import copy
import functools
import os
import random
from collections.abc import Callable, Iterable
from typing import Any

import checking
import models
import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn
from torch.optim.optimizer import register_optimizer_step_post_hook

import remora.torch as rt
from remora.errors import InputError
from remora.torch.capture.graph import Run
from remora.torch.capture.updates import late_reads, updates_in
from remora.torch.measure import allocated

Make = Callable[[Iterable[nn.Parameter]], torch.optim.Optimizer]
OPTIMIZERS: dict[str, Make] = {
    "SGD": functools.partial(torch.optim.SGD, lr=0.1),
    "SGD with momentum": functools.partial(torch.optim.SGD, lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.1),
    "AdamW": functools.partial(torch.optim.AdamW, lr=0.01, amsgrad=True),
    "AdamW, fused": functools.partial(torch.optim.AdamW, lr=0.01, fused=True),
    "SGD, fused": functools.partial(torch.optim.SGD, lr=0.1, momentum=0.9, fused=True),
    "AdamW, lr in a tensor": lambda p: torch.optim.AdamW(p, lr=torch.tensor(0.01)),
    **{
        name: getattr(torch.optim, name)
        for name in ("Adam", "NAdam", "RAdam", "Adamax", "Adadelta", "Adagrad", "RMSprop", "Rprop", "ASGD", "Adafactor")
    },
}


def net(width: int = 16, layers: int = 3) -> nn.Module:
    parts = [nn.Sequential(nn.Linear(width, width), nn.LayerNorm(width), nn.GELU()) for _ in range(layers)]
    return nn.Sequential(*parts, nn.Linear(width, 4))


def classified(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return F.cross_entropy(model(x), y)


def rows(count: int = 32, width: int = 16) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(count, width), torch.randint(0, 4, (count,))


class Pair:
    """A step with its optimizer inside, and the eager one with the optimizer behind."""

    def __init__(self, model: nn.Module, make: Make, loss: checking.Loss = classified, **options: Any) -> None:
        self.mine = model.to(checking.DEVICE)
        self.theirs = copy.deepcopy(self.mine)
        self.optimizers = make(self.mine.parameters()), make(self.theirs.parameters())
        for group in self.optimizers[1].param_groups:
            group.update({"foreach": False} if "foreach" in group else {})
        given = {**checking.OPTIONS, "budget": "100%", **options}
        self.step = rt.train_step(checking.Case.body(self.mine, loss), update=self.optimizers[0], **given)
        # Of learning rates in tensors what is computed of them has a bound.
        self.has_bound = any(torch.is_tensor(group["lr"]) for group in self.optimizers[0].param_groups)
        self._eager = checking.Case.body(self.theirs, loss)

    def eager(self, *given: Any) -> torch.Tensor:
        result: torch.Tensor = self._eager(*given)
        self.optimizers[1].step()
        self.optimizers[1].zero_grad()
        return result

    def run(self, given: tuple[Any, ...], steps: int = 3, between: Callable[[Any], None] = lambda _: None) -> rt.Plan:
        """So many steps of both; from the second one on the optimizer's state is there, and the peak as predicted."""
        given = checking.on_device(given)
        for number in range(steps):
            torch.manual_seed(number)
            expected = self.eager(*given)
            torch.manual_seed(number)
            result, peak = allocated(lambda: self.step(*given), checking.DEVICE) if number else (self.step(*given), 0)
            assert checking.same(result, expected)
            self.compare()
            for optimizer in self.optimizers:
                between(optimizer)
            plan = self.step.plan
            assert plan.predicted_peak <= plan.budget
            if number:
                beyond = plan.predicted_peak - plan.fixed_memory
                checking.check_peak(beyond if self.has_bound and peak <= beyond <= peak + 64 else peak, beyond, plan)
        return plan

    def compare(self) -> None:
        for (name, p), q in zip(self.mine.named_parameters(), self.theirs.parameters(), strict=True):
            assert checking.same(p, q), name
            assert p.grad is None or q.grad is not None
        for a, b in zip(self.mine.buffers(), self.theirs.buffers(), strict=True):
            assert checking.same(a, b)
        mine, theirs = (optimizer.state_dict() for optimizer in self.optimizers)
        assert mine["state"].keys() == theirs["state"].keys()
        for key, state in mine["state"].items():
            for name, value in state.items():
                other = theirs["state"][key][name]
                assert checking.same(value, other) if torch.is_tensor(value) else value == other


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_an_update_inside_is_the_optimizers_own(name: str) -> None:
    pair = Pair(net(), OPTIMIZERS[name])
    schedules = {o: torch.optim.lr_scheduler.StepLR(o, 2, 0.5) for o in pair.optimizers}
    pair.run(rows(), 4, lambda optimizer: schedules[optimizer].step())
    assert all(p.grad is None for p in pair.mine.parameters())
    groups = [optimizer.param_groups for optimizer in pair.optimizers]
    assert [len(g["params"]) for g in groups[0]] == [len(g["params"]) for g in groups[1]]
    assert [g["lr"] for g in groups[0]] == [g["lr"] for g in groups[1]]


def test_a_state_is_saved_and_loaded() -> None:
    pair = Pair(net(), OPTIMIZERS["AdamW"])
    pair.run(rows(), 2)
    kept = copy.deepcopy(pair.optimizers[0].state_dict())
    pair.run(rows(), 1)
    for optimizer in pair.optimizers:
        optimizer.load_state_dict(copy.deepcopy(kept))
    pair.run(rows(), 2)


def test_groups_have_their_own_options() -> None:
    def make(parameters: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
        given = list(parameters)
        first = {"params": [p for p in given if p.dim() > 1], "weight_decay": 0.2}
        return torch.optim.AdamW([first, {"params": [p for p in given if p.dim() < 2], "lr": 0.1}], lr=0.01)

    Pair(net(), make).run(rows())


def test_other_parameters_keep_their_gradients_and_unused_ones_have_none() -> None:
    model = nn.ModuleDict({"first": nn.Linear(16, 16), "last": nn.Linear(16, 4), "unused": nn.Linear(4, 4)})
    optimizer = torch.optim.SGD([*model["last"].parameters(), *model["unused"].parameters()], lr=0.1)
    twin = copy.deepcopy(model)
    other = torch.optim.SGD([*twin["last"].parameters(), *twin["unused"].parameters()], lr=0.1)

    def loss(m: Any, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(m["last"](m["first"](x).tanh()), y)

    step = rt.train_step(checking.Case.body(model, loss), update=optimizer, **checking.OPTIONS)
    given = rows()
    step(*given)
    checking.Case.body(twin, loss)(*given)
    other.step()
    for (name, mine), theirs in zip(model.named_parameters(), twin.named_parameters(), strict=True):
        assert checking.same(mine, theirs[1])
        assert (mine.grad is not None) == name.startswith("first")
        assert mine.grad is None or checking.same(mine.grad, theirs[1].grad)


def test_two_optimizers() -> None:
    model, twin = net(), net()
    twin.load_state_dict(model.state_dict())

    def both(m: nn.Module) -> list[torch.optim.Optimizer]:
        matrices = [p for p in m.parameters() if p.dim() > 1]
        return [torch.optim.SGD(matrices, lr=0.1), torch.optim.AdamW([p for p in m.parameters() if p.dim() < 2])]

    step = rt.train_step(checking.Case.body(model, classified), update=both(model), **checking.OPTIONS)
    others = both(twin)
    for _ in range(2):
        given = rows()
        step(*given)
        checking.Case.body(twin, classified)(*given)
        for optimizer in others:
            optimizer.step()
            optimizer.zero_grad()
    assert all(checking.same(a, b) for a, b in zip(model.parameters(), twin.parameters(), strict=True))


def test_a_step_with_its_optimizer_is_right() -> None:
    model = net()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    step = rt.train_step(checking.Case.body(model, classified), budget="80%", update=optimizer, **checking.OPTIONS)
    given = rows()
    found = rt.check(step, *given)
    assert found.equal, found
    assert not optimizer.state
    step(*given)
    found = rt.check(step, *given)
    assert found.equal and found.compared, found


def test_options_that_change_the_memory_of_an_update_are_refused() -> None:
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    step = rt.train_step(checking.Case.body(model, classified), update=optimizer, **checking.OPTIONS)
    step(*rows())
    for group in optimizer.param_groups:
        group["lr"] = 0.0
    step(*rows())
    for group in optimizer.param_groups:
        group["weight_decay"] = 0.1
    with pytest.raises(rt.CaptureError, match="options have changed"):
        step(*rows())


# -- Where an update comes ---------------------------------------------------------------------------------------------


def written(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return F.cross_entropy(model(x).flatten(0, 1), y.flatten())


@pytest.mark.parametrize("name", ["perceptron", "gpt"])
def test_gradients_do_not_lie_beside_each_other(name: str) -> None:
    """Of a network whose parameters are most of its memory, the minimum falls by almost all gradients.

    The gradient of tied weights has two parts, of which the first one is there from the beginning of the backward.
    """
    model: nn.Module = nn.Sequential(*[nn.Linear(128, 128) for _ in range(8)])
    given, loss = (torch.randn(2, 128), torch.randint(0, 128, (2,))), classified
    if name == "gpt":
        model, loss = models.Gpt(layers=4, width=64, dropout=0.0), written
        given = torch.randint(0, 64, (1, 16)), torch.randint(0, 64, (1, 16))
    gradients = sum(p.nbytes for p in model.parameters())
    outside = rt.train_step(checking.Case.body(copy.deepcopy(model), loss), budget="1%", **checking.OPTIONS)
    with pytest.raises(rt.BudgetError) as refused:
        outside(*given)
    with pytest.raises(rt.BudgetError) as less:
        Pair(model, OPTIMIZERS["SGD"], loss, budget="1%").step(*given)
    plan = Pair(model, OPTIMIZERS["SGD"], loss, budget=less.value.least).run(given)
    saved = refused.value.least - plan.predicted_peak
    print(f"minimum {refused.value.least:,}, with the updates inside {plan.predicted_peak:,}; gradients {gradients:,}")
    assert saved >= 0.75 * gradients


def test_gradients_of_several_backwards_add_up_before_the_update() -> None:
    def body(model: nn.Module) -> Callable[..., torch.Tensor]:
        def step(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            total = torch.zeros((), device=x.device)
            for a, b in zip(x.chunk(4), y.chunk(4), strict=True):
                loss = classified(model, a, b) / 4
                loss.backward()
                total = total + loss.detach()
            return total

        return step

    model = net()
    twin = copy.deepcopy(model)
    optimizers = [OPTIMIZERS["AdamW"](m.parameters()) for m in (model, twin)]
    step = rt.train_step(body(model), budget="90%", update=optimizers[0], **checking.OPTIONS)
    eager = body(twin)
    given = rows()
    for number in range(3):
        mine, peak = allocated(lambda: step(*given), checking.DEVICE)
        assert checking.same(mine, eager(*given))
        optimizers[1].step()
        optimizers[1].zero_grad()
        assert all(checking.same(a, b) for a, b in zip(model.parameters(), twin.parameters(), strict=True))
        if number:
            checking.check_peak(peak, step.plan.predicted_peak - step.plan.fixed_memory, step.plan)


def test_what_is_read_behind_the_backward_is_the_parameter_before_its_update() -> None:
    """Logits that the loss does not keep are read in the end: they are computed with the weights before."""

    def body(model: nn.Module) -> Callable[..., Any]:
        def step(x: torch.Tensor, y: torch.Tensor) -> Any:
            logits = model(x)
            loss = F.cross_entropy(logits, y)
            loss.backward()
            again = model(x.flip(0)).detach().sum()
            return loss.detach(), (logits.detach().argmax(1) == y).float().mean(), again, logits.detach() * 2

        return step

    for order in ("input", "free"):
        model = net(width=32)
        twin = copy.deepcopy(model)
        optimizers = [OPTIMIZERS["SGD"](m.parameters()) for m in (model, twin)]
        step = rt.train_step(body(model), budget="80%", update=optimizers[0], order=order, **checking.OPTIONS)
        eager = body(twin)
        given = rows(64, 32)
        for _ in range(2):
            assert all(checking.same(a, b) for a, b in zip(step(*given), eager(*given), strict=True))
            optimizers[1].step()
            optimizers[1].zero_grad()
        assert all(checking.same(a, b) for a, b in zip(model.parameters(), twin.parameters(), strict=True))


def test_a_schedule_that_reads_a_parameter_behind_its_update_is_found() -> None:
    pair = Pair(net(), OPTIMIZERS["SGD"])
    pair.run(rows(), 1)
    step = pair.step._captured[0].problem.step
    runs = [Run(op, ()) for op in step.ops]
    assert late_reads(step, runs) == []
    updates = list(updates_in(step))
    first = next(op for op in step.ops if set(op.inputs) & set(updates[0].inputs) and not op.backward)
    assert late_reads(step, [*runs, Run(first, ())]) == [first]
    assert late_reads(step, [Run(first, ()), *runs]) == []
    problem = pair.step._captured[0].problem
    assert problem.graph.ops[step.ops.index(first)].max_computes is None
    problem.forbid([first])
    assert problem.graph.ops[step.ops.index(first)].max_computes == 1


class Drawn(nn.Module):
    """A random network of layers, some of which are called twice, with skips and products of branches."""

    def __init__(self, draw: random.Random) -> None:
        super().__init__()
        self.width = width = draw.choice((8, 16, 24))
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(draw.randint(2, 5)))
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.scale = nn.Parameter(torch.rand(width))
        self.drop, self.head = nn.Dropout(0.2), nn.Linear(width, 4)
        count = draw.randint(4, 12)
        kinds = ("linear", "linear", "linear", "norm", "gelu", "tanh", "relu", "drop", "add", "mul", "scale", "same")
        self.moves = [
            (draw.choice(kinds), draw.randint(0, 99), draw.randint(0, i), draw.randint(max(0, i - 1), i))
            for i in range(count)
        ]
        read = {near for *_, near in self.moves} | {far for k, _, far, _ in self.moves if k in ("add", "mul")}
        self.unread = [i for i in range(count + 1) if i not in read]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        values = [x]
        for kind, number, far, near in self.moves:
            a, b = values[near], values[far]
            made = {
                "linear": lambda a=a, n=number: self.layers[n % len(self.layers)](a),
                "norm": lambda a=a, n=number: self.norms[n % 2](a),
                "gelu": lambda a=a: F.gelu(a),
                "tanh": lambda a=a: a.tanh(),
                "relu": lambda a=a: a.relu(),
                "drop": lambda a=a: self.drop(a),
                "add": lambda a=a, b=b: a + b,
                "mul": lambda a=a, b=b: a * b.sigmoid(),
                "scale": lambda a=a: a * self.scale,
                "same": lambda a=a, n=number: F.linear(a, self.layers[n % len(self.layers)].weight.t().square()),
            }[kind]()
            values.append(made)
        result: torch.Tensor = self.head(self.norms[0](sum(values[i] for i in self.unread)))
        return result


@pytest.mark.parametrize("seed", range(60 if os.environ.get("REMORA_ALL_CASES") else 6))
def test_random_networks_recomputed_within_a_budget(seed: int) -> None:
    draw = random.Random(seed)
    torch.manual_seed(seed)
    model = Drawn(draw)
    given = rows(draw.choice((16, 64)), model.width)
    budget: int | str = draw.choice(("1%", f"{draw.randint(50, 95)}%"))
    order = draw.choice(("input", "input", "free"))
    make = OPTIMIZERS[draw.choice(list(OPTIMIZERS))]
    for _ in range(2):
        pair = Pair(copy.deepcopy(model), make, budget=budget, order=order)
        try:
            plan = pair.run(given)
        except rt.BudgetError as refused:
            budget = refused.least
            continue
        print(f"{seed}: {budget} {order} {plan.recomputes} recomputes")
        return
    raise AssertionError("what is called enough is not enough")


@pytest.mark.parametrize("budget", ["100%", "60%"])
def test_a_language_model_with_tied_weights(budget: str) -> None:
    words = torch.randint(0, 64, (8, 32)), torch.randint(0, 64, (8, 32))
    plan = Pair(models.Gpt(), OPTIMIZERS["AdamW"], written, budget=budget).run(words)
    assert (plan.recomputes > 0) == (budget != "100%")


def test_convolutions_with_batch_norm() -> None:
    model = models.convolutions()
    images = torch.randn(8, 3, 12, 12), torch.randint(0, 5, (8,))
    model(images[0])
    Pair(model, OPTIMIZERS["SGD with momentum"], budget="85%").run(images)


def test_sizes_that_vary() -> None:
    pair = Pair(net(), OPTIMIZERS["AdamW"], budget="80%", sizes={"arguments.0": {0: (8, 64)}, "arguments.1": (8, 64)})
    for count in (64, 8, 30):
        pair.run(rows(count), 2)


def test_slices() -> None:
    model = nn.Sequential(nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 512))
    given = torch.randn(64, 16), torch.randint(0, 512, (64,))
    pair = Pair(model, OPTIMIZERS["SGD"], budget="40%", slices="auto")
    for number in range(3):
        expected = pair.eager(*given)
        result, peak = allocated(lambda: pair.step(*given), checking.DEVICE)
        assert torch.allclose(result, expected)
        for p, q in zip(pair.mine.parameters(), pair.theirs.parameters(), strict=True):
            assert torch.allclose(p, q, atol=1e-6)
        if number:
            checking.check_peak(peak, pair.step.plan.predicted_peak - pair.step.plan.fixed_memory, pair.step.plan)
    assert pair.step.plan.slices > 1


# -- What cannot be right ----------------------------------------------------------------------------------------------


def hooked(parameters: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
    optimizer = torch.optim.SGD(parameters, lr=0.1)
    optimizer.register_step_post_hook(lambda *_: None)
    return optimizer


class Own(torch.optim.SGD):
    """An optimizer of the user's."""


REFUSED: dict[str, tuple[Make, str]] = {
    "LBFGS": (torch.optim.LBFGS, "LBFGS cannot run inside: it evaluates a closure"),
    "SparseAdam": (torch.optim.SparseAdam, "SparseAdam cannot run inside: captured gradients"),
    "foreign": (Own, "Own cannot run inside: it is none of torch.optim's"),
    "hooks": (hooked, "SGD has hooks of its step"),
    "none": (lambda _: torch.optim.SGD, "type is no optimizer"),  # type: ignore[arg-type, return-value]
    "differentiable": (functools.partial(torch.optim.SGD, differentiable=True), "it is differentiable"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_an_optimizer_whose_updates_depend_on_each_other_is_refused(name: str) -> None:
    make, said = REFUSED[name]
    given = make(net().parameters())
    with pytest.raises((InputError, TypeError), match=said):
        rt.train_step(lambda: None, update=[given], **checking.OPTIONS)


def test_hooks_of_all_optimizers_are_refused() -> None:
    handle = register_optimizer_step_post_hook(lambda *_: None)
    try:
        with pytest.raises(InputError, match="hooks of its step"):
            rt.train_step(lambda: None, update=torch.optim.SGD(net().parameters(), lr=0.1))
    finally:
        handle.remove()


def test_running_statistics_and_a_budget_that_is_not_met() -> None:
    model = nn.Sequential(nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 16), nn.BatchNorm1d(16))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    body = lambda x: model(x).square().mean().backward()  # noqa: E731
    step = rt.train_step(body, update=optimizer, **{**checking.OPTIONS, "budget": "100%"})
    step(torch.randn(64, 16))
    with pytest.raises(rt.BudgetError) as refusal:
        step.set_budget("0%")
    assert refusal.value.least > 0


def test_a_parameter_twice_is_refused() -> None:
    model = net()
    optimizers = [torch.optim.SGD(model.parameters(), lr=0.1) for _ in range(2)]
    with pytest.raises(InputError, match="listed twice"):
        rt.train_step(lambda: None, update=optimizers)


@pytest.mark.parametrize("option", ["fuse", "arena", "cuda_graph"])
def test_other_programs_are_refused(option: str) -> None:
    with pytest.raises(ValueError, match="update: not with"):
        rt.train_step(lambda: None, update=torch.optim.SGD(net().parameters()), **{option: True})


def clipped(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    loss = classified(model, x, y)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    return loss.detach()


def test_accumulation_a_global_norm_and_a_scaler_are_refused() -> None:
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    before = copy.deepcopy(model.state_dict())
    given = rows()
    step = rt.train_step(checking.Case.body(model, classified), update=optimizer, **checking.OPTIONS)
    classified(model, *given).backward()
    with pytest.raises(rt.CaptureError, match="parameter 0 of SGD has a gradient already"):
        step(*given)
    optimizer.zero_grad()
    with pytest.raises(rt.CaptureError, match="clipping by a global norm"):
        rt.train_step(functools.partial(clipped, model), update=optimizer, **checking.OPTIONS)(*given)

    scaler = torch.amp.GradScaler("cpu", init_scale=8.0)

    @rt.train_step(update=optimizer, **checking.OPTIONS)
    def scaled(x: torch.Tensor, y: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
        loss = classified(model, x, y)
        (loss * scale).backward()
        return loss.detach()

    with pytest.raises(rt.CaptureError, match="GradScaler"):
        scaled(*given, rt.scale_of(scaler))
    optimizer.register_step_pre_hook(lambda *_: None)
    with pytest.raises(InputError, match="hooks of its step"):
        step(*given)
    assert all(checking.same(a, b) for a, b in zip(model.state_dict().values(), before.values(), strict=True))


def test_clipping_by_value_happens_before_the_update() -> None:
    def body(model: nn.Module) -> Callable[..., torch.Tensor]:
        def step(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            loss = classified(model, x, y)
            loss.backward()
            torch.nn.utils.clip_grad_value_(model.parameters(), 0.001, foreach=False)
            return loss.detach()

        return step

    model = net()
    twin = copy.deepcopy(model)
    optimizers = [torch.optim.SGD(m.parameters(), lr=0.1) for m in (model, twin)]
    given = rows()
    rt.train_step(body(model), update=optimizers[0], **checking.OPTIONS)(*given)
    body(twin)(*given)
    optimizers[1].step()
    assert all(checking.same(a, b) for a, b in zip(model.parameters(), twin.parameters(), strict=True))
