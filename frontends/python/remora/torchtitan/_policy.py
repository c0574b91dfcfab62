# SPDX-License-Identifier: Apache-2.0
"""From torchtitan's graph and its configuration to tags, or to a graph that runs a schedule."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable
from typing import Any

from torch import fx
from torchtitan.experiments.graph_trainer.memory_policy import tag_with_memory_policy_pass
from torchtitan.experiments.graph_trainer.passes import construct_default_graph_passes
from torchtitan.experiments.graph_trainer.selective_activation_remat import selective_activation_remat_pass
from torchtitan.tools.logging import logger

from remora.torch import SchedulePlan, TorchError
from remora.torch.capture.read import read_step
from remora.torch.cost.calls import adopt_sizes, by_flops, measured
from remora.torch.decide.schedules import schedule_for
from remora.torch.job import same_answer
from remora.torch.options import Options
from remora.torch.problem.aten import StepProblem, runs_of
from remora.torch.store import digest
from remora.torchtitan._rewrite import rewritten
from remora.torchtitan._tags import Chooser, Family

AGAIN = "_recomputed"
"""Suffix of the names of nodes that the trainer recomputes."""


def options_of(config: Any) -> Options:
    """How a step is planned, by a trainer's configuration.

    Raises
    ------
    TorchError
        Where its `compile` is not `remora.torchtitan.CompileConfig`.
    """
    given = config.compile
    if not hasattr(given, "budget"):
        raise TorchError(
            "there is no budget: let the trainer's compile be a remora.torchtitan.CompileConfig, or start with "
            "--module remora.torchtitan"
        )
    return Options(
        budget=given.budget, reserve=given.reserve, cost=given.cost, order=given.order, time_limit=given.time_limit
    )


class Planned(StepProblem):
    """A graph of the trainer, and what its ops cost."""

    @staticmethod
    def read(module: fx.GraphModule, options: Options) -> Planned:
        """Reads a graph and finds the cost of its ops."""
        step = read_step(module)
        costs = by_flops(step) if options.cost == "flops" else measured(step, lambda text: None)
        adopt_sizes(step, costs)
        return Planned(step, costs, "torchtitan")

    def peak_of(self, module: fx.GraphModule) -> int:
        """The peak of a graph that was made from this one, in bytes."""
        step = read_step(module)
        known = {node.name: cost for node, cost in self.costs.items()}
        costs = {node: known[_name_of(node)] for op in step.ops for node in op.nodes}
        adopt_sizes(step, costs)
        return StepProblem(step, costs).unscheduled


def _name_of(node: fx.Node) -> str:
    """The name of the node that a node is a copy of."""
    return str(node.meta.get("remora_copy_of", node.name.removesuffix(AGAIN)))


def tag_policy(module: fx.GraphModule, *, config: Any) -> fx.GraphModule:
    """The memory policy "remora": tags the ops to recompute.

    Raises
    ------
    BudgetError
        With the smallest peak that is known.
    TorchError
        Where the tags are carried out otherwise than is known here, beyond the budget.
    """
    options = options_of(config)
    planned = Planned.read(module, options)
    budget = options.in_bytes(planned)
    chooser = Chooser(Family(planned.step), planned.graph)

    def chosen() -> list[int]:
        tagged, bound = chooser.best(budget, options)
        return [bound, *sorted(tagged.again)]

    question = digest([planned.graph.to_json(), budget, options.time_limit])
    bound, *again = same_answer(f"tags/{question}", chosen)
    tagged = chooser.tagged(again)
    chooser.family.tag(tagged.again)
    peak = planned.peak_of(_carried_out(module))
    if peak > budget:
        raise TorchError(
            f"the trainer makes of these tags a step of {peak:,} bytes in place of {tagged.peak:,}; the pass pipeline "
            '"remora" does without tags'
        )
    said = f"{len(tagged.again)} ops are recomputed"
    found = chooser.schedule(tagged.again)
    _say(said, planned, SchedulePlan.of(found, budget=budget, predicted_peak=peak, bound=bound))
    return module


def _carried_out(module: fx.GraphModule) -> fx.GraphModule:
    """Applies the trainer's own pass to the tags, on a copy."""
    made: fx.GraphModule = selective_activation_remat_pass(fx.GraphModule(module, copy.deepcopy(module.graph)))
    return made


def schedule_pass(module: fx.GraphModule, example_inputs: Any = None, *, config: Any) -> fx.GraphModule:
    """The pass of the pipeline "remora": the graph runs the engine's schedule, whatever tags can say.

    Raises
    ------
    BudgetError
        With the minimum budget for which a schedule is known.
    """
    options = options_of(config)
    planned = Planned.read(module, options)
    budget = options.in_bytes(planned)
    found = schedule_for(planned.graph, budget, options)
    made = rewritten(planned.step, runs_of(planned.step, found))
    peak = planned.peak_of(made)
    if peak > budget:
        raise TorchError(f"the schedule takes {peak:,} bytes as a graph, and the budget is {budget:,}")
    said = f"{sum(found.recomputes.values())} recomputes"
    _say(said, planned, SchedulePlan.of(found, budget=budget, predicted_peak=peak))
    return made


def pass_pipeline(traced: Any, config: Any, *, parallel_dims: Any = None) -> list[Callable[..., fx.GraphModule]]:
    """The trainer's own passes, with `schedule_pass` where they tag."""
    passes: list[Callable[..., fx.GraphModule]] = construct_default_graph_passes(
        traced, config, parallel_dims=parallel_dims
    )
    places = [i for i, p in enumerate(passes) if getattr(p, "func", p) is tag_with_memory_policy_pass]
    if len(places) != 1:
        raise TorchError("the trainer's passes do not tag, so there is no place for the schedule")
    passes[places[0]] = functools.partial(schedule_pass, config=config)
    return passes


def _say(what: str, planned: Planned, plan: SchedulePlan) -> None:
    logger.info(
        f"remora: {what}; peak {plan.predicted_peak:,} bytes of {plan.budget:,} ({planned.unscheduled:,} without "
        f"recompute), time {plan.overhead:+.2%}, bound {plan.bound / max(1, plan.unscheduled_time) - 1:+.2%}"
    )
