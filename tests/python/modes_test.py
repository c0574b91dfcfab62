# SPDX-License-Identifier: Apache-2.0
"""Ops that can run in several ways, and the schedules that say which."""

from __future__ import annotations

import pickle
from pathlib import Path
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


def lean(block: remora.Graph, follows: str | None = None) -> remora.Graph:
    """A copy in which F may save nothing, and B may do without."""
    graph = block.copy()
    graph["F"].modes = SAVES_NOTHING
    graph["B"].modes = remora.OpModes(further=RECOMPUTES, follows=follows)
    return graph


def test_a_step_says_its_mode(block: remora.Graph) -> None:
    rich = remora.solve(lean(block), "100%", work_limit=2000)
    assert {step.op.name: step.mode for step in rich.steps}["F"] == 1, "the shorter one does where nobody needs more"
    spare = remora.solve(lean(block, "F"), 8, max_computes=1, work_limit=2000)
    assert [(step.op.name, step.mode) for step in spare.steps] == [("X", 0), ("F", 1), ("L", 0), ("B", 1)]
    assert (spare.status, spare.peak, spare.duration) == ("optimal", 8, 15)
    assert max(spare.memory) == spare.peak
    assert spare.residences[0].tensor.name == "x"
    with pytest.raises(remora.NoSchedule):
        remora.solve(block, 8, max_computes=1, work_limit=2000)


def test_it_is_verified_saved_and_shown(block: remora.Graph, tmp_path: Path) -> None:
    graph, found = lean(block), list[remora.Schedule]()
    schedule = remora.solve(graph, "100%", work_limit=2000, on_incumbent=found.append)
    verdict = remora.verify(graph, schedule)
    assert verdict
    assert (verdict.peak, verdict.duration) == (schedule.peak, schedule.duration)
    assert found
    assert all(remora.verify(graph, one) for one in found)
    assert pickle.loads(pickle.dumps(schedule)) == schedule
    assert '"mode": 1' in schedule.to_json()
    graph.save(tmp_path / "graph.json")
    schedule.save(tmp_path / "schedule.json")
    read = remora.Graph.load(tmp_path / "graph.json")
    assert read.to_json() == graph.to_json()
    again = remora.Schedule.load(tmp_path / "schedule.json", read)
    assert [step.mode for step in again.steps] == [step.mode for step in schedule.steps]
    assert remora.verify(read, again)
    assert "block" in schedule._repr_html_()
    assert "svg" in schedule.svg()
    read["F"].modes = None
    assert "no mode 1" in remora.verify(read, again).errors[0]


def test_an_op_says_its_modes(block: remora.Graph) -> None:
    graph = block.copy()
    x, saved = graph["X"].output, graph["F"].outputs[1]
    inner = [remora.InnerPeak(-1), remora.InnerPeak(4, (saved, (x, 1)))]
    graph.op("C", duration=1, inputs=[x, saved], outputs={"c": 3}, modes=[None, remora.Mode(2, inner=inner)])
    modes = graph["C"].modes
    assert modes is not None
    peaks = (remora.InnerPeak(-1), remora.InnerPeak(4, (saved, (x, 1))))
    assert modes.further == (None, remora.Mode(2, (3,), inner=peaks))
    assert graph["X"].modes is None
    graph["C"].modes = modes
    assert graph["C"].modes == modes
    rewritten = remora.Graph.from_json(graph.to_json())
    assert rewritten.to_json() == graph.to_json()
    followed = lean(block, "F")["B"].modes
    assert followed is not None
    assert followed.follows is not None
    with pytest.raises(remora.InputError, match="follower"):
        lean(block, "F")["F"].modes = None


def test_the_least_budget_is_that_of_all_modes(block: remora.Graph) -> None:
    one = remora.least_budget(block, work_limit=2000, max_computes=1)
    several = remora.least_budget(lean(block), work_limit=2000, max_computes=1)
    assert several.proved <= several.reached < one.proved


