# SPDX-License-Identifier: Apache-2.0
"""Pipelines: what the function says is what the program says, and its tasks hold what it promises."""

from __future__ import annotations

import json
import random
import threading
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import remora

Program = Callable[..., str]
SCHEDULES: tuple[Any, ...] = ("gpipe", "1f1b", "interleaved", "zero-bubble")
BLOCK = remora.Stage(
    "block",
    [remora.StageMode("keep", forward=20, backward=40, saved=10), remora.StageMode("again", 20, 60, saved=2)],
    fixed_memory=10,
)


def random_stage(draw: random.Random, name: str) -> remora.Stage:
    modes = []
    for i in range(draw.randint(1, 3)):
        transient = [draw.randint(0, 4) for _ in range(3)]
        times = draw.randint(1, 9), draw.randint(1, 9) + 3 * i
        modes.append(
            remora.StageMode(f"m{i}", *times, draw.randint(3, 9), draw.randint(0, 5), draw.randint(0, 3), *transient)
        )
    return remora.Stage(name, modes, draw.randint(0, 5))


def check(plan: remora.PipelinePlan, devices: int, microbatches: int, send: int, splits: bool) -> None:
    """The tasks, replayed here: nothing starts before what it needs, and memory is as the plan says."""
    tasks = {(t.kind, t.stage, t.microbatch): t for on in plan.tasks for t in on}
    mode = {
        (s, m): plan.stages[s].modes[plan.choice[s][m % len(plan.choice[s])]]
        for s in range(len(plan.stages))
        for m in range(microbatches)
    }
    assert len(tasks) == len(plan.stages) * microbatches * (3 if splits else 2)
    assert max(t.end for t in tasks.values()) == plan.makespan
    for (kind, s, m), task in tasks.items():
        own = mode[s, m]
        lasts = {"forward": own.forward, "backward": own.backward, "weight_gradient": own.weight_gradient}[kind]
        assert task.end - task.start == lasts + (own.weight_gradient if kind == "backward" and not splits else 0)
        if kind == "forward" and s > 0:
            assert task.start >= tasks["forward", s - 1, m].end + send
        if kind == "backward":
            last = s + 1 == len(plan.stages)
            assert task.start >= (tasks["forward", s, m].end if last else tasks["backward", s + 1, m].end + send)
        if kind == "weight_gradient":
            assert task.start >= tasks["backward", s, m].end
    for device, on in enumerate(plan.tasks):
        assert all(before.end <= task.start for before, task in pairwise(on))
        always = held = sum(s.fixed_memory for s in plan.stages[device::devices])
        most = held
        for task in on:
            own = mode[task.stage, task.microbatch]
            held += own.saved if task.kind == "forward" else 0
            beside = {"forward": own.forward_transient, "backward": own.backward_transient}
            if not splits:
                beside["backward"] = max(own.backward_transient, own.weight_transient)
            most = max(most, held + beside.get(task.kind, own.weight_transient))
            if task.kind == "backward":
                held += (own.held if splits else 0) - own.saved
            if task.kind == "weight_gradient":
                held -= own.held
        assert held == always
        assert most == plan.peaks[device]


@pytest.mark.parametrize("seed", range(40))
def test_it_says_what_the_program_says(seed: int, program: Program, tmp_path: Path) -> None:
    draw = random.Random(seed)
    schedule = SCHEDULES[seed % len(SCHEDULES)]
    devices = draw.randint(1, 3)
    count = devices * (draw.randint(1, 2) if schedule == "interleaved" else 1)
    microbatches, send = devices * draw.randint(1, 3), draw.randint(0, 2)
    classes = min(microbatches, draw.randint(1, 2))
    kinds = [random_stage(draw, "a"), random_stage(draw, "b")]
    stages = [draw.choice(kinds) for _ in range(count)]
    budget = None if draw.random() < 0.3 else [draw.randint(20, 120) for _ in range(devices)]
    asked: dict[str, Any] = {"microbatches": microbatches, "schedule": schedule, "classes": classes, "send": send}
    plan = remora.pipeline(stages, budget=budget, devices=devices, work_limit=5000, **asked)
    for stage in kinds:
        stage.save(tmp_path / f"{stage.name}.json")
        assert remora.load_stage(tmp_path / f"{stage.name}.json") == stage_with_tuple(stage)
    words = [word for key, value in asked.items() for word in (f"--{key}", str(value))]
    words += ["--devices", str(devices), "--work-limit", "5000"]
    words += ["--budget", ",".join(f"{amount}B" for amount in budget)] if budget else []
    files = [tmp_path / f"{stage.name}.json" for stage in stages]
    said = json.loads(program("pipeline", *files, *words, "-q", "-o", "-", ends=0 if plan else 20))
    plan.save(tmp_path / "plan.json")
    mine = json.loads((tmp_path / "plan.json").read_text(encoding="utf-8"))
    assert {**mine, "seconds": 0} == {**said, "seconds": 0}
    if not plan:
        assert (plan.status, plan.tasks, plan.choice) == ("infeasible", (), ())
        assert "device" in plan.reason
        return
    assert plan.makespan == plan.bound == said["makespan"]
    check(plan, devices, microbatches, send, splits=schedule == "zero-bubble")
    assert budget is None or all(peak <= most for peak, most in zip(plan.peaks, budget, strict=True))


