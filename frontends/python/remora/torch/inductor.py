# SPDX-License-Identifier: Apache-2.0
"""Stock `torch.compile(model)` under a memory budget: Inductor's own kernels, with what is saved chosen by Remora.

    import remora.torch.inductor

    remora.torch.inductor.install(budget="8GiB")
    model = torch.compile(model)

See docs/guide/inductor.md. Inductor's caches ask the partitioner for a name (`uuid`), which is that of these sources
and of the settings: whatever was compiled with them is found again, and nothing is partitioned then. Graphs above their
budget are not kept in AOTAutograd's cache, so that each process partitions them, without a search, and warns.
"""

from __future__ import annotations

import contextlib
import functools
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from types import SimpleNamespace, TracebackType
from typing import Any

import torch
from torch import fx
from torch._functorch import config as functorch_config
from torch._guards import CompileContext
from torch._inductor import config
from torch._inductor.custom_graph_pass import CustomPartitionerFn

from remora._engine import bytes_text, engine_schema

from .capture.before import Before, before_this_graph, this_graph
from .capture.lowered import Stopped, going_on
from .cost.kernels import Calls
from .decide.joint_slices import JointSlices
from .decide.later import LaterGraphs
from .decide.partitions import Search, key_of, known_partitions, looked, partition_of, sources, used_share
from .errors import BudgetError, CaptureError, TorchError, warn
from .internals import cached_if, instead
from .job import same_answer
from .ledger import place_of_capture
from .measure import Timed, late
from .options import Options, Sizes
from .planning import PartitionPlan
from .problem.early import CACHEABLE
from .problem.loops import Half
from .problem.partition import Halves, Joint, Later, Partition
from .store import digest

__all__ = ["Installed", "install", "uninstall"]

FAR = 0.5
"""A warning says if a step on a GPU differs from the sum of its kernels' times by more than this part of the sum."""

LATE = 5.0
"""Seconds after which a line says that a graph is being planned."""

SHORT = 1_000_000
"""Nanoseconds: smaller differences are those of launches."""


@dataclass(frozen=True)
class Planned:
    """A partitioned graph: the number of its plan, the place of its code, and the memory between its parts.

    `seconds`: run times of its parts in the user's steps, if measured; the key is whether it is the backward part.
    """

    plan: int
    where: str
    between: int
    device: torch.device
    seconds: dict[bool, float] = field(default_factory=dict)


