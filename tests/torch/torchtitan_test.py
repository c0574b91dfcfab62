# SPDX-License-Identifier: Apache-2.0
"""torchtitan's debug models train under budgets, with the losses of torchtitan's default; in processes of their own."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).resolve().parent
PYTHON = HERE.parents[1] / "build" / "torchtitan" / "bin" / "python"
pytestmark = pytest.mark.skipif(not PYTHON.exists(), reason="torchtitan is not there (tests/torch/setup_titan)")
LLAMA = "graph_trainer_llama3_debugmodel"
MIXTURE = "graph_trainer_deepseek_v3_debugmodel"


def rows(folder: Path, jobs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    (folder / "jobs.json").write_text(json.dumps(jobs))
    words = [str(PYTHON), str(HERE / "titan.py"), str(folder / "jobs.json")]
    done = subprocess.run(words, capture_output=True, text=True, check=False, env=dict(os.environ), cwd=folder)
    found = [json.loads(line[4:]) for line in done.stdout.splitlines() if line.startswith("ROW ")]
    assert done.returncode == 0 and len(found) == len(jobs), done.stdout[-2000:] + done.stderr[-4000:]
    return found


def peaks(row: dict[str, Any]) -> tuple[int, int]:
    """The predicted peak and the budget, in bytes."""
    (said,) = row["said"]
    found = re.search(r"peak ([\d,]+) bytes of ([\d,]+) ", said)
    assert found is not None, said
    return int(found[1].replace(",", "")), int(found[2].replace(",", ""))


def test_losses_are_those_of_the_default_policy(tmp_path: Path) -> None:
    budgets: list[dict[str, Any]] = [{"budget": "100%"}, {"budget": "80%"}, {"budget": "60%"}]
    budgets.append({"budget": "60%", "pass_pipeline": "remora"})
    jobs = [{"config": LLAMA, "compile": c} for c in [{"memory_policy": "default"}, *budgets, {"budget": "1%"}]]
    default, *ours, refused = rows(tmp_path, jobs)
    assert len(set(default["losses"])) == 2
    for row in ours:
        assert row["losses"] == default["losses"]
        assert row["parameters"] == default["parameters"]
        predicted, budget = peaks(row)
        assert predicted <= budget
    # What is there throughout is no part of what a step takes: it is the same in each row.
    fixed = {peaks(row)[0] - row["taken"] for row in ours}
    assert max(fixed) - min(fixed) <= 0.03 * peaks(ours[0])[0]
    assert ours[2]["taken"] < ours[1]["taken"] < ours[0]["taken"]
    assert "no schedule stays within" in refused["refused"] and refused["least"] > 0


def test_a_mixture_of_experts(tmp_path: Path) -> None:
    compiled: list[dict[str, Any]] = [{"memory_policy": "default"}, {"budget": "90%"}]
    compiled.append({"budget": "90%", "pass_pipeline": "remora"})
    default, *ours = rows(tmp_path, [{"config": MIXTURE, "compile": c} for c in compiled])
    for row in ours:
        assert row["losses"] == default["losses"] and row["parameters"] == default["parameters"]
        predicted, budget = peaks(row)
        assert predicted <= budget


def test_tags() -> None:
    words = [
        str(PYTHON),
        "-m",
        "pytest",
        "-c",
        str(HERE.parents[1] / "pyproject.toml"),
        "-q",
        str(HERE / "titan_tags.py"),
    ]
    done = subprocess.run(words, capture_output=True, text=True, check=False, env=dict(os.environ), cwd=HERE)
    assert done.returncode == 0, done.stdout[-4000:]
