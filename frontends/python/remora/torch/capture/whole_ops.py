# SPDX-License-Identifier: Apache-2.0
"""Where the bits of a captured op would differ from eager's.

Ops that PyTorch takes apart when it traces, though eager runs them whole, are kept whole: `F.interpolate` has a form
written in Python for tracing (`torch._decomp`), whose gradients add up in another order than the kernels do.

Eager's batch normalization on a GPU is cuDNN's wherever cuDNN has one. A traced one is PyTorch's own kernel, unless it
is traced as `_batch_norm_with_update`, which chooses as eager does and hands cuDNN's reserve to the backward op.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
from torch._C import DispatchKey

from ..internals import hidden_kernels

_WHOLE = ("upsample_", "_upsample_")
_KEYS = (DispatchKey.Autograd, DispatchKey.CompositeImplicitAutograd)


def whole_ops() -> contextlib.AbstractContextManager[None]:
    """While it lasts, tracing sees these ops as eager does."""
    normalization = torch.ops.aten.batch_norm.default
    ops = [*_overloads(), normalization]
    return hidden_kernels(ops, _KEYS, lambda op: batch_norm if op is normalization else None)


def batch_norm(
    x: torch.Tensor,
    weight: torch.Tensor | None,
    bias: torch.Tensor | None,
    mean: torch.Tensor | None,
    variance: torch.Tensor | None,
    training: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool,
) -> torch.Tensor:
    """`torch.batch_norm` as it is traced: on a GPU as the op that chooses its kernel when it runs."""
    result: torch.Tensor
    if x.device.type == "cuda" and cudnn_enabled and training and mean is not None and variance is not None:
        (result, *_) = torch.ops.aten._batch_norm_with_update(x, weight, bias, mean, variance, momentum, eps)
    else:
        (result, *_) = torch.ops.aten._batch_norm_impl_index(
            x, weight, bias, mean, variance, training, momentum, eps, cudnn_enabled
        )
    return result


def dropout_backward(gradient: torch.Tensor, mask: torch.Tensor, scale: float) -> torch.Tensor:
    """Eager dropout's result on the CPU: unlike the captured op, it rounds the scale to the tensor's type."""
    return mask.to(gradient.dtype).mul_(scale).mul_(gradient)


def _overloads() -> Iterator[Any]:
    for name in dir(torch.ops.aten):
        if name.startswith(_WHOLE):
            packet = getattr(torch.ops.aten, name)
            for overload in packet.overloads():
                yield getattr(packet, overload)
