# SPDX-License-Identifier: Apache-2.0
"""Modules whose user calls `loss.backward()`: `wrap`, and the backend of `torch.compile`.

AOTAutograd's joint graph is scheduled as a whole, with one op for what the user does between, and run as two programs:
what is resident at the cut is what autograd saves.
"""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Callable
from typing import Any, TypeVar

import torch
import torch._dynamo
from torch import fx
from torch._dynamo.backends.common import aot_autograd
from torch.utils import _pytree as pytree

from ..capture.dynamo import boxed, capturing, given_to, results_of
from ..capture.joint import cut_of, keep_old_values, reached_by
from ..capture.traced import Traced, take_checks
from ..carry.arena import Arena, Memory
from ..carry.halves import Half, halves_of
from ..carry.program import Program
from ..errors import BudgetError, CaptureError, in_plain_words
from ..ledger import Ledger, Part, listener, place_of_module
from ..options import Options
from ..planning import SchedulePlan
from ..problem.aten import StepProblem
from .programs import planned, read_graph, scheduled

Module = TypeVar("Module", bound=torch.nn.Module)


def wrap(
    module: Module,
    *,
    budget: int | str = "100%",
    reserve: int = 0,
    cost: str = "measured",
    fuse: bool = False,
    arena: bool = False,
    slices: str = "none",
    order: str = "input",
    pure: tuple[str, ...] = (),
    inference: bool = False,
    time_limit: float = 15.0,
    threads: int = 0,
    seed: int = 1,
    cache: bool = True,
    progress: bool = False,
) -> Module:
    """Makes a module's forward and backward run under a memory budget; the user calls `backward()`.

    The module itself is changed (as by `Module.compile`), so its parameters and state dictionary stay as they are. Its
    plans are given by `plans`. Memory of the loss between forward and backward is the user's and not part of the
    budget. Without gradients (`torch.no_grad`, `torch.inference_mode`, nothing that requires one) the module runs as if
    it were not wrapped, unless `inference=True`.

    A percentage is turned into bytes by the largest batch so far. Plans of smaller batches that came before it keep
    their budget, and a warning says so.

    Parameters
    ----------
    module : torch.nn.Module
    budget : int or str
        Bytes ("12GiB", 1500000), permanently resident memory included; or a percentage ("60%") of the memory that
        forward and backward use beyond that if nothing is recomputed.
    reserve, cost, fuse, arena, slices, order, pure, inference, time_limit, threads, seed, cache, progress
        As in `Options`.
    """
    options = Options.of({name: value for name, value in locals().items() if name != "module"})
    if not isinstance(module, torch.nn.Module):
        raise TypeError(
            f"wrap takes a torch.nn.Module, not {type(module).__name__}; remora.torch.train_step takes a function"
        )
    is_sharded = _is_sharded(module)
    backend = Backend(options, breaks=False, where=place_of_module(module))

    def run(*arguments: Any, **named: Any) -> Any:
        # A frame of its own: of PyTorch's own, such as those of Sequential, Dynamo leaves some out before version 2.15.
        return module._call_impl(*arguments, **named)  # type: ignore[no-untyped-call]

    # FSDP's hooks stay outside of what is captured: there it is the frame of the module's own forward.
    captured = module._call_impl if is_sharded else run
    compiled = Traced(torch.compile(captured, backend=backend, fullgraph=True, dynamic=False))

    def called(*arguments: Any, **named: Any) -> Any:
        if not backend.options.inference and not _wants_gradients(module, arguments, named):
            return run(*arguments, **named)
        backend.ledger.begun = time.perf_counter()
        with in_plain_words():
            results = compiled(*arguments, **named)
        if not backend.ledger.parts:
            backend.ledger.tell(
                f"PyTorch {torch.__version__} did not hand over this {type(module).__name__}: it runs without a plan"
            )
        return results

    called.backend = backend  # type: ignore[attr-defined]
    module._compiled_call_impl = called  # as Module.compile does
    return module


