# SPDX-License-Identifier: Apache-2.0
"""Runs a schedule on arrays of numpy: what is released is gone, what is computed again is the same as before."""

from __future__ import annotations

import numpy
import numpy.typing

import remora

Array = numpy.typing.NDArray[numpy.float64]
ELEMENTS = 1 << 12


def network(layers: int) -> remora.Graph:
    """Layers that read the one before, and a way back that reads each layer again."""
    graph = remora.Graph("numpy")
    size = ELEMENTS * 8
    ops: list[remora.Op] = []
    for layer in range(layers):
        ops.append(graph.op(f"f{layer}", duration=1, inputs=ops[-1:], outputs={f"f{layer}": size}))
    last = ops[-1]
    for layer in reversed(range(layers - 1)):
        last = graph.op(f"b{layer}", duration=1, inputs=[last, ops[layer]], outputs={f"b{layer}": size})
    last.output.keep = True
    return graph


def compute(op: remora.Op, inputs: list[Array]) -> Array:
    """Some function of the op and its inputs."""
    start = numpy.arange(ELEMENTS, dtype=numpy.float64) * (1 + len(op.name))
    return numpy.asarray(sum((numpy.sin(array) for array in inputs), start), dtype=numpy.float64)


def replay(schedule: remora.Schedule) -> tuple[dict[str, Array], int]:
    """What is resident at the end, and the most bytes that were resident at a step."""
    resident: dict[remora.Tensor, Array] = {}
    peak = 0
    for step in schedule.steps:
        result = compute(step.op, [resident[tensor] for tensor in step.op.inputs])
        resident[step.op.output] = result
        peak = max(peak, sum(array.nbytes for array in resident.values()))
        for tensor in step.free:
            del resident[tensor]
    return {tensor.name: array for tensor, array in resident.items()}, peak


def main() -> None:
    """Half the memory, the same result."""
    graph = network(12)
    plain = remora.solve(graph, "100%", work_limit=1000)
    small = remora.solve(graph, "60%", work_limit=20_000)
    (before, all_memory), (after, less_memory) = replay(plain), replay(small)
    assert all(numpy.array_equal(before[name], array) for name, array in after.items())
    assert (all_memory, less_memory) == (plain.peak, small.peak)
    print(f"{all_memory} bytes became {less_memory} for {100 * small.overhead:.1f} % more time")


if __name__ == "__main__":
    main()
