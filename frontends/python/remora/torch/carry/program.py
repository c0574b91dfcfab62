# SPDX-License-Identifier: Apache-2.0
"""A schedule as a Python function: one line for each call and each release, in exactly the schedule's order.

    convolution = aten_convolution_default(arg2_1, arg0_1, arg1_1, [1, 1], [0, 0], [1, 1], False, [0, 0], 1)
    relu = aten_relu__default(convolution)
    mul = None

A view is made where its value is first used and lives as long as the storage beneath, which it would keep alive. Before
an op runs again, what is left of its older outputs is released; so a run allocates what the schedule says, although
PyTorch allocates all outputs anew. Before a random op's first run the generator's state is saved, if it runs again, and
set back for it.
"""

from __future__ import annotations

import keyword
import linecache
import math
import operator
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx

from ..capture.graph import Op, Run, StepGraph, Taking, tensors_in
from ..errors import CaptureError
from ..symbols import SYMBOLS, symbol_of, symbols_in, text_of
from .arena import Arena, library


@dataclass
class Program:
    """A generated function. It takes a list of arguments, which it empties, and returns a list."""

    source: str
    run: Callable[[list[Any]], list[Any]]


def state_of(op: Op) -> str:
    """The variable for the state that a random op's generator had before its first run."""
    return f"{op.name}_state"


class Writer:
    """Writes the lines of one function; keeps book of which variables hold which storages."""

    def __init__(
        self, step: StepGraph, given: set[Op], saved: set[Op], last: dict[Op, int], in_arena: bool = False
    ) -> None:
        self.step, self.saved, self.last = step, saved, last
        self.calls = 0
        self.lines: list[str] = []
        self.constants: dict[str, Any] = {"torch": torch, "math": math, "inf": float("inf"), "nan": float("nan")}
        self.symbols: set[str] = set()  # variables of sizes that vary
        if in_arena:
            self.constants["place"] = library().remora_place
        self.name_of: dict[fx.Node, str] = {}
        self.held: dict[int, list[str]] = {}
        self.made: set[int] = set()  # storages
        self.drawn = set(given)

    def hold(self, node: fx.Node, storages: Sequence[int]) -> str:
        """A variable for a node's value, which keeps some storages alive."""
        name = node.name
        name += "_" if keyword.iskeyword(name) or name in self.constants or name in self.symbols else ""
        self.name_of[node] = name
        for storage in storages:
            self.held.setdefault(storage, []).append(name)
        return name

    def argument(self, given: fx.Node | Op) -> str:
        """The variable of an argument; a size that varies is named after its symbol."""
        if isinstance(given, Op):
            return state_of(given)
        symbol = symbol_of(self.step.value.get(given))
        if symbol is not None and symbol not in self.symbols:
            self.symbols.add(symbol)
            return symbol
        return self.hold(given, self.step.needs.get(given, []))

    def release(self, storages: Sequence[int]) -> None:
        """Writes the line that deletes every name of these storages."""
        names = list(dict.fromkeys(name for s in storages for name in self.held.pop(s, [])))
        if not names:
            return
        self.lines.append(" = ".join([*names, "None"]))
        gone = set(names)
        self.name_of = {node: name for node, name in self.name_of.items() if name not in gone}

    def value(self, node: fx.Node) -> str:
        """The variable of a node's value; a view is made if it is not there. Of a size that varies, its text."""
        node = self.step.resolve(node)
        if node in self.name_of:
            return self.name_of[node]
        number = self.step.value.get(node)
        if isinstance(number, torch.SymInt):
            return self.text(number)
        if node.op == "get_attr":
            return self.constant(
                str(node.target).replace(".", "_"), operator.attrgetter(str(node.target))(self.step.module)
            )
        if node in self.step.owner or node.op == "placeholder":
            raise CaptureError(f"the schedule reads {node.name}, which is not there")
        text = self.call(node)
        self.lines.append(f"{self.hold(node, self.step.needs.get(node, []))} = {text}")
        return self.name_of[node]

    def call(self, node: fx.Node, taking: Taking | None = None) -> str:
        """The text of a node's call; the views that it reads are made before."""
        if node.target is operator.getitem:
            source, item = node.args
            twin = _item(self.step.resolve(source), item)  # type: ignore[arg-type]
            if twin is not node and twin in self.name_of:
                return self.name_of[twin]
            return f"{self.text(source)}[{self.text(item)}]"
        target, given, options = self.step.call_of(node)
        if taking is not None:
            target, given = taking.form, (given[taking.place], *(a for i, a in enumerate(given) if i != taking.place))
        name = str(target) if isinstance(target, torch._ops.OpOverload) else target.__name__
        function = self.constant(name, target)
        arguments = [self.text(a) for a in given] + [f"{k}={self.text(a)}" for k, a in options.items()]
        return f"{function}({', '.join(arguments)})"

    def text(self, value: Any) -> str:
        """Source text of an argument."""
        if isinstance(value, fx.Node):
            return self.value(value)
        if isinstance(value, (list, tuple)):
            inside = ", ".join(self.text(v) for v in value)
            return f"[{inside}]" if isinstance(value, list) else f"({inside}{',' if len(value) == 1 else ''})"
        if isinstance(value, SYMBOLS):
            unknown = symbols_in([value]) - self.symbols
            if unknown:
                raise CaptureError(f"{text_of(value)}: no argument of the step is {', '.join(sorted(unknown))}")
            return text_of(value)
        if value is None or isinstance(value, (bool, int, float, str, torch.dtype, torch.layout, torch.memory_format)):
            return repr(value)
        return self.constant(f"constant_{len(self.constants)}", value)

    def constant(self, name: str, value: Any) -> str:
        """Name of a constant of the program; the given one, unless another constant has it."""
        name = "".join(c if c.isalnum() or c == "_" else "_" for c in name)
        while name in self.constants and self.constants[name] is not value:
            name += "_"
        self.constants[name] = value
        return name

    def run(self, index: int, run: Run) -> None:
        """The lines of one step of the schedule."""
        op = run.op
        taking = self.step.takes_over(op, run.free, self.held, self.made)
        self.made.update(op.outputs)
        self.release([s for s in op.outputs if s in self.held])
        for node in op.nodes:
            # Arguments first: nothing may stand between a generator that is set back and the call that draws from it.
            text = self.call(node, taking if node is op.nodes[0] else None)
            again = node is op.nodes[0] and op in self.drawn
            if op.random:
                self.place(-1)  # the states of generators lie on the heap
            if again:
                generator = self.constant("generator", generator_of(self.step, node))
                self.lines += [f"now = {generator}.get_state()", f"{generator}.set_state({state_of(op)})"]
            elif node is op.nodes[0] and op in self.saved:
                self.drawn.add(op)
                self.lines.append(
                    f"{state_of(op)} = {self.constant('generator', generator_of(self.step, node))}.get_state()"
                )
            self.place(self.calls)
            self.calls += 1
            self.lines.append(f"{self.targets(op, node)} = {text}")
            if op.random:
                self.place(-1)
            if again:
                self.lines += [f"{generator}.set_state(now)", "now = None"]
                if self.last.get(op) == index:
                    self.lines.append(f"{state_of(op)} = None")
        self.release(run.free)

    def place(self, call: int) -> None:
        """The line that says which call allocates next, where there is an arena; -1: none of them."""
        if "place" in self.constants:
            self.lines.append(f"place({call})")

    def targets(self, op: Op, node: fx.Node) -> str:
        """The variables to which a node's outputs go."""
        value = self.step.value[node]
        if isinstance(value, (list, tuple)):
            if any(user.target is not operator.getitem for user in node.users):
                raise CaptureError(f"{node.name}: its outputs are used as one list")
            names = [self.target_of_item(op, node, i, v) for i, v in enumerate(value)]
            return ", ".join(names) + ("," if len(names) == 1 else "")
        if value is None:
            return "_"
        return self.hold(node, op.outputs if node in self.step.in_place and not op.recompute else self.step.needs[node])

    def target_of_item(self, op: Op, node: fx.Node, index: int, value: Any) -> str:
        """Target of the assignment of one result of a tuple; `_` if it is no tensor."""
        if not isinstance(value, torch.Tensor):
            return "_"
        item = _item(node, index)
        if item is not None:
            return self.hold(item, self.step.needs[item])
        name = f"{node.name}_{index}_unused"
        self.held.setdefault(self.step.storage_of(value), []).append(name)
        return name


