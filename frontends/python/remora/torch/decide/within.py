# SPDX-License-Identifier: Apache-2.0
"""The one loop that asks for less: where a plan exceeds the budget, the next one is asked for with that much less.

The engine's sum is not always the real memory of a plan: generator states, memory that modules share, and collectives
are found by a replay or a run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")

TRIES = 4
"""How often a plan is asked for."""


def within(budget: int, attempt: Callable[[int], T | None], peak_of: Callable[[T], int]) -> T | None:
    """First plan that stays within a budget; None if an attempt finds none, or all of them exceed it.

    Parameters
    ----------
    budget : int
        Bytes.
    attempt : callable
        Plan for a budget in bytes, first of all for `budget`; None if there is none.
    peak_of : callable
        Bytes that a plan really takes.
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
