# SPDX-License-Identifier: Apache-2.0
"""Python gives what the program gives: the same files but for times, under a work limit."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import remora

# Ten graphs: random layered ones, and training steps of Checkmate's networks.
GRAPHS: list[tuple[str, ...]] = [
    ("remora", "generate", "layered", "--ops", str(ops), "--seed", str(seed))
    for seed, ops in enumerate((40, 60, 80, 100, 150), 1)
]
GRAPHS += [("remora_instances", "--network", network) for network in ("vgg16", "vgg19", "mobilenet", "unet", "fcn8")]
Program = Callable[..., str]


@pytest.fixture(scope="module", params=GRAPHS, ids=lambda words: "-".join(words[2:5:2]))
def path(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("graphs") / "graph.json"
    subprocess.run([Path(os.environ["REMORA_BIN"]) / request.param[0], *request.param[1:], "-o", file], check=True)
    return file


def timeless(text: str) -> Any:
    """The file's content without what the clock says."""

    def strip(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: strip(item) for key, item in value.items() if "seconds" not in key and key != "history"}
        return [strip(item) for item in value] if isinstance(value, list) else value

    return strip(json.loads(text))


def answer_of(graph: remora.Graph, budget: str, **limits: Any) -> tuple[remora.Schedule, int]:
    """What a solve knows at its end, a schedule or not, and how the program ends with it."""
    try:
        return remora.solve(graph, budget, **limits), 0
    except remora.NoSchedule as error:
        return error.answer, 20 if error.answer.status == "infeasible" else 21


@pytest.mark.parametrize("number", range(4))
def test_solve(path: Path, program: Program, number: int) -> None:
    """With all graphs, 40 random requests (tests/frontends/cli/doors_test.cpp asks the other doors)."""
    graph = remora.Graph.load(path)
    draw = random.Random(f"{graph.name} {number}")
    budget = f"{draw.randrange(60, 100)}%"
    asked: dict[str, Any] = {
        "work_limit": 1000,
        "seed": draw.randrange(10),
        "order": draw.choice(["input", "input", "free", "auto"]),
        "strategy": draw.choice(["auto", "auto", "cp"]),
    }
    if computes := draw.choice([None, None, 1, 2, 3]):
        asked["max_computes"] = computes
    words = [word for key, value in asked.items() for word in (f"--{key.replace('_', '-')}", str(value))]
    addresses = draw.random() < 0.25
    answer, ends = answer_of(graph, budget, addresses=addresses, **asked)
    said = program("solve", path, "--budget", budget, *words, *["--addresses"] * addresses, "-q", ends=ends)
    assert timeless(answer.to_json()) == timeless(said)


def test_addresses(path: Path, program: Program, tmp_path: Path) -> None:
    graph = remora.Graph.load(path)
    words = ["--budget", "90%", "--work-limit", "2000", "-q"]
    schedule = remora.solve(graph, "90%", work_limit=2000, addresses=True)
    assert timeless(schedule.to_json()) == timeless(program("solve", path, *words, "--addresses"))
    found = remora.place(schedule, work_limit=2000, alignment=16)
    schedule.save(tmp_path / "s.json")
    words = ["--graph", str(path), "--work-limit", "2000", "--alignment", "16", "--json", "-q"]
    said = json.loads(program("place", tmp_path / "s.json", *words, "-o", tmp_path / "table.csv"))
    assert (found.arena, found.bound, found.status) == (said["arena"], said["lower_bound"], said["status"])
    assert [b.offset for b in remora.load_buffers(tmp_path / "table.csv")] == list(found.offsets)


@pytest.mark.parametrize("strategy", ["none", "greedy", "sqrt", "rotor"])
def test_methods(path: Path, program: Program, strategy: str) -> None:
    graph = remora.Graph.load(path)
    answer, ends = answer_of(graph, "85%", strategy=strategy, time_limit=60)
    words = ["--budget", "85%", "--strategy", strategy, "--time-limit", "60", "-q"]
    assert timeless(answer.to_json()) == timeless(program("solve", path, *words, ends=ends))


def test_sweep(path: Path, program: Program) -> None:
    graph = remora.Graph.load(path)
    said = program("sweep", path, "--points", "5", "--work-limit", "3000", "-q")
    curve = remora.sweep(graph, points=5, work_limit=3000)
    assert timeless(curve._core.write()) == timeless(said)


def test_order(path: Path, program: Program) -> None:
    graph = remora.Graph.load(path)
    said = json.loads(program("order", path, "--work-limit", "20000", "--json", "-q"))
    found = remora.order(graph, work_limit=20000)
    assert (found.peak, found.bound) == (said["peak_memory"], said["lower_bound"])


def test_the_graph_comes_back_as_the_program_writes_it(path: Path, program: Program) -> None:
    assert remora.Graph.load(path).to_json() == program("convert", path)


def test_highs_is_taken_from_the_package_highsbox_unless_it_is_switched_off() -> None:
    words = [sys.executable, "-c", "import remora; print(remora._engine.highs_name())"]

    def named(**settings: str) -> str:
        return subprocess.run(words, env={**others, **settings}, capture_output=True, text=True, check=True).stdout

    others = {name: value for name, value in os.environ.items() if name != "REMORA_HIGHS"}
    assert named().startswith("HiGHS 1.")
    assert named(REMORA_HIGHS="off") == "\n"


def test_the_package_becomes_the_program(program: Program, tmp_path: Path) -> None:
    """`python -m remora`, with the package's HiGHS; a model that is too large as inference is asked for training."""

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "remora", *words]
        return subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)

    assert run("--version").stdout.startswith(f"remora {remora.__version__}")
    made = "from remora.__main__ import zoo; import sys; sys.argv = ['', 'unet', '--size', '32', '-o', 'u.onnx']; zoo()"
    subprocess.run([sys.executable, "-c", made], check=True, capture_output=True, cwd=tmp_path)
    solved = run("solve", "u.onnx", "--budget", "80%", "-o", "s.json")
    assert solved.returncode == 20, solved.stderr
    assert "inference; --training plans a training step" in solved.stdout + solved.stderr
    solved = run("solve", "u.onnx", "--training", "--budget", "80%", "--work-limit", "500", "-o", "s.json", "-q")
    assert solved.returncode == 0, solved.stderr
    assert '"valid": true' in program("verify", tmp_path / "u.onnx", tmp_path / "s.json")


def test_a_manifest_of_training_steps_is_a_batch(program: Program, tmp_path: Path) -> None:
    binaries = Path(os.environ["REMORA_BIN"])
    subprocess.run([binaries / "remora_zoo", "unet", "--size", "32", "-o", "u.onnx"], check=True, cwd=tmp_path)
    script = Path(os.environ["REMORA_ROOT"]) / "examples" / "slurm" / "make_manifest"
    options = ["--option", "training=true", "--option", "work_limit=300"]
    words = [sys.executable, str(script), *options, "--budgets", "90%", "--graphs", "u.onnx"]
    manifest = subprocess.run(words, check=True, capture_output=True, text=True, cwd=tmp_path).stdout
    (tmp_path / "m.jsonl").write_text(manifest)
    program("batch", tmp_path / "m.jsonl", "--out", tmp_path / "out", "-q")
    said = program("merge", tmp_path / "out", "--verify")
    assert "infeasible" not in said
    assert "unknown" not in said
