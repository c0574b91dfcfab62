# SPDX-License-Identifier: Apache-2.0
"""remora.torch passes mypy --strict, with torch's own types, and ruff."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def run(*words: str) -> None:
    done = subprocess.run([sys.executable, "-m", *words], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_types() -> None:
    run("mypy", "--strict", "--python-version", "3.12", "-p", "remora.torch")


def test_style() -> None:
    run("ruff", "check", "frontends/python/remora/torch", "tests/torch")
    run("ruff", "format", "--check", "frontends/python/remora/torch", "tests/torch")
