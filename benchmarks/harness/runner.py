# SPDX-License-Identifier: Apache-2.0
"""Runs what a suite asks for, one run after the other, each in a process of its own that is pinned to as many cores as it has
threads; replays every schedule; adds a line to the results at once, so that a suite that was interrupted goes on where
it stood."""
import dataclasses
import datetime
import fcntl
import gzip
import hashlib
import json
import math
import os
import platform
import re
import subprocess
import zlib

from harness import process
from harness.results import Result, ResultsFile
from harness.suite import InputError, budget_bytes

# The exit codes of `remora solve`, which peers share: a schedule is written, proved infeasible, none found.
WRITTEN, INFEASIBLE, NONE_FOUND = 0, 20, 21
PATIENCE = 600  # seconds to make or to read a graph
# A run that takes so many times its limit, and so many seconds more, hangs.
PATIENCE_FACTOR, PATIENCE_SECONDS = 1.5, 60


def machine_text():
    """Processor, cores that this process may use, memory, system."""
    def line_of(path, key):
        with open(path, encoding="utf-8") as file:
            return next((re.split("[:=]", line, maxsplit=1)[1].strip(' \t\n"') for line in file if line.startswith(key)),
                        "unknown")
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGESIZE")
    return (f"{line_of('/proc/cpuinfo', 'model name')}, {len(os.sched_getaffinity(0))} cores, {round(memory / 2**30)} GiB, "
            f"{line_of('/etc/os-release', 'PRETTY_NAME')}, {platform.system()} {platform.release()}")


@dataclasses.dataclass
class Graph:
    """A graph as a remora-graph file without `meta`, and what a run must know of it."""
    path: str
    sha256: str
    names: list  # of the ops
    edges: int  # pairs of an op and another that reads what it writes
    fixed: int  # this and the next are 0 of a graph over several devices, whose baseline the solver states
    peak: int
    duration: int


class Remora:
    """The programs, in a folder."""

    def __init__(self, folder):
        self.folder, self.remora = folder, os.path.join(folder, "remora")

    def ask(self, *words):
        """Exit code, standard output and the last line of standard error."""
        done = subprocess.run([self.remora, *words], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
                              errors="replace", start_new_session=True)
        return done.returncode, done.stdout, process.last_line(done.stderr.encode())

    def commit(self):
        """That it was built from, "+" behind it if the tree had changes."""
        code, text, _ = self.ask("--version")
        match = re.search(r"commit (\S+)\)", text)
        return match[1] if code == 0 and match else "unknown"


def graph_of(remora, path):
    """Of a remora-graph file that `remora convert` wrote."""
    with open(path, encoding="utf-8") as file:
        text = file.read()
    # Where it came from names files and folders of this machine: the same graph would have another hash elsewhere.
    text = re.sub(r',\n  "meta": [^\n]*?(?=,?\n)', "", text, count=1)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    graph = json.loads(text)
    if "meta" in graph:
        raise InputError(f"{path}: its meta is not on a line of its own")
    code, facts, error = remora.ask("info", path, "--json", "--quiet")
    if code != 0:
        raise InputError(error)
    facts = json.loads(facts)
    makers = {name: v for v, op in enumerate(graph["ops"]) for name in op["outputs"]}
    edges = {(makers[name], v) for v, op in enumerate(graph["ops"]) for name in op["inputs"] if name in makers}
    return Graph(path, hashlib.sha256(text.encode()).hexdigest(), [op["name"] for op in graph["ops"]], len(edges),
                 *(facts.get(key, 0) for key in ("fixed_memory", "no_recompute_peak", "duration")))


def unpacked(source, path):
    """The path of a gzip file's content."""
    try:
        with gzip.open(source) as file:
            content = file.read()
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(f"{source}: cannot be unpacked: {error}") from None
    with open(path, "wb") as file:
        file.write(content)
    return path


def make_graph(remora, instance, folder, cancelled=lambda: False):
    """The instance's graph, made anew: a file of an earlier program, or of another suite, may be another graph. Raises
    InputError where it is not to be had."""
    def run(words):
        outcome = process.run(words, PATIENCE, cancelled=cancelled)
        if outcome.code != 0:
            raise InputError(f"{words[1]}: {outcome.last_error}")
    source, path = instance.file, os.path.join(folder, instance.name + ".json")
    if instance.make:
        source = os.path.join(folder, instance.name + ".made")
        run([os.path.join(remora.folder, instance.make[0]), *instance.make[1:], "-o", source])
    elif not os.path.exists(source):
        raise InputError(f"{source}: is not there")
    elif source.endswith(".gz"):
        source = unpacked(source, os.path.join(folder, instance.name + ".made"))
    run([remora.remora, "convert", source, "-o", path, "--quiet", *instance.reading])
    return graph_of(remora, path)


