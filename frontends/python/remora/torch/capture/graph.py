# SPDX-License-Identifier: Apache-2.0
"""A captured step as ops on storages.

What is scheduled is memory, so the nodes of an ATen graph are classified by what they do to it:

* an op allocates storages (its outputs) and reads others;
* a view allocates nothing: it is run again wherever its value is used, as long as the storage beneath is there;
* a copy into an argument of the step (running statistics, gradients that accumulate) is an update: it happens once.

`capture.read` reads a graph, and `capture.simplify` then joins what works in place.
"""

from __future__ import annotations

import copy
import operator
from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import fx
from torch._higher_order_ops.effects import _get_effect
from torch.fx.node import _side_effectful_functions
from torch.utils import _pytree as pytree

from ..errors import CaptureError
from ..measure import rounded
from ..symbols import Numbers, hint_of, plain
from .regions import Region

_OWN = ("aten", "prims", "torchvision", "quantized", "quantized_decomposed", "mkldnn", "onednn")
"""Libraries of PyTorch itself, whose ops say what they do."""
_COLLECTIVE = ("_c10d_functional", "c10d_functional", "_c10d_functional_autograd")


@dataclass
class Storage:
    """Memory that several tensors may share; `fixed`: arguments and constants of the step, always allocated.

    The size may depend on sizes that vary (`StepGraph.at`).
    """

    name: str
    size: int
    fixed: bool = False
    keep: bool = False


@dataclass(eq=False)
class Op:
    """A unit of scheduling: a node that allocates, and the nodes that then work in place in its storage."""

    name: str
    nodes: list[fx.Node]
    # inputs, outputs: storages that are read, and those that are allocated
    inputs: list[int]
    outputs: list[int]
    recompute: bool = True  # whether it may run again
    random: bool = False  # whether it draws from a generator, whose state is restored when it runs again
    backward: bool = False
    once: bool = False  # whether a schedule may not run it again, though it could


@dataclass(frozen=True)
class Taking:
    """That an op's output may lie where an input lay: storages, the argument's place, and the call that does so."""

    output: int
    input: int
    place: int
    form: Any


@dataclass(frozen=True)
class Run:
    """One step of a schedule: an op, and the storages that are released behind it."""

    op: Op
    free: tuple[int, ...]
    # where in an arena the storages lie that it allocates
    offsets: dict[int, int] = field(default_factory=dict, hash=False, compare=False)
    workspace: int = 0  # where its workspace lies


@dataclass
class Cut:
    """Where a joint graph is cut: its tangents, and the values that the forward part hands to the user."""

    tangents: list[fx.Node]
    outputs: list[fx.Node]


def tensors_in(value: Any) -> list[torch.Tensor]:
    """The tensors in a value of any nesting."""
    return [leaf for leaf in pytree.tree_leaves(value) if isinstance(leaf, torch.Tensor)]


def storage_of(leaf: Any) -> int:
    """Identifier of a tensor's storage; 0 if there is none."""
    return int(leaf.untyped_storage()._cdata) if isinstance(leaf, torch.Tensor) else 0


