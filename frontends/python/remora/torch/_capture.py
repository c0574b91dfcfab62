# SPDX-License-Identifier: Apache-2.0
"""From a function or module of PyTorch to graphs, and from planned programs back to something that is called.

Two ways:

* `train_step`: loss and `loss.backward()` are inside the function. Dynamo traces the autograd ops too, so forward, loss
and
  backward are one graph, and any schedule of it can run.
* `backend`, and `wrap` on it: the user calls `loss.backward()`. AOTAutograd's joint graph is scheduled as a whole, with
one op for
  what the user does between, and run as two programs: what is resident at the cut is what autograd saves.
"""

from __future__ import annotations

import functools
import operator
import sys
import time
import weakref
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any, TypeVar

import torch
import torch._dynamo
from torch import fx
from torch._dynamo.backends.common import aot_autograd
from torch._functorch._aot_autograd.descriptors import SavedForBackwardsAOTOutput
from torch._functorch.partitioners import _extract_fwd_bwd_modules

from ._costs import Cost, adopt_sizes, by_flops, measured
from ._eager import whole_ops
from ._errors import CaptureError, Infeasible
from ._graph import Cut, Op, Step
from ._plan import Plan, solve
from ._program import Program, Run, generator_of, state_of, write_program
from ._simplify import simplify
from ._solver import Options, SweepPoint, sweep_graph

Module = TypeVar("Module", bound=torch.nn.Module)
SHAPES = 64
"""So many shapes of one step are captured before Dynamo gives up."""


def train_step(function: Callable[..., Any] | None = None, **options: Any) -> Any:
    """Makes a training step run under a memory budget; loss and `loss.backward()` are inside the function.

    Parameters
    ----------
    function : callable
        Runs the model, calls `backward()` on a loss, and returns what the caller wants, detached. The optimizer's step
        stands outside.
    **options
        See `Options`; above all `budget`.

    Returns
    -------
    TrainStep
        Is called like the function. New shapes, and gradients that are there already, are captured and planned anew.

    Examples
    --------
    >>> model = torch.nn.Linear(8, 4)
    >>> @train_step(budget="60%")
    ... def step(x, y):
    ...     loss = torch.nn.functional.cross_entropy(model(x), y)
    ...     loss.backward()
    ...     return loss.detach()
    """
    if function is None:
        return functools.partial(train_step, **options)
    return TrainStep(function, _options(options))


@dataclass
class _Captured:
    """A captured graph with what its ops take, and the program that runs now."""

    step: Step
    costs: dict[fx.Node, Cost]
    plan: Plan
    program: Program
    reached: int  # the smallest peak of its plans so far


class TrainStep:
    """A function that runs as planned; what `train_step` gives."""

    def __init__(self, function: Callable[..., Any], options: Options) -> None:
        functools.update_wrapper(self, function)
        self.function, self.options = function, options
        self._captured: list[_Captured] = []
        self._start = 0.0
        compiler = aot_autograd(fw_compiler=self._compile, keep_inference_input_mutations=True)

        def backend(module: fx.GraphModule, inputs: list[Any]) -> Any:
            with whole_ops():
                return compiler(module, inputs)

        self._compiled = torch.compile(function, fullgraph=True, dynamic=False, backend=backend)

    @property
    def plans(self) -> list[Plan]:
        """One for each captured graph, in the order of capture."""
        return [captured.plan for captured in self._captured]

    @property
    def plan(self) -> Plan:
        """The plan of the latest captured graph."""
        if not self._captured:
            raise CaptureError("nothing is planned before the first call")
        return self._captured[-1].plan

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        self._start = time.perf_counter()
        with torch._dynamo.config.patch(trace_autograd_ops=True, recompile_limit=SHAPES):
            return self._compiled(*arguments, **options)

    def set_budget(self, budget: int | str) -> None:
        """Plans what is captured, and what will be, for another budget; nothing is captured or measured again."""
        options = replace(self.options, budget=budget)
        planned = []
        for captured in self._captured:
            try:
                planned.append(_planned(captured.step, captured.costs, options, _name(self.function)))
            except Infeasible as refusal:
                raise refusal.knowing(captured.reached) from None
        for captured, (plan, program) in zip(self._captured, planned, strict=True):
            captured.plan, captured.program = plan, program
            captured.reached = min(captured.reached, plan.predicted_peak)
        self.options = options

    def sweep(self, points: int = 12, time_limit: float = 60.0) -> list[SweepPoint]:
        """Finds predicted time against budget for the latest captured graph, smallest budget first."""
        return sweep_graph(self.plan.graph, points, time_limit, self.options)

    def _compile(self, module: fx.GraphModule, _: Any) -> Callable[[list[Any]], list[Any]]:
        seconds = {"capture": time.perf_counter() - self._start}
        step, costs = _read(module, self.options, None, seconds)
        plan, program = _planned(step, costs, self.options, _name(self.function), seconds)
        captured = _Captured(step, costs, plan, program, plan.predicted_peak)
        self._captured.append(captured)
        return _boxed(lambda arguments: captured.program.run(arguments))


