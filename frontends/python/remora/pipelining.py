# SPDX-License-Identifier: Apache-2.0
"""Pipelines: how each stage of a training pipeline runs its microbatches (docs/guide/pipeline.md)."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, SupportsIndex

from remora import _engine
from remora._arguments import Budget, budget_text, count, file_path, integer, read_file, string, write_text
from remora.calls import interrupt, stop_of
from remora.errors import InputError
from remora.graph import Graph, core_of, listed
from remora.limits import LIMITS, Limits, option_texts
from remora.schedule import Status

if TYPE_CHECKING:
    import threading

    from typing_extensions import Unpack

    from remora.limits import LimitWords

__all__ = ["DeviceNeed", "PipelinePlan", "PipelineTask", "Stage", "StageMode", "load_stage", "pipeline"]

PipelineOrder = Literal["gpipe", "1f1b", "interleaved", "zero-bubble"]
"""Who runs what when: Huang et al. 2019; Narayanan et al. 2021 (both of the middle); Qi et al. 2024 (ZB-H1)."""


@dataclass(frozen=True)
class StageMode:
    """A way to run one microbatch through a stage. Times are in any one unit for all stages.

    Attributes
    ----------
    name : str
    forward, backward : int
        Time of both parts; recomputes belong to the backward part.
    saved : int
        Bytes from the start of the forward task to the end of the backward task.
    weight_gradient : int
        Time of the gradients of weights: a task of its own in a zero-bubble schedule, otherwise a part of the backward
        task.
    held : int
        Bytes from the end of the backward task to the end of the weight gradients', where that is a task of its own.
    forward_transient, backward_transient, weight_transient : int
        Additional bytes while the task runs. A backward task that includes the weight gradients needs the larger of the
        last two.
    """

    name: str
    forward: int
    backward: int
    saved: int
    weight_gradient: int = 0
    held: int = 0
    forward_transient: int = 0
    backward_transient: int = 0
    weight_transient: int = 0


@dataclass(frozen=True)
class Stage:
    """A stage of a pipeline and its ways to run a microbatch.

    Attributes
    ----------
    name : str
    modes : sequence of StageMode
        At least one, the fastest first.
    fixed_memory : int
        Bytes always in use: parameters, gradients, optimizer state.
    """

    name: str
    modes: Sequence[StageMode]
    fixed_memory: int = 0

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes it as `remora-stage` (docs/guide/pipeline.md), whole or not at all."""
        write_text(path, _engine.stage_text(_row(self, "stage")))


def load_stage(path: str | os.PathLike[str]) -> Stage:
    """Reads a `remora-stage`.

    Raises
    ------
    InputError
        With the file and the path of the first fault.
    OSError
        If the file cannot be read.
    """
    return _stage(read_file(file_path(path), _engine.read_stage))


@dataclass(frozen=True)
class PipelineTask:
    """A task of a device.

    Attributes
    ----------
    kind : {"forward", "backward", "weight_gradient"}
    stage, microbatch : int
        From 0.
    start, end : int
        In the stages' unit.
    """

    kind: Literal["forward", "backward", "weight_gradient"]
    stage: int
    microbatch: int
    start: int
    end: int


@dataclass(frozen=True)
class DeviceNeed:
    """Memory needed by a device that is not known to stay within its budget.

    Attributes
    ----------
    device : int
    least : int
        Bytes; no choice of modes has a lower peak.
    enough : int
        Bytes; the peak with `modes`. Equal to `least` unless a limit ended the search.
    modes : tuple of tuple of int
        By the device's stages and by class, the number of the mode.
    """

    device: int
    least: int
    enough: int
    modes: tuple[tuple[int, ...], ...]


