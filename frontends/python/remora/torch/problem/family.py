# SPDX-License-Identifier: Apache-2.0
"""The family of plans that is chosen from: units of a model, the modes of each, and what each mode saves where.

A *unit* is a module that may be checkpointed. Its *modes* are: as it is; checkpointed with some ops' results kept, a
policy for each row of ops that save most time a byte; checkpointed whole; and so that its own inner units are
checkpointed inside of it, to one level or more. On a GPU what it saves may be offloaded instead. Modules that do the
same work are of one *class*; a *cut* says of which classes the units are, none inside another. A plan of the family is
a cut and a mode for each of its units.

Each mode is replayed alone. What two units save adds up wherever they share no storage, so the memory of a plan is
summed over its units, in each *slot*: a stretch of the step in which no unit begins or ends. The plan that is chosen is
replayed as a whole.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

from ..capture.trace import Event, Trace
from ..planning import Choice
from .eager import Replay

LEAST = 0.005
"""Modules that would free less than this fraction of the step's transient memory are not candidates."""
INNER = 0.25
"""Classes inside of others are for cuts of their own if they free this part of what the others do."""
ROWS = 6
"""Maximum number of policies of a unit, in addition to that of the products."""
SHARE = 0.03
"""Each further op of a policy saves at least this part of the unit's second run."""
CUTS = 24
"""So many cuts are looked at."""
PRODUCTS = frozenset(
    f"aten.{name}.default"
    for name in (
        "mm",
        "addmm",
        "bmm",
        "baddbmm",
        "convolution",
        "_scaled_dot_product_flash_attention",
        "_scaled_dot_product_flash_attention_for_cpu",
        "_scaled_dot_product_efficient_attention",
        "_scaled_dot_product_cudnn_attention",
    )
)
"""Ops that PyTorch's own example of a selective policy keeps."""


@dataclass
class Mode:
    """One way to run a unit."""

    choices: dict[str, Choice]  # of the unit, and of units inside of it
    time: int  # nanoseconds beyond the unit as it is
    # bytes less than with the unit as it is, at the top of each slot; negative where it takes more
    saved: list[int] = field(repr=False)
    resharded: tuple[str, ...] = ()  # units of FSDP2 whose gathered parameters are freed after their forward


@dataclass
class Unit:
    """A module that may be checkpointed."""

    name: str
    calls: list[int]  # of the trace
    modes: list[Mode] = field(default_factory=list)  # the first is the module as it is; the others by their time


@dataclass
class Family:
    """Units by class; memory of a step in each slot if nothing is checkpointed; the cuts."""

    base: list[int]
    slots: list[tuple[int, int]]  # events
    classes: list[list[Unit]]
    cuts: list[list[int]]  # numbers of classes
    excluded: dict[str, str]  # modules that are no units, and why

    def units(self, cut: Sequence[int]) -> list[Unit]:
        """The units of a cut, in the order of their forwards."""
        return sorted((u for c in cut for u in self.classes[c]), key=lambda u: u.calls[0])


def family_of(replay: Replay, offload: bool) -> Family:
    """Finds units, replays each in every mode, and lists the cuts."""
    trace = replay.trace
    eager = replay.run({})
    least = LEAST * (eager.peak - trace.fixed)
    excluded = refused_in(trace)
    units = _candidates(trace, set(excluded))
    alone = {u.name: replay.run({u.name: Choice()}) for u in units}
    units = [u for u in units if eager.turn - alone[u.name].turn >= least or max(alone[u.name].high) < max(eager.high)]
    bounds = sorted({0, len(trace.events), *(b for u in units for w in _windows(trace, u) for b in w)})
    slots = [(a, b) for a, b in itertools.pairwise(bounds) if a < b]
    base = [max(eager.high[a:b]) for a, b in slots]
    classes = _classes(trace, units)
    inner = _inside(classes)
    freed = [sum(eager.turn - alone[u.name].turn for u in units) for units in classes]
    for number, members in enumerate(classes):
        policies = policies_of(replay, members[0].calls[0])
        levels = [[u.name for c in level for u in classes[c]] for level in _levels(inner, number)]
        for unit in members:
            own = [[name for name in level if _is_inside(name, unit.name)] for level in levels]
            for choices in choices_for(unit.name, policies, own, offload):
                run = replay.run(choices)
                saved = [most - max(run.high[a:b]) for most, (a, b) in zip(base, slots, strict=True)]
                unit.modes.append(Mode(choices, int(1e9 * run.seconds), saved))
            unit.modes = undominated(unit.modes)
    return Family(base, slots, classes, _cuts(classes, inner, freed), excluded)


