#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What must keep its place: reads of memory that is written, and scalar arithmetic that an effect guards."""

import plugin_case
from symbols import read_ops

KIND = "tensor<64x64xf32>"
MEMORY = "memref<64x64xf32>"
LEFT = (
    "remora: left alone: @network: tensors made from memrefs, or memrefs from tensors, and an op that may write memory"
)


def layer(name, *sources, op="exp", attributes=""):
    kinds = ", ".join([KIND] * len(sources))
    return (
        f"  %e_{name} = tensor.empty() : {KIND}\n"
        f"  %{name} = linalg.{op} {attributes}ins({', '.join(sources)} : {kinds}) outs(%e_{name} : {KIND}) "
        f"-> {KIND}\n"
    )


def unary(name, source):
    return layer(name, source)


def binary(name, left, right):
    return layer(name, left, right, op="add")


def network(before, source, between, last):
    """The first two layers' outputs are read again at the end: four tensors at once instead of five recompute one. An
    op with effects stands in between."""
    return (
        f"func.func private @exit(i32)\nfunc.func private @fill({MEMORY}) -> {KIND}\n"
        f"func.func @network(%x: {KIND}, %m: {MEMORY}, %v: f32, %n: i32, %k: i32) -> {KIND} {{\n"
        "  %zero = arith.constant 0 : index\n"
        + before
        + unary("a", source)
        + unary("b", "%a")
        + unary("c", "%b")
        + between
        + unary("d", "%c")
        + unary("f", "%d")
        + binary("g", "%f", "%b")
        + binary("h", "%g", "%a")
        + last
        + f"  return %h : {KIND}\n}}\n"
    )


STORE = f"  memref.store %v, %m[%zero, %zero] : {MEMORY}\n"


class Effects(plugin_case.PluginCase):
    def check_left_alone(self, module):
        self.write(module)
        answer = self.rematerialize("memory-budget=90%")
        self.assertEqual(answer.out, self.optimize("").out)
        self.assertEqual(answer.lines("remark"), [LEFT])

    def test_readers_of_memory_are_not_carried_past_writes(self):
        made = f"  %y = bufferization.to_tensor %m restrict : {MEMORY}\n"
        nested = f"  scf.if %true {{\n  {STORE}  }}\n"
        truth = "  %true = arith.constant true\n"
        writes = (
            STORE,
            f"  linalg.fill ins(%v : f32) outs(%m : {MEMORY})\n",
            f"  memref.dealloc %m : {MEMORY}\n",
            "  func.call @exit(%n) : (i32) -> ()\n",
            truth + nested,
        )
        for write in writes:
            with self.subTest(write=write):
                self.check_left_alone(network(made, "%y", write, ""))

    def test_nor_are_those_of_a_tensor_whose_memory_is_taken(self):
        self.check_left_alone(
            network(f"  %t = bufferization.to_memref %x : {MEMORY}\n", "%x", STORE.replace("%m", "%t"), "")
        )

    def test_nor_are_destinations_that_read_memory(self):
        inserted = (
            f"  %s = tensor.extract_slice %y[0, 0] [32, 64] [1, 1] : {KIND} to tensor<32x64xf32>\n"
            f"  %ie = tensor.empty() : {KIND}\n  %i1 = tensor.insert_slice %s into %ie[0, 0] [32, 64] [1, 1] : "
            f"tensor<32x64xf32> into {KIND}\n"
        )
        last = (
            f"  %i2 = tensor.insert_slice %s into %i1[32, 0] [32, 64] [1, 1] : tensor<32x64xf32> into {KIND}\n"
            + binary("p", "%i2", "%h")
        )
        module = network(f"  %y = bufferization.to_tensor %m restrict : {MEMORY}\n" + inserted, "%x", STORE, last)
        self.check_left_alone(module.replace("return %h", "return %p"))

    def test_tensors_made_of_memory_that_nobody_writes_are_as_good_as_others(self):
        self.write(
            network(
                f"  %y = bufferization.to_tensor %m restrict : {MEMORY}\n",
                "%x",
                f"  %alloc = memref.alloc() : {MEMORY}\n",
                binary("p", "%h", "%y"),
            )
        )
        answer = self.rematerialize("memory-budget=90%")
        self.assertEqual(answer.code, 0, answer.err)
        self.assertIn("remora.copy", answer.out)
        self.assertGreater(answer.out.count("linalg.exp"), 5)

    def test_so_are_tensors_that_are_only_written_to_memory(self):
        self.write(
            network(
                "",
                "%x",
                STORE,
                f"  bufferization.materialize_in_destination %h in writable %m : ({KIND}, {MEMORY}) -> ()\n",
            )
        )
        answer = self.rematerialize("memory-budget=90%")
        self.assertEqual(answer.code, 0, answer.err)
        self.assertIn("remora.copy", answer.out)

    def test_arithmetic_that_may_fault_stays_behind_the_effect_that_guards_it(self):
        between = (
            "  %z = arith.constant 0 : i32\n  %is = arith.cmpi eq, %n, %z : i32\n"
            "  scf.if %is {\n    func.call @exit(%z) : (i32) -> ()\n  }\n"
            "  %q = arith.divsi %k, %n : i32\n  %qf = arith.sitofp %q : i32 to f32\n"
        )
        last = (
            f"  %e_q = tensor.empty() : {KIND}\n  %fq = linalg.fill ins(%qf : f32) outs(%e_q : {KIND}) -> {KIND}\n"
            f"  %y = linalg.matmul ins(%h, %h : {KIND}, {KIND}) outs(%fq : {KIND}) -> {KIND}\n"
        )
        self.write(network("", "%x", between, last).replace("return %h", "return %y"))
        answer = self.rematerialize("memory-budget=90%")
        self.assertEqual(answer.code, 0, answer.err)
        self.assertIn("remora.copy", answer.out)
        names = [op.name for op in read_ops(answer.out, "network")]
        self.assertLess(names.index("scf.if"), names.index("arith.divsi"))
        self.assertLess(names.index("arith.divsi"), names.index("arith.sitofp"))
        ops = {op["type"]: op for op in self.graph()["ops"]}
        self.assertEqual(ops["arith.divsi"]["after"], [ops["scf.if"]["name"]])
        self.assertEqual(ops["arith.divsi"]["recompute"], "never")


if __name__ == "__main__":
    plugin_case.main()
