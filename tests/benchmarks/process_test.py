# SPDX-License-Identifier: Apache-2.0
"""Measured processes: pinned, watched, ended, with nothing left behind."""

import signal
import time

import harness_case
from harness import process
from harness.suite import InputError


def shell(script, **options):
    return process.run(["sh", "-c", script], **({"patience": 60} | options))


class Process(harness_case.HarnessCase):
    def expect_end_of(self, file):
        """The system ends a killed process in its own time; a zombie has ended."""
        number = self.read(file).strip()
        for _ in range(1000):
            try:
                with open(f"/proc/{number}/stat", encoding="ascii") as status:
                    if status.read().rpartition(")")[2].split()[0] == "Z":
                        return
            except OSError:
                return
            time.sleep(0.01)
        self.fail(f"process {number} still runs")

    def test_tells_how_it_ended_and_its_last_words(self):
        outcome = shell("echo out; echo first >&2; echo last words >&2; exit 7")
        self.assertEqual((outcome.code, outcome.last_error, outcome.late), (7, "last words", False))

    def test_is_pinned_to_as_many_cores_as_asked(self):
        self.assertEqual(shell("nproc > " + self.path("cores"), cores=1).code, 0)
        self.assertEqual(self.read("cores"), "1\n")

    def test_is_ended_when_it_hangs_with_all_its_children(self):
        outcome = shell(f"sleep 1000 & echo $! > {self.path('child')}; wait", patience=0.3)
        self.assertTrue(outcome.late)
        self.assertEqual(outcome.code, 128 + signal.SIGTERM)
        self.expect_end_of("child")

    def test_leaves_nothing_behind(self):
        self.assertEqual(shell("sleep 1000 & echo $! > " + self.path("child")).code, 0)
        self.expect_end_of("child")

    def test_has_a_memory_of_its_own(self):
        ours = b"x" * 100_000_000
        outcome = process.run(["sleep", "0.2"], patience=60)
        self.assertGreater(outcome.peak_kibibytes, 100)
        self.assertLess(outcome.peak_kibibytes, 50_000, len(ours))

    def test_counts_the_time_of_its_processor(self):
        outcome = shell("i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done")
        self.assertGreater(outcome.cpu_seconds, 0)

    def test_tells_what_it_said_in_printable_letters(self):
        self.assertEqual(shell(r"printf 'a\377b\n' >&2").last_error, "a?b")

    def test_is_killed_when_cancelled(self):
        outcome = process.run(["sleep", "1000"], patience=2000, cancelled=lambda: True)
        self.assertTrue(outcome.cancelled)
        self.assertEqual(outcome.code, 128 + signal.SIGKILL)

    def test_may_write_more_errors_than_a_pipe_holds(self):
        outcome = shell("i=0; while [ $i -lt 20000 ]; do echo line $i; i=$((i+1)); done >&2")
        self.assertEqual((outcome.code, outcome.last_error), (0, "line 19999"))

    def test_what_cannot_be_started_is_told(self):
        with self.assertRaisesRegex(InputError, "no-such-program"):
            process.run([self.path("no-such-program")], patience=1)


if __name__ == "__main__":
    harness_case.main()
