# SPDX-License-Identifier: Apache-2.0
"""`auto_fsdp`: which blocks of a model that FSDP2 shards are resharded after their forward, and which run again.

Every process runs and measures the step (`capture.sharded`). The first one plans for all: the engine solves the step as
a graph with lanes (`problem.sharded`), and plans near its schedule are replayed exactly (`problem.sharded_replay`).
Each process then runs the plan, and none may exceed the budget.
"""

from __future__ import annotations

import json
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.fsdp import FSDPModule
from torch.utils import _pytree as pytree

from remora.errors import InputError

from ..capture.record import traced
from ..capture.sharded import Gather, gather_of, groups_of, placed, refuse_unlike, settled, step_of, units_of
from ..carry.checkpoints import (
    Module,
    apply_checkpoints,
    refuse_checkpoints,
    refuse_own_checkpoints,
    remove_checkpoints,
)
from ..checkpoint_plan import CheckpointPlan, Choice, Figures
from ..decide.sharded import Chosen, Planner
from ..decide.within import within
from ..errors import BudgetError
from ..job import from_first, gathered
from ..measure import Clock
from ..options import Options
from ..problem.sharded import choices_of
from ..problem.sharded_replay import ShardedReplay
from ..step import CheckpointError, EagerStep, Outcome, differences, outcome_of, peak_of
from ..store import digest
from .checkpoint import called, own_loss, replay_for

FORMAT = "remora-fsdp"
_plans: weakref.WeakKeyDictionary[torch.nn.Module, FsdpPlan] = weakref.WeakKeyDictionary()
_flags: weakref.WeakKeyDictionary[torch.nn.Module, list[Any]] = weakref.WeakKeyDictionary()
ROOT_ASKED = "FSDP::pre_backward"


@dataclass
class FsdpPlan:
    """Which units FSDP2 reshards after their forward, and which modules are checkpointed.

    Attributes
    ----------
    reshard : dict of str to bool
        By the name of each module that was given to `fully_shard`, the root ("") among them where it has parameters of
        its own: whether its gathered parameters are given back after its forward, and gathered again in the backward.
    checkpoints : CheckpointPlan
        Of the same model; its figures are for the process with the largest peak.
    peaks : list of int
        Measured bytes, of each process.
    """

    reshard: dict[str, bool]
    checkpoints: CheckpointPlan
    peaks: list[int] = field(default_factory=list)

    @property
    def digest(self) -> str:
        """SHA-256 of the plan; equal on all processes of a job."""
        return digest(self.to_json())

    def to_json(self) -> str:
        """The plan's file."""
        value = {"format": FORMAT, "version": 1, "reshard": self.reshard, "peaks": self.peaks}
        return json.dumps({**value, "checkpoints": json.loads(self.checkpoints.to_json())}, indent=1) + "\n"

    def save(self, path: str | Path) -> None:
        """Writes `to_json` into a file."""
        Path(path).write_text(self.to_json(), encoding="utf-8")

    @staticmethod
    def from_json(text: str) -> FsdpPlan:
        """Reads what `to_json` wrote."""
        value = json.loads(text)
        if not isinstance(value, dict) or value.get("format") != FORMAT or value.get("version") != 1:
            raise InputError("format", f"must be {FORMAT}, version 1")
        reshard = value.get("reshard")
        if not isinstance(reshard, dict) or not all(isinstance(again, bool) for again in reshard.values()):
            raise InputError("reshard", "must say true or false of each sharded module")
        return FsdpPlan(reshard, CheckpointPlan.from_json(json.dumps(value.get("checkpoints"))), value.get("peaks", []))

    @staticmethod
    def load(path: str | Path) -> FsdpPlan:
        """Reads a file."""
        return FsdpPlan.from_json(Path(path).read_text(encoding="utf-8"))

    def __str__(self) -> str:
        again = sum(self.reshard.values())
        return f"{again} of {len(self.reshard)} units resharded; {self.checkpoints}"


def apply_fsdp_plan(model: Module, plan: FsdpPlan | str | Path) -> Module:
    """Sets FSDP2's flags and checkpoints modules as a plan says; the model itself is changed.

    Parameters
    ----------
    model : torch.nn.Module
        Sharded by `fully_shard` as the model was for which the plan was made.
    plan : FsdpPlan, str or path
        What `auto_fsdp` found, or the file that it was written to.

    Raises
    ------
    CheckpointError
        If other modules are sharded, or the model has a plan or checkpoints already.
    """
    found = plan if isinstance(plan, FsdpPlan) else FsdpPlan.load(plan)
    units = units_of(model)
    if set(units) != set(found.reshard):
        odd = sorted(set(units) ^ set(found.reshard))[0]
        raise CheckpointError(f"{odd or 'the model itself'} is sharded here or in the plan, but not in both")
    refuse_planned(model)
    apply_checkpoints(model, found.checkpoints)
    _flags[model] = [group.post_forward_mesh_info for group in groups_of(units.values())]
    for name, again in found.reshard.items():
        units[name].set_reshard_after_forward(again, recurse=False)
    _plans[model] = found
    return model


