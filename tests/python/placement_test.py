# SPDX-License-Identifier: Apache-2.0
"""Addresses: of buffers, of schedules as they are, and of schedules that are found together with them."""

from __future__ import annotations

import dataclasses
import itertools
import json
import random
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import ladder

import remora


def apart(placement: remora.Placement) -> bool:
    """Whether no two buffers that hold memory at one time share a byte; by looking at every moment."""
    times = {t for buffer in placement.buffers for t in range(buffer.lower, buffer.upper)}
    for time in times:
        alive = [
            (offset, offset + buffer.size)
            for buffer, offset in zip(placement.buffers, placement.offsets, strict=True)
            if buffer.lower <= time < buffer.upper and not any(begin <= time < end for begin, end in buffer.gaps)
        ]
        if any(a[0] < b[1] and b[0] < a[1] for a, b in itertools.combinations(alive, 2)):
            return False
    return True


def some_buffers(seed: int, count: int = 30) -> list[remora.Buffer]:
    rng = random.Random(seed)
    buffers = []
    for number in range(count):
        lower = rng.randint(-5, 20)
        upper = lower + rng.randint(1, 12)
        gap = [(lower + 1, upper - 1)] if upper - lower > 3 and rng.random() < 0.3 else []
        buffers.append(remora.Buffer(f"b{number}", lower, upper, rng.randint(1, 99), rng.choice([1, 8]), gaps=gap))
    return buffers


@pytest.mark.parametrize("seed", range(5))
def test_buffers_lie_apart_and_come_back_from_the_file(seed: int, tmp_path: Path) -> None:
    buffers = some_buffers(seed)
    found = remora.place(buffers, work_limit=20000, alignment=4)
    assert found and apart(found)
    assert found.bound <= found.arena == max(o + b.size for b, o in zip(buffers, found.offsets, strict=True))
    assert all(offset % max(4, b.alignment) == 0 for b, offset in zip(buffers, found.offsets, strict=True))
    found.save(tmp_path / "placed.csv")
    again = remora.load_buffers(tmp_path / "placed.csv")
    assert [b.offset for b in again] == list(found.offsets)
    assert [(b.id, b.lower, b.upper, b.size, tuple(b.gaps)) for b in again] == [
        (b.id, b.lower, b.upper, b.size, tuple(b.gaps)) for b in buffers
    ]
    assert list(remora.place(again, capacity=found.arena).offsets) == list(found.offsets)
    fast = remora.place(buffers, alignment=4, heuristics=True)
    assert apart(fast) and fast.arena >= found.bound


def test_capacities_and_what_is_impossible() -> None:
    buffers = [remora.Buffer("a", 0, 2, 4), remora.Buffer("b", 1, 3, 4), remora.Buffer("c", 2, 4, 4)]
    assert remora.place(buffers, capacity="100%").status == "optimal"
    none = remora.place(buffers, capacity=7)
    assert not none and none.status == "infeasible" and none.bound == 8 and len(none.offsets) == 0
    clash = [remora.Buffer("a", 0, 2, 4, offset=0), remora.Buffer("b", 1, 3, 4, offset=2)]
    assert remora.place(clash).status == "infeasible"
    assert remora.place([]).arena == 0


def test_a_schedule_is_placed_as_it_is() -> None:
    graph = ladder(8)
    schedule = remora.solve(graph, "70%", work_limit=5000)
    assert schedule.arena is None
    found = remora.place(schedule, alignment=8, work_limit=20000)
    assert apart(found) and len(found.buffers) >= len(schedule)
    assert found.schedule is not None and found.schedule.arena is not None
    assert found.schedule.arena.size == found.arena <= schedule.budget
    assert remora.verify(graph, found.schedule)
    assert schedule.arena is None
    # At multiples of the whole budget nothing lies beside anything.
    far = remora.place(schedule, alignment=1 << 14, work_limit=2000)
    assert far.arena > schedule.budget and far.schedule is None


