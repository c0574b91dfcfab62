# SPDX-License-Identifier: Apache-2.0
"""The largest batch that fits, with and without recompute, and what each costs a sample; several models, devices.

A size is tried by capturing the step for it, since kernels and sizes need not grow in proportion. The next size is
chosen by a line through what was found: memory grows nearly so. With recomputation, sizes double until one does not
fit, and then the interval between the last two is bisected.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch.utils import _pytree as pytree

from remora._engine import bytes_text
from remora.errors import InputError

from ._fit import Captured, capture, on_device, under_budget
from ._question import SizeQuestion, TableQuestion, asks
from ._rates import device_of
from ._result import FitPlan
from ._sizes import Sizes, plan_for_sizes


@dataclass
class Largest:
    """The largest sizes that fit.

    Attributes
    ----------
    over : str
        What grows.
    without, within : int
        The largest size that fits without recompute, and with it; 0 if none does.
    curve : list of (int, FitPlan)
        Every size that was tried and fits, with its plan under the budget, by size.
    proved : bool
        Whether it is proved that the size above `within` does not fit.
    """

    over: str
    without: int
    within: int
    curve: list[tuple[int, FitPlan]]
    proved: bool

    @property
    def best(self) -> int:
        """The size with the most samples a second, 0 if none fits."""
        return max(self.curve, key=lambda point: point[1].throughput)[0] if self.curve else 0

    def __str__(self) -> str:
        verdict = "" if self.proved else " (no schedule was found for more; none is not proved)"
        lines = [f"largest {self.over}: {self.without} without recompute, {self.within} with it{verdict}"]
        lines.append(f"  {self.over:>8}  {'memory':>10}  {'recompute':>9}  {'ms':>9}  {'samples/s':>10}")
        for size, plan in self.curve:
            lines.append(
                f"  {size:>8}  {bytes_text(plan.total):>10}  {plan.overhead:>+9.1%}  {plan.step_seconds * 1e3:>9.3g}"
                f"  {plan.throughput:>10.4g}"
            )
        if self.curve and self.curve[-1][1].plans:
            lines += [f"  {line}" for line in str(self.curve[-1][1].plans).splitlines()]
        return "\n".join(lines)


@asks(SizeQuestion)
def largest(question: SizeQuestion) -> Largest:
    """Finds the largest batch or length that fits, with recompute and without.

    Called as `largest(model, batch, loss, over="batch", ...)`.

    Parameters
    ----------
    batch : tuple, mapping or tensor, or a function of the size
        An example, whose first ("batch") or second ("length") dimension is set to each size; or a function that gives
        the batch of a size, which then may be anything.
    over : str
        "batch", "length", or with a function a name for what grows.
    multiple, most : int
        Only multiples up to a size are tried.
    budget, device, optimizer, update, precision, ranks, sharding, average, accumulate, reserve, train, cost, order,
    pure, time_limit, threads, seed, cache, progress, plan
        As in `plan`.
    sizes, lengths, plans
        As in `plan`: each size is tried at the largest of these, which are of other dimensions; the plan of the largest
        one that fits has those of all ranges.

    Raises
    ------
    InputError
        If something that is given cannot be read.
    """
    if not question.sizes:
        return _Search(question, _sizes(question.batch, question.over)).found()
    sizes = Sizes(question, question.batch)
    found = _Search(question, _sizes(sizes.at(sizes.points[-1][0]), question.over)).found()
    if found.within:
        # Of all ranges, and in the batch that is largest.
        batch = _sizes(question.batch, question.over)(found.within)
        plan = plan_for_sizes(replace(question, batch=batch), found.curve[-1][1].budget)
        found.curve[-1] = found.within, plan
    return found


@dataclass
class _Search:
    question: SizeQuestion
    of_size: Callable[[int], Any]
    captured: dict[int, Captured] = field(default_factory=dict)  # by size, in multiples
    plans: dict[int, FitPlan] = field(default_factory=dict)

    def found(self) -> Largest:
        without = self._last(lambda n: self._plain(n) <= self._limit(), self._guess)
        within = self._last(lambda n: self._plan(n).fits, None, max(1, without))
        tried = sorted(n for n, plan in self.plans.items() if plan.fits)
        above, multiple = self.plans.get(within + 1), self.question.multiple
        return Largest(
            self.question.over,
            without * multiple,
            within * multiple,
            [(n * multiple, self.plans[n]) for n in tried],
            above is not None and above.proved,
        )

    def _last(self, fits: Callable[[int], bool], guess: Callable[[int, int], int] | None, start: int = 1) -> int:
        """The last size that fits, where all smaller ones do."""
        most = max(1, self.question.most // self.question.multiple)
        low, high = 0, most + 1
        at = start
        while low + 1 < high:
            if fits(at):
                low = at
            else:
                high = at
            if high > most:
                following = guess(low, most) if guess is not None and low > start else 2 * max(1, low)
            else:
                following = guess(low, high - 1) if guess is not None and low else (low + high) // 2
            at = min(max(following, low + 1), high - 1)
        return low

    def _guess(self, low: int, most: int) -> int:
        """Where the line through two tried sizes meets the budget; at least one size above the last that fits."""
        a, b = sorted(self.captured)[-2:] if len(self.captured) > 1 else (0, low)
        if a == 0 or self._plain(b) <= self._plain(a):
            return 2 * low
        slope = (self._plain(b) - self._plain(a)) / (b - a)
        return min(most, max(low + 1, a + int((self._limit() - self._plain(a)) / slope)))

    def _capture(self, n: int) -> Captured:
        if n not in self.captured:
            batch = self.of_size(n * self.question.multiple)
            self.captured[n] = capture(replace(self.question, batch=batch))
        return self.captured[n]

    def _plain(self, n: int) -> int:
        return max(self._capture(n).unscheduled, self._capture(n).update)

    def _limit(self) -> int:
        return self._capture(1).limit(self.question.budget)

    def _plan(self, n: int) -> FitPlan:
        if n not in self.plans:
            self.plans[n] = under_budget(self._capture(n), self._limit(), self.question.solver)
        return self.plans[n]


def _sizes(batch: Any, over: str) -> Callable[[int], Any]:
    if callable(batch):
        return batch  # type: ignore[no-any-return]
    if over not in ("batch", "length"):
        raise InputError(
            "over", f'{over!r} is neither "batch" nor "length"; otherwise give a function of the size as batch'
        )
    place = 0 if over == "batch" else 1
    tensors = [leaf for leaf in pytree.tree_leaves(batch) if isinstance(leaf, torch.Tensor) and leaf.dim() > place]
    if not tensors:
        raise InputError("batch", f"no tensor has a dimension for {over}")
    now = tensors[0].shape[place]

    def sized(leaf: Any, n: int) -> Any:
        if not isinstance(leaf, torch.Tensor) or leaf.dim() <= place or leaf.shape[place] != now:
            return leaf
        shape = list(leaf.shape)
        shape[place] = n
        return torch.empty(shape, dtype=leaf.dtype, device="meta")

    return lambda n: pytree.tree_map(lambda leaf: sized(leaf, n), batch)


@asks(TableQuestion)
def fit_table(question: TableQuestion) -> FitTable:
    """Plans each of some models for each of some devices.

    Called as `fit_table(models, devices, optimizer="adamw", ...)`.

    Parameters
    ----------
    models : mapping of str to tuple
        By name: model and batch, and where it is needed the loss, as `plan` takes them.
    devices : iterable of str or FitDevice
    budget, optimizer, update, precision, ranks, sharding, average, accumulate, reserve, train, cost, order, pure,
    time_limit, threads, seed, cache, progress, plan
        As in `plan`.
    """
    targets = [device_of(device) for device in question.devices]
    if not targets:
        raise InputError("devices", "there is none")
    rows: dict[str, list[FitPlan]] = {}
    for name in question.models:
        first = targets[0]
        captured = capture(question.of(name, first))
        found = []
        for target in targets:
            if target.kind != first.kind:
                captured, first = capture(question.of(name, target)), target
            there = on_device(captured, target)
            found.append((there, under_budget(there, question.budget, question.solver)))
        _share_least(found)
        rows[name] = [plan for _, plan in found]
    return FitTable([target.name for target in targets], rows)


def _share_least(found: list[tuple[Captured, FitPlan]]) -> None:
    """If a step does not fit, replaces its memory by that of a schedule for another device if that is smaller."""
    for there, plan in found:
        for other, known in found:
            if not plan.fits and known.fits and other.problem.step is there.problem.step:
                needed = max(known.peak - other.reserve + there.reserve, there.update)
                if plan.budget < needed < plan.least:
                    plan.least = needed


@dataclass
class FitTable:
    """Plans by model and device."""

    devices: list[str]
    plans: dict[str, list[FitPlan]]

    def __str__(self) -> str:
        width = max(len(name) for name in self.plans)
        lines = [" " * width + "".join(f"  {name:>26}" for name in self.devices)]
        for name, plans in self.plans.items():
            lines.append(f"{name:{width}}" + "".join(f"  {_cell(plan):>26}" for plan in plans))
        return "\n".join(lines)


def _cell(plan: FitPlan) -> str:
    if not plan.fits:
        return f"no, {bytes_text(plan.least)} would do"
    return f"{bytes_text(plan.total)}, {plan.overhead:+.0%}, {plan.throughput:.3g}/s"
