# SPDX-License-Identifier: Apache-2.0
"""Models to rewrite: random networks in which recomputing pays, and models of constant weights given random ones."""

import random

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

OPSET = 17


def finish(nodes, inputs, outputs, initializers=(), name="network", **more):
    graph = helper.make_graph(nodes, name, inputs, outputs, list(initializers))
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=8, **more)
    onnx.checker.check_model(model, full_check=True)
    return model


def image(name, shape):
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)


class Network:
    """Layers on images of one shape; what is read again much later is what a schedule likes to recompute."""

    def __init__(self, seed, layers, channels=4, size=16):
        self.random = random.Random(seed)
        self.arrays = np.random.default_rng(seed)
        self.shape = [1, channels, size, size]
        self.nodes, self.weights = [], []
        self.values = ["image"]
        for k in range(layers):
            self.values.append(self.layer(k))
        self.outputs = [self.values[-1]] + self.random.sample(self.values[1:-1], 1)

    def node(self, kind, inputs, name, **attributes):
        self.nodes.append(helper.make_node(kind, inputs, [name], name=name, **attributes))
        return name

    def weight(self, name, array):
        self.weights.append(numpy_helper.from_array(array, name))
        return name

    def layer(self, k):
        draw = self.random
        recent = draw.choice(self.values[-2:])
        kind = draw.choice(["conv", "conv", "relu", "add", "add", "views", "split", "sum"])
        if kind == "conv":
            channels = self.shape[1]
            array = self.arrays.standard_normal((channels, channels, 3, 3)).astype(np.float32) / (3 * channels**0.5)
            return self.node("Conv", [recent, self.weight(f"w{k}", array)], f"conv{k}", pads=[1, 1, 1, 1])
        if kind == "relu":
            return self.node(draw.choice(["Relu", "Sigmoid", "Tanh"]), [recent], f"unary{k}")
        if kind == "add":
            return self.node(draw.choice(["Add", "Sub"]), [recent, draw.choice(self.values)], f"binary{k}")
        if kind == "sum":
            total = self.node("ReduceMean", [recent], f"mean{k}", axes=[1], keepdims=1)
            return self.node("Mul", [draw.choice(self.values), total], f"scaled{k}")
        if kind == "split":
            self.nodes.append(helper.make_node("Split", [recent], [f"left{k}", f"right{k}"], name=f"split{k}", axis=2))
            return self.node("Concat", [f"right{k}", f"left{k}"], f"swapped{k}", axis=2)
        flat = self.weight(f"flat{k}", np.array([1, -1], dtype=np.int64))
        self.node("Reshape", [recent, flat], f"flat_view{k}")
        self.node("Shape", [recent], f"shape{k}")
        self.node("Exp" if draw.random() < 0.3 else "Neg", [f"flat_view{k}"], f"flat_result{k}")
        squashed = self.node("Tanh", [f"flat_result{k}"], f"flat_squashed{k}")
        return self.node("Reshape", [squashed, f"shape{k}"], f"view{k}")

    def model(self):
        used = set()
        for node in reversed(self.nodes):
            if any(value in used or value in self.outputs for value in node.output):
                used.update(node.input)
        outputs = [image(name, self.shape) for name in dict.fromkeys(self.outputs)]
        return finish(self.nodes, [image("image", self.shape)], outputs, self.weights)


def with_random_weights(model, seed=0):
    """Weights that are ConstantOfShape nodes become initializers with random elements."""
    arrays = np.random.default_rng(seed)
    graph = model.graph
    shapes = {one.name: numpy_helper.to_array(one) for one in graph.initializer}
    for node in graph.node:
        if node.op_type == "Constant":
            shapes[node.output[0]] = numpy_helper.to_array(node.attribute[0].t)
    kept = []
    for node in graph.node:
        value = node.attribute[0].t if node.op_type == "ConstantOfShape" and node.attribute else None
        whole = value is not None and value.data_type == TensorProto.FLOAT and node.input[0] in shapes
        if not whole or not shapes[node.input[0]].size:
            kept.append(node)
            continue
        shape = tuple(int(one) for one in shapes[node.input[0]])
        fan = max(1, int(np.prod(shape[1:])))
        array = arrays.standard_normal(shape) / fan**0.5
        # Of one dimension: a bias, a scale or a variance, which must be positive.
        array = np.abs(array) + 0.5 if len(shape) == 1 else array
        graph.initializer.append(numpy_helper.from_array(array.astype(np.float32), node.output[0]))
    del graph.node[:]
    graph.node.extend(kept)
    # Before version 4, initializers had to be inputs too.
    model.ir_version = max(model.ir_version, 4)
    return model
