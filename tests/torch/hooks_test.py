# SPDX-License-Identifier: Apache-2.0
"""Planning runs the user's step, hooks included, and leaves nothing trained: whatever the hooks update, and where."""

from __future__ import annotations

import copy
import functools
import itertools
import types
from collections.abc import Callable
from typing import Any

import checking
import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn
from torch.utils import _pytree as pytree

import remora.torch as rt

OPTIONS: dict[str, Any] = {"time_limit": 2.0, "threads": 1}
Looked = Callable[[], Any]
"""Gives what the hooks change, in addition to the model."""


class Own:
    """An optimizer that is its own hook, and none of PyTorch's."""

    def __init__(self, p: torch.Tensor) -> None:
        self.p, self.steps, self.momentum = p, 0, None

    def __call__(self, p: torch.Tensor) -> None:
        self.steps += 1
        grown = p.grad if self.momentum is None else self.momentum * 0.9 + p.grad
        self.momentum = grown.clone()  # type: ignore[union-attr, assignment]
        p.data.add_(grown, alpha=-0.01)  # type: ignore[arg-type]
        p.grad = None


class Slotted:
    """The same without a dictionary of attributes."""

    __slots__ = ("momentum", "p", "steps")
    __init__ = Own.__init__
    __call__ = Own.__call__


class Registry:
    """Optimizers behind a class."""

    optimizers: dict[torch.Tensor, torch.optim.Optimizer] = {}  # noqa: RUF012


def adam(p: Any) -> torch.optim.Optimizer:
    return torch.optim.AdamW([p], lr=0.01)


def stepping(optimizers: dict[Any, torch.optim.Optimizer], p: Any) -> None:
    optimizers[p].step()
    p.grad = None


def states(optimizers: dict[Any, torch.optim.Optimizer]) -> Looked:
    return lambda: [optimizer.state_dict() for optimizer in optimizers.values()]


def an_optimizer_each(model: nn.Module) -> Looked:
    optimizers = {p: adam(p) for p in model.parameters()}
    for p in model.parameters():
        p.register_post_accumulate_grad_hook(functools.partial(stepping, optimizers))
    return states(optimizers)


def one_optimizer_and_a_scheduler(model: nn.Module) -> Looked:
    optimizer = torch.optim.SGD(model.parameters(), 0.01, momentum=0.9)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 2)
    called, count = [0], len(list(model.parameters()))

    def update(_: Any) -> None:
        called[0] += 1
        if called[0] % count == 0:
            optimizer.step()
            scheduler.step()
            optimizer.zero_grad()

    for p in model.parameters():
        p.register_post_accumulate_grad_hook(update)
    return lambda: [optimizer.state_dict(), scheduler.last_epoch, called]


def optimizers_that_have_stepped(model: nn.Module) -> Looked:
    look = an_optimizer_each(model)
    loss(model, INPUT).backward()
    return look


def behind_a_class(model: nn.Module) -> Looked:
    Registry.optimizers = optimizers = {p: adam(p) for p in model.parameters()}
    for p in model.parameters():
        p.register_post_accumulate_grad_hook(lambda p: stepping(Registry.optimizers, p))
    return states(optimizers)


def in_a_namespace(model: nn.Module) -> Looked:
    given = types.SimpleNamespace(momentum={p: torch.zeros_like(p) for p in model.parameters()}, steps=0)

    def update(p: Any) -> None:
        given.steps += 1
        p.data.sub_(given.momentum[p].mul_(0.9).add_(p.grad), alpha=0.01)
        p.grad = None

    for p in model.parameters():
        p.register_post_accumulate_grad_hook(update)
    return lambda: [given.steps, list(given.momentum.values())]


def in_arrays(model: nn.Module) -> Looked:
    momentum = {p: np.zeros(tuple(p.shape), np.float32) for p in model.parameters()}

    def update(p: Any) -> None:
        momentum[p] *= 0.9
        momentum[p] += p.grad.cpu().numpy()
        p.data.sub_(torch.from_numpy(momentum[p]).to(p.device), alpha=0.01)
        p.grad = None

    for p in model.parameters():
        p.register_post_accumulate_grad_hook(update)
    return lambda: [torch.from_numpy(values.copy()) for values in momentum.values()]


def objects_of_the_users(model: nn.Module, kind: Any = Own) -> Looked:
    own = [kind(p) for p in model.parameters()]
    for update in own:
        update.p.register_post_accumulate_grad_hook(update)
    return lambda: [(update.steps, update.momentum) for update in own]


