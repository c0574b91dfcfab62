# SPDX-License-Identifier: Apache-2.0
"""Modules whose user calls `loss.backward()`: `wrap`, and the backend of `torch.compile`.

AOTAutograd's joint graph is scheduled as a whole, with one op for what the user does between, and run as two programs:
what is resident at the cut is what autograd saves.
"""

from __future__ import annotations

import functools
import operator
import threading
import weakref
from collections.abc import Callable
from typing import Any, TypeVar

import torch
import torch._dynamo
from torch import fx
from torch._dynamo.backends.common import aot_autograd
from torch._functorch._aot_autograd.descriptors import SavedForBackwardsAOTOutput
from torch._functorch.partitioners import _extract_fwd_bwd_modules
from torch.utils import _pytree as pytree

from ..capture.dynamo import boxed, capturing, results_of, tracing
from ..capture.graph import Cut, Op, Run, StepGraph
from ..carry.arena import Memory, Places, library
from ..carry.program import Program, generator_of, state_of, write_program
from ..decide.fused import planned, planned_fused, read_graph
from ..decide.step import solve
from ..errors import BudgetError, CaptureError, in_plain_words
from ..ledger import Ledger, Part, listener
from ..options import Options
from ..planning import Plan
from ..problem.aten import StepProblem

Module = TypeVar("Module", bound=torch.nn.Module)


