# SPDX-License-Identifier: Apache-2.0
"""Writes docs/guide/pytorch_support.md by running every row of support.py.

usage: tests/environments/run torch BUILD_FOLDER support_table.py, or python support_table.py PAGE
"""

from __future__ import annotations

import datetime
import sys
import textwrap
from pathlib import Path

import torch

HEAD = """# PyTorch: what is supported

What works in and around training steps with `remora.torch`, and what is rejected. Each row is a test (`ctest -L
support`): it runs as plain eager code and with Remora from the same state. It works if results, gradients, parameters,
buffers and the generator are bitwise equal in two runs. Otherwise the table shows the message of the rejection; *not
captured* stands for "PyTorch cannot capture this step". [Complete training loops](pytorch_details.md#tested) (Hugging
Face, Lightning, several processes) are tested as well. `tests/torch/support_table.py` writes this page.
"""

COMMAND = "python tests/torch/support_table.py docs/guide/pytorch_support.md"
WAYS = ("train_step", "wrap")
SAME = "the same"
WORKS = "`train_step` and `wrap` support: "
CAPTURE = ("rejected: PyTorch cannot capture this step: ", "not captured: ")


def read(page: Path) -> dict[tuple[str, str, str], str]:
    """The verdicts of a page by group, row and way."""
    found: dict[tuple[str, str, str], str] = {}
    group = ""
    for part in page.read_text(encoding="utf-8").split("\n\n"):
        text = " ".join(part.splitlines())
        if part.startswith("## "):
            group = part[3:]
        elif text.startswith(WORKS):
            found |= {(group, what, way): "works" for what in text[len(WORKS) : -1].split("; ") for way in WAYS}
        for line in part.splitlines():
            if line.startswith("| ") and " | `" not in line:
                names, *cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
                cells = [cells[0] if cell == SAME else cell for cell in cells]
                cells = [
                    CAPTURE[0] + cell[len(CAPTURE[1]) :] if cell.startswith(CAPTURE[1]) else cell for cell in cells
                ]
                verdicts = [(way, cell) for way, cell in zip(WAYS, cells, strict=True) if cell]
                found |= {(group, what, way): cell for what in names.split("; ") for way, cell in verdicts}
    return found


def main(page: Path) -> None:
    import support

    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    groups: dict[str, dict[str, list[str]]] = {}
    for row in support.ROWS:
        for way in WAYS:
            verdict = support.verdict_of(row.ways[way]) if way in row.ways else ""
            torch._dynamo.reset()
            print(f"{row.group}: {row.what}: {way}: {verdict}", flush=True)
            groups.setdefault(row.group, {}).setdefault(row.what, []).append(verdict)
    page.write_text(written(groups), encoding="utf-8")


def written(groups: dict[str, dict[str, list[str]]]) -> str:
    """The page, from the verdicts of each group's rows: what works both ways, and a table of the others."""
    parts = [HEAD.rstrip()]
    for group, rows in groups.items():
        parts.append(f"## {group}")
        if works := [what for what, verdicts in rows.items() if set(verdicts) == {"works"}]:
            parts.append(textwrap.fill(WORKS + "; ".join(works) + ".", 100, break_on_hyphens=False))
        same: dict[tuple[str, ...], list[str]] = {}
        for what, verdicts in rows.items():
            if what not in works:
                same.setdefault(tuple(verdicts), []).append(what)
        table = ["| what | `train_step` | `wrap` |", "|---|---|---|"]
        for (first, second), names in same.items():
            second = SAME if first.startswith("rejected") and second == first else second
            table.append(f"| {'; '.join(names)} | {first.replace(*CAPTURE)} | {second.replace(*CAPTURE)} |")
        if len(table) > 2:
            text = "\n".join(table)
            source = f"<!-- measured {datetime.date.today()}: {COMMAND} -->\n" * ("%" in text)
            parts.append(source + text)
    return "\n\n".join(parts) + "\n"


if __name__ == "__main__":
    main(Path(sys.argv[1]))
