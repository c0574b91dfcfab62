# SPDX-License-Identifier: Apache-2.0
"""To networkx and back."""

from __future__ import annotations

import networkx
import pytest
from conftest import ladder

import remora


def test_a_graph_of_networkx_is_solved() -> None:
    made: networkx.DiGraph = networkx.DiGraph(name="nx")
    for name in "edcba":  # not an order in which they could run
        made.add_node(name, duration=1, size=1, keep=name == "e")
    made.add_edges_from(["ab", "ac", "bd", "cd", "ae", "de"])
    graph = remora.Graph.from_networkx(made)
    assert graph.name == "nx"
    assert graph.ops[0].name == "a"
    assert sorted(tensor.name for tensor in graph.find_op("d").inputs) == ["b", "c"]
    assert graph.find_tensor("e").keep
    assert remora.solve(graph, 3).overhead == 0.2


def test_what_nobody_reads_is_a_result_unless_it_says_otherwise() -> None:
    made: networkx.DiGraph = networkx.DiGraph([("a", "b"), ("a", "c")])
    networkx.set_node_attributes(made, 1, "duration")
    networkx.set_node_attributes(made, 10, "size")
    assert remora.Graph.from_networkx(made).baseline_peak == 30
    made.nodes["b"]["keep"] = False
    assert remora.Graph.from_networkx(made).baseline_peak == 20


def test_checkmates_names_of_costs() -> None:
    made: networkx.DiGraph = networkx.DiGraph()
    made.add_node(0, cost_cpu=7, cost_ram=9)
    graph = remora.Graph.from_networkx(made, duration="cost_cpu", size="cost_ram", name="one")
    assert (graph.name, graph.ops[0].duration, graph.tensors[0].size) == ("one", 7, 9)


def test_nothing_is_lost_with_tensors() -> None:
    graph = remora.Graph("all", fixed_memory=3, duration_unit="ns")
    x = graph.tensor("x", 5)
    first = graph.op("first", duration=3, inputs=[x], outputs={"y": 1, "z": 2}, keep=["z"], workspace=4, type="Conv")
    graph.op("second", duration=1, inputs=["z", "y"], outputs={"first": 1}, phase="backward", backward_of=first,
             after=[first], max_computes=3, recompute=False)  # fmt: skip
    back = remora.Graph.from_networkx(graph.to_networkx(tensors=True))
    assert back.to_json() == graph.to_json()
    assert remora.Graph.from_networkx(ladder(5).to_networkx(tensors=True)) == ladder(5)


def test_ops_alone() -> None:
    made = ladder(3).to_networkx()
    assert made.number_of_nodes() == 6
    assert made.nodes["f0"]["size"] == 1000
    assert made.edges["f0", "f1"]["tensors"] == ["t0"]
    assert networkx.is_directed_acyclic_graph(made)


def test_a_schedule_is_a_graph_of_computes() -> None:
    graph = ladder(8)
    schedule = remora.solve(graph, "60%", work_limit=5000)
    made = schedule.to_networkx()
    assert made.number_of_nodes() == len(schedule)
    assert all(source < target for source, target in made.edges)
    assert sum(data["duration"] for _, data in made.nodes(data=True)) == schedule.duration


def test_cycles_and_missing_costs_are_refused() -> None:
    made: networkx.DiGraph = networkx.DiGraph([("a", "b"), ("b", "a")])
    with pytest.raises(remora.InputError, match="node 'a': is on a cycle: 'a' -> 'b' -> 'a'"):
        remora.Graph.from_networkx(made)
    made = networkx.DiGraph()
    made.add_node("a", duration=1)
    with pytest.raises(remora.InputError, match="no attribute 'size'; there are 'duration': duration= and size= say"):
        remora.Graph.from_networkx(made)
    with pytest.raises(TypeError):
        remora.Graph.from_networkx(networkx.Graph())
