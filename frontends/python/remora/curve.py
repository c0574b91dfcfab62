# SPDX-License-Identifier: Apache-2.0
"""Sweeps: the trade-off of memory against time."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from remora import _engine
from remora._arguments import file_path, read_file, write_text
from remora.graph import Graph
from remora.schedule import Schedule, Status, graph_of

if TYPE_CHECKING:
    import matplotlib.axes
    import pandas

__all__ = ["Curve", "CurvePoint"]


@dataclass(frozen=True)
class CurvePoint:
    """What is known for one budget.

    Attributes
    ----------
    budget : int
        Bytes, fixed memory included.
    part : float
        The same as a part of the input order's peak, both above fixed memory.
    status : {"optimal", "feasible", "infeasible", "unknown"}
    duration, overhead, peak : int, float, int
        Of the best schedule known within the budget; None where there is none.
    bound : int
        No schedule within the budget has a smaller duration.
    seconds : float
        Wall-clock time spent on this budget alone.
    schedule : Schedule or None
        The best one known.
    max_computes : int
        How often an op may run in this point's problem, of which status and bound are: the curve's number, or more.
    """

    budget: int
    part: float
    status: Status
    duration: int | None
    overhead: float | None
    peak: int | None
    bound: int
    seconds: float
    schedule: Schedule | None
    max_computes: int


class Curve:
    """The answer to a sweep: its points by budget, ascending.

    Made by `sweep` and `load`. Along the points durations do not increase, nor bounds where ``max_computes`` does not.
    """

    graph: Graph
    """The graph that was swept."""
    _answer: _engine.CurveAnswer

    def __init__(self) -> None:
        raise TypeError("curves are made by remora.sweep() and Curve.load()")

    @classmethod
    def _of(cls, answer: _engine.CurveAnswer, graph: Graph) -> Curve:
        curve = cls.__new__(cls)
        curve._answer = answer
        curve.graph = graph
        return curve

    @cached_property
    def _data(self) -> dict[str, Any]:
        data: dict[str, Any] = json.loads(self._answer.write())
        return data

    @cached_property
    def points(self) -> Sequence[CurvePoint]:
        """By budget, ascending."""
        return tuple(self._point(number, data) for number, data in enumerate(self._data["points"]))

    def _point(self, number: int, data: dict[str, Any]) -> CurvePoint:
        answer = self._answer.schedule(number)
        return CurvePoint(
            budget=data["budget"],
            part=data["part"],
            status=data["status"],
            duration=data.get("duration"),
            overhead=data.get("overhead"),
            peak=data.get("peak_memory"),
            bound=data["lower_bound"],
            seconds=data["seconds"],
            schedule=Schedule._of(answer, self.graph) if answer is not None and answer.has_schedule else None,
            max_computes=data.get("max_computes", self.max_computes),
        )

    @property
    def order(self) -> Literal["input", "free"]:
        """Whether first computes follow the order of the graph's ops."""
        order: Literal["input", "free"] = self._data["order"]
        return order

    @property
    def max_computes(self) -> int:
        """How often an op may run, the first time counted; points may have more."""
        most: int = self._data["max_computes"]
        return most

    @property
    def baseline_duration(self) -> int:
        """Of every op once."""
        duration: int = self._data["baseline_duration"]
        return duration

    @property
    def baseline_peak(self) -> int:
        """Bytes: the peak of the graph's order without recompute."""
        peak: int = self._data["baseline_peak_memory"]
        return peak

    @property
    def least_budget(self) -> int:
        """Bytes. Proved: no schedule holds a smaller budget."""
        budget: int = self._data["least_budget"]
        return budget

    @property
    def seconds(self) -> float:
        """Wall-clock time of the whole sweep."""
        seconds: float = self._data["seconds"]
        return seconds

    @property
    def knee(self) -> CurvePoint | None:
        """The point where the curve bends most, if it bends at all."""
        return self._named("knee")

    @property
    def smallest_feasible(self) -> CurvePoint | None:
        """The point of the smallest budget that has a schedule."""
        return self._named("smallest_feasible")

    def _named(self, key: str) -> CurvePoint | None:
        budget = self._data.get(key)
        return next((point for point in self.points if point.budget == budget), None)

    def __len__(self) -> int:
        return len(self.points)

    def __bool__(self) -> bool:
        return self.smallest_feasible is not None

    def __iter__(self) -> Iterator[CurvePoint]:
        return iter(self.points)

    def __getitem__(self, number: int) -> CurvePoint:
        return self.points[number]

    def __repr__(self) -> str:
        from remora.display import curve_line

        return f"<Curve of {curve_line(self)}>"

    def _repr_html_(self) -> str:
        from remora.display import curve_html

        return curve_html(self)

    # Files and other forms

    @classmethod
    def load(cls, path: str | os.PathLike[str], graph: Graph) -> Curve:
        """Reads a curve file of the graph, and of the schedules that it names those that are there.

        Parameters
        ----------
        path : path-like
        graph : Graph
            The graph that was swept.

        Raises
        ------
        InputError
            With the file and the path of the first fault.
        OSError
            If the file cannot be read.
        """
        place = Path(file_path(path))
        answer = read_file(place, lambda content: _engine.CurveAnswer.read(graph_of(graph)._core, content))
        for number in range(answer.point_count):
            name = answer.schedule_file(number)
            if name and (place.parent / name).exists():
                answer.keep_schedule(number, Schedule.load(place.parent / name, graph)._answer)
        return cls._of(answer, graph)

    def save(self, path: str | os.PathLike[str], *, schedules: str | os.PathLike[str] | None = None) -> None:
        """Writes the curve as remora-curve JSON.

        Parameters
        ----------
        path : path-like
        schedules : path-like, optional
            A folder, made if it is not there, for every point's schedule, one file each.
        """
        target = Path(file_path(path))
        if schedules is not None:
            folder = Path(file_path(schedules, "schedules"))
            folder.mkdir(parents=True, exist_ok=True)
            for number, point in enumerate(self.points):
                if point.schedule is not None:
                    file = folder / f"budget-{point.budget}.json"
                    point.schedule.save(file)
                    self._answer.name_schedule(number, os.path.relpath(file, target.resolve().parent))
        write_text(target, self._answer.write())

    def report(self, path: str | os.PathLike[str]) -> None:
        """Writes one HTML page: the curve, and each of its schedules explained."""
        write_text(path, _engine.curve_page(self._answer))

    def to_csv(self) -> str:
        """The points as a table, one line per budget."""
        return _engine.curve_csv(self._answer)

    def svg(self) -> str:
        """Overhead against budget, as a picture."""
        return _engine.curve_svg(self._answer)

    def plot(self, ax: matplotlib.axes.Axes | None = None) -> matplotlib.axes.Axes:
        """Draws overhead against budget, with bounds.

        Parameters
        ----------
        ax : matplotlib axes, optional
            Where to draw; a new figure without it.

        Returns
        -------
        matplotlib axes
        """
        from remora.display import plot_curve

        return plot_curve(self, ax)

    def to_pandas(self) -> pandas.DataFrame:
        """The points as a table, one row per budget."""
        from remora.display import curve_frame

        return curve_frame(self)
