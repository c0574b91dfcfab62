# SPDX-License-Identifier: Apache-2.0
"""ExecuTorch programs: exported, planned by an algorithm, and run in ExecuTorch's own runtime."""

from __future__ import annotations

import contextlib
import copy
import functools
from collections.abc import Callable, Iterator
from typing import Any

import models
import pytest
import torch
from executorch.exir import EdgeProgramManager, ExecutorchBackendConfig, ExecutorchProgramManager, to_edge
from executorch.exir.banked_memory_planning import Bank, TargetMemoryMap
from executorch.exir.memory_planning import MemoryPlanningAlgorithmSuite
from executorch.exir.passes import MemoryPlanningPass
from executorch.runtime import Runtime

import remora
from remora.executorch import _recompute, planning_algo

Inputs = tuple[Any, ...]
Exported = tuple[EdgeProgramManager, Inputs]


def network(model: str) -> models.Model:
    """A model, with weights and inputs that are the same every time."""
    torch.manual_seed(0)
    made, inputs = models.MODELS[model]()
    return made.eval(), inputs


def exported(model: str | tuple[torch.nn.Module, Inputs]) -> Exported:
    """A model's program in the edge dialect."""
    made, inputs = network(model) if isinstance(model, str) else model
    return to_edge(torch.export.export(made.eval().requires_grad_(False), inputs)), inputs


def planned(
    edge: EdgeProgramManager, algorithm: Callable[..., Any], reinplace: bool = False, **options: Any
) -> ExecutorchProgramManager:
    """The program, with the addresses of the algorithm; `options` are ``MemoryPlanningPass``'s.

    Of a copy, since ``to_executorch`` changes what it is called on. With `reinplace` ``index_put`` writes in place.
    """
    suite = MemoryPlanningAlgorithmSuite([algorithm])
    planning = MemoryPlanningPass(suite, **options)
    config = ExecutorchBackendConfig(memory_planning_pass=planning, run_reinplace_pass=reinplace)
    return copy.deepcopy(edge).to_executorch(config)


def within(budget: int) -> functools.partial[object]:
    """Planning that refuses a larger arena."""
    return functools.partial(planning_algo, banks=TargetMemoryMap([Bank("sram", budget, 1)]))


def arenas(program: ExecutorchProgramManager) -> list[int]:
    """Bytes of each memory, from memory 1 on."""
    sizes: list[int] = program.executorch_program.execution_plan[0].non_const_buffer_sizes
    return sizes[1:]


def loaded(program: ExecutorchProgramManager) -> Any:
    """Its method in ExecuTorch's runtime, with state of its own."""
    method = Runtime.get().load_program(program.buffer).load_method("forward")
    assert method is not None
    return method


def run(program: ExecutorchProgramManager, inputs: Inputs) -> list[torch.Tensor]:
    """What ExecuTorch's runtime computes, twice, to the same."""
    method = loaded(program)
    first = [value.clone() for value in method.execute(inputs)]
    assert same(first, method.execute(inputs))
    return first


def same(a: Any, b: Any) -> bool:
    """Whether all values are equal, tensors in every bit: a NaN equals itself, and -0 differs from 0."""
    return len(a) == len(b) and all(_bits(x) == _bits(y) for x, y in zip(a, b, strict=True))


def _bits(value: Any) -> Any:
    if not isinstance(value, torch.Tensor):
        return value
    return value.dtype, value.shape, value.contiguous().reshape(-1).view(torch.uint8).tolist()


@contextlib.contextmanager
def recomputing_for_every_use() -> Iterator[None]:
    """In this context a `RecomputePass` gets a schedule in which an op that may run again does so for each reader."""
    schedules: list[remora.Schedule] = []

    def ask(graph: remora.Graph, *_: Any, **__: Any) -> remora.Schedule:
        steps: list[remora.Op] = []
        for op in graph.ops:
            producers = {tensor.producer for tensor in op.inputs}
            again = [producer for producer in producers if producer is not None and producer.recompute]
            steps += [*sorted(again, key=lambda producer: producer.index), op]
        schedules.append(remora.evaluate(graph, steps))
        return schedules[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_recompute, "ask", ask)
        yield
    assert schedules
