# SPDX-License-Identifier: Apache-2.0
"""What each node of a model takes, by onnxruntime's own profiler."""

from __future__ import annotations

import csv
import io
import json
import os
import statistics
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, SupportsIndex

from remora._arguments import integer, write_text
from remora.errors import InputError
from remora.onnx.models import fold_constants, load_model, made_up_inputs, node_names, set_dimensions

if TYPE_CHECKING:
    import numpy
    import onnx

_DEVICES = {"CPUExecutionProvider": "cpu", "CUDAExecutionProvider": "cuda", "TensorrtExecutionProvider": "cuda"}
_MARK = "remora"


@dataclass(frozen=True)
class NodeCost:
    """What one node takes.

    Attributes
    ----------
    name : str
        The node's or, where it has none, its first output's.
    type : str
        ``"Conv"``, …
    device : str
        ``"cpu"``, ``"cuda"``, …
    duration : int
        Nanoseconds: the median over all runs.
    """

    name: str
    type: str
    device: str
    duration: int


@dataclass(frozen=True)
class Profile:
    """What a model's nodes take, and what they take together.

    Attributes
    ----------
    nodes : tuple of NodeCost
        In the model's order; constants, which are computed once, and what no output needs are left out.
    whole : int
        Nanoseconds of a whole run without the profiler: the median over as many runs.
    runs, threads : int
    """

    nodes: tuple[NodeCost, ...]
    whole: int
    runs: int
    threads: int

    @property
    def total(self) -> int:
        """Nanoseconds: the sum over all nodes."""
        return sum(node.duration for node in self.nodes)

    def to_csv(self) -> str:
        """The table that ``remora … --costs`` takes (docs/guide/onnx.md): name, device, duration, workspace, energy."""
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(["name", "device", "duration", "workspace", "energy"])
        # The last two are not measured: what is left empty stays as the model's reader has it.
        writer.writerows([node.name, node.device, node.duration, "", ""] for node in self.nodes)
        return out.getvalue()

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the table."""
        write_text(path, self.to_csv())


def profile(
    model: str | os.PathLike[str] | bytes | onnx.ModelProto,
    *,
    runs: SupportsIndex = 20,
    warm_up: SupportsIndex = 3,
    threads: SupportsIndex = 1,
    providers: Sequence[str] = ("CPUExecutionProvider",),
    dimensions: Mapping[str, int] | None = None,
    inputs: Mapping[str, numpy.ndarray[Any, Any]] | None = None,
    seed: SupportsIndex = 0,
) -> Profile:
    """Measures the nodes of an ONNX model with onnxruntime's profiler, as they are: none fused, none left out.

    Parameters
    ----------
    model : path-like, bytes or onnx.ModelProto
    runs, warm_up : int
        Measured runs, and runs before them.
    threads : int
        Threads inside a node; nodes run one after the other.
    providers : sequence of str
        Of onnxruntime, the one to prefer first.
    dimensions : mapping of str to int, optional
        Values of symbolic dimensions.
    inputs : mapping of str to numpy.ndarray, optional
        What to run on; made up where nobody says: normal floats, and zeros for whole numbers.
    seed : int
        Of what is made up.

    Returns
    -------
    Profile

    Raises
    ------
    InputError
        For what is no model, a dimension without a value, or a model that onnxruntime refuses.
    """
    count = integer(runs, "runs")
    before = integer(warm_up, "warm_up")
    workers = integer(threads, "threads")
    if count < 1 or workers < 1:
        raise InputError("runs" if count < 1 else "threads", "must be at least 1")
    proto = load_model(model)
    if inputs is None:
        set_dimensions(proto, dimensions or {})
    fold_constants(proto)
    names = node_names(proto)
    for number, node in enumerate(proto.graph.node):
        node.name = f"{_MARK}{number}"
    feed = made_up_inputs(proto, integer(seed, "seed")) if inputs is None else dict(inputs)
    whole, medians, places = _measured(proto, feed, providers, workers, before, count)
    nodes = tuple(
        NodeCost(name, node.op_type, places[number], medians[number])
        for number, (name, node) in enumerate(zip(names, proto.graph.node, strict=True))
        if number in medians
    )
    return Profile(nodes, whole, count, workers)


def _session(model: onnx.ModelProto, providers: Sequence[str], threads: int, prefix: str | None) -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.execution_mode = onnxruntime.ExecutionMode.ORT_SEQUENTIAL
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    if prefix is not None:
        options.enable_profiling = True
        options.profile_file_prefix = prefix
    try:
        return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=list(providers))
    except Exception as error:
        # Its exceptions have no common base but this one.
        raise InputError("model", f"onnxruntime refuses it: {error}") from None


def _measured(
    model: onnx.ModelProto, feed: dict[str, Any], providers: Sequence[str], threads: int, warm_up: int, runs: int
) -> tuple[int, dict[int, int], dict[int, str]]:
    """A whole run in nanoseconds; by node the median of its durations, and where it ran.

    Runs without and with the profiler take turns: whatever else the machine does then slows both.
    """
    times = []
    with tempfile.TemporaryDirectory() as folder:
        plain = _session(model, providers, threads, None)
        watched = _session(model, providers, threads, os.path.join(folder, "profile"))
        for _ in range(warm_up + runs):
            begun = time.perf_counter_ns()
            plain.run(None, feed)
            times.append(time.perf_counter_ns() - begun)
            watched.run(None, feed)
        with open(watched.end_profiling(), encoding="utf-8") as file:
            events = json.load(file)
    medians, places = _of_nodes(events, warm_up)
    return round(statistics.median(times[warm_up:])), medians, places


def _of_nodes(events: list[dict[str, Any]], warm_up: int) -> tuple[dict[int, int], dict[int, str]]:
    """By node: the median of its durations in nanoseconds, and where it ran."""
    times: dict[int, list[int]] = {}
    places: dict[int, str] = {}
    for event in events:
        name = event.get("name", "")
        if event.get("cat") != "Node" or not (name.startswith(_MARK) and name.endswith("_kernel_time")):
            continue
        number = int(name[len(_MARK) :].split("_", 1)[0])
        times.setdefault(number, []).append(event["dur"])
        provider = event.get("args", {}).get("provider", "")
        places[number] = _DEVICES.get(provider, provider.removesuffix("ExecutionProvider").lower() or "cpu")
    # The profiler counts whole microseconds.
    return {number: round(1000 * statistics.mean(_middle(all_[warm_up:]))) for number, all_ in times.items()}, places


def _middle(times: list[int]) -> list[int]:
    """The middle half: a median for times in steps too coarse for one."""
    times = sorted(times)
    cut = len(times) // 4
    return times[cut : len(times) - cut] or times
