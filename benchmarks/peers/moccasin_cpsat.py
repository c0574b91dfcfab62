#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The published method of Moccasin (Bartan et al. 2023) on CP-SAT, a peer to measure the engine against.

Written from the paper alone: the staged formulation (section 2.3) with optional retention intervals for every compute
after an op's first, memory as a cumulative (eq. 4), supply as reservoirs (eq. 5, 10), and two phases (section 2.4).
An event is a point of the time that the intervals live in; stage j holds the events of the ops 0..j:

    stage 0   stage 1   stage 2     ...     event(j, k) = j (j + 1) / 2 + k: op k computed in stage j,
    0         0 1       0 1 2               its first compute at event(k, k)

An interval [start, end) of a tensor holds the events at which it is resident; it starts where its op is computed.
Where the paper is silent, a comment beginning with "Our choice" says what is done here.

It reads a remora-graph, writes a remora-schedule, and ends with 0 (schedule written), 20 (infeasible), 21 (none found),
64 (usage) or 65 (bad input).
"""
import time

PROCESS_STARTED = time.monotonic()  # The time limit includes the import of OR-Tools.

# pylint: disable=wrong-import-position
import argparse
import bisect
import dataclasses
import hashlib
import json
import math
import os
import sys

import ortools
from ortools.sat.python import cp_model

INT64_MAX = 2**63 - 1


class InputError(Exception):
    """A graph that cannot be read or solved, with the path of what is wrong."""


class OutOfTime(Exception):
    """The time limit passed while the model was being built."""


@dataclasses.dataclass(frozen=True)
class Op:
    """An op; tensors are indices into the graph's."""

    name: str
    duration: int
    workspace: int
    inputs: tuple  # each once
    outputs: tuple
    max_computes: int


@dataclasses.dataclass(frozen=True)
class Graph:
    """A remora-graph; ops in the input topological order."""

    name: str
    sha256: str
    ops: tuple
    tensors: tuple  # names
    sizes: tuple
    producer: tuple  # of each tensor: the op, None for an input of the graph
    keep: tuple  # the produced tensors that must be resident at the end
    resident: int  # fixed memory and the graph's inputs


@dataclasses.dataclass(frozen=True)
class Plan:
    """A sequence of computes with its releases; memory in bytes."""

    sequence: tuple
    frees: tuple  # of each step: the tensors released after it
    duration: int
    peak: int


# --- Reading


def member(node, key, path, kind, default=None):
    """node[key] if it has the type `kind`; integers are exact, not negative and fit in 64 bits."""
    if key not in node and default is not None:
        return default
    value = node.get(key)
    if type(value) is not kind:  # not isinstance: true is no integer
        raise InputError(f"{path}.{key}: must be {kind.__name__}")
    if kind is int and not 0 <= value <= INT64_MAX:
        raise InputError(f"{path}.{key}: {value} is out of range")
    return value


def indexed(node, key, path):
    """The array of objects under `key`, and the place of every name in it."""
    array, places = member(node, key, path, list), {}
    for i, element in enumerate(array):
        if type(element) is not dict:
            raise InputError(f"{path}.{key}[{i}]: must be an object")
        name = member(element, "name", f"{path}.{key}[{i}]", str)
        if name in places:
            raise InputError(f"{path}.{key}[{i}].name: {name!r} is also {path}.{key}[{places[name]}]")
        places[name] = i
    return array, places


def resolved(node, key, path, places, default=None):
    """The names under `key` as indices, each once, in their order."""
    names = member(node, key, path, list, default)
    for i, name in enumerate(names):
        if type(name) is not str or name not in places:
            raise InputError(f"{path}.{key}[{i}]: {name!r} is not known")
    return tuple(dict.fromkeys(places[name] for name in names))


def read_op(node, path, tensor_places, op_places, index):
    """One op. `after` is only checked: first computes in the input order hold it."""
    for earlier in resolved(node, "after", path, op_places, []):
        if earlier >= index:
            raise InputError(f"{path}.after: the op {node['name']!r} is listed before an op that it must come after")
    recompute = member(node, "recompute", path, str, "allowed")
    limit = member(node, "max_computes", path, int, INT64_MAX)
    if recompute not in ("allowed", "never"):
        raise InputError(f"{path}.recompute: {recompute!r} is neither 'allowed' nor 'never'")
    if limit < 1:
        raise InputError(f"{path}.max_computes: must be at least 1")
    outputs = resolved(node, "outputs", path, tensor_places)
    if not outputs:
        raise InputError(f"{path}.outputs: must not be empty")
    return Op(node["name"], member(node, "duration", path, int), member(node, "workspace", path, int, 0),
              resolved(node, "inputs", path, tensor_places), outputs, 1 if recompute == "never" else limit)


