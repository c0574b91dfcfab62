# SPDX-License-Identifier: Apache-2.0
"""Stock `torch.compile(model)` under a memory budget: Inductor's own kernels, with what is saved chosen by Remora.

    import remora.torch.inductor

    remora.torch.inductor.install(budget="8GiB")
    model = torch.compile(model)

See docs/guide/inductor.md.
"""

from __future__ import annotations

from types import TracebackType

from torch._inductor import config

from .errors import TorchError
from .options import Options
from .planning import Plan
from .ways.partitioner import Partitioner

__all__ = ["Installed", "install", "uninstall"]


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
        Where a partitioner is installed already.
    """
    chosen = Options.of(locals())
    if config.custom_partitioner_fn is not None:
        raise TorchError("a partitioner is installed already: torch._inductor.config.custom_partitioner_fn")
    partitioner = Partitioner(chosen)
    partitioner.enter()
    return Installed(partitioner)


def uninstall() -> None:
    """Stops planning: code compiled from now on is partitioned by PyTorch alone; code that was compiled stays."""
    partitioner = config.custom_partitioner_fn
    if not isinstance(partitioner, Partitioner):
        raise TorchError("no partitioner of remora is installed")
    partitioner.leave()


def __getattr__(name: str) -> None:
    is_gone = name in ("knapsack_solver", "runtime_estimator")
    why = "is gone: install(budget) keeps the peak within a budget" if is_gone else "does not exist"
    raise AttributeError(f"{__name__}.{name} {why}")