def plan_of(graph, schedule):
    """The recomputes [stage, op] of a verified schedule in input order: stage t ends with the first compute of op t."""
    numbers, plan, stage = {name: v for v, name in enumerate(graph.names)}, [], 0
    for step in schedule["steps"]:
        op = numbers[step["op"]]
        if op == stage:
            stage += 1
        else:
            plan.append([stage, op])
    return plan


def total(bytes_of_devices):
    """The sum over the devices of a schedule of version 2; one device's figure is a number."""
    return sum(bytes_of_devices.values()) if isinstance(bytes_of_devices, dict) else bytes_of_devices


def fault_of(schedule, result):
    """Why the figures that the contender states cannot be; empty if they can."""
    if total(schedule["budget"]) != result.budget_bytes:
        return "solved for another budget"
    if schedule["baseline_duration"] != result.baseline_duration:
        return "states another baseline duration"
    seconds = schedule.get("solver", {}).get("seconds", 0)
    if seconds is None or not math.isfinite(seconds):
        return "states seconds that are not a number"
    if schedule["status"] not in ("optimal", "feasible"):
        return ""
    if schedule["lower_bound"] > schedule["duration"]:
        return "states a bound above its schedule"
    if schedule["status"] == "optimal" and schedule["lower_bound"] != schedule["duration"]:
        return "calls optimal what its bound is below"
    return ""


def read_answer(remora, outcome, path, graph, result):
    """Fills in what the contender's answer says, if it is one to the question: for the budget and the baseline of the
    result, in time, with a bound that its own schedule does not contradict; and if a schedule, one that verifies.
    Otherwise the run has `failed`, `note` says why, and no figure of it is taken. The schedule, if there is one."""
    def fail(why):
        result.status, result.note = "failed", why
    if outcome.late or outcome.code not in (WRITTEN, INFEASIBLE, NONE_FOUND) or not os.path.exists(path):
        end = "did not end in time" if outcome.late else f"ended with {outcome.code}"
        return fail(end + (f": {outcome.last_error}" if outcome.last_error else ""))
    valid, verdict, error = remora.ask("verify", graph.path, path)
    if not verdict:  # what it cannot read has none
        return fail(f"wrote no schedule: {error}")
    with open(path, encoding="utf-8") as file:
        schedule = json.load(file)
    if isinstance(schedule["budget"], dict):
        result.baseline_duration = schedule["baseline_duration"]
    if fault := fault_of(schedule, result):
        return fail(fault)
    if outcome.code == WRITTEN and valid != 0:
        return fail("does not verify: " + json.loads(verdict)["errors"][0])
    solver = schedule.get("solver", {})
    found = "optimal" if schedule["status"] == "optimal" else "feasible"
    result.status = {WRITTEN: found, INFEASIBLE: "infeasible", NONE_FOUND: "unknown"}[outcome.code]
    result.order, result.lower_bound = schedule["order"], schedule["lower_bound"]
    result.max_computes = solver.get("limits", {}).get("max_computes", 0)
    result.version, result.note = solver.get("version", ""), solver.get("note", "")
    result.stopped = solver.get("stopped", "")
    result.statistics, result.reached = solver.get("statistics", {}), solver.get("seconds", 0.0)
    if outcome.code != WRITTEN:
        return None
    result.duration, result.peak_memory = schedule["duration"], total(schedule["peak_memory"])
    result.history = [[seconds, duration] for seconds, duration, peak, _ in solver.get("history", [])
                      if peak <= result.budget_bytes]
    if result.history:
        result.reached = result.history[-1][0]
    return schedule


def planned_runs(suite, instance):
    """Every contender and key that the suite plans of the instance."""
    limit = instance.time_limit or suite.time_limit
    for budget in instance.budgets or suite.budgets:
        for contender in suite.contenders:
            for seed in contender.seeds or suite.seeds:
                yield contender, (instance.name, budget, contender.name, seed, limit, suite.threads)


def known_results(suite, file):
    """Everything of the suite that is known now, in the suite's order: of each instance only what was measured on its latest
    graph, and of a contender only how the suite asks it now."""
    known = []
    for instance in suite.instances:
        found = [file.results[key] for contender, key in planned_runs(suite, instance)
                 if key in file.results and file.results[key].asked == contender.asked
                 and file.results[key].ops <= contender.most_ops]
        latest = max(found, key=lambda result: result.when, default=None)
        known += [result for result in found if result.graph_sha256 == latest.graph_sha256]
    return known


def log_text(result):
    text = f"{result.instance} {result.budget} {result.contender} seed {result.seed}: {result.status}"
    if result.has_schedule():
        text += f", overhead {result.overhead():.4f} %"
    return text + f", {result.seconds:.1f} s" + (f" ({result.note})" if result.note else "")


