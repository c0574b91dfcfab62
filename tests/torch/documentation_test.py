# SPDX-License-Identifier: Apache-2.0
"""The examples of README, docs/guide/pytorch*.md, slices.md and auto_checkpoint.md run as a reader would type them."""

from __future__ import annotations

import re
import runpy
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest
import torch._dynamo.backends.registry as registry

import remora.torch as rt

ROOT = Path(__file__).resolve().parents[2]


PAGES = ["README.md", *(f"docs/guide/{name}.md" for name in ("pytorch", "pytorch_wrap", "pytorch_check", "slices"))]


@pytest.mark.parametrize("name", PAGES)
def test_examples(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    if "remora" not in registry.list_backends():  # an installed package says so itself
        registry.register_backend(rt.backend, name="remora")
    text = (ROOT / name).read_text()
    blocks = re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    assert blocks
    # One function object needs its source for Dynamo, so the page is a file.
    page = tmp_path / "page.py"
    page.write_text("\n".join(blocks))
    runpy.run_path(str(page), run_name="page")
    assert name != "docs/guide/pytorch.md" or (tmp_path / "plan.html").stat().st_size > 0


def test_examples_of_checkpoints(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = (ROOT / "docs/guide/auto_checkpoint.md").read_text()
    blocks = re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    assert len(blocks) == 2
    page = tmp_path / "page.py"
    page.write_text("\n".join(blocks))
    runpy.run_path(str(page), run_name="page")


def test_the_package_tells_torch_of_its_backend() -> None:
    text = (ROOT / "pyproject.toml").read_text()
    found = re.search(r'entry-points\.torch_dynamo_backends\]\nremora = "(.*)"', text)
    assert found is not None
    assert EntryPoint("remora", found[1], "torch_dynamo_backends").load() is rt.backend
