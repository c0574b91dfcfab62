# SPDX-License-Identifier: Apache-2.0
"""A joint graph of AOTAutograd, and the costs of its partitions.

A partitioner can express this: each forward op runs once in the forward part and at most once in the backward part; a
value that backward reads is saved, or recomputed from saved ones. PyTorch's own partitioner parts the graph, with our
choice of what is saved and of the order of the backward part. Both parts are lowered by Inductor and their programs
replayed, so a partition's peak is that of the very programs that will run, and its time is that of their kernels.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import operator
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import fx
from torch.utils.checkpoint import CheckpointPolicy

from ..capture.dynamo import names_of_symbols
from ..capture.graph import has_effect, is_own, is_random, storage_of, tangents_of
from ..capture.launches import Kernel, Launch, Look, Number, Trace, hint_of, look_of, replay
from ..capture.lowered import Lowered, lowered_backward, lowered_forward
from ..cost.kernels import Calls
from ..errors import CaptureError
from ..internals import instead, saved_values_chosen_by, stock_choice
from ..symbols import Numbers, hints_in, holds, largest_of, plain, symbols_in
from .early import compiled_slices
from .loops import Half

Halves = tuple[fx.GraphModule, fx.GraphModule]


@dataclass(frozen=True)
class Later:
    """Memory needed by graphs that run between a graph's forward and backward part."""

    needed: int = 0  # bytes that they use in addition to those allocated between the two parts
    gradients: int = 0  # bytes of the gradients that they leave, which are there while the backward part runs


@dataclass(frozen=True)
class Partition:
    """One way to part a joint graph."""

    saved: tuple[str, ...]  # the nodes that are saved, by name; arguments of the graph are there anyway
    # the nodes of the backward part that come first, by name and in this order; () leaves PyTorch's order
    order: tuple[str, ...]
    # forward_peak, backward_peak: bytes, with the graph's arguments
    forward_peak: int
    backward_peak: int
    between: int  # bytes that are there between both parts, with the graph's arguments and the user's results
    held: int  # bytes saved, beyond the graph's arguments
    time: int | None  # nanoseconds of both parts; None where its kernels were not measured
    estimate: int = 0  # nanoseconds of both parts, by a roofline where kernels were not measured
    guarded: bool = False  # true if Inductor rejects fusions that raise a program's peak while it compiles both parts
    loss: int = 0  # bytes that the user's loss needs between both parts, where it lies outside of the graph

    def peak(self, later: Later) -> int:
        """Bytes, with the graph's arguments and what the loss or later graphs need in addition."""
        between = self.between + max(self.loss, later.needed)
        return max(self.forward_peak, between, self.backward_peak + later.gradients)

    @property
    def nanoseconds(self) -> int:
        """The time of a partition, as well as it is known."""
        return self.estimate if self.time is None else self.time


LARGER = (2.0, 1.5, 1.25)
"""A partition is tried for sizes so many times those for which it was made."""


class _Done(Exception):
    """The saved values are chosen: the rest of a partitioning is not needed."""


