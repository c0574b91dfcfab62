#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Random graphs with lanes: `remora verify` and benchmarks/lanes/verify.py replay schedules, and spoiled ones, alike.

usage: lanes_verify_test.py REMORA VERIFY [CASES]
"""

import importlib.machinery
import importlib.util
import json
import os
import random
import re
import subprocess
import sys
import tempfile

KINDS = ("all_gather", "reduce_scatter", "all_reduce", "all_to_all", "broadcast", "send", "reduce")


def module_at(path):
    loader = importlib.machinery.SourceFileLoader("verify_lanes", path)
    spec = importlib.util.spec_from_loader("verify_lanes", loader)
    module = importlib.util.module_from_spec(spec)
    sys.dont_write_bytecode = True
    loader.exec_module(module)
    return module


def random_graph(draw):
    lanes = [f"lane{i}" for i in range(draw.randint(2, 4))]
    devices = [{"name": "gpu", "lanes": lanes, "fixed_memory": draw.choice([0, 3])}]
    graph = {"format": "remora-graph", "version": 3, "name": "random", "devices": devices, "tensors": [], "ops": []}
    if draw.random() < 0.5:
        graph["recompute_allocates"] = "all"
    if draw.random() < 0.5:
        devices.append({"name": "host"})
        graph["links"] = [
            {"from": a, "to": b, "latency": draw.randint(0, 2), "bytes": draw.randint(1, 3), "per": 1}
            for a, b in (("gpu", "host"), ("host", "gpu"))
        ]
    graph["collectives"] = [{"kind": KINDS[0], "group": 2, "times": [[2, 1], [5, 4], [9, 13]]}]
    for kind in KINDS:
        row = {"kind": kind, "latency": draw.randint(0, 3), "bytes": draw.randint(1, 3), "per": draw.randint(0, 3)}
        graph["collectives"].append(row)
    graph["tensors"].append({"name": "x", "size": 2})
    if "links" in graph and draw.random() < 0.5:
        graph["tensors"][0]["home"] = draw.choice([["host"], ["gpu"], ["host", "gpu"]])
    made = ["x"]
    for v in range(draw.randint(8, 40)):
        inputs = sorted({draw.choice(made[-8:]) for _ in range(draw.randint(0, 3))})
        op = {"name": f"op{v}", "inputs": inputs, "outputs": [f"t{v}"]}
        size = draw.randint(0, 9)
        if draw.random() < 0.3:
            group = draw.choice([1, 2, 8])
            op["collective"] = {"kind": draw.choice(KINDS), "bytes": draw.randint(0, 12), "group": group}
        else:
            op["duration"] = draw.randint(0, 9)
        if draw.random() < 0.7:
            op["lane"] = draw.choice(lanes)
        if draw.random() < 0.2:
            op["workspace"] = draw.randint(1, 4)
        if v > 0 and draw.random() < 0.1:
            op["after"] = [f"op{draw.randrange(v)}"]
        if draw.random() < 0.1:
            op["recompute"] = "never"
        if op["inputs"] and draw.random() < 0.3:
            op["in_place"] = [[f"t{v}", op["inputs"][0]]]
        tensor = {"name": f"t{v}", "size": size, "keep": draw.random() < 0.1}
        if tensor["keep"] and "links" in graph and draw.random() < 0.5:
            tensor["home"] = draw.choice(["host", "gpu"])
        graph["tensors"].append(tensor)
        graph["ops"].append(op)
        made.append(f"t{v}")
    return graph


def spoiled(schedule, draw):
    """The schedule with something changed that may break it."""
    changed = json.loads(json.dumps(schedule))
    steps = changed["steps"]
    how = draw.randrange(4)
    if how == 0:
        i = draw.randrange(max(1, len(steps) - 1))
        steps[i : i + 2] = steps[i : i + 2][::-1]
        changed["order"] = "free"
    elif how == 1 and changed["budget"]:
        changed["budget"]["gpu"] = max(0, changed["budget"]["gpu"] - draw.randint(1, 5))
    elif how == 2:
        changed["budget"] = {}
    else:
        i = draw.randrange(len(steps))
        if steps[i]["free"]:
            steps[i]["free"].pop()
        else:
            steps.insert(i, steps[draw.randrange(len(steps))])
    return changed


def write(path, value):
    with open(path, "w", encoding="utf-8") as file:
        json.dump(value, file)


class Comparison:
    def __init__(self, remora, lanes):
        self.remora, self.lanes = remora, lanes
        self.valid = self.invalid = 0

    def ask(self, *words):
        return subprocess.run([self.remora, *words], capture_output=True, text=True, check=False)

    def compare(self, graph, schedule, what):
        """With the figures that the script finds."""
        found = self.lanes.Replay(graph, schedule).result()
        schedule = {**schedule, **{key: found[key] for key in ("duration", "energy", "peak_memory")}}
        mine = self.lanes.Replay(graph, schedule).result()
        write("schedule.json", schedule)
        told = self.ask("verify", "graph.json", "schedule.json")
        assert told.returncode in (0, 65), f"{what}: {told.stderr}"
        theirs = json.loads(told.stdout)
        assert mine["valid"] == theirs["valid"], f"{what}: {mine['errors']} against {theirs['errors']}"
        if not mine["valid"]:
            self.invalid += 1
            return
        self.valid += 1
        for key in ("duration", "energy", "peak_memory"):
            assert mine[key] == theirs[key], f"{what}: {key} {mine[key]} against {theirs[key]}"

    def page(self):
        """The graph with two devices that docs/reference/formats.md shows, and its schedules: sequential and overlapping."""
        with open(
            os.path.join(os.path.dirname(self.lanes.__file__), "../../docs/reference/formats.md"), encoding="utf-8"
        ) as file:
            blocks = re.findall(r"^```json\n(.*?)^```", file.read(), re.MULTILINE | re.DOTALL)
        graph, schedule = (json.loads(block) for block in blocks if '"two-devices"' in block)
        write("graph.json", graph)
        self.compare(graph, schedule, "the page's schedule")
        for copies in ("sequential", "overlap"):
            asked = self.ask("solve", "graph.json", "-b", "gpu=6", "--copies", copies, "-q", "-o", "found.json")
            assert asked.returncode == 0, asked.stderr
            with open("found.json", encoding="utf-8") as file:
                self.compare(graph, json.load(file), copies)

    def case(self, seed):
        draw = random.Random(seed)
        graph = random_graph(draw)
        write("graph.json", graph)
        words = ["--work-limit", "60", "--seed", str(seed), "--quiet", "-o", "found.json"]
        enough = str(sum(tensor["size"] for tensor in graph["tensors"]) + 10)
        free = self.ask("solve", "graph.json", "--budget", "gpu=" + enough, *words)
        assert free.returncode == 0, f"seed {seed}: {free.stderr}"
        with open("found.json", encoding="utf-8") as file:
            found = json.load(file)
        self.compare(graph, found, f"seed {seed}, enough memory")
        budget = found["peak_memory"]["gpu"] * draw.randint(50, 100) // 100
        tight = self.ask("solve", "graph.json", "--budget", f"gpu={budget}", *words)
        if tight.returncode == 0:
            with open("found.json", encoding="utf-8") as file:
                found = json.load(file)
            self.compare(graph, found, f"seed {seed}, {budget} bytes")
        for change in range(4):
            self.compare(graph, spoiled(found, draw), f"seed {seed}, {budget} bytes, change {change}")


def main(arguments):
    remora, script = (os.path.abspath(path) for path in arguments[:2])
    cases = int(arguments[2]) if len(arguments) > 2 else 1000 if "REMORA_ALL_CASES" in os.environ else 40
    comparison = Comparison(remora, module_at(script))
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        comparison.page()
        for seed in range(cases):
            comparison.case(seed)
            if seed % 100 == 99:
                print(f"{seed + 1} graphs: {comparison.valid} schedules valid, {comparison.invalid} not", flush=True)
        os.chdir(os.path.dirname(script))
    print(f"{cases} graphs: {comparison.valid} schedules valid, {comparison.invalid} not, both ways")
    return 0 if comparison.valid >= cases and comparison.invalid >= cases // 2 else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
