# SPDX-License-Identifier: Apache-2.0
"""Which values of a joint graph are saved for the backward part, so that both parts hold a budget.

What a partitioner can express: each forward op runs once in the forward part and at most once in the backward part; a
value that backward reads is saved, or made again from what is saved. The engine chooses the saved set on the graph of
Inductor's loops (_inductor_graph.py). Each choice is then lowered by Inductor and its programs replayed, so a
partition's peak is that of the very programs that will run, and its time is that of their kernels, fused as they will
be. Where a replay says more than the engine thought, or leaves room, the engine is asked again for less or more.
"""

from __future__ import annotations

import copy
import operator
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx

import remora

from ._errors import CaptureError, Infeasible
from ._graph import has_effect, is_own, is_random
from ._inductor_costs import Calls
from ._inductor_graph import Half, graph_of, saved_by
from ._inductor_lower import Lowered, lowered_backward, lowered_forward
from ._inductor_replay import Look, look_of, replay
from ._solver import Options, schedule_for

TRIES = 6
"""So often the engine is asked for one budget."""
CLOSE = 0.02
"""A peak that leaves no larger share of the budget is not improved."""

Halves = tuple[fx.GraphModule, fx.GraphModule]


@dataclass(frozen=True)
class Partition:
    """One way to part a joint graph.

    Attributes
    ----------
    saved : tuple of str
        The nodes that are saved, by name; arguments of the graph are there anyway.
    forward_peak, backward_peak : int
        Bytes, with the graph's arguments.
    held : int
        Bytes saved, beyond the graph's arguments.
    time : int
        Nanoseconds of both parts.
    """

    saved: tuple[str, ...]
    forward_peak: int
    backward_peak: int
    held: int
    time: int

    @property
    def peak(self) -> int:
        """Bytes, with the graph's arguments."""
        return max(self.forward_peak, self.backward_peak)


class Joint:
    """A joint graph, and what its partitions take.

    Parameters
    ----------
    module : fx.GraphModule
        AOTAutograd's joint graph behind Inductor's passes for it; it is not changed.
    inputs
        Its arguments.
    named : dict
        What else Inductor gives to a partitioner.
    """

    def __init__(
        self, module: fx.GraphModule, inputs: Any, named: dict[str, Any], options: Options, calls: Calls
    ) -> None:
        self.module, self.inputs, self.named, self.options, self.calls = module, inputs, named, options, calls
        self.shown: int = named["num_fwd_outputs"]
        self.known: dict[tuple[str, ...], Partition] = {}
        self.fixed = sum(look_bytes(vals(module.graph.find_nodes(op="placeholder"), "primals")))
        self._once: frozenset[str] = frozenset()

    def parted(self, choose: Callable[[fx.Graph, Any], list[fx.Node]]) -> Halves:
        """Both parts, by PyTorch's own partitioner with our choice of what is saved."""
        from torch._functorch import partitioners

        module = fx.GraphModule(self.module, copy.deepcopy(self.module.graph))
        module.meta = self.module.meta
        stock = partitioners.choose_saved_values_set
        partitioners.choose_saved_values_set = lambda graph, info, memory_budget=1: choose(graph, info)
        try:
            return partitioners.min_cut_rematerialization_partition(module, self.inputs, **self.named)
        finally:
            partitioners.choose_saved_values_set = stock

    def stock(self, share: float = 1.0) -> tuple[str, ...]:
        """What PyTorch saves by itself for a share of `activation_memory_budget`, by name."""
        from torch._functorch import partitioners

        choose, found = partitioners.choose_saved_values_set, list[str]()

        def chosen(graph: fx.Graph, info: Any) -> list[fx.Node]:
            saved = choose(graph, info, memory_budget=share)
            found.extend(node.name for node in saved)
            self._once = frozenset(node.name for node in graph.nodes if runs_once(node))
            return saved

        self.parted(chosen)
        return tuple(found)

    def saving(self, names: Iterable[str]) -> Halves:
        """Both parts, where the named nodes are saved, and what else must be."""
        wanted = set(names)
        return self.parted(lambda graph, info: closed(graph, info, wanted, self.shown))

    def halves(self, modules: Halves) -> tuple[Half, Half]:
        """Both parts lowered and replayed."""
        forward, backward = modules
        ahead, behind = (m.graph.find_nodes(op="placeholder") for m in modules)
        ends = [m.graph.find_nodes(op="output")[0].args[0] for m in modules]
        inputs, results, after = vals(ahead), vals(ends[0]), vals(behind)
        first = lowered_forward(forward, inputs, self._shown_parts(forward))
        rest = first.strides[self.shown :]
        for i, (value, strides) in enumerate(zip(after, rest, strict=False)):
            if strides is not None and tuple(value.stride()) != tuple(strides):
                after[i] = value.as_strided(value.size(), strides)  # as AOTAutograd gives them to the backward part
        second = lowered_backward(backward, after, donated(inputs, results, vals(ends[1]), self.shown))
        return (
            self._half(forward, first, ahead, inputs, range(len(ahead))),
            self._half(backward, second, behind, after, [i for i, n in enumerate(behind) if n.name[:7] == "primals"]),
        )

    def _half(
        self, module: fx.GraphModule, program: Lowered, nodes: list[fx.Node], inputs: list[Any], kept: Sequence[int]
    ) -> Half:
        trace = replay(program, inputs, kept)
        return Half(module, program, trace, tuple(n.name for n in nodes), tuple(look_bytes(inputs)))

    def _shown_parts(self, forward: fx.GraphModule) -> tuple[int, int]:
        kinds = [type(d).__name__ for d in forward.graph.find_nodes(op="output")[0].meta["desc"][: self.shown]]
        return kinds.count("InputMutationAOTOutput"), kinds.count("PlainAOTOutput")

    def evaluated(self, halves: tuple[Half, Half], saved: tuple[str, ...]) -> Partition:
        """What two parts take; kept, so that it is known later."""
        forward, backward = halves
        self.calls.measure([forward.trace, backward.trace])
        tangents = sum(s for n, s in zip(backward.inputs, backward.sizes, strict=True) if n.startswith("tangents"))
        held = self._held(forward)
        found = Partition(
            saved,
            self.fixed + self.calls.peak(forward.trace),
            self.fixed + held + tangents + self.calls.peak(backward.trace),
            held,
            self.calls.time(forward.trace) + self.calls.time(backward.trace),
        )
        self.known[saved] = found
        return found

    def _held(self, forward: Half) -> int:
        """Bytes of what the forward part gives to the backward part, beyond its arguments."""
        names = {real for name in forward.program.outputs[self.shown :] for real in forward.program.solid(name)}
        return sum(forward.program.sizes[name] for name in names)


