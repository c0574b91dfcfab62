# SPDX-License-Identifier: Apache-2.0
"""Cost of an eager step with some modules checkpointed: a replay of its trace.

A storage exists while Python holds it, autograd has saved it, or a checkpoint keeps it. Tensors saved inside a
checkpointed call belong to that call's frame and are not kept; the frame keeps the call's arguments. When the backward
first requests something of a frame, its events run again up to the last save (as `torch.utils.checkpoint` stops there),
on copies that live as long as the originals did in Python, or until the saved tensor is released. A frame inside
another one keeps its arguments in the outer one, which is recomputed first.

A choice touches the events inside its calls and those of the storages that these make, save, end or are given. Only
they are replayed: all others change the memory as in the step without choices, which is replayed once. O(events that
are touched + what runs again), and a sum over all events.
"""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from ..capture.trace import FIXED, Event, ModuleCall, Trace
from ..planning import Choice

Choices = Mapping[str, Choice]
Relative = tuple[list[int], list[int], float]
"""Bytes beyond those that are fixed, the most in each event and after it; and seconds."""


@dataclass
class Replayed:
    """Bytes, and the seconds that run again or wait for copies."""

    # high, left: the maximum at each event, and the bytes allocated after it
    high: list[int]
    turn: int  # at the end of the forward
    seconds: float
    left: list[int]

    @property
    def peak(self) -> int:
        """The most of the whole step."""
        return max(self.high)


@dataclass
class Rates:
    """Costs of checkpointing itself."""

    state: int = 0  # bytes of a generator's state
    # frame, saved, mode: seconds of a checkpointed call, of each tensor saved in it, and of each op that runs under a
    # policy
    frame: float = 0.0
    saved: float = 0.0
    mode: float = 0.0
    copy: float = 1e9  # bytes per second between the device and the CPU


@dataclass
class _Frame:
    """A checkpointed call."""

    number: int
    call: ModuleCall
    choice: Choice
    outer: _Frame | None
    cached: set[int] = field(default_factory=set)  # ops whose results are kept and not yet used
    last: int = -1  # the event of the last save
    live: int = 0  # saved tensors and inner frames that may still ask
    saves: int = 0
    done: bool = False
    extra: int = 0  # the generator's state and buffers' old values; in a second run once more
    copies: dict[int, int] = field(default_factory=dict)  # storages of the second run
    arguments: dict[int, list[int]] = field(default_factory=dict)  # of inner frames, in this one's second run


class Replay:
    """Replays a trace, whose events do not change any more, under choices; each call of `run` begins anew."""

    def __init__(self, trace: Trace, rates: Rates, snapshots: Mapping[str, int] | None = None) -> None:
        self.trace, self.rates = trace, rates
        self.snapshots = snapshots or {}
        self._of_call: dict[int, dict[int, tuple[str, int]]] = {}

    def ops_of(self, call: ModuleCall) -> list[int]:
        """The ops that run inside a call."""
        return [n for kind, n in self.trace.events[call.start : call.end] if kind is Event.OP]

    def occurrences(self, number: int) -> dict[int, tuple[str, int]]:
        """For each op of a call, its name and its number among those of that name."""
        if number not in self._of_call:
            seen: dict[str, int] = {}
            found = {}
            for op in self.ops_of(self.trace.calls[number]):
                name = self.trace.ops[op].name
                found[op] = name, seen.get(name, 0)
                seen[name] = seen.get(name, 0) + 1
            self._of_call[number] = found
        return self._of_call[number]

    def run(self, choices: Choices) -> Replayed:
        """Costs of the step under these choices."""
        high, left, seconds = self._relative(choices) if choices else self._plain
        fixed, turn = self.trace.fixed, self.trace.turn
        at_turn = fixed + (left[turn - 1] if turn else 0)
        return Replayed([fixed + most for most in high], at_turn, seconds, [fixed + now for now in left])

    @functools.cached_property
    def _plain(self) -> Relative:
        """The step without choices."""
        high, left, run = list[int](), list[int](), _Run(self, {})
        for place in range(len(self.trace.events)):
            high.append(run.step(place))
            left.append(run.now)
        return high, left, 0.0

    def _relative(self, choices: Choices) -> Relative:
        """The step under choices; between the events that these touch, memory differs from the plain step's alike."""
        plain_high, plain_left, _ = self._plain
        high, left, run = list[int](), list[int](), _Run(self, choices)
        more = previous = 0  # bytes beyond the plain step's
        for place in [*self._touched(choices), len(plain_left)]:
            high += [most + more for most in plain_high[previous:place]]
            left += [now + more for now in plain_left[previous:place]]
            if place == len(plain_left):
                break
            there = left[-1] if place else 0
            begun = run.now
            high.append(there + run.step(place) - begun)
            left.append(there + run.now - begun)
            more, previous = left[-1] - plain_left[place], place + 1
        return high, left, run.seconds

    def _touched(self, choices: Choices) -> list[int]:
        """The events that choices touch, in their order."""
        of_storage, of_saved = self._places
        places, storages, saved = set[int](), set[int](), set[int]()
        for call in self.trace.calls:
            if call.name not in choices:
                continue
            places.update(range(call.start - 1, call.end + 1))
            storages.update(call.arguments)
            for kind, number in self.trace.events[call.start : call.end]:
                if kind is Event.OP:
                    storages.update(self.trace.ops[number].made)
                elif kind is Event.FREE:
                    storages.add(number)
                elif kind is Event.SAVE:
                    saved.add(number)
        storages.update(self.trace.saved[number] for number in saved)
        storages.discard(FIXED)
        for storage in storages:
            places.update(of_storage[storage])
        for number in saved:
            places.update(of_saved[number])
        return sorted(places)

    @functools.cached_property
    def _places(self) -> tuple[dict[int, list[int]], dict[int, list[int]]]:
        """The events of each storage, and of each saved tensor."""
        of_storage, of_saved = defaultdict[int, list[int]](list), defaultdict[int, list[int]](list)
        for place, (kind, number) in enumerate(self.trace.events):
            if kind is Event.OP:
                for storage in self.trace.ops[number].made:
                    of_storage[storage].append(place)
            elif kind is Event.FREE:
                of_storage[number].append(place)
            elif kind in (Event.SAVE, Event.UNPACK, Event.RELEASE):
                of_storage[self.trace.saved[number]].append(place)
                of_saved[number].append(place)
        return of_storage, of_saved


