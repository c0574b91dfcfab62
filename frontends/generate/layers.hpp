// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "model/random.hpp"

namespace remora::generate {

/// Ops in layers, numbered layer by layer from 0. Layer 0 is the source alone, the last layer the sink alone; those
/// between are the inner layers.
class Layers {
 public:
  /// `widths`: the ops of each layer, from the source's to the sink's, all at least 1.
  explicit Layers(const std::vector<int>& widths);

  [[nodiscard]] int count() const { return static_cast<int>(firsts_.size()) - 1; }
  [[nodiscard]] int op_count() const { return firsts_.back(); }
  [[nodiscard]] int first(int layer) const { return firsts_[static_cast<std::size_t>(layer)]; }
  [[nodiscard]] int width(int layer) const { return first(layer + 1) - first(layer); }

 private:
  /// Of each layer, and one beyond.
  std::vector<int> firsts_;
};

/// Layers for `ops` ops, at least 2, whose mean inner width is about `mean`: each inner width is uniform in
/// [mean/4, 7/4 mean], the "node layer variability" 0.75 of the published members, and the last inner layer takes what
/// is left. O(ops).
Layers draw_layers(int ops, double mean, Random& random);

}  // namespace remora::generate
