# SPDX-License-Identifier: Apache-2.0
"""A plan: what was decided for a step, its figures, and its file."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field, fields
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import remora
from remora import display
from remora._arguments import write_text
from remora._engine import bytes_text, part_of_peak_text
from remora.errors import InputError

from .store import digest

FORMAT = "remora-plan"
P = TypeVar("P", bound="Plan")


@dataclass(frozen=True)
class Choice:
    """The choice for a module: it is checkpointed, or its saved tensors are offloaded.

    Attributes
    ----------
    save : tuple of (str, int)
        Ops whose results the checkpoint keeps: "aten.mm.default", and which of the call's.
    offload : bool
        The saved tensors are copied to the CPU's memory and back instead; nothing runs again.
    """

    save: tuple[tuple[str, int], ...] = ()
    offload: bool = False


@dataclass(kw_only=True)
class Plan:
    """Figures of a decision for a step; what was decided is one of the classes below.

    Attributes
    ----------
    budget : int
        Bytes, less what is reserved; 0 of a plan without figures, which somebody wrote.
    fixed_memory : int
        Bytes that are always allocated, part of the budget and of all peaks.
    unscheduled_peak, predicted_peak, measured_peak : int
        Bytes: of the step as it is, which a percentage refers to; of the plan; and when it ran, 0 if it did not.
    whole : str
        Which step that is: "the captured step".
    unscheduled_time, predicted_time, measured_time : int
        Nanoseconds of the same. Of a pipeline, all stages compute; what is sent is left out.
    bound : int
        Nanoseconds that no plan within the budget undercuts, as far as predictions go.
    peaks : list of int
        Measured bytes of each process of a job; the other figures are for the largest.
    seconds : dict
        Time of each part of planning.
    """

    budget: int = 0
    fixed_memory: int = 0
    unscheduled_peak: int = 0
    whole: str = "the step without a plan"
    predicted_peak: int = 0
    measured_peak: int = 0
    unscheduled_time: int = 0
    predicted_time: int = 0
    measured_time: int = 0
    bound: int = 0
    peaks: list[int] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)

    @property
    def promised(self) -> bool:
        """True if the predicted peak is within the budget."""
        return self.predicted_peak <= self.budget

    @property
    def digest(self) -> str:
        """SHA-256 of the plan without the times of this process; equal on all processes of a job."""
        return digest({n: v for n, v in self.document().items() if n not in ("measured_time", "seconds")})

    @property
    def overhead(self) -> float:
        """Predicted time beyond that of the step as it is, as a share of that."""
        return self.predicted_time / self.unscheduled_time - 1 if self.unscheduled_time else 0.0

    # -- The file --

    def to_json(self) -> str:
        """The plan's file; a module that is checkpointed entirely is just its name there."""
        return json.dumps(self.document(), indent=None if isinstance(self, SchedulePlan) else 1) + "\n"

    def document(self) -> dict[str, Any]:
        """The plan as an object of JSON, without what is empty."""
        value = {f.name: getattr(self, f.name) for f in fields(self) if f.name in _PLAIN}
        return {"format": FORMAT, "version": 1, **{n: v for n, v in value.items() if v}, **self._decided()}

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes `to_json` into a file."""
        write_text(path, self.to_json())

    @classmethod
    def load(cls: type[P], path: str | os.PathLike[str]) -> P:
        """Reads a file."""
        return cls.from_json(Path(path).read_text(encoding="utf-8"))

    @classmethod
    def from_json(cls: type[P], text: str) -> P:
        """Reads what `to_json` wrote, or a list of names.

        Raises
        ------
        InputError
            If it is something else, or another kind of plan.
        """
        value = json.loads(text)
        if isinstance(value, list):
            return cls.read({"modules": value})
        if not isinstance(value, dict) or value.get("format") != FORMAT or value.get("version") != 1:
            raise InputError("format", f"must be {FORMAT}, version 1, or a list of names")
        return cls.read(value)

    @classmethod
    def read(cls: type[P], value: dict[str, Any]) -> P:
        """Reads what `document` gave."""
        return _of_kind(_read(value), cls)

    def _decided(self) -> dict[str, Any]:
        """Fields that JSON has in another form, by their names there."""
        raise NotImplementedError

    def _repr_html_(self) -> str:
        return display.framed(str(self), "")

    def __str__(self) -> str:
        if not self.budget:
            return f"{self._text()}{self._times()}"
        ran = f", measured {bytes_text(self.measured_peak)}" if self.measured_peak else ""
        share = part_of_peak_text(self.budget, self.fixed_memory, self.unscheduled_peak)
        whole = f"100 % is the peak of {self.whole}, {bytes_text(self.unscheduled_peak)}"
        return (
            f"{self._text()}: peak {bytes_text(self.predicted_peak)}{ran}, budget {bytes_text(self.budget)} "
            f"({share}; {whole}){self._times()}"
        )

    def _text(self) -> str:
        """The decision, in a few words."""
        raise NotImplementedError

    def _times(self) -> str:
        """The times: extra, measured and bound."""
        if not self.unscheduled_time:
            return ""
        bound = f", bound {self.bound / self.unscheduled_time - 1:+.2%}" if self.bound else ""
        return f"; time {self._overhead()}{self._measured()}{bound}"

    def _overhead(self) -> str:
        return f"{self.overhead:+.2%}"

    def _measured(self) -> str:
        return f", measured {self.measured_time / 1e6:.1f} ms" if self.measured_time else ""


@dataclass
class CheckpointPlan(Plan):
    """A choice for modules of a model.

    Attributes
    ----------
    modules : dict of str to Choice
        Modules that are checkpointed or offloaded, by their names in `named_modules`.
    buffers : list of str
        Buffers that the forward changes: a second run finds their old values, and does not change them again.
    excluded : dict of str to str
        Modules that cannot be checkpointed, and why.
    reshard : dict of str to bool
        By the name of each module that was given to FSDP2's `fully_shard`, the root ("") among them where it has
        parameters of its own: whether its gathered parameters are freed after its forward, and gathered again in the
        backward. Empty for a model that is not sharded.
    slices : dict of str to int
        Modules that run in so many slices; of a linear layer, its product and the loss that reads it.
    """

    modules: dict[str, Choice] = field(default_factory=dict)
    buffers: list[str] = field(default_factory=list)
    excluded: dict[str, str] = field(default_factory=dict)
    reshard: dict[str, bool] = field(default_factory=dict)
    slices: dict[str, int] = field(default_factory=dict)

    @staticmethod
    def of(given: Plan | str | os.PathLike[str] | Sequence[str]) -> CheckpointPlan:
        """A plan, one from a file, or one that checkpoints modules of these names."""
        if isinstance(given, (str, os.PathLike)):
            return CheckpointPlan.load(given)
        if isinstance(given, Plan):
            return _of_kind(given, CheckpointPlan)
        return CheckpointPlan({name: Choice() for name in given})

    def _decided(self) -> dict[str, Any]:
        return {"modules": [_row(name, choice) for name, choice in self.modules.items()]}

    def _text(self) -> str:
        words = [
            "offloaded" if c.offload else "with results kept" if c.save else "checkpointed"
            for c in self.modules.values()
        ]
        parts = [f"{count} {word}" for word, count in sorted(Counter(words).items())]
        resharded = f"; {sum(self.reshard.values())} of {len(self.reshard)} units resharded" if self.reshard else ""
        sliced = f"; {len(self.slices)} in up to {max(self.slices.values())} slices" if self.slices else ""
        return f"modules: {', '.join(parts) or 'none checkpointed'}{sliced}{resharded}"


@dataclass
class StagesPlan(Plan):
    """The plans of a pipeline's stages."""

    stages: list[CheckpointPlan] = field(default_factory=list)

    def _decided(self) -> dict[str, Any]:
        return {"stages": [stage.document() for stage in self.stages]}

    def _text(self) -> str:
        return "; ".join(f"stage {i}: {stage}" for i, stage in enumerate(self.stages))


