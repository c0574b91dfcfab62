# SPDX-License-Identifier: Apache-2.0
"""A joint graph with many like blocks, and the same graph with few of them, on which partitions are looked for.

A model of 24 layers computes the same ops 24 times, and a partition of three layers, which is lowered in a fifth of the
time, shows what one of 24 does. So the blocks in the middle are left out, and their neighbours read one another:

    layers 0 1 2 3 ... 22 23    ->    layers 0 1 23, where 23 reads 1, and backward 1 reads backward 23

A partition of the graph with few blocks names one of the whole graph, where each of its blocks stands for others, too.
So there are no more kinds of blocks than blocks that were kept, and few kernels to compile.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from torch import fx

from ..capture.graph import computed_from, tangents_of
from ..capture.launches import look_of

MANY = 6
"""Fewer like blocks than this are all kept."""
FEW = 3
"""So many of them are kept otherwise: the first ones and the last one."""
MIDDLE = 1
"""The number among them of one that has others before and behind it."""
PERIODS = 8
"""So many lengths of blocks are tried, the likeliest ones."""


@dataclass(frozen=True)
class Run:
    """Blocks of equal ops, one behind the other: `count` of them, each of `period` nodes, from node number `start`."""

    start: int
    period: int
    count: int


@dataclass(frozen=True)
class Pair:
    """Blocks of the forward part, and those that compute their gradients, the last block's first.

    `turn`: backward block `turn - i` belongs to forward block i.
    """

    ahead: Run
    behind: Run
    turn: int

    @property
    def left_out(self) -> range:
        """The blocks of the forward part that are left out."""
        return range(FEW - 1, self.ahead.count - 1)

    def kept(self, block: int, main: int | None) -> int:
        """The kept block that stands for one: `main`, but for the first and the last one; None: each for as many."""
        last = self.ahead.count - 1
        few: list[int] = [*range(FEW - 1), last]
        if main is None:
            return few[block * FEW // self.ahead.count]
        return block if block in (0, last) else few[main]


class Blocks:
    """A joint graph with few of its like blocks (`module`); `share`: the share of the blocks that were kept.

    Arguments and results stay; gradients of what is left out become None.
    """

    def __init__(self, whole: fx.GraphModule, nodes: list[fx.Node], pairs: list[Pair], shown: int) -> None:
        self._pairs = pairs
        self.share = FEW * len(pairs) / sum(pair.ahead.count for pair in pairs)
        # for each node in a block: its pair, whether it is in a backward block, the block, and its place there
        self._role: dict[str, tuple[int, bool, int, int]] = {}
        self._name: dict[tuple[int, bool, int, int], str] = {}
        for i, pair in enumerate(pairs):
            for behind, run in enumerate((pair.ahead, pair.behind)):
                for j in range(run.period * run.count):
                    role = i, bool(behind), j // run.period, j % run.period
                    self._role[nodes[run.start + j].name] = role
                    self._name[role] = nodes[run.start + j].name
        self.module = self._with_few(whole, shown)

    def _forward_block(self, name: str) -> tuple[int, int]:
        """The pair of a node in a block, and the forward block to which its block belongs."""
        pair, behind, block, _ = self._role[name]
        return pair, self._pairs[pair].turn - block if behind else block

    def _is_left_out(self, name: str) -> bool:
        if name not in self._role:
            return False
        pair, block = self._forward_block(name)
        return block in self._pairs[pair].left_out

    def _with_few(self, whole: fx.GraphModule, shown: int) -> fx.GraphModule:
        graph, made = fx.Graph(), dict[str, fx.Node]()

        def copied(reader: fx.Node, node: fx.Node) -> fx.Node:
            return made[self._in_place_of(node.name, reader.name)]

        for node in whole.graph.nodes:
            if node.op == "output":
                results = node.args[0]
                kept = [
                    None if i >= shown and isinstance(n, fx.Node) and self._is_left_out(n.name) else n
                    for i, n in enumerate(results)
                ]
                graph.output(fx.map_arg(kept, functools.partial(copied, node))).meta = dict(node.meta)
            elif not self._is_left_out(node.name):
                made[node.name] = graph.node_copy(node, functools.partial(copied, node))
        found = fx.GraphModule(whole, graph)
        found.meta = whole.meta
        return found

    def _in_place_of(self, name: str, reader: str) -> str:
        """The name of what a kept node reads for another: from the kept block on the other side of those left out.

        KeyError: blocks read others than their neighbours.
        """
        if not self._is_left_out(name):
            return name
        number, behind, _, place = self._role[name]
        pair, block = self._pairs[number], self._forward_block(name)[1]
        own = self._forward_block(reader) if reader in self._role else (-1, 0)
        is_before = own[1] < pair.left_out.start if own[0] == number else behind
        block += len(pair.left_out) if is_before else -len(pair.left_out)
        return self._name[number, behind, pair.turn - block if behind else block, place]

    def whole_of(self, names: Iterable[str], main: int | None = None) -> tuple[str, ...]:
        """The names of the whole graph for those of nodes in the graph with few blocks.

        `main`: the number among few of the block that stands for all but the first and the last; None: each of them
        stands for as many.
        """
        return tuple(dict.fromkeys(found for name in names for found in self._standing_for(name, main)))

    def left_out(self, names: Iterable[str]) -> list[list[str]]:
        """For each pair, those of names of the whole graph that are in blocks that are left out."""
        found: list[list[str]] = [[] for _ in self._pairs]
        for name in filter(self._is_left_out, names):
            found[self._role[name][0]].append(name)
        return found

    def grown(self, rows: Sequence[Iterable[str]], behind: bool, before: list[int], after: list[int]) -> list[int]:
        """Bytes that what is left out adds to what is held while each of a row of calls runs.

        `rows`: the nodes that each call computes, by name, in a part of the graph with few blocks. `before`, `after`:
        for each pair, the bytes that its blocks hold until they run, and then. The block `MIDDLE` stands for all of
        them.
        """
        blocks = [{self._role[name][:3] for name in row if name in self._role} for row in rows]
        found = [0] * len(rows)
        for number, pair in enumerate(self._pairs):
            ends = [pair.turn - block if behind else block for block in (MIDDLE, 0 if behind else pair.ahead.count - 1)]
            first, last = (
                next((i for i, row in enumerate(blocks) if (number, behind, end) in row), len(rows)) for end in ends
            )
            sizes = before[number], after[number]
            for i in range(len(rows)):
                found[i] += sizes[0] if i < first else max(sizes) if i <= last else sizes[1]
        return found

    def _standing_for(self, name: str, main: int | None) -> list[str]:
        if name not in self._role:
            return [name]
        number, behind, _, place = self._role[name]
        pair, own = self._pairs[number], self._forward_block(name)[1]
        blocks = range(pair.ahead.count)
        if own not in blocks:
            return [name]
        places = [(number, behind, pair.turn - i if behind else i, place) for i in blocks if pair.kept(i, main) == own]
        return [self._name[one] for one in places if one in self._name]


def few_blocks(module: fx.GraphModule, shown: int) -> Blocks | None:
    """A joint graph with few of its like blocks; None where it has not many, or they are not like one another.

    `shown`: how many of its results are the user's.
    """
    nodes = [node for node in module.graph.nodes if node.op == "call_function"]
    signs = dict[Any, int]()
    row = [signs.setdefault((str(n.target), repr(look_of(n.meta.get("val")))), len(signs)) for n in nodes]
    runs = [run for run in runs_in(row) if run.count >= MANY]
    behind = computed_from(tangents_of(module.graph), module.graph)
    forward = [run for run in runs if behind.isdisjoint(_of(run, nodes))]
    left = [run for run in runs if run not in forward]
    pairs: list[Pair] = []
    for run in forward:
        pair = _paired(run, left, nodes)
        if pair is not None:
            pairs.append(pair)
            left.remove(pair.behind)
    try:
        return Blocks(module, nodes, pairs, shown) if pairs else None
    except KeyError:  # blocks read others than their neighbours
        return None


def _paired(ahead: Run, others: list[Run], nodes: list[fx.Node]) -> Pair | None:
    """The blocks that compute the gradients of a run's: those that read most of what the run computes."""
    place = {node: i // ahead.period for i, node in enumerate(_of(ahead, nodes))}
    best: tuple[int, Pair] | None = None
    for run in others:
        turns = Counter(
            place[read] + i // run.period
            for i, node in enumerate(_of(run, nodes))
            for read in node.all_input_nodes
            if read in place
        )
        for turn, count in turns.most_common(1):
            pair = Pair(ahead, run, turn)
            has_neighbours = all(0 < turn - block < run.count - 1 for block in pair.left_out)
            if has_neighbours and (best is None or count > best[0]):
                best = count, pair
    return None if best is None else best[1]


def _of(run: Run, nodes: list[fx.Node]) -> list[fx.Node]:
    return nodes[run.start : run.start + run.period * run.count]


def runs_in(row: Sequence[int]) -> list[Run]:
    """The longest runs of like blocks, at least three each, none within another, in order."""

    def longest(first: int, last: int) -> Run | None:
        seen, gaps = dict[int, int](), Counter[int]()
        for i in range(first, last):
            if row[i] in seen:
                gaps[i - seen[row[i]]] += 1
            seen[row[i]] = i
        best: tuple[int, Run] | None = None
        for period, _ in gaps.most_common(PERIODS):
            length = 0
            for i in range(first, last - period):
                length = length + 1 if row[i] == row[i + period] else 0
                if length >= 2 * period and (best is None or length > best[0]):
                    best = length, Run(i + 1 - length, period, (length + period) // period)
        return None if best is None else best[1]

    found: list[Run] = []
    ahead = [(0, len(row))]
    while ahead:
        first, last = ahead.pop()
        run = longest(first, last)
        if run is not None:
            found.append(run)
            ahead += [(first, run.start), (run.start + run.period * run.count, last)]
    return sorted(found, key=lambda run: run.start)
