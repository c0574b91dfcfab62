#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Models that `remora rewrite --slices` writes, beside the originals in onnxruntime: outputs are equal up to rounding.

usage: slices_test.py BIN ENVIRONMENT PROGRAMS [CASES]

PROGRAMS random programs, each with regions that grow from random ops, in random numbers of slices, and with slices
chosen for the smallest budget; and of every op type that can be written, CASES nodes along each of their axes (default:
none). REMORA_SEED draws others, REMORA_OPS names op types. Exit 77: ENVIRONMENT is not there (tests/onnxruntime/setup).
"""

import os
import random
import re
import subprocess
import sys
import tempfile

if __name__ == "__main__" and len(sys.argv) > 3 and sys.prefix != os.path.abspath(sys.argv[2]):
    python = os.path.join(sys.argv[2], "bin", "python")
    if not os.path.exists(python):
        print("no environment: tests/onnxruntime/setup")
        sys.exit(77)
    os.execv(python, [python, *sys.argv])

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "..", "examples", "rewrite_onnx"))

import axes_test  # noqa: E402
import models  # noqa: E402
import numpy as np  # noqa: E402
import onnx  # noqa: E402
import runtime  # noqa: E402
from onnx import helper, numpy_helper  # noqa: E402

CONDITIONS = os.path.join(HERE, "..", "..", "frontends", "onnx", "loops", "writable_axes.cpp")
# What the command says of regions that cannot be.
ILLEGAL = re.compile(
    r"has no op|has no axes|axes of the op .* have one iteration|cannot be computed in slices|in these uneven slices|"
    r"no schedule"
)
# Another row computes these, too, or no case has a dimension to cut.
ELSEWHERE = {"SimplifiedLayerNormalization", "SkipSimplifiedLayerNormalization", "Swish", "BiasGelu"}


class Program(models.Network):
    """Layers on images of several extents, on rows of features, and heads of attention."""

    def __init__(self, seed, layers):
        self.random = random.Random(seed)
        self.arrays = np.random.default_rng(seed)
        self.nodes, self.weights, self.values, self.shapes = [], [], [], {}
        draw = self.random
        if draw.random() < 0.5:
            shape = [draw.choice([1, 1, 2, 3]), 4 * draw.randint(1, 2), draw.randint(5, 13), draw.randint(5, 13)]
        else:
            shape = [draw.choice([1, 1, 2, 3]), draw.randint(3, 13), 12]
        self.inputs = [models.image("x", shape)]
        self.made("x", shape)
        for k in range(layers):
            value = draw.choice(self.values[-3:])
            layer = self.image_layer if len(self.shapes[value]) == 4 else self.row_layer
            layer(value, self.shapes[value], str(k))
        self.outputs = [self.values[-1]]

    def made(self, name, shape):
        self.values.append(name)
        self.shapes[name] = list(shape)

    def add(self, kind, inputs, name, shape, **attributes):
        self.made(self.node(kind, inputs, name, **attributes), shape)
        return name

    def numbers(self, name, *shape):
        scale = max(1, int(np.prod(shape[1:]))) ** 0.5
        return self.weight(name, (self.arrays.standard_normal(shape) / scale).astype(np.float32))

    def image_layer(self, x, shape, k):
        draw, (n, c, h, w) = self.random, shape
        rest = ["pool", "pool", "depthwise", "relu", "norm", "up", "up", "transposed", "add", "join", "rows"]
        kind = draw.choice(["conv"] * 4 + rest)
        if kind == "conv":
            made, size, stride = draw.randint(2, 8), draw.choice([1, 2, 3, 3, 5]), draw.choice([1, 1, 1, 2, 3])
            pads = [draw.randrange(size) for _ in range(4)]
            dilation = draw.choice([1, 1, 2])
            reach = (size - 1) * dilation + 1
            extents = [(e + pads[d] + pads[d + 2] - reach) // stride + 1 for d, e in enumerate((h, w))]
            if min(extents) < 2 or max(pads) >= reach:
                return
            inputs = [x, self.numbers(f"w{k}", made, c, size, size)]
            if draw.random() < 0.5:
                inputs.append(self.numbers(f"b{k}", made))
            more = {"pads": pads, "strides": [stride] * 2, "dilations": [dilation] * 2}
            if draw.random() < 0.3 and dilation == 1:
                more = {"auto_pad": draw.choice(["SAME_UPPER", "SAME_LOWER"]), "strides": [stride] * 2}
                extents = [-(-e // stride) for e in (h, w)]
            self.add("Conv", inputs, f"conv{k}", [n, made, *extents], **more)
        elif kind == "depthwise":
            inputs = [x, self.numbers(f"w{k}", 2 * c, 1, 3, 3)]
            self.add("Conv", inputs, f"depthwise{k}", [n, 2 * c, h, w], pads=[1] * 4, group=c)
        elif kind == "transposed":
            made, size, stride = draw.randint(2, 6), draw.randint(2, 4), draw.randint(1, 3)
            pads, more = [draw.randrange(size) for _ in range(4)], [draw.randrange(stride) for _ in range(2)]
            extents = [(e - 1) * stride + size + more[d] - pads[d] - pads[d + 2] for d, e in enumerate((h, w))]
            if min(extents) < 2 or h * w > 400:
                return
            inputs = [x, self.numbers(f"w{k}", c, made, size, size), self.numbers(f"b{k}", made)]
            attributes = {"pads": pads, "strides": [stride] * 2, "output_padding": more}
            self.add("ConvTranspose", inputs, f"transposed{k}", [n, made, *extents], **attributes)
        elif kind == "pool":
            stride, ceil = draw.choice([1, 2]), draw.randrange(2)
            extents = [(e + 2 - 3 + (stride - 1) * ceil) // stride + 1 for e in (h, w)]
            extents = [m - ((m - 1) * stride >= e + 1) for m, e in zip(extents, (h, w))]
            if min(extents) >= 2:
                more = {"kernel_shape": [3, 3], "pads": [1] * 4, "strides": [stride] * 2, "ceil_mode": ceil}
                self.add(draw.choice(["MaxPool", "AveragePool"]), [x], f"pool{k}", [n, c, *extents], **more)
        elif kind == "relu":
            self.add(draw.choice(["Relu", "Sigmoid", "Tanh"]), [x], f"unary{k}", shape)
        elif kind == "norm":
            inputs = [x, *(self.numbers(f"{one}{k}", c) for one in ("scale", "shift", "mean"))]
            inputs.append(self.weight(f"variance{k}", self.arrays.uniform(0.5, 1.5, c).astype(np.float32)))
            self.add("BatchNormalization", inputs, f"norm{k}", shape)
        elif kind == "up":
            if h * w > 900:
                return
            factors = [draw.choice([1, 2, 2, 3]), draw.choice([1, 2])]
            scales = self.weight(f"scales{k}", np.array([1, 1, *factors], np.float32))
            how = draw.choice([("nearest", "asymmetric"), ("nearest", "half_pixel"), ("linear", "half_pixel")])
            extents = [h * factors[0], w * factors[1]]
            more = {"mode": how[0], "coordinate_transformation_mode": how[1], "nearest_mode": "floor"}
            sizes = self.weight(f"sizes{k}", np.array([n, c, *extents], np.int64))
            inputs = [x, "", scales] if draw.random() < 0.5 else [x, "", "", sizes]
            self.add("Resize", inputs, f"up{k}", [n, c, *extents], **more)
        elif kind == "add":
            other = draw.choice([one for one in self.values if self.shapes[one] == shape])
            self.add(draw.choice(["Add", "Mul"]), [x, other], f"binary{k}", shape)
        elif kind == "join":
            others = [one for one in self.values if self.shapes[one][:1] + self.shapes[one][2:] == [n, h, w]]
            other = draw.choice(others)
            self.add("Concat", [x, other], f"joined{k}", [n, c + self.shapes[other][1], h, w], axis=1)
        else:
            target = self.weight(f"target{k}", np.array([n, c, -1], np.int64))
            flat = self.node("Reshape", [x, target], f"flat{k}")
            self.add("Transpose", [flat], f"rows{k}", [n, h * w, c], perm=[0, 2, 1])

    def row_layer(self, x, shape, k):
        draw, (n, t, c) = self.random, shape
        rest = ["gemm", "softmax", "norm", "gelu", "attention", "attention", "add", "mask"]
        kind = draw.choice(["product"] * 3 + rest)
        if kind == "product":
            made = 4 * draw.randint(1, 6)
            self.add("MatMul", [x, self.numbers(f"w{k}", c, made)], f"product{k}", [n, t, made])
        elif kind == "gemm":
            made = 4 * draw.randint(1, 4)
            flat = self.node("Reshape", [x, self.weight(f"wide{k}", np.array([-1, c], np.int64))], f"flat{k}")
            gemm = self.node("Gemm", [flat, self.numbers(f"w{k}", made, c), self.numbers(f"b{k}", made)], f"gemm{k}",
                             transB=1)  # fmt: skip
            back = self.weight(f"back{k}", np.array([n, t, made], np.int64))
            self.add("Reshape", [gemm, back], f"unflat{k}", [n, t, made])
        elif kind == "softmax":
            self.add("Softmax", [x], f"softmax{k}", shape, axis=draw.choice([-1, 1]))
        elif kind == "norm":
            inputs = [x, self.numbers(f"scale{k}", c), self.numbers(f"shift{k}", c)]
            self.add("LayerNormalization", inputs, f"norm{k}", shape)
        elif kind == "gelu":
            erf = self.node("Erf", [x], f"erf{k}")
            self.add("Mul", [x, erf], f"gelu{k}", shape)
        elif kind == "attention" and c % 4 == 0:
            parts = []
            for name, order in (("q", [0, 2, 1, 3]), ("k", [0, 2, 3, 1]), ("v", [0, 2, 1, 3])):
                made = self.node("MatMul", [x, self.numbers(f"{name}w{k}", c, c)], f"{name}{k}")
                heads = self.weight(f"{name}heads{k}", np.array([0, 0, 4, -1], np.int64))
                split = self.node("Reshape", [made, heads], f"{name}split{k}")
                parts.append(self.node("Transpose", [split], f"{name}turned{k}", perm=order))
            scores = self.node("MatMul", parts[:2], f"scores{k}")
            weights = self.node("Softmax", [scores], f"weights{k}", axis=-1)
            mixed = self.node("MatMul", [weights, parts[2]], f"mixed{k}")
            turned = self.node("Transpose", [mixed], f"turned{k}", perm=[0, 2, 1, 3])
            rows = self.weight(f"joined{k}", np.array([n, t, c], np.int64))
            self.add("Reshape", [turned, rows], f"attention{k}", shape)
        elif kind == "add":
            other = draw.choice([one for one in self.values if self.shapes[one] == shape])
            self.add(draw.choice(["Add", "Sub"]), [x, other], f"sum{k}", shape)
        elif kind == "mask":
            self.add("Add", [x, self.numbers(f"mask{k}", 1, t, 1)], f"masked{k}", shape)

    def model(self):
        used = set(self.outputs)
        kept = []
        for node in reversed(self.nodes):
            if used.intersection(node.output):
                used.update(node.input)
                kept.insert(0, node)
        weights = [one for one in self.weights if one.name in used]
        outputs = [models.image(name, self.shapes[name]) for name in self.outputs]
        return models.finish(kept, self.inputs, outputs, weights)


class Checker:
    def __init__(self, binaries):
        self.program = os.path.join(binaries, "remora")
        self.folder = tempfile.mkdtemp(prefix="remora-slices-")
        self.checked, self.illegal, self.bitwise = 0, 0, 0

    def rewritten(self, original, *words):
        """The path of the model; none where the region cannot be, or no schedule was found."""
        written = os.path.join(self.folder, "written.onnx")
        words = [self.program, "rewrite", original, "-q", "-o", written, "--threads", "1", *words]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        if done.returncode == 0:
            return written
        if done.returncode in (20, 21) or (done.returncode == 65 and ILLEGAL.search(done.stderr)):
            self.illegal += 1
            return None
        raise AssertionError(f"{' '.join(words[2:])}: exit {done.returncode}: {done.stderr.strip()[-300:]}")

    def compare(self, original, feeds, results, *words):
        """True if there was something to compare."""
        written = self.rewritten(original, *words)
        if written is None:
            return False
        for reuse in (False, True):
            try:
                made = runtime.session(written, runtime.settings(reuse=reuse)).run(None, feeds)
            except Exception as error:
                raise AssertionError(f"{' '.join(words)}: {error}") from error
            for right, got in zip(results, made):
                fine = runtime.same([right], [got]) or runtime.close(right, got)
                if not fine and not np.issubdtype(right.dtype, np.floating):
                    # A quantized number may round to the next one.
                    fine = right.shape == got.shape and (runtime.farthest(right, got) or 2) <= 1 and right.dtype != bool
                assert fine, f"{' '.join(words)}: outputs differ by {runtime.farthest(right, got)}"
            self.bitwise += runtime.same(results, made)
        onnx.checker.check_model(written)
        self.checked += 1
        return True


def check_program(checker, seed):
    program = Program(seed, 9)
    model = program.model()
    original = os.path.join(checker.folder, f"program{seed}.onnx")
    onnx.save(model, original)
    running = runtime.session(original, runtime.settings())
    feeds = runtime.feeds_of(running, seed)
    results = running.run(None, feeds)
    found = 0
    names = [node.name for node in model.graph.node if node.op_type != "Reshape"]
    for name in program.random.sample(names, min(4, len(names))):
        words = ["--slices", f"{name}={program.random.randint(2, 7)}", "--work-limit", "500"]
        found += checker.compare(original, feeds, results, *words, "-b", program.random.choice(["200%", "200%", "80%"]))
    found += checker.compare(original, feeds, results, "--slices", "auto", "-b", "70%", "--work-limit", "500")
    os.remove(original)
    return found


def stored(drawn):
    """The model, with some of its data in the file."""
    model = drawn.model()
    moved = [name for name in list(drawn.inputs)[1:] if drawn.random.random() < 0.5]
    for name in moved:
        model.graph.initializer.append(numpy_helper.from_array(drawn.inputs[name], name))
    kept = [one for one in model.graph.input if one.name not in moved]
    del model.graph.input[:]
    model.graph.input.extend(kept)
    return model, {name: array for name, array in drawn.inputs.items() if name not in moved}


def check_node(checker, op, variant, seed):
    """The number of axes along which the node could be written; none where onnxruntime does not run it."""
    drawn = axes_test.Drawn(op, variant, seed)
    if any(array.size == 0 for array in drawn.inputs.values()) or drawn.opset < 11:
        return None
    model, feeds = stored(drawn)
    original = os.path.join(checker.folder, f"{op}-{variant}-{seed}.onnx")
    try:
        running = runtime.session(model.SerializeToString(), runtime.settings())
        results = running.run(None, feeds)
        model = onnx.shape_inference.infer_shapes(model)
        for one, array in zip(model.graph.output, results):
            kind = helper.np_dtype_to_tensor_dtype(array.dtype)
            one.CopyFrom(helper.make_tensor_value_info(one.name, kind, array.shape))
    except Exception:
        return None
    onnx.save(model, original)
    found = 0
    for axis in range(8):
        words = ["--slices", f"node,={drawn.random.integers(2, 6)}@{axis}", "-b", "1000%", "--work-limit", "100"]
        try:
            found += checker.compare(original, feeds, results, *words)
        except AssertionError as error:
            if "has no axis" in str(error):
                break
            raise
    os.remove(original)
    return found


def written_types():
    with open(CONDITIONS, encoding="utf-8") as file:
        text = file.read()
    text = text[text.index("kUnchanged") : text.index("bool is_setting")]
    return {word for quoted in re.findall(r'"([A-Z][\w ]+)"', text) for word in quoted.split()} - ELSEWHERE


def main():
    checker = Checker(sys.argv[1])
    seed = int(os.environ.get("REMORA_SEED", "0"))
    programs, cases = int(sys.argv[3]), int(sys.argv[4]) if len(sys.argv) > 4 else 0
    faults, sliced = [], 0
    for k in range(programs):
        try:
            sliced += check_program(checker, seed + k) > 0
        except AssertionError as error:
            faults.append(f"program {seed + k}: {error}")
    print(f"{programs} programs, {sliced} of them in slices")
    if sliced * 2 < programs:
        faults.append("most programs have no slices")
    counts = {}
    rows = os.environ.get("REMORA_OPS", "").split() or sorted(written_types())
    for op in rows if cases else ():
        for variant in range(len(axes_test.CASES.get(op, []))):
            for k in range(10 * cases):
                if k >= cases and counts.get(op):
                    break
                try:
                    counts[op] = counts.get(op, 0) + (check_node(checker, op, variant, seed + k) or 0)
                except AssertionError as error:
                    faults.append(f"{op} {variant} {seed + k}: {error}")
                    break
    if cases:
        faults += [f"{op}: had no slices" for op in rows if not counts.get(op)]
    print(f"{checker.checked} models compared, {checker.bitwise} of {2 * checker.checked} runs bitwise equal; "
          f"{checker.illegal} without slices")  # fmt: skip
    for fault in faults[:100]:
        print(fault)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
