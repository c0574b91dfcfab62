# SPDX-License-Identifier: Apache-2.0
"""A captured step as ops on storages.

What is scheduled is memory, so the nodes of an ATen graph are told apart by what they do to it:

* an op allocates storages (its outputs) and reads others;
* a view allocates nothing: it is run again wherever its value is used, as long as the storage beneath is there;
* a copy into an argument of the step (running statistics, gradients that accumulate) is an update: it happens once.

Sizes and aliases come from one run of the graph on fake tensors, O(nodes). `simplify` then joins what works in place.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import fx
from torch.fx.node import _side_effectful_functions
from torch.utils import _pytree as pytree

from ..errors import CaptureError
from ..measure import rounded
from .regions import Compiled
from .whole_ops import dropout_backward

try:
    from torch._higher_order_ops import effects as _effects

    _effect_of: Callable[[Any], Any] = _effects._get_effect
except (ImportError, AttributeError):  # an older torch, where no op can declare an effect
    _effect_of = lambda _: None  # noqa: E731

_OWN = ("aten", "prims", "torchvision", "quantized", "quantized_decomposed", "mkldnn", "onednn")
"""Libraries of PyTorch itself, whose ops say what they do."""
_NORMALIZATIONS = (
    torch.ops.aten.native_layer_norm,
    torch.ops.aten.native_group_norm,
    torch.ops.aten.native_batch_norm,
    torch.ops.aten._native_batch_norm_legit,
    torch.ops.aten._native_batch_norm_legit_functional,
)
_COLLECTIVE = ("_c10d_functional", "c10d_functional", "_c10d_functional_autograd")


@dataclass
class Storage:
    """Memory that several tensors may share; `fixed`: arguments and constants of the step, there throughout."""

    name: str
    size: int
    fixed: bool = False
    keep: bool = False


@dataclass(eq=False)
class Op:
    """What is scheduled as one: a node that allocates, and the nodes that then work in place in its storage.

    Attributes
    ----------
    inputs, outputs : list of int
        Storages that are read, and those that are allocated.
    recompute : bool
        Whether it may run again.
    random : bool
        Whether it draws from a generator, whose state is restored when it runs again.
    """

    name: str
    nodes: list[fx.Node]
    inputs: list[int]
    outputs: list[int]
    recompute: bool = True
    random: bool = False
    backward: bool = False


@dataclass(frozen=True)
class Taking:
    """That an op's output may lie where an input lay: storages, the argument's place, and the call that does so."""

    output: int
    input: int
    place: int
    form: Any


@dataclass
class Cut:
    """Where a joint graph is cut: its tangents, and the values that the forward part hands to the user."""

    tangents: list[fx.Node]
    outputs: list[fx.Node]


def tensors_in(value: Any) -> list[torch.Tensor]:
    """The tensors in a value of any nesting."""
    return [leaf for leaf in pytree.tree_leaves(value) if isinstance(leaf, torch.Tensor)]


class StepGraph:
    """The ops and storages of one captured graph.

    Parameters
    ----------
    module : fx.GraphModule
        A functional ATen graph; only copies into its own placeholders may change anything.
    cut : Cut, optional
        Of a joint graph. One op without nodes, `cut_op`, then stands for what the user does between the parts.
    pure : sequence of str
        Custom ops that may run again.

    Attributes
    ----------
    ops : list of Op
        In the graph's order.
    value : dict of fx.Node to fake value
    needs : dict of fx.Node to list of int
        The storages that must be there for a node's value to be had: its own, of a view also those of what it is made
        from.
    owner : dict of fx.Node to Op
        The op that runs a node; views have none.
    rebound : dict of fx.Node to callable
        What a node is run by, where that is not its target.
    in_place : set of fx.Node
        Nodes that work in the storage of their first argument.
    swapped : set of fx.Node
        Nodes that are run with their two arguments exchanged.
    takes : dict of Op to Taking
        Ops that may take over an input's storage for their output, where a schedule releases that input behind them.
    updates : list of (fx.Node, fx.Node)
        Placeholder, and the node whose value is copied into it when everything has run.
    outside : int
        Bytes of results that have no place in an arena, and count throughout.
    accumulates : bool
        Whether the step adds to gradients that exist: a later micro-step of gradient accumulation.
    """

    def __init__(self, module: fx.GraphModule, cut: Cut | None = None, pure: Sequence[str] = ()) -> None:
        self.module = module
        self.pure = pure
        self.storages: list[Storage] = []
        self.ops: list[Op] = []
        self.value: dict[fx.Node, Any] = {}
        self.needs: dict[fx.Node, list[int]] = {}
        self.owner: dict[fx.Node, Op] = {}
        self.rebound: dict[fx.Node, Any] = {}
        self.in_place: set[fx.Node] = set()
        self.swapped: set[fx.Node] = set()
        self.takes: dict[Op, Taking] = {}
        self.updates: list[tuple[fx.Node, fx.Node]] = []
        self.outside = 0
        self.accumulates = False
        self.cut = cut
        self.cut_op: Op | None = None
        self._alias: dict[fx.Node, fx.Node] = {}
        self._of: dict[int, int] = {}
        self._given: set[int] = set()
        self._changed: set[int] = set()
        nodes = list(module.graph.nodes)
        self.placeholders = [n for n in nodes if n.op == "placeholder"]
        self.outputs: list[Any] = list(nodes[-1].args[0])
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
        for node in nodes[:-1]:
            self._add(node)
        if cut is not None and self.cut_op is None:
            self._add_cut()
        self._keep()
        self._drop_unused()

    # -- What a node is ------------------------------------------------------------------------------------------------

    def resolve(self, node: fx.Node) -> fx.Node:
        """The node whose value stands for this one's."""
        while node in self._alias:
            node = self._alias[node]
        return node

    def arguments(self, node: fx.Node) -> Iterator[fx.Node]:
        """The nodes that a node reads."""
        return (self.resolve(source) for source in node.all_input_nodes)

    def call_of(self, node: fx.Node) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
        """What a node is run by, and its arguments."""
        arguments = tuple(reversed(node.args)) if node in self.swapped else node.args
        return self.rebound.get(node, node.target), arguments, dict(node.kwargs)

    def takes_over(self, op: Op, free: Iterable[int], resident: Container[int]) -> Taking | None:
        """How a run takes over an input's storage: if that is released behind it and the output is not there."""
        taking = self.takes.get(op)
        if taking is None or taking.output in resident or taking.input not in resident or taking.input not in set(free):
            return None
        return taking

    def storages_of(self, node: fx.Node) -> list[int]:
        """The storages in which a node's value lies."""
        return list(dict.fromkeys(self._of[_key(t)] for t in tensors_in(self.value[self.resolve(node)])))

    def storage_of(self, tensor: torch.Tensor) -> int:
        """The storage of a fake tensor of this step."""
        return self._of[_key(tensor)]

    def unite(self, given: int, taken: int) -> None:
        """The tensors of storage `given` lie in storage `taken` from now on."""
        self._of = {key: taken if s == given else s for key, s in self._of.items()}
        for needed in self.needs.values():
            needed[:] = [taken if s == given else s for s in needed]
        for op in self.ops:
            op.inputs = list(dict.fromkeys(taken if s == given else s for s in op.inputs))

    def _storage(self, name: str, tensor: torch.Tensor, fixed: bool) -> int:
        key = _key(tensor)
        if key not in self._of:
            self._of[key] = len(self.storages)
            self.storages.append(Storage(name, self.bytes_of(tensor), fixed))
        return self._of[key]

    def bytes_of(self, tensor: torch.Tensor) -> int:
        """What a tensor's storage takes on the step's device, in bytes; 0 if it lies elsewhere."""
        return storage_bytes(tensor, self.device)

    # -- Reading the graph ---------------------------------------------------------------------------------------------

    def _add(self, node: fx.Node) -> None:
        if node.op == "placeholder":
            self._add_placeholder(node)
        elif node.op == "get_attr":
            self._add_constant(node)
        elif node.op == "call_function":
            self._add_call(node)
        else:
            raise CaptureError(f"{node.name}: a graph of ATen ops has no {node.op}")

    def _add_placeholder(self, node: fx.Node) -> None:
        self.value[node] = value = node.meta.get("val")
        if isinstance(value, torch.Tensor):
            given_by_user = self.cut is not None and node in self.cut.tangents
            self.needs[node] = [self._storage(node.name, value, not given_by_user)]
        elif isinstance(value, torch.SymInt) and (value.node.maybe_as_int() is not None or value.node.has_hint()):
            self.value[node] = int(value)  # the plan is for this number, and Dynamo guards it
        elif isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool)):
            raise CaptureError(f"{node.name}: a shape that is not a number; capture with dynamic=False")

    def _add_constant(self, node: fx.Node) -> None:
        constant = operator.attrgetter(str(node.target))(self.module)
        self.value[node] = constant
        if isinstance(constant, torch.Tensor):
            self.value[node] = self.mode.from_tensor(constant, static_shapes=True)
            self.needs[node] = [self._storage(node.name, self.value[node], True)]

    def _add_call(self, node: fx.Node) -> None:
        target = node.target
        if self.cut is not None and self.cut_op is None and self.is_behind_cut(node):
            self._add_cut()
        if target is torch.ops.aten.copy_.default and self._is_update(node):
            return
        if target is torch.ops.aten.copy.default and self._is_gradient(node):
            return
        if target is torch.ops.aten.detach.default and self.resolve(node.all_input_nodes[0]).op != "placeholder":
            self._alias[node] = node.all_input_nodes[0]  # nothing here has a gradient to be detached from
            return
        schema = getattr(target, "_schema", None)
        if schema is not None and schema.name == "_c10d_functional::wait_tensor":
            (source,) = self.arguments(node)  # gives its argument back, when that is there
            self.value[node], self.needs[node] = self.value[source], list(self.needs[source])
            return
        if schema is not None and schema.is_mutable:
            self._add_change(node)
            return
        self.value[node] = value = self._truly_typed(node, self._run(node))
        if isinstance(value, torch.SymInt) and value.node.maybe_as_int() is not None:
            self.value[node] = value = int(value)
        if any(isinstance(leaf, (torch.SymInt, torch.SymFloat, torch.SymBool)) for leaf in pytree.tree_leaves(value)):
            raise CaptureError(f"{node.name}: {target} gives a number that is known only when it runs")
        sizes: list[Any] = [n for t in tensors_in(value) for n in t.shape if isinstance(n, torch.SymInt)]
        if any(n.node.maybe_as_int() is None for n in sizes):
            raise CaptureError(
                f"{node.name}: {target} gives a tensor whose size depends on data (a mask, nonzero); use torch.where, "
                "or fixed sizes"
            )
        read = list(dict.fromkeys(s for a in self.arguments(node) for s in self.needs.get(a, [])))
        if not self._changed.isdisjoint(read):
            raise CaptureError(f"{node.name}: {target} reads an argument that was changed before")
        tensors = tensors_in(value)
        made = [t for t in tensors if _key(t) not in self._of]
        if target is operator.getitem:
            source = self.resolve(node.all_input_nodes[0])
            self.needs[node] = self.storages_of(node) if source in self.owner else read
        elif tensors and not made:
            self.needs[node] = read
        elif len(made) < len(tensors):
            raise CaptureError(f"{node.name}: {target} gives new memory and an alias of an argument at once")
        else:
            self._add_op(node, read, made)

    def _add_op(self, node: fx.Node, read: list[int], made: list[torch.Tensor]) -> None:
        names = [node.name if len(made) == 1 else f"{node.name}.{i}" for i in range(len(made))]
        outputs = list(dict.fromkeys(self._storage(name, t, False) for name, t in zip(names, made, strict=True)))
        op = Op(node.name, [node], read, outputs, recompute=may_run_again(node, self.pure), random=is_random(node))
        op.backward = bool(node.meta.get("autograd_backward")) or self.cut_op is not None
        self.ops.append(op)
        self.owner[node] = op
        self._rebind(node, made)
        self.needs[node] = list(outputs)

    def _add_change(self, node: fx.Node) -> None:
        """An op that changes its first argument.

        It is a part of the op that made the argument, where nobody has read that, what else it reads was there by
        then, and it draws no random numbers. Else it is an op of its own; it, the maker, and who has read the old value
        run once, as `graph_of` orders them, and whoever reads the new value also reads that it is done. An argument of
        the step has one such op.
        """
        schema = node.target._schema  # type: ignore[union-attr]
        if [a.name for a in schema.arguments if a.is_write] != [schema.arguments[0].name]:
            raise CaptureError(f"{node.name}: {node.target} changes other arguments than its first")
        self.value[node] = self._run(node)
        self.in_place.add(node)
        read = list(dict.fromkeys(s for a in self.arguments(node) for s in self.needs.get(a, [])))
        (storage,) = self.storages_of(node.args[0])  # type: ignore[arg-type]
        fixed = self.storages[storage].fixed
        readers = [op for op in self.ops if storage in op.inputs]
        if fixed and readers:
            raise CaptureError(f"{node.name}: {node.target} changes an argument that others read")
        maker = next((op for op in self.ops if storage in op.outputs), None)
        if maker is not None and not readers and not is_random(node) and self._is_there(read, maker):
            maker.nodes.append(node)
            maker.inputs = list(dict.fromkeys(maker.inputs + [s for s in read if s != storage]))
            self.owner[node] = maker
            self.needs[node] = [storage]
            return
        for op in [*readers, *([maker] if maker is not None else [])]:
            op.recompute = False
        done = len(self.storages)
        self.storages.append(Storage(f"{node.name} done", 0, keep=fixed))
        op = Op(node.name, [node], read, [done], recompute=False, random=is_random(node))
        op.backward = bool(node.meta.get("autograd_backward")) or self.cut_op is not None
        self.ops.append(op)
        self.owner[node] = op
        self.needs[node] = [storage]
        for needed in self.needs.values():
            if storage in needed:
                needed.append(done)
        self._changed |= {storage} if fixed else set()

    def _is_there(self, read: Iterable[int], op: Op) -> bool:
        """Whether storages are there when an op ends."""
        made = {s for o in self.ops[: self.ops.index(op) + 1] for s in o.outputs}
        return all(s in made or self.storages[s].fixed for s in read)

    def _rebind(self, node: fx.Node, made: list[torch.Tensor]) -> None:
        if isinstance(node.target, Compiled):
            self.rebound[node] = node.target.compiled(self.mode)
        on_cpu = node.target is torch.ops.aten.native_dropout_backward.default and self.device.type == "cpu"
        if on_cpu and made[0].dtype in (torch.bfloat16, torch.float16):
            self.rebound[node] = dropout_backward

    def _run(self, node: fx.Node) -> Any:
        arguments, options = fx.node.map_arg((node.args, node.kwargs), lambda n: self.value[self.resolve(n)])
        with self.mode, torch.no_grad():
            return node.target(*arguments, **options)  # type: ignore[operator]

    def _truly_typed(self, node: fx.Node, value: Any) -> Any:
        """The CPU's normalizations of half precision with parameters of float32 give statistics of float32.

        Their fake forms give all in the input's type.
        """
        packet = getattr(node.target, "overloadpacket", None)
        if packet not in _NORMALIZATIONS or self.device.type != "cpu" or not isinstance(value, (list, tuple)):
            return value
        given = [self.value[self.resolve(n)] for n in node.all_input_nodes]
        mixed = any(isinstance(t, torch.Tensor) and t.dtype == torch.float32 for t in given)
        if not mixed or value[0].dtype not in (torch.bfloat16, torch.float16):
            return value
        with self.mode:
            return type(value)([value[0], *(t.to(torch.float32) for t in value[1:])])

    def is_behind_cut(self, node: fx.Node) -> bool:
        """Whether a node begins the backward part, or belongs to it for sure: it reads a tangent, or is marked."""
        assert self.cut is not None
        reads_tangent = any(n in self.cut.tangents for n in node.all_input_nodes)
        return reads_tangent or node.meta.get("partitioner_tag") == "is_backward"

    def _add_cut(self) -> None:
        """The op for what the user does between the parts: reads the forward outputs and gives the tangents."""
        assert self.cut is not None
        missing = [n.name for n in self.cut.outputs if self.resolve(n) not in self.value]
        if missing:
            raise CaptureError(f"the backward part starts before {missing[0]}, an output of the forward part")
        outputs = [s for n in self.cut.outputs for s in self.storages_of(n) if not self.storages[s].fixed]
        tangents = [s for n in self.cut.tangents for s in self.needs[n]]
        if not tangents:
            tangents = [len(self.storages)]
            self.storages.append(Storage("nothing", 0))
        self.cut_op = Op("the user's loss", [], list(dict.fromkeys(outputs)), tangents, recompute=False)
        for op in self.ops:
            # The user holds them: a second copy would not save anything.
            op.recompute = op.recompute and not set(op.outputs) & set(outputs)
        self.ops.append(self.cut_op)

    def _is_update(self, node: fx.Node) -> bool:
        place, source = (self.resolve(n) for n in node.args[:2])  # type: ignore[arg-type]
        if place.op != "placeholder":
            return False
        self.updates.append((place, source))
        self._alias[node] = place
        return True

    def _is_gradient(self, node: fx.Node) -> bool:
        """Dynamo gives each gradient an `empty_like` and a `copy`. The copy is left out where it changes nothing.

        As autograd itself does: a gradient is handed out as it is if it lies like its parameter in memory of its own.
        """
        place, source = (self.resolve(n) for n in node.args[:2])  # type: ignore[arg-type]
        if place.target is not torch.ops.aten.empty_like.default:
            return False
        like, value = self.value[place], self.value[source]
        if (like.dtype, like.shape, like.device) != (value.dtype, value.shape, value.device):
            return False
        if any(user.op == "output" for user in node.users):
            (storage,) = self.storages_of(source)
            alone = not self.storages[storage].fixed and storage not in self._given
            whole = int(value.untyped_storage().nbytes()) == value.numel() * value.itemsize
            if not alone or not whole or like.stride() != value.stride():
                return False
            self._given.add(storage)
        self._alias[node] = source
        return True

    # -- What is needed in the end -------------------------------------------------------------------------------------

    def results(self) -> Iterator[fx.Node]:
        """The nodes whose values must be there when the step ends."""
        handed_over = set(self.cut.outputs) if self.cut is not None else set()
        yield from (self.resolve(n) for n in self.outputs if isinstance(n, fx.Node) and n not in handed_over)
        yield from (source for _, source in self.updates)

    def _keep(self) -> None:
        for node in self.results():
            for storage in self.needs.get(node, []):
                self.storages[storage].keep = not self.storages[storage].fixed

    def _drop_unused(self) -> None:
        """Leaves out ops whose outputs nobody reads. Random ones stay, for they move the generator."""
        read = {s for s, storage in enumerate(self.storages) if storage.keep}
        kept: list[Op] = []
        for op in reversed(self.ops):
            has_to_run = op.random or not op.nodes or not all(may_run_again(n, self.pure) for n in op.nodes)
            if has_to_run or not read.isdisjoint(op.outputs):
                read.update(op.inputs)
                kept.append(op)
        self.ops = kept[::-1]


