# SPDX-License-Identifier: Apache-2.0
"""What the documentation shows is run: docs/guide/python.md, the docstrings, the examples, the notebook."""

from __future__ import annotations

import ast
import doctest
import importlib
import os
import pkgutil
import re
import runpy
from pathlib import Path
from typing import Any

import matplotlib as mpl
import nbformat
import pytest
from nbclient import NotebookClient

import remora

mpl.use("Agg")
ROOT = Path(os.environ["REMORA_ROOT"])
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
JSON = re.compile(r"^```json\n(.*?)^```", re.MULTILINE | re.DOTALL)
SAYS = re.compile(r"  # -> (.*)$")


def run_block(text: str, names: dict[str, Any]) -> None:
    """Runs it; a line that ends in `# -> TEXT` is an expression whose repr is TEXT, where ... is anything."""
    for statement in ast.parse(text).body:
        code = ast.get_source_segment(text, statement) or ""
        lines = text.splitlines()[statement.lineno - 1 : statement.end_lineno]
        said = SAYS.search(lines[-1])
        if said is None:
            exec(compile(ast.Module([statement], []), code, "exec"), names)
            continue
        got = repr(eval(code, names))
        assert re.fullmatch(re.escape(said[1]).replace(r"\.\.\.", ".*"), got), f"{code}: {got}"


def test_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    formats = (ROOT / "docs/reference/formats.md").read_text(encoding="utf-8")
    graph = next(block for block in JSON.findall(formats) if '"two-devices"' in block)
    Path("two-devices.json").write_text(graph, encoding="utf-8")
    blocks = BLOCK.findall((ROOT / "docs/guide/python.md").read_text(encoding="utf-8"))
    assert len(blocks) >= 8
    names: dict[str, Any] = {}
    for block in blocks:
        run_block(block, names)


ELSEWHERE = ("executorch", "integrations", "jax", "torch", "torchtitan")
"""These are tested where PyTorch, or JAX, is."""


@pytest.mark.parametrize("name", [module.name for module in pkgutil.walk_packages(remora.__path__, "remora.")])
def test_docstrings(name: str) -> None:
    if name.endswith("__main__") or name.split(".")[1] in ELSEWHERE:
        return
    assert doctest.testmod(importlib.import_module(name)).failed == 0


@pytest.mark.parametrize("script", sorted((ROOT / "examples/python").glob("*.py")), ids=lambda path: path.stem)
def test_examples(script: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(script), run_name="__main__")


@pytest.mark.parametrize("path", sorted((ROOT / "examples/python").glob("*.ipynb")), ids=lambda path: path.stem)
def test_notebooks(path: Path, tmp_path: Path) -> None:
    read: Any = nbformat.read
    notebook = read(path, as_version=4)
    NotebookClient(
        notebook, timeout=300, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}
    ).execute()
    shown = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    assert any("text/html" in output.get("data", {}) for output in shown)
    assert any("image/png" in output.get("data", {}) for output in shown)
