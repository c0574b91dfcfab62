# SPDX-License-Identifier: Apache-2.0
"""Base of all problems: the bytes that are always allocated, and the peak that a percentage refers to."""

from __future__ import annotations

from dataclasses import dataclass

from ..errors import BudgetError
from ..options import Options


@dataclass
class Sizes:
    """A step in bytes."""

    fixed: int  # always allocated
    unscheduled: int  # peak of the step as it is, `fixed` included: 100 %
    of: str  # what step that is, for a refusal

    def refusal(
        self, budget: int, least: int, options: Options, proved: bool = False, lower: int | None = None
    ) -> BudgetError:
        """The error of a budget, from amounts less what is reserved; what is proved of the budget is a lower bound."""
        lower = lower if lower is not None else budget + 1 if proved else 0
        found = BudgetError(budget, least, proved, self.fixed, self.unscheduled, lower, of=self.of)
        return found.beside(options.reserve)
