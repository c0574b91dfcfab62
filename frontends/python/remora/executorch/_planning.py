# SPDX-License-Identifier: Apache-2.0
"""Addresses for the tensors of an ExecuTorch program, by `remora.place`.

ExecuTorch says when each tensor is alive (``TensorSpec.lifetime``: the first and the last node that refer to it) and in
which memory it has to lie (``mem_id``, if a pass before has set it). A memory is an arena of its own:

    reserved | placed tensors                     | padding
    0        what cond, while, map and scan take                     (ExecuTorch's rules, exir/memory_planning.py)

A tensor with a ``storage_base`` lies inside another one and moves with it. With banks (ExecuTorch's
``TargetMemoryMap``: memories with sizes, the fastest first) a tensor without ``mem_id`` goes to the first bank that has
room for it, large ones first.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from executorch.exir.banked_memory_planning import Bank, BankPlacementError, TargetMemoryMap
from executorch.exir.memory_planning import MemoryAlgoResult, SpecAllocResult
from executorch.exir.schema import DeviceType
from executorch.exir.tensor import TensorSpec
from torch.fx import GraphModule

from remora.errors import InputError
from remora.executorch._nodes import FOLD, OFFSETS, folded
from remora.limits import Limits
from remora.placement import Buffer, Placement, place

LIMITS = Limits(work_limit=500, threads=1)
"""A second or two at most, and the same program on every machine."""


def planning_algo(
    alignment: int,
    specs: Iterable[TensorSpec],
    graph_module: Any,
    graph_signature: Any = None,
    extra_padding: int = 0,
    *,
    banks: TargetMemoryMap | None = None,
    limits: Limits | None = None,
) -> MemoryAlgoResult:
    """An algorithm of ExecuTorch's ``MemoryPlanningAlgorithmSuite``: as small an arena as the search finds.

    ExecuTorch calls it; `banks` and `limits` are given with ``functools.partial``. With `banks` it has to be the only
    algorithm of the suite, for the suite compares sums alone.

    Parameters
    ----------
    alignment : int
        Bytes: offsets and sizes are multiples of it.
    specs : iterable of TensorSpec
        The tensors, with their lifetimes. Their alignment is set; the suite sets the addresses.
    graph_module : GraphModule
        Its ``input_mem_buffer_sizes`` are the bytes that control flow has reserved at the bottom of each memory.
    graph_signature : ExportGraphSignature, optional
        Not used.
    extra_padding : int
        Bytes at the end of each memory that holds something.
    banks : TargetMemoryMap, optional
        Memories with sizes, in order of preference. By default there is no limit, and what has no ``mem_id`` lies in
        memory 1.
    limits : Limits, optional
        Of the search in each memory; 500 units of work by default, so that the same program comes out every time.

    Returns
    -------
    MemoryAlgoResult

    Raises
    ------
    BankPlacementError
        ExecuTorch's own: the banks do not hold the tensors, or not all are on the CPU.
    InputError
        For a tensor inside another one that is not placed or too small.

    Examples
    --------
    ::

        from executorch.exir import ExecutorchBackendConfig
        from executorch.exir.memory_planning import MemoryPlanningAlgorithmSuite
        from executorch.exir.passes import MemoryPlanningPass
        from remora.executorch import planning_algo

        suite = MemoryPlanningAlgorithmSuite([planning_algo])
        program = edge.to_executorch(ExecutorchBackendConfig(memory_planning_pass=MemoryPlanningPass(suite)))
    """
    limits = limits or LIMITS
    specs = list(specs)
    roots = sorted((spec for spec in specs if spec.storage_base is None), key=_position)
    known = _known(graph_module)
    reserved = getattr(graph_module, "input_mem_buffer_sizes", None) or []
    if banks is not None and not isinstance(banks, TargetMemoryMap):
        raise TypeError(f"banks: must be a TargetMemoryMap of ExecuTorch, not {type(banks).__name__}")
    memories = _memories(alignment, banks, reserved, extra_padding, known)
    if banks is None:
        for spec in roots:
            memories.setdefault(spec.mem_id or 1, _Memory(alignment, known)).specs.append(spec)
    else:
        _fill_banks(roots, memories, banks, alignment, limits, _copies_of_weights(graph_module))
    result = MemoryAlgoResult({}, [0] * (max([1, *memories]) + 1))
    for number, memory in memories.items():
        result.bufsizes[number] = memory.write_to(result.spec_dict, number, limits, extra_padding)
    for spec in specs:
        if spec.storage_base is not None:
            result.spec_dict[spec] = _inside(spec, result.spec_dict, alignment)
    return result


@dataclass
class _Memory:
    """Contents of one memory and its limit: bytes without the reserved ones; None for no limit.

    `known` are offsets of `RecomputePass`, which are taken where the search finds no arena as small as theirs: what the
    lowering has added (the results of writes into state) then lies between them.
    """

    alignment: int
    known: Mapping[TensorSpec, int] = field(default_factory=dict)
    reserved: int = 0
    capacity: int | None = None
    specs: list[TensorSpec] = field(default_factory=list)
    found: Placement | None = None

    def place(self, limits: Limits) -> Placement:
        """Offsets above the reserved bytes; not true in a condition where they are above the capacity."""
        buffers = [
            Buffer(str(i), spec.lifetime[0], spec.lifetime[1] + 1, spec.realign(self.alignment), self.alignment)
            for i, spec in enumerate(self.specs)
        ]
        self.found = place(buffers, limits=limits)
        if self.capacity is not None and self.found.arena > self.capacity:
            self.found = place(buffers, capacity=max(0, self.capacity), limits=limits)
        offsets = [self.known.get(spec) for spec in self.specs]
        if all(offset is None or offset % self.alignment == 0 for offset in offsets):
            fixed = [replace(buffer, offset=offset) for buffer, offset in zip(buffers, offsets, strict=True)]
            known = [buffer.offset + buffer.size for buffer in fixed if buffer.offset is not None]
            if known and max(known) < self.found.arena:
                end = max(known) if self.capacity is None else min(max(known), self.capacity)
                self.found = place(fixed, capacity=max(0, end), limits=limits) or self.found
        return self.found

    def write_to(self, placed: dict[TensorSpec, SpecAllocResult], number: int, limits: Limits, padding: int) -> int:
        """Notes the addresses, and returns the bytes that the memory takes."""
        if not self.specs:
            return self.reserved
        found = self.found or self.place(limits)
        ranges = [
            (offset, offset + spec.allocated_memory) for spec, offset in zip(self.specs, found.offsets, strict=True)
        ]
        for spec, offset, shared in zip(self.specs, found.offsets, _objects(ranges), strict=True):
            placed[spec] = SpecAllocResult(number, shared, self.reserved + offset)
        return self.reserved + found.arena + padding


def _known(graph_module: Any) -> dict[TensorSpec, int]:
    """The addresses that `RecomputePass` has given to tensors; lives may have changed since."""
    known: dict[TensorSpec, int] = {}
    for node in graph_module.graph.nodes if isinstance(graph_module, GraphModule) else ():
        specs = node.meta.get("spec")
        for at, offset in node.meta.get(OFFSETS, {}).items():
            known.setdefault(specs[at] if isinstance(specs, (list, tuple)) else specs, offset)
    return known


def _copies_of_weights(graph_module: Any) -> set[TensorSpec]:
    """The tensors that a program computes from weights alone."""
    nodes = graph_module.graph.nodes if isinstance(graph_module, GraphModule) else ()
    weights = {n.name for n in nodes if n.op == "placeholder" and getattr(n.meta.get("spec"), "const", False)}
    return {n.meta["spec"] for n in folded(nodes, weights) if isinstance(n.meta.get("spec"), TensorSpec)}


def _position(spec: TensorSpec) -> tuple[int, int, int]:
    return spec.lifetime[0], spec.lifetime[1], spec.nbytes()


def _memories(
    alignment: int,
    banks: TargetMemoryMap | None,
    reserved: Sequence[int],
    padding: int,
    known: Mapping[TensorSpec, int],
) -> dict[int, _Memory]:
    """The memories that are known beforehand, by `mem_id`."""
    memories = {
        number: _Memory(alignment, known, _aligned(size, alignment)) for number, size in enumerate(reserved) if number
    }
    for bank in [] if banks is None else banks.banks:
        own = bank.alignment or alignment
        if own % alignment:
            raise BankPlacementError(
                f"bank {bank.name}: its alignment {own} is no multiple of the program's {alignment}"
            )
        below = _aligned(reserved[bank.mem_id], own) if bank.mem_id < len(reserved) else 0
        memories[bank.mem_id] = _Memory(own, known, below, bank.size - below - padding)
    return memories


def _aligned(size: int, alignment: int) -> int:
    return -(-size // alignment) * alignment


def _objects(ranges: Sequence[tuple[int, int]]) -> list[int]:
    """A number for each range of bytes, the same for those that share bytes, directly or through others.

    ExecuTorch calls it ``mem_obj_id``, and its verifier asks for it.
    """
    objects = [0] * len(ranges)
    number, end = 0, 0
    for i in sorted(range(len(ranges)), key=ranges.__getitem__):
        if ranges[i][0] >= end:
            number += 1
        end = max(end, ranges[i][1])
        objects[i] = number
    return objects


def _inside(spec: TensorSpec, placed: dict[TensorSpec, SpecAllocResult], alignment: int) -> SpecAllocResult:
    """The address of a tensor that lies inside another one."""
    offset = 0
    inner, chain = spec, {spec}
    while (base := inner.storage_base) is not None:
        end = inner.storage_base_offset + inner.realign(alignment)
        if base in chain or inner.storage_base_offset < 0 or end > base.realign(base.alignment):
            raise InputError("specs", f"{inner!r} does not lie inside its storage_base {base!r}")
        offset += inner.storage_base_offset
        chain.add(base)
        inner = base
    if inner not in placed:
        raise InputError("specs", f"the storage_base of {spec!r} has no address of its own")
    root = placed[inner]
    if (root.mem_offset + offset) % alignment:
        raise InputError("specs", f"{spec!r} begins {offset} bytes inside its storage_base, no multiple of {alignment}")
    return SpecAllocResult(root.mem_id, root.mem_obj_id, root.mem_offset + offset)


def _fill_banks(
    specs: Sequence[TensorSpec],
    memories: dict[int, _Memory],
    banks: TargetMemoryMap,
    alignment: int,
    limits: Limits,
    copies: Container[TensorSpec],
) -> None:
    """Chooses a memory for each tensor: its own, or the first bank that has room for it, large tensors first."""
    if others := {spec.device.name for spec in specs if spec.device != DeviceType.CPU}:
        raise BankPlacementError(f"banks are for tensors on the CPU, and some are on {', '.join(sorted(others))}")
    free = sorted((spec for spec in specs if spec.mem_id is None), key=TensorSpec.nbytes, reverse=True)
    for spec in specs:
        if spec.mem_id is not None:
            memories.setdefault(spec.mem_id, _Memory(alignment)).specs.append(spec)
    pinned = {number: list(memory.specs) for number, memory in memories.items()}
    left = _left(banks, memories, free, limits)
    if not left:
        return
    enough = []
    for bank in banks.banks:
        number = bank.mem_id
        for all_of_it in ([*memories[number].specs, *left], [*pinned[number], *free]):
            more = _missing(memories[number], all_of_it, limits)
            emptied = {n: replace(memory, specs=list(pinned[n]), found=None) for n, memory in memories.items()}
            emptied[number].capacity = (memories[number].capacity or 0) + more
            if not _left(banks, emptied, free, limits):
                enough.append((more, bank))
                break
    more, bank = min(enough, key=lambda row: row[0])  # the first bank may hold everything
    fold = f"; the largest one is computed from weights alone: {FOLD}" if left[0] in copies else ""
    raise BankPlacementError(
        f"no bank has room for {len(left)} of {len(specs)} tensors, the largest of them {left[0].nbytes()} bytes; "
        f"the banks are {banks.describe()}; {bank.size + more} bytes are enough for bank {bank.name}, {more} more than "
        f"it has{fold}"
    )


def _left(
    banks: TargetMemoryMap, memories: dict[int, _Memory], free: Sequence[TensorSpec], limits: Limits
) -> list[TensorSpec]:
    """Fills the banks in their order, and returns the tensors for which none has room."""
    left = list(free)
    for bank in banks.banks:
        left = _fill(bank, memories[bank.mem_id], left, limits)
    return left


def _missing(memory: _Memory, specs: Sequence[TensorSpec], limits: Limits) -> int:
    """Bytes that a memory lacks to hold these tensors, at least one; a few too many where the search ends early."""
    assert memory.capacity is not None
    whole = _Memory(memory.alignment, memory.known, specs=sorted(specs, key=_position))
    return max(1, whole.place(limits).arena - memory.capacity)


def _fill(bank: Bank, memory: _Memory, candidates: Sequence[TensorSpec], limits: Limits) -> list[TensorSpec]:
    """Fills the memory with what must lie there and with candidates that fit, and returns the candidates that are left.

    A candidate is taken where the sum of sizes allows it. If the tensors taken do not pack, the last ones are given
    back, twice as many each time.
    """
    capacity = memory.capacity
    assert capacity is not None
    pinned = list(memory.specs)
    load: dict[int, int] = {}
    taken: list[TensorSpec] = []
    for spec in [*pinned, *candidates]:
        size, times = spec.realign(memory.alignment), range(spec.lifetime[0], spec.lifetime[1] + 1)
        if len(taken) < len(pinned) or max(load.get(time, 0) for time in times) + size <= capacity:
            taken.append(spec)
            for time in times:
                load[time] = load.get(time, 0) + size
    back = 1
    while taken:
        memory.specs = sorted(taken, key=_position)
        if memory.place(limits):
            break
        if len(taken) == len(pinned):
            more = _missing(memory, pinned, limits)
            raise BankPlacementError(
                f"bank {bank.name} has no room for the {len(pinned)} tensors that have to lie in it; "
                f"{bank.size + more} bytes are enough for these, {more} more than it has"
            )
        del taken[max(len(pinned), len(taken) - back) :]
        back *= 2
    memory.specs = sorted(taken, key=_position)
    chosen = set(taken)
    return [spec for spec in candidates if spec not in chosen]
