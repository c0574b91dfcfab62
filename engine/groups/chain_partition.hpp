// SPDX-License-Identifier: Apache-2.0
//
// Rockmate's grouping (Zhao et al. 2023, section 3.2): blocks between 1-separators. Node k is one if no edge leads over
// it, so that everything behind depends on what is before through k only.
//
//            +--> 1 --+         +--> 4 --+
//       0 ---+        +--> 3 ---+        +--> 6 --> 7 --> 8        separators 0 3 6 7 8
//            +--> 2 --+         +--> 5 --+
//      [0]  [ 1   2      3 ]   [ 4   5      6 ]  [ 7     8 ]       a block ends with its separator
//
// A block of several nodes is a group, never joined with its neighbours, so that equal layers give equal groups. Runs
// of blocks of one node are cut into groups no longer than needed to come to the top size. A block of more than M^l
// nodes is left as it is: chain_partition has nothing to say about graphs that are no chains. Edges
// from constants (PartitionGraph::is_constant) are overlooked; groups are intervals, which no edge makes less convex.
#pragma once

#include "engine/groups/partitioner.hpp"

namespace remora {

/// O(nodes + edges).
class ChainPartition : public Partitioner {
 public:
  [[nodiscard]] std::string name() const override { return "chain_partition"; }
  [[nodiscard]] std::vector<int> group(const PartitionGraph& graph, const PartitionSettings& settings) const override;
};

}  // namespace remora
