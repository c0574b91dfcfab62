# SPDX-License-Identifier: Apache-2.0
"""How a step is planned: the options of every entry point, and the one reader of budgets.

A budget is an amount of bytes, or a percentage. What a percentage is of depends on the entry point: each says so in its
docstring, and a `BudgetError` repeats it.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Literal, Protocol

import remora
from remora._engine import parse_budget
from remora.errors import InputError

from .errors import BudgetError

# A relative gap that is good enough: the measured durations of ops vary by more.
GOOD_ENOUGH = 0.005


class SizedStep(Protocol):
    """A step in bytes."""

    @property
    def fixed(self) -> int:
        """Always allocated."""

    @property
    def unscheduled(self) -> int:
        """Peak of the step as it is, `fixed` included: 100 %."""


@dataclass
class Sizes:
    """A step in bytes; for a refusal, `of` says what step that is, and `plan` what is looked for."""

    fixed: int
    unscheduled: int
    of: str
    plan: str = "schedule"

    def refusal(
        self, budget: int, least: int, options: Options, proved: bool = False, lower: int | None = None, cause: str = ""
    ) -> BudgetError:
        """The error of a budget, from amounts less what is reserved; what is proved of the budget is a lower bound."""
        lower = lower if lower is not None else budget + 1 if proved else 0
        found = BudgetError(budget, least, proved, self.fixed, self.unscheduled, lower, None, self.of, self.plan, cause)
        return found.beside(options.reserve)


@dataclass(kw_only=True)
class Solving:
    """How the engine is asked, and what for; `Options` explains it."""

    slices: Literal["none", "auto"] = "none"
    order: Literal["input", "free", "auto"] = "input"
    pure: tuple[str, ...] = ()
    time_limit: float = 15.0
    threads: int = 0
    seed: int = 1
    cache: bool = True
    progress: bool = False
    plan: str | Sequence[str] = ""


@dataclass
class Options(Solving):
    """How a step is planned: the parameters of `train_step` and `wrap`, and the options of the backend.

    Attributes
    ----------
    budget : int or str
        Bytes ("12GiB", 1500000), permanently resident memory included: parameters, buffers, the step's arguments. Or a
        percentage ("60%") of the memory that the step uses beyond that if nothing is recomputed.
    reserve : int
        Bytes that something else takes on the device, as an optimizer's state; a part of the budget given in bytes.
    cost : {"measured", "flops"}
        Whether ops are run and measured, or their times taken from a roofline.
    fuse : bool
        Whether Inductor compiles what it makes one loop of; the schedule is then of compiled regions and the other ops.
        Results are close to eager's, not equal bit for bit.
    arena : bool
        Whether the step's tensors lie in one block of memory, each where the plan says, within the budget. On the CPU
        only; needs a C++ compiler at first use.
    cuda_graph : bool
        Whether `train_step` launches its kernels at once, as a CUDA graph, which takes less time where kernels are
        short. The memory of the step then stays reserved between steps.
    order : {"input", "free", "auto"}
        "input": ops in their captured order, recomputes between them; "free": any order.
    pure : tuple of str
        Custom ops ("library::op") that may run again, since they do nothing but give their results. PyTorch's own ops
        need not be named; any other custom op runs once.
    slices : {"none", "auto"}
        "auto": parts of the step are computed in slices where that makes the schedule faster, or possible. Sums over
        slices are then rounded otherwise than eager's. Not with `arena` or `plan`.
    inference : bool
        Whether a forward without gradients is planned, too. Else it runs as if the module were not wrapped.
    time_limit : float
        Seconds for all calls of the solver that a plan takes. A solve ends earlier once its schedule is proved to take
        at most 0.5 % more time than the fastest one.
    threads : int
        Threads of the solver, 0 for one per core.
    seed : int
        Of the solver's random choices.
    cache : bool
        Whether schedules are kept in a file and found again.
    progress : bool
        Whether a line on standard error says what is being done.
    plan : str or sequence of str
        A file of `rt.plan`, made anywhere: the search begins with its schedule. A plan of another step is rejected.
        With gradient accumulation the first micro-step and the later ones are two steps: give a file for each.
    """

    budget: int | str = "100%"
    reserve: int = 0
    cost: str = "measured"
    fuse: bool = False
    arena: bool = False
    cuda_graph: bool = False
    inference: bool = False

    @staticmethod
    def of(given: Mapping[str, Any]) -> Options:
        """Options by their names.

        Raises
        ------
        TypeError, ValueError, InputError
            If there is no option of that name, or it cannot have that value.
        """
        known = {f.name for f in fields(Options)}
        unknown = sorted(set(given) - known)
        if unknown:
            raise TypeError(f"no option {', '.join(unknown)}; there are {', '.join(sorted(known))}")
        return Options(**given).checked()

    def checked(self) -> Options:
        """These options, if all their values are allowed.

        Raises
        ------
        TypeError, ValueError, InputError
            Names the option, and what it may be.
        """
        for name, allowed in _CHOICES.items():
            if getattr(self, name) not in allowed:
                raise ValueError(f"{name}: {getattr(self, name)!r} is none of {', '.join(map(repr, allowed))}")
        for name, kind in ((f.name, type(f.default)) for f in fields(self)):
            value = getattr(self, name)
            if kind is bool and not isinstance(value, bool):
                raise TypeError(f"{name}: {value!r} is neither True nor False")
            if kind is int and (isinstance(value, bool) or not isinstance(value, int) or value < 0):
                raise TypeError(f"{name}: {value!r} is not a whole number of at least 0")
        limit = self.time_limit
        if isinstance(limit, bool) or not isinstance(limit, (int, float)) or not limit > 0:
            raise TypeError(f"time_limit: {limit!r} is not a positive number of seconds")
        if isinstance(self.pure, str) or not all(isinstance(name, str) for name in self.pure):
            raise TypeError(f"pure: {self.pure!r} is not a sequence of names such as 'library::op'")
        check_budget(self.budget)
        if self.plan and self.fuse:
            raise ValueError("plan: its schedule is of single ops, which fuse=True compiles together")
        others = {"arena=True": self.arena, "plan": self.plan}
        if self.slices == "auto" and any(others.values()):
            raise ValueError(f"slices: not with {next(name for name, given in others.items() if given)}")
        return self

    @property
    def is_share(self) -> bool:
        """True if the budget is a percentage."""
        return isinstance(self.budget, str) and "%" in self.budget

    @property
    def may_vary(self) -> bool:
        """True if one capture can serve many sizes: not where code is compiled, recorded or laid out for one size."""
        return not (self.fuse or self.arena or self.cuda_graph or self.slices == "auto" or self.plan)

    def in_bytes(self, step: SizedStep) -> int:
        """Budget of a step in bytes, less what is reserved; a percentage already leaves that out."""
        if isinstance(self.budget, int):
            return self.budget - self.reserve
        try:
            size: int = parse_budget(self.budget, step.fixed, step.unscheduled)
        except InputError as error:
            raise InputError("budget", str(error)) from None
        return size if self.is_share else size - self.reserve

    def fixed_in_bytes(self, step: SizedStep, limit: int | None) -> tuple[Options, int | None]:
        """Options with a percentage replaced by bytes, and the largest such amount so far.

        The percentage is of this step, or of an earlier and larger one (`limit`): a smaller last batch gets the bytes
        of the others.
        """
        if not self.is_share:
            return self, limit
        limit = max(self.in_bytes(step), limit or 0)
        return replace(self, budget=limit + self.reserve), limit

    def limits_in(self, seconds: float, gap: float | None = None) -> remora.Limits:
        """Limits of a call of the engine that may take so many seconds; for a solve, with a gap that is good enough."""
        return remora.Limits(time_limit=seconds, gap=gap, threads=self.threads or None, seed=self.seed)

    def say(self, text: str, end: str = "") -> None:
        """Shows progress on standard error, if that is wanted."""
        if self.progress:
            tty = sys.stderr.isatty()
            print(
                f"\r\x1b[Kremora: {text}" if tty else f"remora: {text}",
                end=end if tty else "\n",
                file=sys.stderr,
                flush=True,
            )


_CHOICES = {"cost": ("measured", "flops"), "order": ("input", "free", "auto"), "slices": ("none", "auto")}


def check_budget(budget: Any, name: str = "budget") -> None:
    """Checks that a budget can be read, before anything is captured.

    Raises InputError: suggests what to write instead.
    """
    if isinstance(budget, bool) or not isinstance(budget, (int, str)):
        hint = ""
        if isinstance(budget, float):
            share = 0 < budget <= 2
            hint = f"; did you mean '{budget * 100:g}%'?" if share else f"; did you mean {int(budget)}?"
        raise InputError(name, f"{budget!r} is neither bytes (12 * 2**30, '12GiB') nor a percentage ('80%'){hint}")
    if isinstance(budget, int):
        if budget < 1:
            raise InputError(name, f"{budget} bytes are no budget")
        return
    try:
        parse_budget(budget, 0, 2**40)
    except InputError as error:
        raise InputError(name, error.message) from None
