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
import math
import os
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import fx

from remora.errors import InputError

from ..capture.graph import StepGraph, tensors_in
from ..cost.calls import Cost, work_of

TILE = 128
"""The side of the tiles in which products are computed."""
DEPTH = 512
"""A tile's sums of so many products are worth a multiprocessor of their own."""
CLASSES = ("product", "product-fp32", "convolution", "attention", "memory")
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
        costs = {}
        for node in (node for op in step.ops for node in op.nodes):
            sizes = tuple(step.bytes_of(t) for t in tensors_in(step.value[node]))
            costs[node] = Cost(max(1, round(self.seconds(work_in(step, node)) * 1e9)), 0, sizes)
        return costs

    def step_seconds(self, seconds: float, ops: int) -> float:
        """What a step takes whose ops take so long, one after the other."""
        return max(seconds, ops * self.host)

    def seconds(self, work: Work) -> float:
        """What one op takes."""
        arithmetic = 0.0
        if work.operations:
            arithmetic = work.operations / self._rate(work)
            if work.kind.startswith("product"):
                arithmetic /= self._filled(work)
        return self.launch + max(arithmetic, work.moved / (self.bandwidth * self.efficiency["memory"]))

    def _rate(self, work: Work) -> float:
        # torch.backends.cudnn.allow_tf32 is on where nobody sets it
        name = "tf32" if work.numbers == "fp32" and work.kind == "convolution" else work.numbers
        rate = self.rates.get(name, self.rates["fp32"])
        return rate * self.efficiency[work.kind if work.kind != "memory" else "product"]

    def _filled(self, work: Work) -> float:
        """The share of the multiprocessors' time that a product's tiles fill."""
        if self.multiprocessors <= 1 or len(work.shape) < 2:
            return 1.0
        rows, columns = work.shape[-2:]
        made = math.prod(work.shape)
        # Where one side is short, narrower tiles are taken.
        height, width = (max(16, min(TILE, 1 << (n - 1).bit_length())) for n in (rows, columns))
        tiles = made // max(1, rows * columns) * -(-rows // height) * -(-columns // width)
        covered = made / max(1, tiles * height * width)
        # Long sums are divided among multiprocessors.
        tiles *= max(1, work.operations // (2 * max(1, made)) // DEPTH)
        rounds = max(1, -(-tiles // self.multiprocessors))
        return max(0.02, covered * tiles / (rounds * self.multiprocessors))


@dataclass(frozen=True)
class Work:
    """What there is to do for one op.

    Attributes
    ----------
    kind : str
        Its class, one of `CLASSES`.
    numbers : str
        The type in which it computes: "fp32", "bf16", "fp16", "fp64".
    operations, moved : int
        Floating-point operations; bytes read and written.
    shape : tuple of int
        Of its first result.
    """

    kind: str
    numbers: str
    operations: int
    moved: int
    shape: tuple[int, ...]


def work_in(step: StepGraph, node: fx.Node) -> Work:
    """What there is to do for a node of a step."""
    operations, moved = work_of(step, node)
    made = tensors_in(step.value[node])
    read = tensors_in(fx.node.map_arg((node.args, node.kwargs), lambda n: step.value[step.resolve(n)]))
    kinds = [_TYPES[t.dtype] for t in (*read, *made) if t.dtype in _TYPES]
    shape = tuple(map(int, made[0].shape)) if made else ()
    numbers = kinds[0] if kinds else "fp32"
    kind = class_of(node)
    return Work(f"{kind}-fp32" if (kind, numbers) == ("product", "fp32") else kind, numbers, operations, moved, shape)


def class_of(node: fx.Node) -> str:
    """The class of a node's op, one of `CLASSES`; products are told apart by their numbers elsewhere."""
    name = getattr(getattr(node.target, "overloadpacket", None), "__name__", "")
    if name in _PRODUCTS:
        return "product"
    if "convolution" in name:
        return "convolution"
    return "attention" if "scaled_dot_product" in name else "memory"


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
