#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The page of `remora report` in headless Chromium.

usage: report_page_test.py BIN_FOLDER [unittest words]

BIN_FOLDER holds remora and remora_zoo. Exit 77 where there is no browser.
"""
import os
import sys
import tempfile
import unittest

import webdriver
from pages import EVIL, Pages
from replay import Replay, bytes_text, input_order, recomputed, time_text

STATUS = {"optimal": "\u2713 optimal", "feasible": "\u25cb feasible", "infeasible": "\u2715 infeasible"}


class PageTest(unittest.TestCase):
    """Helpers; the programs, the folder and the browser are one for all."""
    pages = browser = None

    def open(self, name):
        self.browser.size(1280, 1000)
        self.browser.media(prefers_color_scheme="light")
        self.browser.open(self.pages.url(name))
        self.browser.frame()

    def text(self, selector):
        return self.browser.run("return document.querySelector(arguments[0]).textContent", selector)

    def click(self, selector):
        self.browser.run("document.querySelector(arguments[0]).click()", selector)
        self.browser.frame()

    def rows(self, selector):
        return self.browser.run("return [...document.querySelectorAll(arguments[0] + ' tbody tr')]"
                                ".map((row) => [...row.cells].map((cell) => cell.textContent))", selector)

    def place(self, view, x, y):
        """Where in the window a part of a view's plot is, scrolled to."""
        left, top, margins, width, height = self.browser.run(
            "const view = remoraReport[arguments[0]]; view.canvas.scrollIntoView({block: 'center'});"
            "const box = view.canvas.getBoundingClientRect();"
            "return [box.left, box.top, view.margins, box.width, box.height]", view)
        return (left + margins["left"] + x * (width - margins["left"] - margins["right"]),
                top + margins["top"] + y * (height - margins["top"] - margins["bottom"]))

    def steps(self):
        return tuple(self.browser.run("const {first, end} = remoraReport.steps; return [first, end]"))

    def figures(self, view):
        """How often a view was drawn, and how many shapes the last time."""
        return self.browser.run("const {frames, shapes} = remoraReport[arguments[0]]; return [frames, shapes]", view)

    def focus(self, view):
        self.browser.run("remoraReport[arguments[0]].canvas.focus()", view)


class Numbers(PageTest):
    """What the page says is what the files say."""

    def setUp(self):
        self.graph, self.schedule = self.pages.read("unet.graph.json"), self.pages.read("unet.schedule.json")
        self.replay = Replay(self.graph, self.schedule["steps"])
        self.open("unet.html")

    def test_headline(self):
        schedule = self.schedule
        self.assertEqual(self.text("h1"), self.graph["name"])
        self.assertEqual(self.text("#peak"), f"{bytes_text(schedule['baseline_peak_memory'])} \u2192 "
                                             f"{bytes_text(schedule['peak_memory'])}")
        self.assertEqual(self.text("#budget"), bytes_text(schedule["budget"]))
        self.assertEqual(self.text("#budget + .note"), f"{schedule['budget']:,} bytes")
        self.assertEqual(self.text("#overhead"), f"{100 * schedule['overhead']:+.2f} %")
        self.assertEqual(self.text("#overhead + .note"), f"{time_text(schedule['baseline_duration'])} \u2192 "
                                                         f"{time_text(schedule['duration'])}")
        bound = schedule["lower_bound"] / schedule["baseline_duration"] - 1
        self.assertEqual(self.text("#bound"), f"{100 * bound:+.2f} %")
        self.assertEqual(self.text("#bound + .note"), f"gap {100 * schedule['gap']:.2f} %")
        self.assertEqual(self.text("#status"), STATUS[schedule["status"]])

    def test_recomputed_ops(self):
        truth = recomputed(self.graph, self.schedule)
        self.assertGreater(len(truth), 5)
        types = {op["name"]: op["type"] for op in self.graph["ops"]}
        rows = self.rows("#recomputed")
        self.assertEqual(len(rows), len(truth))
        for name, kind, times, paid, saved, why in rows:
            row = truth[name]
            self.assertEqual((kind, times, paid, saved),
                             (types[name], str(row["times"]), time_text(row["paid"]), bytes_text(row["saved"])))
            if row["steps"] > 0:
                self.assertTrue(why.startswith(bytes_text(row["above"]) + " too much at "), why)
                self.assertIn(f"{row['steps']} step", why)
        paid = [truth[row[0]]["paid"] for row in rows]
        self.assertEqual(paid, sorted(paid, reverse=True))
        self.assertEqual(sum(paid), self.schedule["duration"] - self.schedule["baseline_duration"])

    def expect_residents(self, step):
        sizes = self.replay.sizes
        expected = sorted((bytes_text(sizes[name]) for name in self.replay.residents[step]))
        rows = self.rows("#residents")
        fixed = [row for row in rows if row[0] == "fixed memory and graph inputs"]
        self.assertEqual(fixed, [["fixed memory and graph inputs", bytes_text(self.replay.base)]])
        self.assertEqual(sorted(row[1] for row in rows if row[0] in sizes), expected)
        self.assertEqual({row[0] for row in rows if row[0] in sizes}, set(self.replay.residents[step]))

    def test_the_peak_is_shown_first(self):
        peak = self.replay.peak_step
        self.assertIn(f"step {peak}, the peak: {bytes_text(self.schedule['peak_memory'])}", self.text("#residents-caption"))
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


