# SPDX-License-Identifier: Apache-2.0
"""Pages of other kinds: thousands of ops, sweeps, no schedule, free order, hostile names."""

import os

from page_case import STATUS, PageTest
from pages import EVIL
from replay import Replay, bytes_text, input_order, recomputed


class Large(PageTest):
    """Thousands of ops: what is drawn is bounded by what can be seen."""

    def setUp(self):
        self.open("large.html")

    def test_the_file_is_small(self):
        self.assertGreater(len(self.pages.read("large.graph.json")["ops"]), 5000)
        self.assertLess(os.path.getsize(self.pages.path("large.html")), 3_000_000)

    def test_shapes_are_bounded_at_every_zoom(self):
        whole = self.steps()[1]
        for part in (1, 0.5, 0.2, 0.05, 0.01, 0.002):
            self.browser.run(
                "const {steps, gantt} = remoraReport; const middle = steps.count * 0.45;"
                "const half = steps.count * arguments[0] / 2; steps.show(middle - half, middle + half);"
                "const rows = gantt.down.count; gantt.down.show(rows * 0.45 - rows * arguments[0] / 2,"
                "rows * 0.45 + rows * arguments[0] / 2)",
                part,
            )
            self.browser.frame()
            width = self.browser.run("return remoraReport.memory.plotWidth")
            self.assertLessEqual(self.figures("memory")[1], 4 * width + 8)
            self.assertLessEqual(self.figures("gantt")[1], 12000)
            self.assertLessEqual(self.steps()[1] - self.steps()[0], whole * part + 4.01)

    def test_hover_and_keys_work_there(self):
        schedule = self.pages.read("large.schedule.json")
        replay = Replay(self.pages.read("large.graph.json"), schedule["steps"])
        self.browser.run("remoraReport.memory.canvas.focus()")
        self.browser.press("p")
        self.assertIn(
            f"step {replay.peak_step:,}, the peak: {bytes_text(schedule['peak_memory'])}",
            self.text("#residents-caption"),
        )
        shown = self.browser.run("return remoraReport.residents.body.rows.length")
        self.assertLessEqual(shown, 33)  # 24 tensors, five sums by type, four other rows
        self.assertIn(" more outputs of ", self.text("#residents tbody"))
        exact = self.browser.run(
            "return [...document.querySelectorAll('#residents td.number')]"
            ".map((cell) => Number(cell.title.replace(/[^0-9-]/g, '')))"
        )
        self.assertEqual((sum(exact[:-1]), exact[-1]), (schedule["peak_memory"], schedule["peak_memory"]))

    def test_a_long_table_is_shown_on_demand(self):
        truth = recomputed(self.pages.read("large.graph.json"), self.pages.read("large.schedule.json"))
        self.assertEqual(len(self.rows("#recomputed")), 30)
        self.click("#recomputed-more")
        rows = self.rows("#recomputed")
        self.assertEqual({row[0]: row[2] for row in rows}, {name: str(row["times"]) for name, row in truth.items()})


