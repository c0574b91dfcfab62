#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Rewritten models in onnxruntime: they pass onnx.checker, run in the order of the file, and give what the original gives.

usage: rewrite_test.py BIN_FOLDER ENVIRONMENT

ENVIRONMENT is what tests/onnxruntime/setup makes; without it the test is skipped (exit 77). It installs nothing.
"""

import json
import os
import random
import sys
import tempfile
import unittest

SKIPPED = 77
SHARED = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..", "shared", "onnx")
# Bytes of weights: the tests of larger models take minutes.
LARGE = 2**26
SMALL = {
    "resnet18": ["--size", "32"],
    "regnet": ["--size", "32", "--depths", "1,2,1,1"],
    "unet": ["--size", "32"],
    "gpt2": "--layers 2 --width 32 --heads 4 --sequence 12 --vocabulary 40".split(),
    "transformer": "--encoder-layers 1 --decoder-layers 2 --width 32 --heads 4 --ff 64 --source 8 --target 6 "
    "--vocabulary 40".split(),
    "mlp-mixer": "--layers 2 --size 64".split(),
}


def unread(path):
    """How many nodes there are whose results nobody reads."""
    graph = onnx.load(path).graph
    read = {name for node in graph.node for name in node.input} | {output.name for output in graph.output}
    return sum(not read.intersection(node.output) for node in graph.node)


class Rewriting(unittest.TestCase):
    """A folder for models, and what has to hold of every rewritten one."""

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def rewrite(self, model, *words, output="rewritten.onnx", code=0):
        got, said = remora(BINARIES, "remora", "rewrite", model, "-q", "-o", self.path(output), *words)
        self.assertEqual(got, code, said)
        return self.path(output)

    def check(self, original, written):
        """Returns the number of recomputes."""
        onnx.checker.check_model(written, full_check=True)
        for order in ("PRIORITY_BASED", "DEFAULT"):
            for seed in (1, 2):
                self.assertTrue(same(results(original, seed), results(written, seed, order)), (written, order))
        self.assertLessEqual(unread(written), unread(original))
        # Shapes may come earlier, constants are no nodes, and unnamed nodes get a name from onnxruntime.
        nodes = onnx.load(written).graph.node
        free = {node.name for node in nodes if node.op_type in ("Constant", "Shape", "Size")}
        in_file = [node.name for node in nodes if node.name and node.name not in free]
        known = set(in_file)
        self.assertEqual([name for name in executed(written) if name in known], in_file)
        return len(nodes) - len(onnx.load(original).graph.node)

    def rewrite_and_check(self, original, budgets, *words):
        """Returns the number of recomputes; a budget that nothing holds counts none. `words`: more options."""
        recomputes = 0
        for budget in budgets:
            code, said = remora(
                BINARIES,
                "remora",
                "rewrite",
                original,
                "--budget",
                budget,
                "-q",
                "-o",
                self.path("out.onnx"),
                "--threads",
                "1",
                *(words or ["--work-limit", "20000"]),
            )
            self.assertIn(code, (0, 20, 21), said)
            if code == 0:
                recomputes += self.check(original, self.path("out.onnx"))
        return recomputes


class Networks(Rewriting):
    def test_random_networks(self):
        recomputes = 0
        for seed in range(12):
            original = self.path(f"network{seed}.onnx")
            onnx.save(models.Network(seed, 35).model(), original)
            recomputes += self.rewrite_and_check(original, ["90%", "75%", "60%"])
        self.assertGreater(recomputes, 20)

    def test_networks_in_any_order_with_any_recomputes(self):
        recomputes = 0
        for seed in range(8):
            original = self.path("network.onnx")
            onnx.save(models.Network(100 + seed, 25).model(), original)
            schedule = self.path("schedule.json")
            code, said = remora(
                BINARIES, "remora", "solve", original, "-b", "200%", "--strategy", "none", "-q", "-o", schedule
            )
            self.assertEqual(code, 0, said)
            recomputes += self.check(
                original, self.rewrite(original, "--schedule", self.scramble(schedule, original, seed))
            )
        # Most of these are read by nobody, and left out.
        self.assertGreater(recomputes, 5)

    def order(self, model):
        """The model in an order of small peak, which must be the one told; and whether that is smaller."""
        written = self.path("ordered.onnx")
        found = told(BINARIES, "order", model, "-q", "--json", "--work-limit", "20000", "-o", written)
        self.assertEqual(told(BINARIES, "info", "--json", "-q", written)["no_recompute_peak"], found["peak_memory"])
        return written, found["peak_memory"] < found["input_peak_memory"]

    def test_networks_in_an_order_of_small_peak(self):
        smaller = 0
        for seed in range(12):
            original = self.path(f"network{seed}.onnx")
            onnx.save(models.Network(200 + seed, 35).model(), original)
            written, better = self.order(original)
            self.assertEqual(self.check(original, written), 0)
            smaller += better
        self.assertGreater(smaller, 0)

    def test_networks_in_free_order(self):
        for seed in range(6):
            original = self.path(f"network{seed}.onnx")
            onnx.save(models.Network(300 + seed, 35).model(), original)
            self.rewrite_and_check(original, ["80%", "65%"], "--order", "free", "--work-limit", "20000")

    def test_a_shape_of_another_branch(self):
        """What reads the shape comes later, whatever the order: wide branches first, and one that needs their shape."""
        nodes = [helper.make_node("MatMul", ["x", "w"], [f"a{k}"], f"A{k}") for k in range(4)]
        nodes += [helper.make_node("ReduceMean", [f"a{k}"], [f"b{k}"], f"B{k}", axes=[1]) for k in range(4)]
        nodes += [
            helper.make_node("Shape", ["a3"], ["s"], "S"),
            helper.make_node("Exp", ["x"], ["e"], "E"),
            helper.make_node("Gather", ["s", "zero"], ["rows"], "G"),
            helper.make_node("Concat", ["rows", "rest"], ["target"], "T", axis=0),
            helper.make_node("Reshape", ["e", "target"], ["v"], "V"),
            helper.make_node("Tanh", ["v"], ["u"], "U"),
            helper.make_node("Sum", [f"b{k}" for k in range(4)] + ["u"], ["y"], "Y"),
        ]
        weights = [
            numpy_helper.from_array(np.linspace(-1, 1, 1600, dtype=np.float32).reshape(4, 400), "w"),
            numpy_helper.from_array(np.array([0]), "zero"),
            numpy_helper.from_array(np.array([-1]), "rest"),
        ]
        original = self.path("shapes.onnx")
        onnx.save(models.finish(nodes, [models.image("x", [4, 4])], [models.image("y", [4, 4])], weights), original)
        written, better = self.order(original)
        self.assertTrue(better)
        self.assertEqual(self.check(original, written), 0)

    def scramble(self, schedule, original, seed):
        """A schedule in a random order with random recomputes, nothing released before its last use."""
        graph_path = self.path("graph.json")
        remora(BINARIES, "remora", "convert", original, "-o", graph_path)
        with open(graph_path, encoding="utf-8") as file:
            graph = json.load(file)
        with open(schedule, encoding="utf-8") as file:
            answer = json.load(file)
        steps = scrambled(graph, random.Random(seed), in_order=seed % 2 == 0)
        answer["steps"], answer["order"] = [{"op": op, "free": []} for op in steps], "free"
        durations = {op["name"]: op["duration"] for op in graph["ops"]}
        # Nothing is released: all tensors are resident in the end.
        answer["peak_memory"] = graph["fixed_memory"] + sum(tensor["size"] for tensor in graph["tensors"])
        answer["duration"] = sum(durations[op] for op in steps)
        answer["budget"] = answer["peak_memory"]
        answer["solver"]["limits"]["max_computes"] = 1000
        with open(schedule, "w", encoding="utf-8") as file:
            json.dump(answer, file)
        return schedule

    def test_zoo(self):
        recomputes = 0
        for name, words in SMALL.items():
            with self.subTest(name):
                original = self.path(name + ".onnx")
                code, said = remora(BINARIES, "remora_zoo", name, *words, "-o", original)
                self.assertEqual(code, 0, said)
                onnx.save(models.with_random_weights(onnx.load(original)), original)
                recomputes += self.rewrite_and_check(original, ["99%", "95%", "90%", "80%"])
        self.assertGreater(recomputes, 0)

    def test_symbolic_batch(self):
        original = self.path("gpt2.onnx")
        code, said = remora(BINARIES, "remora_zoo", "gpt2", *SMALL["gpt2"], "--symbolic-batch", "-o", original)
        self.assertEqual(code, 0, said)
        onnx.save(models.with_random_weights(onnx.load(original)), original)
        self.rewrite_and_check(original, ["100%", "93%"], "--dim", "batch=2", "--work-limit", "20000")

    def test_shared_models(self):
        original = os.path.join(SHARED, "light_densenet121.onnx")
        if not os.path.exists(original):
            self.skipTest(original + " is not there")
        randomized = self.path("densenet.onnx")
        onnx.save(models.with_random_weights(onnx.load(original)), randomized)
        self.assertGreater(self.rewrite_and_check(randomized, ["97%"]), 0)


def scrambled(graph, draw, in_order):
    produced = {tensor for op in graph["ops"] for tensor in op["outputs"]}
    waiting, steps, again = list(graph["ops"]), [], []
    done = {tensor["name"] for tensor in graph["tensors"]} - produced
    while waiting:
        if again and draw.random() < 0.3:
            steps.append(draw.choice(again))
            continue
        ready = waiting[:1] if in_order else [op for op in waiting if done.issuperset(op["inputs"])]
        op = draw.choice(ready)
        waiting.remove(op)
        steps.append(op["name"])
        done.update(op["outputs"])
        if op.get("recompute") != "never":
            again.append(op["name"])
    return steps


class Surroundings(Rewriting):
    """What stands beside the nodes."""

    def small(self, **more):
        nodes = [
            helper.make_node("Mul", ["x", "w"], ["a"], "A"),
            helper.make_node("Exp", ["a"], ["b"], "B"),
            helper.make_node("Tanh", ["b"], ["c"], "C"),
            helper.make_node("Add", ["a", "c"], ["y"], "D"),
        ]
        weight = numpy_helper.from_array(np.arange(4096, dtype=np.float32) / 4096, "w")
        return models.finish(nodes, [models.image("x", [4096])], [models.image("y", [4096])], [weight], **more)

    def schedule(self, original):
        """A runs again before D; what is resident at once stays three tensors beside x."""
        path = self.path("schedule.json")
        code, said = remora(
            BINARIES, "remora", "solve", original, "-b", "300%", *self.UNIT, "--strategy", "none", "-q", "-o", path
        )
        self.assertEqual(code, 0, said)
        with open(path, encoding="utf-8") as file:
            answer = json.load(file)
        steps = [("A", []), ("B", ["a"]), ("C", ["b"]), ("A", []), ("D", ["c"])]
        answer.update(steps=[{"op": op, "free": free} for op, free in steps], order="free", duration=len(steps))
        with open(path, "w", encoding="utf-8") as file:
            json.dump(answer, file)
        return path

    UNIT = ["--cost", "unit"]

    def test_external_data_is_found(self):
        original = self.path("model.onnx")
        onnx.save_model(self.small(), original, save_as_external_data=True, location="weights.bin", size_threshold=0)
        words = ["--schedule", self.schedule(original), *self.UNIT]
        self.assertEqual(self.check(original, self.rewrite(original, *words)), 1)
        # From a folder above, the place is adapted; from a folder beside, no place would do.
        for folder in ("inner", "beside"):
            os.mkdir(self.path(folder))
        for name in ("model.onnx", "weights.bin"):
            os.rename(self.path(name), self.path("inner/" + name))
        moved = self.path("inner/model.onnx")
        self.assertEqual(self.check(moved, self.rewrite(moved, *words)), 1)
        code, said = remora(BINARIES, "remora", "rewrite", moved, "-q", "-o", self.path("beside/out.onnx"), *words)
        self.assertEqual(code, 65)
        self.assertIn("model.onnx: initializer w: has its data in", said)
        self.assertTrue(said.endswith("write the model next to the one it is made from\n"), said)
        self.assertEqual(os.listdir(self.path("beside")), [])

    def test_functions_are_written_inline(self):
        original = self.path("model.onnx")
        opsets = [helper.make_opsetid("", models.OPSET)]
        body = [helper.make_node("Mul", ["p", "q"], ["t"]), helper.make_node("Relu", ["t"], ["r"])]
        function = helper.make_function("own", "Scaled", ["p", "q"], ["r"], body, opsets)
        nodes = [
            helper.make_node("Scaled", ["x", "w"], ["a"], "first", domain="own"),
            helper.make_node("Scaled", ["a", "x"], ["y"], "second", domain="own"),
        ]
        weight = numpy_helper.from_array(np.arange(8, dtype=np.float32), "w")
        graph = helper.make_graph(nodes, "g", [models.image("x", [8])], [models.image("y", [8])], [weight])
        model = helper.make_model(
            graph, functions=[function], ir_version=8, opset_imports=opsets + [helper.make_opsetid("own", 1)]
        )
        onnx.save(model, original)
        written = self.rewrite(original, "-b", "100%", "--strategy", "none")
        onnx.checker.check_model(written, full_check=True)
        self.assertTrue(same(results(original, 1), results(written, 1)))
        self.assertEqual([node.op_type for node in onnx.load(written).graph.node], ["Mul", "Relu"] * 2)

    def test_a_body_that_serves_no_output_stays(self):
        original = self.path("model.onnx")
        model = self.small()
        branch = helper.make_graph(
            [helper.make_node("Mul", ["a", "b"], ["inner"])], "branch", [], [models.image("inner", [4096])]
        )
        model.graph.node.append(
            helper.make_node("If", ["yes"], ["unused"], "I", then_branch=branch, else_branch=branch)
        )
        model.graph.initializer.append(numpy_helper.from_array(np.array(True), "yes"))
        model.graph.output.append(models.image("a", [4096]))
        onnx.checker.check_model(model, full_check=True)
        onnx.save(model, original)
        written = self.rewrite(original, "--schedule", self.schedule(original), *self.UNIT)
        self.assertEqual(self.check(original, written), 1)


class Checking(Rewriting):
    """remora rewrite --check: outputs are equal, and the measured peak is below the original's or is said not to be."""

    MARGIN = 2**20

    def checked(self, model, *words):
        """Whether it says that the peak is below; None where no tried budget has a schedule."""
        for budget in ("70%", "80%", "90%", "95%"):
            code, said = remora(
                BINARIES,
                "remora",
                "rewrite",
                model,
                "-b",
                budget,
                "--threads",
                "1",
                "--work-limit",
                "3000",
                "-o",
                self.path("out.onnx"),
                "--check",
                "--python",
                sys.executable,
                *words,
            )
            self.assertIn(code, (0, 20, 21), said)
            if code == 0:
                self.assertIn("outputs bitwise equal", said)
                self.assertRegex(said, r"it is (NOT|NOT measurably|[0-9.]+ [KMG]?i?B) below")
                return "it is NOT" not in said
        return None

    def lowest(self, path, shapes):
        return min(memory_of_run(path, reuse=reuse, shapes=shapes) for reuse in (False, True))

    def files(self):
        """What is there of small models, with random weights, then networks in which recomputing pays: name, model."""
        for folder in (os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "data", "onnx"), SHARED):
            if not os.path.isdir(folder):
                print(f"skipped: {folder} is not there")
                continue
            for name in sorted(name for name in os.listdir(folder) if name.endswith(".onnx")):
                model = models.with_random_weights(onnx.load(os.path.join(folder, name)))
                if model.ByteSize() <= LARGE or "REMORA_ALL_CASES" in os.environ:
                    yield name, model
        for seed in range(6):
            yield f"network{seed}.onnx", models.Network(seed, 30, channels=8, size=256).model()

    def test_every_model_is_told_truly(self):
        below, above = [], []
        for name, model in self.files():
            onnx.save(model, self.path(name))
            symbolic = any(size.dim_param for one in model.graph.input for size in one.type.tensor_type.shape.dim)
            with self.subTest(model=name):
                said = self.checked(self.path(name), *(["--dim", "batch=32"] if symbolic else []))
                if said is None:
                    continue
                shapes = (
                    {
                        one.name: [size.dim_value or 32 for size in one.type.tensor_type.shape.dim]
                        for one in model.graph.input
                    }
                    if symbolic
                    else None
                )
                saved = self.lowest(self.path(name), shapes) - self.lowest(self.path("out.onnx"), shapes)
                self.assertGreater(self.MARGIN + (saved if said else -saved), 0)
                (below if said else above).append(name)
        print(f"measured below the original: {', '.join(below)}; not below: {', '.join(above)}")
        self.assertGreater(len(below), 2)

    def test_a_difference_that_is_too_small_to_be_measured_is_none(self):
        original = self.path("small.onnx")
        onnx.save(models.Network(1, 6).model(), original)
        words = ["-b", "100%", "-q", "-o", self.path("out.onnx"), "--check", "--python", sys.executable]
        code, said = remora(BINARIES, "remora", "rewrite", original, *words)
        self.assertEqual(code, 0, said)
        self.assertIn("it is NOT measurably below", said)

    def test_what_cannot_be_checked_is_refused_before_the_search(self):
        original = self.path("small.onnx")
        onnx.save(models.Network(1, 6).model(), original)
        cases = [
            (["--check", "--python", "/nowhere/python"], 65, "cannot be run"),
            (["--check", "--training"], 64, "--training gives a schedule"),
            (["--check", "--python", "/bin/false"], 65, "says nothing"),
        ]
        for words, code, said in cases:
            got = remora(
                BINARIES, "remora", "rewrite", original, "-b", "80%", "-q", "-o", self.path("out.onnx"), *words
            )
            self.assertEqual(got[0], code, got[1])
            self.assertIn(said, got[1])
            self.assertFalse(os.path.exists(self.path("out.onnx")))
        for words in (["-o", "-", "--check"], ["-o", self.path("out.onnx"), "--python", sys.executable]):
            code, said = remora(BINARIES, "remora", "rewrite", original, "-b", "80%", "-q", *words)
            self.assertEqual(code, 64, said)

    def test_different_outputs_are_told_apart(self):
        original, other = self.path("original.onnx"), self.path("other.onnx")
        for path, kind in ((original, "Relu"), (other, "Abs")):
            node = helper.make_node(kind, ["x"], ["y"])
            onnx.save(models.finish([node], [models.image("x", [64])], [models.image("y", [64])]), path)
        differ = compared(original, other, {})["differ"]
        self.assertEqual(list(differ), ["y"])
        self.assertTrue(differ["y"]["repeats"])
        self.assertGreater(differ["y"]["farthest"], 0)

    def test_different_outputs_are_an_error(self):
        """Unless the original's differ, too; a Python says so."""
        original, python = self.path("original.onnx"), self.path("python")
        onnx.save(models.Network(1, 6).model(), original)
        for repeats, expected in (("true", 65), ("false", 0)):
            with open(python, "w", encoding="utf-8") as script:
                script.write(f"""#!/bin/sh
echo noise
echo '{{"version": "0", "differ": {{"y": {{"farthest": 0.5, "repeats": {repeats}}}}}, "memory": {{}}}}'""")
            os.chmod(python, 0o755)
            code, said = remora(
                BINARIES,
                "remora",
                "rewrite",
                original,
                "-b",
                "100%",
                "-o",
                self.path("out.onnx"),
                "--check",
                "--python",
                python,
            )
            self.assertEqual(code, expected, said)
            self.assertIn("outputs DIFFER", said)
            last = (
                "out.onnx: output y differs by 0.5 at most from that of"
                if expected
                else "output y differs by 0.5 at most; the original's own differs from run to run"
            )
            self.assertIn(last, said)

    def test_what_differs_from_run_to_run_is_told(self):
        """onnxruntime draws by a node's place in the file."""
        nodes = [helper.make_node("RandomNormalLike", ["x"], ["z"], "R"), helper.make_node("Relu", ["x"], ["y"], "S")]
        outputs = [models.image("z", [64]), models.image("y", [64])]
        for name, order in (("one", nodes), ("other", nodes[::-1])):
            onnx.save(models.finish(order, [models.image("x", [64])], outputs), self.path(name))
        differ = compared(self.path("one"), self.path("other"), {})["differ"]
        self.assertEqual(list(differ), ["z"])
        self.assertFalse(differ["z"]["repeats"])


