# SPDX-License-Identifier: Apache-2.0
"""scripts/results on small folders, and the tree's own page: usage results_test.py SCRIPT BIN_FOLDER."""

import json
import os
import re
import subprocess
import sys
import tempfile
import unittest

SCRIPT = os.path.abspath(sys.argv.pop(1))
BINARIES = os.path.abspath(sys.argv.pop(1))
ROOT = os.path.dirname(os.path.dirname(SCRIPT))


def run_of(version, status, duration=0, bound=0, contender="auto", instance="g"):
    """A line of results.jsonl, one second long."""
    return json.dumps(
        {
            "instance": instance,
            "budget": "80%",
            "contender": contender,
            "seed": 1,
            "time_limit": 60.0,
            "threads": 2,
            "graph_sha256": "",
            "asked": "",
            "ops": 1,
            "edges": 1,
            "budget_bytes": 1,
            "status": status,
            "order": "input",
            "max_computes": 2,
            "baseline_duration": 100,
            "duration": duration,
            "lower_bound": bound,
            "peak_memory": 1,
            "seconds": 1.0,
            "reached": 0.0,
            "cpu_seconds": 1.0,
            "peak_kibibytes": 1,
            "history": [],
            "note": "",
            "version": version,
            "commit": "",
            "machine": "",
            "when": "",
        }
    )


class Results(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.page = os.path.join(folder.name, "results.md")
        self.results = os.path.join(folder.name, "results")

    def suite(self, name, *lines, made_by="Made by\n\n    benchmarks/run quick\n"):
        os.makedirs(os.path.join(self.results, name), exist_ok=True)
        with open(os.path.join(self.results, name, "README.md"), "w", encoding="utf-8") as file:
            file.write(f"# Suite {name}\n\n{made_by}")
        with open(os.path.join(self.results, name, "results.jsonl"), "w", encoding="utf-8") as file:
            file.writelines(line + "\n" for line in lines)

    def write(self):
        command = [sys.executable, SCRIPT, self.page, self.results]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    def rows(self):
        self.assertEqual(self.write().returncode, 0)
        with open(self.page, encoding="utf-8") as file:
            return [line.strip("\n") for line in file if line.startswith("|")]

    def test_a_cell_counts_solved_and_open_problems(self):
        self.suite(
            "quick",
            run_of("0.1.0", "optimal", 110, 110),
            run_of("0.1.0", "feasible", 125, 100, instance="h"),
            run_of("0.1.0", "infeasible", instance="i"),
            run_of("0.1.0", "failed", instance="j"),
            run_of("0.1.0", "optimal", 110, 110, contender="greedy"),
        )
        self.assertEqual(self.rows(), ["| release | quick |", "|---|---|", "| 0.1.0 | 2 / 3, 10.00 %, 1.0 s |"])

    def test_rows_of_earlier_releases_stay(self):
        self.suite("quick", run_of("0.9.0", "optimal", 110, 110))
        self.rows()
        self.suite("quick", run_of("0.10.0", "feasible", 200, 100))
        self.suite("slow", run_of("0.10.0", "unknown"))
        self.assertEqual(
            self.rows()[2:],
            ["| 0.10.0 | 0 / 1, 50.00 %, 1.0 s | 0 / 1, none, 1.0 s |", "| 0.9.0 | 1 / 1, 0.00 %, 1.0 s |  |"],
        )

    def test_a_row_must_follow_from_runs_in_the_tree(self):
        """A cell without runs of its release, or with other figures, is named."""
        with open(os.path.join(ROOT, "docs/reference/results.md"), encoding="utf-8") as file:
            page = file.read()
        row = max((line for line in page.splitlines() if re.match(r"\| \d", line)), key=lambda line: line.split(".")[:2])
        self.assertEqual(self.check(page).returncode, 0, self.check(page).stderr)
        wrong = self.check(page.replace(row, re.sub(r"\d+ / ", "1 / ", row, count=1)))
        self.assertEqual(wrong.returncode, 65)
        self.assertRegex(wrong.stderr, "its runs give")
        later = self.check(page.replace(row, row + "\n" + re.sub(r"^\| [0-9.]+", "| 99.0.0", row)))
        self.assertEqual(later.returncode, 65)
        self.assertIn("none of this release", later.stderr)

    def check(self, text):
        with open(self.page, "w", encoding="utf-8") as file:
            file.write(text)
        return subprocess.run([sys.executable, SCRIPT, "--check", self.page], capture_output=True, text=True, check=False)

    def test_other_programs_results_are_left_out(self):
        self.suite("quick", run_of("0.1.0", "optimal", 110, 110))
        self.suite("placement", '{"arena": 1}', made_by="Written by `benchmarks/placement/measure_schedules`\n")
        self.assertEqual(self.rows()[0], "| release | quick |")

    def test_a_line_that_is_no_result_is_named(self):
        self.suite("quick", "{}")
        done = self.write()
        self.assertEqual(done.returncode, 65)
        self.assertIn("results.jsonl:1", done.stderr)

    def test_a_row_is_filled_by_measuring(self):
        subprocess.run([sys.executable, SCRIPT, "--measure", self.results, BINARIES, "quick"], check=True)
        self.assertRegex(self.rows()[2], r"^\| [0-9.]+ \| [0-5] / 5, [0-9.]+ %, [0-9.]+ s \|$")

    def test_the_page_of_the_tree_is_of_its_results(self):
        with open(os.path.join(ROOT, "docs/reference/results.md"), encoding="utf-8") as file:
            page = file.read()
        with open(self.page, "w", encoding="utf-8") as file:
            file.write(page)
        subprocess.run([sys.executable, SCRIPT, self.page], check=True)
        with open(self.page, encoding="utf-8") as file:
            self.assertEqual(file.read(), page, "run: scripts/results docs/reference/results.md")


if __name__ == "__main__":
    unittest.main()
