# SPDX-License-Identifier: Apache-2.0
"""scripts/check_layers on small trees: usage check_layers_test.py CHECK_LAYERS."""

import os
import subprocess
import sys
import tempfile
import unittest

SCRIPT = os.path.abspath(sys.argv.pop(1))


PARTS = ("model", "engine", "frontends")


def check(files, drawing=None):
    """(exit code, output) for a tree of these files: path -> the paths that it includes. Without a drawing the parts that
    are there stand in their order."""
    if drawing is None:
        drawing = " < ".join(part for part in PARTS if any(os.path.dirname(path) == part for path in files))
    with tempfile.TemporaryDirectory() as root:
        os.makedirs(os.path.join(root, "docs/design"))
        with open(os.path.join(root, "docs/design/architecture.md"), "w", encoding="utf-8") as file:
            file.write(f"# Architecture\n\n## Layers\n\nA folder includes ...\n\n```text\n{drawing}\n```\n")
        for path, included in files.items():
            os.makedirs(os.path.join(root, os.path.dirname(path)), exist_ok=True)
            with open(os.path.join(root, path), "w", encoding="utf-8") as file:
                file.write("#pragma once\n#include <vector>\n" + "".join(f'#include "{name}"\n' for name in included))
        done = subprocess.run([sys.executable, SCRIPT, root], capture_output=True, text=True, check=False)
        return done.returncode, done.stdout + done.stderr


def check_package(files, drawing, package="torch/", whole="torch"):
    """(exit code, lines) for a tree whose Python package has these files: path -> its text.

    `whole`: the drawing of all of remora.
    """
    with tempfile.TemporaryDirectory() as root:
        texts = {f"frontends/python/remora/{package}{path}": text for path, text in files.items()}
        texts["engine/solve.hpp"] = "#pragma once\n"
        texts["docs/design/architecture.md"] = (
            f"## Layers\n\n```text\nengine\n```\n\n## Layers of the Python package\n\n```text\n{whole}\n```\n"
        )
        texts["docs/design/torch.md"] = f"## Layers\n\n```text\n{drawing}\n```\n"
        for path, text in texts.items():
            os.makedirs(os.path.join(root, os.path.dirname(path)), exist_ok=True)
            with open(os.path.join(root, path), "w", encoding="utf-8") as file:
                file.write(text)
        done = subprocess.run([sys.executable, SCRIPT, root], capture_output=True, text=True, check=False)
        return done.returncode, (done.stdout + done.stderr).splitlines()[1:]


