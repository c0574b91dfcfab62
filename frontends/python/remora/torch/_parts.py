# SPDX-License-Identifier: Apache-2.0
"""Modules whose user calls `loss.backward()`: `wrap`, and the backend of `torch.compile`.

AOTAutograd's joint graph is scheduled as a whole, with one op for what the user does between, and run as two programs:
what is resident at the cut is what autograd saves.
"""

from __future__ import annotations

import functools
import operator
import weakref
from collections.abc import Callable
from typing import Any, TypeVar

import torch
from torch import fx
from torch._dynamo.backends.common import aot_autograd
from torch._functorch._aot_autograd.descriptors import SavedForBackwardsAOTOutput
from torch._functorch.partitioners import _extract_fwd_bwd_modules

from ._arena import Memory, Places, library
from ._capture import boxed, fused, options_of, planned, read_graph, results_of, say
from ._eager import whole_ops
from ._errors import CaptureError
from ._graph import Cut, Op, Step
from ._plan import Plan, solve
from ._program import Program, Run, generator_of, state_of, write_program
from ._solver import Options

Module = TypeVar("Module", bound=torch.nn.Module)


def wrap(module: Module, **options: Any) -> Module:
    """Makes a module's forward and backward run under a memory budget; the user calls `backward()`.

    The module itself is changed (as by `Module.compile`), so its parameters and state dictionary stay as they are. Its
    plans are given by `plans`. What the loss takes between forward and backward is the user's and not part of the
    budget.
    """
    backend = Backend(options_of(options))
    module.compile(backend=backend, fullgraph=True, dynamic=False)
    _backends[module] = backend
    return module


def plans(module: torch.nn.Module) -> list[Plan]:
    """The plans of a module that was given to `wrap`: one for each captured graph."""
    return _backends[module].plans


def backend(
    module: fx.GraphModule, inputs: list[torch.Tensor], options: dict[str, Any] | None = None, **more: Any
) -> Any:
    """The backend of `torch.compile(model, backend="remora", options={"budget": "60%"})`."""
    return Backend(options_of({**(options or {}), **more}))(module, inputs)


class Backend:
    """A backend for `torch.compile` that plans each graph it is given under the budget.

    Attributes
    ----------
    plans : list of Plan
    """

    def __init__(self, options: Options) -> None:
        self.options = options
        self.plans: list[Plan] = []

    def __call__(self, module: fx.GraphModule, inputs: list[Any], **_: Any) -> Any:
        parts = _Parts(self)
        compiler = aot_autograd(
            partition_fn=parts.partition,
            fw_compiler=parts.forward,
            bw_compiler=parts.backward,
            inference_compiler=parts.whole,
        )
        with whole_ops():
            return compiler(module, inputs)


