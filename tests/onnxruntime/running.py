# SPDX-License-Identifier: Apache-2.0
"""Runs models in onnxruntime with the settings that keep a schedule (docs/rewrite.md), and remora itself."""
import json
import os
import subprocess
import tempfile

import numpy as np
import onnxruntime as ort

LEVELS = ort.GraphOptimizationLevel


def options(order="PRIORITY_BASED", level=LEVELS.ORT_DISABLE_ALL):
    settings = ort.SessionOptions()
    settings.graph_optimization_level = level
    settings.execution_order = getattr(ort.ExecutionOrder, order)
    settings.enable_cpu_mem_arena = False
    settings.enable_mem_pattern = False
    settings.intra_op_num_threads = 1
    settings.log_severity_level = 3
    return settings


def session(path, settings, disabled=None):
    return ort.InferenceSession(path, settings, providers=["CPUExecutionProvider"], disabled_optimizers=disabled)


def feeds_of(running, seed):
    arrays = np.random.default_rng(seed)
    feeds = {}
    for one in running.get_inputs():
        shape = [extent if isinstance(extent, int) else 2 for extent in one.shape]
        if "float" in one.type:
            feeds[one.name] = arrays.standard_normal(shape).astype(np.float32)
        else:
            feeds[one.name] = arrays.integers(0, 20, shape).astype(np.int64 if "64" in one.type else np.int32)
    return feeds


def results(path, seed, order="PRIORITY_BASED"):
    running = session(path, options(order))
    return running.run(None, feeds_of(running, seed))


def executed(path):
    """The names of the nodes in the order in which onnxruntime ran them."""
    settings = options()
    settings.enable_profiling = True
    with tempfile.TemporaryDirectory() as folder:
        settings.profile_file_prefix = os.path.join(folder, "profile")
        running = session(path, settings)
        running.run(None, feeds_of(running, 0))
        with open(running.end_profiling(), encoding="utf-8") as file:
            events = json.load(file)
    suffix = "_kernel_time"
    return [event["name"][:-len(suffix)] for event in events
            if event.get("cat") == "Node" and event["name"].endswith(suffix)]


def same(left, right):
    """Bit by bit."""
    return len(left) == len(right) and all(
        a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes() for a, b in zip(left, right))


def remora(folder, *words):
    """Exit code and what it says on standard error."""
    done = subprocess.run([os.path.join(folder, words[0]), *words[1:]], capture_output=True, text=True, check=False)
    return done.returncode, done.stderr
