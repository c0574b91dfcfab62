# SPDX-License-Identifier: Apache-2.0
"""Updates of parameters inside a captured step: an optimizer's own step, for one parameter at a time.

The step is traced with a call of `remora::update` for each parameter that has a gradient at its end, and then without
that gradient. `place_updates` moves each call to the last op that reads its parameter:

    mm(dy, w) -> dx,  mm(x, dy) -> dw,  update(w, dw)      dw is released here, and not when the step ends

No op may read the parameter behind that. A schedule runs an op again only if something needs its results, so an update
comes after the first runs of all ops for which a reader of its parameter could run again: of those that read its
results, and, where these may run again, of those that read theirs. Ops of the backward that read a parameter, those
that make a gradient or a result, and those for which an update would have to wait run once, so that this ends there.
"""

from __future__ import annotations

import functools
import itertools
import operator
import types
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import torch
from torch import fx
from torch.fx.node import has_side_effect
from torch.optim import LBFGS, Optimizer, SparseAdam
from torch.optim.optimizer import _global_optimizer_post_hooks, _global_optimizer_pre_hooks

from remora.errors import InputError

from ..errors import CaptureError
from ..symbols import hint_of
from .graph import Op, Run, StepGraph, tensors_in
from .optimizer import OptimizerMemory, memory_like

_numbers = itertools.count(1)
_known: weakref.WeakValueDictionary[int, Update] = weakref.WeakValueDictionary()
_library: Any = torch.library.Library("remora", "DEF")  # type: ignore[no-untyped-call]
_library.define("update(Tensor parameter, Tensor gradient, int number) -> ()")
_library.impl("update", lambda _, gradient, number: _known[number].run(gradient), "CompositeExplicitAutograd")
_library.impl("update", lambda *_: None, "Meta")
UPDATE = has_side_effect(torch.ops.remora.update.default)
"""The call, which names an `Update` by its number."""


class Update:
    """The step of an optimizer for one parameter alone.

    `place`: of the parameter's group. `memory`: of its state and its temporaries, once that is known.
    """

    def __init__(self, optimizer: Optimizer, place: int, parameter: torch.nn.Parameter) -> None:
        self.optimizer, self.place, self.parameter = optimizer, place, parameter
        self.memory = OptimizerMemory()
        self.number = next(_numbers)
        _known[self.number] = self

    def run(self, gradient: torch.Tensor) -> None:
        """Updates the parameter, which has no gradient before and after."""
        groups, parameter = self.optimizer.param_groups, self.parameter
        group = groups[self.place]
        alone = {"params": [parameter], **({"foreach": False} if "foreach" in group else {})}
        own = {key: group[key] for key in alone}
        group.update(alone)
        self.optimizer.param_groups = [group]
        parameter.grad = gradient
        try:
            self.optimizer.step()
        finally:
            parameter.grad = None
            self.optimizer.param_groups = groups
            group.update(own)

    def memory_on(self, device: torch.device) -> OptimizerMemory:
        """The memory on a device."""
        return self.memory if self.parameter.device.type == device.type else OptimizerMemory()


