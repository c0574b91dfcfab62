// SPDX-License-Identifier: Apache-2.0
//
// networkx's node-link JSON, as the peers publish their graphs. Two dialects are told apart by their keys:
//
//                        Checkmate (Jain et al. 2020)        random layered graphs (Gagrani et al. 2022)
//     a node             id, name, cost_cpu, cost_ram        name (which is the id), duration, out_cost
//     a link             source, target                      "0", "1"
//     the input order    the nodes as listed                 graph.order
//
// Every node is an op with one output, which all nodes that it links to read. The op's name is the node's with its
// position in the order, NAME#POSITION, for names repeat. Nodes marked backward are of that phase.
#pragma once

#include <string_view>

#include "model/graph.hpp"

namespace remora::interchange {

/// Whether the text looks like a node-link graph rather than a remora-graph: it says "nodes" and nowhere "format".
bool looks_like_node_link(std::string_view text);

/// Throws InputError with the JSON path for text that is none, for costs that are no amounts, for links and orders of
/// unknown nodes, and where the order is not topological.
Graph read_node_link(std::string_view text);

}  // namespace remora::interchange
