# SPDX-License-Identifier: Apache-2.0
"""Calls of what Dynamo compiles, in which models of transformers call the attention kernels of eager mode.

In eager mode transformers reads masks and positions: attention gets no mask where a padding mask masks nothing and no
sequences are packed, so that a kernel runs that needs none. Traced, a model cannot read values, and always makes the
mask. That costs memory and time, and another kernel has other bits. So while we trace, the model takes for granted that
there is no padding and no packing; what it would have read becomes a check, of each call's arguments, before it runs.
A call that fails the check runs a second form of the step, with transformers' masks.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import sys
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
    """Padding or packed sequences: the step needs masks."""


class Traced:
    """A compiled function; `patches`: settings of Dynamo while it is called."""

    def __init__(self, compiled: Callable[..., Any], **patches: Any) -> None:
        self._compiled, self._patches = compiled, patches

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        """Calls the function."""
        with contextlib.suppress(_MaskedError), _settings(**self._patches), _unmasked():
            return self._compiled(*arguments, **named)
        with _settings(**self._patches):
            return self._compiled(*arguments, **named)


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


@contextlib.contextmanager
def _unmasked() -> Iterator[None]:
    masking = sys.modules.get("transformers.masking_utils")
    with contextlib.ExitStack() as stack:
        for name, make in _READERS.items():
            if hasattr(masking, name):
                stack.enter_context(instead(masking, name, make(getattr(masking, name))))
        yield


@functools.cache
def _without_padding(can_skip: Callable[..., bool]) -> Callable[..., bool]:
    """A function of transformers that says whether attention needs no mask, without padding."""

    def can_skip_without_padding(padding_mask: torch.Tensor | None, *arguments: Any) -> bool:
        if padding_mask is not None:
            torch._assert_async(padding_mask.all(), _ASSUMED)
        return can_skip(None, *arguments)

    return can_skip_without_padding


def _no_packed_sequences(position_ids: torch.Tensor) -> None:
    torch._assert_async((position_ids.diff(dim=-1) == 1).all(), _ASSUMED)


def _is_read(tensor: torch.Tensor | None = None) -> bool:
    return tensor is not None


_READERS: dict[str, Callable[[Any], Any]] = {
    "_ignore_causal_mask_sdpa": _without_padding,
    "_ignore_bidirectional_mask_sdpa": _without_padding,
    "find_packed_sequence_indices": lambda _: _no_packed_sequences,
    "is_tracing": lambda _: _is_read,
    "is_torchdynamo_exporting": lambda _: _is_exporting,
}
"""Functions of `transformers.masking_utils`, and what stands for them while we trace."""


def _is_exporting() -> bool:
    return False


def take_checks(module: fx.GraphModule, inputs: Sequence[Any]) -> Callable[[Sequence[Any]], None] | None:
    """Takes the checks out of a graph of Dynamo, and returns a function that checks arguments, first `inputs`.

    It raises an error that `Traced` handles if there is padding, or sequences are packed. None: nothing is to be
    checked.
    """
    nodes = []
    for node in module.graph.find_nodes(op="call_function", target=torch._assert_async):
        if node.args[1:] != (_ASSUMED,):
            continue
        holds = node.args[0]
        module.graph.erase_node(node)
        try:
            if not _value(holds, {}, _CPU):  # the step's device may be absent
                raise _MaskedError("sequences are packed")
        except _GivenError:
            nodes.append(holds)
    places = module.graph.find_nodes(op="placeholder")

    def check(arguments: Sequence[Any]) -> None:
        known = dict(zip(places, arguments, strict=True))
        for node in nodes:
            value = _value(node, known)
            if isinstance(value, FakeTensor) or value.is_meta or not value:
                raise _MaskedError("there is padding, or there may be some")

    module.recompile()
    if not nodes:
        return None
    check(inputs)
    return check


class _GivenError(Exception):
    """A value depends on an input."""


def _value(node: Any, known: dict[fx.Node, Any], device: torch.device | None = None) -> Any:
    """The value of a node, from known ones; `device`: where all that it depends on is made."""
    if node not in known:
        if node.op not in ("call_function", "call_method"):
            raise _GivenError
        arguments, named = fx.node.map_arg((node.args, dict(node.kwargs)), lambda n: _value(n, known, device))
        if device is not None:
            arguments, named = pytree.tree_map_only(torch.device, lambda _: device, (arguments, named))
            named = {**named, **({"device": device} if "device" in named else {})}
        call = node.target if node.op == "call_function" else getattr(arguments[0], node.target)
        with _disable_current_modes():
            known[node] = call(*(arguments if node.op == "call_function" else arguments[1:]), **named)
    return known[node]
