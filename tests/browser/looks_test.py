# SPDX-License-Identifier: Apache-2.0
"""Schemes, contrast, widths."""

from page_case import PageTest


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
            "let sum = 0; for (const pixel of data) sum = (sum * 31 + pixel) % 1e9;"
            "return [new Set(data).size, sum]",
            view,
        )

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
                if (gantt.isAgain(i) !== again || width < 12 || x < 80 || row === gantt.row) continue;
                const data = gantt.context.getImageData(x, y, 12, 1).data;
                return new Set(new Uint32Array(data.buffer)).size;
              }
            };
            return [colours(false), colours(true)];"""
        self.browser.run(
            "const {gantt, steps, cursor} = remoraReport; gantt.down.reset(); steps.reset();"
            "gantt.zoom(2.5, 500, 60); gantt.row = 0; cursor.move(0)"
        )
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
