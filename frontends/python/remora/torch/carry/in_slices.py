# SPDX-License-Identifier: Apache-2.0
"""Carries out slices of eager code: a function whose rows are independent runs on some of them at a time.

    forward     out = [run(x[0:64]), run(x[64:128]), ...]        without autograd; x alone is saved
    backward    each slice runs again, with autograd             gradients of rows side by side, those of weights added

A *module* is sliced if `problem.independent` has proved it. A *head* is a linear layer whose product (the logits) only
a cross entropy reads: `Deferred` stands for the product, follows views, casts and scaling, and is computed with the
loss, slice by slice. Whatever else reads it gets the product, as if there were no slices.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import weakref
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812

from ..problem.independent import as_one, independent_dims
from ..step import CheckpointError

Rows = Callable[..., torch.Tensor]


def ranges(rows: int, slices: int) -> list[tuple[int, int]]:
    """Rows from the first to before the last of each slice, as even as possible."""
    count = max(1, min(rows, slices))
    bounds = [rows * i // count for i in range(count + 1)]
    return list(itertools.pairwise(bounds))


@dataclass(frozen=True)
class _Casting:
    """Autocast as it was at a call, for the second run of it."""

    device: str
    dtype: torch.dtype | None

    @staticmethod
    def now(tensor: torch.Tensor) -> _Casting:
        """Autocast for the device of a tensor."""
        kind = tensor.device.type
        return _Casting(kind, torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else None)

    def context(self) -> Any:
        """The context in which it is so again."""
        if self.dtype is None:
            return torch.autocast(self.device, enabled=False)
        return torch.autocast(self.device, dtype=self.dtype, cache_enabled=False)


def _expect_gathered(tensors: Sequence[torch.Tensor]) -> None:
    if any(t.numel() and not t.untyped_storage().nbytes() for t in tensors):
        raise CheckpointError("a parameter of what runs in slices is freed before its backward: shard it as a whole")


def _added(total: torch.Tensor | None, term: torch.Tensor) -> torch.Tensor:
    """A sum in float32 at least, which grows in place."""
    if total is None:
        return term.float() if term.dtype in _HALF else term
    return total.add_(term)


_HALF = (torch.bfloat16, torch.float16)


class _InSlices(torch.autograd.Function):
    """`function(rows, *whole)` on slices of rows along a dimension; its results follow each other."""

    @staticmethod
    def forward(ctx: Any, function: Rows, dim: int, slices: int, rows: torch.Tensor, *whole: torch.Tensor) -> Any:
        ctx.function, ctx.dim, ctx.ranges = function, dim, ranges(rows.shape[dim], slices)
        ctx.casting = _Casting.now(rows)
        ctx.save_for_backward(rows, *whole)
        made: Any = None
        for first, last in ctx.ranges:
            part = function(rows.narrow(dim, first, last - first), *whole)
            if made is None:
                made = part.new_empty([rows.shape[d] if d == dim else n for d, n in enumerate(part.shape)])
            made.narrow(dim, first, last - first).copy_(part)
            del part
        return made

    @staticmethod
    def backward(ctx: Any, *given: torch.Tensor) -> Any:
        rows, *others = ctx.saved_tensors
        _expect_gathered(others)
        wanted = ctx.needs_input_grad[3:]
        whole = [t.detach().requires_grad_(w) for t, w in zip(others, wanted[1:], strict=True)]
        of_rows = torch.empty_like(rows) if wanted[0] else None
        sums: list[torch.Tensor | None] = [None] * len(whole)

        def add(place: int, leaf: torch.Tensor) -> None:
            """Takes one gradient as soon as it is there: of several weights, never all terms at once."""
            assert leaf.grad is not None
            sums[place] = _added(sums[place], leaf.grad)
            leaf.grad = None

        for place, leaf in enumerate(whole):
            if leaf.requires_grad:
                leaf.register_post_accumulate_grad_hook(functools.partial(add, place))
        for first, last in ctx.ranges:
            part = rows.narrow(ctx.dim, first, last - first).detach().requires_grad_(wanted[0])
            with torch.enable_grad(), ctx.casting.context():
                made = ctx.function(part, *whole)
            sources = [t for t in (part, *whole) if t.requires_grad]
            torch.autograd.backward(made, given[0].narrow(ctx.dim, first, last - first), inputs=sources)
            del made
            if part.grad is not None:
                of_rows.narrow(ctx.dim, first, last - first).copy_(part.grad)  # type: ignore[union-attr]
        return None, None, None, of_rows, *_as(sums, others)


def _as(sums: Sequence[torch.Tensor | None], like: Sequence[torch.Tensor]) -> list[torch.Tensor | None]:
    return [None if s is None else s.to(t.dtype) for s, t in zip(sums, like, strict=True)]


# -- Modules -----------------------------------------------------------------------------------------------------------


_rows = weakref.WeakKeyDictionary[torch.nn.Module, dict[Any, int]]()


def rows_of_module(
    module: torch.nn.Module, inner: Callable[..., Any], x: torch.Tensor, known: int | None = None
) -> int:
    """How many leading dimensions of an argument are rows; `known`: what was proved for a module of the same class."""
    proved = _rows.setdefault(module, {})
    key = tuple(x.shape), x.dtype, module.training
    if key not in proved:
        function, parameters = function_of(module, inner)
        proved[key] = independent_dims(function, x, parameters) if known is None else known
    return proved[key]


def sliced_module(module: torch.nn.Module, inner: Callable[..., Any], slices: int, *given: Any, **named: Any) -> Any:
    """A module's forward in slices, where its rows are proved to be independent for what it is given."""
    is_usual = len(given) == 1 and not named and isinstance(given[0], torch.Tensor) and type(given[0]) is not Deferred
    if not torch.is_grad_enabled() or not is_usual:
        return inner(*given, **named)
    (x,) = given
    expect_whole(module)
    if not (count := rows_of_module(module, inner, x)):
        return inner(x)
    function, parameters = function_of(module, inner)
    one = x.reshape(as_one(x.shape, count))
    made = _InSlices.apply(function, count - 1, slices, one, *parameters)
    return made.reshape(*x.shape[:count], *made.shape[count:])


