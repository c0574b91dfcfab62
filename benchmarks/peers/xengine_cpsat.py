#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""XEngine's program (Schuler et al. 2022, eq. 1 to 16) on CP-SAT, a peer to measure the engine against.

Written from the paper alone. Stages t and ops i are numbered alike; stage t ends with the first compute of op t. By device d:

    R[d,t,i]  op i is computed in stage t on d            S[d,t,i]  its output is there when stage t begins
    Z[d,t,i]  either                                      F[d,t,e]  the tensor of e = (u -> v) is freed there after v
    U[d,t,i]  memory in use after op i's place in stage t

What an op reads and finds on another device alone is copied for this one run and is gone after it. Products of two 0/1 variables are
written as clauses, which CP-SAT's variables allow exactly. Where the paper is silent, a comment beginning with "Our choice" says what is
done here.

It reads a remora-graph 2, writes one JSON object with what was found (and with -o a remora-schedule), and ends with 0, or 20 (infeasible),
21 (none found), 64 (usage), 65 (bad input).
"""
import time

PROCESS_STARTED = time.monotonic()  # The time limit includes the import of OR-Tools.

# pylint: disable=wrong-import-position
import argparse
import hashlib
import json
import math
import sys

from ortools.sat.python import cp_model


class Graph:
    """What the program asks of a graph; devices, ops and tensors by number."""

    def __init__(self, data):
        self.devices = [device["name"] for device in data["devices"]]
        self.names = [op["name"] for op in data["ops"]]
        number = {name: d for d, name in enumerate(self.devices)}
        tensors = {tensor["name"]: tensor for tensor in data["tensors"]}
        producer = {output: i for i, op in enumerate(data["ops"]) for output in op["outputs"]}
        self.base = [device.get("fixed_memory", 0) for device in data["devices"]]
        for name, tensor in tensors.items():
            if name not in producer:
                for home in tensor.get("home", self.devices[:1]):
                    self.base[number[home]] += tensor["size"]
        links = {(number[link["from"]], number[link["to"]]): link for link in data.get("links", [])}

        def copy(name, source, target):
            for measured in tensors[name].get("copy", []):
                if (number[measured["from"]], number[measured["to"]]) == (source, target):
                    return measured["duration"]
            link = links.get((source, target))
            return None if link is None else link.get("latency", 0) + -(-tensors[name]["size"] * link["per"] // link["bytes"])

        # Our choice: an op's outputs are one tensor, and an edge carries what its reader reads of them.
        self.outputs = [op["outputs"] for op in data["ops"]]
        self.size = [sum(tensors[name]["size"] for name in op["outputs"]) for op in data["ops"]]
        self.keep = [any(tensors[name].get("keep", False) for name in op["outputs"]) for op in data["ops"]]
        if any(tensors[name].get("keep", False) and "home" in tensors[name] for name in producer):
            raise ValueError("a tensor that must be kept on a certain device is beyond this program")
        self.cost, self.workspace, self.edges, self.inputs = [], [], {}, []
        for v, op in enumerate(data["ops"]):
            runs = op.get("on") or {self.devices[0]: {"duration": op["duration"], "workspace": op.get("workspace", 0)}}
            cost, workspace = {}, {}
            read = list(dict.fromkeys(op["inputs"]))
            self.inputs.append([name for name in read if name not in producer])
            for name, run in runs.items():
                d = number[name]
                extra = 0
                for tensor in self.inputs[-1]:
                    homes = [number[home] for home in tensors[tensor].get("home", self.devices[:1])]
                    if d in homes:
                        continue
                    ways = [way for way in (copy(tensor, home, d) for home in homes) if way is not None]
                    extra = None if extra is None or not ways else extra + min(ways)
                    workspace[d] = workspace.get(d, 0) + tensors[tensor]["size"]
                if extra is not None:
                    # Our choice: inputs of the graph are copied for each run from their cheapest home.
                    cost[d] = run["duration"] + extra
                    workspace[d] = workspace.get(d, 0) + run.get("workspace", 0)
            self.cost.append(cost)
            self.workspace.append(workspace)
            for tensor in read:
                if tensor in producer:
                    self.edges.setdefault((producer[tensor], v), []).append(tensor)
        self.copies = {}
        for edge, names in self.edges.items():
            for source in range(len(self.devices)):
                for target in range(len(self.devices)):
                    ways = [copy(name, source, target) for name in names] if source != target else [0]
                    self.copies[edge, source, target] = None if None in ways else sum(ways)
        self.read_size = {edge: sum(tensors[name]["size"] for name in names) for edge, names in self.edges.items()}


class Program:
    """Equations 1 to 16."""

    def __init__(self, graph, budgets):
        self.graph, self.budgets = graph, budgets
        self.derived = []  # variables with what they are by those before them, for the hint
        self.model = model = cp_model.CpModel()
        self.ops = ops = len(graph.names)
        self.places = places = range(len(graph.devices))
        self.last = last = ops + 1 if any(graph.keep) else ops
        self.users = [[] for _ in range(ops)]
        for u, v in graph.edges:
            self.users[u].append(v)
        self.run = {(d, t, i): model.new_bool_var("") for t in range(ops) for i in range(t + 1) for d in graph.cost[i]}  # (2), (7)
        self.saved = {(d, t, i): model.new_bool_var("") for t in range(last) for i in range(min(t, ops)) for d in places}  # (2), (10)
        self.there = {(d, t, i): model.new_bool_var("") for t in range(ops) for i in range(t + 1) for d in places}  # (5)
        unit = [math.gcd(*graph.size, *(amount for w in graph.workspace for amount in w.values()), budgets[d] - graph.base[d]) or 1
                for d in places]
        terms = []
        for t in range(ops):
            model.add_exactly_one(self.run[d, t, t] for d in graph.cost[t])  # (8), (9)
            for i in range(t + 1):
                for d in places:
                    either = [x for x in (self.run.get((d, t, i)), self.saved.get((d, t, i))) if x is not None]
                    model.add_bool_or([self.there[d, t, i].negated(), *either])  # (5)
                    for x in either:
                        model.add_implication(x, self.there[d, t, i])
                    if (d, t, i) in self.run:
                        terms.append(graph.cost[i][d] * self.run[d, t, i])
        for (d, t, i), x in self.saved.items():
            if t > 0:
                earlier = [y for y in (self.saved.get((d, t - 1, i)), self.run.get((d, t - 1, i))) if y is not None]
                model.add_bool_or([x.negated(), *earlier])  # (11)
        for i in range(ops):
            if graph.keep[i]:
                model.add_bool_or([self.saved[d, last - 1, i] for d in places])
        copied = {}
        for t in range(ops):
            for (u, v) in graph.edges:
                if v > t:
                    continue
                for target in graph.cost[v]:
                    run = self.run[target, t, v]
                    ways = []
                    for source in places:
                        price = graph.copies[(u, v), source, target]
                        if price is None:
                            continue
                        ways.append(self.there[source, t, u])
                        if source != target:  # the quadratic term of (1)
                            both = model.new_bool_var("")
                            model.add_bool_or([both, run.negated(), self.there[source, t, u].negated()])
                            self.derived.append((both, lambda value, run=run, there=self.there[source, t, u]: value(run) * value(there)))
                            terms.append(price * both)
                    model.add_bool_or([run.negated(), *ways])  # (12)
                    # Our choice: what is copied for a run takes memory while it lasts (the paper's U leaves it out).
                    copied[target, t, u, v] = model.new_bool_var("")
                    model.add_bool_or([copied[target, t, u, v], run.negated(), self.there[target, t, u]])
                    self.derived.append((copied[target, t, u, v], lambda value, run=run, there=self.there[target, t, u]: value(run) * (1 - value(there))))
        for d in places:
            self.add_memory(d, unit[d], copied)
        model.minimize(sum(terms))
        self.hint()

    def hint(self):
        """Our choice: a start with every op once on its fastest device, all of it saved until its last reader."""
        graph = self.graph
        fastest = [min(cost, key=cost.get) for cost in graph.cost]
        latest = [self.last if keep else max(users, default=-1) for keep, users in zip(graph.keep, self.users)]
        values = {}

        def value(x):
            return 1 - values[x.negated().index] if x.index < 0 else values[x.index]

        for (d, t, i), x in self.run.items():
            values[x.index] = int(i == t and fastest[i] == d)
        for (d, t, i), x in self.saved.items():
            values[x.index] = int(fastest[i] == d and t <= latest[i])
        for (d, t, i), x in self.there.items():
            values[x.index] = int(fastest[i] == d and (t == i or t <= latest[i]))
        for x, of in self.derived:
            values[x.index] = int(of(value))
        for i, amount in values.items():
            self.model.add_hint(self.model.get_int_var_from_proto_index(i), amount)

    def add_memory(self, d, unit, copied):
        """(6), (13) to (16): memory in multiples of `unit`."""
        graph, model = self.graph, self.model
        room = (self.budgets[d] - graph.base[d]) // unit
        if room < 0:
            model.add_bool_or([])
            return
        sources = [[] for _ in range(self.ops)]
        for u, v in graph.edges:
            sources[v].append(u)
        for t in range(self.ops):
            terms = [(self.saved[d, t, i], graph.size[i] // unit) for i in range(t)]  # (13)
            for v in range(t + 1):
                if (d, t, v) not in self.run:
                    continue
                run = self.run[d, t, v]
                now = model.new_int_var(0, room, "")  # (6)
                # What is saved and computed again is there once.
                again = self.saved.get((d, t, v))
                terms.append((run, graph.size[v] // unit))
                if again is not None:
                    terms.append((self.both(run, again), -(graph.size[v] // unit)))
                model.add(now == sum(factor * x for x, factor in terms))  # (14)
                self.derived.append((now, lambda value, terms=tuple(terms): sum(factor * value(x) for x, factor in terms)))
                beside = sum(copied[d, t, u, v] * (graph.read_size[u, v] // unit) for u in sources[v])
                model.add(now + beside + run * (-(-graph.workspace[v].get(d, 0) // unit)) <= room)
                terms = [(now, 1)]
                for u in [*sources[v], v]:  # (15), (16)
                    free = model.new_bool_var("")
                    # Our choice: a later reader on another device may still copy it, and counts as well.
                    hazards = [run.negated()] + [self.run[e, t, x] for x in self.users[u] if v < x <= t for e in graph.cost[x]]
                    if (d, t + 1, u) in self.saved:
                        hazards.append(self.saved[d, t + 1, u])
                    if u != v:
                        hazards.append(self.there[d, t, u].negated())
                    for hazard in hazards:
                        model.add_implication(free, hazard.negated())
                    model.add_bool_or([free, *hazards])
                    self.derived.append((free, lambda value, run=run, later=tuple(hazards[1:]): value(run) * (1 - max(map(value, later), default=0))))
                    terms.append((free, -(graph.size[u] // unit)))

    def both(self, a, b):
        x = self.model.new_bool_var("")
        self.model.add_bool_or([x, a.negated(), b.negated()])
        self.model.add_implication(x, a)
        self.model.add_implication(x, b)
        self.derived.append((x, lambda value: value(a) * value(b)))
        return x

    def steps(self, value):
        """The schedule, with each copy released by the run that it was for."""
        graph, steps, resident = self.graph, [], set()

        def release(entries):
            for name, d in entries:
                resident.discard((name, d))
            return [[name, graph.devices[d]] for name, d in entries]

        for t in range(self.ops):
            for v in range(t + 1):
                for d in graph.cost[v]:
                    if not value(self.run[d, t, v]):
                        continue
                    brought = []
                    for u in (u for u, w in graph.edges if w == v):
                        for name in graph.edges[u, v]:
                            if (name, d) not in resident:
                                ways = [(graph.copies[(u, v), e, d], e) for e in self.places if (name, e) in resident and graph.copies[(u, v), e, d] is not None]
                                steps.append({"copy": name, "from": graph.devices[min(ways)[1]], "to": graph.devices[d], "free": []})
                                brought.append((name, d))
                    steps.append({"op": graph.names[v], "device": graph.devices[d], "free": []})
                    resident.update((name, d) for name in graph.outputs[v])
                    gone = list(brought)
                    for i in range(t + 1):
                        later = any(value(self.run[e, t, x]) for x in self.users[i] if v < x <= t for e in graph.cost[x])
                        kept = (d, t + 1, i) in self.saved and value(self.saved[d, t + 1, i])
                        if not later and not kept:
                            gone += [(name, d) for name in graph.outputs[i] if (name, d) in resident and (name, d) not in gone]
                    steps[-1]["free"] = release(gone)
        return steps


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("graph")
    parser.add_argument("--budget", required=True, help="DEVICE=BYTES,... for every device")
    parser.add_argument("--time-limit", type=float, default=60)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    try:
        with open(options.graph, "rb") as file:
            text = file.read()
        graph = Graph(json.loads(text))
        budgets = dict(entry.split("=") for entry in options.budget.split(","))
        program = Program(graph, [int(budgets[name]) for name in graph.devices])
    except (KeyError, TypeError, ValueError) as fault:
        print(f"xengine_cpsat: {options.graph}: {fault!r}", file=sys.stderr)
        return 65
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = options.threads
    solver.parameters.random_seed = options.seed
    solver.parameters.max_time_in_seconds = max(0.1, options.time_limit - (time.monotonic() - PROCESS_STARTED))
    status = solver.solve(program.model)
    row = {"graph_sha256": hashlib.sha256(text).hexdigest(), "seconds": round(time.monotonic() - PROCESS_STARTED, 2)}
    if status in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        row |= {"status": "optimal" if status == cp_model.OPTIMAL else "feasible", "cost": round(solver.objective_value),
                "bound": math.ceil(solver.best_objective_bound - 1e-6), "steps": program.steps(solver.boolean_value)}
    else:
        row["status"] = "infeasible" if status == cp_model.INFEASIBLE else "unknown"
    print(json.dumps(row))
    return {"optimal": 0, "feasible": 0, "infeasible": 20}.get(row["status"], 21)


if __name__ == "__main__":
    sys.exit(main())