@dataclass
class PartitionPlan(Plan):
    """The two parts into which Inductor cuts a joint graph, in bytes."""

    # forward_peak, backward_peak: of each part
    forward_peak: int
    backward_peak: int
    saved_bytes: int  # what the forward part saves for the backward part, beyond the arguments
    # what autograd keeps of what ran before this graph, part of the budget and of all peaks. 0 where the budget is a
    # percentage: that is of each graph's own.
    held_before: int = 0
    # gradients that graphs compiled after this one have left when its backward part runs; part of that one's peak
    later_gradients: int = 0
    slices: int = 0  # the largest number of slices in which a part of the graph is computed; 0 if none is
    sizes: str = ""  # up to which sizes it is planned, where they vary: "tokens.shape[1] up to 192"
    estimated: bool = False  # whether a time is an estimate, as kernels of Inductor's own partition were not compiled

    def _decided(self) -> dict[str, Any]:
        return {"partition": {f.name: getattr(self, f.name) for f in fields(self) if f.name not in _PLAIN}}

    def _text(self) -> str:
        missed = "" if self.promised else "BUDGET NOT MET: "
        sizes = f", {self.sizes}" if self.sizes else ""
        return f"{missed}{bytes_text(self.saved_bytes)} saved by the forward part{_slices_text(self.slices)}{sizes}"

    def _times(self) -> str:
        # The time of a partition that does not meet its budget is no overhead of meeting it.
        return super()._times() if self.promised else ""

    def _overhead(self) -> str:
        return f"about {self.overhead:+.0%}" if self.estimated else super()._overhead()

    def _measured(self) -> str:
        took = super()._measured()
        if not took or not self.predicted_time:
            return took
        ratio = self.measured_time / self.predicted_time
        return f", kernels {self.predicted_time / 1e6:.1f} ms{took} ({ratio:.0%})"