class Runner:
    """`learn`: told instance, result and recomputes of every verified schedule in input order, before its result is kept.
    `log`: told a line for each run. `cancelled`: asked many times a second."""

    def __init__(self, suite, remora, folder, learn=None, log=lambda line: None, cancelled=lambda: False):
        """Raises InputError for results of another kind, for a budget that is none, and where the suite wants more threads
        than there are cores to use."""
        self.suite, self.remora, self.folder = suite, remora, folder
        self.learn, self.log, self.cancelled = learn, log, cancelled
        self.missing = {}  # instances and contenders that are not to be had, and why
        self.done, self.planned = 0, sum(1 for i in suite.instances for _ in planned_runs(suite, i))
        cores = len(os.sched_getaffinity(0))
        if suite.threads > cores:
            raise InputError(f"suite {suite.name}: wants {suite.threads} threads, each pinned to a core, of "
                             f"{cores}; --threads {cores} overrides that")
        for instance in suite.instances:  # better now than after hours
            for _, (_, budget, *_) in planned_runs(suite, instance):
                budget_bytes(budget, 0, 0)
        os.makedirs(os.path.join(folder, "work"), exist_ok=True)
        self.file = ResultsFile(os.path.join(folder, "results.jsonl"))
        self.commit, self.machine = remora.commit(), machine_text()

    def run(self):
        """Runs what is missing, and again what gave no valid answer. False if it was cancelled. Raises InputError if another
        benchmark runs in the same folder."""
        with open(os.path.join(self.folder, "work", "lock"), "w", encoding="ascii") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise InputError(f"{self.folder}: another benchmark runs there") from None
            return all(self.run_instance(instance) for instance in self.suite.instances)

    def leave_out(self, name, why):
        self.missing[name] = str(why)
        self.log(f"{name} left out: {why}")

    def run_instance(self, instance):
        try:
            graph = make_graph(self.remora, instance, os.path.join(self.folder, "work"), self.cancelled)
        except InputError as error:
            if not self.cancelled():
                self.leave_out(instance.name, error)
            return not self.cancelled()
        for contender, key in planned_runs(self.suite, instance):
            self.done += 1
            if not self.is_done(contender, key, graph) and not self.run_once(instance, contender, key, graph):
                return False
        return True

    def is_done(self, contender, key, graph):
        """Whether there is nothing to run: an answer is there, or the contender is not asked."""
        known = self.file.results.get(key)
        return (len(graph.names) > contender.most_ops or contender.name in self.missing or
                known is not None and known.graph_sha256 == graph.sha256 and known.asked == contender.asked and
                known.status != "failed")

    def of_ours(self, command):
        """The command, with remora_methods from the folder of the programs."""
        return [os.path.join(self.remora.folder, w) if w == "remora_methods" else w for w in command]

    def solve_words(self, instance, contender):
        """The usual options, but for those that the instance or the contender states."""
        own = [*instance.arguments, *contender.arguments]
        stated = {word.partition("=")[0] for word in own}
        usual = {"--budget": "{budget}", "--threads": "{threads}", "--seed": "{seed}", "--time-limit": "{time_limit}",
                 "--max-computes": "2"}  # a table compares answers to one problem
        if "rotor" in stated:  # has more runs an op
            del usual["--max-computes"]
        if "--work-limit" in stated:
            del usual["--time-limit"]
        words = [part for option, value in usual.items() if option not in stated for part in (option, value)]
        return [contender.program or self.remora.remora, "solve", "{graph}", "--quiet", "-o", "{output}", *words, *own]

    def words(self, instance, contender, result, graph, output):
        words = self.of_ours(contender.command) or self.solve_words(instance, contender)
        budget = result.budget if "=" in result.budget else result.budget_bytes
        values = {"graph": graph.path, "budget": budget, "time_limit": f"{result.time_limit:g}",
                  "threads": result.threads, "seed": result.seed, "output": output}
        return [re.sub("{(" + "|".join(values) + ")}", lambda match: str(values[match[1]]), word) for word in words]

    def run_once(self, instance, contender, key, graph):
        """One run and its line. False if it was cancelled."""
        result = Result(*key, graph_sha256=graph.sha256, asked=contender.asked, ops=len(graph.names), edges=graph.edges,
                        budget_bytes=budget_bytes(key[1], graph.fixed, graph.peak), baseline_duration=graph.duration,
                        commit=self.commit, machine=self.machine)
        output = os.path.join(self.folder, "work", "answer.schedule")  # no graph's file is called so
        if os.path.exists(output):
            os.remove(output)
        try:
            outcome = process.run(self.words(instance, contender, result, graph, output),
                                  PATIENCE_FACTOR * result.time_limit + PATIENCE_SECONDS, result.threads, self.cancelled)
        except InputError as error:
            self.leave_out(contender.name, error)
            return True
        result.seconds, result.cpu_seconds = outcome.seconds, outcome.cpu_seconds
        result.peak_kibibytes = outcome.peak_kibibytes
        result.when = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
        schedule = read_answer(self.remora, outcome, output, graph, result)
        if outcome.cancelled or self.cancelled():
            return False
        if schedule and self.learn and schedule["order"] == "input" and result.max_computes > 0 and graph.duration:
            self.learn(instance, result, plan_of(graph, schedule))
        self.file.add(result)
        self.log(f"[{self.done}/{self.planned}] {log_text(result)}")
        return True
