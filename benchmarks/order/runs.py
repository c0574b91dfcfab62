# SPDX-License-Identifier: Apache-2.0
"""What the measurements of orders share: arguments, results that are kept as they come, and medians."""
import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import time

import graphs


def numbers(kind):
    return lambda text: [kind(word) for word in text.split(",")]


def arguments(description, limits):
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bin", help="the folder of remora and remora_zoo")
    parser.add_argument("out", help="the folder of results.jsonl and README.md")
    parser.add_argument("--only", default="", metavar="REGEX", help="only graphs whose name it is found in")
    parser.add_argument("--limits", type=numbers(float), default=limits, metavar="S,...", help="seconds of a run")
    parser.add_argument("--seeds", type=numbers(int), default=[1, 2, 3, 4, 5], metavar="K,...")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--minutes", type=float, default=float("inf"), help="begin no run after so many")
    parser.add_argument("--no-runs", action="store_true", help="only the page, from the results that are there")
    return parser


def execute(words, codes=(0,)):
    """Standard output. Any other exit code ends the script."""
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode not in codes:
        sys.exit(f"{' '.join(words)}: exit {done.returncode}\n{done.stdout[-2000:]}{done.stderr}")
    return done.stdout


def read(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file)


class Results:
    """Lines of results.jsonl; a run whose key is there is not run again."""

    def __init__(self, folder, keys):
        os.makedirs(folder, exist_ok=True)
        self.path, self.keys, self.rows = os.path.join(folder, "results.jsonl"), keys, []
        if os.path.exists(self.path):
            with open(self.path, encoding="utf-8") as file:
                self.rows = [json.loads(line) for line in file if line.endswith("\n")]
            # A line that a killed run left unfinished goes.
            with open(self.path, "w", encoding="utf-8") as file:
                file.writelines(json.dumps(row) + "\n" for row in self.rows)

    def has(self, run):
        return any(all(row[key] == run[key] for key in self.keys) for row in self.rows)

    def add(self, row):
        row["when"] = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        self.rows.append(row)
        with open(self.path, "a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")
        print(json.dumps(row), flush=True)

    def groups(self, *keys):
        """Rows that agree in these keys, in the order of the graphs."""
        order = {name: i for i, name in enumerate(graphs.all_graphs())}
        found = {}
        for row in self.rows:
            found.setdefault(tuple(row[key] for key in keys), []).append(row)
        return sorted(found.items(), key=lambda item: (order.get(item[0][0], len(order)), item[0]))


def measure(options, results, runs, once, folder):
    """Runs what is not there yet: `runs` gives a graph's, `once` (run, the graph's file, folder) a row's figures."""
    begin = time.monotonic()
    program = {"version": version(), "threads": options.threads}
    if any(row[key] != value for row in results.rows for key, value in program.items()):
        sys.exit(f"{results.path} holds results of another program or number of threads than {program}")
    for name, make in graphs.all_graphs().items():
        if not re.search(options.only, name):
            continue
        missing = [run for run in runs(name) if not results.has(run)]
        if not missing:
            continue
        path = os.path.join(folder, name + ".json")
        make(path)
        facts = json.loads(execute(["remora", "info", "--json", "-q", path]))
        for run in missing:
            if time.monotonic() - begin > 60 * options.minutes:
                return
            results.add({**run, **program, "ops": facts["ops"],
                         "input_peak": facts["no_recompute_peak"], "fixed_memory": facts["fixed_memory"],
                         **once(run, path, folder)})


def version():
    return execute(["remora", "--version"]).strip()


def prepare(options):
    os.environ["PATH"] = os.path.abspath(options.bin) + os.pathsep + os.environ["PATH"]


def percent(amount, row):
    """Of the input order's peak above fixed memory, as budgets are."""
    span = row["input_peak"] - row["fixed_memory"]
    return 100 * (amount - row["fixed_memory"]) / span if span > 0 else 100.0


def median(values):
    """With what is missing (None) as worse than everything; None if that is the median."""
    middle = statistics.median_low(sorted(float("inf") if value is None else value for value in values))
    return None if middle == float("inf") else middle


def write_page(folder, title, lines):
    with open(os.path.join(folder, "README.md"), "w", encoding="utf-8") as file:
        file.write("\n".join(["# " + title, "", *lines]) + "\n")
