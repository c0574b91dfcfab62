# SPDX-License-Identifier: Apache-2.0
"""A captured step as the kernels that Inductor makes of it (`fuse="program"`).

The whole step is compiled once by Inductor, which is told to give each result memory of its own. Its program is read
(carry/kernels_read.py), and written as a graph again, in which each node is one call:

    buf0 = empty_strided_cpu(...)                 a node `cpp_fused_gelu_0(arg)`, which allocates its results and
    cpp_fused_gelu_0(arg, buf0)                   gives them; to everything behind it it is an op like any other
    buf1 = empty_strided_cpu(...)
    extern_kernels.mm(buf0, arg, out=buf1)        a node `mm_out(buf0, arg)`

So no node changes what another one made, any of them may run again, and fusion, layouts and choice of kernels are
Inductor's. Where the program writes one memory in several calls (the parts of a concatenation, sums by index), each
call but the first gives a copy with its part written; it works in place where the schedule releases what was there
before, as it does where nothing is made again.

What changes an argument of the step (running statistics) is taken out before Inductor sees the step, and happens after
all else. Random numbers come from seeds that one call draws, which runs once.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import fx
from torch._subclasses import FakeTensorMode
from torch.utils import _pytree as pytree

from ..capture.graph import StepGraph, is_own_op
from ..capture.launches import Kernel, Look, look_of
from ..capture.regions import Compiled, inductor
from ..errors import CaptureError
from ..store import digest
from .in_place import Pairs, compiled_with_pairs
from .kernels_read import Line, Reading, Stream, View, read_program, views_in

_STRAIGHT = {
    "allow_buffer_reuse": False,
    "cpp_wrapper": False,
    "fx_wrapper": False,
    "inplace_buffers": False,
    "inplace_padding": False,
    "memory_planning": False,
    "triton.cudagraphs": False,
}
"""With these settings each buffer is allocated once, for what one call writes."""

_WANTED = ("empty_strided_", "reinterpret_tensor", "get_raw_stream")
"""What a call needs of the program's names beside its kernel."""

_read: dict[str, tuple[Reading, dict[str, Any], Pairs]] = {}
"""What was compiled in this process, by what it was compiled from."""
_functions: dict[str, Callable[..., Any]] = {}
"""The functions of calls, equal calls share one."""


class KernelCall(Compiled):
    """One call of Inductor's program, as a function that allocates its results.

    Parameters
    ----------
    name : str
        Of the kernel or library function.
    lines : list of str
        The body of the function: reads `a0`, `a1`, ..., writes `b0`, `b1`, ...
    arguments : int
    results : list of Look
        Of `b0`, `b1`, ...
    begun : dict of int to int
        Results that begin as what an argument holds: which argument.
    may_take : list of (int, int)
        Results that may lie where an argument lies.
    space : dict
        What the body names.
    source : str
        Of the kernel.
    """

    def __init__(
        self,
        name: str,
        lines: list[str],
        arguments: int,
        results: list[Look],
        begun: dict[int, int],
        may_take: list[tuple[int, int]],
        space: dict[str, Any],
        source: str,
        again: bool,
        random: bool,
    ) -> None:
        super().__init__(name, again, random)
        self.lines, self.arguments, self.results, self.space = lines, arguments, results, space
        self.begun, self.may_take = begun, may_take
        self.key = digest([lines, str(results), str(begun), source])

    def __call__(self, *arguments: torch.Tensor) -> Any:
        """Allocates the results and runs the kernel."""
        made = [torch.empty_strided(r.shape, r.stride, dtype=r.dtype, device=r.device) for r in self.results]
        return made[0] if len(made) == 1 else tuple(made)

    def compiled(self, mode: FakeTensorMode) -> Callable[..., Any]:
        """The function; results that begin as an argument are copies of it."""
        return self._function(-1, -1)

    def in_place(self, result: int, argument: int) -> Callable[..., Any]:
        """The function that gives a result where an argument lies, which it is given first."""
        return self._function(result, argument)

    def _function(self, result: int, argument: int) -> Callable[..., Any]:
        text = self._text(result, argument)
        key = f"{self.key} {result} {argument}"
        if key not in _functions:
            space = dict(self.space)
            exec(text, space)
            _functions[key] = space["run"]
            _functions[key].__name__ = f"{self.name} {self.key[:12]}"
        return _functions[key]

    def _text(self, result: int, argument: int) -> str:
        given = [f"a{i}" for i in range(self.arguments)]
        lines = []
        for i, look in enumerate(self.results):
            if i == result:
                given.insert(0, given.pop(argument))
                lines.append(f"b{i} = reinterpret_tensor(a{argument}, {look.shape}, {look.stride}, 0)")
                continue
            lines.append(f"b{i} = empty_strided_{look.device.type}({look.shape}, {look.stride}, {look.dtype})")
            if i in self.begun:
                lines.append(f"b{i}.copy_(a{self.begun[i]})")
        lines += [*self.lines, "return " + ", ".join(f"b{i}" for i in range(len(self.results)))]
        return f"def run({', '.join(given)}):\n" + "".join(f"    {line}\n" for line in lines)


