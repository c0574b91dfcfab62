# SPDX-License-Identifier: Apache-2.0
"""`planning_algo`: programs compute the same in ExecuTorch's runtime, in arenas no larger than its own."""

from __future__ import annotations

import functools
import random
import re
from collections.abc import Sequence
from types import SimpleNamespace

import programs
import pytest
import torch
from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
from executorch.exir import to_edge_transform_and_lower
from executorch.exir.banked_memory_planning import Bank, BankedGreedy, BankPlacementError, TargetMemoryMap
from executorch.exir.memory_planning import MemoryAlgoResult, Verifier, greedy, naive
from executorch.exir.tensor import TensorSpec
from torch import nn

import remora
from remora.executorch import planning_algo

EMPTY = SimpleNamespace()
"""A program without control flow."""


def spec(size: int, first: int, last: int, mem_id: int | None = None) -> TensorSpec:
    made = TensorSpec(torch.uint8, torch.Size([size]))
    made.lifetime, made.mem_id = [first, last], mem_id
    return made


def random_specs(draw: random.Random, count: int, nodes: int = 20) -> list[TensorSpec]:
    made = []
    for _ in range(count):
        first = draw.randrange(nodes)
        made.append(spec(draw.randrange(1, 2000), first, min(nodes, first + draw.randrange(8))))
    return made


def expect_sound(specs: Sequence[TensorSpec], result: MemoryAlgoResult, alignment: int = 16) -> None:
    """Checked by ExecuTorch's own rules, and by comparing all pairs."""
    placed = result.spec_dict
    for one in specs:
        one.mem_id, one.mem_offset, one.mem_obj_id = (
            placed[one].mem_id,
            placed[one].mem_offset,
            placed[one].mem_obj_id,
        )
        assert one.mem_offset % alignment == 0
        assert one.mem_offset + one.allocated_memory <= result.bufsizes[one.mem_id]
    for i, one in enumerate(specs):
        for other in specs[:i]:
            if Verifier.storage_overlap(one, other):
                assert not Verifier.lifetime_overlap(one, other)
                assert Verifier.mem_obj_id_match(one, other)


@pytest.mark.parametrize("name", ["MLP", "U-Net", "transformer", "LSTM"])
def test_programs_run_and_are_no_larger(name: str) -> None:
    edge, inputs = programs.exported(name)
    theirs, ours = programs.planned(edge, greedy), programs.planned(edge, planning_algo)
    smallest = min(programs.arenas(theirs), programs.arenas(programs.planned(edge, naive)))
    assert programs.arenas(ours) <= smallest
    assert programs.same(programs.run(theirs, inputs), programs.run(ours, inputs))
    again = programs.planned(edge, planning_algo)
    assert again.buffer == ours.buffer, "the same program every time"


def test_inputs_and_outputs_may_stay_outside() -> None:
    edge, inputs = programs.exported("CNN")
    outside = programs.planned(edge, planning_algo, alloc_graph_input=False, alloc_graph_output=False, alignment=64)
    whole = programs.planned(edge, planning_algo)
    assert programs.arenas(outside)[0] <= programs.arenas(whole)[0]
    assert programs.same(programs.run(outside, inputs), programs.run(whole, inputs))


class Counter(nn.Module):
    """A mutable buffer, which is never freed."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.count.add_(1.0)
        return x * self.count


class Branches(nn.Module):
    """Control flow, whose arenas lie below."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.cond(x.sum() > 0, lambda v: (v + 1).sin() * v, lambda v: v.cos() - v, [x])
        return (y * 2.0).tanh() + x


def test_state_and_control_flow() -> None:
    for model, inputs in ((Counter(), torch.ones(4)), (Branches(), torch.ones(8)), (Branches(), -torch.ones(8))):
        edge, given = programs.exported((model, (inputs,)))
        theirs, ours = (programs.planned(edge, algorithm) for algorithm in (greedy, planning_algo))
        assert programs.arenas(ours) <= programs.arenas(theirs)
        methods = [programs.loaded(program) for program in (theirs, ours)]
        for _ in range(3):
            first, second = (method.execute(given) for method in methods)
            assert programs.same(first, second)


