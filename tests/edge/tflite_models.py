# SPDX-License-Identifier: Apache-2.0
"""TFLite models, written with LiteRT's own schema: small networks in floats and in 8-bit integers."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import flatbuffers
import numpy as np
from ai_edge_litert import schema_py_generated as schema

TYPES = {"float32": schema.TensorType.FLOAT32, "int8": schema.TensorType.INT8, "int32": schema.TensorType.INT32}
SCALE = 0.05
"""Of all tensors of 8-bit integers; their zero is 0."""


class Builder:
    """Tensors and ops of one subgraph, added in order; a tensor is its number."""

    def __init__(self, kind: str, seed: int = 0) -> None:
        self.kind, self.random = kind, np.random.default_rng(seed)
        self.buffers = [schema.BufferT()]
        self.codes: list[int] = []
        self.graph = schema.SubGraphT(tensors=[], inputs=[], outputs=[], operators=[], name=b"main")

    def tensor(self, shape: tuple[int, ...], kind: str = "", buffer: int = 0, scale: float = SCALE) -> int:
        kind = kind or self.kind
        number = len(self.graph.tensors)
        one = schema.TensorT(shape=list(shape), type=TYPES[kind], buffer=buffer, name=f"t{number}".encode())
        if self.kind == "int8":
            one.quantization = schema.QuantizationParametersT(scale=[scale], zeroPoint=[0])
        self.graph.tensors.append(one)
        return number

    def constant(self, values: Any, kind: str = "", scale: float = SCALE) -> int:
        kind = kind or self.kind
        self.buffers.append(schema.BufferT(data=np.frombuffer(np.asarray(values, kind).tobytes(), np.uint8)))
        return self.tensor(np.asarray(values).shape, kind, len(self.buffers) - 1, scale)

    def weights(self, *shape: int) -> int:
        values = self.random.normal(0, 0.3, shape)
        return self.constant(values if self.kind == "float32" else np.clip(values / SCALE, -127, 127).astype("int8"))

    def bias(self, width: int) -> int:
        values = self.random.normal(0, 0.1, width)
        if self.kind == "float32":
            return self.constant(values)
        return self.constant((values / SCALE**2).astype("int32"), "int32", SCALE**2)

    def shape(self, tensor: int) -> list[int]:
        shape: list[int] = self.graph.tensors[tensor].shape
        return shape

    def op(self, name: str, inputs: list[int], shape: tuple[int, ...], options: str = "", **values: Any) -> int:
        """Adds an op of one output, and returns that."""
        code = getattr(schema.BuiltinOperator, name)
        if code not in self.codes:
            self.codes.append(code)
        made = schema.OperatorT(opcodeIndex=self.codes.index(code), inputs=inputs, outputs=[self.tensor(shape)])
        if options:
            made.builtinOptionsType = getattr(schema.BuiltinOptions, options)
            made.builtinOptions = getattr(schema, options + "T")(**values)
        self.graph.operators.append(made)
        output: int = made.outputs[0]
        return output

    def convolution(self, x: int, width: int, size: int = 3, stride: int = 1, depthwise: bool = False) -> int:
        _, height, length, channels = self.shape(x)
        options = {"strideH": stride, "strideW": stride, "fusedActivationFunction": 1}
        shape = (1, -(-height // stride), -(-length // stride), channels if depthwise else width)
        if depthwise:
            inputs = [x, self.weights(1, size, size, channels), self.bias(channels)]
            return self.op("DEPTHWISE_CONV_2D", inputs, shape, "DepthwiseConv2DOptions", depthMultiplier=1, **options)
        inputs = [x, self.weights(width, size, size, channels), self.bias(width)]
        return self.op("CONV_2D", inputs, shape, "Conv2DOptions", **options)

    def dense(self, x: int, width: int, bias: bool = True) -> int:
        inputs = [x, self.weights(width, self.shape(x)[-1]), self.bias(width) if bias else -1]
        return self.op("FULLY_CONNECTED", inputs, (1, width), "FullyConnectedOptions")

    def add(self, a: int, b: int) -> int:
        return self.op("ADD", [a, b], tuple(self.shape(a)), "AddOptions")

    def concatenate(self, *parts: int) -> int:
        shape = [*self.shape(parts[0])[:-1], sum(self.shape(part)[-1] for part in parts)]
        return self.op("CONCATENATION", list(parts), tuple(shape), "ConcatenationOptions", axis=3)

    def join(self, parts: list[int]) -> int:
        """One row of several, two at a time."""
        while len(parts) > 1:
            a, b, *rest = parts
            shape = (1, self.shape(a)[-1] + self.shape(b)[-1])
            parts = [*rest, self.op("CONCATENATION", [a, b], shape, "ConcatenationOptions", axis=1)]
        return parts[0]

    def mean(self, x: int) -> int:
        axes = self.constant([1, 2], "int32")
        return self.op("MEAN", [x, axes], (1, self.shape(x)[-1]), "ReducerOptions")

    def finish(self, inputs: list[int], outputs: list[int]) -> bytes:
        """The model's file."""
        self.graph.inputs, self.graph.outputs = inputs, outputs
        codes = [schema.OperatorCodeT(deprecatedBuiltinCode=min(code, 127), builtinCode=code) for code in self.codes]
        self.buffers.append(schema.BufferT(data=np.frombuffer(b"1.5.0", np.uint8)))
        version = schema.MetadataT(name=b"min_runtime_version", buffer=len(self.buffers) - 1)
        model = schema.ModelT(
            version=3,
            operatorCodes=codes,
            subgraphs=[self.graph],
            description=b"made by Remora's tests",
            buffers=self.buffers,
            metadata=[version],
        )
        builder = flatbuffers.Builder(1024)
        builder.Finish(model.Pack(builder), b"TFL3")
        return bytes(builder.Output())


