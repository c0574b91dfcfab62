#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Random functions of linalg ops on tensors, run by mlir-cpu-runner-19 before and after the pass: the same bits.

usage: random_test.py PLUGIN PROGRAMS EXTENSION, or --skip WHY

Environment: REMORA_SEED (1), the first case; REMORA_CASES (20), how many. A case is a function (tests/mlir/random_test.py
itself says how it is drawn), a budget, options, and passes before and after. A function that no budget of that size holds
must be left with an error that says so; anything else is a finding, whose case is printed and kept.
"""

import importlib.machinery
import importlib.util
import os
import re
import subprocess
import tempfile

import plugin_case

LOADER = importlib.machinery.SourceFileLoader("make_network", plugin_case.GENERATOR)
make_network = importlib.util.module_from_spec(importlib.util.spec_from_loader("make_network", LOADER))
LOADER.exec_module(make_network)
kind = make_network.kind
LOWER = os.path.join(plugin_case.ROOT, "examples", "mlir", "lower")
NO_SCHEDULE = ("proved infeasible", "no schedule", "found within the limits", "least budget")


class RandomNetwork(make_network.Network):
    """A graph of any shape: values are read never, once or often, by any later op, written over, and returned twice."""

    def __init__(self, seed):
        super().__init__(seed)
        self.values = [self.argument([8, 6]) for _ in range(1 + self.random.randrange(3))]

    def any(self, shape=None):
        """A value, one of the last ones as a rule."""
        found = [value for value in self.values if shape is None or value[1] == shape]
        return found[-1 - min(int(self.random.expovariate(0.15)), len(found) - 1)]

    def matrix(self):
        return self.any(self.random.choice([value for value in self.values if len(value[1]) == 2])[1])

    def draw(self, count):
        layers = [
            self.one_input,
            self.two_inputs,
            self.two_inputs,
            self.over,
            self.weights,
            self.view,
            self.loop,
            self.reader_of_elements,
            self.constant,
        ]
        for _ in range(count):
            self.values.append(self.random.choice(layers)())
        returned = [self.any() for _ in range(1 + self.random.randrange(3))]
        return returned + ([self.values[0]] if self.random.random() < 0.2 else [])

    def one_input(self):
        value = self.matrix()
        layers = [self.activation, self.centred, self.split, self.transposed]
        return self.random.choice(layers + ([self.swapped] if value[1][0] % 2 == 0 else []))(value)

    def two_inputs(self):
        value = self.matrix()
        return self.mix(value, self.any(value[1]))

    def over(self):
        """Written over another value, which others may still read."""
        value = self.matrix()
        return self.accumulate(value, self.any(value[1]))

    def weights(self):
        return self.product(self.matrix(), self.random.choice([4, 6]))

    def view(self):
        """Collapsed and expanded again, with an op between."""
        value = self.matrix()
        flat = self.reshape(value, [value[1][0] * value[1][1]], "[[0, 1]]")
        return self.reshape(self.activation(flat), value[1], "[[0, 1]]")

    def constant(self):
        value, name = self.matrix(), self.name()
        self.line(f"{name} = arith.constant dense<{self.random.randrange(1, 9)}.5> : {kind(value[1])}")
        return self.mix(value, (name, value[1]))

    def loop(self):
        """A value that goes round, and one from outside that the body reads."""
        value, name = self.matrix(), self.name()
        other, shape = self.any(value[1])[0], kind(value[1])
        low, high, step, result = (self.name() for _ in range(4))
        for constant, number in ((low, 0), (high, 1 + self.random.randrange(3)), (step, 1)):
            self.line(f"{constant} = arith.constant {number} : index")
        self.line(f"{name} = scf.for %i = {low} to {high} step {step} iter_args(%s = {value[0]}) -> ({shape}) {{")
        self.line(f"  {result} = linalg.add ins(%s, {other} : {shape}, {shape}) outs(%s : {shape}) -> {shape}")
        self.line(f"  scf.yield {result} : {shape}")
        self.line("}")
        return name, value[1]

    def reader_of_elements(self):
        """An op whose body reads single elements of a tensor from outside."""
        value = self.matrix()
        other, (rows, columns) = self.any(value[1])[0], value[1]
        return self.generic(
            [value],
            value[1],
            [make_network.identity(2)] * 2,
            ["parallel"] * 2,
            [
                "%i = linalg.index 0 : index",
                "%j = linalg.index 1 : index",
                f"%rows = arith.constant {rows - 1} : index",
                "%k = arith.subi %rows, %i : index",
                f"%p = tensor.extract {other}[%k, %j] : {kind([rows, columns])}",
                "%half = arith.constant 0.25 : f32",
                "%q = arith.mulf %p, %half : f32",
                "%r = arith.addf %in0, %q : f32",
            ],
        )


class Random(plugin_case.PluginCase):
    def run_lowered(self, name, *before):
        lowered = self.path(name + ".lowered.mlir")
        subprocess.run([LOWER, self.path("input.mlir"), lowered, *before], check=True, capture_output=True, text=True)
        done = subprocess.run(
            [
                "mlir-cpu-runner-19",
                lowered,
                "-e",
                "main",
                "-entry-point-result=void",
                "-O0",
                "-shared-libs=" + self.library(),
            ],
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout

    @staticmethod
    def library():
        runner = subprocess.run(["which", "mlir-cpu-runner-19"], capture_output=True, text=True, check=True).stdout
        folder = os.path.dirname(os.path.dirname(os.path.realpath(runner.strip())))
        return os.path.join(folder, "lib", "libmlir_c_runner_utils.so")

    def draw(self, seed, budget):
        """Writes input.mlir. The options of the pass, and what comes before and after it."""
        network = RandomNetwork(seed)
        choose = network.random
        results = network.draw(6 + choose.randrange(25))
        with open(self.path("input.mlir"), "w", encoding="utf-8") as file:
            make_network.write(network, results, file)
        drawn = choose.randrange(60, 101)
        options = [
            f"memory-budget={budget or f'{drawn}%'}",
            f"work-limit={choose.choice([20, 200, 1000])}",
            "time-limit=60",
            "threads=1",
            f"seed={choose.randrange(100)}",
            f"report={self.path('report')}",
        ]
        if choose.random() < 0.3:
            options.append("order=free")
        if choose.random() < 0.4:
            options.append(f"max-computes={choose.randrange(1, 5)}")
        if choose.random() < 0.3:
            options.append(f"arena=true alignment={choose.choice([1, 16, 64])}")
        before = choose.choice(["", "", "cse", "canonicalize,cse"])
        after = choose.choice(["", "cse", "canonicalize,cse,canonicalize"])
        return " ".join(options), before, after

    def fault_of(self, seed, budget=""):
        """(what is wrong, whether something was recomputed, whether there was no schedule). Where the search finds none within
        the budget drawn, it is tried again with the least peak that it found."""
        options, before, after = self.draw(seed, budget)
        passes = [*filter(None, [before]), f"remora-rematerialize{{{options}}}", *filter(None, [after])]
        pipeline = f"func.func({','.join(passes)})"
        plain = self.run_lowered("plain")
        judged = self.optimize(pipeline)
        if judged.code != 0:
            errors = judged.lines("error")
            named = len(errors) == 1 and any(word in errors[0] for word in NO_SCHEDULE)
            least = re.search(r"least peak was (\d+)", errors[0]) if named else None
            if least and budget != least[1]:
                return self.fault_of(seed, least[1])
            return "" if named else f"exit {judged.code}: {judged.err.strip()}", False, True
        self.verify_reports()
        with_pass = self.run_lowered("rematerialized", pipeline, "--load-pass-plugin=" + self.plugin)
        return (
            "" if with_pass == plain else f"{options}: {plain.split()} and {with_pass.split()}",
            "remora.copy" in judged.out,
            False,
        )

    def test_bits_are_equal(self):
        first, count = int(os.environ.get("REMORA_SEED", "1")), int(os.environ.get("REMORA_CASES", "20"))
        recomputed = refused = 0
        faults = []
        for seed in range(first, first + count):
            with tempfile.TemporaryDirectory() as self.folder:
                try:
                    fault, again, none = self.fault_of(seed)
                except subprocess.CalledProcessError as error:
                    fault, again, none = f"{error.cmd[0]}: {error.stderr}", False, False
            recomputed, refused = recomputed + again, refused + none
            if fault:
                print(f"REMORA_SEED={seed} REMORA_CASES=1: {fault}", flush=True)
                faults.append(seed)
        print(f"{count} functions: {recomputed} recompute, {refused} have no schedule", flush=True)
        self.assertEqual(faults, [])
        self.assertTrue(count < 20 or recomputed > count // 10)


if __name__ == "__main__":
    plugin_case.main()
