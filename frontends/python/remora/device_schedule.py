# SPDX-License-Identifier: Apache-2.0
"""Schedules over several devices: where ops run, what is copied when, and how they are searched for."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, SupportsIndex

from remora import _engine
from remora._arguments import Budget, budget_text, count, integer, read_file, string, text_bytes, write_text
from remora.devices import DeviceGraph, device_graph_of
from remora.errors import InputError, NoDeviceSchedule
from remora.schedule import BaseSchedule

if TYPE_CHECKING:
    from collections.abc import Callable

    Telling = Callable[[Any], bool] | None

__all__ = ["DeviceSchedule", "DeviceStep"]


@dataclass(frozen=True)
class DeviceStep:
    """Run `op` on `device`, or copy `tensor` from `device` to `to`; then release `free`.

    Attributes
    ----------
    kind : {"run", "copy"}
    device : str
        Where it runs, or what is copied from.
    op, tensor, to : str or None
        The op of a run; the tensor of a copy and where it goes.
    free : tuple of (str, str)
        What is released afterwards: tensor and device.
    """

    kind: Literal["run", "copy"]
    device: str
    op: str | None
    tensor: str | None
    to: str | None
    free: tuple[tuple[str, str], ...]


class DeviceSchedule(BaseSchedule):
    """The answer to a solve of a `DeviceGraph`. Made by `solve` and `load`."""

    graph: DeviceGraph
    """The graph whose devices, ops and tensors the steps name."""
    _answer: _engine.DeviceAnswer

    def __init__(self) -> None:
        raise TypeError("schedules are made by remora.solve() and DeviceSchedule.load()")

    @classmethod
    def _of(cls, answer: _engine.DeviceAnswer, graph: DeviceGraph) -> DeviceSchedule:
        schedule = cls.__new__(cls)
        schedule._answer = answer
        schedule.graph = graph
        return schedule

    @classmethod
    def load(cls, path: str | os.PathLike[str], graph: DeviceGraph) -> DeviceSchedule:
        """Reads a schedule file of the graph; whether its steps are right is for `verify` to say."""
        return read_file(path, lambda content: cls.from_json(content, graph))

    @classmethod
    def from_json(cls, text: str | bytes, graph: DeviceGraph) -> DeviceSchedule:
        """The schedule in the text of a file."""
        return cls._of(_engine.DeviceAnswer.read(device_graph_of(graph)._core, text_bytes(text)), graph)

    @property
    def objective(self) -> Literal["duration", "energy"]:
        """What was minimised."""
        return "energy" if self._answer.least_energy else "duration"

    @property
    def copied(self) -> Literal["sequential", "overlap"]:
        """Whether one thing happens at a time, or copies run beside computing."""
        return "overlap" if self._answer.overlap else "sequential"

    @property
    def budget(self) -> dict[str, int]:
        """Bytes by device; devices without a limit are not in it."""
        names = self.graph._device_names()
        return {name: bytes for name, bytes in zip(names, self._answer.budget, strict=True) if bytes is not None}

    @property
    def duration(self) -> int:
        """Of all steps; where copies overlap, until the last one has ended."""
        return self._answer.duration

    @property
    def energy(self) -> int:
        """Of all steps."""
        return self._answer.energy

    @property
    def baseline_duration(self) -> int:
        """Of the best schedule without memory limits, or a bound on it."""
        return self._answer.baseline_duration

    @property
    def bound(self) -> int:
        """No schedule of this problem has less duration, or energy where that is the objective."""
        return self._answer.lower_bound

    @property
    def gap(self) -> float:
        """The part of the objective that the bound does not explain: 0 for a schedule proved optimal."""
        value = self.energy if self.objective == "energy" else self.duration
        return (value - self.bound) / value if value > 0 else 0.0

    @property
    def peak(self) -> dict[str, int]:
        """Bytes by device: the most that is resident at a step."""
        return dict(zip(self.graph._device_names(), self._answer.peak, strict=True))

    @property
    def memory(self) -> dict[str, list[int]]:
        """Bytes by device, at every step; where copies overlap, steps in the order of their starts."""
        return dict(zip(self.graph._device_names(), self._answer.memory(), strict=True))

    @property
    def times(self) -> list[tuple[int, int]]:
        """When each step starts and ends. Where copies overlap, steps do."""
        return self._answer.times()

    @cached_property
    def steps(self) -> Sequence[DeviceStep]:
        """In the order of execution."""
        devices = self.graph._device_names()
        ops, tensors = self.graph.ops, self.graph.tensors
        return tuple(
            DeviceStep(
                "copy" if op < 0 else "run",
                devices[device],
                None if op < 0 else ops[op],
                None if tensor < 0 else tensors[tensor],
                None if to < 0 else devices[to],
                tuple((tensors[freed], devices[place]) for freed, place in free),
            )
            for op, tensor, device, to, free in self._answer.steps()
        )

    @property
    def recomputes(self) -> dict[str, int]:
        """How often ops run again, on all devices together; ops that run once are not in it."""
        times = Counter(step.op for step in self.steps if step.op is not None)
        return {op: many - 1 for op, many in times.items() if many > 1}

    @property
    def copies(self) -> dict[tuple[str, str, str], int]:
        """How often a tensor is copied from a device to another."""
        return dict(Counter((step.tensor, step.device, step.to) for step in self.steps if step.tensor and step.to))

    def report(self, path: str | os.PathLike[str]) -> None:
        """Writes one HTML page: a lane for each device and link, memory on each device, copies, what runs again."""
        write_text(path, self._answer.page())

    def trace(self, path: str | os.PathLike[str]) -> None:
        """Writes a Chrome trace (about:tracing, Perfetto), a thread for each device and link."""
        write_text(path, self._answer.trace())

    def svg(self) -> str:
        """Lanes and memory of each device over time, as a picture."""
        return self._answer.svg()

    def csv(self) -> str:
        """Runs by op and device, copies by tensor and link, with what they take."""
        return self._answer.csv()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DeviceSchedule) and (other is self or other.to_json() == self.to_json())

    __hash__ = object.__hash__

    def __repr__(self) -> str:
        if not self:
            return f"<DeviceSchedule of {self.graph.name!r}: {self.status}>"
        peaks = ", ".join(f"{name} {_engine.bytes_text(peak)}" for name, peak in self.peak.items())
        duration = _engine.duration_text(self.duration, self.graph._core.unit)
        return f"<DeviceSchedule of {self.graph.name!r}: {self.status}, {duration}; {peaks}>"

    def __reduce__(self) -> tuple[Any, ...]:
        return DeviceSchedule.from_json, (self.to_json(), self.graph)


def solve_devices(
    graph: DeviceGraph,
    budget: Mapping[str, Budget],
    texts: list[tuple[str, str]],
    order: str | None,
    max_computes: SupportsIndex | None,
    objective: str,
    copies: str,
    limits: tuple[SupportsIndex | None, SupportsIndex | None],
    warm_start: DeviceSchedule | None,
    telling: tuple[Telling, Telling, Telling],
    asking: Callable[[], bool] | None,
) -> tuple[DeviceSchedule, object]:
    """`remora.solve` of a graph over several devices: the answer, with steps or without, and what ended it early.

    `telling`: who hears of better schedules, of news, and how it goes some ten times a second.
    """
    if not isinstance(budget, Mapping):
        raise TypeError(f"budget: must be a mapping of devices to budgets, not {type(budget).__name__}")
    names = graph._device_names()
    for name in budget:
        if string(name, "budget") not in names:
            raise InputError("budget", f"the graph has no device {name!r}")
    if objective not in ("duration", "energy"):
        raise InputError("objective", f"must be 'duration' or 'energy', not {objective!r}")
    if copies not in ("sequential", "overlap"):
        raise InputError("copies", f"must be 'sequential' or 'overlap', not {copies!r}")
    if order not in (None, "input", "free"):
        raise InputError("order", f"must be 'input' or 'free' of a graph over several devices, not {order!r}")
    if warm_start is not None and not isinstance(warm_start, DeviceSchedule):
        raise TypeError(f"warm_start: must be a remora.DeviceSchedule, not {type(warm_start).__name__}")
    start = None
    if warm_start is not None:
        if not warm_start:
            raise InputError("warm_start", "holds no schedule to start from")
        same = warm_start.graph is graph
        start = warm_start if same else DeviceSchedule.from_json(warm_start.to_json(), graph)
    duration_limit, energy_limit = (
        None if limit is None else integer(limit, place)
        for limit, place in zip(limits, ("duration_limit", "energy_limit"), strict=True)
    )
    answer, interruption = _engine.solve_devices(
        graph._core,
        [budget_text(budget[name], f"budget[{name!r}]") if name in budget else None for name in names],
        objective == "energy",
        copies == "overlap",
        order == "free",
        count(max_computes, "max_computes"),
        duration_limit,
        energy_limit,
        texts,
        None if start is None else start._answer,
        *telling,
        asking,
    )
    answer.graph_sha256 = graph._sha256
    return DeviceSchedule._of(answer, graph), interruption


def found_or_raised(schedule: DeviceSchedule) -> DeviceSchedule:
    """The schedule, or the exception that says why there is none."""
    if schedule:
        return schedule
    what = "no schedule holds the budgets" if schedule.status == "infeasible" else "no schedule was found"
    note = schedule._answer.note
    raise NoDeviceSchedule(f"{what}: {note}" if note else what, schedule)