class Behaviour(PageTest):
    """Zoom, pan and keys on the U-Net's page."""

    def setUp(self):
        self.open("unet.html")
        self.count = len(self.pages.read("unet.schedule.json")["steps"])

    def test_wheel_zooms_around_the_pointer(self):
        x, y = self.place("memory", 0.25, 0.5)
        frames = self.figures("memory")[0]
        self.browser.wheel(x, y, -500)
        first, end = self.steps()
        self.assertLess(end - first, 0.6 * self.count)
        self.assertAlmostEqual(first + 0.25 * (end - first), 0.25 * self.count, delta=0.02 * self.count)
        self.assertGreater(self.figures("memory")[0], frames)
        self.browser.wheel(x, y, 5000)
        self.assertEqual(self.steps(), (0, self.count))

    def test_both_views_zoom_together(self):
        gantt, memory = self.figures("gantt")[0], self.figures("memory")[0]
        self.browser.wheel(*self.place("gantt", 0.5, 0.5), -500)
        self.assertLess(self.steps()[1] - self.steps()[0], self.count)
        self.assertGreater(self.figures("gantt")[0], gantt)
        self.assertGreater(self.figures("memory")[0], memory)
        self.assertLess(*self.browser.run("const {first, end, count} = remoraReport.gantt.down; return [end - first, count]"))

    def test_a_page_that_scrolls_does_not_stop_at_a_drawing(self):
        self.browser.run("window.scrollTo(0, 0)")
        x, y = self.place("memory", 0.5, 0.5)
        # The burst begins beside the canvas.
        self.browser.run("document.querySelector('h1').dispatchEvent(new WheelEvent('wheel', {bubbles: true, deltaY: 5}));"
                         "remoraReport.memory.canvas.dispatchEvent(new WheelEvent('wheel', {bubbles: true, deltaY: -500}))")
        self.browser.frame()
        self.assertEqual(self.steps(), (0, self.count))
        self.browser.wheel(x, y, -500)
        self.assertNotEqual(self.steps(), (0, self.count))

    def test_drag_pans(self):
        self.focus("memory")
        self.browser.press("+")
        first, end = self.steps()
        x, y = self.place("memory", 0.5, 0.5)
        self.browser.drag(x, y, -100, 0)
        moved, moved_end = self.steps()
        self.assertGreater(moved, first)
        self.assertAlmostEqual(moved_end - moved, end - first, places=6)

    def test_keys(self):
        self.focus("memory")
        self.browser.press("+")
        first, end = self.steps()
        self.assertLess(end - first, self.count)
        self.browser.press("ArrowRight")
        self.assertGreater(self.steps()[0], first)
        self.browser.press("ArrowLeft")
        self.assertAlmostEqual(self.steps()[0], first, places=6)
        self.browser.press("-")
        self.browser.press("-")
        self.assertEqual(self.steps(), (0, self.count))
        self.browser.press("+")
        self.browser.press("Home")
        self.assertEqual(self.steps(), (0, self.count))

    def test_keys_point_and_the_page_speaks(self):
        self.focus("memory")
        step = self.browser.run("return remoraReport.cursor.step")
        self.browser.press("Shift", "ArrowRight")
        self.assertTrue(self.text("#memory .readout").startswith(f"Step {step + 1} of "))
        self.assertEqual(self.browser.run("return document.querySelector('#memory .readout').getAttribute('aria-live')"),
                         "polite")
        self.browser.press("p")
        self.assertTrue(self.text("#memory .readout").startswith(f"Step {step} of "))
        self.focus("gantt")
        before = self.text("#gantt .readout")
        self.browser.press("Shift", "ArrowDown")
        self.assertNotEqual(self.text("#gantt .readout"), before)
        self.focus("computed")
        self.browser.press("Shift", "ArrowDown")
        self.assertTrue(self.text("#matrix-r .readout").startswith("Stage 1, op 0 "))

    def test_buttons_zoom(self):
        self.click("#memory [data-do=in]")
        self.assertLess(self.steps()[1] - self.steps()[0], self.count)
        self.click("#memory [data-do=reset]")
        self.assertEqual(self.steps(), (0, self.count))

    def test_sorting(self):
        def column(i):
            return [row[i] for row in self.rows("#recomputed")]
        self.click("#recomputed [data-key=name]")
        self.assertEqual(self.browser.run("return document.querySelector('[data-key=name]').parentElement.ariaSort"),
                         "ascending")
        ascending = column(0)
        self.click("#recomputed [data-key=name]")
        self.assertEqual(column(0), ascending[::-1])
        self.click("#recomputed [data-key=saved]")
        numbers = self.browser.run("return remoraReport.recomputed.rows.map((row) => row.saved).sort((a, b) => b - a)")
        self.assertEqual(column(4), [bytes_text(number) for number in numbers])

    def test_a_name_shows_its_intervals(self):
        name = self.rows("#recomputed")[0][0]
        self.click("#recomputed button.link")
        words = self.text("#gantt .readout")
        self.assertIn(f"written by {name} ", words)
        self.assertLessEqual(self.browser.run("return remoraReport.gantt.down.length"), 25)
        self.assertEqual(self.browser.run("return document.activeElement === remoraReport.gantt.canvas"), True)

    def test_the_keyboard_reaches_everything(self):
        self.browser.run("document.activeElement.blur(); window.scrollTo(0, 0)")
        reached = []
        for _ in range(80):
            self.browser.press("Tab")
            where = self.browser.run(
                "const e = document.activeElement; if (e === document.body) return null; const s = getComputedStyle(e);"
                "return [[...document.querySelectorAll('*')].indexOf(e), e.getAttribute('aria-label') || e.textContent.trim(),"
                "s.outlineStyle !== 'none' && parseFloat(s.outlineWidth) > 0]")
            if where is None or where in reached:
                break
            self.assertTrue(where[2], f"{where} shows no focus")
            reached.append(where)
        names = [name for _, name, _ in reached]
        for wanted in ("Memory over steps", "Retention intervals, a row for each tensor", "Matrix R", "Matrix S", "Zoom in",
                       "Peak", "Time paid", "Recomputed ops", "What is in memory", "The same as a table"):
            self.assertIn(wanted, names)


