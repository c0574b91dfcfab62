# SPDX-License-Identifier: Apache-2.0
"""Is my step right? A step as it is, compared with plain eager from the same state.

Plain eager is the user's own code with every `torch.utils.checkpoint` replaced by a plain call, and with whatever is
compiled or runs by Remora run as it is written. What the two leave is compared. Where something differs, plain eager
runs a second time, to tell wrong numbers from numbers that differ from run to run; then both run once more with their
ops noted (`checking.ops`), to find the first op that differs. In the end all is as it was before (`state`).
"""

from __future__ import annotations

import contextlib
import inspect
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.utils.checkpoint
from torch.utils import _pytree as pytree

from ..errors import CheckError
from ..internals import instead
from ..job import gathered
from ..state import Outcome, State
from ..walk import Kind, hooks_of
from .differences import Difference, described, differences
from .first import FirstOp, first_between, first_of_recompute, made_again
from .ops import Call, Phase, Recorder
from .plain import plainly

SHOWN = 4
"""So many differences are reported in full."""
_WRONG = "The step is wrong. From the same state, plain eager (no checkpoints, nothing compiled) leaves other values:"
_ROUNDED = "Right within rounding: parts are computed in slices, whose sums are added up in another order:"
_UNSTEADY = "Not deterministic, and not wrong: two runs of plain eager differ as much from each other as the step does:"


@dataclass(frozen=True)
class Check:
    """Result of `check`.

    Attributes
    ----------
    differences : list of Difference
    first_op : FirstOp or None
        None if nothing differs, or if no op can be told.
    hints : list of str
        Causes that were found otherwise than by the first op.
    compared : dict of Kind to int
        How many results, gradients and so on were compared.
    """

    differences: list[Difference]
    first_op: FirstOp | None = None
    hints: list[str] = field(default_factory=list)
    compared: dict[Kind, int] = field(default_factory=dict)

    @property
    def equal(self) -> bool:
        """True if nothing differs in any bit."""
        return not self.differences

    @property
    def wrong(self) -> bool:
        """True if something differs by more than two runs of plain eager do."""
        return any(difference.wrong for difference in self.differences)

    def __str__(self) -> str:
        counts = ", ".join(_counted(number, kind) for kind, number in self.compared.items() if number)
        if self.equal:
            return f"The step is right: it leaves what plain eager leaves, bit for bit ({counts})."
        is_rounded = any(difference.rounded for difference in self.differences)
        lines = [_WRONG if self.wrong else _ROUNDED if is_rounded else _UNSTEADY]
        shown = sorted(self.differences, key=lambda difference: not difference.wrong)
        for kind in dict.fromkeys(difference.kind for difference in shown):
            lines += self._lines_of([difference for difference in shown if difference.kind is kind], kind)
        if self.first_op is not None:
            lines.append(f"First op that differs: {self.first_op}")
        return "\n".join([*lines, *self.hints])

    def _lines_of(self, differences: Sequence[Difference], kind: Kind) -> list[str]:
        lines = [f"  {difference}" for difference in differences[:SHOWN]]
        if len(differences) > SHOWN:
            rest = len(differences) - SHOWN
            lines.append(f"  and {rest} more of {_counted(self.compared.get(kind, rest), kind)}")
        return lines


