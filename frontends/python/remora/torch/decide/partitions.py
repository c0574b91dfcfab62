# SPDX-License-Identifier: Apache-2.0
"""Chooses the fastest partition of a joint graph within a budget.

The engine chooses what is saved on the graph of Inductor's loops (problem/loops.py). Each choice is then lowered and
replayed (problem/partition.py), without its kernels: their times are estimates, until those of the partition that is
taken are compiled and measured. If a replay needs more than predicted, or leaves room, the engine is asked again for
less or more. All partitions of a graph that were ever replayed are kept in a file, and the shortest of the measured
ones that fits within the budget is taken: so a smaller budget never has a shorter partition than a larger one that was
asked for later.

Where many blocks of a graph are like one another, all of this is done with few of them (problem/blocks.py), and one
partition of the whole graph is lowered. Then the figures of Inductor's own partition are computed from those of its
partition with few blocks, unless they are close to the budget.
"""

from __future__ import annotations

import functools
import json
import math
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch
from torch import fx

import remora
from remora._engine import engine_schema
from remora.asking import TRIES, ask, ask_again, lowest

from ..capture.dynamo import results_of
from ..capture.launches import Kernel, Launch, look_of
from ..cost.kernels import key_of as kernel_of
from ..errors import CaptureError
from ..measure import device_name, kernel_modes
from ..options import Options, Sizes
from ..problem.blocks import FEW, MIDDLE, Blocks, few_blocks
from ..problem.loops import Half, origins_of
from ..problem.partition import Joint, Later, Partition, launches_of, vals
from ..problem.sketch import Sketch
from ..store import cache_folder, digest, write_json
from .base import Base
from .known import Known

CLOSE = 0.02
"""A peak that leaves no larger share of the budget is not improved."""
SHARES = tuple(twentieth / 20 for twentieth in range(20))
"""Values of PyTorch's own memory budget, whose partitions are candidates in addition to ours."""
DOUBT = 0.1
"""So far above the budget an estimate of a peak may be for the partition to be lowered."""
SOLVERS = ("dp", "greedy", "ilp")
"""Solvers with which PyTorch chooses the saved values, in addition to the one that is set."""
SLACK = 0.05
"""A choice for other sizes is taken if the share of the budget that it uses is smaller by no more than this."""
NEEDED = 2
"""So many choices of the engine are lowered after the time limit, too, if no partition fits yet."""
SAFE = 0.05
"""So large a share of the budget is left out of a choice, if there is no time for a second one."""
MARGIN = 0.03
"""If Inductor's own partition fits within a budget, another is taken only if it is shorter by more than this share.

A search ends with a partition that takes no more time than Inductor's own by more than this.
"""
ALIKE = 0.1
"""All blocks but two save the same, if so much less of a budget at most is used."""
FUSED = 0.3
"""The share of its time that a loop takes when it is recomputed, fused with its reader."""
COMPILE = 0.8
"""Seconds in which a kernel is compiled, roughly."""
EFFORT, PATIENCE = 0.3, 3.0
"""A search takes no more than this share of the compilation's own time, and so many seconds."""


