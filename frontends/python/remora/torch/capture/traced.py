# SPDX-License-Identifier: Apache-2.0
"""Calls of what Dynamo compiles, in which models of transformers call the attention kernels of eager mode.

In eager mode transformers reads masks and positions: attention gets no mask where a padding mask masks nothing and no
sequences are packed, so that a kernel runs that needs none. Traced, a model cannot read values, and always makes the
mask. That costs memory and time, and another kernel has other bits. So while we trace, the model takes for granted that
there is no padding and no packing; what it would have read becomes a check, of each call's arguments, before it runs.
A call that fails the check runs a second form of the step, with transformers' masks. So do all calls with the shapes of
one that failed it when the first form was traced.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
import torch._dynamo
from torch import fx
from torch._subclasses import FakeTensor
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import _disable_current_modes

from ..errors import TorchError
from ..internals import instead, setting_of

SHAPES = 64
"""So many shapes of one step are captured before Dynamo gives up."""
_CPU = torch.device("cpu")
_ASSUMED = "remora: neither padding nor packed sequences"


class _MaskedError(TorchError):
    """The step needs masks; `traced`: the form without them is there, and other arguments may run it."""

    def __init__(self, traced: bool) -> None:
        super().__init__("there is padding, or sequences are packed")
        self.traced = traced


class Traced:
    """A compiled function; `patches`: settings of Dynamo while it is called."""

    def __init__(self, compiled: Callable[..., Any], **patches: Any) -> None:
        self._compiled, self._patches = compiled, patches
        self._masked: set[Any] = set()  # the shapes that have no form without masks

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        """Calls the function."""
        shapes = _shapes(arguments, named) if self._masked else None
        if shapes not in self._masked:
            try:
                with _settings(**self._patches), _unmasked():
                    return self._compiled(*arguments, **named)
            except _MaskedError as error:
                if not error.traced:
                    self._masked.add(_shapes(arguments, named))
        with _settings(**self._patches):
            return self._compiled(*arguments, **named)


def _shapes(arguments: Any, named: Any) -> Any:
    leaves = pytree.tree_leaves((arguments, named))
    return tuple((leaf.shape, leaf.stride(), leaf.dtype) for leaf in leaves if isinstance(leaf, torch.Tensor))


def _settings(**patches: Any) -> Any:
    """Configures Dynamo for a capture: up to `SHAPES` shapes, no log lines, printing deferred."""
    config = torch._dynamo.config
    ignored = {getattr(logging.Logger, name) for name in _LOGGING if hasattr(logging.Logger, name)}
    wanted = {
        "recompile_limit": max(SHAPES, config.recompile_limit),
        "optimize_ddp": False,  # else DistributedDataParallel's buckets cut the graph, and each part has a budget
        "reorderable_logging_functions": {*config.reorderable_logging_functions, print, warnings.warn},
        "ignore_logging_functions": setting_of({*config.ignore_logging_functions, *ignored}),
    }
    return config.patch({**wanted, **patches})


_LOGGING = ("debug", "info", "warning", "warn", "error", "exception", "critical", "log", "warning_once", "info_once")
"""Methods of `logging.Logger`, some of which transformers adds."""


_entered = 0
_entering = threading.Lock()
_stack = contextlib.ExitStack()


@contextlib.contextmanager
def _unmasked() -> Iterator[None]:
    """Replaces transformers' functions, from the first thread that enters to the last one that leaves."""
    global _entered
    with _entering:
        masking = sys.modules.get("transformers.masking_utils")
        for name, make in _READERS.items() if not _entered else ():
            if hasattr(masking, name):
                _stack.enter_context(instead(masking, name, make(getattr(masking, name))))
        _entered += 1
    try:
        yield
    finally:
        with _entering:
            _entered -= 1
            if not _entered:
                _stack.close()


@functools.cache
def _without_padding(can_skip: Callable[..., bool]) -> Callable[..., bool]:
    """A function of transformers that says whether attention needs no mask, without padding."""

    def can_skip_without_padding(padding_mask: torch.Tensor | None, *arguments: Any, **named: Any) -> bool:
        if not torch.compiler.is_dynamo_compiling():
            return can_skip(padding_mask, *arguments, **named)
        if padding_mask is not None:
            torch._assert_async(padding_mask.all(), _ASSUMED)
        return can_skip(None, *arguments, **named)

    return can_skip_without_padding


@functools.cache
def _without_packing(find: Callable[[torch.Tensor], Any]) -> Callable[[torch.Tensor], Any]:
    def no_packed_sequences(position_ids: torch.Tensor) -> Any:
        if not torch.compiler.is_dynamo_compiling():
            return find(position_ids)
        torch._assert_async((position_ids.diff(dim=-1) == 1).all(), _ASSUMED)
        return None

    return no_packed_sequences


@functools.cache
def _traced_tensor(is_tracing: Callable[..., bool]) -> Callable[..., bool]:
    def is_traced(tensor: torch.Tensor | None = None) -> bool:
        return tensor is not None if torch.compiler.is_dynamo_compiling() else is_tracing(tensor)

    return is_traced


