# SPDX-License-Identifier: Apache-2.0
"""Contents of a plan: if a step fits, its memory, its time, and its file."""

from __future__ import annotations

import html
import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch

from remora._arguments import write_text
from remora._engine import bytes_text, version
from remora.errors import InputError

from ..errors import TOO_LARGE, enough_text
from ..planning import Plans, SchedulePlan
from ._memory import Item
from ._rates import FitDevice, device_from

FORMAT = "remora-fit"
HOLES = 0.1
"""The share of tensors' bytes by which CUDA's allocator was seen to hold more (docs/guide/pytorch.md): no proof."""


def holes_of(device: FitDevice | None) -> float:
    """By what share of the tensors' bytes a device's allocator may hold more."""
    return HOLES if device is not None and device.kind != "cpu" else 0.0


@dataclass
class FitPlan:
    """A training step on a device: its memory and time, and how it runs there.

    Attributes
    ----------
    name : str
        The model's class.
    shapes : list of list
        Type and shape of each tensor of the batch.
    device : FitDevice or None
        None: this machine's.
    budget : int
        Bytes for all that lies on the device.
    items : list of Item
        Memory in addition to the step's own tensors; with the gradients, which are part of the step and of the update.
    step : SchedulePlan or None
        The schedule, with the graph and both in Remora's formats; None if none fits within the budget.
    unscheduled, peak : int
        Bytes: all that is there at the peak of a step without recompute; of the planned step, 0 without one.
    update : int
        Bytes at the peak of the optimizer's step; 0 with `update="in backward"`, where it is part of the step.
    least : int
        If it does not fit: a budget that is enough; otherwise 0.
    proved : bool
        Whether it is proved that it does not fit.
    unscheduled_seconds, step_seconds : float
        Forward and backward without recompute, and as planned; the optimizer's step is not in it.
    accumulate : int
        Micro-steps to an update. With several all figures are of a later one, where gradients exist throughout.
    checkpoints : int
        The model's own activation checkpoints, which are taken out: the schedule decides what is recomputed.
    lower : int
        If it does not fit: no smaller budget is enough. If it equals `least`, that is the minimum.
    op : str
        An op that needs more than the budget by itself, whatever is recomputed; "" if there is none.
    plans : list of SchedulePlan
        Where sizes vary: one for each range of sizes, as `print` shows them; all other figures are of the largest.
    seconds : dict
        What the parts of planning took.
    """

    name: str
    shapes: list[list[Any]]
    device: FitDevice | None
    budget: int
    items: list[Item]
    step: SchedulePlan | None
    unscheduled: int
    peak: int
    update: int
    least: int
    proved: bool
    unscheduled_seconds: float
    step_seconds: float
    accumulate: int = 1
    checkpoints: int = 0
    lower: int = 0
    op: str = ""
    plans: Plans = field(default_factory=Plans)
    seconds: dict[str, float] = field(default_factory=dict)

    @property
    def fits(self) -> bool:
        """True if step and update fit within the budget."""
        return self.step is not None and self.total <= self.budget

    @property
    def total(self) -> int:
        """Bytes at the peak of a training loop; of the step without recompute, where there is no plan."""
        return max(self.peak or self.unscheduled, self.update)

    @property
    def upper(self) -> int:
        """Bytes that the process may take: with the holes of CUDA's allocator, where the device has it."""
        constant = sum(item.size for item in self.items if not item.exact and item.when == "throughout")
        return self.total + round(holes_of(self.device) * (self.total - constant))

    @property
    def schedule(self) -> dict[str, Any]:
        """The schedule, in the format `remora-schedule`.

        Raises
        ------
        InputError
            If there is none.
        """
        if self.step is None:
            raise InputError("", f"{self.name} does not fit, so there is no schedule")
        return self.step.schedule

    @property
    def overhead(self) -> float:
        """Time beyond that of the step without recompute, as a share of it."""
        return self.step_seconds / self.unscheduled_seconds - 1 if self.step is not None else 0.0

    @property
    def range(self) -> tuple[float, float]:
        """Seconds between which the planned step's time is expected to lie."""
        low, high = self.device.range if self.device is not None else (0.5, 2.0)
        return self.step_seconds * low, self.step_seconds * high

    @property
    def samples(self) -> int:
        """Samples of a batch: the first dimension of its first tensor."""
        return int(self.shapes[0][1]) if len(self.shapes[0]) > 1 else 1

    @property
    def throughput(self) -> float:
        """Samples per second of forward and backward, 0 where it does not fit."""
        return self.samples / self.step_seconds if self.fits else 0.0

    def to_json(self) -> str:
        """The file of the plan, with graph and schedule."""
        step = self.step.document() if self.step is not None else None
        kept = {name: value for name, value in vars(self).items() if name not in ("device", "items", "step", "plans")}
        value = {
            "format": FORMAT,
            "version": 1,
            "made_by": {"remora": version(), "torch": torch.__version__},
            **kept,
            "fits": self.fits,
            "total": self.total,
            "upper": self.upper,
            "range": self.range,
            "device": asdict(self.device) if self.device is not None else None,
            "items": [asdict(item) for item in self.items],
            "plan": step,
            **({"plans": [plan.document() for plan in self.plans]} if self.plans else {}),
        }
        return json.dumps(value, indent=1) + "\n"

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes `to_json` into a file."""
        write_text(path, self.to_json())

    @staticmethod
    def from_json(text: str) -> FitPlan:
        """Reads what `to_json` wrote.

        Raises
        ------
        InputError
            If it is something else.
        """
        try:
            value = json.loads(text)
        except json.JSONDecodeError as error:
            raise InputError("", f"is no JSON: {error}") from None
        if not isinstance(value, dict) or value.get("format") != FORMAT or value.get("version") != 1:
            raise InputError("format", f"must be {FORMAT}, version 1")
        names = [name for name in FitPlan.__dataclass_fields__ if name not in ("device", "items", "step", "plans")]
        try:
            return FitPlan(
                **{name: value[name] for name in names},
                device=device_from(json.dumps(value["device"]), "device") if value["device"] else None,
                items=[Item(**item) for item in value["items"]],
                step=SchedulePlan.read(value["plan"]) if value["plan"] else None,
                plans=Plans(SchedulePlan.read(plan) for plan in value.get("plans", ())),
            )
        except (KeyError, TypeError) as error:
            raise InputError("", f"is no plan: {type(error).__name__} {error}") from None

    @staticmethod
    def load(path: str | os.PathLike[str]) -> FitPlan:
        """Reads a file."""
        return FitPlan.from_json(Path(path).read_text(encoding="utf-8"))

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        shapes = ", ".join(f"{kind} {'x'.join(map(str, shape)) or 'scalar'}" for kind, *shape in self.shapes)
        place = self.device.name if self.device is not None else "this machine"
        yield f"{self.name}, batch {shapes}, on {place}, budget {bytes_text(self.budget)}: {self._verdict()}"
        if self.accumulate > 1:
            yield f"  gradient accumulation: of a later one of {self.accumulate} micro-steps, where gradients exist"
        if self.checkpoints:
            taken = "checkpoint of the model is" if self.checkpoints == 1 else "checkpoints of the model are"
            yield f"  {self.checkpoints} {taken} taken out: the schedule decides what is recomputed"
        rows = [*self.items]
        if self.step is not None:
            tensors = self.peak - sum(item.size for item in rows if item.when != "update")
            note = "gradients included" if self.accumulate == 1 else "each new gradient included"
            note = note if self.update else "gradients and updates included"
            rows.append(Item("tensors of the step", tensors, "step", True, note))
        width = max(len(row.name) for row in rows)
        for row in rows:
            kind = "exact" if row.exact else "assumed"
            note = f"; {row.note}" if row.note else ""
            yield f"  {row.name:{width}}  {bytes_text(row.size):>10}  {row.when}, {kind}{note}"
        yield f"  {'peak of the step':{width}}  {bytes_text(self.peak or self.unscheduled):>10}"
        if self.update:
            yield f"  {'peak of the update':{width}}  {bytes_text(self.update):>10}  with the optimizer's temporaries"
        if self.upper > self.total:
            allocator = f"{bytes_text(self.upper):>10}  {HOLES:.0%} of all tensors more, for gaps"
            yield f"  {'with the allocator':{width}}  {allocator}"
        if self.plans:
            yield from (f"  {line}" for line in str(self.plans).splitlines())
        if self.step is not None:
            low, high = self.range
            fitted = self.device.fitted if self.device is not None else ""
            yield (
                f"  forward and backward: {self.step_seconds * 1e3:.3g} ms ({self.overhead:+.1%} by recompute), "
                f"{low * 1e3:.3g} to {high * 1e3:.3g}; {fitted or 'not calibrated on this device'}"
            )

    def _verdict(self) -> str:
        if self.fits:
            again = self.step.recomputes if self.step is not None else 0
            return f"fits, with {again} recomputes" if again else "fits without recompute"
        why = "no schedule stays within it" if self.proved else "no schedule was found within it"
        resident = sum(item.size for item in self.items if item.when == "throughout")
        if resident > self.budget:
            why = f"{bytes_text(resident)} are allocated throughout"
        elif self.op:
            why = f"{self.op} alone takes more. {TOO_LARGE}"
        elif self.update > self.budget:
            why = "the update alone takes more"
        return f"does not fit: {why}; {enough_text(self.least, self.lower, bytes_text)}"


# -- A picture ---------------------------------------------------------------------------------------------------------

COLOURS = ("#4c78a8", "#72b7b2", "#54a24b", "#eeca3b", "#f58518", "#e45756", "#b279a2", "#9d755d", "#bab0ac")
WIDTH, ROW, LEFT = 560, 34, 150


def picture(plans: Sequence[FitPlan]) -> str:
    """An SVG with a bar for each plan, at its highest moment."""
    names = list(dict.fromkeys(name for plan in plans for name, _ in parts(plan)))
    most = max(max(plan.total, plan.budget if plan.budget < 2 * plan.total else 0) for plan in plans)
    height = ROW * len(plans) + 18 * len(names) + 30
    size = f'width="{LEFT + WIDTH + 110}" height="{height}"'
    lines = [f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" font-size="12">']
    for i, plan in enumerate(plans):
        lines += _bar(plan, i, names, WIDTH / max(1, most))
    for i, name in enumerate(names):
        lines += _key(name, i, ROW * len(plans) + 24)
    return "\n".join([*lines, "</svg>", ""])


def parts(plan: FitPlan) -> list[tuple[str, int]]:
    """Memory at the peak, in bytes."""
    found = [(item.name, item.size) for item in plan.items if item.when != "update"]
    rest = plan.total - sum(size for _, size in found)
    return [*found, ("step" if plan.total > plan.update else "gradients and update", rest)]


def _bar(plan: FitPlan, row: int, names: list[str], scale: float) -> Iterator[str]:
    y, x = ROW * row + 8, float(LEFT)
    place = plan.device.name if plan.device is not None else "this machine"
    yield f'<text x="{LEFT - 6}" y="{y + 15}" text-anchor="end">{html.escape(place)}</text>'
    for name, size in parts(plan):
        colour = COLOURS[names.index(name) % len(COLOURS)]
        title = html.escape(f"{name}: {bytes_text(size)}")
        yield (
            f'<rect x="{x:.1f}" y="{y}" width="{size * scale:.1f}" height="20" fill="{colour}">'
            f"<title>{title}</title></rect>"
        )
        x += size * scale
    yield f'<text x="{x + 6:.1f}" y="{y + 15}">{bytes_text(plan.total)}{"" if plan.fits else ", does not fit"}</text>'
    limit = LEFT + plan.budget * scale
    if limit <= LEFT + WIDTH + 1:
        yield f'<path d="M{limit:.1f} {y - 4}v28" stroke="#000" stroke-width="2"><title>budget</title></path>'


def _key(name: str, row: int, top: int) -> Iterator[str]:
    y = top + 18 * row
    yield f'<rect x="{LEFT}" y="{y - 10}" width="12" height="12" fill="{COLOURS[row % len(COLOURS)]}"/>'
    yield f'<text x="{LEFT + 18}" y="{y}">{html.escape(name)}</text>'
