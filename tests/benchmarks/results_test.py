# SPDX-License-Identifier: Apache-2.0
"""Lines of results, the file of best known schedules, and what a comparison makes of results."""

import dataclasses
import os

import harness_case
from harness.page import compare, contradictions
from harness.results import BestKnown, Result, ResultsFile, from_line, to_line
from harness.suite import Contender, InputError, Instance, Suite


def result(contender, seed, duration, **members):
    made = Result(
        "graph",
        "80%",
        contender,
        seed,
        60,
        2,
        graph_sha256="abc",
        ops=10,
        order="input",
        max_computes=2,
        status="feasible" if duration > 0 else "unknown",
        baseline_duration=1000,
        duration=duration,
        lower_bound=1000,
        reached=float(seed),
        history=[[0.5, 1300], [1.25, duration]],
        note='a "note"',
    )
    return dataclasses.replace(made, **members)


class Results(harness_case.HarnessCase):
    def test_a_line_reads_back_as_it_was_written(self):
        written = result("auto", 3, 1234)
        again = from_line(to_line(written))
        self.assertEqual(to_line(again), to_line(written))
        self.assertEqual(again, written)
        self.assertAlmostEqual(again.overhead(), 100 * (1234 / 1000 - 1))

    def test_a_line_keeps_statistics_and_needs_none(self):
        told = result("auto", 3, 1234)
        self.assertNotIn("statistics", to_line(told))
        self.assertNotIn("stopped", to_line(told))
        self.assertEqual(from_line(to_line(told)).statistics, {})
        told.statistics = {"levels": 3, "compose_seconds": 0.25}
        told.stopped = "time"
        self.assertEqual(from_line(to_line(told)), told)

    def test_they_are_there_after_a_stop(self):
        file = ResultsFile(self.path("r.jsonl"))
        for seed, duration in ((1, 1100), (2, 1200), (1, 1050)):
            file.add(result("auto", seed, duration))
        again = ResultsFile(self.path("r.jsonl"))
        self.assertEqual(again.results[result("auto", 1, 0).key()].duration, 1050)
        self.assertNotIn(result("greedy", 1, 0).key(), again.results)

    def test_packed_ones_are_read_and_unpacked_by_the_next_line(self):
        file = ResultsFile(self.path("r.jsonl"))
        file.add(result("auto", 1, 1100))
        file.pack()
        self.assertFalse(os.path.exists(self.path("r.jsonl")))
        again = ResultsFile(self.path("r.jsonl"))
        self.assertEqual(again.results, file.results)
        again.add(result("auto", 2, 1200))
        self.assertEqual(len(ResultsFile(self.path("r.jsonl")).results), 2)
        self.write("r.jsonl.gz", "not packed")
        os.remove(self.path("r.jsonl"))
        with self.assertRaisesRegex(InputError, "r.jsonl.gz: cannot be unpacked"):
            ResultsFile(self.path("r.jsonl"))

    def test_a_line_that_was_cut_off_is_dropped(self):
        whole = to_line(result("auto", 1, 1100)) + "\n"
        self.write("r.jsonl", whole + to_line(result("auto", 2, 1200))[:80])
        file = ResultsFile(self.path("r.jsonl"))
        self.assertIn(result("auto", 1, 0).key(), file.results)
        self.assertEqual(self.read("r.jsonl"), whole)
        file.add(result("auto", 3, 1300))
        self.assertIn(result("auto", 3, 0).key(), ResultsFile(self.path("r.jsonl")).results)

    def test_a_file_of_another_kind_is_refused_with_its_line(self):
        self.write("r.jsonl", to_line(result("auto", 1, 1100)) + '\n{"instance": 3}\n')
        with self.assertRaisesRegex(InputError, "r.jsonl:2"):
            ResultsFile(self.path("r.jsonl"))

    def test_all_results_of_the_repository_are_read(self):
        folder = os.path.join(harness_case.BENCHMARKS, "results", "quick")
        self.assertGreater(len(ResultsFile(os.path.join(folder, "results.jsonl")).results), 10)


