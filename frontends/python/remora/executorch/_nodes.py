# SPDX-License-Identifier: Apache-2.0
"""The nodes of an edge program: what each returns, in which memory, and whether it may run again."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Container, Iterable
from typing import Any

import torch
from executorch.exir import memory
from executorch.exir.delegate import executorch_call_delegate
from executorch.exir.dialects._ops import ops
from executorch.exir.sym_util import eval_shape_upper_bound, eval_upper_bound
from torch.fx import Node

from remora.errors import InputError

OFFSETS = "remora_offsets"
"""The key of `Node.meta` under which `RecomputePass` keeps addresses: an offset for each place of a node's results."""

_VIEWS = (ops.edge.aten.view_copy.default, torch.ops.aten.view_copy.default)
SYMBOLIC = (torch.SymInt, torch.SymFloat, torch.SymBool)
"""Types of values that are computed from symbolic sizes, and lie in no arena."""
_CONTROL_FLOW = ("cond", "while_loop", "map_impl", "scan")


def values(node: Node) -> list[Any]:
    """The values it returns: one, several or none; [None] if that is not known."""
    value = node.meta.get("val")
    op = overload(node)
    if op is not None and not op._schema.returns:
        return []
    return list(value) if isinstance(value, (list, tuple)) else [value]


def results(node: Node) -> dict[int, torch.Tensor]:
    """The tensors that it returns, by their places: a gradient that is not asked for is None."""
    return {place: value for place, value in enumerate(values(node)) if isinstance(value, torch.Tensor)}


def as_planned(value: Any) -> Any:
    """Tensors without memory, and numbers: of symbolic sizes the upper bounds, for which ExecuTorch plans."""
    if isinstance(value, torch.Tensor):
        return torch.empty(eval_shape_upper_bound(value.shape), dtype=value.dtype, device="meta")
    if isinstance(value, torch.SymInt):
        return eval_upper_bound(value)
    return type(value)(map(as_planned, value)) if isinstance(value, (list, tuple)) else value


def bytes_of(tensor: torch.Tensor) -> int:
    """Bytes of its elements at the largest sizes."""
    elements: int = math.prod(eval_shape_upper_bound(tensor.shape))
    return elements * tensor.element_size()


def is_view(node: Node) -> bool:
    """True if ExecuTorch makes it a view: every copy that is not an output."""
    return node.target in _VIEWS and all(user.op != "output" for user in node.users)


def base(node: Node) -> Node:
    """The node that a view or an item is taken from."""
    base: Any = node.args[0]
    return base  # type: ignore[no-any-return]


def is_item(node: Node) -> bool:
    return node.op == "call_function" and getattr(node.target, "__name__", "") == "getitem"


def place_of(item: Node) -> int:
    """The place of an item among the results of its node."""
    place: Any = item.args[1]
    return int(place)


def overload(node: Node) -> torch._ops.OpOverload | None:
    """The op behind a node; None for a delegate or a function of Python.

    A dialect wraps an overload, or leaves it as it is: the edge dialect does so with ``aten.scalar_tensor``.
    """
    candidates = (node.target, getattr(node.target, "_op", None))
    return next((op for op in candidates if isinstance(op, torch._ops.OpOverload)), None)


def may_repeat(node: Node) -> bool:
    op = overload(node)
    return op is not None and torch.Tag.nondeterministic_seeded not in op.tags


FOLD = (
    "fold it into a constant, which is not in the arena: to_edge(constant_prop_pass(exported.run_decompositions())), "
    "with constant_prop_pass of executorch.exir.passes.constant_prop_pass"
)
"""Suggestion for the result of a node that is `folded`."""


def folded(nodes: Iterable[Node], constants: Container[str]) -> set[Node]:
    """The nodes that are computed from constants alone, such as copies of weights that are transposed.

    `constants`: names of placeholders.
    """
    found: set[Node] = set()
    for node in nodes:
        inputs = [n for n in node.all_input_nodes if n.target is not memory.alloc]
        known = [n in found or n.op == "get_attr" or n.name in constants for n in inputs]
        if node.op == "call_function" and known and all(known):
            found.add(node)
    return found


def expect_supported(node: Node) -> None:
    """Rejects graphs that the graph above does not describe correctly."""
    op = overload(node)
    target: Any = node.target
    unsupported = ""
    if op is not None and op._schema.is_mutable:
        unsupported = "nodes that write into their arguments"
    elif isinstance(target, torch._ops.HigherOrderOperator) and target is not executorch_call_delegate:
        name = target.__name__
        writes = "auto_functionalized" in name
        unsupported = "custom ops that write into their arguments" if writes else "higher-order ops"
        unsupported = "control flow" if name in _CONTROL_FLOW else unsupported
    if unsupported:
        raise InputError(f"node {node.name}", f"recomputes are not for programs with {unsupported} ({op or target})")
    several = isinstance(node.meta.get("val"), (list, tuple))
    for value in values(node):
        if value is None and several:
            continue
        if not isinstance(value, (torch.Tensor, *SYMBOLIC)):
            raise InputError(f"node {node.name}", f"gives {type(value).__name__}, and recomputes are for tensors alone")
        if isinstance(value, torch.Tensor):
            try:
                bytes_of(value)
            except RuntimeError as error:
                shape = ", ".join(map(str, value.shape))
                raise InputError(f"node {node.name}", f"has the shape [{shape}], which has no upper bound") from error


def largest_sizes(nodes: Iterable[Node]) -> dict[str, int]:
    """The symbolic sizes of a program with the largest of each, by the names that the user gave them, if any."""
    found: dict[str, int] = {}
    for size in (size for node in nodes for tensor in results(node).values() for size in tensor.shape):
        if isinstance(size, torch.SymInt):
            shapes: Any = size.node.shape_env
            for symbol in sorted(size.node.expr.free_symbols, key=str):
                with contextlib.suppress(RuntimeError):  # none: expect_supported rejects what has no bound
                    largest = eval_upper_bound(shapes.create_symintnode(symbol, hint=None))
                    found.setdefault(_name(shapes, symbol), largest)
    return found


def _name(shapes: Any, symbol: Any) -> str:
    sources = [source.name for source in shapes.var_to_sources.get(symbol, ())]
    texts = [name if isinstance(name, str) else name() for name in sources]  # a method in older versions
    # Of a multiple of a dimension, the dimension itself is a source.
    known = [shapes.source_name_to_debug_name.get(name, name) for name in texts]
    return next((name for name in known if name.isidentifier()), str(symbol))
