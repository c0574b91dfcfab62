# SPDX-License-Identifier: Apache-2.0
"""benchmarks/ab: its sign test, what it runs, and that it finds losses that are there and none that are not."""

import json
import os
import subprocess
import sys
import unittest

import harness_case
from harness.pairs import Problem, Side, Verdict, better, problems_of, verdicts
from harness.results import Result
from harness.runner import Runner
from harness.suite import Instance


def run(side, gap, seconds=1.0, instance="a", status="feasible", seed=1):
    return Result(
        instance, "80%", side, seed, 1.0, 1, status=status, duration=1000, lower_bound=round(1000 * (1 - gap)),
        seconds=seconds, history=[[seconds, 1000]],
    )  # fmt: skip


class SignTest(unittest.TestCase):
    def test_gaps_that_differ_by_noise_are_the_same(self):
        self.assertEqual(better("gap", 0.1, 0.1 + 5e-6), 0)
        self.assertEqual(better("gap", 0.1, 0.101), -1)
        self.assertEqual(better("first", 1.0, 1.09), 0)
        self.assertEqual(better("first", 0.02, 0.09), 0)
        self.assertEqual(better("first", 1.0, 0.5), 1)
        self.assertEqual(better("proof", 1.0, float("inf")), -1)
        self.assertEqual(better("proof", float("inf"), float("inf")), 0)

    def test_nine_of_nine_losses_are_significant_and_eight_are_not(self):
        # 2 ** -9 < 0.01 / 3 < 2 ** -8
        self.assertTrue(Verdict("gap", 0, 9, 50).worse)
        self.assertFalse(Verdict("gap", 0, 8, 50).worse)
        self.assertTrue(Verdict("gap", 9, 0, 50).improved)
        self.assertFalse(Verdict("gap", 5, 9, 0).worse)

    def test_seeds_are_of_one_problem(self):
        """Twenty seeds of one problem are one loss, not twenty."""
        old = [run("old", 0.1, seed=seed) for seed in range(20)]
        new = [run("new", 0.2, seed=seed) for seed in range(20)]
        sides = (Side("old", "", [], ""), Side("new", "", [], ""))
        problems = problems_of(old + new, sides)
        self.assertEqual([len(problem.pairs) for problem in problems], [20])
        self.assertEqual((verdicts(problems)[0].losses, verdicts(problems)[0].gains), (1, 0))

    def test_a_run_without_a_schedule_is_worse_than_any_and_a_failed_one_is_none(self):
        problem = Problem("a", "80%", [(run("old", 0.5), run("new", 0, status="unknown"))])
        self.assertEqual(problem.sign("gap"), -1)
        self.assertEqual(problem.sign("first"), -1)
        sides = (Side("old", "", [], ""), Side("new", "", [], ""))
        self.assertEqual(problems_of([run("old", 0.5), run("new", 0.5, status="failed")], sides), [])

    def test_what_a_side_or_an_instance_says_goes_before_the_usual_limits(self):
        instance = Instance("a", arguments=["--order", "free", "--max-computes=4"])
        words = self.words(instance, Side("new", "p", ["--time-limit", "3"], "").contender(instance, None))
        self.assertEqual(words.count("--time-limit"), 1)
        self.assertEqual(words[words.index("--time-limit") + 1], "3")
        self.assertNotIn("--max-computes", words)
        self.assertIn("--seed", words)
        words = self.words(instance, Side("new", "p", ["--work-limit", "9"], "").contender(instance, 5))
        self.assertNotIn("--time-limit", words)
        self.assertNotIn("--work-limit=5", words)

    @staticmethod
    def words(instance, contender):
        return Runner.solve_words(None, instance, contender)


