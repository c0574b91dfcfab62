# SPDX-License-Identifier: Apache-2.0
"""Calls of what Dynamo compiles, in which models of transformers call the attention kernels of eager mode.

In eager mode transformers reads masks and positions: attention gets no mask where a padding mask masks nothing and no
sequences are packed, so that a kernel runs that needs none. Traced, a model cannot read values, and always makes the
mask. That costs memory and time, and another kernel has other bits. So while we trace, the model takes for granted that
there is no padding and no packing; what it would have read becomes a check, of each call's arguments, before it runs.
A call that fails the check runs a second form of the step, with transformers' masks. So do all calls with the shapes of
one that failed it when the first form was traced; where sizes vary, a second such shape traces the first form all the
same.
"""

from __future__ import annotations

import contextlib
import logging
import random
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import torch
import torch._dynamo
import torch.fx.experimental._config
from torch import fx
from torch._subclasses import FakeTensor
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import _disable_current_modes

from ..errors import TorchError
from ..internals import Instead, setting_of, while_traced
from ..symbols import SYMBOLS, hint_of
from .graph import storage_of
from .nested import nested_gradients

SHAPES = 64
"""So many shapes of one step are captured before Dynamo gives up."""
_CPU = torch.device("cpu")
_ASSUMED = "remora: neither padding nor packed sequences"


class _MaskedError(TorchError):
    """The step needs masks; `traced`: the form without them is there, and other arguments may run it.

    `always`: whatever the arguments are.
    """

    def __init__(self, traced: bool, always: bool = False) -> None:
        super().__init__("there is padding, or sequences are packed")
        self.traced, self.always = traced, always


class Traced:
    """A compiled function.

    `masked`: compiled anew, for the form with masks; the same function where each shape is compiled by itself.
    """

    def __init__(self, compiled: Callable[..., Any], masked: Callable[..., Any] | None = None) -> None:
        self._compiled, self._with_masks = compiled, masked or compiled
        self._masked: set[Any] = set()  # the shapes that have no form without masks
        self._always = False  # no shape has one

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        """Calls the function."""
        shapes = _shapes(arguments, named) if self._masked else None
        if not self._always and shapes not in self._masked:
            drawn = random.getstate()
            try:
                with _settings(), nested_gradients, _unmasked:
                    return self._compiled(*arguments, **named)
            except _MaskedError as error:
                random.setstate(drawn)  # Dynamo draws Python's numbers ahead of the graph that checks
                self._always = self._always or error.always
                if not error.traced:
                    self._masked.add(_shapes(arguments, named))
        with _settings(), nested_gradients:
            return self._with_masks(*arguments, **named)


def _shapes(arguments: Any, named: Any) -> Any:
    leaves = pytree.tree_leaves((arguments, named))
    return tuple((leaf.shape, leaf.stride(), leaf.dtype) for leaf in leaves if isinstance(leaf, torch.Tensor))


@contextlib.contextmanager
def _settings() -> Iterator[None]:
    """Configures Dynamo for a capture: up to `SHAPES` shapes, no log lines, printing deferred."""
    config = torch._dynamo.config
    ignored = {getattr(logging.Logger, name) for name in _LOGGING if hasattr(logging.Logger, name)}
    wanted = {
        "recompile_limit": max(SHAPES, config.recompile_limit),
        "trace_autograd_ops": True,  # gradients that are taken inside: the step's own, and those of the model
        "optimize_ddp": False,  # else DistributedDataParallel's buckets cut the graph, and each part has a budget
        "reorderable_logging_functions": {*config.reorderable_logging_functions, print, warnings.warn},
        "ignore_logging_functions": setting_of({*config.ignore_logging_functions, *ignored}),
        "specialize_float": True,
        "use_numpy_random_stream": True,  # else NumPy's random numbers come from PyTorch's generator
    }
    # Sizes that are equal in one call need not be so in the next one.
    apart = torch.fx.experimental._config.patch({"use_duck_shape": False})  # type: ignore[attr-defined]
    with config.patch(wanted), apart:
        yield


_LOGGING = ("debug", "info", "warning", "warn", "error", "exception", "critical", "log", "warning_once", "info_once")
"""Methods of `logging.Logger`, some of which transformers adds."""


def _readers() -> Iterator[tuple[Any, str, Any]]:
    """Replacements of transformers' functions."""
    masking = sys.modules.get("transformers.masking_utils")
    for name, traced in _READERS.items():
        if hasattr(masking, name):
            yield masking, name, while_traced(traced, getattr(masking, name))


