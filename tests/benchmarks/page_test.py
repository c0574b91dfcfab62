# SPDX-License-Identifier: Apache-2.0
"""The page of a suite: what its tables say of limits and of others' results."""

import harness_case
from harness.page import compare, page
from harness.results import BestKnown, Result
from harness.suite import Contender, Instance, Reference, Suite


class Page(harness_case.HarnessCase):
    def setUp(self):
        super().setUp()
        self.suite = Suite(
            "s", instances=[Instance("near", "near.json"), Instance("far", "far.json")], contenders=[Contender("auto")]
        )

    def page(self, missing=None, **members):
        results = [
            Result(
                instance.name,
                "80%",
                "auto",
                1,
                instance.time_limit or 60,
                2,
                ops=10,
                edges=12,
                **(
                    {
                        "status": "feasible",
                        "baseline_duration": 1000,
                        "duration": 1100,
                        "lower_bound": 1000,
                        "reached": 1.5,
                    }
                    | members
                ),
            )
            for instance in self.suite.instances
        ]
        text = page(
            self.suite,
            compare(self.suite, results),
            results,
            missing or {},
            BestKnown(""),
            "benchmarks/run s",
            len(results),
            [("Title", "plot.svg")],
        )
        self.expect_whole_table(text)
        return text

    def expect_whole_table(self, text):
        """Every line of a table has as many cells."""
        table = [
            line.count("|") for line in text.split("\n\n") if line.startswith("| instance") for line in line.split("\n")
        ]
        self.assertGreaterEqual(len(table), 4)
        self.assertEqual(len(set(table)), 1)

    def test_says_one_limit_once_and_has_no_column_for_what_is_not_there(self):
        text = self.page()
        self.assertIn("\n60 s and 2 threads a run", text)
        self.assertIn("| instance | ops | edges | budget | auto | bound | best known |\n", text)
        self.assertIn("| near | 10 | 12 | 80% | **10.0000** in 1.50 s | 0.0000 |  |\n", text)
        self.assertIn("\n    benchmarks/run s\n", text)
        self.assertIn("\n![Title](plot.svg)\n", text)
        self.assertNotIn("orientation", text)

    def test_tells_the_limit_of_every_row_where_they_differ(self):
        self.suite.instances[1].time_limit = 300
        text = self.page()
        self.assertIn("\n60 to 300 s and 2 threads a run", text)
        self.assertIn("| near | 10 | 12 | 80% | 60 s |", text)
        self.assertIn("| far | 10 | 12 | 80% | 300 s |", text)

    def test_puts_what_others_published_beside_ours(self):
        self.suite.instances[1].reference = Reference("HiRemate", 22.3, 36.6, 147)
        text = self.page()
        self.assertIn("best known | reference |\n", text)
        self.assertIn("| 0.0000 |  | 22.3 at 36.6 % in 147 min (HiRemate) |\n", text)
        self.assertIn("| 0.0000 |  |  |\n", text)
        self.assertIn("other graphs' granularity, GPU, PyTorch's peak", text)

    def test_tells_what_went_wrong(self):
        text = self.page({"peer": "is not there"}, status="failed", note="ended with 3")
        self.assertIn("\nLeft out: peer, is not there\n", text)
        self.assertIn("\nFailed: near 80% auto seed 1: ended with 3\n", text)
        self.assertIn("| near | 10 | 12 | 80% | failed |", text)

    def test_tells_whose_seeds_differ_and_who_ends_without_a_reason(self):
        self.suite.seeds = [1, 2]
        results = [
            Result(
                instance.name,
                "50%",
                "auto",
                seed,
                60,
                2,
                status=status,
                stopped=stopped,
                baseline_duration=1000,
                duration=1100,
                lower_bound=1000,
                seconds=3,
            )
            for instance, seed, status, stopped in (
                (self.suite.instances[0], 1, "optimal", "optimum"),
                (self.suite.instances[0], 2, "feasible", "exhausted"),
                (self.suite.instances[1], 1, "feasible", "time"),
                (self.suite.instances[1], 2, "feasible", "time"),
            )
        ]
        for run, asked in zip(results[2:], ("--strategy greedy", "remora_methods twremat {graph}")):
            run.asked, run.stopped = asked, "exhausted"
        text = page(self.suite, compare(self.suite, results), results, {}, BestKnown(""), "benchmarks/run s", 4, [])
        self.assertIn("| auto | 2 | 1 | 50.0 % | 1 |\n", text)
        self.assertIn("\nEnded without a reason: near 50% auto seed 2, 3.0 s\n", text)
        self.assertEqual(text.count("Ended without a reason"), 1)
        self.assertIn("\nSeeds differ: near 50% auto: optimal, feasible\n", text)
        self.assertNotIn("Seeds differ: far", text)

    def test_tells_how_far_seeds_are_apart(self):
        one = {"status": "feasible", "baseline_duration": 10000, "lower_bound": 10000, "reached": 1.5}
        results = [
            Result(name, "80%", "auto", seed, 60, 2, ops=10, edges=12, duration=duration, **one)
            for name, durations in (("near", (11000, 11000, 11005)), ("far", (11000, 11040, 11200)))
            for seed, duration in enumerate(durations, 1)
        ]
        text = page(self.suite, compare(self.suite, results), results, {}, BestKnown(""), "benchmarks/run s", 6, [])
        self.expect_whole_table(text)
        self.assertIn("| near | 10 | 12 | 80% | **10.0000** (10.0000 to 10.0500) in 1.50 s |", text)
        self.assertIn("| far | 10 | 12 | 80% | **10.4000** (10.0000 to 12.0000) in 1.50 s |", text)
        self.assertIn("In brackets", text)
        self.assertIn("| seeds within 1 % in duration | in overhead |", text)
        self.assertIn("| auto | 2 | 2 | 0 | 2 | 0.0 | 1 | 1 |", text)
        self.assertNotIn("In brackets", self.page())

    def test_stars_what_is_proved(self):
        self.assertIn("| **10.0000**\\* in 1.50 s |", self.page(status="optimal", lower_bound=1100))
        self.assertIn("| infeasible* |", self.page(status="infeasible"))
        self.assertIn("| none |", self.page(status="unknown"))


if __name__ == "__main__":
    harness_case.main()
