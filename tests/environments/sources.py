# SPDX-License-Identifier: Apache-2.0
"""What tests of sources share: mypy --strict and ruff, in the environment of the packages that these build on."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def check_types(scratch: Path, *packages: str, skipped: str = "") -> None:
    """Fails unless packages pass mypy --strict; mypy does not read the sources of `skipped`."""
    config = scratch / "mypy.ini"
    unread = ",".join(f"{package}.*" for package in (skipped, "networkx") if package)
    others = f"[mypy-{unread}]\nfollow_imports = skip\n"
    config.write_text(f"[mypy]\nstrict = True\nignore_missing_imports = True\n{others}")
    named = [word for package in packages for word in ("-p", package)]
    _run("mypy", "--config-file", str(config), "--cache-dir", str(scratch), *named)


def check_style(*paths: str) -> None:
    """Fails unless ruff finds nothing in files and folders, by their paths from the repository's root."""
    _run("ruff", "check", *paths)
    _run("ruff", "format", "--check", *paths)


def _run(*words: str) -> None:
    environment = {**os.environ, "MYPYPATH": os.environ["PYTHONPATH"]}
    command = [sys.executable, "-m", *words]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
