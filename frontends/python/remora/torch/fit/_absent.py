# SPDX-License-Identifier: Apache-2.0
"""Graphs for a GPU that this machine does not have.

Tensors without memory (`FakeTensorMode`) may lie on "cuda" where no driver is, and forward ops on them work. Four
things ask the driver all the same, and are answered here while a graph is captured:

* PyTorch's autograd engine asks each device for its streams. A backward pass is walked in Python instead, in the
  engine's own order: of the nodes whose gradients are all there, the one that ran last in the forward pass first.
* `torch.autocast` switches itself off where no device is.
* cuDNN's batch normalization asks how many bytes it keeps for the backward pass: none.
* Attention asks the device which of its kernels it has. The kernel that a GPU of this kind takes is chosen by the rules
  of PyTorch's `sdp_utils.cpp`: flash attention for half precision without a mask, the memory-efficient kernel for
  float32 and for masks, otherwise single ops.

Where the driver is there, none of this is done.
"""

from __future__ import annotations

import contextlib
import heapq
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch._C import DispatchKey
from torch.autograd import Variable
from torch.autograd.graph import GradientEdge, Node, get_gradient_edge

from ..internals import hidden_kernels, instead
from ..symbols import same_lengths

FLASH_WIDTH = 256
"""Heads of up to so many numbers have flash attention."""
_KEYS = (DispatchKey.Autograd, DispatchKey.CompositeImplicitAutograd)
BIAS_ALIGNMENT = 16
"""The memory-efficient kernel reads rows of a bias that begin at multiples of so many numbers."""


@contextlib.contextmanager
def standing_in(device: torch.device) -> Iterator[None]:
    """While it lasts, steps on fake tensors of the device are captured, whether or not it is there."""
    if device.type != "cuda" or torch.cuda.is_available():
        yield
        return
    variable: Any = Variable
    changes = [
        instead(variable, "_execution_engine", _Engine(variable._execution_engine)),
        instead(torch.cuda.amp.common, "amp_definitely_not_available", lambda: False),
        instead(torch.cuda, "is_bf16_supported", lambda *_, **__: True),
        instead(torch._C, "_get_cudnn_batch_norm_reserve_space_size", lambda *_: 0),  # but for channels last in half
        hidden_kernels([torch.ops.aten.scaled_dot_product_attention.default], _KEYS, lambda _: attention),
    ]
    with contextlib.ExitStack() as stack:
        for change in changes:
            stack.enter_context(change)
        yield


# -- A backward pass in Python -----------------------------------------------------------------------------------------


class _Engine:
    """Replaces PyTorch's engine in `torch.autograd.backward` and `grad`; forwards everything else to it."""

    def __init__(self, engine: Any) -> None:
        self._engine = engine

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    def run_backward(
        self,
        outputs: Sequence[Any],
        gradients: Sequence[torch.Tensor | None],
        keep_graph: bool,
        create_graph: bool,
        inputs: Sequence[Any] = (),
        allow_unreachable: bool = False,
        accumulate_grad: bool = False,
    ) -> tuple[torch.Tensor | None, ...]:
        roots, wanted = [_edge(t) for t in outputs], [_edge(t) for t in inputs]
        walk = _Walk(roots, [] if accumulate_grad and not wanted else wanted, accumulate_grad)
        with torch.set_grad_enabled(create_graph):
            walk.run(roots, gradients)
        return () if accumulate_grad else tuple(walk.captured.get((w.node, w.output_nr)) for w in wanted)


def _edge(tensor: Any) -> GradientEdge:
    return tensor if isinstance(tensor, GradientEdge) else get_gradient_edge(tensor)


