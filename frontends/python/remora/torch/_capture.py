# SPDX-License-Identifier: Apache-2.0
"""From a function of PyTorch to graphs, and from planned programs back to something that is called.

Of `train_step`, loss and `loss.backward()` are inside the function. Dynamo traces the autograd ops too, so forward,
loss and backward are one graph, and any schedule of it can run. `_parts` has the other way.
"""

from __future__ import annotations

import contextlib
import functools
import re
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import torch
import torch._dynamo
import torch._functorch.config
from torch import fx
from torch._dynamo.backends.common import aot_autograd

from ._arena import Memory, Places, library, prepare
from ._costs import Cost, adopt_sizes, by_flops, measured
from ._eager import whole_ops
from ._errors import CaptureError, Infeasible
from ._fuse import fuse
from ._graph import Cut, Op, Step
from ._layout import in_channels_last
from ._ledger import Ledger
from ._plan import Plan, solve
from ._program import Program, write_program
from ._simplify import simplify
from ._solver import Options, SweepPoint, sweep_graph

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
    return TrainStep(function, options_of(options))


def compiled_step(
    function: Callable[..., Any],
    compiler: Callable[[fx.GraphModule, Any], Callable[[list[Any]], list[Any]]],
    ledger: Ledger,
) -> Callable[..., Any]:
    """The function, captured with its loss and backward as one graph, which the compiler is given.

    The graph is the latest part of the ledger then.
    """
    whole = aot_autograd(fw_compiler=compiler, keep_inference_input_mutations=True)

    def backend(module: fx.GraphModule, inputs: list[Any]) -> Any:
        names = [name_of_input(node) for node in module.graph.find_nodes(op="placeholder")]
        refuse_hooks(inputs, names)
        ledger.add(inputs, training=True)
        with capturing():
            run = whole(module, inputs)

        def checked(*arguments: Any) -> Any:
            refuse_hooks(arguments, names)
            return run(*arguments)

        return checked

    compiled = torch.compile(function, fullgraph=True, dynamic=False, backend=backend)

    def called(*arguments: Any, **options: Any) -> Any:
        with torch._dynamo.config.patch(trace_autograd_ops=True, recompile_limit=SHAPES):
            return compiled(*arguments, **options)

    return called


@contextlib.contextmanager
def capturing() -> Iterator[None]:
    """While AOTAutograd traces: ops as eager runs them, and the backward outside of autocast, where users call it."""
    patches = {name: value for name, value in _TRACING.items() if hasattr(torch._functorch.config, name)}
    with whole_ops(), torch._functorch.config.patch(patches):
        yield


_TRACING = {
    # `loss.backward()` is called outside of `torch.autocast`, so no cast is inserted there.
    "backward_pass_autocast": "off",
    # What a model's own checkpoints would make again is left to the schedule.
    "remat_using_tags_for_fwd_loss_bwd_graph": False,
}
"""What is set of `torch._functorch.config` while a graph is traced."""


def name_of_input(node: fx.Node) -> str:
    """What the user calls a graph's input: "model.layers.0.weight"."""
    source = getattr(node.meta.get("grapharg"), "source", None) or getattr(node, "_dynamo_source", None)
    name = getattr(source, "name", "")
    text = str(name() if callable(name) else name)
    text = re.sub(r"\._(modules|parameters|buffers)", "", text)
    text = re.sub(r"\['([^']*)'\]", r".\1", text)
    text = re.sub(r"^[LG]\.", "", text)
    return re.sub(r"\b(\w+)\.__closure__\[\d+\]\.cell_contents", r"\1's variable", text) or str(node.name)


def refuse_hooks(arguments: Sequence[Any], names: Sequence[str]) -> None:
    """Refuses a step whose parameters have gradient hooks: a captured step would leave them out.

    Raises
    ------
    CaptureError
        Names the first parameter, the kind of its hook, and what to do.
    """
    for argument, name in zip(arguments, names, strict=False):
        if isinstance(argument, torch.Tensor) and argument.requires_grad:
            kind = hook_of(argument)
            if kind is not None:
                raise CaptureError(
                    f"{name} has a gradient hook ({kind}), which a captured step would leave out. Remove it, do after "
                    "the step what it does, or use remora.torch.wrap, where you call backward() and hooks run as always"
                )


