# SPDX-License-Identifier: Apache-2.0
"""From a function of PyTorch to graphs, and from planned programs back to something that is called.

Of `train_step`, loss and `loss.backward()` are inside the function. Dynamo traces the autograd ops too, so forward,
loss and backward are one graph, and any schedule of it can run. `_parts` has the other way.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import re
import sys
import time
import warnings
import weakref
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import torch
import torch._dynamo
import torch._functorch.config
from torch import fx
from torch._dynamo.backends.common import aot_autograd

import remora

from ._arena import Memory, Places, library, prepare
from ._costs import Cost, adopt_sizes, by_flops, measured
from ._eager import whole_ops
from ._errors import BudgetError, CaptureError, RemoraWarning, in_plain_words
from ._fuse import fuse
from ._graph import Cut, Op, StepGraph
from ._kernels import as_kernels
from ._layout import in_channels_last
from ._ledger import Ledger
from ._plan import Plan, budget_of, solve
from ._program import Program, Run, write_program
from ._simplify import simplify
from ._solver import FIRST, Options, check_budget, sweep_graph

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
        ledger.add(inputs, training=True).count_checkpoints(module)
        with capturing():
            run = whole(module, inputs)

        def checked(*arguments: Any) -> Any:
            refuse_hooks(arguments, names)
            return run(*arguments)

        return checked

    compiled = torch.compile(function, fullgraph=True, dynamic=False, backend=backend)

    def called(*arguments: Any, **options: Any) -> Any:
        refuse_anomaly_mode()
        with in_plain_words(), tracing(trace_autograd_ops=True):
            return compiled(*arguments, **options)

    return called


def tracing(**patches: Any) -> Any:
    """What is set of Dynamo while it may capture: up to `SHAPES` shapes; no log lines; what is printed comes behind."""
    config = torch._dynamo.config
    ignored = {getattr(logging.Logger, name) for name in _LOGGING if hasattr(logging.Logger, name)}
    wanted = {
        "recompile_limit": max(SHAPES, config.recompile_limit),
        "optimize_ddp": False,  # else DistributedDataParallel's buckets cut the graph, and each part has a budget
        "reorderable_logging_functions": {*config.reorderable_logging_functions, print, warnings.warn},
        "ignore_logging_functions": {*getattr(config, "ignore_logging_functions", ()), *ignored},
    }
    return config.patch({name: value for name, value in {**wanted, **patches}.items() if hasattr(config, name)})


_LOGGING = ("debug", "info", "warning", "warn", "error", "exception", "critical", "log", "warning_once", "info_once")
"""Methods of `logging.Logger`, some of which transformers adds."""


def scale_of(scaler: torch.amp.GradScaler) -> torch.Tensor:
    """A gradient scaler's scale, by which the loss is multiplied inside a step: `(loss * scale).backward()`.

    Give it to the step as an argument. It is a tensor that the scaler's `update` changes, so nothing is planned again.
    """
    device = torch.device(getattr(scaler, "_device", "cuda"))
    if not scaler.is_enabled():
        return torch.ones((), device=device)
    if scaler._scale is None:
        scaler._lazy_init_scale_growth_tracker(device)
    assert scaler._scale is not None
    return scaler._scale


def padded(tensor: torch.Tensor, lengths: Sequence[int], dim: int = -1, value: float = 0) -> torch.Tensor:
    """A tensor, padded at the end of a dimension to the shortest of a few lengths, so that a few plans serve all.

    Parameters
    ----------
    lengths : sequence of int
        Each of them is captured and planned once.
    dim : int
        What is padded.
    value : float
        What fills it, as the number that the loss ignores, or 0 in a mask.

    Raises
    ------
    ValueError
        If the tensor is longer than the longest.
    """
    length = tensor.shape[dim]
    longest = max(lengths)
    if length > longest:
        raise ValueError(f"padded: {length} is longer than the longest, {longest}")
    shape = list(tensor.shape)
    shape[dim] = min(n for n in lengths if n >= length) - length
    return torch.cat([tensor, tensor.new_full(shape, value)], dim)


def refuse_anomaly_mode() -> None:
    """Refuses `torch.autograd.detect_anomaly` around a captured step, where no autograd runs that could look.

    Raises
    ------
    CaptureError
    """
    if torch.is_anomaly_enabled():
        raise CaptureError(
            "anomaly mode is on, and a captured step has no autograd nodes that it could check; call the step's own "
            "function instead (`.function`), or use remora.torch.wrap"
        )


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

    step: StepGraph
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
        self._limit: int | None = None  # a percentage, in bytes
        self._captured: list[_Captured] = []
        self._memory = Memory() if options.arena else None
        self._start = 0.0
        # Dynamo's cache outlives the step, and must not keep its model.
        weak = weakref.WeakMethod(self._compile)
        self._compiled = compiled_step(function, lambda module, inputs: alive(weak)(module, inputs), self.ledger)

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
        check_budget(budget, "budget")
        options = replace(self.options, budget=budget)
        limit: int | None = None
        found = []
        for captured in self._captured:
            try:
                given, limit = fixed_in_bytes(captured.step, captured.costs, options, limit)
                found.append(planned(captured.step, captured.costs, given, _name(self.function), self._memory))
            except BudgetError as refusal:
                raise refusal.knowing(captured.reached) from None
        for captured, (plan, program) in zip(self._captured, found, strict=True):
            captured.plan, captured.program = plan, program
            captured.reached = min(captured.reached, plan.predicted_peak)
        self.options, self._limit = options, limit

    def sweep(self, points: int = 12, time_limit: float = 60.0) -> remora.Curve:
        """Finds predicted time against budget for the latest captured graph, in so many seconds."""
        return sweep_graph(self.plan.found.graph, points, time_limit, self.options)

    def _compile(self, module: fx.GraphModule, _: Any) -> Callable[[list[Any]], list[Any]]:
        seconds = {"capture": time.perf_counter() - self._start}
        step, costs = read_graph(module, self.options, None, seconds)
        options, self._limit = fixed_in_bytes(step, costs, self.options, self._limit)
        plan, program = planned(step, costs, options, _name(self.function), self._memory, seconds)
        self.ledger.parts[-1].keep(plan)
        captured = _Captured(step, costs, plan, program, plan.predicted_peak)
        self._captured.append(captured)
        weak, memory = weakref.ref(captured), self._memory
        return boxed(lambda arguments: alive(weak).program.run_in(memory, arguments))


def alive(weak: Any) -> Any:
    """What a weak reference refers to, which is there as long as it is called."""
    found = weak()
    assert found is not None, "a step is called after it is gone"
    return found


def fixed_in_bytes(
    step: StepGraph, costs: dict[fx.Node, Cost], options: Options, limit: int | None
) -> tuple[Options, int | None]:
    """The options with a percentage turned into bytes, and the most bytes that it has been so far.

    A percentage is of this graph, or of an earlier one if that was larger: a smaller last batch has the bytes of the
    others.
    """
    if isinstance(options.budget, int) or "%" not in options.budget:
        return options, limit
    limit = max(budget_of(step, costs, options), limit or 0)
    return replace(options, budget=limit, reserve=0), limit


def planned(
    step: StepGraph,
    costs: dict[fx.Node, Cost],
    options: Options,
    name: str,
    memory: Memory | None = None,
    seconds: dict[str, float] | None = None,
    are_theirs: bool = False,
) -> tuple[Plan, Program]:
    """Plans a graph that runs as one program; `are_theirs`: the user keeps its results as long as he likes."""
    seconds = dict(seconds or {})

    def read(module: fx.GraphModule, given: Options) -> tuple[StepGraph, dict[fx.Node, Cost]]:
        return read_graph(module, given, None, seconds, results_of(module) if are_theirs else ())

    if options.fuse:
        step, costs, plan, runs = planned_fused(step, costs, options, name, seconds, read)
    else:
        plan, runs = solve(step, costs, options, name, 1.0)
    plan.memory = memory
    place = library().remora_place if memory is not None else None
    program = write_program("step", step, runs, step.placeholders, step.outputs, step.updates, place)
    if memory is not None:
        program.places = Places(step, runs, costs, plan.arena)
    plan.source = program.source
    plan.seconds = {**seconds, **plan.seconds}
    say(options, str(plan), end="\n")
    return plan, program


def planned_fused(
    step: StepGraph,
    costs: dict[fx.Node, Cost],
    options: Options,
    name: str,
    seconds: dict[str, float],
    read: Callable[[fx.GraphModule, Options], tuple[StepGraph, dict[fx.Node, Cost]]],
) -> tuple[StepGraph, dict[fx.Node, Cost], Plan, list[Run]]:
    """The graph of compiled parts, its costs, and its plan; `read`: how the graph of parts is read again.

    Regions that are cut where a schedule makes ops again may need more than those that are not cut, and a refusal may
    have named what these need: they are tried before a budget is refused.
    """
    refused: BudgetError | None = None
    for share in (1 - FIRST, (1 - FIRST) / 2):
        if options.fuse == "program":
            module, given = programmed(step, costs, options, seconds)
        else:
            module, given = fused(step, costs, options, seconds, is_cut=refused is None)
        parts, times = read(module, given)
        try:
            return parts, times, *solve(parts, times, given, name, share)
        except BudgetError as refusal:
            refused = refusal if refused is None or refusal.least < refused.least else refused
        if not module.meta.get("is_cut"):
            break
        options = replace(options, fuse=True)  # regions, if a program of kernels was refused
    assert refused is not None
    raise refused


def fused(
    step: StepGraph, costs: dict[fx.Node, Cost], options: Options, seconds: dict[str, float], is_cut: bool = True
) -> tuple[fx.GraphModule, Options]:
    """The graph with compiled regions, cut at what a schedule of the captured ops keeps; the budget in bytes."""
    start = time.perf_counter()
    try:
        plan, runs = solve(step, costs, options, "captured", FIRST) if is_cut else (None, [])
        budget = plan.budget if plan is not None else budget_of(step, costs, options)
    except BudgetError as refusal:  # regions may need less: all that one loop computes is not kept
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
    module = fuse(StepGraph(laid_out, step.cut, options.pure), twice, functools.partial(say, options))
    module.meta["is_cut"] = bool(twice)
    seconds["compile"] = time.perf_counter() - start
    return module, replace(options, budget=budget + options.reserve)


def programmed(
    step: StepGraph, costs: dict[fx.Node, Cost], options: Options, seconds: dict[str, float]
) -> tuple[fx.GraphModule, Options]:
    """The graph of the kernels that Inductor makes of the step; the budget in bytes. Where that is refused, regions."""
    start = time.perf_counter()
    laid_out = in_channels_last(step.module, step.mode)
    try:
        module = as_kernels(StepGraph(laid_out, None, options.pure), functools.partial(say, options))
    except CaptureError as refusal:
        warnings.warn(f'fuse="program": {refusal}; compiled regions run instead', RemoraWarning, stacklevel=2)
        return fused(step, costs, replace(options, fuse=True), seconds)
    seconds["compile"] = time.perf_counter() - start
    return module, replace(options, budget=budget_of(step, costs, options) + options.reserve)


def results_of(module: fx.GraphModule) -> list[Any]:
    """What a graph gives: nodes and constants."""
    return list(module.graph.find_nodes(op="output")[0].args[0])


def read_graph(
    module: fx.GraphModule, options: Options, cut: Cut | None, seconds: dict[str, float], theirs: Sequence[Any] = ()
) -> tuple[StepGraph, dict[fx.Node, Cost]]:
    """A graph as a step, with what its ops take; `theirs`: the values that the user allocates, or keeps."""
    start = time.perf_counter()
    step = StepGraph(module, cut, options.pure)
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
    for name, allowed in {"cost": ("measured", "flops"), "order": ("input", "free", "auto")}.items():
        if getattr(options, name) not in allowed:
            raise ValueError(f"{name}: {getattr(options, name)!r} is none of {', '.join(map(repr, allowed))}")
    if options.fuse not in (False, True, "program"):
        raise ValueError(f"fuse: {options.fuse!r} is none of False, True, 'program'")
    for name in ("arena", "inference", "cache", "progress"):
        if not isinstance(getattr(options, name), bool):
            raise TypeError(f"{name}: {getattr(options, name)!r} is neither True nor False")
    for name in ("reserve", "threads", "seed"):
        value = getattr(options, name)
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise TypeError(f"{name}: {value!r} is not a whole number of at least 0")
    limit = options.time_limit
    if isinstance(limit, bool) or not isinstance(limit, (int, float)) or not limit > 0:
        raise TypeError(f"time_limit: {limit!r} is not a positive number of seconds")
    if isinstance(options.pure, str) or not all(isinstance(name, str) for name in options.pure):
        raise TypeError(f"pure: {options.pure!r} is not a sequence of names such as 'library::op'")
    check_budget(options.budget, "budget")
    if options.plan and options.fuse:
        raise ValueError("plan: its schedule is of single ops, which fuse=True compiles together")
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
