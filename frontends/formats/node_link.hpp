// SPDX-License-Identifier: Apache-2.0
//
// networkx's node-link JSON. Which keys mean what is told by the first node and the first link:
//
//     nodes               each with its id under "id", or else "name"; the op's name is "name", or else the id
//     durations           cost_cpu, duration, time or cost: the first of these that is there
//     sizes of outputs    cost_ram, out_cost, size, memory or bytes, likewise
//     links, or edges     from "source" to "target", or from "0" to "1"
//     the input order     graph.order, or else the nodes as listed, sorted if that order cannot run
//
// So it is read as Checkmate (Jain et al. 2020: cost_cpu, cost_ram, source, target) and the random layered graphs
// (Gagrani et al. 2022: duration, out_cost, "0", "1", graph.order) publish it, and as networkx writes it by itself, with
// "links" up to version 3.3 and "edges" since.
//
// Every node is an op with one output, which all nodes that it links to read. The op's name is the node's with its
// position in the order, NAME#POSITION, for names repeat. Nodes marked backward are of that phase.
#pragma once

#include <string>
#include <string_view>

#include "model/graph.hpp"

namespace remora::interchange {

struct NodeLinkGraph {
  Graph graph{};
  /// One line for the user: which keys were taken for what, and which that could be meant were not.
  std::string taken{};
};

/// Whether the text looks like a node-link graph rather than a remora-graph: it says "nodes" and nowhere "format".
bool looks_like_node_link(std::string_view text);

/// Throws InputError with the JSON path for text that is none, for nodes without a duration or a size, for those that are
/// no whole numbers, for links and orders of unknown nodes, for an undirected graph, for a cycle, and for a graph.order
/// that is not topological.
NodeLinkGraph read_node_link(std::string_view text);

}  // namespace remora::interchange
