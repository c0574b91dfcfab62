# SPDX-License-Identifier: Apache-2.0
"""Training steps over two devices: ops run where the schedule says, and tensors are copied between them.

    main    arguments, parameters and buffers are at home there, and so are all results
    other   a store, or another place to compute: what is read there was copied there, or made there

The program is that of `carry.program` with a book for each device of what lies there. A copy takes a whole storage, so
views are made again wherever they are read. Ops that draw random numbers, work in place in an argument or have effects
run on the main device, once.
"""

from __future__ import annotations

import functools
import gc
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import torch
from torch import fx
from torch.profiler import ProfilerActivity, profile, record_function

import remora

from ..capture.dynamo import compiled_step
from ..capture.graph import Run, StepGraph
from ..carry.program import Program, Writer, finished
from ..cost.calls import Cost, by_flops, measured, op_cost
from ..decide.fused import read_graph
from ..decide.schedules import given_schedule, schedule_over
from ..errors import CaptureError
from ..ledger import Ledger
from ..measure import timed
from ..options import Options
from ..problem.aten import graph_of

FEW, MANY = 1 << 12, 1 << 24
"""Bytes of the two copies that tell how long copies take."""
ASSUMED = (12.3e9, 10e-6)
"""Bytes a second and seconds a copy, where nothing is measured: PCIe 3 of 16 lanes."""


@dataclass(frozen=True)
class TrainDevice:
    """One of the devices of a step.

    Attributes
    ----------
    name : str
        What graph and schedule call it.
    place : str
        What PyTorch calls it ("cuda:0", "cpu"). Two devices may be at one place: their memory is counted apart.
    budget : int or str, optional
        Bytes, with all that is there throughout; of the main device also a share ("60%"), as in `train_step`. No limit
        without it.
    computes : bool
        Whether ops may run there; the main device always computes.
    bandwidth, latency : float, optional
        Of copies between it and the main device, both ways: bytes a second and seconds. Measured without them.
    """

    name: str
    place: str
    budget: int | str | None = None
    computes: bool = True
    bandwidth: float | None = None
    latency: float | None = None


@dataclass
class DevicePlan:
    """What was planned for one captured graph.

    Attributes
    ----------
    found : remora.DeviceSchedule
        What the engine found, or was given.
    fixed_memory : dict of str to int
        Bytes by device that are there throughout.
    seconds : dict
        What the parts of planning took.
    source : str
        The generated program.
    """

    found: remora.DeviceSchedule
    fixed_memory: dict[str, int]
    seconds: dict[str, float] = field(default_factory=dict)
    source: str = ""

    @cached_property
    def graph(self) -> dict[str, Any]:
        """In the format `remora-graph` 2."""
        return json.loads(self.found.graph.to_json())  # type: ignore[no-any-return]

    @cached_property
    def schedule(self) -> dict[str, Any]:
        """In the format `remora-schedule` 2."""
        return json.loads(self.found.to_json())  # type: ignore[no-any-return]

    @property
    def predicted_peak(self) -> dict[str, int]:
        """The most bytes in all, by device."""
        return self.found.peak

    @property
    def predicted_time(self) -> int:
        """Nanoseconds of the schedule."""
        return self.found.duration

    @property
    def bound(self) -> int:
        """Nanoseconds that no schedule under the budgets undercuts."""
        return self.found.bound

    @property
    def copies(self) -> int:
        """How many steps of the schedule are copies."""
        return sum(self.found.copies.values())

    @property
    def recomputes(self) -> int:
        """How many steps of the schedule run an op again."""
        return sum(self.found.recomputes.values())

    def __str__(self) -> str:
        peaks = ", ".join(f"{name} {peak:,} bytes" for name, peak in self.predicted_peak.items())
        return f"{len(self.found.graph)} ops, {self.recomputes} recomputes, {self.copies} copies: peaks {peaks}"


def train_step_over(
    function: Callable[..., Any] | None = None,
    *,
    devices: Sequence[TrainDevice],
    cost: str = "measured",
    time_limit: float = 15.0,
    seed: int = 1,
    progress: bool = False,
) -> Any:
    """Makes a training step run over two devices, each under its budget; else as `train_step`.

    Parameters
    ----------
    function : callable
        As for `train_step`.
    devices : sequence of TrainDevice
        Two: the main one, where the step's tensors are, and another.
    cost, time_limit, seed, progress
        As in `Options`.

    Returns
    -------
    DeviceTrainStep
        Is called like the function.
    """
    options = Options(cost=cost, time_limit=time_limit, seed=seed, progress=progress).checked()
    make = functools.partial(DeviceTrainStep, devices=devices, options=options)
    return make if function is None else make(function)


@dataclass
class _Captured:
    step: StepGraph
    plan: DevicePlan
    program: Program


