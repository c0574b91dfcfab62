# SPDX-License-Identifier: Apache-2.0
"""What runs came to, one line of JSON each, and the best schedules known."""
import dataclasses
import gzip
import json
import os
import zlib

from harness.suite import InputError, Instance, Node, load_json


OPTIONAL = ("statistics", "stopped")  # members that a line may lack


def percent_more(value, baseline):
    return 100 * (value / baseline - 1) if baseline > 0 else 0.0


@dataclasses.dataclass
class Result:
    """One run. Its first six members are its key: with the same graph, and the contender asked the same way, two runs with
    one key are the same measurement."""
    instance: str
    budget: str  # as in the suite, "80%"
    contender: str
    seed: int
    time_limit: float
    threads: int
    graph_sha256: str = ""
    asked: str = ""  # the contender's arguments or command, as the suite has them
    ops: int = 0
    edges: int = 0
    budget_bytes: int = 0
    status: str = ""  # the schedule's; or failed: no valid answer, `note` says why
    order: str = ""  # with max_computes: the problem that the answer is one of
    max_computes: int = 0
    baseline_duration: int = 0
    duration: int = 0  # 0 without a schedule, as peak_memory
    lower_bound: int = 0
    peak_memory: int = 0
    seconds: float = 0.0  # of the process, wall-clock
    reached: float = 0.0  # when the last improvement came, by the contender's own clock
    cpu_seconds: float = 0.0
    peak_kibibytes: int = 0
    history: list = dataclasses.field(default_factory=list)  # [seconds, duration] of every incumbent within the budget
    statistics: dict = dataclasses.field(default_factory=dict)  # of the solver's own run, where it tells any
    stopped: str = ""  # why the search ended, where its solver says so
    note: str = ""
    version: str = ""  # of the solver
    commit: str = ""  # that remora was built from
    machine: str = ""
    when: str = ""  # UTC, ISO 8601

    def key(self):
        return self.instance, self.budget, self.contender, self.seed, self.time_limit, self.threads

    def has_schedule(self):
        return self.status in ("optimal", "feasible")

    def overhead(self):
        """duration / baseline - 1 in per cent; None without a schedule."""
        return percent_more(self.duration, self.baseline_duration) if self.has_schedule() else None

    def bound(self):
        return percent_more(self.lower_bound, self.baseline_duration)


def to_line(result):
    members = dataclasses.asdict(result)
    for name in OPTIONAL:
        if not members[name]:
            del members[name]
    return json.dumps(members, ensure_ascii=False)


def from_line(line):
    """Raises InputError for what is no result."""
    root = Node(load_json(line))
    members = {}
    for field in dataclasses.fields(Result):
        if root.has(field.name) or field.name not in OPTIONAL:
            members[field.name] = root.at(field.name).of(field.type)
    for node in root.at("history").elements():
        if [type(value) for value in node.of(list)] not in ([float, int], [int, int]):
            node.fail("must be [seconds, duration]")
    return Result(**members)


class ResultsFile:
    """results.jsonl: a line is added as its run ends, so that nothing is lost when a benchmark is stopped. Where only
    results.jsonl.gz is there, as a release keeps its runs, it is read; the first line added unpacks it."""

    def __init__(self, path):
        """Reads what is there; of two lines with one key the later counts. A last line without its end was cut off while
        it was written, and is dropped from the file. Raises InputError with file and line for what is no result."""
        self.path, self.results = path, {}
        self.packed = not os.path.exists(path) and os.path.exists(path + ".gz")
        for number, line in enumerate(self.read().split(b"\n")[:-1], 1):
            try:
                result = from_line(line.decode())
            except InputError as error:
                raise InputError(f"{path}:{number}: {error}") from None
            self.results[result.key()] = result

    def read(self):
        if self.packed:
            try:
                with gzip.open(self.path + ".gz") as file:
                    return file.read()
            except (OSError, EOFError, zlib.error) as error:
                raise InputError(f"{self.path}.gz: cannot be unpacked: {error}") from None
        if not os.path.exists(self.path):
            return b""
        with open(self.path, "rb+") as file:
            content = file.read()
            file.truncate(content.rfind(b"\n") + 1)
        return content

    def add(self, result):
        self.results[result.key()] = result
        if self.packed:
            self.packed = False
            write(self.path, "".join(to_line(one) + "\n" for one in self.results.values()))
            return
        with open(self.path, "a", encoding="utf-8") as file:
            file.write(to_line(result) + "\n")

    def pack(self):
        """Leaves results.jsonl.gz, the same bytes from the same results, in place of results.jsonl."""
        text = "".join(to_line(one) + "\n" for one in self.results.values())
        with open(self.path + ".gz.part", "wb") as file:
            file.write(gzip.compress(text.encode(), mtime=0))
        os.replace(self.path + ".gz.part", self.path + ".gz")
        if os.path.exists(self.path):
            os.remove(self.path)
        self.packed = True


