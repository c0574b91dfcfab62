# SPDX-License-Identifier: Apache-2.0
"""`benchmarks/gpu`, dry: its rows come one by one, its page says what failed and what was over its budget."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

DRIVE = Path(__file__).resolve().parents[2] / "benchmarks/gpu/drive.py"


def rows_of(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "rows.jsonl").read_text().splitlines()]


def test_tests_and_measurements_on_the_cpu(tmp_path: Path) -> None:
    words = [sys.executable, str(DRIVE), str(tmp_path), "--device", "cpu", "--seconds", "300", "--rounds", "1"]
    jobs = ["--jobs", "tests/inductor:shortest_known,small/dry"]
    done = subprocess.run([*words, *jobs], env={**os.environ, "SOLVE": "1"}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    rows = rows_of(tmp_path)
    (tests,) = [row for row in rows if row["phase"] == "test"]
    assert tests["passed"] == 1 and not tests["failed"] and tests["complete"]
    ready = {row["contender"].partition(":")[0]: row for row in rows if row["phase"] == "ready"}
    assert set(ready) == {"plain", "every", "auto", "remora"}, (tmp_path / "workers.log").read_text()[-3000:]
    assert len({row["loss"] for row in ready.values()}) == 1, "all ways have one loss"
    assert ready["auto"]["peak"] <= ready["auto"]["budget"] and ready["every"]["peak"] < ready["plain"]["peak"]
    timed = {row["contender"] for row in rows if row["phase"] == "turn"}
    assert timed == {row["contender"] for row in rows if row["phase"] == "ready"}
    page = (tmp_path / "README.md").read_text()
    assert "Above their budget without a warning: none." in page and "| inductor:shortest_known | 1 |" in page


def test_a_page_is_made_of_what_is_known(tmp_path: Path) -> None:
    given = {"network": "small", "contender": "remora:60%", "warnings": [], "warm": 0.1, "predicted_seconds": 0.1}
    rows = [
        {"phase": "place", "card": "a card", "versions": "torch 2", "commit": "abc"},
        {
            "phase": "test",
            "file": "step",
            "passed": 3,
            "skipped": 0,
            "failed": ["test_a"],
            "complete": False,
            "code": -9,
        },
        {"phase": "ready", **given, "peak": 2**20, "budget": 2**19, "predicted_peak": 2**19, "predicted_overhead": 0.0},
        {"phase": "error", "network": "small", "contender": "auto:60%", "error": "RuntimeError: no"},
        {"phase": "left", "network": "small", "contender": "plain"},
    ]
    (tmp_path / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)))
    subprocess.run([sys.executable, str(DRIVE), str(tmp_path), "--page"], check=True)
    page = (tmp_path / "README.md").read_text()
    assert "| step | 3 | 0 | test_a | the time was too short |" in page
    assert "without a warning: small remora:60%." in page and "small auto:60%: RuntimeError: no" in page
    assert "since the time was over: small plain" in page