class Partitioner(CustomPartitionerFn):
    """Partitions each joint graph so that both parts fit within the budget.

    `plans`: of the graphs that were parted in this process, in order.
    """

    def __init__(self, options: Options, strict: bool = True) -> None:
        self.options, self.strict = options, strict
        self.plans: list[PartitionPlan] = []
        self._frames: set[Any] = set()
        self._graphs: dict[int, Planned] = {}  # by AOTAutograd's number of a graph
        self._compiled: Planned | None = None  # the one whose parts Inductor compiles now
        self._warned = False  # true while Inductor compiles a graph about which every process is to be warned
        self._enough: dict[str, int] = {}  # by place: what a warning called enough: bytes, or tenths of a percent
        kept = ("budget", "reserve", "slices", "cost", "time_limit", "threads", "seed")
        self.settings = {name: value for name, value in asdict(options).items() if name in kept} | {"strict": strict}
        self._calls = Calls(options.cost, options.say)
        # by place: the last one within its budget, ranked, and the largest share of a budget that was used
        self._taken: dict[str, tuple[Partition, float]] = {}
        self._stopped: list[Stopped] = []  # the lowerings of the partition that is compiled now
        self._patches = contextlib.ExitStack()
        self._guard: dict[str, Any] = {}  # the settings with which Inductor refuses fusions that raise a peak
        self._reorders = bool(config.reorder_for_peak_memory)  # whether Inductor looks for another order

    def enter(self) -> None:
        """Lets Inductor call it, reject fusions that raise a program's peak, and compile both parts at once."""
        from torch._inductor import compile_fx
        from torch._inductor.graph import GraphLowering

        guards = [f"fusion_memory_timeline_peak_memory_{unit}" for unit in ("increase_gb", "pct_threshold")]
        if all(getattr(config, name, "missing") is None for name in guards):  # PyTorch 2.15 has them
            # A loop that is made again would be fused with a later reader, and what is freed between them lives longer.
            self._guard = {guards[0]: 0.0}
        orders = {}
        if self.options.slices == "auto":  # what holds slices apart has no state, so that caches may keep it
            orders = {"unsafe_marked_cacheable_functions": {**config.unsafe_marked_cacheable_functions, **CACHEABLE}}
        kept = {"reorder_for_peak_memory": self._reorders}
        self._patches.enter_context(config.patch({"custom_partitioner_fn": self, **kept, **self._guard, **orders}))
        self._patches.callback(self._watch_ends, False)
        timed = functools.partial(self._timed, GraphLowering.compile_to_module)
        self._patches.enter_context(instead(GraphLowering, "compile_to_module", lambda graph: timed(graph)))
        lowering = going_on(GraphLowering, lambda: self._stopped)
        self._patches.enter_context(instead(compile_fx, "GraphLowering", lowering))
        self._patches.enter_context(cached_if(lambda: not self._warned))
        # A backward part that is compiled later, out of these settings, would be another one than planned.
        self._patches.enter_context(functorch_config.patch(force_non_lazy_backward_lowering=True))

    def leave(self) -> None:
        """Sets back what `enter` set."""
        self._patches.close()

    def _watch_ends(self, watch: bool) -> None:
        """Makes Dynamo call `_guarded` at the end of a compilation, or not; `torch._dynamo.reset` forgets that."""
        from torch._dynamo.callback import callback_handler

        with contextlib.suppress(ValueError):
            callback_handler.remove_end_callback(self._guarded)
        if watch:
            callback_handler.register_end_callback(self._guarded)

    def _guarded(self, _: object = None) -> None:
        """Lets Inductor reject fusions that raise a peak; no partitioned graph is being compiled any more."""
        self._compiled, self._warned = None, False
        self._stopped = []
        config.reorder_for_peak_memory = self._reorders
        for name, value in self._guard.items():
            setattr(config, name, value)

    def _unguarded(self) -> None:
        """Lets Inductor fuse as it does without us, to the end of the compilation that runs."""
        for name in self._guard:
            setattr(config, name, None)

    def _timed(self, own: Callable[[Any], Any], graph: Any) -> Any:
        """A part's program, whose first calls are timed."""
        program, planned = own(graph), self._compiled
        if planned is None or graph.is_inference or graph.name:  # graphs with a name are those of an autotuner
            return program
        told = functools.partial(self._took, planned, bool(graph.is_backward))
        return SimpleNamespace(call=Timed(program.call, planned.device, told), runner=getattr(program, "runner", None))

    def _took(self, planned: Planned, backward: bool, seconds: float) -> None:
        """Notes what a part took in the user's steps."""
        planned.seconds[backward] = seconds
        if len(planned.seconds) < 2:
            return
        plan = self.plans[planned.plan]
        plan.measured_time = round(1e9 * sum(planned.seconds.values()))
        self.options.say(str(plan), end="\n")
        off = abs(plan.measured_time - plan.predicted_time)
        if planned.device.type == "cuda" and off > max(SHORT, FAR * plan.predicted_time):
            warn(
                f"a compiled graph takes {plan.measured_time / 1e6:.1f} ms, and the sum of its kernels' times is "
                f"{plan.predicted_time / 1e6:.1f} ms: another partition may be faster"
            )

    def __call__(self, gm: fx.GraphModule, joint_inputs: Sequence[object], **named: Any) -> Halves:
        """Both parts of a joint graph; PyTorch's own, with a warning, where they cannot be planned.

        Raises BudgetError: no partition within the budget is known, and that is not to be warned of alone.
        """
        named.setdefault("compiler", "inductor")
        # The guard is off from a partition's choice to the end of its compilation, where the partition is without it.
        # An earlier graph may have been compiled without Dynamo, whose end was not reported.
        self._guarded()
        self._watch_ends(True)
        joint = Joint(gm, joint_inputs, named, self._calls, self._later_graphs())
        before, where = self._before(), place_of_capture("a graph")
        try:
            with late(LATE, lambda: self._say_late(where)):
                joint, chosen, plan, parts, least = self._chosen(joint, before.held)
        except CaptureError as error:
            self._warned = True
            warn(f"a graph cannot be planned, and runs without a budget: {error}")
            self._unguarded()
            return joint.parted(None)
        if self.strict and not plan.promised:
            self._enter_in_earlier(before, plan, least)
            raise self._refusal(plan, least)
        self._tell(plan, least)
        self._enter_in_earlier(before, plan, least)
        self._compiled = Planned(len(self.plans), place_of_capture(""), chosen.between, joint.device)
        self._graphs[this_graph()] = self._compiled
        self.plans.append(plan)
        if not chosen.guarded:
            self._unguarded()
        if chosen.order:  # a part of the key in Inductor's caches
            parts = parts or joint.lowered(chosen.saved, chosen.order)
            config.reorder_for_peak_memory = False
        if parts is None:
            return joint.saving(chosen.saved, chosen.order)
        self._stopped = [half.program.stopped for half in parts]
        return parts[0].module, parts[1].module

    def _say_late(self, where: str) -> None:
        if not self.options.progress:
            replace(self.options, progress=True).say(f"planning what {where} saves for its backward part", end="\n")

    def uuid(self) -> bytes:
        """Equal for two partitioners if and only if they do the same with the graph that is compiled now."""
        return bytes.fromhex(self._name()) + str((self._before().held, self._later_graphs())).encode()

    def __reduce__(self) -> tuple[Any, ...]:
        return bytes, (self.uuid(),)  # Inductor's keys hold its settings, and these hold us

    def _name(self) -> str:
        """Digest of our sources, the engine's answers and the settings."""
        return digest(json.dumps([sources(), engine_schema(), self.settings], sort_keys=True))

    def _before(self) -> Before:
        """Code that ran before the graph that is compiled now, if the budget is one for all."""
        return Before() if self.options.is_share else before_this_graph()

    @functools.cached_property
    def _later(self) -> LaterGraphs:
        return LaterGraphs(self._name(), self.options.cache)

    def _later_graphs(self) -> Later:
        return self._later.of(place_of_capture(""))

    def _enter_in_earlier(self, before: Before, plan: PartitionPlan, least: int) -> None:
        """Reserves, in earlier graphs, the memory of a later one while they wait for their backward parts.

        `least`: the smallest peak that was found for the later one.
        """
        earlier = [self._graphs[number] for number in before.graphs if number in self._graphs]
        for graph in earlier:
            old = self.plans[graph.plan]
            gradients = old.later_gradients + before.gradients
            behind = old.backward_peak + before.gradients
            peak = max(old.predicted_peak, behind)
            new = replace(old, later_gradients=gradients, backward_peak=behind, predicted_peak=peak)
            self.plans[graph.plan] = new
            if old.promised and not new.promised:
                self._ask(graph, 0, gradients, f"{behind:,} bytes with the gradients of later ones")
        if earlier and not plan.promised:
            most = max(earlier, key=lambda graph: self.plans[graph.plan].saved_bytes)
            old = self.plans[most.plan]
            lacking = least - plan.budget
            needed = old.budget - old.held_before - most.between + lacking
            self._ask(most, needed, old.later_gradients, f"{lacking:,} bytes too much while a later one runs")

    def _ask(self, graph: Planned, needed: int, gradients: int, why: str) -> None:
        """Lets a graph leave room when it is planned anew."""
        self._later.learn(graph.where, needed, gradients)
        warn(
            f"budget not met: the graph of {graph.where} takes {why}. After torch._dynamo.reset() it is planned anew, "
            f"and leaves room for that{'; so it is in later processes' if self.options.cache else ''}"
        )

    def _refusal(self, plan: PartitionPlan, least: int) -> BudgetError:
        """The error of a budget within which no partition was found; `least`: the smallest peak that was."""
        sizes = Sizes(plan.fixed_memory, plan.unscheduled_peak, plan.whole, "partition")
        kept = f", with {bytes_text(plan.held_before)} kept by what ran before it" if plan.held_before else ""
        return sizes.refusal(plan.budget, least, self.options, cause=f"{place_of_capture('')}{kept}")

    def _tell(self, plan: PartitionPlan, least: int) -> None:
        """Says what is compiled, and warns of what is above its budget; `least`: the smallest peak that was found."""
        self._frames.add(getattr(CompileContext.current_compile_id(), "frame_id", None))
        if len(self._frames) == 2 and not plan.held_before:
            warn(
                "several graphs are compiled, be it for a graph break or since there are several models. A percentage "
                "is of each of them alone; bytes count what one graph keeps for backward while another runs only where "
                "its results lead to the other one"
            )
        if not plan.promised:
            self._warned = True
            self._warn_of(plan, least)
        self.options.say(str(plan), end="\n")

    def _warn_of(self, plan: PartitionPlan, least: int) -> None:
        """Warns of a plan above its budget, unless a warning has named a budget that is enough for it, too."""
        where, fixed, is_share = place_of_capture(""), plan.fixed_memory, self.options.is_share
        needed = least + self.options.reserve
        if is_share:  # tenths of a percent, rounded up
            needed = -(-1000 * (least - fixed) // (plan.unscheduled_peak - fixed))
        if needed > self._enough.get(where, 0):
            self._enough[where] = needed
            enough = f'"{needed / 10:g}%"' if is_share else str(needed)
            warn(
                f"budget not met, so the graph is compiled as Inductor parts it, with a peak of "
                f"{plan.predicted_peak:,} bytes: {self._refusal(plan, least)}. budget={enough} is enough"
            )

    def _budget_of(self, joint: Joint, stock: Partition) -> int:
        """The budget in bytes; a percentage is of Inductor's own partition."""
        return self.options.in_bytes(Sizes(joint.fixed, stock.peak(Later()), ""))

    def _chosen(self, joint: Joint, held: int) -> tuple[Joint, Partition, PartitionPlan, tuple[Half, Half] | None, int]:
        """The graph, in slices if these were chosen, and its partition, the same on all processes of a job.

        Then the parts of this partition, if this process has lowered them. Last the smallest peak that was found. If
        that is above the budget, the partition is the one with this peak or Inductor's own, as errors or warnings are
        wanted. `held`: bytes kept of what ran before.
        """
        key, later, where = key_of(joint, self.options), joint.later, place_of_capture("")
        search: Search | None = None
        in_slices = JointSlices(joint, self.options, dict.fromkeys(self._guard))

        def found() -> Any:
            nonlocal search
            known, own = known_partitions(key, joint, self.options), dict.fromkeys(self._guard)
            if known.stock is None:
                search = Search(joint, known, self.options, own, self.options.say)
            assert known.stock is not None
            budget = self._budget_of(joint, known.stock) - held
            if known.is_in_doubt(budget):
                search = search or Search(joint, known, self.options, own, self.options.say)
                search.settle(budget)
                budget = self._budget_of(joint, search.stock) - held
            search = looked(joint, known, budget, self.options, own, search, self._taken.get(where))
            least, best, words = known.least().peak(Later()), known.best(budget), ""
            if self.options.slices == "auto" and best != known.stock:
                for sliced in in_slices.look(budget, known):
                    least = min(least, sliced.least.peak(Later()))
                    if sliced.is_faster(best):
                        best, search, words = sliced.best, sliced.search, sliced.words
            chosen = best or (known.least() if self.strict else known.stock)
            name = digest([asdict(chosen), budget, self.settings])
            if search is not None and best is not None and joint.hints and self.options.is_share:
                known.larger[name] = search.larger_sizes(best)
                known.write()
            return [asdict(chosen), asdict(known.stock), budget, least + held, words, known.larger.get(name, [])]

        question = json.dumps([key, held, asdict(later), self.settings], sort_keys=True)
        row, first, budget, least, words, larger = same_answer(f"partition/{digest(question)}", found)
        sizes = dict(zip(joint.hints, larger, strict=True)) if larger else joint.hints
        joint.guard_sizes(sizes)
        chosen, stock = partition_of(row), partition_of(first)
        plan = PartitionPlan(
            chosen.forward_peak + held,
            chosen.backward_peak + held,
            chosen.held,
            held,
            budget=budget + held,
            fixed_memory=joint.fixed,
            unscheduled_peak=stock.peak(Later()) + held,
            whole="Inductor's own partition",
            predicted_peak=chosen.peak(Later()) + held,
            unscheduled_time=stock.nanoseconds,
            predicted_time=chosen.nanoseconds,
            estimated=None in (stock.time, chosen.time),
            slices=in_slices.number(words) if words else 0,
            sizes=joint.sizes_text(sizes),
        )
        if words:
            joint = in_slices.of(words) if search is None else search.joint
        elif plan.promised:
            used = used_share(plan.predicted_peak, plan.budget, joint.fixed + held)
            self._taken[where] = joint.ranked(chosen), max(used, self._taken.get(where, (None, 0.0))[1])
        return joint, chosen, plan, None if search is None else search.parts(chosen), least


class Installed:
    """The result of `install`; as a context manager it ends with `uninstall`."""

    def __init__(self, partitioner: Partitioner) -> None:
        self._partitioner = partitioner

    @property
    def plans(self) -> list[PartitionPlan]:
        """Decisions made in this process, graph by graph; graphs that Inductor's caches hold are not listed."""
        return self._partitioner.plans

    def __enter__(self) -> Installed:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        uninstall()


def install(
    budget: int | str = "100%",
    *,
    reserve: int = 0,
    slices: str = "none",
    cost: str = "measured",
    time_limit: float = 15.0,
    threads: int = 0,
    seed: int = 1,
    cache: bool = True,
    progress: bool = False,
    strict: bool = True,
) -> Installed:
    """Keeps everything that Inductor compiles for training from now on within a memory budget.

    Parameters
    ----------
    budget : int or str
        Bytes ("8GiB", 1500000) with the parameters and inputs of a compiled graph, and with what autograd keeps of
        those that ran before it. Or a share of each graph's memory beyond its arguments as Inductor partitions it by
        itself ("60%").
    slices : {"none", "auto"}
        "auto": parts of a graph, as a loss over a large vocabulary, are computed in slices where that makes its
        partition faster, or possible. Gradients of a loss in slices are computed in the forward part; sums over slices
        are rounded otherwise than Inductor's own.
    reserve, cost, time_limit, threads, seed, cache, progress
        As in `remora.torch.Options`.
    strict : bool
        Whether the compilation of a graph for which no partition within the budget is found raises a `BudgetError`.
        Otherwise that graph is Inductor's own, with a `RemoraWarning`.

    Raises
    ------
    TorchError
        Where a partitioner is installed already.
    """
    chosen = Options.of({name: value for name, value in locals().items() if name != "strict"})
    if config.custom_partitioner_fn is not None:
        raise TorchError("a partitioner is installed already: torch._inductor.config.custom_partitioner_fn")
    partitioner = Partitioner(chosen, strict)
    partitioner.enter()
    return Installed(partitioner)


def uninstall() -> None:
    """Stops planning: code compiled from now on is partitioned by PyTorch alone; code that was compiled stays."""
    partitioner = config.custom_partitioner_fn
    if not isinstance(partitioner, Partitioner):
        raise TorchError("no partitioner of remora is installed")
    partitioner.leave()
