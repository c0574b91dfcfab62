// SPDX-License-Identifier: Apache-2.0
//
// The groups of a network: what they are made of, and how they are found level by level.
#pragma once

#include <vector>

#include "engine/groups/partition_graph.hpp"
#include "engine/groups/partitioners.hpp"
#include "model/instance.hpp"
#include "model/table.hpp"

namespace remora {

// Element of a hierarchy: an op of the forward part together with the backward ops that belong to it.
//
//     forward    f0 --> f1 --> f2 (loss)         unit 0: f0, b0
//                 |      |      |                unit 1: f1, b1, w1
//     backward   b0 <-- b1 <-- b2                unit 2: f2, b2
//                        \--> w1
//
// Where an instance has a forward part (engine/baselines/chains/block_chain.hpp), its ops are the units and each later
// op belongs to one of them: to that of its `backward_of`, else to the last one whose forward tensors it reads, else to
// that of the op before it; but never to a later one than a backward op that it reads from or comes `after`. Backward
// halves therefore feed only earlier units, or their own. Elsewhere (inference) each op is a unit of its own.
//
// Any order of the units that the unit graph allows gives an order of all ops: the forward halves as the units come,
// then the backward halves in reverse. The same is true of groups of units whose contraction has no cycle.

struct Unit {
  OpId op{};
  /// In input order.
  std::vector<OpId> backward{};
};

struct Units {
  /// In input order: unit i has op i.
  std::vector<Unit> units{};
  /// The unit of each op.
  std::vector<int> unit_of{};
};

/// O(ops + edges).
Units find_units(const Instance& instance);

/// The units as nodes. A value is a tensor of a unit's op that other units' ops, forward or backward, read; pinned ones
/// and inputs of the graph are left out because no schedule decides about them (HiRemate, C.1.3). Edges, all from an
/// earlier to a later unit, where
///   - the later one's forward op reads a tensor of the earlier one's, pinned or not, or comes `after` it,
///   - the later one's backward ops read a tensor of the earlier one's forward op,
///   - the later one's backward ops feed the earlier one's or must come before them: the way back, mirrored.
/// The last two and `after` are HiRemate's soft dependencies (C.1.2). O(edges log edges).
PartitionGraph unit_graph(const Instance& instance, const Units& units);

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
