// SPDX-License-Identifier: Apache-2.0
//
// A hierarchy of groups over the units of an instance (HiRemate, Algorithm 1).
//
//     level 3                     root
//                               /      \                   M^t: the most children of the root
//     level 2               group       |
//                          /     \      |
//     level 1          group    group   group              M^l: the most children of any other group
//                      / | \     / \    / | \              (groups of one child don't exist)
//     units           0  1  2   3   4  5  6  7
//
// A partitioner groups the units, then the groups, until at most M^t are left. Every level is checked: a group must be
// convex, and the graph of all groups without cycles, so that a faulty partitioner is caught here and not by a solver.
// Where a partitioner finds too little (structureless graphs), intervals of the topological order stand in for it.
#pragma once

#include <vector>

#include "engine/groups/partitioner.hpp"
#include "engine/groups/units.hpp"
#include "model/instance.hpp"
#include "model/table.hpp"

namespace remora {

struct PartitionNode {
  /// None of a unit. Otherwise in a topological order that follows the first ops where edges allow.
  std::vector<int> children{};
  /// -1 for the root.
  int parent = -1;
  /// 0 for a unit, 1 for the groups made first; a child's level may be more than one below its group's.
  int level = 0;
};

struct Partition {
  Units units{};
  /// The units, then the groups from the lowest level up, the root last.
  std::vector<PartitionNode> nodes{};

  [[nodiscard]] int unit_count() const { return static_cast<int>(units.units.size()); }
  [[nodiscard]] int root() const { return static_cast<int>(nodes.size()) - 1; }
  [[nodiscard]] bool is_unit(int node) const { return node < unit_count(); }
  [[nodiscard]] const PartitionNode& node(int node) const { return nodes[at(node)]; }
};

/// The units below each node of the partition, ascending. O(units x levels).
std::vector<std::vector<int>> units_below(const Partition& partition);

/// The root is always a group: of a single unit where there is but one, of none where there are no ops, and of up to
/// max(M^l, M^t) nodes where a partitioner put all that was left into one group. Throws InputError
/// for settings out of range and std::logic_error, which names the partitioner, where it broke its promise.
/// O(levels x edges log edges) beyond what the partitioner takes.
Partition make_partition(const Instance& instance, const Partitioner& partitioner,
                         const PartitionSettings& settings = {});

}  // namespace remora
