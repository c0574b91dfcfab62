# SPDX-License-Identifier: Apache-2.0
"""The plan of a captured step: its schedule, its predicted peak and time, and its file."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field, fields
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import remora

if TYPE_CHECKING:
    from .carry.arena import Memory


@dataclass
class Plan:
    """What was planned for one captured graph.

    Attributes
    ----------
    found : remora.Schedule
        What the engine found.
    predicted_peak, unscheduled_peak : int
        Bytes: of the schedule, and of every op once in captured order; with what is there throughout.
    seconds : dict
        What the parts of planning took.
    source : str
        The generated program.
    outside : int
        Bytes of `fixed_memory` for results that lie outside the arena; 0 without `arena=True`.
    checkpoints : int
        The model's own activation checkpoints, which are taken out: the schedule decides what is made again.
    memory : Memory or None
        The block that holds the step's tensors, with `arena=True`; it is not saved.
    """

    found: remora.Schedule
    predicted_peak: int
    unscheduled_peak: int
    budget: int
    seconds: dict[str, float] = field(default_factory=dict)
    source: str = ""
    outside: int = 0
    checkpoints: int = 0
    memory: Memory | None = field(default=None, repr=False, compare=False)

    @cached_property
    def graph(self) -> dict[str, Any]:
        """In the format `remora-graph`."""
        return json.loads(self.found.graph.to_json())  # type: ignore[no-any-return]

    @cached_property
    def schedule(self) -> dict[str, Any]:
        """In the format `remora-schedule`."""
        return json.loads(self.found.to_json())  # type: ignore[no-any-return]

    @property
    def fixed_memory(self) -> int:
        """Bytes that are there throughout, part of both peaks."""
        return self.found.graph.fixed_memory

    @property
    def predicted_time(self) -> int:
        """Nanoseconds of the schedule."""
        return self.found.duration

    @property
    def unscheduled_time(self) -> int:
        """Nanoseconds of every op once."""
        return self.found.baseline_duration

    @property
    def bound(self) -> int:
        """Nanoseconds that no schedule under the budget undercuts."""
        return self.found.bound

    @property
    def arena(self) -> int:
        """The bytes of the block that holds the step's tensors; 0 without `arena=True`."""
        return self.found.arena.size if self.found.arena else 0

    @property
    def overhead(self) -> float:
        """Time beyond the unscheduled step's, as a share of that."""
        return self.found.overhead

    @property
    def recomputes(self) -> int:
        """How many steps of the schedule run an op again."""
        return sum(self.found.recomputes.values())

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the plan as one JSON file."""
        Path(path).write_text(json.dumps(self.to_json()), encoding="utf-8")

    def to_json(self) -> dict[str, Any]:
        """The plan as an object of JSON."""
        return {name: getattr(self, name) for name in ("graph", "schedule", *_SAVED)}

    @staticmethod
    def load(path: str | os.PathLike[str]) -> Plan:
        """Reads what `save` wrote."""
        return Plan.from_json(json.loads(Path(path).read_text(encoding="utf-8")))

    @staticmethod
    def from_json(kept: dict[str, Any]) -> Plan:
        """Reads what `to_json` gave."""
        found = remora.Schedule.from_json(json.dumps(kept["schedule"]), remora.Graph.from_json(kept["graph"]))
        return Plan(found, **{name: kept[name] for name in _SAVED})

    def report(self, path: str | os.PathLike[str]) -> None:
        """Writes the HTML page that explains the schedule."""
        self.found.report(path)

    def __str__(self) -> str:
        least = self.bound / max(1, self.unscheduled_time) - 1
        instead = f", in place of {self.checkpoints} checkpoints of the model" if self.checkpoints else ""
        return (
            f"{len(self.found.graph)} ops, {self.recomputes} recomputes: peak {self.predicted_peak:,} bytes of "
            f"{self.budget:,} ({self.unscheduled_peak:,} unscheduled), time {self.overhead:+.2%}, bound {least:+.2%}"
            f"{instead}"
        )


_SAVED = tuple(f.name for f in fields(Plan) if f.name not in ("found", "memory"))


# -- Names of ops ------------------------------------------------------------------------------------------------------
