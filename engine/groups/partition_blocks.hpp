// SPDX-License-Identifier: Apache-2.0
//
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
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/groups/partition_graph.hpp"

namespace remora {

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
  /// Whether the value, which some marked block touches, is touched outside of the marked blocks, too.
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