class PipelinePlan:
    """The answer to `pipeline`; true in a condition if there is a plan.

    Attributes
    ----------
    status : {"optimal", "feasible", "infeasible", "unknown"}
    makespan : int or None
        Time of a step; None without a plan.
    bound : int
        No choice of modes within the budgets is faster.
    peaks : tuple of int
        Bytes, by device; empty without a plan.
    uniform : int or None
        The best choice of one mode for all stages and classes, by its number; None where none stays within the budgets.
    uniform_makespan : int or None
    needs : tuple of DeviceNeed
        Without a plan, the devices that are not known to stay within their budgets.
    reason : str
        An explanation: each such device, its memory needs, and the modes they are for.
    stages : tuple of Stage
        With the modes that were made of graphs.
    work : int
        Nodes of the search.
    seconds : float
        Of the search, without the making of modes.
    """

    def __init__(self, found: _engine.PlannedPipeline, classes: int) -> None:
        status: Any = found.status
        self.status: Status = status
        self._found = found
        self._classes = classes
        has_plan = bool(found.choice)
        self.makespan: int | None = found.makespan if has_plan else None
        self.bound: int = found.lower_bound
        self.peaks: tuple[int, ...] = tuple(found.peak)
        self.uniform: int | None = found.uniform
        self.uniform_makespan: int | None = None if found.uniform is None else found.uniform_makespan
        self.needs: tuple[DeviceNeed, ...] = tuple(
            DeviceNeed(device, least, enough, self._by_class(modes)) for device, least, enough, modes in found.needs
        )
        self.reason: str = found.reason
        self.stages: tuple[Stage, ...] = tuple(_stage(row) for row in found.stages)
        self.work: int = found.work
        self.seconds: float = found.seconds

    @property
    def choice(self) -> tuple[tuple[int, ...], ...]:
        """By stage and class, the number of the mode; empty without a plan."""
        return self._by_class(self._found.choice)

    def _by_class(self, numbers: Sequence[int]) -> tuple[tuple[int, ...], ...]:
        step = self._classes
        return tuple(tuple(numbers[i : i + step]) for i in range(0, len(numbers), step))

    @cached_property
    def tasks(self) -> tuple[tuple[PipelineTask, ...], ...]:
        """By device, what it runs, in its order; empty without a plan."""
        kinds: dict[str, Any] = {"F": "forward", "B": "backward", "W": "weight_gradient"}
        return tuple(tuple(PipelineTask(kinds[kind], *rest) for kind, *rest in rows) for rows in self._found.tasks())

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes it as `remora-pipeline` (docs/reference/formats.md), whole or not at all."""
        write_text(path, self._found.text())

    def __bool__(self) -> bool:
        return self.makespan is not None

    def __repr__(self) -> str:
        if self.makespan is None:
            return f"<PipelinePlan: {self.status}{': ' + self.reason if self.reason else ''}>"
        proved = "proved optimal" if self.status == "optimal" else f"bound {self.bound}"
        return f"<PipelinePlan of {len(self.stages)} stages: makespan {self.makespan}, {proved}>"


def pipeline(
    stages: Iterable[Stage | Graph],
    *,
    microbatches: SupportsIndex,
    schedule: PipelineOrder = "1f1b",
    budget: Budget | Sequence[Budget | None] | None = None,
    devices: SupportsIndex | None = None,
    classes: SupportsIndex = 1,
    send: SupportsIndex = 0,
    modes: SupportsIndex = 8,
    limits: Limits | None = None,
    stop: threading.Event | None = None,
    **options: Unpack[LimitWords],
) -> PipelinePlan:
    """Chooses how each stage of a training pipeline runs its microbatches.

    The plan has the shortest step that fits within each device's memory, or a bound on how far it is from that. Ctrl-C
    ends the search; the `KeyboardInterrupt` that follows carries the best plan as its attribute ``plan``.

    Parameters
    ----------
    stages : iterable of Stage or Graph
        In their order. A graph is the training step of one microbatch, whose ops have phases; its modes are made by
        solving it under several amounts of saved memory. The same graph twice is one stage, made once.
    microbatches : int
        Of a step.
    schedule : {"1f1b", "gpipe", "interleaved", "zero-bubble"}
    budget : int or str, or a sequence of them, optional
        Bytes, or text (``"12GiB"``): of every device, or one for each, where None is no limit.
    devices : int, optional
        Interleaved: stage s is on device s modulo this; as many as stages by default.
    classes : int
        Microbatch m is of class m modulo this; a stage runs all of a class in one mode.
    send : int
        Time from one stage to the next, and of gradients back.
    modes : int
        Of a graph: how many amounts of saved memory are tried, at least 2.
    limits, stop, time_limit, work_limit, threads, seed
        As for `solve`, for the modes and the choice together.

    Returns
    -------
    PipelinePlan

    Raises
    ------
    InputError
        For an argument that means nothing, with its name, or the path of the fault in a stage.

    Examples
    --------
    >>> import remora
    >>> keep = remora.StageMode("keep", forward=20, backward=40, saved=10)
    >>> again = remora.StageMode("again", forward=20, backward=60, saved=2)
    >>> block = remora.Stage("block", [keep, again], fixed_memory=10)
    >>> plan = remora.pipeline([block] * 4, microbatches=8, budget=40, classes=2)
    >>> plan.status, plan.makespan, plan.uniform_makespan
    ('optimal', 700, 880)
    """
    given = tuple(listed(stages, "stages"))
    on = len(given) if devices is None else integer(devices, "devices")
    in_classes = count(classes, "classes") or 1
    found, interruption = _engine.pipeline(
        [_source(stage, f"stages[{i}]") for i, stage in enumerate(given)],
        on,
        integer(microbatches, "microbatches", _MOST_COUNT),
        string(schedule, "schedule"),
        _budgets(budget, on),
        in_classes,
        integer(send, "send"),
        integer(modes, "modes", _MOST_COUNT),
        option_texts(limits, options, "pipeline", LIMITS),
        stop_of(stop),
    )
    plan = PipelinePlan(found, in_classes)
    interrupt(interruption, plan, "plan")
    return plan


_MOST_COUNT = 2**31 - 1


def _budgets(budget: Budget | Sequence[Budget | None] | None, devices: int) -> list[str | None]:
    if budget is None:
        return [None] * devices
    if isinstance(budget, str) or not isinstance(budget, Sequence):
        return [budget_text(budget)] * devices
    amounts = tuple(listed(budget, "budget"))
    if len(amounts) != devices:
        raise InputError("budget", f"{len(amounts)} budgets for {devices} devices; give one, or one for each")
    return [None if amount is None else budget_text(amount, f"budget[{i}]") for i, amount in enumerate(amounts)]


def _source(stage: Stage | Graph, where: str) -> Any:
    if isinstance(stage, Graph):
        return None, core_of(stage)
    if not isinstance(stage, Stage):
        raise TypeError(f"{where}: must be a remora.Stage or a remora.Graph, not {type(stage).__name__}")
    return _row(stage, where), None


def _row(stage: Stage, where: str) -> Any:
    rows = []
    for i, mode in enumerate(listed(stage.modes, f"{where}.modes")):
        place = f"{where}.modes[{i}]"
        if not isinstance(mode, StageMode):
            raise TypeError(f"{place}: must be a remora.StageMode, not {type(mode).__name__}")
        amounts = {name: integer(getattr(mode, name), f"{place}.{name}") for name in _AMOUNTS}
        rows.append((string(mode.name, f"{place}.name"), *amounts.values()))
    return string(stage.name, f"{where}.name"), integer(stage.fixed_memory, f"{where}.fixed_memory"), rows


_AMOUNTS = (
    "forward",
    "backward",
    "weight_gradient",
    "saved",
    "held",
    "forward_transient",
    "backward_transient",
    "weight_transient",
)
"""As the engine's rows have them."""


def _stage(row: Any) -> Stage:
    name, fixed, modes = row
    made = tuple(StageMode(title, **dict(zip(_AMOUNTS, amounts, strict=True))) for title, *amounts in modes)
    return Stage(name, made, fixed)
