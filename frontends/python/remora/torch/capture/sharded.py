# SPDX-License-Identifier: Apache-2.0
"""A training step of a model that FSDP2 shards: its units, what gathering each of them takes, and the step's trace.

A unit is a module that was given to `fully_shard`. The step is written down (`capture.record`) with all parameters
kept between forward and backward, so that the backward's memory has no gathers in it; those are measured by themselves,
in the two halves in which FSDP runs them: the collective is issued, then waited for and copied out.
"""

from __future__ import annotations

import contextlib
import itertools
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch.autograd.profiler import record_function
from torch.distributed.fsdp import CPUOffloadPolicy, FSDPModule
from torch.distributed.tensor import DTensor

from ..internals import instead
from ..measure import COLLECTED, COLLECTIVE, mark, profiled
from ..step import CheckpointError, EagerStep
from .trace import Event, Trace

ROUNDS = 3
"""Number of timings of a gather; the minimum counts."""
PATIENCE = 10.0
"""So many seconds a collective has after its end to let go of its tensors."""
COPY_OUT = "fsdp.split_with_sizes_copy.default"
"""The op that writes gathered parameters."""


@dataclass(frozen=True)
class Gather:
    """Cost of gathering a unit's parameters, in bytes beyond those allocated before, and seconds."""

    parameters: int  # the part that stays: the gathered parameters
    flat: int  # bytes allocated between the two halves: the collective's result
    # issue, wait: the maximum in the first half, and in the second
    issue: int
    wait: int
    seconds: float


@dataclass(frozen=True)
class ShardedUnit:
    """A module that FSDP shards, but not the root; places are events of the trace."""

    name: str
    call: int  # of the trace
    # gathered, left, asked: where its parameters are first there, where its forward has ended, and where the backward
    # gathers them again
    gathered: int
    left: int
    asked: int
    gather: Gather
    # the outermost unit around it, whose flag it has, such as the block around an adapter; "" if there is none
    outer: str = ""


def units_of(model: torch.nn.Module) -> dict[str, FSDPModule]:
    """The modules that were given to `fully_shard` and have parameters of their own, by their names."""
    if not hasattr(FSDPModule, "reset_iter_state"):
        raise CheckpointError("auto_fsdp needs PyTorch 2.15 or later, whose FSDPModule has reset_iter_state")
    found = {name: m for name, m in model.named_modules() if isinstance(m, FSDPModule)}
    return {name: m for name, m in found.items() if groups_of([m])}


def groups_of(units: Iterable[FSDPModule]) -> list[Any]:
    """FSDP's groups of parameters, unit by unit; each has what its unit's flag says."""
    return [group for unit in units for group in unit._get_fsdp_state()._fsdp_param_groups]


def flags_of(units: Mapping[str, FSDPModule]) -> Callable[[], None]:
    """Gives what sets the flags of units as they are now."""
    own = [(group, group.post_forward_mesh_info) for group in groups_of(units.values())]

    def restore() -> None:
        for group, mesh in own:
            group.post_forward_mesh_info = mesh

    return restore


def refuse_unlike(model: torch.nn.Module, units: dict[str, FSDPModule]) -> None:
    """Rejects modules that are sharded in a way that is not supported here."""
    if not isinstance(model, FSDPModule):
        raise CheckpointError(
            "auto_fsdp takes a model that fully_shard has sharded: give each block to it, then the model"
        )
    inner = [name for name in units if name]
    if not inner:
        raise CheckpointError(
            "fully_shard was given the model alone: give it each block first, so that they can be told apart"
        )
    if any(m._get_fsdp_state()._states_to_backward_prefetch for m in units.values()):
        raise CheckpointError("set_modules_to_backward_prefetch says when parameters are gathered: plan without it")
    if any(isinstance(group.offload_policy, CPUOffloadPolicy) for group in groups_of(units.values())):
        raise CheckpointError("parameters are offloaded to the CPU (CPUOffloadPolicy), which no plan here counts")


@dataclass
class ShardedStep(EagerStep):
    """The step of a sharded model; each run begins with parameters sharded, whatever the run before left."""

    units: dict[str, FSDPModule]

    @contextlib.contextmanager
    def kept(self) -> Iterator[None]:
        """As of any step: gradients are those of shards, and what a module has as its parameters."""
        self._reshard()
        with super().kept():
            try:
                yield
            finally:
                self._reshard()

    def _reshard(self) -> None:
        for unit in self.units.values():
            unit.reshard()


