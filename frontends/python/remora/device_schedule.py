# SPDX-License-Identifier: Apache-2.0
"""Schedules over several devices: where ops run, what is copied when, and how they are searched for."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, SupportsIndex

from remora import _engine
from remora._arguments import Budget, budget_text, count, integer, read_file, string, text_bytes, write_text
from remora.calls import interrupt, solve_telling, stop_of
from remora.devices import DeviceGraph, device_core_of, device_names
from remora.display import device_schedule_line
from remora.errors import InputError, NoDeviceSchedule
from remora.schedule import BaseSchedule

if TYPE_CHECKING:
    import threading

    from remora.progress import Display, Progress

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
    _core: _engine.DeviceSchedule

    def __init__(self) -> None:
        raise TypeError("schedules are made by remora.solve() and DeviceSchedule.load()")

    @classmethod
    def load(cls, path: str | os.PathLike[str], graph: DeviceGraph) -> DeviceSchedule:
        """Reads a schedule file of the graph; whether its steps are right is for `verify` to say."""
        return read_file(path, lambda content: cls.from_json(content, graph))

    @classmethod
    def from_json(cls, text: str | bytes, graph: DeviceGraph) -> DeviceSchedule:
        """The schedule in the text of a file."""
        return _made(_engine.DeviceSchedule.read(device_core_of(graph), text_bytes(text)), graph)

    @property
    def objective(self) -> Literal["duration", "energy"]:
        """What was minimised."""
        return "energy" if self._core.least_energy else "duration"

    @property
    def copied(self) -> Literal["sequential", "overlap"]:
        """Whether one thing happens at a time, or copies run beside computing."""
        return "overlap" if self._core.overlap else "sequential"

    @property
    def budget(self) -> dict[str, int]:
        """Bytes by device; devices without a limit are not in it."""
        names = device_names(self.graph)
        return {name: bytes for name, bytes in zip(names, self._core.budget, strict=True) if bytes is not None}

    @property
    def duration(self) -> int:
        """Of all steps; where copies overlap, until the last one has ended."""
        return self._core.duration

    @property
    def energy(self) -> int:
        """Of all steps."""
        return self._core.energy

    @property
    def baseline_duration(self) -> int:
        """Of the best schedule without memory limits, or a bound on it."""
        return self._core.baseline_duration

    @property
    def bound(self) -> int:
        """No schedule of this problem has less duration, or energy where that is the objective."""
        return self._core.lower_bound

    @property
    def gap(self) -> float:
        """The part of the objective that the bound does not explain: 0 for a schedule proved optimal."""
        value = self.energy if self.objective == "energy" else self.duration
        return (value - self.bound) / value if value > 0 else 0.0

    @property
    def peak(self) -> dict[str, int]:
        """Bytes by device: the most that is resident at a step."""
        return dict(zip(device_names(self.graph), self._core.peak, strict=True))

    @property
    def memory(self) -> dict[str, list[int]]:
        """Bytes by device, at every step; where copies overlap, steps in the order of their starts."""
        return dict(zip(device_names(self.graph), self._core.memory(), strict=True))

    @property
    def times(self) -> list[tuple[int, int]]:
        """When each step starts and ends. Where copies overlap, steps do."""
        return self._core.times()

    @cached_property
    def steps(self) -> Sequence[DeviceStep]:
        """In the order of execution."""
        devices = device_names(self.graph)
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
            for op, tensor, device, to, free in self._core.steps()
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
        write_text(path, self._core.page())

    def trace(self, path: str | os.PathLike[str]) -> None:
        """Writes a Chrome trace (about:tracing, Perfetto), a thread for each device and link."""
        write_text(path, self._core.trace())

    def svg(self) -> str:
        """Lanes and memory of each device over time, as a picture."""
        return self._core.svg()

    def csv(self) -> str:
        """Runs by op and device, copies by tensor and link, with what they take."""
        return self._core.csv()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DeviceSchedule) and (other is self or other._contents == self._contents)

    __hash__ = BaseSchedule.__hash__

    def __repr__(self) -> str:
        if not self:
            return f"<DeviceSchedule of {self.graph.name!r}: {self.status}>"
        peaks = ", ".join(f"{name} {_engine.bytes_text(peak)}" for name, peak in self.peak.items())
        duration = _engine.duration_text(self.duration, device_core_of(self.graph).unit)
        return f"<DeviceSchedule of {self.graph.name!r}: {self.status}, {duration}; {peaks}>"

    def __reduce__(self) -> tuple[Any, ...]:
        return DeviceSchedule.from_json, (self.to_json(), self.graph)


def _made(core: _engine.DeviceSchedule, graph: DeviceGraph) -> DeviceSchedule:
    schedule = DeviceSchedule.__new__(DeviceSchedule)
    schedule._core = core
    schedule.graph = graph
    return schedule


def device_schedule_core_of(schedule: DeviceSchedule) -> _engine.DeviceSchedule:
    """The engine's schedule, or TypeError for what is none."""
    if isinstance(schedule, DeviceSchedule):
        return schedule._core
    raise TypeError(f"schedule: must be a remora.DeviceSchedule, not {type(schedule).__name__}")


