# SPDX-License-Identifier: Apache-2.0
"""remora.executorch passes mypy --strict with ExecuTorch there, and ruff."""

from __future__ import annotations

from pathlib import Path

from sources import check_style, check_types


def test_types(tmp_path: Path) -> None:
    # ExecuTorch's own sources are not strict, and some are newer than mypy reads.
    check_types(tmp_path, "remora.executorch", skipped="executorch")


def test_style() -> None:
    check_style("frontends/python/remora/executorch", "tests/edge", "benchmarks/edge/measure_plans")
