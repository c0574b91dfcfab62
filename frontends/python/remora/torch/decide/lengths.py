# SPDX-License-Identifier: Apache-2.0
"""Which few of many schedules run a step at all of its lengths in the shortest expected time.

A schedule that stays within the budget at one length does so at all shorter ones. So the lengths from the last one that
a chosen schedule reaches to the next one's are run by that next one:

    length    128 ........ 1900 ............ 4096 ............ 8192
    schedule  nothing recomputed | reaches 4096 | reaches 8192
"""

from __future__ import annotations

import math
from collections.abc import Sequence


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
        return math.fsum(w * t for w, t in zip(weights[first : reach[k]], times[k][first : reach[k]], strict=True))

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
