# SPDX-License-Identifier: Apache-2.0
"""The peak of a partition, estimated on the joint graph: nothing is parted or lowered for it.

Nodes are buffers that are buffers in a partition that was lowered; others are computed where they are read. A value
that is not saved is recomputed before its first reader in the backward part. The estimate ranks choices of saved
values; the one that is taken is lowered.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence

from torch import fx

from ..capture.graph import computed_from, storage_of, tangents_of
from ..capture.launches import Look, look_of


class Sketch:
    """A joint graph, of which every partition is estimated; `shown`: how many of its outputs are the user's."""

    def __init__(self, module: fx.GraphModule, shown: int) -> None:
        self._shown = shown
        self._nodes = [node for node in module.graph.nodes if node.op == "call_function"]
        self._outputs = [n for n in module.graph.find_nodes(op="output")[0].args[0] if isinstance(n, fx.Node)]
        self._behind = computed_from(tangents_of(module.graph), module.graph)
        self._place = {node: storage_of(node.meta.get("val")) for node in module.graph.nodes}
        self._size = dict[int, int]()
        for node in self._nodes:
            look = look_of(node.meta.get("val"))
            if isinstance(look, Look) and self._place[node]:
                self._size.setdefault(self._place[node], look.elements * look.dtype.itemsize)
        for node in module.graph.find_nodes(op="placeholder"):
            self._size[self._place[node]] = 0

    def bytes_of(self, saved: Collection[str]) -> int:
        """Bytes of saved values."""
        return sum(self._size.get(place, 0) for place in {self._place[n] for n in self._nodes if n.name in saved})

    def peak(self, made: Collection[str], saved: Collection[str], order: Sequence[str] = ()) -> int:
        """Bytes at once beyond the graph's arguments, of both parts.

        `made`: names of the nodes that are buffers. `saved`: of those that are saved. `order`: of nodes of the backward
        part, in their order.
        """
        kept = {node for node in self._nodes if node.name in saved}
        solid = {node for node in self._nodes if node.name in made or node in kept}
        reads = self._reads(solid)
        shown = [*self._outputs[: self._shown], *kept]
        needed = set(_ordered(shown, reads, lambda node: node in self._behind))
        ahead = [node for node in self._nodes if node in needed]  # what is saved comes when it can, not behind the loss
        first, held = self._most(ahead, reads, {}, self._places(shown, reads, solid))
        results = self._outputs[self._shown :]
        place = {name: i for i, name in enumerate(order)}
        last = [node for node in self._nodes if node in self._behind and node in solid]
        last.sort(key=lambda node: place.get(node.name, len(order)))  # others come where they are read
        again = list(_ordered([*last, *results], reads, lambda node: node in kept or node.op != "call_function"))
        there = {self._place[node]: held.get(self._place[node], 0) for node in kept}
        second, _ = self._most(again, reads, there, self._places(results, reads, solid))
        return max(first, second)

    def _places(
        self, nodes: list[fx.Node], reads: dict[fx.Node, list[fx.Node]], solid: Collection[fx.Node]
    ) -> set[int]:
        """The storages of nodes; of those that are no buffers, the ones of what they are computed from."""
        return {self._place[one] for node in nodes for one in ([node] if node in solid else reads.get(node, ()))}

    def _reads(self, solid: Collection[fx.Node]) -> dict[fx.Node, list[fx.Node]]:
        """For each node the buffers from which it is computed."""
        found: dict[fx.Node, list[fx.Node]] = {}
        for node in self._nodes:
            row: dict[fx.Node, None] = {}
            for one in node.all_input_nodes:
                is_buffer = one in solid or one.op != "call_function"
                row.update(dict.fromkeys([one] if is_buffer else found[one]))
            found[node] = list(row)
        return found

    def _most(
        self, steps: list[fx.Node], reads: dict[fx.Node, list[fx.Node]], there: dict[int, int], stays: Collection[int]
    ) -> tuple[int, dict[int, int]]:
        """The most bytes that a row of steps holds, and what it leaves."""
        last: dict[int, int] = {}
        for i, node in enumerate(steps):
            for one in (node, *reads[node]):
                last[self._place[one]] = i
        ends: dict[int, list[int]] = {}
        for place, i in last.items():
            if place not in stays:
                ends.setdefault(i, []).append(place)
        held = dict(there)
        now = most = sum(held.values())
        for i, node in enumerate(steps):
            place = self._place[node]
            if place and place not in held:
                held[place] = self._size.get(place, 0)
                now += held[place]
                most = max(most, now)
            for gone in ends.get(i, ()):
                now -= held.pop(gone, 0)
        return most, held


def _ordered(
    wanted: list[fx.Node], reads: dict[fx.Node, list[fx.Node]], is_there: Callable[[fx.Node], bool]
) -> Iterator[fx.Node]:
    """The wanted nodes, each behind what it is computed from, as late as its order allows."""
    done: set[fx.Node] = set()

    def is_missing(node: fx.Node) -> bool:
        return node in reads and node not in done and not is_there(node)

    for last in wanted:
        ahead = [last]
        while ahead:
            node = ahead[-1]
            missing = [n for n in reads[node] if is_missing(n)] if is_missing(node) else []
            if missing:
                ahead += reversed(missing)
                continue
            ahead.pop()
            if is_missing(node):
                done.add(node)
                yield node
