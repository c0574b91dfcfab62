# SPDX-License-Identifier: Apache-2.0
"""remora.jax passes mypy --strict with JAX there, and ruff."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def run(*words: str) -> None:
    environment = dict(os.environ, MYPYPATH=os.environ["PYTHONPATH"])
    command = [sys.executable, "-m", *words]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr


def test_types(tmp_path: Path) -> None:
    # JAX's own sources are not strict.
    config = tmp_path / "mypy.ini"
    config.write_text(
        "[mypy]\nstrict = True\nignore_missing_imports = True\n[mypy-jax.*,networkx.*]\nfollow_imports = skip\n"
    )
    run("mypy", "--config-file", str(config), "--cache-dir", str(tmp_path), "-p", "remora.jax")


def test_style() -> None:
    folders = ("frontends/python/remora/jax", "tests/jax", "benchmarks/jax/measure_budgets")
    run("ruff", "check", *folders)
    run("ruff", "format", "--check", *folders)
