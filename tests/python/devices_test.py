# SPDX-License-Identifier: Apache-2.0
"""Graphs over several devices: read, solved, verified, shown."""

from __future__ import annotations

import copy
import json
import pickle
import random
import threading
from pathlib import Path
from typing import Any

import pytest

import remora

TWO: dict[str, Any] = {
    "format": "remora-graph",
    "version": 2,
    "name": "two-devices",
    "devices": [{"name": "gpu"}, {"name": "cpu", "fixed_memory": 1}],
    "links": [
        {"from": "gpu", "to": "cpu", "latency": 1, "bytes": 2, "per": 1, "energy": 1},
        {"from": "cpu", "to": "gpu", "latency": 1, "bytes": 2, "per": 1, "energy": 9},
    ],
    "tensors": [
        {"name": "x", "size": 4, "home": ["cpu"]},
        {"name": "a", "size": 2},
        {"name": "b", "size": 2, "keep": True, "home": "gpu"},
    ],
    "ops": [
        {
            "name": "A",
            "on": {"gpu": {"duration": 1, "energy": 4}, "cpu": {"duration": 3}},
            "inputs": ["x"],
            "outputs": ["a"],
        },
        {"name": "B", "on": {"gpu": {"duration": 1, "workspace": 1}}, "inputs": ["a"], "outputs": ["b"]},
    ],
}


@pytest.fixture
def two() -> remora.DeviceGraph:
    return remora.DeviceGraph.from_json(TWO)


def test_a_graph_tells_what_it_has(two: remora.DeviceGraph) -> None:
    assert two.devices == (remora.Device("gpu", 0, 2), remora.Device("cpu", 1, 1))
    assert not two.devices[0].is_store
    assert two.links == (("gpu", "cpu"), ("cpu", "gpu"))
    assert (two.ops, two.tensors, len(two)) == (("A", "B"), ("x", "a", "b"), 2)
    assert remora.DeviceGraph.from_json(two.to_json()) == two
    assert pickle.loads(pickle.dumps(two)) == two
    assert repr(two) == "<DeviceGraph 'two-devices': 2 ops over gpu, cpu>"
    with pytest.raises(TypeError):
        remora.DeviceGraph()


def test_steps_tell_device_and_kind(two: remora.DeviceGraph) -> None:
    schedule = remora.solve(two, {"gpu": 6}, work_limit=200)
    assert (schedule.status, schedule.duration, schedule.bound, schedule.gap) == ("optimal", 5, 5, 0.0)
    assert (schedule.budget, schedule.energy) == ({"gpu": 6}, 13)
    assert (schedule.objective, schedule.order) == ("duration", "input")
    copy_in, first, second = schedule.steps
    assert (copy_in.kind, copy_in.tensor, copy_in.device, copy_in.to, copy_in.op) == ("copy", "x", "cpu", "gpu", None)
    assert (first.kind, first.op, first.device, first.to, first.free) == ("run", "A", "gpu", None, (("x", "gpu"),))
    assert second.op == "B"
    assert (schedule.copies, schedule.recomputes) == ({("x", "cpu", "gpu"): 1}, {})
    assert schedule.memory == {"gpu": [4, 6, 5], "cpu": [5, 5, 5]}
    assert schedule.peak == {"gpu": 6, "cpu": 5}
    verdict = remora.verify(two, schedule)
    assert verdict
    assert (verdict.duration, verdict.peak, verdict.copies, verdict.recomputes) == (5, schedule.peak, 1, 0)


def test_budgets_objectives_and_limits(two: remora.DeviceGraph) -> None:
    assert remora.solve(two, {"gpu": "5", "cpu": "1KiB"}, work_limit=200).duration == 6
    assert remora.solve(two, {}, work_limit=200, objective="energy").energy == 9
    assert remora.solve(two, {}, work_limit=200, objective="energy", duration_limit=5).energy == 13
    assert remora.solve(two, {"gpu": 6}, work_limit=200, order="free", max_computes=1).duration == 5
    with pytest.raises(remora.NoDeviceSchedule) as none:
        remora.solve(two, {"gpu": 4}, work_limit=200)
    assert none.value.is_proved
    assert (none.value.answer.status, len(none.value.answer), bool(none.value.answer)) == ("infeasible", 0, False)
    assert (none.value.reason, none.value.op, none.value.needed) == ("op", "B", {"gpu": 5})
    assert "gpu" in str(none.value) and "try a larger budget" in str(none.value)


