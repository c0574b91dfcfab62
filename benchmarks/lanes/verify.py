#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Replays a schedule whose streams run beside each other, by docs/reference/formats.md alone.

usage: verify.py GRAPH.json SCHEDULE.json

Reads a `remora-graph` with devices (version 2 or 3) and its `remora-schedule`, shares no code with the project, uses
the standard library alone, and prints one JSON object: {"valid", "errors", "duration", "energy", "peak_memory",
"starts", "steps"}. Exit status 0 if valid, 1 if not, 2 if a file cannot be read. Amounts are exact integers; `starts`
has the time at which each step starts.
"""
import json
import sys


def ceil_div(amount, divisor):
    return -(-amount // divisor)


def homes_of(tensor, default):
    """Its `home`: an array of devices for a graph's input, one device for a tensor that is kept."""
    home = tensor.get("home", default)
    return [home] if isinstance(home, str) else home


class Costs:
    """What runs, copies and collectives take, and where."""

    def __init__(self, graph):
        self.graph = graph
        self.devices = [d["name"] for d in graph["devices"]]
        self.lanes = {d["name"]: d.get("lanes", [""]) if graph["version"] >= 3 else [""] for d in graph["devices"]}
        self.links = {(x["from"], x["to"]): x for x in graph.get("links", [])}
        self.size = {t["name"]: t["size"] for t in graph["tensors"]}
        self.measured = {(t["name"], c["from"], c["to"]): c for t in graph["tensors"] for c in t.get("copy", [])}

    def run(self, op, device):
        """(lane, duration, workspace, energy), or None where the op cannot run."""
        if "on" in op:
            cost = op["on"].get(device)
        else:
            cost = op if device == self.devices[0] else None
        if cost is None:
            return None
        lane = cost.get("lane", self.lanes[device][0]) if self.graph["version"] >= 3 else ""
        if lane not in self.lanes[device]:
            return None
        lasts = cost["duration"] if "duration" in cost else self.collective(op["collective"])
        return lane, lasts, cost.get("workspace", 0), cost.get("energy", 0)

    def collective(self, asked):
        for row in self.graph.get("collectives", []):
            group = asked.get("group", 1)
            if row["kind"] != asked["kind"] or row.get("group", group) != group:
                continue
            size = asked["bytes"]
            if "times" not in row:
                return row.get("latency", 0) + ceil_div(size * row["per"], row["bytes"])
            points = row["times"]
            if size <= points[0][0]:
                return points[0][1]
            if size > points[-1][0]:
                return ceil_div(points[-1][1] * size, max(1, points[-1][0]))
            for (x0, y0), (x1, y1) in zip(points, points[1:]):
                if size <= x1:
                    return ceil_div(y0 * (x1 - size) + y1 * (size - x0), x1 - x0)
        raise KeyError("a collective without a row in \"collectives\"")

    def copy(self, tensor, source, target):
        """(duration, energy), or None without a link."""
        link = self.links.get((source, target))
        if link is None:
            return None
        known = self.measured.get((tensor, source, target))
        if known is not None:
            return known["duration"], known.get("energy", 0)
        lasts = link.get("latency", 0) + ceil_div(self.size[tensor] * link["per"], link["bytes"])
        return lasts, link.get("energy", 0)


class Memory:
    """Of one device: taken in the order of the steps, given back at times."""

    def __init__(self, always, budget):
        self.held = always
        self.peak = always
        self.budget = budget
        self.returns = []
        self.last_start = 0

    def due(self, time):
        return sum(amount for when, amount in self.returns if when <= time)

    def take(self, earliest, amount):
        """When a step may start that takes so much; None if that never fits."""
        earliest = max(earliest, self.last_start)
        times = [earliest] + sorted(when for when, _ in self.returns if when > earliest)
        for time in times:
            now = self.held - self.due(time) + amount
            if self.budget is None or now <= self.budget:
                self.held += amount
                self.last_start = time
                self.peak = max(self.peak, now)
                return time
        return None


