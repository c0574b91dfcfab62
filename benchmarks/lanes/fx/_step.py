# SPDX-License-Identifier: Apache-2.0
"""A forward and a backward text as one training step: what runs, what it writes, and what runs again."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Literal

from fx._shapes import (
    COLLECTIVES,
    DECIDED,
    VIEWS,
    Tensor,
    UnknownTarget,
    flops_of,
    is_kernel_part,
    name_of,
    references,
    shape_of,
)
from fx._text import GETITEM, Argument, Node, Ref, Text
from remora.errors import InputError

Phase = Literal["forward", "loss", "backward"]
LOSS = "loss"


@dataclass
class Work:
    """An op of the step: a node, with the nodes whose results only it reads where all of them make one kernel."""

    name: str
    kind: str
    phase: Phase
    inputs: list[str]
    outputs: dict[str, int]
    """Bytes by tensor."""
    flops: float = 0.0
    group: str = ""
    """The group of a collective."""
    devices: int = 0
    """In the group; 0 where the text does not say."""
    put_in: int = 0
    """Bytes that each device puts into a collective."""
    workspace: int = 0
    takes_over: dict[str, str] = field(default_factory=dict)


@dataclass
class JointStep:
    """A training step."""

    arguments: dict[str, int]
    """Bytes that are allocated before it."""
    works: list[Work]
    kept: set[str]
    again: set[str]
    """Ops of the forward part that the backward text runs again."""
    gradient_of: dict[str, str] = field(default_factory=dict)
    """By tensor, the argument whose gradient it is."""


def join(forward: Text, backward: Text, even: bool = False) -> JointStep:
    """One step of both texts.

    A name that both have is one op. What the forward text merges into another kernel and the backward text computes
    once more is an op of the backward part. `even`: bins of histograms are alike; otherwise numbers that data decide
    are what the backward text states.
    """
    return _Join(forward, backward, even).step()


class _Join:
    def __init__(self, forward: Text, backward: Text, even: bool) -> None:
        self.forward, self.backward, self.even = forward, backward, even
        self.nodes: dict[str, Node] = {}
        self.phase: dict[str, Phase] = {}
        self.values: dict[str, Any] = {}
        self.arguments: dict[str, Argument] = dict(forward.arguments)
        self.saved: set[str] = set()
        self.kept: set[str] = set()
        self.again: set[str] = set()
        self.inlined: set[str] = set()

    def step(self) -> JointStep:
        for name in self.arguments:
            self.values[name] = _value_of(self.forward, name)
        for node in self.forward.nodes:
            self._add(node, "forward", self.forward)
        known = set(self.nodes) | set(self.arguments)
        self.saved = {name for name in self.backward.arguments if name in known}
        fused = self._fusions(self.nodes, keeps=self.saved | {name for name in self.forward.results if name})
        self._add_loss()
        self._add_backward(fused)
        self.kept = {self._backward_name(name) for name in self.backward.results if name}
        return self._assemble()

    def _fail(self, text: Text, node: Node, what: str) -> InputError:
        return InputError(f"{text.path}:{node.line}", f"{node.name}: {what}")

    def _add(self, node: Node, phase: Phase, text: Text) -> None:
        try:
            if name_of(node.target) == DECIDED:
                self.values[node.name] = self._decided(node)
            else:
                self.values[node.name] = shape_of(node, self._resolved(list(node.args)))
        except UnknownTarget as error:
            raise self._fail(text, node, str(error)) from None
        self.nodes[node.name] = node
        self.phase[node.name] = phase

    def _decided(self, node: Node) -> int:
        """A number that data decides: a bin of a histogram, or the value that the backward text states."""
        if self.even:
            [source] = self._tensors(node.args)
            if self.values[source].even is None:
                raise UnknownTarget("is a number that only data decide, and it is not of a histogram")
            each: float = self.values[source].even
            return round(each)
        argument = self.backward.arguments.get(node.name)
        if argument is None or argument.value is None:
            raise UnknownTarget(
                f"is a number that only data decide, and {self.backward.path} does not say which: `even` takes bins of "
                "histograms to be alike"
            )
        return argument.value

    def _tensors(self, args: Any) -> list[str]:
        """The nodes and arguments with storage that are read."""
        return [r for r in references(args) if isinstance(self.values[r], (Tensor, list, dict))]

    def _resolved(self, value: Any) -> Any:
        if isinstance(value, Ref):
            return self.values[value.name]
        if isinstance(value, dict):
            return {key: self._resolved(item) for key, item in value.items()}
        return [self._resolved(item) for item in value] if isinstance(value, list) else value

    def _add_loss(self) -> None:
        """Adds the ops between the texts.

        They read the forward outputs that are not saved alone, and write backward's other arguments.
        """
        results = self._tensors([Ref(name) for name in self.forward.results if name])
        given = [name for name in results if name not in self.saved]
        wanted = [name for name in self.backward.arguments if name not in self.saved]
        if len(given) != len(wanted):
            raise InputError(
                self.backward.path,
                f"takes {len(wanted)} arguments that the forward text does not have ({', '.join(wanted[:4])}), and "
                f"the forward text gives {len(given)} results that are not saved: the texts are not of one step",
            )
        for name in wanted:
            self.values[name] = _value_of(self.backward, name)
        for name, argument in self.backward.arguments.items():
            mine = self.values[name]
            if self.even and argument.value is not None:
                continue  # a number of another run
            if not _agrees(mine, argument):
                raise InputError(
                    self.backward.path,
                    f"{name}: {argument.value or argument.shape} of {argument.dtype}, but "
                    f"the forward text makes {mine}",
                )
        self.loss = (given, wanted)

    def _add_backward(self, fused: dict[str, str]) -> None:
        """`fused`: the forward nodes that are a part of another one's kernel, or read in the place of their source."""
        self.renamed: dict[str, str] = {}
        forward_names = set(self.nodes)
        for node in self.backward.nodes:
            own = Node(node.name, node.target, _renamed(node.args, self.renamed), node.kwargs, node.line)
            if node.name in forward_names:
                first = self.nodes[node.name]
                same = (first.target, first.args, first.kwargs) == (node.target, node.args, node.kwargs)
                if not same:
                    raise self._fail(self.backward, node, f"is another op than in {self.forward.path}")
                view = name_of(node.target) in VIEWS or node.target == GETITEM
                if node.name not in fused and (not view or own.args == node.args):
                    self.again.add(node.name)
                    continue
                self.renamed[node.name] = node.name + ".again"
                own = Node(node.name + ".again", own.target, own.args, own.kwargs, own.line)
            self._add(own, "backward", self.backward)

    def _backward_name(self, name: str) -> str:
        return self.renamed.get(name, name)

    def _base(self, name: str) -> str:
        """The node or argument whose storage it shares."""
        while name in self.nodes:
            node = self.nodes[name]
            is_pick = node.target == GETITEM and isinstance(self.values[node.args[0].name], (list, dict))
            picked_view = is_pick and name_of(self.nodes[node.args[0].name].target) in VIEWS
            if is_pick and not picked_view:
                return name
            if name_of(node.target) not in VIEWS and node.target != GETITEM and name not in self.inlined:
                return name
            name = self._tensors(node.args)[0]
        return name

    def _is_op(self, name: str) -> bool:
        """True if the node is none of the views, items and numbers."""
        if not isinstance(self.values[name], (Tensor, list, dict)):
            return False
        return self._base(name) == name and self.nodes[name].target != GETITEM

    def _readers(self, nodes: Iterable[str]) -> dict[str, list[str]]:
        """By node or argument, the nodes that read its storage; those that share it left out."""
        readers: dict[str, list[str]] = defaultdict(list)
        for name in nodes:
            if not self._is_op(name):
                continue
            for source in dict.fromkeys(self._base(r) for r in self._tensors(self.nodes[name].args)):
                readers[source].append(name)
        return readers

    def _fusions(self, nodes: Iterable[str], keeps: set[str]) -> dict[str, str]:
        """By node, the one into whose kernel it goes.

        What a cast to a larger type casts is read in its place where only parts of kernels read it. Then what one part
        of a kernel alone reads goes into that one's kernel. `keeps`: nodes that something else needs.
        """
        nodes = list(nodes)
        held = {self._base(name) for name in keeps}
        readers = self._readers(nodes)
        for name in nodes:
            node = self.nodes[name]
            if name_of(node.target) != "convert_element_type" or name in held:
                continue
            [source] = self._tensors(node.args)
            grows = self.values[name].size > self.values[source].size
            if grows and all(is_kernel_part(name_of(self.nodes[r].target)) for r in readers[name]):
                self.inlined.add(name)
        readers = self._readers(nodes)
        into: dict[str, str] = {name: self._base(name) for name in self.inlined}
        for name in nodes:
            node = self.nodes[name]
            if name in self.inlined or name in held or not is_kernel_part(name_of(node.target)):
                continue
            if len(readers[name]) != 1:
                continue
            [reader] = readers[name]
            kind = name_of(self.nodes[reader].target)
            # A shard is cast where it is gathered from.
            is_shard = kind in COLLECTIVES and all(self._base(r) in self.arguments for r in self._tensors(node.args))
            if is_kernel_part(kind) or is_shard:
                into[name] = reader
        return into

    def _assemble(self) -> JointStep:
        keeps = self.kept | self.saved | set(self.loss[0])
        alive = self._alive()
        into = self._fusions([name for name in self.nodes if name in alive], keeps)
        members: dict[str, list[str]] = defaultdict(list)
        for name in self.nodes:
            if name not in alive:
                continue
            root = name
            while root in into and root not in self.inlined:
                root = into[root]
            members[root].append(name)
        works: list[Work] = []
        given, wanted = self.loss
        loss = Work(
            LOSS,
            LOSS,
            "loss",
            list(dict.fromkeys(self._base(name) for name in given)),
            {name: self.values[name].size for name in wanted if isinstance(self.values[name], Tensor)},
        )
        for name in self.nodes:
            if self.phase[name] == "backward" and loss not in works:
                works.append(loss)
            if name in into or name not in alive or not self._is_op(name):
                continue
            works.append(self._work(name, members[name], alive))
        made = {tensor for work in works for tensor in work.outputs}
        arguments = {n: v.size for n in self.arguments if isinstance(v := self.values[n], Tensor)}
        kept = {self._base(name) for name in self.kept} & made
        names = {work.name for work in works}
        results = zip(self.forward.arguments, self.backward.results, strict=False)
        gradients = {self._base(self._backward_name(result)): name for name, result in results if result}
        return JointStep(arguments, works, kept, self.again & names, gradients)

    def _alive(self) -> set[str]:
        """Nodes that are kept or read, directly or not."""
        stack = [*self.kept, *self.loss[0]]
        alive: set[str] = set()
        while stack:
            name = stack.pop()
            if name in alive:
                continue
            alive.add(name)
            if name in self.nodes:
                stack += self._tensors(self.nodes[name].args)
        return alive

    def _work(self, name: str, members: list[str], alive: set[str]) -> Work:
        node = self.nodes[name]
        kind = name_of(node.target)
        inside = set(members)
        read = [self._base(r) for member in members for r in self._tensors(self.nodes[member].args)]
        inputs = [r for r in dict.fromkeys(read) if r not in inside]
        value = self.values[name]
        if isinstance(value, (list, dict)):
            picks = [
                n
                for n in self.nodes
                if n in alive and self.nodes[n].target == GETITEM and self.nodes[n].args[0] == Ref(name)
            ]
            outputs = {pick: self.values[pick].size for pick in picks}
        else:
            outputs = {name: value.size}
        work = Work(name, kind, self.phase[name], inputs, outputs, flops_of(node, self._resolved(list(node.args))))
        if kind in COLLECTIVES:
            source = self.values[self._tensors(node.args)[0]]
            work.group, work.put_in = str(node.args[-1]), source.size
            said = node.args[-2]
            work.devices = 0 if kind == "all_reduce" else len(said) if isinstance(said, list) else int(said)
            work.workspace = sum(
                self.values[member].size
                for member in members
                if member in self.nodes and member != name and is_kernel_part(name_of(self.nodes[member].target))
            )
        if kind == "index_put":
            target = self._base(self._tensors(node.args)[0])
            if target not in self.arguments:
                work.takes_over[name] = target
        return work


def _value_of(text: Text, name: str) -> Tensor | int:
    argument = text.arguments[name]
    if argument.value is not None:
        return argument.value
    shape = tuple(size for size in argument.shape if size is not None)
    if len(shape) < len(argument.shape):
        raise InputError(text.path, f"{name}: sizes that only data decide, and no op that makes it")
    return Tensor(shape, argument.dtype)


def _agrees(value: Any, argument: Argument) -> bool:
    """True if an argument of the backward text is the output of the forward text."""
    if argument.value is not None or not isinstance(value, Tensor):
        return bool(value == argument.value)
    same = [stated in (None, size) for stated, size in zip(argument.shape, value.shape, strict=False)]
    return value.dtype == argument.dtype and len(value.shape) == len(argument.shape) and all(same)


def _renamed(value: Any, names: dict[str, str]) -> Any:
    if isinstance(value, Ref):
        return Ref(names.get(value.name, value.name))
    if isinstance(value, tuple):
        return tuple(_renamed(item, names) for item in value)
    if isinstance(value, dict):
        return {key: _renamed(item, names) for key, item in value.items()}
    return [_renamed(item, names) for item in value] if isinstance(value, list) else value