def as_kernels(step: StepGraph, say: Callable[[str], None]) -> fx.GraphModule:
    """The graph of a step whose nodes are the calls of Inductor's program for it.

    Parameters
    ----------
    step : StepGraph
        As captured, whole, not simplified.
    say : callable
        Is told what is being done.

    Raises
    ------
    CaptureError
        What the program does that is not understood.
    """
    if step.cut is not None:
        raise CaptureError("a forward and a backward part that run apart are no one program")
    module = _functional(step)
    looks = [look_of(step.value[node]) for node in step.placeholders]  # of sizes that are numbers, as the plan's
    inputs = [look.fake(step.mode) if isinstance(look, Look) else look for look in looks]
    if any(isinstance(given, torch.Tensor) and given.device.type != "cpu" for given in inputs):
        raise CaptureError("fuse='program' reads what Inductor writes for the CPU alone: on a GPU use fuse=True")
    modes = [torch.get_num_threads(), torch.are_deterministic_algorithms_enabled()]
    key = digest([module.code, str(looks), modes])
    if key not in _read:
        say("compiling the step")
        compiled, pairs = compiled_with_pairs(functools.partial(inductor, module, inputs, step.mode, **_STRAIGHT))
        call = compiled.current_callable
        space = getattr(call, "__func__", call).__globals__
        _read[key] = read_program(compiled.source_code, space, inputs), space, pairs
    return _Builder(step, *_read[key]).built()


def _functional(step: StepGraph) -> fx.GraphModule:
    """The step's graph with what the updates copy as further results, in the place of the updates."""
    graph = fx.Graph()
    made: dict[fx.Node, fx.Node] = {}

    def named(node: fx.Node) -> fx.Node:
        return made[step.resolve(node)]

    for node in step.module.graph.nodes:
        if node.op != "output" and step.resolve(node) is node:
            made[node] = graph.node_copy(node, named)
    results = [n for n in step.outputs if isinstance(n, fx.Node)] + [source for _, source in step.updates]
    graph.output(tuple(map(named, results)))
    graph.eliminate_dead_code()
    return fx.GraphModule(step.module, graph)


