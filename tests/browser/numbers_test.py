# SPDX-License-Identifier: Apache-2.0
"""The page says what the files say."""

from page_case import STATUS, PageTest
from replay import Replay, bytes_text, input_order, recomputed, time_text


class Numbers(PageTest):
    """What the page says is what the files say."""

    def setUp(self):
        self.graph, self.schedule = self.pages.read("unet.graph.json"), self.pages.read("unet.schedule.json")
        self.replay = Replay(self.graph, self.schedule["steps"])
        self.open("unet.html")

    def test_headline(self):
        schedule = self.schedule
        self.assertEqual(self.text("h1"), self.graph["name"])
        self.assertEqual(
            self.text("#peak"),
            f"{bytes_text(schedule['baseline_peak_memory'])} \u2192 {bytes_text(schedule['peak_memory'])}",
        )
        self.assertEqual(self.text("#budget"), bytes_text(schedule["budget"]))
        fixed, before = self.graph["fixed_memory"], schedule["baseline_peak_memory"]
        part = lambda amount: f"{100 * (amount - fixed) / (before - fixed):.1f} %"
        self.assertEqual(
            self.text("#peak + .note"),
            f"{bytes_text(fixed)} fixed + {part(schedule['peak_memory'])} of the rest of the peak",
        )
        self.assertEqual(self.text("#budget + .note"), f"{part(schedule['budget'])}, {schedule['budget']:,} bytes")
        self.assertEqual(self.text("#overhead"), f"{100 * schedule['overhead']:+.2f} %")
        self.assertEqual(
            self.text("#overhead + .note"),
            f"{time_text(schedule['baseline_duration'])} \u2192 {time_text(schedule['duration'])}",
        )
        bound = schedule["lower_bound"] / schedule["baseline_duration"] - 1
        self.assertEqual(self.text("#bound"), f"{100 * bound:+.2f} %")
        self.assertEqual(self.text("#bound + .note"), f"gap {100 * schedule['gap']:.2f} %")
        self.assertEqual(self.text("#status"), STATUS[schedule["status"]])

    def test_the_first_sentences_answer_what_was_asked(self):
        schedule, replay = self.schedule, self.replay
        ops = len(recomputed(self.graph, schedule))
        bound = schedule["lower_bound"] / schedule["baseline_duration"] - 1
        proof = (
            "no schedule within the budget takes less"
            if schedule["status"] == "optimal"
            else f"at least {100 * bound:.2f} % is needed"
        )
        op = next(op for op in self.graph["ops"] if op["name"] == replay.names[replay.peak_step])
        self.assertEqual(
            self.text("#verdict"),
            f"Fits within {bytes_text(schedule['budget'])}: the peak is {bytes_text(schedule['peak_memory'])} instead of "
            f"{bytes_text(schedule['baseline_peak_memory'])}, at step {replay.peak_step:,}, {op['name']} ({op['type']}). "
            f"{ops:,} ops are recomputed, for {100 * schedule['overhead']:.2f} % more time ({proof}).",
        )

    def test_recomputed_ops(self):
        truth = recomputed(self.graph, self.schedule)
        self.assertGreater(len(truth), 5)
        types = {op["name"]: op["type"] for op in self.graph["ops"]}
        rows = self.rows("#recomputed")
        self.assertEqual(len(rows), len(truth))
        whys = self.browser.run(
            "return [...document.querySelectorAll('#recomputed td.reason')].map((cell) => cell.title)"
        )
        before = None
        for (name, kind, times, paid, saved, steps, shown), why in zip(rows, whys):
            row = truth[name]
            # What the row above says is not said again.
            self.assertEqual(shown, "the same" if why == before else why)
            before = why
            self.assertEqual(
                (kind, times, paid, saved),
                (types[name], str(row["times"]), time_text(row["paid"]), bytes_text(row["saved"])),
            )
            if row["steps"] > 0:
                self.assertTrue(why.startswith(bytes_text(row["above"]) + " at "), why)
                self.assertEqual(steps, f"{row['steps']:,}")
        paid = [truth[row[0]]["paid"] for row in rows]
        self.assertEqual(paid, sorted(paid, reverse=True))
        self.assertEqual(sum(paid), self.schedule["duration"] - self.schedule["baseline_duration"])

    def expect_residents(self, step):
        sizes = self.replay.sizes
        expected = sorted((bytes_text(sizes[name]) for name in self.replay.residents[step]))
        rows = self.rows("#residents")
        fixed = self.graph["fixed_memory"]
        rest = dict(row for row in rows if row[0] in ("fixed memory", "graph inputs"))
        self.assertEqual(
            rest, {"fixed memory": bytes_text(fixed), "graph inputs": bytes_text(self.replay.base - fixed)}
        )
        # To the byte, the sum's row included.
        exact = self.browser.run(
            "return [...document.querySelectorAll('#residents td.number')]"
            ".map((cell) => Number(cell.title.replace(/[^0-9-]/g, '')))"
        )
        self.assertEqual(sum(exact[:-1]), exact[-1])
        self.assertEqual(exact[-1], self.replay.memory[step])
        self.assertEqual(sorted(row[1] for row in rows if row[0] in sizes), expected)
        self.assertEqual({row[0] for row in rows if row[0] in sizes}, set(self.replay.residents[step]))

    def test_the_peak_is_shown_first(self):
        peak = self.replay.peak_step
        self.assertIn(
            f"step {peak}, the peak: {bytes_text(self.schedule['peak_memory'])}", self.text("#residents-caption")
        )
        self.expect_residents(peak)

    def test_hover_tells_bytes_and_tensors(self):
        before = dict(zip((op["name"] for op in self.graph["ops"]), Replay(self.graph, input_order(self.graph)).memory))
        count = len(self.schedule["steps"])
        for step in (self.replay.peak_step, 3, count - 1, self.replay.again.index(True)):
            self.browser.hover(*self.place("memory", (step + 0.5) / count, 0.5))
            words = self.text("#memory .readout")
            self.assertTrue(words.startswith(f"Step {step} of {count}: {self.replay.names[step]} "), words)
            self.assertIn(bytes_text(self.replay.memory[step]) + " in memory", words)
            self.assertEqual(", recomputed" in words, self.replay.again[step])
            if not self.replay.again[step]:
                self.assertIn(f"input order holds {bytes_text(before[self.replay.names[step]])}", words)
            self.expect_residents(step)

    def test_times_stand_beside_steps(self):
        durations = [self.replay.ops[name]["duration"] for name in self.replay.names]
        self.assertEqual(
            self.browser.run("return [...remoraReport.current.times]"),
            [sum(durations[:i]) for i in range(len(durations) + 1)],
        )
        for view in ("memory", "gantt"):
            self.assertGreater(self.browser.run("return remoraReport[arguments[0]].timeTicks", view), 3)
        self.assertIn(
            f"from {time_text(0)} to {time_text(durations[0])}", self.browser.run("return remoraReport.memory.words(0)")
        )

    def test_fixed_memory_is_a_band_below_the_axis(self):
        fixed = self.graph["fixed_memory"]
        self.assertGreater(fixed, 0)
        band, floor, top, bottom = self.browser.run(
            "const {memory} = remoraReport; return [memory.band, memory.toLevel(0), memory.toLevel(arguments[0]),"
            "memory.height - memory.margins.bottom]",
            fixed,
        )
        self.assertEqual((floor, top), (bottom, bottom - band))
        self.assertGreater(band, 10)
        # Half of what is above it is in the middle of what is left.
        most, middle, upper = self.browser.run(
            "const {memory} = remoraReport; const half = memory.fixed + (memory.most - memory.fixed) / 2;"
            "return [memory.most, memory.toLevel(half), memory.margins.top]"
        )
        self.assertGreater(most, fixed)
        self.assertAlmostEqual(middle, (upper + top) / 2, places=3)

    def test_all_tensors_can_be_shown(self):
        self.browser.run("remoraReport.cursor.move(arguments[0])", self.replay.peak_step)
        self.browser.frame()
        more = self.browser.run("return document.querySelector('#residents button')?.textContent ?? ''")
        if more:
            self.click("#residents button")
        self.assertEqual(
            {row[0] for row in self.rows("#residents")} & set(self.replay.sizes),
            set(self.replay.residents[self.replay.peak_step]),
        )
        widths = self.browser.run(
            "return [...document.querySelectorAll('#residents .part')].map((part) => part.offsetWidth)"
        )
        self.assertGreaterEqual(min(widths), 2)

    def test_hover_over_an_interval(self):
        rows = [name for op in self.graph["ops"] for name in op["outputs"]]
        count = len(self.schedule["steps"])
        step = self.replay.again.index(True)
        tensor = self.replay.ops[self.replay.names[step]]["outputs"][0]
        self.browser.hover(*self.place("gantt", (step + 0.5) / count, (rows.index(tensor) + 0.5) / len(rows)))
        words = self.text("#gantt .readout")
        self.assertTrue(words.startswith(f"{tensor}, {bytes_text(self.replay.sizes[tensor])}, "), words)
        self.assertIn(f"in memory from step {step} to ", words)
        self.assertIn("after a recompute", words)
        # The step is the same in all views.
        self.assertTrue(self.text("#memory .readout").startswith(f"Step {step} of "))

    def test_hover_over_the_matrices(self):
        count = len(self.graph["ops"])
        step = self.replay.again.index(True)
        stage = len(set(self.replay.names[:step]))
        op = [op["name"] for op in self.graph["ops"]].index(self.replay.names[step])
        for view, words in (("computed", "recomputed"), ("retained", "not retained")):
            self.browser.hover(*self.place(view, (op + 0.5) / count, (stage + 0.5) / (count + 1)))
            root = "#matrix-r" if view == "computed" else "#matrix-s"
            self.assertRegex(self.text(root + " .readout"), f"^Stage {stage}, op {op} .*: {words}")

    def test_history(self):
        rows = self.rows("#history-table")
        history = self.schedule["solver"]["history"]
        self.assertEqual([row[4] for row in rows], [entry[3] for entry in history])
        self.assertEqual([row[2] for row in rows], [time_text(entry[1]) for entry in history])