def generator_of(step: StepGraph, node: fx.Node) -> torch.Generator:
    """The generator from which a random node draws."""
    device = next((t.device for t in tensors_in(step.value[node])), step.device)
    if device.type == "cuda":
        return torch.cuda.default_generators[device.index or 0]
    return torch.default_generator


def _item(node: fx.Node, index: Any) -> fx.Node | None:
    """The first node that takes item `index` of a node's outputs."""
    return next((u for u in node.users if u.target is operator.getitem and u.args[1] == index), None)


def write_step(step: StepGraph, runs: Sequence[Run]) -> Program:
    """The function of a schedule of a whole graph, from its arguments to its results."""
    return write_program("step", step, runs, step.placeholders, step.outputs, step.updates)


def write_program(
    name: str,
    step: StepGraph,
    runs: Sequence[Run],
    arguments: Sequence[fx.Node | Op],
    results: Sequence[Any],
    updates: Sequence[tuple[fx.Node, fx.Node]] = (),
    arena: Arena | None = None,
    after: int | None = None,
) -> Program:
    """Writes and compiles the function of a schedule, or of a part of one.

    arguments   the nodes whose values it is given; a random op stands for the state of its generator
    results     nodes and constants that it returns, and random ops again
    updates     placeholders, and the nodes whose values are copied into them in the end
    after       as in `carry.arena.Places`
    """
    last = {run.op: i for i, run in enumerate(runs)}
    given, handed = ({x for x in row if isinstance(x, Op)} for row in (arguments, results))
    again = {run.op for i, run in enumerate(runs) if run.op.random and last[run.op] != i}
    writer = Writer(
        step, given, again | handed, {op: i for op, i in last.items() if op not in handed}, arena is not None
    )
    names = [writer.argument(x) for x in arguments]
    if names:
        writer.lines.append(f"{', '.join(names)}{',' if len(names) == 1 else ''} = arguments")
    writer.lines.append("arguments.clear()")
    for i, run in enumerate(runs):
        writer.run(i, run)
    writer.place(-1)
    for updated, source in updates:
        writer.lines.append(f"{writer.value(updated)}.copy_({writer.value(source)})")
    returned = ", ".join(state_of(r) if isinstance(r, Op) else writer.text(r) for r in results)
    body = "".join(f"    {line}\n" for line in [*writer.lines, f"return [{returned}]"])
    source_text = f"def {name}(arguments):\n{body}"
    file = f"<remora {name} {id(writer)}>"
    linecache.cache[file] = (len(source_text), None, source_text.splitlines(True), file)
    exec(compile(source_text, file, "exec"), writer.constants)
    function: Callable[[list[Any]], list[Any]] = writer.constants[name]
    weakref.finalize(function, linecache.cache.pop, file, None)
    return Program(source_text, arena.run(step, runs, function, after) if arena is not None else function)
