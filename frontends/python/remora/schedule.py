# SPDX-License-Identifier: Apache-2.0
"""Schedules: which op runs when, and what is released after it."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Generic, Literal, SupportsIndex, TypeVar

from remora import _engine, display, networks
from remora._arguments import count, read_file, text_bytes, write_text
from remora.errors import Certificate, InputError
from remora.graph import Graph, Op, OpLike, Tensor, core_of, listed, made_graph, op_at, op_number, tensor_at
from remora.slices import SlicedRegion, WithoutSlices

if TYPE_CHECKING:
    import matplotlib.axes
    import networkx
    import pandas
    from typing_extensions import Self

__all__ = ["Arena", "Residence", "Schedule", "Status", "Step", "evaluate"]

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


@dataclass(frozen=True)
class Arena:
    """Where a schedule's tensors and workspaces lie; what has no bytes lies nowhere, fixed memory elsewhere.

    Attributes
    ----------
    size, alignment : int
        Bytes: the end of what lies highest, and what every offset is a multiple of.
    inputs : mapping of Tensor to int
        Offsets of the graph's inputs, throughout.
    offsets : sequence of mapping of Tensor to int
        For each step the offsets of the tensors that it allocates.
    workspaces : sequence of int or None
        For each step the offset of its workspace.
    """

    size: int
    alignment: int
    inputs: Mapping[Tensor, int]
    offsets: Sequence[Mapping[Tensor, int]]
    workspaces: Sequence[int | None]


GraphT = TypeVar("GraphT")
StepT = TypeVar("StepT")


class BaseSchedule(Generic[GraphT, StepT]):
    """Common base of schedules over one device and over several.

    They differ in what is a number for one device and a mapping for several (`budget`, `peak`, `memory`), and in what a
    step is: two classes, so that no caller has to ask which one a value is.
    """

    graph: GraphT
    """The graph whose devices, ops and tensors the steps name."""

    _core: Any

    def __init__(self) -> None:
        raise TypeError("schedules are made by remora.solve(), remora.evaluate() and their load()")

    @property
    def status(self) -> Status:
        """``"optimal"`` or ``"feasible"``; of an answer without a schedule ``"infeasible"`` or ``"unknown"``.

        If the number of runs was left open, ``"optimal"`` holds for any number. A schedule proved only for at most C
        runs per op is ``"feasible"``; ``solver["optimal_for_max_computes"]`` is C then. ``bound`` holds for any number
        if ``solver["bound_for_any_number"]`` says so.
        """
        status: Any = self._core.status
        return status  # type: ignore[no-any-return]

    @property
    def order(self) -> Literal["input", "free"]:
        """The order mode: ``"input"`` if first runs follow the order of the graph's ops."""
        return "free" if self._core.is_free else "input"

    @property
    def duration(self) -> int:
        """The duration of all steps; if steps overlap, until the last one has ended."""
        duration: int = self._core.duration
        return duration

    @property
    def baseline_duration(self) -> int:
        """The duration of every op once; over several devices of the best schedule without limits, or a bound on it."""
        duration: int = self._core.baseline_duration
        return duration

    @property
    def bound(self) -> int:
        """No schedule of this problem has a smaller duration (or energy, if that is the objective)."""
        bound: int = self._core.lower_bound
        return bound

    @property
    def steps(self) -> Sequence[StepT]:
        """In the order of execution."""
        raise NotImplementedError

    @cached_property
    def solver(self) -> Mapping[str, Any]:
        """How the solve went: what the file says under ``solver`` (docs/reference/formats.md)."""
        report: dict[str, Any] = json.loads(self.to_json()).get("solver", {})
        return report

    def to_json(self) -> str:
        """The text of the schedule's file."""
        text: str = self._core.write()
        return text

    @classmethod
    def load(cls, path: str | os.PathLike[str], graph: GraphT) -> Self:
        """Reads a schedule file of the graph.

        Parameters
        ----------
        path : path-like
        graph : Graph or DeviceGraph
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
    def from_json(cls, text: str | bytes, graph: GraphT) -> Self:
        """The schedule in the text of a file."""
        return cls.made(cls._read(graph, text_bytes(text)), graph)

    @staticmethod
    def _read(graph: Any, text: bytes) -> Any:
        """The engine's schedule in the text of a file."""
        raise NotImplementedError

    @classmethod
    def made(cls, core: Any, graph: GraphT) -> Self:
        """The engine's schedule as one of Python's."""
        schedule = cls.__new__(cls)
        schedule._core = core
        schedule.graph = graph
        return schedule

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the schedule as remora-schedule JSON, whole or not at all."""
        write_text(path, self.to_json())

    def report(self, path: str | os.PathLike[str]) -> None:
        """Writes one HTML page that explains the schedule: memory, what runs where and when, recomputes, copies."""
        write_text(path, self._core.page())

    def svg(self) -> str:
        """Memory over steps, before and after, or lanes and memory of each device over time, as a picture."""
        picture: str = self._core.svg()
        return picture

    def csv(self) -> str:
        """The recomputed ops and why, or runs by op and device and copies by tensor and link, with their costs."""
        table: str = self._core.csv()
        return table

    @cached_property
    def _contents(self) -> dict[str, Any]:
        """The parts that are compared: all but how the solve went."""
        contents: dict[str, Any] = json.loads(self.to_json())
        contents.pop("solver", None)
        return contents

    def __eq__(self, other: object) -> bool:
        return other is self or (type(other) is type(self) and other._contents == self._contents)

    def __hash__(self) -> int:
        return hash((self.status, self._core.duration, len(self)))

    def __len__(self) -> int:
        count: int = self._core.step_count
        return count

    def __bool__(self) -> bool:
        found: bool = self._core.has_schedule
        return found

    def __iter__(self) -> Iterator[StepT]:
        return iter(self.steps)

    def __getitem__(self, number: int) -> StepT:
        return self.steps[number]

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self).from_json, (self.to_json(), self.graph)


class Schedule(BaseSchedule[Graph, Step]):
    """The answer to a solve: the steps, and what is known about them.

    Made by `solve`, `sweep`, `evaluate` and `load`. It keeps the graph as it was when it was solved: what is changed in
    the graph later changes nothing here. Schedules are equal if all but ``solver``, which says how the solve went, is.
    With slices, `graph` is the graph in slices, and `solved_graph` the one that was solved.
    """

    _core: _engine.Schedule

    solved_graph: Graph
    """The graph that was solved."""

    @classmethod
    def made(cls, core: Any, graph: Graph) -> Self:
        """The engine's schedule as one of Python's."""
        sliced = core.sliced_graph()
        schedule = super().made(core, graph if sliced is None else made_graph(sliced, Graph))
        schedule.solved_graph = graph
        return schedule

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self).from_json, (self.to_json(), self.solved_graph)

    @staticmethod
    def _read(graph: Any, text: bytes) -> _engine.Schedule:
        return _engine.Schedule.read(core_of(graph), text)

    # What it is

    @property
    def budget(self) -> int:
        """Bytes, fixed memory included."""
        return self._core.budget

    @property
    def overhead(self) -> float:
        """``duration / baseline_duration - 1``: 0.05 for 5 % more time."""
        return self._core.overhead

    @property
    def least_overhead(self) -> float:
        """No schedule of this problem has less overhead."""
        return self._core.least_overhead

    @property
    def peak(self) -> int:
        """Bytes: the most that is resident at a step."""
        return self._core.peak

    @property
    def baseline_peak(self) -> int:
        """Bytes: the peak of the graph's order without recompute."""
        return self._core.baseline_peak

    @property
    def gap(self) -> float:
        """``(duration - bound) / duration``: 0 for a schedule proved optimal."""
        return self._core.gap

    @cached_property
    def steps(self) -> Sequence[Step]:
        """In the order of execution."""
        graph = self.graph
        return tuple(
            Step(op_at(graph, op), tuple(tensor_at(graph, tensor) for tensor in free), mode)
            for op, free, mode in self._core.steps
        )

    @property
    def ops(self) -> tuple[Op, ...]:
        """The op of every step: a warm start for `solve`."""
        return tuple(step.op for step in self.steps)

    @property
    def recomputes(self) -> dict[Op, int]:
        """How often ops run again, first op first; ops that run once are not in it."""
        return {op: times - 1 for op, times in Counter(self.ops).items() if times > 1}

    @property
    def certificate(self) -> Certificate | None:
        """Proof that no schedule fits within the budget, if one event alone proves it."""
        found = self._core.certificate
        if found is None:
            return None
        op, required, tensors = found
        return Certificate(op_at(self.graph, op), required, tuple(tensor_at(self.graph, tensor) for tensor in tensors))

    @cached_property
    def arena(self) -> Arena | None:
        """Where tensors and workspaces lie in one block of memory, if they were placed."""
        if self._core.arena is None:
            return None
        alignment, size, inputs, steps = self._core.arena

        def named(rows: Iterable[tuple[int, int]]) -> dict[Tensor, int]:
            return {tensor_at(self.graph, number): offset for number, offset in rows}

        offsets = tuple(named(outputs) for outputs, _ in steps)
        return Arena(size, alignment, named(inputs), offsets, tuple(workspace for _, workspace in steps))

    @property
    def slices(self) -> tuple[SlicedRegion, ...]:
        """The regions that are computed in slices; empty if there are none."""
        return tuple(
            SlicedRegion(tuple({op_at(self.solved_graph, op): axis for op, axis in part} for part in parts), *figures)
            for parts, *figures in self._core.slices
        )

    @property
    def without_slices(self) -> WithoutSlices | None:
        """The answer without slices, of a schedule that has some."""
        found: Any = self._core.without_slices
        return None if found is None else WithoutSlices(*found)

    @property
    def memory(self) -> Sequence[int]:
        """Bytes at every step."""
        return self._core.memory()[1]

    @property
    def residences(self) -> Sequence[Residence]:
        """When each tensor is in memory, by first step; the graph's inputs, which always are, not among them."""
        return [
            Residence(tensor_at(self.graph, number), first, last) for number, first, last in self._core.residences()
        ]

    def __repr__(self) -> str:
        return f"<Schedule of {display.schedule_line(self)}>"

    def _repr_html_(self) -> str:
        return display.framed(display.schedule_line(self), self.svg() if self and len(self) else "")

    # Other forms

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
        return display.plot_schedule(self, *self._core.memory(), ax)

    def to_pandas(self) -> pandas.DataFrame:
        """The steps as a table: one row per step, with op, type, duration, if it runs again, memory, what is freed."""
        return display.schedule_frame(self)

    def to_networkx(self) -> networkx.DiGraph[Any]:
        """The runs as networkx's graph: one node per step, an edge to every step that reads an output of it.

        Nodes are 0, 1, 2, …, with ``op`` and ``duration``; edges have ``tensors``, the names of what is handed on.
        """
        return networks.computes(self)


def made_schedule(core: _engine.Schedule, graph: Graph) -> Schedule:
    """The engine's schedule as one of Python's."""
    return Schedule.made(core, graph)


def schedule_core_of(schedule: Schedule) -> _engine.Schedule:
    """The engine's schedule, or TypeError for what is none."""
    if isinstance(schedule, Schedule):
        return schedule._core
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
        ``"input"`` if first runs must follow the graph's order.
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
    core = core_of(graph)
    numbers = [op_number(graph, op, f"ops[{place}]") for place, op in enumerate(listed(ops, "ops"))]
    if order not in ("input", "free"):
        raise InputError("order", f"must be 'input' or 'free', not {order!r}")
    most = count(max_computes, "max_computes") or max([2, *Counter(numbers).values()])
    return made_schedule(_engine.Schedule.evaluate(core, numbers, most, order == "free"), graph)
