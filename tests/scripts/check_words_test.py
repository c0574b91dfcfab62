# SPDX-License-Identifier: Apache-2.0
"""check_words finds the vocabulary's left column in prose alone: usage check_words_test.py SCRIPT."""

import json
import os
import subprocess
import sys
import tempfile
import unittest

SCRIPT = os.path.abspath(sys.argv.pop(1))


def check(page, kind="", **vocabulary):
    with tempfile.TemporaryDirectory() as root:
        os.makedirs(os.path.join(root, "docs/develop"))
        words = [{"say": "\\bbeside\\b", "use": "alongside"}, {"say": "(?<!at.)\\bleast\\b", "use": "minimum"}]
        whole = {"words": words, "pages": ["*.md"], "headers": ["engine/*.hpp"], "exceptions": []}
        with open(os.path.join(root, "docs/develop/vocabulary.json"), "w", encoding="utf-8") as file:
            json.dump({**whole, **vocabulary}, file)
        os.makedirs(os.path.join(root, "engine"))
        with open(os.path.join(root, f"engine/source.{kind}" if kind else "page.md"), "w", encoding="utf-8") as file:
            file.write(page)
        done = subprocess.run([sys.executable, SCRIPT, root], capture_output=True, text=True, check=False)
        return done.returncode, done.stdout


class Words(unittest.TestCase):
    def test_a_word_of_the_left_column_is_found_with_its_line_and_the_right_word(self):
        self.assertEqual(check("# A\n\nOne line,\nand one Beside it.\n"), (1, "page.md:4: 'Beside': alongside\n"))
        self.assertEqual(check("- a list with the\n  least budget\n")[0], 1)

    def test_code_comments_links_and_quotes_are_not_prose(self):
        for text in ("`beside`", "```text\nbeside\n```", "<!-- beside -->", "[a](beside.md)", "> beside"):
            self.assertEqual(check(f"Text.\n\n{text}\n"), (0, ""), text)
        self.assertEqual(check("- at\n  least\n"), (0, ""))

    def test_messages_and_docstrings_of_sources(self):
        said = "engine/source.{}: 'beside': alongside\n".format
        self.assertEqual(check('x = 1\ny = """It is\nbeside."""\n', "py"), (1, said("py:3")))
        self.assertEqual(check('f("a b");\ng("it is beside");\n', "cpp"), (1, said("cpp:2")))
        for text in ('// "a word beside"\n', 'f("beside");\n', "int beside = 1;\n", 'f("a") + beside + f("b");\n'):
            self.assertEqual(check(text, "cpp"), (0, ""), text)
        self.assertEqual(check('"""A `beside` of\n\nbeside : int\n    Bytes.\n"""\n', "py"), (0, ""))

    def test_docstrings_and_comments_of_headers_begin_with_a_noun_or_a_verb(self):
        said = "engine/source.{}: '{}': begin with a noun or a verb\n".format
        self.assertEqual(check('def f():\n    """What it is."""\n', "py"), (1, said("py:2", "What")))
        found = said("hpp:2", "Whether") + said("hpp:3", "Of")
        self.assertEqual(check("\n/// Whether it is.\nint a;  ///< Of this\n", "hpp"), (1, found))
        self.assertEqual(check('f("What it is");\nx = "Of these"\n', "cpp"), (0, ""))
        self.assertEqual(check("\n/// It says\n/// What it is.\n", "hpp"), (0, ""))

    def test_exceptions(self):
        one = {"page": "page.md", "text": "beside", "reason": "a name"}
        self.assertEqual(check("beside\n", exceptions=[one])[0], 0)
        self.assertIn("not needed", check("next to\n", exceptions=[one])[1])


if __name__ == "__main__":
    unittest.main()
