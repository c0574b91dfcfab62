# SPDX-License-Identifier: Apache-2.0
"""From a captured graph to the plan and the program of it: read, decided, written.

With `fuse`, its ops are regions that Inductor compiles, and single ops between them.
"""

from __future__ import annotations

import contextlib
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from torch import fx

from ..capture.dynamo import results_of
from ..capture.graph import Cut, Run
from ..capture.read import read_step
from ..capture.simplify import simplify
from ..carry.arena import Arena, Memory, prepare
from ..carry.fuse import fuse
from ..carry.program import Program, write_program
from ..cost.calls import adopt_sizes, by_flops, measured
from ..cost.varying import taken_over
from ..decide.schedules import FIRST
from ..decide.slices import Decision, Read, decide_ops, solve_with_slices, with_reach
from ..decide.step import solve
from ..errors import BudgetError
from ..options import Options
from ..planning import SchedulePlan
from ..problem.aten import StepProblem


def read_graph(
    module: fx.GraphModule,
    options: Options,
    cut: Cut | None,
    seconds: dict[str, float],
    name: str = "step",
    theirs: Sequence[Any] = (),
    known: StepProblem | None = None,
) -> StepProblem:
    """Reads a graph, and finds the cost of its ops; adds the time of both to `seconds`.

    `theirs` are values that the user allocates, or keeps as long as he likes. `known`: the step at other sizes, from
    which times are taken over.
    """
    start = time.perf_counter()
    step = read_step(module, cut, options.pure)
    simplify(step)
    seconds["read"] = seconds.get("read", 0.0) + time.perf_counter() - start
    start = time.perf_counter()
    like = known if known is not None and known.step.form == step.form else None
    instead = taken_over(step, like.step, like.costs) if like is not None else lambda _: None
    costs = measured(step, options.say, instead) if options.cost == "measured" else by_flops(step)
    adopt_sizes(step, costs)
    if options.arena:
        costs = prepare(step, costs, theirs)
    seconds["measure"] = seconds.get("measure", 0.0) + time.perf_counter() - start
    of = "the captured step" if cut is None else "the captured forward and backward"
    return StepProblem(step, costs, name, of)


def planned(
    problem: StepProblem,
    options: Options,
    memory: Memory | None = None,
    seconds: dict[str, float] | None = None,
    are_theirs: bool = False,
    before: Sequence[int] = (),
) -> tuple[SchedulePlan, Program]:
    """Plans a graph that runs as one program.

    `are_theirs`: the user keeps its results as long as he likes. `before`: ops of a schedule to begin with.
    """
    seconds = dict(seconds or {})

    def read(module: fx.GraphModule, given: Options) -> StepProblem:
        found = read_graph(module, given, None, seconds, problem.name, results_of(module) if are_theirs else ())
        found.step.beside, found.step.accumulates = problem.step.beside, problem.step.accumulates
        return found

    problem, plan, runs = scheduled(problem, options, seconds, read, before)
    step = problem.step
    arena = Arena(memory, problem.costs, plan.arena) if memory is not None else None
    program = write_program("step", step, runs, step.placeholders, step.outputs, step.updates, arena)
    plan.memory, plan.source = memory, program.source
    options.say(str(plan), end="\n")
    return plan, program


def scheduled(
    problem: StepProblem,
    options: Options,
    seconds: dict[str, float],
    read: Read,
    before: Sequence[int] = (),
) -> Decision:
    """The problem as it runs, of ops or of regions, and its plan; `read`: how the graph of regions is read.

    Regions that are cut where a schedule recomputes ops depend on the budget, and may need more than those that are not
    cut. These are tried before a budget is rejected, and the error names what they need: that is enough.
    """
    whole = problem

    def decide(given: StepProblem, options: Options, share: float = 1.0) -> Decision:
        if options.fuse:
            return _decide_regions(given, options, share, seconds, read)
        return decide_ops(given, options, share, before if given is whole else ())

    if options.slices == "auto":
        problem, plan, runs = solve_with_slices(problem, options, read, decide)
    else:
        try:
            problem, plan, runs = decide(problem, options)
        except BudgetError as refusal:
            if options.arena or options.plan:
                raise  # slices are not for these
            raise with_reach(refusal, problem, options, read) from None
    plan.seconds = {**seconds, **plan.seconds}
    return problem, plan, runs


def _decide_regions(
    problem: StepProblem, options: Options, share: float, seconds: dict[str, float], read: Read
) -> Decision:
    """Plans a problem of ops in regions."""
    for part, may_cut in ((1 - FIRST, True), ((1 - FIRST) / 2, False)):
        module, given = _fused(problem, options, share, seconds, may_cut)
        regions = read(module, given)
        try:
            return decide_ops(regions, given, part * share)
        except BudgetError as refusal:
            if not module.meta["is_cut"]:
                raise refusal.changed(lower=0, proved=False) from None  # other regions may need less
    raise AssertionError("regions that are not cut are tried last")


def _fused(
    problem: StepProblem, options: Options, share: float, seconds: dict[str, float], may_cut: bool
) -> tuple[fx.GraphModule, Options]:
    """The graph with compiled regions, cut at what a schedule of the captured ops keeps; the budget in bytes."""
    start, step = time.perf_counter(), problem.step
    runs: list[Run] = []
    if may_cut:
        with contextlib.suppress(BudgetError):  # regions may need less: all that one loop computes is not kept
            _, runs = solve(problem, options, FIRST * share)
    twice = {node for op, times in Counter(run.op for run in runs).items() if times > 1 for node in op.nodes}
    seconds["solve captured"] = time.perf_counter() - start
    start = time.perf_counter()
    module = fuse(read_step(step.module, step.cut, options.pure), twice, options.say)
    module.meta["is_cut"] = bool(twice)
    seconds["compile"] = time.perf_counter() - start
    return module, replace(options, budget=options.in_bytes(problem) + options.reserve)