def mlp(kind: str) -> bytes:
    b = Builder(kind)
    x = b.tensor((1, 16))
    y = b.dense(x, 32)
    for _ in range(2):
        y = b.add(y, b.dense(b.dense(y, 8, bias=False), 32))
    return b.finish([x], [b.dense(y, 4)])


def ds_cnn(kind: str) -> bytes:
    b = Builder(kind)
    x = b.tensor((1, 25, 5, 1))
    y = b.convolution(x, 16, stride=2)
    for _ in range(3):
        y = b.convolution(b.convolution(y, 0, depthwise=True), 16, size=1)
    return b.finish([x], [b.dense(b.mean(y), 12)])


def inverted_residual(b: Builder, x: int, factor: int, width: int, stride: int) -> int:
    y = b.convolution(x, factor * b.shape(x)[-1], size=1)
    y = b.convolution(b.convolution(y, 0, stride=stride, depthwise=True), width, size=1)
    return b.add(x, y) if b.shape(x) == b.shape(y) else y


def mobilenet(kind: str) -> bytes:
    b = Builder(kind)
    x = b.tensor((1, 24, 24, 3))
    y = b.convolution(x, 8, stride=2)
    for width, stride in ((8, 1), (12, 2), (12, 1), (16, 2), (16, 1)):
        y = inverted_residual(b, y, 4, width, stride)
    return b.finish([x], [b.dense(b.mean(y), 10)])


def mobilenet_1_224() -> bytes:
    """MobileNet 1.0 for images of 224 x 224 pixels, in 8-bit integers (Howard et al. 2017)."""
    b = Builder("int8")
    x = b.tensor((1, 224, 224, 3))
    y = b.convolution(x, 32, stride=2)
    halves = [(64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), *[(512, 1)] * 5, (1024, 2), (1024, 1)]
    for width, stride in halves:
        y = b.convolution(b.convolution(y, 0, stride=stride, depthwise=True), width, size=1)
    return b.finish([x], [b.dense(b.mean(y), 1000)])


def mobilenet_v2_224() -> bytes:
    """MobileNetV2 1.0 for images of 224 x 224 pixels, in 8-bit integers (Sandler et al. 2018)."""
    b = Builder("int8")
    x = b.tensor((1, 224, 224, 3))
    y = b.convolution(x, 32, stride=2)
    y = b.convolution(b.convolution(y, 0, depthwise=True), 16, size=1)
    stages = [(24, 2, 2), (32, 3, 2), (64, 4, 2), (96, 3, 1), (160, 3, 2), (320, 1, 1)]
    for width, count, stride in stages:
        for i in range(count):
            y = inverted_residual(b, y, 6, width, stride if i == 0 else 1)
    return b.finish([x], [b.dense(b.mean(b.convolution(y, 1280, size=1)), 1000)])


def inception(kind: str) -> bytes:
    """Branches that meet again, and two outputs, one of them early."""
    b = Builder(kind)
    x = b.tensor((1, 12, 12, 4))
    y = b.convolution(x, 8)
    early = b.mean(y)
    for _ in range(3):
        branches = [b.convolution(y, 8, size=1), b.convolution(b.convolution(y, 4, size=1), 8), b.convolution(y, 4)]
        y = b.concatenate(*branches)
    return b.finish([x], [early, b.dense(b.mean(y), 10)])


def dense(kind: str) -> bytes:
    """Each layer reads all those before it."""
    b = Builder(kind)
    x = b.tensor((1, 10, 10, 3))
    found = [x]
    for _ in range(5):
        found.append(b.convolution(b.concatenate(*found), 6))
    return b.finish([x], [b.mean(b.concatenate(*found))])


def branches(kind: str, seed: int) -> bytes:
    """Layers of many widths, each on one of the last few; what nothing read is joined at the end."""
    draw = random.Random(seed)
    b = Builder(kind, seed)
    x = b.tensor((1, draw.choice([8, 16, 32])))
    made, unread = [x], {x}
    for _ in range(draw.randrange(6, 16)):
        source = draw.choice(made[-4:])
        made.append(b.dense(source, 8 * draw.randrange(1, 40), bias=False))
        unread = unread - {source} | {made[-1]}
    return b.finish([x], [b.join(sorted(unread - {x}))])


MODELS: dict[str, Callable[[str], bytes]] = {
    "MLP": mlp,
    "DS-CNN": ds_cnn,
    "MobileNet-like": mobilenet,
    "inception": inception,
    "dense": dense,
}

if __name__ == "__main__":  # tests/data/tflite/mlp.tflite was made by: tflite_models.py MLP int8 FILE
    Path(sys.argv[3]).write_bytes(MODELS[sys.argv[1]](sys.argv[2]))
