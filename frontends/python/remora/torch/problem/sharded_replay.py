# SPDX-License-Identifier: Apache-2.0
"""Memory of a sharded step under a plan: the replay of its trace, with the parameters that FSDP2 gathers on top.

The trace has all parameters kept. A unit that is resharded after its forward has none until the backward asks for them.
FSDP issues that gather one unit ahead, where the backward begins with the unit that follows in the forward.

    forward  g0 [F0] . g1 [F1] .        backward  issue 0, [B1] . wait 0, [B0]
             p0......0 p1..............           flat 0........  p0........

A unit inside of another one, such as an adapter in a block, has the outer one's flag. A checkpoint that runs again
around it gathers its parameters, which then stay: they are counted from where the outer unit's are requested, and the
temporary memory of their gather at the largest moment before the unit's own backward.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Mapping, Sequence

from ..capture.sharded import Gather, ShardedUnit
from ..planning import Choice
from .eager import Replay, Replayed


class ShardedReplay:
    """Replays a step under choices for its modules and a set of units that are resharded."""

    def __init__(
        self, replay: Replay, units: Sequence[ShardedUnit], root: tuple[int, int] | None, root_gather: Gather | None
    ) -> None:
        """`root`: where the root's own parameters are gathered, and where the backward begins; they are kept."""
        self.replay, self.units = replay, units
        self.root, self.root_gather = root, root_gather
        self.outermost = [unit for unit in units if not unit.outer]
        self._asked = {unit.name: unit.asked for unit in units}
        self._known: dict[tuple[tuple[str, Choice], ...], Replayed] = {}

    def plain(self, choices: Mapping[str, Choice]) -> Replayed:
        """Without parameters."""
        key = tuple(sorted(choices.items(), key=lambda row: row[0]))
        if key not in self._known:
            self._known[key] = self.replay.run(choices)
        return self._known[key]

    def high(self, choices: Mapping[str, Choice], resharded: Collection[str]) -> list[int]:
        """Bytes at each event, the most; `resharded`: of the outermost units."""
        run = self.plain(choices)
        change, spikes = [0] * (len(run.high) + 1), list[tuple[int, int, int]]()
        reruns: list[tuple[int, int, int]] = []
        if self.root is not None and self.root_gather is not None:
            change[self.root[0]] += self.root_gather.parameters
        for number, unit in enumerate(self.units):
            own = unit.gather
            change[unit.gathered] += own.parameters
            if (unit.outer or unit.name) not in resharded:
                continue
            issued, asked = self.again(number, choices)
            if unit.outer and asked != unit.asked:
                reruns.append((asked, unit.asked, max(own.issue, own.wait) - own.parameters))
            change[unit.left] -= own.parameters
            change[issued] += own.flat
            change[asked] += own.parameters - own.flat
            # Behind what happens at the same place before, as the wait of the unit that follows.
            here = own.parameters if issued == asked else own.flat
            spikes.append((issued, 0, own.issue - here))
            spikes.append((asked, -1 if issued != asked else 0, own.wait - (here if issued == asked else own.flat)))
        over = list(itertools.accumulate(change))
        high = [most + more for most, more in zip(run.high, over, strict=False)]
        for place, shift, most in spikes:
            high[place] = max(high[place], run.left[place - 1] + over[place + shift] + most)
        plain = list(high)
        for first, last, more in reruns:
            place = max(range(first, last + 1), key=plain.__getitem__)
            high[place] = max(high[place], plain[place] + more)
        return high

    def again(self, number: int, choices: Mapping[str, Choice]) -> tuple[int, int]:
        """Where the backward issues a unit's gather, and where it waits for it."""
        unit = self.units[number]
        around = (name for name, choice in choices.items() if not choice.offload)
        if unit.outer and any(unit.name.startswith(f"{name}.") for name in around):
            return self._asked[unit.outer], self._asked[unit.outer]
        if number + 1 < len(self.units):
            return min(self.units[number + 1].asked, unit.asked), unit.asked
        return self.root[1] if self.root is not None else unit.asked, unit.asked
