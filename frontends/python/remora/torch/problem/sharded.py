# SPDX-License-Identifier: Apache-2.0
"""A step of a model that FSDP2 shards as a problem: resharding a unit is one of its modes.

A unit that is resharded after its forward saves its parameters until the backward gathers them again. FSDP issues that
gather one unit ahead, so on a GPU it takes only the time by which it exceeds the backward of the unit that follows; on
the CPU nothing runs alongside a collective.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

from ..capture.sharded import ShardedStep, gather_of, placed
from ..capture.trace import Event
from ..planning import Plan
from .checkpoints import EagerProblem, choices_of
from .family import Family, Mode, Unit, choices_for, policies_of, refused_in, worthwhile
from .sharded_replay import ShardedReplay

ROOT_ASKED = "FSDP::pre_backward"


class ShardedProblem(EagerProblem):
    """A step with all parameters kept, which is traced and measured on each process."""

    of = "the step with all parameters kept"
    proves = False  # units share memory, which their sum counts for each

    def __init__(self, step: ShardedStep, group: Any) -> None:
        self._step = step
        self._gathers = {name: gather_of(unit, step.device) for name, unit in step.units.items()}
        super().__init__(step, group)

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
        replay, trace = self.sharded, self.replay.trace
        units, count, excluded = replay.outermost, len(replay.outermost), refused_in(trace)
        starts = [0, *(u.gathered for u in units[1:]), units[-1].left, *(u.asked for u in reversed(units))]
        slots = list(zip(starts, [*starts[1:], len(trace.events)], strict=True))
        base = self._tops([], slots)
        found = []
        for i, unit in enumerate(units):
            call, active = trace.calls[unit.call], (i + 1, 2 * count - i)
            runs_again = unit.name not in excluded and any(
                k is Event.SAVE for k, _ in trace.events[call.start : call.end]
            )
            rows = choices_for(unit.name, policies_of(self.replay, unit.call) if runs_again else [], [], offload=False)
            kept = [Mode(choices, 0, []) for choices in (rows if runs_again else rows[:1])]
            kept = worthwhile([self._measured(mode, base, slots) for mode in kept], active)
            freed = [Mode(mode.choices, 0, [], (unit.name,)) for mode in kept]
            modes = undominated([*kept, *(self._measured(mode, base, slots) for mode in freed)])
            found.append(Unit(unit.name, [unit.call], active, modes))
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

    def plan(self, modes: Sequence[Mode]) -> Plan:
        """A plan with its figures, and the flag of each unit."""
        found, again = super().plan(modes), _resharded(modes)
        outer = {unit.name: unit.outer or unit.name for unit in self.sharded.units}
        found.reshard = {name: outer.get(name, name) in again for name in self._gathers}
        return found


def _resharded(modes: Sequence[Mode]) -> list[str]:
    return [name for mode in modes for name in mode.resharded]


def undominated(modes: list[Mode]) -> list[Mode]:
    """The first mode, and the others by their time that save more somewhere than each that is as fast."""
    kept = modes[:1]
    for mode in sorted(modes[1:], key=lambda m: (m.time, -sum(m.saved))):
        if not any(all(a >= b for a, b in zip(m.saved, mode.saved, strict=True)) for m in kept):
            kept.append(mode)
    return kept