class Replay:
    def __init__(self, graph, schedule):
        self.graph, self.schedule = graph, schedule
        self.costs = Costs(graph)
        self.ops = {op["name"]: op for op in graph["ops"]}
        self.errors = []
        self.overlap = schedule.get("copies", "sequential") == "overlap"
        self.fresh = graph.get("recompute_allocates", "missing") == "all"
        self.made = {t for op in graph["ops"] for t in op["outputs"]}
        # What is resident: when it is there, and until when it is read.
        self.stays = {}
        self.homes = set()
        for tensor in graph["tensors"]:
            if tensor["name"] not in self.made:
                for device in homes_of(tensor, self.costs.devices[:1]):
                    self.homes.add((tensor["name"], device))
                    self.stays[tensor["name"], device] = [0, 0]
        self.memory = {}
        for device in graph["devices"]:
            name = device["name"]
            always = device.get("fixed_memory", 0) + sum(self.costs.size[t] for t, d in self.homes if d == name)
            self.memory[name] = Memory(always, schedule.get("budget", {}).get(name))
        self.idle = {}
        self.first_end = {}
        self.runs = {name: 0 for name in self.ops}
        self.order = []
        self.starts, self.duration, self.energy, self.now = [], 0, 0, 0

    def error(self, text):
        self.errors.append(f"step {len(self.starts)}: {text}")

    def begin(self, stream, device, earliest, lasts, taken):
        """Starts a step; one thing at a time where streams do not run beside each other."""
        earliest = max(earliest, self.idle.get(stream, 0)) if self.overlap else self.now
        start = self.memory[device].take(earliest, taken)
        if start is None:
            self.error(f"waits for ever for {taken} bytes on {device}")
            start = earliest
        if not self.overlap and start > earliest:
            self.error(f"{device} is over its budget")
        end = start + lasts
        self.idle[stream] = self.now = end
        self.duration = max(self.duration, end)
        self.starts.append(start)
        return end

    def read(self, key, end):
        self.stays[key][1] = max(self.stays[key][1], end)

    def copy(self, step):
        tensor, source, target = step["copy"], step["from"], step["to"]
        cost = self.costs.copy(tensor, source, target)
        if cost is None or (tensor, source) not in self.stays or (tensor, target) in self.stays:
            self.error(f"{tensor} cannot be copied from {source} to {target}")
            self.starts.append(0)
            return None, {}
        ready = self.stays[tensor, source][0]
        end = self.begin((source, target), target, ready, cost[0], self.costs.size[tensor])
        self.energy += cost[1]
        self.read((tensor, source), end)
        self.stays[tensor, target] = [end, end]
        return end, {}

    def run(self, step):
        op = self.ops[step["op"]]
        device = step.get("device", self.costs.devices[0])
        cost = self.costs.run(op, device)
        missing = [t for t in op["inputs"] if (t, device) not in self.stays]
        late = [name for name in op.get("after", []) if self.runs[name] == 0]
        if cost is None or missing or late:
            self.error(f"{op['name']} cannot run on {device} now: {missing or late or 'no such place'}")
            self.starts.append(0)
            return None, {}
        lane, lasts, workspace, energy = cost
        freed = {(f, device) if isinstance(f, str) else tuple(f) for f in step["free"]}
        waits = [self.stays[t, device][0] for t in op["inputs"]] + [self.first_end[n] for n in op.get("after", [])]
        earliest = max(waits, default=0)
        taken, taken_over = workspace, {}
        pairs = dict(op.get("in_place", []))
        for tensor in op["outputs"]:
            there = (tensor, device) in self.stays
            if there and not self.fresh:
                continue
            taken += self.costs.size[tensor]
            source = pairs.get(tensor)
            if not there and source in self.made and (source, device) in freed and (source, device) in self.stays:
                shared = min(self.costs.size[tensor], self.costs.size[source])
                taken -= shared
                taken_over[source] = shared
                earliest = max(earliest, self.stays[source, device][1])
        end = self.begin((device, device, lane), device, earliest, lasts, taken)
        self.energy += energy
        returns = self.memory[device].returns
        returns.append((end, workspace))
        for tensor in op["inputs"]:
            self.read((tensor, device), end)
        for tensor in op["outputs"]:
            old = self.stays.get((tensor, device))
            if old is not None and not self.fresh:
                continue
            if old is not None:
                returns.append((max(old[1], end), self.costs.size[tensor]))
            self.stays[tensor, device] = [end, end]
        self.count(op, device)
        self.first_end.setdefault(op["name"], end)
        return end, {(t, device): shared for t, shared in taken_over.items()}

    def count(self, op, device):
        self.runs[op["name"]] += 1
        again = self.runs[op["name"]] > 1
        self.order.append((op["name"], device, again))
        limits = [op.get("max_computes"), self.schedule.get("solver", {}).get("limits", {}).get("max_computes")]
        never = op.get("recompute", self.usual(op)) == "never"
        if again and (never or any(limit and self.runs[op["name"]] > limit for limit in limits)):
            self.error(f"{op['name']} runs too often")

    def usual(self, op):
        """What is summed over devices is summed once."""
        kind = op.get("collective", {}).get("kind") if self.graph["version"] >= 3 else None
        return "never" if kind in ("all_reduce", "reduce", "reduce_scatter") else "allowed"

    def check_order(self):
        """First runs in the order of the file; between two of them recomputes likewise, none twice on a device."""
        if self.schedule["order"] != "input":
            return
        names = [op["name"] for op in self.graph["ops"]]
        if [name for name, _, again in self.order if not again] != [n for n in names if self.runs[n]]:
            self.errors.append("first runs do not follow the input order")
        latest = (-1, -1)
        for name, device, again in self.order:
            place = (names.index(name), self.costs.devices.index(device))
            if again and place <= latest:
                self.errors.append("recomputes of a stage do not follow the input order")
            latest = place if again else (-1, -1)

    def result(self):
        for step in self.schedule["steps"]:
            end, taken_over = self.copy(step) if "copy" in step else self.run(step)
            if end is None:
                break
            device = step["from"] if "copy" in step else step.get("device", self.costs.devices[0])
            for entry in step["free"]:
                key = (entry, device) if isinstance(entry, str) else tuple(entry)
                stay = self.stays.get(key)
                if stay is None or key in self.homes:
                    self.error(f"{key} cannot be released")
                    continue
                back = self.costs.size[key[0]] - taken_over.get(key, 0)
                self.memory[key[1]].returns.append((max(stay[1], end) if self.overlap else end, back))
                del self.stays[key]
        self.finish()
        peaks = {d: m.peak for d, m in self.memory.items()}
        return {"valid": not self.errors, "errors": self.errors[:20], "duration": self.duration, "energy": self.energy,
                "peak_memory": peaks, "starts": self.starts, "steps": len(self.starts)}

    def finish(self):
        self.errors += [f"{name} never runs" for name, count in self.runs.items() if count == 0]
        for tensor in self.graph["tensors"]:
            kept = any((tensor["name"], d) in self.stays for d in homes_of(tensor, self.costs.devices))
            if tensor.get("keep") and tensor["name"] in self.made and not kept:
                self.errors.append(f"{tensor['name']} is not there at the end")
        for name, memory in self.memory.items():
            if memory.budget is not None and memory.peak > memory.budget:
                self.errors.append(f"{memory.peak} bytes on {name} exceed {memory.budget}")
        self.check_order()
        said = self.schedule
        for what, amount in (("duration", self.duration), ("energy", self.energy)):
            if said.get(what, amount) != amount:
                self.errors.append(f"the schedule says {what} {said[what]}, the replay {amount}")
            if said.get(what + "_limit") is not None and amount > said[what + "_limit"]:
                self.errors.append(f"{what} is above its limit")
        for name, memory in self.memory.items():
            peak = said["peak_memory"].get(name, 0)
            if peak != memory.peak:
                self.errors.append(f"the schedule says {peak} bytes on {name}, the replay {memory.peak}")


def main(arguments):
    if len(arguments) != 2:
        print(__doc__.split("\n\n")[1], file=sys.stderr)
        return 2
    try:
        graph, schedule = (json.load(open(path, encoding="utf-8")) for path in arguments)
        if graph.get("format") != "remora-graph" or graph["version"] not in (2, 3) or "devices" not in graph:
            raise ValueError(f"{arguments[0]}: not a remora-graph with devices, of version 2 or 3")
        if schedule.get("format") != "remora-schedule" or schedule["version"] != 2:
            raise ValueError(f"{arguments[1]}: not a remora-schedule of version 2")
        result = Replay(graph, schedule).result()
    except (OSError, ValueError, KeyError, TypeError) as fault:
        print(f"verify.py: {fault}", file=sys.stderr)
        return 2
    print(json.dumps(result))
    return 0 if result["valid"] else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
