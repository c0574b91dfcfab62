# SPDX-License-Identifier: Apache-2.0
"""What `rt.plan` predicts for the steps that were measured on a GPU (results/steps_gpu), without a GPU.

Usage: predicted_steps.py [--runs FILE] [--device h200] [--fit] [NETWORK ...]

Prints a row for each network: its peak beyond what was there before, and its time, predicted and measured, of eager and
of Remora at 100 %. `--fit` also looks for the device's shares (`efficiency`, `launch`) with the least error on
all networks, and says what each network's error is with the shares that were fitted on the others.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import statistics
import sys
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import contenders
import torch

from remora.torch import fit
from remora.torch.fit._fit import capture
from remora.torch.fit._question import Question
from remora.torch.fit._rates import Work, work_in
from remora.torch.fit._subject import WithoutMemory

RUNS = Path(__file__).parents[1] / "results/steps_gpu/runs.jsonl"
SHARES = {
    "product": (0.45, 0.55, 0.65),
    "product-fp32": (0.6, 0.7, 0.8),
    "convolution": (0.1, 0.15, 0.2, 0.3),
    "attention": (0.4,),
    "memory": (0.55, 0.65, 0.75),
}
LAUNCHES = (2e-6, 4e-6, 6e-6)


@dataclass
class Row:
    """One network: bytes beyond what was there before, the work of its ops, and seconds that were measured."""

    name: str
    peak: int
    ops: int
    work: Counter[Work]
    measured: dict[str, dict[str, Any]]

    def seconds(self, device: fit.FitDevice) -> float:
        machine = device.machine  # read once: a fit asks for thousands of works
        total = sum(count * work.seconds(machine) for work, count in self.work.items())
        return device.step_seconds(total, self.ops)

    def real(self) -> float:
        """The time of Remora at 100 % where it was measured, for it runs these ops; else eager's."""
        return statistics.median(self.measured.get("remora:100%", self.measured["eager"])["seconds"])

    def error(self, device: fit.FitDevice) -> float:
        return math.log(self.seconds(device) / self.real())


def captured(name: str, device: str, measured: dict[str, dict[str, Any]]) -> Row:
    with WithoutMemory():
        _, inputs, loss, _ = contenders.NETWORKS[name]()
    found = capture(Question(lambda: contenders.NETWORKS[name]()[0], inputs, loss, device=device))
    problem, step = found.problem, found.problem.step
    work = Counter(work_in(step, node) for op in step.ops for node in op.nodes)
    return Row(name, problem.unscheduled - problem.fixed, len(step.ops), work, measured)


def variants(device: fit.FitDevice) -> Iterable[fit.FitDevice]:
    for shares in itertools.product(*SHARES.values()):
        for launch in LAUNCHES:
            yield replace(device, efficiency=dict(zip(SHARES, shares, strict=True)), launch=launch)


def fitted(rows: list[Row], device: fit.FitDevice) -> None:
    errors = [(variant, [row.error(variant) for row in rows]) for variant in variants(device)]

    def best(left: Iterable[int]) -> tuple[fit.FitDevice, list[float]]:
        places = list(left)
        return min(errors, key=lambda pair: sum(abs(pair[1][i]) for i in places))

    variant, found = best(range(len(rows)))
    print(f"fitted: {variant.efficiency}, launch {variant.launch}")
    for i, row in enumerate(rows):
        left_out = best(j for j in range(len(rows)) if j != i)[1][i]
        print(f"| {row.name} | {math.expm1(found[i]):+.1%} | {math.expm1(left_out):+.1%} |", flush=True)


def main() -> None:
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("networks", nargs="*")
    words.add_argument("--runs", default=str(RUNS))
    words.add_argument("--device", default="h200")
    words.add_argument("--fit", action="store_true")
    given = words.parse_args()
    measured: dict[str, dict[str, dict[str, Any]]] = {}
    for line in Path(given.runs).read_text(encoding="utf-8").splitlines():
        run = json.loads(line)
        measured.setdefault(run["network"], {})[run["contender"]] = run
    device = fit.device_of(given.device)
    print("| network | peak, bytes | of eager's | of Remora's | ms | of eager's | of Remora's |")
    print("|---|---|---|---|---|---|---|")
    rows = []
    for name in given.networks or list(measured):
        row = captured(name, given.device, measured[name])
        rows.append(row)
        seconds = row.seconds(device)
        cells = [f"{row.name}", f"{row.peak:,}", *_beside(row, "peak", row.peak), f"{seconds * 1e3:.1f}"]
        print(f"| {' | '.join([*cells, *_beside(row, 'seconds', seconds)])} |", flush=True)
        print(f"{row.name}: {row.ops} ops", file=sys.stderr)
    if given.fit:
        fitted(rows, device)


def _beside(row: Row, what: str, predicted: float) -> list[str]:
    cells = []
    for contender in ("eager", "remora:100%"):
        run = row.measured.get(contender)
        if run is None:
            cells.append("")
        else:
            real = run[what] if what == "peak" else statistics.median(run[what])
            cells.append(f"{predicted / real - 1:+.2%}")
    return cells


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