class Sweep(PageTest):
    """A page of several schedules."""

    def setUp(self):
        self.curve = self.pages.read("sweep.json")
        self.open("sweep.html")

    def test_points_link_to_their_schedules(self):
        links = self.browser.run(
            "return [...document.querySelectorAll('#curve-chart a')].map((a) => a.getAttribute('href'))"
        )
        kept = [i for i, point in enumerate(self.curve["points"]) if "schedule" in point][:-1]
        self.assertEqual(links, [f"#point-{i}" for i in kept])
        self.assertGreaterEqual(len(links), 2)
        for i in kept:
            self.browser.run("document.querySelector(`#curve-chart a[href='#point-${arguments[0]}']`).focus()", i)
            self.browser.press("Enter")
            self.browser.frame()
            point = self.curve["points"][i]
            self.assertEqual(self.text("#peak").split(" \u2192 ")[1], bytes_text(point["peak_memory"]))
            self.assertEqual(self.text("#overhead"), f"{100 * point['overhead']:+.2f} %")
            self.assertEqual(self.browser.run("return document.activeElement.getAttribute('href')"), f"#point-{i}")

    def test_the_table_says_what_each_point_has(self):
        rows = self.rows("#curve-table")
        self.assertEqual([row[0] for row in rows], [bytes_text(point["budget"]) for point in self.curve["points"]])
        self.assertEqual([row[2] for row in rows], [point["status"] for point in self.curve["points"]])
        self.assertTrue(rows[-1][7].startswith("missing: "), rows[-1])
        self.assertEqual(rows[0][7], "proved infeasible")

    LABELS = """
        return [...document.querySelectorAll('#curve-chart text, #curve-chart circle.mark')].map((e) => {
          const {left, top, right, bottom} = e.getBoundingClientRect();
          return [e.textContent || 'mark', left, top, right, bottom, e.classList.contains('name')];
        });"""

    def test_labels_do_not_collide(self):
        for width in (1280, 700, 420):
            self.browser.size(width, 900)
            self.browser.frame()
            boxes = self.browser.run(self.LABELS)
            names = [box for box in boxes if box[5]]
            self.assertIn("none below (proved)", [name[0] for name in names])
            for name in names:
                for other in boxes:
                    meets = name[1] < other[3] and other[1] < name[3] and name[2] < other[4] and other[2] < name[4]
                    self.assertFalse(meets and other is not name, f"{width}: {name} {other}")
        self.browser.size(1280, 1000)

    def test_fixed_memory_is_a_band_beside_the_axis(self):
        words = self.browser.run("return [...document.querySelectorAll('#curve-chart text')].map((e) => e.textContent)")
        self.assertIn("fixed " + bytes_text(self.curve["fixed_memory"]), words)
        self.assertTrue(any(word.startswith("budget above fixed memory") for word in words), words)
        self.assertEqual(self.browser.run("return document.querySelectorAll('#curve-chart .band').length"), 1)

    def test_an_address_names_a_point(self):
        i = next(i for i, point in enumerate(self.curve["points"]) if "schedule" in point)
        self.browser.open("about:blank")
        self.browser.open(self.pages.url("sweep.html") + f"#point-{i}")
        self.browser.frame()
        self.assertEqual(self.text("#overhead"), f"{100 * self.curve['points'][i]['overhead']:+.2f} %")

    def test_an_address_without_a_point_shows_the_first_view_again(self):
        shown = self.text("#point-name")
        i = next(i for i, point in enumerate(self.curve["points"]) if "schedule" in point)
        self.browser.run("location.hash = '#point-' + arguments[0]", i)
        self.browser.frame()
        if self.text("#point-name") == shown:
            i = [j for j, point in enumerate(self.curve["points"]) if "schedule" in point][1]
            self.browser.run("location.hash = '#point-' + arguments[0]", i)
            self.browser.frame()
        self.assertNotEqual(self.text("#point-name"), shown)
        self.browser.run("location.hash = ''")
        self.browser.frame()
        self.assertEqual(self.text("#point-name"), shown)


