# SPDX-License-Identifier: Apache-2.0
"""A sharded step as a graph with lanes, and the schedules of it that FSDP2 can run.

Gathered parameters are tensors whose producer is a collective, so that to gather them again is a recompute; what a
block saves is made of *pieces*, one for each of its modes beyond the one before (`decide.modes`), whose producers
read the parameters. What a stretch of the step takes otherwise is the workspace of its op.

    communication  gather 0 . gather 1 ...                        (gather 1)        (gather 0)
    compute                 . block 0 . piece 0 1 . block 1 ... middle . (piece) backward 1 ... backward 0
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import remora

from ..capture.sharded import Unit
from .family import Mode

DEVICE = "device"


@dataclass(frozen=True)
class Block:
    """A unit, what may be done with its activations, and nanoseconds of its forward and backward.

    `modes`: the first is the block as it is; `saved` has the slots 0 to n - 1 of the forwards, n between, n + 1 on of
    the backwards from the last unit's.
    """

    unit: Unit
    modes: list[Mode]
    forward: int
    backward: int


class StepGraph:
    """The graph of a step under a budget."""

    def __init__(self, blocks: Sequence[Block], base: Sequence[int], middle: int, overlaps: bool) -> None:
        """`base`: bytes of each slot with all kept; `overlaps`: gathers run beside computing."""
        self.blocks, self.base, self.middle = blocks, base, middle
        self.lane = {"lane": "communication"} if overlaps else {}
        self.freed = [_freed(block.modes, i, len(blocks)) for i, block in enumerate(blocks)]
        self.tensors: list[dict[str, Any]] = []
        self.ops: list[dict[str, Any]] = []
        need = self._needs()
        self.lift = max(0, -min(need))
        self._build([amount + self.lift for amount in need])
        document = {
            "format": "remora-graph",
            "version": 3,
            "name": "sharded step",
            "meta": {"duration_unit": "ns"},
            "devices": [{"name": DEVICE, "lanes": ["compute", "communication"]}],
            "tensors": self.tensors,
            "ops": self.ops,
        }
        self.graph = remora.DeviceGraph.from_json(document)

    def pieces(self, number: int) -> list[int]:
        """The modes beyond the first."""
        return list(range(1, len(self.blocks[number].modes)))

    def _needs(self) -> list[int]:
        """What each slot takes beside gathered parameters and pieces, at least, whatever the modes."""
        count = len(self.blocks)
        needs = []
        for slot, base in enumerate(self.base):
            last = slot if slot < count else 2 * count - slot  # with parameters
            need = base
            for i, block in enumerate(self.blocks):
                saves, freed = [mode.saved[slot] for mode in block.modes], self.freed[i]
                if i < slot < 2 * count - i:
                    need -= max(s + freed[-1] - f for s, f in zip(saves, freed, strict=True))
                else:  # its pieces are not there yet, or all of them again
                    need -= max(saves) + (freed[-1] if slot == 2 * count - i else 0)
                if i <= last:
                    need -= block.unit.gather.parameters
            needs.append(need)
        return needs

    def _build(self, need: Sequence[int]) -> None:
        for i, block in enumerate(self.blocks):
            gather = block.unit.gather
            self._op(
                f"gather {i}",
                round(1e9 * gather.seconds),
                [],
                {f"parameters {i}": gather.parameters},
                self.lane,
                0,  # what it takes for a moment is left out: a bound has to hold wherever FSDP issues it
            )
            times = [block.modes[k].time - block.modes[k - 1].time for k in self.pieces(i)]
            rest = max(0, block.forward - sum(times))
            self._op(f"block {i}", rest, [f"parameters {i}"], {f"output {i}": 0}, {"recompute": "never"}, need[i])
            for k, duration in zip(self.pieces(i), times, strict=True):
                size = self.freed[i][k] - self.freed[i][k - 1]
                self._op(f"piece {i} {k}", duration, [f"parameters {i}"], {f"saved {i} {k}": size}, {}, 0)
        count = len(self.blocks)
        self._op("middle", self.middle, [f"output {count - 1}"], {"loss": 0}, {"recompute": "never"}, need[count])
        for i in reversed(range(count)):
            read = [f"parameters {i}", *(f"saved {i} {k}" for k in self.pieces(i)), "loss"]
            made = {f"gradient {i}": 0}
            self._op(f"backward {i}", self.blocks[i].backward, read, made, {"recompute": "never"}, need[2 * count - i])

    def _op(
        self, name: str, duration: int, inputs: list[str], outputs: dict[str, int], more: dict[str, Any], workspace: int
    ) -> None:
        self.tensors += [{"name": tensor, "size": size} for tensor, size in outputs.items()]
        op = {"name": name, "duration": duration, "inputs": inputs, "outputs": list(outputs), "workspace": workspace}
        self.ops.append({**op, **more})

    # -- Plans --

    def plan_of(self, schedule: remora.DeviceSchedule) -> tuple[list[int], set[str]]:
        """A mode of each block, and which units gather again, as a schedule of the graph has it."""
        again = schedule.recomputes
        modes = [
            max((k for k in self.pieces(i) if f"piece {i} {k}" in again), default=0) for i in range(len(self.blocks))
        ]
        resharded = {block.unit.name for i, block in enumerate(self.blocks) if f"gather {i}" in again}
        return modes, resharded

    def schedule_of(self, modes: Sequence[int], resharded: Collection[str]) -> remora.DeviceSchedule:
        """The schedule that FSDP2 runs: each gather of the backward is issued one unit ahead."""
        count = len(self.blocks)
        again = [block.unit.name in resharded for block in self.blocks]
        steps: list[tuple[str, list[str]]] = []
        for i in range(count):
            steps.append((f"gather {i}", []))
            steps.append((f"block {i}", [] if i == count - 1 else [f"output {i}"]))
            for k in self.pieces(i):
                steps.append((f"piece {i} {k}", [f"saved {i} {k}"] if k <= modes[i] else []))
            if again[i]:
                steps[-1][1].append(f"parameters {i}")
        if again[-1]:
            steps.append((f"gather {count - 1}", []))
        steps.append(("middle", [f"output {count - 1}"]))
        for i in reversed(range(count)):
            if i and again[i - 1]:
                steps.append((f"gather {i - 1}", []))
            steps += [(f"piece {i} {k}", []) for k in self.pieces(i) if k <= modes[i]]
            gone = [f"parameters {i}", f"gradient {i}", *(f"saved {i} {k}" for k in self.pieces(i))]
            steps.append((f"backward {i}", gone + (["loss"] if i == 0 else [])))
        document = {
            "format": "remora-schedule",
            "version": 2,
            "graph": self.graph.name,
            "status": "feasible",
            "order": "input",
            "copies": "overlap",
            "budget": {},
            "duration": 0,
            "energy": 0,
            "peak_memory": {},
            "steps": [{"op": op, "device": DEVICE, "free": free} for op, free in steps],
        }
        return remora.DeviceSchedule.from_json(json.dumps(document), self.graph)

    def time_of(self, modes: Sequence[int], resharded: Collection[str]) -> int:
        """Nanoseconds until the last op of that schedule ends, by the replay of the engine."""
        schedule = self.schedule_of(modes, resharded)
        return remora.verify(self.graph, schedule).duration


def _freed(modes: Sequence[Mode], number: int, count: int) -> list[int]:
    """What each mode saves while the block is active, at most, and no less than the one before."""
    freed: list[int] = []
    for mode in modes:
        most = max(mode.saved[number + 1 : 2 * count - number], default=0)
        freed.append(max(most, freed[-1] if freed else 0))
    return freed


def choices_of(blocks: Sequence[Block], modes: Sequence[int]) -> Mapping[str, Any]:
    """What is done with modules under a mode of each block."""
    return {
        name: choice for block, m in zip(blocks, modes, strict=True) for name, choice in block.modes[m].choices.items()
    }
