# SPDX-License-Identifier: Apache-2.0
"""What trainers do today to hold a budget, as schedules of a graph with lanes.

A rule says of each op of the forward part whether it runs again, so which tensors are kept for the backward part.
Blocks are what lies between the first readers of two buckets of gathered parameters, of the group that gathers first.
"""

import bisect

PRODUCTS = ("mm", "bmm", "_grouped_mm", "_scaled_dot_product_cudnn_attention", "flex_attention")


class Step:
    """A graph of remora-graph 3 out of remora.fx, indexed."""

    def __init__(self, graph):
        self.graph = graph
        self.ops = graph["ops"]
        self.number = {op["name"]: v for v, op in enumerate(self.ops)}
        self.producer = {t: v for v, op in enumerate(self.ops) for t in op["outputs"]}
        self.border = next(v for v, op in enumerate(self.ops) if op["phase"] != "forward")
        self.keep = {t["name"] for t in graph["tensors"] if t.get("keep")}
        self.readers = {}
        for v, op in enumerate(self.ops):
            for t in op["inputs"]:
                self.readers.setdefault(t, []).append(v)
        self.gathers = {
            v
            for v, op in enumerate(self.ops[: self.border])
            if "collective" in op and all(t not in self.producer for t in op["inputs"])
        }
        first = {v: min(self.readers[t][0] for t in self.ops[v]["outputs"]) for v in self.gathers}
        lane = self.ops[min(self.gathers)]["lane"]
        starts = sorted(first[v] for v in self.gathers if self.ops[v]["lane"] == lane)
        self.block = [bisect.bisect_right(starts, v) for v in range(self.border)]
        for v in self.gathers:
            self.block[v] = bisect.bisect_right(starts, first[v])

    def rules(self, published):
        """By name, the ops of the forward part that run again, and whether whole blocks do so at once."""
        inner = [v for v in range(self.border) if v not in self.gathers]
        last = max(self.block)
        whole = {v for v in inner if 1 < self.block[v] < last}
        other = {v for v in whole if self.block[v] % 2 == 0}
        light = {v for v in inner if self.ops[v]["type"] not in PRODUCTS and "collective" not in self.ops[v]}
        rules = {
            "keep all": (set(), False),
            "selective": (light, False),
            "alternate blocks": (other, True),
            "all blocks": (whole, True),
        }
        both = {}
        for name, (again, at_once) in rules.items():
            both[name] = (again, at_once)
            both[name + ", gathered again"] = (again | self.gathers, at_once)
        both["as compiled"] = ({self.number[name] for name in published}, False)
        return both

    def sequence(self, again, at_once):
        """Runs by op, the first ones in the graph's order; what runs again does so where it is missed first."""
        # What another block reads is kept: a checkpoint's input.
        dropped = {
            t
            for v in again
            for t in self.ops[v]["outputs"]
            if all(w >= self.border or self.block[w] == self.block[v] for w in self.readers.get(t, []))
        }
        last_read = {t: max(vs) for t, vs in self.readers.items()}
        resident = {t for v in range(self.border) for t in self.ops[v]["outputs"]} - dropped
        sequence = list(range(self.border))
        for v in range(self.border, len(self.ops)):
            missed = {t for t in self.ops[v]["inputs"] if t in dropped and t not in resident}
            if missed and at_once:
                blocks = {self.block[self.producer[t]] for t in missed}
                missed |= {
                    t
                    for t in dropped
                    if t not in resident
                    and last_read.get(t, 0) >= v
                    and self.block[self.producer[t]] in blocks
                    and self.producer[t] in again
                }
            runs = self.closure(missed, resident)
            sequence += sorted(runs) + [v]
            resident.update(t for w in [*runs, v] for t in self.ops[w]["outputs"])
            resident -= {t for t in resident if last_read.get(t, 0) <= v}
        return sequence

    def closure(self, missed, resident):
        runs, stack = set(), list(missed)
        while stack:
            v = self.producer[stack.pop()]
            if v in runs:
                continue
            runs.add(v)
            stack += [t for t in self.ops[v]["inputs"] if t in self.producer and t not in resident]
        return runs

    def issued(self, sequence):
        """The sequence with what is gathered again issued early enough to hide, with twice its time to spare."""
        clock, start = 0, []
        for v in sequence:
            start.append(clock)
            clock += 0 if "collective" in self.ops[v] else self.ops[v]["duration"]
        seen, moved, due = set(), {}, {}
        second = [v in seen or seen.add(v) is not None for v in sequence]
        for place in reversed(range(len(sequence))):
            v = sequence[place]
            if not (second[place] and v in self.gathers):
                continue
            lane = self.ops[v]["lane"]
            issue = min(start[place] - 2 * self.ops[v]["duration"], due.get(lane, clock))
            due[lane] = issue
            border = sequence.index(self.border)
            moved.setdefault(max(border + 1, bisect.bisect_left(start, issue, 0, place)), []).append(place)
        gone = {p for places in moved.values() for p in places}
        result, stage = [], []
        for place, v in enumerate(sequence):
            stage += [sequence[p] for p in moved.get(place, [])]
            if place in gone:
                continue
            if second[place]:
                stage.append(v)
                continue
            result += sorted(stage) + [v]
            stage = []
        return result + sorted(stage)

    def schedule(self, again, at_once):
        """A remora-schedule without its figures."""
        sequence = self.issued(self.sequence(again, at_once))
        last, free = {}, [[] for _ in sequence]
        read = {}
        for place, v in enumerate(sequence):
            for t in self.ops[v]["inputs"]:
                if t in self.producer:
                    read[t] = place
            for t in self.ops[v]["outputs"]:
                last.setdefault(t, []).append(place)
        for t, places in last.items():
            reads = [p for p, v in enumerate(sequence) if t in self.ops[v]["inputs"]] if len(places) > 1 else None
            if reads is None:
                if t not in self.keep:
                    free[read.get(t, places[0])].append(t)
                continue
            ends = []
            for i, place in enumerate(places):
                until = places[i + 1] if i + 1 < len(places) else len(sequence)
                inside = [p for p in reads if place < p < until]
                ends.append(inside[-1] if inside else place)
            for i, end in enumerate(ends):
                if i + 1 < len(places) or t not in self.keep:
                    free[end].append(t)
        steps = [{"op": self.ops[v]["name"], "device": "gpu", "free": free[p]} for p, v in enumerate(sequence)]
        return {
            "format": "remora-schedule",
            "version": 2,
            "graph": self.graph["name"],
            "status": "feasible",
            "order": "input",
            "copies": "overlap",
            "budget": {},
            "duration": 0,
            "energy": 0,
            "peak_memory": {},
            "steps": steps,
        }