def test_copies_overlap(two: remora.DeviceGraph) -> None:
    schedule = remora.solve(two, {"gpu": 6}, work_limit=200, copies="overlap")
    assert (schedule.copied, schedule.status, schedule.duration) == ("overlap", "optimal", 5)
    assert schedule.times[-1][1] == schedule.duration
    assert all(start <= end for start, end in schedule.times)
    assert json.loads(schedule.to_json())["copies"] == "overlap"
    assert remora.verify(two, schedule)
    assert remora.solve(two, {"gpu": 6}, work_limit=200).copied == "sequential"
    wrong: Any = "beside"
    with pytest.raises(remora.InputError, match="copies"):
        remora.solve(two, {}, work_limit=200, copies=wrong)


def test_a_schedule_is_a_warm_start(two: remora.DeviceGraph) -> None:
    first = remora.solve(two, {"gpu": 5}, work_limit=200)
    second = remora.solve(two, {"gpu": 6}, work_limit=200, warm_start=first)
    assert second.duration == 5
    other = remora.DeviceGraph.from_json(TWO)
    assert remora.solve(other, {"gpu": 6}, work_limit=1, warm_start=second).duration == 5


def test_files(two: remora.DeviceGraph, tmp_path: Path) -> None:
    two.save(tmp_path / "g.json")
    loaded = remora.load_graph(tmp_path / "g.json")
    assert isinstance(loaded, remora.DeviceGraph)
    schedule = remora.solve(loaded, {"gpu": 6}, work_limit=200)
    schedule.save(tmp_path / "s.json")
    again = remora.DeviceSchedule.load(tmp_path / "s.json", loaded)
    assert again == schedule
    assert again.to_json() == schedule.to_json()
    assert pickle.loads(pickle.dumps(schedule)) == schedule
    assert schedule.solver["limits"]["work"] == 200
    assert schedule.solver["optimal_for_max_computes"] is None
    assert remora.verify(two, again), "names are looked up"
    wrong = json.loads(schedule.to_json())
    wrong["duration"] = 4
    verdict = remora.verify(two, remora.DeviceSchedule.from_json(json.dumps(wrong), two))
    assert not verdict
    assert "duration 4" in verdict.errors[0]
    one = remora.Graph("one")
    one.op("A", duration=1, outputs={"a": 1})
    one.save(tmp_path / "one.json")
    assert isinstance(remora.load_graph(tmp_path / "one.json"), remora.Graph)


def drawn(draw: random.Random) -> tuple[dict[str, Any], dict[str, int]]:
    """A random graph over one to three devices, some of them with lanes, and budgets."""
    devices: list[dict[str, Any]] = [{"name": f"d{i}"} for i in range(draw.randint(1, 3))]
    names = [device["name"] for device in devices]
    lanes = ["copy", "main"] if draw.random() < 0.4 else []
    for device in devices:
        device |= {"lanes": lanes} if lanes else {}
    amounts = {"latency": 1, "bytes": 2, "per": 1, "energy": 1}
    links = [{"from": a, "to": b, **amounts} for a in names for b in names if a != b and draw.random() < 0.9]
    tensors: list[dict[str, Any]] = []
    ops: list[dict[str, Any]] = []
    for i in range(draw.randint(3, 8)):
        inputs = draw.sample([tensor["name"] for tensor in tensors], min(len(tensors), draw.randint(0, 2)))
        tensors.append({"name": f"t{i}", "size": draw.randint(0, 5), "keep": draw.random() < 0.2})
        on = {
            name: {"duration": draw.randint(0, 9), "energy": draw.randint(0, 9)}
            | ({"lane": draw.choice(lanes)} if lanes else {})
            for name in draw.sample(names, draw.randint(1, len(names)))
        }
        ops.append({"name": f"op{i}", "on": on, "inputs": inputs, "outputs": [f"t{i}"]})
    graph = {"format": "remora-graph", "version": 3 if lanes else 2, "name": "drawn", "devices": devices}
    budget = {name: draw.randint(3, 14) for name in names if draw.random() < 0.8}
    return graph | {"links": links, "tensors": tensors, "ops": ops}, budget or {names[0]: 9}