class Optimizations(Rewriting):
    """What docs/guide/rewrite.md says of the settings, for the pinned version."""

    def setUp(self):
        super().setUp()
        self.original, self.written = self.path("network.onnx"), self.path("out.onnx")
        onnx.save(models.Network(4, 40).model(), self.original)
        self.assertGreater(self.rewrite_and_check(self.original, ["75%"]), 0)

    def heavy(self, path, level, disabled=None):
        """The Convs that are left once onnxruntime has optimised the model."""
        options = settings()
        options.graph_optimization_level = level
        options.optimized_model_filepath = self.path("optimized.onnx")
        session(path, options, disabled)
        nodes = onnx.load(options.optimized_model_filepath).graph.node
        return sum(node.op_type in ("Conv", "FusedConv") for node in nodes)

    def test_only_common_subexpressions_undo_it(self):
        with_copies = self.heavy(self.written, LEVELS.ORT_DISABLE_ALL)
        self.assertGreater(with_copies, self.heavy(self.original, LEVELS.ORT_DISABLE_ALL))
        for level in (LEVELS.ORT_ENABLE_BASIC, LEVELS.ORT_ENABLE_EXTENDED, LEVELS.ORT_ENABLE_ALL):
            self.assertEqual(self.heavy(self.written, level), self.heavy(self.original, level))
            self.assertEqual(self.heavy(self.written, level, ["CommonSubexpressionElimination"]), with_copies)

    def test_a_recompute_without_reuse_needs_less_memory(self):
        """As much less as the schedule says: 12.25 MiB."""
        original = self.path("regnet.onnx")
        code, said = remora(BINARIES, "remora_zoo", "regnet", "--batch", "8", "-o", original)
        self.assertEqual(code, 0, said)
        fitted = self.rewrite(original, "-b", "88%", "--threads", "1", "--work-limit", "20000")
        self.assertGreater(memory_of_run(original, reuse=False) - memory_of_run(fitted, reuse=False), 10 * 2**20)

    def test_the_order_of_the_file_needs_less_memory(self):
        large = self.path("large.onnx")
        onnx.save(models.Network(2, 40, channels=8, size=512).model(), large)
        fitted = self.rewrite(large, "-b", "70%", "--threads", "1", "--work-limit", "20000")
        # The schedule saves 23 MiB of 64; convolutions need memory of their own in either.
        self.assertGreater(memory_of_run(large) - memory_of_run(fitted), 12 * 2**20)


if __name__ == "__main__":
    if len(sys.argv) < 3:
        print(__doc__, file=sys.stderr)
        sys.exit(64)
    BINARIES, ENVIRONMENT = sys.argv[1:3]
    PYTHON = os.path.join(ENVIRONMENT, "bin", "python")
    if not os.path.exists(PYTHON):
        print(f"skipped: {ENVIRONMENT} is not there; tests/onnxruntime/setup makes it")
        sys.exit(SKIPPED)
    if os.path.realpath(sys.prefix) != os.path.realpath(ENVIRONMENT):
        os.execv(PYTHON, [PYTHON, *sys.argv])
    sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "examples", "rewrite_onnx"))
    import numpy as np
    import onnx
    import onnxruntime
    from onnx import helper, numpy_helper

    import models
    from runtime import compared, memory_of_run, results, same, session, settings
    from running import executed, remora, told

    LEVELS = onnxruntime.GraphOptimizationLevel

    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
