# SPDX-License-Identifier: Apache-2.0
"""What the tests of the plugin share: mlir-opt with the plugin, in a temporary folder."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
GENERATOR = os.path.join(ROOT, "examples", "mlir", "make_network")
DEALLOCATED = (
    "one-shot-bufferize{bufferize-function-boundaries "
    "function-boundary-type-conversion=identity-layout-map},func.func(buffer-deallocation)"
)
SKIPPED = 77


def fewer(cases):
    """A quarter of so many random cases, or all with REMORA_ALL_CASES."""
    return cases if os.environ.get("REMORA_ALL_CASES") else -(-cases // 4)


class Answer:
    def __init__(self, process):
        self.code, self.out, self.err = process.returncode, process.stdout, process.stderr

    def lines(self, kind):
        """The text of the remarks or errors."""
        mark = kind + ": "
        return [line.split(mark, 1)[1] for line in self.err.splitlines() if mark in line]


class PluginCase(unittest.TestCase):
    plugin = ""
    programs = ""
    extension = ""
    pipeline = ""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def path(self, name):
        return os.path.join(self.folder, name)

    def write(self, text, name="input.mlir"):
        with open(self.path(name), "w", encoding="utf-8") as file:
            file.write(text)
        return self.path(name)

    def network(self, *words):
        subprocess.run([GENERATOR, *words, "-o", self.path("input.mlir")], check=True)

    def optimize(self, passes, *words):
        """mlir-opt on input.mlir."""
        command = [
            "mlir-opt-19",
            self.path("input.mlir"),
            "--load-pass-plugin=" + self.plugin,
            *words,
            f"--pass-pipeline=builtin.module({passes})",
        ]
        return Answer(subprocess.run(command, capture_output=True, text=True, check=False, timeout=90))

    def rematerialize(self, options, before="", after="", words=()):
        """The pass, with a report in the folder; every schedule it writes is verified."""
        own = f"remora-rematerialize{{time-limit=60 work-limit=20000 threads=1 report={self.path('report')} {options}}}"
        passes = [*filter(None, [before]), own, *filter(None, [after])]
        answer = self.optimize(f"func.func({','.join(passes)})", *words)
        if answer.code == 0:
            self.verify_reports()
        return answer

    def schedule(self, function="network"):
        return self.read_json(f"report/{function}.schedule.json")

    def graph(self, function="network"):
        return self.read_json(f"report/{function}.graph.json")

    def read_json(self, name):
        with open(self.path(name), encoding="utf-8") as file:
            return json.load(file)

    def verify_reports(self):
        """By the program, and by the reference verifier where the machine has it."""
        report = self.path("report")
        reference = os.path.join(os.path.dirname(ROOT), "shared", "tools", "verify.py")
        for name in sorted(os.listdir(report)) if os.path.isdir(report) else []:
            if not name.endswith(".schedule.json"):
                continue
            pair = [os.path.join(report, name.replace(".schedule.", ".graph.")), os.path.join(report, name)]
            subprocess.run([os.path.join(self.programs, "remora"), "verify", *pair], check=True, capture_output=True)
            if os.path.exists(reference):
                subprocess.run([sys.executable, reference, *pair], check=True, capture_output=True)


def main():
    """Arguments: the plugin's path, the folder of `remora`, the cost extension, pipeline_program; or --skip and why."""
    if len(sys.argv) == 3 and sys.argv[1] == "--skip":
        print("SKIPPED: " + sys.argv[2])
        sys.exit(SKIPPED)
    for tool in ("mlir-opt-19", "mlir-cpu-runner-19"):
        if shutil.which(tool) is None:
            print(f"SKIPPED: {tool} is not installed (scripts/install_packages mlir)")
            sys.exit(SKIPPED)
    PluginCase.plugin, PluginCase.programs, PluginCase.extension, PluginCase.pipeline = sys.argv[1:5]
    unittest.main(argv=sys.argv[:1] + sys.argv[5:], verbosity=2)
