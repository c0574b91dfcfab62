# SPDX-License-Identifier: Apache-2.0
"""Progress of long calls: events and displays.

On a terminal and in a notebook one bar, by tqdm where it is installed; where standard error is a file or a pipe, a line
for every better schedule and bound, and no control codes.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any

from remora import _engine

if TYPE_CHECKING:
    from remora.devices import DeviceGraph
    from remora.graph import Graph

__all__ = ["Progress", "SweepProgress"]

_DEFAULT_SECONDS = 60.0
_WITHOUT_LIMIT = 1e9
_BAR_WIDTH = 20


@dataclass(frozen=True)
class Progress:
    """State of a solve at one moment.

    Attributes
    ----------
    seconds : float
        Since the solve began.
    phase : int
        1: looking for a schedule within the budget; 2: shortening it.
    source : str
        What brought the update; empty for a heartbeat.
    duration, peak : int
        Of the best so far; in phase 1 its peak is still above the budget. Of a `DeviceGraph`: what it costs, in the
        objective's unit, 2**63 - 1 as long as there is none; and 0, since each device has its own peak.
    bound : int
        No schedule has a smaller duration.
    work : int
        Units of work done.
    """

    seconds: float
    phase: int
    source: str
    duration: int
    peak: int
    bound: int
    work: int


@dataclass(frozen=True)
class SweepProgress:
    """State of a sweep after it worked on one budget.

    Attributes
    ----------
    seconds : float
        Since the sweep began.
    budget : int
        Bytes: the one that it was busy with.
    status : {"optimal", "feasible", "infeasible", "unknown"}
        Of that budget.
    duration, peak, bound : int
        Of that budget.
    points, settled : int
        Budgets so far, and those among them for which nothing is left to search.
    """

    seconds: float
    budget: int
    status: str
    duration: int
    peak: int
    bound: int
    points: int
    settled: int


class Bar:
    """One updating line: how far, of how much, and a text after it."""

    def __init__(self, name: str, total: float) -> None:
        self._name = name
        self._total = total
        self._shown = 0

    def show(self, done: float, text: str) -> None:
        """Writes the line."""
        part = min(1.0, done / self._total) if self._total else 0.0
        filled = round(part * _BAR_WIDTH)
        bar = f"|{'#' * filled}{' ' * (_BAR_WIDTH - filled)}| " if self._total else ""
        line = f"{self._name}: {bar}{text}"
        sys.stderr.write("\r" + line.ljust(self._shown))
        sys.stderr.flush()
        self._shown = len(line)

    def close(self) -> None:
        """Ends the line."""
        if self._shown:
            sys.stderr.write("\n")


class NotebookBar(Bar):
    """The same in a notebook without tqdm: an output that is replaced."""

    def __init__(self, name: str, total: float) -> None:
        super().__init__(name, total)
        from IPython import display

        show: Any = display.display
        self._handle: Any = show({"text/plain": name}, raw=True, display_id=True)

    def show(self, done: float, text: str) -> None:
        """Replaces the output."""
        of = f" of {self._total:g}" if self._total else ""
        self._handle.update({"text/plain": f"{self._name}: {done:.1f}{of}, {text}"}, raw=True)

    def close(self) -> None:
        """Leaves the output as it is."""


class TqdmBar(Bar):
    """By tqdm, which knows terminals and notebooks."""

    def __init__(self, name: str, total: float) -> None:
        super().__init__(name, total)
        from tqdm.auto import tqdm

        shape = "{desc}: {bar}| {n:.3g}/{total:.3g} {unit}{postfix}" if total else "{desc}: {elapsed}{postfix}"
        self._bar: Any = tqdm(desc=name, total=total or None, bar_format=shape, leave=True, unit="s")

    def show(self, done: float, text: str) -> None:
        """Moves the bar."""
        self._bar.n = min(done, self._total) if self._total else done
        self._bar.set_postfix_str(text, refresh=True)

    def close(self) -> None:
        """Leaves the last state of the bar."""
        self._bar.close()


def in_notebook() -> bool:
    """True if a notebook's kernel runs this."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return shell is not None and "IPKernelApp" in getattr(shell, "config", {})