class _Run:
    """Replays events one by one, from no memory on."""

    def __init__(self, replay: Replay, choices: Choices) -> None:
        self.replay, self.trace, self.rates, self.choices = replay, replay.trace, replay.rates, choices
        self.sizes = list(self.trace.sizes)
        self.holders = [0] * len(self.sizes)
        self.alive = [False] * len(self.sizes)
        self.now = 0
        self.most = 0
        self.seconds = 0.0
        self.frames: dict[int, _Frame] = {}
        self.frame_of: dict[int, _Frame] = {}  # of a saved tensor
        self.offloaded: set[int] = set()
        self.released: set[int] = set()  # saved tensors
        self.stack: list[_Frame] = []

    def step(self, place: int) -> int:
        """Replays an event; returns the most that is allocated in it."""
        self.most = self.now
        kind, number = self.trace.events[place]
        self._event(place, kind, number)
        return max(self.most, self.now)

    def _event(self, place: int, kind: Event, number: int) -> None:
        if kind is Event.OP:
            self._run_op(number)
            for frame in self.stack:
                if number in frame.cached:
                    self._hold(self.trace.ops[number].made)
        elif kind is Event.FREE:
            self._die(number)
        elif kind is Event.ENTER:
            self._enter(place, number)
        elif kind is Event.LEAVE:
            self._leave(number)
        elif kind is Event.SAVE:
            self._save(place, number)
        elif kind is Event.UNPACK:
            self._unpack(number)
        elif kind is Event.TAKE:
            most, left = self.trace.stretches[number]
            self.most = max(self.most, self.now + most)
            self.now += left
        else:
            self._release(number)

    # -- Storages --

    def _run_op(self, number: int) -> None:
        op = self.trace.ops[number]
        self.most = max(self.most, self.now + op.most)
        for storage in op.made:
            self.alive[storage] = True
            self.now += self.sizes[storage]
        self.most = max(self.most, self.now)

    def _hold(self, storages: Iterable[int]) -> None:
        for storage in storages:
            self.holders[storage] += 1

    def _let_go(self, storages: Iterable[int]) -> None:
        for storage in storages:
            self.holders[storage] -= 1
            if not self.holders[storage] and not self.alive[storage]:
                self.now -= self.sizes[storage]

    def _die(self, storage: int) -> None:
        if storage != FIXED and self.alive[storage]:
            self.alive[storage] = False
            if not self.holders[storage]:
                self.now -= self.sizes[storage]

    # -- The forward --

    def _enter(self, place: int, number: int) -> None:
        call = self.trace.calls[number]
        choice = self.choices.get(call.name)
        if choice is None:
            return
        outer = self.stack[-1] if self.stack else None
        frame = _Frame(number, call, choice, outer)
        self.frames[number] = frame
        self.stack.append(frame)
        if choice.offload:
            return
        if choice.save:
            wanted = set(choice.save)
            frame.cached = {op for op, name in self.replay.occurrences(number).items() if name in wanted}
        frame.extra = self.rates.state + self.replay.snapshots.get(call.name, 0)
        self.now += frame.extra
        if outer is None or outer.choice.offload:
            self._hold(call.arguments)
        elif call.arguments:
            outer.last = place
            outer.live += 1

    def _leave(self, number: int) -> None:
        frame = self.frames.get(number)
        if frame is None:
            return
        self.stack.pop()
        if not frame.choice.offload and not frame.live:
            self._end(frame)

    def _save(self, place: int, number: int) -> None:
        storage = self.trace.saved[number]
        frame = self.stack[-1] if self.stack else None
        if frame is None:
            if storage != FIXED:
                self._hold([storage])
        elif frame.choice.offload:
            if storage != FIXED:
                self.offloaded.add(number)
                self.seconds += 2 * self.sizes[storage] / self.rates.copy
        else:
            self.frame_of[number] = frame
            frame.last = place
            frame.live += 1
            frame.saves += 1

    # -- The backward --

    def _unpack(self, number: int) -> None:
        if number in self.offloaded:
            self.now += self.sizes[self.trace.saved[number]]
        frame = self.frame_of.get(number)
        if frame is not None and not frame.done:
            self._again(frame)

    def _release(self, number: int) -> None:
        storage = self.trace.saved[number]
        self.released.add(number)
        if number in self.offloaded:
            self.now -= self.sizes[storage]
            return
        frame = self.frame_of.get(number)
        if frame is None:
            if storage != FIXED:
                self._let_go([storage])
            return
        if frame.done and storage != FIXED:
            self._let_go([self._copy(frame, storage)])
        self._forget(frame)

    def _forget(self, frame: _Frame) -> None:
        frame.live -= 1
        if not frame.live and all(other is not frame for other in self.stack):
            self._end(frame)

    def _end(self, frame: _Frame) -> None:
        """Nothing of the frame will be asked for any more."""
        self.now -= frame.extra
        for op in frame.cached:
            self._let_go(self.trace.ops[op].made)
        outer = frame.outer
        if outer is None or outer.choice.offload:
            self._let_go(frame.call.arguments)
        elif frame.call.arguments:
            self._let_go(outer.arguments.pop(frame.number, []))
            self._forget(outer)

    def _copy(self, frame: _Frame, storage: int) -> int:
        """The storage as the frame's second run sees it."""
        within: _Frame | None = frame
        while within is not None:
            if storage in within.copies:
                return within.copies[storage]
            within = within.outer
        return storage

    def _again(self, frame: _Frame) -> None:
        """A frame's second run."""
        outer = frame.outer
        borrowed: Sequence[int] = ()
        if outer is not None and not outer.choice.offload and frame.call.arguments:
            if not outer.done:
                self._again(outer)
            borrowed = outer.arguments.pop(frame.number, [])
        beside = frame.extra  # and that of the frames inside, which are made anew
        self.now += beside
        ops = self.replay.ops_of(frame.call)
        factor = frame.call.seconds / max(1e-12, sum(self.trace.ops[op].seconds for op in ops))
        for kind, number in self.trace.events[frame.call.start : frame.last + 1]:
            if kind is Event.OP:
                self._op_again(frame, number, factor)
            elif kind is Event.FREE and number in frame.copies:
                self._die(frame.copies[number])
            elif kind is Event.ENTER and number in self.frames:
                beside += self.frames[number].extra
                self.now += self.frames[number].extra
                held = [self._copy(frame, s) for s in self.trace.calls[number].arguments]
                if self.frames[number].outer is frame:
                    frame.arguments[number] = held
                    self._hold(held)
            elif kind is Event.SAVE and self.frame_of.get(number) is frame and number not in self.released:
                storages = [self.trace.saved[number]]
                self._hold(self._copy(frame, storage) for storage in storages if storage != FIXED)
        for copy in frame.copies.values():
            self._die(copy)
        self._let_go(borrowed)
        self.now -= beside
        self.seconds += self.rates.frame + self.rates.saved * frame.saves
        if frame.choice.save:
            self.seconds += 2 * self.rates.mode * len(ops)
        frame.done = True

    def _op_again(self, frame: _Frame, number: int, factor: float) -> None:
        op = self.trace.ops[number]
        if number in frame.cached:
            frame.cached.discard(number)
            for storage in op.made:
                frame.copies[storage] = storage
                self.alive[storage] = True
                self.holders[storage] -= 1
            return
        self.seconds += op.seconds * factor
        self.most = max(self.most, self.now + op.most)
        for storage in op.made:
            copy = len(self.sizes)
            self.sizes.append(self.sizes[storage])
            self.holders.append(0)
            self.alive.append(True)
            frame.copies[storage] = copy
            self.now += self.sizes[storage]
        self.most = max(self.most, self.now)
