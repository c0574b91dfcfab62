# SPDX-License-Identifier: Apache-2.0
"""Sizes that vary from call to call: PyTorch's symbols, what is computed from them, and numbers in their place.

In a graph that is captured once for many lengths, a shape is `[2, s27, 64]`. Whatever reads such a graph compares sizes
only where the answer is the same for all numbers (`surely`), so that reading does not restrict the lengths. A program
computes them from its arguments:

    view = aten_view_default(mm, [2, s27, 64])
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import sympy
import torch
from torch._subclasses import FakeTensor
from torch.fx.experimental.symbolic_shapes import statically_known_true
from torch.utils._sympy.printers import PythonPrinter

SYMBOLS = (torch.SymInt, torch.SymFloat, torch.SymBool)
"""Types of numbers that may depend on sizes that vary."""
_printer = PythonPrinter()
KNOWN = 4096
"""So many texts of numbers are kept."""
UNBOUNDED = 2**40
"""No user declares a size as large as this."""


def plain(number: Any) -> Any:
    """A whole number as an int, unless it varies."""
    known = number.node.maybe_as_int() if isinstance(number, torch.SymInt) else None
    return number if known is None else known


def hint_of(number: Any) -> int:
    """A size in the call that is captured; other calls may have others."""
    return int(number.node.hint) if isinstance(plain(number), torch.SymInt) else int(number)


def surely(condition: Any) -> bool:
    """True if a condition on sizes holds whatever numbers the symbols are."""
    return bool(statically_known_true(condition))


def same_lengths(a: Sequence[Any], b: Sequence[Any]) -> bool:
    """True if two shapes, or strides, are equal whatever numbers the symbols are."""
    return len(a) == len(b) and all(surely(x == y) for x, y in zip(a, b, strict=True))


@functools.lru_cache(KNOWN)
def _text(expression: Any) -> str:
    return str(_printer.doprint(expression))


def text_of(number: Any) -> str:
    """Source text of a number in Python."""
    return _text(number.node.expr) if isinstance(number, SYMBOLS) else repr(number)


def symbols_in(numbers: Iterable[Any]) -> set[str]:
    """Names of the symbols from which some numbers are computed."""
    return {str(s) for n in numbers if isinstance(n, SYMBOLS) for s in n.node.expr.free_symbols}


def symbol_of(number: Any) -> str | None:
    """Name of the symbol that a number is; None if it is computed from some, or does not vary."""
    number = plain(number)
    return str(number.node.expr) if isinstance(number, torch.SymInt) and number.node.expr.is_Symbol else None


def lengths_of(tensor: torch.Tensor) -> list[Any]:
    """All numbers that say how a tensor lies: shape, strides, offset, and the bytes beneath."""
    return [*tensor.shape, *tensor.stride(), tensor.storage_offset(), tensor.untyped_storage().nbytes()]


def hints_in(environment: Any) -> dict[str, int]:
    """The numbers of all symbols in the call that is captured."""
    known = getattr(environment, "backed_var_to_val", None) or environment.var_to_val  # the latter before PyTorch 2.15
    return {str(symbol): int(value) for symbol, value in known.items() if value.is_Integer}


def sizes_of(environment: Any, symbol: str) -> list[int] | None:
    """The numbers that a symbol is where PyTorch's guards on it hold; None if there is no largest one."""
    bounds = next(bounds for name, bounds in environment.var_to_range.items() if str(name) == symbol)
    if not isinstance(bounds.upper, sympy.Integer) or not isinstance(bounds.lower, sympy.Integer):
        return None
    guards = [guard for guard in _guards_of(environment) if {str(s) for s in guard.free_symbols} == {symbol}]
    held = [_compiled(_text(guard)) for guard in guards]
    numbers = range(int(bounds.lower), int(bounds.upper) + 1)
    found = [n for n in numbers if all(eval(code, {"math": math, symbol: n}) for code in held)]
    return found or None


def largest_of(environment: Any, symbol: str) -> int | None:
    """The largest number that a symbol was declared to be; None if it may be any."""
    upper = next((bounds.upper for name, bounds in environment.var_to_range.items() if str(name) == symbol), None)
    return int(upper) if isinstance(upper, sympy.Integer) and upper < UNBOUNDED else None


def holds(environment: Any, known: Mapping[str, int]) -> bool:
    """True if all of PyTorch's guards hold for numbers of its symbols."""
    numbers = Numbers(known)
    return all(numbers.of_text(_text(guard)) for guard in _guards_of(environment))


def _guards_of(environment: Any) -> list[Any]:
    """PyTorch's guards, with one symbol for those that are equal."""
    found = [environment.replace(guard.expr) for guard in environment.guards]
    return [guard for guard in found if guard.free_symbols]


@functools.lru_cache(KNOWN)
def _compiled(text: str) -> Any:
    return compile(text, "<size>", "eval")


class Numbers:
    """Numbers for symbols, by their names, and for all that is computed from these."""

    def __init__(self, known: Mapping[str, int]) -> None:
        self._known: dict[str, Any] = {"math": math, **known}
        self._found: dict[str, Any] = {}

    def of(self, number: Any) -> Any:
        """The number in place of one that varies."""
        if not isinstance(number, SYMBOLS):
            return number
        return self.of_text(text_of(number))

    def of_text(self, text: str) -> Any:
        """The value of a text of `text_of`."""
        if text not in self._found:
            self._found[text] = eval(_compiled(text), {}, self._known)
        return self._found[text]

    def in_place_of(self, leaf: Any, mode: Any) -> Any:
        """A value of a graph with numbers for its sizes: a fake tensor, or a number."""
        if not isinstance(leaf, FakeTensor) or leaf.layout != torch.strided:
            return self.of(leaf)
        lengths = lengths_of(leaf)
        if not any(isinstance(plain(n), torch.SymInt) for n in lengths):
            return leaf
        count = leaf.dim()
        found = [int(self.of(n)) for n in lengths]
        shape, strides, offset = found[:count], found[count : 2 * count], found[-2]
        last = 1 + sum((n - 1) * stride for n, stride in zip(shape, strides, strict=True))
        with mode:
            if offset == 0 and min(shape, default=1) > 0 and last * leaf.itemsize == found[-1]:
                made = torch.empty_strided(shape, strides, dtype=leaf.dtype, device=leaf.device)
            else:
                flat = torch.empty(found[-1] // leaf.itemsize, dtype=leaf.dtype, device=leaf.device)
                made = flat.as_strided(shape, strides, offset)
            made = made.conj() if leaf.is_conj() else made
            return torch._neg_view(made) if leaf.is_neg() else made


def spans_text(sizes: Sequence[int]) -> str:
    """Whole numbers in rising order: "2 to 7, 9 to 4,096"; the first and the last where there are many spans."""
    starts = [n for i, n in enumerate(sizes) if not i or sizes[i - 1] != n - 1]
    ends = [n for i, n in enumerate(sizes) if i == len(sizes) - 1 or sizes[i + 1] != n + 1]
    if len(starts) > 4:
        return f"{len(sizes):,} sizes from {sizes[0]:,} to {sizes[-1]:,}"
    return ", ".join(f"{a:,} to {b:,}" if a != b else f"{a:,}" for a, b in zip(starts, ends, strict=True))