def remove_fsdp_plan(model: Module) -> Module:
    """Undoes `auto_fsdp` and `apply_fsdp_plan`: checkpoints go, and FSDP2's flags are as they were.

    Raises
    ------
    CheckpointError
        If the model has no plan.
    """
    fsdp_plan(model)
    remove_checkpoints(model)
    for group, mesh in zip(groups_of(units_of(model).values()), _flags.pop(model), strict=True):
        group.post_forward_mesh_info = mesh
    del _plans[model]
    return model


def refuse_planned(model: torch.nn.Module) -> None:
    """Refuses a model that runs by a plan."""
    if model in _plans:
        raise CheckpointError("the model has a plan already: remora.torch.remove_fsdp_plan(model) takes it off")


def auto_fsdp(
    model: Module,
    batch: Any,
    budget: int | str,
    *,
    loss: Callable[[Module, Any], torch.Tensor] | None = None,
    reserve: int = 0,
    time_limit: float = 15.0,
    threads: int = 0,
    seed: int = 1,
) -> Module:
    """Chooses which blocks of a sharded model are resharded after their forward and which are checkpointed.

    All processes of the job call it together, each with its own batch, all of the same shapes. The first one plans for
    all; each runs the plan, and none may take more than the budget. Results and gradients equal those of FSDP2 without
    the plan in every bit, which is checked. Afterwards parameters, buffers, gradients and generators are as they were.

    Parameters
    ----------
    model : torch.nn.Module
        Given to `fully_shard`, and each of its blocks before it.
    batch : Any
        A tensor, a sequence of the model's arguments, or a mapping by name; memory is planned for its shapes.
    budget : int or str
        Bytes of a process ("8GiB") with all that is there throughout, or a share ("60%") of what the step takes beyond
        that if all parameters are kept after the forward and nothing is checkpointed.
    loss, reserve, time_limit, threads, seed
        As for `auto_checkpoint`.

    Returns
    -------
    torch.nn.Module
        The model itself; `fsdp_plan(model)` has the plan.

    Raises
    ------
    BudgetError
        If no plan is found that stays within the budget on each process; `least` is a budget that is enough for one.
    CheckpointError
        If the model is not sharded so that a plan can be made, or its step does something else when it runs again.
    """
    options = Options(budget, reserve, time_limit=time_limit, threads=threads, seed=seed).checked()
    if not dist.is_initialized():
        raise CheckpointError("auto_fsdp plans for a job: torch.distributed.init_process_group comes first")
    units = units_of(model)
    refuse_unlike(model, units)
    refuse_planned(model)
    refuse_own_checkpoints(model)
    refuse_checkpoints(model)
    _refuse_different(model, units, batch)
    with _as_before(units):
        model.set_reshard_after_forward(False)  # type: ignore[operator]
        plan = _Fitting(model, units, batch, loss, options).run()
    return apply_fsdp_plan(model, plan)


def fsdp_plan(model: torch.nn.Module) -> FsdpPlan:
    """The plan by which a sharded model runs."""
    if model not in _plans:
        raise CheckpointError(f"this {type(model).__name__} has no plan of remora.torch.auto_fsdp")
    return _plans[model]


@contextmanager
def _as_before(units: Mapping[str, FSDPModule]) -> Iterator[None]:
    """Flags are afterwards as they were; so they are where no plan is found."""
    own = [(group, group.post_forward_mesh_info) for group in groups_of(units.values())]
    try:
        yield
    finally:
        for group, mesh in own:
            group.post_forward_mesh_info = mesh


def _refuse_different(model: torch.nn.Module, units: Mapping[str, FSDPModule], batch: Any) -> None:
    """A plan of the first process is for all only if all have the same model, and batches of the same shapes."""
    rows = [list(units), [(name, str(p.dtype), *p.shape) for name, p in model.named_parameters()], model.training]
    shapes = [(str(t.dtype), *t.shape) for t in pytree.tree_leaves(batch) if isinstance(t, torch.Tensor)]
    mine = digest([rows, shapes])
    if len(set(gathered(mine))) > 1:
        raise CheckpointError(
            "the processes of this job have different models or batches of different shapes: one plan is for all, so "
            "stages of a pipeline are planned by auto_pipeline"
        )


