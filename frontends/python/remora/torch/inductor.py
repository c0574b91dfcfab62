# SPDX-License-Identifier: Apache-2.0
"""Stock `torch.compile(model)` under a memory budget: Inductor's own kernels, with what is saved chosen by Remora.

    import remora.torch.inductor

    remora.torch.inductor.install(budget="8GiB")
    model = torch.compile(model)

See docs/guide/inductor.md.
"""

from __future__ import annotations

import importlib
from types import TracebackType
from typing import TYPE_CHECKING, Any

import torch

from .errors import TorchError
from .options import Options

if TYPE_CHECKING:
    from .planning import Plan
    from .ways.partitioner import Knapsack, MeasuredRuntime, Partitioner

__all__ = ["Installed", "install", "knapsack_solver", "runtime_estimator", "uninstall"]


class Installed:
    """The result of `install`; as a context manager it ends with `uninstall`."""

    def __init__(self, partitioner: Partitioner) -> None:
        self._partitioner = partitioner

    @property
    def plans(self) -> list[Plan]:
        """Decisions made in this process, graph by graph; graphs that Inductor's caches hold are not listed."""
        return self._partitioner.plans

    def __enter__(self) -> Installed:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        uninstall()


def install(
    budget: int | str = "100%",
    *,
    reserve: int = 0,
    cost: str = "measured",
    time_limit: float = 15.0,
    threads: int = 0,
    seed: int = 1,
    cache: bool = True,
    progress: bool = False,
) -> Installed:
    """Keeps everything that Inductor compiles for training from now on within a memory budget.

    Parameters
    ----------
    budget : int or str
        Bytes ("8GiB", 1500000) with the parameters and inputs of a compiled graph, and with what autograd keeps of
        those that ran before it. Or a share of each graph's memory beyond its arguments as Inductor partitions it by
        itself ("60%").
    reserve, cost, time_limit, threads, seed, cache, progress
        As in `remora.torch.Options`.

    Raises
    ------
    TorchError
        Where this version of PyTorch has no place for a partitioner, or another one is installed.
    """
    chosen = Options.of(locals())
    hooks, config = _hooks(), _config()
    if config.custom_partitioner_fn is not None:
        raise TorchError("a partitioner is installed already: torch._inductor.config.custom_partitioner_fn")
    partitioner = hooks.Partitioner(chosen)
    partitioner.enter()
    return Installed(partitioner)


def uninstall() -> None:
    """Stops planning: code compiled from now on is partitioned by PyTorch alone; code that was compiled stays."""
    hooks, config = _hooks(), _config()
    partitioner = config.custom_partitioner_fn
    if not isinstance(partitioner, hooks.Partitioner):
        raise TorchError("no partitioner of remora is installed")
    partitioner.leave()


def runtime_estimator(cost: str = "measured") -> MeasuredRuntime:
    """Measured times for Inductor's own knapsack: for `activation_memory_budget_runtime_estimator`.

    torch._functorch.config.activation_memory_budget_runtime_estimator = runtime_estimator()
    """
    found: MeasuredRuntime = _hooks().MeasuredRuntime(cost, lambda _: None)
    return found


def knapsack_solver() -> Knapsack:
    """A knapsack that never exceeds its capacity: for `torch._functorch.config.activation_memory_budget_solver`."""
    found: Knapsack = _hooks().Knapsack()
    return found


def _hooks() -> Any:
    try:
        return importlib.import_module("remora.torch.ways.partitioner")  # older versions lack what it builds on
    except ImportError as error:
        raise TorchError(f"torch {torch.__version__} has no place for a partitioner in Inductor: {error}") from None


def _config() -> Any:
    from torch._inductor import config

    if not hasattr(config, "custom_partitioner_fn"):
        raise TorchError(f"torch {torch.__version__} has no place for a partitioner in Inductor")
    return config
