# SPDX-License-Identifier: Apache-2.0
"""Gradients that are taken inside of what Dynamo traces: in the backward of an `autograd.Function`, or in a forward.

Two things are replaced while Dynamo may trace, since PyTorch has no setting for them:

* For `loss.backward()` Dynamo collects every leaf that was made so far. The leaves of an `autograd.Function`, such as
  `x.detach().requires_grad_()` in its backward, are nodes of another graph, and no gradient of the loss reaches them.
* `torch.autograd.backward(tensors, gradients)` is called as `backward()` of one tensor, whose gradient is handed on to
  all of them at once; one after the other would add up the gradients of what they share in another order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
from torch._dynamo.variables.tensor import TensorVariable

from ..internals import Instead, while_traced


class _Roots(torch.autograd.Function):
    """A number whose gradient gives some tensors the gradients that are handed over behind them."""

    @staticmethod
    def forward(ctx: Any, count: int, *tensors: torch.Tensor) -> torch.Tensor:
        ctx.count = count
        ctx.save_for_backward(*tensors[count:])
        return tensors[0].new_zeros(())

    @staticmethod
    def backward(ctx: Any, *_: torch.Tensor) -> Any:
        return (None, *ctx.saved_tensors, *[None] * ctx.count)


def _backward(
    _: Any,
    tensors: Any,
    grad_tensors: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    grad_variables: Any = None,
    inputs: Any = None,
) -> None:
    """`torch.autograd.backward` as Dynamo traces it."""
    given = grad_variables if grad_tensors is None else grad_tensors
    roots = (tensors,) if isinstance(tensors, torch.Tensor) else tuple(tensors)
    gradients = (given,) * len(roots) if given is None or isinstance(given, torch.Tensor) else tuple(given)
    if len(gradients) != len(roots):
        raise RuntimeError(f"torch.autograd.backward is given {len(roots)} tensors and {len(gradients)} gradients")
    if any(not root.requires_grad for root in roots):
        raise RuntimeError("a tensor of torch.autograd.backward does not require grad and does not have a grad_fn")
    if any(root.numel() != 1 and gradient is None for root, gradient in zip(roots, gradients, strict=True)):
        raise RuntimeError("grad can be implicitly created only for scalar outputs")
    options: dict[str, Any] = {} if inputs is None else {"inputs": inputs}
    options |= {} if retain_graph is None else {"retain_graph": retain_graph}
    if create_graph:
        options["create_graph"] = True
    if len(roots) == 1:
        roots[0].backward(gradients[0], **options)
        return
    filled = [torch.ones_like(r) if g is None else g for r, g in zip(roots, gradients, strict=True)]
    with torch.enable_grad():
        root = _Roots.apply(len(roots), *roots, *filled)
    root.backward(**options)


def _collecting(own: Callable[..., Any]) -> Callable[..., Any]:
    def collect(self: Any, found: Iterable[Any], **options: Any) -> Any:
        def is_here(leaf: Any) -> bool:
            inner = isinstance(leaf, TensorVariable) and leaf.source is None
            return not inner or leaf.as_proxy().tracer is self.as_proxy().tracer

        return own(self, filter(is_here, found), **options)

    return collect


def _replaced() -> Iterator[tuple[Any, str, Any]]:
    yield torch.autograd, "backward", while_traced(_backward, torch.autograd.backward)
    if hasattr(TensorVariable, "_collect_backward_inputs"):
        yield TensorVariable, "_collect_backward_inputs", _collecting(TensorVariable._collect_backward_inputs)


nested_gradients = Instead(_replaced)
"""While it is entered, Dynamo traces them; it also needs the setting `trace_autograd_ops`."""
