# SPDX-License-Identifier: Apache-2.0
"""Schedules: which op runs when, and what is released after it."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, SupportsIndex

from remora import _engine
from remora._arguments import boolean, count, read_file, text_bytes, write_text
from remora.errors import Certificate, InputError
from remora.graph import Graph, Op, OpLike, Tensor, _listed, _op, _tensor
from remora.placement import Arena, arena_of

if TYPE_CHECKING:
    import matplotlib.axes
    import networkx
    import pandas

__all__ = ["Residence", "Schedule", "Status", "Step", "evaluate"]

Status = Literal["optimal", "feasible", "infeasible", "unknown"]
"""Proved optimal; a schedule, not proved optimal; proved infeasible; none found within the limits."""


@dataclass(frozen=True)
class Step:
    """Run `op` by its mode of this number, then release `free`."""

    op: Op
    free: tuple[Tensor, ...]
    mode: int = 0


@dataclass(frozen=True)
class Residence:
    """One stay of a tensor in memory, in steps, both ends included."""

    tensor: Tensor
    first_step: int
    last_step: int


class BaseSchedule:
    """What schedules over one device and over several have in common."""

    _answer: _engine.Answer | _engine.DeviceAnswer

    @property
    def status(self) -> Status:
        """``"optimal"`` or ``"feasible"``; of an answer without a schedule ``"infeasible"`` or ``"unknown"``."""
        status: Any = self._answer.status
        return status  # type: ignore[no-any-return]

    @property
    def order(self) -> Literal["input", "free"]:
        """Whether first computes follow the order of the graph's ops."""
        return "free" if self._answer.is_free else "input"

    @cached_property
    def solver(self) -> Mapping[str, Any]:
        """How the solve went: what the file says under ``solver`` (docs/formats.md)."""
        report: dict[str, Any] = json.loads(self.to_json()).get("solver", {})
        return report

    def to_json(self) -> str:
        """The text of the schedule's file; an `InputError` where ops have several modes, which no file knows."""
        return self._answer.write()

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the schedule as remora-schedule JSON, whole or not at all."""
        write_text(path, self.to_json())

    def __len__(self) -> int:
        return self._answer.step_count

    def __bool__(self) -> bool:
        return self._answer.has_schedule


class Schedule(BaseSchedule):
    """The answer to a solve: the steps, and what is known about them.

    Made by `solve`, `sweep`, `evaluate` and `load`. It keeps the graph as it was when it was solved: what is changed in
    the graph later changes nothing here.
    """

    graph: Graph
    """The graph whose ops and tensors the steps name."""

    def __init__(self) -> None:
        raise TypeError("schedules are made by remora.solve(), remora.evaluate() and Schedule.load()")

    @classmethod
    def _of(cls, answer: _engine.Answer, graph: Graph) -> Schedule:
        schedule = cls.__new__(cls)
        schedule._answer = answer
        schedule.graph = graph
        return schedule

    _answer: _engine.Answer

    # What it is

    @property
    def budget(self) -> int:
        """Bytes, fixed memory included."""
        return self._answer.budget

    @property
    def duration(self) -> int:
        """Of all steps."""
        return self._answer.duration

    @property
    def baseline_duration(self) -> int:
        """Of every op once."""
        return self._answer.baseline_duration

    @property
    def overhead(self) -> float:
        """``duration / baseline_duration - 1``: 0.05 for 5 % more time."""
        return self._answer.overhead

    @property
    def least_overhead(self) -> float:
        """No schedule of this problem has less overhead."""
        return self._answer.least_overhead

    @property
    def peak(self) -> int:
        """Bytes: the most that is resident at a step."""
        return self._answer.peak

    @property
    def baseline_peak(self) -> int:
        """Bytes: the peak of the graph's order without recompute."""
        return self._answer.baseline_peak

    @property
    def bound(self) -> int:
        """No schedule of this problem has a smaller duration."""
        return self._answer.lower_bound

    @property
    def gap(self) -> float:
        """``(duration - bound) / duration``: 0 for a schedule proved optimal."""
        return self._answer.gap

    @cached_property
    def steps(self) -> Sequence[Step]:
        """In the order of execution."""
        graph = self.graph
        return tuple(
            Step(_op(graph, op), tuple(_tensor(graph, tensor) for tensor in free), mode)
            for op, free, mode in self._answer.steps
        )

    @property
    def ops(self) -> tuple[Op, ...]:
        """The op of every step: what `solve` takes as a warm start."""
        return tuple(step.op for step in self.steps)

    @property
    def recomputes(self) -> dict[Op, int]:
        """How often ops run again, first op first; ops that run once are not in it."""
        return {op: times - 1 for op, times in Counter(self.ops).items() if times > 1}

    @property
    def certificate(self) -> Certificate | None:
        """Why no schedule holds the budget, where one event alone proves it."""
        found = self._answer.certificate
        if found is None:
            return None
        op, required, tensors = found
        return Certificate(_op(self.graph, op), required, tuple(_tensor(self.graph, tensor) for tensor in tensors))

    @cached_property
    def arena(self) -> Arena | None:
        """Where tensors and workspaces lie in one block of memory, if they were placed."""
        return arena_of(self._answer, self.graph)

    @property
    def memory(self) -> Sequence[int]:
        """Bytes at every step."""
        return self._answer.memory().after

    @property
    def residences(self) -> Sequence[Residence]:
        """When each tensor is in memory, by first step; the graph's inputs, which always are, not among them."""
        return [
            Residence(_tensor(self.graph, number), first, last) for number, first, last in self._answer.residences()
        ]

    def __eq__(self, other: object) -> bool:
        if other is self or not isinstance(other, Schedule):
            return other is self
        if self._answer.has_modes or other._answer.has_modes:  # these have no files, and are equal to themselves alone
            return False
        return other.to_json() == self.to_json()

    __hash__ = object.__hash__

    def __repr__(self) -> str:
        from remora.display import schedule_line

        return f"<Schedule of {schedule_line(self)}>"

    def _repr_html_(self) -> str:
        from remora.display import schedule_html

        return schedule_html(self)

    # Files and other forms

    @classmethod
    def load(cls, path: str | os.PathLike[str], graph: Graph) -> Schedule:
        """Reads a schedule file of the graph.

        Parameters
        ----------
        path : path-like
        graph : Graph
            The graph that was solved; ops and tensors are looked up in it by name.

        Raises
        ------
        InputError
            With the file and the path of the first fault. Whether the steps are right is for `verify` to say.
        OSError
            If the file cannot be read.
        """
        return read_file(path, lambda content: cls.from_json(content, graph))

    @classmethod
    def from_json(cls, text: str | bytes, graph: Graph) -> Schedule:
        """The schedule in the text of a file."""
        return cls._of(_engine.Answer.read(graph_of(graph)._core, text_bytes(text)), graph)

    def report(self, path: str | os.PathLike[str]) -> None:
        """Writes one HTML page that explains the schedule: memory, retention, what is recomputed and why."""
        write_text(path, _engine.schedule_page(self._answer))

    def trace(self, path: str | os.PathLike[str]) -> None:
        """Writes a Chrome trace (about:tracing, Perfetto)."""
        write_text(path, _engine.trace(self._answer))

    def svg(self) -> str:
        """Memory over steps, before and after, as a picture."""
        return _engine.memory_svg(self._answer)

    def plot(self, ax: matplotlib.axes.Axes | None = None) -> matplotlib.axes.Axes:
        """Draws memory over steps, before and after.

        Parameters
        ----------
        ax : matplotlib axes, optional
            Where to draw; a new figure without it.

        Returns
        -------
        matplotlib axes
        """
        from remora.display import plot_schedule

        return plot_schedule(self, ax)

    def to_pandas(self) -> pandas.DataFrame:
        """The steps as a table: one row per step, with op, type, duration, if it runs again, memory, what is freed."""
        from remora.display import schedule_frame

        return schedule_frame(self)

    def to_networkx(self) -> networkx.DiGraph[Any]:
        """The computes as networkx's graph: one node per step, an edge to every step that a compute serves."""
        from remora.networks import schedule_to_networkx

        return schedule_to_networkx(self)

    def __reduce__(self) -> tuple[Any, ...]:
        return Schedule.from_json, (self.to_json(), self.graph)


