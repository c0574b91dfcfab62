# SPDX-License-Identifier: Apache-2.0
"""The examples of docs/guide/jax.md and jax_checkpoint.md run as a reader would type them."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

import remora.jax as rj

GUIDE = Path(__file__).resolve().parents[2] / "docs" / "guide"


@pytest.mark.parametrize("name", ["jax", "jax_checkpoint"])
def test_examples(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"^```python\n(.*?)^```", (GUIDE / f"{name}.md").read_text(), re.MULTILINE | re.DOTALL)
    assert blocks
    page = tmp_path / "page.py"
    page.write_text("\n".join(blocks))
    made = runpy.run_path(str(page), run_name="page")
    if name == "jax_checkpoint":
        assert isinstance(made["step"], rj.Checkpointed)
        assert made["step"].plan.temporaries <= made["step"].plan.budget