def function_of(module: torch.nn.Module, inner: Callable[..., Any]) -> tuple[Rows, list[torch.Tensor]]:
    """A module's forward as a function of its argument and its parameters, and these."""
    parameters = dict(module.named_parameters())
    names = list(parameters)

    def function(x: torch.Tensor, *values: torch.Tensor) -> torch.Tensor:
        with _instead(module, dict(zip(names, values, strict=True))):
            return inner(x)  # type: ignore[no-any-return]

    return function, list(parameters.values())


def expect_whole(module: torch.nn.Module) -> None:
    """Rejects a module whose parts are sharded, so that they are gathered by hooks of their own."""
    for name, child in module.named_modules():
        is_inner = bool(name) and "FSDPModule" in (kind.__name__ for kind in type(child).__mro__)
        if is_inner or any("DTensor" in type(p).__name__ for p in child._parameters.values()):
            raise CheckpointError(
                f"a {type(module).__name__} in slices has parts that are sharded ({name or 'itself'}): give it to "
                "fully_shard as a whole"
            )


@contextlib.contextmanager
def _instead(module: torch.nn.Module, values: dict[str, torch.Tensor]) -> Iterator[None]:
    """A module with other tensors in place of its parameters, of shared ones in all places."""
    places: list[tuple[dict[str, Any], str, Any]] = []
    by_parameter = {id(p): values[name] for name, p in module.named_parameters()}
    try:
        for child in module.modules():
            for key, parameter in child._parameters.items():
                if parameter is not None:
                    places.append((child._parameters, key, parameter))
        for row, key, parameter in places:
            row[key] = by_parameter[id(parameter)]
        yield
    finally:
        for row, key, parameter in places:
            row[key] = parameter


# -- Heads -------------------------------------------------------------------------------------------------------------


def _each(after: Sequence[Callable[[torch.Tensor], torch.Tensor]], made: torch.Tensor) -> torch.Tensor:
    return functools.reduce(lambda value, step: step(value), after, made)


@dataclass(frozen=True)
class LossCall:
    """A loss in slices: `function(*rows, *whole)` is its sum over rows."""

    function: Rows
    rows: list[torch.Tensor]
    whole: list[torch.Tensor]