class Joint:
    """A joint graph, and the costs of its partitions.

    `module`: AOTAutograd's joint graph behind Inductor's passes for it; it is not changed. `inputs`: its arguments.
    `named`: what else Inductor gives to a partitioner.
    """

    def __init__(
        self, module: fx.GraphModule, inputs: Any, named: dict[str, Any], calls: Calls, later: Later = Later()
    ) -> None:
        self.module, self.inputs, self.named, self.calls, self.later = module, inputs, named, calls, later
        self.shown: int = named["num_fwd_outputs"]
        self.once: frozenset[str] = frozenset()

    @functools.cached_property
    def fixed(self) -> int:
        """Bytes of the forward part's arguments. CaptureError: a size is known only when the graph runs."""
        return sum(look_bytes(vals(self.module.graph.find_nodes(op="placeholder"), "primals")))

    @functools.cached_property
    def loss(self) -> int:
        """Bytes that the user's loss needs outside of the graph."""
        return loss_outside(vals(self.module.graph.find_nodes(op="placeholder"), "tangents"))

    def with_graph(self, module: fx.GraphModule) -> Joint:
        """Another graph with the same arguments, results and costs."""
        return Joint(module, self.inputs, self.named, self.calls, self.later)

    @property
    def device(self) -> torch.device:
        """The device on which the graph runs."""
        values = [v for v in vals(self.module.graph.find_nodes(op="placeholder")) if isinstance(v, torch.Tensor)]
        return next((v.device for v in values if v.device.type == "cuda"), torch.device("cpu"))

    def parted(self, choose: Callable[[fx.Graph, Any], list[fx.Node]] | None) -> Halves:
        """Both parts, by PyTorch's own partitioner with our choice of what is saved, or its own."""
        from torch._functorch import partitioners

        module = fx.GraphModule(self.module, copy.deepcopy(self.module.graph))
        module.meta = self.module.meta
        with saved_values_chosen_by(choose):
            forward, backward = partitioners.min_cut_rematerialization_partition(module, self.inputs, **self.named)
        return compiled_slices(forward), compiled_slices(backward)

    def stock(self) -> tuple[str, ...]:
        """Values that PyTorch saves by itself, by name."""
        return self.stock_for([1.0])[1.0]

    def stock_for(self, shares: Iterable[float], solver: Any = None) -> dict[float, tuple[str, ...]]:
        """Values that PyTorch saves for each `activation_memory_budget`, by name, with one of its solvers.

        None leaves the solver that is set, a name or one's own. RuntimeError if it is not there: ilp needs scipy.
        """
        from torch._functorch import config, partitioners

        choose, own = stock_choice(), partitioners.solve_min_cut
        found: dict[float, tuple[str, ...]] = {}
        cuts: dict[Any, Any] = {}

        def cut(graph: fx.Graph, info: Any, options: Any, kept: Any = None) -> Any:
            key = str(options), frozenset(kept or ())
            if key not in cuts:
                cuts[key] = own(graph, info, options, kept)
            return cuts[key]

        def chosen(graph: fx.Graph, info: Any) -> list[fx.Node]:
            changed = changed_values(graph)
            self.once = frozenset(n.name for n in graph.nodes if runs_once(n) or reads_any(n, changed))
            with instead(partitioners, "solve_min_cut", cut):
                for share in shares:
                    found[share] = tuple(node.name for node in choose(graph, info, memory_budget=share))
            return []

        with config.patch({} if solver is None else {"activation_memory_budget_solver": solver}):
            self._chosen(chosen)
        return found

    def light(self) -> tuple[str, ...]:
        """Values that are saved if everything but products is recomputed, by name."""
        from torch._functorch import partitioners

        bans = partitioners.MinCutOptions(False, False, False, False, False)
        return self._chosen(lambda graph, info: partitioners.solve_min_cut(graph, info, bans)[0])

    def _chosen(self, choose: Callable[[fx.Graph, Any], list[fx.Node]]) -> tuple[str, ...]:
        """The names of the values that are chosen; PyTorch's partitioner ends there."""
        found = list[str]()

        def chosen(graph: fx.Graph, info: Any) -> list[fx.Node]:
            found.extend(node.name for node in choose(graph, info))
            raise _Done

        with contextlib.suppress(_Done):
            self.parted(chosen)
        return tuple(found)

    def saving(self, names: Iterable[str], order: Sequence[str] = ()) -> Halves:
        """Both parts, where the named nodes are saved, and what else must be."""
        wanted = set(names)
        forward, backward = self.parted(lambda graph, info: closed(graph, info, wanted, self.shown))
        return forward, ordered(backward, order) if order else backward

    @functools.cached_property
    def given_masks(self) -> frozenset[str]:
        """Truth values that are computed from nothing but numbers and arguments, by ops that are fused; by name.

        On CPUs a kernel computes them faster than it reads them.
        """
        from torch._functorch import partitioners

        graph, fused = self.module.graph, partitioners.get_default_op_list().recomputable_ops
        given = set(graph.find_nodes(op="placeholder")).difference(tangents_of(graph))
        for node in graph.nodes:
            is_fused = getattr(node.target, "overloadpacket", node.target) in fused
            if node.op == "call_function" and is_fused and given.issuperset(node.all_input_nodes):
                given.add(node)
        values = {node.name: node.meta.get("val") for node in given if node.op == "call_function"}
        return frozenset(n for n, v in values.items() if isinstance(v, torch.Tensor) and v.dtype == torch.bool)

    @functools.cached_property
    def _ranks(self) -> dict[str, str]:
        """The name of each node that calls an op, and which of how many calls of that op it is."""
        calls: dict[str, list[str]] = {}
        for node in self.module.graph.nodes:
            if node.op == "call_function":
                calls.setdefault(str(node.target), []).append(node.name)
        return {name: f"{i} of {len(row)} {op}" for op, row in calls.items() for i, name in enumerate(row)}

    def ranked(self, partition: Partition) -> Partition:
        """A partition with ranks of calls in place of names, which are others in the same graph for other sizes."""
        ranks = self._ranks
        saved, order = ([ranks[n] for n in names if n in ranks] for names in (partition.saved, partition.order))
        return replace(partition, saved=tuple(saved), order=tuple(order))

    def named_like(self, partition: Partition) -> Partition | None:
        """A ranked partition with the names of this graph; None if it saves what is not in it."""
        names = {rank: name for name, rank in self._ranks.items()}
        if not names.keys() >= set(partition.saved):
            return None
        saved, order = ([names[r] for r in ranks if r in names] for ranks in (partition.saved, partition.order))
        return replace(partition, saved=tuple(saved), order=tuple(order))

    @functools.cached_property
    def _symbolic(self) -> list[torch.SymInt]:
        """Arguments that are numbers, and lengths of arguments' dimensions, that vary and on which sizes depend."""
        made = [value for value in vals(self.module.graph.nodes) if isinstance(value, torch.Tensor)]
        read = symbols_in(size for value in made for size in value.shape)
        found: list[torch.SymInt] = []
        for value in vals(self.module.graph.find_nodes(op="placeholder")):
            numbers: list[Any] = list(value.shape) if isinstance(value, torch.Tensor) else [value]
            found += [n for n in numbers if isinstance(plain(n), torch.SymInt) and not read.isdisjoint(symbols_in([n]))]
        return found

    @functools.cached_property
    def hints(self) -> dict[str, int]:
        """The symbols of the arguments' sizes, in their order, and their numbers in the call that is compiled."""
        named = dict.fromkeys(name for size in self._symbolic for name in sorted(symbols_in([size])))
        return {name: self._known[name] for name in named if name in self._known}

    @functools.cached_property
    def _known(self) -> dict[str, int]:
        """The numbers of all symbols in that call."""
        return hints_in(self._symbolic[0].node.shape_env) if self._symbolic else {}

    def larger_sizes(self) -> Iterator[dict[str, int]]:
        """Numbers of the symbols up to `LARGER` times their hints, for which PyTorch's guards hold; the largest first.

        None is larger than what a user declared as the largest.
        """
        if not self.hints:
            return
        environment = self._symbolic[0].node.shape_env

        def is_possible(sizes: dict[str, int]) -> bool:
            try:
                return holds(environment, {**self._known, **sizes})
            except (NameError, TypeError, SyntaxError):  # a guard of other names than numbers
                return False

        for share in LARGER:
            row = {n: min(int(share * hint), largest_of(environment, n) or 2 * hint) for n, hint in self.hints.items()}
            even = {n: size - size % (self.hints[n] & -self.hints[n]) for n, size in row.items()}  # as divisible
            found = next(filter(is_possible, (row, even)), None)
            if found is not None and found != self.hints:
                yield found

    def sizes_text(self, largest: Mapping[str, int]) -> str:
        """Up to which sizes, by the user's names, a plan is for these numbers of the symbols; "" if none varies."""
        names = names_of_symbols(self._symbolic[0].node.shape_env) if largest else {}
        return ", ".join(f"{names.get(name) or name} up to {size:,}" for name, size in largest.items())

    def guard_sizes(self, largest: Mapping[str, int]) -> None:
        """Lets sizes larger than these numbers of the symbols be compiled anew: Dynamo checks it at every call."""
        numbers = Numbers(largest)
        for size in self._symbolic:
            assert size <= numbers.of(size)

    def lowered(self, saved: Iterable[str], order: Sequence[str]) -> tuple[Half, Half]:
        """Both parts of a partition, lowered and replayed; a backward part in our order keeps it.

        Inductor chooses among orders by an estimate in which each loop frees what it reads at once. A CPU's kernel
        holds several loops, and all that they write is there before.
        """
        forward, backward = self.saving(saved, order)
        ahead, behind = (m.graph.find_nodes(op="placeholder") for m in (forward, backward))
        ends = [m.graph.find_nodes(op="output")[0].args[0] for m in (forward, backward)]
        inputs, results, after = vals(ahead), vals(ends[0]), vals(behind)
        first = lowered_forward(forward, inputs, self._shown_parts(forward))
        # Saved tensors lie as the forward part lays them out. Sizes come before them here, behind them there.
        places = [i for i, value in enumerate(after) if isinstance(value, torch.Tensor)]
        laid = [s for s, v in zip(first.strides, results, strict=True) if isinstance(v, torch.Tensor)]
        shown = sum(isinstance(value, torch.Tensor) for value in results[: self.shown])
        for i, strides in zip(places, laid[shown:], strict=False):
            if strides is not None and tuple(after[i].stride()) != tuple(strides):
                after[i] = after[i].as_strided(after[i].size(), strides)
        second = lowered_backward(backward, after, donated(inputs, results, vals(ends[1]), self.shown), bool(order))
        start = self._half(forward, first, ahead, inputs, range(len(ahead)))
        # Views of one buffer may be saved one by one. What lies in an argument, or in what the user has, is not freed;
        # a weight that the forward part has laid out anew is.
        lies = {
            n.name: storage_of(t) for n, t in zip(ends[0], start.trace.results, strict=True) if isinstance(n, fx.Node)
        }
        theirs = [] if self.loss else start.trace.results[: self.shown]
        others = {storage_of(t) for t in theirs} | start.trace.given
        storages = [lies.get(node.name, 0) for node in behind]
        kept = [i for i, n in enumerate(behind) if (storages[i] in others if storages[i] else _is_kept(n))]
        return start, self._half(backward, second, behind, after, kept, storages)

    def _half(
        self,
        module: fx.GraphModule,
        program: Lowered,
        nodes: list[fx.Node],
        inputs: list[Any],
        kept: Sequence[int],
        storages: Sequence[int] = (),
        number: Number = hint_of,
    ) -> Half:
        trace = replay(program, inputs, kept, storages, number)
        names, sizes = tuple(n.name for n in nodes), tuple(look_bytes(inputs, number))
        again = functools.partial(self._half, module, program, nodes, inputs, kept, storages)
        return Half(module, program, trace, names, sizes, again)

    def _shown_parts(self, forward: fx.GraphModule) -> tuple[int, int]:
        kinds = [type(d).__name__ for d in forward.graph.find_nodes(op="output")[0].meta["desc"][: self.shown]]
        return kinds.count("InputMutationAOTOutput"), kinds.count("PlainAOTOutput")

    def evaluated(
        self, halves: tuple[Half, Half], saved: tuple[str, ...], order: tuple[str, ...], guarded: bool
    ) -> Partition:
        """Costs of two parts; no kernel is compiled, so their times are estimates where none was measured before."""
        found = self._peaks(halves, self.fixed, self.loss)
        return self.timed(replace(found, saved=saved, order=order, guarded=guarded), launches_of(halves))

    def _peaks(self, halves: tuple[Half, Half], fixed: int, loss: int) -> Partition:
        """A partition with nothing but its bytes; workspaces of libraries' calls are measured."""
        self.calls.measure(launch for launch in launches_of(halves) if not isinstance(launch.target, Kernel))
        forward, backward = halves
        tangents = sum(s for n, s in zip(backward.inputs, backward.sizes, strict=True) if n.startswith("tangents"))
        held, there = held_by(forward.trace, self.shown), held_by(forward.trace)
        # What goes into a loss outside of the graph is gone with it. Beside a loss the user may keep it to the end.
        kept = held if loss else there
        ahead = fixed + self.calls.peak(forward.trace)
        behind = fixed + kept + tangents + self.calls.peak(backward.trace)
        return Partition((), (), ahead, behind, fixed + there, held, None, loss=loss)

    def peak_at(self, halves: tuple[Half, Half], sizes: Mapping[str, int]) -> tuple[int, int]:
        """The bytes of the graph's arguments and the peak of two parts, for these numbers of its symbols."""
        number = Numbers({**self._known, **sizes}).of
        given = self.module.graph.find_nodes(op="placeholder")
        found = halves[0].at(number), halves[1].at(number)
        fixed, loss = sum(look_bytes(vals(given, "primals"), number)), loss_outside(vals(given, "tangents"), number)
        return fixed, self._peaks(found, fixed, loss).peak(Later())

    def timed(self, partition: Partition, launches: list[Launch]) -> Partition:
        """A partition with the times of its calls, as well as they are known."""
        time = sum(self.calls.of(launch)[0] for launch in launches)
        return replace(partition, estimate=time, time=time if self.calls.are_measured(launches) else None)


