# SPDX-License-Identifier: Apache-2.0
"""remora.torch, remora.integrations and remora.torchtitan pass mypy --strict with torch's own types, and ruff."""

from __future__ import annotations

from pathlib import Path

from sources import check_style, check_types


def test_types(tmp_path: Path) -> None:
    check_types(tmp_path, "remora.torch", "remora.integrations", "remora.torchtitan")


def test_style() -> None:
    check_style(
        "frontends/python/remora/torch",
        "frontends/python/remora/integrations",
        "frontends/python/remora/torchtitan",
        "tests/torch",
        "tests/environments",
        "benchmarks/pytorch",
    )
