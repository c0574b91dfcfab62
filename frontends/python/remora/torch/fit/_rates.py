# SPDX-License-Identifier: Apache-2.0
"""GPUs that can be planned for, and the cost of an op on each.

The engine has a table of devices and the roofline (`frontends/machine`): an op takes the time of a launch, and of its
arithmetic or of its memory traffic, whichever is longer.

The GPU works on one op while Python launches the next, so the time of a step is that of its ops, or that of launching
them, whichever is longer.
"""

from __future__ import annotations

import functools
import json
import os
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

import torch
from torch import fx

from remora import _engine
from remora._arguments import write_text
from remora.errors import InputError

from ..capture.graph import StepGraph, tensors_in
from ..cost.calls import Cost, work_of, workspace_of
from ..measure import device_name, measuring, timed

_PRODUCTS = ("mm", "addmm", "bmm", "baddbmm", "_scaled_mm")
_TYPES = {torch.float32: "fp32", torch.float64: "fp64", torch.bfloat16: "bf16", torch.float16: "fp16"}


@dataclass(frozen=True)
class FitDevice:
    """A device that can be planned for.

    Attributes
    ----------
    name : str
    memory : int
        Bytes that the driver reports in all.
    bandwidth : float
        Bytes per second.
    rates : dict of str to float
        Floating-point operations per second by type: "fp32", "tf32" (convolutions of float32), "bf16", "fp16".
    multiprocessors : int
    launch, host : float
        Seconds: of the smallest kernel on the device; of Python to launch one.
    context, workspaces : int
        Bytes that the driver's context takes; that cuBLAS and cuDNN keep.
    efficiency : dict of str to float
        By class of op, the share of the rate (of the bandwidth for "memory") that large ops reach.
    range : tuple of float
        Measured time over predicted time: minimum and maximum where they were compared.
    fitted : str
        On what the shares were fitted; "" if on nothing.
    source : str
        Where the figures are from.
    kind : {"cuda", "cpu"}
    """

    name: str
    memory: int
    bandwidth: float
    rates: dict[str, float]
    multiprocessors: int
    launch: float
    host: float
    context: int
    workspaces: int
    efficiency: dict[str, float]
    range: tuple[float, float]
    fitted: str
    source: str
    kind: str = "cuda"
    aliases: tuple[str, ...] = field(default=())

    def costs(self, step: StepGraph) -> dict[fx.Node, Cost]:
        """Cost of each node of a step; workspaces are not modelled, but for those of updates."""
        costs, machine = {}, self.machine
        for node in (node for op in step.ops for node in op.nodes):
            sizes = tuple(step.bytes_of(t) for t in tensors_in(step.value[node]))
            costs[node] = Cost(
                max(1, round(work_in(step, node).seconds(machine) * 1e9)), workspace_of(step, node), sizes
            )
        return costs

    def step_seconds(self, seconds: float, ops: int) -> float:
        """Time of a step whose ops take so long, one after the other."""
        return max(seconds, ops * self.host)

    @property
    def machine(self) -> _engine.Machine:
        """The engine's roofline of it."""
        return _engine.Machine.read(device_json(self), self.name)


@dataclass(frozen=True)
class Work:
    """Amount of work of one op."""

    # its class: "product", "convolution", "attention" or "memory", which differ in the share of rates they reach
    kind: str
    numbers: str  # the type in which it computes: "fp32", "bf16", "fp16", "fp64"
    # operations, moved: floating-point operations; bytes read and written
    operations: int
    moved: int
    shape: tuple[int, ...]  # of its first result

    def seconds(self, machine: _engine.Machine) -> float:
        """Seconds on a machine."""
        return machine.seconds(self.kind, self.numbers, self.operations, self.moved, self.shape)


def work_in(step: StepGraph, node: fx.Node) -> Work:
    """Amount of work of a node of a step."""
    operations, moved = work_of(step, node)
    made = tensors_in(step.value[node])
    read = tensors_in(step.given(node))
    kinds = [_TYPES[t.dtype] for t in (*read, *made) if t.dtype in _TYPES]
    shape = tuple(map(int, made[0].shape)) if made else ()
    return Work(class_of(node), kinds[0] if kinds else "fp32", operations, moved, shape)


def class_of(node: fx.Node) -> str:
    """The class of a node's op."""
    name = getattr(getattr(node.target, "overloadpacket", None), "__name__", "")
    if name in _PRODUCTS:
        return "product"
    if "convolution" in name:
        return "convolution"
    return "attention" if "scaled_dot_product" in name else "memory"


@functools.cache
def known_devices() -> dict[str, FitDevice]:
    """The devices of the engine's table whose memory is known, by name."""
    return {machine.name: _device(machine, machine.name) for machine in _engine.Machine.known() if machine.memory}


