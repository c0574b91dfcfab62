# SPDX-License-Identifier: Apache-2.0
"""`remora place --tflite`: plans are sound, models run in their arenas, and LiteRT and TFLite Micro take the file."""

from __future__ import annotations

import copy
import json
import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import flatbuffers
import numpy as np
import pytest
import tflite_models
from ai_edge_litert import schema_py_generated as schema
from ai_edge_litert.interpreter import Interpreter
from tflite_micro import runtime as micro

PLAN = b"OfflineMemoryAllocation"
DTYPES = {number: np.dtype(name) for name, number in tflite_models.TYPES.items()}


def remora(*words: str | Path) -> subprocess.CompletedProcess[str]:
    command = [os.environ["REMORA"], *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def read(content: bytes) -> Any:
    return schema.ModelT.InitFromObj(schema.Model.GetRootAs(content, 0))


def plan_of(model: Any) -> list[int]:
    (entry,) = [entry for entry in model.metadata if entry.name == PLAN]
    words = np.asarray(model.buffers[entry.buffer].data, np.uint8).view(np.int32)
    assert list(words[:3]) == [1, 1, len(words) - 3]
    return [int(word) for word in words[3:]]


def computed(content: bytes, inputs: list[np.ndarray[Any, Any]]) -> list[np.ndarray[Any, Any]]:
    """What LiteRT computes."""
    interpreter = Interpreter(model_content=content, num_threads=1)
    interpreter.allocate_tensors()
    for detail, value in zip(interpreter.get_input_details(), inputs, strict=True):
        interpreter.set_tensor(detail["index"], value)
    interpreter.invoke()
    return [interpreter.get_tensor(detail["index"]) for detail in interpreter.get_output_details()]


def computed_by_micro(
    content: bytes, inputs: list[np.ndarray[Any, Any]], capfd: pytest.CaptureFixture[str]
) -> tuple[list[np.ndarray[Any, Any]], int]:
    """What TFLite Micro computes, and the bytes that its arena has for activations and scratch memory (its "head")."""
    interpreter = micro.Interpreter.from_bytes(content, arena_size=1 << 20)
    for number, value in enumerate(inputs):
        interpreter.set_input(value, number)
    interpreter.invoke()
    outputs = [interpreter.get_output(number) for number in range(len(read(content).subgraphs[0].outputs))]
    capfd.readouterr()
    interpreter.print_allocations()
    told = re.search(r"Arena allocation head (\d+) bytes", capfd.readouterr().err)
    assert told is not None
    return outputs, int(told[1])


def placed(content: bytes, folder: Path) -> tuple[dict[str, Any], bytes]:
    """What the program tells, and the planned model."""
    (folder / "model.tflite").write_bytes(content)
    run = remora("place", "--tflite", folder / "model.tflite", "-o", folder / "planned.tflite", "-q", "--json")
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout), (folder / "planned.tflite").read_bytes()


def drawn(graph: Any, kind: str) -> list[np.ndarray[Any, Any]]:
    """Inputs of a model."""
    random = np.random.default_rng(1)
    scale = tflite_models.SCALE if kind == "int8" else 1
    return [np.asarray(random.normal(0, 1, graph.tensors[i].shape) / scale, kind) for i in graph.inputs]


def alone(model: Any, op: Any, inputs: list[int]) -> bytes:
    """A model of this op alone."""
    single = copy.copy(model)
    graph = copy.copy(model.subgraphs[0])
    graph.inputs, graph.outputs, graph.operators = inputs, op.outputs, [op]
    single.subgraphs = [graph]
    builder = flatbuffers.Builder(1024)
    builder.Finish(single.Pack(builder), b"TFL3")
    return bytes(builder.Output())


def same(a: Any, b: Any) -> bool:
    """Whether two objects of the schema have equal contents."""
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        return np.array_equal(a, b)
    if isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)):
        return len(a) == len(b) and all(same(x, y) for x, y in zip(a, b, strict=True))
    if hasattr(a, "__dict__"):
        return type(a) is type(b) and all(same(value, vars(b)[key]) for key, value in vars(a).items())
    return bool(a == b)


