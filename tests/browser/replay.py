# SPDX-License-Identifier: Apache-2.0
"""What a schedule does, computed from its two JSON files alone: the truth that the page is compared with."""


class Replay:
    """Steps of {"op", "free"} on a graph: memory at every step, and what is resident there."""

    def __init__(self, graph, steps):
        self.graph = graph
        self.sizes = {tensor["name"]: tensor["size"] for tensor in graph["tensors"]}
        self.ops = {op["name"]: op for op in graph["ops"]}
        produced = {tensor for op in graph["ops"] for tensor in op["outputs"]}
        inputs = sum(size for name, size in self.sizes.items() if name not in produced)
        self.base = graph.get("fixed_memory", 0) + inputs
        self.names, self.memory, self.residents, self.again = [], [], [], []
        resident, computed = set(), set()
        for step in steps:
            op = self.ops[step["op"]]
            resident |= set(op["outputs"])
            self.names.append(step["op"])
            self.again.append(step["op"] in computed)
            computed.add(step["op"])
            self.residents.append(frozenset(resident))
            self.memory.append(self.base + sum(self.sizes[name] for name in resident) + op.get("workspace", 0))
            resident -= set(step["free"])
        self.peak_step = self.memory.index(max(self.memory))


def input_order(graph):
    """Every op once, each tensor released after its last use."""
    keep = {tensor["name"] for tensor in graph["tensors"] if tensor.get("keep")}
    produced = {tensor for op in graph["ops"] for tensor in op["outputs"]}
    last = {tensor: i for i, op in enumerate(graph["ops"]) for tensor in op["inputs"] + op["outputs"]}
    steps = [{"op": op["name"], "free": []} for op in graph["ops"]]
    for tensor, i in last.items():
        if tensor in produced and tensor not in keep:
            steps[i]["free"].append(tensor)
    return steps


def recomputed(graph, schedule):
    """{op: {"times", "paid", "saved", "above", "steps"}}: the page's table, found by looking at every step."""
    after, before = Replay(graph, schedule["steps"]), Replay(graph, input_order(graph))
    held = dict(zip(before.names, before.memory))
    rows = {}
    for step, name in enumerate(after.names):
        if not after.again[step]:
            continue
        op = after.ops[name]
        gone = schedule["steps"][step - 1]["free"]
        back = {t for t in op["outputs"] if t not in after.residents[step - 1] or t in gone}
        row = rows.setdefault(name, {"times": 0, "paid": 0, "saved": 0, "above": 0, "steps": 0})
        row["times"] += 1
        row["paid"] += op["duration"]
        row["saved"] = max(row["saved"], sum(after.sizes[t] for t in back))
        away, i = set(back), step - 1
        while away := {t for t in away if t not in after.residents[i]}:
            if not after.again[i] and held[after.names[i]] > schedule["budget"]:
                row["steps"] += 1
                row["above"] = max(row["above"], held[after.names[i]] - schedule["budget"])
            i -= 1
    return rows


def bytes_text(count):
    """As people write it: 3.21 GiB."""
    unit, value = 0, count
    while value >= 1024:
        unit, value = unit + 1, value / 1024
    return f"{count} B" if unit == 0 else f"{value:.2f} {('KiB', 'MiB', 'GiB', 'TiB')[unit - 1]}"


def time_text(nanoseconds):
    unit, value = 0, nanoseconds
    while value >= 1000 and unit < 3:
        unit, value = unit + 1, value / 1000
    return f"{nanoseconds} ns" if unit == 0 else f"{value:.2f} {('µs', 'ms', 's')[unit - 1]}"
