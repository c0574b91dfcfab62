# SPDX-License-Identifier: Apache-2.0
"""A captured step whose sizes vary as a problem for each size: one set of ops, and numbers for its symbols."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import cached_property

import torch
from torch import fx

from ..capture.dynamo import names_of_symbols
from ..capture.graph import Cut, StepGraph, tensors_in
from ..capture.read import read_step
from ..capture.simplify import simplify
from ..cost.calls import adopt_sizes
from ..cost.varying import VaryingCosts
from ..errors import CaptureError
from ..options import Options
from ..symbols import Numbers, hints_in, holds, lengths_of, plain, sizes_of, symbol_of, symbols_in
from .aten import StepProblem

Values = tuple[int, ...]
"""Numbers for the symbols of a step, in their order."""


class SizedGraph:
    """A captured step whose sizes vary; `named`: the user's name for an argument.

    Raises CaptureError: a size follows from no argument.
    """

    def __init__(self, step: StepGraph, named: Callable[[str], str]) -> None:
        self.step, self._named = step, named
        self._symbols = self._find_symbols()

    def _find_symbols(self) -> dict[str, int]:
        """The symbols of sizes, and the place of each among the arguments."""
        places: dict[str, int] = {}
        for i, node in enumerate(self.step.placeholders):
            symbol = symbol_of(self.step.value[node])
            if symbol is not None:
                places.setdefault(symbol, i)
        tensors = tensors_in(list(self.step.value.values()))
        needed = symbols_in(n for t in tensors if t.layout == torch.strided for n in lengths_of(t))
        # What a view that is an argument lies in may have sizes of its own, which are those of this call.
        made = symbols_in(storage.size for storage in self.step.storages if not storage.fixed)
        missing = made - places.keys()
        if missing:
            raise CaptureError(f"a size of the step follows from no argument of it ({', '.join(sorted(missing))})")
        self._hints = hints_in(self.step.mode.shape_env)
        return {name: place for name, place in places.items() if name in needed}

    def values_of(self, arguments: Sequence[object]) -> Values:
        """The sizes of a call, from its arguments."""
        return tuple(int(arguments[place]) for place in self._symbols.values())  # type: ignore[call-overload]

    @cached_property
    def ranges(self) -> list[list[int] | None]:
        """Sizes that each symbol has in calls of this graph, if there is a largest one.

        PyTorch captures others apart: its guards are final when the graph runs.
        """
        environment = self.step.mode.shape_env
        found = [sizes_of(environment, name) for name in self._symbols]
        largest = {name: sizes[-1] for name, sizes in zip(self._symbols, found, strict=True) if sizes}
        return found if holds(environment, {**self._hints, **largest}) else [None] * len(found)

    def corner(self, values: Values) -> Values:
        """The largest sizes; of what has no range, the size of this call."""
        return tuple(v if r is None else r[-1] for v, r in zip(values, self.ranges, strict=True))

    def numbers(self, values: Values) -> Numbers:
        """Numbers for the symbols, and for all that is computed from them."""
        return Numbers({**self._hints, **dict(zip(self._symbols, values, strict=True))})

    def text(self, low: Values, high: Values) -> str:
        """Sizes as people read them."""
        named = zip(self._symbols, low, high, strict=True)
        return ", ".join(f"{self.names[s]}: {a:,}{f' to {b:,}' if b != a else ''}" for s, a, b in named)

    @cached_property
    def names(self) -> dict[str, str]:
        """The user's name for each symbol: "tokens.shape[1]"."""
        found = {s: self._named(name) for s, name in names_of_symbols(self.step.mode.shape_env).items()}
        return {symbol: found.get(symbol, symbol) for symbol in self._symbols}


class SizedProblem(SizedGraph):
    """A captured graph whose sizes vary, with the costs of its ops; `cut`: of a joint graph."""

    def __init__(
        self,
        module: fx.GraphModule,
        options: Options,
        name: str,
        accumulates: bool,
        named: Callable[[str], str],
        cut: Cut | None = None,
    ) -> None:
        start = time.perf_counter()
        step = read_step(module, cut, options.pure, may_vary=True)
        step.accumulates = accumulates
        simplify(step)
        super().__init__(step, named)
        self._name, self._of = name, "the captured step" if cut is None else "the captured forward and backward"
        self._costs = VaryingCosts(step, options.cost == "measured", options.say)
        self._last: tuple[Values, StepProblem] | None = None
        self.seconds = time.perf_counter() - start

    def at(self, values: Values, how: str = "at") -> StepProblem:
        """The step at some sizes; `how`: which costs it has, as methods of `VaryingCosts`; "measure": measured ones."""
        if how == "at" and self._last is not None and self._last[0] == values:
            return self._last[1]
        step = self.step.at(self.numbers(values))
        if how == "measure":
            self._costs.measure(step)
        costs = self._costs.roughly(step) if how == "roughly" else self._costs.at(step)
        adopt_sizes(step, costs, self.step)
        found = StepProblem(step, costs, self._name, f"{self._of} of {self.text(values, values)}")
        if how != "roughly":
            self._last = values, found
        return found


def has_symbols(module: fx.GraphModule) -> bool:
    """True if a captured graph has sizes that vary."""
    values = (node.meta.get("val") for node in module.graph.find_nodes(op="placeholder"))
    return any(isinstance(plain(value), torch.SymInt) for value in values)
