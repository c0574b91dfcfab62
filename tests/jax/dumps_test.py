# SPDX-License-Identifier: Apache-2.0
"""What this version of XLA dumps: the scheduled module is read and written, of the others it is said what to give."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import remora.jax as rj

PROGRAM = """
import jax, jax.numpy as jnp

def loss(weights, x):
    for w in weights:
        x = jnp.tanh(x @ w) ** 2
    return jnp.mean(x)

def step(weights, x):
    value, gradients = jax.value_and_grad(loss)(weights, x)
    return value, [w - 0.01 * g for w, g in zip(weights, gradients)]

jax.jit(step).lower([jnp.full((64, 64), 0.1)] * 10, jnp.ones((512, 64))).compile()
"""
WHAT_TO_GIVE = "give the scheduled module, *after_optimizations.hlo.pb"


def dumped(folder: Path, flags: str) -> Path:
    told = os.environ | {"XLA_FLAGS": f"--xla_dump_to={folder} {flags}", "JAX_PLATFORMS": "cpu"}
    subprocess.run([sys.executable, "-c", PROGRAM], env=told, check=True)
    return folder


@pytest.fixture(scope="module")
def binary(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return dumped(tmp_path_factory.mktemp("binary"), "--xla_dump_hlo_as_proto")


def remora(*words: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([os.environ["REMORA"], *words], capture_output=True, text=True)


def test_scheduled_modules_are_read_and_written(binary: Path, tmp_path: Path) -> None:
    files = sorted(binary.glob("*after_optimizations.hlo.pb"))
    assert len(files) > 1
    for file in files:
        made = remora("info", file)
        assert made.returncode == 0, made.stderr
    (step,) = binary.glob("*jit_step*after_optimizations.hlo.pb")
    smaller = tmp_path / "smaller.hlo.pb"
    made = remora("rewrite", step, "--budget", "60%", "-o", smaller)
    assert made.returncode == 0, made.stderr
    assert "XLA's temporaries, by its rules for the CPU: 2.50 MiB before" in made.stderr
    wrong = remora("rewrite", step, "--budget", "60%", "-o", tmp_path / "smaller.onnx")
    assert wrong.returncode == 64
    assert wrong.stderr == "remora: --output: a rewritten HLO module is no ONNX model; name another file\n"
    wrong = remora("order", step, "-q", "--work-limit", "1", "-o", tmp_path / "order.onnx")
    assert wrong.returncode == 64
    why = f"{step} is no ONNX model, so its order is none either; name a .json file"
    assert wrong.stderr == f"remora: --output: {why}\n"
    # A module, which a pass gives back to XLA, not a dump; Python reads both.
    for file in (step, smaller):
        assert rj.plan_module(file.read_bytes(), "1GiB")[1].module == "jit_step"


def test_modules_are_written_in_slices(binary: Path, tmp_path: Path) -> None:
    (step,) = binary.glob("*jit_step*after_optimizations.hlo.pb")
    limits = ("--budget", "15%", "--work-limit", "20000")
    assert remora("rewrite", step, *limits, "-o", tmp_path / "none.hlo.pb").returncode in (20, 21)
    written = tmp_path / "slices.hlo.pb"
    made = remora("rewrite", step, *limits, "--slices", "auto", "-o", written)
    assert made.returncode == 0, made.stderr
    assert " along axis 0 of " in made.stderr
    assert rj.plan_module(written.read_bytes(), "1GiB")[1].module == "jit_step"
    schedule = tmp_path / "schedule.json"
    made = remora("solve", step, *limits, "--slices", "auto", "-o", schedule)
    assert made.returncode == 0, made.stderr
    assert remora("verify", step, schedule).returncode == 0
    made = remora("rewrite", step, "--schedule", schedule, "-o", written)
    assert made.returncode == 65
    assert "$.slices: not for --schedule" in made.stderr


def test_other_dumps_say_what_to_give(binary: Path, tmp_path: Path) -> None:
    text = dumped(tmp_path / "text", "")
    before = sorted(binary.glob("*before_optimizations.hlo.pb"))
    texts = sorted([*text.glob("*before_optimizations.txt"), *text.glob("*after_optimizations.txt")])
    assert before
    assert texts
    for file in (*before, *texts):
        for words in (("info", file), ("rewrite", file, "--budget", "60%", "-o", tmp_path / "none.hlo.pb")):
            made = remora(*words)
            assert made.returncode == 65
            assert WHAT_TO_GIVE in made.stderr
            assert len(made.stderr.splitlines()) == 1
    assert all("is not scheduled" in remora("info", file).stderr for file in before)


def test_other_files_are_not_called_damaged(binary: Path) -> None:
    others = [file for file in binary.glob("*.pb") if not file.name.endswith(".hlo.pb")]
    assert others
    for file in others:
        made = remora("info", file)
        assert made.returncode == 65
        assert "damaged" not in made.stderr
