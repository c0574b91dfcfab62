# SPDX-License-Identifier: Apache-2.0
"""Outputs of each node of an FX graph: shapes and types, and the kind of work."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from fx._text import ATTRIBUTE, GETITEM, Node, Ref

ITEM_BYTES = {
    "bool": 1,
    "uint8": 1,
    "int8": 1,
    "float8_e4m3fn": 1,
    "int16": 2,
    "float16": 2,
    "bfloat16": 2,
    "int32": 4,
    "float32": 4,
    "int64": 8,
    "float64": 8,
    "complex64": 8,
}


@dataclass(frozen=True)
class Tensor:
    """A shape and a type."""

    shape: tuple[int, ...]
    dtype: str
    even: float | None = field(default=None, compare=False)
    """The value of each item if the bins of histograms are alike, where it comes from one."""

    @property
    def count(self) -> int:
        """How many items it has."""
        return math.prod(self.shape)

    @property
    def size(self) -> int:
        """Bytes."""
        return self.count * ITEM_BYTES[self.dtype]


Value = Tensor | list[Tensor] | dict[str, Tensor] | int | bool | None
"""Several tensors of one op, by number or name; a number, or nothing, of what only sizes are made of."""


class UnknownTarget(Exception):
    """A target that has no rule here, or one whose rule does not cover its arguments."""


def name_of(target: str) -> str:
    """``aten.mm.default`` as ``mm``."""
    parts = target.split(".")
    return parts[1] if len(parts) > 1 else target


VIEWS = frozenset(
    [
        "view",
        "permute",
        "expand",
        "unsqueeze",
        "squeeze",
        "select",
        "slice",
        "split",
        "split_with_sizes",
        "view_as_complex",
        "view_as_real",
        "_conj",
        "wait_tensor",
        "alias",
        "detach",
        "t",
        "transpose",
    ]
)
"""They share storage with their first argument."""
POINTWISE = frozenset(
    [
        "convert_element_type",
        "add",
        "sub",
        "mul",
        "div",
        "neg",
        "exp",
        "log",
        "sigmoid",
        "tanh",
        "relu",
        "reciprocal",
        "rsqrt",
        "sqrt",
        "pow",
        "eq",
        "ne",
        "ge",
        "gt",
        "le",
        "lt",
        "bitwise_or",
        "bitwise_and",
        "where",
        "clone",
        "full",
        "fma",
        "constant_pad_nd",
        "clamp_min",
    ]
)
"""One item at a time: what runs one after the other can be one kernel."""
REDUCTIONS = frozenset(["mean", "sum", "amax"])
COLLECTIVES = {
    "all_gather_into_tensor": "all_gather",
    "reduce_scatter_tensor": "reduce_scatter",
    "all_reduce": "all_reduce",
    "all_to_all_single": "all_to_all",
}
"""Their kinds in remora-graph 3."""
ATTENTION = "_scaled_dot_product_cudnn_attention"
FLEX = "flex_attention"
DECIDED = "_local_scalar_dense"
"""A number that data decides."""


def is_kernel_part(name: str) -> bool:
    """True if it can be a part of a kernel with others."""
    return name in POINTWISE or name in REDUCTIONS


def shape_of(node: Node, values: Sequence[Any]) -> Value:
    """The node's output; `values` are its arguments with tensors in the place of references.

    Raises
    ------
    UnknownTarget
    """
    name = name_of(node.target)
    if node.target == GETITEM:
        item: Tensor = values[0][values[1]]
        return item
    if node.target == ATTRIBUTE:
        return None
    rule = _number(OPERATORS[name]) if node.target.startswith("operator.") else _RULES.get(name)
    if rule is None:
        raise UnknownTarget(f"{node.target} has no rule")
    try:
        found = rule(node, values)
    except (IndexError, KeyError, TypeError, ValueError, AttributeError) as error:
        raise UnknownTarget(f"{node.target}: arguments that its rule does not cover ({error})") from None
    return replace(found, even=_even(name, found, values)) if isinstance(found, Tensor) else found


CARRIED = VIEWS | {"all_to_all_single", "device_put", "convert_element_type", "clone"}
"""Items that are alike are what they were."""


def _even(name: str, found: Tensor, values: Sequence[Any]) -> float | None:
    source = values[0] if values and isinstance(values[0], Tensor) else None
    if source is None or not found.count:
        return None
    if name == "histc":
        return source.count / found.count
    if name == "sum" and source.even is not None:
        return source.even * source.count / found.count
    return source.even if name in CARRIED else None


def flops_of(node: Node, values: Sequence[Any]) -> float:
    """Floating point operations of products; zero for what moves memory alone.

    A product of m x k and k x n takes 2 m n k; attention two products forward and five backward, half of them where it
    is causal.
    """
    name = name_of(node.target)
    if name == "mm":
        return float(2 * values[0].count * values[1].shape[1])
    if name == "bmm":
        return float(2 * values[0].count * values[1].shape[2])
    if name == "_grouped_mm":
        # Rows by groups and a matrix for each group, or rows of both, which each group sums.
        return float(2 * values[0].count * values[1].shape[-1])
    if name.startswith(FLEX):
        # What a mask leaves out is not in the text.
        query, key, value = values[:3]
        products = query.count * key.shape[2] + query.count // query.shape[3] * key.shape[2] * value.shape[3]
        return float((2.5 if name.endswith("_backward") else 1) * 2 * products)
    if name.startswith(ATTENTION):
        back = name.endswith("_backward")
        query, key = (values[1], values[2]) if back else (values[0], values[1])
        causal = values[14] if back else values[6]
        batch, heads, length, width = query.shape
        product = 2.0 * batch * heads * length * key.shape[2] * width
        return float((5 if back else 2) * product * (0.5 if causal is True else 1))
    return 0.0


def _broadcast(values: Sequence[Any]) -> tuple[int, ...]:
    shapes = [value.shape for value in values if isinstance(value, Tensor)]
    width = max((len(shape) for shape in shapes), default=0)
    out = []
    for axis in range(width):
        sizes = {shape[axis - width + len(shape)] for shape in shapes if axis - width + len(shape) >= 0} - {1}
        if len(sizes) > 1:
            raise ValueError(f"shapes {shapes}")
        out.append(sizes.pop() if sizes else 1)
    return tuple(out)


_RANK = ["bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64", "complex64"]


def _promoted(values: Sequence[Any]) -> str:
    """PyTorch's promotion: of tensors with dimensions, otherwise of scalars' tensors."""
    tensors = [value for value in values if isinstance(value, Tensor)]
    ranked = [t for t in tensors if t.shape] or tensors
    found = max((t.dtype for t in ranked), key=_RANK.index)
    if any(isinstance(value, float) for value in values) and _RANK.index(found) < _RANK.index("float16"):
        return "float32"
    return found


def _pointwise(node: Node, values: Sequence[Any]) -> Tensor:
    return Tensor(_broadcast(values), _promoted(values))


def _compared(node: Node, values: Sequence[Any]) -> Tensor:
    return Tensor(_broadcast(values), "bool")


def _first(node: Node, values: Sequence[Any]) -> Tensor:
    return Tensor(values[0].shape, values[0].dtype)


def _convert(node: Node, values: Sequence[Any]) -> Tensor:
    return Tensor(values[0].shape, values[1].removeprefix("torch."))


def _full(node: Node, values: Sequence[Any]) -> Tensor:
    return Tensor(tuple(values[0]), str(node.kwargs["dtype"]).removeprefix("torch."))


def _where(node: Node, values: Sequence[Any]) -> Tensor:
    return Tensor(_broadcast(values), _promoted(values[1:]))


def _view(node: Node, values: Sequence[Any]) -> Tensor:
    known = math.prod(n for n in values[1] if n != -1)
    shape = tuple(n if n != -1 else values[0].count // known for n in values[1])
    if math.prod(shape) != values[0].count:
        raise ValueError(f"a view of {values[0].shape} as {shape}")
    return Tensor(shape, values[0].dtype)


def _permute(node: Node, values: Sequence[Any]) -> Tensor:
    return Tensor(tuple(values[0].shape[axis] for axis in values[1]), values[0].dtype)


def _expand(node: Node, values: Sequence[Any]) -> Tensor:
    own = (1,) * (len(values[1]) - len(values[0].shape)) + values[0].shape
    return Tensor(tuple(n if n != -1 else m for n, m in zip(values[1], own, strict=True)), values[0].dtype)


def _unsqueeze(node: Node, values: Sequence[Any]) -> Tensor:
    shape = list(values[0].shape)
    shape.insert(values[1] if values[1] >= 0 else values[1] + len(shape) + 1, 1)
    return Tensor(tuple(shape), values[0].dtype)


def _squeeze(node: Node, values: Sequence[Any]) -> Tensor:
    shape = list(values[0].shape)
    if shape[values[1]] == 1:
        del shape[values[1]]
    return Tensor(tuple(shape), values[0].dtype)


def _reduce(node: Node, values: Sequence[Any]) -> Tensor:
    axes = {axis % len(values[0].shape) for axis in values[1]}
    keeps = len(values) > 2 and values[2] is True
    shape = [1 if i in axes else n for i, n in enumerate(values[0].shape) if keeps or i not in axes]
    return Tensor(tuple(shape), str(node.kwargs.get("dtype", values[0].dtype)).removeprefix("torch."))


def _split(node: Node, values: Sequence[Any]) -> list[Tensor]:
    source, size = values[0], values[1]
    axis = values[2] if len(values) > 2 else 0
    whole = source.shape[axis]
    sizes = size if isinstance(size, list) else [min(size, whole - start) for start in range(0, whole, size)]
    return [_resized(source, axis, n) for n in sizes]


def _resized(source: Tensor, axis: int, size: int) -> Tensor:
    shape = list(source.shape)
    shape[axis] = size
    return Tensor(tuple(shape), source.dtype)


def _cat(node: Node, values: Sequence[Any]) -> Tensor:
    axis = values[1] if len(values) > 1 else 0
    return _resized(values[0][0], axis, sum(t.shape[axis] for t in values[0]))


def _mm(node: Node, values: Sequence[Any]) -> Tensor:
    a, b = values[0], values[1]
    if a.shape[-1] != b.shape[-2] or a.shape[:-2] != b.shape[:-2]:
        raise ValueError(f"a product of {a.shape} and {b.shape}")
    return Tensor((*a.shape[:-1], b.shape[-1]), a.dtype)


def _embedding(node: Node, values: Sequence[Any]) -> Tensor:
    return Tensor((*values[1].shape, values[0].shape[1]), values[0].dtype)


def _as_complex(node: Node, values: Sequence[Any]) -> Tensor:
    return Tensor(values[0].shape[:-1], "complex64")


def _as_real(node: Node, values: Sequence[Any]) -> Tensor:
    return Tensor((*values[0].shape, 2), "float32")


def _slice(node: Node, values: Sequence[Any]) -> Tensor:
    words: list[Any] = [*values[1:], *(0, 0, None, 1)[len(values) - 1 :]]
    axis, start, end, step = words
    whole = values[0].shape[axis]
    start, end, _ = slice(start, whole if end is None else end).indices(whole)
    return _resized(values[0], axis, max(0, -(-(end - start) // step)))


def _select(node: Node, values: Sequence[Any]) -> Tensor:
    shape = list(values[0].shape)
    del shape[values[1]]
    return Tensor(tuple(shape), values[0].dtype)


def _pad(node: Node, values: Sequence[Any]) -> Tensor:
    shape = list(values[0].shape)
    for i, amount in enumerate(values[1]):
        shape[-1 - i // 2] += amount
    return Tensor(tuple(shape), values[0].dtype)


def _index(node: Node, values: Sequence[Any]) -> Tensor:
    """The shape of index tensors in the place of the first dimensions."""
    indices = values[1]
    if not all(isinstance(index, Tensor) and index.dtype != "bool" for index in indices):
        raise ValueError("indices other than numbers of the first dimensions")
    return Tensor((*_broadcast(indices), *values[0].shape[len(indices) :]), values[0].dtype)


def _grouped_mm(node: Node, values: Sequence[Any]) -> Tensor:
    """The product of rows by a matrix of each group; of columns by rows, a product for each group."""
    a, b, ends = values[:3]
    if a.shape[-1] != b.shape[-2] or len(a.shape) != 2:
        raise ValueError(f"a grouped product of {a.shape} and {b.shape}")
    rows = (a.shape[0], b.shape[-1])
    return Tensor(rows if len(b.shape) == 3 else (*ends.shape, *rows), a.dtype)


def _sorted(node: Node, values: Sequence[Any]) -> list[Tensor]:
    return [values[0], Tensor(values[0].shape, "int64")]


def _topk(node: Node, values: Sequence[Any]) -> list[Tensor]:
    found = _resized(values[0], values[2] if len(values) > 2 else -1, values[1])
    return [found, Tensor(found.shape, "int64")]


def _all_to_all(node: Node, values: Sequence[Any]) -> Tensor:
    """Rows that come from each device; rows that go to each."""
    if sum(values[2]) != values[0].shape[0]:
        raise ValueError(f"{values[0].shape} in parts of {values[2]}")
    return _resized(values[0], 0, sum(values[1]))


def _flex(node: Node, values: Sequence[Any]) -> list[Tensor]:
    """Output and log-sum-exp."""
    query, value = values[0], values[2]
    return [Tensor((*query.shape[:3], value.shape[3]), query.dtype), Tensor(query.shape[:3], "float32")]


def _flex_backward(node: Node, values: Sequence[Any]) -> list[Tensor]:
    return list(values[:3])


def _written(node: Node, values: Sequence[Any]) -> dict[str, Tensor]:
    """The outputs of a user's kernel: arguments that are cloned for it."""
    return {name: values[0][name] for name in node.kwargs["tensors_to_clone"]}


