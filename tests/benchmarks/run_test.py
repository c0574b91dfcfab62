# SPDX-License-Identifier: Apache-2.0
"""benchmarks/run as its users meet it, with suites of a second or two."""

import gzip
import json
import os
import shlex
import subprocess
import sys

import harness_case
from harness.results import from_line


class Run(harness_case.HarnessCase):
    def setUp(self):
        super().setUp()
        self.remora = shlex.quote(os.path.join(self.bin, "remora"))
        self.write("chain.json", json.dumps(harness_case.chain(4)))

    def run_suite(self, *words, out="out"):
        """Exit code and what it says on standard error, but not that there are no plots."""
        done = subprocess.run(
            [
                sys.executable,
                os.path.join(harness_case.BENCHMARKS, "run"),
                *words,
                "--bin",
                self.bin,
                "-o",
                self.path(out),
            ],
            cwd=self.folder,
            capture_output=True,
            text=True,
            check=False,
        )
        self.assertEqual(done.stdout, "")
        lines = [line for line in done.stderr.splitlines() if "no plots" not in line]
        return done.returncode, "\n".join(lines)

    def expect(self, code, *words):
        found, text = self.run_suite(*words)
        self.assertEqual(found, code, text)
        return text

    def write_suite(self, *contenders, **members):
        suite = {
            "format": "remora-suite",
            "version": 1,
            "name": "s",
            "time_limit": 5,
            "budgets": ["90%", "10%"],
            "instances": [{"name": "chain", "file": "chain.json"}],
            "contenders": contenders,
        }
        self.write("suite.json", json.dumps(suite | members))

    def write_peer(self, name, script):
        """A contender that does with the answer of `remora solve` what the script says."""
        self.write(name, f'#!/bin/sh\n{self.remora} solve "$1" --budget "$2" --quiet -o - | {script} > "$3"\n')
        os.chmod(self.path(name), 0o700)
        return {"name": name, "command": ["./" + name, "{graph}", "{budget}", "{output}"]}

    def results(self):
        return [from_line(line) for line in self.read("out/results.jsonl").splitlines()]

    def test_a_graph_may_be_packed(self):
        packed = self.path("chain.json.gz")
        with gzip.open(packed, "wb") as file:
            file.write(self.read("chain.json").encode())
        self.write_suite("auto", instances=[{"name": "chain", "file": "chain.json.gz"}], budgets=["90%"])
        self.expect(0, "suite.json")
        self.assertEqual(self.results()[0].status, "optimal")
        with open(packed, "wb") as file:
            file.write(b"\x1f\x8b cut off")
        os.remove(self.path("out/results.jsonl"))
        self.assertIn("cannot be unpacked", self.expect(0, "suite.json"))

    def test_a_suite_goes_on_where_it_stood(self):
        self.write_suite("auto", "greedy")
        words = "suite.json", "--best-known", self.path("known.json")
        self.expect(0, *words)
        first = self.results()
        self.assertEqual([result.has_schedule() for result in first], [True, True, False, False])
        self.assertEqual([first[0].status, first[2].status], ["optimal", "infeasible"])
        self.assertEqual((first[0].ops, first[0].edges), (9, 12))
        self.assertRegex(first[0].commit, "^([0-9a-f]{12}[+]?|unknown)$")
        self.assertEqual(
            [(entry["instance"], entry["duration"]) for entry in json.loads(self.read("known.json"))["entries"]],
            [("chain", first[0].duration)],
        )
        self.assertIn("| chain | 9 | 12 |", self.read("out/README.md"))
        self.assertEqual(self.expect(0, *words), "")
        self.assertEqual(len(self.results()), 4)

    def test_it_keeps_to_one_core_when_told_so(self):
        # The contender says on how many cores it may run, and answers nothing.
        cores = {
            "name": "cores",
            "command": [sys.executable, "-c", "import os; exit(100 + len(os.sched_getaffinity(0)))"],
        }
        self.write_suite("greedy", cores, budgets=["90%"], threads=2)
        pinned = os.sched_getaffinity(0)
        try:
            os.sched_setaffinity(0, {min(pinned)})
            self.assertIn("--threads 1 overrides that", self.expect(65, "suite.json"))
            self.expect(65, "suite.json", "--threads", "1")
        finally:
            os.sched_setaffinity(0, pinned)
        self.assertEqual([result.threads for result in self.results()], [1, 1])
        self.assertIn("ended with 101", self.results()[-1].note)
        self.assertIn("1 thread a run", self.read("out/README.md"))
        self.expect(64, "suite.json", "--threads", "0")

    def test_what_failed_or_is_asked_in_another_way_runs_again(self):
        self.write_suite({"name": "peer", "command": ["sh", "-c", "exit 3"]})
        self.expect(65, "suite.json")
        self.expect(65, "suite.json")
        self.assertEqual(len(self.results()), 4)
        self.write_suite({"name": "peer", "arguments": ["--strategy", "greedy"]})
        self.expect(0, "suite.json")
        self.assertEqual(len(self.results()), 6)
        self.assertNotIn("Failed", self.read("out/README.md"))
        self.expect(0, "suite.json", "--no-runs")
        self.assertEqual(len(self.results()), 6)

    def test_an_interrupt_ends_it_and_the_next_one_goes_on(self):
        self.write_suite("greedy", {"name": "slow", "command": ["sh", "-c", "kill -INT $PPID; sleep 1000"]})
        self.expect(130, "suite.json")
        self.assertEqual(len(self.results()), 1)
        self.expect(0, "suite.json", "--only", "greedy")
        self.assertEqual(len(self.results()), 2)

    def test_no_answer_to_another_question_is_taken(self):
        # It proves another budget infeasible.
        self.write_suite(
            {
                "name": "other",
                "command": ["sh", "-c", self.remora + " solve $0 --budget 1B --quiet -o $1", "{graph}", "{output}"],
            }
        )
        self.expect(65, "suite.json")
        self.assertEqual(self.results()[0].note, "solved for another budget")

    def test_an_answer_that_contradicts_itself_is_a_failure(self):
        self.write_suite(self.write_peer("liar", """sed 's/^  "duration": [0-9]*/  "duration": 1/'"""))
        self.expect(65, "suite.json")
        self.assertEqual(
            (self.results()[0].status, self.results()[0].note), ("failed", "states a bound above its schedule")
        )

    def test_a_schedule_that_does_not_verify_is_a_failure(self):
        # It forgets every release.
        self.write_suite(self.write_peer("hoarder", r"""sed 's/"free": .*\]/"free": []/'"""))
        self.expect(65, "suite.json")
        self.assertIn("does not verify", self.results()[0].note)
        self.assertFalse(self.results()[0].has_schedule())

    def test_what_is_no_schedule_is_a_failure(self):
        self.write_suite(self.write_peer("scribe", "head -c 100"))
        self.expect(65, "suite.json")
        self.assertIn("wrote no schedule", self.results()[0].note)

    def test_the_statistics_that_an_answer_tells_are_kept(self):
        self.write_suite(
            self.write_peer("teller", """sed 's/^    "history"/    "statistics": {"levels": 3}, &/'"""), budgets=["90%"]
        )
        self.expect(0, "suite.json")
        self.assertEqual(
            [(result.status, result.statistics) for result in self.results()], [("optimal", {"levels": 3})]
        )

    def test_a_crash_is_a_failure_and_a_missing_peer_is_left_out(self):
        self.write_suite(
            {"name": "crash", "command": ["sh", "-c", "echo out of luck >&2; exit 3"]},
            {"name": "missing", "command": ["./not-there", "{graph}"]},
            "none",
        )
        self.assertIn("missing left out", self.expect(65, "suite.json"))
        self.assertEqual(len(self.results()), 4)
        self.assertEqual(self.results()[0].note, "ended with 3: out of luck")
        self.assertIn("Failed: chain 90% crash", self.read("out/README.md"))
        self.assertIn("Left out: missing", self.read("out/README.md"))

    def test_every_graph_of_a_folder_is_run(self):
        self.write("graphs/c.json", self.read("chain.json"))
        self.write("graphs/garbage.json", "{")
        self.write_suite("greedy", instances=[{"folder": "{1}"}], budgets=["90%"])
        self.assertIn("garbage.json left out", self.expect(0, "suite.json", self.path("graphs")))
        self.assertEqual(len(self.results()), 1)

    def test_an_instance_has_its_own_time_unless_the_user_says_another(self):
        make = ["remora", "generate", "layered", "--ops", "20", "--seed"]
        self.write_suite(
            "none",
            budgets=["100%"],
            instances=[{"name": "a", "make": [*make, "1"]}, {"name": "b", "make": [*make, "2"], "time_limit": 7.5}],
        )
        self.expect(0, "suite.json")
        self.assertEqual([result.time_limit for result in self.results()], [5, 7.5])
        self.assertIn("| 100% | 7.5 s |", self.read("out/README.md"))
        self.expect(0, "suite.json", "--time-limit", "6")
        self.assertEqual([result.time_limit for result in self.results()], [5, 7.5, 6, 6])
        self.expect(64, "suite.json", "--time-limit", "0")

    def test_it_writes_over_nothing_that_it_reads(self):
        self.write_suite("none")
        suite, graph = self.read("suite.json"), self.read("chain.json")
        os.mkdir(self.path("out"))
        os.symlink(self.path("suite.json"), self.path("out/README.md"))
        self.assertIn("is to be written", self.expect(65, "suite.json"))
        os.remove(self.path("out/README.md"))
        for name in ("suite.json", "chain.json"):
            self.assertIn("is to be written", self.expect(65, "suite.json", "--best-known", self.path(name)))
        self.assertEqual((self.read("suite.json"), self.read("chain.json")), (suite, graph))

    def test_what_it_cannot_run_is_told(self):
        self.assertIn("quick, seeds", self.expect(64, "no-such-suite"))
        self.assertNotIn("PARAMETER", self.expect(64))
        self.write_suite("auto")
        self.expect(64, "suite.json", "--only", "nobody")
        self.expect(64, "suite.json", "--no-such-option")
        self.write_suite("auto", budgets=["90 per cent"])
        self.assertIn("is not a budget", self.expect(65, "suite.json"))
        self.write_suite("auto", threads=4096)
        self.assertIn("wants 4096 threads", self.expect(65, "suite.json"))
        self.write("suite.json", "{}")
        self.assertEqual(len(self.expect(65, "suite.json").splitlines()), 1)


if __name__ == "__main__":
    harness_case.main()
