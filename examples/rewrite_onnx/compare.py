#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs a model and its rewritten form in onnxruntime: equal outputs, and the memory of either under four settings.

usage: compare.py ORIGINAL REWRITTEN
"""
import sys

import runtime


def main(argv):
    if len(argv) != 3:
        print(__doc__, file=sys.stderr)
        return 64
    original, rewritten = argv[1:]
    equal = runtime.same(runtime.results(original), runtime.results(rewritten))
    print("outputs: " + ("equal, bit by bit" if equal else "NOT equal"))
    print("memory of a run, MiB                    original  rewritten")
    for order in ("PRIORITY_BASED", "DEFAULT"):
        for reuse in (False, True):
            figures = [runtime.memory_of_run(path, order, reuse) / 2**20 for path in (original, rewritten)]
            setting = f"{order}, reuse {'on' if reuse else 'off'}"
            print(f"  {setting:36}{figures[0]:10.1f}{figures[1]:11.1f}")
    return 0 if equal else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv))