def device_of(given: str | os.PathLike[str] | FitDevice) -> FitDevice:
    """A device by its name, or from a file that `measure_device` wrote.

    Raises InputError if there is none of that name; it names those that there are.
    """
    if isinstance(given, FitDevice):
        return given
    text = os.fspath(given)
    if text.endswith(".json"):
        try:
            return device_from(Path(text).read_text(encoding="utf-8"), text)
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(text, f"cannot be read as a device: {error}") from None
    found = _engine.Machine.find(text)
    if found is not None:
        return _device(found, text)
    raise InputError("device", f"{text!r} is none of {', '.join(known_devices())}, and no file (*.json)")


def device_from(text: str, place: str) -> FitDevice:
    """A device from the text of its file; InputError names the key that is missing or has no sense."""
    return _device(_engine.Machine.read(text, place), place)


def _device(machine: _engine.Machine, place: str) -> FitDevice:
    if not machine.memory:
        raise InputError(place, "$.memory: missing; whether something fits depends on it")
    values = {field.name: getattr(machine, field.name) for field in fields(FitDevice)}
    return FitDevice(**values | {"range": tuple(machine.range), "aliases": tuple(machine.aliases)})


def device_json(device: FitDevice) -> str:
    """The file of one device."""
    return json.dumps(asdict(device), indent=1) + "\n"


# -- This machine ------------------------------------------------------------------------------------------------------

SIDE = {"cpu": 1024, "cuda": 8192}
"""Sizes of the matrices whose product is timed: they keep every unit busy."""
COPIED = {"cpu": 1 << 26, "cuda": 1 << 30}
"""Bytes that are copied, far more than caches hold."""
MANY = 200
"""Small ops one after the other, whose launches are timed."""


def measure_device(path: str | os.PathLike[str] | None = None, name: str | None = None) -> FitDevice:
    """Measures this machine's GPU, or its CPU where there is none; takes less than two minutes.

    Parameters
    ----------
    path : str or path, optional
        Where the device's file is written; `plan(device=path)` reads it on any machine.
    name : str, optional
        Of the device; by default what the driver calls it.
    """
    place = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    with torch.no_grad(), measuring(place):
        found = _measured(place, name or device_name(place))
    if path is not None:
        write_text(path, device_json(found))
    return found


def _measured(place: torch.device, name: str) -> FitDevice:
    kinds = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
    side = SIDE[place.type]
    rates = {}
    for word, kind in kinds.items():
        a = torch.ones(side, side, dtype=kind, device=place)
        rates[word] = 2 * side**3 / timed(lambda a=a: a @ a, place)  # type: ignore[misc]
    images = torch.ones(16, 64, 56, 56, device=place)
    weights = torch.ones(64, 64, 3, 3, device=place)
    convolved = 2 * images.numel() * 64 * 9 / timed(lambda: torch.conv2d(images, weights, padding=1), place)
    half = kinds["bf16"] if place.type == "cuda" else kinds["fp32"]
    heads = torch.ones(4, 16, 1024, 64, dtype=half, device=place)
    attention = torch.nn.functional.scaled_dot_product_attention
    attended = 4 * 4 * 16 * 1024**2 * 64 / timed(lambda: attention(heads, heads, heads), place)
    many = torch.ones(COPIED[place.type] // 4, device=place)
    into = torch.empty_like(many)
    bandwidth = 2 * many.nbytes / timed(lambda: into.copy_(many), place)
    one = torch.ones((), device=place)
    launch = timed(lambda: [one.add_(1.0) for _ in range(MANY)], place) / MANY
    on_gpu = place.type == "cuda"
    of_attention = rates["bf16"] if on_gpu else rates["fp32"]
    shares = {
        "product": 1.0,
        "product-fp32": 1.0,
        "convolution": convolved / rates["fp32"],
        "attention": attended / of_attention,
    }
    any_known = next(iter(known_devices().values()))
    properties: Any = torch.cuda.get_device_properties(place) if on_gpu else None
    return FitDevice(
        name=name,
        memory=int(properties.total_memory) if on_gpu else os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        bandwidth=bandwidth,
        rates={**rates, "tf32": rates["fp32"]},
        multiprocessors=int(properties.multi_processor_count) if on_gpu else 1,
        launch=min(launch, any_known.launch) if on_gpu else launch,
        host=launch if on_gpu else 0.0,
        context=any_known.context if on_gpu else 0,
        workspaces=any_known.workspaces if on_gpu else 0,
        efficiency={**shares, "memory": 1.0},
        range=(0.5, 2.0),
        fitted=f"single ops measured by remora.torch.measure_device, PyTorch {torch.__version__}",
        source="measured on this machine",
        kind=place.type,
    )
