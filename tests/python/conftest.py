# SPDX-License-Identifier: Apache-2.0
"""What the tests share: graphs, and the program beside them."""

from __future__ import annotations

import os
import random
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

import remora


@pytest.fixture
def figure_1() -> remora.Graph:
    """The example of docs/reference/formats.md: four bytes as it is, three with A run twice."""
    graph = remora.Graph("figure-1")
    a = graph.op("A", duration=1, outputs={"a": 1})
    b, c = (graph.op(name.upper(), duration=1, inputs=[a], outputs={name: 1}) for name in "bc")
    d = graph.op("D", duration=1, inputs=[b, c], outputs={"d": 1})
    graph.op("E", duration=1, inputs=[a, d], outputs={"e": 1}, keep=True)
    return graph


def ladder(layers: int = 12, size: int = 1000) -> remora.Graph:
    """Layers whose outputs the layers of a way back read in reverse order."""
    graph = remora.Graph("ladder")
    outputs: list[remora.Tensor] = []
    for index in range(2 * layers):
        inputs = outputs[-1:]
        if index >= layers and outputs[2 * layers - 1 - index] not in inputs:
            inputs.append(outputs[2 * layers - 1 - index])
        op = graph.op(f"f{index}", duration=10 + index % 3, inputs=inputs, outputs={f"t{index}": size})
        outputs.append(op.output)
    return graph


@pytest.fixture
def deep() -> remora.Graph:
    """A ladder with skips, at random: seconds do not solve it to the end at 45 %."""
    layers, skips = 60, 3
    chosen = random.Random(1)
    graph = remora.Graph("deep")
    outputs: list[remora.Tensor] = []
    for index in range(2 * layers):
        inputs = outputs[-1:]
        if index >= layers:
            inputs = [*inputs, outputs[2 * layers - 1 - index]]
        elif index > 2 * skips:
            inputs = [*inputs, *chosen.sample(outputs[max(0, index - 12) : -1], skips)]
        size = chosen.randint(500, 1500)
        op = graph.op(
            f"f{index}",
            duration=chosen.randint(10, 100),
            inputs=list(dict.fromkeys(inputs)),
            outputs={f"t{index}": size},
        )
        outputs.append(op.output)
    return graph


@pytest.fixture(scope="session")
def program() -> Callable[..., str]:
    """Runs `remora` with arguments; gives what it says on standard output."""
    binary = Path(os.environ["REMORA_BIN"]) / "remora"

    def run(*arguments: str | Path, ends: int = 0) -> str:
        done = subprocess.run([binary, *map(str, arguments)], capture_output=True, text=True, check=False, timeout=300)
        assert done.returncode == ends, done.stderr
        return done.stdout

    return run
