# SPDX-License-Identifier: Apache-2.0
"""What a new length costs a training step: a Llama, called with a few lengths in random order.

Usage: sizes.py [--layers 6] [--width 128] [--calls 45] [--lengths 96,128,...] [--budget 60%] [--undeclared]

Each call is compared with eager PyTorch: results and gradients in every bit, and the measured peak with the predicted
one and the budget. Prints a line for each length, and then how often the step was captured, and by how much the process
has grown since each length has run once. Times are of CPU, of one thread. --undeclared: without `sizes=`.
"""

from __future__ import annotations

import argparse
import copy
import os
import random
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests" / "torch"))

import checking
import torch

import remora.torch as rt

LENGTHS = (96, 128, 192, 256, 320, 384, 512, 640, 768)


def llama(layers: int, width: int) -> torch.nn.Module:
    """A Llama for causal language modelling."""
    import transformers

    config = transformers.LlamaConfig(
        vocab_size=256,
        hidden_size=width,
        intermediate_size=2 * width,
        num_hidden_layers=layers,
        num_attention_heads=4,
        num_key_value_heads=2,
    )
    model: torch.nn.Module = transformers.LlamaForCausalLM(config)
    return model


def grown() -> int:
    """Bytes of this process that are in memory."""
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--calls", type=int, default=45)
    parser.add_argument("--lengths", type=lambda text: [int(n) for n in text.split(",")], default=list(LENGTHS))
    parser.add_argument("--budget", default="60%")
    parser.add_argument("--undeclared", action="store_true")
    given = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = llama(given.layers, given.width)
    twin = copy.deepcopy(model)
    sizes = {} if given.undeclared else {"sizes": {"tokens": (min(given.lengths), max(given.lengths))}}

    def body(module: torch.nn.Module, tokens: torch.Tensor) -> torch.Tensor:
        loss: torch.Tensor = module(input_ids=tokens, labels=tokens, use_cache=False).loss
        loss.backward()  # type: ignore[no-untyped-call]
        return loss.detach()

    def written(tokens: torch.Tensor) -> torch.Tensor:
        return body(model, tokens)

    step = rt.train_step(written, budget=given.budget, time_limit=5, **sizes)
    calls = (given.lengths * -(-given.calls // len(given.lengths)))[: given.calls]
    random.Random(0).shuffle(calls)
    rows: dict[int, list[Any]] = {}
    state, wrong, before = copy.deepcopy(model.state_dict()), 0, 0
    captures = torch._dynamo.utils.counters["stats"]
    for number, length in enumerate(calls):
        tokens = torch.randint(0, 256, (2, length))
        start = time.thread_time()
        step(tokens)
        seconds = time.thread_time() - start
        mine = checking.outcome(model, lambda tokens=tokens: step(tokens), state)
        eager = checking.outcome(twin, lambda tokens=tokens: body(twin, tokens), state)
        plan = step.plan
        predicted = plan.predicted_peak - plan.fixed_memory
        differs = checking.differences(mine, eager)
        wrong += bool(differs) or mine.peak != predicted or plan.predicted_peak > plan.budget
        rows.setdefault(length, []).append((seconds, plan, number))
        if len(rows) == len(given.lengths) and not before:
            before = grown()
    print("length  first call  later calls  extra  recomputes  overhead  peak of budget")
    for length, found in sorted(rows.items(), key=lambda row: row[1][0][2]):
        first, plan, _ = found[0]
        later = min((seconds for seconds, *_ in found[1:]), default=first)
        share = plan.predicted_peak / plan.budget
        print(
            f"{length:6} {first:9.3f} s {later:10.3f} s {first - later:6.2f} {plan.recomputes:10} "
            f"{plan.overhead:+9.2%} {share:9.2%}"
        )
    print(step.plans)
    print(f"{captures['unique_graphs']} captures; {wrong} of {len(calls)} calls are not as eager, or as predicted")
    print(f"the process has grown by {(grown() - before) / 2**20:+.1f} MiB since each length has run once")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