def test_recomputes_and_addresses_together(tmp_path: Path) -> None:
    graph = ladder(8, size=1001)
    schedule = remora.solve(graph, "75%", addresses=True, alignment=32, work_limit=20000)
    arena = schedule.arena
    assert arena is not None and arena.alignment == 32 and arena.size <= schedule.budget
    assert remora.verify(graph, schedule)
    assert len(arena.offsets) == len(arena.workspaces) == len(schedule) and not arena.inputs
    allocated = {tensor for step in arena.offsets for tensor in step}
    assert allocated == set(graph.tensors)
    assert all(offset % 32 == 0 for step in arena.offsets for offset in step.values())
    schedule.save(tmp_path / "s.json")
    again = remora.Schedule.load(tmp_path / "s.json", graph)
    assert again == schedule and again.arena == arena
    assert remora.solve(graph, "75%", addresses=True, work_limit=2000).arena is not None


def test_stops_and_callbacks() -> None:
    stop = threading.Event()
    stop.set()
    found = remora.place(some_buffers(1, 200), stop=stop)
    assert found and apart(found)
    graph = ladder(60)
    # The first incumbent ends the search; what there is gets its addresses.
    schedule = remora.solve(graph, "95%", addresses=True, time_limit=60, on_incumbent=lambda _: True)
    assert schedule.arena is not None


def test_what_is_wrong_is_said_with_its_place(tmp_path: Path) -> None:
    bad, good = remora.InputError, remora.Buffer("a", 0, 1, 1)
    schedule = remora.evaluate(ladder(2), range(4))
    cases: list[tuple[str, type[Exception], object, dict[str, object]]] = [
        ("buffers[1]: must be a remora.Buffer", TypeError, [good, 3], {}),
        ("buffers: must be a list", TypeError, 7, {}),
        ("buffers[0].size: must not be negative", bad, [remora.Buffer("a", 0, 1, -1)], {}),
        ("ends before it begins", bad, [remora.Buffer("a", 2, 1, 1)], {}),
        ("buffers[0].lower: must be an integer", TypeError, [remora.Buffer("a", 0.5, 1, 1)], {}),  # type: ignore[arg-type]
        ("must lie in the lifespan", bad, [remora.Buffer("a", 0, 4, 1, gaps=[(3, 9)])], {}),
        ("pairs", bad, [remora.Buffer("a", 0, 4, 1, gaps=[(1, 2, 3)])], {}),  # type: ignore[list-item]
        ("capacity: ", bad, [good], {"capacity": "much"}),
        ("alignment: must be from 1 to 2^30", bad, [good], {"alignment": 0}),
        ("alignment: must be from 1 to 2^30", bad, schedule, {"alignment": 0}),
        ("heuristics: must be True or False", TypeError, [good], {"heuristics": 1}),
    ]
    for words, kind, what, named in cases:
        with pytest.raises(kind) as caught:
            remora.place(what, **named)  # type: ignore[arg-type]
        assert words in str(caught.value), (words, str(caught.value))
    with pytest.raises(bad, match="alignment: is for addresses"):
        remora.solve(ladder(2), "100%", alignment=64)
    (tmp_path / "bad.csv").write_text("id,lower,upper,size\na,0,1,x\n")
    with pytest.raises(bad, match=r"bad\.csv: line 2: size must be a whole number"):
        remora.load_buffers(tmp_path / "bad.csv")