class Looks(PageTest):
    """Schemes, contrast, widths."""

    CONTRAST = """
        const channels = (colour) => colour.match(/[\\d.]+/g).map(Number);
        const luminance = (c) => [0.2126, 0.7152, 0.0722].reduce((sum, weight, i) => {
          const part = c[i] / 255;
          return sum + weight * (part <= 0.03928 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4);
        }, 0);
        const contrast = (a, b) => {
          const [x, y] = [luminance(a), luminance(b)].sort((p, q) => q - p);
          return (x + 0.05) / (y + 0.05);
        };
        const ground = (e) => {
          for (; e; e = e.parentElement) {
            const colour = channels(getComputedStyle(e).backgroundColor);
            if (colour.length < 4 || colour[3] === 1) return colour;
          }
          return [255, 255, 255];
        };
        const found = [];
        for (const e of document.querySelectorAll('body *')) {
          const own = [...e.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim());
          if (!own || e.closest('script, noscript, title') || e.getClientRects().length === 0) continue;
          const style = getComputedStyle(e);
          found.push([e.tagName + ' ' + e.textContent.trim().slice(0, 30),
            contrast(channels(e instanceof SVGElement ? style.fill : style.color), ground(e))]);
        }
        const probe = document.body.appendChild(document.createElement('i'));
        for (const name of ['ink', 'muted', 'after', 'before', 'again', 'budget']) {
          probe.style.color = `var(--${name})`;
          found.push(['canvas ' + name, contrast(channels(getComputedStyle(probe).color), ground(probe))]);
        }
        probe.remove();
        return found;"""

    def pixels(self, view):
        """How many different colours a view shows, and a sum that tells drawings apart."""
        return self.browser.run(
            "const {context, canvas} = remoraReport[arguments[0]];"
            "const data = new Uint32Array(context.getImageData(0, 0, canvas.width, canvas.height).data.buffer);"
            "let sum = 0; for (const pixel of data) sum = (sum * 31 + pixel) % 1e9; return [new Set(data).size, sum]", view)

    def test_text_has_contrast_in_both_schemes(self):
        for name in ("unet.html", "sweep.html", "refused.html"):
            self.open(name)
            for scheme in ("light", "dark"):
                self.browser.media(prefers_color_scheme=scheme)
                self.browser.frame()
                found = self.browser.run(self.CONTRAST)
                self.assertGreater(len(found), 30)
                for what, contrast in found:
                    self.assertGreaterEqual(contrast, 4.5, f"{name}, {scheme}: {what}")

    def test_the_scheme_changes_page_and_drawings(self):
        self.open("unet.html")
        seen = []
        for scheme in ("light", "dark"):
            self.browser.media(prefers_color_scheme=scheme)
            self.browser.frame()
            colour = self.browser.run("return getComputedStyle(document.body).backgroundColor")
            seen.append((colour, self.pixels("memory")[1], self.pixels("gantt")[1]))
        for light, dark in zip(*seen):
            self.assertNotEqual(light, dark)

    def test_everything_is_drawn(self):
        self.open("unet.html")
        for view in ("memory", "gantt", "computed", "retained"):
            self.assertGreater(self.pixels(view)[0], 3, view)

    def test_recomputes_are_told_by_more_than_colour(self):
        self.open("unet.html")
        self.click("#recomputed button.link")
        # Inside the bar of a recompute the hatching alternates; inside that of a first compute nothing does.
        script = """
            const {gantt} = remoraReport; const stays = gantt.schedule.shownStays;
            const colours = (again) => {
              for (const i of gantt.visibleStays()) {
                const row = gantt.graph.rowOf[stays.tensor[i]];
                const x = Math.round(gantt.toX(stays.first[i])) + 3, y = Math.round(gantt.toY(row + 0.5)) - 2;
                const width = Math.round(gantt.toX(stays.last[i] + 1)) - x - 3;
                if (gantt.isAgain(i) !== again || width < 12 || gantt.toX(stays.first[i]) < 80 || row === gantt.row) continue;
                const data = gantt.context.getImageData(x, y, 12, 1).data;
                return new Set(new Uint32Array(data.buffer)).size;
              }
            };
            return [colours(false), colours(true)];"""
        self.browser.run("remoraReport.gantt.down.reset(); remoraReport.steps.reset(); remoraReport.gantt.zoom(2.5, 500, 60);"
                         "remoraReport.gantt.row = 0; remoraReport.cursor.move(0)")
        self.browser.frame()
        first, again = self.browser.run(script)
        self.assertEqual(first, 1)
        self.assertGreater(again, 2)

    def test_a_narrow_window_scrolls_down_only(self):
        for name in ("unet.html", "sweep.html", "refused.html", "large.html"):
            self.open(name)
            self.browser.size(400, 800)
            width, inner = self.browser.run("return [document.documentElement.scrollWidth, window.innerWidth]")
            self.assertLessEqual(width, inner, name)
        self.browser.size(1280, 1000)


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
            self.browser.run("const {steps, gantt} = remoraReport; const middle = steps.count * 0.45;"
                             "const half = steps.count * arguments[0] / 2; steps.show(middle - half, middle + half);"
                             "const rows = gantt.down.count; gantt.down.show(rows * 0.45 - rows * arguments[0] / 2,"
                             "rows * 0.45 + rows * arguments[0] / 2)", part)
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
        self.assertIn(f"step {replay.peak_step:,}, the peak: {bytes_text(schedule['peak_memory'])}",
                      self.text("#residents-caption"))
        shown = self.browser.run("return remoraReport.residents.body.rows.length")
        self.assertLessEqual(shown, 30)

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
        links = self.browser.run("return [...document.querySelectorAll('#curve-chart a')].map((a) => a.getAttribute('href'))")
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

    def test_an_address_names_a_point(self):
        i = next(i for i, point in enumerate(self.curve["points"]) if "schedule" in point)
        self.browser.open("about:blank")
        self.browser.open(self.pages.url("sweep.html") + f"#point-{i}")
        self.browser.frame()
        self.assertEqual(self.text("#overhead"), f"{100 * self.curve['points'][i]['overhead']:+.2f} %")


