#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""scripts/check_figures finds figures that are off or not shown. usage: check_figures_test.py SCRIPT"""

import glob
import os
import subprocess
import sys
import tempfile
import unittest

SCRIPT = sys.argv.pop(1)
ROOT = os.path.dirname(os.path.dirname(os.path.abspath(SCRIPT)))


class CheckFigures(unittest.TestCase):
    def run_on(self, page):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "page.md")
            with open(path, "w", encoding="utf-8") as file:
                file.write(page)
            return subprocess.run([SCRIPT, folder, path], capture_output=True, text=True, check=False)

    @staticmethod
    def page(stated, shown, measured="0.0458", condition=""):
        return (
            f"# Page\n\n<!-- figure {stated} within 0.5: echo x > y; echo '{{\"overhead\": {measured}}}' > figure.json"
            f"{condition} -->\nIt takes {shown} more time.\n\nMore text, 4.6 %.\n"
        )

    def test_a_figure_within_noise_is_right(self):
        self.assertEqual(self.run_on(self.page("4.6", "4.6 %")).returncode, 0)

    def test_a_figure_that_is_off_is_wrong(self):
        done = self.run_on(self.page("6.2", "6.2 %"))
        self.assertEqual(done.returncode, 1)
        self.assertIn("6.2, now 4.58", done.stdout)

    def test_a_figure_that_the_paragraph_does_not_show_is_wrong(self):
        self.assertEqual(self.run_on(self.page("4.6", "6.2 %")).returncode, 1)

    def test_what_needs_a_file_that_is_not_there_is_left_out(self):
        done = self.run_on(self.page("9.9", "9.9 %", condition=" if $ROOT/nowhere/graph.json"))
        self.assertEqual(done.returncode, 0)
        self.assertIn("left out", done.stdout)

    def test_one_comment_may_make_several_figures(self):
        page = (
            "<!-- figures 4.6 2.3 7 within 0.5: echo '{\"overhead\": 0.0458}' > s.json; show overhead*100 100*overhead s.json; "
            "echo 7 >> $FIGURES -->\n| 4.6 | 2.3 | 7 |\n"
        )
        done = self.run_on(page)
        self.assertEqual(done.returncode, 1)
        self.assertIn("ok       ", done.stdout)
        self.assertIn("2.3, now 4.58", done.stdout)
        self.assertIn("7, now 7", done.stdout)

    def test_too_few_figures_and_commands_that_fail_are_wrong(self):
        for commands, said in (("echo 1 >> $FIGURES", "give 1 figures"), ("false", "end with 1")):
            done = self.run_on(f"<!-- figures 1 2 within 0.5: {commands} -->\n1 and 2\n")
            self.assertEqual(done.returncode, 1)
            self.assertIn(said, done.stdout)

    def test_noise_may_be_a_part_of_the_figure(self):
        for noise, code in (("10%", 0), ("1%", 1)):
            page = f"<!-- figure 2000 within {noise}: echo 1900 >> $FIGURES -->\nIt has 2,000 parts.\n"
            self.assertEqual(self.run_on(page).returncode, code)

    def sources_of(self, page):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "page.md")
            with open(path, "w", encoding="utf-8") as file:
                file.write(page)
            return subprocess.run([SCRIPT, "--sources", path], capture_output=True, text=True, check=False)

    def test_a_section_with_figures_says_where_they_are_from(self):
        self.assertEqual(self.sources_of("## A\n\nIt takes 4.6 % more.\n").returncode, 1)
        self.assertEqual(self.sources_of("## A\n\n| x | 4.6 |\n").returncode, 1)
        self.assertEqual(self.sources_of("## A\n\nIt takes 4.6 % more (2026-11-22).\n").returncode, 1)
        measured = "## A\n\n<!-- measured 2026-11-22 at 8ae2c1d: {} -->\nIt takes 4.6 % more.\n"
        self.assertEqual(self.sources_of(measured.format("benchmarks/run layered")).returncode, 0)
        self.assertEqual(self.sources_of(measured.format("benchmarks/walk layered")).returncode, 1)
        self.assertEqual(self.sources_of("## A\n\n<!-- published: Jain et al. 2020 -->\n| x | 4.6 |\n").returncode, 0)
        self.assertEqual(self.sources_of(self.page("4.6", "4.6 %")).returncode, 0)
        self.assertEqual(
            self.sources_of("# A\n\nWritten by `benchmarks/run quick`.\n\n## B\n\n| x | 4.6 |\n").returncode, 0
        )
        self.assertEqual(self.sources_of("# A\n\nWritten by `benchmarks/walk`.\n\n## B\n\n| x | 4.6 |\n").returncode, 1)
        self.assertEqual(self.sources_of("## A\n\n60 % of what there is.\n").returncode, 0)

    def test_a_page_shows_no_date_and_no_commit(self):
        for text in ("Since 2026-11-22.", "As of 8ae2c1d.", "| 1 | `05510e1c2b3a` |"):
            done = self.sources_of(f"## A\n\n{text}\n")
            self.assertEqual(done.returncode, 1, text)
            self.assertIn("date or commit", done.stdout)
        for text in (
            "<!-- measured 2026-11-22 at 8ae2c1d: ./demo -->\nMinutes.",
            "```text\n8ae2c1d\n```",
            "93554496 bytes, deadbeef, v1.2",
        ):
            self.assertEqual(self.sources_of(f"## A\n\n{text}\n").returncode, 0, text)

    def test_every_page_says_where_its_figures_are_from(self):
        folders = ("", "docs/**", "benchmarks/**", "examples/**")
        pages = sorted(
            {page for folder in folders for page in glob.glob(os.path.join(ROOT, folder, "*.md"), recursive=True)}
            - {os.path.join(ROOT, "CHANGELOG.md")}
        )
        self.assertGreater(len(pages), 40)
        done = subprocess.run([SCRIPT, "--sources", *pages], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stdout)

    def test_pages_without_figures_are_an_error(self):
        self.assertEqual(self.run_on("# Page\n").returncode, 70)


if __name__ == "__main__":
    unittest.main()
