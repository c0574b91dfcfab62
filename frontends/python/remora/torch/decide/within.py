# SPDX-License-Identifier: Apache-2.0
"""The one loop that asks for less, and the known results of a graph before it is asked for anything.

The engine's sum is not always the real memory of a plan: generator states, memory that modules share, and collectives
are found by a replay or a run. So where a plan exceeds the budget, the next one is asked for with that much
less.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Generic, TypeVar

from ..store import read_json

T = TypeVar("T")

TRIES = 4
"""How often a plan is asked for."""


def within(budget: int, attempt: Callable[[int], T | None], peak_of: Callable[[T], int]) -> T | None:
    """First plan that stays within a budget; None if an attempt finds none, or all of them exceed it.

    `budget`: bytes. `attempt`: plan for a budget in bytes, first of all for `budget`; None if there is none.
    `peak_of`: bytes that a plan really takes.
    """
    return within_each([budget], lambda asked: attempt(asked[0]), lambda found: [peak_of(found)])


def within_each(
    budgets: Sequence[int], attempt: Callable[[list[int]], T | None], peaks_of: Callable[[T], Sequence[int]]
) -> T | None:
    """Like `within`, with a budget for each of several devices."""
    asked = list(budgets)
    for _ in range(TRIES):
        found = attempt(list(asked))
        if found is None:
            return None
        excess = [peak - budget for peak, budget in zip(peaks_of(found), budgets, strict=True)]
        if max(excess) <= 0:
            return found
        asked = [size - max(0, over) for size, over in zip(asked, excess, strict=True)]
    return None


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