def storage_bytes(tensor: torch.Tensor, device: torch.device) -> int:
    """What a tensor's storage takes on a device, in bytes; 0 if it lies elsewhere."""
    if tensor.device.type != device.type:
        return 0
    return rounded(int(tensor.untyped_storage().nbytes()), device)


def is_random(node: fx.Node) -> bool:
    """Whether a node draws random numbers; attention without dropout does not."""
    target = node.target
    if isinstance(target, Compiled):
        return target.random
    if not isinstance(target, torch._ops.OpOverload) or torch.Tag.nondeterministic_seeded not in target.tags:
        return False
    names = [argument.name for argument in target._schema.arguments]
    if "dropout_p" not in names or not target._schema.name.startswith("aten::_scaled_dot_product"):
        return True
    place = names.index("dropout_p")
    given = node.args[place] if place < len(node.args) else node.kwargs.get("dropout_p", 0.0)
    return bool(given != 0.0)


def has_effect(node: fx.Node) -> bool:
    """Whether a node is known to do more than give its outputs: by its schema, its effect tokens, or PyTorch's list."""
    target = node.target
    if isinstance(target, Compiled):
        return False
    if not isinstance(target, torch._ops.OpOverload):
        return target is not operator.getitem
    schema = target._schema
    if target.namespace in _COLLECTIVE:
        return True
    return (
        schema.is_mutable or not schema.returns or _effect_of(target) is not None or target in _side_effectful_functions
    )


