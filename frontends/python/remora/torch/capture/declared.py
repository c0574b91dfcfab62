# SPDX-License-Identifier: Apache-2.0
"""Sizes that a user declares: which dimensions of a step's arguments vary, and between which numbers.

Marks on the tensors tell Dynamo, so the first capture has symbols for them. Other dimensions of arguments that have the
size of a declared one in a call (of the mask that comes with the tokens) are marked, too: where the step does not tie
them to it, they are sizes of their own.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
import torch._dynamo

from remora.errors import InputError

Range = tuple[int, int]
Places = dict[tuple[int, int], Range]
"""By tensor (its `id`) and dimension."""


class Declared:
    """The sizes of arguments that vary, by the names of arguments or of what is in them.

    `lengths`: how long calls are, each as often as it occurs; `most`: the number of schedules. Raises InputError: names
    what cannot be.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        sizes: Mapping[str, Any] | None = None,
        lengths: Sequence[int] = (),
        most: int = 4,
    ) -> None:
        if type(most) is not int or most < 1:
            raise InputError("plans", f"{most!r} is not a whole number of at least 1")
        if sizes and "max" not in inspect.signature(torch._dynamo.maybe_mark_dynamic).parameters:
            raise InputError("sizes", f"PyTorch {torch.__version__} takes no range for a size; 2.15 does")
        self._signature = inspect.signature(function) if sizes else None
        self.sizes = {name: _dimensions(name, given) for name, given in (sizes or {}).items()}
        if not all(isinstance(n, int) and n > 0 for n in lengths) or (len(lengths) and not sizes):
            raise InputError("lengths", "must be whole numbers of at least 1, with a range in sizes")
        if len(lengths) and len(self.ranges) > 1:
            raise InputError("lengths", "several ranges in sizes: which of them the lengths are of is not known")
        self.lengths, self.most = [int(n) for n in lengths], most
        # by path, the dimensions that had a declared size in each call: a batch of 3 rows is not as long as 3 tokens
        self._tied: dict[str, set[int]] = {}

    @property
    def ranges(self) -> set[Range]:
        """All ranges that are declared."""
        return {found for dimensions in self.sizes.values() for found in dimensions.values()}

    def mark(self, arguments: tuple[Any, ...], named: Mapping[str, Any]) -> None:
        """Marks what varies in the arguments of a call.

        Raises InputError: names what is not there, or not within its range.
        """
        if self._signature is None:
            return
        given = self._signature.bind(*arguments, **named).arguments
        own, others = self.within(given)
        for path, tensor in _tensors(given):
            equal = {dim for dim in range(tensor.dim()) if (id(tensor), dim) in others}
            tied = self._tied[path] = equal & self._tied.get(path, equal)
            for dim in range(tensor.dim()):
                place = id(tensor), dim
                if place in own or dim in tied:
                    mark(tensor, dim, own.get(place))

    def within(self, given: Mapping[str, Any]) -> tuple[Places, Places]:
        """The ranges of what is declared, and of what else has a declared size, of arguments by their names.

        Raises InputError: names what is not there, or not within its range.
        """
        tensors = dict(_tensors(given))
        own: Places = {}
        sizes: dict[int, Range] = {}
        for name, dimensions in self.sizes.items():
            tensor = self._named(name, tensors)
            for place, (low, high) in dimensions.items():
                if not -tensor.dim() <= place < tensor.dim():
                    raise InputError(f"sizes[{name!r}]", f"{name} has {tensor.dim()} dimensions, and none is {place}")
                dim = place % tensor.dim()
                size = tensor.shape[dim]
                if not low <= size <= high:
                    raise InputError(f"sizes[{name!r}]", f"{name}.shape[{dim}] is {size}, not within {low} to {high}")
                own[id(tensor), dim] = sizes[size] = low, high
        everywhere = ((tensor, dim) for tensor in tensors.values() for dim in range(tensor.dim()))
        others = {
            (id(tensor), dim): sizes[tensor.shape[dim]]
            for tensor, dim in everywhere
            if tensor.shape[dim] in sizes and (id(tensor), dim) not in own
        }
        return own, others

    def _named(self, name: str, tensors: Mapping[str, torch.Tensor]) -> torch.Tensor:
        found = [tensor for path, tensor in tensors.items() if path == name or path.endswith(f".{name}")]
        if len(found) == 1:
            return found[0]
        there = ", ".join(tensors) or "none"
        raise InputError("sizes", f"{len(found)} tensors among the arguments are named {name!r}; there are {there}")


def mark(tensor: torch.Tensor, dim: int, within: Range | None = None) -> None:
    """Tells Dynamo that a dimension varies, and within which numbers if that is known."""
    torch._dynamo.maybe_mark_dynamic(tensor, dim, **({} if within is None else {"min": within[0], "max": within[1]}))


def _dimensions(name: str, given: Any) -> dict[int, Range]:
    """The ranges of a tensor's dimensions; a range alone is of the last one."""
    place = f"sizes[{name!r}]"
    rows = given if isinstance(given, Mapping) else {-1: given}
    found: dict[int, Range] = {}
    for dim, size in rows.items():
        # As torch.export.Dim, which has both by name.
        pair = (size.min, size.max) if hasattr(size, "min") and hasattr(size, "max") else size
        if not isinstance(pair, (tuple, list)) or len(pair) != 2 or not all(type(n) is int for n in (dim, *pair)):
            raise InputError(place, f"{size!r} is not a range such as (128, 8192), or {{1: (128, 8192)}} by dimension")
        low, high = pair
        if not 1 <= low <= high:
            raise InputError(place, f"{low} to {high} is no range of sizes")
        found[dim] = low, high
    return found


def _tensors(value: Any, path: str = "") -> Iterator[tuple[str, torch.Tensor]]:
    """The tensors in arguments, with their paths: "batch.input_ids"."""
    if isinstance(value, torch.Tensor):
        yield path, value
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _tensors(inner, f"{path}.{key}" if path else str(key))
    elif isinstance(value, (list, tuple)):
        for i, inner in enumerate(value):
            yield from _tensors(inner, f"{path}.{i}" if path else str(i))