def _is_sharded(module: torch.nn.Module) -> bool:
    """True if FSDP2 shards the module itself; CaptureError for one that Dynamo cannot capture as one graph."""
    if not torch.distributed.is_available():
        return False
    from torch.distributed.fsdp import FSDPModule, FullyShardedDataParallel

    if isinstance(module, torch.nn.parallel.DistributedDataParallel):
        raise CaptureError(
            "wrap cannot capture DistributedDataParallel: use DistributedDataParallel(remora.torch.wrap(model))"
        )
    inner = [name for name, child in module.named_modules() if name and isinstance(child, FSDPModule)]
    if inner:
        raise CaptureError(
            f"wrap cannot capture a model whose parts are sharded ({inner[0]} and {len(inner) - 1} more by "
            "fully_shard): give each of them to remora.torch.wrap"
        )
    if any(isinstance(child, FullyShardedDataParallel) for child in module.modules()):
        raise CaptureError("wrap cannot capture FullyShardedDataParallel: use fully_shard, and wrap each block")
    return isinstance(module, FSDPModule)


def unwrap(module: Module) -> Module:
    """Undoes `wrap`: the module runs as before."""
    module._compiled_call_impl = None
    return module


def plans(module: torch.nn.Module) -> list[SchedulePlan]:
    """The plans of a module that was given to `wrap`: one for each captured graph."""
    given = getattr(module._compiled_call_impl, "backend", None)
    if not isinstance(given, Backend):
        raise CaptureError(f"this {type(module).__name__} was not given to remora.torch.wrap")
    return given.plans


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


def _wants_gradients(module: torch.nn.Module, arguments: Any, named: Any) -> bool:
    if not torch.is_grad_enabled():
        return False
    if any(p.requires_grad for p in module.parameters()):
        return True
    given = pytree.tree_leaves((arguments, named))
    return any(isinstance(leaf, torch.Tensor) and leaf.requires_grad for leaf in given)


class Backend:
    """A backend for `torch.compile` that plans each graph it is given under the budget.

    A graph without gradients runs as it was captured, without a plan, unless `inference=True`. One that cannot be
    planned does so as well, and a `RemoraWarning` says why.

    Attributes
    ----------
    plans : list of SchedulePlan
    ledger
        What was captured; `report` tells it.
    """

    def __init__(self, options: Options, breaks: bool = True, where: str = "") -> None:
        if options.cuda_graph:
            raise ValueError("cuda_graph: only the steps of train_step run as CUDA graphs")
        self.options = options
        self.plans: list[SchedulePlan] = []
        self.ledger: Ledger = Ledger(where)
        self.limit: int | None = None  # a percentage, in bytes
        self._may_break = breaks
        listener.listen()

    def __call__(self, module: fx.GraphModule, inputs: list[Any], **_: Any) -> Any:
        """Plans a graph of Dynamo, and returns what runs it."""
        listener.listen()
        check = take_checks(module, inputs)
        run = self._planned(module, inputs)
        if check is None:
            return run

        def checked(*arguments: Any) -> Any:
            check(arguments)
            return run(*arguments)

        return checked

    def _planned(self, module: fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
        for size in inputs:
            if isinstance(size, torch.SymInt):
                int(size)  # a plan is for shapes that are numbers: Dynamo then captures others anew
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
            if not self._may_break:
                raise
            part.reason = f"cannot be planned: {error}"
            self.ledger.tell(f"{part.where} cannot be planned, and runs without a budget: {error}")
            return module.forward

    def in_bytes(self, problem: StepProblem) -> Options:
        """The options with the budget in bytes."""
        before = self.limit
        options, self.limit = self.options.fixed_in_bytes(problem, before)
        slower = any(plan.predicted_time > plan.unscheduled_time for plan in self.plans)
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
        self.owner.plans.append(plan)
        self.owner.ledger.tell_shapes(self.part)

    def half(self, name: str, module: fx.GraphModule, _: Any) -> Callable[[list[Any]], list[Any]]:
        half = self.halves[name]
        if len(module.graph.find_nodes(op="placeholder")) != half.arguments:
            raise CaptureError(f"AOTAutograd changed the arguments of the {name} part after it was planned")
        if name == "backward":
            return boxed(functools.partial(self._run_backward, half.program))
        return boxed(half.program.run)

    def whole(self, module: fx.GraphModule, _: Any) -> Callable[[list[Any]], list[Any]]:
        """Plans a graph without a backward part."""
        seconds: dict[str, float] = {}
        problem = read_graph(module, self.owner.options, None, seconds, "graph", results_of(module))
        plan, program = planned(problem, self.owner.in_bytes(problem), self.memory, seconds, are_theirs=True)
        self._keep_plan(plan)
        return boxed(program.run)


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


_by_options: dict[Any, tuple[dict[str, Any] | None, Backend]] = {}
listener.listen()
