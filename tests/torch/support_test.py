# SPDX-License-Identifier: Apache-2.0
"""Every row of docs/guide/pytorch_support.md has today's verdict; `support_table` writes that page."""

from __future__ import annotations

from pathlib import Path

import pytest
import support
import support_table

PAGE = Path(__file__).parents[2] / "docs" / "guide" / "pytorch_support.md"
CASES = [(row, way) for row in support.ROWS for way in row.ways]


@pytest.mark.parametrize(("row", "way"), CASES, ids=[f"{row.group}: {row.what}: {way}" for row, way in CASES])
def test_the_page_says_what_happens(row: support.Row, way: str) -> None:
    expected = support_table.read(PAGE).get((row.group, row.what, way), "works")
    assert support.verdict_of(row.ways[way]) == expected


def test_the_page_lists_no_other_rows() -> None:
    told = support_table.read(PAGE)
    assert set(told) <= {(row.group, row.what, way) for row, way in CASES}
    assert len(CASES) >= 240
    assert not [verdict for verdict in told.values() if not verdict.startswith(("works", "rejected: "))]