class Comparison(harness_case.HarnessCase):
    def compare(self, *results):
        """The one row of these results."""
        rows = compare(Suite("s", contenders=[Contender("auto"), Contender("greedy")]), results)
        self.assertEqual(len(rows), 1)
        return rows[0]

    def test_takes_medians_in_which_no_schedule_is_worst(self):
        row = self.compare(
            result("auto", 1, 1100),
            result("auto", 2, 0),
            result("auto", 3, 1050),
            result("greedy", 1, 1400),
            result("greedy", 2, 0),
            result("greedy", 3, 0),
        )
        self.assertAlmostEqual(row.cells[0].overhead, 10)
        self.assertEqual(row.cells[0].schedules, 2)
        self.assertIsNone(row.cells[1].overhead)
        self.assertAlmostEqual(row.best, 10)

    def test_takes_the_worse_of_two(self):
        row = self.compare(
            result("auto", 1, 1100), result("auto", 2, 1200), result("greedy", 1, 1400), result("greedy", 2, 0)
        )
        self.assertAlmostEqual(row.cells[0].overhead, 20)
        self.assertIsNone(row.cells[1].overhead)

    def test_takes_nothing_from_a_failed_run(self):
        failed = result("greedy", 1, 0, status="failed", lower_bound=5000)
        self.assertEqual(contradictions([result("auto", 1, 1100), failed]), [])
        self.assertAlmostEqual(self.compare(result("auto", 1, 1100), failed).bound, 0)

    def test_shows_bounds_of_the_first_contenders_problem_only(self):
        bounded, other = (
            result("auto", 1, 1100, lower_bound=1040),
            result("greedy", 1, 1100, max_computes=64, lower_bound=1090),
        )
        self.assertAlmostEqual(self.compare(bounded, other).bound, 4)
        self.assertIsNone(self.compare(other).bound)

    def test_sees_a_proof_that_a_schedule_excludes(self):
        bounded, better = result("auto", 1, 1100, lower_bound=1080), result("greedy", 1, 1070)
        self.assertEqual(len(contradictions([bounded, better])), 1)
        self.assertEqual(contradictions([bounded, result("greedy", 1, 1070, order="free")]), [])
        self.assertEqual(len(contradictions([result("auto", 1, 0, status="infeasible"), better])), 1)
        self.assertEqual(contradictions([result("auto", 1, 1100), better]), [])


class BestKnownFile(harness_case.HarnessCase):
    def table(self):
        return BestKnown(self.path("known.json"))

    def claim(self, duration, bound, sha256="abc", instance=Instance("g", make=["remora", "generate", "layered"])):
        run = result(
            "somebody",
            1,
            duration,
            lower_bound=bound,
            graph_sha256=sha256,
            instance=instance.name,
            when="2026-11-21T10:00:00Z",
        )
        return self.table().entry_of(instance, run, [[3, 1], [4, 0]])

    def test_it_keeps_the_shorter_schedule_and_the_higher_bound(self):
        table = self.table()
        for duration, bound, is_news in (
            (1100, 1020, True),
            (1150, 1060, True),
            (1080, 1010, True),
            (1090, 1000, False),
        ):
            self.assertEqual(table.learn(self.claim(duration, bound)), is_news)
        known = table.find("g", "abc", "80%", 2)
        self.assertEqual((known["duration"], known["lower_bound"]), (1080, 1060))
        self.assertIsNone(table.find("g", "abc", "80%", 3))
        self.assertTrue(table.learn(self.claim(2000, 1000, "another")))
        self.assertIsNone(table.find("g", "abc", "80%", 2))
        self.assertEqual(table.find("g", "another", "80%", 2)["duration"], 2000)
        self.assertFalse(table.learn(self.claim(2000, 1000, "another")))

    def test_it_reads_back_what_it_wrote(self):
        table = self.table()
        table.learn(self.claim(1100, 1020))
        table.learn(self.claim(1200, 1000, instance=Instance("f", self.path("graphs/f.json"), reading=["--training"])))
        table.save()
        again = self.table()
        self.assertEqual(again.entries, table.entries)
        again.save()
        self.assertEqual(self.table().entries, table.entries)
        instance = again.instance_of(again.find("f", "abc", "80%", 2))
        self.assertEqual(os.path.normpath(instance.file), self.path("graphs/f.json"))
        self.assertEqual(instance.reading, ["--training"])
        self.assertEqual(again.find("g", "abc", "80%", 2)["recomputes"], [[3, 1], [4, 0]])

    def test_nonsense_is_refused_with_the_path(self):
        for text in ("{}", '{"format": "remora-best-known", "version": 1, "entries": [{}]}'):
            self.write("known.json", text)
            with self.assertRaisesRegex(InputError, r"known.json: \$"):
                self.table()


if __name__ == "__main__":
    harness_case.main()
