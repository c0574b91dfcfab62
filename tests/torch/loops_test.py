# SPDX-License-Identifier: Apache-2.0
"""What people do around a step: hooks, autocast, buffers and inputs that change, graph breaks, changing numbers.

Each run equals eager in every bit, or is refused, or told of.
"""

from __future__ import annotations

import copy
import functools
import gc
import inspect
import logging
import pickle
import warnings
import weakref
from collections.abc import Callable
from typing import Any

import checking
import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn
from torch.utils.checkpoint import checkpoint

import remora
import remora.torch as rt
from remora.torch import ledger

X = torch.randn(512, 64, generator=checking.generator(1))


def layers(count: int = 4, width: int = 64) -> nn.Sequential:
    return nn.Sequential(*[m for _ in range(count) for m in (nn.Linear(width, width), nn.Tanh())])


def squared(model: nn.Module) -> Callable[..., torch.Tensor]:
    def step(x: torch.Tensor) -> torch.Tensor:
        loss = model(x).square().mean()
        loss.backward()
        return loss.detach()

    return step


def same_as_eager(
    make: Callable[[], nn.Module], loop: Callable[[nn.Module], torch.Tensor], budget: str, calls: int = 2
) -> nn.Module:
    """Runs a loop on a wrapped module and on its twin from the same state, and compares everything after each call."""
    torch.manual_seed(0)
    mine = make()
    eager = copy.deepcopy(mine)
    rt.wrap(mine, budget=budget, **checking.OPTIONS)
    for call in range(calls):
        results = []
        for module in (eager, mine):
            module.zero_grad()
            torch.manual_seed(100 + call)
            value = loop(module)
            gradients = {n: p.grad for n, p in module.named_parameters()}
            buffers = {n: b.clone() for n, b in module.named_buffers()}
            results.append(checking.Outcome([value.detach()], gradients, buffers, checking.random_state(), 0))
        assert checking.differences(results[1], results[0]) == []
    return mine


