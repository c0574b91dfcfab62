// SPDX-License-Identifier: Apache-2.0
//
// Input of partitioners: the graph that one level groups, and its groups while they grow.
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
  /// The values that the node reads or writes, ascending.
  [[nodiscard]] std::span<const int> values(int node) const { return values_of_[node]; }
  /// True if several nodes depend on this one, which depends on none, and no memory hangs on it: a mask that all layers
  /// read and nobody recomputes, say. No cycle can go through it as long as it stays alone.
  [[nodiscard]] bool is_constant(int node) const {
    return predecessors(node).empty() && successors(node).size() > 1 && values(node).empty();
  }

 private:
  void index_edges(std::vector<PartitionEdge> edges);
  void index_values();

  std::vector<std::int64_t> unit_counts_;
  std::vector<PartitionValue> values_;
  Adjacency<int, int> predecessors_;
  Adjacency<int, int> successors_;
  Adjacency<int, int> values_of_;
};

struct Contraction {
  /// The node of `graph` that each old node went into; numbers follow the groups' first nodes where edges allow.
  std::vector<int> node_of;
  PartitionGraph graph;
};

/// Makes one node of each group; `group_of[node]` are numbers in [0, nodes), not all need be used. Nothing where the
/// groups would form a cycle, which is so whenever one of them isn't convex. O((nodes + edges + readers) log).
std::optional<Contraction> contract(const PartitionGraph& graph, std::span<const int> group_of);

// The groups of a graph while they grow: blocks of nodes that merge, and the memory that crosses their borders.
//
// Every node starts as a block of its own number. Merging gives the largest of the blocks' numbers to the union, with
// the values that are still read across its border:
//
//     blocks {0} {1} {2}, value a: 0 -> 1, value b: 1 -> 2
//     merge {0, 1}: block {0 1} with value b; a is inside
//
// A value is found to cross by the first reader outside, so a value of 100,000 readers costs no more than the block has
// nodes. Of the blocks to be joined, the one with most values is never walked through: its sum is corrected by what the
// others tell. A hub with 100,000 inputs therefore costs nothing each time that something is tried with it.

class PartitionBlocks {
 public:
  explicit PartitionBlocks(const PartitionGraph& graph);

  [[nodiscard]] int count() const { return count_; }
  [[nodiscard]] int block_of(int node) const { return block_of_[at(node)]; }
  [[nodiscard]] std::span<const int> nodes(int block) const { return blocks_[block].nodes; }
  [[nodiscard]] std::int64_t unit_count(int block) const { return blocks_[block].units; }
  [[nodiscard]] const std::vector<int>& blocks_of_nodes() const { return block_of_; }

  /// The sizes of all values that are inputs or outputs of the union. O(values of all blocks but the one with most).
  [[nodiscard]] std::int64_t border_bytes(std::span<const int> blocks);
  /// Makes one block of several and returns its number. O(values of the blocks).
  int merge(std::span<const int> blocks);

 private:
  struct Block {
    /// Ascending.
    std::vector<int> nodes{};
    /// Those that cross the border, ascending.
    std::vector<int> values{};
    std::int64_t bytes = 0;
    std::int64_t units = 0;
  };

  [[nodiscard]] bool is_marked(int node) const { return mark_[block_of(node)] == round_; }
  /// Starts a round in which exactly these blocks are marked.
  void mark(std::span<const int> blocks);
  /// True if the value, which some marked block touches, is touched outside of the marked blocks, too.
  [[nodiscard]] bool crosses(int value) const;

  const PartitionGraph& graph_;
  int count_;
  std::vector<int> block_of_;
  Table<int, Block> blocks_;
  Table<int, std::int64_t> mark_;
  Table<int, std::int64_t> seen_;
  std::int64_t round_ = 0;
};

/// The groups that H-Partition starts from (HiRemate, section 3.1 and Lemma A.2).
///
/// a(x) is the closest common ancestor of the nodes right before x: the last node that every way to x goes through, its
/// immediate dominator in the graph with a global source in front. What lies between a(x) and x is entered through a(x)
/// only:
///
///           +--> 1 --> 2 --+                a(4) = 0, candidates {1 2 3}, {0 1 2 3}, {1 2 3 4}, {0 1 2 3 4}
///     0 ----+              +--> 4           a(2) = 1, candidate  {1 2}: one node alone is none
///           +--> 3 --------+
///
/// So is every union of two that meet (Theorem A.4), and disjoint ones can't form a cycle among them: what leads into a
/// group reaches all of it, so a cycle of groups would be a cycle of nodes.
///
/// One thing the paper does not do: edges from constants (PartitionGraph::is_constant) are overlooked, and constants are
/// in no candidate. A mask that every layer reads would otherwise be the only common ancestor of all layers' parts.
///
/// a(x) of each node, by all edges; -1 is the global source. O(edges log nodes).
std::vector<int> immediate_dominators(const PartitionGraph& graph);

/// Every candidate of two to `most` nodes, each ascending. O(nodes x most^2).
std::vector<std::vector<int>> candidate_groups(const PartitionGraph& graph, int most);

}  // namespace remora