Note = Callable[[LossCall | None], None]
"""Called for each reader of a product, with a loss that takes slices, or None."""


@dataclass(frozen=True)
class _Product:
    """A linear layer's product that is not computed yet, and what is done with each of its numbers."""

    hidden: torch.Tensor
    weight: torch.Tensor
    bias: torch.Tensor | None
    slices: int
    after: tuple[Callable[[torch.Tensor], torch.Tensor], ...] = ()
    note: Note | None = None
    # the logits as they were returned, whose hooks (of FSDP) are called in the backward pass of whatever reads them
    returned: torch.Tensor | None = None

    def rows(self, hidden: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
        return _each(self.after, F.linear(hidden, weight, bias))

    def whole(self) -> torch.Tensor:
        """The product itself."""
        self.expect_weight()
        made = self.rows(self.hidden, self.weight, self.bias)
        return made if self.returned is None else _Follows.apply(made, self.returned)

    def expect_weight(self) -> None:
        """Rejects a weight that was freed after the layer, as FSDP does."""
        if not self.weight.untyped_storage().nbytes():
            raise CheckpointError(
                "the weight of the logits is freed before the loss is computed in slices: shard it with the model, "
                "not by itself"
            )


class _Follows(torch.autograd.Function):
    """A tensor after whose gradient that of another one is asked for, which is none."""

    @staticmethod
    def forward(ctx: Any, made: torch.Tensor, _: torch.Tensor) -> torch.Tensor:
        return made.view_as(made)

    @staticmethod
    def backward(ctx: Any, *given: torch.Tensor) -> Any:
        return given[0], None


class _Defer(torch.autograd.Function):
    """Makes a `Deferred` whose gradient, if anything asks for one, is that of the product."""

    @staticmethod
    def forward(
        ctx: Any, product: _Product, dtype: torch.dtype, _: torch.Tensor | None, *tensors: torch.Tensor
    ) -> torch.Tensor:
        ctx.after = product.after
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*tensors)
        hidden, weight = tensors[:2]
        size = [*hidden.shape[:-1], weight.shape[0]]
        made: Any = torch.Tensor._make_wrapper_subclass(Deferred, size, dtype=dtype, device=hidden.device)
        return made  # type: ignore[no-any-return]

    @staticmethod
    def backward(ctx: Any, *given: torch.Tensor) -> Any:
        wanted = ctx.needs_input_grad[3:]
        if given[0] is None:
            return None, None, None, *(None for _ in wanted)
        tensors = [t.detach().requires_grad_(w) for t, w in zip(ctx.saved_tensors, wanted, strict=True)]
        with torch.enable_grad():
            made = _each(ctx.after, F.linear(*tensors))
        sources = [t for t in tensors if t.requires_grad]
        found = iter(torch.autograd.grad(made, sources, given[0]))
        return None, None, None, *(next(found) if t.requires_grad else None for t in tensors)


class Deferred(torch.Tensor):
    """The logits of a head, of which a cross entropy takes slices, and all else the whole."""

    product: _Product

    @staticmethod
    def of(product: _Product, dtype: torch.dtype) -> Deferred:
        """The product with its shape and type, but without memory."""
        tensors = [t for t in (product.hidden, product.weight, product.bias) if t is not None]
        made: Any = _Defer.apply(product, dtype, product.returned, *tensors)
        made.product = product if product.returned is not None else replace(product, returned=made)
        return made  # type: ignore[no-any-return]

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        named = kwargs or {}
        if func in _ABOUT:
            with torch._C.DisableTorchFunctionSubclass():
                return func(*args, **named)
        name = getattr(func, "__name__", "")
        if "out" in named or name in _IN_PLACE or (name.endswith("_") and not name.endswith("__")):
            raise CheckpointError(f"logits that are computed in slices are changed in place ({name})")
        if func is F.cross_entropy and not args:
            args, named = (named["input"],), {name: value for name, value in named.items() if name != "input"}
        first, more = (args[0], args[1:]) if args else (None, ())
        found = None
        if isinstance(first, Deferred) and not any(isinstance(v, Deferred) for v in (*more, *named.values())):
            if func is F.cross_entropy:
                found = _loss(first, *more, **named)
            elif func in _ROWS:
                found = _moved(first, func, more, named)
            elif func in _EACH and all(isinstance(v, (torch.dtype, float, int)) for v in (*more, *named.values())):
                found = _changed(first, func, more, named)
        return func(*_whole(args), **_whole(named)) if found is None else found

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        if func is torch.ops.aten.detach.default:
            return args[0]
        raise CheckpointError(f"logits that are computed in slices are read by {func}, which is not known to do so")


