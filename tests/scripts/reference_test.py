# SPDX-License-Identifier: Apache-2.0
"""docs/reference has what the program says of itself, and the pages that sources name are there: usage
reference_test.py SCRIPT BIN_FOLDER."""

import os
import re
import subprocess
import sys
import tempfile
import unittest

SCRIPT, BINARIES = (os.path.abspath(word) for word in sys.argv[1:3])
del sys.argv[1:3]
ROOT = os.path.dirname(os.path.dirname(SCRIPT))
NAMED = re.compile(r"\bdocs/[a-z_/]+\.md\b")
# They make pages of their own.
MAKERS = ("make_site", "make_site_test.py")


def read(*path):
    with open(os.path.join(*path), encoding="utf-8", errors="ignore") as file:
        return file.read()


class Reference(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = folder.name
        subprocess.run([SCRIPT, BINARIES, cls.folder], check=True)

    def help_of(self, *words):
        program = os.path.join(BINARIES, "remora")
        return subprocess.run([program, *words], capture_output=True, text=True, check=True).stdout

    def test_the_pages_of_the_tree_are_the_programs(self):
        for name in ("cli.md", "options.md"):
            self.assertEqual(
                read(self.folder, name),
                read(ROOT, "docs/reference", name),
                f"run: scripts/reference {os.path.relpath(BINARIES, ROOT)} docs/reference",
            )

    def test_every_option_of_every_command_is_there(self):
        page = read(self.folder, "cli.md")
        commands = [line.split("\t")[0] for line in self.help_of("--help-words").splitlines()]
        more = {"generate": ["layered"]}
        commands = [[name, *more.get(name, [])] for name in commands if name not in ("completions", "help")]
        for words in commands:
            self.assertIn(f"## remora {words[0]}\n", page)
            options = [line.split("\t")[0].rstrip("=") for line in self.help_of(*words, "--help-words").splitlines()]
            self.assertGreater(len(options), 1, words)
            for option in set(options) - {"--help"}:
                self.assertRegex(page, rf"`(?:-\w, )?{option}[ `]", words)

    def test_the_pages_that_sources_name_are_there(self):
        count = 0
        for part in "cmake model engine frontends scripts tests benchmarks examples .github docs".split():
            for folder, folders, names in os.walk(os.path.join(ROOT, part)):
                folders[:] = set(folders) - {"results"}  # of benchmarks: many and large
                for name in set(names) - set(MAKERS):
                    path = os.path.join(folder, name)
                    for page in NAMED.findall(read(path)):
                        count += 1
                        self.assertTrue(os.path.exists(os.path.join(ROOT, page)), f"{path} names {page}")
        self.assertGreater(count, 100)


if __name__ == "__main__":
    unittest.main()
