# SPDX-License-Identifier: Apache-2.0
"""Why there is no schedule, in terms of the program: its nodes, with their lines in the model."""

from __future__ import annotations

from collections.abc import Container, Mapping

from torch.fx import Node

from remora.errors import Infeasible, NoSchedule
from remora.executorch._nodes import FOLD, overload
from remora.graph import Op

_SPLIT = (
    "split it (by batch, channels or image rows{}), or store its tensors in a smaller type: recomputation does not help"
)
_SLICES = '; slices="auto" does that where it can'


def refusal_text(
    error: NoSchedule,
    nodes: Mapping[Op, Node],
    folded: Container[Node],
    alignment: int,
    slices: str,
    sizes: Mapping[str, int],
) -> str:
    """Text of a refusal for users who know the program but not its graph; arenas are multiples of `alignment`.

    `folded`: nodes that are computed from constants alone; `slices`: as the user gave it;
    `sizes`: the largest ones, by name.
    """
    split = _SPLIT.format(_SLICES if slices == "none" and not sizes else "")
    refusal = error.refusal
    node = nodes.get(refusal.op) if refusal.op is not None else None
    what = "the program's start, with all its inputs," if node is None else _described(node)
    state = sum(tensor.size for tensor in error.answer.graph.tensors if tensor.producer is None)
    needed = f"needs {refusal.needed} bytes at once" + (f", {state} of them for state" if state else "")
    reasons = {
        "op": f"{what} alone {needed}; {_suggestion(error, nodes, folded, split)}",
        "event": f"{what} {needed}, with what cannot be recomputed",
        "kept": f"the program's end, with all its outputs, {needed}",
        "search": "proved for the order of the program's nodes",
        "packing": "there are schedules within it, but none was found whose tensors fit into one arena",
        "limits": "none was found within the limits; limits= takes larger ones",
    }
    budgets = _budgets(error, alignment)
    largest = "".join(f", at {name} = {size}" for name, size in sizes.items())
    text = f"no schedule stays within {error.answer.budget} bytes{largest}: {reasons[refusal.reason]}"
    return f"{text}; {budgets}" if budgets else text


def _suggestion(error: NoSchedule, nodes: Mapping[Op, Node], folded: Container[Node], split: str) -> str:
    """Suggestion for an op that is too large by itself."""
    op = error.refusal.op
    tensors = (*op.inputs, *op.outputs) if op is not None else ()
    made = [(t.size, nodes.get(t.producer)) for t in tensors if t.producer is not None]
    size, node = max((row for row in made if row[1] in folded), key=lambda row: row[0], default=(0, None))
    if node is None:
        return split
    it = f"{size} of them are the result of {node.name} ({overload(node)}), which is computed from weights alone"
    rest = f"; for the rest, {split}" if error.refusal.needed - size > error.answer.budget else ""
    return f"{it}: {FOLD}{rest}"


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
