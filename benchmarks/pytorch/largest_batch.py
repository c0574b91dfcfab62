# SPDX-License-Identifier: Apache-2.0
"""The largest batch that trains in a part of a GPU's memory.

Usage: largest_batch.py NETWORK GIBIBYTES [--batches 8,16,32,64] [--contenders eager,checkpoint,remora]

Each batch of each contender (contenders.py) runs two steps in a process of its own, which PyTorch lets have so much
memory (`set_per_process_memory_fraction`), the CUDA context apart. Remora's budget is nine tenths of that: the rest is
for what the allocator holds between tensors. Prints a table: seconds a sample, or why it does not run.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import checking
import contenders
import torch


def tried(name: str, contender: str, batch: int, limit: int, lock: str) -> dict[str, Any]:
    """Two steps of so many samples; the seconds of the second, or why there are none."""
    checking.DEVICE = torch.device("cuda")
    contenders.GPU.share(lock)
    torch.cuda.set_per_process_memory_fraction(limit / torch.cuda.get_device_properties(0).total_memory)
    torch.manual_seed(0)
    try:
        contenders.GPU.enter()
        with checking.DEVICE:
            model, inputs, loss, blocks = contenders.NETWORKS[name]()
        contenders.GPU.leave()
        many = tuple(x[:1].repeat(batch, *[1] * (x.dim() - 1)) for x in inputs)
        step = step_of(contender, (model, many, loss, blocks), limit)
        for _ in range(2):
            seconds = contenders.seconds_of(lambda: step(*many))
            model.zero_grad()
        kept = torch.cuda.memory_stats()["reserved_bytes.all.peak"]
        return {"seconds": seconds / batch, "reserved": kept}
    except torch.cuda.OutOfMemoryError:
        return {"error": "out of memory"}
    except Exception as error:
        said = str(error).splitlines() or [""]
        return {"error": next((line for line in said if "schedule" in line), said[0])[:160]}


def step_of(contender: str, network: contenders.Network, limit: int) -> Callable[..., Any]:
    """The step; Remora's has nine tenths of the limit."""
    if contender != "remora":
        contenders.GPU.enter()
        return contenders.step_of(contender, network)[0]
    import remora.torch as rt

    model, _, loss, _ = network
    contenders.GPU.lead_remora()
    body = checking.Case.body(model, loss)
    return rt.train_step(body, budget=int(0.9 * limit), time_limit=contenders.SECONDS, threads=1)


def main() -> None:
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("network")
    words.add_argument("gibibytes", type=float)
    words.add_argument("--batches", default="8,16,32,64")
    words.add_argument("--contenders", default="eager,checkpoint,remora")
    words.add_argument("--lock", help="of the process that tries one batch")
    given = words.parse_args()
    batches, names = [int(b) for b in given.batches.split(",")], given.contenders.split(",")
    if given.lock:
        print(json.dumps(tried(given.network, names[0], batches[0], int(given.gibibytes * 2**30), given.lock)))
        return
    with tempfile.TemporaryDirectory() as folder:
        runs = {}
        for name in names:
            for batch in batches:
                line = [sys.executable, str(Path(__file__)), given.network, str(given.gibibytes)]
                line += ["--batches", str(batch), "--contenders", name, "--lock", f"{folder}/lock"]
                runs[name, batch] = subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        print(f"| {given.network}, {given.gibibytes:g} GiB | {' | '.join(map(str, batches))} |")
        print("|---|" + "---|" * len(batches))
        for name in names:
            cells = []
            for batch in batches:
                said = runs[name, batch].communicate()[0].splitlines()
                row = json.loads(said[-1]) if said else {"error": "ended without a word"}
                cells.append(row.get("error") or f"{1000 * row['seconds']:.1f} ms, {row['reserved'] / 2**30:.1f} GiB")
            print(f"| {name} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
