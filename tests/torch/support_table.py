# SPDX-License-Identifier: Apache-2.0
"""Writes docs/guide/pytorch_support.md by running every row of support.py.

usage: tests/environments/run torch BUILD_FOLDER support_table.py, or python support_table.py PAGE
"""

from __future__ import annotations

import datetime
import sys
from pathlib import Path

import torch

HEAD = """# PyTorch: what is supported

What works in and around training steps with `remora.torch`, and what is rejected. Each row is a test (`ctest -L
support`): it runs as plain eager code and with Remora from the same state. It works if results, gradients, parameters,
buffers and the generator are bitwise equal in two runs. Otherwise the table shows the message of the rejection.
[Complete training loops](pytorch_details.md#tested) (Hugging Face, Lightning, several processes) are tested as well.
`tests/torch/support_table.py` writes this page.
"""

COMMAND = "python tests/torch/support_table.py docs/guide/pytorch_support.md"
WAYS = ("train_step", "wrap")
SAME = "rejected with the same message"


def read(page: Path) -> dict[tuple[str, str, str], str]:
    """The verdicts of a page by group, row and way."""
    found: dict[tuple[str, str, str], str] = {}
    group = ""
    for line in page.read_text(encoding="utf-8").splitlines():
        if line.startswith("## "):
            group = line[3:]
        elif line.startswith("- "):
            found |= {(group, line[2:], way): "works" for way in WAYS}
        elif line.startswith("| ") and " | `" not in line:
            what, *verdicts = [cell.strip() for cell in line.strip().strip("|").split("|")]
            verdicts = [verdicts[0] if verdict == SAME else verdict for verdict in verdicts]
            found |= {(group, what, way): verdict for way, verdict in zip(WAYS, verdicts, strict=True) if verdict}
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
    """The page, from the verdicts of each group's rows: a list of what works both ways, and a table of the others."""
    source = f"<!-- measured {datetime.date.today()}: {COMMAND} -->"
    lines = [HEAD]
    for group, rows in groups.items():
        works = [what for what, verdicts in rows.items() if set(verdicts) == {"works"}]
        lines += [f"## {group}\n", source]
        if works:
            lines += ["Both `train_step` and `wrap` support:\n", *(f"- {what}" for what in works), ""]
        if len(works) < len(rows):
            lines += ["| what | `train_step` | `wrap` |", "|---|---|---|"]
        for what, (first, second) in rows.items():
            if what not in works:
                same = first.startswith("rejected") and second == first
                lines.append(f"| {what} | {first} | {SAME if same else second} |")
        lines += [""] * (lines[-1] != "")
    return "\n".join(lines).rstrip() + "\n"


if __name__ == "__main__":
    main(Path(sys.argv[1]))
