# SPDX-License-Identifier: Apache-2.0
"""Orders of small peak memory, each op once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from remora import _engine
from remora._arguments import Budget, budget_text
from remora.calls import interrupt, request, stop_of
from remora.graph import Graph, Op, core_of, made_graph, op_at
from remora.limits import LIMITS, Limits, option_texts
from remora.progress import Display, OrderDisplay

if TYPE_CHECKING:
    import threading

    from typing_extensions import Unpack

    from remora.limits import LimitWords

__all__ = ["Order", "order"]


class Order:
    """The answer to `order`: every op once, in an order of small peak.

    Attributes
    ----------
    ops : tuple of Op
        In the order found.
    peak, input_peak : int
        Bytes: of this order, and of the graph's.
    bound : int
        No order has a smaller peak.
    seconds : float
    work : int
        Units of work done.
    """

    def __init__(self, graph: Graph, found: _engine.FoundOrder) -> None:
        self.ops: tuple[Op, ...] = tuple(op_at(graph, number) for number in found.ops)
        self.peak: int = found.peak
        self.input_peak: int = found.input_peak
        self.bound: int = found.lower_bound
        self.seconds: float = found.seconds
        self.work: int = found.work
        self._graph = graph

    @property
    def is_optimal(self) -> bool:
        """True if no order has a smaller peak."""
        return self.peak <= self.bound

    def apply(self) -> Graph:
        """A graph of its own with the ops in this order."""
        return made_graph(_engine.reordered(core_of(self._graph), [op.index for op in self.ops]), Graph)

    def __repr__(self) -> str:
        part = 100 * self.peak / self.input_peak if self.input_peak else 100.0
        proved = ", proved optimal" if self.is_optimal else ""
        return f"<Order of {self._graph.name!r}: peak {_engine.bytes_text(self.peak)}, {part:.1f} % of input{proved}>"


def order(
    graph: Graph,
    *,
    target: Budget | None = None,
    limits: Limits | None = None,
    progress: bool = False,
    stop: threading.Event | None = None,
    **options: Unpack[LimitWords],
) -> Order:
    """Finds an order of the graph's ops of small peak memory, each op once.

    Parameters
    ----------
    graph : Graph
    target : int or str, optional
        An order of this peak will do: as a budget.
    limits, progress, stop, time_limit, work_limit, threads, seed
        As for `solve`.

    Returns
    -------
    Order

    Raises
    ------
    InputError
        For an argument that means nothing, and for a graph that is not valid.
    """
    asked = request(graph, option_texts(limits, options, "order", LIMITS))
    with OrderDisplay(graph) if progress else Display() as display:
        found, interruption = _engine.order(
            asked, None if target is None else budget_text(target, "target"), display.show_order, stop_of(stop)
        )
    result = Order(graph, found)
    interrupt(interruption, result, "order")
    return result
