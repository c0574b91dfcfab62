#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The shared object: what it offers, what it needs, what it must not bring along."""

import os
import re
import shutil
import subprocess

import plugin_case
from plugin_case import Answer


def symbols(path, which):
    out = subprocess.run(["nm", "-D", which, path], capture_output=True, text=True, check=True).stdout
    return {line.split()[-1].split("@")[0] for line in out.splitlines()}


class Plugin(plugin_case.PluginCase):
    def tool(self):
        return os.path.realpath(shutil.which("mlir-opt-19"))

    def test_the_tool_knows_the_pass(self):
        # mlir-opt ends with 0 where it cannot load a plugin.
        self.assertTrue("--remora-rematerialize" in self.optimize("", "--help").out, "no such pass in --help")

    def test_nothing_is_exported_but_the_entry_point_and_the_passes(self):
        made = [
            re.sub(r"^_ZN6remora13mlir_frontend\d+(create_[a-z]+_pass).*$", r"\1", name)
            for name in symbols(self.plugin, "--defined-only")
        ]
        self.assertEqual(sorted(made), ["create_arena_pass", "create_rematerialize_pass", "mlirGetPassPluginInfo"])

    def test_a_pipeline_that_is_built_in_cpp_gives_the_same(self):
        self.network("chain", "--size", "16")
        texts = self.rematerialize("memory-budget=70%", after="remora-arena{alignment=128}")
        self.assertEqual(texts.code, 0, texts.err)
        schedule = self.schedule()

        def built(budget):
            command = [self.pipeline, self.path("input.mlir"), budget, self.path("report")]
            return Answer(subprocess.run(command, capture_output=True, text=True, check=False, timeout=90))

        answer = built("70%")
        self.assertEqual((answer.code, answer.out.split()), (0, texts.out.split()), answer.err)
        self.verify_reports()
        self.assertEqual(self.schedule()["steps"], schedule["steps"])
        wrong = built("much")
        self.assertEqual(wrong.code, 1)
        self.assertRegex(wrong.err, "remora-rematerialize: memory-budget.*much")

    def test_it_stays_in_memory_when_the_tool_closes_it(self):
        # Unmapped at the tool's end, its TBB takes workers along that have not left yet (oneTBB issue 977).
        flags = subprocess.run(["readelf", "-d", self.plugin], capture_output=True, text=True, check=True).stdout
        self.assertRegex(flags, "FLAGS_1.*NODELETE")

    def test_no_second_llvm_is_brought_along(self):
        needed = subprocess.run(["readelf", "-d", self.plugin], capture_output=True, text=True, check=True).stdout
        self.assertIn("NEEDED", needed)
        self.assertNotRegex(needed, "NEEDED.*(LLVM|MLIR)")

    def test_the_tool_offers_every_symbol_that_is_needed_of_mlir(self):
        needed = {name for name in symbols(self.plugin, "--undefined-only") if "4mlir" in name or "4llvm" in name}
        self.assertTrue(needed)
        library = os.path.join(os.path.dirname(os.path.dirname(self.tool())), "lib", "libLLVM.so.1")
        self.assertEqual(needed - symbols(self.tool(), "--defined-only") - symbols(library, "--defined-only"), set())


if __name__ == "__main__":
    plugin_case.main()
