#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""benchmarks/convert: graphs of other programs, and schedules in their forms.   usage: convert_test.py BIN_FOLDER"""
import csv
import json
import os
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
CONVERT = os.path.join(ROOT, "benchmarks", "convert")
REMORA = os.path.join(sys.argv.pop(1), "remora")
# Figure 1 of Kumar et al. 2019, with other costs.
FIGURE_1 = """p remat2
memlimit 300
node 0 deps  cpu 7 mem 100
node 1 deps 0 cpu 2 mem 100
node 2 deps 0 cpu 3 mem 100
node 3 deps 1 2 cpu 4 mem 100
node 4 deps 0 3 cpu 5 mem 100 target
"""
POINTERS = """p remat2 node 0 cpu 1 mem 8 node 1 deps 0 pointer node 2 cpu 1 mem 4 node 3 deps 1 2 pointer
node 4 deps 9 3 cpu 1 mem 2 overhead 7 node 5 deps 4 cpu 1 mem 2 target loss node 7 deps 1 pointer target
node 9 deps 2 2 effectful"""


class Convert(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def path(self, name, text=None):
        path = os.path.join(self.folder, name)
        if text is not None:
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
        return path

    def converted(self, *words):
        done = subprocess.run([CONVERT, *words], capture_output=True, text=True, check=False)
        return done.returncode, done.stdout, done.stderr

    def graph(self, text):
        code, out, error = self.converted(self.path("in", text))
        self.assertEqual((code, error), (0, ""))
        info = subprocess.run([REMORA, "info", self.path("graph.json", out), "-q"], capture_output=True, text=True)
        self.assertEqual(info.returncode, 0, info.stderr)
        return json.loads(out)

    def solved(self, budget):
        subprocess.run([REMORA, "solve", self.path("graph.json"), "-b", budget, "--work-limit", "1000", "-q",
                        "-o", self.path("s.json")], check=True)
        with open(self.path("s.json"), encoding="utf-8") as file:
            return json.load(file)

    def test_remat2_is_solved_to_its_optimum(self):
        graph = self.graph(FIGURE_1)
        self.assertEqual([op["name"] for op in graph["ops"]], list("01234"))
        self.assertEqual(graph["meta"]["memlimit"], 300)
        self.assertEqual(self.solved("300")["duration"], 28, "node 0 twice")

    def test_what_reads_a_pointer_reads_what_it_points_at(self):
        ops = {op["name"]: op for op in self.graph(POINTERS)["ops"]}
        self.assertEqual("".join(ops), "01237945")
        self.assertEqual(ops["4"]["inputs"], ["t0", "t2", "t3", "t9"])
        self.assertEqual(ops["4"]["workspace"], 7)
        self.assertEqual((ops["9"]["recompute"], ops["5"]["recompute"], ops["5"]["phase"]), ("never", "never", "loss"))

    def test_node_link_keeps_order_phase_and_names(self):
        graph = self.graph('{"directed": true, "graph": {"order": [1, 2, 0]}, "nodes": [{"id": 0, "name": "c",'
                           ' "duration": 3.0, "out_cost": 4, "backward": true}, {"id": 1, "name": "a", "duration": 1,'
                           ' "out_cost": 2},'
                           ' {"id": 2, "name": "a", "duration": 1, "out_cost": 2}],'
                           ' "links": [{"0": 1, "1": 0}, {"0": 2, "1": 0}, {"0": 1, "1": 2}]}')
        self.assertEqual([op["name"] for op in graph["ops"]], ["a#0", "a#1", "c#2"])
        self.assertEqual(graph["ops"][2]["inputs"], ["t0", "t1"])
        self.assertEqual(graph["ops"][2]["phase"], "backward")

    def test_published_graphs_are_the_shared_ones(self):
        shared = os.path.join(ROOT, "..", "shared")
        for name in ("vgg16-train", "rl100"):
            source = os.path.join(shared, "node_link", name + ".json")
            if not os.path.exists(source):
                self.skipTest("../shared is absent")
            with open(os.path.join(shared, "instances", name + ".json"), encoding="utf-8") as file:
                expected = json.load(file)
            with open(source, encoding="utf-8") as file:
                graph = self.graph(file.read())
            self.assertEqual([op["duration"] for op in graph["ops"]], [op["duration"] for op in expected["ops"]])
            self.assertEqual([op["inputs"] for op in graph["ops"]], [op["inputs"] for op in expected["ops"]])
            self.assertEqual([t["size"] for t in graph["tensors"]], [t["size"] for t in expected["tensors"]])

    def test_matrices_and_trace_of_a_schedule(self):
        self.graph(FIGURE_1)
        schedule = self.solved("300")
        code, out, _ = self.converted(self.path("graph.json"), "--schedule", self.path("s.json"), "--to", "rs")
        self.assertEqual(code, 0)
        rows = {tuple(row[:2]): "".join(row[2:]) for row in csv.reader(out.splitlines())}
        self.assertEqual([rows["R", str(t)] for t in range(6)], ["10000", "01000", "00100", "00010", "10001", "00000"])
        self.assertEqual([rows["S", str(t)] for t in range(6)], ["00000", "10000", "11000", "01100", "00010", "00001"])
        code, out, _ = self.converted(self.path("graph.json"), "--schedule", self.path("s.json"), "--to", "trace")
        events = json.loads(out)["traceEvents"]
        runs = [event for event in events if event["ph"] == "X"]
        self.assertEqual(sum(event["dur"] for event in runs), schedule["duration"])
        self.assertEqual([event["name"] for event in runs if event["cat"] == "recompute"], ["0"])
        self.assertEqual(max(e["args"]["bytes"] for e in events if e["name"] == "memory"), schedule["peak_memory"])

    def test_bad_input_is_one_line(self):
        cycle = "p remat2 node 0 deps 1 node 1 deps 0"
        for text in ("", "p remat2", "p remat2 node 1 deps 2", "p remat2 node 0 node 0", cycle, "{}", "x",
                     '{"nodes": [{"id": 1, "time": 1.5, "size": 2}], "links": []}'):
            code, out, error = self.converted(self.path("bad", text))
            self.assertEqual((code, out, error.count("\n")), (65, "", 1), text)
        self.assertEqual(self.converted(self.path("bad"), "--to", "rs")[0], 64)


if __name__ == "__main__":
    unittest.main()
