# SPDX-License-Identifier: Apache-2.0
"""The trade-off of memory against time of a training step, and a page that explains one schedule of it."""

from __future__ import annotations

import remora

LAYERS = 16
ACTIVATION = 8 << 20


def training_step(layers: int, activation: int) -> remora.Graph:
    """A chain of layers, its loss, and the way back: each gradient needs what its layer read."""
    graph = remora.Graph("chain", fixed_memory=layers << 20, duration_unit="ns")
    values = [graph.tensor("images", activation)]
    forward: list[remora.Op] = []
    for layer in range(layers):
        op = graph.op(
            f"layer{layer}",
            type="Conv",
            duration=400_000,
            inputs=[values[-1]],
            outputs={f"value{layer}": activation},
            phase="forward",
        )
        forward.append(op)
        values.append(op.output)
    loss = graph.op("loss", duration=20_000, inputs=[values[-1]], outputs={"loss_gradient": activation}, phase="loss")
    gradient = loss.output
    for layer in reversed(range(layers)):
        gradient = graph.op(
            f"back{layer}",
            type="ConvGrad",
            duration=800_000,
            inputs=[gradient, values[layer]],
            outputs={f"gradient{layer}": activation},
            phase="backward",
            backward_of=forward[layer],
        ).output
    return graph


def main() -> None:
    """Sweeps, prints the points, and writes two pages."""
    graph = training_step(LAYERS, ACTIVATION)
    curve = remora.sweep(graph, points=8, work_limit=30_000)
    for point in curve:
        if point.overhead is not None:
            print(f"{point.budget / 2**20:7.0f} MiB  {100 * point.overhead:6.2f} % more time  ({point.status})")
    curve.report("curve.html")
    knee = curve.knee or curve[-1]
    if knee.schedule is not None:
        knee.schedule.report("schedule.html")


if __name__ == "__main__":
    main()
