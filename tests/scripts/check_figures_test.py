#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""scripts/check_figures finds figures that are off or not shown. usage: check_figures_test.py SCRIPT"""
import os
import subprocess
import sys
import tempfile
import unittest

SCRIPT = sys.argv.pop(1)


class CheckFigures(unittest.TestCase):
    def run_on(self, page):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "page.md")
            with open(path, "w", encoding="utf-8") as file:
                file.write(page)
            return subprocess.run([SCRIPT, folder, path], capture_output=True, text=True, check=False)

    @staticmethod
    def page(stated, shown, measured="0.0458", condition=""):
        return (f"# Page\n\n<!-- figure {stated} within 0.5: echo x > y; echo '{{\"overhead\": {measured}}}' > figure.json"
                f"{condition} -->\nIt takes {shown} more time.\n\nMore text, 4.6 %.\n")

    def test_a_figure_within_noise_is_right(self):
        self.assertEqual(self.run_on(self.page("4.6", "4.6 %")).returncode, 0)

    def test_a_figure_that_is_off_is_wrong(self):
        done = self.run_on(self.page("6.2", "6.2 %"))
        self.assertEqual(done.returncode, 1)
        self.assertIn("6.2 %, now 4.58 %", done.stdout)

    def test_a_figure_that_the_paragraph_does_not_show_is_wrong(self):
        self.assertEqual(self.run_on(self.page("4.6", "6.2 %")).returncode, 1)

    def test_what_needs_a_file_that_is_not_there_is_left_out(self):
        done = self.run_on(self.page("9.9", "9.9 %", condition=" if $ROOT/nowhere/graph.json"))
        self.assertEqual(done.returncode, 0)
        self.assertIn("left out", done.stdout)

    def test_pages_without_figures_are_an_error(self):
        self.assertEqual(self.run_on("# Page\n").returncode, 70)


if __name__ == "__main__":
    unittest.main()
