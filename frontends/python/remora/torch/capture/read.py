# SPDX-License-Identifier: Apache-2.0
"""Reads a functional ATen graph: which ops allocate which storages. One run of the graph on fake tensors, O(nodes)."""

from __future__ import annotations

import functools
import operator
from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import fx
from torch.utils import _pytree as pytree

from ..errors import CaptureError
from ..symbols import SYMBOLS, lengths_of, plain, same_lengths, surely
from .graph import Cut, Op, StepGraph, Storage, is_random, may_run_again, storage_of, tensors_in
from .regions import Region
from .shapes import reads_shape_only, without_source
from .updates import EMPTY, is_update, update_of

_NORMALIZATIONS = (
    torch.ops.aten.native_layer_norm,
    torch.ops.aten.native_group_norm,
    torch.ops.aten.native_batch_norm,
    torch.ops.aten._native_batch_norm_legit,
    torch.ops.aten._native_batch_norm_legit_functional,
)


def read_step(
    module: fx.GraphModule, cut: Cut | None = None, pure: Sequence[str] = (), may_vary: bool = False
) -> StepGraph:
    """The ops and storages of a captured graph.

    `module`: a functional ATen graph; only copies into its own placeholders may change anything. `cut`: of a joint
    graph. One op without nodes, `cut_op`, then stands for what the user does between the parts. `pure`: custom ops
    that may run again. `may_vary`: sizes that vary stay symbols, and are not the numbers of this call. Raises
    CaptureError: names the node that cannot be scheduled.
    """
    step = StepGraph(module, cut, may_vary)
    _Reader(step, pure).read()
    return step


def dropout_backward(gradient: torch.Tensor, mask: torch.Tensor, scale: float) -> torch.Tensor:
    """Eager dropout's result on the CPU: unlike the captured op, it rounds the scale to the tensor's type."""
    return mask.to(gradient.dtype).mul_(scale).mul_(gradient)


