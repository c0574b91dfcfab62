#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What ops cost: the table of linalg ops, the attributes, the interface of other dialects."""

from collections import Counter

import plugin_case
from symbols import read_ops

KIND = "tensor<64x32xf32>"
SIZE = 64 * 32 * 4


def function(body, result="%r", kind=KIND):
    return (
        "#same = affine_map<(i, j) -> (i, j)>\n"
        f"func.func @network(%x: {KIND}) -> {kind} {{\n  %zero = arith.constant 0.0 : f32\n"
        f"  %e = tensor.empty() : {kind}\n"
        f"{body}  return {result} : {kind}\n}}\n"
    )


def skips(layer):
    """Five layers by `layer`, of which the second and the first are read again: 5 tensors at once, or 4."""
    text = "".join(layer(f"%v{k}", f"%v{k - 1}" if k else "%x") for k in range(5))
    for k, skip in ((5, 1), (6, 0)):
        text += (
            f"  %d{k} = tensor.empty() : {KIND}\n"
            f"  %v{k} = linalg.add ins(%v{k - 1}, %v{skip} : {KIND}, {KIND}) outs(%d{k} : {KIND}) -> {KIND}\n"
        )
    return function(text, "%v6")


class Cost(plugin_case.PluginCase):
    def costs(self, module, words=(), budget="100%"):
        """The duration of each op by its type."""
        self.write(module)
        self.answer = self.rematerialize("memory-budget=" + budget, words=words)
        self.assertEqual(self.answer.code, 0, self.answer.err)
        return {op["type"]: op for op in self.graph()["ops"]}

    def recomputed(self):
        computes = Counter(op.symbol for op in read_ops(self.answer.out, "network"))
        return {symbol for symbol, count in computes.items() if count > 1}

    def remarks(self):
        return [line for line in self.answer.lines("remark") if "left alone" in line]

    def test_linalg_ops_cost_their_iterations_times_their_body_and_their_fill(self):
        matmul = (
            f"  %w = arith.constant dense<1.0> : tensor<32x32xf32>\n"
            f"  %f = linalg.fill ins(%zero : f32) outs(%e : {KIND}) -> {KIND}\n"
            f"  %r = linalg.matmul ins(%x, %w : {KIND}, tensor<32x32xf32>) outs(%f : {KIND}) -> {KIND}\n"
        )
        generic = (
            '  %r = linalg.generic {indexing_maps = [#same, #same], iterator_types = ["parallel", "parallel"]} '
            f"ins(%x : {KIND}) outs(%e : {KIND}) {{\n"
            "  ^bb0(%in: f32, %out: f32):\n    %t = math.tanh %in : f32\n"
            f"    %s = arith.addf %t, %in : f32\n"
            f"    linalg.yield %s : f32\n  }} -> {KIND}\n"
        )
        transpose = "  %r = linalg.transpose ins(%x : " + KIND + ") outs(%e : tensor<32x64xf32>) permutation = [1, 0]\n"
        for body, name, kind, expected in (
            (matmul, "linalg.matmul", KIND, 64 * 32 * 32 * 2 + 64 * 32),
            (generic, "linalg.generic", KIND, 64 * 32 * (6 + 1)),
            (transpose, "linalg.transpose", "tensor<32x64xf32>", 64 * 32),
        ):
            with self.subTest(name=name):
                self.assertEqual(self.costs(function(body, kind=kind))[name]["duration"], expected)

    def test_arithmetic_on_whole_tensors_and_what_only_moves_elements(self):
        body = (
            f"  %a = math.tanh %x : {KIND}\n  %b = arith.mulf %a, %x : {KIND}\n"
            f"  %r = tensor.pad %b low[1, 0] high[0, 3] {{\n  ^bb0(%i: index, %j: index):\n"
            f"    tensor.yield %zero : f32\n"
            f"  }} : {KIND} to tensor<65x35xf32>\n"
        )
        costs = self.costs(function(body, kind="tensor<65x35xf32>"))
        self.assertEqual(
            {name: op["duration"] for name, op in costs.items()},
            {"math.tanh": 6 * 64 * 32, "arith.mulf": 64 * 32, "tensor.pad": 65 * 35, "tensor.empty": 0},
        )
        self.assertEqual(self.remarks(), [])

    def test_convolutions_and_pools(self):
        body = (
            f"  %i = tensor.expand_shape %x [[0, 1], [2, 3]] output_shape [1, 64, 8, 4] : {KIND} into "
            "tensor<1x64x8x4xf32>\n"
            "  %w = arith.constant dense<1.0> : tensor<3x3x4x5xf32>\n"
            "  %c0 = tensor.empty() : tensor<1x62x6x5xf32>\n"
            "  %c = linalg.conv_2d_nhwc_hwcf ins(%i, %w : tensor<1x64x8x4xf32>, tensor<3x3x4x5xf32>) "
            "outs(%c0 : tensor<1x62x6x5xf32>) -> tensor<1x62x6x5xf32>\n"
            "  %window = tensor.empty() : tensor<2x2xf32>\n  %p0 = tensor.empty() : tensor<1x61x5x5xf32>\n"
            "  %r = linalg.pooling_nhwc_max ins(%c, %window : tensor<1x62x6x5xf32>, tensor<2x2xf32>) "
            "outs(%p0 : tensor<1x61x5x5xf32>) -> tensor<1x61x5x5xf32>\n"
        )
        costs = self.costs(function(body, kind="tensor<1x61x5x5xf32>"))
        self.assertEqual(costs["linalg.conv_2d_nhwc_hwcf"]["duration"], 62 * 6 * 5 * 3 * 3 * 4 * 2)
        self.assertEqual(costs["linalg.pooling_nhwc_max"]["duration"], 61 * 5 * 5 * 2 * 2)
        # The window is a tensor that has no other use than its shape, but bufferization allocates it.
        self.assertEqual(costs["linalg.pooling_nhwc_max"]["workspace"], 16)

    def test_attributes_go_before_the_table(self):
        layer = (
            "  %r = linalg.exp {remora.cost = 12 : i64, remora.workspace = 300 : i64, remora.recompute = false} "
            f"ins(%x : {KIND}) outs(%e : {KIND}) -> {KIND}\n"
        )
        op = self.costs(function(layer))["linalg.exp"]
        self.assertEqual((op["duration"], op["workspace"], op["recompute"]), (12, 300, "never"))
        self.assertEqual(self.schedule()["peak_memory"], 2 * SIZE + 300)
        self.assertEqual(self.remarks(), [])

    def test_attributes_of_what_would_be_a_destination_count(self):
        body = (
            "  %f = linalg.fill {remora.cost = 12 : i64, remora.workspace = 300 : i64, remora.recompute = false} "
            f"ins(%zero : f32) outs(%e : {KIND}) -> {KIND}\n"
            f"  %r = linalg.add ins(%x, %x : {KIND}, {KIND}) outs(%f : {KIND}) -> {KIND}\n"
        )
        ops = self.costs(function(body))
        fill = ops["linalg.fill"]
        self.assertEqual((fill["duration"], fill["workspace"], fill["recompute"]), (12, 300, "never"))
        self.assertEqual(ops["linalg.add"]["duration"], 64 * 32)

    def test_elements_take_the_bytes_that_llvm_gives_them(self):
        sizes = {
            "i1": 1,
            "i24": 4,
            "i48": 8,
            "f80": 16,
            "i65": 16,
            "i128": 16,
            "i129": 32,
            "f32": 4,
            "bf16": 2,
            "index": 8,
            "complex<f32>": 8,
            "complex<i24>": 8,
        }
        for element, size in sizes.items():
            with self.subTest(element=element):
                kind = f"tensor<10x{element}>"
                self.write(
                    f"func.func @network(%x: {kind}) -> {kind} {{\n"
                    f"  %e = tensor.empty() : {kind}\n  %r = tensor.insert_slice %x into %e[0] [10] [1] : "
                    f"{kind} into {kind}\n  return %r : {kind}\n}}\n"
                )
                answer = self.rematerialize("memory-budget=100%")
                self.assertEqual(answer.code, 0, answer.err)
                self.assertEqual([tensor["size"] for tensor in self.graph()["tensors"]], [10 * size] * 2)

    def test_an_op_that_mlir_knows_nothing_of_runs_again_if_its_author_vouches_for_it(self):
        words = ("-allow-unregistered-dialect",)

        def layer(attributes):
            return lambda name, source: f'  {name} = "my.layer"({source}) {attributes}: ({KIND}) -> {KIND}\n'

        vouched = layer("{remora.cost = 77 : i64, remora.recompute = true} ")
        self.assertEqual(self.costs(skips(vouched), words, str(4 * SIZE))["my.layer"]["duration"], 77)
        self.assertTrue(self.recomputed())
        self.assertEqual(self.remarks(), [])
        costed = layer("{remora.cost = 77 : i64} ")
        op = self.costs(skips(costed), words)["my.layer"]
        self.assertEqual((op["duration"], op["recompute"]), (77, "never"))
        self.assertEqual(len(self.remarks()), 5)
        self.assertIn("my.layer: side effects, or an op with unknown effects", self.remarks()[0])

    def test_bad_attributes_are_errors_in_one_line(self):
        for attribute, words in (
            ('remora.cost = "much"', "remora.cost must be an integer"),
            ("remora.cost = -1 : i64", "remora.cost must be"),
            ("remora.workspace = 1.5", "remora.workspace must be"),
            ("remora.recompute = 3 : i64", "remora.recompute must be true or false"),
        ):
            with self.subTest(attribute=attribute):
                self.write(
                    function(f"  %r = linalg.exp {{{attribute}}} ins(%x : {KIND}) outs(%e : {KIND}) -> {KIND}\n")
                )
                answer = self.rematerialize("memory-budget=100%")
                self.assertNotEqual(answer.code, 0)
                self.assertEqual(len(answer.lines("error")), 1)
                self.assertIn(words, answer.lines("error")[0])

    def test_an_interface_of_another_shared_object_tells_the_cost_of_its_dialect(self):
        def layer(name):
            return lambda result, source: f"  {result} = tosa.{name} {source} : ({KIND}) -> {KIND}\n"

        words = ("--load-dialect-plugin=" + self.extension,)
        self.assertEqual(self.costs(skips(layer("exp")))["tosa.exp"]["recompute"], "never")
        self.assertIn("tosa.exp: an op of unknown cost", self.remarks()[0])
        op = self.costs(skips(layer("exp")), words, str(4 * SIZE + 64))["tosa.exp"]
        self.assertEqual((op["duration"], op["workspace"], op.get("recompute")), (1000, 64, None))
        self.assertTrue(self.recomputed())
        self.assertEqual(self.remarks(), [])
        op = self.costs(skips(layer("log")), words)["tosa.log"]
        self.assertEqual((op["duration"], op["recompute"]), (500, "never"))
        self.assertEqual(self.remarks(), [])
        self.assertEqual(self.costs(skips(layer("tanh")), words)["tosa.tanh"]["recompute"], "never")
        self.assertIn("tosa.tanh: an op of unknown cost", self.remarks()[0])

    def test_attributes_go_before_the_interface(self):
        layer = f"  %r = tosa.exp %x {{remora.cost = 3 : i64}} : ({KIND}) -> {KIND}\n"
        op = self.costs(function(layer), ("--load-dialect-plugin=" + self.extension,))["tosa.exp"]
        self.assertEqual((op["duration"], op["workspace"]), (3, 64))


if __name__ == "__main__":
    plugin_case.main()
