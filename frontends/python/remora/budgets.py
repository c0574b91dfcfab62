# SPDX-License-Identifier: Apache-2.0
"""Bounds for a budget, and the minimum budget."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, SupportsIndex

from remora import _engine
from remora._arguments import Budget, budget_text
from remora.calls import Ordering, interrupt, request, stop_of
from remora.graph import Graph, Op, op_at
from remora.limits import Limits, option_texts

if TYPE_CHECKING:
    import threading

    from typing_extensions import Unpack

    from remora.limits import OptionWords

__all__ = ["Bounds", "BudgetBracket", "bounds", "least_budget"]

# Durations that often stay within 64 bits (model/graph.hpp): no search of the engine takes more computes of an op.
_MOST_COMPUTES = 64


@dataclass(frozen=True)
class BudgetBracket:
    """The minimum feasible budget lies between two budgets, in bytes.

    Attributes
    ----------
    proved : int
        No schedule with at most `max_computes` runs per op has a lower peak.
    reached : int
        The peak of a schedule that was found.
    ops : tuple of Op
        Ops of that schedule: a warm start for `solve`, and a sequence for `evaluate`. Empty if unknown.
    max_computes : int
        How often an op may run in all this.
    """

    proved: int
    reached: int
    ops: tuple[Op, ...] = field(default=(), repr=False, compare=False)
    max_computes: int = field(default=0, compare=False)

    @property
    def exact(self) -> bool:
        """True if the minimum budget is known to the byte."""
        return self.proved == self.reached


@dataclass(frozen=True)
class Bounds:
    """Bounds for a budget, proved without any search.

    Attributes
    ----------
    status : {"optimal", "feasible", "infeasible", "unknown"}
        ``"infeasible"`` where that is proved; ``"optimal"`` where the input order fits within the budget without
        recomputation.
    duration : int
        No schedule within the budget has a smaller duration.
    overhead : float
        The same as overhead.
    """

    status: str
    duration: int
    overhead: float


def bounds(
    graph: Graph,
    budget: Budget,
    *,
    order: Ordering | None = None,
    max_computes: SupportsIndex | None = None,
    limits: Limits | None = None,
    stop: threading.Event | None = None,
    **options: Unpack[OptionWords],
) -> Bounds:
    """Bounds for a budget, proved quickly and without any search (docs/design/bounds.md).

    Parameters
    ----------
    graph : Graph
    budget, order, limits, stop, **options
        As for `solve`.
    max_computes : int, optional
        As for `solve`; without it, the bounds hold for up to 64 runs per op, the maximum that any search tries.

    Returns
    -------
    Bounds
    """
    most = _MOST_COMPUTES if max_computes is None else max_computes
    asked = request(graph, option_texts(limits, {**options, "strategy": "none"}, "bounds"), most, order)
    found, interruption = _engine.solve(asked, budget_text(budget), stop=stop_of(stop))
    interrupt(interruption, None)
    return Bounds(found.status, found.lower_bound, found.least_overhead)


def least_budget(
    graph: Graph,
    *,
    order: Literal["input", "free"] | None = None,
    max_computes: SupportsIndex | None = None,
    limits: Limits | None = None,
    stop: threading.Event | None = None,
    **options: Unpack[OptionWords],
) -> BudgetBracket:
    """Brackets the smallest budget that any schedule of the graph holds.

    Parameters
    ----------
    graph : Graph
    order, max_computes, limits, stop, **options
        As for `solve`.

    Returns
    -------
    BudgetBracket
    """
    asked = request(graph, option_texts(limits, options, "least_budget"), max_computes, order)
    found, interruption = _engine.least_budget(asked, stop_of(stop))
    ops = tuple(op_at(graph, number) for number in found.sequence)
    bracket = BudgetBracket(found.proved, found.reached, ops, found.max_computes)
    interrupt(interruption, bracket, "bracket")
    return bracket
