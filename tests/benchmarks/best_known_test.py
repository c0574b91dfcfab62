# SPDX-License-Identifier: Apache-2.0
"""The claims of benchmarks/best_known.json verify: a schedule is made of its recomputes, and replayed. Those of every
fourth instance, or of all if REMORA_ALL_CASES is set in the environment (docs/develop/development.md)."""

import json
import os

import harness_case
from harness.results import BestKnown
from harness.runner import Remora, make_graph
from harness.suite import budget_bytes


def steps_of(graph, plan):
    """The staged form: stage t computes its recomputes, then op t; a tensor is freed after its last use before it is made
    again, or at all unless it is kept."""
    ops, keep = graph["ops"], {tensor["name"] for tensor in graph["tensors"] if tensor.get("keep")}
    order = sorted([(stage, 0, op) for stage, op in plan] + [(stage, 1, stage) for stage in range(len(ops))])
    steps = [{"op": ops[op]["name"], "free": []} for *_, op in order]
    made = {name for op in ops for name in op["outputs"]}
    needed = {name: True for name in keep}  # later, while going backwards
    for step, (*_, number) in zip(reversed(steps), reversed(order)):
        op = ops[number]
        for name in dict.fromkeys(op["outputs"] + op["inputs"]):
            if name in made and not needed.get(name):
                step["free"].append(name)
                needed[name] = True
        for name in op["outputs"]:
            needed[name] = False
        for name in op["inputs"]:
            needed[name] = True
    return steps


class BestKnownClaims(harness_case.HarnessCase):
    def fault_of(self, entry, graph, facts):
        """What is wrong with the claim; empty if nothing is."""
        plan = entry["recomputes"]
        if plan != sorted(plan) or any(not op < stage <= len(graph["ops"]) for stage, op in plan):
            return "its recomputes are no plan"
        if entry["baseline_duration"] != facts.duration:
            return "its baseline is another"
        if entry["lower_bound"] > entry["duration"]:
            return "its bound is above it"
        if entry["budget_bytes"] != budget_bytes(entry["budget"], facts.fixed, facts.peak):
            return "its budget is not " + entry["budget"]
        schedule = {
            "format": "remora-schedule",
            "version": 1,
            "graph": graph["name"],
            "status": "feasible",
            "order": "input",
            "budget": entry["budget_bytes"],
            "duration": entry["duration"],
            "baseline_duration": facts.duration,
            "overhead": 0,
            "peak_memory": 0,
            "baseline_peak_memory": facts.peak,
            "lower_bound": 0,
            "gap": 1,
            "steps": steps_of(graph, plan),
            "solver": {"limits": {"max_computes": entry["max_computes"]}},
        }
        # The peak is no part of the claim: the replay says it, and then all is right.
        errors = self.replay(facts.path, schedule)["errors"]
        if len(errors) == 1 and errors[0].startswith("schedule says peak_memory"):
            return ""
        return (errors or ["a peak of 0 passed"])[0]

    def replay(self, graph, schedule):
        self.write("schedule.json", json.dumps(schedule))
        _, verdict, error = self.remora.ask("verify", graph, self.path("schedule.json"))
        self.assertTrue(verdict, error)
        return json.loads(verdict)

    def test_every_claim_of_the_repository_verifies(self):
        self.remora = Remora(self.bin)
        table = BestKnown(os.path.join(harness_case.BENCHMARKS, "best_known.json"))
        chosen = sorted({entry["instance"] for entry in table.entries.values()})[
            :: 1 if "REMORA_ALL_CASES" in os.environ else 4
        ]
        checked, away, last = 0, 0, ""
        for entry in sorted(table.entries.values(), key=lambda entry: entry["instance"]):
            if entry["instance"] not in chosen:
                continue
            instance = table.instance_of(entry)
            if instance.file and not os.path.exists(instance.file):
                away += 1
                continue
            if instance.name != last:
                facts = make_graph(self.remora, instance, self.folder)
                with open(facts.path, encoding="utf-8") as file:
                    graph = json.load(file)
                last = instance.name
            with self.subTest(instance=instance.name, budget=entry["budget"]):
                self.assertEqual(facts.sha256, entry["graph_sha256"])
                self.assertEqual(self.fault_of(entry, graph, facts), "")
                # And the check can fail: a claim of one unit less does not pass.
                self.assertNotEqual(self.fault_of(entry | {"duration": entry["duration"] - 1}, graph, facts), "")
            checked += 1
        self.assertGreater(checked, 2)
        if away:
            print(f"{away} claims about graphs that are not here (../shared) were left out")


if __name__ == "__main__":
    harness_case.main()
