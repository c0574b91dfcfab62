# SPDX-License-Identifier: Apache-2.0
"""Graphs over several devices: which there are, how they are linked, what ops take on each."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from remora import _engine
from remora._arguments import json_bytes, read_file, write_text
from remora.graph import Graph

__all__ = ["Device", "DeviceGraph", "load_graph"]


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
        """Whether nothing can run there."""
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
    """Reads a graph file: a `DeviceGraph` where it names devices, else a `Graph`.

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
