# SPDX-License-Identifier: Apache-2.0
"""Plain eager: nothing is checkpointed, nothing runs compiled."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import torch
import torch.utils.checkpoint

from ..internals import instead


@contextlib.contextmanager
def plainly(hooks: Sequence[Any] = ()) -> Iterator[None]:
    """While it lasts, nothing is checkpointed, nothing runs compiled, and these dictionaries of hooks are empty."""

    def apply(function: Any, _: bool, *arguments: Any) -> Any:
        return function(*arguments)

    def around(*_: Any, **__: Any) -> Iterator[None]:
        yield

    with contextlib.ExitStack() as stack:
        stack.enter_context(torch.compiler.set_stance("force_eager"))
        stack.enter_context(_emptied(hooks))
        stack.enter_context(instead(torch.utils.checkpoint.CheckpointFunction, "apply", staticmethod(apply)))
        for module in ("torch.utils.checkpoint", "torch.distributed._composable.checkpoint_activation"):
            for name in _GENERATORS:
                if hasattr(sys.modules.get(module), name):
                    stack.enter_context(instead(sys.modules[module], name, around))
        yield


_GENERATORS = ("_checkpoint_without_reentrant_generator", "_checkpoint_without_reentrant_generator_impl")
"""Code that PyTorch runs around a checkpointed call, up to and after its one `yield`."""


@contextlib.contextmanager
def _emptied(dictionaries: Sequence[Any]) -> Iterator[None]:
    before = [dict(dictionary) for dictionary in dictionaries]
    for dictionary in dictionaries:
        dictionary.clear()
    try:
        yield
    finally:
        for dictionary, entries in zip(dictionaries, before, strict=True):
            dictionary.update(entries)
