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
#include <memory>
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
  /// How much the number of units in a group weighs against the memory that it shares with others (HiRemate, eq. 1).
  double alpha = 0.5;
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

// H-Partition (HiRemate, Algorithm 1): groups between a node and its predecessors' closest common ancestor, joined
// greedily, the ones that share least memory with the rest and hold few units first.
//
//     score(C) = (bytes of all inputs and outputs of C) x (units in C)^alpha                              (eq. 1)
//
// The candidate of least score becomes a block; every candidate that meets it takes all of it in, or is dropped where
// that makes it larger than M^l. Blocks may be joined further. It ends where no candidate is left, or with M^t blocks;
// there we go on through candidates of the same score, which Algorithm 1 does not: of a chain of equal layers, all are
// then treated alike. Equal scores are ordered by: contiguous in the input order first, then the first node, then size.
// So equal layers are worked off from the front, the same way each, and come out as few distinct shapes.
//
// Each candidate is updated at most 2 M^l times, whatever the degrees: O(n M^l (M^l d + log n)) for n nodes of d values
// each, the hubs among them left out (PartitionBlocks).

class HPartition : public Partitioner {
 public:
  [[nodiscard]] std::string name() const override { return "h_partition"; }
  [[nodiscard]] std::vector<int> group(const PartitionGraph& graph, const PartitionSettings& settings) const override;
};

/// Rockmate's grouping (Zhao et al. 2023, section 3.2): blocks between 1-separators. Node k is one if no edge leads over
/// it, so that everything behind depends on what is before through k only.
///
///            +--> 1 --+         +--> 4 --+
///       0 ---+        +--> 3 ---+        +--> 6 --> 7 --> 8        separators 0 3 6 7 8
///            +--> 2 --+         +--> 5 --+
///      [0]  [ 1   2      3 ]   [ 4   5      6 ]  [ 7     8 ]       a block ends with its separator
///
/// A block of several nodes is a group, never joined with its neighbours, so that equal layers give equal groups. Runs
/// of blocks of one node are cut into groups no longer than needed to come to the top size. A block of more than M^l
/// nodes is left as it is: chain_partition has nothing to say about graphs that are no chains. Edges
/// from constants (PartitionGraph::is_constant) are overlooked; groups are intervals, which no edge makes less convex.
///
/// O(nodes + edges).
class ChainPartition : public Partitioner {
 public:
  [[nodiscard]] std::string name() const override { return "chain_partition"; }
  [[nodiscard]] std::vector<int> group(const PartitionGraph& graph, const PartitionSettings& settings) const override;
};

/// Groups where a graph has no structure: intervals of the topological order, which are convex whatever the edges are.
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

/// The partitioner of that name.
std::unique_ptr<const Partitioner> make_partitioner(Grouping grouping);

/// M^l, M^t and alpha.
PartitionSettings partition_settings(const SolveOptions& options);

}  // namespace remora
