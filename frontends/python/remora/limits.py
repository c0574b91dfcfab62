# SPDX-License-Identifier: Apache-2.0
"""Limits of a call, and the options of the search by name."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, SupportsFloat, SupportsIndex, TypedDict

from remora import _engine
from remora._arguments import option_text, string
from remora.errors import InputError

if TYPE_CHECKING:
    from remora.calls import Ordering
    from remora.slices import SliceCost, Slices

__all__ = ["Limits", "Option", "options", "strategies"]


@dataclass(frozen=True)
class Limits:
    """Limits of a call; the call chooses what is None. Each is a keyword of the call, too, by the same name.

    Attributes
    ----------
    time_limit : float, optional
        Seconds; by default 60, of a sweep 180, and none where the work is limited.
    work_limit : int, optional
        Units of work. With it, the same seed gives the same answer on every machine and with any number of threads.
    gap : float, optional
        A relative gap, (duration - bound) / duration, at which the search ends.
    stall : float, optional
        Seconds without a better schedule after which the search ends.
    threads : int, optional
        One per core by default.
    seed : int, optional
        Of all random choices; 1 by default.

    Examples
    --------
    >>> import remora
    >>> quick = remora.Limits(work_limit=1000, seed=3)
    >>> g = remora.Graph("one")
    >>> a = g.op("A", duration=3, outputs={"a": 8})
    >>> remora.solve(g, "100%", limits=quick).overhead, remora.solve(g, "100%", work_limit=1000, seed=3).overhead
    (0.0, 0.0)
    """

    time_limit: SupportsFloat | None = None
    work_limit: SupportsIndex | None = None
    gap: SupportsFloat | None = None
    stall: SupportsFloat | None = None
    threads: SupportsIndex | None = None
    seed: SupportsIndex | None = None


class LimitWords(TypedDict, total=False):
    """The limits that every call takes by a keyword."""

    time_limit: SupportsFloat | None
    work_limit: SupportsIndex | None
    threads: SupportsIndex | None
    seed: SupportsIndex | None


class OptionWords(LimitWords, total=False):
    """Options of solves and sweeps as keywords: `options`."""

    gap: SupportsFloat | None
    stall: SupportsFloat | None
    strategy: str | None
    workers: str | None
    groups: str | None
    group_size: SupportsIndex | None
    top_size: SupportsIndex | None
    covering: str | None
    mip: str | None
    without: str | None


class SolveWords(OptionWords, total=False):
    """The keywords of `solve` for a `Graph`."""

    order: Ordering | None
    max_computes: SupportsIndex | None
    addresses: bool
    alignment: SupportsIndex | None
    slices: Slices
    slice_cost: SliceCost | None


class DeviceSolveWords(LimitWords, total=False):
    """The keywords of `solve` for a `DeviceGraph`."""

    order: Literal["input", "free"] | None
    max_computes: SupportsIndex | None
    objective: Literal["duration", "energy"] | None
    copies: Literal["sequential", "overlap"] | None
    duration_limit: SupportsIndex | None
    energy_limit: SupportsIndex | None


LIMITS = tuple(LimitWords.__annotations__)


@dataclass(frozen=True)
class Option:
    """An option of the search: `solve` and `sweep` take it by its name.

    Attributes
    ----------
    name, type, default, range, help : str
        As `remora solve --help` says them.
    """

    name: str
    type: str
    default: str
    range: str
    help: str


def options() -> tuple[Option, ...]:
    """Every option of the search that `solve` and `sweep` take by name."""
    return tuple(Option(*row) for row in _engine.option_table())


def strategies() -> tuple[str, ...]:
    """The strategies: the engine's, and the literature's methods (docs/design/strategies.md)."""
    return tuple(_engine.strategy_names().split(", "))


def option_texts(
    limits: Limits | None, words: Mapping[str, Any], call: str, only: Collection[str] = (), seconds: float | None = None
) -> list[tuple[str, str]]:
    """Limits and keywords as options by name, in text.

    Parameters
    ----------
    call : str
        What they are given to.
    only : collection of str
        The options that it takes; all where none are named.
    seconds : float, optional
        Its time limit where neither time nor work is limited; the engine's own without it.

    Raises
    ------
    InputError
        For a limit that is given both ways, and for an option that the call does not take.
    """
    if limits is not None and not isinstance(limits, Limits):
        raise TypeError(f"limits: must be a remora.Limits, not {type(limits).__name__}")
    given = {name: value for name, value in vars(limits or Limits()).items() if value is not None}
    for name, value in words.items():
        if value is not None and name in given:
            raise InputError(name, "stands in limits, too: give it once")
        if value is not None:
            given[string(name, "option")] = value
    known = list(only or SolveWords.__annotations__)
    for name in given:
        if only and name not in only:
            raise InputError(name, f"is not for {call} ({', '.join(only)} are)")
        meant = [] if name in known else difflib.get_close_matches(name, known, 1)
        if meant:
            raise InputError(name, f"there is no such option; did you mean {meant[0]}?")
    if "time_limit" not in given and "work_limit" in given:
        # A work limit is there to repeat a run, which the default time limit would spoil on a slow machine.
        given["time_limit"] = float("inf")
    elif "time_limit" not in given and seconds is not None:
        given["time_limit"] = seconds
    if "time_limit" in given:
        try:
            given["time_limit"] = float(given["time_limit"])
        except (TypeError, ValueError):
            kind = type(given["time_limit"]).__name__
            raise TypeError(f"time_limit: must be a number of seconds, not {kind}") from None
    return [(name, option_text(name, value)) for name, value in given.items()]