def check(step: Callable[..., Any], *arguments: Any, **named: Any) -> Check:
    """Says whether a step does what plain eager does, and if not, where it first differs.

    Plain eager is the same code without any `torch.utils.checkpoint`, and without `torch.compile`, `wrap` or
    `train_step`. It needs the memory of a step without checkpoints, so use a small batch. The step runs three to seven
    times, each time from the same state: parameters, buffers, gradients, the optimizer's state, numbers and lists that
    the step reaches, and the generators of torch, Python and numpy. Afterwards all is as before.

    Parameters
    ----------
    step : callable, or torch.nn.Module
        A step that calls `backward()` itself, and its arguments. Or three things: a model, a loss, and a batch. A tuple
        is then taken as inputs and a target, `loss(model(*inputs), target)`; a dictionary as named inputs,
        `loss(model(**batch))`; a tensor as the one input, `loss(model(batch))`.
    *arguments, **named
        What the step is given.

    Returns
    -------
    Check
        Print it.

    Raises
    ------
    TypeError
        What was given cannot be run several times, or is no step.
    CheckError
        Plain eager fails where the step does not, or the step does not call `backward()`.

    Examples
    --------
    >>> model = torch.nn.Linear(8, 4)
    >>> print(check(model, torch.nn.functional.cross_entropy, (torch.randn(2, 8), torch.tensor([0, 3]))))
    The step is right: it leaves what plain eager leaves, bit for bit (1 result, 2 gradients, ...).
    """
    given = _given(step, arguments, named)
    if isinstance(step, torch.nn.Module):
        model, (loss, batch) = step, arguments
        return _Checking(lambda: _step_of(model, loss, batch), {"": model, "loss": loss, "batch": batch}).run()
    return _Checking(lambda: step(*arguments, **named), {**given, "": step}).run()


