# SPDX-License-Identifier: Apache-2.0
"""Flags for trainers that take no plan: Megatron-LM's recompute flags, and DeepSpeed's configuration.

Such flags say the same of every layer. There are few, so each is replayed on the measured step, and the fastest that
fits within the budget is the best of them. The model is one of the trainer's, or one of the same layers in plain
PyTorch; `names` says which of its modules are what Megatron calls "core_attn" and so on.

    found = megatron_flags(model, batch, "8GiB", layers="decoder.layers")
    print(found)         # --recompute-granularity selective --recompute-modules core_attn  # 7.2 GiB, +3.1 %
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import torch

from remora._engine import bytes_text
from remora.errors import InputError
from remora.torch.options import Options
from remora.torch.planning import Choice
from remora.torch.problem.checkpoints import EagerProblem
from remora.torch.problem.eager import Choices, Replay
from remora.torch.problem.family import refused_in
from remora.torch.ways.checkpoint import refuse, step_of

__all__ = ["MEGATRON", "Flags", "deepspeed_config", "megatron_flags"]

MEGATRON: Mapping[str, str] = MappingProxyType(
    {
        "core_attention": "core_attn",
        "core_attn": "core_attn",
        "mlp": "mlp",
        "moe": "moe",
        "shared_experts": "shared_experts",
    }
)
"""The last part of a module's name, and the value of `--recompute-modules` for it."""
CHECKPOINTED = ("core_attn", "mlp", "moe", "shared_experts")
"""Values of `--recompute-modules` that checkpoint a module."""
RELEASED = ("moe_act", "layernorm", "mla_up_proj")
"""Values for which Megatron releases a module's output instead; the memory that this saves is not modelled here."""


@dataclass(frozen=True)
class Flags:
    """Flags, and their costs.

    Attributes
    ----------
    words : tuple of str
        Words of the command line; () if nothing has to be recomputed.
    modules : tuple of str
        The modules that they checkpoint, as `named_modules` has them.
    peak, eager_peak : int
        Bytes, predicted and measured, including all permanently resident memory.
    seconds, eager_seconds : float
        Of a step's forward and backward.
    """

    words: tuple[str, ...]
    modules: tuple[str, ...]
    peak: int
    eager_peak: int
    seconds: float
    eager_seconds: float

    def __str__(self) -> str:
        more = 100 * (self.seconds / self.eager_seconds - 1)
        said = f"peak {bytes_text(self.peak)} in place of {bytes_text(self.eager_peak)}, time {more:+.1f} %"
        return f"{' '.join(self.words)}  # {said}".strip()


def megatron_flags(
    model: torch.nn.Module,
    batch: Any,
    budget: int | str,
    *,
    layers: str,
    names: Mapping[str, str] = MEGATRON,
    loss: Callable[..., torch.Tensor] | None = None,
    reserve: int = 0,
) -> Flags:
    """The fastest of Megatron-LM's recompute flags within a budget.

    These are none; `selective` with any of `core_attn`, `mlp`, `moe`, `shared_experts`; and `full` with the method
    `block` and any number of layers.

    Parameters
    ----------
    model, batch, budget, loss, reserve
        As for `remora.torch.auto_checkpoint`. The model is left as it is.
    layers : str
        The name of the module that holds the layers.
    names : mapping of str to str
        The last part of a module's name, and Megatron's word for it.

    Raises
    ------
    InputError
        If there are no such layers, or Megatron's word is none that checkpoints.
    BudgetError
        If no flags fit within the budget; `least` is the smallest peak of any.
    """
    for word in names.values():
        if word in RELEASED:
            raise InputError("names", f"{word} releases an output and checkpoints nothing: not known here")
        if word not in CHECKPOINTED:
            raise InputError("names", f"Megatron has no {word!r} to recompute; it has {', '.join(CHECKPOINTED)}")
    rows = _members(model, layers)
    kinds: dict[str, list[str]] = {}
    for name, _ in model.named_modules():
        last = name.rpartition(".")[2]
        if last in names and any(name.startswith(f"{row}.") for row in rows):
            kinds.setdefault(names[last], []).append(name)
    offered: dict[tuple[str, ...], list[str]] = {(): []}
    for count in range(1, len(kinds) + 1):
        for words in itertools.combinations([w for w in CHECKPOINTED if w in kinds], count):
            selective = ("--recompute-granularity", "selective", "--recompute-modules", *words)
            offered[selective] = _outermost([name for word in words for name in kinds[word]])
    for count in range(1, len(rows) + 1):
        full = ("--recompute-granularity", "full", "--recompute-method", "block", "--recompute-num-layers", str(count))
        offered[full] = rows[:count]
    return _best(model, batch, budget, offered, loss, reserve)


