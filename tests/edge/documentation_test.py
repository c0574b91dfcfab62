# SPDX-License-Identifier: Apache-2.0
"""The examples of docs/guide/edge.md run, one after the other as a reader would type them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest


def test_examples(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    page = (Path(__file__).resolve().parents[2] / "docs/guide/edge.md").read_text()
    blocks = re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    assert len(blocks) == 4
    names: dict[str, Any] = {"__name__": "page"}
    exec(compile("\n".join(blocks), "page", "exec"), names)
    assert (tmp_path / "model.pte").stat().st_size > 0
    assert names["recompute"].schedule.overhead > 0
    assert names["sliced"].regions
