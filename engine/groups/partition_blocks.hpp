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
  [[nodiscard]] int block_of(int node) const { return block_of_[static_cast<std::size_t>(node)]; }
  [[nodiscard]] std::span<const int> nodes(int block) const { return at(block).nodes; }
  [[nodiscard]] std::int64_t unit_count(int block) const { return at(block).units; }
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

  [[nodiscard]] const Block& at(int block) const { return blocks_[static_cast<std::size_t>(block)]; }
  [[nodiscard]] bool is_marked(int node) const { return mark_[static_cast<std::size_t>(block_of(node))] == round_; }
  /// Starts a round in which exactly these blocks are marked.
  void mark(std::span<const int> blocks);
  /// Whether the value, which some marked block touches, is touched outside of the marked blocks, too.
  [[nodiscard]] bool crosses(int value) const;

  const PartitionGraph& graph_;
  int count_;
  std::vector<int> block_of_;
  std::vector<Block> blocks_;
  std::vector<std::int64_t> mark_;
  std::vector<std::int64_t> seen_;
  std::int64_t round_ = 0;
};

}  // namespace remora