def producers(ops, tensor_count):
    """The producer of every tensor, None for an input of the graph; ops must be in a topological order."""
    producer = [None] * tensor_count
    for i, op in enumerate(ops):
        for tensor in op.outputs:
            if producer[tensor] is not None:
                raise InputError(f"$.ops[{i}].outputs: a tensor of {op.name!r} is also produced by "
                                 f"{ops[producer[tensor]].name!r}")
            producer[tensor] = i
    for i, op in enumerate(ops):
        for tensor in op.inputs:
            if producer[tensor] is not None and producer[tensor] >= i:
                raise InputError(f"$.ops[{i}].inputs: {op.name!r} is not listed after the producer of its input, "
                                 f"{ops[producer[tensor]].name!r}")
    return tuple(producer)


def read_graph(path):
    """The remora-graph in the file `path`."""
    try:
        with open(path, "rb") as file:
            text = file.read()
        root = json.loads(text)
    except (OSError, ValueError) as error:
        raise InputError(str(error)) from error
    if type(root) is not dict or root.get("format") != "remora-graph" or root.get("version") != 1:
        raise InputError("$: not a remora-graph of version 1")
    tensor_nodes, tensor_places = indexed(root, "tensors", "$")
    op_nodes, op_places = indexed(root, "ops", "$")
    sizes = tuple(member(node, "size", f"$.tensors[{i}]", int) for i, node in enumerate(tensor_nodes))
    kept = [member(node, "keep", f"$.tensors[{i}]", bool, False) for i, node in enumerate(tensor_nodes)]
    ops = tuple(read_op(node, f"$.ops[{i}]", tensor_places, op_places, i) for i, node in enumerate(op_nodes))
    producer = producers(ops, len(sizes))
    inputs_size = sum(size for size, op in zip(sizes, producer) if op is None)
    return Graph(name=member(root, "name", "$", str), sha256=hashlib.sha256(text).hexdigest(), ops=ops,
                 tensors=tuple(tensor_places), sizes=sizes, producer=producer,
                 keep=tuple(t for t, op in enumerate(producer) if op is not None and kept[t]),
                 resident=member(root, "fixed_memory", "$", int, 0) + inputs_size)


# --- Evaluating


def evaluate(graph, sequence):
    """The sequence with every tensor released as early as it can be: the latest earlier compute serves each use."""
    needed, frees = set(graph.keep), []
    for index in reversed(sequence):
        op = graph.ops[index]
        free = [t for t in op.outputs if t not in needed]
        needed.difference_update(op.outputs)
        last_used = [t for t in op.inputs if graph.producer[t] is not None and t not in needed]
        needed.update(last_used)
        frees.append(tuple(last_used + free))
    frees.reverse()

    memory = peak = graph.resident
    held = set()
    for index, free in zip(sequence, frees):
        op = graph.ops[index]
        memory += sum(graph.sizes[t] for t in op.outputs if t not in held)
        held.update(op.outputs)
        peak = max(peak, memory + op.workspace)
        held.difference_update(free)
        memory -= sum(graph.sizes[t] for t in free)
    return Plan(tuple(sequence), tuple(frees), sum(graph.ops[i].duration for i in sequence), peak)


def too_large_op(graph, budget):
    """The certificate of an op that exceeds the budget on its own, or None."""
    for op in graph.ops:
        needed = [t for t in op.inputs + op.outputs if graph.producer[t] is not None]
        required = graph.resident + op.workspace + sum(graph.sizes[t] for t in needed)
        if required > budget:
            return {"op": op.name, "required": required, "tensors": [graph.tensors[t] for t in needed]}
    return None


# --- The formulation


@dataclasses.dataclass
class Copy:
    """One compute of an op and the retention interval of each output (section 2), by tensor."""

    active: object  # a literal; eq. 7: the first copy's is true
    start: object  # an event
    ends: dict
    lengths: dict
    intervals: dict