class DeviceTrainStep:
    """A function that runs as planned over two devices; what `train_step_over` gives."""

    def __init__(self, function: Callable[..., Any], devices: Sequence[TrainDevice], options: Options) -> None:
        functools.update_wrapper(self, function)
        if len(devices) != 2 or len({device.name for device in devices}) != 2:
            raise ValueError("devices: there must be two, of different names")
        if isinstance(devices[1].budget, str):
            raise ValueError(f"budget of {devices[1].name}: must be bytes, for nothing runs there unscheduled")
        self.devices, self.options = tuple(devices), options
        self._captured: list[_Captured] = []
        self.ledger = Ledger()
        self._compiled = compiled_step(function, self._compile, self.ledger)
        self._start = 0.0

    @property
    def plans(self) -> list[DevicePlan]:
        """One for each captured graph, in the order of capture."""
        return [captured.plan for captured in self._captured]

    @property
    def plan(self) -> DevicePlan:
        """The plan of the latest captured graph."""
        return self._latest().plan

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        """Runs the step."""
        self._start = time.perf_counter()
        return self._compiled(*arguments, **options)

    def use(self, schedule: Mapping[str, Any]) -> None:
        """Runs another schedule of the latest captured graph from now on: a `remora-schedule` of `plan.graph`.

        Raises
        ------
        SolverError
            If it is not a right schedule of the graph; the message names the step.
        """
        captured = self._latest()
        found = given_schedule(captured.plan.found.graph, schedule)
        captured.plan = DevicePlan(found, captured.plan.fixed_memory)
        captured.program = self._written(captured)

    def measured_peaks(self, *arguments: Any) -> dict[str, int]:
        """Runs the latest captured step once and gives the most bytes allocated on each device, as `predicted_peak`.

        Devices on the CPU are told apart by the step of the schedule that allocates. A GPU's memory is counted by its
        allocator.

        Raises
        ------
        CaptureError
            If the arguments, or gradients that are there or not, belong to another captured step.
        """
        captured, plain = self._latest(), self._latest().program
        places = {device.name: torch.device(device.place) for device in self.devices}
        account = _Account([device.name for device in self.devices])
        captured.program = self._written(captured, account)
        gpus = {name: place for name, place in places.items() if place.type == "cuda"}
        before = {name: torch.cuda.memory_stats(place)["requested_bytes.all.current"] for name, place in gpus.items()}
        for place in gpus.values():
            torch.cuda.reset_peak_memory_stats(place)
        try:
            peaks = account.peaks_of(lambda: self(*arguments))
        finally:
            captured.program = plain
        if not account.entered:
            raise CaptureError("the run was of another captured step, not of the latest one")
        for name, place in gpus.items():
            peaks[name] = torch.cuda.memory_stats(place)["requested_bytes.all.peak"] - before[name]
        return {name: captured.plan.fixed_memory[name] + peak for name, peak in peaks.items()}

    def _latest(self) -> _Captured:
        if not self._captured:
            raise CaptureError("nothing is planned before the first call")
        return self._captured[-1]

    def _compile(self, module: fx.GraphModule, _: Any) -> Callable[[list[Any]], list[Any]]:
        seconds = {"capture": time.perf_counter() - self._start}
        problem = read_graph(module, self.options, None, seconds)
        step, costs = problem.step, problem.costs
        main, other = self.devices
        if torch.device(main.place).type != step.device.type:
            raise CaptureError(f"the step's tensors are on {step.device}, and {main.name} is {main.place}")
        theirs = costs
        if torch.device(other.place).type != step.device.type and other.computes:
            place = torch.device(other.place)
            known = (
                measured(step, self.options.say, place) if self.options.cost == "measured" else by_flops(step, place)
            )
            theirs = known
        data = device_graph_of(step, [costs, theirs if other.computes else {}], self.devices, self._link(), _name(self))
        fixed = _fixed(data)
        budgets: dict[str, int] = {}
        for device in self.devices:
            if device.budget is not None:
                unscheduled = problem.unscheduled
                own = replace(self.options, budget=device.budget)
                budgets[device.name] = own.in_bytes(fixed[device.name], unscheduled)
        start = time.perf_counter()
        plan = DevicePlan(schedule_over(remora.DeviceGraph.from_json(data), budgets, self.options), fixed)
        plan.seconds = {**seconds, "solve": time.perf_counter() - start}
        captured = _Captured(step, plan, Program("", list))
        captured.program = self._written(captured)
        self._captured.append(captured)
        self.ledger.parts[-1].plan = plan
        self.options.say(str(plan), end="\n")
        run: Any = lambda arguments: captured.program.run(arguments)  # noqa: E731 - the program may change
        run._boxed_call = True
        return run  # type: ignore[no-any-return]

    def _written(self, captured: _Captured, account: _Account | None = None) -> Program:
        program = write_device_program(captured.step, captured.plan.found, self.devices, account)
        if account is None:
            captured.plan.source = program.source
        return program

    def _link(self) -> tuple[float, float]:
        """Bytes a second and seconds a copy, between the two devices."""
        main, other = self.devices
        if other.bandwidth is not None:
            return other.bandwidth, other.latency or 0.0
        if self.options.cost != "measured":
            return ASSUMED
        seconds = []
        for size in (FEW, MANY):
            source = torch.zeros(size, dtype=torch.uint8, device=main.place)
            seconds.append(timed(lambda s=source: moved([s], torch.device(other.place)), torch.device(main.place)))  # type: ignore[misc]
        bandwidth = (MANY - FEW) / max(1e-9, seconds[1] - seconds[0])
        return bandwidth, other.latency if other.latency is not None else seconds[0]


