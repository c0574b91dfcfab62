# SPDX-License-Identifier: Apache-2.0
"""Models made ready to be measured: every node named, constants folded, inputs made up."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from remora.errors import InputError

if TYPE_CHECKING:
    import numpy
    import onnx

_RANDOM = {"RandomNormal", "RandomUniform", "RandomNormalLike", "RandomUniformLike", "Multinomial", "Bernoulli"}


def load_model(model: str | os.PathLike[str] | bytes | onnx.ModelProto) -> onnx.ModelProto:
    """The model itself, a copy of it, or the contents of the file, including weights in files next to it."""
    import onnx

    if isinstance(model, onnx.ModelProto):
        copy = onnx.ModelProto()
        copy.CopyFrom(model)
        return copy
    try:
        return onnx.load_from_string(model) if isinstance(model, bytes) else onnx.load(os.fspath(model))
    except OSError:
        raise
    except Exception as error:
        # Whatever protobuf's decoder throws means that the bytes are no model.
        place = "model" if isinstance(model, bytes) else os.fspath(model)
        raise InputError(place, f"is not an ONNX model: {error}") from None


def node_names(model: onnx.ModelProto) -> list[str]:
    """The name under which each node's cost is listed: its own or, if it has none, that of its first output."""
    return [node.name or next((name for name in node.output if name), "") for node in model.graph.node]


def fold_constants(model: onnx.ModelProto) -> None:
    """Computes once what depends on no input, as Remora counts it: initializers, not ops."""
    import numpy
    import onnxruntime
    from onnx import numpy_helper

    known = {tensor.name for tensor in model.graph.initializer}
    # Before version 4 of the format initializers had to be listed among the inputs, too.
    model.ir_version = max(model.ir_version, 4)
    inputs = [value for value in model.graph.input if value.name not in known]
    del model.graph.input[:]
    model.graph.input.extend(inputs)
    constant = []
    for node in model.graph.node:
        has_body = any(attribute.HasField("g") or attribute.graphs for attribute in node.attribute)
        if node.op_type in _RANDOM or has_body or not all(name in known for name in node.input if name):
            continue
        constant.append(node)
        known.update(node.output)
    if not constant:
        return
    part = type(model)()
    part.CopyFrom(model)
    del part.graph.node[:], part.graph.input[:], part.graph.output[:], part.graph.value_info[:]
    part.graph.node.extend(constant)
    wanted = [name for node in constant for name in node.output if name]
    part.graph.output.extend(type(model.graph.output.add())(name=name) for name in wanted)
    del model.graph.output[-len(wanted) :]
    session = onnxruntime.InferenceSession(
        part.SerializeToString(), _quiet_options(onnxruntime), providers=["CPUExecutionProvider"]
    )
    values = session.run(wanted, {})
    for name, value in zip(wanted, values, strict=True):
        model.graph.initializer.append(numpy_helper.from_array(numpy.asarray(value), name))
    folded = {id(node) for node in constant}
    rest = [node for node in model.graph.node if id(node) not in folded]
    copies = [type(node).FromString(node.SerializeToString()) for node in rest]
    del model.graph.node[:]
    model.graph.node.extend(copies)


def _quiet_options(onnxruntime: Any) -> Any:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return options


def set_dimensions(model: onnx.ModelProto, dimensions: Mapping[str, int]) -> None:
    """Gives symbolic dimensions of the inputs their values."""
    found = set()
    for value in model.graph.input:
        for axis, dimension in enumerate(value.type.tensor_type.shape.dim):
            if dimension.HasField("dim_value"):
                continue
            name = dimension.dim_param
            if name not in dimensions:
                raise InputError(
                    f"input {value.name}[{axis}]", f"has no size{f', only the name {name}' if name else ''}: set it"
                )
            found.add(name)
            dimension.dim_value = dimensions[name]
    for name in dimensions:
        if name not in found:
            raise InputError(f"dimension {name}", "no input of the model has it")


def made_up_inputs(model: onnx.ModelProto, seed: int) -> dict[str, numpy.ndarray[Any, Any]]:
    """Something for every input: normal floats, and zeros, which every table to look up in has."""
    import numpy
    from onnx import helper

    generator = numpy.random.default_rng(seed)
    made = {}
    for value in model.graph.input:
        kind = value.type.tensor_type
        shape = [dimension.dim_value for dimension in kind.shape.dim]
        dtype = helper.tensor_dtype_to_np_dtype(kind.elem_type)
        if numpy.issubdtype(dtype, numpy.floating):
            made[value.name] = generator.standard_normal(shape).astype(dtype)
        else:
            made[value.name] = numpy.zeros(shape, dtype)
    return made
