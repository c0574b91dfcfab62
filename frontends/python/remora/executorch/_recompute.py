# SPDX-License-Identifier: Apache-2.0
"""Recomputes in a program of ExecuTorch's edge dialect, before its addresses are planned.

The program's graph becomes a graph of Remora, a node an op, with the lives that ExecuTorch will give to tensors:

    an input of the program   an op without duration that runs first and only once: it is gone after its last use
    state, a changed input    an input of the graph, which stays in memory
    a node                    an op; each tensor that it returns, used or not, lies in the arena until its last use
    view_copy                 no op: the program's lowering makes it a view of the same bytes, so it keeps what it views
    weights, constants        nothing: they are not in the arena
    the outputs               kept to the end

Remora schedules that graph together with addresses, and the nodes are written in the order of the schedule, a node once
for each of its computes. What runs is ExecuTorch's own kernels on equal inputs, so outputs are equal in every bit.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import torch
from executorch.exir.delegate import executorch_call_delegate
from executorch.exir.dialects._ops import ops
from executorch.exir.pass_base import ExportedProgramPassBase, ExportedProgramPassResult
from executorch.exir.tensor import ALIGNMENT
from torch.export import ExportedProgram
from torch.export.graph_signature import ExportGraphSignature, InputKind, TensorArgument
from torch.fx import Graph as FxGraph
from torch.fx import GraphModule, Node
from torch.fx.node import map_arg
from torch.utils.flop_counter import flop_registry

import remora
from remora._arguments import Budget
from remora.errors import InputError
from remora.limits import Limits

LIMITS = Limits(work=20_000)
"""Some seconds for a graph of a hundred nodes, and the same program on every machine."""

_CONSTANTS = (InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR, InputKind.CUSTOM_OBJ, InputKind.TOKEN)
_VIEWS = (ops.edge.aten.view_copy.default, torch.ops.aten.view_copy.default)


def work_of(node: Node) -> int:
    """What a node costs: its floating-point operations, and the bytes that it reads and writes."""
    tensors = [*_tensors(node), *(tensor for other in node.all_input_nodes for tensor in _tensors(other))]
    target = getattr(node.target, "_op", node.target)
    count = flop_registry.get(getattr(target, "overloadpacket", None))
    operations = 0
    if count is not None:
        arguments, words = map_arg((node.args, dict(node.kwargs)), lambda other: other.meta["val"])
        operations = int(count(*arguments, **words, out_val=node.meta["val"]))
    return operations + sum(tensor.nbytes for tensor in tensors)


class RecomputePass(ExportedProgramPassBase):  # type: ignore[misc]
    """Repeats nodes of a program, so that its arena holds a budget: ``edge.transform([RecomputePass("48KiB")])``.

    Nodes that write into what they are given, draw random numbers, or call a delegate run once. The addresses that the
    schedule has prove that a placement exists; `planning_algo` makes the program's own, and with banks of the budget's
    size it refuses what does not fit.

    Parameters
    ----------
    budget : int or str
        What the arena may take: bytes; or text: ``"48KiB"``, ``"60%"`` of what the program needs as it stands.
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
        For a program with control flow, with shapes that are not constant, or with values that are no tensors.
    Infeasible, NoSchedule
        No schedule holds the budget, or none was found. ``transform`` raises an exception of ExecuTorch's, with
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
        graph, nodes = program.graph(self.cost)
        self.schedule = remora.solve(
            graph, self.budget, order="input", addresses=True, alignment=self.alignment, limits=self.limits
        )
        repeated = program.written([nodes[step.op] for step in self.schedule.steps])
        return ExportedProgramPassResult(repeated, True)