class _Checking:
    """One check: the runs that it makes, all from the same state."""

    def __init__(self, step: Callable[[], Any], roots: dict[str, Any]) -> None:
        self.step = step
        self.state = State(roots)
        found = self.state.found
        self.names = {id(tensor): name for name, tensor in found.tensors.items()}
        self.error = ""  # with which PyTorch ends the step
        self.detached: list[str] = []  # modules whose reentrant checkpoints cut the gradient off
        self.reached: list[str] = []  # parameters in the order in which they get their gradients

    def run(self) -> Check:
        """Compares, and looks for the cause where something differs."""
        try:
            mine = self._mine()
            plain = self._plain()
            found = self._differences(mine, plain, plain)
            if any(gathered(bool(found))):
                found = self._differences(mine, plain, self._plain())
            recorded = self._recorded(plainly())
            again = first_of_recompute(recorded)
            compared = dict(Counter(kind for kind, _ in plain))
            if again is not None:
                found.append(self._recomputed(*again))
            if not any(gathered(bool(found))):
                return Check([], compared=compared)
            first = self._first_op(found, recorded)
            return Check(found, first, self._hints(mine, found), compared)
        finally:
            self.state.restore()

    def _differences(self, mine: Outcome, plain: Outcome, again: Outcome) -> list[Difference]:
        if self.error:
            return [Difference(Kind.RECOMPUTE, "a checkpoint", float("inf"), text=self.error)]
        return differences(mine, plain, again, self.state.found.in_slices)

    def _mine(self) -> Outcome:
        """State after the step; None if PyTorch itself sees that a recompute is other than the forward."""
        try:
            return self._outcome(contextlib.nullcontext())
        except torch.utils.checkpoint.CheckpointError as error:
            self.error = str(error).partition("\n")[0]
            return {}

    def _outcome(self, how: contextlib.AbstractContextManager[Any]) -> Outcome:
        """State after a run; the model is then restored."""
        self.state.restore()
        with how:
            result = self.step()
        left = self.state.outcome(result)
        _refuse_without_backward(result, left)
        self.state.restore()
        return left

    def _plain(self) -> Outcome:
        try:
            return self._outcome(plainly())
        except CheckError:
            raise
        except torch.OutOfMemoryError as error:
            raise CheckError(
                "plain eager, without checkpoints, is out of memory: check with a smaller batch"
            ) from error
        except (RuntimeError, ValueError, TypeError) as error:
            raise CheckError(f"plain eager fails, though the step runs: {error}") from error

    def _recorded(self, how: contextlib.AbstractContextManager[Any]) -> list[Call]:
        self.state.restore()
        recorder = Recorder(self.state.found.modules, self.names)
        self.reached = []
        with (
            contextlib.suppress(torch.utils.checkpoint.CheckpointError),
            how,
            self._note_gradients(),
            recorder.follow_modules(),
            recorder,
        ):
            self.step()
        self.state.restore()
        return recorder.calls

    @contextlib.contextmanager
    def _note_gradients(self) -> Iterator[None]:
        def note(tensor: torch.Tensor) -> None:
            self.reached.append(self.names[id(tensor)])

        handles = [
            tensor.register_post_accumulate_grad_hook(note)  # type: ignore[no-untyped-call]
            for tensor in self.state.found.tensors.values()
            if tensor.is_leaf and tensor.requires_grad
        ]
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()

    def _recomputed(self, again: Call, first: Call) -> Difference:
        """An op that a hand-written checkpoint recomputed; with a spread, if its first run differs from run to run."""
        name = " in ".join(text for text in (again.op, again.module) if text)
        spread = 0.0 if first in self._recorded(plainly()) else float("inf")
        return Difference(Kind.RECOMPUTE, name, float("inf"), spread, text="not what it gave in the forward")

    def _first_op(self, found: Sequence[Difference], plain: list[Call]) -> FirstOp | None:
        """The first op that differs: forward ops first, then ops that were recomputed, then backward ops."""
        again = first_of_recompute(plain)
        if again is not None:  # by a checkpoint that could not be taken out
            return made_again(*again)
        if not any(difference.wrong for difference in found):
            if any(difference.rounded for difference in found):
                return None
            return first_between(self._recorded(plainly()), plain, "gave other numbers in a second run of plain eager")
        with torch.compiler.set_stance("force_eager"):
            mine = self._recorded(self._note_detached())
        first = first_between(mine, plain, "gave other numbers than in plain eager")
        return first or (self._first_gradient(found) if self.state.found.compiled else None)

    @contextlib.contextmanager
    def _note_detached(self) -> Iterator[None]:
        """While it lasts, notes reentrant checkpoints whose inputs want no gradient: nothing inside gets one."""
        apply = torch.utils.checkpoint.CheckpointFunction.apply

        def noting(function: Any, preserve: Any, *arguments: Any) -> Any:
            if torch.is_grad_enabled() and not any(isinstance(t, torch.Tensor) and t.requires_grad for t in arguments):
                name = self.state.found.modules.get(id(function), getattr(function, "__qualname__", "a function"))
                self.detached.append(name or type(function).__name__)
            return apply(function, preserve, *arguments)

        with instead(torch.utils.checkpoint.CheckpointFunction, "apply", staticmethod(noting)):
            yield

    def _first_gradient(self, found: Sequence[Difference]) -> FirstOp:
        """The first gradient of compiled code that differs, in the order of the backward."""
        if any(difference.kind is Kind.RESULT for difference in found):
            text = "in the forward, for a result differs. Compiled code has other ops than eager, so none is named"
            return FirstOp("", Phase.FORWARD, "", 1, "", text)
        differ = {difference.name for difference in found if difference.kind is Kind.GRADIENT}
        name = next((name for name in self.reached if name in differ), min(differ, default=""))
        text = (
            f"in the backward, where the gradient of {name or 'no parameter'} is the first that differs. Compiled code "
            "has other ops than eager, so none is named"
        )
        return FirstOp("", Phase.BACKWARD, name.rpartition(".")[0], 1, "", text)

    def _hints(self, mine: Outcome, found: Sequence[Difference]) -> list[str]:
        hints = []
        if self.detached:
            names = ", ".join(dict.fromkeys(self.detached))
            hints.append(
                f"Cause: checkpoint(..., use_reentrant=True) of {names} is given no tensor that requires a gradient, "
                "so nothing inside gets one. Use use_reentrant=False."
            )
        hooks = self._hooks()
        if hooks and any(difference.kind is Kind.GRADIENT for difference in found):
            without = self._outcome(plainly([dictionary for dictionary, _ in hooks]))
            gradients = [key for key in mine if key[0] is Kind.GRADIENT]
            if not differences({k: mine[k] for k in gradients}, {k: without.get(k) for k in gradients}, None):
                names = ", ".join(dict.fromkeys(name for _, name in hooks))
                hints.append(f"Cause: the step leaves out gradient hooks; without them plain eager is equal: {names}.")
        return hints

    def _hooks(self) -> list[tuple[Any, str]]:
        """The dictionaries of gradient hooks, of parameters and modules, with the names of what has them."""
        hooks = [(h, name) for name, tensor in self.state.found.tensors.items() for h in hooks_of(tensor)]
        modules = [m for m in self.state.found.instances if m._backward_hooks or m._backward_pre_hooks]
        for module in modules:
            name = self.state.found.modules[id(module)] or type(module).__name__
            hooks += [(h, name) for h in (module._backward_hooks, module._backward_pre_hooks) if h]
        return hooks