def test_buffers_lie_in_banks_at_the_lowest_cost(tmp_path: Path) -> None:
    costs = {"a": 5, "b": 2, "c": 3}
    buffers = [
        remora.Buffer(name, at, at + 3, 4, banks={"tcm": 0, "sram": cost})
        for at, (name, cost) in enumerate(costs.items())
    ]
    buffers.append(remora.Buffer("dma", 0, 5, 16, banks={"sram": 0}))
    banks = {"tcm": 8, "sram": 64}
    found = remora.place(buffers, banks=banks)
    assert (found.status, found.cost, found.cost_bound) == ("optimal", 2, 2)
    assert found.banks == ["tcm", "sram", "tcm", "sram"]
    for bank, capacity in banks.items():
        inside = [place for place, name in enumerate(found.banks) if name == bank]
        ends = [found.offsets[place] + buffers[place].size for place in inside]
        assert max(ends) <= capacity
        for one in inside:
            for two in inside:
                together = (
                    one < two and buffers[one].lower < buffers[two].upper and buffers[two].lower < buffers[one].upper
                )
                below = found.offsets[one] + buffers[one].size <= found.offsets[two]
                above = found.offsets[two] + buffers[two].size <= found.offsets[one]
                assert not together or below or above
    found.save(tmp_path / "banks.json")
    again, capacities = remora.load_banks(tmp_path / "banks.json")
    assert capacities == banks and [buffer.banks for buffer in again] == [buffer.banks for buffer in buffers]
    # One memory is a bank at no cost: the capacity is what the arena is held to.
    plain = [remora.Buffer(buffer.id, buffer.lower, buffer.upper, buffer.size) for buffer in buffers]
    assert remora.place(plain, banks={"all": 28}) and not remora.place(plain, banks={"all": 27})
    with pytest.raises(remora.InputError, match=r"buffers\[0\]\.banks: there is no bank 'dram'"):
        remora.place([remora.Buffer("a", 0, 1, 1, banks={"dram": 0})], banks=banks)
    with pytest.raises(remora.InputError, match="capacity: is of one memory"):
        remora.place(plain, banks=banks, capacity=9)


@pytest.mark.parametrize("seed", range(40))
def test_it_says_what_the_program_says(seed: int, program: Callable[..., str], tmp_path: Path) -> None:
    """Buffers in one arena (even seeds), and in up to three banks."""
    draw = random.Random(seed)
    buffers = some_buffers(seed, 9)
    banks = {f"bank{i}": draw.randint(99, 400) for i in range(draw.randint(1, 3))} if seed % 2 else None
    if banks:
        chosen = [draw.sample(list(banks), draw.randint(1, len(banks))) for _ in buffers]
        costs = [{name: draw.randint(0, 9) for name in names} for names in chosen]
        buffers = [dataclasses.replace(buffer, banks=cost) for buffer, cost in zip(buffers, costs, strict=True)]
    found = remora.place(buffers, banks=banks, work_limit=2000, threads=1)
    given, placed = tmp_path / ("in.json" if banks else "in.csv"), tmp_path / ("out.json" if banks else "out.csv")
    if banks:
        rows = [
            {"id": b.id, "lower": b.lower, "upper": b.upper, "size": b.size, "alignment": b.alignment}
            | {"gaps": [list(gap) for gap in b.gaps]}
            | {"banks": [{"name": name, "cost": cost} for name, cost in (b.banks or {}).items()]}
            for b in buffers
        ]
        listed = [{"name": name, "capacity": capacity} for name, capacity in banks.items()]
        given.write_text(json.dumps({"format": "remora-banks", "version": 1, "banks": listed, "buffers": rows}))
    else:
        remora.place(buffers, heuristics=True).save(given)  # with offsets, which are taken out again
        given.write_text("\n".join(line.rsplit(",", 1)[0] for line in given.read_text().splitlines()) + "\n")
    words = ["--work-limit", "2000", "--threads", "1", "--json", "-q", "-o", placed]
    said = json.loads(program("place", given, *words, ends=0 if found else 20))
    assert found.status == said["status"]
    if not found:
        return
    if banks:
        assert (found.cost, found.cost_bound) == (said["cost"], said["lower_bound"])
    else:
        assert apart(found) and (found.arena, found.bound) == (said["arena"], said["lower_bound"])
    found.save(tmp_path / "mine")
    assert (tmp_path / "mine").read_text() == placed.read_text()
