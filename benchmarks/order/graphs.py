# SPDX-License-Identifier: Apache-2.0
"""The graphs that the measurements of orders are made on, each as a remora-graph JSON file.

Shared instances and models are left out where ../shared is not there. Two families are made here, since no tool of the
project has them, both as inference and with sizes of 32-bit floats:

- randwire: randomly wired networks in the manner of Xie et al. 2019, three stages of Watts-Strogatz graphs (32 nodes, 4
  neighbours, rewired with probability 0.75), nodes numbered around the ring. One op a node.
- inception: stacks of blocks whose branches (1x1; 1x1 and 3x3; 1x1, 3x3 and 3x3; pool and 1x1) are listed level by
  level.
"""
import json
import os
import random
import subprocess

HERE = os.path.dirname(os.path.abspath(__file__))
SHARED = os.path.normpath(os.path.join(HERE, "..", "..", "..", "shared"))
FLOAT = 4


class Builder:
    def __init__(self, name):
        self.graph = {"format": "remora-graph", "version": 1, "name": name, "tensors": [], "ops": []}

    def op(self, name, inputs, elements, duration, keep=False):
        """An op with one output, which has the op's name; returns it."""
        tensor = {"name": name, "size": FLOAT * elements}
        if keep:
            tensor["keep"] = True
        self.graph["tensors"].append(tensor)
        self.graph["ops"].append({"name": name, "duration": duration, "inputs": inputs, "outputs": [name]})
        return name

    def write(self, path):
        with open(path, "w", encoding="utf-8") as file:
            json.dump(self.graph, file)


def watts_strogatz(nodes, neighbours, probability, draw):
    """Edges (i, j) with i < j."""
    edges = set()
    for i in range(nodes):
        for step in range(1, neighbours // 2 + 1):
            j = (i + step) % nodes
            if draw.random() < probability:
                free = [k for k in range(nodes) if k != i and (min(i, k), max(i, k)) not in edges]
                j = draw.choice(free)
            edges.add((min(i, j), max(i, j)))
    return sorted(edges)


def randwire(path, seed, nodes=32, stages=3):
    draw = random.Random(seed)
    build = Builder(f"randwire-{seed}")
    channels, side = 78, 56
    former = build.op("stem", [], channels * side * side, 9 * channels)
    for stage in range(stages):
        elements = channels * side * side
        edges = watts_strogatz(nodes, 4, 0.75, draw)
        names = []
        for j in range(nodes):
            inputs = [names[i] for i, k in edges if k == j] or [former]
            names.append(build.op(f"s{stage}n{j}", inputs, elements, (9 + channels + len(inputs)) * elements))
        sinks = [names[i] for i in range(nodes) if all(one != i for one, _ in edges)]
        former = build.op(f"s{stage}mean", sinks, elements, len(sinks) * elements, keep=stage == stages - 1)
        channels, side = 2 * channels, side // 2
    build.write(path)


def inception(path, blocks=9):
    build = Builder(f"inception-{blocks}")
    channels, side = 192, 28
    former = build.op("stem", [], channels * side * side, 9 * channels)
    for block in range(blocks):
        area, part = side * side, channels // 4
        open_branches = [["1x1"], ["1x1", "3x3"], ["1x1", "3x3", "3x3"], ["pool", "1x1"]]
        ends = [former] * len(open_branches)
        for level in range(3):
            for branch, layers in enumerate(open_branches):
                if level >= len(layers):
                    continue
                kind = layers[level]
                width = channels if kind == "pool" else part
                cost = {"pool": 9, "1x1": channels, "3x3": 9 * part}[kind] * width * area
                ends[branch] = build.op(f"b{block}l{level}br{branch}", [ends[branch]], width * area, cost)
        former = build.op(f"b{block}concat", ends, 4 * part * area, 4 * part * area, keep=block == blocks - 1)
        if block % 3 == 2 and block < blocks - 1:
            side //= 2
            channels = 4 * part
            former = build.op(f"b{block}pool", [former], channels * side * side, 9 * channels * side * side)
    build.write(path)


ZOO = {"unet": "unet --batch 1", "resnet50": "resnet50 --batch 1", "regnet": "regnet --batch 1",
       "fcn8": "fcn8 --batch 1", "transformer": "transformer --batch 1", "mlp-mixer": "mlp-mixer --batch 1",
       "gpt2": "gpt2 --batch 1"}


def command(*words):
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def from_zoo(path, words):
    model = path + ".onnx"
    command("remora_zoo", *words.split(), "-o", model)
    command("remora", "convert", model, "-q", "-o", path)


def all_graphs():
    """Name -> a function that writes the file; in the order of the tables."""
    graphs = {}
    for name in ("rl100", "rl500"):
        source = os.path.join(SHARED, "instances", name + ".json")
        if os.path.exists(source):
            graphs[name] = lambda path, source=source: command("remora", "convert", source, "-q", "-o", path)
    for ops in (250, 1000):
        for seed in (1, 2, 3):
            words = ("remora", "generate", "layered", "--ops", str(ops), "--seed", str(seed), "-o")
            graphs[f"layered-{ops}-{seed}"] = lambda path, words=words: command(*words, path)
    for seed in (1, 2, 3):
        graphs[f"randwire-{seed}"] = lambda path, seed=seed: randwire(path, seed)
    graphs["inception"] = inception
    for name, words in ZOO.items():
        graphs["zoo-" + name] = lambda path, words=words: from_zoo(path, words)
    folder = os.path.join(SHARED, "onnx")
    for file in sorted(os.listdir(folder)) if os.path.isdir(folder) else []:
        if file.endswith(".onnx"):
            source = os.path.join(folder, file)
            graphs[file[:-len(".onnx")]] = lambda path, source=source: command("remora", "convert", source, "-q", "-o",
                                                                              path)
    return graphs
