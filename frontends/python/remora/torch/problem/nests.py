# SPDX-License-Identifier: Apache-2.0
"""The loops of ATen ops: a rule for each op that may be computed in slices. An op without a rule is not cut.

A rule gives the loop of each dimension of what a call reads and makes:

    mm            mk,kn->mn          loops m, k and n; without k, the result is a sum over it
    _log_softmax  all dimensions but the normalized one
    add           the dimensions of the result; an operand that broadcasts lacks some

It says what is independent, whatever the values are: a row of a result reads the stated rows, and a sum adds up terms.
A dimension without a loop is not cut. tests/torch/slices_test.py runs every rule.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch
from torch import fx

from ..capture.graph import is_random

Dims = tuple[str | None, ...]
"""The loop of each dimension of a tensor; None of one that is not cut."""
Place = int | str | tuple[int | str, int]
"""Where an argument stands: its number or name, and of a list also the number in it."""


class Values(Protocol):
    """The fake values of a graph's nodes."""

    value: dict[fx.Node, Any]

    def given(self, node: fx.Node) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments of a call."""


@dataclass(frozen=True)
class Window:
    """Rows of a dimension `dim` that iterations of a loop read: i reads `length` from i * step + offset on."""

    dim: int
    step: int
    offset: int
    length: int


@dataclass(frozen=True)
class Nest:
    """The loops of a call.

    `inputs`: by place; a tensor that is not there is read as a whole. `outputs`: of each result; an output lacks the
    loops over which it is a sum. `sizes`: numbers, or lists of numbers, that are sizes, with the loops of these.
    `same`: results that are the same whatever is cut, as what is empty, or as seeds that nothing draws from.
    `windows`: of inputs, by place and loop; the other rules have none.
    """

    extents: dict[str, int]
    inputs: dict[Place, Dims]
    outputs: tuple[Dims | None, ...]
    sizes: dict[Place, Dims] = field(default_factory=dict)
    same: frozenset[int] = frozenset()
    windows: dict[Place, dict[str, Window]] = field(default_factory=dict)


class Call:
    """A call of an ATen op, with the fake values that it reads and makes."""

    def __init__(self, step: Values, node: fx.Node) -> None:
        self.node = node
        given, named = step.given(node)
        self.arguments = node.target._schema.arguments  # type: ignore[union-attr]
        self._given: dict[str, tuple[int | str, Any]] = {}
        for i, (argument, value) in enumerate(zip(self.arguments, given, strict=False)):
            self._given[argument.name] = i, value
        self._given |= {name: (name, value) for name, value in named.items()}
        made = step.value[node]
        self.outputs: list[Any] = list(made) if isinstance(made, (list, tuple)) else [made]

    def argument(self, name: str) -> Any:
        """The value of an argument, its default where it is not given."""
        if name in self._given:
            return self._given[name][1]
        return next(a.default_value for a in self.arguments if a.name == name)

    def place(self, name: str) -> Place:
        """Where an argument stands."""
        return self._given[name][0]

    def tensors(self) -> Iterator[tuple[Place, torch.Tensor | None]]:
        """The arguments that could be tensors, in the schema's order: place and value, None of one that is not."""
        for place, _, value in self.named():
            yield place, value

    def named(self) -> Iterator[tuple[Place, str, torch.Tensor | None]]:
        """The same with the name of each argument."""
        for argument in self.arguments:
            place, value = self._given.get(argument.name, (argument.name, None))
            if str(argument.type) in ("Tensor", "Optional[Tensor]"):
                yield place, argument.name, value if isinstance(value, torch.Tensor) else None
            elif str(argument.type) == "List[Tensor]":
                yield from (((place, i), argument.name, tensor) for i, tensor in enumerate(value or ()))

    @property
    def first(self) -> torch.Tensor:
        """The first tensor among the arguments."""
        return next(value for _, value in self.tensors() if value is not None)


Rule = Callable[[Call], Nest | None]


