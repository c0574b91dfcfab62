# SPDX-License-Identifier: Apache-2.0
"""A schedule as a graph: each run of an op is a node of its own, in the schedule's order.

Each reader of a value reads the run before it. FX's generated code drops a value behind its last reader, so the memory
of the graph is that of the schedule. A view is made where its value is first read, and again where the memory beneath
was recomputed.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence

import torch
from torch import fx

from remora.torch.capture.graph import Op, Run, StepGraph
from remora.torch.errors import CaptureError


class _Writer:
    def __init__(self, step: StepGraph) -> None:
        self.step, self.graph = step, fx.Graph()
        self.made: dict[fx.Node, fx.Node] = {}
        self.ran: set[Op] = set()
        self.behind = False
        for node in step.placeholders:
            self.made[node] = self.graph.node_copy(node)

    def value(self, node: fx.Node) -> fx.Node:
        """The copy of a node that stands for its value now; views are made where they are not there."""
        node = self.step.resolve(node)
        if node not in self.made:
            if node in self.step.owner:
                raise CaptureError(f"the schedule reads {node.name}, which is not there")
            self._copy(node)
        return self.made[node]

    def run(self, run: Run) -> None:
        """The nodes of one step of the schedule."""
        if run.op in self.ran:
            gone = set(run.op.outputs)
            for node in [n for n in self.made if not gone.isdisjoint(self.step.needs.get(n, ()))]:
                del self.made[node]
        self.ran.add(run.op)
        self.behind = self.behind or run.op.backward
        for node in run.op.nodes:
            self._copy(node)
            for user in node.users:
                if user.target is operator.getitem:  # else the rest of a tuple would live as long as one of its items
                    self._copy(user)

    def finish(self) -> fx.Graph:
        """Updates and results."""
        for place, source in self.step.updates:
            self.graph.call_function(torch.ops.aten.copy_.default, (self.value(place), self.value(source)))
        last = list(self.step.module.graph.nodes)[-1]
        self.graph.node_copy(last, self.value)
        return self.graph

    def _copy(self, node: fx.Node) -> None:
        for source in node.all_input_nodes:
            self.value(source)
        copy = self.graph.node_copy(node, self.value)
        copy.meta = {"remora_copy_of": node.name} | {
            k: dict(v) if isinstance(v, dict) else v for k, v in node.meta.items()
        }
        if self.behind:
            copy.meta["autograd_backward"] = True
        self.made[node] = copy


def rewritten(step: StepGraph, runs: Sequence[Run]) -> fx.GraphModule:
    """The step's module with its ops run as a schedule says."""
    writer = _Writer(step)
    for run in runs:
        writer.run(run)
    graph = writer.finish()
    graph.set_codegen(step.module.graph._codegen)
    graph.lint()
    module = fx.GraphModule(step.module, graph)
    module.meta = dict(step.module.meta)
    return module
