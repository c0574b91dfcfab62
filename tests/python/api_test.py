# SPDX-License-Identifier: Apache-2.0
"""Graphs that are built, solved, saved, read again, and refused."""

from __future__ import annotations

import concurrent.futures
import copy
import inspect
import json
import multiprocessing
import pickle
from pathlib import Path
from typing import Any

import numpy
import pytest
from conftest import ladder

import remora


def test_a_graph_is_what_was_said(figure_1: remora.Graph) -> None:
    a, _, _, d, e = figure_1.ops
    assert [op.name for op in figure_1] == ["A", "B", "C", "D", "E"]
    assert a.outputs == (figure_1.find_tensor("a"),)
    assert a.output.producer == a
    assert [op.name for op in a.output.users] == ["B", "C", "E"]
    assert [tensor.name for tensor in e.inputs] == ["a", "d"]
    assert (d.index, d.duration, d.workspace, d.type, d.phase) == (3, 1, 0, "", None)
    assert e.output.keep
    assert not a.output.keep
    assert figure_1.baseline_peak == 4
    assert figure_1.baseline_duration == 5
    assert len(figure_1) == 5
    assert len(figure_1.tensors) == 5


def test_a_budget_may_be_computed(figure_1: remora.Graph) -> None:
    assert remora.solve(figure_1, 0.8 * figure_1.baseline_peak).budget == 3
    budgets = [point.budget for point in remora.sweep(figure_1, numpy.linspace(3.0, 4.0, 2), time_limit=2)]
    assert budgets == [3, 4]


def _status(budget: int) -> str:
    graph = remora.Graph("g")
    a = graph.op("A", duration=1, outputs={"a": 4})
    graph.op("B", duration=1, inputs=[a], outputs={"b": 4}, keep=True)
    return remora.solve(graph, budget).status


def test_answers_and_exceptions_cross_processes(figure_1: remora.Graph) -> None:
    with pytest.raises(remora.Infeasible) as caught:
        remora.solve(figure_1, 1)
    again = pickle.loads(pickle.dumps(caught.value))
    assert str(again) == str(caught.value)
    assert again.least_budget == caught.value.least_budget
    assert again.answer.status == "infeasible"
    place = pickle.loads(pickle.dumps(remora.InputError("here", "wrong")))
    assert (place.place, place.message, str(place)) == ("here", "wrong", "here: wrong")
    curve = remora.sweep(figure_1, [3, 4], time_limit=2)
    back = pickle.loads(pickle.dumps(curve))
    assert [point.duration for point in back] == [point.duration for point in curve]
    assert back[0].schedule == curve[0].schedule
    # One budget that nothing holds must not break the pool.
    with concurrent.futures.ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        with pytest.raises(remora.Infeasible):
            pool.submit(_status, 1).result()
        assert pool.submit(_status, 8).result() == "optimal"


def test_equal_things_hash_equal(figure_1: remora.Graph) -> None:
    one, other = (remora.solve(figure_1, 3, work_limit=1000) for _ in range(2))
    assert one == other == pickle.loads(pickle.dumps(one))
    assert len({one, other, pickle.loads(pickle.dumps(one))}) == 1
    assert one != remora.solve(figure_1, 4, work_limit=1000)
    copied = figure_1.copy()
    assert len({figure_1, copied}) == 1
    copied.op("F", duration=1, outputs={"f": 1})
    assert len({figure_1, copied}) == 2


def test_what_is_in_a_graph_or_a_schedule(figure_1: remora.Graph) -> None:
    assert "A" in figure_1
    assert "Z" not in figure_1
    assert figure_1["A"] == figure_1.ops[0]
    assert figure_1.ops[0] in figure_1
    assert ladder(2).ops[0] not in figure_1
    schedule = remora.solve(figure_1, 3)
    assert schedule[0].op.name == "A"
    assert [step.op for step in schedule] == list(schedule.ops)


