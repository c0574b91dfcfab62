# SPDX-License-Identifier: Apache-2.0
"""Which few of many schedules run a step at all of its lengths in the shortest expected time.

A schedule that stays within the budget at one length does so at all shorter ones. So the lengths from the last one that
a chosen schedule reaches to the next one's are run by that next one:

    length    128 ........ 1900 ............ 4096 ............ 8192
    schedule  nothing recomputed | reaches 4096 | reaches 8192
"""

from __future__ import annotations

import bisect
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from remora import _engine

S = TypeVar("S")


@dataclass(frozen=True)
class Expected:
    """Nanoseconds of a step at the sizes of its calls, each as often as it occurs.

    Attributes
    ----------
    time : float
        By the few schedules that were chosen.
    bound : float
        No schedules undercut it, though each size had its own.
    plain : float
        With nothing recomputed.
    """

    time: float
    bound: float
    plain: float

    def __str__(self) -> str:
        own = f"{self.bound / self.plain - 1:+.1%}"
        return f"expected time {self.time / self.plain - 1:+.1%}; with a plan for each size at least {own}"


class Sampled(Protocol[S]):
    """A step at some of its sizes, by number in rising order, under one budget; `S`: a schedule, which is of all."""

    @property
    def weights(self) -> Sequence[float]:
        """How often calls have about these sizes."""

    def fits(self, schedule: S, place: int) -> bool:
        """True if a schedule stays within the budget at a size."""

    def time(self, schedule: S, place: int) -> float:
        """Nanoseconds of a schedule at a size."""

    def solved(self, place: int, start: S, share: float) -> S | None:
        """A schedule for a size, in a share of the time limit; None if none is found."""

    def bound(self, schedule: S) -> float:
        """The lower bound on the time of the size for which a schedule was solved, in multiples of the plain one."""


def few_schedules(step: Sampled[S], plain: S, largest: S, most: int) -> tuple[list[tuple[S, int]], Expected]:
    """At most so many schedules with a small expected time, and how many sizes each reaches; the last one all of them.

    `plain`: of every op once; `largest`: for the largest size.
    """
    count = len(step.weights)
    fitting = next((i for i in range(count) if not step.fits(plain, i)), count)
    found, bounds = [(largest, count)], {count - 1: step.bound(largest)}
    if fitting and most > 1:
        found.append((plain, fitting))
    for place in _spread(fitting, count - 1, 2 * (most - len(found))):
        start, _ = min((row for row in found if row[1] > place), key=lambda row: row[1])
        schedule = step.solved(place, start, 1 / (2 * most))
        if schedule is not None:
            bounds[place] = step.bound(schedule)
            further = (i for i in range(place + 1, count - 1) if not step.fits(schedule, i))
            found.append((schedule, next(further, count - 1)))
    reach, weights = [reached for _, reached in found], step.weights
    times = [[step.time(schedule, i) if i < reached else 0.0 for i in range(count)] for schedule, reached in found]
    chosen = fewest(times, reach, weights, most)
    plain_times = [step.time(plain, i) for i in range(count)]
    least = [time * max(1.0, bounds.get(i, 1.0)) for i, time in enumerate(plain_times)]
    expected = Expected(
        expected_time(times, reach, weights, chosen), total(least, weights), total(plain_times, weights)
    )
    return [found[k] for k in chosen], expected


def fewest(times: Sequence[Sequence[float]], reach: Sequence[int], weights: Sequence[float], most: int) -> list[int]:
    """The schedules, at most so many, with the smallest expected time, in the order of what they reach.

    Parameters
    ----------
    times : sequence of sequence of float
        Of each schedule, at each of the lengths in rising order.
    reach : sequence of int
        Of each schedule, how many of the lengths stay within the budget; one of them reaches all.
    weights : sequence of float
        How often each length occurs.
    """
    rows = [[weight * time for weight, time in zip(weights, row, strict=True)] for row in times]
    return _engine.fewest_schedules(rows, reach, most)


def expected_time(
    times: Sequence[Sequence[float]], reach: Sequence[int], weights: Sequence[float], chosen: Sequence[int]
) -> float:
    """The expected time of schedules that `fewest` chose, in the unit of the times."""
    firsts = [0, *(reach[k] for k in chosen)]
    spans = ((k, slice(first, reach[k])) for first, k in zip(firsts, chosen, strict=False))
    return math.fsum(total(times[k][span], weights[span]) for k, span in spans)


def total(times: Sequence[float], weights: Sequence[float]) -> float:
    """Times at some lengths, each as often as it occurs."""
    return math.fsum(weight * time for weight, time in zip(weights, times, strict=True))


def at_most(lengths: Sequence[int], last: int, count: int) -> list[tuple[int, float]]:
    """A histogram of lengths with at most so many bins: the largest of each, in rising order, the last one given."""
    ordered, most = sorted(lengths), len(lengths)
    bounds = sorted({ordered[min(most - 1, most * i // count)] for i in range(1, count + 1)} | {last})
    found = Counter(bounds[bisect.bisect_left(bounds, length)] for length in ordered)
    return [(bound, float(found[bound])) for bound in bounds]


def _spread(first: int, end: int, count: int) -> list[int]:
    """At most so many whole numbers from `first` to `end`, exclusive, the largest first."""
    if end <= first or count < 1:
        return []
    return sorted({first + (end - first) * i // count for i in range(count)}, reverse=True)
