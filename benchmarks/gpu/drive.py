# SPDX-License-Identifier: Apache-2.0
"""Runs tests and then measures, on a GPU; what is known is written as it comes.

Usage: drive.py FOLDER [--seconds 240] [--only tests/step,gpt2_medium/eager,...] [--device cuda] [--rounds 2]

Jobs are tests/NAME, and NETWORK/GROUP of worker.py (NETWORK+loss: the loss is compiled, too; GROUP: a name, or
contenders with a + between them); a part of a name chooses all that contain it. Tests run at once, in half of the time
at most. Then all workers prepare at once, while one process at a time uses the device, in three quarters of the rest;
those that are ready take turns. FOLDER gets rows.jsonl (a line a row), tests.log, workers.log and, at the end or with
`--page`, README.md and runs.jsonl, which pytorch/predicted_steps.py reads.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import importlib.machinery
import importlib.metadata
import importlib.util
import json
import os
import re
import select
import signal
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
PROMISES = ("gpt", "llama", "vit", "bert", "t5", "experts", "unet", "resnet")
TESTS = (
    *("step", "parts", "loops", "check", "fuse", "checkpoint", "cuda_graph", "fit", "nccl", "jax"),
    "inductor:not with_its_loss",
    *(f"inductor:with_its_loss and {name}" for name in PROMISES),
)
"""A file, or a file and pytest's expression of which of its tests: each is a process."""
ON_CPU = ("fit",)
"""Tests of plans for devices that are absent; jax takes the GPU by itself."""
NETWORKS = ("gpt2_medium", "llama_1b", "vit_l", "resnet101")
OTHERS = ("gpt2_24", "unet_4", "mlp_mixer", "regnet", "transformer_6", "moe")
JOBS = [
    *(f"tests/{name}" for name in TESTS),
    *(f"{name}/{group}" for group in ("eager", "inductor", "remora", "fused") for name in NETWORKS),
    *(f"{name}+loss/inductor" for name in NETWORKS),
    *(f"{name}/plan" for name in OTHERS),
    "jax/budgets",
]
"""In the order of their importance."""
SAME = {"plain": "eager", "every:1": "checkpoint", "kept": "selective"}
"""Contenders that stand in two of `compare`'s families."""


