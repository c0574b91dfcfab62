#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests of moccasin_cpsat.py against brute force; run by hand in the environment of `setup`.

usage: build/peers/bin/python benchmarks/peers/moccasin_cpsat_test.py

The brute force tries every choice of recompute stages in the staged form (formats/schedule.md) and replays it by the
format's rules; it shares no code with the formulation. Every schedule is replayed by the same rules.
"""
import contextlib
import io
import itertools
import json
import os
import random
import subprocess
import sys
import tempfile
import unittest

import moccasin_cpsat

PROGRAM = moccasin_cpsat.__file__
FIGURE_1 = {"format": "remora-graph", "version": 1, "name": "figure-1",
            "tensors": [{"name": name, "size": 1, "keep": name == "e"} for name in "abcde"],
            "ops": [{"name": "A", "duration": 1, "inputs": [], "outputs": ["a"]},
                    {"name": "B", "duration": 1, "inputs": ["a"], "outputs": ["b"]},
                    {"name": "C", "duration": 1, "inputs": ["a"], "outputs": ["c"]},
                    {"name": "D", "duration": 1, "inputs": ["b", "c"], "outputs": ["d"]},
                    {"name": "E", "duration": 1, "inputs": ["a", "d"], "outputs": ["e"]}]}


def run(graph, budget, max_computes=2):
    """The program's exit code and schedule."""
    with tempfile.TemporaryDirectory() as folder:
        source, output = os.path.join(folder, "graph.json"), os.path.join(folder, "schedule.json")
        with open(source, "w", encoding="utf-8") as file:
            json.dump(graph, file)
        code = subprocess.run([sys.executable, PROGRAM, source, "--budget", str(budget), "--time-limit", "60",
                               "--threads", "2", "--max-computes", str(max_computes), "-o", output],
                              check=False).returncode
        with open(output, encoding="utf-8") as file:
            return code, json.load(file)


def replay(graph, schedule):
    """(duration, peak) of a schedule, by the rules of formats/schedule.md; an error if it breaks one."""
    sizes = {tensor["name"]: tensor["size"] for tensor in graph["tensors"]}
    ops = {op["name"]: op for op in graph["ops"]}
    resident = set(sizes) - {name for op in graph["ops"] for name in op["outputs"]}
    inputs, computed, duration, peak = frozenset(resident), [], 0, 0
    for step in schedule["steps"]:
        op = ops[step["op"]]
        assert resident.issuperset(op["inputs"]) and set(op.get("after", [])) <= set(computed)
        computed.append(step["op"])
        resident.update(op["outputs"])
        duration += op["duration"]
        memory = graph.get("fixed_memory", 0) + sum(sizes[name] for name in resident) + op.get("workspace", 0)
        peak = max(peak, memory)
        assert resident.issuperset(step["free"]) and not inputs & set(step["free"])
        resident.difference_update(step["free"])
    assert set(computed) == set(ops)
    assert all(tensor["name"] in resident for tensor in graph["tensors"] if tensor.get("keep"))
    for name, op in ops.items():
        assert computed.count(name) <= (1 if op.get("recompute") == "never" else op.get("max_computes", len(computed)))
    return duration, peak


def released_early(graph, sequence):
    """The steps of a sequence of ops: a tensor leaves after its last reader before its next compute."""
    keep = {tensor["name"] for tensor in graph["tensors"] if tensor.get("keep")}
    steps = [{"op": op["name"], "free": []} for op in sequence]
    for i, op in enumerate(sequence):
        for name in op["outputs"]:
            last, again = i, False
            for j in range(i + 1, len(sequence)):
                if name in sequence[j]["inputs"]:
                    last = j
                again = name in sequence[j]["outputs"]
                if again:
                    break
            if again or name not in keep:
                steps[last]["free"].append(name)
    return steps


def sequences(graph, max_computes):
    """Every sequence of the staged form: any set of later stages for each op, at most its limit of computes."""
    ops = graph["ops"]

    def choices(index):
        limit = min(max_computes, ops[index].get("max_computes", max_computes))
        limit = 1 if ops[index].get("recompute") == "never" else limit
        later = range(index + 1, len(ops) + 1)  # the last of them holds recomputes only
        return [stages for count in range(limit) for stages in itertools.combinations(later, count)]

    for chosen in itertools.product(*(choices(index) for index in range(len(ops)))):
        yield [ops[index] for stage in range(len(ops) + 1) for index in range(len(ops))
               if index == stage or stage in chosen[index]]


def brute_force(graph, max_computes):
    """The (duration, peak) of every sequence."""
    return [replay(graph, {"steps": released_early(graph, sequence)}) for sequence in sequences(graph, max_computes)]


def random_graph(generator):
    """Three to five ops with all that the format has: several outputs, workspace, keep, inputs, limits, after."""
    graph = {"format": "remora-graph", "version": 1, "name": "random", "fixed_memory": generator.choice([0, 3]),
             "tensors": [{"name": "x", "size": generator.randint(0, 2)}], "ops": []}
    for i in range(generator.choice([3, 4, 5, 5, 5])):
        produced = [tensor["name"] for tensor in graph["tensors"]]
        inputs = generator.sample(produced, min(len(produced), generator.randint(0 if i == 0 else 1, 3)))
        outputs = [f"t{i}.{j}" for j in range(generator.choice([1, 1, 2]))]
        op = {"name": f"op{i}", "duration": generator.randint(0, 9), "workspace": generator.choice([0, 0, 2]),
              "inputs": inputs, "outputs": outputs, "recompute": generator.choice(["allowed"] * 7 + ["never"])}
        if generator.random() < 0.2:
            op["max_computes"] = generator.randint(1, 3)
        if i > 0 and generator.random() < 0.2:
            op["after"] = [f"op{generator.randrange(i)}"]
        graph["tensors"] += [{"name": name, "size": generator.randint(1, 6), "keep": generator.random() < 0.2}
                             for name in outputs]
        graph["ops"].append(op)
    return graph


