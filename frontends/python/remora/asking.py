# SPDX-License-Identifier: Apache-2.0
"""How a front end asks the engine: a refusal is a value, and every budget is one that the engine takes.

The engine's sum is not always the real memory of a plan: generator states, memory that modules share, collectives and
what a compiler does are found by a replay, a compilation or a run. So where a plan exceeds its budget, less is asked
for (`ask_again`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Literal, TypeVar

from remora._arguments import Budget
from remora.budgets import BudgetBracket, least_budget
from remora.errors import NoSchedule
from remora.graph import Graph, OpLike
from remora.limits import Limits
from remora.schedule import Schedule, evaluate
from remora.solving import solve

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from remora.limits import SolveWords
    from remora.progress import Progress

Asked = TypeVar("Asked")
Decision = TypeVar("Decision")

TRIES = 4
"""How often a decision is asked for."""


def ask(
    graph: Graph,
    budget: Budget,
    limits: Limits,
    *,
    start: Schedule | Iterable[OpLike] | None = None,
    progress: bool | Callable[[Progress], object] = False,
    on_incumbent: Callable[[Schedule], object] | None = None,
    **words: Unpack[SolveWords],
) -> Schedule | NoSchedule:
    """A schedule of a graph within a budget, or why there is none.

    Parameters
    ----------
    budget : int or str
        Bytes or text. A front end that subtracts from a budget may come below the single byte that the engine needs.
    start : Schedule or iterable of Op, optional
        A schedule to start from; none where it is empty.
    modes, progress, on_incumbent, **words
        As for `remora.solve`.
    """
    try:
        return solve(
            graph,
            max(1, budget) if isinstance(budget, int) else budget,
            warm_start=start or None,
            limits=limits,
            progress=progress,
            on_incumbent=on_incumbent,
            **words,
        )
    except NoSchedule as refusal:
        return refusal


def lowest(
    graph: Graph, limits: Limits, order: Literal["input", "free"] | None = None, max_computes: int | None = None
) -> Schedule | None:
    """The schedule with the smallest peak that is found; None if none is."""
    return reached(graph, least_budget(graph, order=order, max_computes=max_computes, limits=limits))


def reached(graph: Graph, bracket: BudgetBracket) -> Schedule | None:
    """The schedule of the smallest peak that a bracket names; None if it names none."""
    return replayed(graph, bracket.ops) if bracket.ops else None


def replayed(graph: Graph, ops: Iterable[OpLike], order: Literal["input", "free"] = "free") -> Schedule:
    """The schedule that runs these ops one after the other, with its exact peak."""
    return evaluate(graph, ops, order=order)


def ask_again(
    first: Asked,
    decide: Callable[[Asked], Decision | None],
    following: Callable[[Asked, Decision], Asked | None],
    tries: int = TRIES,
) -> Decision | None:
    """The one loop that asks for less: the first decision that is good enough.

    `decide`: a decision for what is asked, first of all for `first`; None if there is none. `following`: what is asked
    next, by the real cost of a decision; None if that is good enough. None if there is no decision, or none of so many
    is good enough.
    """
    asked: Asked | None = first
    for _ in range(tries):
        assert asked is not None
        found = decide(asked)
        asked = None if found is None else following(asked, found)
        if asked is None:
            return found
    return None


def plan_in_slices(
    found: Schedule | int,
    budget: int,
    choose: Callable[[int], Schedule | int],
    plan: Callable[[Schedule], Decision | int],
    fixed: int = 0,
) -> Decision | None:
    """The first plan within a budget: in these slices, in those for less, in those of the smallest budget.

    `found`, `choose`: the engine's answer for the budget, and for another one in bytes: a schedule, or what is enough
    in slices, 0 if nothing is. `plan`: what the slices of a schedule become, or the budget that these would need.
    `fixed`: no smaller budget is asked for.
    """
    answer = found

    def decide(asked: int) -> tuple[Decision | int] | None:
        nonlocal answer
        if asked != budget:
            answer = choose(asked) if asked > fixed else 0
        return None if isinstance(answer, int) or not answer.slices else (plan(answer),)

    def less(asked: int, tried: tuple[Decision | int]) -> int | None:
        return asked - max(1, tried[0] - budget) if isinstance(tried[0], int) else None

    tried = ask_again(budget, decide, less)
    if tried is None:
        enough = answer if isinstance(answer, int) and answer else choose(1)
        reached = choose(enough) if isinstance(enough, int) and enough else 0
        tried = None if isinstance(reached, int) or not reached.slices else (plan(reached),)
    return None if tried is None or isinstance(tried[0], int) else tried[0]


def within(
    budget: int, decide: Callable[[int], Decision | None], peak_of: Callable[[Decision], int]
) -> Decision | None:
    """The first decision whose real peak stays within a budget in bytes, asking for as much less as one exceeds it."""
    return within_each([budget], lambda asked: decide(asked[0]), lambda found: [peak_of(found)])


def within_each(
    budgets: Sequence[int],
    decide: Callable[[list[int]], Decision | None],
    peaks_of: Callable[[Decision], Sequence[int]],
) -> Decision | None:
    """Like `within`, with a budget for each of several devices."""

    def less(asked: list[int], found: Decision) -> list[int] | None:
        excess = [peak - budget for peak, budget in zip(peaks_of(found), budgets, strict=True)]
        if max(excess) <= 0:
            return None
        return [size - max(0, over) for size, over in zip(asked, excess, strict=True)]

    return ask_again(list(budgets), decide, less)