def refused_in(trace: Trace) -> dict[str, str]:
    """Modules that would not do the same if they ran again."""
    found = {}
    for call in trace.calls:
        if call.opaque:
            found[call.name] = f"takes a {call.opaque}, which may remember the first run"
        elif any(trace.written.get(s, -1) >= call.start for s in call.arguments):
            found[call.name] = "is given a tensor that is changed in place later"
    return found


def _candidates(trace: Trace, refused: set[str]) -> list[Unit]:
    """Modules whose calls save something, but not the model itself."""
    found: dict[str, list[int]] = defaultdict(list)
    bad = {"", *refused}
    for number, call in enumerate(trace.calls):
        kinds = {kind for kind, _ in trace.events[call.start : call.end]}
        if Event.SAVE not in kinds:
            bad.add(call.name)
        found[call.name].append(number)
    ranges: set[tuple[tuple[int, ...], ...]] = set()
    units = []
    for name, calls in found.items():
        # A module that does nothing but call one other is the same unit.
        work = tuple(
            tuple(n for k, n in trace.events[trace.calls[c].start : trace.calls[c].end] if k is Event.OP) for c in calls
        )
        if name not in bad and work not in ranges:
            ranges.add(work)
            units.append(Unit(name, calls))
    return units


def _windows(trace: Trace, unit: Unit) -> list[tuple[int, int]]:
    """Events of the forward of each call, then those of the backward of each."""
    forward = [(trace.calls[c].start - 1, trace.calls[c].end + 1) for c in unit.calls]
    backward = []
    touched = _touched(trace)
    for call in unit.calls:
        start, end = trace.calls[call].start, trace.calls[call].end
        places = [touched[n] for kind, n in trace.events[start:end] if kind is Event.SAVE and n in touched]
        if places:
            backward.append((min(a for a, _ in places), max(b for _, b in places) + 1))
    return forward + (backward or [(len(trace.events), len(trace.events))])


def _touched(trace: Trace) -> dict[int, tuple[int, int]]:
    """First and last event of the backward for each saved tensor."""
    if trace.touched is None:
        trace.touched = {}
        for place, (kind, number) in enumerate(trace.events[trace.turn :], trace.turn):
            if kind in (Event.UNPACK, Event.RELEASE):
                first, _ = trace.touched.get(number, (place, place))
                trace.touched[number] = first, place
    return trace.touched


# -- Modes -------------------------------------------------------------------------------------------------------------


def policies_of(replay: Replay, call: int) -> list[tuple[tuple[str, int], ...]]:
    """Ops whose results a checkpoint of this call may keep: those that save most time a byte, and the products."""
    trace = replay.trace
    names = replay.occurrences(call)
    ops = {n: trace.ops[n] for n in names}
    total = sum(op.seconds for op in ops.values())
    factor = trace.calls[call].seconds / max(1e-12, total)
    free = [n for n, op in ops.items() if op.made and not (op.random or op.aliasing or op.foreign)]
    size = {n: sum(trace.sizes[s] for s in ops[n].made) for n in free}
    free.sort(key=lambda n: -ops[n].seconds / max(1, size[n]))
    worth = [n for n in free if ops[n].seconds >= SHARE * total][:ROWS]
    rows = [frozenset(worth[: i + 1]) for i in range(len(worth))]
    products = frozenset(n for n in free if ops[n].name in PRODUCTS)
    rows += [products] if products else []
    own = 2 * replay.rates.mode * len(ops)  # what a policy takes itself
    rows = [row for row in dict.fromkeys(rows) if factor * sum(ops[n].seconds for n in row) > own]
    return [tuple(names[n] for n in sorted(row)) for row in rows]


