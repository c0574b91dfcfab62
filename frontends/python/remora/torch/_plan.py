# SPDX-License-Identifier: Apache-2.0
"""From a captured step to a schedule: the graph that the solver reads, and the schedule that it gives.

The peak is replayed here by the rules by which the generated program allocates, so it is known to the byte.

An op's name tells its layer, and a backward op the forward op whose gradient it computes: for reports and hierarchies.
Dynamo tells the module of a forward node and nothing of a backward one. A backward op computes the gradient of the
forward op with which it shares most tensors, parameters among them; where it shares none (a sum of gradients), none is
named.
"""

from __future__ import annotations

import itertools
import json
import os
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import fx

import remora

from ._arena import Memory
from ._costs import Cost, op_cost
from ._errors import BudgetError
from ._graph import Op, StepGraph
from ._program import Run
from ._solver import LEAST_SECONDS, Options, in_bytes, schedule_for

_ROOT = re.compile(r"^[A-Za-z_]\w*(\['[^']*'\])?\.?")
_KINDS = {"threshold": "relu", "addmm": "mm", "baddbmm": "bmm"}
"""What the backward form of an op, or the product in it, is called."""
_ITEM = re.compile(r"_modules\['([^']*)'\]|\['([^']*)'\]|\[(\d+)\]")


@dataclass
class Plan:
    """What was planned for one captured graph.

    Attributes
    ----------
    found : remora.Schedule
        What the engine found.
    predicted_peak, unscheduled_peak : int
        Bytes: of the schedule, and of every op once in captured order; with what is there throughout.
    seconds : dict
        What the parts of planning took.
    source : str
        The generated program.
    outside : int
        Bytes of `fixed_memory` for results that lie outside the arena; 0 without `arena=True`.
    checkpoints : int
        The model's own activation checkpoints, which are taken out: the schedule decides what is made again.
    memory : Memory or None
        The block that holds the step's tensors, with `arena=True`; it is not saved.
    """

    found: remora.Schedule
    predicted_peak: int
    unscheduled_peak: int
    budget: int
    seconds: dict[str, float] = field(default_factory=dict)
    source: str = ""
    outside: int = 0
    checkpoints: int = 0
    memory: Memory | None = field(default=None, repr=False, compare=False)

    @cached_property
    def graph(self) -> dict[str, Any]:
        """In the format `remora-graph`."""
        return json.loads(self.found.graph.to_json())  # type: ignore[no-any-return]

    @cached_property
    def schedule(self) -> dict[str, Any]:
        """In the format `remora-schedule`."""
        return json.loads(self.found.to_json())  # type: ignore[no-any-return]

    @property
    def fixed_memory(self) -> int:
        """Bytes that are there throughout, part of both peaks."""
        return self.found.graph.fixed_memory

    @property
    def predicted_time(self) -> int:
        """Nanoseconds of the schedule."""
        return self.found.duration

    @property
    def unscheduled_time(self) -> int:
        """Nanoseconds of every op once."""
        return self.found.baseline_duration

    @property
    def bound(self) -> int:
        """Nanoseconds that no schedule under the budget undercuts."""
        return self.found.bound

    @property
    def arena(self) -> int:
        """The bytes of the block that holds the step's tensors; 0 without `arena=True`."""
        return self.found.arena.size if self.found.arena else 0

    @property
    def overhead(self) -> float:
        """Time beyond the unscheduled step's, as a share of that."""
        return self.found.overhead

    @property
    def recomputes(self) -> int:
        """How many steps of the schedule run an op again."""
        return sum(self.found.recomputes.values())

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the plan as one JSON file."""
        Path(path).write_text(json.dumps(self.to_json()), encoding="utf-8")

    def to_json(self) -> dict[str, Any]:
        """The plan as an object of JSON."""
        return {name: getattr(self, name) for name in ("graph", "schedule", *_SAVED)}

    @staticmethod
    def load(path: str | os.PathLike[str]) -> Plan:
        """Reads what `save` wrote."""
        return Plan.from_json(json.loads(Path(path).read_text(encoding="utf-8")))

    @staticmethod
    def from_json(kept: dict[str, Any]) -> Plan:
        """Reads what `to_json` gave."""
        found = remora.Schedule.from_json(json.dumps(kept["schedule"]), remora.Graph.from_json(kept["graph"]))
        return Plan(found, **{name: kept[name] for name in _SAVED})

    def report(self, path: str | os.PathLike[str]) -> None:
        """Writes the HTML page that explains the schedule."""
        self.found.report(path)

    def __str__(self) -> str:
        least = self.bound / max(1, self.unscheduled_time) - 1
        instead = f", in place of {self.checkpoints} checkpoints of the model" if self.checkpoints else ""
        return (
            f"{len(self.found.graph)} ops, {self.recomputes} recomputes: peak {self.predicted_peak:,} bytes of "
            f"{self.budget:,} ({self.unscheduled_peak:,} unscheduled), time {self.overhead:+.2%}, bound {least:+.2%}"
            f"{instead}"
        )


_SAVED = tuple(f.name for f in fields(Plan) if f.name not in ("found", "memory"))


def graph_of(step: StepGraph, costs: dict[fx.Node, Cost], name: str) -> remora.Graph:
    """A step as a graph: an op for each of its ops, and first of all a tensor for each storage that one makes."""
    graph = remora.Graph(name, fixed_memory=fixed_memory(step), duration_unit="ns")
    graph.meta |= {"source": "remora.torch"}
    made = {s: step.storages[s] for s in storages_made(step)}
    tensors = {s: graph.tensor(storage.name, storage.size, keep=storage.keep) for s, storage in made.items()}
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
            after=last if runs_once else (),
        )
        if runs_once:
            last = [ops[op]]
    return graph


def storages_made(step: StepGraph) -> list[int]:
    """The storages that ops make, in the order of the graph's tensors."""
    return sorted({s for op in step.ops for s in op.outputs})


