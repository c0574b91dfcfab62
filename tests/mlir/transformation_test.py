#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What remora-rematerialize makes of functions: the same results, within the budget, everything else untouched."""

import re
from collections import Counter

import plugin_case
from buffers import peak_bytes
from plugin_case import DEALLOCATED, fewer
from symbols import read_ops

HEAD = "#same = affine_map<(i, j) -> (i, j)>\n"
MAKERS = ("tensor.empty", "tensor.pad", "tensor.insert_slice")
KIND = "tensor<64x64xf32>"


def unary(name, source, kind=KIND, op="exp", size=""):
    return (
        f"  %e_{name} = tensor.empty({size}) : {kind}\n"
        f"  %{name} = linalg.{op} ins({source} : {kind}) outs(%e_{name} : {kind}) -> {kind}\n"
    )


def binary(name, left, right):
    return (
        f"  %e_{name} = tensor.empty() : {KIND}\n"
        f"  %{name} = linalg.add ins({left}, {right} : {KIND}, {KIND}) outs(%e_{name} : {KIND}) -> {KIND}\n"
    )


# The first two layers' outputs are read again at the end; a tensor has 16384 bytes.
SKIPS = (
    HEAD
    + f"func.func @network(%x: {KIND}) -> {KIND} {{\n"
    + unary("a", "%x")
    + unary("b", "%a")
    + unary("c", "%b")
    + unary("d", "%c")
    + unary("f", "%d")
    + binary("g", "%f", "%b")
    + binary("h", "%g", "%a")
    + f"  return %h : {KIND}\n}}\n"
)


