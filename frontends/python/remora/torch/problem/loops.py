# SPDX-License-Identifier: Apache-2.0
"""A partitioned graph for the engine: an op a loop of Inductor, a tensor a buffer, and the cut between its parts.

The loops are those of Inductor's own partition, which saves the result of its min cut. Values of the forward part that
its backward part reads may be saved or recomputed by the forward's loops; so the graph gives the cost of a smaller
saved set. It is an estimate: recomputed ops are fused anew with their readers, which is faster than their loops were.
The real cost of a partition is found by lowering it (decide/partitions.py).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from torch import fx

import remora
from remora.graph import TensorLike

from ..capture.launches import Number, Trace
from ..capture.lowered import Loop, Lowered
from ..cost.kernels import Calls
from ..internals import reused_buffers

CUT = "cut"
"""The op for what the user does between forward and backward."""


@dataclass(frozen=True)
class Half:
    """The forward or the backward part of a partition."""

    module: fx.GraphModule
    program: Lowered
    trace: Trace
    inputs: tuple[str, ...]  # names of its arguments
    sizes: tuple[int, ...]  # bytes of their storages
    at: Callable[[Number], Half]  # gives it for other numbers in place of symbolic sizes


def graph_of(
    forward: Half,
    backward: Half,
    shown: int,
    fixed: int,
    calls: Calls,
    again: Callable[[str], bool],
    later: tuple[int, int] = (0, 0),
    fused: float = 1.0,
    loss: int = 0,
) -> remora.Graph:
    """A partition as a graph.

    shown   how many outputs of the forward part are the user's
    fixed   bytes of the forward part's arguments
    again   whether a node of the graph, by its name, may run again
    later   bytes that later graphs take between both parts, and those of the gradients that they leave
    fused   the share of its time that a forward loop takes when it is recomputed, fused with its readers
    loss    bytes that the user's loss needs outside of the graph
    """
    graph = remora.Graph("inductor", fixed_memory=fixed, duration_unit="ns")
    graph.meta |= {"source": "remora.torch.inductor"}
    made: set[str] = set()  # tensors, each a buffer's name behind that of its part
    outputs = forward.program.outputs
    results = forward.module.graph.find_nodes(op="output")[0].args[0][shown:]
    saved = {node.name: outputs[shown + i] for i, node in enumerate(results) if node is not None}

    def write(half: Half, prefix: str, named: Callable[[str], list[str]], keep: set[str]) -> None:
        durations = _durations(half, calls)
        taken = reused_buffers(half.program.source)
        for loops in merged(half):
            own = {name for loop in loops for name in loop.writes}
            reads = {t for loop in loops for name in loop.reads if name not in own for t in named(name)}
            name, sizes = f"{prefix}/{loops[0].name}", half.program.sizes
            written = {f"{prefix}/{n}": sizes[n] for loop in loops for n in loop.writes if sizes.get(n, 0)}
            written = written or {f"{name} done": 0}
            made.update(f"{prefix}/{n}" for n in own)
            origins = frozenset().union(*(loop.origins for loop in loops))
            duration = sum(durations.get(loop.name, 0) for loop in loops)
            if prefix == "forward" and not any(loop.call for loop in loops):
                duration = round(duration * fused)
            pairs: dict[str, TensorLike] = {}
            for new, old in taken.items():
                source = next((t for t in named(old) if t in reads and t not in pairs.values()), None)
                if source is not None and f"{prefix}/{new}" in written:
                    pairs[f"{prefix}/{new}"] = source
            graph.op(
                name,
                type=" ".join(sorted(origins)[:3]),
                duration=duration,
                inputs=sorted(reads),
                outputs=written,
                keep=keep & written.keys(),
                in_place=pairs,
                phase="forward" if prefix == "forward" else "backward",
                recompute=prefix == "forward" and all(map(again, origins)),
            )

    def solid(half: Half, prefix: str, name: str) -> list[str]:
        return [f"{prefix}/{n}" for n in half.program.solid(name)]

    def from_forward(name: str) -> list[str]:
        return [t for t in solid(forward, "forward", name) if t in made]

    sizes = dict(zip(backward.inputs, backward.sizes, strict=True))
    tangents = {f"{CUT}/{name}": size for name, size in sizes.items() if name.startswith("tangents")}

    def from_backward(name: str) -> list[str]:
        if name in saved:
            return from_forward(saved[name])
        if f"{CUT}/{name}" in tangents:
            return [f"{CUT}/{name}"]
        return [t for t in solid(backward, "backward", name) if t in made]

    write(forward, "forward", from_forward, set())
    # What later graphs leave; where they leave nothing it stands for the end of the cut.
    between: dict[str, int] = {**tangents, f"{CUT} done": later[1]}
    graph.op(
        CUT,
        type="user",
        duration=0,
        inputs=sorted({t for name in outputs[:shown] for t in from_forward(name)}),
        outputs=between,
        keep=[f"{CUT} done"],
        workspace=max(0, max(loss, later[0]) - later[1] - sum(tangents.values())),
        phase="forward",
        recompute=False,
    )
    kept = {t for name in backward.program.outputs for t in solid(backward, "backward", name)}
    write(backward, "backward", from_backward, kept)
    return graph


def merged(half: Half) -> list[list[Loop]]:
    """The loops in order; those of one call are one op, and so is what takes results out of a tuple with its maker.

    A CPU's kernel may hold several loops: all their results are there before what any of them reads is released.
    """
    lines: dict[str, str] = {}  # the line in which a loop runs
    for launch, loops in zip(half.trace.launches, _loops_of(half), strict=True):
        for loop in loops:
            lines.setdefault(loop.name, launch.line)
    groups: dict[str, list[Loop]] = {}
    maker: dict[str, str] = {}
    for loop in half.program.loops:
        alone = lines.get(loop.name, loop.name)
        parent = next((maker[name] for name in loop.reads if name in half.program.tuples), alone)
        groups.setdefault(parent, []).append(loop)
        maker.update(dict.fromkeys(loop.writes, parent))
    return list(groups.values())


_NAME = re.compile(r"\b[A-Za-z_]\w*\b")


def _loops_of(half: Half) -> list[list[Loop]]:
    """The loops that each call runs."""
    names = [set(_NAME.findall(launch.line)) for launch in half.trace.launches]
    return [[loop for loop in half.program.loops if not row.isdisjoint(loop.writes)] for row in names]


def origins_of(half: Half) -> list[set[str]]:
    """The names of the graph's nodes that each call computes."""
    return [set[str]().union(*(loop.origins for loop in loops)) for loops in _loops_of(half)]


def _durations(half: Half, calls: Calls) -> dict[str, int]:
    """Nanoseconds of each loop: a kernel's time is parted by bytes where it holds several."""
    program, left = half.program, {loop.name: loop for loop in half.program.loops}
    inputs = dict(zip(half.inputs, half.sizes, strict=True))
    sizes = {**inputs, **program.sizes}
    lines: dict[str, int] = {}
    for launch in half.trace.launches:
        lines[launch.line] = lines.get(launch.line, 0) + calls.of(launch)[0]
    found: dict[str, int] = {}
    for line, duration in lines.items():
        names = set(_NAME.findall(line))
        mine = [loop for loop in left.values() if not names.isdisjoint(loop.writes)]
        moved = [1 + sum(sizes.get(name, 0) for name in (*loop.reads, *loop.writes)) for loop in mine]
        for loop, size in zip(mine, moved, strict=True):
            found[loop.name] = duration * size // sum(moved)
            del left[loop.name]
    return found