@pytest.mark.parametrize("kind", ["float32", "int8"])
@pytest.mark.parametrize("name", tflite_models.MODELS)
def test_models_run_in_their_arenas(name: str, kind: str, tmp_path: Path) -> None:
    content = tflite_models.MODELS[name](kind)
    told, planned = placed(content, tmp_path)
    model = read(planned)
    offsets = plan_of(model)
    graph = model.subgraphs[0]

    # Everything else is as it was.
    rest = read(planned)
    rest.metadata = [entry for entry in rest.metadata if entry.name != PLAN]
    del rest.buffers[-1]
    assert same(rest, read(content))

    # Just what ops write, or the model is given, has an offset.
    written = {tensor for op in graph.operators for tensor in op.outputs} | set(graph.inputs)
    assert {number for number, offset in enumerate(offsets) if offset >= 0} == written
    assert told["buffers"] == len(written) and all(offset % 16 == 0 for offset in offsets if offset >= 0)

    # LiteRT computes the same; and op by op in an arena of the size that was told.
    inputs = drawn(graph, kind)
    expected = computed(content, inputs)
    assert same(computed(planned, inputs), expected)
    arena = np.full(told["arena"], 0xAB, np.uint8)

    def lies(number: int) -> np.ndarray[Any, Any]:
        tensor = graph.tensors[number]
        size = int(np.prod(tensor.shape)) * DTYPES[tensor.type].itemsize
        assert offsets[number] + size <= len(arena)
        return arena[offsets[number] : offsets[number] + size].view(DTYPES[tensor.type]).reshape(tensor.shape)

    for number, value in zip(graph.inputs, inputs, strict=True):
        lies(number)[...] = value
    for op in graph.operators:
        taken = [number for number in dict.fromkeys(op.inputs) if number >= 0 and offsets[number] >= 0]
        results = computed(alone(model, op, taken), [lies(number).copy() for number in taken])
        for number, value in zip(op.outputs, results, strict=True):
            lies(number)[...] = value
    assert same([lies(number) for number in graph.outputs], expected)


def with_offsets(planned: bytes, change: Callable[[int], int]) -> bytes:
    """The model with other offsets in its plan, which are as many bytes in the same place."""
    words = plan_of(read(planned))
    changed = [change(word) if word >= 0 else word for word in words]
    parts = [np.asarray([1, 1, len(words), *one], np.int32).tobytes() for one in (words, changed)]
    assert planned.count(parts[0]) == 1
    return planned.replace(*parts)


