# SPDX-License-Identifier: Apache-2.0
"""From a captured step to a schedule: the graph that the solver reads, the solver's call, and the schedule that it gives.

This is the one place that knows how the engine is reached.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import fx

from ._costs import Cost, cache_folder, op_cost, write_json
from ._errors import Infeasible, SolverError
from ._graph import Step
from ._program import Run

@dataclass
class Options:
    """How a step is planned; the parameters of `train_step` and `wrap`, and the options of the backend.

    Attributes
    ----------
    budget : int or str
        Bytes ("12GiB", 1500000) with all that is there throughout (parameters, buffers, the step's arguments), or a share of what
        the unscheduled step takes beyond that ("60%").
    cost : str
        "measured" or "flops".
    order : str
        "input": ops in their captured order, recomputes between them; "free": any order; "auto".
    time_limit : float
        Seconds for the solver.
    threads : int
        Threads of the solver, 0 for one a core.
    cache : bool
        Whether schedules are kept in a file and found again.
    progress : bool
        Whether a line on standard error says what is being done.
    """

    budget: int | str = "100%"
    cost: str = "measured"
    order: str = "input"
    time_limit: float = 15.0
    threads: int = 0
    seed: int = 1
    cache: bool = True
    progress: bool = False


@dataclass
class Plan:
    """What was planned for one captured graph.

    Attributes
    ----------
    graph, schedule : dict
        In the formats `remora-graph` and `remora-schedule`.
    predicted_peak, unscheduled_peak, fixed_memory : int
        Bytes: of the schedule, of every op once in captured order, and of what is there throughout (part of both peaks).
    predicted_time, unscheduled_time, bound : int
        Nanoseconds: of the schedule, of every op once, and a time that no schedule under the budget undercuts.
    seconds : dict
        What the parts of planning took.
    source : str
        The generated program.
    """

    graph: dict[str, Any]
    schedule: dict[str, Any]
    predicted_peak: int
    unscheduled_peak: int
    fixed_memory: int
    predicted_time: int
    unscheduled_time: int
    bound: int
    budget: int
    seconds: dict[str, float] = field(default_factory=dict)
    source: str = ""

    @property
    def overhead(self) -> float:
        """Time beyond the unscheduled step's, as a share of that."""
        return self.predicted_time / self.unscheduled_time - 1 if self.unscheduled_time else 0.0

    @property
    def recomputes(self) -> int:
        """How many steps of the schedule run an op again."""
        return len(self.schedule["steps"]) - len({step["op"] for step in self.schedule["steps"]})

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the plan as one JSON file."""
        Path(path).write_text(json.dumps(self.__dict__), encoding="utf-8")

    @staticmethod
    def load(path: str | os.PathLike[str]) -> Plan:
        """Reads what `save` wrote."""
        return Plan(**json.loads(Path(path).read_text(encoding="utf-8")))

    def report(self, path: str | os.PathLike[str]) -> None:
        """Writes the HTML page that explains the schedule."""
        with tempfile.TemporaryDirectory() as folder:
            graph, schedule = Path(folder, "graph.json"), Path(folder, "schedule.json")
            graph.write_text(json.dumps(self.graph), encoding="utf-8")
            schedule.write_text(json.dumps(self.schedule), encoding="utf-8")
            _call(["report", str(graph), str(schedule), "-o", str(path)])

    def __str__(self) -> str:
        return (f"{len(self.graph['ops'])} ops, {self.recomputes} recomputes: peak {self.predicted_peak:,} bytes of {self.budget:,} "
                f"({self.unscheduled_peak:,} unscheduled), time +{self.overhead:.2%}, bound +{self.bound / max(1, self.unscheduled_time) - 1:.2%}")


def graph_of(step: Step, costs: dict[fx.Node, Cost], name: str) -> dict[str, Any]:
    """A step as a `remora-graph`."""
    made = {s for op in step.ops for s in op.outputs}
    read = {s for op in step.ops for s in op.inputs if not step.storages[s].fixed}
    assert read <= made, "an op reads what no op makes"
    names = {s: step.storages[s].name for s in sorted(made)}
    tensors = [{"name": names[s], "size": step.storages[s].size, **({"keep": True} if step.storages[s].keep else {})} for s in names]
    ops: list[dict[str, Any]] = []
    last: str | None = None
    for op in step.ops:
        duration, workspace = op_cost(op, costs)
        entry: dict[str, Any] = {"name": op.name, "type": _type(op.nodes), "duration": duration}
        if workspace:
            entry["workspace"] = workspace
        entry["inputs"] = [names[s] for s in op.inputs if s in names]
        entry["outputs"] = [names[s] for s in op.outputs]
        if not op.outputs:
            tensors.append({"name": f"{op.name} done", "size": 0})
            entry["outputs"] = [f"{op.name} done"]
        entry["phase"] = "backward" if op.backward else "forward"
        if not op.recompute:
            entry["recompute"] = "never"
        if op.random or not op.recompute:
            if last is not None:
                entry["after"] = [last]
            last = op.name
        ops.append(entry)
    fixed = sum(s.size for s in step.storages if s.fixed)
    return {"format": "remora-graph", "version": 1, "name": name, "fixed_memory": fixed, "tensors": tensors, "ops": ops,
            "meta": {"duration_unit": "ns", "source": "remora.torch"}}


def solve(step: Step, costs: dict[fx.Node, Cost], options: Options, name: str) -> tuple[Plan, list[Run]]:
    """Plans a step under its budget.

    The peak is replayed here as the program will run. The solver does not know of saved generator states, some thousand bytes
    each; where these bring the peak above the budget, it is asked again for that much less.
    """
    graph = graph_of(step, costs, name)
    runs = [Run(op, tuple(free)) for op, free in _once(step)]
    unscheduled = replay(step, costs, runs)
    fixed = int(graph["fixed_memory"])
    budget = in_bytes(options.budget, fixed, unscheduled)
    start = time.perf_counter()
    asked = budget
    while True:
        schedule = _cached_schedule(graph, asked, options)
        runs = _runs(step, graph, schedule)
        peak = replay(step, costs, runs)
        if peak <= budget:
            break
        asked -= peak - budget
    total = sum(int(op["duration"]) for op in graph["ops"])
    plan = Plan(graph, schedule, peak, unscheduled, fixed, int(schedule["duration"]), total, int(schedule["lower_bound"]), budget)
    plan.seconds["solve"] = time.perf_counter() - start
    return plan, runs


def replay(step: Step, costs: dict[fx.Node, Cost], runs: Sequence[Run]) -> int:
    """The peak of a schedule in bytes, fixed memory included, exactly as the generated program allocates."""
    last = {run.op: i for i, run in enumerate(runs)}
    state = int(torch.default_generator.get_state().numel()) if step.device.type == "cpu" else 0
    held = peak = sum(s.size for s in step.storages if s.fixed)
    resident: set[int] = set()
    saved = set()
    for i, run in enumerate(runs):
        op = run.op
        held -= sum(step.storages[s].size for s in op.outputs if s in resident)
        now = state if op in saved else 0
        if op.random and op not in saved and last[op] > i:
            saved.add(op)
            held += state
        resident.update(op.outputs)
        peak = max(peak, held + now)
        held += sum(step.storages[s].size for s in op.outputs)
        peak = max(peak, held + now + op_cost(op, costs)[1])
        held -= sum(step.storages[s].size for s in run.free)
        resident.difference_update(run.free)
        if op in saved and last[op] == i:
            held -= state
    return peak


def in_bytes(budget: int | str, fixed: int, unscheduled: int) -> int:
    """A budget in bytes; a percentage is of what the unscheduled step takes beyond its fixed memory."""
    if isinstance(budget, int):
        return budget
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(%|[KMGT]?i?B|)\s*", budget)
    if found is None:
        raise ValueError(f"budget: {budget!r} is neither bytes ('12GiB') nor a percentage ('60%')")
    amount, unit = float(found[1]), found[2]
    if unit == "%":
        return fixed + int((unscheduled - fixed) * amount / 100)
    base = 1024 if "i" in unit else 1000
    return int(amount * base ** "_KMGT".find(unit[0] if len(unit) > 1 else "_"))


def _once(step: Step) -> list[tuple[Any, list[int]]]:
    """Every op once, in captured order; each storage released behind its last reader."""
    last: dict[int, int] = {}
    for i, op in enumerate(step.ops):
        for s in [*op.inputs, *op.outputs]:
            if not step.storages[s].fixed and not step.storages[s].keep:
                last[s] = i
    free: list[list[int]] = [[] for _ in step.ops]
    for s, i in last.items():
        free[i].append(s)
    return list(zip(step.ops, free))


def _runs(step: Step, graph: dict[str, Any], schedule: dict[str, Any]) -> list[Run]:
    ops = {op.name: op for op in step.ops}
    storages = {step.storages[s].name: s for op in step.ops for s in op.outputs}
    return [Run(ops[s["op"]], tuple(storages[t] for t in s.get("free", []) if t in storages)) for s in schedule["steps"]]


def _type(nodes: list[fx.Node]) -> str:
    return " ".join(str(getattr(n.target, "overloadpacket", n.target)).replace("aten.", "") for n in nodes) or "user"


# -- The engine --------------------------------------------------------------------------------------------------------


def _cached_schedule(graph: dict[str, Any], budget: int, options: Options) -> dict[str, Any]:
    question = json.dumps([_version(), graph, budget, options.order, options.time_limit, options.seed], sort_keys=True)
    path = cache_folder() / "schedules" / f"{hashlib.sha256(question.encode()).hexdigest()}.json"
    if options.cache and path.exists():
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        return found
    schedule = _solved(graph, budget, options)
    if options.cache:
        write_json(path, schedule)
    return schedule


def _solved(graph: dict[str, Any], budget: int, options: Options) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        path, answer = Path(folder, "graph.json"), Path(folder, "schedule.json")
        path.write_text(json.dumps(graph), encoding="utf-8")
        if budget <= int(graph["fixed_memory"]):
            raise _infeasible(path, graph, budget, options)
        words = ["solve", str(path), "--budget", str(budget), "--time-limit", str(options.time_limit), "--seed", str(options.seed)]
        words += ["--threads", str(options.threads), "--order", options.order, "--output", str(answer)]
        status = _call([*words, "--progress" if options.progress else "--quiet"], allowed=(0, 20, 21), shown=options.progress)
        if status:
            raise _infeasible(path, graph, budget, options, proved=status == 20)
        schedule: dict[str, Any] = json.loads(answer.read_text(encoding="utf-8"))
        return schedule


def _infeasible(path: Path, graph: dict[str, Any], budget: int, options: Options, proved: bool = True) -> Exception:
    """What to say when no schedule holds the budget: the least budget for which one is known."""
    answer = path.with_name("info.json")
    limit = str(min(10.0, options.time_limit))
    with answer.open("w") as out:
        _call(["info", str(path), "--min-budget", "--time-limit", limit, "--json", "--quiet"], out=out)
    reached = int(json.loads(answer.read_text(encoding="utf-8"))["min_budget_reached"])
    verdict = "no schedule holds" if proved else "no schedule was found for"
    return Infeasible(f"{verdict} {budget:,} bytes; the least budget with a known schedule is {reached:,} bytes "
                      f"(of which {graph['fixed_memory']:,} are there throughout)", budget, reached)


def _program() -> str:
    found = os.environ.get("REMORA_PROGRAM") or shutil.which("remora")
    if not found:
        raise SolverError("the program `remora` is neither on PATH nor named by REMORA_PROGRAM")
    return found


def _version() -> str:
    return subprocess.run([_program(), "--version"], capture_output=True, text=True, check=True).stdout.strip()


def _call(words: list[str], allowed: tuple[int, ...] = (0,), shown: bool = False, out: Any = None) -> int:
    done = subprocess.run([_program(), *words], stdout=out or subprocess.PIPE, stderr=None if shown else subprocess.PIPE, text=True, check=False)
    if done.returncode not in allowed:
        raise SolverError(f"remora {words[0]}: {(done.stderr or '').strip()[-500:]}")
    return done.returncode
