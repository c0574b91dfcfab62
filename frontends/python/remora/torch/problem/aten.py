# SPDX-License-Identifier: Apache-2.0
"""A captured step as a problem for the engine: its graph, and the exact replay of a schedule.

The replay follows the rules by which the generated program allocates, so the peak is exact to the byte.

The name of an op contains its layer, and a backward op refers to the forward op whose gradient it computes; reports and
hierarchical solving use both. Dynamo records the module of a forward node but not of a backward node. A backward op is
taken to compute the gradient of the forward op with which it shares most tensors, parameters included; if it shares
none (a sum of gradients), it refers to no forward op.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import fx

import remora

from ..capture.graph import Op, Run, StepGraph
from ..cost.calls import Cost, op_cost
from .axes import OpAxis, engine_axes

LATER = {"micro_step": "later"}
"""Key in a graph's meta for a step that adds to the gradients of earlier micro-steps; the first has no such entry."""
_ROOT = re.compile(r"^[A-Za-z_]\w*(\['[^']*'\])?(\.__closure__\[\d+\]\.cell_contents)*\.?")

_KINDS = {"threshold": "relu", "addmm": "mm", "baddbmm": "bmm"}
"""Name of the backward form of an op, or of the product in it."""
_ITEM = re.compile(r"_modules\['([^']*)'\]|\['([^']*)'\]|\[(\d+)\]")


@dataclass(frozen=True)
class Replayed:
    """A schedule as the program will run it."""

    schedule: remora.Schedule
    runs: list[Run]
    peak: int  # bytes, fixed memory included: exactly what the program will allocate


@dataclass
class StepProblem:
    """A captured step and the cost of its ops: what the engine decides, and the exact peak of a decision."""

    step: StepGraph
    costs: dict[fx.Node, Cost]
    name: str = "step"
    of: str = "the captured step"

    @cached_property
    def graph(self) -> remora.Graph:
        """The step as the engine sees it."""
        return graph_of(self.step, self.costs, self.name)

    @property
    def fixed(self) -> int:
        """Bytes that are allocated throughout."""
        return fixed_memory(self.step)

    @cached_property
    def unscheduled(self) -> int:
        """Peak in bytes of every op once in captured order, fixed memory included: what a percentage refers to."""
        return replay(self.step, self.costs, once(self.step))

    @property
    def states(self) -> int:
        """Upper bound in bytes on the generator states that a program saves; the engine does not count them."""
        count = sum(op.random for op in self.step.ops)
        return _state_bytes(self.step) * (1 + count) if count else 0

    def forbid(self, ops: Sequence[Op]) -> None:
        """Lets some ops run once only."""
        for op in ops:
            op.once = True
        self.__dict__.pop("graph", None)

    def replayed(self, schedule: remora.Schedule) -> Replayed:
        """A schedule of the graph, replayed as the program allocates."""
        runs = runs_of(self.step, schedule)
        peak = replay(self.step, self.costs, runs)
        if schedule.arena is not None:
            peak = max(peak, self.fixed + schedule.arena.size + _states_held(self.step, runs))
        return Replayed(schedule, runs, peak)


def _cut_by(axes: Iterable[OpAxis]) -> set[int]:
    """The storages that axes cut."""
    return {s for axis in axes for s, rows in axis.cuts.items() if rows is not None}