def _name(step: DeviceTrainStep) -> str:
    return str(getattr(step, "__qualname__", "step"))


# -- The graph ---------------------------------------------------------------------------------------------------------


def device_graph_of(
    step: StepGraph,
    costs: Sequence[dict[fx.Node, Cost]],
    devices: Sequence[TrainDevice],
    link: tuple[float, float],
    name: str,
) -> dict[str, Any]:
    """A step as a `remora-graph` 2 over two devices; ops run where there are costs of them."""
    graph: dict[str, Any] = json.loads(graph_of(step, costs[0], name).to_json())
    main, other = devices
    read = dict.fromkeys(s for op in step.ops for s in op.inputs if step.storages[s].fixed)
    arguments = {s: step.storages[s] for s in read}
    for tensor in graph["tensors"]:
        if tensor.get("keep"):
            tensor["home"] = main.name
    graph["tensors"] = [{"name": s.name, "size": s.size, "home": [main.name]} for s in arguments.values()] + graph[
        "tensors"
    ]
    rest = graph.pop("fixed_memory") - sum(s.size for s in arguments.values())
    graph["version"] = 2
    graph["devices"] = [{"name": main.name, "fixed_memory": rest}, {"name": other.name}]
    bandwidth, latency = link
    pace = {"latency": round(latency * 1e9), "bytes": max(1, round(bandwidth)), "per": 1_000_000_000}
    graph["links"] = [{"from": a.name, "to": b.name, **pace} for a, b in ((main, other), (other, main))]
    for op, entry in zip(step.ops, graph["ops"], strict=True):
        entry["inputs"] = [arguments[s].name for s in op.inputs if s in arguments] + entry["inputs"]
        if op.random:
            entry["recompute"] = "never"
        figures = {"duration": entry.pop("duration"), "workspace": entry.pop("workspace", 0)}
        entry["on"] = {main.name: figures}
        if costs[1] and op.nodes and op.recompute and not op.random:
            duration, workspace = op_cost(op, costs[1])
            entry["on"][other.name] = {"duration": duration, "workspace": workspace}
    return graph


def _fixed(graph: dict[str, Any]) -> dict[str, int]:
    """What is on each device throughout, in bytes."""
    made = {name for op in graph["ops"] for name in op["outputs"]}
    fixed = {device["name"]: int(device.get("fixed_memory", 0)) for device in graph["devices"]}
    for tensor in graph["tensors"]:
        for home in tensor["home"] if tensor["name"] not in made else []:
            fixed[home] += int(tensor["size"])
    return fixed


# -- The program -------------------------------------------------------------------------------------------------------


@torch.no_grad()
def moved(tensors: Sequence[torch.Tensor], place: torch.device) -> list[torch.Tensor]:
    """Tensors of one storage, in a copy of it."""
    old = tensors[0].untyped_storage()
    size = (old.nbytes(),)
    data = torch.empty(size, dtype=torch.uint8, device=place)
    data.copy_(torch.empty(0, dtype=torch.uint8, device=old.device).set_(old, 0, size, (1,)))
    new = data.untyped_storage()
    return [
        torch.empty(0, dtype=t.dtype, device=place).set_(new, t.storage_offset(), t.size(), t.stride()) for t in tensors
    ]