def sweep(step: TrainStep, *arguments: Any, points: int = 12, time_limit: float = 60.0) -> list[SweepPoint]:
    """Finds predicted time against budget for a step; `arguments`, if given, are run once to capture it."""
    if arguments:
        step(*arguments)
    return step.sweep(points, time_limit)


def wrap(module: Module, **options: Any) -> Module:
    """Makes a module's forward and backward run under a memory budget; the user calls `backward()`.

    The module itself is changed (as by `Module.compile`), so its parameters and state dictionary stay as they are. Its
    plans are given by `plans`. What the loss takes between forward and backward is the user's and not part of the
    budget.
    """
    backend = Backend(_options(options))
    module.compile(backend=backend, fullgraph=True, dynamic=False)
    _backends[module] = backend
    return module


def plans(module: torch.nn.Module) -> list[Plan]:
    """The plans of a module that was given to `wrap`: one for each captured graph."""
    return _backends[module].plans


def backend(
    module: fx.GraphModule, inputs: list[torch.Tensor], options: dict[str, Any] | None = None, **more: Any
) -> Any:
    """The backend of `torch.compile(model, backend="remora", options={"budget": "60%"})`."""
    return Backend(_options({**(options or {}), **more}))(module, inputs)


class Backend:
    """A backend for `torch.compile` that plans each graph it is given under the budget.

    Attributes
    ----------
    plans : list of Plan
    """

    def __init__(self, options: Options) -> None:
        self.options = options
        self.plans: list[Plan] = []

    def __call__(self, module: fx.GraphModule, inputs: list[Any], **_: Any) -> Any:
        parts = _Parts(self)
        compiler = aot_autograd(
            partition_fn=parts.partition,
            fw_compiler=parts.forward,
            bw_compiler=parts.backward,
            inference_compiler=parts.whole,
        )
        with whole_ops():
            return compiler(module, inputs)


class _Parts:
    """The programs of one graph: forward and backward, or one of both where there is no backward."""

    def __init__(self, owner: Backend) -> None:
        self.owner = owner
        self.programs: dict[str, tuple[Program, int]] = {}

    def partition(
        self, joint: fx.GraphModule, _: Any, *, num_fwd_outputs: int, **__: Any
    ) -> tuple[fx.GraphModule, fx.GraphModule]:
        seconds: dict[str, float] = {}
        results = list(next(iter(joint.graph.find_nodes(op="output"))).args[0])
        tangents = [n for n in joint.graph.find_nodes(op="placeholder") if "tangents" in str(n.target)]
        cut = Cut(tangents, [n for n in results[:num_fwd_outputs] if isinstance(n, fx.Node)])
        step, costs = _read(joint, self.owner.options, cut, seconds)
        plan, runs = solve(step, costs, self.owner.options, "joint")
        place = next(i for i, run in enumerate(runs) if run.op is step.cut_op)
        ahead, behind = runs[:place], runs[place + 1 :]
        saved, states = _saved(step, ahead, behind)
        forward, backward = _extract_fwd_bwd_modules(joint, list(saved), [], num_fwd_outputs=num_fwd_outputs)
        _add_states(step, forward, backward, states, tangents)
        rows = {**{n.name: n for n in joint.graph.nodes}, **{state_of(op): op for op in states}}
        taken = [rows[n.name] for n in backward.graph.find_nodes(op="placeholder")]
        kept = [n for n in taken if n not in tangents]
        primals = [n for n in step.placeholders if n not in tangents]
        first = write_program("forward", step, ahead, primals, [*results[:num_fwd_outputs], *kept])
        second = write_program("backward", step, behind, taken, results[num_fwd_outputs:])
        self.programs = {"forward": (first, len(primals)), "backward": (second, len(taken))}
        plan.source = "\n\n".join(program.source for program, _ in self.programs.values())
        plan.seconds = {**seconds, **plan.seconds}
        self.owner.plans.append(plan)
        _say(self.owner.options, str(plan), end="\n")
        return forward, backward

    def forward(self, module: fx.GraphModule, _: Any) -> Callable[[list[Any]], list[Any]]:
        return self._part("forward", module)

    def backward(self, module: fx.GraphModule, _: Any) -> Callable[[list[Any]], list[Any]]:
        return self._part("backward", module)

    def _part(self, name: str, module: fx.GraphModule) -> Callable[[list[Any]], list[Any]]:
        program, count = self.programs[name]
        if len(module.graph.find_nodes(op="placeholder")) != count:
            raise CaptureError(f"AOTAutograd changed the arguments of the {name} part after it was planned")
        return _boxed(program.run)

    def whole(self, module: fx.GraphModule, _: Any) -> Callable[[list[Any]], list[Any]]:
        """Plans a graph without a backward part."""
        seconds: dict[str, float] = {}
        step, costs = _read(module, self.owner.options, None, seconds)
        plan, program = _planned(step, costs, self.owner.options, "graph", seconds)
        self.owner.plans.append(plan)
        return _boxed(program.run)


