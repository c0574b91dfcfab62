// SPDX-License-Identifier: Apache-2.0
//
// What a hierarchy is made of: an op of the forward part together with the backward ops that belong to it.
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
#pragma once

#include <vector>

#include "engine/groups/partition_graph.hpp"
#include "model/instance.hpp"

namespace remora {

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

}  // namespace remora
