# SPDX-License-Identifier: Apache-2.0
"""Calls of what Dynamo compiles, in which models of transformers call the attention kernels of eager mode.

In eager mode attention without padding gets no mask, so that a kernel runs that needs none. When it is traced,
transformers makes a mask, since it cannot read whether a padding mask masks anything, or whether positions start anew
where sequences are packed. A mask costs memory and time, and another kernel has other bits. So while we trace, a
padding mask that is absent masks nothing, and positions that the model makes itself are read; a step that is given
positions is traced anew, with transformers' masks.
"""

from __future__ import annotations

import contextlib
import logging
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch._dynamo
from torch import fx
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import _disable_current_modes

from ..errors import TorchError
from ..internals import instead, setting_of

SHAPES = 64
"""So many shapes of one step are captured before Dynamo gives up."""
_CPU = torch.device("cpu")
_UNPACKED = "remora: no sequences are packed"


class _PackedError(TorchError):
    """The positions of a step are given, so sequences may be packed."""


class Traced:
    """A compiled function; `patches`: settings of Dynamo while it is called."""

    def __init__(self, compiled: Callable[..., Any], **patches: Any) -> None:
        self._compiled, self._patches, self._packed = compiled, patches, False

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        """Calls the function."""
        if not self._packed:
            with contextlib.suppress(_PackedError), _settings(**self._patches), _eager_masks(_MASKING):
                return self._compiled(*arguments, **named)
            self._packed = True
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
def _eager_masks(replaced: dict[str, Any]) -> Iterator[None]:
    masking = sys.modules.get("transformers.masking_utils")
    with contextlib.ExitStack() as stack:
        for name, value in replaced.items():
            if hasattr(masking, name):
                stack.enter_context(instead(masking, name, value))
        yield


def _unpacked(position_ids: torch.Tensor) -> None:
    """Stands for a search for packed sequences that finds none; `read_positions` looks whether that is so."""
    torch._assert_async((position_ids.diff(dim=-1) == 1).all(), _UNPACKED)


_MASKING: dict[str, Callable[..., Any]] = {
    "is_tracing": lambda tensor=None: tensor is not None,
    "is_torchdynamo_exporting": lambda: False,
    "find_packed_sequence_indices": _unpacked,
}
"""Functions of `transformers.masking_utils`, as they are while we trace."""


def read_positions(module: fx.GraphModule) -> None:
    """Reads the positions of a graph of Dynamo, and takes out what looks whether sequences are packed.

    Raises an error that `Traced` handles if positions are given to the graph, or show packed sequences.
    """
    for node in module.graph.find_nodes(op="call_function", target=torch._assert_async):
        if node.args[1:] != (_UNPACKED,):
            continue
        known: dict[fx.Node, Any] = {}
        with _disable_current_modes():
            if not _value(node.args[0], known):
                raise _PackedError("sequences are packed")
        module.graph.erase_node(node)
    module.recompile()


def _value(node: Any, known: dict[fx.Node, Any]) -> Any:
    """The value of a node that depends on no input, on the CPU: the step's device may be absent."""
    if node not in known:
        given = fx.node.map_arg((node.args, dict(node.kwargs)), lambda n: _value(n, known))
        arguments, named = pytree.tree_map_only(torch.device, lambda _: _CPU, given)
        named = {**named, **({"device": _CPU} if "device" in named else {})}
        if node.op == "call_function":
            known[node] = node.target(*arguments, **named)
        elif node.op == "call_method":
            known[node] = getattr(arguments[0], node.target)(*arguments[1:], **named)
        else:
            raise _PackedError("positions are given")
    return known[node]
