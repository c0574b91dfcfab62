# SPDX-License-Identifier: Apache-2.0
"""How a front end asks the engine: a refusal is a value, and every budget is one that the engine takes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Literal

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
    from remora.modes import Modes
    from remora.progress import Progress


def ask(
    graph: Graph,
    budget: Budget,
    limits: Limits,
    *,
    modes: Modes | None = None,
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
            modes=modes,
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