def fixed_memory(step: StepGraph) -> int:
    """Bytes that are there throughout."""
    return step.outside + sum(s.size for s in step.storages if s.fixed)


def solve(
    step: StepGraph, costs: dict[fx.Node, Cost], options: Options, name: str, share: float = 1.0
) -> tuple[Plan, list[Run]]:
    """Plans a step under its budget, in a share of the time limit.

    The peak is replayed here as the program will run. The solver does not know of saved generator states, some thousand
    bytes each; where these bring the peak above the budget, it is asked again for as much less as all of them take.
    """
    graph = graph_of(step, costs, name)
    runs = once(step)
    unscheduled = replay(step, costs, runs)
    fixed = graph.fixed_memory
    budget = in_bytes(options, fixed, unscheduled)
    start = time.perf_counter()
    states = _state_bytes(step) * (1 + sum(op.random for op in step.ops)) if any(op.random for op in step.ops) else 0
    for less in (0, states):
        try:
            left = share * options.time_limit - (time.perf_counter() - start)
            found = schedule_for(graph, budget - less, options, max(LEAST_SECONDS, left))
        except BudgetError as refusal:
            proved = refusal.proved and less == 0
            least = refusal.least + states
            least = least if options.arena else min(least, unscheduled)
            raise BudgetError(budget, least, proved, fixed, unscheduled) from None
        runs = runs_of(step, found)
        peak = replay(step, costs, runs)
        if found.arena is not None:
            peak = max(peak, fixed + found.arena.size + _states_held(step, runs))
        if peak <= budget:
            break
    plan = Plan(found, peak, unscheduled, budget, outside=step.outside)
    plan.seconds["solve"] = time.perf_counter() - start
    return plan, runs


def unscheduled_peak(step: StepGraph, costs: dict[fx.Node, Cost]) -> int:
    """The peak of every op once in captured order, in bytes, fixed memory included."""
    return replay(step, costs, once(step))


def budget_of(step: StepGraph, costs: dict[fx.Node, Cost], options: Options) -> int:
    """The budget for a step in bytes, what is reserved taken off."""
    return in_bytes(options, fixed_memory(step), unscheduled_peak(step, costs))


def replay(step: StepGraph, costs: dict[fx.Node, Cost], runs: Sequence[Run]) -> int:
    """The peak of a schedule in bytes, fixed memory included, exactly as the generated program allocates."""
    last = {run.op: i for i, run in enumerate(runs)}
    state = _state_bytes(step)
    held = peak = fixed_memory(step)
    resident: set[int] = set()
    saved = set()
    for i, run in enumerate(runs):
        op = run.op
        taking = step.takes_over(op, run.free, resident)
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
    """What a saved state of a generator takes."""
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
    arena = schedule.arena
    placed = zip(arena.offsets, arena.workspaces, strict=True) if arena else itertools.repeat(({}, None))
    return [
        Run(
            step.ops[s.op.index],
            tuple(storages[t.index] for t in s.free if t.index in storages),
            {storages[t.index]: offset for t, offset in offsets.items() if t.index in storages},
            workspace or 0,
        )
        for s, (offsets, workspace) in zip(schedule.steps, placed, strict=False)
    ]


def _type(nodes: list[fx.Node]) -> str:
    return " ".join(str(getattr(n.target, "overloadpacket", n.target)).replace("aten.", "") for n in nodes) or "user"


# -- Names of ops ------------------------------------------------------------------------------------------------------


def forward_of(step: StepGraph) -> dict[Op, Op]:
    """For backward ops, the forward op whose gradient they compute, where one is told by what both touch; O(edges)."""
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
    """The module that a forward node stands in ("blocks.0.norm"), "" where nothing is told."""
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