class Answers(PageTest):
    """Pages without a schedule, in free order, and with names that are markup."""

    def test_an_infeasible_budget_says_why(self):
        self.open("refused.html")
        certificate = self.pages.read("refused.schedule.json")["certificate"]
        words = self.text("#refusal")
        self.assertIn(f"While {certificate['op']} ", words)
        self.assertIn(f"{certificate['required']:,} bytes", words)
        self.assertEqual({row[0] for row in self.rows("#certificate")}, set(certificate["tensors"]))
        self.assertEqual(self.text("#status"), STATUS["infeasible"])
        peak = max(Replay(self.pages.read("unet.graph.json"), input_order(self.pages.read("unet.graph.json"))).memory)
        self.assertEqual(self.text("#peak"), bytes_text(peak))

    def test_a_free_order_has_no_matrices(self):
        self.open("free.html")
        self.assertTrue(self.browser.run("return document.getElementById('matrices').hidden"))
        replay = Replay(self.pages.read("unet.graph.json"), self.pages.read("free.schedule.json")["steps"])
        self.assertIn(bytes_text(max(replay.memory)), self.text("#residents-caption"))

    def test_names_do_not_run(self):
        self.open("evil.html")
        self.click("#recomputed button.link")
        self.assertIsNone(self.browser.run("return window.hacked ?? null"))
        self.assertEqual(self.text("h1"), EVIL)
        self.assertEqual(self.rows("#recomputed")[0][0], EVIL + "0")
        self.assertEqual(self.browser.run("return document.images.length"), 0)

    def test_the_policy_forbids_other_scripts(self):
        self.open("unet.html")
        self.browser.run("const s = document.createElement('script'); s.textContent = 'window.hacked = 3';"
                         "document.body.append(s); document.body.setAttribute('onclick', 'window.hacked = 4');"
                         "document.body.click()")
        self.assertIsNone(self.browser.run("return window.hacked ?? null"))
        self.browser.log("browser")  # it complains, as it should


