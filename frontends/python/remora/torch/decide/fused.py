# SPDX-License-Identifier: Apache-2.0
"""Plans a step that runs as one program; with `fuse`, its ops are compiled regions or Inductor's kernels."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from torch import fx

from ..capture.dynamo import results_of
from ..capture.graph import Cut, Op, Run, StepGraph
from ..capture.layout import in_channels_last
from ..capture.simplify import simplify
from ..carry.arena import Memory, Places, library, prepare
from ..carry.fuse import fuse
from ..carry.kernels import as_kernels
from ..carry.program import Program, write_program
from ..cost.calls import adopt_sizes, by_flops, measured
from ..errors import BudgetError, CaptureError, RemoraWarning
from ..options import Options
from ..planning import Plan
from ..problem.aten import StepProblem
from .schedules import FIRST
from .step import solve


def planned(
    problem: StepProblem,
    options: Options,
    memory: Memory | None = None,
    seconds: dict[str, float] | None = None,
    are_theirs: bool = False,
) -> tuple[Plan, Program]:
    """Plans a graph that runs as one program; `are_theirs`: the user keeps its results as long as he likes."""
    seconds = dict(seconds or {})

    def read(module: fx.GraphModule, given: Options) -> StepProblem:
        return read_graph(module, given, None, seconds, results_of(module) if are_theirs else (), problem.name)

    if options.fuse:
        problem, plan, runs = planned_fused(problem, options, seconds, read)
    else:
        plan, runs = solve(problem, options)
    plan.memory = memory
    place = library().remora_place if memory is not None else None
    step = problem.step
    program = write_program("step", step, runs, step.placeholders, step.outputs, step.updates, place)
    if memory is not None:
        program.places = Places(step, runs, problem.costs, plan.arena)
    plan.source = program.source
    plan.seconds = {**seconds, **plan.seconds}
    options.say(str(plan), end="\n")
    return plan, program


def planned_fused(
    problem: StepProblem,
    options: Options,
    seconds: dict[str, float],
    read: Callable[[fx.GraphModule, Options], StepProblem],
) -> tuple[StepProblem, Plan, list[Run]]:
    """The problem of the graph of compiled parts, and its plan; `read`: how the graph of parts is read again.

    Regions that are cut where a schedule recomputes ops depend on the budget, and may need more than those that are not
    cut. These are tried before a budget is refused, and the refusal names what they need: that is enough.
    """
    for share, may_cut in ((1 - FIRST, True), ((1 - FIRST) / 2, False)):
        if options.fuse == "program":
            module, given = programmed(problem, options, seconds)
        else:
            module, given = fused(problem, options, seconds, may_cut)
        parts = read(module, given)
        try:
            return parts, *solve(parts, given, share)
        except BudgetError as refusal:
            if not module.meta.get("is_cut"):
                raise refusal.changed(lower=0, proved=False) from None  # other regions may need less
        options = replace(options, fuse=True)  # regions, if a program of kernels was refused
    raise AssertionError("regions that are not cut are tried last")


def fused(
    problem: StepProblem, options: Options, seconds: dict[str, float], is_cut: bool = True
) -> tuple[fx.GraphModule, Options]:
    """The graph with compiled regions, cut at what a schedule of the captured ops keeps; the budget in bytes."""
    start, step = time.perf_counter(), problem.step
    try:
        plan, runs = solve(problem, options, FIRST) if is_cut else (None, [])
        budget = plan.budget if plan is not None else problem.budget(options)
    except BudgetError as refusal:  # regions may need less: all that one loop computes is not kept
        budget, runs = refusal.budget - options.reserve, []
    count: dict[Op, int] = {}
    for run in runs:
        count[run.op] = count.get(run.op, 0) + 1
    again = {node.name for op, times in count.items() if times > 1 for node in op.nodes}
    seconds["solve captured"] = time.perf_counter() - start
    start = time.perf_counter()
    # Of a module that is cut in two, what is saved between the parts has the order in which it was captured.
    laid_out = in_channels_last(step.module, step.mode) if step.cut is None else step.module
    twice = {n for n in laid_out.graph.nodes if n.name in again}
    module = fuse(StepGraph(laid_out, step.cut, options.pure), twice, options.say)
    module.meta["is_cut"] = bool(twice)
    seconds["compile"] = time.perf_counter() - start
    return module, replace(options, budget=budget + options.reserve)


def programmed(problem: StepProblem, options: Options, seconds: dict[str, float]) -> tuple[fx.GraphModule, Options]:
    """The graph of the kernels that Inductor makes of the step; the budget in bytes. Where that is refused, regions."""
    start, step = time.perf_counter(), problem.step
    laid_out = in_channels_last(step.module, step.mode)
    try:
        module = as_kernels(StepGraph(laid_out, None, options.pure), options.say)
    except CaptureError as refusal:
        warnings.warn(f'fuse="program": {refusal}; compiled regions run instead', RemoraWarning, stacklevel=2)
        return fused(problem, replace(options, fuse=True), seconds)
    seconds["compile"] = time.perf_counter() - start
    return module, replace(options, budget=problem.budget(options) + options.reserve)


def read_graph(
    module: fx.GraphModule,
    options: Options,
    cut: Cut | None,
    seconds: dict[str, float],
    theirs: Sequence[Any] = (),
    name: str = "step",
) -> StepProblem:
    """Reads a graph, and finds the cost of its ops; `theirs`: the values that the user allocates, or keeps."""
    start = time.perf_counter()
    step = StepGraph(module, cut, options.pure)
    simplify(step)
    seconds["read"] = seconds.get("read", 0.0) + time.perf_counter() - start
    start = time.perf_counter()
    costs = measured(step, options.say) if options.cost == "measured" else by_flops(step)
    adopt_sizes(step, costs)
    if options.arena:
        costs = prepare(step, costs, theirs)
    seconds["measure"] = seconds.get("measure", 0.0) + time.perf_counter() - start
    return StepProblem(step, costs, name)
