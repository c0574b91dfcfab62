# SPDX-License-Identifier: Apache-2.0
"""onnxruntime with the settings that keep what `remora rewrite` wrote (docs/guide/rewrite.md).

usage: runtime.py version
       runtime.py memory MODEL ORDER REUSE [SHAPES]     the memory that a run of the model takes, in bytes (Linux)
       runtime.py compare ORIGINAL REWRITTEN [SHAPES]   what `remora rewrite --check` tells: outputs and memory of both

Each prints one line of JSON. ORDER is PRIORITY_BASED, the order of the file, or DEFAULT, onnxruntime's own. REUSE is
on or off. SHAPES is a JSON object, input to extents, for models with symbolic dimensions. `remora` holds this text and
hands it to `python -c`.
"""
import json
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


def element_type(one):
    names = {"float": "float32", "double": "float64"}
    name = one.type.removeprefix("tensor(").removesuffix(")")
    try:
        return np.dtype(names.get(name, name))
    except TypeError:
        raise SystemExit(f"the input {one.name} is of {one.type}, of which no elements can be made up") from None


def feeds_of(running, seed, shapes=None):
    """Random inputs: normal numbers, or 0 and 1, which most tables to look up in have. Symbolic dimensions are 2."""
    arrays = np.random.default_rng(seed)
    feeds = {}
    for one in running.get_inputs():
        shape = (shapes or {}).get(one.name) or [extent if isinstance(extent, int) else 2 for extent in one.shape]
        kind = element_type(one)
        floats = np.issubdtype(kind, np.floating)
        feeds[one.name] = (arrays.standard_normal(shape) if floats else arrays.integers(0, 2, shape)).astype(kind)
    return feeds


def results(path, seed=1, order="PRIORITY_BASED", shapes=None):
    running = session(path, settings(order))
    return running.run(None, feeds_of(running, seed, shapes))


def same(left, right):
    """Bit by bit."""
    return len(left) == len(right) and all(
        a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes() for a, b in zip(left, right))


def farthest(left, right):
    """The largest difference of two elements; none where shapes differ or something is no number."""
    if left.shape != right.shape:
        return None
    most = float(np.max(np.abs(left.astype(np.float64) - right.astype(np.float64)), initial=0.0))
    return most if np.isfinite(most) else None


def close(left, right):
    """Equal up to the rounding of sums in another order: by the largest number of the output."""
    parts = {2: 2.0**-7, 4: 2.0**-15, 8: 2.0**-40}
    if left.shape != right.shape or not np.issubdtype(left.dtype, np.floating):
        return False
    left, right, part = left.astype(np.float64), right.astype(np.float64), parts[left.itemsize]
    finite = np.isfinite(left)
    if not np.array_equal(left[~finite], right[~finite], equal_nan=True):
        return False
    largest = np.max(np.abs(left[finite]), initial=0.0)
    return bool(np.max(np.abs(left[finite] - right[finite]), initial=0.0) <= part * largest)


def memory_of_run(path, order="PRIORITY_BASED", reuse=True, shapes=None):
    """What a run of the model in a fresh process takes at most beyond what was resident before it, in bytes."""
    # Every block of a page or more is mapped by itself and unmapped when it is released: the process shows what it holds.
    environment = dict(os.environ, MALLOC_MMAP_THRESHOLD_="4096", MALLOC_MMAP_MAX_="1000000",
                       MALLOC_TRIM_THRESHOLD_="0")
    text = [os.path.abspath(__file__)] if "__file__" in globals() else sys.orig_argv[1:3]
    words = [sys.executable, *text, "memory", path, order, "on" if reuse else "off", json.dumps(shapes or {})]
    done = subprocess.run(words, env=environment, check=False, capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"a run of {path} ended with {done.returncode}: {done.stderr}")
    return json.loads(done.stdout)


def resident(figure):
    """VmRSS: what this process holds now; VmHWM: the most since the last reset."""
    with open("/proc/self/status", encoding="ascii") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith(figure))


def measured(path, order, reuse, shapes):
    running = session(path, settings(order, reuse))
    feeds = feeds_of(running, 1, shapes)
    # Once before: code and tables are loaded on first use.
    running.run(None, feeds)
    before = resident("VmRSS")
    with open("/proc/self/clear_refs", "w", encoding="ascii") as reset:
        reset.write("5")
    running.run(None, feeds)
    return resident("VmHWM") - before


def differences(original, rewritten, shapes):
    """Of each output that is not equal in every bit: by how much at most, and whether two runs of the original agree."""
    running = session(original, settings())
    feeds = feeds_of(running, 1, shapes)
    first, second = running.run(None, feeds), results(rewritten, shapes=shapes)
    found = [k for k in range(len(first)) if not same([first[k]], [second[k]])]
    again = running.run(None, feeds) if found else []
    names = [one.name for one in running.get_outputs()]
    return {names[k]: {"farthest": farthest(first[k], second[k]), "close": close(first[k], second[k]),
                       "repeats": same([first[k]], [again[k]])} for k in found}


def compared(original, rewritten, shapes):
    """`memory` is by reuse, of the original and of the rewritten model; empty where no /proc tells it."""
    result = {"version": ort.__version__, "differ": differences(original, rewritten, shapes), "memory": {}}
    if os.path.exists("/proc/self/clear_refs"):
        result["memory"] = {name: [memory_of_run(path, reuse=reuse, shapes=shapes) for path in (original, rewritten)]
                          for name, reuse in (("off", False), ("on", True))}
    return result


def main(words):
    if words == ["version"]:
        result = ort.__version__
    elif words[:1] == ["compare"] and len(words) in (3, 4):
        result = compared(*words[1:3], json.loads(words[3]) if words[3:] else {})
    elif words[:1] == ["memory"] and len(words) in (4, 5) and words[3] in ("on", "off"):
        result = measured(*words[1:3], words[3] == "on", json.loads(words[4]) if words[4:] else {})
    else:
        print(__doc__, file=sys.stderr)
        return 64
    print(json.dumps(result))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