def choices_for(
    name: str, policies: Sequence[tuple[tuple[str, int], ...]], levels: Sequence[list[str]], offload: bool
) -> list[dict[str, Choice]]:
    """Choices for a unit."""
    found: list[dict[str, Choice]] = [{}, {name: Choice()}]
    found += [{name: Choice(save=policy)} for policy in policies]
    for level in levels:
        if level:
            found.append({**found[-1 if len(found[-1]) > 1 else 1], **dict.fromkeys(level, Choice())})
    return [*found, {name: Choice(offload=True)}] if offload else found


def undominated(modes: list[Mode]) -> list[Mode]:
    """The first mode, and the others by their time that save more somewhere than each that is as fast."""
    kept = modes[:1]
    for mode in sorted(modes[1:], key=lambda m: (m.time, -sum(m.saved))):
        if not any(all(a >= b for a, b in zip(m.saved, mode.saved, strict=True)) for m in kept):
            kept.append(mode)
    return kept


# -- Classes and cuts --------------------------------------------------------------------------------------------------


def _classes(trace: Trace, units: list[Unit]) -> list[list[Unit]]:
    """Units that run the same ops on the same sizes."""
    found: dict[tuple[object, ...], list[Unit]] = defaultdict(list)
    for unit in units:
        work = []
        for number in unit.calls:
            call = trace.calls[number]
            ops = [trace.ops[n] for kind, n in trace.events[call.start : call.end] if kind is Event.OP]
            work.append(tuple((op.name, tuple(trace.sizes[s] for s in op.made)) for op in ops))
        found[tuple(work)].append(unit)
    # A unit inside another one of its own class would be a unit twice.
    return [[u for u in us if not any(_is_inside(u.name, v.name) for v in us)] for us in found.values()]


def _is_inside(name: str, outer: str) -> bool:
    return name.startswith(f"{outer}.")


def _inside(classes: list[list[Unit]]) -> list[set[int]]:
    """Classes with units inside of the units of each class."""
    return [
        {
            j
            for j, others in enumerate(classes)
            if j != i and any(_is_inside(u.name, v.name) for u in others for v in units)
        }
        for i, units in enumerate(classes)
    ]


def _outermost(inside: list[set[int]], number: int) -> list[int]:
    """The classes directly inside of a class."""
    own = inside[number]
    return [j for j in own if not any(j in inside[k] for k in own)]


def _levels(inside: list[set[int]], number: int) -> list[list[int]]:
    """The classes inside of a class: those directly inside, those inside of these, and so on."""
    levels, now = [], _outermost(inside, number)
    while now:
        levels.append(now)
        now = sorted({j for i in now for j in _outermost(inside, i)})
    return levels


def _cuts(classes: list[list[Unit]], inside: list[set[int]], freed: list[int]) -> list[list[int]]:
    """Sets of classes of which none is inside another, as many as fit; O(CUTS * classes)."""
    outer = [i for i in range(len(classes)) if not any(i in inside[j] for j in range(len(classes)))]
    cuts = [outer]
    seen = {tuple(outer)}
    for cut in cuts:  # grows
        for opened in cut:
            inner = _outermost(inside, opened)
            if sum(freed[j] for j in inner) < INNER * freed[opened]:
                continue
            rest = [c for c in cut if c != opened]
            new = sorted({*rest, *(j for j in inner if not any(j in inside[c] or c in inside[j] for c in rest))})
            if tuple(new) not in seen and len(cuts) < CUTS:
                seen.add(tuple(new))
                cuts.append(new)
    return cuts
