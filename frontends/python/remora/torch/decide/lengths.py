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


def fewest(times: Sequence[Sequence[float]], reach: Sequence[int], weights: Sequence[float], most: int) -> list[int]:
    """The schedules, at most so many, with the smallest expected time; O(schedules squared * most * lengths).

    Parameters
    ----------
    times : sequence of sequence of float
        Of each schedule, at each of the lengths in rising order.
    reach : sequence of int
        Of each schedule, how many of the lengths stay within the budget; one of them reaches all.
    weights : sequence of float
        How often each length occurs.

    Returns
    -------
    list of int
        In the order of what they reach; the last one reaches all lengths.
    """
    count = len(weights)
    order = sorted(range(len(reach)), key=lambda k: reach[k])

    def cost(k: int, first: int) -> float:
        return total(times[k][first : reach[k]], weights[first : reach[k]])

    # best[place]: the expected time of the first reach[order[place]] lengths, and the schedules chosen for these.
    best: list[tuple[float, list[int]]] = [(cost(k, 0), [k]) for k in order]
    found = min((best[i] for i, k in enumerate(order) if reach[k] == count), default=(math.inf, []))
    for _ in range(most - 1):
        further = []
        for i, k in enumerate(order):
            ways = [(best[j][0] + cost(k, reach[order[j]]), [*best[j][1], k]) for j in range(i)]
            further.append(min([*ways, best[i]], key=lambda way: way[0]))
        best = further
        found = min([found, *(best[i] for i, k in enumerate(order) if reach[k] == count)], key=lambda way: way[0])
    return found[1]


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
