# SPDX-License-Identifier: Apache-2.0
"""From a captured step to a schedule: the graph that the solver reads, and the schedule that it gives.

The peak is replayed here by the rules by which the generated program allocates, so it is known to the byte.

An op's name tells its layer, and a backward op the forward op whose gradient it computes: for reports and hierarchies.
Dynamo tells the module of a forward node and nothing of a backward one. A backward op computes the gradient of the
forward op with which it shares most tensors, parameters among them; where it shares none (a sum of gradients), none is
named.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import fx

from remora._engine import parse_budget
from remora.errors import InputError

from ._arena import Memory
from ._costs import Cost, op_cost
from ._errors import Infeasible
from ._graph import Op, Step
from ._program import Run
from ._solver import LEAST_SECONDS, Options, schedule_for, write_report

_ROOT = re.compile(r"^[A-Za-z_]\w*(\['[^']*'\])?\.?")
_KINDS = {"threshold": "relu", "addmm": "mm", "baddbmm": "bmm"}
"""What the backward form of an op, or the product in it, is called."""
_ITEM = re.compile(r"_modules\['([^']*)'\]|\['([^']*)'\]|\[(\d+)\]")


@dataclass
class Plan:
    """What was planned for one captured graph.

    Attributes
    ----------
    graph, schedule : dict
        In the formats `remora-graph` and `remora-schedule`.
    predicted_peak, unscheduled_peak, fixed_memory : int
        Bytes: of the schedule, of every op once in captured order, and of what is there throughout (part of both
        peaks).
    predicted_time, unscheduled_time, bound : int
        Nanoseconds: of the schedule, of every op once, and a time that no schedule under the budget undercuts.
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

    graph: dict[str, Any]
    schedule: dict[str, Any]
    predicted_peak: int
    unscheduled_peak: int
    fixed_memory: int
    predicted_time: int
    unscheduled_time: int
    bound: int
    budget: int
    seconds: dict[str, float] = field(default_factory=dict)
    source: str = ""
    outside: int = 0
    checkpoints: int = 0
    memory: Memory | None = field(default=None, repr=False, compare=False)

    @property
    def arena(self) -> int:
        """The bytes of the block that holds the step's tensors; 0 without `arena=True`."""
        return int(self.schedule.get("arena", {}).get("size", 0))

    @property
    def overhead(self) -> float:
        """Time beyond the unscheduled step's, as a share of that."""
        return self.predicted_time / self.unscheduled_time - 1 if self.unscheduled_time else 0.0

    @property
    def recomputes(self) -> int:
        """How many steps of the schedule run an op again."""
        return len(self.schedule["steps"]) - len({step["op"] for step in self.schedule["steps"]})

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the plan as one JSON file."""
        kept = {name: value for name, value in self.__dict__.items() if name != "memory"}
        Path(path).write_text(json.dumps(kept), encoding="utf-8")

    @staticmethod
    def load(path: str | os.PathLike[str]) -> Plan:
        """Reads what `save` wrote."""
        return Plan(**json.loads(Path(path).read_text(encoding="utf-8")))

    def report(self, path: str | os.PathLike[str]) -> None:
        """Writes the HTML page that explains the schedule."""
        write_report(self.graph, self.schedule, path)

    def __str__(self) -> str:
        least = self.bound / max(1, self.unscheduled_time) - 1
        instead = f", in place of {self.checkpoints} checkpoints of the model" if self.checkpoints else ""
        return (
            f"{len(self.graph['ops'])} ops, {self.recomputes} recomputes: peak {self.predicted_peak:,} bytes of "
            f"{self.budget:,} ({self.unscheduled_peak:,} unscheduled), time {self.overhead:+.2%}, bound {least:+.2%}"
            f"{instead}"
        )


def graph_of(step: Step, costs: dict[fx.Node, Cost], name: str) -> dict[str, Any]:
    """A step as a `remora-graph`."""
    made = {s for op in step.ops for s in op.outputs}
    read = {s for op in step.ops for s in op.inputs if not step.storages[s].fixed}
    assert read <= made, "an op reads what no op makes"
    names = {s: step.storages[s].name for s in sorted(made)}
    tensors = [
        {"name": names[s], "size": step.storages[s].size, **({"keep": True} if step.storages[s].keep else {})}
        for s in names
    ]
    ops: list[dict[str, Any]] = []
    forward = forward_of(step)
    called = names_of(step, forward)
    last: str | None = None
    for op in step.ops:
        duration, workspace = op_cost(op, costs)
        entry: dict[str, Any] = {"name": called[op], "type": _type(op.nodes), "duration": duration}
        if workspace:
            entry["workspace"] = workspace
        entry["inputs"] = [names[s] for s in op.inputs if s in names]
        entry["outputs"] = [names[s] for s in op.outputs]
        if op in step.takes:
            entry["in_place"] = [[names[step.takes[op].output], names[step.takes[op].input]]]
        if not op.outputs:
            tensors.append({"name": f"{op.name} done", "size": 0})
            entry["outputs"] = [f"{op.name} done"]
        entry["phase"] = "backward" if op.backward else "forward"
        if op in forward:
            entry["backward_of"] = called[forward[op]]
        if not op.recompute:
            entry["recompute"] = "never"
        if op.random or not op.recompute:
            if last is not None:
                entry["after"] = [last]
            last = called[op]
        ops.append(entry)
    fixed = step.outside + sum(s.size for s in step.storages if s.fixed)
    return {
        "format": "remora-graph",
        "version": 2 if step.takes else 1,
        "name": name,
        "fixed_memory": fixed,
        "tensors": tensors,
        "ops": ops,
        "meta": {"duration_unit": "ns", "source": "remora.torch"},
    }


def solve(
    step: Step, costs: dict[fx.Node, Cost], options: Options, name: str, share: float = 1.0
) -> tuple[Plan, list[Run]]:
    """Plans a step under its budget, in a share of the time limit.

    The peak is replayed here as the program will run. The solver does not know of saved generator states, some thousand
    bytes each; where these bring the peak above the budget, it is asked again for as much less as all of them take.
    """
    graph = graph_of(step, costs, name)
    runs = once(step)
    unscheduled = replay(step, costs, runs)
    fixed = int(graph["fixed_memory"])
    budget = in_bytes(options, fixed, unscheduled)
    start = time.perf_counter()
    states = _state_bytes(step) * (1 + sum(op.random for op in step.ops)) if any(op.random for op in step.ops) else 0
    for less in (0, states):
        try:
            left = share * options.time_limit - (time.perf_counter() - start)
            schedule = schedule_for(graph, budget - less, options, max(LEAST_SECONDS, left))
        except Infeasible as refusal:
            proved = refusal.proved and less == 0
            least = refusal.least + states
            least = least if options.arena else min(least, unscheduled)
            raise Infeasible(budget, least, proved, fixed, unscheduled) from None
        runs = runs_of(step, schedule)
        peak = replay(step, costs, runs)
        if options.arena:
            peak = max(peak, fixed + int(schedule["arena"]["size"]) + _states_held(step, runs))
        if peak <= budget:
            break
    total = sum(int(op["duration"]) for op in graph["ops"])
    plan = Plan(
        graph,
        schedule,
        peak,
        unscheduled,
        fixed,
        int(schedule["duration"]),
        total,
        int(schedule["lower_bound"]),
        budget,
        outside=step.outside,
    )
    plan.seconds["solve"] = time.perf_counter() - start
    return plan, runs


def unscheduled_peak(step: Step, costs: dict[fx.Node, Cost]) -> int:
    """The peak of every op once in captured order, in bytes, fixed memory included."""
    return replay(step, costs, once(step))


def budget_of(step: Step, costs: dict[fx.Node, Cost], options: Options) -> int:
    """The budget for a step in bytes, what is reserved taken off."""
    fixed = step.outside + sum(s.size for s in step.storages if s.fixed)
    return in_bytes(options, fixed, unscheduled_peak(step, costs))


def replay(step: Step, costs: dict[fx.Node, Cost], runs: Sequence[Run]) -> int:
    """The peak of a schedule in bytes, fixed memory included, exactly as the generated program allocates."""
    last = {run.op: i for i, run in enumerate(runs)}
    state = _state_bytes(step)
    held = peak = step.outside + sum(s.size for s in step.storages if s.fixed)
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


def _states_held(step: Step, runs: Sequence[Run]) -> int:
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


def _state_bytes(step: Step) -> int:
    """What a saved state of a generator takes."""
    return int(torch.default_generator.get_state().numel()) if step.device.type == "cpu" else 0


def in_bytes(options: Options, fixed: int, unscheduled: int) -> int:
    """Gives the budget in bytes; a percentage is of what the unscheduled step takes beyond its fixed memory."""
    budget = options.budget
    if isinstance(budget, int):
        return budget - options.reserve
    try:
        size: int = parse_budget(budget, fixed, unscheduled)
    except InputError as error:
        raise InputError("budget", str(error)) from None
    return size if "%" in budget else size - options.reserve


def once(step: Step) -> list[Run]:
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


def runs_of(step: Step, schedule: dict[str, Any]) -> list[Run]:
    """The steps of a `remora-schedule` as runs of a step's ops."""
    ops = names_of_ops(step)
    storages = {step.storages[s].name: s for op in step.ops for s in op.outputs}
    return [
        Run(
            ops[s["op"]],
            tuple(storages[t] for t in s.get("free", []) if t in storages),
            {storages[t]: offset for t, offset in s.get("offsets", {}).items() if t in storages},
            s.get("workspace_offset", 0),
        )
        for s in schedule["steps"]
    ]