def test_every_attribute_comes_back_from_the_file(tmp_path: Path) -> None:
    graph = remora.Graph("all", fixed_memory=7, duration_unit="ns")
    x = graph.tensor("x", numpy.int64(5))
    y = graph.tensor("y", 6, keep=True)
    first = graph.op("first", duration=3, inputs=[x], outputs=[y], workspace=2, type="Conv", phase="forward")
    a, mask = graph.op("drop", duration=1, inputs=[y], outputs={"a": 3, "mask": 4}, keep=["mask"], recompute=False)
    graph.op(
        "back",
        duration=2,
        inputs=["a", mask],
        outputs={"z": 1},
        phase="backward",
        backward_of=first,
        after=["first"],
        max_computes=3,
    )
    graph.save(tmp_path / "graph.json")
    read = remora.Graph.load(tmp_path / "graph.json")
    assert read == graph
    assert read.to_json() == graph.to_json()
    back = read.find_op("back")
    assert (back.phase, back.backward_of, back.after) == ("backward", read.find_op("first"), (read.find_op("first"),))
    assert back.max_computes == 3
    assert not read.find_op("drop").recompute
    assert [tensor.keep for tensor in read.find_op("drop")] == [False, True]
    assert read.duration_unit == "ns"
    assert a.name == "a"
    assert json.loads(graph.to_json())["fixed_memory"] == 7
    assert remora.Graph.from_json(json.loads(graph.to_json())) == graph
    assert pickle.loads(pickle.dumps(graph)) == graph
    other = copy.deepcopy(graph)
    other.find_op("first").duration = 4
    assert other != graph
    assert graph.find_op("first").duration == 3


def test_only_models_are_written_under_a_models_name(figure_1: remora.Graph, tmp_path: Path) -> None:
    schedule = remora.solve(figure_1, 3, work_limit=1000)
    for save in (figure_1.save, schedule.save, schedule.report):
        for name in ("graph.onnx", "GRAPH.ONNX"):
            with pytest.raises(remora.InputError, match=f"{name}: would be no ONNX model"):
                save(tmp_path / name)
    assert not list(tmp_path.iterdir())


def test_a_schedule_is_valid_and_comes_back_from_the_file(figure_1: remora.Graph, tmp_path: Path) -> None:
    figure_1.save(tmp_path / "graph.json")
    graph = remora.Graph.load(tmp_path / "graph.json")
    schedule = remora.solve(graph, 3, work_limit=1000)
    assert (schedule.status, schedule.peak, schedule.duration, schedule.bound, schedule.gap) == ("optimal", 3, 6, 6, 0)
    assert (schedule.budget, schedule.baseline_peak, schedule.baseline_duration) == (3, 4, 5)
    assert [op.name for op in schedule.ops] == list("ABCDAE")
    assert [[tensor.name for tensor in step.free] for step in schedule.steps][2:4] == [["a"], ["b", "c"]]
    assert schedule.recomputes == {graph.find_op("A"): 1}
    assert max(schedule.memory) == schedule.peak
    assert len(schedule.memory) == len(schedule) == 6
    assert (schedule.residences[0].tensor.name, schedule.residences[0].last_step) == ("a", 2)
    verdict = remora.verify(graph, schedule)
    assert verdict.valid
    assert (verdict.peak, verdict.duration, verdict.recomputes) == (3, 6, 1)
    schedule.save(tmp_path / "schedule.json")
    with pytest.raises(FileNotFoundError) as missing:
        schedule.save(tmp_path / "nowhere" / "schedule.json")
    assert missing.value.filename == tmp_path / "nowhere" / "schedule.json"
    read = remora.Schedule.load(tmp_path / "schedule.json", graph)
    assert read == schedule
    assert pickle.loads(pickle.dumps(read)).steps[0].op.name == "A"
    digest = json.loads((tmp_path / "schedule.json").read_text())["graph_sha256"]
    assert len(digest) == 64
    assert schedule.solver["limits"]["work"] == 1000
    graph.find_op("A").workspace = 0
    assert "graph_sha256" not in json.loads(remora.solve(graph, 3, work_limit=1000).to_json()), "of no file any more"


