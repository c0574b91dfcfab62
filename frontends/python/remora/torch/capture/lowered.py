# SPDX-License-Identifier: Apache-2.0
"""Inductor's lowering of a graph, without compiling it: its loops and calls, and the program that runs them.

A graph passes through Inductor's own compilation (its passes, lowering, fusion, order, reuse of buffers), which is
stopped where the kernels would be compiled. So this reads Inductor's decisions, for its settings and for the device;
`replay` (capture/launches.py) computes the memory of that program. When the graph is compiled, Inductor goes on where
it was stopped (`gone_on`).
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

import torch
from torch import fx
from torch._guards import TracingContext

from ..errors import CaptureError
from ..internals import compiler_extra, instead
from .dynamo import results_of


@dataclass(frozen=True)
class Loop:
    """One node of Inductor's scheduler: a fused loop, or a call of a library."""

    name: str
    reads: tuple[str, ...]  # buffers and inputs of the graph
    writes: tuple[str, ...]  # buffers that it makes
    origins: frozenset[str]  # the nodes of the graph that it computes, or a part of them
    call: bool  # whether it is a call of a library, which is not fused with what reads it


@dataclass
class Stopped:
    """A lowering of Inductor's that was stopped where its kernels would be compiled.

    `asked`: what was lowered, as text. `graph`: Inductor's `GraphLowering`. `code`: what its `codegen` gave.
    """

    asked: str
    graph: Any = None
    code: Any = None

    def gone_on(self) -> Any:
        """Its `GraphLowering`, which does not lower or write anything again."""
        graph, code = self.graph, self.code
        graph.run = lambda *_: None
        graph.codegen = graph.codegen_with_cpp_wrapper = lambda: code
        return graph


@dataclass(frozen=True)
class Lowered:
    """A graph as Inductor would run it."""

    source: str  # the program in Python that Inductor writes, kernels included
    constants: dict[str, Any]  # tensors that the program reads by name
    loops: tuple[Loop, ...]  # in the order in which they run
    nodes: dict[str, str]  # for each buffer that a node of the graph stands for, the name of that node
    sizes: dict[str, int]  # bytes of each buffer
    # buffers that have no memory of their own, and the buffers whose memory it is: the parts of what is written in
    # parts, and what is changed in place
    stands: dict[str, tuple[str, ...]]
    tuples: frozenset[str]  # buffers that are tuples of others
    outputs: tuple[str, ...]  # the buffer or input of each output; "" where an output is none
    strides: list[Any]  # of each output, as Inductor lays it out; None where it is no tensor
    stopped: Stopped = field(default_factory=lambda: Stopped(""), compare=False, repr=False)

    def solid(self, name: str) -> list[str]:
        """The buffers whose memory a buffer is: itself, unless it stands for others."""
        found, ahead = dict[str, None](), [name]
        while ahead:
            one = ahead.pop()
            if one not in found:
                found[one] = None
                ahead.extend(self.stands.get(one, ()))
        return [one for one in found if self.sizes.get(one, 0)]


def lowered_forward(module: fx.GraphModule, inputs: Sequence[Any], shown: tuple[int, int]) -> Lowered:
    """Lowers the forward part; `shown`: how many outputs are changed inputs, and how many the user's own."""
    from torch._inductor.compile_fx import compile_fx_forward

    changed, own = shown
    return _lowered(module, lambda given, extra: compile_fx_forward(given, inputs, own, len(inputs), extra), changed)


def lowered_backward(
    module: fx.GraphModule, inputs: Sequence[Any], donated: list[int], keeps_order: bool = False
) -> Lowered:
    """Lowers the backward part; the memory of the inputs whose numbers are in `donated` may be used for results.

    `keeps_order`: Inductor does not look for another order of what it fuses.
    """
    from torch._inductor import config
    from torch._inductor.compile_fx import compile_fx_backward

    with config.patch({"reorder_for_peak_memory": False} if keeps_order else {}):
        return _lowered(module, lambda given, extra: compile_fx_backward(given, inputs, extra), 0, donated)