def may_run_again(node: fx.Node, pure: Container[str] = ()) -> bool:
    """Whether a second run gives the same and does nothing else.

    That is known of PyTorch's own ops, and told of those in `pure` ("library::op"). Any other op may write a log,
    count, or draw random numbers without saying so; it runs once, as it does for PyTorch's own partitioner.
    """
    target = node.target
    if isinstance(target, Compiled):
        return target.again
    if has_effect(node) or not isinstance(target, torch._ops.OpOverload):
        return False
    return is_own(node) or target._schema.name in pure


def is_own(node: fx.Node) -> bool:
    """Whether a node's op is one of PyTorch's own."""
    return is_own_op(node.target)


def is_own_op(target: Any) -> bool:
    """Whether an op is one of PyTorch's own."""
    return isinstance(target, torch._ops.OpOverload) and target.namespace in _OWN


def _key(tensor: torch.Tensor) -> int:
    return int(tensor.untyped_storage()._cdata)


def _main_device(placeholders: list[fx.Node]) -> torch.device:
    """The device whose memory is scheduled: an accelerator before the CPU, then where most of the arguments lie."""
    share: dict[torch.device, int] = {}
    for node in placeholders:
        value = node.meta.get("val")
        if isinstance(value, torch.Tensor):
            share[value.device] = share.get(value.device, 0) + int(value.untyped_storage().nbytes())
    return max(share, key=lambda device: (device.type != "cpu", share[device]))


@dataclass(frozen=True)
class Run:
    """One step of a schedule: an op, and the storages that are released behind it.

    Attributes
    ----------
    offsets : dict of int to int
        Where in an arena the storages lie that it allocates.
    workspace : int
        Where its workspace lies.
    """

    op: Op
    free: tuple[int, ...]
    offsets: dict[int, int] = field(default_factory=dict, hash=False, compare=False)
    workspace: int = 0