def nest_of(step: Values, node: fx.Node, rules: Mapping[str, Rule] | None = None) -> Nest | None:
    """The loops of a node's call; None where no rule says them, and of random and mutable ops.

    `rules`: `RULES` by default. A dialect wraps an op.
    """
    target = getattr(node.target, "_op", node.target)
    if not isinstance(target, torch._ops.OpOverload):
        target = node.target
    if not isinstance(target, torch._ops.OpOverload) or target._schema.is_mutable or is_random(node):
        return None
    rule = (RULES if rules is None else rules).get(str(target))
    if rule is None and torch.Tag.pointwise in target.tags:
        rule = pointwise
    if rule is None:
        return None
    return rule(Call(step, node))


def nest(
    call: Call,
    inputs: Sequence[Dims | None],
    outputs: Sequence[Dims | None],
    sizes: Mapping[str, Dims] | None = None,
    same: Container[int] = (),
    windows: Mapping[str, dict[str, Window]] | None = None,
) -> Nest | None:
    """A nest from the loops of all tensors in the schema's order; None where they do not fit the shapes."""
    extents: dict[str, int] = {}
    given: dict[Place, Dims] = {}
    tensors = list(call.tensors())
    if len(tensors) != len(inputs) or len(call.outputs) != len(outputs):
        return None
    for (place, value), dims in zip(tensors, inputs, strict=True):
        if value is not None and dims is not None:
            fitting = _fit(value, dims, extents)
            if fitting is None:
                return None
            given[place] = fitting
    made: list[Dims | None] = []
    constant: list[int] = []
    for i, (value, wanted) in enumerate(zip(call.outputs, outputs, strict=True)):
        is_same = isinstance(value, torch.Tensor) and (i in same or value.numel() == 0)
        constant += [i] if is_same else []
        is_cut = isinstance(value, torch.Tensor) and wanted is not None and not is_same
        fitting = _fit(value, wanted, extents) if is_cut and wanted is not None else ()
        if fitting is None:
            return None
        made.append(fitting if is_cut else None)
    counted = {
        call.place(name): tuple(loop if loop in extents else None for loop in dims)
        for name, dims in (sizes or {}).items()
    }
    moved = {call.place(name): row for name, row in (windows or {}).items()}
    return Nest(extents, given, tuple(made), counted, frozenset(constant), moved)


def _fit(value: torch.Tensor, dims: Dims, extents: dict[str, int]) -> Dims | None:
    """The loops of a tensor without those of one iteration; None where shapes contradict each other."""
    if value.dim() != len(dims):
        return None
    for size, loop in zip(value.shape, dims, strict=True):
        if loop is not None and size != 1 and extents.setdefault(loop, int(size)) != size:
            return None
    return tuple(loop if size != 1 else None for size, loop in zip(value.shape, dims, strict=True))


def _dims(text: str) -> Dims:
    return tuple(None if letter == "." else letter for letter in text)


def by(text: str, holds: Callable[[Call], bool] = lambda _: True) -> Rule:
    """The rule "mk,kn->mn": a letter for each dimension of a loop, a point for one that is not cut."""
    inputs, outputs = ([_dims(part) for part in side.split(",")] for side in text.split("->"))
    return lambda call: nest(call, list(inputs), list(outputs)) if holds(call) else None


def numbered(count: int, uncut: frozenset[int] = frozenset()) -> Dims:
    """A loop for each of so many dimensions but those that are not cut."""
    return tuple(None if d in uncut else f"d{d}" for d in range(count))


def pointwise(call: Call) -> Nest | None:
    """Every dimension of the result; an operand that broadcasts lacks some."""
    (made,) = call.outputs if len(call.outputs) == 1 else (None,)
    if made is None:
        return None
    dims = numbered(made.dim())

    def of(value: torch.Tensor | None) -> Dims | None:
        return None if value is None else dims[made.dim() - value.dim() :]

    if any(value is not None and value.dim() > made.dim() for _, value in call.tensors()):
        return None
    return nest(call, [of(value) for _, value in call.tensors()], [dims])


