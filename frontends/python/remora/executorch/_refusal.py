# SPDX-License-Identifier: Apache-2.0
"""Why there is no schedule, in terms of the program: its nodes, with their lines in the model."""

from __future__ import annotations

from collections.abc import Mapping

from torch.fx import Node

from remora.errors import Infeasible, NoSchedule
from remora.executorch._nodes import overload
from remora.graph import Op

_SPLIT = (
    "split it (by batch, channels or image rows), or store its tensors in a smaller type: recomputation does not help"
)


def refusal_text(error: NoSchedule, nodes: Mapping[Op, Node], alignment: int) -> str:
    """Text of a refusal for users who know the program but not its graph; arenas are multiples of `alignment`."""
    refusal = error.refusal
    node = nodes.get(refusal.op) if refusal.op is not None else None
    what = "the program's start, with all its inputs," if node is None else _described(node)
    state = sum(tensor.size for tensor in error.answer.graph.tensors if tensor.producer is None)
    needed = f"needs {refusal.needed} bytes at once" + (f", {state} of them for state" if state else "")
    reasons = {
        "op": f"{what} alone {needed}; {_SPLIT}",
        "event": f"{what} {needed}, with what cannot be recomputed",
        "kept": f"the program's end, with all its outputs, {needed}",
        "search": "proved for the order of the program's nodes",
        "packing": "there are schedules within it, but none was found whose tensors fit into one arena",
        "limits": "none was found within the limits; limits= takes larger ones",
    }
    budgets = _budgets(error, alignment)
    text = f"no schedule stays within {error.answer.budget} bytes: {reasons[refusal.reason]}"
    return f"{text}; {budgets}" if budgets else text


def _budgets(error: NoSchedule, alignment: int) -> str:
    refusal = error.refusal
    fixed = error.answer.graph.fixed_memory
    lowest = fixed + -(-(refusal.lower_bound - fixed) // alignment) * alignment
    if isinstance(error, Infeasible) and refusal.enough == lowest:
        return f"the minimum budget is {lowest} bytes"
    known = [f"lower bound on any feasible budget: {lowest} bytes"] if isinstance(error, Infeasible) else []
    return "; ".join([*known, f"{refusal.enough} bytes are enough"] if refusal.enough else known)


def _described(node: Node) -> str:
    lines = [line.strip() for line in str(node.meta.get("stack_trace") or "").splitlines()]
    source = next((line for line in reversed(lines) if line.startswith("File ")), "")
    return f"node {node.name} ({overload(node) or node.target}{source.replace('File', ', at', 1)})"