class _Builder:
    """Writes the graph of the calls."""

    def __init__(self, step: StepGraph, reading: Reading, space: dict[str, Any], pairs: Pairs) -> None:
        self.step, self.reading, self.space = step, reading, space
        buffers = reading.buffers
        self.pairs = {(buffers[a], buffers[b]) for a, b in pairs if a in buffers and b in buffers}
        self.last = {v.memory: line for line in reading.lines for v in views_in(line.given)}  # who reads it last
        self.graph = fx.Graph()
        self.holder: dict[int, fx.Node] = {}  # the node that gives what a memory holds now
        self.views: dict[tuple[fx.Node, Look], fx.Node] = {}
        self.constants: dict[str, torch.Tensor] = {}

    def built(self) -> fx.GraphModule:
        step, reading = self.step, self.reading
        placeholders = {n: self.graph.node_copy(n) for n in step.placeholders}
        tensors = [n for n in step.placeholders if isinstance(step.value[n], torch.Tensor)]
        self.holder = {i: placeholders[n] for i, n in enumerate(tensors)}
        for number, constant in reading.constants.items():
            name = f"constant_{number}"
            self.constants[name] = constant
            self.holder[number] = self.graph.get_attr(name)
        self.fixed = set(self.holder)
        for line in reading.lines:
            self._write(line)
        given = iter([self.value(v) if isinstance(v, View) else v for v in reading.results])
        results = [next(given) if isinstance(n, fx.Node) else n for n in step.outputs]
        for place, _ in step.updates:
            self.graph.call_function(torch.ops.aten.copy_.default, (placeholders[place], next(given)))
        self._tell_phases(results)
        end = step.module.graph.find_nodes(op="output")[0]
        self.graph.output(results).meta.update(end.meta)
        return fx.GraphModule(self.constants, self.graph)

    def value(self, view: View) -> fx.Node:
        """The node of a view."""
        node = self._holder(view)
        if view.look == self.reading.memory[view.memory]:
            return node
        if (node, view.look) not in self.views:
            _refuse_other_type(view, self.reading.memory[view.memory])
            look = view.look
            given = (node, list(look.shape), list(look.stride), look.offset)
            self.views[node, view.look] = self.graph.call_function(torch.ops.aten.as_strided.default, given)
        return self.views[node, view.look]

    def _holder(self, view: View) -> fx.Node:
        if view.memory not in self.holder:
            raise CaptureError("Inductor's program reads memory that nothing was written to")
        return self.holder[view.memory]

    def _write(self, line: Line) -> None:
        """A node for a line."""
        if any(m in self.fixed for m in line.writes):
            raise CaptureError(f"{_name_of(line, self.reading)} changes an argument of Inductor's program")
        if isinstance(line.target, Kernel) or line.writes:
            self._write_call(line)
            return
        arguments, named = pytree.tree_map_only(View, self.value, line.given)
        node = self.graph.call_function(line.target, arguments, named)
        if isinstance(line.results, View):
            self.holder.setdefault(line.results.memory, node)
            return
        for i, view in enumerate(line.results or ()):
            if isinstance(view, View):
                self.holder.setdefault(view.memory, self.graph.call_function(operator.getitem, (node, i)))

    def _write_call(self, line: Line) -> None:
        """A node for a call that writes into memory which was allocated before."""
        written = list(line.writes)
        read = [m for m in dict.fromkeys(v.memory for v in views_in(line.given)) if m not in written]
        begun = {i: m for i, m in enumerate(written) if m in self.holder}
        arguments = [*read, *begun.values()]
        names = {m: f"a{i}" for i, m in enumerate(read)} | {m: f"b{i}" for i, m in enumerate(written)}
        nodes = [self._holder(View(m, self.reading.memory[m])) for m in arguments]
        places = {i: arguments.index(m) for i, m in begun.items()}
        call = self._call(line, names, places, self._may_take(line, read, written, places), len(arguments))
        name = "".join(c if c.isalnum() else "_" for c in call.name)
        node = self.graph.create_node("call_function", call, tuple(nodes), {}, name=name)
        for i, memory in enumerate(written):
            many = len(written) > 1
            self.holder[memory] = self.graph.call_function(operator.getitem, (node, i)) if many else node

    def _may_take(
        self, line: Line, read: list[int], written: list[int], begun: dict[int, int]
    ) -> list[tuple[int, int]]:
        """First what begins as an argument; then where the program reads the argument for the last time; by size."""
        look = self.reading.memory
        once = {m for m in read if sum(v.memory == m for v in views_in(line.given)) == 1}
        found = [
            (i, j)
            for i, result in enumerate(written)
            for j, given in enumerate(read)
            if i not in begun and (result, given) in self.pairs and given in once - self.fixed
            if (look[result].elements, look[result].dtype) == (look[given].elements, look[given].dtype)
        ]
        found.sort(key=lambda pair: (self.last[read[pair[1]]] is not line, -look[written[pair[0]]].elements))
        return [*begun.items(), *found]

    def _call(
        self, line: Line, names: dict[int, str], begun: dict[int, int], may_take: list[tuple[int, int]], count: int
    ) -> KernelCall:
        memory = self.reading.memory
        space = {"torch": torch, "inf": float("inf"), "nan": float("nan")}
        space |= {name: self.space[name] for name in self.space if name.startswith(_WANTED)}
        name, source, again, random = _name_of(line, self.reading), "", True, False
        if isinstance(line.target, Kernel):
            space[name] = self.space[name]
            called = name if line.target.how == "cpp_pybinding" else f"{name}.run"
            source = str(line.target.arguments)
        else:
            called = str(line.target).replace(".", "_")
            space[called] = line.target
            random = torch.Tag.nondeterministic_seeded in line.target.tags
            again = is_own_op(line.target) and not random

        def text(value: Any) -> str:
            return _text_of(value, names, memory)

        arguments = [*map(text, line.given[0]), *(f"{k}={text(v)}" for k, v in line.given[1].items())]
        lines = [f"{called}({', '.join(arguments)})"]
        looks = [memory[m] for m in line.writes]
        return KernelCall(name, lines, count, looks, begun, may_take, space, source, again, random)

    def _tell_phases(self, results: Sequence[Any]) -> None:
        """Marks the calls of the backward: those from which no result but gradients comes."""
        ahead = [
            mine
            for mine, node in zip(results, self.step.outputs, strict=True)
            if isinstance(mine, fx.Node) and not self.step.resolve(node).meta.get("autograd_backward")
        ]
        forward: set[fx.Node] = set()
        while ahead:
            node = ahead.pop()
            if node not in forward:
                forward.add(node)
                ahead += node.all_input_nodes
        for node in self.graph.nodes:
            node.meta["autograd_backward"] = bool(forward) and node not in forward


