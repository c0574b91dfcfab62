# SPDX-License-Identifier: Apache-2.0
"""What the tests of the benchmark harness share: its modules in the path, a folder, and the programs.

usage: NAME_test.py BIN_FOLDER [unittest words]     BIN_FOLDER holds remora and remora_zoo
"""

import os
import sys
import tempfile
import unittest

SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BENCHMARKS = os.path.join(SOURCE, "benchmarks")
sys.path.insert(0, BENCHMARKS)


class HarnessCase(unittest.TestCase):
    bin = ""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def path(self, name):
        return os.path.join(self.folder, name)

    def write(self, name, text):
        os.makedirs(os.path.dirname(self.path(name)), exist_ok=True)
        with open(self.path(name), "w", encoding="utf-8") as file:
            file.write(text)

    def read(self, name):
        with open(self.path(name), encoding="utf-8") as file:
            return file.read()


def chain(layers):
    """A training step on a chain of layers: each backward op reads what its layer read, and the gradient."""
    tensors, ops = [{"name": "x", "size": 50}], []

    def add(name, inputs, duration, **members):
        tensors.append({"name": "t" + name, "size": 1000, "keep": name == "b0"})
        ops.append({"name": name, "duration": duration, "inputs": inputs, "outputs": ["t" + name]} | members)

    for i in range(layers):
        add(f"f{i}", [f"tf{i - 1}" if i else "x"], 10, phase="forward")
    add("loss", [f"tf{layers - 1}"], 1, phase="loss")
    for i in reversed(range(layers)):
        add(f"b{i}", [f"tb{i + 1}" if i + 1 < layers else "tloss", f"tf{i}"], 20, phase="backward", backward_of=f"f{i}")
    return {"format": "remora-graph", "version": 1, "name": "chain", "tensors": tensors, "ops": ops}


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    HarnessCase.bin = os.path.abspath(sys.argv.pop(1))
    unittest.main()
