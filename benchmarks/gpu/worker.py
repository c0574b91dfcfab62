# SPDX-License-Identifier: Apache-2.0
"""One network by a group of contenders (benchmarks/pytorch/contenders.py), for `drive.py`.

Usage: worker.py NETWORK GROUP DEVICE FOLDER

Appends a row to FOLDER/rows.jsonl as soon as a contender is ready: its peak, and a provisional time. When all are, or
DEADLINE (a time since the epoch) or SIGUSR1 has come, it prints "ready"; then, for each line that it reads, it times
all of them and appends a row for each. Whatever uses the device holds the lock FOLDER/lock.
"""

from __future__ import annotations

import fcntl
import json
import os
import signal
import statistics
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import nn

sys.path[:0] = [str(Path(__file__).resolve().parents[2] / place) for place in ("benchmarks/pytorch", "tests/torch")]
import checking  # noqa: E402
import contenders  # noqa: E402

GROUPS = {
    "eager": ("plain", "every:1", "kept", "every:hf", "auto:points", "auto:60%", "auto:least"),
    "remora": ("remora:100%", "remora:points", "remora:60%", "remora:least"),
    "fused": ("fused:100%", "fused:points", "fused:50%", "fused:least"),
    "graph": ("graph:100%", "graph:points", "graph:least"),
    "fused_graph": ("fused_graph:100%", "fused_graph:points", "fused_graph:least"),
    "inductor": (
        "inductor:1.0",
        "inductor:0.5",
        "inductor:0.2",
        "inductor:0.05",
        "partitioner:points",
        "partitioner:least",
    ),
    "plan": ("plain", "remora:100%"),
    "dry": ("plain", "every:1", "auto:points", "remora:100%", "remora:points"),
}
"""Contenders by group; "points": at the peak of each of PyTorch's that is known by then for the network."""
RIVALS = {
    "auto": ("every", "kept"),
    "remora": ("every", "kept", "plain"),
    "fused": ("inductor",),
    "graph": ("every", "kept", "plain"),
    "fused_graph": ("inductor",),
    "partitioner": ("inductor",),
}
OWN = ("forward", "gradient_checkpointing", "_gradient_checkpointing_func")
"""What contenders set of a module."""
DEADLINE = float(os.environ.get("DEADLINE", "inf"))


class LateError(BaseException):
    """The time for preparing is over."""


def late(*_: Any) -> None:
    raise LateError


class WithLoss(nn.Module):
    """A network with its loss inside of what is compiled."""

    def __init__(self, model: nn.Module, loss: Callable[..., torch.Tensor]) -> None:
        super().__init__()
        self.model, self.loss = model, loss

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return self.loss(self.model, x, y)


def network_of(name: str) -> contenders.Network:
    """A network on the device; NAME+loss has the loss inside."""
    plain, _, inside = name.partition("+")
    with checking.DEVICE:
        model, inputs, loss, blocks = contenders.NETWORKS[plain]()
    return (WithLoss(model, loss), inputs, lambda m, x, y: m(x, y), blocks) if inside else (model, inputs, loss, blocks)