@pytest.mark.parametrize("kind", ["float32", "int8"])
@pytest.mark.parametrize("name", tflite_models.MODELS)
def test_micro_keeps_to_the_plan(name: str, kind: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    content = tflite_models.MODELS[name](kind)
    told, planned = placed(content, tmp_path)
    inputs = drawn(read(content).subgraphs[0], kind)
    expected, before = computed_by_micro(content, inputs, capfd)
    outputs, taken = computed_by_micro(planned, inputs, capfd)
    assert same(outputs, expected)
    # These kernels ask for no scratch memory.
    assert taken == told["arena"] <= before

    # It is this plan that the runtime takes: moved, it takes more, and with everything in one place results are wrong.
    outputs, taken = computed_by_micro(with_offsets(planned, lambda offset: offset + 4096), inputs, capfd)
    assert same(outputs, expected) and taken == told["arena"] + 4096
    outputs, taken = computed_by_micro(with_offsets(planned, lambda _: 0), inputs, capfd)
    assert not same(outputs, expected) and taken < told["arena"]


@pytest.mark.parametrize("seed", range(40))
def test_micro_never_takes_more_with_a_plan(seed: int, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    content = tflite_models.branches("int8", seed)
    told, planned = placed(content, tmp_path)
    inputs = drawn(read(content).subgraphs[0], "int8")
    expected, before = computed_by_micro(content, inputs, capfd)
    outputs, taken = computed_by_micro(planned, inputs, capfd)
    assert same(outputs, expected)
    assert taken == told["arena"] <= before


def test_micro_refuses_a_plan_where_it_keeps_all_tensors(tmp_path: Path) -> None:
    _, planned = placed(tflite_models.MODELS["MLP"]("int8"), tmp_path)
    with pytest.raises(RuntimeError, match="allocate"):
        micro.Interpreter.from_bytes(planned, intrepreter_config=micro.InterpreterConfig.kPreserveAllTensors)


def test_the_sample_of_other_tests_is_this_one() -> None:
    sample = Path(__file__).resolve().parents[1] / "data" / "tflite" / "mlp.tflite"
    assert sample.read_bytes() == tflite_models.MODELS["MLP"]("int8")


def test_a_planned_model_is_refused(tmp_path: Path) -> None:
    (tmp_path / "m.tflite").write_bytes(tflite_models.MODELS["MLP"]("int8"))
    assert remora("place", "--tflite", tmp_path / "m.tflite", "-o", tmp_path / "p.tflite", "-q").returncode == 0
    again = remora("place", "--tflite", tmp_path / "p.tflite", "-o", tmp_path / "q.tflite", "-q")
    assert again.returncode == 65 and "already" in again.stderr and again.stderr.count("\n") == 1
    assert not (tmp_path / "q.tflite").exists()


def test_models_of_several_subgraphs_are_refused(tmp_path: Path) -> None:
    model = read(tflite_models.MODELS["MLP"]("float32"))
    model.subgraphs = model.subgraphs * 2
    builder = flatbuffers.Builder(1024)
    builder.Finish(model.Pack(builder), b"TFL3")
    (tmp_path / "m.tflite").write_bytes(bytes(builder.Output()))
    run = remora("place", "--tflite", tmp_path / "m.tflite")
    assert run.returncode == 65 and "2 subgraphs" in run.stderr


@pytest.mark.parametrize("kind", ["float32", "int8"])
@pytest.mark.parametrize("name", tflite_models.MODELS)
def test_damage_is_what_the_runtime_calls_damage(name: str, kind: str, tmp_path: Path) -> None:
    content = tflite_models.MODELS[name](kind)
    random = np.random.default_rng(3)
    damaged = 0
    for _ in range(60):
        mutant = bytearray(content)
        # Structure lies at both ends, and weights between them.
        at = int(random.integers(2000)) * int(random.choice([1, -1])) % len(content)
        mutant[at] = random.choice([0, 1, 127, 255, random.integers(256)])
        (tmp_path / "m.tflite").write_bytes(mutant)
        run = remora("place", "--tflite", tmp_path / "m.tflite", "-o", tmp_path / "p.tflite", "-q")
        assert run.returncode in (0, 65) and run.stderr.count("\n") == run.returncode // 65
        is_damaged = False
        try:
            Interpreter(model_content=bytes(mutant), num_threads=1)
        except ValueError as error:
            is_damaged = "not a valid Flatbuffer" in str(error)
        damaged += is_damaged
        assert not (is_damaged and run.returncode == 0), f"byte {at} is {mutant[at]}"
        assert is_damaged or "cut short or damaged" not in run.stderr, f"byte {at} is {mutant[at]}: {run.stderr}"
    assert damaged > 0


def test_variables_and_constants_have_no_place(tmp_path: Path) -> None:
    builder = tflite_models.Builder("float32")
    x = builder.tensor((1, 8))
    state = builder.tensor((1, 8))
    builder.graph.tensors[state].isVariable = True
    unused = builder.tensor((1, 1000))
    y = builder.add(builder.add(x, state), builder.constant(np.ones((1, 8))))
    (tmp_path / "m.tflite").write_bytes(builder.finish([x], [y]))
    run = remora("place", "--tflite", tmp_path / "m.tflite", "-o", tmp_path / "p.tflite", "-q", "--json")
    assert json.loads(run.stdout)["arena"] == 64
    offsets = plan_of(read((tmp_path / "p.tflite").read_bytes()))
    assert offsets[state] == offsets[unused] == -1 and sum(offset >= 0 for offset in offsets) == 3
