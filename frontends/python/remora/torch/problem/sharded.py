# SPDX-License-Identifier: Apache-2.0
"""A step of a model that FSDP2 shards as a problem: resharding a unit is one of its modes.

The trace has all parameters kept; those that FSDP2 gathers are added to its replay. A unit that is resharded after its
forward has none until the backward gathers them again. FSDP issues that gather one unit ahead, where the backward
begins with the unit that follows in the forward, so on a GPU it takes only the time by which it exceeds the backward of
that unit; on the CPU nothing runs alongside a collective.

    forward  g0 [F0] . g1 [F1] .        backward  issue 0, [B1] . wait 0, [B0]
             p0......0 p1..............           flat 0........  p0........

A unit inside of another one, such as an adapter in a block, has the outer one's flag. A checkpoint that runs again
around it gathers its parameters, which then stay: they are counted from where the outer unit's are requested, and the
temporary memory of their gather at the largest moment before the unit's own backward.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Mapping, Sequence
from functools import cached_property
from typing import Any

from ..capture.sharded import Gather, ShardedStep, ShardedUnit, gather_of, placed
from ..capture.trace import Event
from ..planning import CheckpointPlan, Choice
from ..step import Reference
from .checkpoints import EagerProblem, choices_of
from .eager import Replay, Replayed
from .family import Family, Mode, Unit, choices_for, policies_of, refused_in, undominated

ROOT_ASKED = "FSDP::pre_backward"


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


class ShardedProblem(EagerProblem):
    """A step with all parameters kept, which is traced and measured on each process."""

    of = "the step with all parameters kept"
    proves = False  # units share memory, which their sum counts for each

    def __init__(self, step: ShardedStep, reference: Reference, group: Any) -> None:
        self._step = step
        self._gathers = {name: gather_of(unit, step.device) for name, unit in step.units.items()}
        super().__init__(step, reference, group)

    @cached_property
    def sharded(self) -> ShardedReplay:
        """The replay of the step with the parameters that FSDP2 gathers."""
        trace = self.replay.trace
        units = placed(trace, [name for name in self._step.units if name], self._gathers)
        root = (0, trace.marks.get(ROOT_ASKED, [units[-1].asked])[0]) if "" in self._gathers else None
        return ShardedReplay(self.replay, units, root, self._gathers.get(""))

    @cached_property
    def family(self) -> Family:
        """The outermost units, each with what may be done with its activations and its parameters."""
        trace, units = self.replay.trace, self.sharded.outermost
        excluded = refused_in(trace)
        starts = [0, *(u.gathered for u in units[1:]), units[-1].left, *(u.asked for u in reversed(units))]
        slots = list(zip(starts, [*starts[1:], len(trace.events)], strict=True))
        base = self._tops([], slots)
        found = []
        for unit in units:
            call = trace.calls[unit.call]
            runs_again = unit.name not in excluded and any(
                k is Event.SAVE for k, _ in trace.events[call.start : call.end]
            )
            rows: list[dict[str, Choice]] = [{}]
            if runs_again:
                rows = choices_for(unit.name, policies_of(self.replay, unit.call), [], offload=False)
            again: list[tuple[str, ...]] = [(), (unit.name,)]
            modes = [self._measured(Mode(choices, 0, [], freed), base, slots) for freed in again for choices in rows]
            found.append(Unit(unit.name, [unit.call], undominated(modes)))
        return Family(base, slots, [found], [[0]], excluded)

    def _measured(self, mode: Mode, base: Sequence[int], slots: Sequence[tuple[int, int]]) -> Mode:
        saved = [most - top for most, top in zip(base, self._tops([mode], slots), strict=True)]
        return Mode(mode.choices, round(1e9 * self.replayed([mode])[1]), saved, mode.resharded)

    def _tops(self, modes: Sequence[Mode], slots: Sequence[tuple[int, int]]) -> list[int]:
        high = self.high(modes)
        return [max(high[a:b], default=high[min(a, len(high) - 1)]) for a, b in slots]

    @cached_property
    def _gathered_again(self) -> dict[str, float]:
        """Seconds by which resharding each of the outermost units makes the step longer."""
        trace, units = self.replay.trace, self.sharded.outermost
        forward = sum(trace.calls[unit.call].seconds for unit in units)
        whole = next((call.seconds for call in trace.calls if not call.name), forward)
        backward = max(0.0, trace.seconds - whole) / max(1e-12, forward)
        found = {}
        for unit, behind in zip(units, [*units[1:], None], strict=True):
            inside = [self._gathers[u.name].seconds for u in self.sharded.units if unit.name in (u.name, u.outer)]
            is_hidden = behind is not None and self.device.type == "cuda"
            hidden = backward * trace.calls[behind.call].seconds if behind is not None and is_hidden else 0.0
            found[unit.name] = max(0.0, sum(inside) - hidden)
        return found

    def replayed(self, modes: Sequence[Mode]) -> tuple[int, float]:
        """Peak in bytes of a plan, and seconds beyond those of the step with all parameters kept."""
        again = sum(self._gathered_again[name] for name in _resharded(modes))
        return max(self.high(modes)), self.sharded.plain(choices_of(modes)).seconds + again

    def high(self, modes: Sequence[Mode]) -> list[int]:
        """Bytes at each event of the trace."""
        return self.sharded.high(choices_of(modes), _resharded(modes))

    def plan(self, modes: Sequence[Mode]) -> CheckpointPlan:
        """A plan with its figures, and the flag of each unit."""
        found, again = super().plan(modes), _resharded(modes)
        outer = {unit.name: unit.outer or unit.name for unit in self.sharded.units}
        found.reshard = {name: outer.get(name, name) in again for name in self._gathers}
        return found


def _resharded(modes: Sequence[Mode]) -> list[str]:
    return [name for mode in modes for name in mode.resharded]
