# SPDX-License-Identifier: Apache-2.0
"""Which modules of a model are checkpointed, what that takes, and its file."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from remora._engine import bytes_text
from remora.errors import InputError

from .store import digest

FORMAT = "remora-checkpoints"


@dataclass
class Figures:
    """What a plan takes, in bytes and seconds; all of it for the batch that it was made for.

    Attributes
    ----------
    budget : int
        With all that is there throughout, as every peak here.
    fixed : int
        What is there throughout: parameters, buffers, the step's arguments, and what was reserved.
    eager_peak, predicted_peak, measured_peak : int
        Of the step as it was; of the plan, by a replay of the step; of the plan, when it ran.
    eager_seconds, predicted_seconds, measured_seconds : float
        The same of a step's forward and backward.
    bound_seconds : float
        No plan of the family takes less, as far as predictions go.
    """

    budget: int = 0
    fixed: int = 0
    eager_peak: int = 0
    predicted_peak: int = 0
    measured_peak: int = 0
    eager_seconds: float = 0.0
    predicted_seconds: float = 0.0
    measured_seconds: float = 0.0
    bound_seconds: float = 0.0


@dataclass
class CheckpointPlan:
    """Which modules are checkpointed.

    Attributes
    ----------
    modules : dict of str to Choice
        By the module's name, as `named_modules` has it.
    buffers : list of str
        Buffers that the forward changes: a second run finds their old values, and does not change them again.
    figures : Figures or None
        None of a plan that was written by hand.
    excluded : dict of str to str
        Modules that cannot be checkpointed, and why.
    reshard : dict of str to bool
        By the name of each module that was given to FSDP2's `fully_shard`, the root ("") among them where it has
        parameters of its own: whether its gathered parameters are freed after its forward, and gathered again in the
        backward. Empty for a model that is not sharded.
    peaks : list of int
        Measured bytes, of each process; `figures` are for the process with the largest.
    """

    modules: dict[str, Choice]
    buffers: list[str] = field(default_factory=list)
    figures: Figures | None = None
    excluded: dict[str, str] = field(default_factory=dict)
    reshard: dict[str, bool] = field(default_factory=dict)
    peaks: list[int] = field(default_factory=list)

    @property
    def digest(self) -> str:
        """SHA-256 of the plan; equal on all processes of a job."""
        return digest(self.to_json())

    @staticmethod
    def of(given: CheckpointPlan | str | Sequence[str]) -> CheckpointPlan:
        """A plan from what `apply_checkpoints` takes."""
        if isinstance(given, CheckpointPlan):
            return given
        if isinstance(given, (str, Path)):
            return CheckpointPlan.load(given)
        return CheckpointPlan({name: Choice() for name in given})

    def to_json(self) -> str:
        """The plan's file: its modules are just names, where they are checkpointed whole."""
        value: dict[str, Any] = {"format": FORMAT, "version": 1}
        value["modules"] = [_row(name, choice) for name, choice in self.modules.items()]
        value |= {"buffers": self.buffers, "excluded": self.excluded, "peaks": self.peaks}
        if self.reshard:
            value["reshard"] = self.reshard
        if self.figures is not None:
            value["figures"] = asdict(self.figures)
        return json.dumps(value, indent=1) + "\n"

    def save(self, path: str | Path) -> None:
        """Writes `to_json` into a file."""
        Path(path).write_text(self.to_json(), encoding="utf-8")

    @staticmethod
    def from_json(text: str) -> CheckpointPlan:
        """Reads what `to_json` wrote, or a list of names."""
        value = json.loads(text)
        if isinstance(value, list):
            value = {"format": FORMAT, "version": 1, "modules": value}
        if not isinstance(value, dict) or value.get("format") != FORMAT or value.get("version") != 1:
            raise InputError("format", f"must be {FORMAT}, version 1, or a list of names")
        figures = Figures(**value["figures"]) if value.get("figures") else None
        modules = dict(_choice(row, f"modules[{i}]") for i, row in enumerate(value.get("modules", [])))
        reshard = value.get("reshard", {})
        if not isinstance(reshard, dict) or not all(isinstance(again, bool) for again in reshard.values()):
            raise InputError("reshard", "must say true or false of each sharded module")
        rest = value.get("excluded", {}), reshard, value.get("peaks", [])
        return CheckpointPlan(modules, value.get("buffers", []), figures, *rest)

    @staticmethod
    def load(path: str | Path) -> CheckpointPlan:
        """Reads a file."""
        return CheckpointPlan.from_json(Path(path).read_text(encoding="utf-8"))

    def __str__(self) -> str:
        whole = sum(not c.save and not c.offload for c in self.modules.values())
        parts = [
            f"{count} {word}"
            for count, word in (
                (whole, "checkpointed"),
                (sum(bool(c.save) for c in self.modules.values()), "with results kept"),
                (sum(c.offload for c in self.modules.values()), "offloaded"),
            )
            if count
        ]
        said = ", ".join(parts) or "none checkpointed"
        if self.reshard:
            said += f"; {sum(self.reshard.values())} of {len(self.reshard)} units resharded"
        f = self.figures
        if f is None:
            return f"modules: {said}"
        bound = f.bound_seconds / f.eager_seconds - 1
        return (
            f"modules: {said}; peak {bytes_text(f.measured_peak)}, predicted {bytes_text(f.predicted_peak)}, eager "
            f"{bytes_text(f.eager_peak)}, budget {bytes_text(f.budget)}; {f.measured_seconds * 1e3:.1f} ms, predicted "
            f"{f.predicted_seconds * 1e3:.1f} ({100 * (f.predicted_seconds / f.eager_seconds - 1):+.1f} %, no plan of "
            f"the family below {100 * bound:+.1f} %), eager {f.eager_seconds * 1e3:.1f}"
        )


def _row(name: str, choice: Choice) -> Any:
    if choice.offload:
        return {"name": name, "offload": True}
    return {"name": name, "save": [list(op) for op in choice.save]} if choice.save else name


def _choice(row: Any, place: str) -> tuple[str, Choice]:
    if isinstance(row, str):
        return row, Choice()
    if not isinstance(row, dict) or not isinstance(row.get("name"), str):
        raise InputError(place, "must be a module's name, or an object with its name")
    save = tuple((str(op), int(number)) for op, number in row.get("save", []))
    if save and row.get("offload"):
        raise InputError(place, "saves ops or is offloaded, not both")
    return row["name"], Choice(save, bool(row.get("offload")))


@dataclass(frozen=True)
class Choice:
    """What is done with a module: it is checkpointed, or what it saves is offloaded.

    Attributes
    ----------
    save : tuple of (str, int)
        Ops whose results the checkpoint keeps: "aten.mm.default", and which of the call's.
    offload : bool
        The saved tensors are copied to the CPU's memory and back instead; nothing runs again.
    """

    save: tuple[tuple[str, int], ...] = ()
    offload: bool = False