class _Program:
    """An edge program: which nodes have memory of their own, and which are views of others."""

    def __init__(self, program: ExportedProgram) -> None:
        self.program = program
        self.nodes = list(program.graph_module.graph.nodes)
        signature = program.graph_signature
        mutable = set(signature.buffers_to_mutate.values())
        self.constants = {
            spec.arg.name for spec in signature.input_specs if spec.kind in _CONSTANTS and spec.target not in mutable
        }
        self.state = {spec.arg.name for spec in signature.input_specs if spec.target in mutable}
        self.state.update(signature.user_inputs_to_mutate.values())

    def storage(self, node: Node) -> list[tuple[Node, int]]:
        """The tensors whose bytes a node's value lies in: the node that made each, and its place among its results."""
        if node.op == "get_attr" or (node.op == "placeholder" and node.name in self.constants):
            return []
        if _is_view(node):
            return self.storage(_base(node))
        if _is_item(node):
            place: Any = node.args[1]
            return [self.storage(_base(node))[place]]
        return [(node, place) for place in range(len(_tensors(node)))]

    def graph(self, cost: Callable[[Node], int]) -> tuple[remora.Graph, dict[remora.Op, Node]]:
        """The graph to schedule, and the node of each of its ops."""
        graph = remora.Graph("program")
        tensors: dict[tuple[Node, int], remora.Tensor] = {}
        found: dict[remora.Op, Node] = {}
        for node in self.nodes:
            if node.op in ("output", "get_attr") or _is_view(node) or _is_item(node) or node.name in self.constants:
                continue
            _expect_supported(node)
            sizes = {f"{node.name}.{place}": tensor.nbytes for place, tensor in enumerate(_tensors(node))}
            if node.name in self.state:
                made = [graph.tensor(name, size) for name, size in sizes.items()]
            else:
                inputs = {tensors[at]: None for other in node.all_input_nodes for at in self.storage(other)}
                is_input = node.op == "placeholder"
                op = graph.op(
                    node.name,
                    duration=0 if is_input else cost(node),
                    inputs=inputs,
                    outputs=sizes,
                    recompute=not is_input and _may_repeat(node),
                )
                made = list(op.outputs)
                found[op] = node
            tensors.update({(node, place): tensor for place, tensor in enumerate(made)})
        for node in self.nodes[-1].all_input_nodes:
            for at in self.storage(node):
                tensors[at].keep = True
        return graph, found

    def written(self, order: list[Node]) -> ExportedProgram:
        """The program whose nodes run in this order, repeated where they stand in it more than once."""
        written = FxGraph()
        current: dict[Node, Node] = {}
        derived: dict[tuple[Node, Node], Node] = {}

        def value(node: Node) -> Node:
            if not (_is_view(node) or _is_item(node)):
                return current[node]
            key = (node, value(_base(node)))
            if key not in derived:
                derived[key] = written.node_copy(node, value)
            return derived[key]

        for node in self.nodes:
            if node.op in ("placeholder", "get_attr"):
                current[node] = written.node_copy(node)
        for node in order:
            if node.op != "placeholder":
                current[node] = written.node_copy(node, value)
        outputs = written.node_copy(self.nodes[-1], value).args[0]
        module = GraphModule(self.program.graph_module, written)
        module.meta.update(self.program.graph_module.meta)
        return self.program._update(module, _signature(self.program.graph_signature, outputs))


def _values(node: Node) -> list[Any]:
    """What it returns, one or several; [None] if that is not known."""
    value = node.meta.get("val")
    return list(value) if isinstance(value, (list, tuple)) else [value]


def _tensors(node: Node) -> list[torch.Tensor]:
    return [value for value in _values(node) if isinstance(value, torch.Tensor)]


def _is_view(node: Node) -> bool:
    """Whether ExecuTorch makes it a view: all copies that are no outputs."""
    return node.target in _VIEWS and all(user.op != "output" for user in node.users)


def _base(node: Node) -> Node:
    """What a view is of, or what an item is taken from."""
    base: Any = node.args[0]
    return base  # type: ignore[no-any-return]


def _is_item(node: Node) -> bool:
    return node.op == "call_function" and getattr(node.target, "__name__", "") == "getitem"


def _may_repeat(node: Node) -> bool:
    target: Any = getattr(node.target, "_op", node.target)
    if target is executorch_call_delegate:
        return False
    return not target._schema.is_mutable and torch.Tag.nondeterministic_seeded not in target.tags


def _expect_supported(node: Node) -> None:
    """Refuses what the graph above does not say truly."""
    is_special = isinstance(node.target, torch._ops.HigherOrderOperator)
    if is_special and node.target is not executorch_call_delegate:
        raise InputError(f"node {node.name}", f"recomputes are not for programs with control flow ({node.target})")
    for value in _values(node):
        if not isinstance(value, torch.Tensor):
            raise InputError(f"node {node.name}", f"gives {type(value).__name__}, and recomputes are for tensors alone")
        if not all(isinstance(size, int) for size in value.shape):
            raise InputError(f"node {node.name}", f"has the shape {list(value.shape)}, which is not constant")


def _signature(signature: ExportGraphSignature, outputs: Any) -> ExportGraphSignature:
    """The signature, with the outputs' new names."""
    specs = [
        dataclasses.replace(spec, arg=TensorArgument(name=node.name)) if isinstance(node, Node) else spec
        for spec, node in zip(signature.output_specs, outputs, strict=True)
    ]
    return ExportGraphSignature(list(signature.input_specs), specs)
