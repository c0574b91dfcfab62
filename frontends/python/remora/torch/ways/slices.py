# SPDX-License-Identifier: Apache-2.0
"""`auto_checkpoint(..., slices="auto")`: which modules and losses run in slices, and the checkpoints of that step.

    heads, and modules of independent rows --engine--> numbers --applied--> a step that is traced and planned as any

Losses come first, modules where these are not enough. Slices count if their plan stays within the budget, and is
faster than the plan without them, or the only one.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch

from ..carry.checkpoints import applied, in_slices_of
from ..carry.in_slices import LossCall, function_of, rows_of_module
from ..decide.checkpoints import Fitting
from ..errors import BudgetError
from ..options import Options
from ..planning import CheckpointPlan
from ..problem.checkpoints import EagerProblem
from ..problem.independent import number_of_slices
from ..step import CheckpointError, EagerStep, Reference, entered

MOST = 64
"""Slices of a module or a loss."""
ALL = 2**60
"""More bytes than any slices could leave."""
ROUNDING = 256.0
"""Sums over slices may differ by so many roundings of the largest value, and by what comes of that."""


@dataclass
class _Site:
    """Modules of one class, and their call: `function(*rows, *others)`."""

    names: list[str]
    function: Callable[..., torch.Tensor]
    rows: list[torch.Tensor]
    others: list[torch.Tensor]
    is_sum: bool


def planned_in_slices(
    step: EagerStep,
    reference: Reference,
    problem: EagerProblem,
    options: Options,
    whole: CheckpointPlan | BudgetError,
) -> CheckpointPlan:
    """The plan in slices, if it is faster than `whole`, the answer without them, or the only one; otherwise that.

    Raises BudgetError if neither stays within the budget: what it names as enough is enough with slices.
    """
    budget = options.in_bytes(problem.sizes)
    given = replace(options, budget=budget + options.reserve)
    found = [whole] if isinstance(whole, CheckpointPlan) else []
    refusals: list[BudgetError] = []
    spare = problem.sizes.unscheduled - budget
    tried: list[dict[str, int]] = []
    numbers: list[dict[str, int]] = [{}, {}, {}]
    for sites_of in (_heads, _modules):
        for known, more in zip(numbers, _numbers(sites_of(step), spare), strict=True):
            known.update(more)
        for slices in map(dict, numbers):
            if not slices or slices in tried:
                continue
            tried.append(slices)
            answer = _tried(step, reference, problem, given, slices)
            if isinstance(answer, CheckpointPlan):
                return min([*found, answer], key=lambda plan: plan.predicted_time)
            refusals += [answer] if isinstance(answer, BudgetError) else []
    if isinstance(whole, CheckpointPlan):
        return whole
    least = min([whole.least, *(refusal.least for refusal in refusals)])
    raise whole if least == whole.least else whole.changed(least=least, lower=0, proved=False)


def _numbers(sites: list[_Site], spare: int) -> list[dict[str, int]]:
    """Slices by module: the fewest that could do, those with the smallest peak, and twice as many.

    The last two do not depend on the budget, so what they need is enough when it is asked for.
    """
    few, many = (
        {name: min(MOST, count) for site in sites if (count := _number(site, bytes)) for name in site.names}
        for bytes in (spare, ALL)
    )
    more = {name: min(MOST, 2 * count) for name, count in many.items()}
    return [few, many, more]


def _number(site: _Site, spare: int) -> int:
    return number_of_slices(site.function, site.rows, site.others, site.is_sum, spare)


def _tried(
    step: EagerStep, eager: Reference, problem: EagerProblem, options: Options, slices: dict[str, int]
) -> CheckpointPlan | BudgetError | None:
    """The plan of the step in these slices, or its refusal; None if the step differs from eager in them."""
    model = step.model
    with in_slices_of(model, slices):
        try:
            reference = Reference(step)
            if eager.exceeding(reference.values, ROUNDING):
                return None
            own = EagerProblem(step, reference)
            plan = Fitting(own, reference, options, lambda found: applied(model, found)).run()
        except BudgetError as refusal:
            return refusal
        except CheckpointError:
            return None
    plan.slices = dict(slices)
    plan.unscheduled_peak, plan.fixed_memory = problem.sizes.unscheduled, problem.sizes.fixed
    plan.unscheduled_time, plan.bound = round(1e9 * problem.seconds), 0
    return plan


def _heads(step: EagerStep) -> list[_Site]:
    """Linear layers whose products only a cross entropy reads, in a forward that runs once more."""
    calls: dict[str, LossCall | None] = {}

    def noted(name: str) -> Callable[[LossCall | None], None]:
        def note(call: LossCall | None) -> None:
            calls[name] = call if name not in calls else None

        return note

    linear = [
        name
        for name, module in step.model.named_modules()
        if type(module) is torch.nn.Linear and module.out_features > module.in_features
    ]
    notes = {name: noted(name) for name in linear}
    try:
        with step.kept(), in_slices_of(step.model, dict.fromkeys(linear, 1), notes):
            step.loss()
    except CheckpointError:  # changed in place, or read by what does not ask
        return []
    return [
        _Site([name], call.function, [t.detach().requires_grad_(t.requires_grad) for t in call.rows], call.whole, True)
        for name, call in calls.items()
        if call is not None
    ]


def _modules(step: EagerStep) -> list[_Site]:
    """Modules with others inside whose rows are independent, those of one class together, none inside another."""
    given: dict[str, torch.Tensor | None] = {}

    @contextlib.contextmanager
    def around(name: str, _: Any, arguments: Any) -> Iterator[None]:
        positional, named = arguments
        is_usual = len(positional) == 1 and not named and isinstance(positional[0], torch.Tensor)
        is_first = is_usual and name not in given  # of several calls there is none for all
        given[name] = positional[0].detach().requires_grad_(positional[0].requires_grad) if is_first else None
        yield

    with step.kept(), entered(step.model, around):
        step.loss()
    sites: dict[Any, _Site] = {}
    known: dict[Any, int] = {}
    taken: list[str] = []
    for name, module in step.model.named_modules():
        x = given.get(name)
        is_inside = any(name.startswith(f"{other}.") for other in taken)
        if not name or x is None or is_inside or not any(module.children()) or x.dim() < 2 or _has_hooks(module):
            continue
        function, parameters = function_of(module, module.forward)
        shapes = tuple((tuple(p.shape), p.dtype, p.requires_grad) for p in parameters)
        key = type(module), str(module), tuple(x.shape), x.dtype, x.requires_grad, shapes
        known[key] = rows_of_module(module, module.forward, x, known.get(key))
        if known[key]:
            taken.append(name)
            sites.setdefault(key, _Site([], function, [x], parameters, False)).names.append(name)
    return list(sites.values())


def _has_hooks(module: torch.nn.Module) -> bool:
    """True if modules inside have hooks, which would be called for each slice."""
    kinds = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
    return any(getattr(child, kind) for child in module.modules() if child is not module for kind in kinds)