def reduced(call: Call) -> frozenset[int]:
    """The dimensions that the argument `dim` names; all without one."""
    count = call.first.dim()
    given = call.argument("dim")
    listed = range(count) if given is None or given == [] else [given] if isinstance(given, int) else given
    return frozenset(int(d) % max(1, count) for d in listed)


def _along(call: Call) -> Nest | None:
    """All dimensions but `dim`, of tensors of one shape."""
    dims = numbered(call.first.dim(), reduced(call))
    return nest(call, [dims for _ in call.tensors()], [dims for _ in call.outputs])


def reduction(is_sum: bool) -> Rule:
    """A sum over dimensions, or another reduction of rows of which each is read as a whole."""

    def rule(call: Call) -> Nest | None:
        has_dim = any(a.name == "dim" for a in call.arguments)
        over = reduced(call) if has_dim else frozenset(range(call.first.dim()))
        keeps = has_dim and bool(call.argument("keepdim"))
        dims = numbered(call.first.dim(), frozenset() if is_sum else over)
        made = tuple(None if d in over else loop for d, loop in enumerate(dims) if keeps or d not in over)
        return nest(call, [dims], [made])

    return rule


def _product(call: Call) -> Nest | None:
    """Addmm and baddbmm: the inner dimension is not cut, since each slice would add the first operand."""
    dims = _dims("bmn" if call.outputs[0].dim() == 3 else "mn")
    added = call.first
    left, right = ((*dims[:-1], None), (*dims[:-2], None, dims[-1]))
    return nest(call, [dims[len(dims) - added.dim() :], left, right], [dims])


def _embedding(call: Call) -> Nest | None:
    indices = numbered(call.argument("indices").dim())
    return nest(call, [(None, "c"), indices], [(*indices, "c")])


def _embedding_backward(call: Call) -> Nest | None:
    if call.argument("scale_grad_by_freq"):
        return None
    indices = numbered(call.argument("indices").dim())
    return nest(call, [(*indices, "c"), indices], [(None, "c")])


def _norm(call: Call) -> Nest | None:
    """Forward and backward of normalizations over the last dimensions, parameters of which have those alone."""
    value: torch.Tensor = call.argument("input")
    normalized = len(call.argument("normalized_shape"))
    outer = value.dim() - normalized
    dims = numbered(value.dim(), frozenset(range(outer, value.dim())))

    def of(tensor: torch.Tensor | None) -> Dims | None:
        if tensor is None:
            return None
        return dims if tensor.dim() == value.dim() else (None,) * normalized

    return nest(call, [of(tensor) for _, tensor in call.tensors()], [of(tensor) for tensor in call.outputs])


def _gather(call: Call) -> Nest | None:
    value, index = call.argument("self"), call.argument("index")
    along = int(call.argument("dim")) % max(1, value.dim())
    if any(d != along and value.shape[d] != index.shape[d] for d in range(value.dim())):
        return None
    dims = numbered(value.dim(), frozenset([along]))
    return nest(call, [dims, dims], [dims])


def leading(dims: Dims, tensor: torch.Tensor | None) -> Dims | None:
    """The loops of a tensor's first dimensions; the others are not cut."""
    return None if tensor is None or tensor.dim() < len(dims) else (*dims, *[None] * (tensor.dim() - len(dims)))


def _convolution(call: Call) -> Nest | None:
    """The batch, and without groups the channels that it makes; those that it reads where no bias is added.

    The gradient of each is a sum over the loops that it lacks.
    """
    is_forward = len(call.outputs) == 1
    has_bias = call.argument("bias") is not None if is_forward else bool(call.argument("output_mask")[2])
    is_single = call.argument("groups") == 1
    made, read = "k" if is_single else None, "c" if is_single and not has_bias else None
    loops: dict[str, Dims] = {
        "input": ("n", read),
        "grad_output": ("n", made),
        "weight": (read, made) if call.argument("transposed") else (made, read),
        "bias": (made,),
    }
    results = ["grad_output"] if is_forward else ["input", "weight", "bias"]
    outputs = [leading(loops[name], value) for name, value in zip(results, call.outputs, strict=True)]
    is_sized = not is_forward and call.argument("bias_sizes") is not None
    given = [leading(loops[name], value) for _, name, value in call.named()]
    return nest(call, given, outputs, {"bias_sizes": loops["bias"]} if is_sized else {})