def attributes_of_parameters(model: nn.Module) -> Looked:
    def update(p: Any) -> None:
        p.momentum = torch.zeros_like(p) if not hasattr(p, "momentum") else p.momentum
        p.data.sub_(p.momentum.mul_(0.9).add_(p.grad), alpha=0.01)
        p.grad = None

    for p in model.parameters():
        p.register_post_accumulate_grad_hook(update)
    return lambda: [getattr(p, "momentum", None) for p in model.parameters()]


def hooks_of_nodes(model: nn.Module, views: bool = False) -> Looked:
    """As optimizers were put into the backward before PyTorch had hooks for it; a view that is kept hides them."""
    optimizers = {p: adam(p) for p in model.parameters()}
    kept = []
    for p in model.parameters():
        view = p.expand_as(p)
        assert view.grad_fn is not None
        node = view.grad_fn.next_functions[0][0]
        node.register_hook(lambda *_, p=p: stepping(optimizers, p))
        kept.append((node, view) if views else (node,))
    look = states(optimizers)
    return lambda: look() if kept else None


def of_pytorch(model: nn.Module) -> Looked:
    from torch.distributed.optim import _apply_optimizer_in_backward

    _apply_optimizer_in_backward(torch.optim.AdamW, model.parameters(), {"lr": 0.01})
    return lambda: [p._in_backward_optimizers[0].state_dict() for p in model.parameters()]  # type: ignore[attr-defined]


def hooks_of_gradients(model: nn.Module) -> Looked:
    seen: list[Any] = []
    for p in model.parameters():
        p.register_hook(lambda g, p=p: (p.data.sub_(0.01 * g), None)[1])
        p.register_hook(seen.append)
    return lambda: len(seen)


def hooks_of_modules(model: nn.Module) -> Looked:
    assert isinstance(model, nn.Sequential)
    average, kept = torch.zeros(WIDTH, WIDTH), []

    def follow(module: Any, _: Any, result: torch.Tensor) -> None:
        average.lerp_(module[0].weight.detach(), 0.1)
        kept.append(result)

    model[1].register_forward_hook(follow)
    model[2].register_forward_pre_hook(lambda module, _: (module[0].weight.data.mul_(0.999), None)[1])
    model[0].register_full_backward_hook(lambda *_: (model[3][0].weight.data.mul_(0.99), None)[1])
    return lambda: [average, len(kept)]


KINDS: dict[str, Callable[[nn.Module], Looked]] = {
    made.__name__: made
    for made in (
        an_optimizer_each, one_optimizer_and_a_scheduler, optimizers_that_have_stepped, behind_a_class, in_a_namespace,
        in_arrays, objects_of_the_users, attributes_of_parameters, hooks_of_nodes, of_pytorch, hooks_of_gradients,
        hooks_of_modules,
    )
} | {
    "objects with slots": lambda model: objects_of_the_users(model, Slotted),
    "hidden hooks of nodes": lambda model: hooks_of_nodes(model, views=True),
}  # fmt: skip
WIDTH = 48
INPUT = torch.randn(160, WIDTH, generator=checking.generator(9), device=checking.DEVICE)


def net() -> nn.Module:
    torch.manual_seed(0)
    parts = [nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.GELU()) for _ in range(5)]
    return nn.Sequential(*parts, nn.Linear(WIDTH, 12))


def loss(model: nn.Module, x: torch.Tensor) -> torch.Tensor:
    return model(x).square().mean()  # type: ignore[no-any-return]


def leaves(value: Any) -> list[Any]:
    return [copy.deepcopy(leaf) for leaf in pytree.tree_leaves(value)]


def same(a: list[Any], b: list[Any]) -> bool:
    pairs = list(zip(a, b, strict=False))
    return len(a) == len(b) and all(torch.equal(x, y) if isinstance(x, torch.Tensor) else x == y for x, y in pairs)


def trained(model: nn.Module, look: Looked) -> list[Any]:
    for _ in range(3):
        loss(model, INPUT).backward()
        model.zero_grad()
    return leaves([look(), model.state_dict()])


@pytest.mark.parametrize("kind", list(KINDS))
def test_planning_leaves_untrained_what_hooks_update(kind: str) -> None:
    plain, mine = net(), net()
    eager = trained(plain, KINDS[kind](plain))
    look = KINDS[kind](mine)
    before = leaves([look(), mine.state_dict()])
    rt.auto_checkpoint(mine, INPUT, "80%", loss=loss, **OPTIONS)
    assert same(leaves([look(), mine.state_dict()]), before)
    assert rt.checkpoints(mine).modules
    assert same(trained(mine, look), eager)


