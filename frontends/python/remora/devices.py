# SPDX-License-Identifier: Apache-2.0
"""Graphs over several devices and their schedules: where ops run, at what cost, and what is copied when."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

from remora import _engine
from remora._arguments import json_bytes, read_file, write_text
from remora.graph import Graph
from remora.schedule import BaseSchedule

__all__ = ["Device", "DeviceGraph", "DeviceSchedule", "DeviceStep", "load_graph"]


@dataclass(frozen=True)
class Device:
    """A place where tensors lie, and where ops may run.

    Attributes
    ----------
    name : str
    fixed_memory : int
        Bytes that are always resident there.
    ops : int
        How many ops can run there; 0 of a store.
    """

    name: str
    fixed_memory: int
    ops: int

    @property
    def is_store(self) -> bool:
        """True if nothing can run there."""
        return self.ops == 0


class DeviceGraph:
    """A graph over several devices, from a file (docs/reference/formats.md) or `remora convert --devices`.

    It does not change.

    Examples
    --------
    >>> import remora
    >>> g = remora.DeviceGraph.from_json({
    ...     "format": "remora-graph", "version": 2, "name": "two", "devices": [{"name": "gpu"}, {"name": "host"}],
    ...     "links": [{"from": "gpu", "to": "host", "bytes": 1, "per": 1}],
    ...     "tensors": [{"name": "a", "size": 2}, {"name": "b", "size": 3}, {"name": "c", "size": 2, "keep": True}],
    ...     "ops": [{"name": "A", "duration": 9, "inputs": [], "outputs": ["a"]},
    ...             {"name": "B", "duration": 1, "inputs": ["a"], "outputs": ["b"]},
    ...             {"name": "C", "duration": 1, "inputs": ["b"], "outputs": ["c"]}]})
    >>> s = remora.solve(g, {"gpu": 5})
    >>> s.status, s.duration, s.peak
    ('optimal', 11, {'gpu': 5, 'host': 0})
    """

    __slots__ = ("__weakref__", "_core")
    _core: _engine.DeviceGraph

    def __init__(self) -> None:
        raise TypeError("graphs over several devices are made by DeviceGraph.load() and DeviceGraph.from_json()")

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> DeviceGraph:
        """Reads a remora-graph 2 that names devices.

        Raises
        ------
        InputError
            With the file and the path of the first fault inside it.
        OSError
            If the file cannot be read.
        """
        return read_file(path, cls.from_json)

    @classmethod
    def from_json(cls, source: str | bytes | Mapping[str, Any]) -> DeviceGraph:
        """The graph in the text of a file, or in a dict as `json.load` gives it."""
        graph = cls.__new__(cls)
        graph._core = _engine.DeviceGraph.read(json_bytes(source))
        return graph

    def to_json(self) -> str:
        """The text of the graph's file."""
        return self._core.write()

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the graph as remora-graph JSON, whole or not at all."""
        write_text(path, self.to_json())

    @property
    def name(self) -> str:
        """As the file has it; may be empty."""
        return self._core.name

    @property
    def devices(self) -> tuple[Device, ...]:
        """In the order of the file; the first is the default."""
        return tuple(Device(*row) for row in self._core.devices)

    @property
    def links(self) -> tuple[tuple[str, str], ...]:
        """From which device to which one something can be copied."""
        names = device_names(self)
        return tuple((names[source], names[to]) for source, to in self._core.links)

    @property
    def ops(self) -> tuple[str, ...]:
        """Names, in input order."""
        return tuple(self._core.ops)

    @property
    def tensors(self) -> tuple[str, ...]:
        """Names."""
        return tuple(self._core.tensors)

    def __len__(self) -> int:
        return len(self._core.ops)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DeviceGraph) and (other is self or self.to_json() == other.to_json())

    def __hash__(self) -> int:
        return hash((self.name, len(self)))

    def __repr__(self) -> str:
        return f"<DeviceGraph {self.name!r}: {len(self)} ops over {', '.join(device_names(self))}>"

    def __reduce__(self) -> tuple[Any, ...]:
        return DeviceGraph.from_json, (self.to_json(),)


def load_graph(path: str | os.PathLike[str]) -> Graph | DeviceGraph:
    """Reads a graph file: a `DeviceGraph` if it names devices, otherwise a `Graph`.

    Raises
    ------
    InputError
        With the file and the path of the first fault inside it.
    OSError
        If the file cannot be read.
    """

    def read(content: bytes) -> Graph | DeviceGraph:
        return DeviceGraph.from_json(content) if _engine.names_devices(content) else Graph.from_json(content)

    return read_file(path, read)


def device_core_of(graph: DeviceGraph) -> _engine.DeviceGraph:
    """The engine's graph, or TypeError for what is none."""
    if isinstance(graph, DeviceGraph):
        return graph._core
    raise TypeError(f"graph: must be a remora.DeviceGraph, not {type(graph).__name__}")


def device_names(graph: DeviceGraph) -> list[str]:
    """The names of its devices, in the order of the file."""
    return [name for name, _, _ in graph._core.devices]


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


class DeviceSchedule(BaseSchedule[DeviceGraph, DeviceStep]):
    """The answer to a solve of a `DeviceGraph`. Made by `solve` and `load`."""

    _core: _engine.DeviceSchedule

    @staticmethod
    def _read(graph: Any, text: bytes) -> _engine.DeviceSchedule:
        return _engine.DeviceSchedule.read(device_core_of(graph), text)

    @property
    def objective(self) -> Literal["duration", "energy"]:
        """The quantity that was minimised."""
        return "energy" if self._core.least_energy else "duration"

    @property
    def copied(self) -> Literal["sequential", "overlap"]:
        """``"overlap"`` if copies run concurrently with computation, otherwise ``"sequential"``."""
        return "overlap" if self._core.overlap else "sequential"

    @property
    def budget(self) -> dict[str, int]:
        """Bytes by device; devices without a limit are not in it."""
        names = device_names(self.graph)
        return {name: bytes for name, bytes in zip(names, self._core.budget, strict=True) if bytes is not None}

    @property
    def energy(self) -> int:
        """The energy of all steps."""
        return self._core.energy

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
            for op, tensor, device, to, free in self._core.steps
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

    def __repr__(self) -> str:
        if not self:
            return f"<DeviceSchedule of {self.graph.name!r}: {self.status}>"
        peaks = ", ".join(f"{name} {_engine.bytes_text(peak)}" for name, peak in self.peak.items())
        duration = _engine.duration_text(self.duration, device_core_of(self.graph).unit)
        return f"<DeviceSchedule of {self.graph.name!r}: {self.status}, {duration}; {peaks}>"


def device_schedule_core_of(schedule: DeviceSchedule) -> _engine.DeviceSchedule:
    """The engine's schedule, or TypeError for what is none."""
    if isinstance(schedule, DeviceSchedule):
        return schedule._core
    raise TypeError(f"schedule: must be a remora.DeviceSchedule, not {type(schedule).__name__}")