class Quiet(PageTest):
    """No page logs an error or asks for anything but itself."""

    def test_no_errors_and_no_network(self):
        for name in ("unet.html", "large.html", "refused.html", "free.html", "evil.html", "sweep.html"):
            with self.subTest(name):
                self.browser.log("browser")
                self.browser.log("performance")
                self.open(name)
                self.browser.press("Tab")
                self.browser.size(400, 800)
                self.browser.media(prefers_color_scheme="dark")
                self.browser.frame()
                self.assertEqual(self.browser.log("browser"), [])
                asked = [entry["message"] for entry in self.browser.log("performance")
                         if '"Network.requestWillBeSent"' in entry["message"]]
                self.assertTrue(asked)
                for message in asked:
                    self.assertTrue(self.pages.url(name) in message or '"url":"data:,' in message, message)


def main(argv):
    if len(argv) < 2:
        print(__doc__, file=sys.stderr)
        return 64
    if absent := webdriver.missing():
        print("skipped: there is no " + absent)
        return 77
    with tempfile.TemporaryDirectory() as folder:
        PageTest.pages = pages = Pages(os.path.abspath(argv[1]), folder)
        for make in (pages.make_unet, pages.make_large, pages.make_refused, pages.make_sweep, pages.make_evil):
            make()
        with webdriver.Browser() as browser:
            PageTest.browser = browser
            return 0 if unittest.main(argv=argv[:1] + argv[2:], exit=False).result.wasSuccessful() else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv))