def _name_of(line: Line, reading: Reading) -> str:
    if isinstance(line.target, Kernel):
        return reading.names[line.target]
    return str(line.target.name()).partition("::")[2].replace(".", "_")


def _text_of(value: Any, names: dict[int, str], memory: list[Look]) -> str:
    """An argument of a call in Python; `names`: the variables of memory."""
    if isinstance(value, View):
        base, look = memory[value.memory], value.look
        if look == base:
            return names[value.memory]
        _refuse_other_type(value, base)
        where = f"{look.shape}, {look.stride}, {look.offset - base.offset}"
        return f"reinterpret_tensor({names[value.memory]}, {where})"
    if isinstance(value, Stream):
        return f"get_raw_stream({value.device})"
    if isinstance(value, (list, tuple)):
        inside = ", ".join(_text_of(leaf, names, memory) for leaf in value)
        return f"[{inside}]" if isinstance(value, list) else f"({inside}{',' if len(value) == 1 else ''})"
    if value is None or isinstance(value, (bool, int, float, str, torch.dtype, torch.layout)):
        return repr(value)
    if isinstance(value, torch.device):
        return f"torch.{value!r}"
    raise CaptureError(f"Inductor's program gives a call a {type(value).__name__}, which cannot be written")


def _refuse_other_type(view: View, base: Look) -> None:
    if view.look.dtype != base.dtype:
        raise CaptureError("Inductor's program reads memory in another type than it was written")