_T = torch.Tensor
_ABOUT = {
    *(getattr(_T, name).__get__ for name in ("shape", "dtype", "device", "ndim", "requires_grad", "layout", "is_cuda")),
    *(getattr(_T, name).__get__ for name in ("is_leaf", "grad_fn", "grad", "is_sparse", "is_cpu", "is_meta")),
    *(_T.size, _T.dim, _T.numel, _T.__len__, _T.is_floating_point, _T.is_complex, _T.register_hook, _T.element_size),
    *(_T.__hash__, _T.untyped_storage, torch.is_floating_point, torch.is_complex, torch.numel),
}
"""Functions that say something about a tensor, and do not read it."""
_IN_PLACE = {"__setitem__", *(f"__i{name}__" for name in ("add", "sub", "mul", "div", "truediv", "pow", "and", "or"))}
_ROWS = {_T.view, _T.reshape, torch.reshape, _T.flatten, torch.flatten, _T.contiguous, _T.__getitem__}
_EACH = {
    *(_T.float, _T.double, _T.half, _T.bfloat16, _T.to, _T.type, _T.mul, _T.__mul__, _T.__rmul__, _T.div, _T.tanh),
    *(_T.__truediv__, _T.true_divide, torch.mul, torch.div, torch.tanh, _T.neg, _T.__neg__),
}


def _whole(value: Any) -> Any:
    """Arguments with the products themselves."""
    if isinstance(value, Deferred):
        if value.product.note is not None:
            value.product.note(None)
        return value.product.whole()
    if isinstance(value, dict):
        return {key: _whole(v) for key, v in value.items()}
    if isinstance(value, (list, tuple)):
        made = [_whole(v) for v in value]
        return made if isinstance(value, list) else tuple(made)
    return value


def _moved(logits: Deferred, func: Any, more: Any, named: Any) -> Deferred | None:
    """Other rows, or the same in other dimensions; None where more than rows is taken."""
    product, old = logits.product, logits.shape
    hidden = product.hidden
    if func is _T.contiguous:
        return logits
    if func is _T.__getitem__:
        index = more[0] if isinstance(more[0], tuple) else (more[0],)
        if not all(isinstance(i, (int, slice)) or i is Ellipsis for i in index):
            return None
        reaches = len(index) == len(old) or (Ellipsis in index and index[-1] is not Ellipsis)
        if reaches and index[-1] != slice(None):
            return None
        return Deferred.of(replace(product, hidden=hidden[index]), logits.dtype)
    shape = func(torch.empty(old, dtype=logits.dtype, device="meta"), *more, **named).shape
    if len(shape) < 1 or shape[-1] != old[-1]:
        return None
    return Deferred.of(replace(product, hidden=hidden.reshape(*shape[:-1], hidden.shape[-1])), logits.dtype)


def _changed(logits: Deferred, func: Any, more: Any, named: Any) -> Deferred:
    """The same with an operation on each number."""
    like = func(torch.empty((), dtype=logits.dtype, device="meta"), *more, **named)
    step = functools.partial(_applied, func, more, named)
    return Deferred.of(replace(logits.product, after=(*logits.product.after, step)), like.dtype)


def _applied(func: Any, more: Any, named: Any, value: torch.Tensor) -> torch.Tensor:
    return func(value, *more, **named)  # type: ignore[no-any-return]


