#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Reads every model of the onnx package's own tests; what is refused, is for a reason of principle.

usage: reading_test.py BIN ENVIRONMENT

Prints the figures of docs/guide/onnx.md. Exit 77: the environment is not there (tests/onnxruntime/setup).
"""

import collections
import concurrent.futures
import os
import subprocess
import sys
import tempfile
import warnings

if __name__ == "__main__" and sys.prefix != os.path.abspath(sys.argv[2]):
    python = os.path.join(sys.argv[2], "bin", "python")
    if not os.path.exists(python):
        print("no environment: tests/onnxruntime/setup")
        sys.exit(77)
    os.execv(python, [python, *sys.argv])

import glob  # noqa: E402

import onnx  # noqa: E402
from onnx.backend.test.case.node import collect_testcases  # noqa: E402

# What a refusal says, and which reason that is. Of a model's inputs, whose data nobody knows, only the shapes are read.
REASONS = {
    "sequences, optionals, maps": ("a sequence, an optional or a map", "is not a tensor", "only the name n;"),
    "strings": ("string elements have no size",),
    "shapes by data": ("depends on the data", "depends on data", "is not a known integer constant", "are not known;",
                       "the shape of its output"),
}  # fmt: skip


def save_all(folder):
    """Every distinct model into the folder."""
    warnings.simplefilter("ignore")
    models = {case.model.SerializeToString() for case in collect_testcases(None) if case.model is not None}
    for path in glob.glob(os.path.join(os.path.dirname(onnx.__file__), "backend/test/data/**/*.onnx"), recursive=True):
        with open(path, "rb") as file:
            models.add(file.read())
    for k, model in enumerate(sorted(models)):
        with open(os.path.join(folder, f"{k}.onnx"), "wb") as file:
            file.write(model)
    return len(models)


def read(program, path):
    """The reason why it is refused; empty if it is read, else what went wrong."""
    done = subprocess.run([program, "info", path, "-q"], capture_output=True, text=True, check=False, timeout=60)
    if done.returncode == 0:
        return "read"
    lines = done.stderr.strip().splitlines()
    if done.returncode != 65 or len(lines) != 1:
        return f"{path}: exit {done.returncode}: {done.stderr[:300]}"
    for reason, words in REASONS.items():
        if any(word in lines[0] for word in words):
            if reason == "shapes by data" and not has_integer_input(path):
                return f"no data decides: {lines[0][:300]}"
            return reason
    return lines[0][:300]


def has_integer_input(path):
    """Whether data that the model is given can decide a shape: numbers, or elements that an op counts."""
    model = onnx.load(path)
    counting = {"Unique", "NonZero", "Compress", "NonMaxSuppression"}
    integers = (onnx.TensorProto.INT64, onnx.TensorProto.INT32)
    of_range = any(node.op_type in ("Range", "Loop") for node in model.graph.node)
    return (
        any(value.type.tensor_type.elem_type in integers for value in model.graph.input)
        or of_range
        or any(node.op_type in counting for node in model.graph.node)
    )


def main():
    program = os.path.join(sys.argv[1], "remora")
    with tempfile.TemporaryDirectory() as folder:
        count = save_all(folder)
        paths = [os.path.join(folder, f"{k}.onnx") for k in range(count)]
        with concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
            found = collections.Counter(pool.map(lambda path: read(program, path), paths))
        print(f"onnx {onnx.__version__}: {count} models")
        for reason, models in found.most_common():
            print(f"{models:5} {reason}")
        return 1 if set(found) - set(REASONS) - {"read"} else 0


if __name__ == "__main__":
    sys.exit(main())
