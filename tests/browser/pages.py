# SPDX-License-Identifier: Apache-2.0
"""Real pages, made once in a folder by the programs under test."""

import json
import os
import subprocess

EVIL = '</script><script>window.hacked=1</script><img src=x onerror="window.hacked=2">\'"&amp;<!--'


class Pages:
    def __init__(self, programs, folder):
        self.programs, self.folder = programs, folder

    def path(self, name):
        return os.path.join(self.folder, name)

    def url(self, name):
        return "file://" + self.path(name)

    def read(self, name):
        with open(self.path(name), encoding="utf-8") as file:
            return json.load(file)

    def write(self, name, value):
        with open(self.path(name), "w", encoding="utf-8") as file:
            json.dump(value, file)

    def run(self, program, *words, codes=(0,)):
        done = subprocess.run(
            [os.path.join(self.programs, program), *words],
            cwd=self.folder,
            capture_output=True,
            text=True,
            check=False,
            timeout=150,
        )
        if done.returncode not in codes:
            raise RuntimeError(f"{program} {' '.join(words)}: exit {done.returncode}\n{done.stderr}")

    def remora(self, *words, codes=(0,)):
        self.run("remora", *words, codes=codes)

    def solve(self, name, budget, *words, graph=None, codes=(0,)):
        graph = graph or name
        self.remora(
            "solve",
            graph + ".graph.json",
            "--budget",
            budget,
            "--threads",
            "1",
            "--quiet",
            "-o",
            name + ".schedule.json",
            *words,
            codes=codes,
        )
        self.remora("report", graph + ".graph.json", name + ".schedule.json", "-o", name + ".html")

    def make_unet(self, work=5000):
        """A training step of the zoo's U-Net under 60 % of its peak."""
        self.run("remora_zoo", "unet", "--batch", "8", "--size", "256", "-o", "unet.onnx")
        self.remora("convert", "unet.onnx", "--training", "-o", "unet.graph.json")
        self.solve("unet", "60%", "--work-limit", str(work))

    def make_large(self):
        """Five thousand ops, by a method that takes no time."""
        self.run("remora_zoo", "gpt2", "--layers", "76", "-o", "large.onnx")
        self.remora("convert", "large.onnx", "--training", "-o", "large.graph.json")
        self.solve("large", "90%", "--strategy", "sqrt")

    def make_refused(self):
        """Of the U-Net's graph: a budget that one op exceeds, and an order that is free."""
        self.solve("refused", "1%", graph="unet", codes=(20,))
        self.solve("free", "80%", "--order", "free", "--work-limit", "2000", graph="unet")

    def make_bare(self):
        """Refused without a certificate and without limits, as another program might."""
        schedule = self.read("refused.schedule.json")
        del schedule["certificate"], schedule["solver"]
        self.write("bare.schedule.json", schedule)
        self.remora("report", "unet.graph.json", "bare.schedule.json", "-o", "bare.html")

    def make_hollow(self):
        """A schedule that was found by way of one above the budget."""
        schedule = self.read("unet.schedule.json")
        history = schedule["solver"]["history"]
        history.insert(0, [history[0][0] / 2, history[0][1], schedule["budget"] + 1, "improvement"])
        self.write("hollow.schedule.json", schedule)
        self.remora("report", "unet.graph.json", "hollow.schedule.json", "-o", "hollow.html")

    def make_placed(self):
        """A schedule with addresses."""
        self.solve("placed", "70%", "--work-limit", "5000", "--addresses", graph="unet")

    def make_sweep(self):
        self.remora(
            "sweep",
            "unet.graph.json",
            "--budgets",
            "100%:60%:20%,1%",
            "--work-limit",
            "5000",
            "--threads",
            "1",
            "--quiet",
            "-o",
            "sweep.json",
            "--schedules",
            "points",
        )
        curve = self.read("sweep.json")
        os.remove(self.path(curve["points"][-1]["schedule"]))
        self.remora("report", "unet.graph.json", "sweep.json", "-o", "sweep.html")

    def make_devices(self):
        """The U-Net on a GPU with a host store, where nothing may run again."""
        self.remora(
            "convert",
            "unet.onnx",
            "--training",
            "--devices",
            "gpu=rtx-3090,host=store",
            "--links",
            "gpu:host=pcie-4-x16",
            "-o",
            "devices.graph.json",
        )
        for name, part, codes in (("devices", 0.9, (0,)), ("devices-refused", 0.01, (20,))):
            self.remora(
                "solve", "devices.graph.json", "--budget", "gpu=1TiB", "--work-limit", "1", "-q", "-o", "whole.json"
            )
            peak = self.read("whole.json")["peak_memory"]["gpu"]
            self.remora(
                "solve",
                "devices.graph.json",
                "--budget",
                f"gpu={int(part * peak)}",
                "--work-limit",
                "3000",
                "--max-computes",
                "1",
                "--quiet",
                "-o",
                name + ".schedule.json",
                codes=codes,
            )
            self.remora("report", "devices.graph.json", name + ".schedule.json", "-o", name + ".html")

    def make_lanes(self):
        """Layers whose weights are gathered on a lane beside the one that computes, under a budget."""
        tensors, ops, made = [], [], "x"
        for i in range(8):
            tensors += [{"name": f"weight{i}", "size": 8}, {"name": f"out{i}", "size": 2, "keep": i == 7}]
            collective = {"kind": "all_gather", "bytes": 8, "group": 4}
            ops.append(
                {
                    "name": f"gather{i}",
                    "lane": "gather",
                    "collective": collective,
                    "inputs": [],
                    "outputs": [f"weight{i}"],
                }
            )
            reads = [f"weight{i}", made] + ([f"weight{7 - i}"] if i > 3 else [])
            ops.append({"name": f"layer{i}", "duration": 4, "inputs": reads, "outputs": [f"out{i}"]})
            made = f"out{i}"
        self.write(
            "lanes.graph.json",
            {
                "format": "remora-graph",
                "version": 3,
                "name": "lanes",
                "meta": {"duration_unit": "us"},
                "devices": [{"name": "gpu", "lanes": ["compute", "gather"]}],
                "collectives": [{"kind": "all_gather", "latency": 1, "bytes": 4, "per": 1}],
                "tensors": [{"name": "x", "size": 2}, *tensors],
                "ops": ops,
            },
        )
        self.remora(
            "solve", "lanes.graph.json", "--budget", "gpu=36", "--work-limit", "1000", "-q", "-o", "lanes.schedule.json"
        )
        self.remora("report", "lanes.graph.json", "lanes.schedule.json", "-o", "lanes.html")

    def make_evil(self):
        """Names that would be markup if they could."""
        names = [EVIL + str(i) for i in range(5)]
        self.write(
            "evil.graph.json",
            {
                "format": "remora-graph",
                "version": 1,
                "name": EVIL,
                "meta": {"duration_unit": EVIL},
                "tensors": [{"name": name, "size": 1 << 20, "keep": i == 4} for i, name in enumerate(names)],
                "ops": [
                    {"name": name, "type": EVIL, "duration": 1, "inputs": [names[j] for j in inputs], "outputs": [name]}
                    for name, inputs in zip(names, ([], [0], [0], [1, 2], [0, 3]))
                ],
            },
        )
        self.solve("evil", str(3 << 20))

    def make_resident(self):
        """An op that needs nothing beyond the graph's input: the peak is at no step."""
        self.write(
            "resident.graph.json",
            {
                "format": "remora-graph",
                "version": 1,
                "name": "resident",
                "tensors": [{"name": "x", "size": 8}, {"name": "shape", "size": 0, "keep": True}],
                "ops": [{"name": "read", "duration": 1, "inputs": ["x"], "outputs": ["shape"]}],
            },
        )
        self.solve("resident", "8")