class Formulation:
    """Equations 1 to 5 and 7 in the staged domain (11), and the two objectives of section 2.4.

    CP-SAT's sums are 64 bits: sizes and durations are divided by their greatest common divisors, which changes nothing
    (the budget is rounded down). C computes an op and n ops make O(C n) intervals and O(edges) reservoirs.
    """

    def __init__(self, graph, budget, max_computes, deadline):
        self.graph = graph
        self.kept = frozenset(graph.keep)
        self.max_computes = max_computes
        self.deadline = deadline
        self.model = cp_model.CpModel()
        self.byte_unit = math.gcd(*graph.sizes, *(op.workspace for op in graph.ops)) or 1
        self.time_unit = math.gcd(*(op.duration for op in graph.ops)) or 1
        trivial = self.scaled(evaluate(graph, range(len(graph.ops))).peak)  # no recompute at all, section 2.4
        # Above the trivial peak all budgets have the same optimum, below 0 none has a schedule.
        self.budget = min(max(-1, self.scaled(budget)), trivial)
        self.check_sums()
        # Section 2.3 computes every op in the last event of its stage. Our choice: one more stage after them, where
        # `keep` tensors may be recomputed, and a moment after all events (horizon) at which they must be resident.
        count = len(graph.ops)
        self.last_stage = count if graph.keep else count - 1
        self.horizon = self.event(count, count if graph.keep else 0)
        self.copies = [self.new_copies(index) for index in range(count)]
        self.peak, self.larger = self.new_peak(trivial)
        self.add_memory()
        self.add_supply()

    @staticmethod
    def event(stage, op):
        """Eq. 11: the events of stage j come after those of the j smaller stages before it."""
        return stage * (stage + 1) // 2 + op

    def check_sums(self):
        """CP-SAT refuses a model whose sums might not fit in 64 bits; half of that leaves room for its own sums."""
        ops, copies = self.graph.ops, self.max_computes
        demands = (sum(self.graph.sizes) + sum(op.workspace for op in ops)) // self.byte_unit
        durations = sum(op.duration for op in ops) // self.time_unit
        if max(demands, durations) * copies > INT64_MAX // 2:
            raise InputError(f"$: the sums of {copies} computes an op do not fit in CP-SAT's 64 bits")

    def scaled(self, peak):
        """A peak or budget in bytes as the cumulative counts it: without what is always resident, in units."""
        return (peak - self.graph.resident) // self.byte_unit

    def check_time(self):
        """Ends the building when the time limit has passed."""
        if time.monotonic() > self.deadline:
            raise OutOfTime

    def new_copies(self, index):
        """The copies of an op. One that has no event left is not made."""
        self.check_time()
        op = self.graph.ops[index]
        copies = [self.new_copy(op, True, self.event(index, index))]  # Section 2.3: the first start is fixed.
        for i in range(1, min(self.max_computes, op.max_computes, 1 + self.last_stage - index)):
            # Stage i + index is the first possible, since the copies before it are in smaller stages.
            events = [self.event(stage, index) for stage in range(index + i, self.last_stage + 1)]
            start = self.model.new_int_var_from_domain(cp_model.Domain.from_values(events), "")
            copies.append(self.new_copy(op, self.model.new_bool_var(""), start))
            self.add_order(copies[-2], copies[-1])
        return copies

    def new_copy(self, op, active, start):
        """Eq. 2. Our choice: each output has an end of its own; intervals are half-open, so they hold their start.

        The ends range over all events (11); the end of a `keep` tensor also over the moment after them.
        """
        copy = Copy(active, start, {}, {}, {})
        for tensor in op.outputs:
            latest = self.horizon + (tensor in self.kept)
            end, length = (self.model.new_int_var(1, latest, "") for _ in range(2))
            copy.ends[tensor], copy.lengths[tensor] = end, length
            copy.intervals[tensor] = self.model.new_optional_interval_var(start, length, end, active, "")
        return copy

    def add_order(self, earlier, later):
        """Eq. 3, where the later copy is active. Our choice: copies are used in their order."""
        if earlier.active is not True:
            self.model.add_implication(later.active, earlier.active)
        for end in earlier.ends.values():
            self.model.add(end <= later.start).only_enforce_if(later.active)

    def new_peak(self, trivial):
        """The peak of eq. 13, and the larger of it and the budget (eq. 12); at most what no recompute at all needs."""
        peak = self.model.new_int_var(0, trivial, "")
        larger = self.model.new_int_var(self.budget, trivial, "")
        self.model.add(larger >= peak)
        return peak, larger

    def add_memory(self):
        """Eq. 4 and 13: a cumulative whose capacity is the peak; the intervals count while active."""
        intervals, demands = [], []
        for op, copies in zip(self.graph.ops, self.copies):
            for copy in copies:
                intervals += copy.intervals.values()
                demands += [self.graph.sizes[tensor] // self.byte_unit for tensor in copy.intervals]
                if op.workspace > 0:  # Our choice: an interval of one event.
                    intervals.append(self.model.new_optional_fixed_size_interval_var(copy.start, 1, copy.active, ""))
                    demands.append(op.workspace // self.byte_unit)
        self.model.add_cumulative(intervals, demands, self.peak)

    def add_supply(self):
        """Eq. 5 and 10: one reservoir for each tensor and reader; its level is never negative.

        +1 where an interval of the tensor starts, -1 where it ends; -1 at a compute of the reader, +1 right after it.
        """
        for op, readers in zip(self.graph.ops, self.copies):
            self.check_time()
            uses = [change for copy in readers for change in
                    ((copy.start, -1, copy.active), (copy.start + 1, 1, copy.active))]
            for tensor in op.inputs:
                if self.graph.producer[tensor] is not None:
                    self.add_reservoir(tensor, uses)
        for tensor in self.graph.keep:
            self.add_reservoir(tensor, [(self.horizon, -1, True), (self.horizon + 1, 1, True)])

    def add_reservoir(self, tensor, uses):
        """The level changes of the tensor's intervals and of its uses."""
        copies = self.copies[self.graph.producer[tensor]]
        changes = [change for copy in copies for change in
                   ((copy.start, 1, copy.active), (copy.ends[tensor], -1, copy.active))] + uses
        times, levels, actives = zip(*changes)
        # The paper asks for a minimum level only: this maximum cannot be passed.
        self.model.add_reservoir_constraint_with_active(times, levels, actives, 0, len(changes))

    def minimize_peak(self):
        """Phase 1, eq. 12."""
        self.model.minimize(self.larger)

    def minimize_duration(self):
        """Phase 2, eq. 1, with the budget as eq. 4 has it."""
        self.model.add(self.peak == self.budget)
        self.model.minimize(sum(op.duration // self.time_unit * copy.active
                                for op, copies in zip(self.graph.ops, self.copies) for copy in copies))

    def sequence(self, value):
        """The ops in the order of the active starts, where `value` tells a variable's value."""
        starts = [(value(copy.start), index) for index, copies in enumerate(self.copies)
                  for copy in copies if copy.active is True or value(copy.active)]
        return [index for _, index in sorted(starts)]

    def hint(self, plan, peak):
        """Gives CP-SAT a whole solution to start from: the plan's computes, each output kept to its last use."""
        events = self.events_of(plan.sequence)
        ends = self.last_uses(events)
        self.model.clear_hints()
        for index, copies in enumerate(self.copies):
            for i, copy in enumerate(copies):
                active = i < len(events[index])
                # An inactive copy's variables mean nothing; any values of their domains will do.
                start = events[index][i] if active else self.event(index + i, index)
                if i > 0:
                    self.model.add_hint(copy.active, active)
                    self.model.add_hint(copy.start, start)
                for tensor in copy.ends:
                    end = ends.get((tensor, start), start + 1) if active else start + 1
                    self.model.add_hint(copy.ends[tensor], end)
                    self.model.add_hint(copy.lengths[tensor], end - start)
        self.model.add_hint(self.peak, peak)
        self.model.add_hint(self.larger, max(peak, self.budget))

    def events_of(self, sequence):
        """Of each op: the events of its computes. The stage is the number of ops computed before."""
        events, stage = [[] for _ in self.copies], 0
        for index in sequence:
            events[index].append(self.event(stage, index))
            stage += len(events[index]) == 1
        return events

    def last_uses(self, events):
        """The moment after the last use that each compute serves, by tensor and compute."""
        uses = sorted((event, tensor) for op, own in zip(self.graph.ops, events) for event in own
                      for tensor in op.inputs if self.graph.producer[tensor] is not None)
        uses += [(self.horizon, tensor) for tensor in self.graph.keep]
        ends = {}
        for event, tensor in uses:
            served_by = events[self.graph.producer[tensor]]
            ends[tensor, served_by[bisect.bisect_left(served_by, event) - 1]] = event + 1
        return ends


# --- Solving in two phases


@dataclasses.dataclass(frozen=True)
class Settings:
    """The command line."""

    budget: int
    time_limit: float
    threads: int
    seed: int
    max_computes: int

    @property
    def deadline(self):
        """On the clock of time.monotonic()."""
        return PROCESS_STARTED + self.time_limit


@dataclasses.dataclass
class Result:
    """What is known so far."""

    status: str = "unknown"
    best: Plan = None
    reached_peak: int = 0
    lower_bound: int = 0
    history: list = dataclasses.field(default_factory=list)
    phase_seconds: list = dataclasses.field(default_factory=lambda: [0.0, 0.0])

    def offer(self, plan, budget, source):
        """Keeps the plan if it holds the budget and is the shortest until now."""
        if plan.peak <= budget and (self.best is None or plan.duration < self.best.duration):
            self.best, self.status = plan, "feasible"
            self.history.append([round(time.monotonic() - PROCESS_STARTED, 6), plan.duration, plan.peak, source])


class Watcher(cp_model.CpSolverSolutionCallback):
    """Replays every solution of CP-SAT; `last` is the latest."""

    def __init__(self, formulation, budget, result, source, stop_when_it_fits):
        super().__init__()
        self.formulation, self.budget, self.result = formulation, budget, result
        self.source, self.stop_when_it_fits = source, stop_when_it_fits
        self.last = None

    def on_solution_callback(self):
        """Called by CP-SAT."""
        self.last = evaluate(self.formulation.graph, self.formulation.sequence(self.value))
        self.result.offer(self.last, self.budget, self.source)
        if self.stop_when_it_fits and self.last.peak <= self.budget:
            self.stop_search()


def new_solver(settings):
    """CP-SAT with its defaults, for what is left of the time."""
    solver = cp_model.CpSolver()
    solver.parameters.max_time_in_seconds = max(0.0, settings.deadline - time.monotonic())
    solver.parameters.num_workers = settings.threads
    solver.parameters.random_seed = settings.seed
    return solver


def run(solver, formulation, watcher):
    """CP-SAT's status. Both phases start from a solution, so infeasible would be an error of the formulation."""
    status = solver.solve(formulation.model, watcher)
    if status == cp_model.MODEL_INVALID:
        raise InputError("CP-SAT refuses the model: " + formulation.model.validate().splitlines()[0])
    if status == cp_model.INFEASIBLE:
        raise AssertionError("CP-SAT calls a model infeasible whose solution is known, its hint")
    return status


def find_fit(formulation, settings, result):
    """Phase 1 (eq. 12, 13), from the input order without recompute.

    Our choice: it ends as soon as a solution holds the budget, or the bound proves that none can.
    """
    begun = time.monotonic()
    start = evaluate(formulation.graph, range(len(formulation.graph.ops)))
    formulation.minimize_peak()
    formulation.hint(start, formulation.scaled(start.peak))
    solver = new_solver(settings)
    watcher = Watcher(formulation, settings.budget, result, "phase 1", True)
    solver.best_bound_callback = lambda bound: solver.stop_search() if bound > formulation.budget + 0.5 else None
    run(solver, formulation, watcher)
    result.reached_peak = watcher.last.peak if watcher.last else start.peak
    if result.best is None and solver.best_objective_bound > formulation.budget + 0.5:
        result.status = "infeasible"
    result.phase_seconds[0] = time.monotonic() - begun


def shorten(formulation, settings, result):
    """Phase 2 (eq. 1): from phase 1's solution as a hint, whose retentions end at their last uses (our choice)."""
    begun = time.monotonic()
    formulation.minimize_duration()
    formulation.hint(result.best, formulation.budget)
    solver = new_solver(settings)
    status = run(solver, formulation, Watcher(formulation, settings.budget, result, "phase 2", False))
    if status == cp_model.OPTIMAL:
        result.status, result.lower_bound = "optimal", result.best.duration
    elif math.isfinite(solver.best_objective_bound):
        bound = math.ceil(solver.best_objective_bound - 1e-6) * formulation.time_unit
        result.lower_bound = min(max(result.lower_bound, bound), result.best.duration)
    result.phase_seconds[1] = time.monotonic() - begun


def solve(graph, settings):
    """The whole method, within the time limit."""
    result = Result(lower_bound=sum(op.duration for op in graph.ops))
    try:
        formulation = Formulation(graph, settings.budget, settings.max_computes, settings.deadline)
    except OutOfTime:
        return result
    find_fit(formulation, settings, result)
    if result.best is not None and time.monotonic() < settings.deadline:
        shorten(formulation, settings, result)
    return result


# --- Writing


def solver_report(settings, result):
    """The schedule's `solver` object."""
    feasibility, duration = (round(seconds, 6) for seconds in result.phase_seconds)
    return {"version": f"moccasin-cpsat, OR-Tools {ortools.__version__}", "seed": settings.seed,
            "threads": settings.threads,
            "limits": {"max_computes": settings.max_computes, "seconds": settings.time_limit, "work": 0},
            "seconds": round(time.monotonic() - PROCESS_STARTED, 6),
            "phases": {"feasibility": {"seconds": feasibility, "reached_peak_memory": result.reached_peak},
                       "duration": {"seconds": duration}},
            "history": result.history}


def schedule_of(graph, settings, result):
    """The remora-schedule. An infeasible budget has a certificate where one op alone exceeds it."""
    baseline = evaluate(graph, range(len(graph.ops)))
    plan = result.best or Plan((), (), 0, 0)
    schedule = {"format": "remora-schedule", "version": 1, "graph": graph.name, "graph_sha256": graph.sha256,
                "status": result.status, "order": "input", "budget": settings.budget, "duration": plan.duration,
                "baseline_duration": baseline.duration,
                "overhead": plan.duration / baseline.duration - 1 if result.best and baseline.duration else 0.0,
                "peak_memory": plan.peak, "baseline_peak_memory": baseline.peak, "lower_bound": result.lower_bound,
                "gap": (plan.duration - result.lower_bound) / plan.duration if plan.duration else 1.0,
                "steps": [{"op": graph.ops[index].name, "free": [graph.tensors[t] for t in free]}
                          for index, free in zip(plan.sequence, plan.frees)]}
    certificate = too_large_op(graph, settings.budget) if result.status == "infeasible" else None
    if certificate:
        schedule["certificate"] = certificate
    schedule["solver"] = solver_report(settings, result)
    return schedule


class Parser(argparse.ArgumentParser):
    """argparse with the engine's exit code."""

    def error(self, message):
        self.exit(64, f"{self.prog}: {message}\n")


def natural(lowest, highest=2**31 - 1):
    """A reader of integers in lowest..highest."""

    def integer(text):
        if not lowest <= int(text) <= highest:
            raise ValueError
        return int(text)

    return integer


def positive_seconds(text):
    """A number of seconds."""
    if not (math.isfinite(float(text)) and float(text) > 0):
        raise ValueError
    return float(text)


def parsed(arguments):
    """The command line."""
    parser = Parser(prog="moccasin_cpsat.py", description="Moccasin's published method on OR-Tools CP-SAT.")
    parser.add_argument("graph", metavar="GRAPH", help="a remora-graph")
    parser.add_argument("--budget", metavar="BYTES", type=natural(0, INT64_MAX), required=True)
    parser.add_argument("--time-limit", metavar="S", type=positive_seconds, default=60.0, help="for everything")
    parser.add_argument("--threads", metavar="N", type=natural(1), default=os.cpu_count(), help="CP-SAT's workers")
    parser.add_argument("--seed", metavar="K", type=natural(0), default=1)
    parser.add_argument("--max-computes", metavar="C", type=natural(1), default=2, help="the paper's C_v")
    parser.add_argument("-o", "--output", metavar="OUT", help="the remora-schedule; standard output without it")
    return parser.parse_args(arguments)


def main(arguments):
    """The program; returns its exit code."""
    options = parsed(arguments)
    settings = Settings(options.budget, options.time_limit, options.threads, options.seed, options.max_computes)
    try:
        graph = read_graph(options.graph)
        result = solve(graph, settings)
    except InputError as error:
        print(f"moccasin_cpsat.py: {options.graph}: {error}", file=sys.stderr)
        return 65
    text = json.dumps(schedule_of(graph, settings, result), indent=1) + "\n"
    if options.output:
        with open(options.output, "w", encoding="utf-8") as file:
            file.write(text)
    else:
        sys.stdout.write(text)
    return {"optimal": 0, "feasible": 0, "infeasible": 20, "unknown": 21}[result.status]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
