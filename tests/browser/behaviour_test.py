# SPDX-License-Identifier: Apache-2.0
"""Zoom, pan, keys, sorting."""

from page_case import PageTest
from replay import Replay, bytes_text


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
        self.assertLess(*self.browser.run("const {length, count} = remoraReport.gantt.down; return [length, count]"))

    def test_a_page_that_scrolls_does_not_stop_at_a_drawing(self):
        self.browser.run("window.scrollTo(0, 0)")
        x, y = self.place("memory", 0.5, 0.5)
        # The burst begins beside the canvas.
        self.browser.run(
            "const turn = (e, deltaY) =>"
            "e.dispatchEvent(new WheelEvent('wheel', {bubbles: true, deltaY}));"
            "turn(document.querySelector('h1'), 5); turn(remoraReport.memory.canvas, -500)"
        )
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
        self.assertEqual(self.browser.run("return document.querySelector('#memory .readout').ariaLive"), "polite")
        self.browser.press("p")
        self.assertTrue(self.text("#memory .readout").startswith(f"Step {step} of "))
        self.focus("gantt")
        before = self.text("#gantt .readout")
        self.browser.press("Shift", "ArrowDown")
        self.assertNotEqual(self.text("#gantt .readout"), before)
        self.focus("computed")
        self.browser.press("Shift", "ArrowDown")
        self.assertTrue(self.text("#matrix-r .readout").startswith("Stage 1, op 0 "))

    def test_every_key_works_in_every_drawing(self):
        self.browser.log("browser")
        keys = ["+", "-", "p", "P", "Home"] + [
            (*shift, "Arrow" + way) for shift in ((), ("Shift",)) for way in ("Left", "Right", "Up", "Down")
        ]
        for view in ("memory", "gantt", "computed", "retained"):
            self.focus(view)
            for key in keys:
                self.browser.press(*([key] if isinstance(key, str) else key))
                self.assertEqual(self.browser.log("browser"), [], f"{key} in {view}")

    def test_the_matrices_go_to_the_peak(self):
        replay = Replay(self.pages.read("unet.graph.json"), self.pages.read("unet.schedule.json")["steps"])
        names = [op["name"] for op in self.pages.read("unet.graph.json")["ops"]]
        op, stage = names.index(replay.names[replay.peak_step]), len(set(replay.names[: replay.peak_step]))
        for view, root in (("computed", "#matrix-r"), ("retained", "#matrix-s")):
            self.focus(view)
            self.browser.press("p")
            self.assertTrue(self.text(root + " .readout").startswith(f"Stage {stage}, op {op} "))

    def test_a_gap_is_drawn_without_its_bars(self):
        drawn = self.browser.run(
            "const {gantt, steps, theme} = remoraReport; const {stays, earlier} = gantt.schedule;"
            "const gap = (i) => gantt.isAgain(i) && earlier[i] >= 0 ? stays.first[i] - stays.last[earlier[i]] : 0;"
            "const longest = Array.from(stays.first, (_, i) => i).reduce((a, b) => gap(b) > gap(a) ? b : a);"
            "const middle = Math.round(stays.first[longest] - gap(longest) / 2);"
            "const row = gantt.graph.rowOf[stays.tensor[longest]];"
            "steps.show(middle - 2, middle + 2); gantt.down.show(row - 25, row + 25); gantt.row = (row + 5) % 50;"
            "return {longest, gap: gap(longest), row, first: steps.first, end: steps.end,"
            "begin: stays.last[earlier[longest]] + 1, back: stays.first[longest]}"
        )
        self.browser.frame()
        self.assertLess(drawn["begin"], drawn["first"])
        self.assertLess(drawn["end"], drawn["back"])
        # Nothing but the gap is where the middle of its row is.
        pixels = self.browser.run(
            "const {gantt} = remoraReport; const y = Math.round(gantt.toY(arguments[0] + 0.5));"
            "const {data} = gantt.context.getImageData(gantt.margins.left + 2, y - 1, gantt.plotWidth - 4, 2);"
            "return data.filter((alpha, i) => i % 4 === 3 && alpha > 0).length",
            drawn["row"],
        )
        self.assertGreater(pixels, 100)

    def test_buttons_zoom(self):
        self.click("#memory [data-do=in]")
        self.assertLess(self.steps()[1] - self.steps()[0], self.count)
        self.click("#memory [data-do=reset]")
        self.assertEqual(self.steps(), (0, self.count))

    def test_sorting(self):
        def column(i):
            return [row[i] for row in self.rows("#recomputed")]

        self.click("#recomputed [data-key=name]")
        self.assertEqual(
            self.browser.run("return document.querySelector('[data-key=name]').parentElement.ariaSort"), "ascending"
        )
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
                "const name = e.getAttribute('aria-label') || e.textContent.trim();"
                "return [[...document.querySelectorAll('*')].indexOf(e), name,"
                "s.outlineStyle !== 'none' && parseFloat(s.outlineWidth) > 0]"
            )
            if where is None or where in reached:
                break
            self.assertTrue(where[2], f"{where} shows no focus")
            reached.append(where)
        names = [name for _, name, _ in reached]
        for wanted in (
            "Memory over steps",
            "Retention intervals, a row for each tensor",
            "Matrix R",
            "Matrix S",
            "Zoom in",
            "Peak",
            "Time paid",
            "Recomputed ops",
            "What is in memory",
            "The same as a table",
        ):
            self.assertIn(wanted, names)