def wrap(
    module: Module,
    *,
    budget: int | str = "100%",
    reserve: int = 0,
    cost: str = "measured",
    fuse: bool = False,
    arena: bool = False,
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
    plans are given by `plans`. What the loss takes between forward and backward is the user's and not part of the
    budget. Without gradients (`torch.no_grad`, `torch.inference_mode`, nothing that requires one) the module runs as if
    it were not wrapped, unless `inference=True`.

    A percentage is turned into bytes by the first training graph; smaller batches then have the same bytes, larger ones
    the percentage of their own peak.

    Parameters
    ----------
    module : torch.nn.Module
    budget : int or str
        Bytes ("12GiB", 1500000), permanently resident memory included; or a percentage ("60%") of what forward and
        backward take beyond that if nothing is recomputed.
    reserve, cost, fuse, arena, order, pure, inference, time_limit, threads, seed, cache, progress
        As in `Options`.
    """
    options = Options.of({name: value for name, value in locals().items() if name != "module"})
    if not isinstance(module, torch.nn.Module):
        raise TypeError(
            f"wrap takes a torch.nn.Module, not {type(module).__name__}; remora.torch.train_step takes a function"
        )
    _refuse_sharded(module)
    backend = Backend(options, breaks=False)

    def run(*arguments: Any, **named: Any) -> Any:
        # A frame of its own: of PyTorch's own, such as those of Sequential, Dynamo leaves some out before version 2.15.
        return module._call_impl(*arguments, **named)  # type: ignore[no-untyped-call]

    # FSDP's hooks stay outside of what is captured: there it is the frame of the module's own forward.
    captured = module._call_impl if _is_sharded(module) else run
    compiled = torch.compile(captured, backend=backend, fullgraph=True, dynamic=False)

    def called(*arguments: Any, **named: Any) -> Any:
        if not backend.options.inference and not _wants_gradients(module, arguments, named):
            return run(*arguments, **named)
        with in_plain_words(), tracing():
            results = compiled(*arguments, **named)
        if not backend.ledger.parts:
            backend.ledger.tell(
                f"PyTorch {torch.__version__} did not hand over this {type(module).__name__}: it runs without a plan"
            )
        return results

    module._compiled_call_impl = called  # as Module.compile does
    _backends[module] = backend
    return module


def _is_sharded(module: torch.nn.Module) -> bool:
    if not torch.distributed.is_available():
        return False
    from torch.distributed.fsdp import FSDPModule

    return isinstance(module, FSDPModule)


def _refuse_sharded(module: torch.nn.Module) -> None:
    """Refuses what Dynamo could not capture whole, with what to wrap instead."""
    if not torch.distributed.is_available():
        return
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


def unwrap(module: Module) -> Module:
    """Undoes `wrap`: the module runs as before."""
    _backends.pop(module, None)
    module._compiled_call_impl = None
    return module


def plans(module: torch.nn.Module) -> list[Plan]:
    """The plans of a module that was given to `wrap`: one for each captured graph."""
    if module not in _backends:
        raise CaptureError(f"this {type(module).__name__} was not given to remora.torch.wrap")
    return _backends[module].plans


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
    plans : list of Plan
    ledger
        What was captured; `report` tells it.
    """

    def __init__(self, options: Options, breaks: bool = True) -> None:
        if options.fuse == "program":
            raise ValueError("fuse: 'program' is for train_step; here forward and backward run apart, so use True")
        self.options = options
        self.plans: list[Plan] = []
        self.ledger: Ledger = Ledger()
        self.limit: int | None = None  # a percentage, in bytes
        self._may_break = breaks
        listener.listen()

    def __call__(self, module: fx.GraphModule, inputs: list[Any], **_: Any) -> Any:
        """Plans a graph of Dynamo, and returns what runs it."""
        listener.listen()
        for size in inputs:
            if isinstance(size, torch.SymInt):
                int(size)  # a plan is for shapes that are numbers: Dynamo then captures others anew
        given = [t for t in inputs if isinstance(t, torch.Tensor)]
        training = torch.is_grad_enabled() and any(t.requires_grad for t in given)
        part = self.ledger.add(inputs, training)
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
            fw_compiler=parts.forward,
            bw_compiler=parts.backward,
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
        options, self.limit = self.options.fixed_in_bytes(problem.fixed, problem.unscheduled, self.limit)
        return options


class _Parts:
    """The programs of one graph: forward and backward, or one of both where there is no backward."""

    def __init__(self, owner: Backend, part: Part, inputs: list[Any]) -> None:
        self.owner, self.part = owner, part
        self.parameters = {i for i, t in enumerate(inputs) if isinstance(t, torch.nn.Parameter)}
        self.memory = Memory() if owner.options.arena else None
        self.programs: dict[str, tuple[Program, int]] = {}
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
        results = program.run_in(self.memory, arguments)
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
            _, cut = _cut(module, num_fwd_outputs)
            return read_graph(module, options, cut, seconds, [*cut.tangents, *cut.outputs], "joint")

        problem = read(joint, self.owner.options)
        options, plain = self.owner.in_bytes(problem), problem.unscheduled
        if problem.budget(options) < plain and self._keep_old_values(problem.step):
            problem = read(joint, options)
        try:
            if options.fuse:
                problem, plan, runs = planned_fused(problem, options, seconds, read)
            else:
                plan, runs = solve(problem, options)
        except BudgetError as refusal:
            if options.fuse or options.arena:
                raise
            # Within `plain` bytes nothing is recomputed, so no old values are kept.
            raise refusal.knowing(plain + options.reserve) from None
        step, costs, joint = problem.step, problem.costs, problem.step.module
        results, cut = _cut(joint, num_fwd_outputs)
        tangents = cut.tangents
        plan.memory = self.memory
        middle = next(i for i, run in enumerate(runs) if run.op is step.cut_op)
        ahead, behind = runs[:middle], runs[middle + 1 :]
        saved, states = _saved(step, ahead, behind)
        opaque = _opaque(results[num_fwd_outputs:])
        more: dict[str, Any] = {"saved_opaque_nodes": opaque} if opaque else {}
        forward, backward = _extract_fwd_bwd_modules(joint, list(saved), [], **more, num_fwd_outputs=num_fwd_outputs)
        there = {n.name for n in backward.graph.find_nodes(op="placeholder")}
        missing = [n for n in saved if n.name not in there and _is_read(step, n, runs[middle:])]
        _add_saved(step, forward, backward, missing, states, tangents)
        rows = {**{n.name: n for n in joint.graph.nodes}, **{state_of(op): op for op in states}}
        taken = [rows[n.name] for n in backward.graph.find_nodes(op="placeholder")]
        kept = [n for n in taken if n not in tangents]
        primals = [n for n in step.placeholders if n not in tangents]
        place = library().remora_place if self.memory is not None else None
        first = write_program("forward", step, ahead, primals, [*results[:num_fwd_outputs], *kept], place=place)
        second = write_program("backward", step, behind, taken, results[num_fwd_outputs:], place=place)
        if self.memory is not None:
            first.places = Places(step, ahead, costs, plan.arena)
            second.places = Places(step, behind, costs, plan.arena)
            second.places.after = _in_block(step, ahead, taken)
        self.programs = {"forward": (first, len(primals)), "backward": (second, len(taken))}
        plan.source = "\n\n".join(program.source for program, _ in self.programs.values())
        plan.seconds = {**seconds, **plan.seconds}
        self.reached, self.ways = _reached(step, results, num_fwd_outputs)
        self._keep_plan(plan)
        options.say(str(plan), end="\n")
        return forward, backward

    def _keep_plan(self, plan: Plan) -> None:
        self.part.keep(plan)
        self.owner.plans.append(plan)

    def _keep_old_values(self, step: StepGraph) -> bool:
        """Copies arguments whose values may have changed when the backward part makes something from them again.

        These are buffers that the forward changes, and whatever else the user may refill before he calls `backward()`,
        unless backward reads it anyway, as eager's does. Parameters stay: autograd itself forbids to change them.
        """
        joint, cut = step.module, step.cut
        assert cut is not None
        end = joint.graph.find_nodes(op="output")[0]
        changed = {_number_of(getattr(d, "mutated_input", None)) for d in end.meta.get("desc", [])} - {None}
        read_anyway = {storage for op in step.ops if op.backward for storage in op.inputs}
        behind = _behind(step)
        needed = _read_by(joint, [n for n in cut.outputs if not _is_mutation(end, n)], behind)
        found = False
        for node in joint.graph.find_nodes(op="placeholder"):
            number = _number_of(node.meta.get("desc"))
            if node in cut.tangents or number in self.parameters or not isinstance(node.meta.get("val"), torch.Tensor):
                continue
            ahead = [user for user in node.users if user not in behind and user in needed]
            saved_anyway = not read_anyway.isdisjoint(step.needs[node])
            if not ahead or (saved_anyway and number not in changed):
                continue
            with joint.graph.inserting_before(ahead[0]):
                copied = joint.graph.call_function(torch.ops.aten.clone.default, (node,))
            copied.meta["val"] = node.meta["val"].clone()
            for user in ahead:
                user.replace_input_with(node, copied)
            found = True
        joint.recompile()
        return found

    def forward(self, module: fx.GraphModule, _: Any) -> Callable[[list[Any]], list[Any]]:
        return self._part("forward", module)

    def backward(self, module: fx.GraphModule, _: Any) -> Callable[[list[Any]], list[Any]]:
        return self._part("backward", module)

    def _part(self, name: str, module: fx.GraphModule) -> Callable[[list[Any]], list[Any]]:
        program, count = self.programs[name]
        if len(module.graph.find_nodes(op="placeholder")) != count:
            raise CaptureError(f"AOTAutograd changed the arguments of the {name} part after it was planned")
        if name == "backward":
            return boxed(functools.partial(self._run_backward, program))
        return boxed(functools.partial(program.run_in, self.memory))

    def whole(self, module: fx.GraphModule, _: Any) -> Callable[[list[Any]], list[Any]]:
        """Plans a graph without a backward part."""
        seconds: dict[str, float] = {}
        problem = read_graph(module, self.owner.options, None, seconds, results_of(module), "graph")
        plan, program = planned(problem, self.owner.in_bytes(problem), self.memory, seconds, are_theirs=True)
        self._keep_plan(plan)
        return boxed(functools.partial(program.run_in, self.memory))


def _cut(joint: fx.GraphModule, forward_outputs: int) -> tuple[list[Any], Cut]:
    """What a joint graph gives, and where it is cut."""
    results = results_of(joint)
    tangents = [n for n in joint.graph.find_nodes(op="placeholder") if "tangents" in str(n.target)]
    return results, Cut(tangents, [n for n in results[:forward_outputs] if isinstance(n, fx.Node)])


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


def _opaque(results: list[Any]) -> list[fx.Node]:
    """Arguments that are no tensors and that the backward part gives, as the device mesh of a sharded gradient."""
    given = dict.fromkeys(r for r in results if isinstance(r, fx.Node) and r.op == "placeholder")
    return [n for n in given if not isinstance(n.meta.get("val"), torch.Tensor)]


def _number_of(description: Any) -> int | None:
    """The place among the graph's inputs that AOTAutograd describes; part of a subclass has that of the whole."""
    while hasattr(description, "base"):
        description = description.base
    return getattr(description, "idx", None)


def _behind(step: StepGraph) -> set[fx.Node]:
    """The nodes of the backward part."""
    nodes = [n for n in step.module.graph.nodes if n.op == "call_function"]
    first = next((i for i, n in enumerate(nodes) if step.is_behind_cut(n)), len(nodes))
    return set(nodes[first:])


def _is_mutation(end: fx.Node, node: fx.Node) -> bool:
    """Whether a forward output is nothing but an argument's new value."""
    places = [d for n, d in zip(end.args[0], end.meta.get("desc", []), strict=False) if n is node]  # type: ignore[arg-type]
    return bool(places) and all(hasattr(d, "mutated_input") for d in places)


def _read_by(joint: fx.GraphModule, outputs: list[fx.Node], behind: set[fx.Node]) -> set[fx.Node]:
    """The forward nodes from which one of these outputs, or a value of the backward part, is made."""
    needed = {*outputs, *behind}
    for node in reversed(list(joint.graph.nodes)):
        if node in needed:
            needed.update(node.all_input_nodes)
    return needed


def _reached(
    step: StepGraph, results: list[Any], forward_outputs: int
) -> tuple[list[frozenset[int]], set[frozenset[int]]]:
    """The forward outputs, by number, whose tangents each gradient is made from; the same of all that is computed."""
    assert step.cut is not None
    descriptions = step.module.graph.find_nodes(op="output")[0].meta.get("desc", [])
    places = {str(description): i for i, description in enumerate(descriptions[:forward_outputs])}
    found: dict[fx.Node, frozenset[int]] = {}
    for node in step.module.graph.nodes:
        if node in step.cut.tangents:
            place = places.get(str(getattr(node.meta.get("desc"), "output", None)))
            found[node] = frozenset() if place is None else frozenset([place])
        else:
            found[node] = frozenset().union(*(found[n] for n in node.all_input_nodes))
    ways = {outputs for node, outputs in found.items() if node in step.owner}
    return [found[r] if isinstance(r, fx.Node) else frozenset() for r in results[forward_outputs:]], ways


def _saved(step: StepGraph, ahead: list[Run], behind: list[Run]) -> tuple[list[fx.Node], list[Op]]:
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


def _is_read(step: StepGraph, node: fx.Node, runs: list[Run]) -> bool:
    """Whether the backward part reads a saved value: what its ops read, if the cut does not release it."""
    first, *behind = runs
    kept = set(step.storages_of(node)).difference(first.free)
    return any(not kept.isdisjoint(run.op.inputs) for run in behind)


def _in_block(step: StepGraph, ahead: list[Run], taken: list[Any]) -> int | None:
    """The number of an argument of the backward part that the forward part left in the arena."""
    left = {s for run in ahead for s in run.offsets if step.storages[s].size > 0}
    return next(
        (i for i, n in enumerate(taken) if isinstance(n, fx.Node) and not left.isdisjoint(step.storages_of(n))), None
    )


def _root(step: StepGraph, storage: int) -> fx.Node:
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


def _add_saved(
    step: StepGraph,
    forward: fx.GraphModule,
    backward: fx.GraphModule,
    missing: list[fx.Node],
    states: list[Op],
    tangents: list[fx.Node],
) -> None:
    """Makes more outputs of the forward and inputs of the backward graph, behind what else is saved.

    Generator states; and values that the schedule makes others from again, though these are saved as well: the graph
    as it stands reads those only.
    """
    if not states and not missing:
        return
    end = forward.graph.find_nodes(op="output")[0]
    place = next(n for n in backward.graph.nodes if n.op != "placeholder" or n.name in {t.name for t in tangents})
    descriptions = list(end.meta.get("desc", []))
    made = {n.name: n for n in forward.graph.nodes}

    def add(node: fx.Node, name: str) -> None:
        with backward.graph.inserting_before(place):
            given = backward.graph.create_node("placeholder", name, (), {}, name=name)
        given.meta["val"] = node.meta["val"]
        end.args = ([*end.args[0], node],)
        descriptions.append(SavedForBackwardsAOTOutput(len(descriptions)))

    for node in missing:
        add(made[node.name], node.name)
    for op in states:
        with forward.graph.inserting_before(end):
            node = forward.graph.create_node("call_function", generator_of, (), {}, name=state_of(op))
        with step.mode:
            node.meta["val"] = torch.empty(
                generator_of(step, op.nodes[0]).get_state().shape, dtype=torch.uint8, device="cpu"
            )
        add(node, state_of(op))
    if "desc" in end.meta:
        end.meta["desc"] = descriptions
    forward.recompile()
    backward.recompile()


_backends: weakref.WeakKeyDictionary[torch.nn.Module, Backend] = weakref.WeakKeyDictionary()
_by_options: dict[Any, tuple[dict[str, Any] | None, Backend]] = {}
listener.listen()