@dataclass
class SchedulePlan(Plan):
    """The schedule of a captured step.

    Attributes
    ----------
    found : Schedule
        `graph` and `schedule` have it in Remora's formats.
    outside : int
        Bytes of `fixed_memory` for results that lie outside the arena; 0 without `arena=True`.
    checkpoints : int
        The model's own activation checkpoints, which are taken out: the schedule decides what is recomputed.
    slices : int
        The largest number of slices in which a part of the step is computed; 0 if none is.
    sizes : str
        For which sizes the schedule runs, where a step is captured once for many: "tokens.shape[1]: 128 to 1,900".
    source : str
        The generated program.
    memory : Memory or None
        The block that holds the step's tensors, with `arena=True`; it is not saved.
    """

    found: remora.Schedule
    outside: int = 0
    checkpoints: int = 0
    slices: int = 0
    sizes: str = ""
    source: str = ""
    memory: Any = field(default=None, repr=False, compare=False)

    @staticmethod
    def of(found: remora.Schedule, **figures: Any) -> SchedulePlan:
        """The plan of a captured step, with the figures of its schedule."""
        times = {"predicted_time": found.duration, "unscheduled_time": found.baseline_duration, "bound": found.bound}
        return SchedulePlan(found, **{"fixed_memory": found.graph.fixed_memory, **times, **figures})

    @cached_property
    def graph(self) -> dict[str, Any]:
        """In the format `remora-graph`."""
        return json.loads(self.found.graph.to_json())  # type: ignore[no-any-return]

    @cached_property
    def schedule(self) -> dict[str, Any]:
        """In the format `remora-schedule`."""
        return json.loads(self.found.to_json())  # type: ignore[no-any-return]

    @property
    def arena(self) -> int:
        """Bytes of the block that holds the step's tensors; 0 without `arena=True`."""
        return self.found.arena.size if self.found.arena else 0

    @property
    def recomputes(self) -> int:
        """How many steps of the schedule run an op again."""
        return sum(self.found.recomputes.values())

    def report(self, path: str | os.PathLike[str]) -> None:
        """Writes the HTML page that explains the schedule."""
        self.found.report(path)

    def _decided(self) -> dict[str, Any]:
        return {"graph": self.graph, "schedule": self.schedule}

    def _repr_html_(self) -> str:
        return display.framed(str(self), self.found.svg())

    def _text(self) -> str:
        instead = f" in place of {self.checkpoints} checkpoints of the model" if self.checkpoints else ""
        return f"{len(self.found.graph)} ops, {self.recomputes} recomputes{_slices_text(self.slices)}{instead}"