class _Fitting:
    """One job's way to a plan that each of its processes holds."""

    def __init__(
        self,
        model: torch.nn.Module,
        units: dict[str, FSDPModule],
        batch: Any,
        loss: Callable[..., torch.Tensor] | None,
        options: Options,
    ) -> None:
        self.model, self.units, self.options = model, units, options
        tensors = [leaf for leaf in pytree.tree_leaves(batch) if isinstance(leaf, torch.Tensor)]
        device = next(iter(units.values()))._get_fsdp_state()._fsdp_param_groups[0].device
        run = (lambda: loss(model, batch)) if loss is not None else (lambda: own_loss(called(model, batch)))
        first = EagerStep(model, run, device, [])
        with first.kept():  # between two steps all is sharded
            first.run()  # FSDP prepares itself in the first step
        self.step = step_of(model, units, device, run, tensors)

    def run(self) -> FsdpPlan:
        step = self.step
        with settled(self.units, step.device):
            self.eager = outcome_of(step)
            self.unsteady = differences(outcome_of(step), self.eager)
            gathers = {name: gather_of(unit, step.device) for name, unit in self.units.items()}
            replay, peak = self._replay(gathers)
            # Shards of the first process are the largest, where they are not all alike.
            fixed, eager_peak = gathered(self.fixed)[0], max(gathered(peak))
            budget = self.options.in_bytes(fixed, eager_peak)
            self.figures = Figures(budget=budget, fixed=fixed, eager_peak=eager_peak)
            self.figures.eager_seconds = replay.replay.trace.seconds
            self.replay = replay
            self.planner: Planner | None = None
            return self._fitted(budget)

    def _replay(self, gathers: dict[str, Gather]) -> tuple[ShardedReplay, int]:
        """The step's replay, and what it takes with all parameters kept."""
        step = self.step
        trace = traced(step)
        self.fixed = trace.fixed
        with step.kept():
            eager_peak = trace.fixed + peak_of(step)
        placed_units = placed(trace, [name for name in self.units if name], gathers)
        root = None
        if "" in self.units:
            asked = trace.marks.get(ROOT_ASKED, [placed_units[-1].asked])
            root = 0, asked[0]
        replay = ShardedReplay(replay_for(step, trace), placed_units, root, gathers.get(""))
        trace.fixed += max(0, eager_peak - replay.peak({}, ()))  # what no trace shows
        return replay, eager_peak

    def _fitted(self, budget: int) -> FsdpPlan:
        """A plan that runs within the budget on each process; where the search has none, the smallest that it knows."""
        least, is_least = 0, False

        def attempt(asked: int) -> FsdpPlan | None:
            nonlocal least, is_least
            told = from_first(lambda: self._told(asked), CheckpointError)
            is_least = told["is_least"]
            plan = FsdpPlan.from_json(told["plan"])
            figures = plan.checkpoints.figures
            assert figures is not None
            measured = self._measured(plan)
            plan.peaks = [peak for peak, _ in measured]
            figures.measured_peak = least = max(plan.peaks)
            figures.measured_seconds = max(seconds for _, seconds in measured)
            return None if is_least and least > budget else plan

        plan = within(budget, attempt, lambda plan: max(plan.peaks))
        if plan is None and not is_least:
            plan = attempt(0)
        if plan is None:
            # Units share memory, which the graph's sum counts for each: that it has no schedule is no proof.
            refusal = BudgetError(budget, least, False, self.figures.fixed, self.figures.eager_peak)
            raise refusal.beside(self.options.reserve)
        if len(set(gathered(plan.digest))) > 1:
            raise CheckpointError("the processes of this job do not have the same plan")
        return plan

    def _told(self, budget: int) -> dict[str, Any]:
        """Of the first process: its plan within a budget, or the one with the smallest peak."""
        if self.planner is None:
            self.planner = Planner(self.replay, self.step.device.type == "cuda", self.options)
        planner = self.planner
        found = planner.search(budget)
        plan = self._as_plan(planner, found or planner.least())
        return {"plan": plan.to_json(), "is_least": found is None}

    def _as_plan(self, planner: Planner, found: Chosen) -> FsdpPlan:
        figures = self.figures
        figures.predicted_peak = found.peak
        figures.predicted_seconds = figures.eager_seconds + (found.time - planner.plain) / 1e9
        bound = figures.eager_seconds + (planner.bound - planner.plain) / 1e9
        figures.bound_seconds = min(figures.predicted_seconds, max(0.0, bound))
        names = set(planner.names(found))
        choices: dict[str, Choice] = dict(choices_of(planner.blocks, found.modes))
        changed = sorted(planner.replay.replay.trace.changed)
        checkpoints = CheckpointPlan(choices, changed, figures, planner.excluded)
        outer = {unit.name: unit.outer or unit.name for unit in planner.replay.units}
        return FsdpPlan({name: outer.get(name, name) in names for name in self.units}, checkpoints)

    def _measured(self, plan: FsdpPlan) -> list[tuple[int, float]]:
        """Runs a plan: what each process takes, in bytes and seconds, and whether it does what FSDP2 does without."""
        step: EagerStep = self.step
        apply_fsdp_plan(step.model, plan)
        try:
            mine: Outcome = outcome_of(step)
            found = [name for name in differences(mine, self.eager) if name not in self.unsteady]
            wrong = [names for names in gathered(found) if names]
            if wrong:
                raise CheckpointError(
                    f"with the plan {wrong[0][0]} differs: a module does something else when it runs again"
                )
            with step.kept():
                peak = self.fixed + peak_of(step)
            clock = Clock(step.device)
            with step.kept():
                start = clock.mark()
                step.run()
                seconds = clock.between(start, clock.mark())
            return gathered((peak, seconds))
        finally:
            remove_fsdp_plan(step.model)
            step.model.set_reshard_after_forward(False)  # type: ignore[operator]
