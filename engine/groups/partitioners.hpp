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

#include <functional>
#include <string>
#include <vector>

#include "engine/base/options.hpp"
#include "engine/groups/partition_graph.hpp"

namespace remora {

struct PartitionSettings {
  /// M^l: the most nodes of a group, at its own level. At least 2.
  int group_size = 20;
  /// M^t: the most nodes of the top level. At least 1.
  int top_size = 60;
  /// Asked while nodes are grouped; true ends that: the root holds what is left. May be empty.
  std::function<bool()> interrupted{};

  [[nodiscard]] bool ends() const { return interrupted && interrupted(); }
};

class Partitioner {
 public:
  Partitioner() = default;
  Partitioner(const Partitioner&) = delete;
  Partitioner& operator=(const Partitioner&) = delete;
  virtual ~Partitioner() = default;

  /// Name in error messages.
  [[nodiscard]] virtual std::string name() const = 0;

  /// For each node the number of its group, in [0, nodes). A group has at most `group_size` nodes, and the graph that
  /// has the groups as its nodes has no cycle; a node may stay alone. Called for graphs of more than `top_size` nodes,
  /// again with the groups as nodes until that is no longer so. Should be deterministic; may be called from several
  /// threads at once.
  [[nodiscard]] virtual std::vector<int> group(const PartitionGraph& graph,
                                               const PartitionSettings& settings) const = 0;
};

/// The partitioner of every solve: intervals of the topological order, which are convex whatever the edges are.
///
///     nodes      0 1 2 3 4 5 6 7 8 9
///     crossing    5 3 7 2 9 9 1 4 4         memory of the values that a cut there would sever
///     groups     [0 1 2 3|4 5 6|7 8 9]      each as long as allowed or down to half of that, cut where least crosses
///
/// Intervals no longer than needed to come to the top size. O(nodes + readers).
class IntervalPartition : public Partitioner {
 public:
  [[nodiscard]] std::string name() const override { return "intervals"; }
  [[nodiscard]] std::vector<int> group(const PartitionGraph& graph, const PartitionSettings& settings) const override;
};

/// M^l and M^t.
PartitionSettings partition_settings(const SolveOptions& options);

}  // namespace remora