def _slices_text(slices: int) -> str:
    return f", parts in up to {slices} slices" if slices else ""


class Plans(list[SchedulePlan]):
    """Plans of a step; as text, what happens at which sizes, and what a plan for each size could save.

    Attributes
    ----------
    expected : list of Expected of `decide.lengths`
        Of each step whose sizes vary.
    """

    def __init__(self, plans: Iterable[SchedulePlan] = (), expected: Iterable[Any] = ()) -> None:
        super().__init__(plans)
        self.expected = list(expected)

    def __str__(self) -> str:
        return "\n".join([*map(_line, self), *map(str, self.expected)])


def _line(plan: SchedulePlan) -> str:
    bound = f" (bound {plan.bound / plan.unscheduled_time - 1:+.1%})" if plan.bound and plan.unscheduled_time else ""
    made = f"{plan.recomputes} recomputes, {plan.overhead:+.1%}{bound}" if plan.recomputes else "nothing recomputed"
    peak = f"{bytes_text(plan.predicted_peak)} of {bytes_text(plan.budget)}"
    return f"{plan.sizes or f'{len(plan.found.graph)} ops'}: {made}, {peak}"


_PLAIN = {f.name for kind in (CheckpointPlan, SchedulePlan) for f in fields(kind)} - {"modules", "found", "memory"}
"""Fields that JSON has as they are."""


def _of_kind(found: Plan, kind: type[P]) -> P:
    if not isinstance(found, kind):
        raise InputError("plan", f"is a {type(found).__name__}, not a {kind.__name__}")
    return found


def _read(value: dict[str, Any]) -> Plan:
    known = {name: given for name, given in value.items() if name in _PLAIN}
    if "schedule" in value:
        graph = remora.Graph.from_json(value["graph"])
        return SchedulePlan(remora.Schedule.from_json(json.dumps(value["schedule"]), graph), **known)
    if "partition" in value:
        return PartitionPlan(**value["partition"], **known)
    if "stages" in value:
        return StagesPlan([CheckpointPlan.read(stage) for stage in value["stages"]], **known)
    reshard = value.get("reshard", {})
    if not isinstance(reshard, dict) or not all(isinstance(again, bool) for again in reshard.values()):
        raise InputError("reshard", "must say true or false of each sharded module")
    rows = enumerate(value.get("modules", []))
    slices = value.get("slices", {})
    if not isinstance(slices, dict) or not all(isinstance(n, int) and n > 0 for n in slices.values()):
        raise InputError("slices", "must give each module its number of slices")
    return CheckpointPlan(dict(_choice(row, f"modules[{i}]") for i, row in rows), **known)


def _row(name: str, choice: Choice) -> Any:
    found = {key: value for key, value in asdict(choice).items() if value}
    return {"name": name, **found} if found else name


def _choice(row: Any, place: str) -> tuple[str, Choice]:
    if isinstance(row, str):
        return row, Choice()
    if not isinstance(row, dict) or not isinstance(row.get("name"), str):
        raise InputError(place, "must be a module's name, or an object with its name")
    save = tuple((str(op), int(number)) for op, number in row.get("save", []))
    if save and row.get("offload"):
        raise InputError(place, "saves ops or is offloaded, not both")
    return row["name"], Choice(save, bool(row.get("offload")))