def vals(nodes: Iterable[Any], prefix: str = "") -> list[Any]:
    """What nodes look like; None for what is no node."""
    return [n.meta.get("val") if isinstance(n, fx.Node) else None for n in nodes if not prefix or prefix in str(n)]


def look_bytes(values: Iterable[Any]) -> list[int]:
    """The bytes of each value's storage, 0 where another before it shares it or it is no tensor."""
    seen: set[int] = set()
    found = []
    for value in values:
        look = look_of(value)
        storage = value.untyped_storage()._cdata if isinstance(look, Look) else 0
        found.append(look.elements * look.dtype.itemsize if isinstance(look, Look) and storage not in seen else 0)
        seen.add(storage)
    return found


def donated(inputs: list[Any], results: list[Any], gradients: list[Any], shown: int) -> list[int]:
    """The numbers of the backward part's arguments whose memory it may use, as AOTAutograd says."""
    from torch._functorch import config
    from torch._functorch._aot_autograd.graph_compile import collect_fw_donated_buffer_idxs

    if not config.donated_buffer:
        return []
    saved = results[shown:]
    symbols = sum(isinstance(value, torch.SymInt) for value in saved)
    tensors = [value for value in saved if not isinstance(value, torch.SymInt)]
    return [symbols + i for i in collect_fw_donated_buffer_idxs(inputs, results[:shown], gradients, tensors)]


def runs_once(node: fx.Node) -> bool:
    """Whether a forward node must not run again: it draws random numbers, has effects, or is no op of PyTorch."""
    from torch._functorch.partitioners import CheckpointPolicy, is_sym_node

    if node.op != "call_function" or is_sym_node(node):
        return False
    if node.meta.get("recompute") == CheckpointPolicy.MUST_SAVE:
        return True
    if node.target is operator.getitem:
        return runs_once(node.all_input_nodes[0])
    return is_random(node) or has_effect(node) or not is_own(node)


