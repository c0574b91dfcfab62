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

`train_step` and `wrap` support, among others:

- convolutions, batch and instance normalization, attention and `nn.TransformerEncoder`, LSTMCell in
  a loop, embeddings, tied weights, complex numbers, parametrizations, quantization-aware training;
- float64, bfloat16, autocast, channels-last, deterministic algorithms;
- dropout and other random ops; `autograd.Function`, `torch.func`, hooks on values inside the model,
  existing checkpoints;
- buffers and arguments that change, frozen and replaced layers, `load_state_dict`, accumulation,
  clipping, several lengths, smaller last batches, evaluation in between.

The tables list the exceptions. Each row, and 90 others that work, is a test (`ctest -L support`): it
works if results, gradients, parameters, buffers and the generator equal those of plain eager code
bit for bit in two runs. Otherwise the table shows the message of the rejection; *not captured*
stands for "PyTorch cannot capture this step".
"""

COMMAND = "python tests/torch/support_table.py docs/guide/pytorch_support.md"
WAYS = ("train_step", "wrap")
SAME = "the same"
CAPTURE = ("rejected: PyTorch cannot capture this step: ", "not captured: ")


def read(page: Path) -> dict[tuple[str, str, str], str]:
    """The verdicts of a page by group, row and way; a row that the page does not list works."""
    found: dict[tuple[str, str, str], str] = {}
    group = ""
    for line in page.read_text(encoding="utf-8").splitlines():
        if line.startswith("## "):
            group = line[3:]
        elif line.startswith("| ") and " | `" not in line:
            names, *cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
            cells = [cells[0] if cell == SAME else cell for cell in cells]
            cells = [CAPTURE[0] + cell[len(CAPTURE[1]) :] if cell.startswith(CAPTURE[1]) else cell for cell in cells]
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
    """The page, from the verdicts of each group's rows: a table of those that do not just work."""
    parts = [HEAD.rstrip()]
    for group, rows in groups.items():
        same: dict[tuple[str, ...], list[str]] = {}
        for what, verdicts in rows.items():
            if set(verdicts) != {"works"}:
                same.setdefault(tuple(verdicts), []).append(what)
        lines = []
        for (first, second), names in same.items():
            second = SAME if first.startswith("rejected") and second == first else second
            lines.append(f"| {'; '.join(names)} | {first.replace(*CAPTURE)} | {second.replace(*CAPTURE)} |")
        if lines:
            source = f"<!-- measured {datetime.date.today()}: {COMMAND} -->\n" * ("%" in "".join(lines))
            parts.append(f"## {group}")
            parts.append("\n".join([source + "| what | `train_step` | `wrap` |", "|---|---|---|", *lines]))
    return "\n\n".join(parts) + "\n"


if __name__ == "__main__":
    main(Path(sys.argv[1]))
