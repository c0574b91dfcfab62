// SPDX-License-Identifier: Apache-2.0
//
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
// each, the hubs among them left out (partition_blocks.hpp).
#pragma once

#include "engine/groups/partitioner.hpp"

namespace remora {

class HPartition : public Partitioner {
 public:
  [[nodiscard]] std::string name() const override { return "h_partition"; }
  [[nodiscard]] std::vector<int> group(const PartitionGraph& graph, const PartitionSettings& settings) const override;
};

}  // namespace remora