class CheckLayers(unittest.TestCase):
    def test_python_modules_import_what_stands_to_their_left(self):
        files = {
            "__init__.py": "from .ways.step import Step\n",
            "errors.py": "import os\n",
            "capture/graph.py": "from ..errors import Error\nfrom .ops import Op\n",
            "capture/ops.py": "",
            "ways/step.py": "def run():\n    from ..capture.graph import Graph\n",
        }
        drawing = "errors < capture < ways"
        fine = "layers of remora.torch: 3 modules and packages, 0 cycles, 0 against the drawing"
        self.assertEqual(check_package(files, drawing), (0, [fine]))
        files["errors.py"] = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from .ways.step import Step\n"
        self.assertEqual(check_package(files, drawing), (0, [fine]))
        self.assertEqual(
            check_package(files, "errors < ways < capture"),
            (
                1,
                [
                    "against the drawing: frontends/python/remora/torch/ways includes frontends/python/remora/torch/capture",
                    "  frontends/python/remora/torch/ways/step.py:2: from ..capture.graph import Graph",
                    "layers of remora.torch: 3 modules and packages, 0 cycles, 1 against the drawing",
                ],
            ),
        )

    def test_absolute_imports_of_the_whole_package_count(self):
        files = {
            "__init__.py": "from remora.graph import Graph\n",
            "errors.py": "import remora\nfrom remora import _engine, Graph\n",
            "graph.py": "from remora.errors import Error\n",
            "torch/__init__.py": "import remora.graph\n",
            "torch/step.py": "from .. import errors\n",
        }
        fine = "layers of remora: 3 modules and packages, 0 cycles, 0 against the drawing"
        self.assertEqual(check_package(files, "", "", "errors < graph < torch"), (0, [fine]))
        files["errors.py"] = "def late():\n    from remora import graph\n"
        code, lines = check_package(files, "", "", "errors < graph < torch")
        self.assertEqual(code, 1)
        self.assertIn("  frontends/python/remora/errors.py:2: from remora import graph", lines)
        self.assertEqual(lines[-1], "layers of remora: 3 modules and packages, 1 cycles, 1 against the drawing")

    def test_python_imports_that_form_a_cycle_or_name_no_module(self):
        files = {"a.py": "from .b import x\n", "b.py": "from .a import y\nfrom .gone import z\n"}
        code, lines = check_package(files, "a < b")
        self.assertEqual(code, 1)
        self.assertIn("names no file: frontends/python/remora/torch/b.py:2: from .gone import z", lines)
        self.assertEqual(lines[-1], "layers of remora.torch: 2 modules and packages, 1 cycles, 1 against the drawing")

    def test_one_way_is_fine(self):
        code, output = check(
            {
                "model/graph.hpp": [],
                "model/cp/space.hpp": ["model/graph.hpp"],
                "engine/solve.cpp": ["model/cp/space.hpp", "engine/search/mix.hpp"],
                "engine/search/mix.hpp": ["model/graph.hpp", "engine/search/round.hpp"],
                "engine/search/round.hpp": ["engine/search/mix.hpp"],
            }
        )
        self.assertEqual((code, output), (0, "layers: 4 folders, 0 cycles, 0 against the drawing\n"))

    def test_two_folders_that_include_each_other(self):
        code, output = check(
            {
                "engine/solve.hpp": [],
                "engine/solve.cpp": ["engine/search/mix.hpp"],
                "engine/search/mix.hpp": ["engine/solve.hpp"],
            }
        )
        self.assertEqual(code, 1)
        self.assertEqual(
            output.splitlines(),
            [
                "cycle: engine -> engine/search -> engine",
                '  engine/solve.cpp:3: #include "engine/search/mix.hpp"',
                '  engine/search/mix.hpp:3: #include "engine/solve.hpp"',
                "layers: 2 folders, 1 cycles, 0 against the drawing",
            ],
        )

    def test_cycle_through_a_third_folder_and_across_parts(self):
        code, output = check(
            {
                "model/graph.hpp": ["frontends/text/csv.hpp"],
                "engine/solve.hpp": ["model/graph.hpp"],
                "frontends/text/csv.hpp": [],
                "frontends/text/csv.cpp": ["engine/solve.hpp"],
            }
        )
        self.assertEqual(code, 1)
        self.assertIn("cycle: engine -> model -> frontends/text -> engine\n", output)

    def test_every_cycle_is_found(self):
        code, output = check(
            {
                "engine/a/a.hpp": ["engine/b/b.hpp", "engine/c/c.hpp"],
                "engine/b/b.hpp": ["engine/a/a.hpp"],
                "engine/c/c.hpp": ["engine/a/a.hpp"],
            }
        )
        self.assertEqual(code, 1)
        self.assertIn("engine/a -> engine/b -> engine/a", output)
        self.assertIn("engine/a -> engine/c -> engine/a", output)

    def test_path_from_the_including_file(self):
        code, output = check({"model/a/a.hpp": ["../b/b.hpp"], "model/b/b.hpp": ["../a/a.hpp"]})
        self.assertEqual(code, 1)
        self.assertIn("cycle: model/a -> model/b -> model/a", output)

    def test_include_that_names_no_file(self):
        code, output = check({"model/graph.hpp": ["model/gone.hpp"]})
        self.assertEqual(code, 1)
        self.assertIn('names no file: model/graph.hpp:3: #include "model/gone.hpp"', output)

    def test_against_the_drawing_is_an_error(self):
        files = {
            "model/graph.hpp": [],
            "engine/base/options.hpp": ["model/graph.hpp"],
            "engine/bound/bound.hpp": ["engine/base/options.hpp"],
            "engine/order/order.hpp": ["engine/base/options.hpp", "engine/bound/periods/proof.hpp"],
            "engine/bound/periods/proof.hpp": ["model/graph.hpp"],
            "engine/solve.cpp": ["engine/order/order.hpp", "model/graph.hpp"],
        }
        code, output = check(files, "  model < base < bound < order < engine    a remark < another\n")
        self.assertEqual((code, output), (0, "layers: 6 folders, 0 cycles, 0 against the drawing\n"))
        code, output = check(files, "  model < base < bound, order < engine\n")
        self.assertEqual(code, 1)
        self.assertEqual(
            output.splitlines(),
            [
                "against the drawing: engine/order includes engine/bound",
                '  engine/order/order.hpp:4: #include "engine/bound/periods/proof.hpp"',
                "layers: 6 folders, 0 cycles, 1 against the drawing",
            ],
        )
        code, output = check(files, "  model < base < bound < engine\n  base < order\n")
        self.assertEqual(code, 1)
        self.assertIn("against the drawing: engine includes engine/order\n", output)

    def test_drawn_but_not_there_is_an_error(self):
        code, output = check({"model/graph.hpp": []}, "model < base < engine")
        self.assertEqual(code, 1)
        self.assertIn("drawn, but without a source: engine/base\n", output)

    def test_no_drawing_is_an_error(self):
        with tempfile.TemporaryDirectory() as root:
            os.makedirs(os.path.join(root, "model"))
            with open(os.path.join(root, "model/graph.hpp"), "w", encoding="utf-8") as file:
                file.write("#pragma once\n")
            done = subprocess.run([sys.executable, SCRIPT, root], capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, 70)
            self.assertIn("draws no order", done.stderr)

    def test_no_source_is_an_error(self):
        code, _ = check({"docs/design/model.md": []})
        self.assertEqual(code, 70)


if __name__ == "__main__":
    unittest.main()