def test_limits_are_given_both_ways() -> None:
    graph = ladder(8)
    limits = remora.Limits(work_limit=500, threads=1, seed=7, gap=0.01, stall=9)
    words: dict[str, Any] = {"work_limit": 500, "threads": 1, "seed": 7, "gap": 0.01, "stall": 9}

    def told(schedule: remora.Schedule) -> Any:
        report = dict(schedule.solver)
        assert report["limits"]["work"] == 500
        return [op.name for op in schedule.ops], report["limits"], report["seed"], report.get("options")

    assert told(remora.solve(graph, "70%", limits=limits)) == told(remora.solve(graph, "70%", **words))
    short = remora.Limits(work_limit=500, seed=2)
    points = [
        remora.sweep(graph, points=3, **given).points[0].budget
        for given in ({"limits": short}, {"work_limit": 500, "seed": 2})
    ]
    assert points[0] == points[1]
    assert len(inspect.signature(remora.solve).parameters) <= 9
    assert remora.order(graph, limits=short).peak == remora.order(graph, work_limit=500, seed=2).peak
    assert remora.least_budget(graph, limits=short) == remora.least_budget(graph, work_limit=500, seed=2)
    assert remora.place([remora.Buffer("a", 0, 2, 4)], limits=short).arena == 4
    with pytest.raises(remora.InputError, match="work_limit: stands in limits, too"):
        remora.solve(graph, "70%", limits=short, work_limit=500)
    with pytest.raises(remora.InputError, match="gap: is not for place"):
        remora.place([], limits=limits)
    with pytest.raises(TypeError, match=r"limits: must be a remora\.Limits"):
        remora.solve(graph, "70%", limits=5)  # type: ignore[call-overload]
    with pytest.raises(remora.InputError, match="work_limit"):
        remora.bounds(graph, "70%", limits=short)


def test_an_output_takes_over_an_input() -> None:
    graph = remora.Graph("chain")
    a = graph.op("A", duration=1, outputs={"a": 8})
    b = graph.op("B", duration=1, inputs=[a], outputs={"b": 8, "c": 1}, in_place={"b": a}, keep=["b"])
    assert b.in_place == {b.outputs[0]: a.output}
    assert graph.baseline_peak == 9
    assert remora.Graph.from_json(graph.to_json()) == graph
    place = r"ops\[2\]\.in_place\[0\]"
    with pytest.raises(remora.InputError, match=place):
        graph.op("C", duration=1, inputs=["b"], outputs={"d": 8}, in_place={"e": "b"})
    with pytest.raises(remora.InputError, match=place):
        graph.op("C", duration=1, inputs=["b"], outputs={"d": 8}, in_place={"d": "a"})
    assert len(graph) == 2


def test_axes_of_ops() -> None:
    graph = remora.Graph("convolution")
    x = graph.tensor("x", 2 * 5 * 3 * 4)
    axes = [
        remora.Axis(3, cut={x: remora.Cut(rows=5, stride=12, step=2, offset=-1, length=3), "y": remora.Cut(stride=12)}),
        remora.Axis(4, cut=["w"], sum=["y"], workspace=2),
    ]
    inputs = [x, graph.tensor("w", 8)]
    conv = graph.op("conv", duration=6, inputs=inputs, outputs={"y": 2 * 3 * 3 * 4}, workspace=9, axes=axes)
    rows, taps = conv.axes
    assert rows.extent == 3
    assert rows.cut == {x: remora.Cut(5, 12, 2, -1, 3), conv.output: remora.Cut(3, 12, 1, 0, 1)}
    assert taps == remora.Axis(4, {graph.find_tensor("w"): remora.Cut(4, 2, 1, 0, 1)}, (conv.output,), 2)
    assert graph.op("plain", duration=1, inputs=[conv], outputs={"z": 1}).axes == ()
    assert '"version": 4' in graph.to_json()
    assert remora.Graph.from_json(graph.to_json()) == graph


