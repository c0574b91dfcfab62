# SPDX-License-Identifier: Apache-2.0
"""Questions about a training step: the parameters of `plan`, `largest` and `fit_table`, each of them once."""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, ParamSpec, TypeVar

import torch

from remora.errors import InputError

from ..capture.optimizer import Optimizer
from ..options import Options, Solving, check_budget
from ._rates import FitDevice

P = ParamSpec("P")
Q = TypeVar("Q")
R = TypeVar("R")

MOST = 1 << 20
"""No larger size is tried."""


@dataclass(kw_only=True)
class Setting(Solving):
    """All that a question says except for the step and its device; `plan` explains it."""

    budget: int | str | None = None
    optimizer: str | Optimizer | None = None
    update: str | None = None
    precision: str = "fp32"
    ranks: int = 1
    sharding: str = "ddp"
    average: bool = False
    accumulate: int = 1
    reserve: int = 0
    train: bool = True
    cost: str | None = None
    solver: Options = field(init=False)

    def __post_init__(self) -> None:
        if self.budget is not None:
            check_budget(self.budget)
        if self.cost not in (None, "measured", "flops"):
            raise InputError("cost", f"{self.cost!r} is none of measured, flops")
        for name, least in (("accumulate", 1), ("reserve", 0)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise InputError(name, f"{value!r} is not a whole number of at least {least}")
        if self.update == "in backward":
            why = {"ranks": self.ranks > 1, "accumulate": self.accumulate > 1}
            for name in (name for name, given in why.items() if given):
                raise InputError("update", f"not 'in backward' with {name}: all gradients are there before the update")
        self.solver = Options(**{f.name: getattr(self, f.name) for f in fields(Solving)}).checked()


@dataclass
class Question(Setting):
    """The parameters of `plan`."""

    model: Any
    batch: Any
    loss: Callable[..., torch.Tensor] | None = None
    device: str | os.PathLike[str] | FitDevice | None = field(default=None, kw_only=True)
    sizes: Mapping[str, Any] | None = field(default=None, kw_only=True)
    lengths: Sequence[int] = field(default=(), kw_only=True)
    plans: int = field(default=4, kw_only=True)


@dataclass
class SizeQuestion(Question):
    """The parameters of `largest`."""

    over: str = field(default="batch", kw_only=True)
    multiple: int = field(default=1, kw_only=True)
    most: int = field(default=MOST, kw_only=True)


@dataclass
class TableQuestion(Setting):
    """The parameters of `fit_table`."""

    models: Mapping[str, tuple[Any, ...]]
    devices: Iterable[str | FitDevice]

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.models, Mapping):
            raise InputError("models", f"a {type(self.models).__name__}, not a mapping of names to tuples")
        if not self.models:
            raise InputError("models", "there is none")
        for name, row in self.models.items():
            if not isinstance(row, tuple | list) or len(row) not in (2, 3):
                raise InputError("models", f"{name!r} is neither (model, batch) nor (model, batch, loss)")
        if isinstance(self.devices, str | FitDevice):
            raise InputError("devices", "one device, not a list of them")

    def of(self, name: str, device: FitDevice) -> Question:
        """The question of one model on one device."""
        setting = {f.name: getattr(self, f.name) for f in fields(Setting) if f.init}
        return Question(*self.models[name], device=device, **setting)


def asks(question: Callable[P, Q]) -> Callable[[Callable[[Q], R]], Callable[P, R]]:
    """Gives a function of a question the parameters of the question, by name."""

    def of_question(answer: Callable[[Q], R]) -> Callable[P, R]:
        @functools.wraps(answer)
        def called(*given: P.args, **words: P.kwargs) -> R:
            return answer(question(*given, **words))

        signature = inspect.signature(question).replace(return_annotation=inspect.signature(answer).return_annotation)
        called.__signature__ = signature  # type: ignore[attr-defined]
        return called

    return of_question
