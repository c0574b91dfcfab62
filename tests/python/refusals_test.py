# SPDX-License-Identifier: Apache-2.0
"""What a refusal says is enough is enough when it is asked for next; below its lower bound nothing is found."""

from __future__ import annotations

import random
from typing import Any

import pytest

import remora
from remora.asking import TRIES, within, within_each

CASES = 200


def some_graph(draw: random.Random) -> remora.Graph:
    """Up to seven ops of up to three inputs each."""
    graph = remora.Graph("random", fixed_memory=draw.randrange(5))
    tensors: list[remora.Tensor] = []
    for number in range(draw.randint(2, 7)):
        op = graph.op(
            f"op {number}",
            duration=draw.randint(1, 9),
            inputs=draw.sample(tensors, min(len(tensors), draw.randint(0, 3))),
            outputs={f"t{number}": draw.randint(1, 300)},
            workspace=draw.choice([0, 0, 20]),
            keep=draw.random() < 0.2,
        )
        tensors.append(op.output)
    return graph


def some_problem(draw: random.Random) -> dict[str, Any]:
    problem: dict[str, Any] = {"work_limit": draw.choice([5, 300]), "threads": 1}
    if draw.random() < 0.5:
        problem["max_computes"] = draw.randint(1, 3)
    problem["order"] = draw.choice(["input", "free", "auto"])
    if draw.random() < 0.3:
        problem |= {"addresses": True, "alignment": draw.choice([1, 16, 64])}
    return problem


def test_what_a_refusal_says_is_enough_is_enough() -> None:
    draw = random.Random(99)
    refused = 0
    while refused < CASES:
        graph, problem = some_graph(draw), some_problem(draw)
        budget = graph.fixed_memory + (graph.baseline_peak - graph.fixed_memory) * draw.randint(0, 9) // 10
        try:
            remora.solve(graph, budget, **problem)
        except remora.NoSchedule as error:
            refusal = error.refusal
            said = str(error)
            case = f"{graph.to_json()} under {budget} with {problem}: {said}"
            refused += 1
        else:
            continue
        assert refusal.enough > budget, case
        assert f"({refusal.enough} bytes" in said, case
        found = remora.solve(graph, refusal.enough, **problem)
        assert remora.verify(graph, found), case
        if refusal.reason in ("op", "kept", "event"):
            assert refusal.op is not None and refusal.op.name in case
        if refusal.lower_bound > budget + 1:
            with pytest.raises(remora.NoSchedule):
                remora.solve(graph, refusal.lower_bound - 1, **problem)


def test_less_is_asked_for_where_the_real_peak_exceeds_the_budget() -> None:
    asked: list[int] = []

    def decide(budget: int) -> int | None:
        asked.append(budget)
        return budget if budget > 70 else None

    assert within(100, decide, lambda found: found + 10) == 90
    assert asked == [100, 90]
    asked.clear()
    assert within(100, decide, lambda found: 110) is None, "no decision is left"
    assert asked == [100, 90, 80, 70]
    asked.clear()
    assert within(1000, decide, lambda found: 1001) is None, "all that were tried exceed it"
    assert asked == [1000 - i for i in range(TRIES)]


def test_each_of_several_devices_is_asked_for_less_by_its_own_excess() -> None:
    asked: list[list[int]] = []

    def decide(budgets: list[int]) -> list[int]:
        asked.append(budgets)
        return [budgets[0] + 5, budgets[1]]

    assert within_each([100, 50], decide, lambda found: found) == [100, 50]
    assert asked == [[100, 50], [95, 50]]