class Transformation(plugin_case.PluginCase):
    def ops(self, text, function="network"):
        return read_ops(text, function)

    def original(self, before=""):
        return self.ops(self.optimize(f"func.func({before})" if before else "").out)

    def check_same(self, before, after):
        """The same results from the same computations, ops with effects in the same order."""
        self.assertEqual(before[-1].symbol, after[-1].symbol)
        self.assertEqual({op.symbol for op in before}, {op.symbol for op in after})
        effects = [[op.symbol for op in ops if "call" in op.name or op.name == "scf.for"] for ops in (before, after)]
        self.assertEqual(*effects)

    def check_schedule(self, after):
        """As many computes of each op as the schedule says."""
        steps = Counter(step["op"].rsplit(".", 1)[0] for step in self.schedule()["steps"])
        computes = Counter(op.name for op in after)
        for name, count in steps.items():
            if name.startswith("linalg.") and name != "linalg.fill":
                self.assertEqual(count, computes[name], name)

    def check_memory(self, module, limit=None):
        """Bufferized, the function takes what the schedule promises, to the byte."""
        self.write(module)
        peak = peak_bytes(self.optimize(DEALLOCATED).out, "network")
        self.assertEqual(peak, self.schedule()["peak_memory"])
        self.assertLessEqual(peak, self.schedule()["budget"])

    @staticmethod
    def reads(op, value):
        return re.search(re.escape(value) + r"\b", op.text) is not None

    def tensor_ops(self, module):
        """How often there is each kind of op that makes a tensor; constants and slices may be merged."""
        names = Counter(op.name for op in self.ops(module))
        return {name: count for name, count in names.items() if name.startswith("linalg.") or name in MAKERS}

    def test_networks_compute_the_same_in_the_memory_that_the_schedule_promises(self):
        cases = [("chain", "60%", 2), ("unet", "86%", 2), ("random", "60%", 6)]
        for family, budget, seeds in cases:
            for seed in range(1, fewer(seeds) + 1):
                with self.subTest(family=family, seed=seed):
                    self.network(family, "--size", "1", "--seed", str(seed))
                    before = self.original()
                    answer = self.rematerialize("memory-budget=" + budget)
                    self.assertEqual(answer.code, 0, answer.err)
                    after = self.ops(answer.out)
                    self.check_same(before, after)
                    self.check_schedule(after)
                    self.assertGreater(len(self.schedule()["steps"]), len(self.graph()["ops"]))
                    self.check_memory(answer.out)

    def test_first_computes_keep_the_input_order(self):
        self.network("random", "--size", "1", "--seed", "3")
        before = [op.symbol for op in self.original() if op.name.startswith("linalg.") and op.name != "linalg.fill"]
        after = [op.symbol for op in self.ops(self.rematerialize("memory-budget=60%").out)]
        firsts = sorted(set(before), key=after.index)
        self.assertEqual(firsts, sorted(set(before), key=before.index))

    def test_networks_in_free_order_compute_the_same_in_the_memory_promised(self):
        for family, budget, seeds in (("random", "60%", 3), ("unet", "86%", 1)):
            for seed in range(1, fewer(seeds) + 1):
                with self.subTest(family=family, seed=seed):
                    self.network(family, "--size", "1", "--seed", str(seed))
                    before = self.original()
                    answer = self.rematerialize(f"order=free memory-budget={budget}")
                    self.assertEqual(answer.code, 0, answer.err)
                    self.assertEqual(self.schedule()["order"], "free")
                    self.check_same(before, self.ops(answer.out))
                    self.check_memory(answer.out)

    def test_destinations_shared_after_cse_are_told_apart(self):
        self.network("random", "--size", "1", "--seed", "2")
        before = self.original("cse")
        answer = self.rematerialize("memory-budget=60%", before="cse")
        self.check_same(before, self.ops(answer.out))
        self.check_memory(answer.out)

    def test_layers_that_add_to_what_they_read(self):
        for seed in range(1, fewer(3) + 1):
            with self.subTest(seed=seed):
                self.network("random", "--size", "1", "--seed", str(seed), "--accumulate")
                before = self.original()
                answer = self.rematerialize("memory-budget=75%")
                self.check_same(before, self.ops(answer.out))
                self.write(answer.out)
                peak = peak_bytes(self.optimize(DEALLOCATED).out, "network")
                self.assertLessEqual(peak, self.schedule()["peak_memory"])

    def test_cse_keeps_the_copies(self):
        for family, budget in (("chain", "60%"), ("random", "60%"), ("unet", "86%")):
            with self.subTest(family=family):
                self.network(family, "--size", "1", "--seed", "4")
                answer = self.rematerialize("memory-budget=" + budget)
                self.assertGreater(max(Counter(op.symbol for op in self.ops(answer.out)).values()), 1)
                merged = self.rematerialize("memory-budget=" + budget, after="cse,cse")
                self.assertEqual(self.tensor_ops(answer.out), self.tensor_ops(merged.out))
                self.check_memory(merged.out)

    def test_without_the_marks_cse_would_merge_them(self):
        self.write(SKIPS)
        answer = self.rematerialize("memory-budget=64KiB")
        unmarked = self.write(re.sub(r" \{remora\.copy = \d+ : i64\}", "", answer.out))
        self.assertTrue(unmarked)
        merged = self.optimize("func.func(cse)")
        self.assertLess(merged.out.count("linalg.exp"), answer.out.count("linalg.exp"))

    def test_canonicalize_keeps_the_copies(self):
        self.network("random", "--size", "1", "--seed", "1")
        answer = self.rematerialize("memory-budget=60%")
        folded = self.rematerialize("memory-budget=60%", after="canonicalize,cse,canonicalize")
        self.assertEqual(self.tensor_ops(answer.out), self.tensor_ops(folded.out))

    def test_the_last_use_reads_the_copy(self):
        self.write(SKIPS)
        answer = self.rematerialize("memory-budget=64KiB")
        ops = self.ops(answer.out)
        copies = [op for op in ops if op.marked and op.name == "linalg.exp"]
        self.assertTrue(copies, answer.out)
        for copy in copies:
            first = next(op for op in ops if op.symbol == copy.symbol)
            at = ops.index(copy)
            self.assertFalse(first.marked)
            self.assertTrue(any(self.reads(op, copy.results[0]) for op in ops[at + 1 :]))
            self.assertFalse(any(self.reads(op, first.results[0]) for op in ops[at + 1 :]))
        self.check_memory(answer.out)

    def test_a_second_run_tells_its_copies_from_those_of_the_first(self):
        self.write(SKIPS)
        first = self.rematerialize("memory-budget=64KiB")
        self.write(first.out)
        second = self.rematerialize("memory-budget=64KiB max-computes=3", after="cse")
        self.assertEqual(second.code, 0, second.err)
        self.check_same(self.ops(first.out), self.ops(second.out))
        self.check_memory(second.out)

    def test_a_budget_that_holds_leaves_every_byte_as_it_was(self):
        for family in ("chain", "unet", "random"):
            with self.subTest(family=family):
                self.network(family, "--size", "1")
                self.assertEqual(self.rematerialize("memory-budget=100%").out, self.optimize("").out)

    def test_a_budget_that_holds_gives_each_unit_its_destinations_all_the_same(self):
        lines = SKIPS.splitlines(keepends=True)
        empties = [line for line in lines if "tensor.empty" in line]
        self.write("".join(lines[:2] + empties + [line for line in lines[2:] if "tensor.empty" not in line]))
        self.check_same_within_the_prediction()
        self.network("unet", "--size", "1", "--seed", "3")
        self.check_same_within_the_prediction("canonicalize,cse")

    def check_same_within_the_prediction(self, passes=""):
        before = self.original(passes)
        answer = self.rematerialize("memory-budget=100%", before=passes)
        self.assertEqual(answer.code, 0, answer.err)
        self.check_same(before, self.ops(answer.out))
        self.check_memory(answer.out)
        self.write(answer.out)
        self.assertEqual(self.rematerialize("memory-budget=100%").out, answer.out)

    def test_slices_of_what_is_written_in_place_have_bytes(self):
        half = "tensor<32x64xf32>"
        self.write(
            f"func.func @network(%x: {KIND}) -> {KIND} {{\n"
            + f"  %s = tensor.extract_slice %x[16, 0] [32, 64] [1, 1] : {KIND} to {half}\n"
            + f"  %i = linalg.exp ins(%x : {KIND}) outs(%x : {KIND}) -> {KIND}\n"
            + unary("a", "%i")
            + unary("b", "%a")
            + binary("c", "%b", "%a")
            + unary("d", "%c")
            + f"  %r = tensor.insert_slice %s into %d[0, 0] [32, 64] [1, 1] : {half} into {KIND}\n"
            + f"  return %r : {KIND}\n}}\n"
        )
        answer = self.rematerialize("memory-budget=100%")
        self.assertEqual(answer.code, 0, answer.err)
        self.write(answer.out)
        self.assertLessEqual(peak_bytes(self.optimize(DEALLOCATED).out, "network"), self.schedule()["peak_memory"])

    def test_alloc_tensor_is_as_good_as_an_empty_tensor(self):
        self.write(SKIPS.replace("tensor.empty()", "bufferization.alloc_tensor()"))
        answer = self.rematerialize("memory-budget=64KiB", after="cse")
        self.assertEqual(answer.code, 0, answer.err)
        self.assertIn("remora.copy", answer.out)
        self.assertEqual([line for line in answer.lines("remark") if "left alone" in line], [])
        self.check_memory(answer.out)

    def test_slices_that_must_be_copied_to_be_collapsed_have_bytes(self):
        rows, columns, flat = "tensor<32x64xf32>", "tensor<64x32xf32>", "tensor<2048xf32>"
        cases = [
            (f"[32, 0] [32, 64] [1, 1] : {KIND} to {rows}", rows, ["linalg.exp", "linalg.exp"]),
            (
                f"[0, 32] [64, 32] [1, 1] : {KIND} to {columns}",
                columns,
                ["linalg.exp", "tensor.collapse_shape", "linalg.exp"],
            ),
        ]
        for where, part, ops in cases:
            with self.subTest(part=part):
                self.write(
                    f"func.func @network(%x: {KIND}) -> {flat} {{\n"
                    + unary("a", "%x")
                    + f"  %s = tensor.extract_slice %a{where}\n"
                    + f"  %c = tensor.collapse_shape %s [[0, 1]] : {part} into {flat}\n"
                    + unary("b", "%c", flat)
                    + f"  return %b : {flat}\n}}\n"
                )
                answer = self.rematerialize("memory-budget=100%")
                self.assertEqual([op["type"] for op in self.graph()["ops"]], ops)
                self.check_memory(answer.out)

    def test_what_is_returned_is_kept_and_arguments_and_constants_count_throughout(self):
        self.write(
            HEAD
            + f"func.func @network(%x: {KIND}, %unread: {KIND}) -> ({KIND}, {KIND}, tensor<4096xf32>) {{\n"
            + f"  %w = arith.constant dense<2.0> : {KIND}\n"
            + unary("a", "%x")
            + binary("b", "%a", "%w")
            + f"  %v = tensor.collapse_shape %b [[0, 1]] : {KIND} into tensor<4096xf32>\n"
            + f"  return %x, %a, %v : {KIND}, {KIND}, tensor<4096xf32>\n}}\n"
        )
        self.assertEqual(self.rematerialize("memory-budget=100%").code, 0)
        tensors = self.graph()["tensors"]
        self.assertEqual([tensor["size"] for tensor in tensors], [16384] * 5)
        self.assertEqual([bool(tensor.get("keep")) for tensor in tensors], [False] * 3 + [True] * 2)
        self.assertEqual([op["type"] for op in self.graph()["ops"]], ["linalg.exp", "linalg.add"])
        self.assertEqual(self.schedule()["baseline_peak_memory"], 5 * 16384)

    def test_what_it_cannot_judge_is_left_alone_with_a_remark(self):
        dynamic = "tensor<?x64xf32>"
        self.write(
            HEAD
            + f"func.func private @effect({KIND}) -> {KIND}\n"
            + f"func.func @network(%x: {KIND}, %y: {dynamic}, %n: index) -> ({KIND}, {KIND}, {dynamic}) {{\n"
            + "  %zero = arith.constant 0 : index\n  %one = arith.constant 1 : index\n"
            + unary("a", "%x")
            + f"  %k1 = func.call @effect(%a) : ({KIND}) -> {KIND}\n"
            + unary("b", "%k1")
            + f"  %e_l = tensor.empty() : {KIND}\n"
            f"  %l = scf.for %i = %zero to %n step %one iter_args(%s = %e_l) -> ({KIND}) {{\n"
            + f"    %t = linalg.exp ins(%a : {KIND}) outs(%s : {KIND}) -> {KIND}\n"
            f"    scf.yield %t : {KIND}\n  }}\n"
            + unary("dyn", "%y", dynamic, size="%n")
            + f"  %u = tosa.exp %b : ({KIND}) -> {KIND}\n"
            + unary("c", "%u")
            + unary("d", "%c")
            + binary("f", "%d", "%b")
            + binary("g", "%f", "%a")
            + f"  %k2 = func.call @effect(%g) : ({KIND}) -> {KIND}\n"
            + binary("h", "%k2", "%l")
            + f"  return %h, %g, %dyn : {KIND}, {KIND}, {dynamic}\n}}\n"
        )
        before = self.original()
        answer = self.rematerialize("memory-budget=112KiB")
        self.assertEqual(answer.code, 0, answer.err)
        after = self.ops(answer.out)
        self.check_same(before, after)
        left = [
            "func.call: side effects",
            "scf.for: a region",
            "linalg.exp: a tensor of dynamic shape",
            "tosa.exp: an op of unknown cost",
            "func.call: side effects",
        ]
        remarks = [line for line in answer.lines("remark") if "left alone" in line]
        self.assertEqual(len(remarks), len(left), remarks)
        for words, remark in zip(left, remarks):
            self.assertIn("left alone: " + words, remark)
        computes = Counter(op.symbol for op in after)
        alone = [computes[op.symbol] for op in before if op.name in ("func.call", "call", "scf.for", "tosa.exp")]
        self.assertEqual(alone, [1] * 4)
        self.assertGreater(max(computes.values()), 1)

    def test_bodies_that_read_tensors_from_outside_read_the_right_copy(self):
        gather = (
            f"  %e_q = tensor.empty() : {KIND}\n  %q = linalg.generic {{indexing_maps = [#same, #same], "
            f'iterator_types = ["parallel", "parallel"]}} ins(%g : {KIND}) outs(%e_q : {KIND}) {{\n'
            "  ^bb0(%in: f32, %out: f32):\n    %i = linalg.index 0 : index\n    %j = linalg.index 1 : index\n"
            f"    %p = tensor.extract %a[%j, %i] : {KIND}\n    %r = arith.addf %in, %p : f32\n"
            f"    linalg.yield %r : f32\n"
            f"  }} -> {KIND}\n"
        )
        loop = (
            f"  %l = scf.for %k = %zero to %n step %one iter_args(%s = %g) -> ({KIND}) {{\n"
            f"    %t = linalg.add ins(%a, %s : {KIND}, {KIND}) outs(%s : {KIND}) -> {KIND}\n"
            f"    scf.yield %t : {KIND}\n  }}\n"
        )
        for name, text in (("%q", gather), ("%l", loop)):
            with self.subTest(reader=name):
                self.write(
                    HEAD
                    + f"func.func @network(%x: {KIND}, %n: index) -> {KIND} {{\n"
                    + "  %zero = arith.constant 0 : index\n  %one = arith.constant 1 : index\n"
                    + unary("a", "%x")
                    + unary("b", "%a")
                    + unary("c", "%b")
                    + unary("d", "%c")
                    + unary("f", "%d")
                    + binary("g", "%f", "%b")
                    + text
                    + f"  return {name} : {KIND}\n}}\n"
                )
                before = self.original("cse")
                answer = self.rematerialize("memory-budget=64KiB", after="cse")
                self.assertEqual(answer.code, 0, answer.err)
                after = self.ops(answer.out)
                self.check_same(before, after)
                self.assertGreater(len(after), len(before))

    def test_an_empty_function_and_one_without_a_budget_to_hold(self):
        self.write(f"func.func @network(%x: {KIND}) -> {KIND} {{\n  return %x : {KIND}\n}}\n")
        self.assertEqual(self.rematerialize("memory-budget=1").out, self.optimize("").out)

    def test_functions_of_several_blocks_and_without_tensors_are_untouched(self):
        self.write(
            "func.func private @outside(tensor<4xf32>)\n"
            + f"func.func @blocks(%x: {KIND}, %c: i1) -> {KIND} {{\n"
            + unary("a", "%x")
            + f"  cf.cond_br %c, ^left, ^right\n^left:\n  return %a : {KIND}\n^right:\n"
            f"  return %x : {KIND}\n}}\n"
            + "func.func @scalars(%x: i32) -> i32 {\n  %y = arith.addi %x, %x : i32\n  return %y : i32\n}\n"
            "func.func @effects() {\n  func.call @effects() : () -> ()\n  return\n}\n"
        )
        answer = self.rematerialize("memory-budget=1")
        self.assertEqual(answer.out, self.optimize("").out)
        self.assertEqual(answer.lines("remark"), ["remora: left alone: @blocks: a body of several blocks"])

    def test_marks_of_others_do_not_make_its_own_overflow(self):
        strange = 2**63 - 1
        self.write(SKIPS.replace("= tensor.empty()", f"= tensor.empty() {{remora.copy = {strange} : i64}}", 1))
        answer = self.rematerialize("memory-budget=64KiB", after="cse")
        self.assertEqual(answer.code, 0, answer.err)
        marks = [int(mark) for mark in re.findall(r"remora\.copy = (-?\d+)", answer.out)]
        self.assertGreater(min(marks), 0)
        self.assertEqual(len(marks), len(set(marks)))
        self.check_memory(answer.out)

    def test_functions_without_a_tensor_that_it_can_size_are_left_alone_with_a_remark(self):
        for kind, size in (("tensor<?xf32>", "%n"), ("tensor<4611686018427387904xf32>", "")):
            with self.subTest(kind=kind):
                self.write(
                    f"func.func @network(%x: {kind}, %n: index) -> {kind} {{\n"
                    + unary("a", "%x", kind, size=size)
                    + f"  return %a : {kind}\n}}\n"
                )
                answer = self.rematerialize("memory-budget=1")
                self.assertEqual(answer.out, self.optimize("").out)
                self.assertEqual(len(answer.lines("remark")), 1, answer.err)
                self.assertIn("left alone: linalg.exp: a tensor of dynamic shape", answer.lines("remark")[0])

    def test_functions_of_more_than_64_bits_of_bytes_or_work_are_left_alone_with_a_remark(self):
        large, costly = "tensor<1152921504606846000xf16>", "{remora.cost = 4000000000000000000 : i64} "
        for module in (
            f"func.func @network(%x: {large}, %y: {large}) -> {large} {{\n"
            + unary("a", "%x", large)
            + f"  return %a : {large}\n}}\n",
            SKIPS.replace("linalg.exp ins", f"linalg.exp {costly}ins"),
        ):
            with self.subTest(module=module):
                self.write(module)
                answer = self.rematerialize("memory-budget=100%")
                self.assertEqual(answer.out, self.optimize("").out)
                self.assertEqual(answer.lines("remark"), ["remora: left alone: @network: bytes or work beyond 64 bits"])


if __name__ == "__main__":
    plugin_case.main()
