# SPDX-License-Identifier: Apache-2.0
"""Results of replaying a schedule."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast, overload

from remora.devices import DeviceGraph, DeviceSchedule, device_core_of, device_names, device_schedule_core_of
from remora.graph import Graph, core_of
from remora.schedule import Schedule, schedule_core_of

__all__ = ["DeviceVerdict", "Verdict", "verify"]


@dataclass(frozen=True)
class _Replay:
    errors: tuple[str, ...]

    @property
    def valid(self) -> bool:
        """True if there are no errors."""
        return not self.errors

    def __bool__(self) -> bool:
        return self.valid


@dataclass(frozen=True)
class Verdict(_Replay):
    """Result of replaying a schedule step by step; true if it is valid.

    Attributes
    ----------
    errors : tuple of str
        At most twenty, each naming the step; empty for a valid schedule.
    duration, peak : int
        Of the replay: in the graph's unit of time, and in bytes.
    peak_step : int
        The step of the peak, -1 without steps.
    recomputes : int
        Computes beyond each op's first.
    """

    duration: int
    peak: int
    peak_step: int
    recomputes: int


@dataclass(frozen=True)
class DeviceVerdict(_Replay):
    """Result of replaying a schedule over several devices; true if it is valid.

    Attributes
    ----------
    errors : tuple of str
        At most twenty, each naming the step; empty for a valid schedule.
    duration, energy : int
        Of the replay.
    peak, peak_step : dict of str to int
        By device: bytes, and the first step that reaches them, -1 without steps.
    recomputes, copies : int
        Runs beyond each op's first, and copies.
    """

    duration: int
    energy: int
    peak: dict[str, int]
    peak_step: dict[str, int]
    recomputes: int
    copies: int


@overload
def verify(graph: Graph, schedule: Schedule) -> Verdict: ...
@overload
def verify(graph: DeviceGraph, schedule: DeviceSchedule) -> DeviceVerdict: ...
def verify(graph: Graph | DeviceGraph, schedule: Schedule | DeviceSchedule) -> Verdict | DeviceVerdict:
    """Replays a schedule by the rules of docs/reference/formats.md, independently of what found it.

    Parameters
    ----------
    graph : Graph or DeviceGraph
        As it is now. If it is not the graph that was solved, ops and tensors are looked up by name.
    schedule : Schedule or DeviceSchedule

    Returns
    -------
    Verdict or DeviceVerdict
        True in a condition if the schedule is valid.

    Raises
    ------
    InputError
        If the schedule names ops or tensors that the graph does not have.

    Examples
    --------
    >>> import remora
    >>> g = remora.Graph("two")
    >>> a = g.op("A", duration=3, outputs={"a": 8})
    >>> b = g.op("B", duration=5, inputs=[a], outputs={"b": 1})
    >>> bool(remora.verify(g, remora.evaluate(g, ["A", "B"])))
    True
    """
    if isinstance(graph, DeviceGraph):
        over = device_schedule_core_of(cast(Any, schedule)).verify_for(device_core_of(graph))
        names = device_names(graph)
        peaks, steps = (dict(zip(names, row, strict=True)) for row in (over.peak, over.peak_step))
        return DeviceVerdict(tuple(over.errors), over.duration, over.energy, peaks, steps, over.recomputes, over.copies)
    found = schedule_core_of(cast(Any, schedule)).verify_for(core_of(graph))
    return Verdict(tuple(found.errors), found.duration, found.peak, found.peak_step, found.recomputes)