def hook_of(tensor: torch.Tensor) -> str | None:
    """How a gradient hook of a tensor was registered; None if it has none."""
    if tensor._backward_hooks:
        return "register_hook"
    return "register_post_accumulate_grad_hook" if getattr(tensor, "_post_accumulate_grad_hooks", None) else None


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
        self.ledger = Ledger()
        self._captured: list[_Captured] = []
        self._memory = Memory() if options.arena else None
        self._start = 0.0
        self._compiled = compiled_step(function, self._compile, self.ledger)

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
        return self._compiled(*arguments, **options)

    def set_budget(self, budget: int | str) -> None:
        """Plans what is captured, and what will be, for another budget; nothing is captured or measured again."""
        options = replace(self.options, budget=budget)
        found = []
        for captured in self._captured:
            try:
                found.append(planned(captured.step, captured.costs, options, _name(self.function), self._memory))
            except Infeasible as refusal:
                raise refusal.knowing(captured.reached) from None
        for captured, (plan, program) in zip(self._captured, found, strict=True):
            captured.plan, captured.program = plan, program
            captured.reached = min(captured.reached, plan.predicted_peak)
        self.options = options

    def sweep(self, points: int = 12, time_limit: float = 60.0) -> list[SweepPoint]:
        """Finds predicted time against budget for the latest captured graph, smallest budget first."""
        return sweep_graph(self.plan.graph, points, time_limit, self.options)

    def _compile(self, module: fx.GraphModule, _: Any) -> Callable[[list[Any]], list[Any]]:
        seconds = {"capture": time.perf_counter() - self._start}
        step, costs = read_graph(module, self.options, None, seconds)
        plan, program = planned(step, costs, self.options, _name(self.function), self._memory, seconds)
        self.ledger.parts[-1].plan = plan
        captured = _Captured(step, costs, plan, program, plan.predicted_peak)
        self._captured.append(captured)
        return boxed(lambda arguments: captured.program.run_in(self._memory, arguments))


def sweep(step: TrainStep, *arguments: Any, points: int = 12, time_limit: float = 60.0) -> list[SweepPoint]:
    """Finds predicted time against budget for a step; `arguments`, if given, are run once to capture it."""
    if arguments:
        step(*arguments)
    return step.sweep(points, time_limit)


def planned(
    step: Step,
    costs: dict[fx.Node, Cost],
    options: Options,
    name: str,
    memory: Memory | None = None,
    seconds: dict[str, float] | None = None,
    are_theirs: bool = False,
) -> tuple[Plan, Program]:
    """Plans a graph that runs as one program; `are_theirs`: the user keeps its results as long as he likes."""
    seconds = dict(seconds or {})
    if options.fuse:
        module, options = fused(step, costs, options, seconds)
        step, costs = read_graph(module, options, None, seconds, results_of(module) if are_theirs else ())
    plan, runs = solve(step, costs, options, name)
    plan.memory = memory
    place = library().remora_place if memory is not None else None
    program = write_program("step", step, runs, step.placeholders, step.outputs, step.updates, place)
    if memory is not None:
        program.places = Places(step, runs, costs, plan.arena)
    plan.source = program.source
    plan.seconds = {**seconds, **plan.seconds}
    say(options, str(plan), end="\n")
    return plan, program


def fused(
    step: Step, costs: dict[fx.Node, Cost], options: Options, seconds: dict[str, float]
) -> tuple[fx.GraphModule, Options]:
    """The graph with compiled regions, cut at what a schedule of the captured ops keeps; the budget in bytes."""
    start = time.perf_counter()
    try:
        plan, runs = solve(step, costs, options, "captured")
        budget = plan.budget
    except Infeasible as refusal:  # regions may need less: all that one loop computes is not kept
        budget, runs = refusal.budget, []
    count: dict[Op, int] = {}
    for run in runs:
        count[run.op] = count.get(run.op, 0) + 1
    again = {node.name for op, times in count.items() if times > 1 for node in op.nodes}
    seconds["solve captured"] = time.perf_counter() - start
    start = time.perf_counter()
    # Of a module that is cut in two, what is saved between the parts has the order in which it was captured.
    laid_out = in_channels_last(step.module, step.mode) if step.cut is None else step.module
    twice = {n for n in laid_out.graph.nodes if n.name in again}
    module = fuse(Step(laid_out, step.cut, options.pure), twice, functools.partial(say, options))
    seconds["compile"] = time.perf_counter() - start
    return module, replace(options, budget=budget + options.reserve)


def results_of(module: fx.GraphModule) -> list[Any]:
    """What a graph gives: nodes and constants."""
    return list(module.graph.find_nodes(op="output")[0].args[0])


def read_graph(
    module: fx.GraphModule, options: Options, cut: Cut | None, seconds: dict[str, float], theirs: Sequence[Any] = ()
) -> tuple[Step, dict[fx.Node, Cost]]:
    """A graph as a step, with what its ops take; `theirs`: the values that the user allocates, or keeps."""
    start = time.perf_counter()
    step = Step(module, cut, options.pure)
    simplify(step)
    seconds["read"] = seconds.get("read", 0.0) + time.perf_counter() - start
    start = time.perf_counter()
    costs = measured(step, functools.partial(say, options)) if options.cost == "measured" else by_flops(step)
    adopt_sizes(step, costs)
    if options.arena:
        costs = prepare(step, costs, theirs)
    seconds["measure"] = seconds.get("measure", 0.0) + time.perf_counter() - start
    return step, costs


def boxed(run: Callable[[list[Any]], list[Any]]) -> Callable[[list[Any]], list[Any]]:
    """Marks a program as one that is called with a list it may empty, so that nothing else holds what is in it."""
    run._boxed_call = True  # type: ignore[attr-defined]
    return run


def options_of(given: dict[str, Any]) -> Options:
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


def say(options: Options, text: str, end: str = "") -> None:
    if options.progress:
        print(
            f"\r\x1b[Kremora: {text}" if sys.stderr.isatty() else f"remora: {text}",
            end=end if sys.stderr.isatty() else "\n",
            file=sys.stderr,
            flush=True,
        )