class _Parts:
    """The programs of one graph: forward and backward, or one of both where there is no backward."""

    def __init__(self, owner: Backend) -> None:
        self.owner = owner
        self.memory = Memory() if owner.options.arena else None
        self.programs: dict[str, tuple[Program, int]] = {}

    def partition(
        self, joint: fx.GraphModule, _: Any, *, num_fwd_outputs: int, **__: Any
    ) -> tuple[fx.GraphModule, fx.GraphModule]:
        seconds: dict[str, float] = {}
        options = self.owner.options
        results, cut = _cut(joint, num_fwd_outputs)
        step, costs = read_graph(joint, options, cut, seconds, [*cut.tangents, *cut.outputs])
        if options.fuse:
            joint, options = fused(step, costs, options, seconds)
            results, cut = _cut(joint, num_fwd_outputs)
            step, costs = read_graph(joint, options, cut, seconds, [*cut.tangents, *cut.outputs])
        tangents = cut.tangents
        plan, runs = solve(step, costs, options, "joint")
        plan.memory = self.memory
        middle = next(i for i, run in enumerate(runs) if run.op is step.cut_op)
        ahead, behind = runs[:middle], runs[middle + 1 :]
        saved, states = _saved(step, ahead, behind)
        forward, backward = _extract_fwd_bwd_modules(joint, list(saved), [], num_fwd_outputs=num_fwd_outputs)
        there = {n.name for n in backward.graph.find_nodes(op="placeholder")}
        missing = [n for n in saved if n.name not in there and _is_read(step, n, runs[middle:])]
        _add_saved(step, forward, backward, missing, states, tangents)
        rows = {**{n.name: n for n in joint.graph.nodes}, **{state_of(op): op for op in states}}
        taken = [rows[n.name] for n in backward.graph.find_nodes(op="placeholder")]
        kept = [n for n in taken if n not in tangents]
        primals = [n for n in step.placeholders if n not in tangents]
        place = library().remora_place if self.memory is not None else None
        first = write_program("forward", step, ahead, primals, [*results[:num_fwd_outputs], *kept], place=place)
        second = write_program("backward", step, behind, taken, results[num_fwd_outputs:], place=place)
        if self.memory is not None:
            first.places = Places(step, ahead, costs, plan.arena)
            second.places = Places(step, behind, costs, plan.arena)
            second.places.after = _in_block(step, ahead, taken)
        self.programs = {"forward": (first, len(primals)), "backward": (second, len(taken))}
        plan.source = "\n\n".join(program.source for program, _ in self.programs.values())
        plan.seconds = {**seconds, **plan.seconds}
        self.owner.plans.append(plan)
        say(self.owner.options, str(plan), end="\n")
        return forward, backward

    def forward(self, module: fx.GraphModule, _: Any) -> Callable[[list[Any]], list[Any]]:
        return self._part("forward", module)

    def backward(self, module: fx.GraphModule, _: Any) -> Callable[[list[Any]], list[Any]]:
        return self._part("backward", module)

    def _part(self, name: str, module: fx.GraphModule) -> Callable[[list[Any]], list[Any]]:
        program, count = self.programs[name]
        if len(module.graph.find_nodes(op="placeholder")) != count:
            raise CaptureError(f"AOTAutograd changed the arguments of the {name} part after it was planned")
        return boxed(functools.partial(program.run_in, self.memory))

    def whole(self, module: fx.GraphModule, _: Any) -> Callable[[list[Any]], list[Any]]:
        """Plans a graph without a backward part."""
        seconds: dict[str, float] = {}
        options = self.owner.options
        step, costs = read_graph(module, options, None, seconds, results_of(module))
        plan, program = planned(step, costs, options, "graph", self.memory, seconds, are_theirs=True)
        self.owner.plans.append(plan)
        return boxed(functools.partial(program.run_in, self.memory))


def _cut(joint: fx.GraphModule, forward_outputs: int) -> tuple[list[Any], Cut]:
    """What a joint graph gives, and where it is cut."""
    results = results_of(joint)
    tangents = [n for n in joint.graph.find_nodes(op="placeholder") if "tangents" in str(n.target)]
    return results, Cut(tangents, [n for n in results[:forward_outputs] if isinstance(n, fx.Node)])


def _saved(step: Step, ahead: list[Run], behind: list[Run]) -> tuple[list[fx.Node], list[Op]]:
    """What goes from forward to backward: nodes, and random ops whose generator's state is needed."""
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


def _is_read(step: Step, node: fx.Node, runs: list[Run]) -> bool:
    """Whether the backward part reads a saved value: what its ops read, if the cut does not release it."""
    first, *behind = runs
    kept = set(step.storages_of(node)).difference(first.free)
    return any(not kept.isdisjoint(run.op.inputs) for run in behind)


def _in_block(step: Step, ahead: list[Run], taken: list[Any]) -> int | None:
    """The number of an argument of the backward part that the forward part left in the arena."""
    left = {s for run in ahead for s in run.offsets if step.storages[s].size > 0}
    return next(
        (i for i, n in enumerate(taken) if isinstance(n, fx.Node) and not left.isdisjoint(step.storages_of(n))), None
    )


def _root(step: Step, storage: int) -> fx.Node:
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
    step: Step,
    forward: fx.GraphModule,
    backward: fx.GraphModule,
    missing: list[fx.Node],
    states: list[Op],
    tangents: list[fx.Node],
) -> None:
    """Makes more outputs of the forward and inputs of the backward graph, behind what else is saved.

    Generator states; and values that the schedule makes others from again, though these are saved as well: the graph
    as it stands reads those only.
    """
    if not states and not missing:
        return
    end = forward.graph.find_nodes(op="output")[0]
    place = next(n for n in backward.graph.nodes if n.op != "placeholder" or n.name in {t.name for t in tangents})
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


_backends: weakref.WeakKeyDictionary[torch.nn.Module, Backend] = weakref.WeakKeyDictionary()
