# SPDX-License-Identifier: Apache-2.0
"""Settings that the callbacks share, and the choice made from them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import torch

import remora.torch as rt


class Choosing:
    """Chooses by a budget, with room for an optimizer that has not run yet.

    Parameters
    ----------
    budget : int or str
        As for `auto_checkpoint`.
    reserve : int, optional
        Bytes of the optimizer's state; by default Adam's for all parameters that are trained.
    slices : {"none", "auto"}
        As for `auto_checkpoint`.
    time_limit : float
        Seconds for the search.
    """

    def __init__(
        self,
        budget: int | str,
        *,
        reserve: int | None = None,
        slices: Literal["none", "auto"] = "none",
        time_limit: float = 15.0,
    ) -> None:
        self.budget, self.reserve, self.slices, self.time_limit = budget, reserve, slices, time_limit

    def choose(self, model: torch.nn.Module, batch: Any, loss: Callable[..., torch.Tensor] | None = None) -> None:
        """Checkpoints the model's modules for this batch."""
        reserve = adam_bytes(model) if self.reserve is None else self.reserve
        limits: dict[str, Any] = {"slices": self.slices, "time_limit": self.time_limit}
        rt.auto_checkpoint(model, batch, self.budget, loss=loss, reserve=reserve, **limits)


def adam_bytes(model: torch.nn.Module) -> int:
    """Bytes of Adam's state: two numbers for each that is trained, of the parameter's type."""
    return sum(2 * p.nbytes for p in model.parameters() if p.requires_grad)
