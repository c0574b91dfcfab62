# SPDX-License-Identifier: Apache-2.0
"""Requests, callbacks and interruption, which all calls of the engine share."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, SupportsIndex

from remora import _engine
from remora._arguments import boolean, count, string
from remora.graph import Graph, core_of
from remora.progress import Display, Progress
from remora.slices import SliceCost, Slices, slice_run, slice_words

if TYPE_CHECKING:
    import threading

__all__ = ["Ordering"]

Telling = Callable[[Any], bool] | None

Ordering = Literal["input", "free", "auto"]
"""First runs follow the graph's order; any order; free if a quick search says that it helps."""


def request(
    graph: Graph,
    texts: list[tuple[str, str]],
    max_computes: SupportsIndex | None = None,
    order: str | None = None,
    slices: Slices = None,
    slice_cost: SliceCost | None = None,
) -> _engine.Request:
    """Makes a request for a graph in its present state, without a budget."""
    core = core_of(graph)
    ordering = None if order is None else string(order, "order")
    return _engine.Request(
        core,
        texts,
        count(max_computes, "max_computes"),
        ordering,
        slice_words(slices),
        slice_run(slice_cost),
    )


def telling(
    listener: Callable[[Any], object] | None,
    place: str,
    made: Callable[[Any], Any],
    shown: Callable[[Any], None] | None = None,
) -> Callable[[Any], bool] | None:
    """Listener and display as the engine calls them: True from the listener, and nothing else, ends the call."""
    if listener is not None and not callable(listener):
        raise TypeError(f"{place}: must be callable, not {type(listener).__name__}")
    if listener is None and shown is None:
        return None

    def tell(values: Any) -> bool:
        update = made(values)
        if shown is not None:
            shown(update)
        return listener is not None and listener(update) is True

    return tell


def progress_of(
    progress: bool | Callable[[Any], object], kind: Callable[..., Display]
) -> tuple[Callable[..., Display], Callable[[Any], object] | None]:
    """The makers of a call's display, and its listener: `progress` asks for one of the two."""
    if callable(progress):
        return (lambda *_: Display()), progress
    return (kind if boolean(progress, "progress") else (lambda *_: Display())), None


def solve_telling(
    display: Display,
    on_incumbent: Callable[[Any], object] | None,
    made: Callable[[Any], Any],
    on_progress: Callable[[Progress], object] | None,
) -> tuple[Telling, Telling, Telling]:
    """Callbacks for better schedules and for updates, and for the display some ten times a second."""
    bar, line = (display.show_solve, None) if display.is_bar else (None, display.show_solve)
    return (
        telling(on_incumbent, "on_incumbent", made),
        telling(on_progress, "progress", lambda update: Progress(*update), line),
        telling(None, "", lambda update: Progress(*update), bar),
    )


def stop_of(stop: threading.Event | None) -> Callable[[], bool] | None:
    """The function that the engine calls to learn if it should stop."""
    if stop is None:
        return None
    asked: Callable[[], bool] | None = getattr(stop, "is_set", None)
    if not callable(asked):
        raise TypeError(f"stop: must be a threading.Event, not {type(stop).__name__}")
    return asked


def interrupt(interruption: object, found: object, attribute: str = "schedule") -> None:
    """Raises what a callback or a signal ended the call with; what was found until then is attached."""
    if isinstance(interruption, BaseException):
        # An exception with slots of its own cannot carry it.
        with contextlib.suppress(AttributeError):
            setattr(interruption, attribute, found)
        raise interruption
