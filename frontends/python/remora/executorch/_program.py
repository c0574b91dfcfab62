# SPDX-License-Identifier: Apache-2.0
"""An edge program as a graph of Remora, and the program that a schedule of it means."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from executorch.exir.memory_planning import _contains_xnnpack_delegate
from torch.export import ExportedProgram
from torch.export.graph_signature import ConstantArgument, ExportGraphSignature, InputKind, OutputKind, TensorArgument
from torch.fx import Graph as FxGraph
from torch.fx import GraphModule, Node

import remora
from remora.executorch._nodes import (
    OFFSETS,
    base,
    bytes_of,
    expect_supported,
    is_item,
    is_view,
    may_repeat,
    place_of,
    results,
)

_CONSTANTS = (InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR, InputKind.CUSTOM_OBJ, InputKind.TOKEN)
_XNNPACK_PADDING = 64
"""Bytes that ExecuTorch adds to an arena that XNNPACK reads (apply_algo in exir/memory_planning.py)."""


At = tuple[Node, int]
"""A tensor: the node that makes it, and its place among the results."""


def name_of(node: Node, place: int) -> str:
    """The name of a tensor: of the node that makes it, and its place among its results."""
    return f"{node.name}.{place}"


class Program:
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
            return [at for at in self.storage(base(node)) if at[1] == place_of(node)]
        return [(node, place) for place in self.results(node)]

    def results(self, node: Node) -> dict[int, torch.Tensor]:
        """The results of a node, without empty ones that nothing uses."""
        used = {place_of(user) for user in node.users if is_item(user)}
        several = isinstance(node.meta.get("val"), (list, tuple))
        return {i: made for i, made in results(node).items() if bytes_of(made) or i in used or not several}

    def sizes(self, alignment: int) -> dict[Node, dict[str, int]]:
        """The nodes whose results have memory of their own, and the bytes of each as ExecuTorch plans them, by name."""
        sizes: dict[Node, dict[str, int]] = {}
        for node in self.nodes:
            if node.op in ("output", "get_attr") or is_view(node) or is_item(node) or node.name in self.constants:
                continue
            expect_supported(node)
            sizes[node] = {
                name_of(node, place): -(-bytes_of(tensor) // alignment) * alignment
                for place, tensor in self.results(node).items()
            }
        return sizes

    def graph(
        self,
        cost: Callable[[Node], int],
        alignment: int,
        axes: Mapping[Node, Sequence[remora.Axis]] | None = None,
    ) -> tuple[remora.Graph, dict[remora.Op, Node]]:
        """The graph to schedule, and the node of each op but the inputs' one; `axes`: of nodes, by `name_of`."""
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
                axes=(axes or {}).get(node, ()),
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
        return self.with_graph(written, written.node_copy(self.nodes[-1], value).args[0])

    def with_graph(self, written: FxGraph, outputs: Any) -> ExportedProgram:
        """The program with another graph, and its outputs there."""
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
