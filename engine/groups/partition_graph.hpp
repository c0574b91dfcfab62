// SPDX-License-Identifier: Apache-2.0
//
// Input of partitioners: the graph that one level groups.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "model/table.hpp"
#include "model/types.hpp"

namespace remora {

// The graph that one level of a hierarchy groups: nodes, what they hand to each other, and what must come first.
//
// Nodes are numbered in a topological order of the edges. Values carry the memory: what a node writes and others read.
// A value orders nothing by itself (a reader may stand before the producer, where its backward half reads what a later
// node wrote): that is what edges are for.
//
//     node       0 --> 1 --> 2         contract {1, 2}        0 --> 1
//     value a    0 ........> 2         ------------->         a: 0 -> {1}     b is gone, it is nobody else's business
//     value b          1 --> 2

/// `from` comes before `to`.
struct PartitionEdge {
  int from = 0;
  int to = 0;

  friend auto operator<=>(const PartitionEdge&, const PartitionEdge&) = default;
};

struct PartitionValue {
  int producer = 0;
  Bytes size{};
  /// Ascending, each once, the producer not among them, at least one.
  std::vector<int> readers{};
};

class PartitionGraph {
 public:
  /// `unit_counts`: how many units each node holds. Edges may repeat; each must lead to a later node.
  /// O((nodes + edges + readers) log).
  PartitionGraph(std::vector<std::int64_t> unit_counts, std::vector<PartitionEdge> edges,
                 std::vector<PartitionValue> values);

  [[nodiscard]] int node_count() const { return static_cast<int>(unit_counts_.size()); }
  [[nodiscard]] int value_count() const { return static_cast<int>(values_.size()); }
  /// How many units of the hierarchy's lowest level the node holds.
  [[nodiscard]] std::int64_t unit_count(int node) const { return unit_counts_[at(node)]; }
  /// Ascending, each once.
  [[nodiscard]] std::span<const int> predecessors(int node) const { return predecessors_[node]; }
  [[nodiscard]] std::span<const int> successors(int node) const { return successors_[node]; }
  [[nodiscard]] const PartitionValue& value(int value) const { return values_[at(value)]; }

 private:
  void index_edges(std::vector<PartitionEdge> edges);

  std::vector<std::int64_t> unit_counts_;
  std::vector<PartitionValue> values_;
  Adjacency<int, int> predecessors_;
  Adjacency<int, int> successors_;
};

struct Contraction {
  /// The node of `graph` that each old node went into; numbers follow the groups' first nodes where edges allow.
  std::vector<int> node_of;
  PartitionGraph graph;
};

/// Makes one node of each group; `group_of[node]` are numbers in [0, nodes), not all need be used. Nothing where the
/// groups would form a cycle, which is so whenever one of them isn't convex. O((nodes + edges + readers) log).
std::optional<Contraction> contract(const PartitionGraph& graph, std::span<const int> group_of);

}  // namespace remora
