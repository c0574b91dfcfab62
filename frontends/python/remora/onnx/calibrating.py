# SPDX-License-Identifier: Apache-2.0
"""Rates of this machine, as the roofline of ``remora --device`` needs them."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, SupportsIndex

from remora import _engine
from remora._arguments import file_text, integer, write_text
from remora.onnx.profiling import profile

if TYPE_CHECKING:
    import onnx

# A product that keeps the arithmetic units busy, an array far larger than the caches, and a chain of ops that do
# nothing to speak of.
_PRODUCT = 1024
_COPIED = 1 << 26
_CHAIN = 200
_FLOAT_BYTES = 4


@dataclass(frozen=True)
class Roofline:
    """Peak rates of a machine.

    Attributes
    ----------
    name : str
    peak_flops : float
        Floating-point operations a second, in 32 bits: of a product of large matrices.
    bandwidth : float
        Bytes a second, read and written together: of an op on an array far larger than the caches.
    launch_overhead : float
        Seconds that an op costs at least: of one on a single number.
    """

    name: str
    peak_flops: float
    bandwidth: float
    launch_overhead: float

    @property
    def machine(self) -> _engine.Machine:
        """The engine's roofline of it."""
        return _engine.Machine(self.name, self.peak_flops, self.bandwidth, self.launch_overhead)

    def seconds(self, flops: float, moved: float) -> float:
        """Seconds of an op: the longer of its operations and of the bytes that it moves, and the overhead."""
        return self.machine.seconds("", "", round(flops), round(moved), ())

    def __str__(self) -> str:
        rates = f"{self.peak_flops / 1e9:.1f} GFLOP/s, {self.bandwidth / 1e9:.1f} GB/s"
        return f"{rates}, {self.launch_overhead * 1e6:.2f} us an op"

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Roofline:
        """Reads a device file, or takes the known device of that name.

        Raises
        ------
        InputError
            With the file, for what is no device file.
        OSError
            If the file cannot be read.
        """
        read = _engine.Machine.find(os.fspath(path))
        if read is None:
            place, text = file_text(path)
            read = _engine.Machine.read(text, place)
        return cls(read.name, read.rates["fp32"], read.bandwidth, read.launch)

    def to_json(self) -> str:
        """The text of a device file."""
        data = {
            "name": self.name,
            "rates": {"fp32": self.peak_flops},
            "bandwidth": self.bandwidth,
            "launch": self.launch_overhead,
            "source": "measured by python -m remora.onnx calibrate",
        }
        return json.dumps(data, indent=2) + "\n"

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the device file."""
        write_text(path, self.to_json())


def calibrate(
    *,
    runs: SupportsIndex = 20,
    threads: SupportsIndex = 1,
    providers: Sequence[str] = ("CPUExecutionProvider",),
    name: str | None = None,
) -> Roofline:
    """Measures this machine through onnxruntime: peak FLOPs, bandwidth and launch overhead.

    Parameters
    ----------
    runs : int
        Measured runs of each of the three models.
    threads : int
        Threads inside a node.
    providers : sequence of str
        Of onnxruntime, the one to prefer first.
    name : str, optional
        The device's name; by default the processor's.

    Returns
    -------
    Roofline
    """
    workers = integer(threads, "threads")

    def measured(model: onnx.ModelProto) -> float:
        taken = profile(model, runs=runs, threads=workers, providers=providers)
        # The chain's first nodes find cold caches; all others are alike.
        times = sorted(node.duration for node in taken.nodes)
        return max(times[len(times) // 2], 1) * 1e-9

    per_op = _whole_of_chain(runs, workers, providers) / _CHAIN
    flops = 2.0 * _PRODUCT**3 / measured(_model("MatMul", [_PRODUCT, _PRODUCT], 2))
    bandwidth = 2.0 * _COPIED * _FLOAT_BYTES / measured(_model("Relu", [_COPIED], 1))
    label = name if name is not None else f"{platform.processor() or platform.machine()}, {workers} threads"
    return Roofline(label, flops, bandwidth, per_op)


def _whole_of_chain(runs: SupportsIndex, threads: int, providers: Sequence[str]) -> float:
    """Seconds of a run of many ops that do nothing to speak of: what is between ops counts."""
    return profile(_chain(), runs=runs, threads=threads, providers=providers).whole * 1e-9


def _model(op: str, shape: list[int], operands: int) -> onnx.ModelProto:
    names = [f"x{number}" for number in range(operands)]
    return _made([(op, names, "y")], names, shape)


def _chain() -> onnx.ModelProto:
    nodes = [("Relu", [f"v{number}"], f"v{number + 1}") for number in range(_CHAIN - 1)]
    return _made([*nodes, ("Relu", [f"v{_CHAIN - 1}"], "y")], ["v0"], [1])


def _made(nodes: list[tuple[str, list[str], str]], inputs: list[str], shape: list[int]) -> onnx.ModelProto:
    from onnx import TensorProto, helper

    def value(name: str) -> Any:
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)

    graph = helper.make_graph(
        [helper.make_node(op, read, [written]) for op, read, written in nodes],
        "calibration",
        [value(name) for name in inputs],
        [value("y")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
