// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "model/graph.hpp"

namespace remora::generate {

/// What a graph of layers looks like, from the graph alone. An op's layer is the number of edges of the longest path to
/// it. Every op has one output.
struct LayerShape {
  explicit LayerShape(const Graph& graph);

  /// Of each op.
  std::vector<std::vector<int>> predecessors{};
  std::vector<std::vector<int>> successors{};
  std::vector<int> layers{};
  /// Of each layer.
  std::vector<std::int64_t> widths{};
  /// Edges from each layer to the next.
  std::vector<std::int64_t> adjacent{};
  /// How many layers each of the other edges goes down.
  std::vector<int> spans{};
  std::int64_t edges = 0;

  [[nodiscard]] int depth() const { return static_cast<int>(widths.size()); }
  /// The mean of all inner layers.
  [[nodiscard]] double mean_width() const;
  /// The edges between adjacent layers beyond max(a, b), of all the pairs beyond.
  [[nodiscard]] double density() const;
  [[nodiscard]] double skip_share() const { return static_cast<double>(spans.size()) / static_cast<double>(edges); }
  /// Of layer and position in the order.
  [[nodiscard]] double correlation() const;
};

}  // namespace remora::generate
