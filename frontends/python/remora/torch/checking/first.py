# SPDX-License-Identifier: Apache-2.0
"""The first op in which two runs differ, and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from .ops import Call, Phase

AHEAD = 16
"""So many ops are looked at to tell where in the forward a recompute begins."""


@dataclass(frozen=True)
class FirstOp:
    """The first op that gave other numbers than in plain eager.

    Attributes
    ----------
    op : str
        "aten.bernoulli_"; "" where no op can be named, since compiled code has other ops.
    phase : Phase
    module : str
        The path of the module; of a backward op, of the one whose gradient it computes.
    number : int
        It is the n-th call of this op in this module and phase, from 1.
    where : str
        "train.py:12", if known.
    text : str
        What it did, as a sentence.
    cause : str
        Why, and what to do, if it is known.
    """

    op: str
    phase: Phase
    module: str
    number: int
    where: str
    text: str
    cause: str = ""

    def __str__(self) -> str:
        return f"{self.text}\nCause: {self.cause}" if self.cause else self.text


Pair = tuple[Call | None, Call | None]
"""A call of one run and its counterpart in the other; None where there is none."""


def first_of_forward(mine: Iterable[Call], theirs: Iterable[Call]) -> Pair | None:
    """The first forward op in which two runs differ."""
    ahead, others = _of(mine, Phase.FORWARD), _of(theirs, Phase.FORWARD)
    for a, b in zip(ahead, others, strict=False):
        if a.key != b.key or a.results != b.results:
            return a, b
    if len(ahead) != len(others):
        place = min(len(ahead), len(others))
        return (ahead[place], None) if len(ahead) > place else (None, others[place])
    return None


def first_of_recompute(calls: Iterable[Call]) -> tuple[Call, Call] | None:
    """The first op that gave other numbers when it was recomputed, and its first run."""
    for again, first in _recomputed(list(calls)):
        if again.results != first.results:
            return again, first
    return None


def first_of_backward(mine: Iterable[Call], theirs: Iterable[Call]) -> Pair | None:
    """The first backward op of theirs that mine lack, or in which they differ.

    The order of ops that do not depend on each other may differ, so each is looked for by its key.
    """
    there: dict[tuple[str, str], list[Call]] = {}
    for call in _of(mine, Phase.BACKWARD):
        there.setdefault(call.key, []).append(call)
    known = {key: Counter(call.results for call in row) for key, row in there.items()}
    behind = _of(theirs, Phase.BACKWARD)
    number = Counter(call.key for call in behind)
    for call in behind:
        if known.get(call.key, Counter())[call.results] > 0:
            known[call.key][call.results] -= 1
            continue
        row = there.get(call.key, [])
        other = next((c for c in row if known[call.key][c.results] > 0), None)
        return (other if len(row) >= number[call.key] else None), call
    return None


def _of(calls: Iterable[Call], phase: Phase) -> list[Call]:
    return [call for call in calls if call.phase is phase]


def _recomputed(calls: list[Call]) -> Iterator[tuple[Call, Call]]:
    """Each op that was recomputed, with its first run.

    A recompute runs along the forward, perhaps with gaps (what selective checkpoints keep is not recomputed). Where it
    does not go on there, another begins, which the ops that follow tell.
    """
    forward, again = _of(calls, Phase.FORWARD), _of(calls, Phase.AGAIN)
    places: dict[tuple[str, str], list[int]] = {}
    for i, call in enumerate(forward):
        places.setdefault(call.key, []).append(i)
    place: int | None = None
    start: int | None = len(forward)
    for i, call in enumerate(again):
        place = None if place is None else _next(forward, place, call)
        if place is None:
            before = len(forward) if start is None else start
            place = start = _start(forward, places.get(call.key, []), again[i : i + AHEAD], before)
        if place is not None:
            yield call, forward[place]
            place += 1


def _next(forward: list[Call], place: int, call: Call) -> int | None:
    """Where a recompute goes on: at this place of the forward or a little later."""
    return next((i for i in range(place, min(place + AHEAD, len(forward))) if forward[i].key == call.key), None)


def _start(forward: list[Call], places: list[int], ahead: list[Call], before: int) -> int | None:
    """Where in the forward a recompute begins: where most of its ops fit, the last such place before the latest."""

    def fit(place: int) -> tuple[int, int, bool, int]:
        pairs = list(zip(ahead, forward[place : place + AHEAD], strict=False))
        length = next((i for i, (a, b) in enumerate(pairs) if a.key != b.key), len(pairs))
        return length, sum(a.results == b.results for a, b in pairs[:length]), place < before, place

    return max(places[-256:], key=fit, default=None)


# -- Sentences ---------------------------------------------------------------------------------------------------------


def first_between(mine: list[Call], plain: list[Call], text: str) -> FirstOp | None:
    """The first op in which two runs differ."""
    pair = first_of_forward(mine, plain)
    if pair is None:
        again = first_of_recompute(mine)
        if again is not None:
            return made_again(*again)
        pair = first_of_backward(mine, plain)
    if pair is None:
        return None
    a, b = pair
    if a is None:
        assert b is not None
        return first_op(b, f"{_place(b)} did not run at all")
    if b is None or a.op != b.op:
        return first_op(a, f"{_place(a)} ran" + (f" instead of {_place(b)}" if b is not None else " in addition"))
    if a.types != b.types:
        return first_op(a, f"{_place(a)} gave {_types(a)}, not {_types(b)}")
    return first_op(a, f"{_place(a)} {text}")


def first_op(call: Call, text: str, cause: str = "") -> FirstOp:
    """A call as the first that differs."""
    return FirstOp(call.op, call.phase, call.module, call.number, call.where, text, cause)


def made_again(again: Call, first: Call) -> FirstOp:
    """An op that gave other numbers when it was recomputed, and why."""
    message = f"{_place(again)} gave other numbers when it was recomputed for the backward"
    if again.types != first.types:
        message = (
            f"{_place(again)} gave {_types(again)} when it was recomputed for the backward, {_types(first)} before"
        )
        cause = "torch.autocast is not as it was in the forward; enter it in the recompute, too"
    elif again.random:
        cause = "it draws random numbers, and the generator was not set back for it; use preserve_rng_state=True"
    elif again.changes:
        cause = (
            f"it changes {again.changes} in place, a second time in the recompute; do this outside of the checkpoint"
        )
    else:
        cause = "something that it reads was changed after the forward, or its kernel is not deterministic"
    return first_op(again, message, cause)


def _place(call: Call) -> str:
    """Which op this is: "aten.bernoulli_ in layers.3.drop (Dropout, train.py:12)"."""
    number = f"call {call.number}" if call.number > 1 else ""
    inside = ", ".join(text for text in (call.kind, call.where, number) if text)
    behind = "the backward of " if call.phase is Phase.BACKWARD else ""
    module = f" in {behind}{call.module}" if call.module else ""
    return f"{call.op}{module}" + (f" ({inside})" if inside else "")


def _types(call: Call) -> str:
    return " and ".join(dict.fromkeys(str(dtype).removeprefix("torch.") for dtype in call.types))
