#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Profiled durations beside a whole run, and the roofline beside both, before and after it is calibrated.

usage: profiled_costs.py PROGRAMS MODELS [RUNS]

PROGRAMS is the folder of `remora` and `remora_zoo`, MODELS one with light_squeezenet.onnx and light_resnet50.onnx. One
thread of onnxruntime; medians over RUNS (20) runs. Prints the table of docs/guide/onnx.md:

* profiled: the sum of the nodes' durations (`remora.onnx.profile`), against the median of whole runs without profiler;
* roofline: the sum of the durations of `remora convert`, against the whole run; and how far its durations are from the
  profiled ones, op by op: the sum of the differences' sizes, as a part of the sum of the profiled durations. First for
  the program's default device, then for the one that `remora.onnx.calibrate` measures here.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import remora.onnx

ZOO = {
    "GPT-2, 64 tokens": ["gpt2", "--sequence", "64"],
    "U-Net, 128 x 128": ["unet", "--size", "128"],
}
LIGHT = {"SqueezeNet": "light_squeezenet.onnx", "ResNet-50": "light_resnet50.onnx"}


def durations(program: Path, model: Path, *words: str | Path) -> dict[str, int]:
    """Of each op, as `remora convert` has it."""
    command = [program, "convert", model, *words, "-q"]
    said = subprocess.run([str(word) for word in command], check=True, capture_output=True, text=True).stdout
    return {op["name"]: op["duration"] for op in json.loads(said)["ops"]}


def distance(guessed: dict[str, int], measured: dict[str, int]) -> float:
    """Sum of the differences' sizes, as a part of the measured sum."""
    return sum(abs(guessed[name] - measured[name]) for name in measured) / sum(measured.values())


def row(name: str, model: Path, program: Path, folder: Path, runs: int) -> str:
    taken = remora.onnx.profile(model, runs=runs)
    taken.save(folder / "costs.csv")
    measured = durations(program, model, "--costs", folder / "costs.csv")
    cells = [f"{taken.whole / 1e6:.2f}", f"{taken.total / taken.whole - 1:+.1%}"]
    for words in ([], ["--device", folder / "device.json"]):
        guessed = durations(program, model, *words)
        cells.append(f"{sum(guessed.values()) / taken.whole - 1:+.1%}, {distance(guessed, measured):.1%}")
    return f"| {name} | {len(taken.nodes)} | {' | '.join(cells)} |"


def main() -> None:
    programs, light = Path(sys.argv[1]), Path(sys.argv[2])
    runs = int(sys.argv[3]) if len(sys.argv) > 3 else 20
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        models = {name: light / file for name, file in LIGHT.items()}
        for name, words in ZOO.items():
            models[name] = folder / f"{words[0]}.onnx"
            subprocess.run([programs / "remora_zoo", *words, "-o", models[name]], check=True, capture_output=True)
        device = remora.onnx.calibrate(runs=runs, name="here")
        device.save(folder / "device.json")
        print(
            f"calibrated: {device.peak_flops / 1e9:.1f} GFLOP/s, {device.bandwidth / 1e9:.1f} GB/s, "
            f"{device.launch_overhead * 1e6:.2f} us an op\n"
        )
        print("| model | nodes | whole run, ms | profiled | roofline: sum, ops | calibrated: sum, ops |")
        print("|---|---|---|---|---|---|")
        for name, model in models.items():
            print(row(name, model, programs / "remora", folder, runs), flush=True)


if __name__ == "__main__":
    main()