def solve_devices(
    graph: DeviceGraph,
    budget: Mapping[str, Budget],
    texts: list[tuple[str, str]],
    *,
    order: str | None,
    max_computes: SupportsIndex | None,
    objective: str | None,
    copies: str | None,
    duration_limit: SupportsIndex | None,
    energy_limit: SupportsIndex | None,
    warm_start: DeviceSchedule | None,
    display: Display,
    on_incumbent: Callable[[DeviceSchedule], object] | None,
    on_progress: Callable[[Progress], object] | None,
    stop: threading.Event | None,
) -> DeviceSchedule:
    """`remora.solve` of a graph over several devices."""
    if not isinstance(budget, Mapping):
        raise TypeError(f"budget: must be a mapping of devices to budgets, not {type(budget).__name__}")
    names = device_names(graph)
    for name in budget:
        if string(name, "budget") not in names:
            raise InputError("budget", f"the graph has no device {name!r}")
    core, interruption = _engine.solve_devices(
        device_core_of(graph),
        [budget_text(budget[name], f"budget[{name!r}]") if name in budget else None for name in names],
        _one_of("objective", objective, "duration", "energy") == "energy",
        None if copies is None else _one_of("copies", copies, "sequential", "overlap") == "overlap",
        _one_of("order", order, "input", "free") == "free",
        count(max_computes, "max_computes"),
        None if duration_limit is None else integer(duration_limit, "duration_limit"),
        None if energy_limit is None else integer(energy_limit, "energy_limit"),
        texts,
        _start(graph, warm_start),
        *solve_telling(display, on_incumbent, lambda found: _made(found, graph), on_progress),
        stop_of(stop),
    )
    schedule = _made(core, graph)
    display.finish(device_schedule_line(schedule))
    interrupt(interruption, schedule if schedule else None)
    if schedule:
        return schedule
    what = "no schedule holds the budgets" if schedule.status == "infeasible" else "no schedule was found"
    raise NoDeviceSchedule(f"{what}: {core.note}" if core.note else what, schedule)


def _one_of(place: str, given: str | None, *known: str) -> str:
    if given is None:
        return known[0]
    if given not in known:
        words = " or ".join(map(repr, known))
        raise InputError(place, f"must be {words} of a graph over several devices, not {given!r}")
    return given


def _start(graph: DeviceGraph, warm_start: DeviceSchedule | None) -> _engine.DeviceSchedule | None:
    if warm_start is None:
        return None
    if not isinstance(warm_start, DeviceSchedule):
        raise TypeError(f"warm_start: must be a remora.DeviceSchedule, not {type(warm_start).__name__}")
    if not warm_start:
        raise InputError("warm_start", "holds no schedule to start from")
    same = warm_start if warm_start.graph is graph else DeviceSchedule.from_json(warm_start.to_json(), graph)
    return same._core