@pytest.mark.parametrize(
    ("axis", "message"),
    [
        (remora.Axis(3, cut=["y"]), r"ops\[0\]\.axes\[0\]\.cut\[0\]: \"y\" of 8 bytes does not consist of blocks"),
        (remora.Axis(4, cut=["x"]), r"ops\[0\]\.axes\[0\]: the output \"y\" of the op \"A\" is neither cut nor summed"),
        (remora.Axis(4, cut=["x"], sum=["x"]), r"axes\[0\]\.sum\[0\]: \"x\" is no output of the op \"A\""),
        (remora.Axis(4, cut=["z"], sum=["y"]), r"axes\[0\]\.cut\[0\]\.tensor: \"z\" is no tensor of the op \"A\""),
        (remora.Axis(0, sum=["y"]), r"axes\[0\]\.extent: must be from 1 to 2147483647, but is 0"),
        (remora.Axis(4, sum=["y"], workspace=1), r"axes\[0\]\.workspace: 4 iterations of 1 bytes do not fit"),
        (remora.Axis(4, sum=["y"], workspace=-1), r"workspace of axes\[0\]: must not be negative"),
        (remora.Axis(-4, sum=["y"]), r"extent of axes\[0\]: must not be negative"),
        (remora.Axis(4, cut={"x": remora.Cut(step=0)}, sum=["y"]), r"cut\[0\]\.rows: must be from 1"),
        (remora.Axis(4, cut={"x": remora.Cut(offset=2**63)}, sum=["y"]), r"offset of axes\[0\]\.cut of 'x': is beyond"),
        (remora.Axis(4, cut={"x": remora.Cut(offset=-(2**31))}, sum=["y"]), r"cut\[0\]\.offset: must be from -21474"),
    ],
)
def test_axes_that_do_not_fit_their_op(axis: remora.Axis, message: str) -> None:
    graph = remora.Graph("one")
    graph.tensor("z", 8)
    x = graph.tensor("x", 8)
    with pytest.raises(remora.InputError, match=message):
        graph.op("A", duration=1, inputs=[x], outputs={"y": 8}, axes=[axis])
    assert (len(graph), graph.find_tensor("y") if "y" in [t.name for t in graph.tensors] else None) == (0, None)


def test_what_changes_later_changes_no_schedule(figure_1: remora.Graph) -> None:
    schedule = remora.solve(figure_1, 3)
    text = schedule.to_json()
    figure_1.find_op("A").duration = 100
    figure_1.op("F", duration=1, inputs=["e"], outputs={"f": 1})
    assert schedule.to_json() == text
    assert schedule.peak == max(schedule.memory)
    assert not remora.verify(figure_1, schedule)  # F is not computed
    assert remora.solve(figure_1, "100%").duration == 105


def test_warm_starts_and_sequences(figure_1: remora.Graph) -> None:
    sequence = list("ABCDAE")
    given = remora.evaluate(figure_1, sequence)
    assert (given.peak, given.duration) == (3, 6)
    assert remora.verify(figure_1, given)
    for start in (given, sequence, given.ops, [0, 1, 2, 3, 0, 4]):
        assert remora.solve(figure_1, 3, work_limit=1, warm_start=start).duration == 6
    with pytest.raises(remora.InputError, match=r"ops\[1\]"):
        remora.evaluate(figure_1, ["A", "D"])
    with pytest.raises(remora.InputError, match="warm_start"):
        remora.solve(figure_1, 3, warm_start=["A", "nothing"])
    with pytest.raises(remora.InputError, match="greedy"):
        remora.solve(figure_1, 3, strategy="greedy", warm_start=given)


def test_the_least_budget_comes_with_its_schedule() -> None:
    graph = ladder(20)
    found = remora.least_budget(graph, work_limit=2000)
    assert found.proved <= found.reached < graph.baseline_peak
    assert remora.evaluate(graph, found.ops).peak == found.reached
    again = remora.solve(graph, found.reached, warm_start=found.ops, work_limit=1)
    assert again.peak <= found.reached
    free = remora.least_budget(graph, work_limit=2000, order="free")
    assert not free.ops or remora.evaluate(graph, free.ops, order="free").peak == free.reached


def test_an_open_number_of_runs_refutes_no_more_than_is_proved() -> None:
    """Three runs per op stay within less than two do: what is refuted for two is no lower bound."""
    graph = ladder(6)
    less = remora.solve(graph, 3500, work_limit=3000)
    with pytest.raises(remora.Infeasible) as caught:
        remora.solve(graph, 1400, work_limit=3000)
    bracket = caught.value.least_budget
    assert 1400 < bracket.proved <= min(bracket.reached, less.peak)
    assert remora.solve(graph, bracket.reached, work_limit=3000).peak <= bracket.reached
    with pytest.raises(remora.Infeasible) as caught:
        remora.solve(graph, 1400, max_computes=2, work_limit=3000)
    bracket = caught.value.least_budget
    assert less.peak < bracket.proved
    assert bracket.max_computes == 2
    assert remora.solve(graph, bracket.reached, max_computes=2, work_limit=3000).peak <= bracket.reached