def launches_of(halves: tuple[Half, Half]) -> list[Launch]:
    """The calls of both parts."""
    return [launch for half in halves for launch in half.trace.launches]


def _is_kept(node: fx.Node) -> bool:
    """True if something else holds an argument of the backward part: the forward, or the gradient of a loss."""
    value = node.meta.get("val")
    return node.name.startswith("primals") or (isinstance(value, torch.Tensor) and value.dim() == 0)


def vals(nodes: Iterable[Any], prefix: str = "") -> list[Any]:
    """Fake values of nodes; None for what is no node."""
    return [n.meta.get("val") if isinstance(n, fx.Node) else None for n in nodes if not prefix or prefix in str(n)]


def held_by(trace: Trace, start: int = 0) -> int:
    """Bytes of a program's results from a number on, beyond its arguments."""
    results = [value for value in trace.results[start:] if isinstance(value, torch.Tensor)]
    found = {storage_of(value): int(value.untyped_storage().nbytes()) for value in results}
    return sum(size for storage, size in found.items() if storage not in trace.given)


def loss_outside(gradients: Iterable[Any], number: Number = hint_of) -> int:
    """Bytes that a loss outside of a graph needs in addition to the graph's results; 0 where the loss is inside.

    Cross entropy is assumed, which computes in 32 bits: it keeps the logarithms of probabilities, and the results'
    gradients in addition. A graph whose result is one number has its loss inside.

    `gradients`: those of the graph's results.
    """
    found = [value for value in gradients if isinstance(value, torch.Tensor)]
    if any(value.dim() == 0 for value in found):
        return 0
    return sum(2 * number(value.numel()) * max(4, value.itemsize) for value in found)