class Figure1Test(unittest.TestCase):
    """The five-op graph of formats/graph.md."""

    def test_three_units_of_memory_cost_one_recompute(self):
        code, schedule = run(FIGURE_1, 3)
        self.assertEqual((code, schedule["status"]), (0, "optimal"))
        self.assertEqual((schedule["duration"], schedule["lower_bound"]), (6, 6))
        self.assertEqual(replay(FIGURE_1, schedule), (6, 3))
        self.assertEqual([step["op"] for step in schedule["steps"]], list("ABCDAE"))

    def test_four_units_of_memory_cost_none(self):
        code, schedule = run(FIGURE_1, 4)
        self.assertEqual((code, schedule["status"], schedule["duration"]), (0, "optimal", 5))
        self.assertEqual(replay(FIGURE_1, schedule)[0], 5)

    def test_without_recompute_three_units_do_not_do(self):
        code, schedule = run(FIGURE_1, 3, max_computes=1)
        self.assertEqual((code, schedule["status"], schedule["steps"]), (20, "infeasible", []))

    def test_two_units_are_infeasible_and_the_op_that_does_not_fit_is_named(self):
        code, schedule = run(FIGURE_1, 2)
        self.assertEqual((code, schedule["status"]), (20, "infeasible"))
        self.assertEqual(schedule["certificate"], {"op": "D", "required": 3, "tensors": ["b", "c", "d"]})


class BruteForceTest(unittest.TestCase):
    """Random graphs: the optimum and infeasibility at the least peak of any sequence, below it, and halfway up."""

    def check(self, graph, budget, max_computes, everything):
        """One solve; tells whether an optimum needs a recompute."""
        shortest = min((duration for duration, peak in everything if peak <= budget), default=None)
        code, schedule = run(graph, budget, max_computes)
        if shortest is None:
            self.assertEqual((code, schedule["status"]), (20, "infeasible"))
            return False
        self.assertEqual((code, schedule["status"], schedule["duration"], schedule["lower_bound"]),
                         (0, "optimal", shortest, shortest))
        duration, peak = replay(graph, schedule)
        self.assertEqual((duration, peak), (schedule["duration"], schedule["peak_memory"]))
        self.assertLessEqual(peak, budget)
        return shortest > schedule["baseline_duration"]

    def test_optimum_and_infeasibility_are_those_of_brute_force(self):
        with_recompute = infeasible = 0
        for seed in range(40):
            generator = random.Random(seed)
            graph, max_computes = random_graph(generator), generator.choice([2, 2, 2, 3])
            everything = brute_force(graph, max_computes)
            peaks = sorted({peak for _, peak in everything})
            lowest = peaks[0]
            for budget in {lowest - 1, lowest, peaks[len(peaks) // 2]}:
                with self.subTest(seed=seed, budget=budget, max_computes=max_computes, graph=graph):
                    with_recompute += self.check(graph, budget, max_computes, everything)
                    infeasible += budget < lowest
        # The draws must reach what is to be tested.
        self.assertGreater(with_recompute, 10)
        self.assertEqual(infeasible, 40)


class InputTest(unittest.TestCase):
    """What is refused, and how."""

    def code_and_message(self, text, *options):
        """The program's exit code and standard error for a file of this text."""
        with tempfile.TemporaryDirectory() as folder:
            source = os.path.join(folder, "graph.json")
            with open(source, "w", encoding="utf-8") as file:
                file.write(text)
            ended = subprocess.run([sys.executable, PROGRAM, source, *options], check=False, capture_output=True,
                                   text=True)
            return ended.returncode, ended.stderr

    def test_a_graph_with_an_unknown_tensor_is_bad_input_with_its_path(self):
        graph = json.loads(json.dumps(FIGURE_1))
        graph["ops"][1]["inputs"] = ["z"]
        code, message = self.code_and_message(json.dumps(graph), "--budget", "3")
        self.assertEqual(code, 65)
        self.assertIn("$.ops[1].inputs[0]: 'z' is not known", message)
        self.assertEqual(self.code_and_message("{", "--budget", "3")[0], 65)

    def test_sizes_whose_sums_pass_64_bits_are_refused_rather_than_solved(self):
        graph = json.loads(json.dumps(FIGURE_1))
        for i, tensor in enumerate(graph["tensors"]):
            tensor["size"] = 2**62 - i
        code, message = self.code_and_message(json.dumps(graph), "--budget", str(2**63 - 1))
        self.assertEqual(code, 65)
        self.assertIn("64 bits", message)

    def test_a_budget_that_is_no_integer_is_a_usage_error(self):
        for budget in ("80%", "-1", "1.5"):
            self.assertEqual(self.code_and_message(json.dumps(FIGURE_1), f"--budget={budget}")[0], 64)
        with contextlib.redirect_stderr(io.StringIO()), self.assertRaises(SystemExit) as ended:
            moccasin_cpsat.parsed(["graph.json"])
        self.assertEqual(ended.exception.code, 64)


if __name__ == "__main__":
    unittest.main()