def test_one_op_that_is_too_large_is_named_with_what_could_be_done(figure_1: remora.Graph) -> None:
    with pytest.raises(remora.Infeasible) as caught:
        remora.solve(figure_1, 2, time_limit=600)
    refusal = caught.value.refusal
    assert (refusal.reason, refusal.op, refusal.needed) == ("op", figure_1.ops[3], 3)
    assert (refusal.lower_bound, refusal.enough) == (3, 3)
    for word in ("'D' alone needs 3 B", "the minimum budget is 3 B (3 bytes", "a smaller batch", "splitting the op"):
        assert word in str(caught.value)


def test_a_percentage_with_addresses_is_of_the_arena() -> None:
    """The least budget that was named had just been refused (onnx2c #131, XNNPACK #10800, llvm #207403)."""
    graph = remora.Graph("small2")
    x, n, m = (
        graph.op(f"make {name}", duration=1, outputs={name: size}) for name, size in (("x", 512), ("n", 4), ("m", 4))
    )
    graph.op("b", duration=1, inputs=[x, n, m], outputs={"y": 512})
    found = remora.solve(graph, "100%", addresses=True)
    assert found.arena is not None
    assert (found.budget, found.arena.size, found.overhead) == (1092, 1092, 0)
    for budget in (1032, 1091):
        with pytest.raises(remora.Infeasible) as caught:
            remora.solve(graph, budget, addresses=True)
        assert caught.value.least_budget == remora.BudgetBracket(1092, 1092)
        assert caught.value.refusal.op == graph.ops[3]
        assert "the minimum budget is 1.07 KiB (1092 bytes" in str(caught.value)


def test_infeasible_names_the_op_and_the_least_budget(figure_1: remora.Graph) -> None:
    with pytest.raises(remora.Infeasible, match="'D' alone needs") as caught:
        remora.solve(figure_1, 2)
    certificate = caught.value.certificate
    assert certificate is not None
    assert (certificate.op.name, certificate.required) == ("D", 3)
    assert {tensor.name for tensor in certificate.tensors} == {"b", "c", "d"}
    assert caught.value.least_budget == remora.BudgetBracket(3, 3)
    assert caught.value.least_budget.exact
    assert caught.value.answer.status == "infeasible"
    assert remora.least_budget(figure_1) == remora.BudgetBracket(3, 3)
    assert remora.least_budget(figure_1, order="free").proved == 3


def test_nothing_found_is_no_answer_either(deep: remora.Graph) -> None:
    with pytest.raises(remora.NoSchedule) as caught:
        remora.solve(deep, "25%", strategy="none")
    assert not isinstance(caught.value, remora.Infeasible)
    assert not caught.value.answer
    assert len(caught.value.answer) == 0


def test_bounds_need_no_search(figure_1: remora.Graph) -> None:
    assert remora.bounds(figure_1, 3).duration == 6
    assert remora.bounds(figure_1, 2).status == "infeasible"
    assert remora.bounds(figure_1, 4) == remora.Bounds("optimal", 5, 0.0)


def test_bounds_hold_for_any_number_of_computes() -> None:
    graph = remora.Graph("thrice")
    a = graph.op("A", duration=1, outputs={"a": 2})
    last = graph.op("use 0", duration=1, inputs=[a], outputs={"p": 1})
    for number in (1, 2):
        wide = graph.op(f"wide {number}", duration=9, inputs=[last], outputs={f"w{number}": 1}, workspace=3)
        last = graph.op(f"use {number}", duration=1, inputs=[a, wide], outputs={f"u{number}": 1}, keep=number == 2)
    assert remora.bounds(graph, 5, max_computes=2).status == "infeasible"
    assert remora.bounds(graph, 5).status != "infeasible"
    found = remora.solve(graph, 5)
    assert remora.bounds(graph, 5).duration <= found.duration == 24


def test_orders(figure_1: remora.Graph) -> None:
    graph = remora.Graph("wasteful")
    leaves = [graph.op(f"leaf{i}", duration=1, outputs={f"leaf{i}": 100}) for i in range(4)]
    halves = [graph.op(f"half{i}", duration=1, inputs=[leaf], outputs={f"half{i}": 1}) for i, leaf in enumerate(leaves)]
    graph.op("sum", duration=1, inputs=halves, outputs={"sum": 1})
    found = remora.order(graph, work_limit=10000)
    assert found.is_optimal
    assert found.input_peak == graph.baseline_peak == 401
    assert found.peak == found.apply().baseline_peak < 110
    assert sorted(op.index for op in found.ops) == list(range(9))
    assert remora.solve(graph, found.peak, order="free", time_limit=5).overhead == 0
    assert remora.solve(graph, "50%", order="auto", time_limit=5).order == "free"
    assert remora.order(figure_1, target="100%").peak == 4


