# SPDX-License-Identifier: Apache-2.0
"""Ops that can run in several ways, and the schedules that say which."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

import remora


@pytest.fixture
def block() -> remora.Graph:
    """F saves 6 bytes for B; between them stands something that needs 5."""
    graph = remora.Graph("block", duration_unit="ns")
    x = graph.op("X", duration=1, outputs={"x": 1})
    y, saved = graph.op("F", duration=4, inputs=[x], outputs={"y": 1, "saved": 6})
    loss = graph.op("L", duration=2, inputs=[y], outputs={"l": 1}, workspace=5)
    graph.op("B", duration=5, inputs=[x, saved, loss], outputs={"dx": 1}, keep=True)
    return graph


SAVES_NOTHING = [remora.Mode(duration=3, output_sizes=[1, 0])]
RECOMPUTES = [remora.Mode(duration=9, output_sizes=[1])]
LEAN: remora.Modes = {"F": SAVES_NOTHING, "B": RECOMPUTES}


def test_a_step_says_its_mode(block: remora.Graph) -> None:
    rich = remora.solve(block, "100%", modes=LEAN, work_limit=2000)
    assert {step.op.name: step.mode for step in rich.steps}["F"] == 1, "the shorter one does where nobody needs more"
    followed: remora.Modes = {"F": SAVES_NOTHING, "B": remora.OpModes(further=RECOMPUTES, follows="F")}
    lean = remora.solve(block, 8, modes=followed, max_computes=1, work_limit=2000)
    assert [(step.op.name, step.mode) for step in lean.steps] == [("X", 0), ("F", 1), ("L", 0), ("B", 1)]
    assert (lean.status, lean.peak, lean.duration) == ("optimal", 8, 15)
    assert max(lean.memory) == lean.peak
    assert lean.residences[0].tensor.name == "x"
    with pytest.raises(remora.NoSchedule):
        remora.solve(block, 8, max_computes=1, work_limit=2000)


def test_it_is_verified_but_has_no_file(block: remora.Graph) -> None:
    found: list[remora.Schedule] = []
    schedule = remora.solve(block, "100%", modes=LEAN, work_limit=2000, on_incumbent=found.append)
    verdict = remora.verify(block, schedule)
    assert verdict
    assert (verdict.peak, verdict.duration) == (schedule.peak, schedule.duration)
    assert found
    assert all(remora.verify(block, one) for one in found)
    assert remora.verify(block.copy(), schedule)
    other = block.copy()
    other.find_op("L").duration = 3
    calls = (schedule.to_json, schedule.svg, lambda: pickle.dumps(schedule), lambda: remora.verify(other, schedule))
    for refused in calls:
        with pytest.raises(remora.InputError, match="several modes"):
            refused()
    assert schedule == schedule
    assert schedule != remora.solve(block, "100%", modes=LEAN, work_limit=2000)
    assert "block" in schedule._repr_html_()


def test_the_least_budget_is_that_of_all_modes(block: remora.Graph) -> None:
    one = remora.least_budget(block, work_limit=2000, max_computes=1)
    several = remora.least_budget(block, work_limit=2000, max_computes=1, modes=LEAN)
    assert several.proved <= several.reached < one.proved


def test_weights_and_inner_peaks(block: remora.Graph) -> None:
    heavy = remora.Mode(duration=1, output_sizes=[1, 6], computes=2)
    modes: remora.Modes = {"F": remora.OpModes(further=[None, heavy], most_computes=1)}
    steps = remora.solve(block, "100%", modes=modes, work_limit=2000).steps
    assert {step.op.name: step.mode for step in steps}["F"] == 0, "the other weighs too much"
    inner = remora.Mode(duration=1, output_sizes=[1], inner=[remora.InnerPeak(3, freed=["saved"])], unread=["x"])
    schedule = remora.solve(block, "100%", modes={"B": [inner]}, work_limit=2000)
    assert {step.op.name: step.mode for step in schedule.steps}["B"] == 1
    assert remora.verify(block, schedule)


@pytest.mark.parametrize(
    ("modes", "refusal"),
    [
        ({"nobody": []}, "nobody"),
        ({"F": [remora.Mode(1, [1])]}, "size"),
        ({"F": [remora.Mode(1, [1, -1])]}, "negative"),
        ({"F": [remora.Mode(1, [1, 1], unread=["dx"])]}, "input"),
        ({"F": [], 1: []}, "twice"),
        ({"B": remora.OpModes([remora.Mode(1, [1])], follows="X")}, "modes"),
        ({"B": remora.OpModes([remora.Mode(1, [1])], follows="L", most_computes=0)}, "most_computes"),
    ],
)
def test_modes_that_do_not_fit_are_refused(block: remora.Graph, modes: Any, refusal: str) -> None:
    with pytest.raises(remora.InputError, match=refusal):
        remora.solve(block, "100%", modes=modes, work_limit=100)


NONE: list[Any] = [7, "F", ["x"], None]


@pytest.mark.parametrize("modes", [7, {"F": 3}, {"F": [3]}, *({"F": [remora.Mode(none, none, none)]} for none in NONE)])
def test_what_is_no_mode_is_refused(block: remora.Graph, modes: Any) -> None:
    with pytest.raises(TypeError, match="modes"):
        remora.solve(block, "100%", modes=modes, work_limit=100)


def test_methods_know_one_mode(block: remora.Graph) -> None:
    with pytest.raises(remora.InputError, match="one mode"):
        remora.solve(block, "100%", modes=LEAN, strategy="greedy")