def graph_of(
    step: StepGraph, costs: dict[fx.Node, Cost], name: str, axes: Mapping[Op, Sequence[OpAxis]] | None = None
) -> remora.Graph:
    """A step as a graph: an op for each of its ops, and first of all a tensor for each storage that one makes.

    `axes`: of ops that may be computed in slices. A tensor that they cut has the bytes that are asked for.
    """
    axes = {op: found for op, found in (axes or {}).items() if step.pinned.isdisjoint(_cut_by(found))}
    cut = {s: rows for found in axes.values() for axis in found for s, rows in axis.cuts.items() if rows is not None}
    pinned = sum(step.storages[s].size for s in step.pinned)  # counts throughout, so that nothing evicts it
    graph = remora.Graph(name, fixed_memory=fixed_memory(step) + pinned, duration_unit="ns")
    graph.meta |= {"source": "remora.torch"}
    if step.accumulates:
        graph.meta |= LATER
    made = {s: step.storages[s] for s in storages_made(step)}
    tensors = {
        s: graph.tensor(storage.name, 0, keep=False)
        if s in step.pinned
        else graph.tensor(storage.name, cut[s].whole if s in cut else storage.size, keep=storage.keep)
        for s, storage in made.items()
    }
    forward = forward_of(step)
    called = names_of(step, forward)
    ops: dict[Op, remora.Op] = {}
    last: list[remora.Op] = []
    for op in step.ops:
        duration, workspace = op_cost(op, costs)
        taken = step.takes.get(op)
        read = [s for s in op.inputs if not step.storages[s].fixed]
        assert tensors.keys() >= set(read), "an op reads what no op makes"
        runs_once = op.random or not op.recompute
        ops[op] = graph.op(
            called[op],
            type=_type(op.nodes),
            duration=duration,
            workspace=workspace,
            inputs=[tensors[s] for s in op.inputs if s in tensors],
            outputs=[tensors[s] for s in op.outputs] or {f"{op.name} done": 0},
            in_place={made[taken.output].name: tensors[taken.input]} if taken else None,
            phase="backward" if op.backward else "forward",
            backward_of=ops[forward[op]] if op in forward else None,
            recompute=op.recompute,
            max_computes=1 if op.once else None,
            after=[*(last if runs_once else ()), *(ops[o] for o in step.after.get(op, ()))],
            axes=engine_axes(axes.get(op, ()), tensors, workspace),
        )
        if runs_once:
            last = [ops[op]]
    return graph


def storages_made(step: StepGraph) -> list[int]:
    """The storages that ops make, in the order of the graph's tensors."""
    return sorted({s for op in step.ops for s in op.outputs})


def fixed_memory(step: StepGraph) -> int:
    """Permanently resident bytes."""
    return step.outside + step.beside + sum(s.size for s in step.storages if s.fixed)


def replay(step: StepGraph, costs: dict[fx.Node, Cost], runs: Sequence[Run]) -> int:
    """The peak of a schedule in bytes, fixed memory included, exactly as the generated program allocates."""
    last = {run.op: i for i, run in enumerate(runs)}
    state = _state_bytes(step)
    held = peak = fixed_memory(step)
    resident: set[int] = set()
    made: set[int] = set()  # by the program that runs
    saved = set()
    for i, run in enumerate(runs):
        op = run.op
        taking = step.takes_over(op, run.free, resident, made)
        made.update(op.outputs)
        if op is step.cut_op:
            made.clear()
        if taking is not None:
            held -= step.storages[taking.input].size
            resident.discard(taking.input)
        held -= sum(step.storages[s].size for s in op.outputs if s in resident)
        now = state if op in saved else 0
        if op.random and op not in saved and last[op] > i:
            saved.add(op)
            held += state
        resident.update(op.outputs)
        peak = max(peak, held + now)
        held += sum(step.storages[s].size for s in op.outputs)
        peak = max(peak, held + now + op_cost(op, costs)[1])
        held -= sum(step.storages[s].size for s in run.free if taking is None or s != taking.input)
        resident.difference_update(run.free)
        if op in saved and last[op] == i:
            held -= state
    return peak


def _states_held(step: StepGraph, runs: Sequence[Run]) -> int:
    """The most bytes that saved states of generators take at once."""
    last = {run.op: i for i, run in enumerate(runs)}
    saved: set[Op] = set()
    most = 0
    for i, run in enumerate(runs):
        most = max(most, len(saved) + (run.op in saved))
        if run.op.random and last[run.op] > i:
            saved.add(run.op)
        elif last[run.op] == i:
            saved.discard(run.op)
    return most * _state_bytes(step)