def test_max_computes_is_heeded() -> None:
    graph = ladder(10)
    budget = remora.least_budget(graph, time_limit=5, max_computes=8).reached
    many = remora.solve(graph, budget, max_computes=8, work_limit=20000)
    assert max(many.recomputes.values()) >= 2
    for op in graph.ops:
        op.max_computes = 2
    with pytest.raises(remora.NoSchedule):
        remora.solve(graph, budget, max_computes=8, work_limit=2000)


def test_a_sweep_is_a_curve(tmp_path: Path) -> None:
    graph = ladder(12)
    curve = remora.sweep(graph, points=6, work_limit=20000)
    durations = [point.duration for point in curve if point.duration is not None]
    assert durations == sorted(durations, reverse=True)
    assert len(durations) >= 3
    for point in curve:
        if point.schedule is not None:
            assert remora.verify(graph, point.schedule)
            assert point.schedule.peak <= point.budget
    assert curve.smallest_feasible is not None
    assert curve.smallest_feasible.budget >= curve.least_budget
    curve.save(tmp_path / "curve.json", schedules=tmp_path / "schedules")
    read = remora.Curve.load(tmp_path / "curve.json", graph)
    assert [(p.budget, p.duration) for p in read] == [(p.budget, p.duration) for p in curve]
    assert [p.schedule for p in read] == [p.schedule for p in curve]
    given = remora.sweep(graph, ["100%", "80%", 12000], work_limit=5000)
    assert {point.budget for point in given} >= {12000, graph.baseline_peak}
    ranged = remora.sweep(graph, "100%:80%:10%,12000", work_limit=5000)
    assert {point.budget for point in ranged} >= {12000, graph.baseline_peak} and len(ranged) == 4
    with pytest.raises(remora.InputError, match="neither a budget nor a range"):
        remora.sweep(graph, ["90%", "90%-50%"], work_limit=5000)
    with pytest.raises(remora.InputError, match="another"):
        remora.Curve.load(tmp_path / "curve.json", ladder(13))


def test_the_same_schedule_is_verified_against_another_graph_by_names(figure_1: remora.Graph) -> None:
    schedule = remora.solve(figure_1, 3)
    twin = figure_1.copy()
    assert remora.verify(twin, schedule)
    twin.find_tensor("b").size = 2
    assert "budget" in remora.verify(twin, schedule).errors[0]
    with pytest.raises(remora.InputError):
        remora.verify(ladder(3), schedule)


@pytest.mark.parametrize(
    ("text", "place"),
    [
        (
            '{"format": "remora-graph", "version": 1, "name": "", "tensors": [{"name": "a", "size": -1}], "ops": []}',
            "$.t",
        ),
        ('{"format": "remora-graph"', ""),
        ("", ""),
        ("\x00\x01", ""),
    ],
)
def test_a_bad_file_is_refused_with_its_place(text: str, place: str, tmp_path: Path) -> None:
    with pytest.raises(remora.InputError) as caught:
        remora.Graph.from_json(text)
    assert caught.value.place.startswith(place)
    (tmp_path / "bad.json").write_text(text)
    with pytest.raises(remora.InputError, match=r"bad\.json"):
        remora.Graph.load(tmp_path / "bad.json")
    with pytest.raises(FileNotFoundError):
        remora.Graph.load(tmp_path / "missing.json")