class _DeviceWriter(Writer):
    """Writes a program over several devices: what is there, and under which name, by device."""

    def __init__(self, step: StepGraph, devices: Sequence[TrainDevice], account: _Account | None) -> None:
        super().__init__(step, set(), set(), {}, account.enter if account is not None else None)
        self.account = account
        self.places = {device.name: torch.device(device.place) for device in devices}
        self.main = self.device = devices[0].name
        self.books: dict[str, tuple[dict[fx.Node, str], dict[int, list[str]]]] = {d.name: ({}, {}) for d in devices}
        for node in step.placeholders:
            self.hold(node, step.needs.get(node, []))
        for node in step.module.graph.find_nodes(op="get_attr"):
            if node in step.needs:
                name = self.value(node)
                self.name_of[node] = name
                self.held.setdefault(step.needs[node][0], []).append(name)

    def on(self, device: str) -> None:
        """What follows is on this device."""
        self.books[self.device] = self.name_of, self.held
        self.name_of, self.held = self.books[device]
        self.device = device
        self.suffix = "" if device == self.main else "_on_" + "".join(c if c.isalnum() else "_" for c in device)

    def place(self, call: int) -> None:
        if self.account is not None and call >= 0:
            self.account.device_of.append(self.device)
        super().place(call)

    def text(self, value: Any) -> str:
        if isinstance(value, torch.device) and value.type == self.places[self.main].type:
            value = self.places[self.device]
        return super().text(value)

    def copy(self, storage: int, source: str, target: str) -> None:
        """The line that copies a storage from one device to another."""
        self.on(source)
        names = set(self.held.get(storage, []))
        nodes = {node: name for node, name in self.name_of.items() if name in names and self._is_whole(node)}
        if not nodes:
            raise CaptureError(f"the schedule copies {self.step.storages[storage].name}, which is not there")
        self.on(target)
        self.place(self.calls)
        self.calls += 1
        function, place = self.constant("moved", moved), self.constant("place_of" + self.suffix, self.places[target])
        given = ", ".join(nodes.values())
        made = [self.hold(node, [storage]) for node in nodes]
        self.lines.append(f"{', '.join(made)}{',' if len(made) == 1 else ''} = {function}([{given}], {place})")

    def _is_whole(self, node: fx.Node) -> bool:
        """Whether a node's value is no view, which is made again where it is read."""
        if node.op in ("placeholder", "get_attr") or node in self.step.owner:
            return True
        return any(self.step.resolve(source) in self.step.owner for source in node.all_input_nodes) and isinstance(
            self.step.value[self.step.resolve(node.all_input_nodes[0])], (list, tuple)
        )


def write_device_program(
    step: StepGraph, schedule: remora.DeviceSchedule, devices: Sequence[TrainDevice], account: _Account | None = None
) -> Program:
    """Writes and compiles the function of a schedule over several devices."""
    writer = _DeviceWriter(step, devices, account)
    ops = dict(zip(schedule.graph.ops, step.ops, strict=True))
    storages = {storage.name: s for s, storage in enumerate(step.storages)}
    names = [writer.name_of[node] for node in step.placeholders]
    if names:
        writer.lines.append(f"{', '.join(names)}{',' if len(names) == 1 else ''} = arguments")
    writer.lines.append("arguments.clear()")
    for index, entry in enumerate(schedule.steps):
        free: dict[str, list[int]] = {entry.device: []}
        for tensor, device in entry.free:
            if tensor in storages:
                free.setdefault(device, []).append(storages[tensor])
        if entry.op is not None:
            writer.on(entry.device)
            writer.run(index, Run(ops[entry.op], tuple(free.pop(entry.device))))
        elif entry.tensor is not None and entry.to is not None:
            writer.copy(storages[entry.tensor], entry.device, entry.to)
        for device, released in free.items():
            writer.on(device)
            writer.release(released)
    writer.on(writer.main)
    return finished(writer, "step", step.outputs, step.updates)


class _Account:
    """What is allocated on each device, by the step of the schedule that allocates."""

    def __init__(self, devices: Sequence[str]) -> None:
        self.devices = devices
        self.device_of: list[str] = []
        self.entered = False

    def enter(self, call: int) -> None:
        """The next allocations are of this call of the program; -1: of none."""
        self.entered = True
        with record_function(f"remora::{call}"):
            pass

    def peaks_of(self, run: Callable[[], Any]) -> dict[str, int]:
        """The most bytes that were allocated at once in a run, by device; beside calls, by the first one."""
        gc.collect()  # what is released meanwhile is to be of this run
        with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as recorded:
            run()
        events: list[tuple[int, str, int, int]] = []
        waiting = list(recorded.profiler.kineto_results.experimental_event_tree())
        while waiting:
            event = waiting.pop()
            waiting += event.children
            if event.name.startswith("remora::"):
                events.append((event.start_time_ns, event.name, 0, 0))
            elif event.name == "[memory]":
                events.append((event.start_time_ns, "", event.typed[1].ptr, event.typed[1].alloc_size))
        held, peaks = dict.fromkeys(self.devices, 0), dict.fromkeys(self.devices, 0)
        owner: dict[int, str] = {}
        device = self.devices[0]
        for _, name, address, size in sorted(events):
            if name:
                call = int(name.split("::")[1])
                device = self.device_of[call] if call >= 0 else self.devices[0]
                continue
            if size > 0:
                owner[address] = device
            where = owner.get(address, self.devices[0])
            held[where] += size
            peaks[where] = max(peaks[where], held[where])
        return peaks