def _state_bytes(step: StepGraph) -> int:
    """Size of a saved state of a generator."""
    return int(torch.default_generator.get_state().numel()) if step.device.type == "cpu" else 0


def once(step: StepGraph) -> list[Run]:
    """Every op once, in captured order; each storage released behind its last reader."""
    last: dict[int, int] = {}
    for i, op in enumerate(step.ops):
        for s in [*op.inputs, *op.outputs]:
            if not step.storages[s].fixed and not step.storages[s].keep:
                last[s] = i
    free: list[list[int]] = [[] for _ in step.ops]
    for s, i in last.items():
        free[i].append(s)
    return [Run(op, tuple(released)) for op, released in zip(step.ops, free, strict=True)]


def runs_of(step: StepGraph, schedule: remora.Schedule) -> list[Run]:
    """The steps of a schedule of `graph_of` as runs of a step's ops."""
    storages = dict(enumerate(storages_made(step)))  # what says that an op is done is none
    released = {i: s for i, s in storages.items() if s not in step.pinned}
    arena = schedule.arena
    placed = zip(arena.offsets, arena.workspaces, strict=True) if arena else itertools.repeat(({}, None))
    return [
        Run(
            step.ops[s.op.index],
            tuple(released[t.index] for t in s.free if t.index in released),
            {storages[t.index]: offset for t, offset in offsets.items() if t.index in storages},
            workspace or 0,
        )
        for s, (offsets, workspace) in zip(schedule.steps, placed, strict=False)
    ]


def _type(nodes: list[fx.Node]) -> str:
    return " ".join(str(getattr(n.target, "overloadpacket", n.target)).replace("aten.", "") for n in nodes) or "user"


def forward_of(step: StepGraph) -> dict[Op, Op]:
    """For backward ops, the forward op whose gradient they compute, if it follows from what both read; O(edges)."""
    touching: dict[int, list[Op]] = {}
    found: dict[Op, Op] = {}
    kinds = {op: _kinds(op) for op in step.ops}  # of kin are an op and its derivative
    for op in step.ops:
        if op.backward:
            shared: dict[Op, int] = {}
            for storage in op.inputs:
                for forward in touching.get(storage, []):
                    shared[forward] = shared.get(forward, 0) + 1
            if shared:
                # Of those that share most, one of the same kind, the latest of them.
                places = {forward: i for i, forward in enumerate(shared)}
                found[op] = max(shared, key=lambda f: (shared[f], not kinds[op].isdisjoint(kinds[f]), places[f]))
            continue
        if not op.nodes:
            continue
        for storage in dict.fromkeys([*op.inputs, *op.outputs]):
            touching.setdefault(storage, []).append(op)
    return found


def _kinds(op: Op) -> set[str]:
    names = {
        getattr(getattr(n.target, "overloadpacket", None), "__name__", "").removesuffix("_backward") for n in op.nodes
    }
    return {_KINDS.get(name, name) for name in names}


def layer_of(node: fx.Node) -> str:
    """The module of a forward node ("blocks.0.norm"), "" if unknown."""
    stack = node.meta.get("nn_module_stack")
    if not stack:
        return ""
    path = str(list(stack.values())[-1][0])
    return _ITEM.sub(lambda m: "." + next(g for g in m.groups() if g is not None), _ROOT.sub("", path)).strip(".")


def names_of(step: StepGraph, forward: dict[Op, Op]) -> dict[Op, str]:
    """A name for each op, which no other has: its layer and its node.

    A backward op is of its forward op's layer, or of that of the backward op before it.
    """
    layers: dict[Op, str] = {}
    last = ""
    for op in step.ops:
        if not op.backward:
            layers[op] = layer_of(op.nodes[0]) if op.nodes else ""
        else:
            last = layers[op] = layers[forward[op]] if op in forward else last
    return {op: f"{layer}/{op.name}" if layer else op.name for op, layer in layers.items()}
