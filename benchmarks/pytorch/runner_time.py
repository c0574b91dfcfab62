# SPDX-License-Identifier: Apache-2.0
"""What the runner costs: an eager step and the same step as planned, in turns in one process.

Usage: runner_time.py [NETWORK ...]

For each network of contenders.py: CPU seconds of eager, of the plan at 100 % and at 80 %, one thread, the median of 15
turns; what the runner adds to eager, and how far each plan's time is from the predicted one. In turns, so that what
else the machine does slows all alike.
"""

from __future__ import annotations

import copy
import statistics
import sys
import time
from typing import Any

import checking
import contenders
import torch

import remora.torch as rt

TURNS = 15
BUDGETS = ("100%", "80%")


def row(name: str) -> str:
    torch.manual_seed(0)
    model, inputs, loss, _ = contenders.NETWORKS[name]()
    models = [model, *(copy.deepcopy(model) for _ in BUDGETS)]
    steps: list[Any] = [checking.Case.body(model, loss)]
    for twin, budget in zip(models[1:], BUDGETS, strict=True):
        steps.append(rt.train_step(checking.Case.body(twin, loss), budget=budget, time_limit=10, threads=1))
    times: list[list[float]] = [[] for _ in steps]
    for turn in range(TURNS + 2):
        for owner, step, taken in zip(models, steps, times, strict=True):
            start = time.process_time()
            step(*inputs)
            if turn >= 2:  # captured, planned, and kernels prepared
                taken.append(time.process_time() - start)
            owner.zero_grad()
    eager, whole, less = (statistics.median(taken) for taken in times)
    off = [taken / (step.plan.predicted_time / 1e9) - 1 for taken, step in zip((whole, less), steps[1:], strict=True)]
    planned = steps[2].plan.overhead
    return (
        f"| {name} | {1000 * eager:.1f} | {1000 * whole:.1f} | {whole / eager - 1:+.1%} | {off[0]:+.1%} | "
        f"{planned:+.1%} | {less / whole - 1:+.1%} | {off[1]:+.1%} |"
    )


def main() -> None:
    torch.set_num_threads(1)
    print(
        "| network | eager, ms | 100 %, ms | over eager | over predicted | 80 %: planned | measured | over predicted |"
    )
    print("|---|---|---|---|---|---|---|---|")
    for name in sys.argv[1:] or ("gpt2_6", "bert", "vit", "resnet50", "unet"):
        print(row(name), flush=True)
        torch._dynamo.reset()


if __name__ == "__main__":
    main()