def test_a_plan_for_a_device_leaves_the_model_as_it_is() -> None:
    model, average, calls = net(), torch.zeros(WIDTH, WIDTH), list[int]()
    look = an_optimizer_each(model)
    assert isinstance(model, nn.Sequential)

    def follow(module: Any, *_: Any) -> None:
        average.lerp_(module[0].weight.detach(), 0.1)
        calls.append(1)

    model[1].register_forward_hook(follow)
    before = leaves([look(), average, model.state_dict()])
    rt.plan(model, INPUT, lambda m, x: loss(m, x), budget="80%", **OPTIONS)
    assert same(leaves([look(), average, model.state_dict()]), before)
    assert calls == []


def test_losses_that_count_or_train_something_else_are_restored() -> None:
    model, scale, losses = net(), nn.Parameter(torch.ones(12)), list[torch.Tensor]()
    outer = torch.optim.SGD([scale], 0.1)
    steps = 0

    def scaled(m: nn.Module, x: torch.Tensor) -> torch.Tensor:
        nonlocal steps
        steps += 1
        scale.grad = torch.ones_like(scale)
        outer.step()
        scale.grad = None
        value: torch.Tensor = (m(x) * scale).square().mean()
        losses.append(value.detach())
        return value

    rt.auto_checkpoint(model, INPUT, "80%", loss=scaled, **OPTIONS)
    assert (steps, losses) == (0, [])
    assert scale.grad is None and bool((scale == 1).all())


def test_a_state_that_cannot_be_restored_is_refused_by_name() -> None:
    model, steps = net(), itertools.count()

    def update(p: Any) -> None:
        p.data.sub_(p.grad, alpha=0.01 / (1 + next(steps)))
        p.grad = None

    for p in model.parameters():
        p.register_post_accumulate_grad_hook(update)
    before = leaves(model.state_dict())
    with pytest.raises(rt.CheckpointError, match=r"the parameter 0\.0\.weight is updated by a hook whose own state"):
        rt.auto_checkpoint(model, INPUT, "80%", loss=loss, **OPTIONS)
    assert same(leaves(model.state_dict()), before)


class Attached(nn.Module):
    """Adds what is no parameter and no buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.table = net(), torch.randn(160, 12)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.inner(x) + self.table
        return result


TARGETS = torch.randint(0, 12, (160,), generator=checking.generator(3), device=checking.DEVICE)


def chunks(m: nn.Module, x: torch.Tensor, targets: list[torch.Tensor]) -> torch.Tensor:
    rows = zip(x.chunk(4), targets, strict=True)
    return sum(F.cross_entropy(m(part), target, reduction="sum") for part, target in rows)  # type: ignore[return-value]


CLOSED: dict[str, tuple[Callable[[], nn.Module], Callable[[nn.Module, torch.Tensor], torch.Tensor]]] = {
    "a target in chunks": (net, lambda m, x: chunks(m, x, list(TARGETS.chunk(4)))),
    "a target in slices": (net, lambda m, x: chunks(m, x, [TARGETS[i : i + 40] for i in range(0, 160, 40)])),
    "an array's": (net, lambda m, x: F.cross_entropy(m(x), torch.from_numpy(ARRAY).to(x.device))),
    "a list's": (net, lambda m, x: F.cross_entropy(m(x), torch.tensor(ARRAY.tolist(), device=x.device))),
    "a teacher, detached": (net, lambda m, x: (m(x) - TEACHER(x).detach()).square().mean()),
    "a tensor of a module": (Attached, loss),
}
ARRAY = TARGETS.cpu().numpy()
TEACHER = net()


@pytest.mark.parametrize("name", list(CLOSED))
def test_all_of_the_memory_is_enough_whatever_the_loss_reads(name: str) -> None:
    make, closed = CLOSED[name]
    plan = rt.checkpoints(rt.auto_checkpoint(make(), INPUT, "100%", loss=closed, **OPTIONS))
    assert not plan.modules
    assert plan.predicted_peak == plan.unscheduled_peak == plan.budget


def test_a_refusal_names_no_lower_bound_that_is_the_budget() -> None:
    model = nn.Sequential(nn.Linear(16, 64), nn.GELU(), nn.Linear(64, 64), nn.GELU(), nn.Linear(64, 32))
    with pytest.raises(rt.BudgetError, match="is enough, and less may be") as refusal:
        rt.auto_checkpoint(model, torch.randn(160, 16), "90%", loss=loss, **OPTIONS)
    assert refusal.value.proved and "lower bound" not in str(refusal.value)
