# SPDX-License-Identifier: Apache-2.0
"""What can go wrong between a function of PyTorch and a step under its budget."""

from __future__ import annotations

from typing import Any

from torch._dynamo.exc import ShortenTraceback


class TorchError(ShortenTraceback):  # Dynamo wraps all other exceptions of a backend
    """Any error of `remora.torch`."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments, first_useful_frame=None)


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
    """

    def __init__(self, budget: int, least: int, proved: bool) -> None:
        verdict = "no schedule holds" if proved else "no schedule was found for"
        super().__init__(f"{verdict} {budget:,} bytes; the least budget with a known schedule is {least:,} bytes")
        self.budget, self.least, self.proved = budget, least, proved

    def knowing(self, reached: int) -> Infeasible:
        """The same, where a schedule with a peak of `reached` bytes is known."""
        return Infeasible(self.budget, min(self.least, reached), self.proved)