class Worker:
    """The contenders of a group, which share a network."""

    def __init__(self, network: str, group: str, folder: Path) -> None:
        self.name, self.group, self.rows = network, group, folder / "rows.jsonl"
        self.network = contenders.GPU.during(network_of)(network)
        self.state = self._state()
        self.captured: dict[str, Any] = {}
        self.ways: dict[str, tuple[Callable[[], Any], Callable[[], None]]] = {}

    def prepare(self) -> None:
        for contender in self.contenders():
            if contender in self.ways:
                continue
            if time.time() > DEADLINE:
                self.say("left", contender)
                continue
            contenders.GPU.lead_remora()
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                try:
                    row = self._prepared(contender)
                except LateError:
                    self._set(self.state)
                    self.say("left", contender)
                    return
                except BaseException as error:
                    self._set(self.state)
                    traceback.print_exc()
                    self.say("error", contender, error=f"{type(error).__name__}: {error}"[:600])
                    if any(words in str(error) for words in ("CUDA error", "start again")):  # the context is gone
                        raise SystemExit(3) from None
                    continue
                finally:
                    contenders.GPU.leave()
            told = sorted({str(w.message)[:300] for w in caught if str(w.message).startswith("remora")})
            self.say("ready", contender, **row, warnings=told)

    def contenders(self) -> Iterator[str]:
        for contender in GROUPS.get(self.group) or self.group.split("+"):
            kind, _, amount = contender.partition(":")
            if amount != "points":
                yield contender
                continue
            rows = [json.loads(line) for line in self.rows.read_text().splitlines()] if self.rows.exists() else []
            mine = [r for r in rows if r.get("network") == self.name and r["phase"] == "ready"]
            peaks = {r["peak"] for r in mine if r["contender"].partition(":")[0] in RIVALS[kind]}
            yield from (f"{kind}:{peak}" for peak in sorted(peaks, reverse=True))

    def turn(self) -> None:
        for contender, (run, use) in self.ways.items():
            try:
                times = contenders.GPU.during(self._timed)(run, use, 12)
            except Exception as error:
                self.say("error", contender, error=f"when it is timed: {error}"[:400])
                continue
            self.say("turn", contender, seconds=times)

    def say(self, phase: str, contender: str, **more: Any) -> None:
        row = {"network": self.name, "contender": contender, "phase": phase, **more}
        with self.rows.open("a") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            file.write(json.dumps(row) + "\n")

    def _prepared(self, contender: str) -> dict[str, Any]:
        start = time.time()
        model, inputs, _, _ = self.network
        torch._functorch.config.activation_memory_budget = 1.0
        try:
            step, more = contenders.step_of(contender, self.network, self.captured)
            if contender.partition(":")[0] not in ("inductor", "partitioner"):  # these enter when they are compiled
                contenders.GPU.enter()
            for _ in range(2):  # captured, planned, and kernels prepared
                step(*inputs)
                model.zero_grad()
            took = time.time() - start
            told = more()
            state = self._state()
        finally:
            self._end(model)
        planned = self.captured.get(contender.partition(":")[0])
        program = planned._captured[-1].program if planned is not None else None

        def use() -> None:
            self._set(state)
            if planned is not None:
                planned._captured[-1].program = program

        def run() -> Any:
            return step(*inputs)

        def measured() -> tuple[int, float, list[float]]:
            use()
            peak, value = checking.peak_of(run)
            peak = max(peak, getattr(getattr(program, "run", None), "peak", 0))  # what a CUDA graph took when recorded
            loss = float(value)
            model.zero_grad()
            return peak, loss, self._timed(run, use, 4)

        peak, loss, times = contenders.GPU.during(measured)()
        self.ways[contender] = run, use
        return {"peak": peak, "loss": loss, "warm": statistics.median(times), "took": round(took, 1), **told}

    def _end(self, model: nn.Module) -> None:
        """Takes off what a contender has put on."""
        import remora.torch as rt
        import remora.torch.inductor as inductor

        if torch._inductor.config.custom_partitioner_fn is not None:
            inductor.uninstall()
        rt.remove_checkpoints(model)
        self._set(self.state)
        model.zero_grad()

    def _state(self) -> dict[nn.Module, dict[str, Any]]:
        modules = self.network[0].modules()
        return {module: {k: module.__dict__[k] for k in OWN if k in module.__dict__} for module in modules}

    def _set(self, state: dict[nn.Module, dict[str, Any]]) -> None:
        for module, own in state.items():
            for key in OWN:
                module.__dict__.pop(key, None)
            module.__dict__.update(own)

    def _timed(self, run: Callable[[], Any], use: Callable[[], None], most: int) -> list[float]:
        """Seconds of some runs, behind one that asks the driver for memory."""
        use()
        times: list[float] = []
        while len(times) <= most and (len(times) < 4 or sum(times) < 0.6):
            times.append(contenders.seconds_of(run))
            self.network[0].zero_grad()
        self._set(self.state)
        return times[1:]


def main(network: str, group: str, device: str, folder: str) -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    torch._dynamo.config.recompile_limit = 64
    checking.DEVICE = torch.device(device)
    contenders.SECONDS = float(os.environ.get("SOLVE", "5"))
    contenders.GPU.share(f"{folder}/lock")
    lines = os.fdopen(os.dup(1), "w")  # what others print stays out of the lines
    os.dup2(2, 1)
    signal.signal(signal.SIGUSR1, late)
    worker = Worker(network, group, Path(folder))
    worker.prepare()
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    print("ready", file=lines, flush=True)
    for _ in sys.stdin:
        worker.turn()
        print("done", file=lines, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
