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
for each of its runs. ExecuTorch's own kernels run on equal inputs, so outputs are bitwise equal.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from executorch.exir.memory_planning import _contains_xnnpack_delegate
from executorch.exir.pass_base import ExportedProgramPassBase, ExportedProgramPassResult
from executorch.exir.tensor import ALIGNMENT
from torch.export import ExportedProgram
from torch.export.graph_signature import ConstantArgument, ExportGraphSignature, InputKind, OutputKind, TensorArgument
from torch.fx import Graph as FxGraph
from torch.fx import GraphModule, Node
from torch.fx.node import map_arg
from torch.utils.flop_counter import flop_registry

import remora
from remora._arguments import Budget
from remora.asking import ask
from remora.executorch._nodes import (
    OFFSETS,
    base,
    expect_supported,
    folded,
    is_item,
    is_view,
    may_repeat,
    overload,
    results,
)
from remora.executorch._refusal import refusal_text
from remora.limits import Limits

LIMITS = Limits(work_limit=20_000)
"""Some seconds for a graph of a hundred nodes, and the same program on every machine."""

_CONSTANTS = (InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR, InputKind.CUSTOM_OBJ, InputKind.TOKEN)
_XNNPACK_PADDING = 64
"""Bytes that ExecuTorch adds to an arena that XNNPACK reads (apply_algo in exir/memory_planning.py)."""


def work_of(node: Node) -> int:
    """Cost of a node: its floating-point operations, and the bytes that it reads and writes."""
    tensors = [tensor for other in (node, *node.all_input_nodes) for tensor in results(other).values()]
    count = flop_registry.get(getattr(overload(node), "overloadpacket", None))
    operations = 0
    if count is not None:
        arguments, words = map_arg((node.args, dict(node.kwargs)), lambda other: other.meta["val"])
        operations = int(count(*arguments, **words, out_val=node.meta["val"]))
    return operations + sum(tensor.nbytes for tensor in tensors)


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
        Of the search; 20,000 units of work by default, so that the same program comes out every time.

    Attributes
    ----------
    schedule : Schedule or None
        Of the program last transformed.

    Raises
    ------
    InputError
        For a program with control flow, with nodes that write into their arguments, with shapes that are not constant,
        or with values that are no tensors.
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
    ) -> None:
        super().__init__()
        self.budget = budget
        self.cost = cost
        self.alignment = alignment
        self.limits = limits or LIMITS
        self.schedule: remora.Schedule | None = None

    def call(self, exported_program: ExportedProgram) -> ExportedProgramPassResult:
        """Called by ``transform``."""
        program = _Program(exported_program)
        graph, nodes = program.graph(self.cost, self.alignment)
        found = ask(graph, self.budget, self.limits, order="input", addresses=True, alignment=self.alignment)
        if isinstance(found, remora.NoSchedule):
            found.args = (refusal_text(found, nodes, folded(program.nodes, program.constants), self.alignment),)
            raise found
        self.schedule = found
        return ExportedProgramPassResult(program.written(found, nodes), True)


