// SPDX-License-Identifier: Apache-2.0
//
// How one level of a hierarchy is cut into groups: the place where a custom partitioner plugs in.
//
//     class Pairs : public Partitioner {
//       std::string name() const override { return "pairs"; }
//       std::vector<int> group(const PartitionGraph& graph, const PartitionSettings&) const override {
//         std::vector<int> group_of;
//         for (int node = 0; node < graph.node_count(); ++node) group_of.push_back(node / 2);
//         return group_of;
//       }
//     };
#pragma once

#include <string>
#include <vector>

#include "engine/groups/partition_graph.hpp"

namespace remora {

struct PartitionSettings {
  /// M^l: the most nodes of a group, at its own level. At least 2.
  int group_size = 20;
  /// M^t: the most nodes of the top level. At least 1.
  int top_size = 60;
  /// How much the number of units in a group weighs against the memory that it shares with others (HiRemate, eq. 1).
  double alpha = 0.5;
};

class Partitioner {
 public:
  Partitioner() = default;
  Partitioner(const Partitioner&) = delete;
  Partitioner& operator=(const Partitioner&) = delete;
  virtual ~Partitioner() = default;

  /// What error messages call it.
  [[nodiscard]] virtual std::string name() const = 0;

  /// For each node the number of its group, in [0, nodes). A group has at most `group_size` nodes, and the graph that
  /// has the groups as its nodes has no cycle; a node may stay alone. Called for graphs of more than `top_size` nodes,
  /// again with the groups as nodes until that is no longer so. Should be deterministic; may be called from several
  /// threads at once.
  [[nodiscard]] virtual std::vector<int> group(const PartitionGraph& graph,
                                               const PartitionSettings& settings) const = 0;
};

}  // namespace remora