class Answers(PageTest):
    """Pages without a schedule, in free order, and with names that are markup."""

    def test_an_infeasible_budget_says_why(self):
        self.open("refused.html")
        certificate = self.pages.read("refused.schedule.json")["certificate"]
        words = self.text("#refusal")
        self.assertIn(f"While {certificate['op']} ", words)
        self.assertIn("Does not fit within ", self.text("#verdict"))
        self.assertIn(f"{certificate['required']:,} bytes", words)
        self.assertEqual({row[0] for row in self.rows("#certificate")}, set(certificate["tensors"]))
        self.assertEqual(self.text("#status"), STATUS["infeasible"])
        peak = max(Replay(self.pages.read("unet.graph.json"), input_order(self.pages.read("unet.graph.json"))).memory)
        self.assertEqual(self.text("#peak"), bytes_text(peak))

    def test_a_free_order_has_no_matrices(self):
        self.open("free.html")
        self.assertTrue(self.is_gone("#matrices"))
        replay = Replay(self.pages.read("unet.graph.json"), self.pages.read("free.schedule.json")["steps"])
        self.assertIn(bytes_text(max(replay.memory)), self.text("#residents-caption"))

    def test_a_free_order_has_the_input_order_beside_the_same_ops(self):
        self.open("free.html")
        graph = self.pages.read("unet.graph.json")
        replay = Replay(graph, self.pages.read("free.schedule.json")["steps"])
        before = dict(zip((op["name"] for op in graph["ops"]), Replay(graph, input_order(graph)).memory))
        shown = self.browser.run("return [...remoraReport.current.beforeMemory]")
        self.assertEqual(len(shown), len(replay.names))
        for step, name in enumerate(replay.names):
            if not replay.again[step]:
                self.assertEqual(shown[step], before[name])
        step = replay.names.index(graph["ops"][len(graph["ops"]) // 2]["name"])
        self.browser.run("remoraReport.cursor.move(arguments[0])", step)
        self.assertIn(f"input order holds {bytes_text(before[replay.names[step]])}", self.text("#memory .readout"))

    def test_a_limit_that_is_not_told_is_not_said(self):
        self.open("bare.html")
        self.assertIn("no schedule of the stated problem stays within the budget", self.text("#refusal"))

    def test_the_line_of_the_history_leads_through_what_fits(self):
        self.open("hollow.html")
        schedule = self.pages.read("hollow.schedule.json")
        fits = [entry[2] <= schedule["budget"] for entry in schedule["solver"]["history"]]
        self.assertFalse(all(fits))
        marks = self.browser.run(
            "return [...document.querySelectorAll('#history-chart circle')]"
            ".map((mark) => !mark.classList.contains('hollow'))"
        )
        self.assertEqual(marks, fits)
        line = self.browser.run("return document.querySelector('#history-chart path.known').getAttribute('d')")
        self.assertEqual(line.count("H"), sum(fits))

    def test_a_peak_at_no_step_names_none(self):
        self.open("resident.html")
        self.assertEqual(self.text("#verdict"), "Fits within 8 B: the peak is 8 B. Nothing is recomputed.")

    def test_names_do_not_run(self):
        self.open("evil.html")
        self.click("#recomputed button.link")
        self.assertIsNone(self.browser.run("return window.hacked ?? null"))
        self.assertEqual(self.text("h1"), EVIL)
        self.assertEqual(self.rows("#recomputed")[0][0], EVIL + "0")
        self.assertEqual(self.browser.run("return document.images.length"), 0)

    def test_the_policy_forbids_other_scripts(self):
        self.open("unet.html")
        self.browser.run(
            "const s = document.createElement('script'); s.textContent = 'window.hacked = 3';"
            "document.body.append(s); document.body.setAttribute('onclick', 'window.hacked = 4');"
            "document.body.click()"
        )
        self.assertIsNone(self.browser.run("return window.hacked ?? null"))
        self.browser.log("browser")  # it complains, as it should


class Quiet(PageTest):
    """No page logs an error or asks for anything but itself."""

    def test_no_errors_and_no_network(self):
        for name in (
            "unet.html",
            "large.html",
            "refused.html",
            "free.html",
            "bare.html",
            "hollow.html",
            "evil.html",
            "resident.html",
            "sweep.html",
        ):
            with self.subTest(name):
                self.browser.log("browser")
                self.browser.log("performance")
                self.open(name)
                self.browser.press("Tab")
                self.browser.size(400, 800)
                self.browser.media(prefers_color_scheme="dark")
                self.browser.frame()
                self.assertEqual(self.browser.log("browser"), [])
                asked = [
                    entry["message"]
                    for entry in self.browser.log("performance")
                    if '"Network.requestWillBeSent"' in entry["message"]
                ]
                self.assertTrue(asked)
                for message in asked:
                    self.assertTrue(self.pages.url(name) in message or '"url":"data:,' in message, message)