def _loss(
    logits: Deferred,
    target: torch.Tensor,
    weight: Any = None,
    size_average: Any = None,
    ignore_index: int = -100,
    reduce: Any = None,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> torch.Tensor | None:
    """A cross entropy by slices; None where it is no sum over rows."""
    product = logits.product
    is_plain = weight is None and size_average is None and reduce is None and reduction in ("mean", "sum")
    if not is_plain or len(logits.shape) != 2 or target.dim() != 1 or target.is_floating_point():
        return None
    product.expect_weight()

    def function(hidden: torch.Tensor, own: torch.Tensor, *layer: torch.Tensor) -> torch.Tensor:
        rows = product.rows(hidden, layer[0], layer[1] if len(layer) > 1 else None)
        return F.cross_entropy(rows, own, ignore_index=ignore_index, reduction="sum", label_smoothing=label_smoothing)

    layer = [t for t in (product.weight, product.bias) if t is not None]
    if product.note is not None:
        product.note(LossCall(function, [product.hidden, target], layer))
    words = {"ignore_index": ignore_index, "reduction": "sum", "label_smoothing": label_smoothing}
    total: torch.Tensor = _HeadLoss.apply(product, words, product.returned, product.hidden, target, *layer)
    return total / (target != ignore_index).sum() if reduction == "mean" else total


class _HeadLoss(torch.autograd.Function):
    """The sum of a cross entropy of a product, slice by slice; the gradient of the weight grows in place."""

    @staticmethod
    def forward(
        ctx: Any,
        product: _Product,
        words: Any,
        _: torch.Tensor | None,
        hidden: torch.Tensor,
        target: torch.Tensor,
        *layer: torch.Tensor,
    ) -> Any:
        ctx.after, ctx.words, ctx.casting = product.after, words, _Casting.now(hidden)
        ctx.ranges = ranges(len(hidden), product.slices)
        ctx.save_for_backward(hidden, target, *layer)
        total: torch.Tensor | None = None
        for first, last in ctx.ranges:
            made = _each(ctx.after, F.linear(hidden[first:last], *layer))
            term = F.cross_entropy(made, target[first:last], **words)
            ctx.dtype = term.dtype
            total = _added(total, term)
            del made, term
        assert total is not None
        return total.to(ctx.dtype)

    @staticmethod
    def backward(ctx: Any, *given: torch.Tensor) -> Any:
        hidden, target, *layer = ctx.saved_tensors
        _expect_gathered(layer)
        for_hidden, _, *for_layer = ctx.needs_input_grad[3:]
        of_hidden = torch.empty_like(hidden) if for_hidden else None
        sums: list[torch.Tensor | None] = [None] * len(layer)
        for first, last in ctx.ranges:
            rows = hidden[first:last]
            with torch.no_grad(), ctx.casting.context():
                made = F.linear(rows, *layer).requires_grad_()
            with torch.enable_grad(), ctx.casting.context():
                loss = F.cross_entropy(_each(ctx.after, made), target[first:last], **ctx.words)
            (gradient,) = torch.autograd.grad(loss, made, given[0].to(loss.dtype))
            del made, loss
            if of_hidden is not None:
                of_hidden[first:last] = gradient @ layer[0].to(gradient.dtype)
            if for_layer[0] and sums[0] is not None and gradient.dtype == rows.dtype == sums[0].dtype:
                sums[0].addmm_(gradient.t(), rows)
            elif for_layer[0]:
                sums[0] = _added(sums[0], gradient.t() @ rows.to(gradient.dtype))
            if len(layer) > 1 and for_layer[1]:
                sums[1] = _added(sums[1], gradient.sum(0))
            del gradient
        return None, None, None, of_hidden, None, *_as(sums, layer)


def deferred_head(
    module: torch.nn.Linear,
    inner: Callable[..., Any],
    slices: int,
    note: Note | None,
    *given: Any,
    **named: Any,
) -> Any:
    """A linear layer's forward, which leaves its product to the loss."""
    is_usual = len(given) == 1 and not named and isinstance(given[0], torch.Tensor) and given[0].dim() > 1
    if not torch.is_grad_enabled() or not is_usual or isinstance(given[0], Deferred):
        return inner(*given, **named)
    if not (given[0].requires_grad or module.weight.requires_grad):
        return inner(*given, **named)
    kind = given[0].device.type
    dtype = torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else given[0].dtype
    return Deferred.of(_Product(given[0], module.weight, module.bias, slices, note=note), dtype)
