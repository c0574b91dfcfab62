#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Options of the pass: what each does, and the one line that a bad one gives."""

import os
import re
from collections import Counter

import plugin_case

KIND = "tensor<64x64xf32>"


def layer(name, *inputs):
    """The exponential of one tensor, or a sum of two."""
    kind = "exp" if len(inputs) == 1 else "add"
    return (
        f"  %e_{name} = tensor.empty() : {KIND}\n  %{name} = linalg.{kind} ins({', '.join(inputs)} : "
        f"{', '.join([KIND] * len(inputs))}) outs(%e_{name} : {KIND}) -> {KIND}\n"
    )


# Five layers, of which the second and the first are read again: 5 tensors at once, with recomputes 4.
BODY = f"(%x: {KIND}) -> {KIND}"


def layers():
    text, previous = "", "%x"
    for k in range(5):
        text += layer(f"v{k}", previous)
        previous = f"%v{k}"
    for k, skip in ((5, 1), (6, 0)):
        text += layer(f"v{k}", f"%v{k - 1}", f"%v{skip}")
    return text + f"  return %v6 : {KIND}\n}}\n"


def function(name="network", attributes=""):
    return f"func.func @{name}{BODY}{attributes} {{\n" + layers()


SIZE = 16384


class Options(plugin_case.PluginCase):
    def setUp(self):
        super().setUp()
        self.write(function())

    def check_error(self, answer, *words):
        self.assertNotEqual(answer.code, 0)
        self.assertEqual(answer.out, "")
        self.assertEqual(len(answer.lines("error")), 1, answer.err)
        for word in words:
            self.assertIn(word, answer.lines("error")[0])
        self.assertNotIn("\n\n\n", answer.err)

    def budget(self, text):
        answer = self.rematerialize("memory-budget=" + text)
        self.assertEqual(answer.code, 0, answer.err)
        return self.schedule()["budget"]

    def test_a_pipeline_that_cannot_hold_the_pass_is_told_its_name(self):
        answer = self.optimize("remora-rematerialize{memory-budget=80%}")
        self.check_error(answer, "'remora-rematerialize'", "'builtin.module'")

    def test_budgets_are_bytes_with_units_or_percentages_of_the_peak(self):
        peak = 5 * SIZE
        for text, expected in (
            (str(peak), peak),
            ("80KiB", peak),
            ("0.078125MiB", peak),
            ("70KB", 70000),
            ("100%", peak),
            ("99.9%", peak * 999 // 1000),
        ):
            with self.subTest(text=text):
                self.assertEqual(self.budget(text), expected)
                self.assertEqual(self.schedule()["baseline_peak_memory"], peak)

    def test_a_remark_gives_the_statistics_before_and_after(self):
        answer = self.rematerialize("memory-budget=64KiB")
        schedule = self.schedule()
        remark = next(line for line in answer.lines("remark") if "peak" in line).replace(",", "")
        size = r"[\d.]+ \w+ \((\d+) bytes\)"
        peak = re.search(rf"@network: peak {size} -> {size} within a budget of {size}", remark)
        self.assertEqual(
            [int(number) for number in peak.groups()],
            [schedule["baseline_peak_memory"], schedule["peak_memory"], schedule["budget"]],
        )
        work = re.search(r"work (\d+) flop -> (\d+) flop \(\+([\d.]+) %", remark)
        self.assertEqual(
            [int(number) for number in work.groups()[:2]], [schedule["baseline_duration"], schedule["duration"]]
        )
        ops, steps = len(self.graph()["ops"]), len(schedule["steps"])
        self.assertIn(f"{ops} ops and {steps - ops} recomputes", remark)
        self.assertLess(schedule["peak_memory"], schedule["baseline_peak_memory"])

    def test_pass_statistics_can_be_asked_for(self):
        answer = self.rematerialize("memory-budget=64KiB", words=("-mlir-pass-statistics",))
        self.assertIn("Pass statistics report", answer.err)

    def test_a_function_may_have_its_own_budget_or_none(self):
        self.write(
            function("first", ' attributes {remora.memory_budget = "66KiB"}')
            + function("second")
            + function("third", ' attributes {remora.memory_budget = "none"}')
        )
        self.assertEqual(self.rematerialize("memory-budget=100%").code, 0)
        self.assertEqual([self.schedule(name)["budget"] for name in ("first", "second")], [67584, 5 * SIZE])
        self.assertEqual(
            sorted(os.listdir(self.path("report"))),
            [f"{name}.{kind}.json" for name in ("first", "second") for kind in ("graph", "schedule")],
        )

    def test_reports_are_named_for_functions_whatever_these_are_called(self):
        self.write(function('"a/../b c"'))
        self.assertEqual(self.rematerialize("memory-budget=100%").code, 0)
        self.assertEqual(
            sorted(os.listdir(self.path("report"))),
            ["a%2F%2E%2E%2Fb%20c.graph.json", "a%2F%2E%2E%2Fb%20c.schedule.json"],
        )

    def test_reports_of_functions_in_nested_modules_have_the_modules_names_in_front(self):
        self.write(
            "module @whole {\n"
            + function()
            + "module @inner {\n"
            + function()
            + "module {\n"
            + function()
            + "}\n}\nmodule {\n"
            + function()
            + "}\n}\n"
        )
        own = f"func.func(remora-rematerialize{{memory-budget=100% report={self.path('report')}}})"
        answer = self.optimize(f"{own},builtin.module({own},builtin.module({own}))")
        self.assertEqual(answer.code, 0, answer.err)
        stems = ["%402.network", "inner.%401.network", "inner.network", "network"]
        self.assertEqual(
            sorted(os.listdir(self.path("report"))),
            [f"{stem}.{kind}.json" for stem in stems for kind in ("graph", "schedule")],
        )
        self.verify_reports()

    def test_the_graph_says_where_its_ops_stand(self):
        self.assertEqual(self.rematerialize("memory-budget=100%").code, 0)
        self.assertEqual(self.graph()["ops"][0]["location"], self.path("input.mlir") + ":3:9")

    def test_with_a_work_limit_the_same_seed_gives_the_same_schedule(self):
        self.network("random", "--size", "1", "--seed", "7")
        options = "memory-budget=60% time-limit=60 work-limit=300 seed=5"
        passes = [f"func.func(remora-rematerialize{{{options} threads={threads}}})" for threads in (1, 2)]
        outs = [self.optimize(one).out for one in passes]
        self.assertIn("remora.copy", outs[0])
        self.assertEqual(*outs)

    def test_max_computes_is_kept(self):
        self.check_error(self.rematerialize("memory-budget=64KiB max-computes=1"), "infeasible", "65536")
        self.assertEqual(self.rematerialize("memory-budget=64KiB max-computes=2").code, 0)
        computes = Counter(step["op"] for step in self.schedule()["steps"])
        self.assertEqual(max(computes.values()), 2)

    def test_an_op_may_run_more_than_twice_where_only_that_holds_the_budget(self):
        # %a is read after each of two diamonds, beside which there is no room for it.
        text = f"func.func @network(%x: {KIND}) -> {KIND} {{\n" + layer("a", "%x") + layer("c0", "%a", "%x")
        for k in (0, 1):
            text += layer(f"p{k}", f"%c{k}") + layer(f"q{k}", f"%p{k}", f"%c{k}") + layer(f"c{k + 1}", f"%q{k}", "%a")
        self.write(text + f"  return %c2 : {KIND}\n}}\n")
        for more in ("", " max-computes=auto", " arena=true", " order=free"):
            with self.subTest(more):
                answer = self.rematerialize("memory-budget=64KiB" + more)
                self.assertEqual(answer.code, 0, answer.err)
                self.assertIn("up to 3 runs per op", answer.lines("remark")[-1])
                self.assertEqual(self.schedule()["solver"]["limits"]["max_computes"], 3)
                computes = Counter(step["op"] for step in self.schedule()["steps"])
                self.assertEqual(max(computes.values()), 3)
        self.check_error(
            self.rematerialize("memory-budget=64KiB max-computes=2"), "at most 2 runs per op", "max-computes"
        )

    def test_the_order_asked_for_is_the_schedules(self):
        for order, given in (("input", "input"), ("free", "free")):
            with self.subTest(order):
                self.assertEqual(self.rematerialize(f"memory-budget=64KiB order={order}").code, 0)
                self.assertEqual(self.schedule()["order"], given)

    def test_auto_keeps_an_order_that_holds_the_budget(self):
        self.assertEqual(self.rematerialize("memory-budget=100% order=auto").code, 0)
        self.assertEqual(self.schedule()["order"], "input")

    def test_bad_options_give_one_line(self):
        cases = [
            ("memory-budget=lots", "memory-budget", "lots"),
            ("memory-budget=12XB", "unknown unit"),
            ("memory-budget=64KiB order=random", "order", "input, free, auto"),
            ("memory-budget=64KiB time-limit=-1", "time"),
            ("memory-budget=64KiB seed=-2", "seed"),
            ("memory-budget=64KiB threads=-1", "threads"),
            ("memory-budget=64KiB max-computes=0", "max-computes"),
            ("memory-budget=64KiB max-computes=many", "max-computes", "'many' is neither a number nor auto"),
            ("memory-budget=64KiB max-computes=", "max-computes"),
            ("", "no memory-budget"),
        ]
        for options, *words in cases:
            with self.subTest(options=options):
                self.check_error(self.rematerialize(options), *words)

    def test_unknown_options_and_words_for_numbers_are_refused_by_the_tool(self):
        for options in ("memory-budget=64KiB colour=red", "memory-budget=64KiB time-limit=soon"):
            with self.subTest(options=options):
                answer = self.rematerialize(options)
                self.assertNotEqual(answer.code, 0)
                self.assertEqual(answer.out, "")

    def test_a_budget_that_cannot_be_held_is_an_error_that_says_why(self):
        self.check_error(
            self.rematerialize("memory-budget=32KiB"),
            "@network",
            "infeasible, proved",
            "32.00 KiB (32768 bytes)",
            "alone needs 64.00 KiB at once",
            "(65536 bytes)",
            "splitting the op",
        )
        self.assertEqual(self.schedule()["status"], "infeasible")

    def test_a_percentage_leaves_a_function_alone_that_has_nothing_to_gain(self):
        small = (
            f"func.func private @helper(%x: {KIND}) -> {KIND} {{\n" + layer("a", "%x") + f"  return %a : {KIND}\n}}\n"
        )
        self.write(open(self.path("input.mlir"), encoding="utf-8").read() + small)
        answer = self.rematerialize("memory-budget=80%")
        self.assertEqual(answer.code, 0, answer.err)
        self.assertTrue(any("@helper" in line and "left alone" in line for line in answer.lines("remark")), answer.err)
        self.write(small)
        self.assertIn("@helper: infeasible, proved", self.rematerialize("memory-budget=16KiB").err)

    def test_an_infeasible_budget_names_one_that_works(self):
        answer = self.rematerialize("memory-budget=64KiB max-computes=1")
        self.assertRegex(answer.err, r"the minimum budget is [\d.]+ KiB \((\d+) bytes\)")
        least = int(re.search(r"the minimum budget is [\d.]+ KiB \((\d+) bytes\)", answer.err)[1])
        self.assertEqual(self.rematerialize(f"memory-budget={least}B max-computes=1").code, 0)
        self.check_error(self.rematerialize(f"memory-budget={least - 1}B max-computes=1"), "infeasible, proved")

    def test_a_budget_attribute_that_is_no_string_is_an_error(self):
        self.write(function(attributes=" attributes {remora.memory_budget = 7 : i64}"))
        self.check_error(self.rematerialize("memory-budget=100%"), "remora.memory_budget must be a string")

    def test_a_report_that_cannot_be_written_is_an_error(self):
        self.write("in the way", "report")
        answer = self.optimize(f"func.func(remora-rematerialize{{memory-budget=100% report={self.path('report')}}})")
        self.check_error(answer, self.path("report"))


if __name__ == "__main__":
    plugin_case.main()
