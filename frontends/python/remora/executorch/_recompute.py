# SPDX-License-Identifier: Apache-2.0
"""Recomputes in a program of ExecuTorch's edge dialect, before its addresses are planned.

The program's graph becomes a graph of Remora, a node an op, with the lives that ExecuTorch will give to tensors:

    the program's inputs      one op without duration that runs first and only once: each is released after its last use
    state, a changed input    an input of the graph, which stays in memory
    a node                    an op; each tensor that it returns, used or not, lies in the arena until its last use
    view_copy                 no op: the program's lowering makes it a view of the same bytes, so it keeps what it views
    weights, constants        nothing: they are not in the arena
    padding, for XNNPACK      fixed memory
    the outputs               kept to the end

Remora schedules that graph together with addresses, and the nodes are written in the order of the schedule, a node once
for each of its runs. ExecuTorch's own kernels run on equal inputs, so outputs are bitwise equal. With slices
(_slices.py), the same is done with the program in those that the engine chooses.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

from executorch.exir.pass_base import ExportedProgramPassBase, ExportedProgramPassResult
from executorch.exir.tensor import ALIGNMENT
from torch.export import ExportedProgram
from torch.fx import Node
from torch.fx.node import map_arg
from torch.utils.flop_counter import flop_registry

import remora
from remora._arguments import Budget
from remora.asking import ask, plan_in_slices
from remora.errors import InputError
from remora.executorch._nodes import as_planned, bytes_of, folded, largest_sizes, overload, results
from remora.executorch._program import Program
from remora.executorch._refusal import refusal_text
from remora.executorch._slices import COST, Axes, in_slices
from remora.limits import Limits
from remora.slices import SlicedRegion

LIMITS = Limits(work_limit=20_000)
"""Some seconds for a graph of a hundred nodes, and the same program on every machine."""


def work_of(node: Node) -> int:
    """Cost of a node: its floating-point operations, and the bytes that it reads and writes."""
    tensors = [tensor for other in (node, *node.all_input_nodes) for tensor in results(other).values()]
    count = flop_registry.get(getattr(overload(node), "overloadpacket", None))
    operations = 0
    if count is not None:
        arguments, words = map_arg((node.args, dict(node.kwargs)), lambda other: as_planned(other.meta["val"]))
        operations = int(count(*arguments, **words, out_val=as_planned(node.meta["val"])))
    return operations + sum(bytes_of(tensor) for tensor in tensors)


@dataclass(frozen=True)
class _Planned:
    """A program, its graph, the node of each op, and its schedule; `regions`: what of it is in slices."""

    program: Program
    graph: remora.Graph
    nodes: dict[remora.Op, Node]
    found: remora.Schedule | remora.NoSchedule
    regions: tuple[SlicedRegion, ...] = ()


class RecomputePass(ExportedProgramPassBase):  # type: ignore[misc]
    """Repeats nodes of a program, so that its arena fits a budget: ``edge.transform([RecomputePass("48KiB")])``.

    Nodes that draw random numbers or call a delegate run once. The schedule has addresses within the budget:
    `planning_algo` takes them where it finds no smaller arena, and with banks of the budget's size it rejects a program
    that does not fit.

    Parameters
    ----------
    budget : int or str
        Maximum size of the arena: bytes; or text: ``"48KiB"``, ``"60%"`` of what the unchanged program needs.
    cost : callable, optional
        What a node costs, in any unit, from the node of the edge program; `work_of` by default.
    alignment : int
        Bytes: of ``MemoryPlanningPass``.
    limits : Limits, optional
        Of each search; 20,000 units of work by default, so that the same program comes out every time.
    slices : {"none", "auto"}
        "auto": nodes may be computed in slices, where that makes the program cheaper, or possible.

    Attributes
    ----------
    schedule : Schedule or None
        Of the program last transformed; in slices, of the program that these make.
    overhead : float
        Its cost beyond that of the unchanged program, relative to this.
    regions : tuple of SlicedRegion
        What is in slices.
    sizes : dict of str to int
        The symbolic sizes of the program, and the largest of each (``Dim(max=)``), for which it is planned, as
        ExecuTorch does; the arena is the same for smaller ones.

    Raises
    ------
    InputError
        For a program with control flow, with nodes that write into their arguments, with values that are no tensors,
        or, in slices, with symbolic sizes.
    Infeasible, NoSchedule
        No schedule fits the budget, or none was found. ``transform`` raises an exception of ExecuTorch's, with
        these as its ``__cause__``.
    """

    def __init__(
        self,
        budget: Budget,
        *,
        cost: Callable[[Node], int] = work_of,
        alignment: int = ALIGNMENT,
        limits: Limits | None = None,
        slices: Literal["none", "auto"] = "none",
    ) -> None:
        super().__init__()
        if slices not in ("none", "auto"):
            raise InputError("slices", f'must be "none" or "auto", not {slices!r}')
        self.budget = budget
        self.cost = cost
        self.alignment = alignment
        self.limits = limits or LIMITS
        self.slices = slices
        self.overhead = 0.0
        self.regions: tuple[SlicedRegion, ...] = ()
        self.sizes: dict[str, int] = {}
        self.schedule: remora.Schedule | None = None

    def call(self, exported_program: ExportedProgram) -> ExportedProgramPassResult:
        """Called by ``transform``."""
        self.sizes = largest_sizes(exported_program.graph_module.graph.nodes)
        if self.sizes and self.slices == "auto":
            raise InputError("slices", f"are for constant shapes, and {', '.join(self.sizes)} may vary")
        planned = whole = self._planned(exported_program, self.budget)
        if self.slices == "auto" and (isinstance(planned.found, remora.NoSchedule) or planned.found.overhead > 0):
            planned = self._in_slices(planned)
        if isinstance(planned.found, remora.NoSchedule):
            raise planned.found
        self.schedule, self.regions = planned.found, planned.regions
        once = whole.graph.baseline_duration
        self.overhead = (planned.found.duration - once) / once if once else 0.0
        return ExportedProgramPassResult(planned.program.written(planned.found, planned.nodes), True)

    def _planned(self, exported_program: ExportedProgram, budget: Budget) -> _Planned:
        """The schedule of a program in one arena, or a refusal in its terms."""
        program = Program(exported_program)
        graph, nodes = program.graph(self.cost, self.alignment)
        found = ask(graph, budget, self.limits, order="input", addresses=True, alignment=self.alignment)
        if isinstance(found, remora.NoSchedule):
            constant = folded(program.nodes, program.constants)
            found.args = (refusal_text(found, nodes, constant, self.alignment, self.slices, self.sizes),)
        return _Planned(program, graph, nodes, found)

    def _in_slices(self, whole: _Planned) -> _Planned:
        """The plan in slices, if it is cheaper, or the only one; `whole`: that without slices."""
        program = whole.program
        axes = Axes(program)
        graph, nodes = program.graph(self.cost, 1, axes.of_engine())
        answer = whole.found.answer if isinstance(whole.found, remora.NoSchedule) else whole.found
        budget, lowest = answer.budget, 0

        def choose(asked: int) -> remora.Schedule | int:
            words: dict[str, Any] = {"order": "input", "slices": "auto", "slice_cost": COST}
            chosen = ask(graph, asked, self.limits, **words)
            return chosen.refusal.enough_in_slices if isinstance(chosen, remora.NoSchedule) else chosen

        def plan(chosen: remora.Schedule) -> _Planned | int:
            nonlocal lowest
            planned = self._planned(in_slices(program, nodes, axes, chosen), budget)
            if isinstance(planned.found, remora.NoSchedule):
                refusal = planned.found.refusal
                lowest = min(lowest or refusal.enough, refusal.enough or lowest)
                return refusal.enough or refusal.lower_bound
            return replace(planned, regions=chosen.slices)

        sliced = plan_in_slices(choose(budget), budget, choose, plan)
        if isinstance(whole.found, remora.NoSchedule):
            if sliced is None and lowest and lowest < (whole.found.refusal.enough or lowest + 1):
                whole.found.args = (f"{whole.found}; {lowest} bytes are enough in slices",)
            return sliced or whole
        if sliced is None or isinstance(sliced.found, remora.NoSchedule):
            return whole
        return sliced if sliced.found.duration < whole.found.duration else whole
