# SPDX-License-Identifier: Apache-2.0
"""A benchmark suite: instances x budgets x contenders x seeds, each under a limit (docs/develop/benchmark.md)."""
import dataclasses
import json
import os

# The programs that make graphs.
MAKERS = ("remora", "remora_zoo", "remora_instances")
UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12,
         "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}


class InputError(Exception):
    """Bad input: one line that says where and what."""


@dataclasses.dataclass
class Reference:
    """What others published of the network that an instance is made after. Orientation, not a contender: their graph,
    their machine and their way to measure are others."""
    name: str
    overhead: float  # per cent, of the durations that their schedule adds up to, as ours
    relative_peak: float  # per cent of the peak without recompute
    minutes: float  # until their schedule was there


@dataclasses.dataclass
class Instance:
    """A graph: a `file`, or what `make` (one of MAKERS and its arguments) writes; `reading`: how `remora convert`
    reads it; `arguments`: options of `remora solve` that are part of the problem. Budgets and seconds a run replace the
    suite's where there are any. benchmarks/ab takes the families in turn."""
    name: str
    file: str = ""
    make: list = dataclasses.field(default_factory=list)
    reading: list = dataclasses.field(default_factory=list)
    arguments: list = dataclasses.field(default_factory=list)
    family: str = ""
    budgets: list = dataclasses.field(default_factory=list)
    time_limit: float | None = None
    reference: Reference | None = None


@dataclasses.dataclass
class Contender:
    """One of those that are compared: `arguments` of `remora solve`, or the `command` of another program. `asked`: either
    as the suite has it, in one line. `seeds` replace the suite's; of larger graphs than `most_ops` it is not asked."""
    name: str
    arguments: list = dataclasses.field(default_factory=list)
    command: list = dataclasses.field(default_factory=list)
    program: str = ""  # remora's path, where it is not that of the runner
    asked: str = ""
    seeds: list = dataclasses.field(default_factory=list)
    most_ops: float = float("inf")


@dataclasses.dataclass
class Suite:
    name: str
    time_limit: float = 60
    threads: int = 2
    seeds: list = dataclasses.field(default_factory=lambda: [1])
    budgets: list = dataclasses.field(default_factory=list)
    instances: list = dataclasses.field(default_factory=list)
    contenders: list = dataclasses.field(default_factory=list)

    def override(self, time_limit, threads):
        """What a user types goes before what the suite says anywhere; None leaves it."""
        if time_limit:
            self.time_limit = time_limit
            for instance in self.instances:
                instance.time_limit = None
        self.threads = threads or self.threads


def load_json(text):
    """The value; InputError for text that is no JSON, or has a key twice."""
    def refuse_repeated(pairs):
        if len(dict(pairs)) < len(pairs):
            raise InputError("a key stands twice in " + ", ".join(key for key, _ in pairs))
        return dict(pairs)
    try:
        return json.loads(text, object_pairs_hook=refuse_repeated)
    except ValueError as error:
        raise InputError(f"is not JSON: {error}") from None


def budget_bytes(text, fixed, peak):
    """As model/budget.hpp reads it: bytes, with a unit if there is one, or a percentage of the peak above fixed memory; of
    several devices (gpu=2GiB,cpu=8GiB) the sum."""
    if "=" in text:
        return sum(budget_bytes(part.partition("=")[2], fixed, peak) for part in text.split(","))
    digits = text[:len(text) - len(text.lstrip("0123456789."))]
    suffix = text[len(digits):].lstrip(" ")
    whole, _, part = digits.partition(".")
    if not (whole + part).isdigit() or (suffix != "%" and suffix not in UNITS):
        raise InputError(f"'{text}' is not a budget: bytes (123456, units {' '.join(UNITS)[1:]}) or a percentage (80%)")
    # Exact up to nine digits after the point; the rest is dropped, for amounts are rounded down.
    number, scale = int(whole + part[:9]), 10 ** len(part[:9])
    if suffix == "%":
        return fixed + number * (peak - fixed) // (scale * 100)
    return number * UNITS[suffix] // scale


class Node:
    """A JSON value and the way to it, for messages."""

    KINDS = {str: "a text", int: "a whole number from 0", float: "a number", list: "a list", dict: "an object"}

    def __init__(self, value, path="$"):
        self.value, self.path = value, path

    def fail(self, what):
        raise InputError(f"{self.path}: {what}")

    def of(self, kind):
        """The value, which must be of the kind."""
        kinds = (int, float) if kind is float else (kind,)
        if not isinstance(self.value, kinds) or isinstance(self.value, bool) or (kind is int and self.value < 0):
            self.fail(f"must be {self.KINDS[kind]}")
        return self.value

    def has(self, key):
        return key in self.of(dict)

    def at(self, key):
        if not self.has(key):
            self.fail(f"has no '{key}'")
        return Node(self.value[key], f"{self.path}.{key}")

    def elements(self):
        return [Node(value, f"{self.path}[{i}]") for i, value in enumerate(self.of(list))]

    def list_at(self, key, kind=str):
        """The list of that kind under the key; empty where there is none."""
        return [node.of(kind) for node in self.at(key).elements()] if self.has(key) else []

    def text_at(self, key):
        return self.at(key).of(str) or self.at(key).fail("must not be empty")

    def positive_at(self, key):
        value = self.at(key).of(float)
        return value if value > 0 else self.at(key).fail("must be above 0")

    def expect_format(self, name):
        if not self.has("format") or self.value["format"] != name or self.value.get("version") != 1:
            self.fail(f"is not a {name} of version 1")

    def refuse_unknown(self, known):
        """A key that is misspelt must not silently change what is measured."""
        for key in self.of(dict):
            if key not in known.split():
                self.fail(f"there is no key '{key}'")