def look_bytes(values: Iterable[Any], number: Number = hint_of) -> list[int]:
    """The bytes of each value's storage, 0 where another before it shares it or it is no tensor."""
    seen: set[int] = set()
    found = []
    for value in values:
        look = look_of(value, number)
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
    """True if a forward node must not run again: it draws random numbers, has effects, or is no op of PyTorch."""
    if node.op != "call_function" or _is_size(node):
        return False
    if node.meta.get("recompute") == CheckpointPolicy.MUST_SAVE:
        return True
    if node.target is operator.getitem:
        return runs_once(node.all_input_nodes[0])
    return is_random(node) or has_effect(node) or not is_own(node)


def _is_size(node: fx.Node) -> bool:
    return isinstance(node.meta.get("val"), (torch.SymInt, torch.SymFloat, torch.SymBool))


def changed_values(graph: fx.Graph, ahead: bool = False) -> set[fx.Node]:
    """The arguments that are changed in place, and views of them; `ahead`: those that the forward part changes.

    What a view is made of is read from the graph: Inductor removes ops without effect, as an addition of 0, and a view
    of their result is one of the argument then, whose value still has the storage of the result.
    """
    writes = (node for target in _WRITES for node in graph.find_nodes(op="call_function", target=target))
    places = [n.args[0] for n in writes if not (ahead and "backward" in str(n.meta.get("partitioner_tag")))]
    storages = {storage_of(node.meta.get("val")) for node in places if isinstance(node, fx.Node)} - {0}
    found = set[fx.Node]()
    for node in graph.nodes:
        is_view = getattr(node.target, "is_view", False) and not found.isdisjoint(node.all_input_nodes)
        if is_view or storage_of(node.meta.get("val")) in storages:
            found.add(node)
    return found