def step_of(
    model: torch.nn.Module,
    units: dict[str, FSDPModule],
    device: torch.device,
    loss: Callable[[], torch.Tensor],
    batch: list[torch.Tensor],
) -> ShardedStep:
    """The step, once FSDP has prepared itself."""
    there = [p.to_local() if isinstance(p, DTensor) else p for p in model.parameters()]
    there += [*model.buffers(), *batch]
    for unit in units.values():
        unit.unshard()
        whole: Any = unit
        there += [p for p in whole.parameters() if not isinstance(p, DTensor)]  # of no bytes while they are sharded
        unit.reshard()

    def run() -> torch.Tensor:
        model.reset_iter_state()  # type: ignore[operator]
        return loss()

    return ShardedStep(model, run, device, there, units)


# -- Collectives on the CPU --------------------------------------------------------------------------------------------


class _Settled:
    """A collective of FSDP's that returns when the backend's threads have let go of its tensors."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner

    def allocate(self, *given: Any, **named: Any) -> torch.Tensor:
        made: torch.Tensor = self.inner.allocate(*given, **named)
        return made

    def __call__(self, *given: Any, **named: Any) -> Any:
        tensors = [t for t in (*given, *named.values()) if isinstance(t, torch.Tensor)]
        before = [t._use_count() for t in tensors]
        mark(COLLECTIVE)
        self.inner(*given, **{**named, "async_op": False})
        end = time.perf_counter() + PATIENCE
        while any(t._use_count() > count for t, count in zip(tensors, before, strict=True)):
            if time.perf_counter() > end:
                raise CheckpointError(
                    "a collective does not let go of its tensors, so that its memory cannot be measured"
                )
            time.sleep(0)
        mark(COLLECTED)


@contextlib.contextmanager
def settled(units: dict[str, FSDPModule], device: torch.device) -> Iterator[None]:
    """Collectives on the CPU are measurable inside: see `cost.calls.profiled`."""
    with contextlib.ExitStack() as stack:
        for group in groups_of(units.values()) if device.type == "cpu" else []:
            stack.enter_context(instead(group, "_all_gather_comm", _Settled(group._all_gather_comm)))
            stack.enter_context(instead(group, "_reduce_scatter_comm", _Settled(group._reduce_scatter_comm)))
        yield


def gather_of(unit: FSDPModule, device: torch.device) -> Gather:
    """Measures a unit's gather; all processes do so together."""
    with profiled(device) as threads:
        with record_function("remora issue"):
            handle = unit.unshard(async_op=True)
        with record_function("remora wait"):
            assert handle is not None
            handle.wait()
        with record_function("remora there"):
            unit.reshard()
    halves: dict[str, list[int]] = {"": [0]}
    now, half = 0, ""
    for name, size in itertools.chain.from_iterable(threads):
        half = name if name in ("remora issue", "remora wait", "remora there") else half
        now += size
        halves.setdefault(half, []).append(now)
    times = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        unit.unshard()
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        times.append(time.perf_counter() - start)
        unit.reshard()
    issue, wait = halves["remora issue"], halves["remora wait"]
    return Gather(wait[-1], issue[-1], max(issue), max(wait), min(times))


def placed(trace: Trace, names: list[str], gathers: dict[str, Gather]) -> list[ShardedUnit]:
    """The units in the order in which their forwards end, which is that of FSDP's own list.

    Raises CheckpointError if one runs not at all or several times, or nothing asks for its gradient.
    """
    units = []
    for name in names:
        calls = [number for number, call in enumerate(trace.calls) if call.name == name]
        asked = trace.marks.get(f"FSDP::pre_backward ({name})", [])
        if len(calls) != 1 or len(asked) != 1:
            raise CheckpointError(
                f"{name} runs {len(calls)} times forward and {len(asked)} times backward in a step: a plan is for "
                "blocks that do so once each"
            )
        call = trace.calls[calls[0]]
        entered = call.start - 1
        gathered = next(
            (
                place
                for place in range(entered, -1, -1)
                if trace.events[place][0] is Event.OP and trace.ops[trace.events[place][1]].name == COPY_OUT
            ),
            entered,
        )
        outer = min((other for other in names if name.startswith(f"{other}.")), key=len, default="")
        units.append(ShardedUnit(name, calls[0], gathered, call.end + 1, asked[0], gathers[name], outer))
    units.sort(key=lambda unit: trace.calls[unit.call].end)
    outermost = [unit for unit in units if not unit.outer]
    if sorted(outermost, key=lambda unit: -unit.asked) != outermost:
        raise CheckpointError("the backward does not take the blocks in the forward's order backwards")
    return units