class _Walk:
    """One backward pass: how many gradients each node waits for, and those that came."""

    def __init__(self, roots: Sequence[GradientEdge], wanted: Sequence[GradientEdge], leaves_too: bool) -> None:
        self.waiting: dict[Node, int] = {}
        self.arrived: dict[Node, list[torch.Tensor | None]] = {}
        self.captured: dict[tuple[Node, int], torch.Tensor | None] = {}
        self.wanted = {(w.node, w.output_nr) for w in wanted}
        nodes = list(dict.fromkeys(root.node for root in roots))
        seen = set(nodes)
        for node in nodes:  # grows
            for following, _ in node.next_functions:
                if following is not None:
                    self.waiting[following] = self.waiting.get(following, 0) + 1
                    if following not in seen:
                        seen.add(following)
                        nodes.append(following)
        targets = {w.node for w in wanted}
        self.runs = self._leading_to(nodes, targets) if wanted else seen
        if leaves_too:
            self.runs = self.runs | targets
        self.live = self.runs | targets

    def _leading_to(self, nodes: list[Node], targets: set[Node]) -> set[Node]:
        """The nodes from which gradients reach one of the targets."""
        before: dict[Node, list[Node]] = {}
        for node in nodes:
            for following, _ in node.next_functions:
                if following is not None:
                    before.setdefault(following, []).append(node)
        found: set[Node] = set()
        left = list(targets)
        while left:
            for node in before.get(left.pop(), ()):
                if node not in found:
                    found.add(node)
                    left.append(node)
        return found

    def run(self, roots: Sequence[GradientEdge], gradients: Sequence[torch.Tensor | None]) -> None:
        for root, gradient in zip(roots, gradients, strict=True):
            self._give(root.node, root.output_nr, gradient)
        ready: list[tuple[int, int, Node]] = []
        for i, node in enumerate(dict.fromkeys(root.node for root in roots)):
            if not self.waiting.get(node):
                heapq.heappush(ready, (-node._sequence_nr(), i, node))
        count = len(ready)
        while ready:
            node = heapq.heappop(ready)[2]
            given = self.arrived.pop(node)
            for i, gradient in enumerate(given):
                if (node, i) in self.wanted:
                    self.captured[node, i] = gradient
            if node not in self.runs:
                continue
            run: Any = node
            made = run(*given)
            results = made if isinstance(made, tuple) else (made,)
            for (following, i), gradient in zip(node.next_functions, results, strict=False):
                if following is None or following not in self.live:
                    continue
                self._give(following, i, gradient)
                self.waiting[following] -= 1
                if not self.waiting[following]:
                    count += 1
                    heapq.heappush(ready, (-following._sequence_nr(), count, following))

    def _give(self, node: Node, place: int, gradient: torch.Tensor | None) -> None:
        like = node._input_metadata
        given = self.arrived.setdefault(node, [None] * max(1, len(like)))
        if gradient is None:
            return
        shape, dtype = tuple(like[place].shape), like[place].dtype
        if not same_lengths(gradient.shape, shape):
            gradient = gradient.sum_to_size(shape)
        if gradient.dtype != dtype:
            gradient = gradient.to(dtype)
        there = given[place]
        given[place] = gradient if there is None else there + gradient


# -- Attention ---------------------------------------------------------------------------------------------------------


def attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_mask: torch.Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> torch.Tensor:
    """`scaled_dot_product_attention` as a GPU's kernel for these arguments."""
    aten = torch.ops.aten
    given = (query, key, value)
    result: torch.Tensor
    half = query.dtype in (torch.float16, torch.bfloat16)
    width = query.shape[-1]
    whole = all(t.dim() == 4 for t in given) and value.shape[-1] == width and query.device.type == "cuda"
    grouped = query.shape[-3] != key.shape[-3]
    if whole and half and attn_mask is None and width <= FLASH_WIDTH and (enable_gqa or not grouped):
        lacking = -width % 8
        padded = [torch.nn.functional.pad(t, (0, lacking)) for t in given] if lacking else given
        factor = scale if scale is not None else width**-0.5
        (result, *_) = aten._scaled_dot_product_flash_attention.default(
            *padded, dropout_p, is_causal, False, scale=factor
        )
        return result[..., :width]
    alignment = 8 if half else 4
    if whole and (half or query.dtype == torch.float32) and not grouped and width % alignment == 0:
        bias = _bias(attn_mask, query, key)
        needs = any(t.requires_grad for t in given)
        (result, *_) = aten._scaled_dot_product_efficient_attention.default(
            *given, bias, needs, dropout_p, is_causal, scale=scale
        )
        return result
    (result, *_) = aten._scaled_dot_product_attention_math.default(
        *given, attn_mask, dropout_p, is_causal, None, scale=scale, enable_gqa=enable_gqa
    )
    return result


def _bias(mask: torch.Tensor | None, query: torch.Tensor, key: torch.Tensor) -> torch.Tensor | None:
    """A mask as the kernel reads it: numbers of the query's type, in aligned rows, one for each head."""
    if mask is None:
        return None
    if mask.dtype == torch.bool:
        zero, out = (mask.new_full((), x, dtype=query.dtype) for x in (0.0, float("-inf")))
        mask = torch.where(mask, zero, out)
    columns = mask.shape[-1]
    if columns % BIAS_ALIGNMENT:
        mask = torch.nn.functional.pad(mask, (0, -columns % BIAS_ALIGNMENT))[..., :columns]
    return mask.expand(*query.shape[:-1], key.shape[-2])
