# SPDX-License-Identifier: Apache-2.0
"""Measured costs of ONNX models: the run time of each node on this machine, and this machine's rates.

Needs onnx, onnxruntime and numpy (``pip install remora[onnx]``); they are imported when they are used.

``python -m remora.onnx profile model.onnx -o costs.csv`` goes with ``remora solve model.onnx --costs costs.csv …``,
``python -m remora.onnx calibrate -o device.json`` with ``--device device.json`` (docs/guide/onnx.md).
"""

from remora.onnx.calibrating import Roofline, calibrate
from remora.onnx.profiling import NodeCost, Profile, profile

__all__ = ["NodeCost", "Profile", "Roofline", "calibrate", "profile"]