@pytest.mark.parametrize("seed", range(40))
def test_it_says_what_the_program_says(seed: int, program: Any, tmp_path: Path) -> None:
    draw = random.Random(seed)
    document, budget = drawn(draw)
    (tmp_path / "g.json").write_text(json.dumps(document))
    graph = remora.load_graph(tmp_path / "g.json")
    assert isinstance(graph, remora.DeviceGraph)
    asked: dict[str, Any] = {
        "work_limit": 300,
        "seed": draw.randrange(5),
        "order": draw.choice(["input", "input", "free"]),
        "objective": draw.choice(["duration", "duration", "energy"]),
    }
    if computes := draw.choice([None, 1, 2]):
        asked["max_computes"] = computes
    if document["version"] == 2 and draw.random() < 0.4:
        asked["copies"] = "overlap"
    try:
        answer, ends = remora.solve(graph, budget, threads=1, **asked), 0
    except remora.NoDeviceSchedule as error:
        answer, ends = error.answer, 20 if error.answer.status == "infeasible" else 21
    words = [word for key, value in asked.items() for word in (f"--{key.replace('_', '-')}", str(value))]
    words += ["--budget", ",".join(f"{name}={amount}B" for name, amount in budget.items()), "--threads", "1", "-q"]
    said = json.loads(program("solve", tmp_path / "g.json", *words, ends=ends))
    mine = json.loads(answer.to_json())
    for one in (said, mine):
        one["solver"] = {
            key: value for key, value in one["solver"].items() if "seconds" not in key and key != "history"
        }
    assert mine == said
    if not ends:
        answer.save(tmp_path / "s.json")
        program("verify", "-q", tmp_path / "g.json", tmp_path / "s.json")


def test_reports(two: remora.DeviceGraph, tmp_path: Path) -> None:
    schedule = remora.solve(two, {"gpu": 6}, work_limit=200)
    schedule.report(tmp_path / "page.html")
    assert "several devices" in (tmp_path / "page.html").read_text()
    assert "cpu -&gt; gpu" in schedule.svg()
    assert "copy,x,,cpu,gpu,1,,4,3,9" in schedule.csv()
    assert "optimal" in repr(schedule)


def test_what_means_nothing_is_refused(two: remora.DeviceGraph, figure_1: remora.Graph) -> None:
    solve: Any = remora.solve
    for wrong, place in (
        ({"budget": {"tpu": 3}}, "budget"),
        ({"budget": {"gpu": "60%"}}, "budget"),
        ({"budget": {"gpu": -1}}, "budget"),
        ({"budget": {}, "objective": "price"}, "objective"),
        ({"budget": {}, "order": "auto"}, "order"),
        ({"budget": {}, "strategy": "cp"}, "strategy"),
        ({"budget": {}, "addresses": True}, "addresses"),
        ({"budget": {}, "max_computes": 0}, "max_computes"),
        ({"budget": {}, "duration_limit": -1}, "duration_limit"),
    ):
        with pytest.raises(remora.InputError) as refused:
            solve(two, **wrong)
        assert refused.value.place.startswith(place), wrong
    with pytest.raises(TypeError, match="budget"):
        solve(two, 60)
    with pytest.raises(TypeError, match="warm_start"):
        solve(two, {}, warm_start=["A"])
    with pytest.raises(remora.InputError, match="objective"):
        solve(figure_1, 3, objective="energy")
    with pytest.raises(TypeError, match="DeviceSchedule"):
        remora.verify(two, remora.evaluate(figure_1, list("ABCDE")))  # type: ignore[call-overload]
    bad = copy.deepcopy(TWO)
    bad["links"][0]["to"] = "tpu"
    with pytest.raises(remora.InputError) as fault:
        remora.DeviceGraph.from_json(bad)
    assert fault.value.place == "$.links[0].to"


def test_a_stop_ends_it(two: remora.DeviceGraph) -> None:
    stop = threading.Event()
    stop.set()
    try:
        remora.solve(two, {"gpu": 6}, stop=stop)
    except remora.NoDeviceSchedule as none:
        assert none.answer.status == "unknown"


def test_a_solve_tells_how_it_goes(two: remora.DeviceGraph, capsys: pytest.CaptureFixture[str]) -> None:
    found: list[remora.DeviceSchedule] = []
    news: list[remora.Progress] = []
    schedule = remora.solve(two, {"gpu": 6}, work_limit=1000, on_incumbent=found.append, progress=news.append)
    assert [item.duration for item in found] == sorted({item.duration for item in found}, reverse=True)
    assert all(remora.verify(two, item) for item in found)
    assert found[-1].steps == schedule.steps
    assert (news[-1].phase, news[-1].duration, news[-1].bound) == (2, schedule.duration, schedule.bound)
    remora.solve(two, {"gpu": 6}, work_limit=1000, progress=True)
    assert "optimal, duration 5, 3 steps" in capsys.readouterr().err
    with pytest.raises(ZeroDivisionError):
        remora.solve(two, {"gpu": 6}, work_limit=1000, on_incumbent=lambda _: 1 // 0)
