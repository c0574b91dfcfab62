# SPDX-License-Identifier: Apache-2.0
"""Graphs and schedules from and to networkx."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from remora.errors import InputError

if TYPE_CHECKING:
    import networkx

    from remora.graph import Graph, Op, Tensor
    from remora.schedule import Schedule

_OP_KEYS = ("type", "workspace", "recompute", "max_computes", "phase")


def read(make: type[Graph], graph: networkx.DiGraph[Any], duration: str, size: str, name: str | None) -> Graph:
    """A graph of networkx's, as `Graph.from_networkx` says."""
    if not hasattr(graph, "is_directed") or not graph.is_directed():
        raise TypeError(f"graph: must be a directed graph of networkx, not {type(graph).__name__}")
    made = make(
        str(graph.graph.get("name", "") if name is None else name),
        fixed_memory=graph.graph.get("fixed_memory", 0),
        duration_unit=graph.graph.get("duration_unit", ""),
    )
    order = _order(graph)
    if any(data.get("kind") == "tensor" for _, data in graph.nodes(data=True)):
        _add_bipartite(made, graph, order, duration, size)
        return made
    outputs: dict[Any, Tensor] = {}
    for node in order:
        data = graph.nodes[node]
        op = made.op(
            str(node),
            duration=_attribute(data, node, duration),
            inputs=[outputs[before] for before in graph.predecessors(node)],
            outputs={str(node): _attribute(data, node, size)},
            keep=data.get("keep", graph.out_degree(node) == 0),
            **{key: data[key] for key in _OP_KEYS if data.get(key) is not None},
        )
        outputs[node] = op.output
    return made


def _attribute(data: dict[str, Any], node: Any, key: str) -> Any:
    if key in data:
        return data[key]
    there = ", ".join(map(repr, data)) or "none"
    raise InputError(f"node {node!r}", f"has no attribute {key!r}; there are {there}: duration= and size= say which")


def _order(graph: networkx.DiGraph[Any]) -> list[Any]:
    """The nodes as listed if each follows its predecessors, otherwise always the first listed of those ready."""
    import heapq

    place = {node: number for number, node in enumerate(graph.nodes)}
    nodes = list(place)
    missing = {node: len(set(graph.predecessors(node))) for node in nodes}
    ready = [place[node] for node in nodes if missing[node] == 0]
    order = []
    while ready:
        node = nodes[heapq.heappop(ready)]
        order.append(node)
        for after in set(graph.successors(node)):
            missing[after] -= 1
            if missing[after] == 0:
                heapq.heappush(ready, place[after])
    if len(order) < len(nodes):
        import networkx

        cycle = [node for node, _ in networkx.find_cycle(graph)]
        raise InputError(f"node {cycle[0]!r}", f"is on a cycle: {' -> '.join(map(repr, [*cycle, cycle[0]]))}")
    return order


def _add_bipartite(made: Graph, graph: networkx.DiGraph[Any], order: list[Any], duration: str, size: str) -> None:
    tensors: dict[Any, Tensor] = {}
    ops: dict[Any, Op] = {}
    for node, data in graph.nodes(data=True):
        if data.get("kind") == "tensor":
            tensors[node] = made.tensor(
                str(data.get("name", node)), _attribute(data, node, size), keep=data.get("keep", False)
            )
    for node in order:
        data = graph.nodes[node]
        if data.get("kind") == "tensor":
            continue
        before = sorted(
            ((values.get("position", 0), other) for other, _, values in graph.in_edges(node, data=True)),
            key=lambda pair: pair[0],
        )
        after = sorted(
            ((values.get("position", 0), other) for _, other, values in graph.out_edges(node, data=True)),
            key=lambda pair: pair[0],
        )
        read = [other for _, other in before]
        ops[node] = made.op(
            str(data.get("name", node)),
            duration=_attribute(data, node, duration),
            inputs=[tensors[other] for other in read if other in tensors],
            outputs=[tensors[other] for _, other in after if other in tensors],
            backward_of=data.get("backward_of"),
            after=[ops[other] for other in read if other in ops],
            **{key: data[key] for key in _OP_KEYS if data.get(key) is not None},
        )


def written(graph: Graph, tensors: bool) -> networkx.DiGraph[Any]:
    """As `Graph.to_networkx` says."""
    import networkx

    made: networkx.DiGraph[Any] = networkx.DiGraph(
        name=graph.name, fixed_memory=graph.fixed_memory, duration_unit=graph.duration_unit
    )
    if tensors:
        _fill_bipartite(made, graph)
        return made
    for op in graph.ops:
        outputs = op.outputs
        made.add_node(op.name, size=sum(t.size for t in outputs), keep=any(t.keep for t in outputs), **_op_data(op))
    for tensor in graph.tensors:
        producer = tensor.producer
        if producer is None:
            continue
        for user in tensor.users:
            if not made.has_edge(producer.name, user.name):
                made.add_edge(producer.name, user.name, tensors=[], size=0)
            edge = made.edges[producer.name, user.name]
            edge["tensors"].append(tensor.name)
            edge["size"] += tensor.size
    return made


def _op_data(op: Op) -> dict[str, Any]:
    data: dict[str, Any] = {"kind": "op", "duration": op.duration}
    for key in _OP_KEYS:
        value = getattr(op, key)
        if value not in (None, "", 0) or value is False:
            data[key] = value
    if op.recompute:
        data.pop("recompute", None)
    if op.backward_of is not None:
        data["backward_of"] = op.backward_of.name
    return data


def _fill_bipartite(made: networkx.DiGraph[Any], graph: Graph) -> None:
    for tensor in graph.tensors:
        made.add_node(("tensor", tensor.name), kind="tensor", name=tensor.name, size=tensor.size, keep=tensor.keep)
    for op in graph.ops:
        node = ("op", op.name)
        made.add_node(node, name=op.name, **_op_data(op))
        for other in op.after:
            made.add_edge(("op", other.name), node)
        for position, tensor in enumerate(op.inputs):
            made.add_edge(("tensor", tensor.name), node, position=position)
        for position, tensor in enumerate(op.outputs):
            made.add_edge(node, ("tensor", tensor.name), position=position)


def computes(schedule: Schedule) -> networkx.DiGraph[Any]:
    """As `Schedule.to_networkx` says."""
    import networkx

    made: networkx.DiGraph[Any] = networkx.DiGraph(name=schedule.graph.name)
    computed: dict[Tensor, int] = {}
    seen: set[Op] = set()
    for number, step in enumerate(schedule.steps):
        made.add_node(number, op=step.op.name, duration=step.op.duration, again=step.op in seen)
        seen.add(step.op)
        for tensor in step.op.inputs:
            if tensor not in computed:
                continue
            source = computed[tensor]
            if not made.has_edge(source, number):
                made.add_edge(source, number, tensors=[])
            made.edges[source, number]["tensors"].append(tensor.name)
        for tensor in step.op.outputs:
            computed[tensor] = number
    return made
