# SPDX-License-Identifier: Apache-2.0
"""What can go wrong between a function of PyTorch and a step under its budget."""

from __future__ import annotations

from typing import Any

from torch._dynamo.exc import ShortenTraceback

from remora._engine import bytes_text, part_of_peak_text


class TorchError(ShortenTraceback):  # Dynamo wraps all other exceptions of a backend
    """Any error of `remora.torch`."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments, first_useful_frame=None)


class RemoraWarning(UserWarning):
    """Something runs outside of what was planned, or costs more than it need; said once."""


class CaptureError(TorchError):
    """The step holds something that cannot be scheduled; the message names the op."""


class SolverError(TorchError):
    """The solver failed."""


class Infeasible(TorchError):
    """No schedule holds the budget, or none was found within the time limit.

    Attributes
    ----------
    budget : int
        The budget that was asked for, in bytes, with what is there throughout.
    least : int
        The smallest budget for which a schedule is known, in bytes, with what is there throughout.
    proved : bool
        Whether it is proved that no schedule holds the budget.

    The message has both as a percentage, too: of what the step without a schedule (`unscheduled`) takes above `fixed`.
    """

    def __init__(self, budget: int, least: int, proved: bool, fixed: int, unscheduled: int) -> None:
        def amount(size: int) -> str:
            return f"{bytes_text(size)} ({part_of_peak_text(size, fixed, unscheduled)})"

        verdict = "no schedule holds" if proved else "no schedule was found for"
        super().__init__(f"{verdict} {amount(budget)}; the least budget with a known schedule is {amount(least)}")
        self.budget, self.least, self.proved = budget, least, proved
        self._fixed, self._unscheduled = fixed, unscheduled

    def knowing(self, reached: int) -> Infeasible:
        """The same, where a schedule with a peak of `reached` bytes is known."""
        return Infeasible(self.budget, min(self.least, reached), self.proved, self._fixed, self._unscheduled)
