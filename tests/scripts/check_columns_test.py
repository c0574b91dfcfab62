# SPDX-License-Identifier: Apache-2.0
"""check_columns finds long lines beyond the listed number: usage check_columns_test.py SCRIPT."""

import os
import subprocess
import sys
import tempfile
import unittest

SCRIPT = os.path.abspath(sys.argv.pop(1))
LONG = "# " + "ä" * 119 + "\n"


def check(text, listed="", name="a.py", *words):
    """Exit code, findings and the list thereafter."""
    with tempfile.TemporaryDirectory() as root:
        subprocess.run(["git", "init", "-q", root], check=True)
        os.mkdir(os.path.join(root, ".ci"))
        for path, content in ((name, text), (".ci/long_lines", listed)):
            with open(os.path.join(root, path), "w", encoding="utf-8") as file:
                file.write(content)
        done = subprocess.run([sys.executable, SCRIPT, *words, root], capture_output=True, text=True, check=False)
        with open(os.path.join(root, ".ci/long_lines"), encoding="utf-8") as file:
            return done.returncode, done.stdout, file.read()


class Columns(unittest.TestCase):
    def test_a_long_line_is_found(self):
        self.assertEqual(check("x = 1\n" + LONG), (65, "a.py:2: 121 columns\n", ""))
        for name in ("a.cpp", "a.hpp", "a.cmake", "CMakeLists.txt"):
            self.assertEqual(check(LONG, "", name)[0], 65, name)
        self.assertEqual(check("#!/usr/bin/env python3\n" + LONG, "", "script")[0], 65)

    def test_120_columns_are_not_long_and_texts_are_no_sources(self):
        self.assertEqual(check("#" + LONG[2:]), (0, "", ""))
        self.assertEqual(check(LONG, "", "a.md"), (0, "", ""))

    def test_the_listed_number_may_only_fall(self):
        self.assertEqual(check(LONG, "1 a.py\n"), (0, "", "1 a.py\n"))
        self.assertEqual(check(2 * LONG, "1 a.py\n", "a.py", "--lower")[::2], (65, "1 a.py\n"))
        self.assertIn("--lower", check(LONG, "2 a.py\n1 gone.py\n")[1])
        self.assertEqual(check(LONG, "2 a.py\n1 gone.py\n", "a.py", "--lower"), (0, "", "1 a.py\n"))


if __name__ == "__main__":
    unittest.main()