@functools.cache
def _not_exported(is_exporting: Callable[[], bool]) -> Callable[[], bool]:
    return lambda: False if torch.compiler.is_dynamo_compiling() else is_exporting()


_READERS: dict[str, Callable[[Any], Any]] = {
    "_ignore_causal_mask_sdpa": _without_padding,
    "_ignore_bidirectional_mask_sdpa": _without_padding,
    "find_packed_sequence_indices": _without_packing,
    "is_tracing": _traced_tensor,
    "is_torchdynamo_exporting": _not_exported,
}
"""Functions of `transformers.masking_utils`, and what makes those that stand for them while we trace."""


def take_checks(module: fx.GraphModule, inputs: Sequence[Any]) -> Callable[[Sequence[Any]], None] | None:
    """Takes the checks out of a graph of Dynamo, and returns a function that checks arguments, first `inputs`.

    It raises an error that `Traced` handles if there is padding, or sequences are packed. None: nothing is to be
    checked.
    """
    parts = [part.graph for part in module.modules() if isinstance(part, fx.GraphModule) and part is not module]
    if any(_is_ours(node) for graph in parts for node in graph.nodes):
        raise _MaskedError(traced=False)  # a region that is checkpointed, say
    nodes = []
    for node in [node for node in module.graph.nodes if _is_ours(node)]:
        holds = node.args[0]
        sources = _sources(holds)
        if sources is None or not sources.isdisjoint(_written_before(node)):
            raise _MaskedError(traced=False)
        module.graph.erase_node(node)
        if any(source.op == "placeholder" for source in _ancestors(holds)):
            nodes.append(holds)
        elif not _value(holds, {}, _CPU):  # the step's device may be absent
            raise _MaskedError(traced=False)
    module.recompile()
    places = module.graph.find_nodes(op="placeholder")

    def check(arguments: Sequence[Any], traced: bool = True) -> None:
        known = dict(zip(places, arguments, strict=True))
        for node in nodes:
            value = _value(node, known)
            if isinstance(value, FakeTensor) or value.is_meta or not value:
                raise _MaskedError(traced)

    check(inputs, traced=False)
    return check if nodes else None


def _is_ours(node: fx.Node) -> bool:
    return node.target is torch._assert_async and node.args[1:] == (_ASSUMED,)


def _ancestors(node: fx.Node) -> set[fx.Node]:
    """A node, and all that it is computed from."""
    found, waiting = {node}, [node]
    while waiting:
        new = [source for source in waiting.pop().all_input_nodes if source not in found]
        found.update(new)
        waiting += new
    return found


def _sources(node: fx.Node) -> set[int] | None:
    """The storages of the values that a node is computed from; None if it does more than a check may do again."""
    nodes = _ancestors(node)
    if any(n.op != "placeholder" and _name(n) not in _PURE for n in nodes):
        return None
    return {storage for n in nodes if (storage := _storage(n)) is not None}


def _written_before(check: fx.Node) -> set[int]:
    """The storages that ops before a check write to."""
    found = set[int]()
    for node in check.graph.nodes:
        if node is check:
            break
        name = _name(node)
        writes = name in _WRITING or (name.endswith("_") and name not in _PURE) or "out" in node.kwargs
        for given in node.all_input_nodes if writes else ():
            if (storage := _storage(given)) is not None:
                found.add(storage)
    return found


def _name(node: fx.Node) -> str:
    name = node.target if isinstance(node.target, str) else str(getattr(node.target, "__name__", node.target))
    return name[2:-2] if name.startswith("__") and name.endswith("__") else name


def _storage(node: fx.Node) -> int | None:
    value = node.meta.get("example_value")
    return int(value.untyped_storage()._cdata) if isinstance(value, torch.Tensor) else None


_PURE = frozenset(
    (
        *("add", "all", "and_", "any", "arange", "bitwise_and", "bitwise_not", "bitwise_or", "bool", "cat", "clone"),
        *("contiguous", "cumsum", "detach", "diff", "eq", "expand", "flatten", "float", "full", "ge", "getitem", "gt"),
        *("int", "invert", "le", "logical_and", "logical_not", "logical_or", "long", "lt", "mul", "ne", "ones"),
        *("ones_like", "or_", "reshape", "stack", "sub", "squeeze", "sum", "to", "type_as", "unsqueeze", "view"),
        *("where", "zeros", "zeros_like"),
    )
)
"""Ops that neither write nor draw, of which checks consist."""
_WRITING = ("setitem", "iadd", "isub", "imul", "itruediv", "iand", "ior", "ixor")


def _value(node: Any, known: dict[fx.Node, Any], device: torch.device | None = None) -> Any:
    """The value of a node, from known ones; `device`: where all that it depends on is made."""
    if node not in known:
        arguments, named = fx.node.map_arg((node.args, dict(node.kwargs)), lambda n: _value(n, known, device))
        if device is not None:
            arguments, named = pytree.tree_map_only(torch.device, lambda _: device, (arguments, named))
            named = {**named, **({"device": device} if "device" in named else {})}
        call = node.target if node.op == "call_function" else getattr(arguments[0], node.target)
        with _disable_current_modes():
            known[node] = call(*(arguments if node.op == "call_function" else arguments[1:]), **named)
    return known[node]
