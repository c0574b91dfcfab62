# SPDX-License-Identifier: Apache-2.0
"""Slices from Python: what is asked for, what the answer says, and that it is one of the graph."""

import pickle
from pathlib import Path

import pytest

import remora

BUDGET = 80_000


def loss() -> remora.Graph:
    """A loss over a vocabulary, forward and backward: 64 tokens of width 8, 512 words."""
    g = remora.Graph("loss")
    w = g.tensor("w", 4 * 8 * 512)
    h = g.op("embed", duration=100, outputs={"h": 4 * 64 * 8}).output

    def axis(*cut: str, total: tuple[str, ...] = ()) -> remora.Axis:
        return remora.Axis(64, cut, total)

    mm = g.op("mm", duration=6400, inputs=[h, w], outputs={"logits": 4 * 64 * 512}, axes=[axis("h", "logits")])
    p = g.op("softmax", duration=128, inputs=[mm], outputs={"p": 4 * 64 * 512}, axes=[axis("logits", "p")])
    g.op("loss", duration=64, inputs=[p], outputs={"nll": 4}, axes=[axis("p", total=("nll",))], keep=True)
    d = g.op("sub", duration=128, inputs=[p], outputs={"g": 4 * 64 * 512}, axes=[axis("p", "g")])
    g.op("dh", duration=6400, inputs=[d, w], outputs={"dh": 4 * 64 * 8}, axes=[axis("g", "dh")], keep=True)
    g.op(
        "dw", duration=6400, inputs=[h, d], outputs={"dw": 4 * 8 * 512}, axes=[axis("h", "g", total=("dw",))], keep=True
    )
    return g


def test_a_budget_below_one_op() -> None:
    g = loss()
    with pytest.raises(remora.Infeasible) as refused:
        remora.solve(g, BUDGET, work_limit=300)
    assert 'slices="auto"' in str(refused.value)
    schedule = remora.solve(g, BUDGET, work_limit=300, slices="auto")
    assert schedule.peak <= BUDGET
    assert remora.verify(g, schedule).valid
    (region,) = schedule.slices
    assert {op.name for op in region.ops} == {"mm", "softmax", "loss", "sub", "dh", "dw"}
    assert all(op in list(g.ops) for op in region.ops)
    assert region.slices > 1
    assert region.saved_minimum > 0
    assert schedule.without_slices is not None
    assert schedule.without_slices.status == "infeasible"
    assert schedule.solved_graph is g
    assert "mm#0" in [step.op.name for step in schedule.steps]
    assert schedule.baseline_duration == g.baseline_duration


def test_the_budget_of_the_refusal_is_enough() -> None:
    g = loss()
    with pytest.raises(remora.NoSchedule) as refused:
        remora.solve(g, 20_000, work_limit=300, slices="auto")
    enough = refused.value.refusal.enough_in_slices
    assert 20_000 < enough < BUDGET
    assert remora.verify(g, remora.solve(g, enough, work_limit=300, slices="auto")).valid


def test_files_and_pages_keep_slices(tmp_path: Path) -> None:
    g = loss()
    schedule = remora.solve(g, BUDGET, work_limit=300, slices="loss=8@0")
    assert [region.slices for region in schedule.slices] == [8]
    schedule.save(tmp_path / "s.json")
    again = remora.Schedule.load(tmp_path / "s.json", g)
    assert again == schedule
    assert again.slices == schedule.slices
    assert remora.verify(g, again).valid
    assert pickle.loads(pickle.dumps(again)) == schedule
    schedule.report(tmp_path / "s.html")
    assert '"slices": {"peak"' in (tmp_path / "s.html").read_text()


def test_slices_cost_what_is_said() -> None:
    g = loss()
    free = remora.solve(g, BUDGET, work_limit=300, slices="loss=8@0")
    dear = remora.solve(g, BUDGET, work_limit=300, slices="loss=8@0", slice_cost=remora.SliceCost(overhead=10))
    assert free.slices[0].cost == 0
    assert dear.slices[0].cost == 10 * 8 * 6
    assert dear.duration == free.duration + dear.slices[0].cost


def test_rows_that_are_copied_take_memory() -> None:
    g = remora.Graph("rows")
    x = g.op("x", duration=1, outputs={"x": 800})
    rows = [remora.Axis(8, cut=["x", "y"])]
    g.op("y", duration=1, inputs=[x], outputs={"y": 800}, keep=True, axes=rows)
    read = remora.solve(g, "200%", work_limit=300, slices="y=8@0")
    cost = remora.SliceCost(copies=True)
    copied = remora.solve(g, "200%", work_limit=300, slices="y=8@0", slice_cost=cost)
    assert copied.peak == read.peak + 100


def test_no_slices_where_all_fits() -> None:
    g = loss()
    schedule = remora.solve(g, "100%", work_limit=300, slices="auto")
    assert schedule.slices == ()
    assert schedule.without_slices is None
    assert schedule.graph is g


def test_a_sweep_takes_the_better_of_both() -> None:
    g = loss()
    curve = remora.sweep(g, [400_000, 200_000, BUDGET], work_limit=1000, slices="auto")
    for point in curve:
        assert point.schedule is not None
        assert remora.verify(g, point.schedule).valid
    assert [bool(point.schedule.slices) for point in curve if point.schedule] == [True, True, False]


def test_what_cannot_be_asked() -> None:
    g = loss()
    for words in ("loss", "loss=1", "loss=8@7", "nothing=2", "embed=2", ["auto", "loss=2"]):
        with pytest.raises(remora.InputError, match="slices"):
            remora.solve(g, BUDGET, slices=words)
    with pytest.raises(remora.InputError, match="on_incumbent"):
        remora.solve(g, BUDGET, slices="auto", on_incumbent=print)
    with pytest.raises(remora.InputError, match="addresses"):
        remora.solve(g, BUDGET, slices="auto", addresses=True)
    with pytest.raises(TypeError, match="slice_cost"):
        remora.solve(g, BUDGET, slices="auto", slice_cost=3)  # type: ignore[call-overload]


def test_fewer_slices_and_a_recomputation_may_cost_less() -> None:
    """128 slices bring the input order within the budget; eight do with layers that run again, and cost a tenth."""
    g, rows = remora.Graph("head"), 512
    layers: list[remora.Op] = []
    for i in range(8):
        layers.append(g.op(f"f{i}", duration=100, inputs=layers[-1:], outputs={f"a{i}": 40_000}))
    both = {"logits": remora.Cut(rows), "p": remora.Cut(rows)}
    logits = g.op(
        "mm",
        duration=5000,
        inputs=layers[-1:],
        outputs={"logits": rows * 1000},
        axes=[remora.Axis(rows, {"logits": both["logits"]})],
    )
    p = g.op("softmax", duration=500, inputs=[logits], outputs={"p": rows * 1000}, axes=[remora.Axis(rows, both)])
    d = g.op(
        "dw",
        duration=5000,
        inputs=[p],
        outputs={"dw": 10_000},
        keep=True,
        axes=[remora.Axis(rows, {"p": both["p"]}, ["dw"])],
    )
    for i in reversed(range(8)):
        d = g.op(f"b{i}", duration=200, inputs=[d, layers[i]], outputs={f"d{i}": 10_000}, keep=i == 0)
    found = remora.solve(g, 300_000, slices="auto", slice_cost=remora.SliceCost(20), work_limit=2000, threads=1)
    assert found.slices[0].slices <= 16
    assert found.recomputes
    assert found.overhead < 0.1
