// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <vector>

#include "model/graph.hpp"
#include "model/slices.hpp"
#include "model/table.hpp"
#include "model/types.hpp"

namespace remora {

/// Regions of one graph, each grown from seeds.
class RegionGrowth {
 public:
  /// The graph must be sound, and stay.
  explicit RegionGrowth(const Graph& graph);

  /// The parts of the region that grows from seeds along one axis of each over tensors of at least `smallest` bytes
  /// on which neighbors agree; of several such axes of a neighbor that with the largest extent. `taken` ops are in
  /// other regions. As few parts as the order allows; legal but for sums whose slices would overlap (`slice` rejects
  /// them). O(edges).
  [[nodiscard]] std::vector<RegionPart> grow(std::span<const SlicedOp> seeds, Bytes smallest,
                                             const Table<OpId, bool>& taken) const;

 private:
  [[nodiscard]] int agreeing_axis(OpId op, const Cut& cut) const;
  [[nodiscard]] std::vector<RegionPart> parts_of(const Table<OpId, int>& axes) const;

  const Graph& graph_;
  Table<TensorId, OpId> producers_;
  Adjacency<TensorId, OpId> readers_;
};

}  // namespace remora
