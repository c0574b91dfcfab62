# SPDX-License-Identifier: Apache-2.0
"""What an arena costs and gains: steps planned for 80 %, without and with `arena=True`, each in a process of its own;
by `train_step`, and by `wrap`, whose user calls `backward()`.

Usage: arena_memory.py [NETWORK ...]

For each network of contenders.py: the predicted peak beyond parameters and arguments, the resident memory that ten
steps really took beyond what was resident before them (VmHWM; what planning left is given back to the system first),
the median CPU time of a step, and its page faults. One thread. Results of both are compared bit by bit.
"""

from __future__ import annotations

import ctypes
import hashlib
import itertools
import json
import resource
import statistics
import subprocess
import sys
import time

import contenders
import torch

import remora.torch as rt

TURNS = 10
MIB = 1 << 20


def resident(name: str) -> int:
    """Bytes, of VmRSS or VmHWM."""
    with open("/proc/self/status", encoding="ascii") as file:
        return next(1024 * int(line.split()[1]) for line in file if line.startswith(name))


def measure(name: str, how: str, arena: bool) -> None:
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    torch.manual_seed(0)
    model, inputs, loss, _ = contenders.NETWORKS[name]()

    def body(*given: torch.Tensor) -> torch.Tensor:
        value = loss(model, *given)
        value.backward()
        return value.detach()

    options = {"budget": "80%", "time_limit": 10, "threads": 1, "arena": arena}
    step = body if how == "wrap" else rt.train_step(body, **options)
    if how == "wrap":
        rt.wrap(model, **options)
    torch.manual_seed(1)
    digest = hashlib.sha256(step(*inputs).numpy().tobytes())
    for parameter in model.parameters():
        if parameter.grad is not None:
            digest.update(parameter.grad.numpy().tobytes())
    model.zero_grad()
    plan = rt.plans(model)[0] if how == "wrap" else step.plan
    if arena:
        plan.memory.release()
    ctypes.CDLL("libc.so.6").malloc_trim(0)
    before = resident("VmRSS")
    with open("/proc/self/clear_refs", "w", encoding="ascii") as file:
        file.write("5")  # the highest mark begins anew
    times, faults = [], resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(TURNS):
        start = time.process_time()
        step(*inputs)
        times.append(time.process_time() - start)
        model.zero_grad()
    found = {
        "predicted": plan.predicted_peak - plan.fixed_memory + plan.outside,
        "arena": plan.arena,
        "taken": resident("VmHWM") - before,
        "seconds": statistics.median(times),
        "faults": (resource.getrusage(resource.RUSAGE_SELF).ru_minflt - faults) / TURNS,
        "overhead": plan.overhead,
        "digest": digest.hexdigest(),
    }
    print(json.dumps(found))


def main() -> None:
    if sys.argv[1:2] == ["--measure"]:
        measure(sys.argv[2], sys.argv[3], sys.argv[4] == "arena")
        return
    head = ["network", "by", "arena", "predicted, MiB", "resident, MiB", "off", "overhead", "step, ms", "page faults"]
    print(f"| {' | '.join([*head, 'equal'])} |\n{'|---' * (len(head) + 1)}|")
    for name, how in itertools.product(sys.argv[1:] or ("unet", "bert", "gpt2_6", "vit"), ("train_step", "wrap")):
        first = ""
        for kind in ("heap", "arena"):
            for _ in range(2):  # the first process plans, the second finds its plan
                words = [sys.executable, __file__, "--measure", name, how, kind]
                done = subprocess.run(words, capture_output=True, text=True, check=True)
            row = json.loads(done.stdout.splitlines()[-1])
            first = first or row["digest"]
            print(
                f"| {name} | {how} | {'yes' if kind == 'arena' else 'no'} | {row['predicted'] / MIB:.1f} | "
                f"{row['taken'] / MIB:.1f} | {row['taken'] / row['predicted'] - 1:+.1%} | {row['overhead']:+.1%} | "
                f"{1000 * row['seconds']:.1f} | {row['faults']:.0f} | {'yes' if row['digest'] == first else 'NO'} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
