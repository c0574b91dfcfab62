# SPDX-License-Identifier: Apache-2.0
"""A lowered partition whose loops the engine schedules: from there it finds others."""

from __future__ import annotations

import functools

from torch import fx

import remora

from ..capture.launches import Look, look_of
from ..problem.loops import CUT, Half, graph_of, merged
from ..problem.partition import Joint, Partition

SMALL = 256
"""A value is small that takes no more than this part of the largest that the partition saves."""


class Base:
    """A partition whose loops the engine schedules: saved values may be recomputed, and vice versa.

    `halves`: the two parts, lowered. `fused`: the share of its time that a forward loop takes when it is
    recomputed.
    """

    def __init__(self, joint: Joint, halves: tuple[Half, Half], partition: Partition, fused: float) -> None:
        self.joint, self.halves, self.partition, self._fused = joint, halves, partition, fused
        self._values = {node.name: look_of(node.meta.get("val")) for node in joint.module.graph.nodes}
        self._buffers = self._nodes_by_buffer()
        self._origins = {
            f"{half}/{loops[0].name}": [name for loop in loops for name in sorted(loop.origins)]
            for half, part in zip(("forward", "backward"), self.halves, strict=True)
            for loops in merged(part)
        }

    @functools.cached_property
    def graph(self) -> remora.Graph:
        """Its loops, for the engine."""
        joint, (forward, backward) = self.joint, self.halves
        later = joint.later.needed, joint.later.gradients
        may = lambda name: name not in joint.once  # noqa: E731
        return graph_of(forward, backward, joint.shown, joint.fixed, joint.calls, may, later, self._fused, joint.loss)

    def _nodes_by_buffer(self) -> dict[str, list[str]]:
        """For each buffer of the forward part, the nodes of the joint graph that are that buffer."""
        forward = self.halves[0]
        outputs = forward.module.graph.find_nodes(op="output")[0].args[0]
        found: dict[str, list[str]] = {}
        for node, name in zip(outputs, forward.program.outputs, strict=True):
            if isinstance(node, fx.Node) and node.name in self.partition.saved:
                for solid in forward.program.solid(name):
                    found.setdefault(solid, []).append(node.name)
        for name, node in forward.program.nodes.items():
            if name not in found and isinstance(self._values.get(node), Look):
                found[name] = [node]
        return found

    @functools.cached_property
    def _largest(self) -> int:
        """Bytes of the largest value that the partition saves."""
        return max(
            (look.size for n in self.partition.saved if isinstance(look := self._values.get(n), Look)), default=0
        )

    def _is_small(self, name: str) -> bool:
        look = self._values.get(name)
        return isinstance(look, Look) and look.size * SMALL <= self._largest

    def chosen(self, schedule: remora.Schedule) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Values that a schedule holds over the cut, and the nodes behind it in its order.

        Small values take no memory to speak of, yet decide which kernels Inductor makes: they stay as they are, but for
        masks that any kernel computes from the arguments.
        """
        held: dict[str, None] = {}
        steps = iter(schedule.steps)
        for step in steps:
            if step.op.name == CUT:
                break
            held.update(dict.fromkeys(tensor.name for tensor in step.op.outputs))
            for tensor in step.free:
                held.pop(tensor.name, None)
        nodes = {n for name in held for n in self._buffers.get(name.removeprefix("forward/"), ())}
        saved = {n for n in nodes if not self._is_small(n)} | {n for n in self.partition.saved if self._is_small(n)}
        behind = postponed([step.op for step in steps])
        order = tuple(name for op in behind for name in self._origins.get(op.name, ()))
        return tuple(sorted(saved - self.joint.given_masks)), order


def postponed(ops: list[remora.Op]) -> list[remora.Op]:
    """The ops behind the cut, where forward ops come as late as their readers allow if no more is held for that.

    Below its peak a schedule may recompute at any time, but Inductor's programs have their peaks elsewhere.
    """
    row = list(ops)
    reads, writes = [{t.name for t in op.inputs} for op in row], [{t.name for t in op.outputs} for op in row]

    def last_read(name: str, start: int) -> int:
        end = next((i for i in range(start, len(row)) if name in writes[i]), len(row))  # it is computed anew there
        return max(i for i in range(start, end) if name in reads[i])

    for place in reversed(range(len(row))):
        op = row[place]
        if op.phase != "forward":
            continue
        target = next((i for i in range(place + 1, len(row)) if not writes[place].isdisjoint(reads[i])), place)
        longer = [(last, t.size) for t in op.inputs if (last := last_read(t.name, place)) < target]
        if sum(size for _, size in longer) > sum(t.size for t in op.outputs):
            target = min(last for last, _ in longer)
        if target > place + 1:
            row.insert(target - 1, row.pop(place))
            for names in (reads, writes):
                names.insert(target - 1, names.pop(place))
    return row
