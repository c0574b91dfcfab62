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
import torch

from remora.torch.decide.modes import ModeSearch
from remora.torch.problem.family import Family, Mode, Unit, undominated

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
        if torch.cuda.device_count() < size:  # NCCL wants a GPU for each
            own |= {"REMORA_TEST_DEVICE": "cpu", "CUDA_VISIBLE_DEVICES": ""}
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


@pytest.mark.parametrize("case", ["all_reduce_in_the_step", "all_reduce_behind_the_step", "ddp_around_a_wrapped_model"])
def test_one_process_trains_as_without_remora(case: str, tmp_path: Path) -> None:
    (told,) = outcomes(case, 1, tmp_path)  # where REMORA_TEST_DEVICE is a GPU by nccl
    assert told["recomputes"] > 0


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


@pytest.mark.parametrize("case", ["fsdp_hooks", "pipeline_hooks"])
def test_optimizers_in_the_backward_make_no_step_while_a_plan_is_made(case: str, tmp_path: Path) -> None:
    assert outcomes(case, 2, tmp_path, PLANNED) == [{"planned": True}] * 2


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


def drawn(draw: random.Random) -> Family:
    """Units whose activations and parameters may be freed, and what the step takes with all kept."""
    count = draw.randint(1, 3)
    slots = 2 * count + 1
    base = [draw.randint(1, 9) for _ in range(slots)]
    units = []
    for i in range(count):
        size, gathered, activations = draw.randint(1, 6), draw.randint(1, 9), draw.randint(1, 9)
        rows, time, freed = [(0, [0] * slots)], 0, 0
        for _ in range(draw.randint(1, 2)):
            time, freed = time + draw.randint(1, 9), draw.randint(freed, activations)
            active = [freed if i < slot < 2 * count - i else 0 for slot in range(slots)]
            active[2 * count - i] = -draw.randint(0, 3)
            rows.append((time, active))
        modes = []
        for again, (time, saved) in itertools.product([False, True], rows):
            ahead = 2 * count - i - 1  # the gather is issued
            more = [size if again and i < slot < ahead else 0 for slot in range(slots)]
            both = [a + b for a, b in zip(saved, more, strict=True)]
            modes.append(Mode({}, time + gathered * again, both, (f"{i}",) if again else ()))
        units.append(Unit(f"{i}", [i], undominated(modes)))
        for slot in range(i, 2 * count - i + 1):
            base[slot] += size + (activations if slot > i else 0)
    return Family(base, [(i, i + 1) for i in range(slots)], [units], [[0]], {})


def test_no_plan_of_a_sharded_step_is_better_by_trying_all() -> None:
    found = 0
    for seed in range(100):
        draw = random.Random(seed)
        family = drawn(draw)
        budget = draw.randint(max(1, max(family.base) // 2), max(family.base))
        plans = []
        for modes in itertools.product(*(unit.modes for unit in family.units([0]))):
            loads = [base - sum(saved) for base, *saved in zip(family.base, *(m.saved for m in modes), strict=True)]
            if max(loads) <= budget:
                plans.append(sum(mode.time for mode in modes))
        search = ModeSearch(family, budget, 20.0, 1, 1)
        chosen = search.run()
        if chosen is None:
            assert not plans and search.proved, seed
            continue
        found += 1
        assert chosen.bound == chosen.time == min(plans), seed
    assert found > 20