class StepGraph:
    """The ops and storages of one captured graph."""

    def __init__(self, module: fx.GraphModule, cut: Cut | None = None, may_vary: bool = False) -> None:
        nodes = list(module.graph.nodes)
        self.module, self.cut, self.may_vary = module, cut, may_vary
        self.placeholders = [n for n in nodes if n.op == "placeholder"]
        self.outputs: list[Any] = list(nodes[-1].args[0])
        self.storages: list[Storage] = []
        self.ops: list[Op] = []  # in the graph's order
        self.value: dict[fx.Node, Any] = {}  # fake
        # The storages that must be there for a node's value to be had: its own, of a view also those of its source.
        self.needs: dict[fx.Node, list[int]] = {}
        self.owner: dict[fx.Node, Op] = {}  # the op that runs a node; views have none
        self.alias: dict[fx.Node, fx.Node] = {}  # nodes for whose value another node's stands
        self.rebound: dict[fx.Node, Any] = {}  # what a node is run by, where that is not its target
        self.in_place: set[fx.Node] = set()  # nodes that work in the storage of their first argument
        self.swapped: set[fx.Node] = set()  # nodes that are run with their two arguments exchanged
        self.takes: dict[Op, Taking] = {}  # ops that may take over the storage of an input that is released behind them
        self.updates: list[tuple[fx.Node, fx.Node]] = []  # placeholder, and what is copied into it in the end
        self.pinned: set[int] = set()  # storages that stay from where they are made to the end
        self.after: dict[Op, list[Op]] = {}  # ops whose first runs come before another's, which reads none of them
        self.outside = 0  # bytes of results that have no place in an arena, and are always counted
        self.beside = 0  # bytes that a CUDA graph takes beside its tensors: its workspace, and copies of the batch
        self.accumulates = False  # whether gradients exist, to which the step adds
        self.cut_op: Op | None = None
        self.numbers: Numbers | None = None  # for sizes that vary
        self._of: dict[int, int] = {}
        modes = [n.meta["val"].fake_mode for n in self.placeholders if hasattr(n.meta.get("val"), "fake_mode")]
        if not modes:
            raise CaptureError("the graph has no tensor among its arguments")
        self.mode = modes[0]
        self.device = _main_device(self.placeholders)
        if self.device.type == "meta":
            raise CaptureError(
                "the step's tensors are on the device meta, where nothing can be measured or run; to plan without "
                'memory, make model and batch under torch._subclasses.FakeTensorMode() and give cost="flops"'
            )

    # -- What a node is ------------------------------------------------------------------------------------------------

    def resolve(self, node: fx.Node) -> fx.Node:
        """The node whose value stands for this one's."""
        while node in self.alias:
            node = self.alias[node]
        return node

    def arguments(self, node: fx.Node) -> Iterator[fx.Node]:
        """The nodes that a node reads."""
        return (self.resolve(source) for source in node.all_input_nodes)

    def given(self, node: fx.Node) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The fake arguments of a node."""
        found: tuple[tuple[Any, ...], dict[str, Any]] = self.values_in((node.args, node.kwargs))
        return found

    def values_in(self, given: Any) -> Any:
        """The same with values for nodes, and numbers for what varies, where these are known."""
        found = fx.node.map_arg(given, lambda n: self.value[self.resolve(n)])
        return found if self.numbers is None else pytree.tree_map(self.numbers.of, found)

    def call_of(self, node: fx.Node) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
        """The function that runs a node, and its arguments."""
        arguments = tuple(reversed(node.args)) if node in self.swapped else node.args
        return self.rebound.get(node, node.target), arguments, dict(node.kwargs)

    def takes_over(self, op: Op, free: Iterable[int], resident: Container[int], made: Container[int]) -> Taking | None:
        """How a run takes over an input's storage: if that is released behind it and the output is not there.

        `made`: the storages that the same program made. What autograd has saved between two of them stays as it is.
        """
        taking = self.takes.get(op)
        if taking is None or taking.output in resident or taking.input not in resident or taking.input not in set(free):
            return None
        return taking if taking.input in made else None

    def storages_of(self, node: fx.Node) -> list[int]:
        """The storages in which a node's value lies."""
        return list(dict.fromkeys(self._of[_key(t)] for t in tensors_in(self.value[self.resolve(node)])))

    def storage_of(self, tensor: torch.Tensor) -> int:
        """The storage of a fake tensor of this step."""
        return self._of[_key(tensor)]

    def is_new(self, tensor: torch.Tensor) -> bool:
        """True if a fake tensor lies in no storage that is known."""
        return _key(tensor) not in self._of

    def add_storage(self, name: str, tensor: torch.Tensor, fixed: bool) -> int:
        """The storage of a tensor, which is new where no other tensor has it."""
        key = _key(tensor)
        if key not in self._of:
            self._of[key] = len(self.storages)
            self.storages.append(Storage(name, self.bytes_of(tensor), fixed))
        return self._of[key]

    def unite(self, given: int, taken: int) -> None:
        """The tensors of storage `given` lie in storage `taken` from now on."""
        self._of = {key: taken if s == given else s for key, s in self._of.items()}
        for needed in self.needs.values():
            needed[:] = [taken if s == given else s for s in needed]
        for op in self.ops:
            op.inputs = list(dict.fromkeys(taken if s == given else s for s in op.inputs))

    def bytes_of(self, tensor: torch.Tensor) -> int:
        """Size of a tensor's storage on the step's device, in bytes; 0 if it lies elsewhere."""
        if not self.may_vary or tensor.device.type != self.device.type:
            return storage_bytes(tensor, self.device)
        size: int = rounded(plain(tensor.untyped_storage().nbytes()), self.device)
        return size

    def at(self, numbers: Numbers) -> StepGraph:
        """The same step, whose sizes vary, with numbers in their place; its ops are the same."""
        found = copy.copy(self)
        found.numbers = numbers
        found.storages = [replace(storage, size=int(numbers.of(storage.size))) for storage in self.storages]
        found._of = dict(self._of)
        found.value = _ValuesAt(self, numbers, found._of)
        return found

    @property
    def form(self) -> list[Any]:
        """All that is equal of two steps whose schedules are each other's: ops and storages, but no sizes."""
        kept = [i for i, s in enumerate(self.storages) if s.keep]
        rows = [(op.inputs, op.outputs, op.recompute, op.random, [str(n.target) for n in op.nodes]) for op in self.ops]
        return [kept, *rows]

    def is_behind_cut(self, node: fx.Node) -> bool:
        """True if a node begins the backward part, or certainly belongs to it: it reads a tangent, or is marked."""
        assert self.cut is not None
        reads_tangent = any(n in self.cut.tangents for n in node.all_input_nodes)
        return reads_tangent or node.meta.get("partitioner_tag") == "is_backward"

    def results(self) -> Iterator[fx.Node]:
        """The nodes whose values must be there when the step ends."""
        handed_over = set(self.cut.outputs) if self.cut is not None else set()
        yield from (self.resolve(n) for n in self.outputs if isinstance(n, fx.Node) and n not in handed_over)
        yield from (source for _, source in self.updates)


