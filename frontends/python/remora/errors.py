# SPDX-License-Identifier: Apache-2.0
"""What the package raises."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from remora.budgets import BudgetBracket
    from remora.device_schedule import DeviceSchedule
    from remora.graph import Op, Tensor
    from remora.schedule import Schedule

__all__ = ["Certificate", "Error", "Infeasible", "InputError", "NoDeviceSchedule", "NoSchedule"]


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
        The path in the graph or file (``"$.ops[3].inputs[0]"``, as docs/reference/formats.md spells it) or the argument
        (``"budget"``); may be empty.
    message : str
        What is wrong with it.
    """

    def __init__(self, place: str, message: str) -> None:
        super().__init__(f"{place}: {message}" if place else message)
        self.place = place
        self.message = message


@dataclass(frozen=True)
class Certificate:
    """Why no schedule holds the budget: what must be resident at once while one op runs.

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


class NoSchedule(Error):
    """No schedule was found within the limits, though there may be one.

    Attributes
    ----------
    answer : Schedule
        What is known: its ``status``, ``bound`` and ``solver``; it has no steps.
    reached_peak : int
        Bytes: the lowest peak that the search found, a budget that would have been feasible; 0 if unknown.
    """

    def __init__(self, message: str, answer: Schedule, reached_peak: int) -> None:
        super().__init__(message)
        self.answer = answer
        self.reached_peak = reached_peak


class NoDeviceSchedule(Error):
    """No schedule over several devices: proved, or none found within the limits.

    Attributes
    ----------
    answer : DeviceSchedule
        What is known: its ``status``, ``bound`` and ``solver``; it has no steps.
    """

    def __init__(self, message: str, answer: DeviceSchedule) -> None:
        super().__init__(message)
        self.answer = answer

    @property
    def is_proved(self) -> bool:
        """Whether there is none at all."""
        return self.answer.status == "infeasible"


class Infeasible(NoSchedule):
    """Proved: no schedule of the stated problem holds the budget.

    Attributes
    ----------
    certificate : Certificate or None
        The one event that proves it; None where it takes more than one to prove it.
    least_budget : BudgetBracket
        The least feasible budget: no schedule holds less than ``proved``; one holds ``reached``. With at most its
        ``max_computes`` computes per op, which is two where the solve left the number open.
    """

    def __init__(
        self,
        message: str,
        answer: Schedule,
        reached_peak: int,
        certificate: Certificate | None,
        least_budget: BudgetBracket,
    ) -> None:
        super().__init__(message, answer, reached_peak)
        self.certificate = certificate
        self.least_budget = least_budget
