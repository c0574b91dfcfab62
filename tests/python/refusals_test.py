# SPDX-License-Identifier: Apache-2.0
"""What a refusal says is enough is enough when it is asked for next; below its lower bound nothing is found."""

from __future__ import annotations

import random
from typing import Any

import pytest

import remora

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
