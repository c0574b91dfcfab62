# SPDX-License-Identifier: Apache-2.0
"""The known results of a graph, before it is asked for anything."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, Generic, TypeVar

from ..store import read_json

T = TypeVar("T")


class Known(Generic[T]):
    """Decisions for one graph (`rows`), kept in a file (`document`): the next one is not slower than any of them."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self.document: dict[str, Any] = read_json(path) if path is not None else {}
        self.rows: list[T] = []

    def figures(self, row: T) -> tuple[int, float]:
        """Bytes and nanoseconds of a decision; an infinite time if that is unknown."""
        raise NotImplementedError

    def fastest(self, budget: int) -> T | None:
        """The fastest decision within a budget, of those whose time is known."""
        fitting = [(time, peak, row) for row in self.rows for peak, time in [self.figures(row)] if peak <= budget]
        return min((f for f in fitting if f[0] < math.inf), key=lambda f: f[:2], default=(0, 0, None))[2]

    def smallest(self) -> T | None:
        """The decision with the smallest peak, of those the fastest."""
        return min(self.rows, key=self.figures, default=None)
