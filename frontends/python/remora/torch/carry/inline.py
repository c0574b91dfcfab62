# SPDX-License-Identifier: Apache-2.0
"""Values of the forward pass that regions of the backward pass compute for themselves instead of reading them.

A region of the forward computes in one loop what takes many tensors in eager: casts, the parts of an activation, the
logarithms of probabilities. Backward regions read most of these. Where they can be computed from fewer bytes, which are
there already or are saved instead, the region that reads them computes them again, in its own loop:

    product (saved) -> [ cast -> log_softmax -> loss ]         the forward region writes the loss alone
              |
              +------> [ cast -> log_softmax -> gradient ]     the backward region reads the product

So a step keeps what Inductor's own partition keeps, and no op runs again as one of its own.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator, Mapping

from torch import fx

from ..capture.graph import Op, StepGraph, tensors_in

SMALL = 8
"""The result of a reduction has fewer elements than its input, by this factor: it is saved."""


class Values:
    """The values of a graph, and the ops that read them.

    A node is a value (of an op, an argument, a constant, or an item of an op's outputs) or a view of values.
    """

    def __init__(self, step: StepGraph) -> None:
        self.step = step
        self.readers: dict[fx.Node, list[Op]] = {}
        for op in step.ops:
            for value in self.read_by(op):
                self.readers.setdefault(value, []).append(op)
        ends = [*step.results(), *(n for n in step.outputs if isinstance(n, fx.Node))]
        self.results = {value for node in ends for value in self.sources(node)}

    def read_by(self, op: Op) -> Iterator[fx.Node]:
        """The values that an op reads."""
        for node in op.nodes:
            for read in node.all_input_nodes:
                yield from self.sources(read)

    def sources(self, node: fx.Node) -> Iterator[fx.Node]:
        """The values that a node is, or is a view of."""
        node = self.named(node)
        if self.is_value(node):
            yield node
        else:
            for read in node.all_input_nodes:
                yield from self.sources(read)

    def named(self, node: fx.Node) -> fx.Node:
        """The one node that stands for a value: of all that take the same item of an op's outputs, the first."""
        node = self.step.resolve(node)
        if node.target is operator.getitem:
            source = node.all_input_nodes[0]
            return next(u for u in source.users if u.target is operator.getitem and u.args[1] == node.args[1])
        return node

    def is_value(self, node: fx.Node) -> bool:
        """True if a node is a value, not a view."""
        if node.target is operator.getitem:
            return self.step.resolve(node.all_input_nodes[0]) in self.step.owner
        return node.op in ("placeholder", "get_attr") or node in self.step.owner

    def op_of(self, value: fx.Node) -> Op | None:
        """The op that makes a value."""
        node = self.step.resolve(value.all_input_nodes[0]) if value.target is operator.getitem else value
        return self.step.owner.get(node)

    def size(self, value: fx.Node) -> int:
        """Bytes."""
        return sum(self.step.bytes_of(t) for t in tensors_in(self.step.value[value]))

    def elements(self, value: fx.Node) -> int:
        """A number."""
        return sum(t.numel() for t in tensors_in(self.step.value[value]))


class Inlined:
    """Chooses these values.

    `region_of`: the regions, as they would be if nothing ran again. `loops`: of the ops that Inductor makes loops of,
    whether they are of the backward pass. `nodes`: the values, and the nodes of their ops.
    """

    def __init__(self, values: Values, region_of: Mapping[Op, list[Op]], loops: Mapping[Op, bool]) -> None:
        self.values, self.loops = values, loops
        self.nodes: set[fx.Node] = set()
        self._saved: set[fx.Node] = set()  # what is saved in their place
        forward = {id(r): r for r in (region_of.get(op, [op]) for op, backward in loops.items() if not backward)}
        made: dict[Op, list[fx.Node]] = {}
        for value in values.readers:
            op = values.op_of(value)
            if op is not None:
                made.setdefault(op, []).append(value)
        for region in forward.values():
            inside = frozenset(region)
            wanted = [v for op in region for v in made.get(op, []) if self._may(v, op, inside)]
            if wanted and not self._take(wanted, inside):
                for value in wanted:
                    self._take([value], inside)

    def sources(self, value: fx.Node) -> list[fx.Node]:
        """The values from which a value is computed, if it is one of these; otherwise itself."""
        return [node for node in self.closure([value]) if node not in self.nodes]

    def closure(self, values: Iterable[fx.Node]) -> Iterable[fx.Node]:
        """Values, and those from which they are computed if they are among these, each once."""
        found = dict.fromkeys(values)
        ahead = list(found)
        while ahead:
            node = ahead.pop()
            op = self.values.op_of(node) if node in self.nodes else None
            more = [read for read in self.values.read_by(op) if read not in found] if op is not None else []
            found.update(dict.fromkeys(more))
            ahead += more
        return found

    def reads(self, op: Op) -> bool:
        """True if an op of the backward pass reads such a value."""
        return op.backward and not self.nodes.isdisjoint(self.values.read_by(op))

    def _may(self, value: fx.Node, op: Op, inside: frozenset[Op]) -> bool:
        """True if only loops of the backward pass read a value behind its region."""
        behind = [reader for reader in self.values.readers[value] if reader not in inside]
        alone = all(reader.backward and reader in self.loops for reader in behind)
        return bool(behind) and alone and value not in self.values.results and not self._is_small(value, op)

    def _is_small(self, value: fx.Node, op: Op) -> bool:
        return SMALL * self.values.elements(value) <= max(map(self.values.elements, self.values.read_by(op)), default=0)

    def _take(self, wanted: list[fx.Node], inside: frozenset[Op]) -> bool:
        """Takes values if what they are computed from is smaller."""
        chain, roots = dict.fromkeys(wanted), dict[fx.Node, None]()
        ahead = list(wanted)
        while ahead:
            op = self.values.op_of(ahead.pop())
            assert op is not None
            for read in self.values.read_by(op):
                maker = self.values.op_of(read)
                if read in chain:
                    continue
                if self.values.step.cut is not None and read.op == "placeholder":
                    return False  # the user may change it between the two parts
                own = maker is not None and maker in inside and not self._is_small(read, maker)
                if own and not self._is_kept(read):
                    chain[read] = None
                    ahead.append(read)
                else:
                    roots[read] = None
        cost = sum(self.values.size(root) for root in roots if not self._is_kept(root))
        if cost >= sum(map(self.values.size, wanted)):
            return False
        self._saved.update(roots)
        self.nodes.update(chain)
        self.nodes.update(n for value in chain for n in self._ops(value))
        return True

    def _ops(self, value: fx.Node) -> Iterable[fx.Node]:
        op = self.values.op_of(value)
        return op.nodes if op is not None else ()

    def _is_kept(self, value: fx.Node) -> bool:
        """True if a value is available in the backward pass in any case."""
        if value in self._saved or self.values.op_of(value) is None:
            return True
        return value not in self.nodes and any(reader.backward for reader in self.values.readers[value])
