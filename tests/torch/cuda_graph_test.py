# SPDX-License-Identifier: Apache-2.0
"""Steps as CUDA graphs: equal to eager in every bit, whatever the caller keeps; the recording itself on any device."""

from __future__ import annotations

import copy
import functools
import random
from collections.abc import Callable
from typing import Any

import checking
import models
import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from torch import fx, nn

import remora.torch as rt
from remora.torch.capture.graph import replayable
from remora.torch.carry import cuda_graph
from remora.torch.carry.cuda_graph import Recorded
from remora.torch.ways import parts

on_gpu = pytest.mark.skipif(checking.DEVICE.type != "cuda", reason="there is no GPU")
LARGE = 600  # a matrix of so many rows exceeds what is copied
ROOM = 4 * LARGE**2 * 4  # bytes for copies of arguments


def simulated(run: Callable[[list[Any]], list[Any]], given: list[Any]) -> tuple[Callable[[], None], list[Any], int]:
    """Replays write to the same results, as those of a graph; recording runs nothing."""
    results = run([cuda_graph._copied(a) if isinstance(a, torch.Tensor) else a for a in given])

    def replay() -> None:
        for mine, found in zip(results, run(list(given)), strict=True):
            if isinstance(mine, torch.Tensor):
                mine.copy_(found)

    return replay, results, 0


def product(arguments: list[Any]) -> list[Any]:
    weight, x, total = arguments
    arguments.clear()
    y = weight @ x
    total.add_(y)
    return [y.sum(), y, None]


def test_a_recorded_program_does_the_same_whatever_is_kept() -> None:
    told: list[str] = []
    run = Recorded(product, told.append, ROOM, simulated)
    weight = torch.eye(LARGE)
    total, expected = torch.zeros(LARGE, LARGE), torch.zeros(LARGE, LARGE)
    kept: list[tuple[torch.Tensor, torch.Tensor]] = []
    for turn in range(8):
        x = torch.full((LARGE, LARGE), float(turn))
        if turn == 6:
            weight = torch.eye(LARGE) * 2  # lies elsewhere
        loss, y, nothing = run([weight, x, total])
        assert nothing is None and torch.equal(y, weight @ x)
        expected += weight @ x
        kept += [(loss, y.sum()), *([(y, y.clone())] if turn == 3 else [])]
        if turn == 5:
            kept = [pair for pair in kept if pair[0].dim() == 0]
        del y
    assert all(torch.equal(mine, theirs) for mine, theirs in kept)
    assert torch.equal(total, expected)
    assert run.recordings == 2 and not told


def test_one_whose_arguments_always_move_runs_op_by_op() -> None:
    told: list[str] = []
    run = Recorded(product, told.append, ROOM, simulated)
    weight, x = torch.eye(LARGE), torch.ones(LARGE, LARGE)
    kept = []
    for _ in range(9):
        kept.append(torch.zeros(LARGE, LARGE))  # it is written to, so a copy would not do
        run([weight, x, kept[-1]])
    assert all(torch.equal(total, x) for total in kept)
    assert run.recordings == cuda_graph.RECORDINGS + 1 and len(told) == 1 and "given up" in told[0]


@pytest.mark.parametrize("kind", [RuntimeError, AssertionError])
def test_one_that_cannot_be_recorded_says_so(kind: type[Exception]) -> None:
    def fails(*_: Any) -> Any:
        raise kind("operation not permitted when stream is capturing\nmore")

    told: list[str] = []
    run = Recorded(product, told.append, ROOM, fails)
    total = torch.zeros(2, 2)
    for _ in range(3):
        run([torch.eye(2), torch.ones(2, 2), total])
    assert torch.equal(total, torch.full((2, 2), 3.0))
    assert len(told) == 1 and told[0].endswith("not permitted when stream is capturing")


def test_copies_of_arguments_count_and_inference_tensors_are_copied() -> None:
    run = Recorded(product, [].append, ROOM, simulated)
    weight, total = torch.eye(LARGE), torch.zeros(LARGE, LARGE)
    for turn in range(3):
        with torch.inference_mode():
            x = torch.full((LARGE, LARGE), float(turn))
        loss, _, _ = run([weight, x, total])
        assert loss == turn * LARGE**2
    assert run.recordings == 1 and run.peak == x.nbytes


def test_copies_have_the_strides_of_the_arguments() -> None:
    """Compiled kernels read an argument by the strides that it had when they were compiled."""
    cuts: list[Callable[[torch.Tensor], torch.Tensor]] = [
        lambda x: x[:, :-1],  # gaps between rows
        lambda x: x[:, ::2],
        lambda x: x[3:4].expand(LARGE, LARGE),  # rows in one place
        lambda x: x.t()[5:],
        lambda x: x[:0],
    ]
    for cut in cuts:
        seen: list[tuple[int, ...]] = []

        def total(arguments: list[Any], seen: list[tuple[int, ...]] = seen) -> list[Any]:
            (x,) = arguments
            seen.append(x.stride())
            arguments.clear()
            return [x.double().sum(), x.double() * 2]

        whole = [torch.randn(LARGE, LARGE) for _ in range(4)]
        run = Recorded(total, [].append, whole[0].nbytes, simulated)
        for x in whole:
            part = cut(x)
            loss, doubled = run([part])
            assert torch.equal(loss, part.double().sum()) and torch.equal(doubled, part.double() * 2)
            del loss, doubled
        assert run.recordings == 1 and set(seen) == {cut(whole[0]).stride()}


