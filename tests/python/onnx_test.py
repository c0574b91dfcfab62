# SPDX-License-Identifier: Apache-2.0
"""Measured costs of ONNX models, by onnxruntime. No time is asserted, only what is measured and what is made of it."""

from __future__ import annotations

import csv
import io
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import remora
import remora.onnx


@pytest.fixture
def model() -> onnx.ModelProto:
    """Two products with a constant that a node makes, a node without a name, and a symbolic batch."""
    weights = numpy.full((64, 64), 0.01, numpy.float32)
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["a"], name="first"),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("Add", ["w", "w"], ["w2"], name="constant"),
        helper.make_node("MatMul", ["b", "w2"], ["y"], name="second"),
    ]
    graph = helper.make_graph(
        nodes,
        "small",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 64])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 64])],
        [numpy_helper.from_array(weights, "w")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def test_every_node_is_measured(model: onnx.ModelProto, tmp_path: Path) -> None:
    before = model.SerializeToString()
    taken = remora.onnx.profile(model, runs=4, dimensions={"batch": 256})
    assert model.SerializeToString() == before
    assert [(node.name, node.type, node.device) for node in taken.nodes] == [
        ("first", "MatMul", "cpu"),
        ("b", "Relu", "cpu"),
        ("second", "MatMul", "cpu"),
    ]
    assert taken.whole > 0
    assert taken.total == sum(node.duration for node in taken.nodes) > 0
    taken.save(tmp_path / "costs.csv")
    rows = list(csv.DictReader((tmp_path / "costs.csv").open()))
    assert [row["name"] for row in rows] == ["first", "b", "second"]
    assert list(rows[0]) == ["name", "device", "duration", "workspace", "energy"]
    given = remora.onnx.profile(model, runs=2, inputs={"x": numpy.zeros((3, 64), numpy.float32)})
    assert len(given.nodes) == 3


def test_what_cannot_be_measured_is_refused(model: onnx.ModelProto, tmp_path: Path) -> None:
    with pytest.raises(remora.InputError, match=r"input x\[0\].*batch"):
        remora.onnx.profile(model)
    with pytest.raises(remora.InputError, match="height"):
        remora.onnx.profile(model, dimensions={"batch": 1, "height": 2})
    with pytest.raises(remora.InputError, match="runs"):
        remora.onnx.profile(model, runs=0, dimensions={"batch": 1})
    with pytest.raises(remora.InputError, match="not an ONNX model"):
        remora.onnx.profile(b"nothing like it")
    with pytest.raises(FileNotFoundError):
        remora.onnx.profile(tmp_path / "missing.onnx")
    model.graph.node[0].op_type = "NoSuchOp"
    with pytest.raises(remora.InputError, match="onnxruntime rejects it"):
        remora.onnx.profile(model, dimensions={"batch": 1})


def test_a_machine_is_calibrated(tmp_path: Path) -> None:
    device = remora.onnx.calibrate(runs=2, name="here")
    assert device.name == "here"
    assert min(device.peak_flops, device.bandwidth, device.launch_overhead) > 0
    device.save(tmp_path / "device.json")
    assert json.loads((tmp_path / "device.json").read_text())["rates"]["fp32"] == device.peak_flops


def test_the_commands(model: onnx.ModelProto, tmp_path: Path) -> None:
    onnx.save(model, tmp_path / "model.onnx")

    def run(*words: str, ends: int = 0) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "remora.onnx", *words]
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path, timeout=300)
        assert done.returncode == ends, done.stderr
        return done

    said = run("profile", "model.onnx", "--dim", "batch=8", "--runs", "3")
    assert len(list(csv.DictReader(io.StringIO(said.stdout)))) == 3
    assert "3 nodes" in said.stderr
    run("profile", "model.onnx", "--dim", "batch=8", "--runs", "3", "-o", "costs.csv")
    assert (tmp_path / "costs.csv").read_text().startswith("name,device,duration")
    assert "batch" in run("profile", "model.onnx", ends=65).stderr
    assert "missing.onnx" in run("profile", "missing.onnx", ends=65).stderr


def test_the_program_takes_the_costs(model: onnx.ModelProto, program: Callable[..., str], tmp_path: Path) -> None:
    onnx.save(model, tmp_path / "model.onnx")
    (tmp_path / "costs.csv").write_text(
        "name,device,duration,workspace,energy\nfirst,cpu,1000,64,5\nb,cpu,200,,\nsecond,cpu,3000,,\n"
    )
    words = [tmp_path / "model.onnx", "--dim", "batch=8", "--costs", tmp_path / "costs.csv", "-q"]
    program("convert", *words, "-o", tmp_path / "graph.json")
    graph = remora.Graph.load(tmp_path / "graph.json")
    assert [op.duration for op in graph.ops] == [1000, 200, 3000]
    assert graph.ops[0].workspace == 64
    assert json.loads(graph.to_json())["ops"][0]["energy"] == 5
    program("convert", *words, "--training", "-o", tmp_path / "training.json")
    step = remora.Graph.load(tmp_path / "training.json")
    for op in step.ops:
        if op.backward_of is not None and op.type.startswith("MatMul"):
            assert op.duration == 2 * op.backward_of.duration or op.backward_of.name == "first"
    program("solve", *words, "--budget", "100%", "-o", tmp_path / "schedule.json")
    assert json.loads((tmp_path / "schedule.json").read_text())["baseline_duration"] == 4200
    (tmp_path / "costs.csv").write_text("name,duration\nnobody,1\n")
    program("convert", *words, ends=65)
