# SPDX-License-Identifier: Apache-2.0
"""onnxruntime with the settings that keep what `remora rewrite` wrote (docs/guide/rewrite.md).

usage: runtime.py MODEL ORDER REUSE     prints the memory that a run of the model takes, in bytes (Linux)

ORDER is PRIORITY_BASED, the order of the file, or DEFAULT, onnxruntime's own. REUSE is on or off.
"""
import os
import subprocess
import sys

import numpy as np
import onnxruntime as ort


def settings(order="PRIORITY_BASED", reuse=True):
    options = ort.SessionOptions()
    # Merges equal nodes, and a recomputed node is equal to the first.
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    # Of the nodes that are ready, the first of the file is next.
    options.execution_order = getattr(ort.ExecutionOrder, order)
    # Memory that is released goes back, and is not planned ahead in one block.
    options.enable_cpu_mem_arena = False
    options.enable_mem_pattern = False
    # On, a tensor may take the place of an earlier one of its size, which stays allocated until then; off, views are
    # copies. Which takes less memory depends on the model.
    options.enable_mem_reuse = reuse
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    return options


def session(path, options, disabled=None):
    return ort.InferenceSession(path, options, providers=["CPUExecutionProvider"], disabled_optimizers=disabled)


def feeds_of(running, seed):
    """Random inputs; symbolic dimensions are 2."""
    arrays = np.random.default_rng(seed)
    feeds = {}
    for one in running.get_inputs():
        shape = [extent if isinstance(extent, int) else 2 for extent in one.shape]
        if "float" in one.type:
            feeds[one.name] = arrays.standard_normal(shape).astype(np.float32)
        else:
            feeds[one.name] = arrays.integers(0, 20, shape).astype(np.int64 if "64" in one.type else np.int32)
    return feeds


def results(path, seed=1, order="PRIORITY_BASED"):
    running = session(path, settings(order))
    return running.run(None, feeds_of(running, seed))


def same(left, right):
    """Bit by bit."""
    return len(left) == len(right) and all(
        a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes() for a, b in zip(left, right))


def memory_of_run(path, order="PRIORITY_BASED", reuse=True):
    """What a run of the model in a fresh process takes at most beyond what was resident before it, in bytes."""
    # Every large block is mapped by itself and unmapped when it is released, so that the process shows what it holds.
    environment = dict(os.environ, MALLOC_MMAP_THRESHOLD_="65536", MALLOC_TRIM_THRESHOLD_="0")
    words = [sys.executable, os.path.abspath(__file__), path, order, "on" if reuse else "off"]
    done = subprocess.run(words, env=environment, check=True, capture_output=True, text=True)
    return int(done.stdout)


def resident(figure):
    """VmRSS: what this process holds now; VmHWM: the most since the last reset."""
    with open("/proc/self/status", encoding="ascii") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith(figure))


def main(path, order, reuse):
    running = session(path, settings(order, reuse == "on"))
    feeds = feeds_of(running, 1)
    # Once before: code and tables are loaded on first use.
    running.run(None, feeds)
    before = resident("VmRSS")
    with open("/proc/self/clear_refs", "w", encoding="ascii") as reset:
        reset.write("5")
    running.run(None, feeds)
    print(resident("VmHWM") - before)


if __name__ == "__main__":
    if len(sys.argv) != 4:
        print(__doc__, file=sys.stderr)
        sys.exit(64)
    main(*sys.argv[1:])