def graph_of(graph: Graph) -> Graph:
    """The graph, or TypeError for what is none."""
    if isinstance(graph, Graph):
        return graph
    raise TypeError(f"graph: must be a remora.Graph, not {type(graph).__name__}")


def schedule_of(schedule: Schedule) -> Schedule:
    """The schedule, or TypeError for what is none."""
    if isinstance(schedule, Schedule):
        return schedule
    raise TypeError(f"schedule: must be a remora.Schedule, not {type(schedule).__name__}")


def evaluate(
    graph: Graph,
    ops: Iterable[OpLike],
    *,
    order: Literal["input", "free"] = "input",
    max_computes: SupportsIndex | None = None,
) -> Schedule:
    """The schedule that computes these ops one after the other and releases every tensor after its last use.

    Parameters
    ----------
    graph : Graph
    ops : iterable of Op, str or int
        Every op once or more, each after the producers of its inputs.
    order : {"input", "free"}
        Whether first computes must follow the graph's order.
    max_computes : int, optional
        How often an op may run, the first time counted; by default twice, or as often as one does.

    Returns
    -------
    Schedule
        Its budget is its own peak.

    Raises
    ------
    InputError
        For a sequence that is not one of this problem.
    """
    graph_of(graph)
    numbers = [graph._op_number(op, f"ops[{place}]") for place, op in enumerate(_listed(ops, "ops"))]
    if order not in ("input", "free"):
        raise InputError("order", f"must be 'input' or 'free', not {order!r}")
    most = count(max_computes, "max_computes") or max([2, *Counter(numbers).values()])
    return Schedule._of(_engine.Answer.evaluate(graph._core, numbers, most, boolean(order == "free", "order")), graph)
