# SPDX-License-Identifier: Apache-2.0
"""Schedules and curves for the eye: a line, HTML, matplotlib, pandas."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING, Any

from remora import _engine

if TYPE_CHECKING:
    import matplotlib.axes
    import pandas

    from remora.curve import Curve
    from remora.devices import DeviceSchedule
    from remora.schedule import Schedule

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")
_STEP = 1024


def percent(part: float) -> str:
    """``5.23 %``."""
    return f"{100 * part:.2f} %"


def schedule_line(schedule: Schedule) -> str:
    """Summary of a schedule in one line."""
    name = repr(schedule.graph.name)
    if not schedule:
        return f"{name}: {schedule.status}, no steps within {_engine.bytes_text(schedule.budget)}"
    peak = f"peak {_engine.bytes_text(schedule.peak)} instead of {_engine.bytes_text(schedule.baseline_peak)}"
    again = len(schedule.recomputes)
    ops = f"{again} op{'' if again == 1 else 's'} recomputed"
    gap = "" if schedule.status == "optimal" else f", gap {percent(schedule.gap)}"
    return (
        f"{name}: {schedule.status}, overhead {percent(schedule.overhead)}, {ops}, {peak}, "
        f"budget {_engine.bytes_text(schedule.budget)}{gap}"
    )


def device_schedule_line(schedule: DeviceSchedule) -> str:
    """Summary of a schedule over several devices in one line."""
    name = repr(schedule.graph.name)
    if not schedule:
        return f"{name}: {schedule.status}, no steps"
    cost = schedule.energy if schedule.objective == "energy" else schedule.duration
    gap = "" if schedule.status == "optimal" else f", gap {percent(schedule.gap)}"
    return f"{name}: {schedule.status}, {schedule.objective} {cost}, {len(schedule.steps)} steps{gap}"


def curve_line(curve: Curve) -> str:
    """Summary of a curve in one line."""
    least = curve.smallest_feasible
    found = "no schedule"
    if least and least.overhead is not None:
        found = f"down to {_engine.bytes_text(least.budget)} at an overhead of {percent(least.overhead)}"
    return f"{curve.graph.name!r}: {len(curve)} budgets, {found}"


def framed(text: str, picture: str) -> str:
    """The lines, and the picture below them, in HTML."""
    lines = "".join(f"<p>{escape(line)}</p>" for line in text.splitlines())
    return f"<div>{lines}{picture}</div>"


def memory_unit(most: int) -> tuple[str, int]:
    """The largest unit of which this is at least one, and its bytes."""
    power = 0
    while power + 1 < len(_UNITS) and most >= _STEP ** (power + 1):
        power += 1
    return _UNITS[power], _STEP**power


def _axes(ax: matplotlib.axes.Axes | None) -> Any:
    if ax is not None:
        return ax
    from matplotlib import pyplot

    return pyplot.subplots()[1]


def plot_schedule(
    schedule: Schedule, before: Sequence[int], after: Sequence[int], ax: matplotlib.axes.Axes | None
) -> matplotlib.axes.Axes:
    """Draws memory over steps, before and after."""
    unit, size = memory_unit(max([1, *before, *after]))
    axes = _axes(ax)
    for memory, label in ((before, "input order"), (after, "schedule")):
        axes.step(range(len(memory)), [value / size for value in memory], where="post", label=label)
    axes.axhline(schedule.budget / size, linestyle="--", color="gray", label="budget")
    axes.set_xlabel("step")
    axes.set_ylabel(f"memory, {unit}")
    axes.set_ylim(bottom=0)
    axes.set_title(f"{schedule.graph.name}: {percent(schedule.overhead)} more time")
    axes.legend()
    return axes  # type: ignore[no-any-return]


def plot_curve(curve: Curve, ax: matplotlib.axes.Axes | None) -> matplotlib.axes.Axes:
    """Draws overhead against budget, with bounds."""
    unit, size = memory_unit(max([1, *(point.budget for point in curve)]))
    axes = _axes(ax)
    found = [point for point in curve if point.overhead is not None]
    # A schedule serves every larger budget, up to the next one.
    axes.plot(
        [p.budget / size for p in found],
        [100 * (p.overhead or 0) for p in found],
        marker="o",
        drawstyle="steps-post",
        label="schedule",
    )
    known = [point for point in curve if point.status != "infeasible"]
    base = curve.baseline_duration or 1
    axes.plot(
        [p.budget / size for p in known],
        [100 * (p.bound / base - 1) for p in known],
        linestyle="--",
        label="lower bound",
    )
    axes.axvline(curve.least_budget / size, linestyle=":", color="gray", label="no schedule below")
    axes.set_xlabel(f"budget, {unit}")
    axes.set_ylabel("overhead, %")
    axes.set_title(curve.graph.name)
    axes.legend()
    return axes  # type: ignore[no-any-return]


def schedule_frame(schedule: Schedule) -> pandas.DataFrame:
    """The steps as a table."""
    import pandas

    seen: set[int] = set()
    rows = []
    for step, memory in zip(schedule.steps, schedule.memory, strict=True):
        rows.append(
            {
                "op": step.op.name,
                "type": step.op.type,
                "duration": step.op.duration,
                "again": step.op.index in seen,
                "memory": memory,
                "free": [tensor.name for tensor in step.free],
            }
        )
        seen.add(step.op.index)
    columns = ["op", "type", "duration", "again", "memory", "free"]
    return pandas.DataFrame(rows, columns=columns).rename_axis("step")


def curve_frame(curve: Curve) -> pandas.DataFrame:
    """The points as a table."""
    import pandas

    columns = ["budget", "part", "status", "duration", "overhead", "peak", "bound", "seconds"]
    rows = [{column: getattr(point, column) for column in columns} for point in curve]
    return pandas.DataFrame(rows, columns=columns)