def test_arguments_of_another_model_are_not_copied() -> None:
    told: list[str] = []
    run = Recorded(product, told.append, 1000, simulated)
    x, total = torch.ones(LARGE, LARGE), torch.zeros(LARGE, LARGE)
    for turn in range(4):
        loss, _, _ = run([torch.eye(LARGE) * turn, x, total])
        assert loss == turn * LARGE**2
    assert len(told) == 1 and "the plan has room for copies of 1,000" in told[0]


def test_a_failure_after_which_pytorch_cannot_go_on_is_raised() -> None:
    def fails(*_: Any) -> Any:
        raise rt.CaptureError("start again without cuda_graph")

    run = Recorded(product, [].append, ROOM, fails)
    arguments = torch.eye(2), torch.ones(2, 2), torch.zeros(2, 2)
    run([*arguments])
    with pytest.raises(rt.CaptureError, match="start again"):
        run([*arguments])


@torch.library.custom_op("remora_tests::jitter", mutates_args=())
def jitter(x: torch.Tensor) -> torch.Tensor:
    return x * random.uniform(0.9, 1.1)


@jitter.register_fake
def _(x: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(x)


def test_ops_that_may_do_more_than_launch_kernels_are_not_replayed() -> None:
    graph = fx.Graph()
    x = graph.placeholder("x")
    own = graph.call_function(torch.ops.aten.relu.default, (x,))
    theirs = graph.call_function(torch.ops.remora_tests.jitter.default, (x,))
    assert replayable(own) and not replayable(theirs) and replayable(theirs, ("remora_tests::jitter",))


@on_gpu
def test_a_step_with_an_op_of_the_users_runs_op_by_op() -> None:
    weight = nn.Parameter(torch.ones(4))
    step = rt.train_step(lambda: (weight * jitter(weight.detach())).sum().backward(), cuda_graph=True)
    with pytest.warns(rt.RemoraWarning, match="remora_tests::jitter may do more than launch kernels"):
        step()


@pytest.mark.skipif(checking.DEVICE.type == "cuda", reason="there is a GPU")
def test_without_a_gpu_it_is_refused() -> None:
    model = nn.Linear(2, 2)
    step = rt.train_step(lambda x: model(x).sum().backward(), cuda_graph=True)
    with pytest.raises(rt.CaptureError, match="cuda_graph: the step runs on cpu"):
        step(torch.ones(2, 2))
    with pytest.raises(Exception, match="cuda_graph: only the steps of train_step"):
        torch.compile(model, backend=functools.partial(parts.backend, options={"cuda_graph": True}))(torch.ones(2, 2))


@on_gpu
@pytest.mark.parametrize(("dropout", "budget"), [(0.0, "100%"), (0.0, "70%"), (0.1, "100%")])
@pytest.mark.parametrize("grouped", [1, 3])
def test_training_is_as_without(dropout: float, budget: str, grouped: int) -> None:
    """So many micro-steps add up to one step of the optimizer."""
    plain = models.Gpt(layers=2, width=256, length=64, dropout=dropout)
    batches = [torch.randint(0, 64, (32, 64)) for _ in range(12)]
    outcomes = []
    for recorded in (False, True):
        model = copy.deepcopy(plain)
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)

        @rt.train_step(budget=budget, cuda_graph=recorded, **checking.OPTIONS)
        def step(x: torch.Tensor, model: nn.Module = model) -> torch.Tensor:
            loss = F.cross_entropy(model(x).flatten(0, 1), x.flatten())
            loss.backward()
            return loss.detach()

        torch.manual_seed(0)
        losses = []
        for turn, x in enumerate(batches):
            losses.append(step(x))
            if turn % grouped == grouped - 1:
                optimizer.step()
                optimizer.zero_grad()
        outcomes.append([*losses, *model.parameters()])
        if recorded:
            runs = [captured.program.run for captured in step._captured]
            assert all(isinstance(run, Recorded) for run in runs)
            assert any(0 < run.recordings <= 2 for run in runs)
            for captured, run in zip(step._captured, runs, strict=True):
                beyond = captured.plan.predicted_peak - captured.problem.fixed + captured.problem.step.beside
                assert run.peak <= beyond, "workspace and copies are in the plan"
    for mine, theirs in zip(*outcomes, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-4, atol=1e-5)
