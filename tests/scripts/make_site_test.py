# SPDX-License-Identifier: Apache-2.0
"""The site of the documentation is made, and a dead link is told: usage make_site_test.py SCRIPT."""

import os
import shutil
import subprocess
import sys
import tempfile
import unittest

SCRIPT = os.path.abspath(sys.argv.pop(1))
ROOT = os.path.dirname(os.path.dirname(SCRIPT))


class MakeSite(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.site = os.path.join(self.folder, "site")

    def make(self, *words):
        return subprocess.run([SCRIPT, *words], capture_output=True, text=True, check=False)

    def tree(self):
        """The tree by links, with a copy of the documentation."""
        tree = os.path.join(self.folder, "tree")
        os.mkdir(tree)
        for name in os.listdir(ROOT):
            if name not in ("docs", "build", ".git"):
                os.symlink(os.path.join(ROOT, name), os.path.join(tree, name))
        shutil.copytree(os.path.join(ROOT, "docs"), os.path.join(tree, "docs"))
        return tree

    def append(self, page, text):
        with open(page, "a", encoding="utf-8") as file:
            file.write(text)

    def read(self, page):
        with open(os.path.join(self.site, page), encoding="utf-8") as file:
            return file.read()

    def test_the_tree_has_a_site(self):
        done = self.make(self.site)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("arena", self.read("search/search_index.json"))
        for page in ("index.html", "docs/guide/devices.html", "examples/embed_cpp/index.html"):
            self.assertTrue(os.path.exists(os.path.join(self.site, page)), page)
        self.assertIn('id="remora.Graph.tensor"', self.read("docs/reference/remora.html"))
        self.assertIn('id="remora.torch.train_step"', self.read("docs/reference/remora.torch.html"))
        if shutil.which("doxygen"):
            self.assertIn("remora_solve", self.read("docs/reference/c/globals_func.html"))
        else:
            self.assertIn("left out: the reference of C and C++", done.stdout)
        self.assertEqual(self.make(self.site).returncode, 0, "again, over itself")

    def test_what_leads_nowhere_is_told(self):
        tree = self.tree()
        page = os.path.join(tree, "docs/guide/order.md")
        self.append(
            page, "\n[a page](nowhere.md), [a heading](place.md#nowhere), [a file](../../examples/nowhere.cpp)\n"
        )
        self.append(os.path.join(tree, "docs/guide/unlisted.md"), "# Unlisted\n")
        done = self.make(self.site, tree)
        self.assertEqual(done.returncode, 1)
        for word in ("nowhere.md", "place.md#nowhere", "nowhere.cpp", "unlisted.md"):
            self.assertIn(word, done.stdout)

    def test_links_in_html_are_followed_too(self):
        tree = self.tree()
        page = os.path.join(tree, "docs/guide/order.md")
        self.append(page, '\n<a href="nowhere.html">a</a> <a href="place.html#nowhere">b</a>\n')
        done = self.make(self.site, tree)
        self.assertEqual(done.returncode, 1)
        self.assertIn("dead link  docs/guide/order.html: nowhere.html\n", done.stdout)
        self.assertIn("dead link  docs/guide/order.html: place.html#nowhere\n", done.stdout)

    def test_what_is_no_site_is_not_replaced(self):
        os.mkdir(self.site)
        self.append(os.path.join(self.site, "thesis.txt"), "mine")
        self.assertEqual(self.make(self.site).returncode, 64)
        self.assertEqual(self.read("thesis.txt"), "mine")


if __name__ == "__main__":
    unittest.main()