class Driver:
    """One run of the command."""

    def __init__(self, given: argparse.Namespace) -> None:
        self.given, self.folder = given, given.folder
        self.start = time.time()
        self.end = self.start + given.seconds - 4
        wanted = given.only.split(",") if given.only else [""]
        self.jobs = [job for job in given.jobs if any(word in job for word in wanted)]
        self.environment = {**os.environ, "REMORA_TEST_DEVICE": given.device, "PYTHONUNBUFFERED": "1"}
        self.environment |= {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
        # Tuned by measuring, two compiles of one program differ in their bits.
        self.environment["XLA_FLAGS"] = "--xla_gpu_deterministic_ops=true --xla_gpu_autotune_level=0"

    def run(self) -> None:
        tests = [job for job in self.jobs if job.partition("/")[0] in ("tests", "jax")]
        others = [job for job in self.jobs if job not in tests]
        self.say(phase="place", **place(self.given.device))
        if tests:
            self.test(tests, self.end if not others else self.start + self.given.seconds / 2)
        if others:
            self.measure(others)
        write_page(self.folder)
        self.told(str(self.folder / "README.md"))

    def say(self, **row: Any) -> None:
        with (self.folder / "rows.jsonl").open("a") as file:
            file.write(json.dumps(row) + "\n")

    def told(self, text: str) -> None:
        print(f"{time.time() - self.start:.0f} s: {text}", flush=True)

    def begun(self, words: list[str], more: dict[str, str] | None = None, **streams: Any) -> subprocess.Popen[str]:
        """A process in a group of its own."""
        return subprocess.Popen(
            words, env={**self.environment, **(more or {})}, cwd=ROOT, text=True, start_new_session=True, **streams
        )

    def test(self, jobs: list[str], end: float) -> None:
        """Runs the files of tests at once; a row for each, also for those that the time is too short for."""
        log = (self.folder / "tests.log").open("a")
        threads = []
        for job in jobs:
            suite, _, name = job.partition("/")
            words = [sys.executable, *(self.budgets() if suite == "jax" else pytest_words(name))]
            device = {"REMORA_TEST_DEVICE": "cpu"} if name in ON_CPU else {}
            process = self.begun(words, device, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
            threads.append(threading.Thread(target=self._follow, args=(name, process, log)))
            threads[-1].start()
            # Interrupted, pytest says what has failed so far.
            for call, wait in (lambda p: p.send_signal(signal.SIGINT), 8.0), (ended, 0.0):
                timer = threading.Timer(max(1.0, end - wait - time.time()), call, [process])
                timer.daemon = True
                timer.start()
        for thread in threads:
            thread.join()
        log.close()

    def budgets(self) -> list[str]:
        """JAX's steps under budgets, which write a page of their own."""
        return [str(ROOT / "benchmarks/jax/measure_budgets"), str(self.folder / "jax")]

    def _follow(self, name: str, process: subprocess.Popen[str], log: Any) -> None:
        assert process.stdout is not None
        found: dict[str, list[str]] = {}
        for line in process.stdout:
            log.write(f"{name}: {line}")
            log.flush()
            outcome = re.match(r"\S+::(.*\S)\s+(PASSED|FAILED|ERROR|SKIPPED)", line)
            if outcome:
                found.setdefault(outcome[2].lower(), []).append(outcome[1])
        code = process.wait()
        failed = [*found.get("failed", []), *found.get("error", [])]
        counts = {"passed": len(found.get("passed", [])), "skipped": len(found.get("skipped", []))}
        self.say(phase="test", file=name, **counts, failed=failed, complete=code in (0, 1), code=code)
        self.told(f"tests/{name}: {counts['passed']} passed, failed: {failed}")

    def measure(self, jobs: list[str]) -> None:
        left = self.end - time.time()
        prepared = time.time() + 0.75 * left
        late = prepared - min(20.0, 0.1 * left)
        self.environment["DEADLINE"] = str(late)
        log = (self.folder / "workers.log").open("a")
        workers = {}
        for job in jobs:
            network, _, group = job.partition("/")
            words = [sys.executable, str(HERE / "worker.py"), network, group, self.given.device, str(self.folder)]
            workers[job] = self.begun(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log)
        try:
            self._turns(workers, late, prepared)
        finally:
            for worker in workers.values():
                ended(worker)

    def _turns(self, workers: dict[str, subprocess.Popen[str]], late: float, prepared: float) -> None:
        ready, waiting = list[str](), dict(workers)
        for until in (late, prepared):
            while waiting and time.time() < until:
                for job in self._heard(waiting, until):
                    said = waiting.pop(job).stdout.readline().strip()  # type: ignore[union-attr]
                    ready += [job] if said == "ready" else []
                    self.told(f"{job} {said or 'ended'}")
            for worker in waiting.values():  # what it prepares now is left; it is timed with what it has
                worker.send_signal(signal.SIGUSR1)
        for job, worker in waiting.items():  # it has had its time, and would disturb the others
            self.told(f"{job} is not ready")
            ended(worker)
        for _ in range(self.given.rounds):
            for job in ready:
                if time.time() < self.end and workers[job].poll() is None:
                    workers[job].stdin.write("\n")  # type: ignore[union-attr]
                    workers[job].stdin.flush()  # type: ignore[union-attr]
                    if self._heard({job: workers[job]}, self.end):
                        workers[job].stdout.readline()  # type: ignore[union-attr]

    @staticmethod
    def _heard(workers: dict[str, subprocess.Popen[str]], end: float) -> list[str]:
        """Those that have said something, or ended, by then."""
        jobs = {worker.stdout: job for job, worker in workers.items()}
        found, _, _ = select.select(list(jobs), [], [], max(0.0, end - time.time()))
        return [jobs[stream] for stream in found]


def ended(process: subprocess.Popen[str]) -> None:
    """Ends a process with all that it has started."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def pytest_words(name: str) -> list[str]:
    """What runs a name of TESTS: FILE:EXPRESSION chooses among the tests of a file."""
    file, _, chosen = name.partition(":")
    suite, file, chosen = {
        "nccl": ("torch", "distributed", "one_process"),
        "jax": ("jax", "budget", chosen),
    }.get(file, ("torch", file, chosen))
    words = [
        "-m",
        "pytest",
        "-c",
        "pyproject.toml",
        "--rootdir",
        f"tests/{suite}",
        "-v",
        "-o",
        "verbosity_test_cases=2",
    ]
    words += ["-p", "no:logging", "--tb=short", f"tests/{suite}/{file}_test.py"]
    return [*words, "-k", chosen] if chosen else words


def place(device: str) -> dict[str, str]:
    """The card, and the versions of what runs on it; without starting CUDA here."""
    card = "CPU"
    if device == "cuda":
        query = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
        card = subprocess.run(query, capture_output=True, text=True).stdout.strip()
    found = {}
    for name in ("torch", "transformers", "torchvision", "jax", "remora"):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found[name] = importlib.metadata.version(name)
    version = HERE.parents[1] / "VERSION"
    commit = version.read_text().strip() if version.exists() else "a working tree"
    return {"card": card, "versions": ", ".join(f"{k} {v}" for k, v in found.items()), "commit": commit}


# -- The page ----------------------------------------------------------------------------------------------------------


def merged(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """A row for each contender of each network, with the seconds of all turns, or of its first runs without any."""
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for row in rows:
        if row["phase"] == "ready":
            found[row["network"], row["contender"]] = {**row, "seconds": [], "provisional": True}
        elif row["phase"] == "error":
            found.setdefault((row["network"], row["contender"]), row)
    for row in rows:
        if row["phase"] == "turn":
            mine = found[row["network"], row["contender"]]
            mine["seconds"] += row["seconds"]
            mine["provisional"] = False
    for row in list(found.values()):
        if row["phase"] == "ready":
            row["seconds"] = row["seconds"] or [row["warm"]]
        if row["contender"] in SAME:
            found.setdefault((row["network"], SAME[row["contender"]]), {**row, "contender": SAME[row["contender"]]})
    return list(found.values())


def above(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Those that exceed their budget without a warning."""
    over = [r for r in rows if r.get("budget") is not None and r["peak"] > r["budget"]]
    return [r for r in over if not any("budget" in w or "promise" in w for w in r["warnings"])]


def checks(rows: list[dict[str, Any]]) -> list[str]:
    """Sentences about what must hold."""
    good = [r for r in rows if r["phase"] == "ready"]
    planned = [r for r in good if r.get("predicted_peak")]
    off = [r["peak"] / r["predicted_peak"] - 1 for r in planned]
    late = [abs(statistics.median(r["seconds"]) / r["predicted_seconds"] - 1) for r in planned]
    over, errors = above(good), [r for r in rows if r["phase"] == "error"]
    name = lambda r: f"{r['network']} {r['contender']}"  # noqa: E731
    said = [f"Above their budget without a warning: {', '.join(map(name, over)) or 'none'}."]
    if planned:
        worst = max(planned, key=lambda r: abs(r["peak"] / r["predicted_peak"] - 1))
        said.append(
            f"Measured peaks are {min(off):+.1%} to {max(off):+.1%} off the predicted ones (worst: {name(worst)})."
        )
        said.append(f"Measured times are {statistics.median(late):.0%} off in the median, {max(late):.0%} at most.")
    return [*said, *(f"{name(r)}: {r['error']}" for r in errors)]


def write_page(folder: Path) -> None:
    loader = importlib.machinery.SourceFileLoader("compare", str(HERE.parent / "pytorch/compare"))
    compare: Any = importlib.util.module_from_spec(importlib.util.spec_from_loader("compare", loader))  # type: ignore[arg-type]
    loader.exec_module(compare)
    told = [json.loads(line) for line in (folder / "rows.jsonl").read_text().splitlines()]
    where = {row["card"]: row for row in told if row["phase"] == "place"}
    rows = merged(told)
    (folder / "runs.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows if row["phase"] == "ready"))
    parts = [
        "# On a GPU\n",
        *(f"{r['card']}; {r['versions']}; Remora at {r['commit']}; {datetime.date.today()}.\n" for r in where.values()),
    ]
    tests = [r for r in told if r["phase"] == "test"]
    lines = [[r["file"], str(r["passed"]), str(r["skipped"]), ", ".join(r["failed"]) or "none",
              "" if r["complete"] else "the time was too short"] for r in tests]  # fmt: skip
    parts += [compare.page.table(["tests", "passed", "skipped", "failed", ""], lines)] if tests else []
    parts += [f"- {said}" for said in (checks(rows) if rows else [])]
    for network in dict.fromkeys(row["network"] for row in rows):
        mine = [r for r in rows if r["network"] == network]
        rival = ["of the others, none smaller and faster", "peak, MiB", "step, ms"]
        head = [*rival, "Remora within that peak", "step, ms", "never above"]
        parts += [
            f"\n## {network}\n",
            *(f"{said}\n" for said in compare.smallest(mine)),
            compare.page.table(head, compare.verdicts(mine)),
        ]
        parts += [compare.rows_table(mine)]
        parts += [f"- {r['contender']}: {w}" for r in mine for w in r.get("warnings", [])]
    left = [f"{r['network']} {r['contender']}" for r in told if r["phase"] == "left"]
    parts += [f"\nNot begun, since the time was over: {', '.join(left)}."] if left else []
    (folder / "README.md").write_text("\n".join(parts) + "\n")


def main() -> None:
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("folder", type=Path)
    words.add_argument("--seconds", type=float, default=240)
    words.add_argument("--only", help="parts of the names of jobs, between commas")
    words.add_argument("--jobs", type=lambda text: text.split(","), default=JOBS, help="others than the usual ones")
    words.add_argument("--device", default="cuda")
    words.add_argument("--rounds", type=int, default=2)
    words.add_argument("--page", action="store_true", help="only writes the page anew")
    given = words.parse_args()
    given.folder = given.folder.resolve()
    given.folder.mkdir(parents=True, exist_ok=True)
    if given.page:
        write_page(given.folder)
    else:
        Driver(given).run()


if __name__ == "__main__":
    main()