def _lowered(
    module: fx.GraphModule, run: Callable[[Any, Any], Any], changed: int, donated: list[int] | None = None
) -> Lowered:
    """Lets Inductor compile up to its kernels, in the surroundings of the graph that is compiled at present."""
    from torch._inductor import compile_fx, config
    from torch._inductor.graph import GraphLowering

    written: list[Lowered] = []
    asked: list[str] = []

    def begin(given: fx.GraphModule, **named: Any) -> Any:
        asked.append(_asked(given, named))
        return _keeping_masks(GraphLowering(given, **named))

    def stop(graph: Any) -> Any:
        code = graph.codegen_with_cpp_wrapper() if graph.cpp_wrapper else graph.codegen()
        stopped = Stopped(asked[-1], graph, code)
        written.append(replace(_read(graph, code[0].value), stopped=stopped))
        return SimpleNamespace(call=None)  # in place of the compiled program, which is not called

    context = TracingContext.try_get()
    assert context is not None, "a graph is lowered while another is compiled"
    static = getattr(context.fw_metadata, "static_input_indices", None) or []
    metadata = SimpleNamespace(
        num_mutated_inp_runtime_indices=changed, bw_donated_idxs=donated, static_input_indices=static
    )
    with torch._subclasses.fake_tensor.unset_fake_temporarily():
        copied = copy.deepcopy(module)  # as AOTAutograd copies what it compiles, which changes it
    with (
        instead(context, "fw_metadata", metadata),
        instead(compile_fx, "GraphLowering", begin),
        instead(GraphLowering, "compile_to_module", stop),
        config.patch(fx_graph_cache=False, fx_graph_remote_cache=False),
        torch.no_grad(),
        torch._C._DisableAutocast(),
        TracingContext.report_output_strides() as strides,
    ):
        run(copied, compiler_extra(compile_fx, module))
    if not written:
        return _without_ops(copied)
    (found,) = written  # one graph gives one program
    return replace(found, strides=list(strides or []))


def _without_ops(module: fx.GraphModule) -> Lowered:
    """The program of a graph that only hands on its arguments: Inductor writes none."""
    names = [node.name for node in module.graph.find_nodes(op="placeholder")]
    results = [r if isinstance(r, fx.Node) else None for r in results_of(module)]
    outputs = tuple("" if node is None else node.name for node in results)
    if not {"", *names}.issuperset(outputs):
        raise CaptureError("a part of the graph computes nothing, and returns a constant")
    places = ", ".join(f"given[{names.index(name)}]" if name else "None" for name in outputs)
    lines = ["given = list(arguments)", "arguments.clear()", f"return [{places}]"]
    source = "\n    ".join(["async_compile = AsyncCompile()\n\ndef call(arguments):", *lines])
    values = [None if node is None else node.meta.get("val") for node in results]
    strides = [tuple(value.stride()) if isinstance(value, torch.Tensor) else None for value in values]
    return Lowered(source, {}, (), {}, {}, {}, frozenset(), outputs, strides)


def going_on(own: Callable[..., Any], stopped: Callable[[], Iterable[Stopped]]) -> Callable[..., Any]:
    """In place of Inductor's `GraphLowering`: goes on with a stopped lowering of the same graph; otherwise `own`."""

    def begin(given: fx.GraphModule, **named: Any) -> Any:
        known = [one for one in stopped() if one.graph is not None]
        asked = _asked(given, named) if known else ""
        found = next((one.gone_on() for one in known if one.asked == asked), None)
        return found or _keeping_masks(own(given, **named))

    return begin


def _keeping_masks(graph: Any) -> Any:
    """Inductor's `GraphLowering`, which makes a buffer of each mask that a backward part draws again.

    By itself it keeps the random numbers, which take four times as much, and compares them again for each reader. The
    buffer is of numbers of 8 bits: a CPU's kernel takes ten times as long to write truth values.
    """
    from torch._inductor.lowering import lowerings

    run = graph.run_node
    cast, differ = lowerings[torch.ops.prims.convert_element_type.default], lowerings[torch.ops.aten.ne.Scalar]

    def run_node(node: fx.Node) -> Any:
        result = run(node)
        if graph.is_backward and len(node.users) > 1 and _is_mask(node):
            kept = cast(cast(result, torch.float32), torch.uint8)
            kept.realize()
            result = differ(cast(kept, torch.float32), 0)
        return result

    graph.run_node = run_node
    return graph


