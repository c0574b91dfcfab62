# SPDX-License-Identifier: Apache-2.0
"""Where the bits of a captured op would differ from eager's.

Ops that PyTorch takes apart when it traces, though eager runs them whole, are kept whole: `F.interpolate` has a form
written in Python for tracing (`torch._decomp`), whose gradients add up in another order than the kernels do.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
from torch._C import DispatchKey

_WHOLE = ("upsample_", "_upsample_")
_KEYS = (DispatchKey.Autograd, DispatchKey.CompositeImplicitAutograd)


@contextlib.contextmanager
def whole_ops() -> Iterator[None]:
    """While it lasts, tracing sees these ops as eager does."""
    hidden: list[tuple[Any, Any, Any]] = []
    for op in _overloads():
        for key in _KEYS:
            if key in op.py_kernels:
                hidden.append((op, key, op.py_kernels.pop(key)))
        op._dispatch_cache.clear()
    try:
        yield
    finally:
        for op, key, kernel in hidden:
            op.py_kernels[key] = kernel
        for op in {id(op): op for op, _, _ in hidden}.values():
            op._dispatch_cache.clear()


def dropout_backward(gradient: torch.Tensor, mask: torch.Tensor, scale: float) -> torch.Tensor:
    """What eager dropout gives on the CPU: unlike the captured op, it rounds the scale to the tensor's type."""
    return mask.to(gradient.dtype).mul_(scale).mul_(gradient)


def _overloads() -> Iterator[Any]:
    for name in dir(torch.ops.aten):
        if name.startswith(_WHOLE):
            packet = getattr(torch.ops.aten, name)
            for overload in packet.overloads():
                yield getattr(packet, overload)