class _ValuesAt(dict[fx.Node, Any]):
    """The values of a step's nodes with numbers for sizes that vary, each made when it is first read."""

    def __init__(self, step: StepGraph, numbers: Numbers, places: dict[int, int]) -> None:
        self._step, self._numbers, self._places = step, numbers, places

    def __missing__(self, node: fx.Node) -> Any:
        self[node] = value = pytree.tree_map(self._with_numbers, self._step.value[node])
        return value

    def _with_numbers(self, leaf: Any) -> Any:
        made = self._numbers.in_place_of(leaf, self._step.mode)
        if made is not leaf and isinstance(made, torch.Tensor) and _key(leaf) in self._step._of:
            self._places[_key(made)] = self._step._of[_key(leaf)]
        return made


def storage_bytes(tensor: torch.Tensor, device: torch.device) -> int:
    """Size of a tensor's storage on a device, in bytes; 0 if it lies elsewhere."""
    if tensor.device.type != device.type:
        return 0
    return rounded(int(tensor.untyped_storage().nbytes()), device)


def storages_bytes(tensors: Iterable[torch.Tensor], device: torch.device | None = None) -> int:
    """Bytes of the storages of some tensors on a device, or of each on its own, counted once."""
    return sum({t.untyped_storage()._cdata: storage_bytes(t, device or t.device) for t in tensors}.values())


def tangents_of(graph: fx.Graph) -> list[fx.Node]:
    """The gradients of a joint graph's results, which are arguments of its backward part."""
    return [node for node in graph.find_nodes(op="placeholder") if "tangents" in str(node.target)]


def computed_from(sources: Iterable[fx.Node], graph: fx.Graph) -> set[fx.Node]:
    """The sources, and all nodes that are computed from them."""
    found = set(sources)
    for node in graph.nodes:
        if not found.isdisjoint(node.all_input_nodes) and node.op != "output":
            found.add(node)
    return found


def is_random(node: fx.Node) -> bool:
    """True if a node draws random numbers; attention without dropout does not."""
    target = node.target
    if not isinstance(target, torch._ops.OpOverload) or torch.Tag.nondeterministic_seeded not in target.tags:
        return False
    names = [argument.name for argument in target._schema.arguments]
    if "dropout_p" not in names or not target._schema.name.startswith("aten::_scaled_dot_product"):
        return True
    place = names.index("dropout_p")
    given = node.args[place] if place < len(node.args) else node.kwargs.get("dropout_p", 0.0)
    return bool(given != 0.0)


def has_effect(node: fx.Node) -> bool:
    """True if a node is known to do more than return its outputs: by its schema, effect tokens, or PyTorch's list."""
    target = node.target
    if not isinstance(target, torch._ops.OpOverload):
        return target is not operator.getitem and not isinstance(target, Region)
    schema = target._schema
    if target.namespace in _COLLECTIVE or schema.is_mutable or not schema.returns:
        return True
    return _get_effect(target) is not None or target in _side_effectful_functions


GROWS = "remora_grows"
"""In the meta of a node that adds a term to a sum, or writes rows of a result: to its first argument."""
SLICE = "remora_slice"
"""In the meta of a node of a slice: the part of a region, and the number of the slice."""
RUNS_ONCE = "remora_runs_once"
"""In the meta of a node that reads what may have changed when it runs a second time."""


def may_run_again(node: fx.Node, pure: Container[str] = ()) -> bool:
    """True if a second run gives the same and does nothing else.

    PyTorch's own ops declare it, and `pure` ("library::op") names others. Any other op may write a log, count, or draw
    random numbers without declaring it; it runs once, as it does for PyTorch's own partitioner.
    """
    target = node.target
    if isinstance(target, Region):
        return True
    if RUNS_ONCE in node.meta or has_effect(node) or not isinstance(target, torch._ops.OpOverload):
        return False
    return is_own(node) or target._schema.name in pure


def replayable(node: fx.Node, pure: Container[str] = ()) -> bool:
    """True if a node only launches kernels, so that these can be launched again without its code."""
    target = node.target
    if isinstance(target, torch._ops.OpOverload):
        return is_own(node) or target._schema.name in pure
    return target is operator.getitem or isinstance(target, Region)


def is_own(node: fx.Node) -> bool:
    """True if a node's op is one of PyTorch's own."""
    return isinstance(node.target, torch._ops.OpOverload) and node.target.namespace in _OWN


def _key(tensor: torch.Tensor) -> int:
    return int(tensor.untyped_storage()._cdata)


def _main_device(placeholders: list[fx.Node]) -> torch.device:
    """The device whose memory is scheduled: an accelerator before the CPU, then where most of the arguments lie."""
    share: dict[torch.device, int] = {}
    for node in placeholders:
        value = node.meta.get("val")
        if isinstance(value, torch.Tensor):
            share[value.device] = share.get(value.device, 0) + hint_of(value.untyped_storage().nbytes())
    return max(share, key=lambda device: (device.type != "cpu", share[device]))
