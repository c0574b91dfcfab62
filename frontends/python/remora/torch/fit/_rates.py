# SPDX-License-Identifier: Apache-2.0
"""GPUs that can be planned for, and what an op takes on one.

A device's file (`devices.json`, or one that `measure_device` wrote) has its memory, its bandwidth, its rates by type of
number, and the share of these that ops of each class reach. An op takes the time of a launch, and of its arithmetic or
of its memory traffic, whichever is longer (a roofline). Products of matrices run in tiles of 128 x 128 numbers, a tile
on one multiprocessor: what the last tiles and the last round of them leave idle is lost.

The GPU works on one op while Python launches the next, so a step takes what its ops take, or what launching them
takes, whichever is longer.
"""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import fx

from remora.errors import InputError

from .._costs import Cost, work_of
from .._graph import StepGraph, tensors_in

TILE = 128
"""The side of the tiles in which products are computed."""
DEPTH = 512
"""A tile's sums of so many products are worth a multiprocessor of their own."""
CLASSES = ("product", "convolution", "attention", "memory")
"""Ops that differ in the share of a device's rates that they reach."""
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
        Seconds: of the smallest kernel on the device; of what Python takes to launch one.
    context, workspaces : int
        Bytes that the driver's context takes; that cuBLAS and cuDNN keep.
    efficiency : dict of str to float
        By class of op, the share of the rate (of the bandwidth for "memory") that large ops reach.
    range : tuple of float
        Measured time over predicted time: the least and the most where they were compared.
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

    @property
    def place(self) -> torch.device:
        """What PyTorch calls it."""
        return torch.device(self.kind)

    def costs(self, step: StepGraph) -> dict[fx.Node, Cost]:
        """What each node of a step takes; workspaces are not known."""
        return {node: self._cost(step, node) for op in step.ops for node in op.nodes}

    def step_seconds(self, seconds: float, ops: int) -> float:
        """What a step takes whose ops take so long, one after the other."""
        return max(seconds, ops * self.host)

    def _cost(self, step: StepGraph, node: fx.Node) -> Cost:
        operations, moved = work_of(step, node)
        made = tensors_in(step.value[node])
        kind = class_of(node)
        arithmetic = operations / self._rate(kind, _numbers(step, node, made)) if operations else 0.0
        if operations and kind == "product":
            arithmetic /= self._filled(made[0], operations)
        seconds = self.launch + max(arithmetic, moved / (self.bandwidth * self.efficiency["memory"]))
        return Cost(max(1, round(seconds * 1e9)), 0, tuple(step.bytes_of(t) for t in made))

    def _rate(self, kind: str, dtype: torch.dtype) -> float:
        name = _TYPES.get(dtype, "fp32")
        if name == "fp32" and kind == "convolution":
            name = "tf32"  # torch.backends.cudnn.allow_tf32 is on where nobody sets it
        return self.rates.get(name, self.rates["fp32"]) * self.efficiency[kind if kind != "memory" else "product"]

    def _filled(self, result: torch.Tensor, operations: int) -> float:
        """The share of the multiprocessors' time that a product's tiles fill."""
        if self.multiprocessors <= 1 or result.dim() < 2:
            return 1.0
        rows, columns = result.shape[-2:]
        count = result.numel() // max(1, rows * columns)
        # Where one side is short, narrower tiles are taken.
        height, width = (max(16, min(TILE, 1 << (int(n) - 1).bit_length())) for n in (rows, columns))
        tiles = count * -(-rows // height) * -(-columns // width)
        covered = result.numel() / (tiles * height * width)
        # Long sums are divided among multiprocessors.
        tiles *= max(1, operations // (2 * result.numel()) // DEPTH)
        rounds = -(-tiles // self.multiprocessors)
        return max(0.02, covered * tiles / (rounds * self.multiprocessors))


def class_of(node: fx.Node) -> str:
    """The class of a node's op, one of `CLASSES`."""
    name = getattr(getattr(node.target, "overloadpacket", None), "__name__", "")
    if name in _PRODUCTS:
        return "product"
    if "convolution" in name:
        return "convolution"
    return "attention" if "scaled_dot_product" in name else "memory"


def _numbers(step: StepGraph, node: fx.Node, made: Sequence[torch.Tensor]) -> torch.dtype:
    """The type in which a node's op computes."""
    read = fx.node.map_arg((node.args, node.kwargs), lambda n: step.value[step.resolve(n)])
    kinds = [t.dtype for t in tensors_in(read) if t.is_floating_point()] or [t.dtype for t in made]
    return kinds[0]


@functools.cache
def known_devices() -> dict[str, FitDevice]:
    """The devices of the package, by name."""
    text = Path(__file__).with_name("devices.json").read_text(encoding="utf-8")
    read = json.loads(text)
    common = read["common"]
    found = (device_from({**common, **row}, f"devices[{i}]") for i, row in enumerate(read["devices"]))
    return {device.name: device for device in found}


def device_of(given: str | os.PathLike[str] | FitDevice) -> FitDevice:
    """A device by its name, or from a file that `measure_device` wrote.

    Raises
    ------
    InputError
        If there is none of that name; it names those that there are.
    """
    if isinstance(given, FitDevice):
        return given
    text = os.fspath(given)
    if text.endswith(".json"):
        try:
            return device_from(json.loads(Path(text).read_text(encoding="utf-8")), text)
        except (OSError, json.JSONDecodeError) as error:
            raise InputError(text, f"cannot be read as a device: {error}") from None
    wanted = text.lower().replace(" ", "-").replace("_", "-")
    for device in known_devices().values():
        if wanted == device.name or wanted in device.aliases:
            return device
    raise InputError("device", f"{text!r} is none of {', '.join(known_devices())}, and no file (*.json)")


def device_from(row: dict[str, Any], place: str) -> FitDevice:
    """A device from an object of its file.

    Raises
    ------
    InputError
        If a value is missing or has no sense.
    """
    try:
        device = FitDevice(
            name=str(row["name"]),
            memory=int(row["memory"]),
            bandwidth=float(row["bandwidth"]),
            rates={str(k): float(v) for k, v in row["rates"].items()},
            multiprocessors=int(row["multiprocessors"]),
            launch=float(row["launch"]),
            host=float(row["host"]),
            context=int(row["context"]),
            workspaces=int(row["workspaces"]),
            efficiency={name: float(row["efficiency"][name]) for name in CLASSES},
            range=(float(row["range"][0]), float(row["range"][1])),
            fitted=str(row["fitted"]),
            source=str(row["source"]),
            kind=str(row.get("kind", "cuda")),
            aliases=tuple(row.get("aliases", ())),
        )
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise InputError(place, f"is no device: {type(error).__name__} {error}") from None
    figures = [device.memory, device.bandwidth, device.launch, *device.rates.values(), *device.efficiency.values()]
    if "fp32" not in device.rates or min(figures) <= 0:
        raise InputError(place, "a device has a rate for fp32, and positive figures")
    return device


def device_json(device: FitDevice) -> str:
    """The file of one device."""
    return json.dumps(asdict(device), indent=1) + "\n"