def _batch_norm(call: Call) -> Nest | None:
    """The channels, of which each is normalized by itself; what cuDNN keeps for the backward pass is not cut."""

    def of(tensor: Any) -> Dims | None:
        if not isinstance(tensor, torch.Tensor) or tensor.dtype == torch.uint8:
            return None
        return ("c",) if tensor.dim() == 1 else leading((None, "c"), tensor)

    return nest(call, [of(value) for _, value in call.tensors()], [of(value) for value in call.outputs])


def _group_norm(call: Call) -> Nest | None:
    """The batch."""

    def of(tensor: torch.Tensor | None) -> Dims | None:
        return None if tensor is None else (None,) if tensor.dim() == 1 else leading(("n",), tensor)

    inputs = [of(value) for _, value in call.tensors()]
    return nest(call, inputs, [of(value) for value in call.outputs], {"N": ("n",)})


def _resized(call: Call) -> Nest | None:
    """Batch and channels of what is enlarged or shrunk."""
    dims = ("n", "c")
    is_backward = any(a.name == "input_size" for a in call.arguments)
    sizes = {"input_size": leading(dims, call.outputs[0]) or ()} if is_backward else {}
    inputs = [leading(dims, value) for _, value in call.tensors()]
    return nest(call, inputs, [leading(dims, value) for value in call.outputs], sizes)


def _difference(call: Call) -> Nest | None:
    """A loss of two tensors of one shape: its rows, or their sum; its gradient."""
    reduction = call.argument("reduction")
    shapes = {tuple(value.shape) for _, name, value in call.named() if value is not None and name != "grad_output"}
    if len(shapes) != 1 or reduction not in (0, 2):
        return None
    (shape,) = shapes
    dims = numbered(len(shape))

    def of(tensor: torch.Tensor | None) -> Dims | None:
        return None if tensor is None else dims if tuple(tensor.shape) == shape else numbered(0)

    return nest(call, [of(value) for _, value in call.tensors()], [of(value) for value in call.outputs])


def _joined(is_new: bool) -> Rule:
    """All dimensions but the one along which tensors are joined; `is_new`: the tensors lack that one."""

    def rule(call: Call) -> Nest | None:
        (made,) = call.outputs
        along = int(call.argument("dim")) % max(1, made.dim())
        dims = numbered(made.dim(), frozenset([along]))
        own = tuple(loop for d, loop in enumerate(dims) if d != along) if is_new else dims
        return nest(call, [own for _ in call.tensors()], [dims])

    return rule


def _attention(call: Call) -> Nest | None:
    """Batch and heads; of grouped heads the batch. Seeds are of no account without dropout."""
    query, key = call.argument("query"), call.argument("key")
    has_mask = any(a.name == "return_debug_mask" for a in call.arguments) and call.argument("return_debug_mask")
    if call.argument("dropout_p") or has_mask or query.dim() != 4:
        return None
    dims = ("b", "h") if query.shape[1] == key.shape[1] else ("b", None)

    def of(tensor: Any) -> Dims | None:
        return leading(dims, tensor) if isinstance(tensor, torch.Tensor) and tensor.dim() > 2 else None

    given = [None if name.startswith("philox") else of(value) for _, name, value in call.named()]
    made = [of(value) for value in call.outputs]
    return nest(call, given, made, same=[i for i, found in enumerate(made) if found is None])


def _sums(call: Call) -> bool:
    """True of a loss whose result is a sum over rows."""
    return bool(call.argument("reduction") == 2)


def _keeps_divisor(call: Call) -> bool:
    """True of a loss's backward that is given what it divides by, or divides by nothing."""
    return bool(call.argument("reduction") in (1, 2))


