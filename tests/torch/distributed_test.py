# SPDX-License-Identifier: Apache-2.0
"""Two and four processes on gloo: parameters equal the plain loop's, and each process has the same plan."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

RANKS = Path(__file__).with_name("ranks.py")
RUN = [
    "all_reduce_in_the_step",
    "all_reduce_behind_the_step",
    "ddp_around_a_wrapped_model",
    "tensor_parallel_step",
    "tensor_parallel_wrapped",
    "fsdp_by_blocks",
]
REFUSED = {
    "fsdp_whole": "give each of them to remora.torch.wrap",
    "fsdp_in_a_step": "give each block that fully_shard shards",
    "wrapped_ddp": "DistributedDataParallel(remora.torch.wrap(model))",
    "ddp_in_a_step": "DistributedDataParallel(remora.torch.wrap(model))",
}


def outcomes(case: str, size: int, folder: Path) -> list[dict[str, Any]]:
    """What each process of a job tells."""
    started = []
    for rank in range(size):
        own = {**os.environ, "REMORA_CACHE": str(folder / f"cache{rank}"), "GLOO_SOCKET_IFNAME": "lo"}
        words = [sys.executable, str(RANKS), case, str(rank), str(size), str(folder / "store")]
        started.append(subprocess.Popen(words, env=own, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE))
    told = []
    for process in started:
        out, errors = process.communicate(timeout=400)
        assert process.returncode == 0, errors[-3000:]
        told.append(json.loads(out.strip().splitlines()[-1]))
    return told


@pytest.mark.parametrize("case", RUN)
def test_two_processes_train_as_without_remora_with_one_plan(case: str, tmp_path: Path) -> None:
    first, second = outcomes(case, 2, tmp_path)
    assert first == second
    assert first["recomputes"] > 0


@pytest.mark.parametrize("case", RUN)
def test_four_processes_agree_too(case: str, tmp_path: Path) -> None:
    told = outcomes(case, 4, tmp_path)
    assert told == [told[0]] * 4


@pytest.mark.parametrize("case", list(REFUSED))
def test_what_cannot_be_captured_is_refused_with_the_way_out(case: str, tmp_path: Path) -> None:
    for told in outcomes(case, 2, tmp_path):
        assert REFUSED[case] in told["refused"]
        assert "TORCHDYNAMO" not in told["refused"]
