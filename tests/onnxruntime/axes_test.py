#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The axes that Remora states for ONNX ops, beside what onnxruntime and PyTorch compute.

usage: axes_test.py BIN ENVIRONMENT TORCH

An axis says which rows of the inputs a range of iterations reads. So all other rows may have any values: the op runs on
its inputs, and on inputs with other numbers there, and the range's rows of the results must be equal in every bit. The
terms of a sum, from inputs that are 0 outside of a range, must add up to the sum of all. Gradients come from PyTorch's
autograd, in the environment TORCH (gradients.py). Every op type with a rule must have had axes in some case, forward
and, where it has a gradient, backward.

REMORA_CASES (6 an op) and REMORA_SEED draw more and others. Exit 77: an environment is not there
(tests/onnxruntime/setup, tests/torch/setup).
"""

import json
import os
import pickle
import re
import struct
import subprocess
import sys
import tempfile

if __name__ == "__main__" and len(sys.argv) == 4 and sys.prefix != os.path.abspath(sys.argv[2]):
    python = os.path.join(sys.argv[2], "bin", "python")
    for environment in sys.argv[2:]:
        if not os.path.exists(os.path.join(environment, "bin", "python")):
            print("no environment:", environment)
            sys.exit(77)
    os.execv(python, [python, *sys.argv])

import numpy as np
import onnx
import onnxruntime
import shapes_test as shapes
from onnx import helper, numpy_helper
from shapes_test import B, F, I

HERE = os.path.dirname(os.path.abspath(__file__))
RULES = os.path.join(HERE, "..", "..", "frontends", "onnx", "loops", "loop_rules.cpp")


# Cases that shapes_test has not. Labels and indices are filled by `fill`.


def image(case, channels=None):
    case.data([case.up_to(3), channels or case.up_to(4), case.up_to(5), case.up_to(5)])
    return list(case.inputs["x0"].shape)


def any_shape(case):
    case.data(case.shape())


def batch_norm(case):
    channels = image(case)[1]
    for _ in range(4):
        case.data([channels])


def instance_norm(case):
    channels = image(case)[1]
    for _ in range(2):
        case.data([channels])


def group_norm(case):
    groups = case.up_to(3)
    channels = groups * case.up_to(3)
    image(case, channels)
    for _ in range(2):
        case.data([channels])
    case.set(num_groups=groups)


def rms_norm(case):
    shape = case.shape(1, 4)
    axis = case.axis(len(shape))
    case.data(shape)
    case.data(shape[axis:])
    case.set(axis=axis)


def along(case):
    shape = case.shape()
    case.data(shape)
    case.set(axis=case.axis(len(shape)))


def cumulative(case):
    shape = case.shape()
    case.data(shape)
    case.constant(np.asarray(case.axis(len(shape)), I))


def labels(case, weighted=True):
    shape = [case.up_to(4), case.up_to(5, 2), *[case.up_to(3) for _ in range(case.up_to(3) - 1)]]
    case.data(shape)
    case.data([shape[0], *shape[2:]], I)
    case.classes = shape[1]
    if weighted and case.chance(0.4):
        case.data([shape[1]])
    case.set(reduction=case.draw.choice(["none", "sum", "mean"]))
    if case.chance(0.4):
        case.set(ignore_index=0)


def cross_entropy(case):
    labels(case)
    case.outputs = case.up_to(2)


def attention(case):
    kept, group, size = case.up_to(3), case.up_to(2), case.up_to(3)
    batch, rows, keys = case.up_to(3), case.up_to(5), case.up_to(5)
    heads = kept * group
    if case.chance():
        case.data([batch, heads, rows, size])
        case.data([batch, kept, keys, size])
        case.data([batch, kept, keys, size])
    else:
        case.data([batch, rows, heads * size])
        case.data([batch, keys, kept * size])
        case.data([batch, keys, kept * size])
        case.set(q_num_heads=heads, kv_num_heads=kept)
    mask = case.draw.choice([None, 2, 3, 4])
    if mask:
        case.data([[batch, 1][case.draw.randrange(2)], [heads, 1][case.draw.randrange(2)], rows, keys][4 - mask :])
    elif case.chance():
        case.set(is_causal=1)


def rotary(case):
    batch, heads, rows, size = case.up_to(3), case.up_to(3), case.up_to(4), 2 * case.up_to(3)
    case.data([batch, heads, rows, size])
    for _ in range(2):
        case.data([batch, rows, size // 2])


def ternary(case):
    shape = case.shape()
    for _ in range(3):
        case.data([1 if case.chance(0.3) else e for e in shape])


def clip(case):
    case.data(case.shape())
    case.constant(np.asarray(0.7, F))
    case.constant(np.asarray(1.2, F))


def integer_product(case):
    m, n, k = case.up_to(5), case.up_to(5), case.up_to(5)
    case.data([case.up_to(3), m, k], np.uint8)
    case.data([k, n], np.uint8)


def integer_conv(case):
    case.data([case.up_to(2), 4, case.up_to(6, 3), case.up_to(6, 3)], np.uint8)
    case.data([4, 2, 3, 3], np.uint8)
    case.set(group=2, strides=[2, 1], pads=[1, 0, 1, 2])


def qlinear_conv(case):
    scale, zero = np.asarray(0.01, F), np.asarray(3, np.uint8)
    case.data([case.up_to(2), 3, case.up_to(6, 3), case.up_to(6, 3)], np.uint8)
    case.constant(scale), case.constant(zero)
    case.data([4, 3, 3, 3], np.uint8)
    for _ in range(2):
        case.constant(scale), case.constant(zero)
    case.set(strides=[1, 2], pads=[1, 1, 0, 2])


def quantize(kind):
    def make(case):
        shape = case.shape(2)
        axis = case.axis(len(shape))
        case.data(shape, kind)
        size = [shape[axis]] if case.chance() else []
        case.constant(np.full(size, 0.1, F))
        case.constant(np.full(size, 3, np.uint8))
        case.set(axis=axis)

    return make


def equal_parts(case):
    shape = case.shape()
    for _ in range(case.up_to(3, 2)):
        case.data(shape)
    case.set(axis=case.axis(len(shape)))


def equal_split(case):
    shape, count = case.shape(), case.up_to(3, 2)
    axis = case.axis(len(shape))
    shape[axis] *= count
    case.data(shape)
    case.set(axis=axis)
    case.outputs = count
    if case.opset >= 18:
        case.set(num_outputs=count)


def enlarge(case):
    """Scales with windows of whole rows, by sizes and by scales."""
    shape = [case.up_to(2), case.up_to(3), case.up_to(6, 2) * 2, case.up_to(6, 2) * 2]
    case.data(shape)
    scales = [1.0, 1.0, *[case.draw.choice([2.0, 3.0, 0.5, 1.5, 4.0]) for _ in range(2)]]
    case.set(
        mode=case.draw.choice(["nearest", "linear", "cubic"]),
        coordinate_transformation_mode=case.draw.choice(["half_pixel", "asymmetric", "pytorch_half_pixel"]),
        nearest_mode=case.draw.choice(["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"]),
    )
    case.leave_out()
    if case.chance():
        case.constant(np.asarray(scales, F))
    else:
        case.constant(np.asarray([], F))
        case.integers([int(e * s) for e, s in zip(shape, scales)])


def upsample(case):
    case.data([case.up_to(2), case.up_to(3), case.up_to(5, 2), case.up_to(5, 2)])
    case.constant(np.asarray([1, 1, case.up_to(3), case.up_to(3)], F))
    case.set(mode=case.draw.choice(["nearest", "linear"]))


def bits(case):
    shape = case.shape()
    for _ in range(2):
        case.data([1 if case.chance(0.3) else e for e in shape], np.uint8)


def shift(case):
    bits(case)
    case.set(direction=case.draw.choice(["LEFT", "RIGHT"]))


def unary_of(kind, **attributes):
    def make(case):
        case.data(case.shape(), kind)
        case.set(**attributes)

    return make


def dropout(case):
    case.data(case.shape())
    case.outputs = 2


def cast_like(case):
    case.data(case.shape())
    case.constant(np.asarray(1, np.int32))


# Op: what makes a case, the opset.
CASES = {name: [(make, max(first, 17))] for name, (make, first) in shapes.OPS.items()}
del CASES["Attention"]  # of com.microsoft
MORE = {
    "BatchNormalization": (batch_norm, 15), "InstanceNormalization": (instance_norm, 17),
    "GroupNormalization": (group_norm, 21),
    "RMSNormalization": (rms_norm, 23), "LpNormalization": (along, 17),
    "LogSoftmax": (along, 17), "Hardmax": (along, 17),
    "Softmax": (along, 11), "CumSum": (cumulative, 17), "SoftmaxCrossEntropyLoss": (cross_entropy, 17),
    "NegativeLogLikelihoodLoss": (labels, 17), "Attention": (attention, 23),
    "RotaryEmbedding": (rotary, 23), "Sum": (ternary, 17),
    "Mean": (ternary, 17), "Min": (ternary, 17), "Clip": (clip, 17), "MatMulInteger": (integer_product, 17),
    "ConvInteger": (integer_conv, 17), "QLinearConv": (qlinear_conv, 17), "QuantizeLinear": (quantize(F), 19),
    "DequantizeLinear": (quantize(np.uint8), 19), "Concat": (equal_parts, 17), "Split": (equal_split, 18),
    "Resize": (enlarge, 19), "Upsample": (upsample, 9), "BitwiseAnd": (bits, 18), "BitwiseOr": (bits, 18),
    "BitwiseXor": (bits, 18), "BitwiseNot": (unary_of(np.uint8), 18), "BitShift": (shift, 17), "Not": (unary_of(B), 17),
    "Dropout": (dropout, 17), "CastLike": (cast_like, 19),
    "Mod": (shapes.binary(I), 17), "ArgMin": (shapes.arg_reduction, 17),
    "Elu": (unary_of(F, alpha=0.5), 17), "LRN": (lambda case: (image(case, 5), case.set(size=3)), 17),
    "MeanVarianceNormalization": (lambda case: image(case) and None, 17), "QuickGelu": (unary_of(F), 17),
    "FastGelu": (unary_of(F), 17),
}  # fmt: skip
MICROSOFT = ("QuickGelu", "FastGelu")
for name in ("Sub", "Greater", "Less", "Or"):
    MORE[name] = (shapes.binary(B if name == "Or" else F), 17)
for name in ("Global" + pool for pool in ("AveragePool", "MaxPool", "LpPool")):
    MORE[name] = (lambda case: image(case) and None, 17)
for name in [
    "Neg",
    "Abs",
    "Log",
    "Erf",
    "Sqrt",
    "Reciprocal",
    "Sin",
    "Cos",
    "Tan",
    "Asin",
    "Acos",
    "Atan",
    "Sinh",
    "Cosh",
    "Tanh",
    "Asinh",
    "Acosh",
    "Atanh",
    "Sign",
    "Floor",
    "Ceil",
    "Round",
    "HardSigmoid",
    "Selu",
    "Softplus",
    "Softsign",
    "LeakyRelu",
    "Celu",
    "Mish",
    "Shrink",
    "IsNaN",
    "IsInf",
    "ThresholdedRelu",
]:
    MORE[name] = (any_shape, 22)
for name in ("Trilu",):
    MORE[name] = (lambda case: case.data(case.shape(2)), 17)
for name, entry in MORE.items():
    CASES.setdefault(name, []).append(entry)
# Rows of the table that no model for onnxruntime has: what training appends, and what another row computes, too.
ELSEWHERE = {"Loss", "GradientSum", "SimplifiedLayerNormalization", "SkipSimplifiedLayerNormalization", "Swish"}
# They are views, of one row, or all their dimensions are read at once.
VIEWS = {"Identity"}


def table():
    """The op types with a rule, as the source has them."""
    with open(RULES, encoding="utf-8") as file:
        text = file.read()
    text = text[text.index("LoopRules default_domain") : text.index("find_loops")]
    return set(re.findall(r'"([A-Z]\w+)"', text)) - ELSEWHERE - VIEWS


class Drawn:
    """A node, with arrays for all that the model is given."""

    def __init__(self, op, variant, seed):
        make, opset = CASES[op][variant]
        case = shapes.Case(f"{op} {variant} {seed}", opset)
        make(case)
        if op in MICROSOFT:
            case.domain = "com.microsoft"
        if op == "Cast":
            case.set(to=onnx.TensorProto.DOUBLE)
        self.random = np.random.default_rng([seed, len(op), variant])
        self.op, self.attributes, self.opset = op, case.attributes, opset
        self.names = case.names
        self.domain = case.domain
        # Weights are tensors of the graph, too.
        for name, array in list(case.constants.items()):
            if array.dtype == F and array.ndim >= (1 if op == "LayerNormalization" else 2):
                case.inputs[name] = case.constants.pop(name)
        self.constants = case.constants
        self.classes = getattr(case, "classes", None)
        self.inputs = {name: self.fill(array) for name, array in case.inputs.items()}
        self.outputs = [f"y{k}" for k in range(case.outputs)]

    def fill(self, array):
        """Numbers that every op takes."""
        if array.dtype == F:
            return self.random.uniform(0.5, 1.5, array.shape).astype(F)
        if array.dtype == B:
            return self.random.integers(0, 2, array.shape).astype(B)
        return self.random.integers(0, self.classes or 3, array.shape).astype(array.dtype) + (self.op == "Mod")

    def model(self):
        def info(name, array):
            return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)

        node = helper.make_node(self.op, self.names, self.outputs, "node", domain=self.domain, **self.attributes)
        graph = helper.make_graph(
            [node],
            "g",
            [info(*item) for item in self.inputs.items()],
            [onnx.ValueInfoProto(name=name) for name in self.outputs],
            [numpy_helper.from_array(array, name) for name, array in self.constants.items()],
        )
        imports = [helper.make_opsetid("", self.opset)]
        imports += [helper.make_opsetid(self.domain, 1)] if self.domain else []
        return helper.make_model(graph, opset_imports=imports, ir_version=8)


class Cut:
    """Rows of a tensor as in the file."""

    def __init__(self, entry, extent, array):
        self.step, self.offset = entry.get("step", 1), entry.get("offset", 0)
        self.rows = entry.get("rows", extent * self.step)
        self.length = entry.get("length", self.step)
        self.stride = entry.get("stride", array.nbytes // self.rows)

    def has_window(self):
        return self.offset != 0 or self.length != self.step

    def range(self, begin, end):
        first, last = begin * self.step + self.offset, (end - 1) * self.step + self.offset + self.length
        return slice(min(max(first, 0), self.rows), min(max(last, 0), self.rows))

    def view(self, array):
        """[blocks, rows, elements of a row]"""
        return array.reshape(-1, self.rows, self.stride // array.itemsize)

    def with_others(self, array, others, begin, end):
        result = np.ascontiguousarray(others).copy()
        rows = self.range(begin, end)
        self.view(result)[:, rows] = self.view(np.ascontiguousarray(array))[:, rows]
        return result

    def part(self, array, begin, end):
        return self.view(np.ascontiguousarray(array))[:, self.range(begin, end)]


def ranges(random, extent):
    """Every iteration in one of them."""
    marks = sorted({0, extent, *random.integers(0, extent + 1, 2).tolist()})
    return list(zip(marks, marks[1:]))


def cuts_of(axis, arrays):
    cuts = {}
    for entry in axis.get("cut", []):
        if entry["tensor"] in arrays:
            cuts[entry["tensor"]] = Cut(entry, axis["extent"], arrays[entry["tensor"]])
    return cuts


def same_bits(a, b):
    return np.ascontiguousarray(a).tobytes() == np.ascontiguousarray(b).tobytes()


def convert(program, path, *words):
    done = subprocess.run(
        [program, "convert", path, "--axes", "-q", *words], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise AssertionError(f"{path}: exit {done.returncode}: {done.stderr.strip()[:300]}")
    return json.loads(done.stdout)


def check_forward(drawn, graph, run, whole):
    """The number of axes; raises AssertionError for a wrong one."""
    node = next((op for op in graph["ops"] if op["name"] == "node"), None)
    axes = node.get("axes", []) if node else []
    arrays = {**drawn.inputs, **whole}
    # The denominator of a mean is of all labels, of which a run on a part sees its own alone.
    adds = not (drawn.op.endswith("Loss"))
    for axis in axes:
        cuts = cuts_of(axis, arrays)
        sums = {name: 0 for name in axis.get("sum", []) if name in whole and adds}
        plain = {name: np.zeros_like(a) if is_added(drawn, name) and sums else a for name, a in drawn.inputs.items()}
        reference = run(plain) if sums else whole
        for begin, end in ranges(drawn.random, axis["extent"]):
            others = {
                name: cuts[name].with_others(array, drawn.fill(array), begin, end) if name in cuts else array
                for name, array in drawn.inputs.items()
            }
            made = run(others)
            for name in whole:
                if name in cuts:
                    mine, right = (cuts[name].part(each[name], begin, end) for each in (made, whole))
                    assert same_bits(mine, right), f"{name}, iterations {begin} to {end} of {axis}"
            if sums:
                zeros = {
                    name: cuts[name].with_others(array, np.zeros_like(array), begin, end) if name in cuts else array
                    for name, array in plain.items()
                }
                terms = run(zeros)
                for name in sums:
                    sums[name] = sums[name] + terms[name].astype(np.float64)
        for name, total in sums.items():
            right = reference[name].astype(np.float64)
            assert np.allclose(total, right, rtol=1e-4, atol=1e-4), f"the sum {name} of {axis}"
    return len(axes)


def is_added(drawn, name):
    """A bias, which one term of a sum has."""
    position = {"Gemm": 2, "Conv": 2, "ConvTranspose": 2}.get(drawn.op)
    return position is not None and position < len(drawn.names) and drawn.names[position] == name


class Gradients:
    """A process of the other environment."""

    def __init__(self, environment):
        words = [os.path.join(environment, "bin", "python"), os.path.join(HERE, "gradients.py")]
        self.process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def ask(self, question):
        data = pickle.dumps(question, protocol=4)
        self.process.stdin.write(struct.pack("q", len(data)) + data)
        self.process.stdin.flush()
        (size,) = struct.unpack("q", self.process.stdout.read(8))
        return pickle.loads(self.process.stdout.read(size))

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def check_backward(drawn, graph, gradients, whole):
    node = next((op for op in graph["ops"] if op["name"] == "node/grad"), None)
    if node is None:
        return None
    wanted = [name for name in drawn.inputs if f"grad({name})" in node["outputs"]]
    given = {f"grad({name})": drawn.fill(np.ones_like(array)) for name, array in whole.items() if array.dtype == F}
    given = {name: array for name, array in given.items() if name in node["inputs"]}

    def run(inputs, results):
        arrays = {**drawn.constants, **inputs}
        question = {
            "op": drawn.op,
            "opset": drawn.opset,
            "attributes": drawn.attributes,
            "inputs": [arrays.get(name) for name in drawn.names],
            "outputs": [results.get(f"grad({name})") for name in drawn.outputs],
            "wanted": [drawn.names.index(name) for name in wanted],
        }
        answer = gradients.ask(question)
        return answer and {f"grad({name})": array.astype(F) for name, array in zip(wanted, answer)}

    right = run(drawn.inputs, given)
    if right is None:
        return None
    arrays = {**drawn.inputs, **whole, **given, **right}
    axes = node.get("axes", [])
    for axis in axes:
        cuts = cuts_of(axis, arrays)
        adds = any(name in cuts for name in given)
        sums = {name: 0 for name in axis.get("sum", []) if name in right and adds}
        covered = set()
        for begin, end in ranges(drawn.random, axis["extent"]):
            inputs = dict(drawn.inputs)
            for name, array in drawn.inputs.items():
                cut = cuts.get(name) if name in node["inputs"] else None
                if name not in node["inputs"]:
                    # What it reads of the result follows from the same rows of the input.
                    alike = [
                        r
                        for r in whole
                        if r in node["inputs"]
                        and (whole[r].shape, whole[r].dtype) == (array.shape, array.dtype)
                        and r in cuts
                    ]
                    cut = cuts[alike[0]] if alike and array.dtype == F else None
                if cut:
                    inputs[name] = cut.with_others(array, drawn.fill(array), begin, end)
            others = {
                name: cuts[name].with_others(a, drawn.fill(a), begin, end) if name in cuts else a
                for name, a in given.items()
            }
            made = run(inputs, others)
            for name in right:
                if name in cuts:
                    mine, true = (cuts[name].part(each[name], begin, end) for each in (made, right))
                    assert np.allclose(mine, true, rtol=1e-5, atol=1e-6), f"{name}, {begin} to {end} of {axis}"
            # A term is of the rows of the result's gradient; where these overlap, of the input's own rows.
            overlaps = any(name in cuts and cuts[name].has_window() for name in given)
            for array, (name, a) in (
                [(inputs, i) for i in drawn.inputs.items()] if overlaps else [(others, i) for i in given.items()]
            ):
                if name in cuts and (not overlaps or name in node["inputs"]):
                    array[name] = cuts[name].with_others(a, np.zeros_like(a), begin, end)
            terms = run(inputs, others)
            for name in sums:
                if overlaps and is_added(drawn, name[5:-1]):
                    (rows,) = (cuts[g] for g in given if g in cuts)
                    covered.update(range(*rows.range(begin, end).indices(rows.rows)))
                    assert begin == 0 or len(covered) == max(covered) + 1, f"rows of {name} left out by {axis}"
                    assert end < axis["extent"] or len(covered) == rows.rows, f"rows of {name} left out by {axis}"
                    sums[name] = right[name]
                else:
                    sums[name] = sums[name] + terms[name]
        for name, total in sums.items():
            assert np.allclose(total, right[name], rtol=1e-4, atol=1e-4), f"the sum {name} of {axis}"
    return len(axes)


def check(program, folder, gradients, op, variant, seed):
    """The numbers of axes, forward and backward; None where there is nothing to compare."""
    drawn = Drawn(op, variant, seed)
    model = drawn.model()
    if any(array.size == 0 for array in drawn.inputs.values()):
        return None, None
    try:
        session = shapes.onnxruntime.InferenceSession(model.SerializeToString(), settings(), ["CPUExecutionProvider"])
        made = session.run(None, drawn.inputs)
    except Exception:
        return None, None
    run = lambda inputs: dict(zip(drawn.outputs, session.run(None, inputs)))  # noqa: E731
    whole = dict(zip(drawn.outputs, made))
    path = os.path.join(folder, f"{op}-{variant}-{seed}.onnx")
    onnx.save(model, path)
    forward = check_forward(drawn, convert(program, path), run, whole)
    backward = None
    if any(array.dtype == F for array in drawn.inputs.values()) and whole[drawn.outputs[0]].dtype == F:
        try:
            graph = convert(program, path, "--training", "--gradients", "keep")
        except AssertionError as error:
            if "cannot derive" not in str(error):
                raise
            return forward, None
        backward = check_backward(drawn, graph, gradients, whole)
    os.remove(path)
    return forward, backward


def settings():
    result = onnxruntime.SessionOptions()
    result.log_severity_level = 4
    result.intra_op_num_threads = 1
    result.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return result


def main():
    program = os.path.join(sys.argv[1], "remora")
    cases, seed = int(os.environ.get("REMORA_CASES", "4")), int(os.environ.get("REMORA_SEED", "0"))
    folder = tempfile.mkdtemp(prefix="remora-axes-")
    gradients = Gradients(sys.argv[3])
    forward, backward, faults = {}, {}, []
    rows = sorted(table())
    faults += [f"{op}: has a rule, but no case" for op in rows if op not in CASES]
    for op in filter(CASES.__contains__, os.environ.get("REMORA_OPS", "").split() or rows):
        for variant in range(len(CASES[op])):
            for k in range(10 * cases):
                # Small shapes may have nothing to cut: more of them.
                if k >= cases and all(sum(counts.get(op, [1])) for counts in (forward, backward)):
                    break
                try:
                    found = check(program, folder, gradients, op, variant, seed + k)
                except (AssertionError, ValueError) as error:
                    faults.append(f"{op} {variant} {seed + k}: {error!r}")
                    break
                for counts, count in zip((forward, backward), found):
                    if count is not None:
                        counts.setdefault(op, []).append(count)
    gradients.close()
    for name, counts in (("forward", forward), ("backward", backward)):
        nodes, axes = sum(len(c) for c in counts.values()), sum(sum(c) for c in counts.values())
        print(f"{name}: {nodes} nodes of {len(counts)} ops, {axes} axes")
        faults += [f"{op}: had no axes {name}" for op, found in counts.items() if not sum(found)]
    if len(rows) != len(forward) and "REMORA_OPS" not in os.environ:
        faults.append("never run: " + ", ".join(sorted(set(rows) - set(forward))))
    for fault in faults[:100]:
        print(fault)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
