# SPDX-License-Identifier: Apache-2.0
"""A schedule of a joint graph as two programs: what is resident at the cut goes from forward to backward.

Where sizes vary there are several schedules, each with values of its own to keep, but AOTAutograd
asks once how many there are. So there are places for all that any schedule may keep, and one for the number of the
schedule that ran:

    results of forward | number | kept | kept | empty | empty ... | sizes
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx
from torch._functorch._aot_autograd.descriptors import SavedForBackwardsAOTOutput
from torch._functorch.partitioners import _extract_fwd_bwd_modules

from ..capture.graph import Op, Run, StepGraph
from ..errors import CaptureError
from ..symbols import SYMBOLS
from .arena import Arena
from .program import Program, generator_of, state_of, write_program


@dataclass
class Half:
    """One part: the graph that AOTAutograd keeps of it, and the program that runs in its place."""

    module: fx.GraphModule
    program: Program
    arguments: int


def halves_of(
    step: StepGraph, runs: Sequence[Run], forward_outputs: int, arena: Arena | None = None
) -> tuple[Half, Half]:
    """The forward and the backward part of a schedule; `forward_outputs` results are the forward part's."""
    assert step.cut is not None
    joint, results, tangents = step.module, step.outputs, step.cut.tangents
    middle = next(i for i, run in enumerate(runs) if run.op is step.cut_op)
    ahead, behind = runs[:middle], runs[middle + 1 :]
    saved, states = _saved(step, ahead, behind)
    opaque = _opaque(results[forward_outputs:])
    more: dict[str, Any] = {"saved_opaque_nodes": opaque} if opaque else {}
    forward, backward = _extract_fwd_bwd_modules(joint, list(saved), [], **more, num_fwd_outputs=forward_outputs)
    there = {n.name for n in backward.graph.find_nodes(op="placeholder")}
    missing = [n for n in saved if n.name not in there and _is_read(step, n, runs[middle:])]
    _add_saved(step, forward, backward, missing, states)
    rows = {**{n.name: n for n in joint.graph.nodes}, **{state_of(op): op for op in states}}
    taken = [rows[n.name] for n in backward.graph.find_nodes(op="placeholder")]
    kept = [n for n in taken if n not in tangents]
    primals = [n for n in step.placeholders if n not in tangents]
    given = [*results[:forward_outputs], *kept]
    first = write_program("forward", step, ahead, primals, given, arena=arena)
    after = _in_block(step, ahead, taken) if arena is not None else None
    second = write_program("backward", step, behind, taken, results[forward_outputs:], arena=arena, after=after)
    return Half(forward, first, len(primals)), Half(backward, second, len(taken))


def _in_block(step: StepGraph, ahead: Sequence[Run], taken: list[Any]) -> int | None:
    """The number of an argument of the backward part that the forward part left in the arena."""
    left = {s for run in ahead for s in run.offsets if step.storages[s].size > 0}
    return next(
        (i for i, n in enumerate(taken) if isinstance(n, fx.Node) and not left.isdisjoint(step.storages_of(n))), None
    )


def _opaque(results: list[Any]) -> list[fx.Node]:
    """Arguments that are no tensors and that the backward part gives, as the device mesh of a sharded gradient."""
    given = dict.fromkeys(r for r in results if isinstance(r, fx.Node) and r.op == "placeholder")
    return [n for n in given if not isinstance(n.meta.get("val"), torch.Tensor)]


def _saved(step: StepGraph, ahead: Sequence[Run], behind: Sequence[Run]) -> tuple[list[fx.Node], list[Op]]:
    """Values passed from forward to backward: nodes, and random ops whose generator's state is needed."""
    resident: set[int] = set()
    for run in ahead:
        resident.update(run.op.outputs)
        resident.difference_update(run.free)
    nodes = [_root(step, s) for s in sorted(resident)]
    read = {s for run in behind for s in run.op.inputs}
    read.update(s for node in step.results() for s in step.needs.get(node, []))
    nodes += [
        n
        for n in step.placeholders
        if n in step.needs and step.storages[step.needs[n][0]].fixed and step.needs[n][0] in read
    ]
    later = {run.op for run in behind if run.op.random}
    earlier = {run.op: None for run in ahead if run.op in later}
    return nodes, list(earlier)


