# SPDX-License-Identifier: Apache-2.0
"""ExecuTorch programs: exported, planned by an algorithm, and run in ExecuTorch's own runtime."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import models
import torch
from executorch.exir import EdgeProgramManager, ExecutorchBackendConfig, ExecutorchProgramManager, to_edge
from executorch.exir.memory_planning import MemoryPlanningAlgorithmSuite
from executorch.exir.passes import MemoryPlanningPass
from executorch.runtime import Runtime

Inputs = tuple[torch.Tensor, ...]


def network(model: str) -> models.Model:
    """A model, with weights and inputs that are the same every time."""
    torch.manual_seed(0)
    made, inputs = models.MODELS[model]()
    return made.eval(), inputs


def exported(model: str | models.Model) -> tuple[EdgeProgramManager, Inputs]:
    """A model's program in the edge dialect."""
    made, inputs = network(model) if isinstance(model, str) else model
    return to_edge(torch.export.export(made.eval().requires_grad_(False), inputs)), inputs


def planned(edge: EdgeProgramManager, algorithm: Callable[..., Any], **options: Any) -> ExecutorchProgramManager:
    """The program, with the addresses of the algorithm; `options` are ``MemoryPlanningPass``'s.

    Of a copy, since ``to_executorch`` changes what it is called on.
    """
    suite = MemoryPlanningAlgorithmSuite([algorithm])
    config = ExecutorchBackendConfig(memory_planning_pass=MemoryPlanningPass(suite, **options))
    return copy.deepcopy(edge).to_executorch(config)


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
    """Whether all tensors are equal in every bit."""
    return len(a) == len(b) and all(torch.equal(x, y) for x, y in zip(a, b, strict=True))