class KnownPartitions(Known[Partition]):
    """The partitions of a joint graph; `stock` is Inductor's own, `later` what later graphs ask for.

    If `stock` is none of the rows, it was not lowered, and its figures are computed.
    """

    def __init__(self, path: Path | None, later: Later) -> None:
        super().__init__(path)
        self.later = later
        self.rows = [partition_of(row) for row in self.document.get("rows", [])]
        # budgets, what later graphs asked for, and the time limits of the searches in seconds
        self.asked: list[list[float]] = self.document.get("asked", [])
        self.stock = partition_of(self.document["stock"]) if self.document else None
        self.slices: list[str] = self.document.get("slices", [])  # schedules in which the graph was looked at
        # for partitions within budgets, the numbers of the symbolic sizes for which they are within these, too
        self.larger: dict[str, list[int]] = self.document.get("larger", {})

    def figures(self, row: Partition) -> tuple[int, float]:
        """Bytes and nanoseconds of a partition."""
        return row.peak(self.later), math.inf if row.time is None else row.time

    def learn(self, found: Partition) -> None:
        """Keeps a partition."""
        self.rows = [*(row for row in self.rows if _choice(row) != _choice(found)), found]
        if self.stock is not None and _choice(self.stock) == _choice(found):
            self.stock = found

    @property
    def is_computed(self) -> bool:
        """True if Inductor's own partition was not lowered."""
        return self.stock is not None and all(_choice(row) != _choice(self.stock) for row in self.rows)

    def is_in_doubt(self, budget: int) -> bool:
        """True if the peak of Inductor's own partition is computed, and may be within a budget."""
        return self.stock is not None and self.is_computed and self.stock.peak(self.later) <= (1 + CLOSE) * budget

    def best(self, budget: int) -> Partition | None:
        """The fastest within a budget, of those whose time is known; Inductor's own if others gain too little."""
        return self._or_stock(self.fastest(budget), budget)

    def likely(self, budget: int) -> Partition | None:
        """Like `best`, of those as well whose time is an estimate."""
        rows = [row for row in self.rows if row.peak(self.later) <= budget]
        return self._or_stock(min(rows, key=lambda row: (row.nanoseconds, row.peak(self.later)), default=None), budget)

    def _or_stock(self, found: Partition | None, budget: int) -> Partition | None:
        own = self.stock
        if found is None or own is None or own.peak(self.later) > budget or (own.time is None and found.time):
            return found
        return own if own.nanoseconds <= (1 + MARGIN) * found.nanoseconds else found

    def least(self) -> Partition:
        """The one with the smallest peak."""
        found = self.smallest()
        assert found is not None, "Inductor's own partition is known"
        return found

    def has_looked(self, question: list[int], time_limit: float) -> bool:
        """True if a search for as long as this, or longer, has answered the question."""
        return any(row[:-1] == question and row[-1] >= time_limit for row in self.asked)

    def write(self) -> None:
        """Writes what is known, so that it is not looked for again."""
        if self.path is not None:
            assert self.stock is not None
            rows = [asdict(row) for row in self.rows]
            stored = {"asked": self.asked, "stock": asdict(self.stock), "rows": rows, "slices": self.slices}
            write_json(self.path, {**stored, "larger": self.larger})


def _choice(row: Partition) -> tuple[tuple[str, ...], tuple[str, ...], bool]:
    """Identifies a partition."""
    return row.saved, row.order, row.guarded


def used_share(peak: int, budget: int, fixed: int) -> float:
    """The share of a budget beyond a graph's arguments that a peak within it uses."""
    return (peak - fixed) / (budget - fixed) if budget > fixed else 1.0


@functools.cache
def sources() -> str:
    """A name for these sources."""
    paths = sorted(Path(__file__).parent.parent.rglob("*.py"))
    return digest(b"".join(path.read_bytes() for path in paths))


def partition_of(row: dict[str, Any]) -> Partition:
    """A partition as it was written."""
    return Partition(**{**row, "saved": tuple(row["saved"]), "order": tuple(row["order"])})


def key_of(joint: Joint, options: Options) -> str:
    """Equal for two joint graphs if and only if their partitions are the same, whatever the number of a device."""
    from torch._functorch import config as functorch_config
    from torch._inductor import config

    module = joint.module
    looks = [repr(look_of(value)) for value in vals(module.graph.find_nodes(op="placeholder"))]
    tags = [(node.name, str(node.meta["recompute"])) for node in module.graph.nodes if "recompute" in node.meta]
    both = [sorted(each.save_config_portable().items()) for each in (config, functorch_config)]
    settings = [(name, repr(value)) for row in both for name, value in row if name != "custom_partitioner_fn"]
    modes = [torch.__version__, torch.get_num_threads(), torch.are_deterministic_algorithms_enabled()]
    given = [joint.shown, module.code, looks, tags]
    text = json.dumps([sources(), engine_schema(), modes, options.cost, given, settings])
    return digest(re.sub(r"cuda:\d+", "cuda", text))


def file_of(key: str, device: torch.device) -> str:
    """The name of the file of a graph's partitions, which were measured on this device with these settings."""
    return f"{digest(json.dumps([key, device_name(device), kernel_modes(device.type)]))}.json"