def _is_read(step: StepGraph, node: fx.Node, runs: Sequence[Run]) -> bool:
    """True if the backward part reads a saved value: its ops do, and the cut does not release it."""
    first, *behind = runs
    kept = set(step.storages_of(node)).difference(first.free)
    return any(not kept.isdisjoint(run.op.inputs) for run in behind)


def _root(step: StepGraph, storage: int) -> fx.Node:
    """The node whose value is a storage as its op leaves it; all others in it are views of that."""
    op = next(op for op in step.ops if storage in op.outputs)
    found = None
    for node in op.nodes:
        for value in [node, *(u for u in node.users if u.target is operator.getitem)]:
            if (
                step.value.get(value) is not None
                and isinstance(step.value[value], torch.Tensor)
                and step.storages_of(value) == [storage]
            ):
                found = value
    if found is None:
        raise CaptureError(f"{op.name}: no single value fills {step.storages[storage].name}")
    return found


def _add_saved(
    step: StepGraph, forward: fx.GraphModule, backward: fx.GraphModule, missing: list[fx.Node], states: list[Op]
) -> None:
    """Makes more outputs of the forward and inputs of the backward graph, behind what else is saved.

    Generator states; and values that the schedule makes others from again, though these are saved as well: the graph
    as it stands reads those only.
    """
    if not states and not missing:
        return
    assert step.cut is not None
    end, tangents = forward.graph.find_nodes(op="output")[0], {t.name for t in step.cut.tangents}
    place = next(n for n in backward.graph.nodes if n.op != "placeholder" or n.name in tangents)
    descriptions = list(end.meta.get("desc", []))
    made = {n.name: n for n in forward.graph.nodes}

    def add(node: fx.Node, name: str) -> None:
        with backward.graph.inserting_before(place):
            given = backward.graph.create_node("placeholder", name, (), {}, name=name)
        given.meta["val"] = node.meta["val"]
        end.args = ([*end.args[0], node],)
        descriptions.append(SavedForBackwardsAOTOutput(len(descriptions)))

    for node in missing:
        add(made[node.name], node.name)
    for op in states:
        with forward.graph.inserting_before(end):
            node = forward.graph.create_node("call_function", generator_of, (), {}, name=state_of(op))
        with step.mode:
            node.meta["val"] = torch.empty(
                generator_of(step, op.nodes[0]).get_state().shape, dtype=torch.uint8, device="cpu"
            )
        add(node, state_of(op))
    if "desc" in end.meta:
        end.meta["desc"] = descriptions
    forward.recompile()
    backward.recompile()


# -- Where sizes vary --------------------------------------------------------------------------------------------------

RECENT = 64
"""A backward part runs by one of so many schedules by which the forward part ran last."""


@dataclass
class Pair:
    """The two programs of one schedule; `kept`: how many values the first one hands to the second one."""

    number: int
    forward: Program
    backward: Program
    kept: int

    @property
    def source(self) -> str:
        """Both programs."""
        return f"{self.forward.source}\n\n{self.backward.source}"