class Ab(harness_case.HarnessCase):
    def compare(self, old, new, *words, problems=10):
        """Exit code, what it prints, and what it says on standard error."""
        make = ["remora", "generate", "layered", "--ops", "80", "--seed"]
        suite = {
            "format": "remora-suite",
            "version": 1,
            "name": "s",
            "threads": 1,
            "time_limit": 60,
            "budgets": ["80%", "70%"],
            "contenders": ["auto"],
            "instances": [{"name": f"l{i}", "make": [*make, str(i)], "family": "fl"[i % 2]} for i in range(1, 1 + problems // 2)],
        }
        self.write("suite.json", json.dumps(suite))
        done = subprocess.run(
            [sys.executable, os.path.join(harness_case.BENCHMARKS, "ab"), old, new, self.path("suite.json"), *words],
            cwd=self.folder, capture_output=True, text=True, check=False, env={**os.environ, "REMORA_HIGHS": "off"},
        )  # fmt: skip
        return done.returncode, done.stdout, done.stderr

    def test_a_program_does_not_differ_from_itself(self):
        code, text, said = self.compare(self.bin, self.bin, "--work-limit", "500")
        self.assertEqual(code, 0, text + said)
        self.assertIn("gap: 0 better, 0 worse, 10 the same (p = 1.0000): no significant difference", text)
        firsts = [line.split()[-9:] for line in said.splitlines() if line.startswith("[")]
        self.assertEqual(len(firsts), 20)

    def test_a_missing_inference_is_a_loss(self):
        code, text, said = self.compare(
            self.bin, f"{self.bin} --without period-bound", "--work-limit", "4000", "-q", problems=16
        )
        self.assertEqual(code, 1, text + said)
        self.assertRegex(text, "gap: 0 better, 1[0-9] worse, . the same .*: worse")
        self.assertIn("losses of gap: l", text)

    def test_half_the_work_is_a_loss_and_twice_a_gain(self):
        half = f"{self.bin} --work-limit 300"
        code, text, said = self.compare(self.bin, half, "--work-limit", "2000", "-q", problems=24)
        self.assertEqual(code, 1, text + said)
        code, text, said = self.compare(half, self.bin, "--work-limit", "2000", "-q", problems=24)
        self.assertEqual(code, 0, text + said)
        self.assertRegex(text, "gap: .*: better")

    def test_kept_runs_are_not_repeated_but_those_of_other_options_are(self):
        folder = ("--work-limit", "100", "-o", self.path("kept"))
        self.assertEqual(self.compare(self.bin, self.bin, *folder, problems=2)[0], 0)
        code, text, said = self.compare(self.bin, self.bin, *folder, problems=2)
        self.assertEqual((code, [line for line in said.splitlines() if line.startswith("[")]), (0, []))
        self.assertIn("2 of 2 problems", text)
        said = self.compare(self.bin, f"{self.bin} --workers lns", *folder, problems=2)[2]
        self.assertEqual(len([line for line in said.splitlines() if line.startswith("[")]), 2)

    def test_an_answer_that_does_not_verify_ends_with_65(self):
        self.write("liar", f'#!/bin/sh\n"{self.bin}/remora" "$@"; code=$?\n'
                   'while [ $# -gt 1 ]; do [ "$1" = -o ] && sed -i \'s/"lower_bound": /"lower_bound": 9/\' "$2"; shift; done\n'
                   'exit $code\n')  # fmt: skip
        os.chmod(self.path("liar"), 0o755)
        code, _, said = self.compare(
            self.bin, self.path("liar"), "--graphs", self.bin, "--work-limit", "100", problems=2
        )
        self.assertEqual(code, 65, said)
        self.assertIn("states a bound above its schedule", said)

    def test_a_problem_that_a_side_s_options_are_not_for_is_left_out(self):
        refusal = 'echo "remora: --without: not for it" >&2; exit 64'
        self.write("picky", f'#!/bin/sh\ncase "$*" in *l1.json*) {refusal};; esac\nexec "{self.bin}/remora" "$@"\n')
        os.chmod(self.path("picky"), 0o755)
        code, text, said = self.compare(
            self.bin, self.path("picky"), "--graphs", self.bin, "--work-limit", "100", "-q", problems=4
        )
        self.assertEqual(code, 0, said)
        self.assertIn("2 of 4 problems", text)
        self.assertIn("l1 80% left out: new ended with 64: remora: --without: not for it", said)

    def test_bad_usage_and_bad_input_are_one_line(self):
        for words, code in (
            (["nothing", self.bin], 65),
            ([self.bin, self.bin, "no-suite"], 64),
            ([self.bin, self.bin, "--part", "3/2"], 64),
            ([self.bin, self.bin, "--minutes", "0"], 64),
            ([self.bin], 64),
        ):
            done = subprocess.run(
                [sys.executable, os.path.join(harness_case.BENCHMARKS, "ab"), *words],
                cwd=self.folder, capture_output=True, text=True, check=False,
            )  # fmt: skip
            self.assertEqual(done.returncode, code, done.stderr)
            self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
            self.assertEqual("quick, seeds" in done.stderr, "no-suite" in words, done.stderr)

    def test_an_interrupted_comparison_says_what_it_has(self):
        # `--minutes` ends before a pair that might not end in time: none of a limit of 60 s fits into 6 s.
        code, text, said = self.compare(self.bin, self.bin, "--minutes", "0.1", problems=2)
        self.assertEqual(code, 65, said)
        self.assertIn("gap: 0 better, 0 worse, 0 the same", text)


if __name__ == "__main__":
    harness_case.main()