_WRITES = (torch.ops.aten.copy_.default, torch.ops.aten.set_.source_Tensor)
"""Ops that change an argument in a joint graph."""


def reads_any(node: fx.Node, values: Collection[fx.Node]) -> bool:
    """True if a node is computed from one of these."""
    if node.target is operator.getitem:
        return reads_any(node.all_input_nodes[0], values)
    return any(read in values for read in node.all_input_nodes)


def closed(graph: fx.Graph, info: Any, wanted: set[str], shown: int) -> list[fx.Node]:
    """The saved values: the wanted nodes, those that must not run again, sizes, and the arguments.

    What is computed from an argument must not run again where the forward part changes that in place. Only what the
    backward part comes upon on its way from its results counts.

    Raises CaptureError: the backward part itself needs an argument that is changed, or one that requires a gradient is.
    """
    changed, changed_ahead = changed_values(graph), changed_values(graph, ahead=True)
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
        can = node not in info.required_bw_nodes and isinstance(node.meta.get("val"), (torch.Tensor, torch.SymInt))
        if can and _is_size(node):
            saved.add(node)
            continue
        reads_changed = can and node not in changed and reads_any(node, changed)
        if not reads_changed and reads_any(node, changed_ahead):
            raise CaptureError("the backward part reads an argument that the forward part changes in place")
        if can and (node.name in wanted or runs_once(node) or reads_changed):
            saved.add(node)
        else:
            ahead += node.all_input_nodes
    if any(n.meta.get("aot_runtime_epilogue_input_mutation") for n in info.inputs):
        raise CaptureError("an argument that requires a gradient is changed in place")
    return [*info.inputs, *(n for n in graph.nodes if n in saved)]


def ordered(module: fx.GraphModule, names: Iterable[str]) -> fx.GraphModule:
    """The same graph with nodes in this order; all come before those that read them.

    A name counts where it comes last: a loop that fills the buffer for a sum has the name of the sum, too.
    """
    graph, made = fx.Graph(), dict[fx.Node, fx.Node]()
    place = {node: i for i, node in enumerate(module.graph.nodes)}
    last = {name: i for i, name in enumerate(names)}

    def write(wanted: fx.Node) -> None:
        needed, ahead = set[fx.Node](), [wanted]
        while ahead:
            node = ahead.pop()
            if node not in made and node not in needed:
                needed.add(node)
                ahead += node.all_input_nodes
        for node in sorted(needed, key=place.__getitem__):
            made[node] = graph.node_copy(node, made.__getitem__)

    for node in module.graph.find_nodes(op="placeholder"):
        write(node)
    for node in sorted((node for node in place if node.name in last), key=lambda node: last[node.name]):
        write(node)
    for node in place:
        write(node)
    return fx.GraphModule(module, graph)
