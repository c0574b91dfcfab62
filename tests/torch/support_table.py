# SPDX-License-Identifier: Apache-2.0
"""Writes docs/guide/pytorch_support.md by running every row of support.py.

usage: tests/environments/run torch BUILD_FOLDER support_table.py, or python support_table.py PAGE
"""

from __future__ import annotations

import ast
import datetime
import sys
from pathlib import Path

import torch

HEAD = """# What works with PyTorch

Which things that people write in training steps and around them work with `remora.torch`, and which are refused. Each
row is a test (`ctest -L support`): it runs as plain eager and by Remora from the same state, and *works* means that
results, gradients, parameters, buffers and the generator are equal in every bit in two runs. Otherwise the row has the
words with which Remora refuses; what PyTorch says of it follows them in the message. [Whole training
loops](#whole-loops) (Hugging Face, Lightning, processes) are listed at the end. This page is made by
`tests/torch/support_table.py`.
"""

COMMAND = "python tests/torch/support_table.py docs/guide/pytorch_support.md"
LOOPS = {
    "loops_test.py": "Around a step (`ctest -L support`)",
    "trainers_test.py": "Trainers (`ctest -L trainers`)",
    "distributed_test.py": "Several processes on gloo (`ctest -L distributed`)",
}
"""The files whose tests the page lists."""
SAME = "refused with the same words"


def read(page: Path) -> dict[tuple[str, str, str], str]:
    """The verdicts of a page by group, row and way."""
    found: dict[tuple[str, str, str], str] = {}
    group, ways = "", []
    for line in page.read_text(encoding="utf-8").splitlines():
        if line.startswith("## "):
            group = line[3:]
        elif line.startswith("| ") and " | `" in line:
            ways = [cell.strip().strip("`") for cell in line.strip("|").split("|")[1:]]
        elif line.startswith("| "):
            what, *verdicts = [cell.strip() for cell in line.strip().strip("|").split("|")]
            verdicts = [verdicts[0] if verdict == SAME else verdict for verdict in verdicts]
            found |= {(group, what, way): verdict for way, verdict in zip(ways, verdicts, strict=True) if verdict}
    return found


def main(page: Path) -> None:
    import support

    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    lines = [HEAD]
    source = f"<!-- measured {datetime.date.today()}: {COMMAND} -->"
    for group in dict.fromkeys(row.group for row in support.ROWS):
        lines += [f"## {group}\n", source, "| what | `train_step` | `wrap` |", "|---|---|---|"]
        for row in (row for row in support.ROWS if row.group == group):
            verdicts = []
            for way in ("train_step", "wrap"):
                verdicts.append(support.verdict_of(row.ways[way]) if way in row.ways else "")
                torch._dynamo.reset()
                print(f"{group}: {row.what}: {way}: {verdicts[-1]}", flush=True)
            if verdicts[0].startswith("refused") and verdicts[1] == verdicts[0]:
                verdicts[1] = SAME
            lines.append(f"| {row.what} | {' | '.join(verdicts)} |")
        lines.append("")
    lines += ["## Whole loops\n", "Each line is a test of its own, named by what it shows.\n"]
    for name, what in LOOPS.items():
        lines += [f"{what}:\n", *(f"- {text}" for text in tests_of(Path(__file__).with_name(name))), ""]
    page.write_text("\n".join(lines).rstrip() + "\n", encoding="utf-8")


def tests_of(file: Path) -> list[str]:
    """What the tests of a file are called, as sentences."""
    names = [n.name for n in ast.parse(file.read_text(encoding="utf-8")).body if isinstance(n, ast.FunctionDef)]
    return [name.removeprefix("test_").replace("_", " ") for name in names if name.startswith("test_")]


if __name__ == "__main__":
    main(Path(sys.argv[1]))
