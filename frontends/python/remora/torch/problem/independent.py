# SPDX-License-Identifier: Apache-2.0
"""Eager calls that may run in slices: which rows are independent, and how many slices the engine takes.

A call is traced on fake tensors, and the axes of its ops (`axes.py`) say whether each row of its result reads one row
of its argument, and parameters as a whole. The number of slices is the engine's choice for the trace of
forward and backward together, which then runs in them (`carry/in_slices.py`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import fx
from torch._subclasses import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils._python_dispatch import _disable_current_modes

import remora
from remora.asking import ask
from remora.slices import SliceCost

from ..capture.graph import StepGraph
from ..capture.read import read_step
from ..capture.simplify import simplify
from ..cost.calls import by_flops, generic_machine
from ..errors import CaptureError
from .aten import graph_of
from .axes import OpAxis, Rows, axes_of, rows_of

Function = Callable[..., torch.Tensor]

WORK = 300
"""Units of work for the number of slices."""
FEW = 16
"""Slices may need so much more than the minimum, as a part of what they save: more of them cost time."""


def independent_dims(function: Function, rows: torch.Tensor, others: Sequence[torch.Tensor]) -> int:
    """How many leading dimensions of `rows` a call's result has, too, of which each index reads its own; 0 if none.

    `function(rows, *others)`: `others` are parameters. What holds for all rows alike must hold for them as one
    dimension, too, in which they are cut.
    """
    for count in range(rows.dim() - 1, 0, -1):
        if _are_cut(function, rows, others, range(count)):
            one = rows.detach().reshape(as_one(rows.shape, count))
            return count if count == 1 or _are_cut(function, one, others, [count - 1]) else 0
    return 0


def as_one(shape: Sequence[int], count: int) -> list[int]:
    """A shape with leading dimensions as one, the last of them."""
    return [*[1] * (count - 1), math.prod(shape[:count]), *shape[count:]]


def _are_cut(function: Function, rows: torch.Tensor, others: Sequence[torch.Tensor], dims: Sequence[int]) -> bool:
    """True if all ops of a call agree on an axis that cuts argument and result along neighboring dimensions."""
    step = _traced(function, [rows, *others])
    if step is None or len(step.outputs) != 1 or step.updates:
        return False
    given, made = step.value[step.placeholders[0]], step.value[step.resolve(step.outputs[0])]
    count = dims[-1] + 1
    if made.dim() <= count or made.shape[:count] != given.shape[:count]:
        return False
    first, last = rows_of(given, dims), rows_of(made, dims)
    if first is None or last is None or first.offset or last.offset:
        return False
    axes = axes_of(step)
    cuts: dict[int, Rows] = {step.storage_of(given): first}
    for op in step.ops:
        if cuts.keys().isdisjoint(op.inputs):
            continue
        axis = next((a for a in axes.get(op, []) if _agrees(a, cuts, op.inputs, first.rows)), None)
        if axis is None or any(axis.cuts.get(s) is None for s in op.outputs):
            return False
        cuts |= {s: own for s, own in axis.cuts.items() if s in op.outputs and own is not None}
    there = cuts.get(step.storage_of(made))
    return there is not None and there.block == last.block and step.storage_of(made) != step.storage_of(given)


def _agrees(axis: OpAxis, cuts: dict[int, Rows], inputs: Sequence[int], rows: int) -> bool:
    """True if an axis cuts what is cut in whole rows, and nothing else."""
    for s in inputs:
        own = axis.cuts.get(s)
        if s not in cuts:
            if own is not None:
                return False
        elif own is None or own.block != cuts[s].block or own.offset or own.rows != axis.extent:
            return False
    return axis.extent % rows == 0 and not axis.sums


def number_of_slices(
    function: Function, rows: Sequence[torch.Tensor], others: Sequence[torch.Tensor], is_sum: bool, spare: int
) -> int:
    """How many slices of a call, forward and backward, leave so many bytes less than it needs; 0 if that needs none.

    Where none leaves as much, the fewest that come near to the smallest peak.
    """

    def whole(*given: torch.Tensor) -> Any:
        *tensors, gradient = given
        with torch.enable_grad():
            made = function(*tensors)
            sources = [t for t in tensors if t.requires_grad]
            return [made.detach(), *torch.autograd.grad(made, sources, gradient, allow_unused=True)]

    with _disable_current_modes(), torch.no_grad(), FakeTensorMode() as mode:
        fake = [mode.from_tensor(t) for t in (*rows, *others)]
        gradient = function(*fake).new_ones(()) if is_sum else torch.ones_like(function(*fake))
    step = _traced(whole, [*rows, *others], gradient)
    if step is None:
        return 0
    simplify(step)
    machine = generic_machine(step.device.type)
    cost = SliceCost(round(machine.launch_overhead * 1e9), round(machine.bandwidth / 1e9), temporaries=True)
    graph = graph_of(step, by_flops(step), "call", axes_of(step))
    whole_peak = graph.baseline_peak

    def asked(budget: int) -> remora.Schedule | remora.NoSchedule:
        limits = remora.Limits(work_limit=WORK, threads=1)
        return ask(graph, max(1, budget), limits, order="input", slices="auto", slice_cost=cost, max_computes=1)

    found = asked(whole_peak - spare)
    if isinstance(found, remora.NoSchedule):
        enough = found.refusal.enough_in_slices
        found = asked(enough + (whole_peak - enough) // FEW) if enough else found
    if isinstance(found, remora.NoSchedule):
        return found.refusal.slices
    return max((region.slices for region in found.slices), default=0)


def _traced(function: Callable[..., Any], tensors: Sequence[torch.Tensor], *fake: torch.Tensor) -> StepGraph | None:
    """The graph of a call on fake tensors; None if it cannot be traced."""
    with _disable_current_modes():
        mode = fake[0].fake_mode if fake else FakeTensorMode()  # type: ignore[attr-defined]
        given = [_fake(mode, t) for t in tensors]
        try:
            with mode, torch.autograd.set_multithreading_enabled(False):
                traced: fx.GraphModule = make_fx(lambda *values: _listed(function(*values)))(*given, *fake)
            return read_step(traced)
        except (CaptureError, AssertionError, RuntimeError, TypeError, ValueError):  # buffers are not traced, either
            return None


def _fake(mode: FakeTensorMode, tensor: torch.Tensor) -> torch.Tensor:
    made: torch.Tensor = mode.from_tensor(tensor.detach())
    return made.requires_grad_(tensor.requires_grad)


def _listed(value: Any) -> list[Any]:
    return [v for v in (value if isinstance(value, (list, tuple)) else [value]) if v is not None]