def test_delegates_keep_their_padding() -> None:
    network, inputs = programs.network("MobileNet-like")
    edge = to_edge_transform_and_lower(torch.export.export(network, inputs), partitioner=[XnnpackPartitioner()])
    theirs, ours = (programs.planned(edge, algorithm) for algorithm in (greedy, planning_algo))
    assert programs.arenas(ours) <= programs.arenas(theirs)
    assert programs.same(programs.run(theirs, inputs), programs.run(ours, inputs))


def test_random_tensors_are_sound_and_no_larger() -> None:
    draw = random.Random(3)
    for _ in range(60):
        specs = random_specs(draw, draw.randrange(1, 25))
        ours = planning_algo(16, specs, EMPTY, None, draw.choice([0, 64]))
        assert sum(ours.bufsizes) <= sum(greedy(16, specs, EMPTY, None, 64).bufsizes)
        expect_sound(specs, ours)


def test_memories_are_apart_and_reserved_bytes_stay_free() -> None:
    specs = [spec(100, 0, 3), spec(100, 1, 2, 3), spec(50, 2, 4, 3), spec(10, 5, 6)]
    program = SimpleNamespace(input_mem_buffer_sizes=[0, 48, 32])
    result = planning_algo(16, specs, program, None, 64)
    assert result.bufsizes == [0, 48 + 112 + 64, 32, 112 + 64 + 64]
    assert {result.spec_dict[one].mem_id for one in specs} == {1, 3}
    assert result.spec_dict[specs[0]].mem_offset == 48
    expect_sound(specs, result)
    assert planning_algo(16, [], EMPTY).bufsizes == [0, 0]


def test_tensors_inside_others_move_with_them() -> None:
    outer, inner, innermost = spec(128, 0, 9), spec(64, 2, 4), spec(16, 3, 3)
    inner.storage_base, inner.storage_base_offset = outer, 32
    innermost.storage_base, innermost.storage_base_offset = inner, 16
    result = planning_algo(16, [innermost, inner, spec(256, 0, 9), outer], EMPTY)
    base = result.spec_dict[outer].mem_offset
    assert (result.spec_dict[inner].mem_offset, result.spec_dict[innermost].mem_offset) == (base + 32, base + 48)
    assert result.bufsizes == [0, 384]
    inner.storage_base_offset = 96
    with pytest.raises(remora.InputError, match="does not lie inside"):
        planning_algo(16, [inner, outer], EMPTY)
    inner.storage_base_offset = 8
    with pytest.raises(remora.InputError, match="no multiple of 16"):
        planning_algo(16, [inner, outer], EMPTY)
    with pytest.raises(remora.InputError, match="no address of its own"):
        planning_algo(16, [inner], EMPTY)


def test_banks_hold_what_they_can_and_refuse_the_rest() -> None:
    banks = TargetMemoryMap([Bank("fast", 256, 1), Bank("slow", 1024, 2, 32)])
    specs = [spec(256, 0, 2), spec(160, 2, 4), spec(96, 3, 6), spec(512, 0, 4, 2), spec(64, 7, 8)]
    result = planning_algo(16, specs, EMPTY, banks=banks)
    assert [result.spec_dict[one].mem_id for one in specs] == [1, 2, 1, 2, 1]
    expect_sound(specs, result)
    for refused in ([spec(2000, 0, 1)], [spec(300, 0, 1, 1)], [spec(200, 0, 1, 1), spec(200, 1, 2, 1)]):
        with pytest.raises(BankPlacementError):
            planning_algo(16, refused, EMPTY, banks=banks)
    with pytest.raises(BankPlacementError, match="no multiple"):
        planning_algo(16, specs, EMPTY, banks=TargetMemoryMap([Bank("odd", 999, 1, 24)]))