class _Program:
    """An edge program: which nodes have memory of their own, and which are views of others."""

    def __init__(self, program: ExportedProgram) -> None:
        self.program = program
        self.nodes = list(program.graph_module.graph.nodes)
        signature = program.graph_signature
        mutable = set(signature.buffers_to_mutate.values())
        # ExecuTorch returns what is trained, next to its gradient, and places it in the arena.
        mutable.update(
            spec.target or "" for spec in signature.output_specs if spec.kind is OutputKind.GRADIENT_TO_PARAMETER
        )
        self.constants = {
            spec.arg.name
            for spec in signature.input_specs
            if isinstance(spec.arg, ConstantArgument) or (spec.kind in _CONSTANTS and spec.target not in mutable)
        }
        self.state = {spec.arg.name for spec in signature.input_specs if spec.target in mutable}
        self.state.update(signature.user_inputs_to_mutate.values())
        self.tensors: dict[tuple[Node, int], remora.Tensor] = {}

    def storage(self, node: Node) -> list[tuple[Node, int]]:
        """The tensors whose bytes a node's value lies in: the node that made each, and its place among its results."""
        if node.op == "get_attr" or (node.op == "placeholder" and node.name in self.constants):
            return []
        if is_view(node):
            return self.storage(base(node))
        if is_item(node):
            return [at for at in self.storage(base(node)) if at[1] == node.args[1]]
        return [(node, place) for place in results(node)]

    def sizes(self, alignment: int) -> dict[Node, dict[str, int]]:
        """The nodes whose results have memory of their own, and the bytes of each as ExecuTorch plans them, by name."""
        sizes: dict[Node, dict[str, int]] = {}
        for node in self.nodes:
            if node.op in ("output", "get_attr") or is_view(node) or is_item(node) or node.name in self.constants:
                continue
            expect_supported(node)
            sizes[node] = {
                f"{node.name}.{place}": -(-tensor.nbytes // alignment) * alignment
                for place, tensor in results(node).items()
            }
        return sizes

    def graph(self, cost: Callable[[Node], int], alignment: int) -> tuple[remora.Graph, dict[remora.Op, Node]]:
        """The graph to schedule, and the node of each op but the inputs' one."""
        padded = _contains_xnnpack_delegate(self.program.graph_module)
        graph = remora.Graph("program", fixed_memory=_XNNPACK_PADDING if padded else 0)
        tensors = self.tensors
        found: dict[remora.Op, Node] = {}
        sizes = self.sizes(alignment)
        for node in sizes:
            if node.name in self.state:
                made = [graph.tensor(name, size) for name, size in sizes[node].items()]
                tensors.update(zip(self.storage(node), made, strict=True))
        inputs = [node for node in sizes if node.op == "placeholder" and node.name not in self.state]
        if inputs:
            first = graph.op(
                "program inputs",
                duration=0,
                outputs={name: size for node in inputs for name, size in sizes[node].items()},
                recompute=False,
            )
            tensors.update(zip((at for node in inputs for at in self.storage(node)), first.outputs, strict=True))
        for node in sizes:
            if node.op == "placeholder":
                continue
            op = graph.op(
                node.name,
                duration=cost(node),
                inputs={tensors[at]: None for other in node.all_input_nodes for at in self.storage(other)},
                outputs=sizes[node] or {f"{node.name}.nothing": 0},
                recompute=may_repeat(node),
            )
            found[op] = node
            tensors.update(zip(self.storage(node), op.outputs, strict=bool(sizes[node])))
        for node in self.nodes[-1].all_input_nodes:
            for at in self.storage(node):
                tensors[at].keep = True
        return graph, found

    def written(self, schedule: remora.Schedule, nodes: dict[remora.Op, Node]) -> ExportedProgram:
        """The program whose nodes run as the schedule says, more than once where it does."""
        written = FxGraph()
        placed: list[Mapping[remora.Tensor, int]] = [{} for _ in schedule.steps]
        inputs: dict[remora.Tensor, int] = {}
        if schedule.arena is not None:
            placed = list(schedule.arena.offsets)
            inputs = dict(schedule.arena.inputs)
            for step, offsets in zip(schedule.steps, placed, strict=True):
                inputs.update({} if step.op in nodes else offsets)
        current: dict[Node, Node] = {}

        def value(node: Node) -> Node:
            # A view for each use: one that is older than a write in place (ExecuTorch's reinplace pass) would read it.
            return written.node_copy(node, value) if is_view(node) else current[node]

        def write(node: Node, offsets: Mapping[remora.Tensor, int]) -> None:
            current[node] = written.node_copy(node, value)
            made = {place: self.tensors[node, place] for place in results(node) if (node, place) in self.tensors}
            current[node].meta[OFFSETS] = {
                place: offsets[tensor] for place, tensor in made.items() if tensor in offsets
            }

        for node in self.nodes:
            if node.op in ("placeholder", "get_attr"):
                write(node, inputs)
        for step, offsets in zip(schedule.steps, placed, strict=True):
            if step.op not in nodes:
                continue
            node = nodes[step.op]
            write(node, offsets)
            # At once: to ExecuTorch, an item refers to all results of its node, and a late one would keep them all.
            for item in filter(is_item, node.users):
                current[item] = written.node_copy(item, value)
        outputs = written.node_copy(self.nodes[-1], value).args[0]
        module = GraphModule(self.program.graph_module, written)
        module.meta.update(self.program.graph_module.meta)
        return self.program._update(module, _signature(self.program.graph_signature, outputs))


def _signature(signature: ExportGraphSignature, outputs: Any) -> ExportGraphSignature:
    """The signature, with the outputs' new names."""
    specs = [
        dataclasses.replace(spec, arg=TensorArgument(name=node.name)) if isinstance(node, Node) else spec
        for spec, node in zip(signature.output_specs, outputs, strict=True)
    ]
    return ExportGraphSignature(list(signature.input_specs), specs)
