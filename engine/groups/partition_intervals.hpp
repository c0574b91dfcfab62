// SPDX-License-Identifier: Apache-2.0
//
// Groups where a graph has no structure: intervals of the topological order, which are convex whatever the edges are.
//
//     nodes      0 1 2 3 4 5 6 7 8 9
//     crossing    5 3 7 2 9 9 1 4 4         memory of the values that a cut there would sever
//     groups     [0 1 2 3|4 5 6|7 8 9]      each as long as allowed or down to half of that, cut where least crosses
#pragma once

#include "engine/groups/partitioner.hpp"

namespace remora {

/// Intervals no longer than needed to come to the top size. O(nodes + readers).
class IntervalPartition : public Partitioner {
 public:
  [[nodiscard]] std::string name() const override { return "intervals"; }
  [[nodiscard]] std::vector<int> group(const PartitionGraph& graph, const PartitionSettings& settings) const override;
};

}  // namespace remora