def closed(graph: fx.Graph, info: Any, wanted: set[str], shown: int) -> list[fx.Node]:
    """What is saved: the wanted nodes, those that must not run again, sizes, and the arguments.

    Only what the backward part comes upon on its way from its results counts.
    """
    from torch._functorch.partitioners import is_sym_node

    results = graph.find_nodes(op="output")[0].args[0]
    ahead = [n for n in results[shown:] if isinstance(n, fx.Node)]
    ahead += [n for n in graph.nodes if n in info.required_bw_nodes]
    seen: set[fx.Node] = set()
    saved: set[fx.Node] = set()
    while ahead:
        node = ahead.pop()
        if node in seen or node.op != "call_function":
            continue
        seen.add(node)
        if node not in info.required_bw_nodes and isinstance(node.meta.get("val"), (torch.Tensor, torch.SymInt)):
            if node.name in wanted or is_sym_node(node) or runs_once(node):
                saved.add(node)
                continue
        ahead += node.all_input_nodes
    if any(n.meta.get("aot_runtime_epilogue_input_mutation") for n in info.inputs):
        raise CaptureError("an argument that requires a gradient is changed in place")
    return [*info.inputs, *(n for n in graph.nodes if n in saved)]


def best(joint: Joint, limit: int) -> Partition | None:
    """The shortest known partition within so many bytes."""
    holding = [p for p in joint.known.values() if p.peak <= limit]
    return min(holding, key=lambda p: (p.time, p.peak)) if holding else None


class Search:
    """Looks for partitions of a joint graph that hold a budget.

    The stock partition is the first, and the graph for the engine is made of it.
    """

    def __init__(self, joint: Joint, say: Callable[[str], None]) -> None:
        self.joint, self._say = joint, say
        say("lowering Inductor's own partition")
        saved = joint.stock()
        halves = joint.halves(joint.saving(saved))
        self.first = joint.evaluated(halves, saved)
        forward, backward = halves
        self.graph = graph_of(
            forward, backward, joint.shown, joint.fixed, joint.calls, lambda name: name not in joint._once
        )
        self._names = self._names_of(forward, saved)

    def _names_of(self, forward: Half, saved: Sequence[str]) -> dict[str, list[str]]:
        """For each buffer of the forward part, the nodes of the joint graph that are that buffer."""
        joint = {node.name: node for node in self.joint.module.graph.nodes}
        outputs = forward.module.graph.find_nodes(op="output")[0].args[0]
        found: dict[str, list[str]] = {}
        for node, name in zip(outputs, forward.program.outputs, strict=True):
            if isinstance(node, fx.Node) and node.name in saved:
                for solid in forward.program.solid(name):
                    found.setdefault(solid, []).append(node.name)
        for name, node_name in forward.program.nodes.items():
            value = joint[node_name].meta.get("val") if node_name in joint else None
            if name not in found and isinstance(value, torch.Tensor):
                found[name] = [node_name]
        return found

    def within(self, budget: int) -> Partition | None:
        """The shortest partition found that holds a budget, in bytes with the graph's arguments."""
        joint = self.joint
        asked = budget - self.first.peak + _peak_of(self.graph)
        tried: set[int] = set()
        low, high = 0, max(asked, 0) * 2
        for i in range(TRIES):
            if self.first.peak <= budget or asked in tried or asked <= joint.fixed:
                break
            tried.add(asked)
            found = self._asked(asked, joint.options.time_limit / TRIES)
            if found is None:
                break
            if found.peak > budget:
                high = min(high, asked)
                asked = max(low + 1, asked - max(found.peak - budget, budget // 100))
            else:
                low = max(low, asked)
                if found.peak >= (1 - CLOSE) * budget:
                    break
                asked = min(asked + (budget - found.peak), (asked + high) // 2)
            self._say(f"budget {budget:,}: try {i + 1}: peak {found.peak:,}")
        return best(joint, budget)

    def _asked(self, budget: int, seconds: float) -> Partition | None:
        """The partition that the engine chooses for a budget of its graph; None where it finds no schedule."""
        joint = self.joint
        try:
            schedule = schedule_for(self.graph, budget, joint.options, seconds)
        except Infeasible:
            return None
        names = [n for buffer in saved_by(self.graph, schedule) for n in self._names.get(buffer, ())]
        saved = tuple(sorted(names))
        if saved not in joint.known:
            joint.evaluated(joint.halves(joint.saving(saved)), saved)
        return joint.known[saved]


def _peak_of(graph: dict[str, Any]) -> int:
    """The peak of every op of a graph once, in bytes."""
    return int(remora.Graph.from_json(graph).baseline_peak)