def _number(run: Callable[..., Any]) -> Callable[[Node, Sequence[Any]], Any]:
    def rule(node: Node, values: Sequence[Any]) -> Any:
        if any(isinstance(value, Tensor) for value in values):
            raise ValueError("numbers are asked for")
        return run(*values)

    return rule


def _gather(node: Node, values: Sequence[Any]) -> Tensor:
    return _resized(values[0], 0, values[0].shape[0] * values[1])


def _scatter(node: Node, values: Sequence[Any]) -> Tensor:
    if values[0].shape[0] % values[2]:
        raise ValueError(f"{values[0].shape} over {values[2]} devices")
    return _resized(values[0], 0, values[0].shape[0] // values[2])


def _attention(node: Node, values: Sequence[Any]) -> list[Tensor]:
    """Output, log-sum-exp, cumulative lengths of both, longest of both, seed, offset, mask for debugging."""
    query, value = values[0], values[2]
    batch, heads, length, _ = query.shape
    nothing = Tensor((), "int64")
    return [
        Tensor((batch, heads, length, value.shape[3]), query.dtype),
        Tensor((batch, heads, length, 1), "float32"),
        *[nothing] * 6,
        Tensor((0,), "uint8"),
    ]


def _attention_backward(node: Node, values: Sequence[Any]) -> list[Tensor]:
    return [Tensor(t.shape, t.dtype) for t in values[1:4]]


_NUMBERS: dict[str, Callable[..., Any]] = {"sym_sum": sum}
"""Operations on Python's numbers; those of the text's operators are `OPERATORS`."""
OPERATORS: dict[str, Callable[..., Any]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mult": operator.mul,
    "floordiv": operator.floordiv,
    "mod": operator.mod,
    "gte": operator.ge,
    "gt": operator.gt,
    "lte": operator.le,
    "lt": operator.lt,
    "eq": operator.eq,
    "noteq": operator.ne,
}
_RULES: dict[str, Callable[[Node, Sequence[Any]], Value]] = {
    **dict.fromkeys(POINTWISE, _pointwise),
    **dict.fromkeys(["eq", "ne", "ge", "gt", "le", "lt"], _compared),
    **dict.fromkeys(["wait_tensor", "alias", "detach", "clone", "_conj", "all_reduce", "index_put"], _first),
    **dict.fromkeys(REDUCTIONS, _reduce),
    **dict.fromkeys(["mm", "bmm"], _mm),
    **dict.fromkeys(["split", "split_with_sizes"], _split),
    "convert_element_type": _convert,
    "full": _full,
    "where": _where,
    "view": _view,
    "permute": _permute,
    "expand": _expand,
    "unsqueeze": _unsqueeze,
    "squeeze": _squeeze,
    "cat": _cat,
    **dict.fromkeys(["cumsum", "device_put", "slice_scatter", "scatter_add", "copy_"], _first),
    **{f"{name}": _number(run) for name, run in _NUMBERS.items()},
    "constant_pad_nd": _pad,
    "slice": _slice,
    "select": _select,
    "index": _index,
    "gather": lambda node, values: Tensor(values[2].shape, values[0].dtype),
    "histc": lambda node, values: Tensor((values[1],), values[0].dtype),
    "empty": _full,
    "sort": _sorted,
    "topk": _topk,
    "_grouped_mm": _grouped_mm,
    "sym_size": lambda node, values: values[0].shape[values[1]],
    "_assert_scalar": lambda node, values: None,
    "all_to_all_single": _all_to_all,
    FLEX: _flex,
    FLEX + "_backward": _flex_backward,
    "triton_kernel_wrapper_functional": _written,
    "embedding": _embedding,
    "view_as_complex": _as_complex,
    "view_as_real": _as_real,
    "all_gather_into_tensor": _gather,
    "reduce_scatter_tensor": _scatter,
    ATTENTION: _attention,
    ATTENTION + "_backward": _attention_backward,
}


def references(value: Any) -> list[str]:
    """The names of the nodes that an argument reads, with repeats."""
    if isinstance(value, Ref):
        return [value.name]
    if isinstance(value, dict):
        return references(list(value.values()))
    if isinstance(value, (list, tuple)):
        return [name for item in value for name in references(item)]
    return []
