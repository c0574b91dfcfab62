// SPDX-License-Identifier: Apache-2.0
//
// The groups that H-Partition starts from (HiRemate, section 3.1 and Lemma A.2).
//
// a(x) is the closest common ancestor of the nodes right before x: the last node that every way to x goes through, its
// immediate dominator in the graph with a global source in front. What lies between a(x) and x is entered through a(x)
// only:
//
//           +--> 1 --> 2 --+                a(4) = 0, candidates {1 2 3}, {0 1 2 3}, {1 2 3 4}, {0 1 2 3 4}
//     0 ----+              +--> 4           a(2) = 1, candidate  {1 2}: one node alone is none
//           +--> 3 --------+
//
// So is every union of two that meet (Theorem A.4), and disjoint ones can't form a cycle among them: what leads into a
// group reaches all of it, so a cycle of groups would be a cycle of nodes.
//
// One thing the paper does not do: edges from constants (PartitionGraph::is_constant) are overlooked, and constants are
// in no candidate. A mask that every layer reads would otherwise be the only common ancestor of all layers' parts.
#pragma once

#include <vector>

#include "engine/groups/partition_graph.hpp"

namespace remora {

/// a(x) of each node, by all edges; -1 is the global source. O(edges log nodes).
std::vector<int> immediate_dominators(const PartitionGraph& graph);

/// Every candidate of two to `most` nodes, each ascending. O(nodes x most^2).
std::vector<std::vector<int>> candidate_groups(const PartitionGraph& graph, int most);

}  // namespace remora
