# SPDX-License-Identifier: Apache-2.0
"""Errors between a function of PyTorch and a step under its budget."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch._dynamo.exc import BackendCompilerFailed, ShortenTraceback, TorchDynamoException

from remora._engine import bytes_text, part_of_peak_text
from remora.errors import Error, warn_user

_ADVICE = ("Set TORCHDYNAMO_VERBOSE=1", "For even more developer context", "You can suppress this exception")
"""How Dynamo's own advice begins, which asks to report a bug to PyTorch."""
_HINTS = {
    "set_runtime_stats_and_log": "That is DistributedDataParallel's forward: use "
    "DistributedDataParallel(remora.torch.wrap(model)), or call the model inside it (`.module`) and all-reduce the "
    "gradients behind the step",
    "torch._dynamo.disable": "FSDP's hooks are such a call: give each block that fully_shard shards to "
    "remora.torch.wrap, and not the whole model",
    "torch/autograd/__init__.py` should not be traced": "Call it as torch.autograd.backward or torch.autograd.grad, "
    "not by a name of its own",
    "already consumed grad_fn": "Two calls of backward() or torch.autograd.grad() pass through the same ops: give "
    "retain_graph=True to all but the last, or detach what they share",
    "Sparse": "Sparse gradients (Embedding(sparse=True)) have sizes that depend on data: use sparse=False",
    "does not support RNN": "Write the layer with LSTMCell or GRUCell in a loop, or wrap the other parts",
    "FloatTrueDiv(1.0": "BatchNorm with momentum=None divides by a counter: give it a number as momentum",
    "use_numpy_random_stream": "NumPy's random numbers cannot be captured: draw outside and give them as an argument",
    "as_proxy()": "A torch.Generator of your own cannot be captured: draw outside and give the numbers as an argument",
    "Module-level backwards hooks": "Register the hook on a value inside forward (tensor.register_hook), which runs",
    "Data-dependent branching": "Choose by torch.where, or take the branch outside of the step",
    "Dynamic shape operator": "A size depends on data: take this part out of the step, or make its sizes fixed",
    "data-dependent expression": "A size depends on data (a mask, nonzero, unique): use torch.where, or fixed sizes",
    "consumed returned tensor's grad_fn": "Return loss.detach(), and print or keep only that; if a module stores an "
    "activation, use remora.torch.wrap",
    "optim/optimizer.py": "Call the optimizer's step() outside of this step",
    "does not have a grad_fn": "Is the step called under torch.no_grad(), or has no parameter a gradient?",
    "HOP: Unsafe side effect\n  Higher Order Operator: autograd.Function": "An autograd.Function changes something "
    "outside of it{place}, such as the gradients of parameters that are not its arguments: pass them to apply() and "
    "return their gradients; or use remora.torch.auto_checkpoint, which captures nothing",
    "returning intermediate with requires_grad_()": "A result is computed from a tensor on which the module itself "
    "calls requires_grad_(): take the loss inside a function for remora.torch.train_step, or make that tensor outside. "
    "If transformers or PEFT call it, switch the model's gradient checkpointing off: the schedule decides what is "
    "recomputed",
}
"""Suggestions for code that PyTorch rejects, by a part of its message: a file's name may also be of the user's code."""


class TorchError(ShortenTraceback, Error):  # Dynamo wraps all other exceptions of a backend
    """Any error of `remora.torch`."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments, first_useful_frame=None)
        self._text = str(arguments[0]) if arguments else ""

    def __str__(self) -> str:
        return self._text  # Dynamo adds advice to the arguments

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._text,)


class RemoraWarning(UserWarning):
    """Something runs outside of what was planned, or costs more than it need; said once."""


def warn(text: str) -> None:
    """Warns at the user's line."""
    warn_user(f"remora: {text}", RemoraWarning)


class CaptureError(TorchError):
    """The step holds something that cannot be scheduled; the message names the op."""


class in_plain_words:  # noqa: N801
    """Reports errors of Dynamo's capture without its advice; our own errors are raised without its frames."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, _: object, error: BaseException | None, traceback: object) -> None:
        if isinstance(error, TorchError):
            raise error.with_traceback(None) from error.__cause__
        if isinstance(error, BackendCompilerFailed):
            inner = error.inner_exception
            said = f"{type(inner).__name__}: {_hinted(inner)}"
            raise CaptureError(f"the captured step cannot be planned: {said}") from inner
        if isinstance(error, TorchDynamoException):
            raise CaptureError(f"PyTorch cannot capture this step: {_hinted(error)}") from error


def _hinted(error: BaseException) -> str:
    """An exception's text up to Dynamo's advice, and first what to do about it."""
    lines = str(error).splitlines()
    end = next((i for i, line in enumerate(lines) if line.strip().startswith(_ADVICE)), len(lines))
    text = "\n".join(lines[:end]).strip()
    said, _, stack = text.partition("from user code:")
    hints = (hint for part, hint in _HINTS.items() if part in (text if part.endswith(".py") else said))
    hint = next((f"{hint}. PyTorch says: " for hint in hints), "").replace("{place}", _place(stack))
    return f"{hint}{text}"


def _place(stack: str) -> str:
    """The innermost line of code that is neither PyTorch's nor ours, as " (file:line)"; "" if there is none."""
    libraries = tuple(str(Path(file).parent) for file in (torch.__file__, __file__))
    found = [m for m in _FRAME.finditer(stack) if not m[1].startswith(libraries)]
    return f" ({found[-1][1]}:{found[-1][2]})" if found else ""


