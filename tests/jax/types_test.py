# SPDX-License-Identifier: Apache-2.0
"""remora.jax passes mypy --strict with JAX there, and ruff."""

from __future__ import annotations

from pathlib import Path

from sources import check_style, check_types


def test_types(tmp_path: Path) -> None:
    # JAX's own sources are not strict.
    check_types(tmp_path, "remora.jax", skipped="jax")


def test_style() -> None:
    programs = ("benchmarks/jax/measure_budgets", "benchmarks/jax/measure_loops")
    check_style("frontends/python/remora/jax", "tests/jax", *programs)