def told(run: Callable[[], Any]) -> list[str]:
    """Remora's warnings in a run."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        run()
    return [str(w.message) for w in caught if issubclass(w.category, rt.RemoraWarning)]


def backward_of(module: nn.Module, *inputs: Any) -> torch.Tensor:
    out = module(*inputs)
    out.square().mean().backward()
    return out


# -- Gradient hooks ----------------------------------------------------------------------------------------------------


def halve(p: torch.Tensor) -> None:
    p.register_hook(lambda g: g * 0.5)


def clamp(p: torch.Tensor) -> None:
    def small(q: torch.Tensor) -> None:
        q.grad.clamp_(-1e-5, 1e-5)

    p.register_post_accumulate_grad_hook(small)


def optimizer_in_backward(p: torch.Tensor) -> None:
    def apply(q: torch.Tensor) -> None:
        with torch.no_grad():
            q.add_(q.grad, alpha=-0.1)
        q.grad = None

    p.register_post_accumulate_grad_hook(apply)


@pytest.mark.parametrize("hook", [halve, clamp, optimizer_in_backward])
def test_gradient_hooks_are_refused_in_a_step_and_run_in_a_wrapped_module(hook: Callable[..., None]) -> None:
    model = layers()
    hook(model[2].weight)
    step = rt.train_step(squared(model), budget="60%", **checking.OPTIONS)
    with pytest.raises(rt.CaptureError, match=r"model\.2\.weight has a gradient hook \(register_\w+\).*wrap"):
        step(X)
    assert all(p.grad is None for p in model.parameters()), "nothing ran"

    def make() -> nn.Module:
        made = layers()
        for p in made.parameters():
            hook(p)
        return made

    torch.manual_seed(0)
    eager, mine = make(), None
    torch.manual_seed(0)
    mine = rt.wrap(make(), budget="60%", **checking.OPTIONS)
    for module in (eager, mine):
        backward_of(module, X)
    for a, b in zip(eager.parameters(), mine.parameters(), strict=True):
        assert checking.same(a.detach(), b.detach())
        assert (a.grad is None) == (b.grad is None)
        assert a.grad is None or checking.same(a.grad, b.grad)


def test_a_gradient_hook_that_comes_after_the_first_call_is_refused_too() -> None:
    model = layers()
    step = rt.train_step(squared(model), budget="60%", **checking.OPTIONS)
    step(X)
    handle = model[0].bias.register_hook(lambda g: g * 0.5)
    model.zero_grad()
    with pytest.raises(rt.CaptureError, match=r"model\.0\.bias has a gradient hook \(register_hook\)"):
        step(X)
    assert model[0].bias.grad is None
    handle.remove()
    step(X)
    assert model[0].bias.grad is not None
    assert len(step.plans) == 1


def test_a_hook_on_a_value_inside_the_step_runs() -> None:
    def loss(model: nn.Module, x: torch.Tensor) -> torch.Tensor:
        middle = model[:4](x)
        middle.register_hook(lambda g: g * 3)
        return model[4:](middle).square().mean()

    checking.check_step(layers(), loss, (X,), "60%")


# -- Effects and random numbers ----------------------------------------------------------------------------------------

CALLS = {"log": 0, "noise": 0, "tagged": 0, "declared": 0, "pure": 0}


def wide(name: str, random: bool, tags: tuple[Any, ...] = ()) -> Any:
    """A custom op whose result is large and whose input is small, so that it pays to make it again."""

    def run(x: torch.Tensor) -> torch.Tensor:
        CALLS[name] += 1
        y = x.repeat(1, 64)
        return y * (torch.rand_like(y) > 0.5) if random else y

    op = torch.library.custom_op(f"remoratest::{name}", run, mutates_args=(), schema="(Tensor x) -> Tensor", tags=tags)
    op.register_fake(lambda x: x.new_empty(x.shape[0], x.shape[1] * 64))
    op.register_autograd(lambda _, g: g.unflatten(1, (64, -1)).sum(1))
    return getattr(torch.ops.remoratest, name)


OPS = {
    "log": wide("log", random=False),
    "noise": wide("noise", random=True),
    "tagged": wide("tagged", random=True, tags=(torch.Tag.nondeterministic_seeded,)),
    "declared": wide("declared", random=False),
    "pure": wide("pure", random=False),
}
try:
    from torch._higher_order_ops.effects import _EffectType, _register_effectful_op

    _register_effectful_op(OPS["declared"].default, _EffectType.ORDERED)
except ImportError:
    OPS.pop("declared")


class Widening(nn.Module):
    def __init__(self, op: Any) -> None:
        super().__init__()
        self.op = op
        self.lins = nn.ModuleList([nn.Linear(64, 1) for _ in range(6)])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for lin in self.lins:
            x = torch.sin(self.op(lin(x)))
        return x


@pytest.mark.parametrize("name", list(OPS))
def test_custom_ops_run_as_often_as_in_eager_unless_named_pure(name: str) -> None:
    options: dict[str, Any] = {"pure": ("remoratest::pure",)} if name == "pure" else {}
    model = Widening(OPS[name])
    eager = copy.deepcopy(model)
    step = rt.train_step(squared(model), budget="100%", **options, **checking.OPTIONS)
    step(X)
    with pytest.raises(rt.BudgetError) as caught:
        step.set_budget("1%")
    least, again = caught.value.least, False
    for budget in ("100%", "60%", least):
        try:
            step.set_budget(budget)
        except rt.BudgetError:
            assert name != "pure"
            continue
        outcomes, counts = [], []
        for run, module in ((squared(eager), eager), (step, model)):
            CALLS[name] = 0
            outcomes.append(checking.outcome(module, lambda run=run: run(X), copy.deepcopy(eager.state_dict())))
            counts.append(CALLS[name])
        assert checking.differences(outcomes[1], outcomes[0]) == []
        again = counts[1] > counts[0]
        if name != "pure":
            assert counts == [6, 6]
    assert again == (name == "pure"), "within the least budget"


# -- Autocast, buffers, inputs, and what no loss reaches ---------------------------------------------------------------


@pytest.mark.parametrize("budget", ["100%", "75%"])
def test_the_backward_of_a_wrapped_module_is_not_under_autocast(budget: str) -> None:
    def loop(module: nn.Module) -> torch.Tensor:
        with torch.autocast(checking.DEVICE.type, torch.bfloat16):
            out = module(X)
            loss = out.float().square().mean()
        loss.backward()
        return out.float()

    make: Callable[[], nn.Module] = lambda: nn.Sequential(  # noqa: E731
        *[m for _ in range(3) for m in (nn.Linear(64, 128), nn.GELU(), nn.Linear(128, 64))]
    )
    same_as_eager(make, loop, budget)


class Normalizing(nn.Module):
    """Normalizes by what it has seen before this batch."""

    def __init__(self, inside: bool) -> None:
        super().__init__()
        self.lin, self.inside = nn.Linear(64, 64), inside
        self.register_buffer("mean", torch.zeros(64))
        self.register_buffer("seen", torch.zeros(()))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.sigmoid(x * 2 - self.mean) * torch.cos(x + self.mean)
        z = self.lin(y).tanh()
        if self.inside:
            self.mean.mul_(0.5).add_(x.detach().mean(0), alpha=0.5)
            self.seen.add_(1)
        return z


@pytest.mark.parametrize("budget", ["100%", "75%", "60%"])
@pytest.mark.parametrize("inside", [True, False])
def test_buffers_that_change_after_they_were_read(budget: str, inside: bool) -> None:
    def loop(module: nn.Module) -> torch.Tensor:
        out = module(X)
        if not inside:
            with torch.no_grad():
                for part in module:
                    part.mean.add_(0.25)
        out.square().mean().backward()
        return out

    module = same_as_eager(lambda: nn.Sequential(*[Normalizing(inside) for _ in range(6)]), loop, budget)
    assert (rt.plans(module)[0].recomputes > 0) == (budget != "100%")


def test_batch_normalization_runs_again_with_its_old_statistics() -> None:
    def make() -> nn.Module:
        return nn.Sequential(*[m for _ in range(6) for m in (nn.Linear(64, 64), nn.BatchNorm1d(64), nn.Sigmoid())])

    module = same_as_eager(make, lambda m: backward_of(m, X), "70%")
    assert rt.plans(module)[0].recomputes > 0


class Fourier(nn.Module):
    """Wide features of a small input, into which no gradient flows: eager keeps them and not the input."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("freq", torch.linspace(0.5, 8, 64))
        self.l = nn.Sequential(nn.Linear(512, 64), nn.GELU(), nn.Linear(64, 64), nn.GELU(), nn.Linear(64, 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.l(torch.sin(x[:, :, None] * self.freq).flatten(1))


@pytest.mark.parametrize("budget", ["100%", "75%"])
def test_an_input_that_is_refilled_between_forward_and_backward(budget: str) -> None:
    first = torch.randn(1024, 8)

    def loop(module: nn.Module) -> torch.Tensor:
        x = first.clone()
        out = module(x)
        x.copy_(torch.randn_like(x))
        out.square().mean().backward()
        return out

    same_as_eager(Fourier, loop, budget)


class TwoHeads(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.c = nn.Linear(64, 64), nn.Linear(64, 64), nn.Linear(64, 64)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        h = torch.tanh(self.a(x))
        return self.b(h).tanh(), self.c(h.detach()).tanh()


@pytest.mark.parametrize("heads", [(0,), (1,), (0, 1)])
def test_parameters_that_no_loss_reaches_have_no_gradient(heads: tuple[int, ...]) -> None:
    def loop(module: nn.Module) -> torch.Tensor:
        out = module(X)
        loss = sum(out[i].square().mean() for i in heads)
        assert isinstance(loss, torch.Tensor)
        loss.backward()
        return loss

    module = same_as_eager(TwoHeads, loop, "100%")
    assert (module.c.weight.grad is None) == (1 not in heads)
    assert (module.a.weight.grad is None) == (0 not in heads)


class SharedTrunk(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.c = nn.Linear(64, 64), nn.Linear(64, 64), nn.Linear(64, 64)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        h = self.a(x)
        return self.b(h).tanh(), self.c(h).tanh()


def test_zeros_of_outputs_that_no_loss_reaches_are_told_of_once() -> None:
    def loop(module: nn.Module) -> torch.Tensor:
        loss = module(X)[0].square().mean()
        loss.backward()
        return loss

    said = told(lambda: same_as_eager(SharedTrunk, loop, "100%"))
    assert len(said) == 1
    assert "a loss reaches only some of its outputs" in said[0]
    assert told(lambda: same_as_eager(TwoHeads, loop, "100%")) == [], "no gradient comes through both"


# -- What a backend is not asked ---------------------------------------------------------------------------------------


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.lstm, self.b = nn.Linear(64, 32), nn.LSTM(32, 32), nn.Linear(32, 64)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.b(self.lstm(self.a(x))[0])


class Experts(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.gate, self.experts = nn.Linear(64, 3), nn.ModuleList([nn.Linear(64, 64) for _ in range(3)])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        chosen, out = self.gate(x).argmax(1), torch.zeros_like(x)
        for i, expert in enumerate(self.experts):
            rows = (chosen == i).nonzero()[:, 0]
            out[rows] = expert(x[rows])
        return out


@pytest.mark.parametrize("model", [Recurrent, Experts])
@pytest.mark.parametrize("how", ["backend", "name"])
def test_a_graph_break_is_told_once_with_its_place(model: type[nn.Module], how: str) -> None:
    module = model()
    eager = copy.deepcopy(module)
    options = {"budget": "100%", **checking.OPTIONS}
    ledger.listener.listen()  # the test before has reset Dynamo
    compiled = (
        torch.compile(module, backend=rt.Backend(rt.Options(**options)))
        if how == "backend"
        else torch.compile(module, backend=rt.backend, options=options)
    )
    said = told(lambda: backward_of(compiled, X))
    assert len(said) == 1
    assert "loops_test.py:" in said[0]
    assert "runs eagerly, outside of it" in said[0]
    assert told(lambda: backward_of(compiled, X)) == []
    module.zero_grad()
    backward_of(compiled, X)
    backward_of(eager, X)
    for a, b in zip(module.parameters(), eager.parameters(), strict=True):
        assert (a.grad is None) == (b.grad is None)
        assert a.grad is None or checking.same(a.grad, b.grad)
    report = rt.report(module)
    assert not report.holds
    named = {"lstm (LSTM)"} if model is Recurrent else {f"experts.{i} (Linear)" for i in range(3)}
    assert all(any(n in line for line in report.outside) for n in named), str(report)


def test_a_report_of_what_is_planned_whole_says_that_the_budget_holds() -> None:
    model = rt.wrap(layers(), budget="80%", **checking.OPTIONS)
    assert not rt.report(model).holds, "nothing has run"
    backward_of(model, X)
    report = rt.report(model)
    assert report.holds
    assert len(report.parts) == 1
    assert "recomputes" in str(report)
    assert str(report).startswith("the budget holds for the whole step\n")
    assert "<svg" in report._repr_html_()


class Halved(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = layers()

    def forward(self, x: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.inner(x) * scale
        return result


def test_a_report_names_the_users_model_and_the_shapes_of_its_batches() -> None:
    model = rt.wrap(Halved(), budget="100%", **checking.OPTIONS)
    step = rt.train_step(squared(model.inner), budget="100%", **checking.OPTIONS)
    for rows in (32, 64):
        backward_of(model, X[:rows], torch.ones(rows, 1))
        step(X[:rows])
    text, of_step = str(rt.report(model)), str(rt.report(step))
    assert "/ways/" not in text + of_step
    for rows in (32, 64):
        assert (
            f"loops_test.py:{Halved.forward.__code__.co_firstlineno}) of float32[{rows}, 64], float32[{rows}, 1], "
            in text
        )
        assert f") of float32[{rows}, 64], training" in of_step
    assert text.count("Halved (") == 2


def decorated(forward: Any) -> Any:
    @functools.wraps(forward)
    def wrapper(self: Any, *args: Any) -> Any:
        return forward(self, *args)

    return wrapper


class Decorated(nn.Linear):
    forward = decorated(nn.Linear.forward)


@pytest.mark.parametrize("model", [Decorated(4, 4), Halved()], ids=lambda model: type(model).__name__)
def test_a_graph_is_named_by_its_model_whatever_decorates_the_forward(model: nn.Module) -> None:
    names = []

    def backend(graph: Any, _: Any) -> Any:
        names.append(ledger.place_of_capture(""))
        return graph.forward

    given = [torch.ones(64, 64), torch.ones(64, 1)] if isinstance(model, Halved) else [torch.ones(4, 4)]
    torch.compile(model, backend=backend)(*given)
    code = inspect.unwrap(type(model).forward).__code__
    assert names == [f"{type(model).__name__} ({code.co_filename}:{code.co_firstlineno})"]


def test_a_percentage_means_the_same_whatever_the_order_of_the_batches() -> None:
    found: list[dict[int, Any]] = []
    for order in ((512, 128, 256), (128, 256, 512, 128, 256)):
        model = layers(8)
        step = rt.train_step(squared(model), budget="70%", **checking.OPTIONS)
        found.append({})
        for rows in order:
            model.zero_grad()
            step(X[:rows])
            plan = step.plan
            found[-1][rows] = plan.unscheduled_peak, plan.budget, plan.recomputes > 0
        assert "0 recomputes" in str(rt.report(step))
    assert found[0] == found[1]
    assert len({budget for _, budget, _ in found[0].values()}) == 1
    assert sorted(recomputes for *_, recomputes in found[0].values()) == [False, False, True]
    step.set_budget("80%")
    assert len({plan.budget for plan in step.plans}) == 1


def test_a_wrapped_module_says_once_that_a_larger_batch_raised_its_budget() -> None:
    model = rt.wrap(layers(8), budget="80%", **checking.OPTIONS)
    assert told(lambda: backward_of(model, X[:128])) == []
    said = told(lambda: (backward_of(model, X[:256]), backward_of(model, X)))
    assert sum("begin with the largest batch, or give the budget in bytes" in text for text in said) == 1
    assert all("a larger batch has raised it" in text or "is captured for all sizes" in text for text in said)


def test_a_graph_that_cannot_be_planned_runs_and_is_told() -> None:
    class Odd(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.lin = nn.Linear(64, 64)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.lin(x).sum() * torch.ops.remoratest.both(x)[1].sum()

    both = torch.library.custom_op(
        "remoratest::both", lambda x: (x.clone(), x * 2), mutates_args=(), schema="(Tensor x) -> (Tensor, Tensor)"
    )
    both.register_fake(lambda x: (x, torch.empty_like(x)))  # which says that one result is the argument
    model = Odd()
    eager = copy.deepcopy(model)
    compiled = torch.compile(model, backend=rt.Backend(rt.Options(budget="100%", **checking.OPTIONS)), dynamic=False)
    said = told(lambda: compiled(X).backward())
    assert len(said) == 1
    assert "cannot be planned, and runs without a budget" in said[0]
    eager(X).backward()
    assert checking.same(model.lin.weight.grad, eager.lin.weight.grad)
    assert not rt.report(model).holds


def test_a_graph_without_tensors_among_its_arguments_runs_unplanned() -> None:
    backend = rt.Backend(rt.Options(budget="100%", **checking.OPTIONS))
    compiled = torch.compile(lambda: torch.arange(12).reshape(3, 4) * 2, backend=backend, dynamic=False)
    assert compiled().sum() == 132
    assert backend.plans == []


def test_the_last_shape_that_dynamo_captures_is_told() -> None:
    model = layers(1)
    compiled = torch.compile(model, backend=rt.Backend(rt.Options(budget="100%", **checking.OPTIONS)), dynamic=False)
    with torch._dynamo.config.patch(recompile_limit=2):
        assert told(lambda: backward_of(compiled, X[:8])) == []
        said = told(lambda: backward_of(compiled, X[:16]))
    assert len(said) == 1
    assert "recompile_limit" in said[0]


def test_a_percentage_is_fixed_by_the_first_training_graph() -> None:
    model = layers()
    backend = rt.Backend(rt.Options(budget="70%", **checking.OPTIONS))
    compiled = torch.compile(model, backend=backend, dynamic=False)
    backward_of(compiled, X)
    backward_of(compiled, X[:100])
    assert [plan.budget for plan in backend.plans] == [backend.plans[0].budget] * 2
    assert [plan.recomputes > 0 for plan in backend.plans] == [True, False]
    with torch.no_grad():
        compiled(X)
    assert len(backend.plans) == 2


def test_a_step_that_is_captured_in_every_call_is_told_with_the_reason() -> None:
    class Counting(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.lin, self.steps = nn.Linear(8, 8), 0

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.steps += 1
            return self.lin(x) * self.steps

    model = Counting()
    step = rt.train_step(squared(model), budget="100%", cost="flops", **checking.OPTIONS)
    said = []
    for _ in range(4):
        model.zero_grad()
        said.append(told(lambda: step(X[:4, :8])))
    assert [len(texts) for texts in said] == [0, 0, 1, 0]
    assert "steps" in said[2][0]


def test_a_model_on_meta_is_refused() -> None:
    with torch.device("meta"):
        model, x, y = nn.Linear(8, 8), torch.empty(4, 8), torch.zeros(4, dtype=torch.long)

    def step(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        return loss.detach()

    with pytest.raises(rt.CaptureError, match=r"meta.*FakeTensorMode"):
        rt.train_step(step, budget="100%", cost="flops")(x, y)
    with pytest.raises(rt.CaptureError, match=r"meta.*FakeTensorMode"):
        rt.wrap(model, budget="100%", cost="flops")(x)


# -- Without gradients -------------------------------------------------------------------------------------------------


def test_a_wrapped_module_evaluates_as_if_it_were_not_wrapped() -> None:
    model = rt.wrap(layers(), budget="70%", **checking.OPTIONS)
    eager = copy.deepcopy(model)
    for context in (torch.no_grad(), torch.inference_mode()):
        with context:
            assert checking.same(model(X), eager(X))
    assert rt.plans(model) == []
    backward_of(model, X)
    model.eval()
    with torch.no_grad():
        for length in range(1, 12):
            assert checking.same(model(X[:length]), eager(X[:length]))
    assert len(rt.plans(model)) == 1
    rt.unwrap(model)
    backward_of(model, X[:7])
    with pytest.raises(rt.CaptureError, match="was not given"):
        rt.plans(model)


def test_twenty_shapes_are_planned_within_the_bytes_of_the_first() -> None:
    """One by one, where code is compiled for each."""
    model = rt.wrap(layers(2), budget="80%", cost="flops", fuse=True, **checking.OPTIONS)
    for rows in range(500, 480, -1):
        backward_of(model, X[:rows])
    assert len(rt.plans(model)) == 20
    assert len({plan.budget for plan in rt.plans(model)}) == 1


# -- Mistakes ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"budget": "80"}, "did you mean 80%"),
        ({"budget": "-5%"}, "budget"),
        ({"budget": "lots"}, "budget"),
        ({"budget": 0.8}, r"0\.8 is neither bytes .* did you mean '80%'\?"),
        ({"budget": 1e9}, r"did you mean 1000000000\?"),
        ({"budget": None}, "None is neither bytes"),
        ({"budget": 0}, "0 bytes"),
        ({"budget": True}, "True is neither"),
        ({"order": "fre"}, "order: 'fre' is none of 'input', 'free', 'auto'"),
        ({"cost": "guess"}, "cost: 'guess'"),
        ({"time_limit": "5"}, "time_limit: '5' is not a positive number"),
        ({"threads": -1}, "threads: -1"),
        ({"fuse": "yes"}, "fuse: 'yes'"),
        ({"pure": "a::b"}, "pure: 'a::b'"),
        ({"bugdet": "5%"}, "bugdet"),
    ],
)
@pytest.mark.parametrize("how", ["train_step", "wrap"])
def test_options_are_checked_when_they_are_given(options: dict[str, Any], said: str, how: str) -> None:
    with pytest.raises((rt.TorchError, ValueError, TypeError), match=said):
        if how == "wrap":
            rt.wrap(layers(1), **options)
        else:
            rt.train_step(lambda: None, **options)


def test_a_function_is_not_wrapped() -> None:
    with pytest.raises(TypeError, match="train_step takes a function"):
        rt.wrap(squared(layers(1)), budget="80%")  # type: ignore[type-var]


def test_errors_are_remoras_and_say_nothing_of_bugs_of_pytorch() -> None:
    model = layers()
    with pytest.raises(remora.Error) as caught:
        rt.train_step(squared(model), budget="1%", **checking.OPTIONS)(X)
    assert isinstance(caught.value, rt.BudgetError)
    assert "TORCHDYNAMO" not in str(caught.value)
    copied = pickle.loads(pickle.dumps(caught.value))
    assert (copied.least, str(copied)) == (caught.value.least, str(caught.value))

    def item(x: torch.Tensor) -> float:
        loss = model(x).square().mean()
        loss.backward()
        return loss.item()

    with pytest.raises(rt.CaptureError, match="known only when it runs; return the tensor") as refused:
        rt.train_step(item, budget="80%", **checking.OPTIONS)(X)
    with pytest.raises(rt.CaptureError, match=r"still needs backward\(\)"):
        rt.train_step(lambda x: model(x).square().mean(), budget="80%", **checking.OPTIONS)(X)
    with torch.no_grad():  # where nothing needs a gradient
        rt.train_step(lambda x: model(x).square().mean(), budget="100%", **checking.OPTIONS)(X)
    assert "TORCHDYNAMO" not in str(refused.value)
    with pytest.raises(rt.CaptureError) as shapes:
        rt.train_step(squared(model), budget="80%", **checking.OPTIONS)(torch.randn(3, 5))
    assert "TORCHDYNAMO" not in str(shapes.value)


def test_anomaly_mode_is_refused_around_a_step_and_raises_around_a_wrapped_module() -> None:
    def loss(module: nn.Module, x: torch.Tensor) -> torch.Tensor:
        return module(x).sub(10).sqrt().sum()

    model = layers(1)
    step = rt.train_step(lambda x: loss(model, x).backward(), budget="100%", **checking.OPTIONS)
    with torch.autograd.detect_anomaly(check_nan=True), pytest.raises(rt.CaptureError, match="anomaly mode"):
        step(X)
    rt.wrap(model, budget="100%", **checking.OPTIONS)
    with torch.autograd.detect_anomaly(check_nan=True), pytest.raises(RuntimeError, match="nan"):
        loss(model, X).backward()


# -- What others hold --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["train_step", "wrap"])
def test_what_is_deleted_is_gone(how: str) -> None:
    def once() -> weakref.ref[torch.Tensor]:
        model = layers(2, 32)
        if how == "wrap":
            backward_of(rt.wrap(model, budget="90%", cost="flops", **checking.OPTIONS), X[:, :32])
        else:
            rt.train_step(squared(model), budget="90%", cost="flops", **checking.OPTIONS)(X[:, :32])
        return weakref.ref(model[0].weight)

    alive = [once() for _ in range(3)]
    gc.collect()
    assert [r() is None for r in alive] == [True] * 3


def test_a_users_profile_keeps_its_events() -> None:
    model = layers(2, 48)
    step = rt.train_step(squared(model), budget="100%", **checking.OPTIONS)
    with torch.profiler.profile() as recorded:
        torch.randn(7).sin()
        step(X[:, :48])
        torch.randn(7).cos()
    names = {event.name for event in recorded.events()}
    assert {"aten::sin", "aten::cos", "aten::addmm"} <= names


def test_a_log_line_in_a_model_is_left_out() -> None:
    logger = logging.getLogger("a model")

    class Logging(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.lin = nn.Linear(64, 64)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            logger.warning("shape %s", x.shape)
            return self.lin(x)

    checking.check_step(Logging(), lambda model, x: model(x).square().mean(), (X,), "100%")
    backward_of(rt.wrap(Logging(), budget="100%", **checking.OPTIONS), X)


# -- A model's own checkpoints, and mixed precision --------------------------------------------------------------------


class Checkpointing(nn.Module):
    def __init__(self, dropout: float) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.Linear(64, 128), nn.GELU(), nn.Dropout(dropout), nn.Linear(128, 64)) for _ in range(4)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            x = x + checkpoint(block, x, use_reentrant=False)
        return x


@pytest.mark.parametrize("dropout", [0.0, 0.2])
def test_a_models_own_checkpoints_are_taken_out(dropout: float) -> None:
    def loss(model: nn.Module, x: torch.Tensor) -> torch.Tensor:
        return model(x).square().mean()

    for budget in ("100%", "70%"):
        plan = checking.check_step(Checkpointing(dropout), loss, (X[:256],), budget)
        assert plan.checkpoints == 4
        assert "4 checkpoints of the model" in str(plan)
        assert (plan.recomputes > 0) == (budget == "70%")
    module = same_as_eager(lambda: Checkpointing(dropout), lambda m: backward_of(m, X[:256]), "70%")
    assert rt.plans(module)[0].checkpoints == 4
    assert rt.plans(module)[0].unscheduled_peak == pytest.approx(plan.unscheduled_peak, rel=0.2)


@pytest.mark.parametrize("kind", ["layer", "batch", "group"])
def test_normalizations_under_autocast(kind: str) -> None:
    norm: nn.Module = {"layer": nn.LayerNorm(64), "batch": nn.BatchNorm1d(64), "group": nn.GroupNorm(4, 64)}[kind]

    def loss(model: nn.Module, x: torch.Tensor) -> torch.Tensor:
        with torch.autocast(checking.DEVICE.type, dtype=torch.bfloat16):
            out = model(x)
        return out.float().square().mean()

    model = nn.Sequential(nn.Linear(64, 64), norm, nn.GELU(), nn.Linear(64, 64))
    checking.check_step(model, loss, (X,), "90%")


def test_a_gradient_scaler() -> None:
    model = layers()
    eager = copy.deepcopy(model)
    scalers = [torch.amp.GradScaler(checking.DEVICE.type, init_scale=1024.0, growth_interval=2) for _ in range(2)]

    @rt.train_step(budget="80%", **checking.OPTIONS)
    def step(x: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
        loss = model(x).square().mean()
        (loss * scale).backward()
        return loss.detach()

    for module, scaler in zip((eager, model), scalers, strict=True):
        optimizer = torch.optim.AdamW(module.parameters(), lr=1e-2)
        for _ in range(5):
            optimizer.zero_grad()
            if module is model:
                step(X, rt.scale_of(scaler))
            else:
                scaler.scale(eager(X).square().mean()).backward()
            scaler.step(optimizer)
            scaler.update()
    assert scalers[0].get_scale() == scalers[1].get_scale() > 1024
    assert all(checking.same(a.data, b.data) for a, b in zip(model.parameters(), eager.parameters(), strict=True))
    assert len(step.plans) == 1


def test_the_least_budget_is_never_above_what_the_step_takes() -> None:
    class Attending(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.lin = nn.Linear(16, 48)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            q, k, v = self.lin(x).unflatten(-1, (3, 2, 8)).permute(2, 0, 3, 1, 4)
            return F.scaled_dot_product_attention(q, k, v, is_causal=True)

    model = Attending()
    step = rt.train_step(lambda x: model(x).square().mean().backward(), budget="1%", **checking.OPTIONS)
    x = torch.randn(2, 8, 16)
    with pytest.raises(rt.BudgetError) as caught:
        step(x)
    full = rt.train_step(lambda x: model(x).square().mean().backward(), budget="100%", **checking.OPTIONS)
    full(x)
    assert caught.value.least <= full.plan.unscheduled_peak


@pytest.mark.parametrize("fails", [False, True])
def test_a_compiled_function_whose_batches_differ_is_captured_once_more(
    fails: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For all sizes; where that fails, for each by itself."""

    def fail(*_: Any) -> None:
        raise rt.CaptureError("symbols are not for this one")

    if fails:
        monkeypatch.setattr("remora.torch.problem.sized.SizedGraph._find_symbols", fail)
    model = layers()
    eager = copy.deepcopy(model)
    backend = rt.Backend(rt.Options(budget="80%", cost="flops", **checking.OPTIONS))
    compiled = torch.compile(model, backend=backend)  # sizes that differ become symbols
    said = []
    for rows in (512, 400, 300, 512, 17):
        for module, run in ((model, compiled), (eager, eager)):
            module.zero_grad()
            said += told(functools.partial(backward_of, run, X[:rows]))
        for a, b in zip(model.parameters(), eager.parameters(), strict=True):
            assert checking.same(a.grad, b.grad)
    assert len(rt.report(model).parts) == (4 if fails else 2)
    assert [text for text in said if "for each by itself: symbols are not" in text] == said[:1] and bool(said) == fails
    assert all(plan.predicted_peak <= plan.budget for plan in backend.plans)


def test_padding_to_a_few_lengths_makes_a_few_plans() -> None:
    model = layers(2)
    step = rt.train_step(squared(model), budget="100%", cost="flops", **checking.OPTIONS)
    lengths = set()
    for rows in range(1, 21):
        model.zero_grad()
        padded = rt.padded(X[:rows], [8, 16, 32], dim=0)
        assert padded.shape[0] in (8, 16, 32)
        assert torch.equal(padded[:rows], X[:rows])
        assert not padded[rows:].any()
        step(padded)
        lengths.add(step.plan.sizes or "8")
    assert len(lengths) == 3
    with pytest.raises(ValueError, match="33 is longer than the longest, 32"):
        rt.padded(X[:33], [8, 16, 32], dim=0)