def test_bounds_are_those_of_the_least_amounts(block: remora.Graph) -> None:
    graph = lean(block, "F")
    found = remora.bounds(graph, 8, max_computes=1)
    assert (found.status, found.duration) == ("unknown", 11)
    assert found.duration <= remora.solve(graph, 8, max_computes=1, work_limit=2000).duration
    assert remora.bounds(graph, 7, max_computes=1).status == "infeasible"
    assert remora.bounds(block, 8, max_computes=1).status == "infeasible"


def test_weights_and_inner_peaks(block: remora.Graph) -> None:
    heavy = remora.Mode(duration=1, output_sizes=[1, 6], computes=2)
    block["F"].modes = remora.OpModes(further=[None, heavy], most_computes=1)
    steps = remora.solve(block, "100%", work_limit=2000).steps
    assert {step.op.name: step.mode for step in steps}["F"] == 0, "the other weighs too much"
    block["F"].modes = None
    inner = remora.Mode(duration=1, output_sizes=[1], inner=[remora.InnerPeak(3, freed=["saved"])], unread=["x"])
    block["B"].modes = [inner]
    schedule = remora.solve(block, "100%", work_limit=2000)
    assert {step.op.name: step.mode for step in schedule.steps}["B"] == 1
    assert remora.verify(block, schedule)


@pytest.mark.parametrize(
    ("op", "modes", "refusal"),
    [
        ("F", [remora.Mode(1, [1])], "size"),
        ("F", [remora.Mode(1, [1, -1])], "negative"),
        ("F", [remora.Mode(1, [1, 1], unread=["dx"])], "input"),
        ("F", [remora.Mode(1, unread=["nothing"])], "nothing"),
        ("B", remora.OpModes([remora.Mode(1, [1])], follows="X"), "modes"),
        ("B", remora.OpModes([remora.Mode(1, [1])], follows="nobody"), "nobody"),
        ("B", remora.OpModes([remora.Mode(1, [1])], follows="L", most_computes=0), "most_computes"),
        ("B", [remora.Mode(1, [1], inner=[remora.InnerPeak(1, ["y"])])], "read by the mode"),
    ],
)
def test_modes_that_do_not_fit_are_refused(block: remora.Graph, op: str, modes: Any, refusal: str) -> None:
    with pytest.raises(remora.InputError, match=refusal):
        block[op].modes = modes
    assert block[op].modes is None


NONE: list[Any] = ["F", ["x"], None]


@pytest.mark.parametrize("modes", [7, "F", [3], *([remora.Mode(none, [1, 1], none)] for none in NONE)])
def test_what_is_no_mode_is_refused(block: remora.Graph, modes: Any) -> None:
    with pytest.raises(TypeError, match="modes"):
        block["F"].modes = modes


def test_sweeps_and_arenas_take_modes(block: remora.Graph) -> None:
    graph = lean(block, "F")
    curve = remora.sweep(graph, budgets=["100%", 8], max_computes=1, work_limit=2000)
    assert [point.schedule is not None and bool(remora.verify(graph, point.schedule)) for point in curve] == [
        True,
        True,
    ]
    placed = remora.solve(graph, 8, addresses=True, alignment=1, max_computes=1, work_limit=2000)
    assert placed.arena is not None
    assert placed.arena.size <= 8
    assert remora.verify(graph, placed)
    again = remora.solve(graph, 8, warm_start=placed, max_computes=1, work_limit=1)
    assert again.duration <= placed.duration


def test_what_takes_one_mode_names_the_op(block: remora.Graph) -> None:
    graph = lean(block)
    calls = (
        lambda: remora.solve(graph, "100%", strategy="greedy"),
        lambda: remora.solve(graph, "100%", slices="auto", work_limit=10),
        lambda: remora.order(graph, work_limit=10),
    )
    for call in calls:
        with pytest.raises(remora.InputError, match='op "F" has several modes'):
            call()