def bar_for(name: str, total: float) -> Bar | None:
    """A bar that suits where standard error goes; None for a file or pipe, which takes lines."""
    notebook = in_notebook()
    if not notebook and not sys.stderr.isatty():
        return None
    try:
        return TqdmBar(name, total)
    except ImportError:
        return NotebookBar(name, total) if notebook else Bar(name, total)


class Display:
    """The display of one call; shows nothing without a bar and without lines."""

    show_solve: Callable[[Progress], None] | None = None
    show_sweep: Callable[[SweepProgress], None] | None = None
    show_order: Callable[[tuple[float, int]], None] | None = None

    def __init__(self, bar: Bar | None = None) -> None:
        self._bar = bar
        self._last = ""

    def _say(self, done: float, seconds: float, text: str) -> None:
        if self._bar is not None:
            self._bar.show(done, text)
        elif text != self._last:
            sys.stderr.write(f"remora: {seconds:8.2f} s  {text}\n")
        self._last = text

    @property
    def is_bar(self) -> bool:
        """True if it moves: then it needs frequent updates, not only on events."""
        return self._bar is not None

    def finish(self, text: str) -> None:
        """Says what was found."""

    def __enter__(self) -> Display:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.close()


class SolveDisplay(Display):
    """The display of a solve."""

    def __init__(self, graph: Graph | DeviceGraph, texts: list[tuple[str, str]]) -> None:
        options = dict(texts)
        work = float(options.get("work_limit", 0))
        seconds = float(options.get("time_limit", _DEFAULT_SECONDS))
        self._by_work = work > 0 and seconds >= _WITHOUT_LIMIT
        total = work if self._by_work else (seconds if seconds < _WITHOUT_LIMIT else 0.0)
        super().__init__(bar_for(f"solve {graph.name}".rstrip(), total))
        self._total = total
        self._begun = time.monotonic()
        # Over several devices it takes a search.
        self._baseline = getattr(graph, "baseline_duration", None)
        self.show_solve = self._show

    def finish(self, text: str) -> None:
        """Fills the bar and says what was found."""
        self._say(self._total, time.monotonic() - self._begun, text)

    def _show(self, update: Progress) -> None:
        baseline = self._baseline or 1
        bound = f"bound {100 * (update.bound / baseline - 1):.2f} %"
        if self._baseline is None:
            text = (
                f"{'looking for a schedule' if update.phase == 1 else f'cost {update.duration}'}, bound {update.bound}"
            )
        elif update.phase == 1:
            text = f"looking for a schedule: peak {_engine.bytes_text(update.peak)}, {bound}"
        else:
            text = f"overhead {100 * (update.duration / baseline - 1):.2f} %, {bound}"
        self._say(update.work if self._by_work else update.seconds, update.seconds, text)


class SweepDisplay(Display):
    """The display of a sweep."""

    def __init__(self, graph: Graph, points: int) -> None:
        super().__init__(bar_for(f"sweep {graph.name}".rstrip(), points))
        self._baseline = graph.baseline_duration
        self.show_sweep = self._show

    def _show(self, update: SweepProgress) -> None:
        text = f"{update.settled} of {update.points} decided; {_engine.bytes_text(update.budget)}: {update.status}"
        if update.duration:
            text += f", overhead {100 * (update.duration / (self._baseline or 1) - 1):.2f} %"
        self._say(update.settled, update.seconds, text)


class OrderDisplay(Display):
    """The display of a search for an order."""

    def __init__(self, graph: Graph) -> None:
        super().__init__(bar_for(f"order {graph.name}".rstrip(), 0.0))
        self._peak = graph.baseline_peak or 1
        self.show_order = self._show

    def _show(self, update: tuple[float, int]) -> None:
        seconds, peak = update
        self._say(
            seconds, seconds, f"peak {_engine.bytes_text(peak)}, {100 * peak / self._peak:.1f} % of the input order's"
        )
