#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""examples/mlir/README.md runs as written, with its folder and that of `remora` in PATH."""

import os
import subprocess
import sys

import plugin_case


class Example(plugin_case.PluginCase):
    def test_the_readme_runs(self):
        example = os.path.join(plugin_case.ROOT, "examples", "mlir")
        environment = {**os.environ, "PATH": example + ":" + os.environ["PATH"], "REMORA_PLUGIN": self.plugin}
        runner = os.path.join(plugin_case.ROOT, "scripts", "run_doc_examples")
        done = subprocess.run(
            [sys.executable, runner, self.programs, os.path.join(example, "README.md")],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=250,
        )
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertGreater(done.stdout.count("ok "), 4, done.stdout)


if __name__ == "__main__":
    plugin_case.main()