class Updates:
    """Optimizers whose updates run inside a step.

    Raises InputError: names the optimizer, and why its updates cannot.
    """

    def __init__(self, given: Optimizer | Iterable[Optimizer]) -> None:
        self.optimizers = [given] if isinstance(given, Optimizer) else list(given)
        for optimizer in self.optimizers:
            _refuse(optimizer)
        rows = [(o, i, p) for o in self.optimizers for i, group in enumerate(o.param_groups) for p in group["params"]]
        self._updates = [Update(*row) for row in rows]
        self._parameters = self._listed()
        self._forms: list[Any] = []
        if len({id(p) for p in self._parameters}) < len(rows):
            raise InputError("update", "a parameter is listed twice, and would be updated twice")

    def _measure(self) -> None:
        """Finds the memory of the updates, before Dynamo traces: optimizers then do something else.

        Raises CaptureError if options have changed such that updates need more memory than was planned.
        """
        forms = [[_form(group) for group in optimizer.param_groups] for optimizer in self.optimizers]
        if forms == self._forms:
            return
        known: dict[Any, OptimizerMemory] = {}
        for update in self._updates:
            p, optimizer = update.parameter, update.optimizer
            key = id(optimizer), update.place, p.shape, p.stride(), p.dtype, p.device
            if key not in known:
                group = optimizer.param_groups[update.place]
                options = {k: value for k, value in group.items() if k not in (*_NAMES, "foreach")}
                known[key] = memory_like(type(optimizer), options, p)
            planned, needed = ((m.state, m.temporaries) for m in (update.memory, known[key]))
            if self._forms and any(a > b for a, b in zip(needed, planned, strict=True)):
                raise CaptureError(
                    "update: the optimizer's options have changed, and it needs more memory: make the train_step anew"
                )
            update.memory = update.memory if self._forms else known[key]
        self._forms = forms

    def _listed(self) -> list[torch.nn.Parameter]:
        return [p for o in self.optimizers for group in o.param_groups for p in group["params"]]

    def inside(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function, with the updates at its end: what is traced."""
        rows = tuple((update.number, update.parameter) for update in self._updates)

        def updating(*arguments: Any, **named: Any) -> Any:
            result = function(*arguments, **named)
            for number, parameter in rows:
                if parameter.grad is not None:
                    UPDATE(parameter, parameter.grad, number)
                    parameter.grad = None
            return result

        # Dynamo keeps what it captured by code object, and each step is of its own.
        code = updating.__code__.replace(co_name=getattr(function, "__name__", "step"))
        return types.FunctionType(code, updating.__globals__, code.co_name, None, updating.__closure__)

    def check(self, given: Any) -> None:
        """Rejects a call that would not do what the optimizers' steps do after it; `given`: its arguments.

        Raises CaptureError.
        """
        for optimizer in self.optimizers:
            _refuse_hooks(optimizer)
        self._measure()
        listed = self._listed()
        if [id(p) for p in listed] != [id(p) for p in self._parameters]:
            raise CaptureError("update: the optimizer's parameters have changed; make a train_step of it anew")
        there = next((i for i, p in enumerate(listed) if p.grad is not None), None)
        if there is not None:
            raise CaptureError(
                f"update: parameter {there} of {_names(self.optimizers)} has a gradient already, and those that "
                "accumulate are no update's: set them to None, or call step() outside, without update"
            )
        if self.optimizers and any(hasattr(t, OF_A_SCALER) for t in tensors_in(given)):
            raise CaptureError(
                "update: a GradScaler unscales and checks all gradients before any update: call "
                "scaler.step(optimizer) outside, without update"
            )


OF_A_SCALER = "remora_of_a_scaler"
"""An attribute of a tensor that is the scale of a GradScaler."""


_NAMES = ("params", "param_names")


def _form(group: dict[str, Any]) -> list[Any]:
    """The options of a group on which its memory may depend; of numbers, whether they are 0."""
    plain = {k: v for k, v in group.items() if k not in (*_NAMES, "lr", "initial_lr") and not torch.is_tensor(v)}
    return [(k, v != 0 if isinstance(v, float) else v) for k, v in plain.items() if not isinstance(v, tuple)]


def _names(optimizers: Iterable[Optimizer]) -> str:
    return ", ".join(type(o).__name__ for o in optimizers)


def _refuse(optimizer: Any) -> None:
    """Rejects an optimizer whose updates of parameters are not known to be independent of each other."""
    name = type(optimizer).__name__
    if not isinstance(optimizer, Optimizer):
        raise InputError("update", f"{name} is no optimizer: give one, such as torch.optim.AdamW(model.parameters())")
    why = ""
    if isinstance(optimizer, LBFGS):
        why = "it evaluates a closure"
    elif isinstance(optimizer, SparseAdam):
        why = "captured gradients are not sparse"
    elif type(optimizer).__module__.split(".")[:2] != ["torch", "optim"]:
        why = "it is none of torch.optim's, and may not update each parameter by itself"
    elif any(group.get("differentiable") for group in optimizer.param_groups):
        why = "it is differentiable, and a captured step has no autograd nodes"
    if why:
        raise InputError("update", f"{name} cannot run inside: {why}; call its step() outside")
    _refuse_hooks(optimizer)


def _refuse_hooks(optimizer: Optimizer) -> None:
    own = optimizer._optimizer_step_pre_hooks or optimizer._optimizer_step_post_hooks
    if own or _global_optimizer_pre_hooks or _global_optimizer_post_hooks:
        raise InputError(
            "update",
            f"{type(optimizer).__name__} has hooks of its step, which would run once a parameter; call it outside",
        )


def is_update(node: fx.Node) -> bool:
    """True if a node updates a parameter."""
    return node.target is UPDATE


def update_of(node: fx.Node) -> Update:
    """The update that a node names."""
    found = _known.get(node.args[2])  # type: ignore[arg-type]
    assert found is not None, "a step outlives its optimizer"
    return found


def updates_in(step: StepGraph) -> Iterator[Op]:
    """The ops that update parameters, in the step's order."""
    return (op for op in step.ops if op.nodes and is_update(op.nodes[0]))


def refuse_global_norm(module: fx.GraphModule) -> None:
    """Rejects updates whose gradients are made of several parameters' gradients, as clipping by a global norm does."""
    for update in module.graph.find_nodes(op="call_function", target=UPDATE):
        parameter, waiting, seen = update.args[0], [update.args[1]], set[fx.Node]()
        while waiting:
            read = waiting.pop()
            if read in seen:
                continue
            seen.add(read)
            if not _is_gradient(read):
                waiting += read.all_input_nodes
            elif read.args[0].all_input_nodes not in ([], [parameter]):
                raise CaptureError(
                    "update: an update waits for other parameters' gradients, as with clipping by a global norm, so "
                    "all would stay: clip and call step() outside, without update"
                )


EMPTY = (torch.ops.aten.empty_strided.default, torch.ops.aten.empty_like.default)
"""Calls by which Dynamo makes memory for a gradient, which it copies there."""


def _is_gradient(node: fx.Node) -> bool:
    place = node.args[0] if node.target is torch.ops.aten.copy.default else None
    return isinstance(place, fx.Node) and place.target in EMPTY


def place_updates(step: StepGraph) -> None:
    """Moves updates to where their parameters have been read; O(edges * ops / 64)."""
    updates = list(updates_in(step))
    if not updates:
        return
    written = {op: _parameter_of(step, op) for op in updates}
    _refuse_other_writes(step, set(written.values()))
    taken = {s for op in updates for s in step.storages_of(op.nodes[0].args[1])}  # type: ignore[arg-type]
    for op in step.ops:
        reads = op.backward and not set(written.values()).isdisjoint(op.inputs)
        op.once = op not in written and (reads or not taken.isdisjoint(op.outputs) or _must_stay(step, op))
    others = [op for op in step.ops if op not in written]
    number = {op: i for i, op in enumerate([*others, *updates])}
    maker = {s: number[op] for op in others for s in op.outputs}
    users: list[list[int]] = [[] for _ in others]
    for i, op in enumerate(others):
        for place in {maker[s] for s in op.inputs if s in maker} - {i}:
            users[place].append(i)
    readers = {op: [i for i, other in enumerate(others) if written[op] in other.inputs] for op in updates}
    ready = {op: max(*readers[op], *(maker[s] for s in op.inputs if s in maker)) for op in updates}
    before = _before(others, users, readers)
    while late := _kept_longer(others, users, before, ready):
        for op in late:
            op.once = True
        before = _before(others, users, readers)
    behind: dict[int, list[Op]] = {}
    for op in updates:
        behind.setdefault(max(before[op].bit_length() - 1, ready[op]), []).append(op)
    step.ops[:] = [op for i, other in enumerate(others) for op in (other, *behind.get(i, ()))]
    _order(step, number, before)


def _must_stay(step: StepGraph, op: Op) -> bool:
    """True if an op makes results of the step, which otherwise may be recomputed in the end, behind updates.

    Small ones next to other outputs, such as running statistics, are pinned instead.
    """
    kept = [s for s in op.outputs if step.storages[s].keep]
    if not kept or not op.recompute:
        return False
    if len(kept) < len(op.outputs) and sum(hint_of(step.storages[s].size) for s in kept) <= SMALL:
        step.pinned.update(kept)
        return False
    return True


SMALL = 1 << 16
"""Bytes of results that may count throughout."""


def late_reads(step: StepGraph, runs: Sequence[Run]) -> list[Op]:
    """Ops that must not run twice: a schedule reads a parameter behind its update, and runs them again there."""
    written = {_parameter_of(step, op): op for op in updates_in(step)}
    gone, seen, again = set[int](), set[Op](), list[Op]()
    is_late = False
    for run in runs:
        if gone and run.op in seen:
            again.append(run.op)
        is_late = is_late or not gone.isdisjoint(run.op.inputs)
        seen.add(run.op)
        gone |= {s for s, op in written.items() if op is run.op}
    if not is_late:
        return []
    kept = [op for op in again if any(step.storages[s].keep for s in op.outputs)]
    return list(dict.fromkeys(kept or again))


def _parameter_of(step: StepGraph, op: Op) -> int:
    (storage,) = step.storages_of(op.nodes[0].args[0])  # type: ignore[arg-type]
    return storage


def _refuse_other_writes(step: StepGraph, parameters: set[int]) -> None:
    """Rejects a step that in its end copies a parameter, or something into one."""
    for place, source in step.updates:
        if not parameters.isdisjoint([*step.needs.get(place, ()), *step.needs.get(step.resolve(source), ())]):
            raise CaptureError(
                "update: the step itself changes or copies a parameter that is updated: do that outside, or leave "
                "update out"
            )


def _before(ops: Sequence[Op], users: list[list[int]], readers: dict[Op, list[int]]) -> dict[Op, int]:
    """For each update, as bits, the ops that read its parameter, and those for which one of these could run again."""
    behind = [0] * len(ops)  # an op, and if it may run again, those that read its results, and so on
    for i in range(len(ops) - 1, -1, -1):
        behind[i] = 1 << i
        for user in users[i] if ops[i].recompute and not ops[i].once else ():
            behind[i] |= behind[user]
    return {op: functools.reduce(operator.or_, (behind[i] for i in found), 0) for op, found in readers.items()}


def _kept_longer(ops: Sequence[Op], users: list[list[int]], before: dict[Op, int], ready: dict[Op, int]) -> list[Op]:
    """Ops of the backward for which an update would wait, as for parts of another gradient: they are to run once."""
    last = [max(found, default=0) for found in users]
    found: dict[Op, None] = {}
    for update, place in ready.items():
        if before[update].bit_length() - 1 <= place:
            continue
        for i in range(place + 1):
            op = ops[i]
            if last[i] > place and before[update] >> i & 1 and op.backward and op.recompute and not op.once:
                found[op] = None
    return list(found)


def _order(step: StepGraph, number: dict[Op, int], before: dict[Op, int]) -> None:
    """Notes which of the ops that come before an update do not do so by what it reads, or by what runs once."""
    op_of = {i: op for op, i in number.items()}
    maker = {s: op for op in step.ops for s in op.outputs}
    ahead: dict[Op, int] = {}  # a bit for an op, and for each that comes before it
    last = 0  # of those that run once, which keep their order (`problem.aten`)
    for op in step.ops:
        runs_once = op.random or not op.recompute
        known = last if runs_once else 0
        for s in op.inputs:
            known |= ahead[maker[s]] if s in maker else 0
        while missing := before.get(op, 0) & ~known:
            other = op_of[missing.bit_length() - 1]
            step.after.setdefault(op, []).append(other)
            known |= ahead[other]
        ahead[op] = known | 1 << number[op]
        last = ahead[op] if runs_once else last