def names_of_ops(step: Step) -> dict[str, Op]:
    """The ops by the names that `graph_of` gives them."""
    return {name: op for op, name in names_of(step, forward_of(step)).items()}


def _type(nodes: list[fx.Node]) -> str:
    return " ".join(str(getattr(n.target, "overloadpacket", n.target)).replace("aten.", "") for n in nodes) or "user"


# -- Names of ops ------------------------------------------------------------------------------------------------------


def forward_of(step: Step) -> dict[Op, Op]:
    """For backward ops, the forward op whose gradient they compute, where one is told by what both touch; O(edges)."""
    touching: dict[int, list[Op]] = {}
    found: dict[Op, Op] = {}
    for op in step.ops:
        if op.backward:
            shared: dict[Op, int] = {}
            for storage in op.inputs:
                for forward in touching.get(storage, []):
                    shared[forward] = shared.get(forward, 0) + 1
            if shared:
                # Of those that share most, one of the same kind, the latest of them.
                places = {forward: i for i, forward in enumerate(shared)}
                found[op] = max(shared, key=lambda f: (shared[f], _is_kin(op, f), places[f]))
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


def _is_kin(backward: Op, forward: Op) -> bool:
    """Whether one is the derivative of the other, by their names."""
    return not _kinds(backward).isdisjoint(_kinds(forward))


def layer_of(node: fx.Node) -> str:
    """The module that a forward node stands in ("blocks.0.norm"), "" where nothing is told."""
    stack = node.meta.get("nn_module_stack")
    if not stack:
        return ""
    path = str(list(stack.values())[-1][0])
    return _ITEM.sub(lambda m: "." + next(g for g in m.groups() if g is not None), _ROOT.sub("", path)).strip(".")


def names_of(step: Step, forward: dict[Op, Op]) -> dict[Op, str]:
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