def test_what_is_wrong_is_said_with_its_place(figure_1: remora.Graph) -> None:
    other = ladder(2)
    said: list[tuple[str, type[Exception], str]] = []

    def refuses(words: str, kind: type[Exception], call: object, *arguments: object, **named: object) -> None:
        before = figure_1.to_json()
        with pytest.raises(kind) as caught:
            call(*arguments, **named)  # type: ignore[operator]
        assert words in str(caught.value), (words, str(caught.value))
        assert figure_1.to_json() == before
        said.append((words, kind, str(caught.value)))

    bad = remora.InputError
    g = figure_1
    refuses("ops[5].duration: must not be negative, but is -1", bad, g.op, "F", duration=-1, outputs={"f": 1})
    refuses("tensors[5].size: must not be negative", bad, g.op, "F", duration=1, outputs={"f": -1})
    refuses('ops[5].name: the name "A" is taken by op 0', bad, g.op, "A", duration=1, outputs={"f": 1})
    refuses('the name "a" is taken by tensor 0', bad, g.op, "F", duration=1, outputs={"a": 1})
    refuses('has two producers, "A" (op 0) and "F"', bad, g.op, "F", duration=1, outputs=["a"])
    refuses("has no outputs", bad, g.op, "F", duration=1, outputs={})
    refuses("there is no tensor 'q'", bad, g.op, "F", duration=1, inputs=["q"], outputs={"f": 1})
    refuses("is of another graph, 'ladder'", bad, g.op, "F", duration=1, inputs=[other.tensors[0]], outputs={"f": 1})
    refuses("duration of op 'F': must be an integer, not float", TypeError, g.op, "F", duration=1.5, outputs={"f": 1})
    refuses("count it in a smaller unit", TypeError, g.op, "F", duration=0.00123, outputs={"f": 1})
    refuses("must be at most 9223372036854775807", bad, g.op, "F", duration=2**70, outputs={"f": 1})
    refuses("inputs: must be a list, not str", TypeError, g.op, "F", duration=1, inputs="a", outputs={"f": 1})
    refuses("phase", bad, g.op, "F", duration=1, outputs={"f": 1}, phase="sideways")
    refuses("max_computes", bad, g.op, "F", duration=1, outputs={"f": 1}, max_computes=0)
    refuses("no op has the number 9", bad, g.op, "F", duration=1, outputs={"f": 1}, after=[9])
    refuses("keep", bad, g.op, "F", duration=1, outputs={"f": 1}, keep=["g"])
    refuses("not valid Unicode", bad, g.tensor, "\ud800", 1)
    refuses("budget: ", bad, remora.solve, g, "12 parsecs")
    refuses("0.6 is not a number of bytes; did you mean '60%'?", bad, remora.solve, g, 0.6)
    refuses("budget: must be bytes", TypeError, remora.solve, g, True)
    large = remora.Graph("large", fixed_memory=1 << 20)
    large.op("f", duration=1, outputs={"t": 1 << 20})
    refuses("did you mean 80%?", bad, remora.solve, large, "80")
    refuses("did you mean 80%?", bad, remora.solve, large, "0.8")
    refuses(
        "no schedule stays within 80 B (80 bytes, 1023.92 KiB less than", remora.Infeasible, remora.solve, large, 80
    )
    enough = "is 2.00 MiB (2097152 bytes, 1.00 MiB fixed + 100.0 % of the rest of the peak)"
    refuses(enough, remora.Infeasible, remora.solve, large, "50%")
    refuses("budget: must not be negative", bad, remora.solve, g, -1)
    refuses("order: ", bad, remora.solve, g, 3, order="sideways")
    refuses("strategy: ", bad, remora.solve, g, 3, strategy="magic")
    refuses("there is no such option", bad, remora.solve, g, 3, speed=11)
    refuses("there is no such option; did you mean time_limit?", bad, remora.solve, g, 3, timelimit=3)
    refuses("grouping: there is no such option; did you mean groups?", bad, remora.solve, g, 3, grouping="chain")
    refuses("time_limit: ", bad, remora.solve, g, 3, time_limit=-1)
    refuses("threads: ", bad, remora.solve, g, 3, threads=100000)
    refuses("stop: must be a threading.Event", TypeError, remora.solve, g, 3, stop=True)
    refuses("graph: must be a remora.Graph", TypeError, remora.solve, "graph", 3)
    refuses("made by", TypeError, remora.Tensor)
    refuses("points", bad, remora.sweep, g, points=1)
    refuses("budgets", bad, remora.sweep, g, [3, 3])
    refuses("order", bad, remora.sweep, g, order="free")
    assert len(said) == 38


def test_options_and_strategies_are_those_of_the_program() -> None:
    assert "auto" in remora.strategies()
    assert {option.name for option in remora.options()} >= {"time_limit", "work_limit", "threads", "seed"}
    assert remora.__version__.count(".") == 2
    assert remora._engine.engine_schema().startswith(f"{remora.__version__}, answers ")
