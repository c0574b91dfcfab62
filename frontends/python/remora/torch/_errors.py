# SPDX-License-Identifier: Apache-2.0
"""What can go wrong between a function of PyTorch and a step under its budget."""

from __future__ import annotations


class TorchError(RuntimeError):
    """Any error of `remora.torch`."""


class CaptureError(TorchError):
    """The step holds something that cannot be scheduled; the message names the op."""


class SolverError(TorchError):
    """The solver failed or found no schedule within its limits."""


class Infeasible(TorchError):
    """No schedule of the step holds the budget.

    Attributes
    ----------
    budget : int
        The budget that was asked for, in bytes, fixed memory included.
    least : int
        The smallest budget for which a schedule is known, in bytes, fixed memory included.
    """

    def __init__(self, message: str, budget: int, least: int) -> None:
        super().__init__(message)
        self.budget = budget
        self.least = least
