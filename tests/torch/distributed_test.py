# SPDX-License-Identifier: Apache-2.0
"""Two and four processes on gloo: parameters equal the plain loop's, and each process has the same plan.

Everything is on the loopback interface.
"""

from __future__ import annotations

import itertools
import json
import os
import random
import re
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import remora
from remora.torch.capture.sharded import Gather, Unit
from remora.torch.checkpoint_plan import Choice
from remora.torch.problem.family import Mode
from remora.torch.problem.sharded import DEVICE, Block, StepGraph

RANKS = Path(__file__).with_name("ranks.py")
PLANNED = Path(__file__).with_name("ranks_planned.py")
PAGE = Path(__file__).resolve().parents[2] / "docs/guide/distributed.md"
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
UNPLANNED = {
    "whole_alone": "give it each block first",
    "not_sharded": "fully_shard has sharded",
    "unlike": "batches of different shapes",
    "ahead": "set_modules_to_backward_prefetch",
    "offloaded": "CPUOffloadPolicy",
    "twice": "runs 2 times forward",
    "own_ones": "own checkpoints are on",
    "interleaved": "plans for Schedule1F1B and ScheduleGPipe, not for ScheduleInterleaved1F1B",
}


def printed(script: Path, words: list[str], size: int, folder: Path, environment: dict[str, str]) -> list[str]:
    """What each process of a job prints; all are ended if one fails."""
    started = []
    for rank in range(size):
        own = {**os.environ, **environment, "RANK": str(rank), "WORLD_SIZE": str(size)}
        own |= {"REMORA_CACHE": str(folder / f"cache{rank}"), "GLOO_SOCKET_IFNAME": "lo"}
        line = [sys.executable, str(script), *(word.format(rank=rank) for word in words)]
        started.append(subprocess.Popen(line, env=own, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE))
    try:
        told = []
        for process in started:
            out, errors = process.communicate(timeout=400)
            assert process.returncode == 0, errors[-3000:]
            told.append(out)
        return told
    finally:
        for process in started:
            process.kill()


def outcomes(case: str, size: int, folder: Path, script: Path = RANKS) -> list[dict[str, Any]]:
    """What each process of a job tells."""
    out = printed(script, [case, "{rank}", str(size), str(folder / "store")], size, folder, {})
    return [json.loads(text.strip().splitlines()[-1]) for text in out]


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


@pytest.mark.parametrize(
    ("case", "size"),
    [
        *(("fsdp_some", 2), ("fsdp_adapted", 2), ("fsdp_inner", 2), ("fsdp_least", 4)),
        *(pytest.param(case, 2, marks=pytest.mark.slow) for case in ("fsdp_least_adapted", "fsdp_least_inner")),
    ],
)
def test_fsdp2_takes_one_plan_of_flags_and_checkpoints(case: str, size: int, tmp_path: Path) -> None:
    told = outcomes(case, size, tmp_path, PLANNED)
    assert told == [told[0]] * size
    assert told[0]["checkpoints"] + sum(told[0]["resharded"].values()) > 0
    if case.startswith("fsdp_least"):
        assert sum(told[0]["resharded"].values()) > 0


def test_a_pipelines_stages_recompute_within_their_budgets(tmp_path: Path) -> None:
    told = outcomes("one_f_one_b", 4, tmp_path, PLANNED)
    assert told == [told[0]] * 4
    assert told[0]["checkpoints"][0] > 0


def test_what_cannot_be_planned_is_refused(tmp_path: Path) -> None:
    for told in outcomes("refusals", 2, tmp_path, PLANNED):
        assert set(told) == set(UNPLANNED)
        for case, words in UNPLANNED.items():
            assert words in told[case], case


@pytest.mark.parametrize("number", [0, 1])
def test_examples_of_the_page(number: int, tmp_path: Path) -> None:
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    assert len(blocks) == 2
    (tmp_path / "train.py").write_text(blocks[number])
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    first, second = printed(
        tmp_path / "train.py", [], 2, tmp_path, {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    )
    assert first.strip()
    assert not second.strip()


def drawn(draw: random.Random) -> tuple[list[Block], list[int], list[list[int]]]:
    """Blocks, what their step takes with all kept, and what resharding each saves, by slot."""
    count = draw.randint(1, 3)
    slots = 2 * count + 1
    base = [draw.randint(1, 9) for _ in range(slots)]
    blocks, sharded = [], []
    for i in range(count):
        size, activations = draw.randint(1, 6), draw.randint(1, 9)
        gather = Gather(size, size, 2 * size, 2 * size, draw.randint(1, 9) / 1e9)
        modes, time, freed = [Mode({}, 0, [0] * slots)], 0, 0
        for _ in range(draw.randint(1, 2)):
            time, freed = time + draw.randint(1, 9), draw.randint(freed, activations)
            active = [freed if i < slot < 2 * count - i else 0 for slot in range(slots)]
            active[2 * count - i] = -draw.randint(0, 3)
            modes.append(Mode({f"block {i}": Choice()}, time, active))
        unit = Unit(f"block {i}", i, i, i, 2 * count - i, gather)
        blocks.append(Block(unit, modes, draw.randint(0, 20), draw.randint(1, 20)))
        ahead = 2 * count - i - 1  # the gather is issued
        sharded.append([size if i < slot < ahead else 0 for slot in range(slots)])
        for slot in range(i, 2 * count - i + 1):
            base[slot] += size + (activations if slot > i else 0)
    return blocks, base, sharded


@pytest.mark.parametrize("overlaps", [False, True])
def test_no_plan_beats_the_bound_of_the_graph(overlaps: bool) -> None:
    """Every plan that holds a budget takes as long as the engine's bound, or longer; none where it proves that."""
    found = 0
    for seed in range(60):
        draw = random.Random(seed)
        blocks, base, sharded = drawn(draw)
        graph = StepGraph(blocks, base, draw.randint(0, 9), overlaps)
        budget = draw.randint(max(1, max(base) // 2), max(base))
        plans = []
        for modes in itertools.product(*(range(len(block.modes)) for block in blocks)):
            for again in itertools.product([False, True], repeat=len(blocks)):
                load = list(base)
                for block, m, rows, flag in zip(blocks, modes, sharded, again, strict=True):
                    load = [a - s - r * flag for a, s, r in zip(load, block.modes[m].saved, rows, strict=True)]
                if max(load) <= budget:
                    names = [block.unit.name for block, flag in zip(blocks, again, strict=True) if flag]
                    plans.append(graph.time_of(modes, names))
        try:
            bound = remora.solve(graph.graph, {DEVICE: budget + graph.lift}, work_limit=300, threads=1).bound
        except remora.NoDeviceSchedule as error:
            assert not (plans and error.is_proved), seed
            continue
        found += bool(plans)
        assert bound <= min(plans, default=bound), seed
    assert found > 20
