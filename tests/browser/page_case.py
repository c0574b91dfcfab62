# SPDX-License-Identifier: Apache-2.0
"""What all tests of pages share: the programs' pages and one browser."""

import unittest

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

    def is_gone(self, selector):
        """Whether it is not displayed, whatever its attributes say."""
        return self.browser.run(
            "return getComputedStyle(document.querySelector(arguments[0])).display === 'none'", selector
        )

    def click(self, selector):
        self.browser.run("document.querySelector(arguments[0]).click()", selector)
        self.browser.frame()

    def rows(self, selector):
        return self.browser.run(
            "return [...document.querySelectorAll(arguments[0] + ' tbody tr')]"
            ".map((row) => [...row.cells].map((cell) => cell.textContent))",
            selector,
        )

    def place(self, view, x, y):
        """Where in the window a part of a view's plot is, scrolled to."""
        left, top, margins, width, height = self.browser.run(
            "const view = remoraReport[arguments[0]]; view.canvas.scrollIntoView({block: 'center'});"
            "const box = view.canvas.getBoundingClientRect();"
            "return [box.left, box.top, view.margins, box.width, box.height]",
            view,
        )
        return (
            left + margins["left"] + x * (width - margins["left"] - margins["right"]),
            top + margins["top"] + y * (height - margins["top"] - margins["bottom"]),
        )

    def steps(self):
        return tuple(self.browser.run("const {first, end} = remoraReport.steps; return [first, end]"))

    def figures(self, view):
        """How often a view was drawn, and how many shapes the last time."""
        return self.browser.run("const {frames, shapes} = remoraReport[arguments[0]]; return [frames, shapes]", view)

    def focus(self, view):
        self.browser.run("remoraReport[arguments[0]].canvas.focus()", view)