def test_random_banks_hold_wherever_executorchs_do() -> None:
    draw = random.Random(5)
    placed = more = 0
    for _ in range(60):
        specs = random_specs(draw, draw.randrange(4, 16))
        whole = planning_algo(16, specs, EMPTY).bufsizes[1]
        fast = draw.randrange(16, whole)
        banks = TargetMemoryMap(
            [Bank("fast", fast, 1), Bank("slow", int((whole - fast) * draw.uniform(0.8, 1.6)) + 1, 2)]
        )
        try:
            ours = planning_algo(16, specs, EMPTY, banks=banks)
        except BankPlacementError:
            ours = None
        try:
            BankedGreedy(banks)(16, specs, EMPTY)
        except BankPlacementError:
            more += ours is not None
        else:
            assert ours is not None
        if ours is not None:
            placed += 1
            assert all(size <= bank.size for size, bank in zip(ours.bufsizes[1:], banks.banks, strict=False))
            expect_sound(specs, ours)
            for one in specs:
                one.mem_id = None
    assert placed and more, "both kinds were drawn"


def test_the_bank_that_a_refusal_names_is_enough() -> None:
    draw = random.Random(7)
    for _ in range(100):
        specs = random_specs(draw, draw.randrange(4, 16))
        for one in draw.choices(specs, k=draw.randrange(4)):
            one.mem_id = 1
        with pytest.raises(BankPlacementError, match="bytes are enough") as refusal:
            planning_algo(16, specs, EMPTY, extra_padding=64, banks=TargetMemoryMap([Bank("small", 128, 1)]))
        named = re.search(r"(\d+) bytes are enough for (bank small|these), (\d+) more than it has", str(refusal.value))
        assert named and int(named[1]) - int(named[3]) == 128
        held = [one for one in specs if one.mem_id] if named[2] == "these" else specs
        banks = TargetMemoryMap([Bank("small", int(named[1]), 1)])
        expect_sound(held, planning_algo(16, held, EMPTY, extra_padding=64, banks=banks))


def test_the_bank_that_lacks_least_is_named() -> None:
    draw = random.Random(9)
    names = set()
    for _ in range(60):
        specs = random_specs(draw, draw.randrange(4, 16))
        whole = planning_algo(16, specs, EMPTY).bufsizes[1]
        sizes = {"small": draw.randrange(16, whole // 4 + 17), "large": draw.randrange(16, whole)}
        try:
            planning_algo(16, specs, EMPTY, banks=TargetMemoryMap(two_banks(sizes)))
            continue
        except BankPlacementError as error:
            named = re.search(r"(\d+) bytes are enough for bank (\w+), (\d+) more than it has", str(error))
        assert named and int(named[1]) - int(named[3]) == sizes[named[2]]
        names.add(named[2])
        assert int(named[3]) <= whole - sizes["small"], "the first bank may hold everything"
        grown = TargetMemoryMap(two_banks({**sizes, named[2]: int(named[1])}))
        expect_sound(specs, planning_algo(16, specs, EMPTY, banks=grown))
    assert names == {"small", "large"}


def two_banks(sizes: dict[str, int]) -> list[Bank]:
    return [Bank(name, size, number) for number, (name, size) in enumerate(sizes.items(), 1)]


def test_programs_run_in_several_banks() -> None:
    edge, inputs = programs.exported("MobileNet-like")
    whole = programs.planned(edge, planning_algo)
    (size,) = programs.arenas(whole)
    banks = TargetMemoryMap([Bank("fast", size // 4, 1), Bank("slow", size, 2)])
    apart = programs.planned(edge, functools.partial(planning_algo, banks=banks))
    fast, slow = programs.arenas(apart)
    assert 0 < fast <= size // 4 and slow < size
    assert programs.same(programs.run(whole, inputs), programs.run(apart, inputs))