_FRAME = re.compile(r'File "([^"]+)", line (\d+)')


def first_line(text: object) -> str:
    """The first line of an exception or of a program's message, "" if it says nothing."""
    return (str(text).strip().splitlines() or [""])[0]


class CheckError(TorchError):
    """A step cannot be compared with plain eager."""


class SolverError(TorchError):
    """The solver failed."""


class BudgetError(TorchError):
    """No schedule stays within the budget, or none was found within the time limit.

    All amounts are as a user gives a budget in bytes: with permanently resident memory, and with `reserve`.

    Attributes
    ----------
    budget : int
        The budget that was asked for, in bytes.
    least : int
        A budget in bytes that is enough: for which a schedule is known.
    lower : int
        Bytes: it is proved that no smaller budget is enough. Where it equals `least`, that is the minimum.
    proved : bool
        Whether it is proved that no schedule stays within the budget.
    op : str
        An op that needs more than the budget by itself, whatever is recomputed; "" if there is none.
    slices, in_slices : int
        With so many slices, about so many bytes are enough (``slices="auto"``); 0 if that is not known, or no less.

    The message has the amounts as percentages, too: of what the step without a schedule (`unscheduled`) takes above
    `fixed`, and names that step (`of`) and what was looked for (`plan`).
    """

    def __init__(
        self,
        budget: int,
        least: int,
        proved: bool,
        fixed: int,
        unscheduled: int,
        lower: int = 0,
        op: tuple[str, int] | None = None,
        of: str = "",
        plan: str = "schedule",
        cause: str = "",
        slices: int = 0,
        in_slices: int = 0,
    ) -> None:
        def amount(size: int) -> str:
            return f"{bytes_text(size)} ({part_of_peak_text(size, fixed, unscheduled)})"

        lower = min(lower, least)
        verdict = f"no {plan} {'stays' if proved else 'was found'} within"
        why = f": {cause}" if cause else ""
        why = f": {op[0]} alone needs {bytes_text(op[1])} while it runs. {TOO_LARGE}" if op is not None else why
        says_more = lower > max(fixed, budget + 1) or lower == least  # than that the budget is not enough
        known = enough_text(least, lower if says_more else 0, amount)
        whole = f"; 100 % is the peak of {of}" if of else ""
        slices, in_slices = (slices, in_slices) if in_slices < least else (0, 0)
        cut = f'; in {slices} slices about {amount(in_slices)} is enough: slices="auto"' if slices else ""
        super().__init__(f"{verdict} {amount(budget)}{why}; {known}{cut}{whole}")
        self.slices, self.in_slices = slices, in_slices
        self.budget, self.least, self.proved, self.lower = budget, least, proved, lower
        self.op = op[0] if op is not None else ""
        self._given: dict[str, Any] = {"budget": budget, "least": least, "proved": proved, "fixed": fixed}
        self._given |= {"unscheduled": unscheduled, "lower": lower, "op": op, "of": of, "plan": plan, "cause": cause}
        self._given |= {"slices": slices, "in_slices": in_slices}

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), tuple(self._given.values())

    def changed(self, **amounts: Any) -> BudgetError:
        """The same with some of the arguments replaced."""
        given = {**self._given, **amounts}
        op = given["op"]
        return BudgetError(**{**given, "op": op if op is not None and op[1] > given["budget"] else None})

    def beside(self, reserve: int) -> BudgetError:
        """The same with so many bytes more in each amount."""
        sizes = {
            name: self._given[name] + reserve
            for name in ("budget", "least", "fixed", "unscheduled", "lower", "in_slices")
        }
        op = self._given["op"]
        return self.changed(**sizes, op=(op[0], op[1] + reserve) if op is not None else None)

    def knowing(self, reached: int) -> BudgetError:
        """The same, where a schedule is known for a budget of `reached` bytes."""
        return self.changed(least=min(self.least, reached))


def enough_text(least: int, lower: int, amount: Callable[[int], str]) -> str:
    """Says that a budget is enough, and of which smaller one that is not known; `lower`: 0 if nothing is proved."""
    if lower == least:
        return f"the minimum is {amount(least)}"
    return f"{amount(least)} is enough, and {f'{amount(lower)} is a lower bound' if lower else 'less may be'}"


TOO_LARGE = "No recompute changes that: take a smaller batch, or compute that part in pieces"
"""Suggestions for an op that is too large by itself."""
