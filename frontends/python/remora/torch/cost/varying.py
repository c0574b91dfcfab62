# SPDX-License-Identifier: Apache-2.0
"""Costs of a step whose sizes vary.

Calls that are alike for all sizes (those of a transformer's layers) are one call. Its memory is measured at each size
that runs, so that peaks are exact. Its time is measured at a few sizes; between these it lies on a line through the
two next to it in work (`work_of`).

    time |            x      measured
         |      o  .'        between
         |    .'
         |  x
         +-------------- work
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import torch
from torch import fx
from torch.utils._python_dispatch import _disable_current_modes

from ..capture.graph import StepGraph, has_effect, tensors_in
from ..job import same_answer
from ..measure import measuring
from ..store import digest
from .calls import Call, Cost, measured, memory_of, nodes_of, roofline


class VaryingCosts:
    """The costs of a step at any sizes.

    `is_measured`: whether ops run for that; otherwise all follows from the roofline.
    """

    def __init__(self, step: StepGraph, is_measured: bool, say: Callable[[str], None]) -> None:
        self._say, self._is_measured = say, is_measured
        first: dict[str, fx.Node] = {}
        self._like: dict[fx.Node, fx.Node] = {}
        for node in nodes_of(step):
            self._like[node] = node if has_effect(node) else first.setdefault(Call(step, node).key, node)
        self._distinct = list(dict.fromkeys(self._like.values()))
        self._samples: dict[fx.Node, list[tuple[int, Cost]]] = {node: [] for node in self._distinct}

    def measure(self, step: StepGraph) -> None:
        """Measures all calls of the step with numbers for its sizes."""
        if not self._is_measured:
            return
        found = measured(step, self._say, only=self._distinct)
        for node, cost in found.items():
            work = roofline(step, node, step.device).duration
            self._samples[node] = sorted([*self._samples[node], (work, cost)], key=lambda sample: sample[0])

    def at(self, step: StepGraph) -> dict[fx.Node, Cost]:
        """The cost of every node of the step with numbers for its sizes: exact memory, and time between samples."""
        found = {node: roofline(step, node, step.device) for node in self._distinct}
        if self._is_measured:
            rows = self._memory(step)
            for node, cost in found.items():
                if self._samples[node] and not has_effect(node):
                    time = between([(work, sample.duration) for work, sample in self._samples[node]], cost.duration)
                    workspace, outputs = rows[node]
                    draws = self._samples[node][0][1].draws
                    found[node] = Cost(time, workspace, tuple(outputs), draws=draws)
        return {node: found[like] for node, like in self._like.items()}

    def roughly(self, step: StepGraph) -> dict[fx.Node, Cost]:
        """The same without running anything: memory, too, is between samples."""
        found = {node: roofline(step, node, step.device) for node in self._distinct}
        for node, cost in found.items() if self._is_measured else ():
            samples = self._samples[node]
            if samples:
                time = between([(work, sample.duration) for work, sample in samples], cost.duration)
                workspace = between([(work, sample.workspace) for work, sample in samples], cost.duration)
                found[node] = replace(cost, duration=time, workspace=workspace)
        return {node: found[like] for node, like in self._like.items()}

    def _memory(self, step: StepGraph) -> dict[fx.Node, tuple[int, list[int]]]:
        """The workspace of each call, and the bytes of its results."""
        calls = {node: Call(step, node) for node in self._distinct if not has_effect(node)}
        question = digest([step.device.type, [call.key for call in calls.values()]])

        def found() -> list[tuple[int, list[int]]]:
            with _disable_current_modes(), torch._C._DisableAutocast(), measuring(step.device):
                if step.device.type == "cuda":  # kernels may prepare themselves once for a size
                    for call in calls.values():
                        call.run(call.arguments())
                return [memory_of(call) for call in calls.values()]

        rows = same_answer(f"memory/{question}", found)
        return {node: (workspace, outputs) for node, (workspace, outputs) in zip(calls, rows, strict=True)}


def taken_over(step: StepGraph, known: StepGraph, costs: Mapping[fx.Node, Cost]) -> Callable[[Call], Cost | None]:
    """For `measured`: times of the same calls at other sizes, in proportion to their work; memory is measured.

    `known`: the step at the other sizes, of the same form, with its measured costs.
    """
    like = dict(zip(nodes_of(step), nodes_of(known), strict=True))

    def cost(call: Call) -> Cost | None:
        other = like[call.node]
        if _types_of(step, call.node) != _types_of(known, other):
            return None
        before, device = costs[other], step.device
        work = roofline(step, call.node, device).duration / roofline(known, other, device).duration
        if device.type == "cuda":  # kernels may prepare themselves once for a size
            call.run(call.arguments())
        workspace, outputs = memory_of(call)
        return Cost(max(1, round(before.duration * work)), workspace, tuple(outputs), draws=before.draws)

    return cost


def _types_of(step: StepGraph, node: fx.Node) -> list[torch.dtype]:
    return [t.dtype for t in tensors_in((step.given(node), step.value[node]))]


def between(points: list[tuple[int, int]], x: int) -> int:
    """The value at x of lines through points in the order of their first numbers; at least 0."""
    if len(points) == 1 or points[0][0] == points[-1][0]:
        (known, value), *_ = points
        return round(value * x / known) if known else value
    right = next((i for i, point in enumerate(points) if i and point[0] >= x), len(points) - 1)
    left = next(i for i in range(right - 1, -1, -1) if i == 0 or points[i][0] < points[right][0])
    (x0, y0), (x1, y1) = points[left], points[right]
    return max(0, round(y0 + (y1 - y0) * (x - x0) / (x1 - x0)) if x1 > x0 else y1)
