# SPDX-License-Identifier: Apache-2.0
"""Training steps out of the text of FX graphs, as graphs with lanes (benchmarks/lanes/README.md).

PyTorch writes a compiled function as a Python file: for a training step one of the forward and one of the backward
part, with the collectives of FSDP and tensor parallelism as calls. `read_step` makes a `remora-graph` of version 3 of
both: a lane that computes, and one for each group of devices. The text is parsed, and never run; PyTorch is not needed.

A name that both texts have is one op: what the backward text runs again, a gathered parameter above all, is a
recompute.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, SupportsIndex

from fx._buckets import bucketed
from fx._shapes import COLLECTIVES
from fx._step import JointStep, Work, join
from fx._tables import CollectiveTable, read_table
from fx._text import read_text
from remora._arguments import boolean, integer
from remora.devices import DeviceGraph
from remora.errors import InputError
from remora.onnx import Roofline

__all__ = ["FxStep", "read_step"]

COMPUTE = "compute"


@dataclass(frozen=True)
class FxStep:
    """A training step out of two texts.

    Attributes
    ----------
    graph : DeviceGraph
        One device "gpu" with the lanes ``compute`` and ``group NAME``; durations in nanoseconds.
    again : frozenset of str
        The ops of the forward part that the backward text runs again.
    """

    graph: DeviceGraph
    again: frozenset[str]


def read_step(
    forward: str | os.PathLike[str],
    backward: str | os.PathLike[str],
    *,
    device: str | os.PathLike[str],
    table: str | os.PathLike[str],
    groups: Mapping[str, tuple[str, int]],
    bucket: SupportsIndex = 0,
    shards: bool = False,
    alike: Mapping[str, str] | None = None,
    even: bool = False,
    name: str = "fx",
) -> FxStep:
    """Reads a training step.

    Views share storage with what they view. Casts, sums and other pointwise ops that one op alone reads are one kernel
    with it. A kernel takes as long as the device's roofline says, a collective as long as the table.

    Parameters
    ----------
    forward, backward : path
        Files with a class ``Repro`` and a function ``load_args``, as PyTorch's ``after_aot`` writes them.
    device : path
        A device file, or the name of a known device, for the precision in which the step computes.
    table : path
        Costs of collectives: rows of group, its size, collective, and milliseconds for sizes.
    groups : mapping of str to (str, int)
        By a group's name in the text, its name in the table and how many devices it has there.
    bucket : int
        Bytes: gathers of parameters are put together up to so many that a device puts in, and the reduce-scatters of
        their gradients likewise; by default each is by itself.
    shards : bool
        Whether the table's sizes are those of shards for reduce-scatters, too. By default they are what a device puts
        in, the whole.
    alike : mapping of str to str
        By a collective's name in the text that the table does not have, the one in the table whose times are taken: for
        an all-gather (and by it an all-to-all) what comes out of it is as large.
    even : bool
        Sizes that only data decide, as how many tokens each expert gets: if true, the bins of the histograms that they
        come from are alike; by default they are what the backward text states that they were.
    name : str
        The graph's.

    Returns
    -------
    FxStep

    Raises
    ------
    InputError
        With the file and the line of what is not understood: an op without a rule for shapes, texts that are not of one
        step, a collective that the table does not have.
    OSError
        If a file cannot be read.
    """
    step = bucketed(join(read_text(forward), read_text(backward), boolean(even, "even")), integer(bucket, "bucket"))
    costs = _Costs(Roofline.load(device), read_table(table), dict(groups), boolean(shards, "shards"), dict(alike or {}))
    return FxStep(DeviceGraph.from_json(_document(step, costs, name)), frozenset(step.again))


@dataclass(frozen=True)
class _Costs:
    roofline: Roofline
    table: CollectiveTable
    groups: dict[str, tuple[str, int]]
    shards: bool
    alike: dict[str, str]

    def duration(self, work: Work, size: Mapping[str, int]) -> int:
        if work.kind not in COLLECTIVES:
            moved = sum(size[t] for t in work.inputs) + sum(work.outputs.values())
            return round(1e9 * self.roofline.seconds(work.flops, moved))
        if work.group not in self.groups:
            raise InputError("groups", f"does not say which rows of the table are those of group {work.group!r}")
        group, devices = self.groups[work.group]
        size_in = work.put_in // devices if self.shards and work.kind == "reduce_scatter_tensor" else work.put_in
        kind = self.alike.get(work.kind, work.kind)
        if kind != work.kind and kind == "all_gather_into_tensor":
            size_in //= devices
        return self.table.nanoseconds(group, devices, kind, size_in)


def _document(step: JointStep, costs: _Costs, name: str) -> dict[str, Any]:
    size = dict(step.arguments)
    for work in step.works:
        size.update(work.outputs)
    durations = {work.name: costs.duration(work, size) for work in step.works}
    groups = dict.fromkeys(work.group for work in step.works if work.group)
    tensors: list[dict[str, Any]] = [{"name": t, "size": size[t]} for t in step.arguments]
    for work in step.works:
        tensors += [{"name": t, "size": size[t], **({"keep": True} if t in step.kept else {})} for t in work.outputs]
    return {
        "format": "remora-graph",
        "version": 3,
        "name": name,
        "meta": {"duration_unit": "ns"},
        "devices": [{"name": "gpu", "lanes": [COMPUTE, *(f"group {group}" for group in groups)]}],
        "tensors": tensors,
        "ops": [_op(work, durations, size) for work in _issued(step, durations)],
    }


def _op(work: Work, durations: Mapping[str, int], size: Mapping[str, int]) -> dict[str, Any]:
    op: dict[str, Any] = {
        "name": work.name,
        "type": work.kind,
        "phase": work.phase,
        "duration": durations[work.name],
        "inputs": work.inputs,
        "outputs": list(work.outputs),
    }
    if work.workspace:
        op["workspace"] = work.workspace
    if work.takes_over:
        op["in_place"] = [list(pair) for pair in work.takes_over.items()]
    if work.kind in COLLECTIVES:
        whole = max(work.put_in, sum(size[t] for t in work.outputs))
        op["lane"] = f"group {work.group}"
        op["collective"] = {"kind": COLLECTIVES[work.kind], "bytes": whole, "group": max(1, work.devices)}
        # Activations are summed over devices again where all of them do so.
        op["recompute"] = "allowed" if work.phase == "forward" else "never"
    return op


def _issued(step: JointStep, durations: Mapping[str, int]) -> list[Work]:
    """The ops in their order, but for gathers of parameters.

    These are issued as late as they can be without being waited for, with twice their time to spare for what else their
    lane has to do.
    """
    early = {w.name for w in step.works if w.kind in COLLECTIVES and all(t in step.arguments for t in w.inputs)}
    reader: dict[str, int] = {}
    start = [0]
    for place, work in enumerate(step.works):
        for tensor in work.inputs:
            reader.setdefault(tensor, place)
        start.append(start[-1] + (durations[work.name] if work.kind not in COLLECTIVES else 0))
    before: dict[int, list[Work]] = {}
    due: dict[str, int] = {}
    for work in sorted(
        (w for w in step.works if w.name in early), key=lambda w: -min(reader[t] for t in w.outputs if t in reader)
    ):
        first = min(reader[t] for t in work.outputs if t in reader)
        issue = min(start[first] - 2 * durations[work.name], due.get(work.group, start[first]))
        due[work.group] = issue
        place = first
        while place > 0 and start[place - 1] >= max(issue, 0):
            place -= 1
        before.setdefault(max(0, min(place, first)), []).insert(0, work)
    order: list[Work] = []
    for place, work in enumerate(step.works):
        order += before.get(place, [])
        if work.name not in early:
            order.append(work)
    return order
