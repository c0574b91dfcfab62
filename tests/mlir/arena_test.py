#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What remora-arena makes of bufferized functions: one allocation, views that share no byte while both are needed, the
same results; and what it leaves alone. examples/mlir/measure --arena runs networks in it (execution_test.py)."""

import os
import random
import re
import subprocess

import plugin_case
from buffers import function_lines, type_bytes
from plugin_case import DEALLOCATED, fewer

BUFFERIZED = DEALLOCATED.split(",func.func")[0]
VIEW = re.compile(r"(%\w+) = memref\.view (%\w+)\[(%\w+)\]\[\] : memref<(\d+)xi8> to memref<([^,>]*)>")
KIND = "memref<16xf32>"
RUNTIME = "/usr/lib/llvm-19/lib/libmlir_c_runner_utils.so"


def views(module, name="network"):
    """(offset, bytes, first line that reads it, last line) of each view in a function, and the arena's bytes."""
    body = function_lines(module, name)[1:]
    constants = {
        match[1]: int(match[2])
        for match in (re.match(r"\s*(%\w+) = arith\.constant (\d+) : index", line) for line in body)
        if match
    }
    constants.update({f"%c0{suffix}": 0 for suffix in ("",) if f"%c0{suffix}" not in constants})
    found, size = [], 0
    for line in body:
        if match := VIEW.search(line):
            users = [
                k
                for k, other in enumerate(body)
                if other is not line and re.search(re.escape(match[1]) + r"(?![\w])", other)
            ]
            found.append((constants[match[3]], type_bytes(match[5]), min(users), max(users)))
            size = int(match[4])
    return found, size


