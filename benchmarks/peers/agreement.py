#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Whether Remora and CP-SAT agree: both solve random layered graphs of 40 to 100 ops with two computes an op.

usage: build/peers/bin/python benchmarks/peers/agreement.py [--graphs N] [-o FILE]

CP-SAT gets the program of moccasin_cpsat.py, which shares nothing with Remora's bounds. `remora verify` replays every schedule.
Where both prove an optimum it must be the same, no lower bound may be above the other's schedule, and what one has a schedule
for the other may not call infeasible. One JSON line a graph. Exit: 0 they agree, 1 they do not, 64 bad usage.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.realpath(__file__))
sys.path.insert(0, os.path.join(HERE, ".."))

from harness.page import contradictions  # noqa: E402
from harness.results import Result  # noqa: E402

BUDGETS = (95, 90, 85, 80)
SMALLEST, LARGEST = 40, 100
INFEASIBLE, NONE_FOUND = 20, 21


def run(command, allowed=(0,)):
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode not in allowed:
        sys.exit(f"{' '.join(command)}: exit {done.returncode}\n{done.stderr}")
    return done


def solved(remora, command, graph, out):
    """What a solver found: status, duration (none without a schedule) and lower bound."""
    done = run([*command, "-o", out], (0, INFEASIBLE, NONE_FOUND))
    with open(out, encoding="utf-8") as file:
        found = json.load(file)
    if done.returncode == 0:
        run([remora, "verify", graph, out])
    has_schedule = done.returncode == 0
    return {"status": found["status"], "duration": found["duration"] if has_schedule else None,
            "lower_bound": found.get("lower_bound", 0)}


def compare(arguments, index, folder):
    ops = SMALLEST + (LARGEST - SMALLEST) * index // max(1, arguments.graphs - 1)
    seed = arguments.first_seed + index
    graph = os.path.join(folder, "graph.json")
    run([arguments.remora, "generate", "layered", "--ops", str(ops), "--seed", str(seed), "-o", graph])
    percent = BUDGETS[index % len(BUDGETS)]
    ours = solved(arguments.remora, [
        arguments.remora, "solve", graph, "--budget", f"{percent}%", "--max-computes", "2", "--threads", "2", "--quiet",
        "--time-limit", str(arguments.time_limit)], graph, os.path.join(folder, "ours.json"))
    with open(os.path.join(folder, "ours.json"), encoding="utf-8") as file:
        budget = json.load(file)["budget"]
    theirs = solved(arguments.remora, [
        sys.executable, os.path.join(HERE, "moccasin_cpsat.py"), graph, "--budget", str(budget), "--max-computes", "2", "--threads", "2",
        "--time-limit", str(arguments.time_limit)], graph, os.path.join(folder, "theirs.json"))
    answers = [Result("layered", f"{percent}%", who, seed, float(arguments.time_limit), 2, status=answer["status"],
                      duration=answer["duration"] or 0, lower_bound=answer["lower_bound"])
               for who, answer in (("remora", ours), ("cpsat", theirs))]
    return {"ops": ops, "seed": seed, "budget": f"{percent}%", "remora": ours, "cpsat": theirs,
            "wrong": "; ".join(contradictions(answers))}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter,
                                     allow_abbrev=False)
    parser.add_argument("--remora", default=os.path.join(HERE, "../../build/release/bin/remora"))
    parser.add_argument("--graphs", type=int, default=50)
    parser.add_argument("--first-seed", type=int, default=1, help="graphs have this seed and the following ones")
    parser.add_argument("--time-limit", default="60", help="seconds of each solver, for each graph")
    parser.add_argument("-o", "--output", help="the lines; standard output without it")
    parser.error = lambda what: sys.exit(print(what, file=sys.stderr) or 64)
    arguments = parser.parse_args()
    settled = ("optimal", "infeasible")
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        out = open(arguments.output, "w", encoding="utf-8") if arguments.output else sys.stdout
        for index in range(arguments.graphs):
            rows.append(compare(arguments, index, folder))
            print(json.dumps(rows[-1]), file=out, flush=True)
    count = lambda who: sum(row[who]["status"] in settled for row in rows)
    both = sum(row["remora"]["status"] in settled and row["cpsat"]["status"] in settled for row in rows)
    wrong = sum(bool(row["wrong"]) for row in rows)
    print(f"{len(rows)} graphs: Remora settled {count('remora')}, CP-SAT {count('cpsat')}, both {both}; contradictions: {wrong}",
          file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
