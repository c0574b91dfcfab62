#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Proof by execution: networks run by mlir-cpu-runner-19 give the same bits with and without the pass, in the memory
that the schedule promises: within 10 % of the predicted bytes, measured as the process's peak resident memory; in one
allocation within 5 %. CSE runs after the pass. examples/mlir/measure does the work, and fails where one of these does not hold."""

import os
import subprocess

import plugin_case

# A chain under 60 % is in examples/mlir/README.md, which runs, too.
CASES = [
    ("chain", "80%", "--seed", "2", "--size", "64", "--arena"),
    ("unet", "86%", "--seed", "1", "--size", "40", "--arena"),
    ("random", "60%", "--seed", "3", "--size", "64", "--arena"),
    ("random", "75%", "--seed", "4", "--size", "64", "--arena"),
]
MORE_CASES = [
    ("chain", "60%", "--seed", "1", "--size", "64", "--arena"),
    ("unet", "90%", "--seed", "2", "--size", "40", "--arena"),
]


class Execution(plugin_case.PluginCase):
    def test_bits_are_equal_and_memory_falls_as_predicted(self):
        measure = os.path.join(plugin_case.ROOT, "examples", "mlir", "measure")
        for case in CASES + (MORE_CASES if os.environ.get("REMORA_ALL_CASES") else []):
            with self.subTest(case=case):
                done = subprocess.run(
                    [measure, self.plugin, *case, "--time-limit", "1", "--passes-after", "cse"],
                    capture_output=True,
                    text=True,
                    check=False,
                    timeout=120,
                )
                print(done.stdout.strip(), flush=True)
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
                self.assertEqual(done.stdout.count("digests equal"), 2)


if __name__ == "__main__":
    plugin_case.main()
