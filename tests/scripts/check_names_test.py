# SPDX-License-Identifier: Apache-2.0
"""check_names finds names of pages that the tree does not have: usage check_names_test.py SCRIPT."""

import os
import subprocess
import sys
import tempfile
import unittest

SCRIPT = os.path.abspath(sys.argv.pop(1))
PAGE = "page.md"  # reference_test.py reads whole names of pages
TREE = {
    "engine/search/search.hpp": "namespace remora::search {\n// It can sit.\nstruct Search { void run(); };\n}\n",
    "frontends/python/plan.py": "def plan(graph):\n    return graph\n",
    "tests/engine/search_test.cpp": "TEST(Search, FindsIt) {}\nTEST_P(Sweeps, AreWhole) {}\n",
    "tests/CMakeLists.txt": "foreach(name Fork)\n  add_test(NAME Python.${name} COMMAND x)\nendforeach()\n"
                            "add_test(NAME Library.Whole COMMAND x)\nadd_library(remora::static ALIAS y)\n",
    "tests/python/fork_test.py": "",
}


def check(page, path=f"docs/{PAGE}"):
    with tempfile.TemporaryDirectory() as root:
        subprocess.run(["git", "init", "-q", root], check=True)
        for name, text in {**TREE, path: page}.items():
            os.makedirs(os.path.dirname(os.path.join(root, name)), exist_ok=True)
            with open(os.path.join(root, name), "w", encoding="utf-8") as file:
                file.write(text)
        done = subprocess.run([sys.executable, SCRIPT, root], capture_output=True, text=True, check=False)
        return done.returncode, done.stdout


class Names(unittest.TestCase):
    def test_what_is_not_there_is_found_with_its_line(self):
        for name in ("Search.Loses", "Gone.*", "Gone.FindsIt", "Python.Spoon", "Library.Half", "Search::sit",
                     "Gone::run", "remora::shared", "sit(1)", "plan.solve()", "engine/gone", "search/gone.hpp",
                     "tests/gone --all", "gone.cpp", "gone_test.py"):
            self.assertEqual(check(f"# A\n\nIt has\n`{name}`.\n"), (65, f"docs/{PAGE}:4: {name}\n"), name)

    def test_what_is_there_is_not(self):
        for name in ("Search.FindsIt", "Search.*", "Sweeps.AreWhole", "Python.Fork", "Python.page", "Python.*",
                     "Library.Whole", "Search::run", "remora::search::Search", "remora::static", "plan(graph)",
                     "remora.plan()", "engine/search", "engine/search/", "search/search.hpp", "search.hpp",
                     "tests/engine/search_test.cpp:2", "tests/python --all", "fork_test.py"):
            self.assertEqual(check(f"`{name}`\n"), (0, ""), name)

    def test_other_names_are_not_the_trees(self):
        for name in ("Options.budget", "/tmp/x", "out/s.json", "engine/NAME.json", "build/release/bin", "x.json",
                     "pure=(\"library::op\",)"):
            self.assertEqual(check(f"`{name}`\n"), (0, ""), name)

    def test_blocks_of_code_and_other_pages_are_not_read(self):
        self.assertEqual(check("```text\n`Gone.*`\n```\n"), (0, ""))
        self.assertEqual(check("`Gone.*`\n", "log/page.md")[0], 70)
        self.assertEqual(check("`Gone.*`\n", "benchmarks/results/README.md")[0], 65)


if __name__ == "__main__":
    unittest.main()