class Arena(plugin_case.PluginCase):
    def place(self, passes="func.func(remora-arena)", *words):
        return self.optimize(passes, *words)

    def check_apart(self, module, alignment=64):
        """Views that are used at one time share no byte. The arena ends where the highest one does."""
        found, size = views(module)
        self.assertTrue(found, module)
        for k, (offset, length, first, last) in enumerate(found):
            self.assertEqual(offset % alignment, 0)
            for other_offset, other_length, other_first, other_last in found[:k]:
                at_once = first <= other_last and other_first <= last
                shares = offset < other_offset + other_length and other_offset < offset + length
                self.assertFalse(at_once and shares, module)
        self.assertEqual(max(offset + length for offset, length, _, _ in found), size)
        return size

    def count(self, module, what="memref.alloc()", name="network"):
        return "\n".join(function_lines(module, name)).count(what)

    def test_networks_lie_in_one_allocation_as_large_as_the_schedule_says(self):
        for family, budget, seeds in (("chain", "60%", 2), ("unet", "86%", 1), ("random", "60%", 4)):
            for seed in range(1, fewer(seeds) + 1):
                with self.subTest(family=family, seed=seed):
                    self.network(family, "--size", "1", "--seed", str(seed))
                    answer = self.rematerialize("arena=true memory-budget=" + budget)
                    self.assertEqual(answer.code, 0, answer.err)
                    schedule, graph = self.schedule(), self.graph()
                    self.assertLessEqual(schedule["arena"]["size"] + graph["fixed_memory"], schedule["budget"])
                    self.write(answer.out)
                    placed = self.place(BUFFERIZED + ",func.func(remora-arena{share-results=true})")
                    self.assertEqual(placed.code, 0, placed.err)
                    self.assertEqual(self.count(placed.out), 1)
                    self.assertEqual(self.check_apart(placed.out), schedule["arena"]["size"])

    def test_the_budget_is_that_of_all_memory_with_an_arena_and_without(self):
        self.network("chain", "--size", "1")
        budgets = []
        for arena in ("true", "false"):
            self.assertEqual(self.rematerialize(f"arena={arena} memory-budget=70%").code, 0)
            budgets.append(self.schedule()["budget"])
        self.assertEqual(*budgets)

    def test_after_the_deallocation_releases_go_and_the_arenas_own_comes(self):
        for seed in range(1, 4):
            self.network("random", "--size", "1", "--seed", str(seed))
            answer = self.rematerialize("arena=true memory-budget=70%")
            self.write(answer.out)
            one = self.place(DEALLOCATED + ",func.func(remora-arena{share-results=true})")
            other = self.place(
                BUFFERIZED + ",func.func(remora-arena{share-results=true}),func.func(buffer-deallocation)"
            )
            self.assertEqual(views(one.out), views(other.out))
            # The results keep the arena alive.
            self.assertEqual(self.count(one.out, "memref.dealloc"), 0)
        self.write(
            f"func.func @network(%x: {KIND}) {{\n"
            + self.chain("%x", 3)
            + f"  memref.copy %v2, %x : {KIND} to {KIND}\n  return\n}}\n"
        )
        answer = self.place("func.func(buffer-deallocation,remora-arena)")
        self.assertEqual(self.count(answer.out, "memref.dealloc"), 1)
        lines = function_lines(answer.out, "network")
        self.assertLess(
            next(k for k, line in enumerate(lines) if "memref.copy" in line),
            next(k for k, line in enumerate(lines) if "memref.dealloc" in line),
        )
        self.assertEqual(self.check_apart(answer.out), 128)

    @staticmethod
    def chain(source, layers):
        text = ""
        for k in range(layers):
            text += f"  %v{k} = memref.alloc() : {KIND}\n  linalg.exp ins({source} : {KIND}) outs(%v{k} : {KIND})\n"
            source = f"%v{k}"
        return text

    def test_several_results_stay_apart_unless_told_otherwise(self):
        self.write(
            f"func.func @network(%x: {KIND}) -> ({KIND}, {KIND}) {{\n"
            + self.chain("%x", 4)
            + f"  return %v2, %v3 : {KIND}, {KIND}\n}}\n"
        )
        answer = self.place()
        self.assertEqual(self.count(answer.out), 3)
        self.assertEqual(len([line for line in answer.lines("remark") if "one of several returned" in line]), 2)
        self.assertEqual(len(views(answer.out)[0]), 2)
        together = self.place("func.func(remora-arena{share-results=true})")
        self.assertEqual(self.count(together.out), 1)
        self.assertEqual(self.check_apart(together.out), 128)

    def test_a_view_of_a_buffer_keeps_it(self):
        half = "memref<8xf32, strided<[1], offset: 4>>"
        self.write(
            f"func.func @network(%x: {KIND}) -> {KIND} {{\n"
            + self.chain("%x", 3)
            + f"  %s = memref.subview %v0[4] [8] [1] : {KIND} to {half}\n"
            + f"  %w = memref.alloc() : {KIND}\n  linalg.exp ins(%v2 : {KIND}) outs(%w : {KIND})\n"
            + f"  linalg.exp ins(%s : {half}) outs(%s : {half})\n  return %w : {KIND}\n}}\n"
        )
        answer = self.place()
        # v0 lives on by its view, so that w lies beside it: v0, v1 or w, v2.
        self.assertEqual(views(answer.out)[1], 192)

    def test_what_it_cannot_follow_keeps_its_allocation_with_a_remark(self):
        dynamic, other = "memref<?xf32>", "memref<16xf32, 1>"
        self.write(
            f"func.func private @use({dynamic}, {other})\n"
            f"func.func @network(%x: {KIND}, %n: index, %c: i1) -> {KIND} {{\n"
            "  %zero = arith.constant 0 : index\n  %one = arith.constant 1 : index\n"
            + self.chain("%x", 3)
            + f"  %d = memref.alloc(%n) : {dynamic}\n  %o = memref.alloc() : {other}\n"
            f"  func.call @use(%d, %o) : ({dynamic}, {other}) -> ()\n"
            f"  scf.for %i = %zero to %n step %one {{\n    %r = memref.alloc() : {KIND}\n"
            f"    linalg.exp ins(%x : {KIND}) outs(%r : {KIND})\n    memref.dealloc %r : {KIND}\n  }}\n"
            f"  %f = memref.alloc() : {KIND}\n  linalg.exp ins(%x : {KIND}) outs(%f : {KIND})\n"
            f"  scf.if %c {{\n    memref.dealloc %f : {KIND}\n  }}\n"
            f"  %p = memref.alloc() : {KIND}\n  linalg.exp ins(%x : {KIND}) outs(%p : {KIND})\n"
            f"  %a = memref.extract_aligned_pointer_as_index %p : {KIND} -> index\n"
            f"  %m = memref.alloc() : memref<1x{KIND}>\n  %k = memref.alloc() : {KIND}\n"
            f"  memref.store %k, %m[%zero] : memref<1x{KIND}>\n"
            f"  return %v2 : {KIND}\n}}\n"
        )
        answer = self.place()
        self.assertEqual(answer.code, 0, answer.err)
        remarks = [line.split("outside the arena: ")[1] for line in answer.lines("remark") if "outside" in line]
        self.assertEqual(
            sorted(remarks),
            sorted(
                [
                    "no static size in row-major order",
                    "no static size in row-major order",
                    "allocated in a region",
                    "released in a region or by another name",
                    "its address goes to memref.extract_aligned_pointer_as_index",
                    "no static size in row-major order",
                    "its address goes to memref.store",
                ]
            ),
        )
        self.assertEqual(self.check_apart(answer.out), 128)

    def test_functions_that_it_leaves_alone(self):
        text = (
            f'func.func @none(%x: {KIND}) -> {KIND} attributes {{remora.memory_budget = "none"}} {{\n'
            + self.chain("%x", 2)
            + f"  return %v1 : {KIND}\n}}\n"
            f"func.func @blocks(%x: {KIND}) -> {KIND} {{\n"
            + self.chain("%x", 2)
            + f"  cf.br ^end\n^end:\n  return %v1 : {KIND}\n}}\n"
            f"func.func @nothing(%x: {KIND}) -> {KIND} {{\n  return %x : {KIND}\n}}\n"
            "func.func private @outside()\n"
        )
        self.write(text)
        answer = self.place()
        self.assertEqual(answer.out, self.optimize("").out)
        self.assertEqual(answer.lines("remark"), ["remora: no arena: @blocks: a body of several blocks"])

    def test_promises_are_kept_or_it_fails(self):
        def module(attribute):
            return (
                f"func.func @network(%x: {KIND}) -> {KIND} attributes {{remora.arena = {attribute}}} {{\n"
                + self.chain("%x", 4)
                + f"  return %v3 : {KIND}\n}}\n"
            )

        self.write(module("{alignment = 128 : i64, capacity = 256 : i64}"))
        answer = self.place()
        self.assertEqual(self.check_apart(answer.out, 128), 192)
        faults = {
            "{alignment = 64 : i64, capacity = 127 : i64}": "no placement was found in the 127",
            "{alignment = 3 : i64, capacity = 500 : i64}": "must be {alignment",
            "7 : i64": "must be {alignment",
            "{capacity = 500 : i64}": "must be {alignment",
        }
        for attribute, words in faults.items():
            self.write(module(attribute))
            answer = self.place()
            self.assertNotEqual(answer.code, 0)
            self.assertEqual(len(answer.lines("error")), 1, answer.err)
            self.assertIn(words, answer.lines("error")[0])
        for options in ("remora-arena{alignment=48}", "remora-rematerialize{memory-budget=80% arena=true alignment=0}"):
            answer = self.place(f"func.func({options})")
            self.assertNotEqual(answer.code, 0)
            self.assertIn("must be a power of two from 1 to 2^30", answer.err)

    def program(self, seed):
        """A function on buffers with other names for them, in loops and out of them, and a @main that prints its result."""
        rng, lines, known = random.Random(seed), [], ["%x"]

        def new(k):
            lines.append(f"  %a{k} = memref.alloc() : {KIND}")
            return f"%a{k}"

        for k in range(rng.randint(6, 16)):
            # Mostly what is recent, so that lives end.
            first, second = (rng.choice(known[-4:]) for _ in range(2))
            kind = rng.choice(["add", "add", "sub", "half", "select", "loop", "cast"])
            if kind in ("add", "sub"):
                made = new(k)
                lines.append(f"  linalg.{kind} ins({first}, {second} : {KIND}, {KIND}) outs({made} : {KIND})")
            elif kind == "half":
                half = "memref<8xf32, strided<[1], offset: 4>>"
                lines += [
                    f"  %s{k} = memref.subview {first}[4] [8] [1] : {KIND} to {half}",
                    f"  linalg.abs ins(%s{k} : {half}) outs(%s{k} : {half})",
                ]
                continue
            elif kind == "select":
                made = f"%b{k}"
                lines.append(f"  {made} = arith.select %flag, {first}, {second} : {KIND}")
            elif kind == "cast":
                made = f"%b{k}"
                lines += [
                    f"  %d{k} = memref.cast {first} : {KIND} to memref<?xf32>",
                    f"  {made} = memref.cast %d{k} : memref<?xf32> to {KIND}",
                ]
            else:
                made = f"%b{k}"
                lines += [
                    f"  {made} = scf.for %i{k} = %zero to %three step %one iter_args(%m{k} = {first}) -> ({KIND}) {{",
                    f"    linalg.add ins(%m{k}, {second} : {KIND}, {KIND}) outs({second} : {KIND})",
                    f"    scf.yield {rng.choice([second, f'%m{k}'])} : {KIND}",
                    "  }",
                ]
            known.append(made)
        # Into an argument, which the caller reads.
        lines.append(f"  linalg.add ins({known[-1]}, {rng.choice(known)} : {KIND}, {KIND}) outs(%out : {KIND})")
        constants = [
            "  %zero = arith.constant 0 : index",
            "  %one = arith.constant 1 : index",
            "  %three = arith.constant 3 : index",
            f"  %flag = arith.constant {rng.choice(['true', 'false'])}",
        ]
        return (
            "\n".join(
                [
                    "func.func private @printF32(f32)",
                    "func.func private @printNewline()",
                    f"func.func private @network(%x: {KIND}, %out: {KIND}) {{",
                    *constants,
                    *lines,
                    "  return",
                    "}",
                    'func.func @main() attributes {remora.memory_budget = "none"} {',
                    *constants[:2],
                    "  %n = arith.constant 16 : index",
                    f"  %x = memref.alloc() : {KIND}",
                    f"  %out = memref.alloc() : {KIND}",
                    "  scf.for %i = %zero to %n step %one {",
                    "    %j = arith.index_cast %i : index to i32",
                    "    %f = arith.sitofp %j : i32 to f32",
                    "    %h = arith.constant 5.5 : f32",
                    "    %v = arith.subf %f, %h : f32",
                    f"    memref.store %v, %x[%i] : {KIND}",
                    "  }",
                    f"  func.call @network(%x, %out) : ({KIND}, {KIND}) -> ()",
                    "  scf.for %i = %zero to %n step %one {",
                    f"    %v = memref.load %out[%i] : {KIND}",
                    "    func.call @printF32(%v) : (f32) -> ()",
                    "    func.call @printNewline() : () -> ()",
                    "  }",
                    "  return",
                    "}",
                ]
            )
            + "\n"
        )

    def printed(self, passes):
        lowered = self.optimize(
            passes + "func.func(convert-linalg-to-loops),expand-strided-metadata,lower-affine,convert-scf-to-cf,"
            "convert-math-to-libm,convert-arith-to-llvm,finalize-memref-to-llvm,convert-func-to-llvm,convert-cf-to-llvm,"
            "reconcile-unrealized-casts",
            "-o",
            self.path("lowered.mlir"),
        )
        self.assertEqual(lowered.code, 0, lowered.err)
        runner = [
            "mlir-cpu-runner-19",
            self.path("lowered.mlir"),
            "-e",
            "main",
            "-entry-point-result=void",
            "-shared-libs=" + RUNTIME,
        ]
        done = subprocess.run(runner, capture_output=True, text=True, check=False, timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def test_programs_with_many_names_for_their_buffers_print_the_same(self):
        smaller = 0
        for seed in range(fewer(24)):
            with self.subTest(seed=seed):
                self.write(self.program(seed))
                plain = self.printed("")
                self.assertEqual(len(plain.split()), 16)
                self.assertEqual(self.printed("func.func(remora-arena),"), plain)
                placed = self.place()
                found, size = views(placed.out)
                smaller += bool(found) and size < sum(length for _, length, _, _ in found)
        self.assertGreater(smaller, fewer(24) // 3)


if __name__ == "__main__":
    if not os.path.exists(RUNTIME):
        print(f"SKIPPED: {RUNTIME} is not there")
        raise SystemExit(plugin_case.SKIPPED)
    plugin_case.main()
