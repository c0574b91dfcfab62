# SPDX-License-Identifier: Apache-2.0
"""Graphs of which the user calls `backward()`: the backend of `torch.compile`, which `wrap` uses, too.

AOTAutograd's joint graph is scheduled as a whole, with one op for what the user does between, and run as two programs:
what is resident at the cut is what autograd saves.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any

import torch
import torch._dynamo
from torch import fx
from torch._dynamo.backends.common import aot_autograd
from torch.utils import _pytree as pytree

from ..capture.declared import Declared
from ..capture.dynamo import boxed, capturing, given_to, results_of
from ..capture.graph import Cut
from ..capture.joint import cut_of, keep_old_values, reached_by
from ..capture.traced import take_checks
from ..carry.arena import Arena, Memory
from ..carry.halves import Half, SizedHalves, halves_of
from ..carry.program import Program
from ..errors import BudgetError, CaptureError, first_line
from ..ledger import Ledger, Part, listener
from ..options import Options
from ..planning import Plans, SchedulePlan
from ..problem.aten import StepProblem
from ..problem.sized import has_symbols
from ..symbols import plain
from .programs import planned, read_graph, scheduled
from .sized import SizedStep


class Backend:
    """A backend for `torch.compile` that plans each graph it is given under the budget.

    A graph without gradients runs as it was captured, without a plan, unless `inference=True`. One that cannot be
    planned does so as well, and a `RemoraWarning` says why. `declared`: sizes that vary; Dynamo finds others when they
    have changed.

    Attributes
    ----------
    ledger
        What was captured; `report` tells it.
    """

    def __init__(
        self, options: Options, breaks: bool = True, ledger: Ledger | None = None, declared: Declared | None = None
    ) -> None:
        if options.cuda_graph:
            raise ValueError("cuda_graph: only the steps of train_step run as CUDA graphs")
        self.options, self.declared = options, declared or Declared(lambda: None)
        self.planned: list[SchedulePlan | SizedStep] = []
        self.ledger = ledger or Ledger()
        self.limit: int | None = None  # a percentage, in bytes
        self._may_break = breaks
        listener.listen()

    @property
    def plans(self) -> Plans:
        """The plans, in the order of capture."""
        plans = (plan for one in self.planned for plan in (one.plans if isinstance(one, SizedStep) else [one]))
        return Plans(plans, (expected for one in self._sized() for expected in one.expected))

    def _sized(self) -> list[SizedStep]:
        return [one for one in self.planned if isinstance(one, SizedStep)]

    def tell_sizes(self) -> None:
        """Says, once, which sizes vary."""
        for one in self._sized():
            one.tell()

    def __call__(self, module: fx.GraphModule, inputs: list[Any], **_: Any) -> Any:
        """Plans a graph of Dynamo, and returns what runs it."""
        return self.capture(module, inputs, True)

    def capture(self, module: fx.GraphModule, inputs: list[Any], at_once: bool) -> Any:
        """The same; `at_once` as in `take_checks`."""
        listener.listen()
        check = take_checks(module, inputs, at_once)
        run = self._planned(module, inputs)
        if check is None:
            return run

        def checked(*arguments: Any) -> Any:
            check(arguments)
            return run(*arguments)

        return checked

    def _planned(self, module: fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
        if not self.options.may_vary or self.ledger.by_size:
            _fix(inputs)
        given = [t for t in inputs if isinstance(t, torch.Tensor)]
        training = torch.is_grad_enabled() and any(t.requires_grad for t in given)
        part = self.ledger.add(inputs, training, given_to(module, inputs))
        part.count_checkpoints(module)
        self.ledger.read_break(module, part.where)
        self.ledger.tell_last(part.where)
        if not given or not (training or self.options.inference):
            part.reason = (
                "runs without a plan" if given else "has no tensor among its arguments, and runs without a plan"
            )
            return module.forward
        try:
            return self._compiled(module, inputs, part)
        except CaptureError as error:
            if not self._may_break:
                raise
            part.reason = f"cannot be planned: {error}"
            self.ledger.tell(f"{part.where} cannot be planned, and runs without a budget: {error}")
            return module.forward

    def _compiled(self, module: fx.GraphModule, inputs: list[Any], part: Part) -> Callable[..., Any]:
        parts = _Parts(self, part, inputs)
        compiler = aot_autograd(
            partition_fn=parts.partition,
            fw_compiler=functools.partial(parts.half, "forward"),
            bw_compiler=functools.partial(parts.half, "backward"),
            inference_compiler=parts.whole,
        )
        try:
            with capturing():
                return parts.called(compiler(module, inputs))
        except CaptureError as error:
            if not self._may_break or not _fix(inputs):
                raise
            self.ledger.by_size = True
            self.ledger.tell(
                f"{part.where} cannot be captured for all sizes at once, but for each by itself: {first_line(error)}"
            )
        return self._compiled(module, inputs, part)

    def in_bytes(self, problem: StepProblem) -> Options:
        """The options with the budget in bytes."""
        before = self.limit
        options, self.limit = self.options.fixed_in_bytes(problem, before)
        fixed = [one for one in self.planned if isinstance(one, SchedulePlan)]
        slower = any(plan.predicted_time > plan.unscheduled_time for plan in fixed)
        if before not in (None, self.limit) and slower:
            self.ledger.tell(
                "the budget is a percentage, and a larger batch has raised it. The plans of smaller batches that came "
                "before keep their smaller budget, and may recompute more than they need: begin with the largest "
                "batch, or give the budget in bytes"
            )
        return options


class _Parts:
    """The programs of one graph: forward and backward, or one of both where there is no backward."""

    def __init__(self, owner: Backend, part: Part, inputs: list[Any]) -> None:
        self.owner, self.part = owner, part
        self.parameters = {i for i, t in enumerate(inputs) if isinstance(t, torch.nn.Parameter)}
        self.memory = Memory() if owner.options.arena else None
        self.halves: dict[str, Half] = {}
        self.reached: list[frozenset[int]] = []  # of each gradient, the outputs through which it comes
        self.ways: set[frozenset[int]] = set()  # the same of whatever the backward part computes
        self.unreached = threading.local()

    def called(self, run: Callable[..., Any]) -> Callable[..., Any]:
        """The captured graph as it is called: autograd then tells the backward part which outputs no loss reaches."""

        def forward(*arguments: Any) -> Any:
            first = torch._C._autograd._get_sequence_nr()
            results = run(*arguments)
            node = _made_since(first, results) if self.reached else None
            if node is not None:
                node.register_prehook(self._note_unreached)
            return results

        return forward

    def _note_unreached(self, gradients: tuple[torch.Tensor | None, ...]) -> None:
        if torch.is_grad_enabled():
            raise CaptureError(
                "a wrapped module has no gradient of its gradient (create_graph=True, a gradient penalty): take both "
                "inside a function for remora.torch.train_step"
            )
        self.unreached.outputs = {i for i, gradient in enumerate(gradients) if gradient is None}

    def _run_backward(self, program: Program, arguments: list[Any]) -> list[Any]:
        """Runs the backward part. AOTAutograd fills what no loss reaches with zeros, which are no gradients."""
        unreached: set[int] = getattr(self.unreached, "outputs", set())
        self.unreached.outputs = set()
        results = program.run(arguments)
        if not unreached:
            return results
        self._tell_zeros(unreached)
        return [
            None if reached and reached <= unreached else result
            for reached, result in zip(self.reached, results, strict=True)
        ]

    def _tell_zeros(self, unreached: set[int]) -> None:
        """Says where zeros of outputs that no loss reaches are computed with, and added to gradients."""
        mixed = any(reached & unreached and not reached <= unreached for reached in self.reached)
        if mixed and any(way and way <= unreached for way in self.ways):
            self.owner.ledger.tell(
                f"{self.part.where}: a loss reaches only some of its outputs. Eager adds nothing for the others; here "
                "zeros pass through their derivatives, which is the same unless one of those is infinite"
            )

    def partition(
        self, joint: fx.GraphModule, _: Any, *, num_fwd_outputs: int, **__: Any
    ) -> tuple[fx.GraphModule, fx.GraphModule]:
        if has_symbols(joint):
            return self._partition_for_sizes(joint, num_fwd_outputs)
        self._tell_numbers()
        seconds: dict[str, float] = {}

        def read(module: fx.GraphModule, options: Options) -> StepProblem:
            cut = cut_of(module, num_fwd_outputs)
            return read_graph(module, options, cut, seconds, "joint", [*cut.tangents, *cut.outputs])

        problem = read(joint, self.owner.options)
        options, plain = self.owner.in_bytes(problem), problem.unscheduled
        if options.in_bytes(problem) < plain and keep_old_values(problem.step, self.parameters):
            problem = read(joint, options)
        try:
            problem, plan, runs = scheduled(problem, options, seconds, read)
        except BudgetError as refusal:
            if options.fuse or options.arena:
                raise
            # Within `plain` bytes nothing is recomputed, so no old values are kept.
            raise refusal.knowing(plain + options.reserve) from None
        arena = Arena(self.memory, problem.costs, plan.arena) if self.memory is not None else None
        ahead, behind = halves_of(problem.step, runs, num_fwd_outputs, arena)
        plan.memory = self.memory
        self.halves = {"forward": ahead, "backward": behind}
        plan.source = f"{ahead.program.source}\n\n{behind.program.source}"
        self.reached, self.ways = reached_by(problem.step, num_fwd_outputs)
        self._keep_plan(plan)
        options.say(str(plan), end="\n")
        return ahead.module, behind.module

    def _keep_plan(self, plan: SchedulePlan) -> None:
        self.part.keep(plan)
        self.owner.planned.append(plan)
        self.owner.ledger.tell_shapes(self.part)

    def _tell_numbers(self) -> None:
        self.owner.ledger.tell_numbers(self.owner.declared.sizes)

    def _sized(
        self, module: fx.GraphModule, write: Callable[..., Any] | None = None, cut: Cut | None = None
    ) -> SizedStep:
        owner, name = self.owner, "graph" if cut is None else "joint"
        return SizedStep(module, owner.options, name, self.part, owner.ledger, owner.declared, write, cut)

    def _keep_sized(self, sized: SizedStep) -> Callable[[list[Any]], Any]:
        """A function that gives the program of a call."""
        self.owner.planned.append(sized)
        self.part.latest = sized.latest_plan

        def in_bytes(_: Options, problem: StepProblem) -> tuple[Options, int | None]:
            return self.owner.in_bytes(problem), self.owner.limit

        return lambda arguments: sized.scheduled(arguments, in_bytes).program

    def _partition_for_sizes(self, joint: fx.GraphModule, count: int) -> tuple[fx.GraphModule, fx.GraphModule]:
        halves: SizedHalves
        sized = self._sized(joint, lambda runs: halves.written(runs), cut_of(joint, count))
        if keep_old_values(sized.step, self.parameters):
            sized = self._sized(joint, lambda runs: halves.written(runs), cut_of(joint, count))
        halves = SizedHalves(sized.step, count)
        ahead, behind = halves.halves(self._keep_sized(sized))
        self.halves = {"forward": ahead, "backward": behind}
        self.reached, self.ways = reached_by(sized.step, count)
        return ahead.module, behind.module

    def half(self, name: str, module: fx.GraphModule, _: Any) -> Callable[[list[Any]], list[Any]]:
        half = self.halves[name]
        if len(module.graph.find_nodes(op="placeholder")) != half.arguments:
            raise CaptureError(f"AOTAutograd changed the arguments of the {name} part after it was planned")
        if name == "backward":
            return boxed(functools.partial(self._run_backward, half.program))
        return boxed(half.program.run)

    def whole(self, module: fx.GraphModule, _: Any) -> Callable[[list[Any]], list[Any]]:
        """Plans a graph without a backward part."""
        if has_symbols(module):
            sized = self._sized(module)
            choose = self._keep_sized(sized)
            return boxed(lambda arguments: choose(arguments).run(arguments))
        self._tell_numbers()
        seconds: dict[str, float] = {}
        problem = read_graph(module, self.owner.options, None, seconds, "graph", results_of(module))
        plan, program = planned(problem, self.owner.in_bytes(problem), self.memory, seconds, are_theirs=True)
        self._keep_plan(plan)
        return boxed(program.run)


def _fix(inputs: list[Any]) -> bool:
    """Makes numbers of sizes that vary among inputs: Dynamo then captures others anew. False if none does."""
    varying = [size for size in inputs if isinstance(plain(size), torch.SymInt)]
    for size in varying:
        int(size)
    return bool(varying)


def _made_since(first: int, results: Any) -> Any:
    """The autograd node of the graph that gave these results; views of them stand before it."""
    pending = [t.grad_fn for t in pytree.tree_leaves(results) if isinstance(t, torch.Tensor) and t.grad_fn is not None]
    seen = set(pending)
    while pending:
        node = pending.pop()
        if node._sequence_nr() < first:
            continue
        if type(node).__name__ == "CompiledFunctionBackward":
            return node
        following = [n for n, _ in node.next_functions if n is not None and n not in seen]
        seen.update(following)
        pending += following
    return None


def backend(
    module: fx.GraphModule, inputs: list[torch.Tensor], options: dict[str, Any] | None = None, **more: Any
) -> Any:
    """The backend of `torch.compile(model, backend="remora", options={"budget": "60%"})`."""
    return _shared(options, **more)(module, inputs)


def _shared(options: dict[str, Any] | None = None, name: str | None = None, **more: Any) -> Backend:
    """The one backend of all graphs of a function: `torch.compile` hands each the same dictionary of options."""
    key = id(options), name, str(sorted(more.items()))
    if key not in _by_options:
        _by_options[key] = options, Backend(Options.of({**(options or {}), **more}))
    return _by_options[key][1]


backend.ledger_of = lambda **given: _shared(**given).ledger  # type: ignore[attr-defined]


_by_options: dict[Any, tuple[dict[str, Any] | None, Backend]] = {}
listener.listen()