class BestKnown:
    """The best schedule known of every instance, budget and number of computes, with the recomputes that make it: pairs
    [stage, op] of the staged form. A claim that anyone can check; a test does."""

    FORMAT = "remora-best-known"
    TEXTS = "instance graph_sha256 budget who when".split()
    NUMBERS = "budget_bytes max_computes baseline_duration duration lower_bound".split()

    def __init__(self, path):
        """Empty where there is no such file. Raises InputError with the JSON path."""
        self.path, self.entries = path, {}
        if not path or not os.path.exists(path):
            return
        try:
            with open(path, encoding="utf-8") as file:
                root = Node(load_json(file.read()))
            root.expect_format(self.FORMAT)
            for node in root.at("entries").elements():
                self.check(node)
                if self.key(node.value) in self.entries:
                    node.fail("is there already")
                self.entries[self.key(node.value)] = node.value
        except InputError as error:
            raise InputError(f"{path}: {error}") from None

    def check(self, node):
        for name in self.TEXTS:
            node.at(name).of(str)
        for name in self.NUMBERS:
            node.at(name).of(int)
        for pair in node.at("recomputes").elements():
            if len(pair.of(list)) != 2 or any(element.of(int) < 0 for element in pair.elements()):
                pair.fail("must be [stage, op]")

    @staticmethod
    def key(entry):
        return entry["instance"], entry["budget"], entry["max_computes"]

    def find(self, instance, graph_sha256, budget, max_computes):
        """The entry, if it is of a graph of this content."""
        entry = self.entries.get((instance, budget, max_computes))
        return entry if entry and entry["graph_sha256"] == graph_sha256 else None

    def instance_of(self, entry):
        """How its graph is had."""
        instance = Instance(entry["instance"], make=entry.get("make", []), reading=entry.get("reading", []))
        if "file" in entry:
            instance.file = os.path.join(os.path.dirname(self.path), entry["file"])
        return instance

    def entry_of(self, instance, result, plan):
        """The claim of a run that found a verified schedule in input order."""
        entry = {"instance": instance.name}
        if instance.file:
            entry["file"] = os.path.relpath(instance.file, os.path.dirname(self.path) or ".")
        entry |= {key: value for key, value in (("make", instance.make), ("reading", instance.reading)) if value}
        return entry | {"graph_sha256": result.graph_sha256, "budget": result.budget, "budget_bytes": result.budget_bytes,
                        "max_computes": result.max_computes, "baseline_duration": result.baseline_duration,
                        "duration": result.duration, "lower_bound": result.lower_bound,
                        "overhead": round(result.overhead(), 4), "who": f"{result.contender} ({result.version})",
                        "when": result.when.partition("T")[0], "recomputes": plan}

    def learn(self, news):
        """Takes over what is better: a shorter schedule, a higher bound, whoever has it. A graph of the same name but other
        content replaces what was known. Whether anything was better."""
        known = self.entries.setdefault(self.key(news), news)
        if known is news:
            return True
        if any(known[name] != news[name] for name in ("graph_sha256", "budget_bytes")):
            self.entries[self.key(news)] = news
            return True
        bound = max(known["lower_bound"], news["lower_bound"])
        better = news["duration"] < known["duration"]
        is_news = better or bound > known["lower_bound"]
        self.entries[self.key(news)] = (news if better else known) | {"lower_bound": bound}
        return is_news

    def save(self):
        lines = (json.dumps(self.entries[key], ensure_ascii=False) for key in sorted(self.entries))
        write(self.path, f'{{"format": "{self.FORMAT}", "version": 1, "entries": [\n  ' + ",\n  ".join(lines) + "\n]}\n")


def write(path, text):
    """Whole or not at all."""
    with open(path + ".part", "w", encoding="utf-8") as file:
        file.write(text)
    os.replace(path + ".part", path)
