# SPDX-License-Identifier: Apache-2.0
"""Pages of schedules over several devices, against a replay of the files."""

from page_case import STATUS, PageTest
from replay import bytes_text


class DeviceReplay:
    """What the format says of each step: who holds what, and what it costs."""

    def __init__(self, graph, schedule):
        self.size = {t["name"]: t["size"] for t in graph["tensors"]}
        self.ops = {op["name"]: op for op in graph["ops"]}
        self.links = {(link["from"], link["to"]): link for link in graph["links"]}
        produced = {t for op in graph["ops"] for t in op["outputs"]}
        first = graph["devices"][0]["name"]
        held = {d["name"]: d.get("fixed_memory", 0) for d in graph["devices"]}
        for tensor in graph["tensors"]:
            if tensor["name"] not in produced:
                for device in tensor.get("home", [first]):
                    held[device] += tensor["size"]
        resident = set()
        self.memory = {name: [] for name in held}
        self.copied, self.again, self.times = {}, {}, [0]
        seen = set()
        for step in schedule["steps"]:
            beside = {}
            if "copy" in step:
                self.make(resident, held, step["copy"], step["to"])
                link = self.links[step["from"], step["to"]]
                lasts = link.get("latency", 0) - (-self.size[step["copy"]] * link["per"] // link["bytes"])
                key = (step["copy"], step["from"], step["to"])
                self.copied[key] = self.copied.get(key, 0) + 1
                device = step["from"]
            else:
                op, device = self.ops[step["op"]], step["device"]
                cost = op["on"][device] if "on" in op else op
                for tensor in op["outputs"]:
                    self.make(resident, held, tensor, device)
                beside[device] = cost.get("workspace", 0)
                lasts = cost["duration"]
                self.again[op["name"]] = self.again.get(op["name"], -1) + 1
                seen.add(op["name"])
            for name, memory in self.memory.items():
                memory.append(held[name] + beside.get(name, 0))
            self.times.append(self.times[-1] + lasts)
            for free in step["free"]:
                tensor, place = (free, device) if isinstance(free, str) else free
                resident.remove((tensor, place))
                held[place] -= self.size[tensor]

    def make(self, resident, held, tensor, device):
        if (tensor, device) not in resident:
            resident.add((tensor, device))
            held[device] += self.size[tensor]


class Devices(PageTest):
    """A training step of the U-Net on a GPU with a host store."""

    def setUp(self):
        self.open("devices.html")
        self.schedule = self.pages.read("devices.schedule.json")
        self.replay = DeviceReplay(self.pages.read("devices.graph.json"), self.schedule)

    def test_the_headline_is_the_schedules(self):
        self.assertEqual(self.text("#status"), STATUS[self.schedule["status"]])
        self.assertEqual(self.text("#peak-0"), bytes_text(max(self.replay.memory["gpu"])))
        self.assertEqual(self.text("#peak-1"), bytes_text(max(self.replay.memory["host"])))
        self.assertIn(bytes_text(self.schedule["budget"]["gpu"]), self.text("#headline"))
        self.assertIn("Fits within the budgets", self.text("#verdict"))

    def test_lanes_show_each_device_and_link(self):
        rows = self.browser.run("return remoraReport.lanes.rows.map((row) => row.name)")
        self.assertEqual(rows[:2], ["gpu", "host"])
        used = {(source, to) for _, source, to in self.replay.copied}
        self.assertEqual(set(rows[2:]), {f"{source} \u2192 {to}" for source, to in used})
        self.assertEqual(self.browser.run("return [...remoraReport.current.times]"), self.replay.times)
        self.assertGreater(self.figures("lanes")[1], len(self.schedule["steps"]))

    def test_pointing_at_a_lane_moves_all_views(self):
        x, y = self.place("lanes", 0.4, 0.1)
        self.browser.hover(x, y)
        self.browser.frame()
        step = self.browser.run("return remoraReport.cursor.step")
        middle = 0.4 * self.replay.times[-1]
        self.assertLessEqual(self.replay.times[step], middle * 1.01)
        self.assertGreaterEqual(self.replay.times[step + 1], middle * 0.99)
        self.assertIn(f"Step {step:,} of", self.text("#lanes .readout"))
        self.assertIn(f"Step {step:,} of", self.text("#memory .readout"))

    def test_the_device_below_can_be_chosen(self):
        for number, name in enumerate(("gpu", "host")):
            self.click(f"#device-choice button:nth-child({number + 1})")
            self.assertEqual(self.text("#memory-title"), f"Memory of {name}")
            self.assertEqual(
                self.browser.run("return [...remoraReport.memory.schedule.memory]"), self.replay.memory[name]
            )
            step = self.browser.run("return remoraReport.cursor.step")
            self.assertEqual(self.text("#residents tfoot td"), bytes_text(self.replay.memory[name][step]))

    def test_tables_say_what_is_copied_and_runs_again(self):
        rows = self.rows("#copy-table")
        self.assertEqual({(row[0], *row[1].split(" \u2192 ")): int(row[2]) for row in rows}, self.replay.copied)
        again = {name: times for name, times in self.replay.again.items() if times > 0}
        self.assertEqual(sum(int(row[3]) for row in self.rows("#again-table")), sum(again.values()))
        self.assertEqual(len(self.rows("#lane-table")), 2 + len({key[1:] for key in self.replay.copied}))

    def test_zoom_bounds_what_is_drawn(self):
        self.browser.run("const {across} = remoraReport.lanes; across.show(across.count * 0.5, across.count * 0.51)")
        self.browser.frame()
        self.assertLess(self.figures("lanes")[1], 4 * len(self.schedule["steps"]) // 5)

    def test_nothing_of_one_device_is_left(self):
        for place in ("#matrices", "#recomputed-section", "#history", "#arena"):
            self.assertTrue(self.is_gone(place), place)

    def test_no_schedule_says_why(self):
        self.open("devices-refused.html")
        self.assertEqual(self.text("#status"), STATUS["infeasible"])
        self.assertIn("Why there is no schedule", self.text("#refusal"))
        self.assertTrue(self.is_gone("#drawings"))


class Lanes(PageTest):
    """A row for each lane, and what runs there."""

    def setUp(self):
        self.open("lanes.html")
        self.graph = self.pages.read("lanes.graph.json")
        self.schedule = self.pages.read("lanes.schedule.json")
        self.lane = {op["name"]: op.get("lane", "compute") for op in self.graph["ops"]}

    def runs_of(self, lane):
        return [step["op"] for step in self.schedule["steps"] if self.lane[step["op"]] == lane]

    def test_each_lane_is_drawn_by_itself(self):
        rows = self.browser.run("return remoraReport.lanes.rows.map((row) => row.name)")
        self.assertEqual(rows, ["gpu: compute", "gpu: gather"])
        for row, lane in enumerate(("compute", "gather")):
            shown = self.browser.run(
                "const {lanes, current} = remoraReport; return current.steps.filter((op, step) => "
                f"lanes.isIn(lanes.rows[{row}], step)).map((op) => current.graph.ops.name[op])"
            )
            self.assertEqual(sorted(shown), sorted(self.runs_of(lane)))
        # Memory stands below the device's last lane alone.
        self.assertEqual(self.browser.run("return remoraReport.lanes.rows.map((row) => row.device ?? -1)"), [-1, 0])

    def test_lanes_run_beside_each_other_and_none_beside_itself(self):
        times, ends, stream = (
            self.browser.run(f"return [...remoraReport.current.{key}]") for key in ("times", "ends", "stream")
        )
        beside = 0
        for i, start in enumerate(times[:-1]):
            others = [j for j in range(len(ends)) if j != i and times[j] < ends[i] and start < ends[j]]
            self.assertFalse([j for j in others if stream[j] == stream[i]])
            beside += len(others)
        self.assertGreater(beside, 0)
        self.assertEqual(times[-1], self.schedule["duration"])

    def test_the_table_has_a_row_for_each_lane(self):
        rows = self.rows("#lane-table")
        self.assertEqual([row[0] for row in rows], ["gpu: compute", "gpu: gather"])
        self.assertEqual([int(row[1]) for row in rows], [len(self.runs_of(lane)) for lane in ("compute", "gather")])
