# SPDX-License-Identifier: Apache-2.0
"""What it takes to build a graph of 100,000 ops from Python, beside what the program takes to read it as JSON.

And what a solve takes from Python, beside the program's.

usage: build_graph.py REMORA [OPS]

CPU seconds, the best of three. `remora convert` reads and checks the graph, and writes it to nowhere; both solves are
of the same 400 ops and work limit, by one thread, with every callback on from Python.
"""

from __future__ import annotations

import random
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import remora

RUNS = 3
SOLVED_OPS = 400
SOLVE = {"budget": "95%", "work_limit": 20000, "threads": 1}
NEAR = 50
INPUTS = 3


def chosen_inputs(ops: int) -> list[list[int]]:
    """Of each op, up to three of the fifty before it."""
    generator = random.Random(1)
    return [sorted({generator.randrange(max(0, op - NEAR), op) for _ in range(min(INPUTS, op))}) for op in range(ops)]


def build(inputs: list[list[int]]) -> remora.Graph:
    graph = remora.Graph("large")
    outputs: list[remora.Tensor] = []
    for number, read in enumerate(inputs):
        op = graph.op(
            f"op{number}",
            type="Conv",
            duration=10,
            inputs=[outputs[before] for before in read],
            outputs={f"tensor{number}": 1000},
        )
        outputs.append(op.output)
    return graph


def seconds_of_program(program: str, *words: str | Path) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([program, *map(str, words), "-o", "/dev/null", "-q"], check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def seconds_of_call(graph: remora.Graph) -> float:
    begun = time.process_time()
    remora.solve(graph, **SOLVE, on_incumbent=lambda _: None, progress=lambda _: None)
    return time.process_time() - begun


def main() -> None:
    program = sys.argv[1]
    inputs = chosen_inputs(int(sys.argv[2]) if len(sys.argv) > 2 else 100_000)
    built = []
    for _ in range(RUNS):
        begun = time.process_time()
        graph = build(inputs)
        built.append(time.process_time() - begun)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "graph.json"
        graph.save(file)
        read = min(seconds_of_program(program, "convert", file) for _ in range(RUNS))
        megabytes = file.stat().st_size / 1e6
        small = build(inputs[:SOLVED_OPS])
        small.save(file)
        words = [f"--{name.replace('_', '-')}={value}" for name, value in SOLVE.items()]
        solved = min(seconds_of_program(program, "solve", file, *words) for _ in range(RUNS))
        called = min(seconds_of_call(small) for _ in range(RUNS))
    print(
        f"built in {min(built):.2f} s, {megabytes:.1f} MB of JSON read in {read:.2f} s: {min(built) / read:.2f} times\n"
        f"solved in {called:.2f} s, by the program in {solved:.2f} s"
    )


if __name__ == "__main__":
    main()
