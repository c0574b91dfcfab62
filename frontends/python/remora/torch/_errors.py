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
    """

    def __init__(self, message: str, budget: int, least: int) -> None:
        super().__init__(message)
        self.budget = budget
        self.least = least
