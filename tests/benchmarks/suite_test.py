# SPDX-License-Identifier: Apache-2.0
"""Suite files: what they may say, and how they are refused."""

import json
import os

import harness_case
from harness.suite import InputError, Reference, budget_bytes, read_suite

HEAD = {"format": "remora-suite", "version": 1, "name": "s", "budgets": ["80%"]}
GOOD = {"name": "a", "file": "x"}


def suite(**members):
    return json.dumps(HEAD | members)


class SuiteFile(harness_case.HarnessCase):
    def message(self, text, parameters=()):
        try:
            read_suite(text, "", parameters)
        except InputError as error:
            return str(error)
        return ""

    def expect_fault(self, part, instances, contenders, parameters=()):
        self.assertIn(part, self.message(suite(instances=instances, contenders=contenders), parameters))

    def test_it_has_instances_and_contenders(self):
        read = read_suite(
            suite(
                time_limit=5,
                threads=1,
                seeds=[3, 4],
                instances=[
                    {"name": "a", "file": "graphs/a.json", "budgets": ["1GiB"]},
                    {"name": "b", "make": ["remora", "generate", "chain"], "reading": ["--cost", "unit"]},
                ],
                contenders=[
                    "auto",
                    {"name": "c", "arguments": ["--max-computes", "3"], "seeds": [9], "most_ops": 50},
                    {"name": "p", "command": ["../peer", "{graph}", "-o", "{output}"]},
                ],
            ),
            "folder",
        )
        self.assertEqual((read.name, read.time_limit, read.threads, read.seeds), ("s", 5, 1, [3, 4]))
        self.assertEqual(read.instances[0].file, "folder/graphs/a.json")
        self.assertEqual(read.instances[0].budgets, ["1GiB"])
        self.assertEqual(read.instances[1].make, ["remora", "generate", "chain"])
        self.assertEqual(read.instances[1].reading, ["--cost", "unit"])
        self.assertEqual(read.contenders[0].arguments, ["--strategy", "auto"])
        self.assertEqual((read.contenders[1].seeds, read.contenders[1].most_ops), ([9], 50))
        self.assertEqual(read.contenders[2].command, [os.path.abspath("peer"), "{graph}", "-o", "{output}"])
        self.assertEqual(read.contenders[2].asked, "../peer {graph} -o {output}")

    def test_an_instance_may_have_a_limit_and_a_reference_of_its_own(self):
        self.write("a.json", "")
        reference = {"name": "HiRemate", "overhead": 22.3, "relative_peak": 36.6, "minutes": 7.9}
        read = read_suite(
            suite(
                time_limit=5,
                contenders=["auto"],
                instances=[
                    {"name": "plain", "file": "a"},
                    {"name": "long", "file": "a", "time_limit": 300, "reference": reference},
                    {"folder": "{1}", "time_limit": 0.5},
                ],
            ),
            "",
            [self.folder],
        )
        self.assertEqual([instance.time_limit for instance in read.instances], [None, 300, 0.5])
        self.assertIsNone(read.instances[0].reference)
        self.assertEqual(read.instances[1].reference, Reference("HiRemate", 22.3, 36.6, 7.9))

    def test_a_limit_or_a_reference_that_is_none_is_refused(self):
        for part, members in (
            ("$.instances[0].time_limit: must be above 0", {"time_limit": 0}),
            ("$.instances[0].time_limit", {"time_limit": "60"}),
            ("$.instances[0].reference", {"reference": 22.3}),
            ("minute", {"reference": {"name": "H", "overhead": 1, "relative_peak": 2, "minute": 3}}),
            ("minutes", {"reference": {"name": "H", "overhead": 1, "relative_peak": 2}}),
            ("empty", {"reference": {"name": "", "overhead": 1, "relative_peak": 2, "minutes": 3}}),
        ):
            self.expect_fault(part, [GOOD | members], ["auto"])

    def test_every_file_of_a_folder_is_an_instance(self):
        self.write("b.json", "")
        self.write("a.onnx", "")
        read = read_suite(suite(instances=[{"folder": "{1}"}], contenders=["auto"]), "elsewhere", [self.folder])
        self.assertEqual([instance.name for instance in read.instances], ["a.onnx", "b.json"])
        self.assertEqual(read.instances[1].file, self.path("b.json"))

    def test_what_it_cannot_mean_is_refused_with_the_path(self):
        self.assertEqual(self.message(suite(instances=[GOOD], contenders=["auto"])), "")
        for part, instances, contenders, *parameters in (
            ("$.instances[0]: 'a' is there already", [GOOD, GOOD], ["auto"]),
            ("$.contenders[1]", [GOOD], ["auto", "auto"]),
            ("needs either file or make", [{"name": "a"}], ["auto"]),
            ("only remora, remora_zoo, remora_instances make graphs", [{"name": "a", "make": ["sh"]}], ["auto"]),
            ("slash", [{"name": "a/b", "file": "x"}], ["auto"]),
            ("budgts", [GOOD | {"budgts": []}], ["auto"]),
            ("needs either arguments or command", [GOOD], [{"name": "c"}]),
            ("must be a whole number", [GOOD], [{"name": "c", "arguments": ["x"], "seeds": [-1]}]),
            ("needs a parameter", [{"folder": "{1}"}], ["auto"]),
            ("/not/there", [{"folder": "{1}"}], ["auto"], "/not/there"),
            ("name", [{"folder": "{1}", "name": "a"}], ["auto"], "."),
            ("stray", [GOOD], ["auto"], "stray"),
            ("no contenders", [GOOD], []),
        ):
            with self.subTest(part):
                self.expect_fault(part.replace("[0]: 'a'", "[1]: 'a'"), instances, contenders, parameters)
        no_budgets = {key: value for key, value in HEAD.items() if key != "budgets"}
        self.assertIn(
            "no budgets for 'a'", self.message(json.dumps(no_budgets | {"instances": [GOOD], "contenders": ["auto"]}))
        )
        self.assertIn("remora-suite", self.message('{"format": "remora-graph", "version": 1}'))
        self.assertIn("JSON", self.message("{"))
        self.assertIn("twice", self.message('{"format": "remora-suite", "format": "remora-suite"}'))

    def test_all_suites_of_the_repository_are_read(self):
        folder = os.path.join(harness_case.BENCHMARKS, "suites")
        names = os.listdir(folder)
        self.assertGreaterEqual(len(names), 5)
        for name in names:
            with open(os.path.join(folder, name), encoding="utf-8") as file:
                text = file.read()
            read = read_suite(text, folder, [self.folder] if "{1}" in text else [])
            self.assertEqual(read.name + ".json", name)


class Budgets(harness_case.HarnessCase):
    def test_are_read_as_remora_reads_them(self):
        # The cases of tests/frontends/cli/budgets_test.cpp.
        for text, fixed, peak, expected in (
            ("123456", 0, 100, 123456),
            ("12GiB", 0, 100, 12 << 30),
            ("1.5 KiB", 0, 100, 1536),
            ("2MB", 0, 100, 2000000),
            ("0", 0, 100, 0),
            ("0.3B", 0, 100, 0),
            ("80%", 0, 46319, 37055),
            ("80%", 1000, 1010, 1008),
            ("62.5%", 0, 1001, 625),
            ("56.99999999999999%", 0, 1000, 569),
            ("0%", 3, 1000, 3),
        ):
            self.assertEqual(budget_bytes(text, fixed, peak), expected, text)
        for text in ("", "GiB", "-5", "80 %%", "1e9", "12Gib", "1.2.3", "3G", ".", "%"):
            with self.assertRaises(InputError, msg=text):
                budget_bytes(text, 0, 100)


if __name__ == "__main__":
    harness_case.main()