def _is_mask(node: fx.Node) -> bool:
    """True if a node compares random numbers, cast or as they are."""
    value = node.meta.get("val")
    if not isinstance(value, torch.Tensor) or value.dtype != torch.bool:
        return False
    compared = [*node.all_input_nodes, *(n for read in node.all_input_nodes for n in read.all_input_nodes)]
    return any(read.target is torch.ops.prims.inductor_random.default for read in compared)


def _asked(module: fx.GraphModule, named: dict[str, Any]) -> str:
    """All that a lowering depends on besides Inductor's settings: the graph with its values, and how it is compiled."""
    from torch._inductor.utils import get_donated_idxs

    def look(value: Any) -> str:
        if not isinstance(value, torch.Tensor):
            return str(value)
        return f"{value.dtype} {value.device} {tuple(value.shape)} {value.stride()} {value.storage_offset()}"

    nodes = list(module.graph.nodes)
    ends = [(n.op, str(n.meta.get("user_visible_output_idxs"))) for n in nodes if n.op == "output"]
    values = [(n.name, str(n.target), str(n.args), str(n.kwargs), look(n.meta.get("val"))) for n in nodes]
    own = ("shape_env", "example_inputs", "graph_id", "get_decomp_fn", "extern_node_serializer")
    rest = sorted((name, str(value)) for name, value in named.items() if name not in own)
    given = [look(value) for value in named.get("example_inputs") or ()]
    donated = list(get_donated_idxs() or ()) if named.get("is_backward") else []
    return repr((values, ends, given, rest, donated))


def _read(graph: Any, source: str) -> Lowered:
    """Reads what Inductor's scheduler holds once the program is written."""
    from torch._inductor import ir

    sizes: dict[str, int] = {}
    nodes: dict[str, str] = {}
    for buffer in graph.buffers:
        name = buffer.get_name()
        if name in graph.removed_buffers:
            continue
        sizes[name] = _bytes(graph, buffer)
        origin = buffer.get_origin_node()
        if origin is not None:
            nodes[name] = origin.name
    loops = tuple(_loop(graph, node) for node in graph.scheduler.nodes)
    outputs = tuple(
        "" if isinstance(out, (ir.NoneAsConstantBuffer, ir.ShapeAsConstantBuffer)) else out.get_name()
        for out in graph.graph_outputs
    )
    stands: dict[str, tuple[str, ...]] = {name: (real,) for name, real in graph.scheduler.mutation_real_name.items()}
    for buffer in graph.buffers:
        if isinstance(buffer.layout, ir.NonOwningLayout):
            whole = buffer.layout.view.get_name()
            stands[whole] = (*stands.get(whole, ()), buffer.get_name())
            sizes[whole] = 0
            if buffer.get_name() in sizes:  # the span of a part may be that of the whole
                sizes[buffer.get_name()] = _count(graph, buffer.get_numel()) * buffer.layout.dtype.itemsize
    tuples = frozenset(b.get_name() for b in graph.buffers if isinstance(b.layout, ir.MultiOutputLayout))
    constants = {**graph.constants, **graph.torchbind_constants}
    return Lowered(source, constants, loops, nodes, sizes, stands, tuples, outputs, [])


def _loop(graph: Any, node: Any) -> Loop:
    from torch._inductor.dependencies import WeakDep

    parts = node.get_nodes()
    made = {name for part in parts for name in part.get_buffer_names()}
    read = {d.name for part in parts for d in part.read_writes.reads if not isinstance(d, WeakDep)}
    reads = tuple(sorted(read - made - graph.removed_buffers))
    writes = tuple(sorted(made - graph.removed_buffers))
    origins = frozenset(n.name for part in parts if part.node is not None for n in part.node.get_origins())
    return Loop(node.get_name(), reads, writes, origins, node.is_extern() or node.is_template())


def _bytes(graph: Any, buffer: Any) -> int:
    """Own size of a buffer; 0 for one that is written in parts, since each part is a buffer."""
    from torch._inductor import ir

    layout = buffer.get_output_spec()
    if not isinstance(layout, ir.Layout) or isinstance(layout, (ir.MutationLayoutSHOULDREMOVE, ir.NoneLayout)):
        return 0
    return _count(graph, layout.storage_size()) * layout.dtype.itemsize


def _count(graph: Any, size: Any) -> int:
    """A number of elements; symbols count by their hints."""
    return int(graph.sizevars.optimization_hint(size, fallback=0))