class SuiteReader:
    def __init__(self, root, folder, parameters):
        self.root, self.folder, self.parameters, self.used = root, folder, parameters, 0

    def read(self):
        root = self.root
        root.expect_format("remora-suite")
        root.refuse_unknown("format version name time_limit threads seeds budgets instances contenders")
        suite = Suite(root.text_at("name"), budgets=root.list_at("budgets"))
        if root.has("time_limit"):
            suite.time_limit = root.positive_at("time_limit")
        if root.has("threads"):
            suite.threads = root.at("threads").of(int) or root.at("threads").fail("must be above 0")
        if root.has("seeds"):
            suite.seeds = root.list_at("seeds", int) or root.at("seeds").fail("must not be empty")
        for node in root.at("instances").elements():
            for instance in self.instances(node):
                if any(other.name == instance.name for other in suite.instances):
                    node.fail(f"'{instance.name}' is there already")
                if not suite.budgets and not instance.budgets:
                    root.fail(f"there are no budgets for '{instance.name}'")
                suite.instances.append(instance)
        for node in root.at("contenders").elements():
            contender = self.contender(node)
            if any(other.name == contender.name for other in suite.contenders):
                node.fail(f"'{contender.name}' is there already")
            suite.contenders.append(contender)
        if not suite.contenders:
            root.fail("there are no contenders")
        if self.used < len(self.parameters):
            root.fail(f"says nothing of a parameter {{{len(self.parameters)}}}, but '{self.parameters[-1]}' is given")
        return suite

    def path(self, node):
        """A parameter is a path of whoever gives it; what the suite itself says is one beside the suite."""
        text = node.of(str)
        for i, parameter in enumerate(self.parameters, 1):
            if f"{{{i}}}" in text:
                self.used = max(self.used, i)
                text = text.replace(f"{{{i}}}", parameter)
        for i in range(len(self.parameters) + 1, 10):
            if f"{{{i}}}" in text:
                node.fail(f"needs a parameter after the suite for {{{i}}}")
        return text if node.value.startswith("{") else os.path.join(self.folder, text)

    def instances(self, node):
        node.refuse_unknown("name file make folder reading arguments family budgets time_limit reference")
        common = {"reading": node.list_at("reading"), "arguments": node.list_at("arguments"),
                  "budgets": node.list_at("budgets"), "family": node.text_at("family") if node.has("family") else "",
                  "time_limit": node.positive_at("time_limit") if node.has("time_limit") else None}
        if node.has("folder"):
            node.refuse_unknown("folder reading arguments family budgets time_limit")
            folder = self.path(node.at("folder"))
            try:
                files = sorted(entry.name for entry in os.scandir(folder) if entry.is_file())
            except OSError as error:
                raise InputError(f"{folder}: {error.strerror}") from None
            return [Instance(name, os.path.join(folder, name), **common) for name in files]
        name = node.text_at("name")
        if "/" in name:
            node.fail(f"the name '{name}' has a slash")
        if node.has("file") == node.has("make"):
            node.fail("needs either file or make")
        instance = Instance(name, make=node.list_at("make"), **common)
        if node.has("file"):
            instance.file = self.path(node.at("file"))
        elif not instance.make or instance.make[0] not in MAKERS:
            node.at("make").fail(f"only {', '.join(MAKERS)} make graphs")
        if node.has("reference"):
            reference = node.at("reference")
            reference.refuse_unknown("name overhead relative_peak minutes")
            instance.reference = Reference(reference.text_at("name"), reference.at("overhead").of(float),
                                           reference.positive_at("relative_peak"), reference.positive_at("minutes"))
        return [instance]

    def contender(self, node):
        if isinstance(node.value, str):
            return Contender(node.value, ["--strategy", node.value], asked=f"--strategy {node.value}")
        node.refuse_unknown("name arguments command seeds most_ops")
        words = node.list_at("command")
        contender = Contender(node.text_at("name"), node.list_at("arguments"),
                              # Absolute, for a program's name without a slash would be looked for in PATH.
                              [os.path.abspath(os.path.join(self.folder, word)) if word.startswith(("./", "../")) else word
                               for word in words])
        contender.asked = " ".join(contender.arguments or words)
        if bool(contender.arguments) == bool(words):
            node.fail("needs either arguments or command")
        if node.has("seeds"):
            contender.seeds = node.list_at("seeds", int) or node.at("seeds").fail("must not be empty")
        if node.has("most_ops"):
            contender.most_ops = node.at("most_ops").of(int)
        return contender


def read_suite(text, folder, parameters=()):
    """The suite in `text`. Paths (of files and folders, and of a command's words that begin with ./ or ../) are taken from
    `folder`; {1}, {2}, ... in them become `parameters`, all of which must be used. Raises InputError with the JSON path."""
    return SuiteReader(Node(load_json(text)), folder, list(parameters)).read()


SUITES = os.path.join(os.path.dirname(os.path.dirname(os.path.realpath(__file__))), "suites")


class UnknownSuite(Exception):
    """A suite's name that is neither a file nor known."""


def suite_path(name):
    """The file itself, or that of a suite in benchmarks/suites. Raises UnknownSuite."""
    path = name if os.path.exists(name) else os.path.join(SUITES, name + ".json")
    if not os.path.exists(path):
        known = ", ".join(sorted(file.removesuffix(".json") for file in os.listdir(SUITES) if file.endswith(".json")))
        raise UnknownSuite(f"there is no suite '{name}', neither that file nor one of {known}")
    return path


def load_suite(path, parameters=()):
    """The suite in a file. Raises InputError with the file."""
    try:
        with open(path, encoding="utf-8") as file:
            return read_suite(file.read(), os.path.dirname(path), parameters)
    except (InputError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: {error}") from None