class _Reader:
    def __init__(self, step: StepGraph, pure: Sequence[str]) -> None:
        self.step, self.pure, self.may_vary = step, pure, step.may_vary
        self.value, self.needs, self.storages = step.value, step.needs, step.storages
        self._rewrites = False
        self._given: set[int] = set()  # storages that are handed out as gradients
        self._changed: set[int] = set()  # arguments of the step
        # what is made from a tangent: whether a gradient exists is read from it, even where its shape is all that is
        self._of_tangents: set[fx.Node] = set(step.cut.tangents) if step.cut is not None else set()

    def read(self) -> None:
        for node in list(self.step.module.graph.nodes)[:-1]:
            self._add(node)
        if self._rewrites and not self.may_vary:  # what has symbols is only read
            self.step.module.recompile()
        if self.step.cut is not None and self.step.cut_op is None:
            self._add_cut()
        for node in self.step.results():
            for storage in self.needs.get(node, []):
                self.storages[storage].keep = not self.storages[storage].fixed
        self._drop_unused()

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
            if not self.may_vary and value.layout == torch.strided:
                for number in lengths_of(value):
                    int(number)  # the plan is for this number, and Dynamo guards it
            given_by_user = self.step.cut is not None and node in self.step.cut.tangents
            self.needs[node] = [self.step.add_storage(node.name, value, not given_by_user)]
        elif isinstance(value, torch.SymInt) and (value.node.maybe_as_int() is not None or value.node.has_hint()):
            self.value[node] = plain(value) if self.may_vary else int(value)
        elif isinstance(value, SYMBOLS):
            raise CaptureError(f"{node.name}: a shape that is not a number; capture with dynamic=False")

    def _add_constant(self, node: fx.Node) -> None:
        constant = operator.attrgetter(str(node.target))(self.step.module)
        self.value[node] = constant
        if isinstance(constant, torch.Tensor):
            self.value[node] = self.step.mode.from_tensor(constant, static_shapes=True)
            self.needs[node] = [self.step.add_storage(node.name, self.value[node], True)]

    def _add_call(self, node: fx.Node) -> None:
        if not self._of_tangents.isdisjoint(node.all_input_nodes):
            self._of_tangents.add(node)
        elif reads_shape_only(node):
            filled = without_source(node, self._run(node))
            self._rewrites = True
            if filled is not None:
                self._add_call(filled)
        target = node.target
        if self.step.cut is not None and self.step.cut_op is None and self.step.is_behind_cut(node):
            self._add_cut()
        if target is torch.ops.aten.copy_.default and self._is_update(node):
            return
        if target is torch.ops.aten.copy.default and self._is_gradient(node):
            return
        if target is torch.ops.aten.detach.default and self.step.resolve(node.all_input_nodes[0]).op != "placeholder":
            self.step.alias[node] = node.all_input_nodes[0]  # nothing here has a gradient to be detached from
            return
        if is_update(node):
            self._add_parameter_update(node)
            return
        schema = getattr(target, "_schema", None)
        if schema is not None and schema.name == "_c10d_functional::wait_tensor":
            (source,) = self.step.arguments(node)  # gives its argument back, when that is there
            self.value[node], self.needs[node] = self.value[source], list(self.needs[source])
            return
        if schema is not None and schema.is_mutable:
            self._add_change(node)
            return
        self.value[node] = value = self._truly_typed(node, self._run(node))
        self.value[node] = value = plain(value)
        if isinstance(value, SYMBOLS) and self._is_of_sizes(value):
            return
        if isinstance(value, (bool, int, float)) and self._stands_for(node, value):
            return
        if any(isinstance(leaf, SYMBOLS) and not self._is_of_sizes(leaf) for leaf in pytree.tree_leaves(value)):
            raise CaptureError(
                f"{node.name}: {target} gives a number that is known only when it runs; return the tensor, "
                "and call .item() or float() on it outside of the step"
            )
        sizes: list[Any] = [n for t in tensors_in(value) for n in t.shape if isinstance(n, torch.SymInt)]
        if any(n.node.maybe_as_int() is None and not self._is_of_sizes(n) for n in sizes):
            raise CaptureError(
                f"{node.name}: {target} gives a tensor whose size depends on data (a mask, nonzero); use torch.where, "
                "or fixed sizes"
            )
        read = self._read_by(node)
        if not self._changed.isdisjoint(read):
            raise CaptureError(f"{node.name}: {target} reads an argument that was changed before")
        tensors = tensors_in(value)
        made = [t for t in tensors if self.step.is_new(t)]
        if target is operator.getitem:
            source = self.step.resolve(node.all_input_nodes[0])
            self.needs[node] = self.step.storages_of(node) if source in self.step.owner else read
        elif tensors and not made:
            self.needs[node] = read
        elif len(made) < len(tensors):
            raise CaptureError(f"{node.name}: {target} gives new memory and an alias of an argument at once")
        else:
            self._add_op(node, read, made)

    def _is_of_sizes(self, number: Any) -> bool:
        """True if a number follows from sizes that vary, and not from data."""
        return self.may_vary and bool(number.node.has_hint())

    def _stands_for(self, node: fx.Node, number: float) -> bool:
        """Gives a number that follows from shapes to all that read it; True if nothing reads its node any more."""
        for user in [u for u in node.users if u.op != "output"]:
            self._rewrites = True
            user.args, user.kwargs = fx.node.map_arg((user.args, user.kwargs), lambda n: number if n is node else n)
        return not node.users

    def _read_by(self, node: fx.Node) -> list[int]:
        return list(dict.fromkeys(s for a in self.step.arguments(node) for s in self.needs.get(a, [])))

    def _add_op(self, node: fx.Node, read: list[int], made: list[torch.Tensor]) -> None:
        names = [node.name if len(made) == 1 else f"{node.name}.{i}" for i in range(len(made))]
        outputs = list(
            dict.fromkeys(self.step.add_storage(name, t, False) for name, t in zip(names, made, strict=True))
        )
        self._append(node, read, outputs, recompute=may_run_again(node, self.pure))
        self._rebind(node, made)
        self.needs[node] = list(outputs)

    def _append(self, node: fx.Node, read: list[int], outputs: list[int], recompute: bool) -> None:
        random = is_random(node)
        if random:
            self._refuse_other_numbers(node)
        op = Op(node.name, [node], read, outputs, recompute, random=random)
        sources = node.meta.get("source_fn_stack", ())
        op.backward = self.step.cut_op is not None or any(source is torch.autograd.grad for _, source in sources)
        self.step.ops.append(op)
        self.step.owner[node] = op

    def _refuse_other_numbers(self, node: fx.Node) -> None:
        """Rejects random fillings that are captured on a copy, which lies otherwise and gets other numbers."""
        filled = next((self.value.get(source) for source in self.step.arguments(node)), None)
        if not isinstance(filled, torch.Tensor) or filled.is_contiguous():
            return
        is_part = torch.empty_like(filled).stride() != filled.stride()
        if (is_part and node.target is torch.ops.aten.normal_functional.default) or (
            not is_part and node.target is torch.ops.aten.bernoulli.p
        ):
            raise CaptureError(
                f"{node.name} fills a tensor that is not contiguous with random numbers, and would draw others than in "
                "eager mode: fill a contiguous tensor, and copy it"
            )

    def _add_change(self, node: fx.Node) -> None:
        """An op that changes its first argument.

        It becomes a part of the op that made the argument if no op has read that, all its other inputs exist by then,
        and it draws no random numbers. Otherwise it is a separate op; this op, the maker, and the readers of the old
        value run once, in the order of `graph_of`, and readers of the new value also read that it is done. An argument
        of the step has at most one such op.
        """
        schema = node.target._schema  # type: ignore[union-attr]
        if [a.name for a in schema.arguments if a.is_write] != [schema.arguments[0].name]:
            raise CaptureError(f"{node.name}: {node.target} changes other arguments than its first")
        self.value[node] = self._run(node)
        self.step.in_place.add(node)
        read = self._read_by(node)
        (storage,) = self.step.storages_of(node.args[0])  # type: ignore[arg-type]
        fixed = self.storages[storage].fixed
        readers = [op for op in self.step.ops if storage in op.inputs]
        if fixed and readers:
            raise CaptureError(f"{node.name}: {node.target} changes an argument that others read")
        maker = next((op for op in self.step.ops if storage in op.outputs), None)
        if maker is not None and not readers and not is_random(node) and self._is_there(read, maker):
            maker.nodes.append(node)
            maker.inputs = list(dict.fromkeys(maker.inputs + [s for s in read if s not in maker.outputs]))
            self.step.owner[node] = maker
            self.needs[node] = [storage]
            return
        for op in self.step.ops:
            op.recompute = op.recompute and op is not maker and op not in readers
        done = len(self.storages)
        self.storages.append(Storage(f"{node.name} done", 0, keep=fixed))
        self._append(node, read, [done], recompute=False)
        self.needs[node] = [storage]
        for needed in self.needs.values():
            if storage in needed:
                needed.append(done)
        self._changed |= {storage} if fixed else set()

    def _add_parameter_update(self, node: fx.Node) -> None:
        """An op that updates a parameter, and releases its gradient; the optimizer's state is always allocated."""
        done, state = len(self.storages), update_of(node).memory_on(self.step.device).state
        self.storages += [Storage(f"{node.name} done", 0, keep=True), Storage(f"{node.name} state", state, fixed=True)]
        self._append(node, self._read_by(node), [done], recompute=False)
        self.step.owner[node].backward = True
        self.value[node], self.needs[node] = None, []

    def _is_there(self, read: Iterable[int], op: Op) -> bool:
        made = {s for o in self.step.ops[: self.step.ops.index(op) + 1] for s in o.outputs}
        return all(s in made or self.storages[s].fixed for s in read)

    def _rebind(self, node: fx.Node, made: list[torch.Tensor]) -> None:
        if isinstance(node.target, Region):
            self.step.rebound[node] = node.target.compiled(self.step.mode)
        on_cpu = node.target is torch.ops.aten.native_dropout_backward.default and self.step.device.type == "cpu"
        if on_cpu and made[0].dtype in (torch.bfloat16, torch.float16):
            self.step.rebound[node] = dropout_backward

    def _run(self, node: fx.Node) -> Any:
        arguments, options = self.step.given(node)
        with self.step.mode, torch.no_grad():
            return node.target(*arguments, **options)  # type: ignore[operator]

    def _truly_typed(self, node: fx.Node, value: Any) -> Any:
        """The CPU's normalizations of half precision with parameters of float32 give statistics of float32.

        Their fake forms give all in the input's type.
        """
        packet = getattr(node.target, "overloadpacket", None)
        if packet not in _NORMALIZATIONS or self.step.device.type != "cpu" or not isinstance(value, (list, tuple)):
            return value
        given = [self.value[self.step.resolve(n)] for n in node.all_input_nodes]
        mixed = any(isinstance(t, torch.Tensor) and t.dtype == torch.float32 for t in given)
        if not mixed or value[0].dtype not in (torch.bfloat16, torch.float16):
            return value
        with self.step.mode:
            return type(value)([value[0], *(t.to(torch.float32) for t in value[1:])])

    def _add_cut(self) -> None:
        """The op for what the user does between the parts: reads the forward outputs and gives the tangents."""
        assert self.step.cut is not None
        missing = [n.name for n in self.step.cut.outputs if self.step.resolve(n) not in self.value]
        if missing:
            raise CaptureError(f"the backward part starts before {missing[0]}, an output of the forward part")
        outputs = [s for n in self.step.cut.outputs for s in self.step.storages_of(n) if not self.storages[s].fixed]
        tangents = [s for n in self.step.cut.tangents for s in self.needs[n]]
        if not tangents:
            tangents = [len(self.storages)]
            self.storages.append(Storage("nothing", 0))
        self.step.cut_op = Op("the user's loss", [], list(dict.fromkeys(outputs)), tangents, recompute=False)
        for op in self.step.ops:
            # The user holds them: a second copy would not save anything.
            op.recompute = op.recompute and not set(op.outputs) & set(outputs)
        self.step.ops.append(self.step.cut_op)

    def _is_update(self, node: fx.Node) -> bool:
        place, source = (self.step.resolve(n) for n in node.args[:2])  # type: ignore[arg-type]
        if place.op != "placeholder":
            return False
        self.step.updates.append((place, source))
        self.step.alias[node] = place
        return True

    @functools.cached_property
    def _shown(self) -> set[int]:
        """Identifiers of the storages of the results in the captured graph."""
        return {storage_of(n.meta.get("val")) for n in self.step.outputs if isinstance(n, fx.Node)} - {0}

    def _is_gradient(self, node: fx.Node) -> bool:
        """Dynamo gives each gradient empty memory and a `copy`. The copy is left out where it changes nothing.

        As autograd itself does: a gradient is handed out as it is if it lies like its parameter in memory of its own.
        """
        place, source = (self.step.resolve(n) for n in node.args[:2])  # type: ignore[arg-type]
        if place.target not in EMPTY:
            return False
        like, value = self.value[place], self.value[source]
        if (like.dtype, like.device) != (value.dtype, value.device) or not same_lengths(like.shape, value.shape):
            return False
        if any(user.op == "output" or is_update(user) for user in node.users):
            (storage,) = self.step.storages_of(source)
            is_shown = storage_of(source.meta.get("val")) in self._shown
            alone = not self.storages[storage].fixed and storage not in self._given and not is_shown
            whole = surely(value.untyped_storage().nbytes() == value.numel() * value.itemsize)
            if not alone or not whole or not same_lengths(like.stride(), value.stride()):
                return False
            self._given.add(storage)
        self.step.alias[node] = source
        return True

    def _drop_unused(self) -> None:
        """Drops ops whose outputs are unused. Random ones stay, because they advance the generator."""
        read = {s for s, storage in enumerate(self.storages) if storage.keep}
        kept: list[Op] = []
        for op in reversed(self.step.ops):
            has_to_run = op.random or not op.nodes or not all(may_run_again(n, self.pure) for n in op.nodes)
            if has_to_run or not read.isdisjoint(op.outputs):
                read.update(op.inputs)
                kept.append(op)
        self.step.ops = kept[::-1]
