# SPDX-License-Identifier: Apache-2.0
"""Sweeps: the trade-off of memory against time."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, SupportsIndex

from remora import _engine, display
from remora._arguments import Budget, budget_text, file_path, integer, read_file, write_text
from remora.calls import interrupt, progress_of, request, stop_of, telling
from remora.errors import InputError
from remora.graph import Graph, core_of, listed
from remora.limits import Limits, option_texts
from remora.progress import SweepDisplay, SweepProgress
from remora.schedule import Schedule, Status, made_schedule, schedule_core_of
from remora.slices import SliceCost, Slices

if TYPE_CHECKING:
    import threading

    import matplotlib.axes
    import pandas
    from typing_extensions import Unpack

    from remora.limits import OptionWords

__all__ = ["Curve", "CurvePoint", "sweep"]

_SECONDS = 180.0
"""The default time limit of a sweep: three times that of a solve."""


@dataclass(frozen=True)
class CurvePoint:
    """One point of the curve: the results for one budget.

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
    _core: _engine.Curve

    def __init__(self) -> None:
        raise TypeError("curves are made by remora.sweep() and Curve.load()")

    @cached_property
    def _data(self) -> dict[str, Any]:
        data: dict[str, Any] = json.loads(self._core.write())
        return data

    @cached_property
    def points(self) -> Sequence[CurvePoint]:
        """By budget, ascending."""
        return tuple(self._point(number, data) for number, data in enumerate(self._data["points"]))

    def _point(self, number: int, data: dict[str, Any]) -> CurvePoint:
        found = self._core.schedule(number)
        return CurvePoint(
            budget=data["budget"],
            part=data["part"],
            status=data["status"],
            duration=data.get("duration"),
            overhead=data.get("overhead"),
            peak=data.get("peak_memory"),
            bound=data["lower_bound"],
            seconds=data["seconds"],
            schedule=made_schedule(found, self.graph) if found is not None and found.has_schedule else None,
            max_computes=data.get("max_computes", self.max_computes),
        )

    @property
    def order(self) -> Literal["input", "free"]:
        """The order mode: ``"input"`` if first runs follow the order of the graph's ops."""
        order: Literal["input", "free"] = self._data["order"]
        return order

    @property
    def max_computes(self) -> int:
        """How often an op may run, the first time counted; points may have more."""
        most: int = self._data["max_computes"]
        return most

    @property
    def baseline_duration(self) -> int:
        """The duration of every op once."""
        duration: int = self._data["baseline_duration"]
        return duration

    @property
    def baseline_peak(self) -> int:
        """Bytes: the peak of the graph's order without recompute."""
        peak: int = self._data["baseline_peak_memory"]
        return peak

    @property
    def least_budget(self) -> int:
        """Bytes. Proved: no smaller budget is feasible with at most as many runs per op as the curve's points have."""
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

    def __reduce__(self) -> tuple[Any, ...]:
        return _curve_again, (self._core.write(), self.graph, tuple(point.schedule for point in self.points))

    def __repr__(self) -> str:
        return f"<Curve of {display.curve_line(self)}>"

    def _repr_html_(self) -> str:
        return display.framed(display.curve_line(self), self.svg())

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
        core = read_file(place, lambda content: _engine.Curve.read(core_of(graph), content))
        for number in range(core.point_count):
            name = core.schedule_file(number)
            if name and (place.parent / name).exists():
                core.keep_schedule(number, schedule_core_of(Schedule.load(place.parent / name, graph)))
        return _made_curve(core, graph)

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
                    self._core.name_schedule(number, os.path.relpath(file, target.resolve().parent))
        write_text(target, self._core.write())

    def report(self, path: str | os.PathLike[str]) -> None:
        """Writes one HTML page: the curve, and each of its schedules explained."""
        write_text(path, _engine.curve_page(self._core))

    def to_csv(self) -> str:
        """The points as a table, one line per budget."""
        return _engine.curve_csv(self._core)

    def svg(self) -> str:
        """Overhead against budget, as a picture."""
        return _engine.curve_svg(self._core)

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
        return display.plot_curve(self, ax)

    def to_pandas(self) -> pandas.DataFrame:
        """The points as a table, one row per budget."""
        return display.curve_frame(self)


def _curve_again(text: str, graph: Graph, schedules: Sequence[Schedule | None]) -> Curve:
    core = _engine.Curve.read(core_of(graph), text.encode())
    for number, schedule in enumerate(schedules):
        if schedule is not None:
            core.keep_schedule(number, schedule_core_of(schedule))
    return _made_curve(core, graph)


def _made_curve(core: _engine.Curve, graph: Graph) -> Curve:
    curve = Curve.__new__(Curve)
    curve._core = core
    curve.graph = graph
    return curve


def sweep(
    graph: Graph,
    budgets: Iterable[Budget] | str | None = None,
    *,
    points: SupportsIndex = 20,
    resolution: float = 0.005,
    order: Literal["input", "free"] | None = None,
    max_computes: SupportsIndex | None = None,
    slices: Slices = None,
    slice_cost: SliceCost | None = None,
    limits: Limits | None = None,
    progress: bool | Callable[[SweepProgress], object] = False,
    stop: threading.Event | None = None,
    **options: Unpack[OptionWords],
) -> Curve:
    """Schedules the graph under many budgets: the curve of memory against time, for little more than a solve or two.

    Parameters
    ----------
    graph : Graph
    budgets : iterable of int or str, or str, optional
        In any order, each at most once; a text may be a range, ``"100%:40%:5%"`` (from, to, step). Chosen by bisection
        by default, where the curve is known worst.
    points : int
        Budgets to choose at most.
    resolution : float
        Budgets are not chosen closer than this part of their range.
    order : {"input", "free"}, optional
        ``"free"`` is for methods that do not search; sweep the graph that `order` gives instead.
    max_computes, slices, slice_cost, stop, **options
        As for `solve`.
    limits : Limits, optional
        Of the whole sweep; 180 seconds by default.
    progress : bool or callable
        As for `solve`; a callable is called with a `SweepProgress` after each search of a budget.

    Returns
    -------
    Curve
        One point per budget, each with its schedule, where one was found.

    Raises
    ------
    InputError
        For an argument that means nothing, and for a graph that is not valid.
    """
    display_of, on_progress = progress_of(progress, SweepDisplay)
    texts = option_texts(limits, options, "sweep", seconds=_SECONDS)
    asked = request(graph, texts, max_computes, order, slices, slice_cost)
    if budgets is not None and not (points == 20 and resolution == 0.005):
        raise InputError("points", "budgets are given: there is nothing to choose")
    several = [budgets] if isinstance(budgets, str) else budgets
    given = [] if several is None else [budget_text(budget, "budgets") for budget in listed(several, "budgets")]
    if budgets is not None and not given:
        raise InputError("budgets", "the list is empty")
    most = integer(points, "points", 2**31 - 1)
    if most < 2:
        raise InputError("points", f"must be at least 2, but is {most}")
    if not 0 <= resolution <= 1:
        raise InputError("resolution", f"must be from 0 to 1, but is {resolution}")
    with display_of(graph, len(given) or most) as shown:
        listener = telling(on_progress, "progress", lambda news: SweepProgress(*news), shown.show_sweep)
        core, interruption = _engine.sweep(asked, given, most, float(resolution), listener, stop_of(stop))
    curve = _made_curve(core, graph)
    interrupt(interruption, curve, "curve")
    return curve