def stage_with_tuple(stage: remora.Stage) -> remora.Stage:
    return remora.Stage(stage.name, tuple(stage.modes), stage.fixed_memory)


def step(layers: int = 6) -> remora.Graph:
    """A training step: each layer's output is read once more on the way back."""
    graph = remora.Graph("step", fixed_memory=5)
    outputs: list[remora.Tensor] = []
    for i in range(layers):
        outputs.append(
            graph.op(f"f{i}", duration=10, inputs=outputs[-1:], outputs={f"a{i}": 8}, phase="forward").output
        )
    back = outputs[-1]
    for i in reversed(range(layers)):
        inputs = [back] if back is outputs[i] else [back, outputs[i]]
        back = graph.op(f"b{i}", duration=20, inputs=inputs, outputs={f"g{i}": 8}, phase="backward", keep=i == 0).output
    return graph


def test_a_graph_is_a_stage(program: Program, tmp_path: Path) -> None:
    graph = step()
    plan = remora.pipeline([graph, BLOCK, graph], microbatches=4, modes=4, work_limit=3000)
    assert plan.stages[0] == plan.stages[2]
    assert len(plan.stages[0].modes) > 1
    assert plan.stages[0].fixed_memory == 5
    check(plan, 3, 4, 0, splits=False)
    graph.save(tmp_path / "step.json")
    BLOCK.save(tmp_path / "block.json")
    files = [tmp_path / name for name in ("step.json", "block.json", "step.json")]
    words = ["-m", "4", "--modes", "4", "--work-limit", "3000", "-q", "--stages", tmp_path]
    program("pipeline", *files, *words)
    for i, stage in enumerate(plan.stages):
        assert remora.load_stage(tmp_path / f"STAGE-{i}.json") == stage_with_tuple(stage)
    tight = remora.pipeline(plan.stages, microbatches=4, budget=max(plan.peaks) - 20)
    assert tight.makespan is not None and plan.makespan is not None
    assert tight.makespan > plan.makespan
    assert max(tight.peaks) <= max(plan.peaks) - 20


def test_what_is_wrong_is_said_with_its_place() -> None:
    with pytest.raises(remora.InputError, match="budget: 2 budgets for 4 devices"):
        remora.pipeline([BLOCK] * 4, microbatches=8, budget=[1, 2])
    with pytest.raises(remora.InputError, match=r"schedule: must be gpipe, 1f1b"):
        remora.pipeline([BLOCK], microbatches=8, schedule="2f2b")  # type: ignore[arg-type]
    with pytest.raises(remora.InputError, match="microbatches: must be from 1"):
        remora.pipeline([BLOCK], microbatches=0)
    with pytest.raises(remora.InputError, match="classes: must be"):
        remora.pipeline([BLOCK], microbatches=4, classes=9)
    with pytest.raises(remora.InputError, match="devices: only an interleaved"):
        remora.pipeline([BLOCK] * 4, microbatches=4, devices=2)
    with pytest.raises(remora.InputError, match=r"stages\[1\].modes\[0\].saved: must not be negative"):
        remora.pipeline([BLOCK, remora.Stage("x", [remora.StageMode("m", 1, 1, saved=-1)])], microbatches=4)
    with pytest.raises(remora.InputError, match="must have at least one"):
        remora.pipeline([remora.Stage("x", [])], microbatches=4)
    with pytest.raises(remora.InputError, match=r"stages: must have at least one"):
        remora.pipeline([], microbatches=4)
    with pytest.raises(TypeError, match=r"stages\[0\]: must be a remora.Stage or a remora.Graph"):
        remora.pipeline(["block.json"], microbatches=4)  # type: ignore[list-item]
    whole = remora.Graph("forward")
    whole.op("f", duration=1, outputs={"a": 1})
    with pytest.raises(remora.InputError, match=r"stages\[1\]: .*backward"):
        remora.pipeline([BLOCK, whole], microbatches=4)
    with pytest.raises(remora.InputError, match="gap: is not for pipeline"):
        remora.pipeline([BLOCK], microbatches=4, limits=remora.Limits(gap=0.1))


def test_no_plan_says_why() -> None:
    plan = remora.pipeline([BLOCK] * 4, microbatches=8, budget=12)
    assert (plan.status, bool(plan), plan.makespan, plan.peaks) == ("infeasible", False, None, ())
    assert plan.reason.startswith("device 0 needs at least 18 bytes (mode 1), and has 12; device 1 needs")
    assert plan.reason in repr(plan)
    assert plan.needs[0] == remora.DeviceNeed(device=0, least=18, enough=18, modes=((1,),))
    enough = [need.enough for need in plan.needs]
    assert enough == [18, 16, 14]
    assert remora.pipeline([BLOCK] * 4, microbatches=8, budget=[18, 16, 14, 12])
    assert not remora.pipeline([BLOCK] * 4, microbatches=8, budget=[18, 16, 13, 12])
    assert remora.pipeline([BLOCK] * 4, microbatches=8, budget=40).needs == ()


def test_it_ends_when_it_is_told_to() -> None:
    stop = threading.Event()
    stop.set()
    # More modes than any time limit lets it make.
    plan = remora.pipeline([step(40)], microbatches=4, modes=2**30, stop=stop, time_limit=600)
    assert 1 <= len(plan.stages[0].modes) < 80