def deepspeed_config(
    model: torch.nn.Module,
    batch: Any,
    budget: int | str,
    *,
    layers: str,
    loss: Callable[..., torch.Tensor] | None = None,
    reserve: int = 0,
) -> tuple[dict[str, Any], Flags]:
    """DeepSpeed's configuration of checkpoints for a budget: none, or each layer.

    DeepSpeed's intervals of several layers are one checkpoint of modules that have no common module; their cost is not
    modelled here. Parameters and errors are those of `megatron_flags`.

    Returns
    -------
    dict
        `activation_checkpointing` and `pipeline`, for DeepSpeed's JSON.
    Flags
        Their costs; without words.
    """
    rows = _members(model, layers)
    each = ("each",)
    found = _best(model, batch, budget, {(): [], each: rows}, loss, reserve)
    settings: dict[str, Any] = {"pipeline": {"activation_checkpoint_interval": int(bool(found.words))}}
    if found.words:
        settings["activation_checkpointing"] = {
            "partition_activations": False,
            "cpu_checkpointing": False,
            "contiguous_memory_optimization": False,
            "number_checkpoints": len(rows),
        }
    return settings, Flags((), found.modules, found.peak, found.eager_peak, found.seconds, found.eager_seconds)


def _members(model: torch.nn.Module, layers: str) -> list[str]:
    """The names of the layers."""
    holder = dict(model.named_modules()).get(layers)
    rows = [f"{layers}.{name}" for name, _ in holder.named_children()] if holder is not None else []
    if not rows:
        raise InputError("layers", f"the model has no layers in {layers!r}")
    return rows


def _outermost(names: list[str]) -> list[str]:
    """The names without those inside of others: Megatron checkpoints a module inside another one with that."""
    return [name for name in names if not any(name.startswith(f"{other}.") for other in names)]


def _best(
    model: torch.nn.Module,
    batch: Any,
    budget: int | str,
    offered: Mapping[tuple[str, ...], list[str]],
    loss: Callable[..., torch.Tensor] | None,
    reserve: int,
) -> Flags:
    options = Options(budget, reserve).checked()
    refuse(model)
    problem = EagerProblem(step_of(model, batch, loss))
    replay, sizes = problem.replay, problem.sizes
    limit = options.in_bytes(sizes)
    refused = refused_in(replay.trace)
    found = []
    for words, modules in offered.items():
        if refused.keys().isdisjoint(modules):
            choices: Choices = dict.fromkeys(modules, Choice())
            found.append(_row(words, modules, replay, choices, sizes.unscheduled, problem.seconds))
    holding = [row for row in found if row.peak <= limit]
    if not holding:
        least = min(row.peak for row in found)
        raise sizes.refusal(limit, least, options, proved=True, lower=least)
    return min(holding, key=lambda row: (row.seconds, len(row.words)))


def _row(
    words: tuple[str, ...], modules: list[str], replay: Replay, choices: Choices, eager_peak: int, eager_seconds: float
) -> Flags:
    run = replay.run(choices)
    return Flags(words, tuple(modules), run.peak, eager_peak, eager_seconds + run.seconds, eager_seconds)