class SizedHalves:
    """The two parts of a joint graph whose sizes vary, for any of its schedules."""

    def __init__(self, step: StepGraph, forward_outputs: int) -> None:
        assert step.cut is not None and step.cut_op is not None
        self._step, self._outputs, self._tangents = step, forward_outputs, step.cut.tangents
        self._primals = [n for n in step.placeholders if n not in self._tangents]
        values = [n.meta.get("val") for n in self._primals]
        if not all(isinstance(v, (torch.Tensor, int, float, *SYMBOLS, type(None))) for v in values):
            raise CaptureError("an argument of the module is neither a tensor nor a number")
        self._symbols = [i for i, value in enumerate(values) if isinstance(value, torch.SymInt)]
        ahead = step.ops[: step.ops.index(step.cut_op)]
        tensors = sum(isinstance(value, torch.Tensor) for value in values)
        self._places = tensors + sum(len(op.outputs) + op.random for op in ahead)
        self._numbers = itertools.count()
        self._recent: dict[int, Pair] = {}

    def written(self, runs: Sequence[Run]) -> Pair:
        """The programs of a schedule."""
        step = self._step
        middle = next(i for i, run in enumerate(runs) if run.op is step.cut_op)
        ahead, behind = runs[:middle], runs[middle + 1 :]
        nodes, states = _saved(step, ahead, behind)
        kept = [*nodes, *states]
        sizes = [self._primals[i] for i in self._symbols]
        first = write_program("forward", step, ahead, self._primals, [*step.outputs[: self._outputs], *kept])
        taken, results = [*sizes, *kept, *self._tangents], step.outputs[self._outputs :]
        return Pair(next(self._numbers), first, write_program("backward", step, behind, taken, results), len(kept))

    def halves(self, choose: Callable[[list[Any]], Pair]) -> tuple[Half, Half]:
        """The forward and the backward part; `choose`: the programs for a call, from its arguments."""
        empty, count = torch.empty(0), len(self._symbols)

        def forward(arguments: list[Any]) -> list[Any]:
            pair = choose(arguments)
            self._recent.pop(pair.number, None)
            self._recent[pair.number] = pair
            if len(self._recent) > RECENT:
                self._recent.pop(next(iter(self._recent)))
            sizes = [arguments[i] for i in self._symbols]
            results = pair.forward.run(arguments)
            padding = [empty] * (self._places - pair.kept)
            results[self._outputs : self._outputs] = [torch.tensor(pair.number)]
            return [*results, *padding, *sizes]

        def backward(arguments: list[Any]) -> list[Any]:
            pair = self._recent.get(int(arguments[count]))
            if pair is None:
                raise CaptureError(f"a backward comes after forwards by {RECENT} other schedules")
            kept = count + 1 + pair.kept
            arguments[kept : count + 1 + self._places] = []
            del arguments[count]
            return pair.backward.run(arguments)

        first, second = self._graphs()
        arguments = len(second.graph.find_nodes(op="placeholder"))
        return (
            Half(first, Program("", forward), len(self._primals)),
            Half(second, Program("", backward), arguments),
        )

    def _graphs(self) -> tuple[fx.GraphModule, fx.GraphModule]:
        """Graphs in which AOTAutograd finds arguments and results of both parts. Nothing of these runs."""
        with self._step.mode:
            saved = [torch.empty((), dtype=torch.int64), *(torch.empty(0) for _ in range(self._places))]
        forward, backward = fx.Graph(), fx.Graph()
        there = {n: _placeholder(forward, n.name, n.meta) for n in self._primals}
        ahead = [_result(forward, there, r) for r in self._step.outputs[: self._outputs]]
        ahead += [_stand_in(forward, {"val": value}) for value in saved]
        sizes = [self._primals[i] for i in self._symbols]
        end = forward.output([*ahead, *(there[n] for n in sizes)])
        (own,) = self._step.module.graph.find_nodes(op="output")
        if "desc" in own.meta:
            more = (SavedForBackwardsAOTOutput(i) for i in range(len(saved) + len(sizes)))
            end.meta["desc"] = [*own.meta["desc"][: self._outputs], *more]
        taken = {n: _placeholder(backward, n.name, n.meta) for n in sizes}
        for i, value in enumerate(saved):
            _placeholder(backward, f"saved_{i}", {"val": value})
        taken |= {n: _placeholder(backward, n.name, n.meta) for n in self._tangents}
        end = backward.output([_result(backward, taken, r) for r in self._step.outputs[self._outputs :]])
        if "desc" in own.meta:
            end.meta["desc"] = own.meta["desc"][self._outputs :]
        return fx.GraphModule(self._step.module, forward), fx.GraphModule(self._step.module, backward)


def _placeholder(graph: fx.Graph, name: str, meta: dict[str, Any]) -> fx.Node:
    node = graph.create_node("placeholder", name, (), {}, name=name)
    node.meta = dict(meta)
    return node


def _stand_in(graph: fx.Graph, meta: dict[str, Any]) -> fx.Node:
    node = graph.call_function(torch.empty, (0,))
    node.meta = dict(meta)
    return node


def _result(graph: fx.Graph, there: dict[fx.Node, fx.Node], result: Any) -> Any:
    if not isinstance(result, fx.Node):
        return result
    return there.get(result) or _stand_in(graph, result.meta)