def _counted(number: int, kind: Kind) -> str:
    name = {Kind.STATE: "other value"}.get(kind, kind.value)
    return f"{number} {name}{'s' if number != 1 else ''}"


def _step_of(model: torch.nn.Module, loss: Callable[..., Any], batch: Any) -> torch.Tensor:
    if isinstance(batch, Mapping):
        value = loss(model(**batch))
    elif isinstance(batch, (tuple, list)) and len(batch) > 1:
        value = loss(model(*batch[:-1]), batch[-1])
    else:
        value = loss(model(*batch) if isinstance(batch, (tuple, list)) else model(batch))
    if not isinstance(value, torch.Tensor) or value.numel() != 1:
        raise TypeError(f"check: the loss must give a tensor with one number, not {described(value)}")
    value.backward()  # type: ignore[no-untyped-call]
    return value.detach()


# -- What is refused ---------------------------------------------------------------------------------------------------


def _given(step: Any, arguments: Sequence[Any], named: dict[str, Any]) -> dict[str, Any]:
    """The arguments by the names that the step has for them; TypeError for anything that cannot be checked."""
    if not callable(step) or isinstance(step, type):
        kind = f"the class {step.__name__}" if isinstance(step, type) else type(step).__name__
        raise TypeError(f"check takes a step, a function that calls backward(), not {kind}")
    if isinstance(step, torch.nn.Module):
        is_loss = len(arguments) == 2 and not named and callable(arguments[0])
        if not is_loss or isinstance(arguments[0], torch.Tensor):
            raise TypeError(
                "check takes a step and its arguments, or three things: a model, a loss function, and a batch"
            )
    found = _bound(step, arguments, named)
    for name, value in found.items():
        for leaf in pytree.tree_leaves(value):
            if isinstance(leaf, torch.Tensor) and leaf.grad_fn is not None:
                raise TypeError(f"check: {name} is computed with gradients, which run once only; give {name}.detach()")
            if isinstance(leaf, Iterator):
                raise TypeError(f"check: {name} is an iterator, which cannot be set back; give a batch from it")
    return found


def _bound(step: Any, arguments: Sequence[Any], named: dict[str, Any]) -> dict[str, Any]:
    try:
        signature = inspect.signature(step)
    except (TypeError, ValueError):
        return {**{f"argument {i}": value for i, value in enumerate(arguments)}, **named}
    try:
        return dict(signature.bind(*arguments, **named).arguments)
    except TypeError as error:
        name = getattr(step, "__qualname__", type(step).__name__)
        raise TypeError(f"check: {name}{signature} does not take what is given: {error}") from None


def _refuse_without_backward(result: Any, left: Outcome) -> None:
    """Rejects a step that gives a loss and no gradients: the user forgot `backward()`."""
    losses = [t for t in pytree.tree_leaves(result) if isinstance(t, torch.Tensor) and t.grad_fn is not None]
    if losses and all(value is None for (kind, _), value in left.items() if kind is Kind.GRADIENT):
        raise CheckError(
            "the step gives a loss, but calls no backward(), so there are no gradients to compare: call "
            "loss.backward() inside it and return loss.detach()"
        )