def _planned(
    step: Step, costs: dict[fx.Node, Cost], options: Options, name: str, seconds: dict[str, float] | None = None
) -> tuple[Plan, Program]:
    """Plans a graph that runs as one program."""
    plan, runs = solve(step, costs, options, name)
    program = write_program("step", step, runs, step.placeholders, step.outputs, step.updates)
    plan.source = program.source
    plan.seconds = {**(seconds or {}), **plan.seconds}
    _say(options, str(plan), end="\n")
    return plan, program


def _saved(step: Step, ahead: list[Run], behind: list[Run]) -> tuple[list[fx.Node], list[Op]]:
    """What goes from forward to backward: nodes, and random ops whose generator's state is needed."""
    resident: set[int] = set()
    for run in ahead:
        resident.update(run.op.outputs)
        resident.difference_update(run.free)
    nodes = [_root(step, s) for s in sorted(resident)]
    read = {s for run in behind for s in run.op.inputs}
    read.update(s for node in step.results() for s in step.needs.get(node, []))
    nodes += [
        n
        for n in step.placeholders
        if n in step.needs and step.storages[step.needs[n][0]].fixed and step.needs[n][0] in read
    ]
    later = {run.op for run in behind if run.op.random}
    earlier = {run.op: None for run in ahead if run.op in later}
    return nodes, list(earlier)


def _root(step: Step, storage: int) -> fx.Node:
    """The node whose value is a storage as its op leaves it; all others in it are views of that."""
    op = next(op for op in step.ops if storage in op.outputs)
    found = None
    for node in op.nodes:
        for value in [node, *(u for u in node.users if u.target is operator.getitem)]:
            if (
                step.value.get(value) is not None
                and isinstance(step.value[value], torch.Tensor)
                and step.storages_of(value) == [storage]
            ):
                found = value
    if found is None:
        raise CaptureError(f"{op.name}: no single value fills {step.storages[storage].name}")
    return found


def _add_states(
    step: Step, forward: fx.GraphModule, backward: fx.GraphModule, states: list[Op], tangents: list[fx.Node]
) -> None:
    """Makes generator states outputs of the forward and inputs of the backward graph, behind what else is saved."""
    if not states:
        return
    end = forward.graph.find_nodes(op="output")[0]
    place = next(n for n in backward.graph.nodes if n.op != "placeholder" or n.name in {t.name for t in tangents})
    descriptions = list(end.meta.get("desc", []))
    for op in states:
        with step.mode:
            value = torch.empty(generator_of(step, op.nodes[0]).get_state().shape, dtype=torch.uint8, device="cpu")
        with forward.graph.inserting_before(end):
            node = forward.graph.create_node("call_function", generator_of, (), {}, name=state_of(op))
        with backward.graph.inserting_before(place):
            given = backward.graph.create_node("placeholder", state_of(op), (), {}, name=state_of(op))
        node.meta["val"] = given.meta["val"] = value
        end.args = ([*end.args[0], node],)
        descriptions.append(SavedForBackwardsAOTOutput(len(descriptions)))
    if "desc" in end.meta:
        end.meta["desc"] = descriptions
    forward.recompile()
    backward.recompile()


def _read(
    module: fx.GraphModule, options: Options, cut: Cut | None, seconds: dict[str, float]
) -> tuple[Step, dict[fx.Node, Cost]]:
    """A graph as a step, with what its ops take."""
    start = time.perf_counter()
    step = Step(module, cut)
    simplify(step)
    seconds["read"] = time.perf_counter() - start
    start = time.perf_counter()
    costs = measured(step, functools.partial(_say, options)) if options.cost == "measured" else by_flops(step)
    adopt_sizes(step, costs)
    seconds["measure"] = time.perf_counter() - start
    return step, costs


def _boxed(run: Callable[[list[Any]], list[Any]]) -> Callable[[list[Any]], list[Any]]:
    """Marks a program as one that is called with a list it may empty, so that nothing else holds what is in it."""
    run._boxed_call = True  # type: ignore[attr-defined]
    return run


def _options(given: dict[str, Any]) -> Options:
    known = {f.name for f in fields(Options)}
    unknown = sorted(set(given) - known)
    if unknown:
        raise TypeError(f"no option {', '.join(unknown)}; there are {', '.join(sorted(known))}")
    options = Options(**given)
    if options.cost not in ("measured", "flops"):
        raise ValueError(f"cost: {options.cost!r} is neither 'measured' nor 'flops'")
    return options


def _name(function: Callable[..., Any]) -> str:
    return str(getattr(function, "__qualname__", "step"))


def _say(options: Options, text: str, end: str = "") -> None:
    if options.progress:
        print(
            f"\r\x1b[Kremora: {text}" if sys.stderr.isatty() else f"remora: {text}",
            end=end if sys.stderr.isatty() else "\n",
            file=sys.stderr,
            flush=True,
        )


_backends: weakref.WeakKeyDictionary[torch.nn.Module, Backend] = weakref.WeakKeyDictionary()