RULES: dict[str, Rule] = {
    "aten.mm.default": by("mk,kn->mn"),
    "aten.bmm.default": by("bmk,bkn->bmn"),
    "aten.addmm.default": _product,
    "aten.baddbmm.default": _product,
    "aten._softmax.default": _along,
    "aten._log_softmax.default": _along,
    "aten._softmax_backward_data.default": _along,
    "aten._log_softmax_backward_data.default": _along,
    "aten._safe_softmax.default": _along,
    "aten.nll_loss_forward.default": by("n.,n,.->,", _sums),
    "aten.nll_loss_backward.default": by(",n.,n,.,->n.", _keeps_divisor),
    "aten.nll_loss2d_forward.default": by("n.hw,nhw,.->,", _sums),
    "aten.nll_loss2d_backward.default": by(",n.hw,nhw,.,->n.hw", _keeps_divisor),
    "aten.embedding.default": _embedding,
    "aten.embedding_dense_backward.default": _embedding_backward,
    "aten.native_layer_norm.default": _norm,
    "aten.native_layer_norm_backward.default": _norm,
    "aten._fused_rms_norm.default": _norm,
    "aten._fused_rms_norm_backward.default": _norm,
    "aten.sum.default": reduction(True),
    "aten.sum.dim_IntList": reduction(True),
    "aten.mean.dim": reduction(False),
    "aten.amax.default": reduction(False),
    "aten.amin.default": reduction(False),
    "aten._to_copy.default": pointwise,
    "aten.gather.default": _gather,
    "aten.convolution.default": _convolution,
    "aten.convolution_backward.default": _convolution,
    "aten.max_pool2d_with_indices.default": by("nc..->nc..,nc.."),
    "aten.max_pool2d_with_indices_backward.default": by("nc..,nc..,nc..->nc.."),
    "aten.avg_pool2d.default": by("nc..->nc.."),
    "aten.avg_pool2d_backward.default": by("nc..,nc..->nc.."),
    "aten._adaptive_avg_pool2d.default": by("nc..->nc.."),
    "aten._adaptive_avg_pool2d_backward.default": by("nc..,nc..->nc.."),
    "aten._native_batch_norm_legit_functional.default": _batch_norm,
    "aten.native_batch_norm_backward.default": _batch_norm,
    "aten._batch_norm_with_update_functional.default": _batch_norm,
    "aten.batch_norm_backward.default": _batch_norm,
    "aten.native_group_norm.default": _group_norm,
    "aten.native_group_norm_backward.default": _group_norm,
    "aten.cat.default": _joined(False),
    "aten.stack.default": _joined(True),
    **{
        f"aten.{name}{suffix}.default": rule
        for names, rule in (
            (("upsample_nearest2d", "_upsample_nearest_exact2d", "upsample_nearest1d", "upsample_nearest3d"), _resized),
            (("upsample_bilinear2d", "upsample_bicubic2d", "upsample_linear1d", "upsample_trilinear3d"), _resized),
            (("mse_loss", "smooth_l1_loss", "huber_loss"), _difference),
            (("_scaled_dot_product_flash_attention_for_cpu", "_scaled_dot_product_flash_attention"), _attention),
            (("_scaled_dot_product_efficient_attention", "_scaled_dot_product_cudnn_attention"), _attention),
        )
        for name in names
        for suffix in ("", "_backward")
    },
}
"""The rule of each op; those that PyTorch itself calls pointwise need none."""


def chains(nest: Nest) -> Iterator[tuple[str, ...]]:
    """Loops as one, the outermost first: every run of neighbors in the dimensions of a tensor."""
    seen: set[tuple[str, ...]] = set()
    for dims in itertools.chain((d for d in nest.outputs if d is not None), nest.inputs.values()):
        for first, last in itertools.combinations(range(len(dims) + 1), 2):
            chain = tuple(loop for loop in dims[first:last] if loop is not None)
            if len(chain) == last - first and chain not in seen:
                seen.add(chain)
                yield chain