_unmasked = Instead(_readers)


def _without_padding(own: Any, padding_mask: torch.Tensor | None, *arguments: Any, **named: Any) -> bool:
    """Says whether attention needs no mask, if there is no padding."""
    if padding_mask is not None:
        torch._assert_async(padding_mask.all(), _ASSUMED)
    can_skip: bool = own(None, *arguments, **named)
    return can_skip


def _without_packing(_: Any, position_ids: torch.Tensor) -> None:
    torch._assert_async((position_ids.diff(dim=-1) == 1).all(), _ASSUMED)


def _traced_tensor(_: Any, tensor: torch.Tensor | None = None) -> bool:
    return tensor is not None


def _not_exported(_: Any) -> bool:
    return False


_READERS: dict[str, Callable[..., Any]] = {
    "_ignore_causal_mask_sdpa": _without_padding,
    "_ignore_bidirectional_mask_sdpa": _without_padding,
    "find_packed_sequence_indices": _without_packing,
    "is_tracing": _traced_tensor,
    "is_torchdynamo_exporting": _not_exported,
}
"""Functions of `transformers.masking_utils`, and what Dynamo traces in their place."""


def take_checks(
    module: fx.GraphModule, inputs: Sequence[Any], at_once: bool = True
) -> Callable[[Sequence[Any]], None] | None:
    """Takes the checks out of a graph of Dynamo, and returns a function that checks arguments, first `inputs`.

    It raises an error that `Traced` handles if there is padding, or sequences are packed. None: nothing is to be
    checked. `at_once`: False if `inputs` are not checked.
    """
    parts = [part.graph for part in module.modules() if isinstance(part, fx.GraphModule) and part is not module]
    if any(_is_ours(node) for graph in parts for node in graph.nodes):
        raise _MaskedError(traced=False, always=True)  # a region that is checkpointed, say
    ours = [node for node in module.graph.nodes if _is_ours(node)]
    if not ours:
        return None
    nodes: list[tuple[fx.Node, torch.device | None]] = []
    for node in ours:
        holds = node.args[0]
        sources = _sources(holds)
        if sources is None or not sources.isdisjoint(_written_before(node)):
            raise _MaskedError(traced=False, always=True)
        module.graph.erase_node(node)
        given = [source for source in _ancestors(holds) if source.op == "placeholder"]
        if given:  # what follows from sizes alone needs no device
            has_tensors = any(isinstance(source.meta.get("example_value"), torch.Tensor) for source in given)
            nodes.append((holds, None if has_tensors else _CPU))
        elif not _truth(holds, {}, _CPU):  # the step's device may be absent
            raise _MaskedError(traced=False)
    module.recompile()
    places = module.graph.find_nodes(op="placeholder")

    def check(arguments: Sequence[Any], traced: bool = True) -> None:
        known = dict(zip(places, arguments, strict=True))
        for node, device in nodes:
            truth = _truth(node, dict(known), device)
            if not truth:
                raise _MaskedError(traced, always=truth is None)

    if at_once:
        # With the sizes of this call, and without a guard: the graph is for others, too.
        check([hint_of(given) if isinstance(given, SYMBOLS) else given for given in inputs], traced=False)
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
    return _storages(nodes)


def _written_before(check: fx.Node) -> set[int]:
    """The storages that ops before a check write to."""
    found = set[int]()
    for node in check.graph.nodes:
        if node is check:
            break
        name = _name(node)
        writes = name in _WRITING or (name.endswith("_") and name not in _PURE) or "out" in node.kwargs
        found |= _storages(node.all_input_nodes) if writes else set()
    return found


def _name(node: fx.Node) -> str:
    name = node.target if isinstance(node.target, str) else str(getattr(node.target, "__name__", node.target))
    return name[2:-2] if name.startswith("__") and name.endswith("__") else name


def _storages(nodes: Iterable[fx.Node]) -> set[int]:
    """The storages of the values of nodes."""
    return {storage_of(node.meta.get("example_value")) for node in nodes} - {0}


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


def _truth(node: fx.Node, known: dict[fx.Node, Any], device: torch.device | None) -> bool | None:
    """The value of a node, one number; None if it has none, since arguments are fake."""
    value = _value(node, known, device)
    if isinstance(value, FakeTensor) or value.is_meta:
        return None
    with _disable_current_modes():
        return bool(value)


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
