# SPDX-License-Identifier: Apache-2.0
"""Remora in torchtitan's graph trainer: a memory policy and a pass pipeline, both called "remora".

    python -m torchtitan.train --module remora.torchtitan --config graph_trainer_llama3_debugmodel --compile.budget 60%

The policy tags the ops that the trainer recomputes; the pipeline writes a schedule into its graph, which may run any op
again anywhere. Both meet a budget in bytes. See docs/guide/torchtitan.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from torchtitan.experiments.graph_trainer.configs import GraphTrainerCompileConfig
from torchtitan.experiments.graph_trainer.registry import register_memory_policy, register_pass_pipeline

from remora.torchtitan._policy import pass_pipeline, tag_policy

__all__ = ["CompileConfig"]


@dataclass(kw_only=True, slots=True)
class CompileConfig(GraphTrainerCompileConfig):  # type: ignore[misc]  # Any, where torchtitan is not
    """The trainer's `compile`, with a budget."""

    memory_policy: Literal["default", "full", "eager", "sac_and_offload", "remora"] = "remora"
    """The trainer's own policies, and ours."""

    budget: str = "100%"
    """Bytes ("12GiB") with parameters and the step's arguments, or a share of the step's further memory without
    recomputation ("60%")."""

    reserve: int = 0
    """Bytes that something else takes, such as the optimizer's state; a part of a budget in bytes."""

    cost: Literal["measured", "flops"] = "measured"
    """True to run and measure ops, False to use a roofline."""

    order: Literal["input", "free", "auto"] = "input"
    """Order of the pipeline "remora": ops in their traced order, or in any."""

    time_limit: float = 15.0
    """Seconds for the search."""


register_memory_policy("remora")(tag_policy)
register_pass_pipeline("remora")(pass_pipeline)