class Search:
    """Looks for partitions of a joint graph that fit within a budget.

    `known`: what was found before; learns what is found. `own`: the settings that let Inductor fuse as it does
    without us; those for guarded partitions are set. Empty where there is no difference. `say`: told what is being
    done. `orders`: whether the order of the backward part is chosen, too; otherwise it is PyTorch's.
    """

    def __init__(
        self,
        joint: Joint,
        known: KnownPartitions,
        options: Options,
        own: Mapping[str, Any],
        say: Callable[[str], None],
        orders: bool = True,
    ) -> None:
        self.joint, self.known, self.options, self._own, self._say = joint, known, options, own, say
        self._orders = orders
        self._start = time.monotonic()
        self._end = self._soon = self._start + options.time_limit
        self._takes = 0.0  # seconds that the last lowering took
        self._kept: dict[Any, tuple[Half, Half]] = {}  # the parts that were lowered last, and the best ones
        self._launches: dict[Any, list[Launch]] = {}  # of all partitions that were lowered
        self._budget = 0  # that is looked for
        self._choices: dict[Any, list[tuple[int, tuple[str, ...]]]] = {}  # PyTorch's, by solver
        self._stands_for: dict[Any, Partition] = {}  # partitions with few blocks, by those of the whole graph
        if known.stock is None:
            known.stock = self._stock.partition if self._few is None else self._computed_stock(*self._few)

    @property
    def stock(self) -> Partition:
        """Inductor's own partition, lowered or computed."""
        assert self.known.stock is not None
        return self.known.stock

    def settle(self, budget: int) -> None:
        """Lowers Inductor's own partition if its peak is computed, and about within a budget."""
        if self.known.is_in_doubt(budget):
            _ = self._stock

    def look(self, budget: int, like: tuple[Partition, float] | None = None) -> None:
        """Looks for the shortest partition within a budget, in bytes with the graph's arguments.

        No lowering starts that would end after the time limit, unless no partition fits yet: then the one that saves
        fewest bytes, up to `NEEDED` choices of the engine, the smallest one that it finds, and those of PyTorch's own
        memory budget are lowered. `like`: the ranked partition for other sizes, which is looked at first, and the
        share of a budget that was used there.
        """
        self._find(budget, like)
        self._measure(budget)
        if self.known.is_computed:
            self._compute_time()

    def _find(self, budget: int, like: tuple[Partition, float] | None = None) -> Partition | None:
        """The partition that is likely the fastest within a budget; no kernels are measured."""
        self._budget = budget
        self.settle(budget)
        if "_stock" in vars(self):
            self._hurry()
        if (like is None or not self._is_as_good(*like, budget)) and not self._is_found_with_few(budget):
            self._look_at_all(budget)
        return self.known.likely(budget)

    def larger_sizes(self, partition: Partition) -> list[int]:
        """Larger numbers of the symbolic sizes for which a partition is within the budget, too; [] if none is known.

        Its programs are replayed for them, for those halfway, and with each symbol's hint in place of its larger one.
        The budget is a percentage of Inductor's own partition there: one in bytes has other graphs in it, whose peaks
        for larger sizes are not known.
        """
        joint = self.joint

        def is_within(sizes: Mapping[str, int]) -> bool:
            try:
                fixed, peak = joint.peak_at(self.parts(partition), sizes)
                whole = joint.peak_at(self._stock.halves, sizes)[1]
            except CaptureError:
                return False
            self._say(f"at {', '.join(map(str, sizes.values()))} it takes {peak:,}")
            return peak <= self.options.in_bytes(Sizes(fixed, whole, ""))

        for sizes in joint.larger_sizes():
            others = [{name: (size + joint.hints[name]) // 2 for name, size in sizes.items()}]
            others += [{**sizes, name: joint.hints[name]} for name in sizes if len(sizes) > 1]
            if all(map(is_within, (sizes, *others))):
                return list(sizes.values())
        return []

    def parts(self, partition: Partition) -> tuple[Half, Half]:
        """The parts of a partition; those that are not the best or the last ones are lowered again."""
        own: Base | None = vars(self).get("_stock")
        if own is not None and _choice(own.partition) == _choice(partition):
            return own.halves
        return self._lowered(*_choice(partition))

    def _hurry(self) -> None:
        """Ends the search for a faster partition before it takes long compared with the compilation itself."""
        kernels = {kernel_of(one) for one in launches_of(self._stock.halves) if isinstance(one.target, Kernel)}
        own = self._takes + COMPILE * len(kernels)
        self._soon = min(self._end, self._start + self._takes + EFFORT * own + PATIENCE)

    def _is_as_good(self, like: Partition, used: float, budget: int) -> bool:
        """True if a choice for other sizes fits within this budget, and uses it about as well as theirs."""
        found = self.joint.named_like(like)
        if found is None:
            return False
        peak = self._peak(self._partition(found.saved, found.order, found.guarded))
        self._say(f"budget {budget:,}: the partition for other sizes takes {peak:,}")
        return peak <= budget and used_share(peak, budget, self.joint.fixed) >= (1 - SLACK) * used

    @functools.cached_property
    def _few(self) -> tuple[Blocks, Search] | None:
        """The graph with few of its like blocks, and its search; None where it has not many, or its sizes vary."""
        joint = self.joint
        blocks = None if joint.hints else few_blocks(joint.module, joint.shown)
        if blocks is None:
            return None
        known = KnownPartitions(None, joint.later)
        few = joint.with_graph(blocks.module)
        return blocks, Search(few, known, self.options, self._own, self._say, orders=False)

    def _computed_stock(self, blocks: Blocks, few: Search) -> Partition:
        """Inductor's own partition without lowering it: each block left out saves what one that was kept does.

        The backward part releases that, block by block, and makes gradients in its place.
        """
        own, halves, calls = few.stock, few._stock.halves, self.joint.calls
        saved = blocks.whole_of(own.saved, MIDDLE)
        more = self._sketch.bytes_of(saved) - few._sketch.bytes_of(own.saved)
        results = [node.name for node in results_of(self.joint.module)[self.joint.shown :] if isinstance(node, fx.Node)]
        kept, gradients = (list(map(self._sketch.bytes_of, blocks.left_out(names))) for names in (saved, results))

        def grown(peak: int, half: Half, is_behind: bool, before: list[int], after: list[int]) -> int:
            rows = blocks.grown(origins_of(half), is_behind, before, after)
            most = max(
                (calls.held(launch) + row for launch, row in zip(half.trace.launches, rows, strict=True)), default=0
            )
            return peak - calls.peak(half.trace) + most

        return replace(
            own,
            saved=saved,
            forward_peak=grown(own.forward_peak, halves[0], False, [0] * len(kept), kept),
            backward_peak=grown(own.backward_peak, halves[1], True, kept, gradients),
            between=own.between + more,
            held=own.held + more,
            time=None,
            estimate=round(own.nanoseconds / blocks.share),
        )

    def _is_found_with_few(self, budget: int) -> bool:
        """True if a partition of the graph with few blocks gives one of the whole graph within a budget.

        What a partition saves is to be the same share of what Inductor's own one does, in both graphs.
        """
        if self._few is None:
            return False
        (blocks, few), later = self._few, self.joint.later

        def asked_for(small: Partition, whole: Partition) -> int:
            """The budget of the graph with few blocks, by the peaks of a partition of both graphs."""
            rest = small.peak(later) - small.held
            return rest + (small.peak(later) - rest) * (budget - rest) // max(1, whole.peak(later) - rest)

        if self._is_light_whole(blocks, few, budget):
            return True
        asked = asked_for(few.stock, self.stock)
        for _ in range(NEEDED):
            small = few._find(asked)
            if small is None:
                return False
            found = self._whole(blocks, few, small, budget)
            needed, peak = self._peak(small), self._peak(found)
            self._say(f"budget {budget:,}: a partition of few blocks, which takes {needed:,}, takes {peak:,}")
            if peak <= budget:
                return True
            asked = min(asked_for(small, found), needed - 1)
        return False

    def _is_light_whole(self, blocks: Blocks, few: Search, budget: int) -> bool:
        """True if the partition that saves fewest bytes without recomputing products is fast and within a budget."""
        saved = few._light_saved
        more = self._sketch.bytes_of(blocks.whole_of(saved, None)) - few._sketch.bytes_of(saved)
        if few._estimate(saved) + more > (1 + DOUBT) * budget:
            return False
        small = few._partition(saved, ())
        if few._peak(small) + more > budget or small.nanoseconds > (1 + MARGIN) * few.stock.nanoseconds:
            return False
        return self._peak(self._whole(blocks, few, small, budget)) <= budget

    def _whole(self, blocks: Blocks, few: Search, small: Partition, budget: int) -> Partition:
        """The partition of the whole graph for one of the graph with few blocks.

        Nearly all blocks save what one of these saves, if that uses the budget about as well as all of these in turn:
        then there are fewer kinds of blocks to compile.
        """
        if _choice(small) == _choice(few.stock):
            return self._stock.partition
        off, fixed = few._peak(small) - few._sketch.bytes_of(small.saved), self.joint.fixed
        rows = [blocks.whole_of(small.saved, main) for main in (*range(FEW), None)]
        *alike, (in_turn, saved) = [(off + self._sketch.bytes_of(row), row) for row in rows]
        most, other = max([row for row in alike if row[0] <= budget], default=(0, saved))
        if used_share(most, budget, fixed) >= (1 - ALIKE) * used_share(min(in_turn, budget), budget, fixed):
            saved = other
        found = self._partition(saved, (), small.guarded)
        self._stands_for[_choice(found)] = small
        return found

    def _compute_time(self) -> None:
        """Computes the time of Inductor's own partition: other times differ from it as they do with few blocks."""
        taken = self.known.likely(self._budget)
        small = None if taken is None else self._stands_for.get(_choice(taken))
        if taken is None or small is None or self._few is None:
            return
        blocks, few = self._few
        own, other = (few.joint.timed(row, few._launches[_choice(row)]) for row in (few.stock, small))
        more = (other.nanoseconds - own.nanoseconds) / blocks.share
        self.known.stock = replace(self.stock, estimate=round(taken.nanoseconds - more))

    def _look_at_all(self, budget: int) -> None:
        stock = self.stock
        is_light_known = self._look_at_light(budget)
        best = self.known.likely(budget)
        if best is not None and best.nanoseconds <= (1 + MARGIN) * stock.nanoseconds:
            return
        if budget < self._peak(stock):
            if best is None and is_light_known:
                self._look(self._light, budget)
            if self.known.likely(budget) is None or not self._is_late:
                self._look(self._stock, budget)
                self._look_for_smallest(self._stock, budget)
            if self.known.likely(budget) is None:
                if not (is_light_known or self._is_late):
                    self._look(self._light, budget)
                self._look_for_smallest(self._light, budget)
        self._look_at_pytorchs(budget)
        best = self.known.likely(budget)
        if best is not None and best.guarded and not self._is_late:
            free = self._partition(best.saved, best.order, guarded=False)
            self._say(f"budget {budget:,}: with all fusions the shortest takes {self._peak(free):,}")

    def _look_at_light(self, budget: int) -> bool:
        """Lowers the partition that saves fewest bytes without recomputing products; False if it is far above a budget.

        That takes one lowering, and recomputed loops are fused: it often takes no more time than Inductor's own.
        """
        estimate = self._estimate(self._light_saved)
        if estimate > (1 + DOUBT) * budget or (self.known.likely(budget) is not None and self._is_late):
            return False
        found = self._peak(self._partition(self._light_saved, ()))
        self._say(f"budget {budget:,}: without recomputed products, estimated at {estimate:,}, {found:,}")
        return True

    def _measure(self, budget: int) -> None:
        """Compiles and measures the kernels of the partition that is taken; of Inductor's own, too, if that fits."""
        stock, taken = self.stock, self.known.likely(budget)
        for row in (taken, stock):
            if row is not None and self._peak(row) <= budget and row.time is None:
                key = _choice(row)
                self._launches[key] = self._launches.get(key) or launches_of(self._lowered(*key))
                self.joint.calls.measure(self._launches[key])
        for row in self.known.rows:
            if row.time is None and _choice(row) in self._launches:
                self.known.learn(self.joint.timed(row, self._launches[_choice(row)]))

    @property
    def _is_late(self) -> bool:
        """True if the lowering of another partition would end after the time limit.

        Once a partition fits, the search ends sooner.
        """
        end = self._end if self.known.likely(self._budget) is None else self._soon
        return time.monotonic() + self._takes > end

    def _peak(self, partition: Partition) -> int:
        return partition.peak(self.joint.later)

    @functools.cached_property
    def _stock(self) -> Base:
        self._say("lowering Inductor's own partition")
        base = self._base(self._saved, False, FUSED)
        self.known.stock = base.partition
        return base

    @functools.cached_property
    def _saved(self) -> tuple[str, ...]:
        return self.joint.stock()

    @functools.cached_property
    def _light_saved(self) -> tuple[str, ...]:
        return self.joint.light()

    @functools.cached_property
    def _light(self) -> Base:
        self._say("lowering the partition that saves fewest bytes without recomputing products")
        return self._base(self._light_saved, True, 1.0)

    def _base(self, saved: tuple[str, ...], guarded: bool, fused: float) -> Base:
        partition = self._partition(saved, (), guarded)
        halves = self._lowered(saved, (), guarded)
        return Base(self.joint, halves, partition, fused)

    def _look_at_pytorchs(self, budget: int) -> None:
        """Looks at the partitions of PyTorch's own memory budget: recomputing may be faster than saving.

        All of them are estimated on the joint graph. Until a partition fits, the time limit does not end this for
        `NEEDED` of the solver that is set, those with the smallest estimates.
        """
        import torch._functorch.config as functorch

        own = functorch.activation_memory_budget_solver
        if self.known.likely(budget) is None:
            for peak, saved in self._estimated(own)[:NEEDED]:
                self._point(saved, peak, budget)
        for guarded in (False, True):
            for solver in dict.fromkeys((own, *SOLVERS)):
                if self._is_late or (guarded and self.known.likely(budget) is not None):
                    return
                for peak, saved in reversed(self._estimated(solver)):
                    if self._is_late:
                        return
                    if peak <= (1 + DOUBT) * budget or self.known.likely(budget) is None:
                        self._point(saved, peak, budget, guarded)

    def _estimated(self, solver: Any) -> list[tuple[int, tuple[str, ...]]]:
        """Estimated peaks and saved values of PyTorch's choices with one solver, each set once, the smallest first."""
        import torch._functorch.config as functorch

        if solver not in self._choices:
            shares = sorted({*SHARES, functorch.activation_memory_budget})
            try:
                found = self.joint.stock_for(shares, solver)
            except RuntimeError as error:
                if "scipy" not in str(error):
                    raise
                self._say("PyTorch's solver ilp is not there, as scipy is not")
                found = {}
            chosen = {frozenset(saved): saved for saved in (*found.values(), self._saved)}
            rows = [(self._estimate(saved), saved) for saved in chosen.values()]
            self._choices[solver] = sorted(rows, key=lambda row: (row[0], self._sketch.bytes_of(row[1])))
        return self._choices[solver]

    def _estimate(self, saved: tuple[str, ...], order: tuple[str, ...] = ()) -> int:
        """The peak of a partition that is not lowered."""
        return self.joint.fixed + self._sketch.peak(self._made, saved, order)

    @functools.cached_property
    def _sketch(self) -> Sketch:
        """The joint graph for estimates."""
        return Sketch(self.joint.module, self.joint.shown)

    @functools.cached_property
    def _made(self) -> set[str]:
        """The nodes that become buffers, by name: those that do in Inductor's own partition."""
        return {name for half in self._stock.halves for name in half.program.nodes.values()}

    def _point(self, saved: tuple[str, ...], estimate: int, budget: int, guarded: bool = False) -> None:
        """Lowers one of PyTorch's choices."""
        found = self._peak(self._partition(saved, (), guarded))
        self._say(f"budget {budget:,}: a partition of PyTorch's, estimated at {estimate:,}, takes {found:,}")

    def _named(self, base: Base, schedule: remora.Schedule) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The values that a schedule of a base saves, and the order of its backward part."""
        saved, order = base.chosen(schedule)
        return saved, order if self._orders else ()

    def _look(self, base: Base, budget: int) -> None:
        """Asks the engine for schedules of a base, and lowers what they save."""
        low, high, tries = self.joint.fixed, 0, 0
        left_out = round(SAFE * (budget - self.joint.fixed))

        def decide(asked: int) -> tuple[int, int] | None:
            """The peak of a schedule, and that of the partition that it names."""
            nonlocal tries
            enough = tries >= NEEDED or self.known.likely(budget) is not None
            tries += 1
            if asked >= base.graph.baseline_peak or (self._is_late and enough):
                return None
            schedule = self._schedule(base, asked, budget)
            if schedule is None:
                return None
            peak = self._peak(self._partition(*self._named(base, schedule)))
            self._say(f"budget {budget:,}: a schedule of {schedule.peak:,} bytes takes {peak:,}")
            return schedule.peak, peak

        def following(asked: int, found: tuple[int, int]) -> int | None:
            nonlocal low, high
            predicted, peak = found
            if peak > budget:
                high = predicted
                excess = peak - budget + (left_out if self._is_late else 0)
                asked = max((low + high) // 2, predicted - excess)
            elif predicted <= (1 + CLOSE) * peak:
                return None
            else:
                low = predicted
                asked = (asked + high) // 2 if high else asked + (predicted - peak)
            return None if high and high - low <= CLOSE * (budget - self.joint.fixed) else asked

        is_last = time.monotonic() + 2 * self._takes > self._end
        ask_again(budget - left_out if is_last else budget, decide, following)

    def _look_for_smallest(self, base: Base, budget: int) -> None:
        """Lowers the choice behind the smallest schedule of a base, if no partition fits yet."""
        if self.known.likely(budget) is not None:
            return
        options = self.options
        least = lowest(base.graph, options.limits_in(options.time_limit / TRIES), max_computes=2)
        if least is not None:
            self._say(f"the smallest schedule that is known takes {least.peak:,} bytes")
            self._partition(*self._named(base, least))

    def _schedule(self, base: Base, asked: int, budget: int) -> remora.Schedule | None:
        """The engine's, in which each op runs twice at most, as in a partition; None where it finds none.

        Less is asked for where the estimate of what a schedule saves is far above the budget.
        """
        limits = self.options.limits_in(self.options.time_limit / TRIES)
        off = self._peak(base.partition) - self._estimate(base.partition.saved)
        last: remora.Schedule | None = None

        def decide(least: int) -> remora.Schedule | None:
            nonlocal last
            found = ask(base.graph, least, limits, max_computes=2)
            if not isinstance(found, remora.Schedule):
                return None
            last = found
            return found

        def less(_: int, found: remora.Schedule) -> int | None:
            estimate = off + self._estimate(*self._named(base, found))
            return found.peak - (estimate - budget) if estimate > (1 + DOUBT) * budget else None

        ask_again(asked, decide, less)
        return last

    def _partition(self, saved: tuple[str, ...], order: tuple[str, ...], guarded: bool = True) -> Partition:
        """Cost of a partition, lowered if it was not before."""
        guarded = guarded and bool(self._own)
        key = saved, order, guarded
        found = next((row for row in self.known.rows if _choice(row) == key), None)
        if found is None:
            halves = self._lowered(*key)
            found = self.joint.evaluated(halves, *key)
            self._launches[key] = launches_of(halves)
            self.known.learn(found)
            best = self.known.smallest(), self.known.likely(self._budget)
            kept = (key, *(_choice(row) for row in best if row is not None))
            self._kept = {key: self._kept[key] for key in kept if key in self._kept}
        return found

    def _lowered(self, saved: tuple[str, ...], order: tuple[str, ...], guarded: bool) -> tuple[Half, Half]:
        """Both parts of a partition."""
        from torch._inductor import config

        key = saved, order, guarded and bool(self._own)
        if key not in self._kept:
            start = time.monotonic()
            with config.patch({} if key[2] else dict(self._own)):
                self._kept[key] = self.joint.lowered(saved, order)
            self._takes = time.monotonic() - start
        return self._kept[key]


def known_partitions(key: str, joint: Joint, options: Options) -> KnownPartitions:
    """The partitions of a joint graph in its file, none without `cache`; `key`: its `key_of`."""
    path = cache_folder() / "partitions" / file_of(key, joint.device)
    return KnownPartitions(path if options.cache else None, joint.later)


def looked(
    joint: Joint,
    known: KnownPartitions,
    budget: int,
    options: Options,
    own: Mapping[str, Any],
    begun: Search | None = None,
    like: tuple[Partition, float] | None = None,
) -> Search | None:
    """Looks for partitions within a budget, unless a search did so before; the search, with `begun` if there is one."""
    asked, limit = [budget, joint.later.needed, joint.later.gradients], options.time_limit
    if known.has_looked(asked, limit):
        return begun
    search = begun or Search(joint, known, options, own, options.say)
    search.look(budget, like)
    known.asked.append([*asked, limit])
    known.write()
    return search
