# SPDX-License-Identifier: Apache-2.0
"""Exceptions of the package."""

from __future__ import annotations

import inspect
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from remora.budgets import BudgetBracket
    from remora.devices import DeviceSchedule
    from remora.graph import Op, Tensor
    from remora.schedule import Schedule

__all__ = ["Certificate", "Error", "Infeasible", "InputError", "NoDeviceSchedule", "NoSchedule", "Refusal"]


_INNER = {"", "remora", "torch", "jax", "jaxlib", "contextlib", "functools", "threading"}


def warn_user(text: str, kind: type[Warning]) -> None:
    """Warns at the line of the user's program that led here, past the frames of this package and of its frameworks."""
    frame = inspect.currentframe()
    while frame is not None and str(frame.f_globals.get("__name__", "")).partition(".")[0] in _INNER:
        frame = frame.f_back
    if frame is None:
        warnings.warn(text, kind, stacklevel=2)
        return
    module, registry = frame.f_globals.get("__name__"), frame.f_globals.setdefault("__warningregistry__", {})
    warnings.warn_explicit(text, kind, frame.f_code.co_filename, frame.f_lineno, module, registry)


class Error(Exception):
    """Base of every exception of this package. All can be pickled, as process pools do."""

    def __reduce__(self) -> tuple[Any, ...]:
        # Exceptions are made again of `args`, which is the message alone.
        return _again, (type(self), self.args, vars(self))


def _again(kind: type[Error], args: tuple[Any, ...], attributes: dict[str, Any]) -> Error:
    error = kind.__new__(kind, *args)
    vars(error).update(attributes)
    return error


class InputError(Error, ValueError):
    """Bad input: where it stands, what is wrong, what to do.

    Attributes
    ----------
    place : str
        The path in the graph (``"ops[3].inputs[0]"``) or file (``"$.ops[3].inputs[0]"``, as docs/reference/formats.md
        spells it) or the argument (``"budget"``); may be empty.
    message : str
        What is wrong with it.
    """

    def __init__(self, place: str, message: str) -> None:
        super().__init__(f"{place}: {message}" if place else message)
        self.place = place
        self.message = message


@dataclass(frozen=True)
class Certificate:
    """Proof that no schedule fits within the budget: the tensors that must be resident while one op runs.

    Attributes
    ----------
    op : Op
        The op that cannot run.
    required : int
        Bytes that must be resident while it runs: fixed memory, graph inputs and workspace included.
    tensors : tuple of Tensor
        The tensors among them.
    """

    op: Op
    required: int
    tensors: tuple[Tensor, ...]


@dataclass(frozen=True)
class Refusal:
    """Why there is no schedule, and which budgets are known.

    Attributes
    ----------
    reason : {"op", "kept", "event", "search", "packing", "limits"}
        ``"op"``: one op alone needs more than the budget, in any order and however often ops run. ``"kept"``: so do
        the tensors that must be kept, after the last op. ``"event"``: what must be resident while one op runs exceeds
        it, in this order and with so many runs per op. ``"search"``: proved by more than one event. ``"packing"``:
        schedules were found, but none whose buffers fit into one arena. ``"limits"``: none was found within the
        limits.
    op : Op or None
        The op of the first three reasons.
    needed : int
        Bytes resident at once while (or after) it runs, fixed memory included.
    lower_bound : int
        Bytes: no smaller budget is feasible, with the order and the number of runs per op that were asked for.
    enough : int
        Bytes: a budget for which there is a schedule; 0 if none is known.
    slices, enough_in_slices : int
        With so many slices, a lower budget (bytes) is enough, with ``slices="auto"``; 0 if none is known.
    """

    reason: str
    op: Op | None
    needed: int
    lower_bound: int
    enough: int
    slices: int = 0
    enough_in_slices: int = 0


class NoSchedule(Error):
    """No schedule was found within the limits, though there may be one.

    Attributes
    ----------
    answer : Schedule
        What is known: its ``status``, ``bound`` and ``solver``; it has no steps.
    refusal : Refusal
        Why there is none, and which budget would be enough.
    """

    def __init__(self, message: str, answer: Schedule, refusal: Refusal) -> None:
        super().__init__(message)
        self.answer = answer
        self.refusal = refusal

    @property
    def reached_peak(self) -> int:
        """Bytes: a budget for which there is a schedule; 0 if none is known."""
        return self.refusal.enough


class NoDeviceSchedule(Error):
    """No schedule over several devices: proved, or none found within the limits.

    Attributes
    ----------
    answer : DeviceSchedule
        What is known: its ``status``, ``bound`` and ``solver``; it has no steps.
    reason : {"op", "kept", "no_way", "event", "search", "limits"}
        As in `Refusal`; ``"no_way"``: something that is read or must be kept cannot be copied to where it has to be.
    op : str or None
        The op that no device has enough memory for.
    needed : dict of str to int
        Bytes by device: a lower bound on what it (or what must be kept) needs there, if that is more than the budget.
    """

    def __init__(
        self, message: str, answer: DeviceSchedule, reason: str, op: str | None, needed: dict[str, int]
    ) -> None:
        super().__init__(message)
        self.answer = answer
        self.reason = reason
        self.op = op
        self.needed = needed

    @property
    def is_proved(self) -> bool:
        """True if it is proved that there is none at all."""
        return self.answer.status == "infeasible"


class Infeasible(NoSchedule):
    """Proved: no schedule of the stated problem stays within the budget.

    Attributes
    ----------
    certificate : Certificate or None
        The one event that proves it; None where it takes more than one to prove it.
    least_budget : BudgetBracket
        Bounds on the smallest feasible budget: none below ``proved`` is feasible, and there is a schedule within
        ``reached``, with at most ``max_computes`` runs per op.
    """

    def __init__(
        self,
        message: str,
        answer: Schedule,
        refusal: Refusal,
        certificate: Certificate | None,
        least_budget: BudgetBracket,
    ) -> None:
        super().__init__(message, answer, refusal)
        self.certificate = certificate
        self.least_budget = least_budget
