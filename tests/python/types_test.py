# SPDX-License-Identifier: Apache-2.0
"""Type checkers and linters find nothing in the package, its examples and these tests."""

from __future__ import annotations

import os
import subprocess
import sys
import typing
from pathlib import Path

import pytest

import remora

ROOT = Path(os.environ["REMORA_ROOT"])
PACKAGE = ROOT / "frontends/python/remora"
EXAMPLES = ROOT / "examples/python"
HERE = Path(__file__).parent


def run(*command: str | Path) -> None:
    environment = dict(os.environ, MYPYPATH=os.environ["PYTHONPATH"])
    done = subprocess.run(
        [sys.executable, "-m", *map(str, command)],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        env=environment,
        timeout=600,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_package_is_typed(tmp_path: Path) -> None:
    assert (PACKAGE / "py.typed").exists()
    run("mypy", "--config-file", "pyproject.toml", "--cache-dir", tmp_path, "-p", "remora")


def test_examples_and_tests_are_typed(tmp_path: Path) -> None:
    files = [*sorted(EXAMPLES.glob("*.py")), *sorted(HERE.glob("*.py"))]
    assert len(files) > len(list(HERE.glob("*.py")))
    run("mypy", "--config-file", "pyproject.toml", "--cache-dir", tmp_path, *files)


def test_a_wrong_call_is_found(tmp_path: Path) -> None:
    (tmp_path / "wrong.py").write_text("import remora\nremora.solve(remora.Graph('g'), 0.6)\n")
    with pytest.raises(AssertionError, match="No overload variant"):
        run("mypy", "--strict", "--cache-dir", tmp_path, tmp_path / "wrong.py")


def test_linted() -> None:
    places = [PACKAGE, HERE, EXAMPLES]
    run("ruff", "check", "--no-cache", *places)
    run("ruff", "format", "--no-cache", "--check", *places)


def test_everything_public_is_documented() -> None:
    for name in remora.__all__:
        thing = getattr(remora, name)
        if not callable(thing) or typing.get_origin(thing) is not None:  # the name of a type has no docstring
            continue
        assert thing.__doc__, name
        for key, member in vars(thing).items() if isinstance(thing, type) else ():
            if not key.startswith("_") and (callable(member) or isinstance(member, property)):
                assert member.__doc__, f"{name}.{key}"
