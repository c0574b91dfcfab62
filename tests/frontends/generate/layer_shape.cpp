// SPDX-License-Identifier: Apache-2.0
#include "tests/frontends/generate/layer_shape.hpp"

#include <algorithm>
#include <cmath>

namespace remora::generate {

LayerShape::LayerShape(const Graph& graph)
    : predecessors(graph.ops.size()), successors(graph.ops.size()), layers(graph.ops.size()) {
  std::vector<int> producers(graph.tensors.size(), -1);
  for (std::size_t op = 0; op < graph.ops.size(); ++op) {
    for (const TensorId input : graph.ops[op].inputs) {
      const int before = producers.at(static_cast<std::size_t>(input));
      predecessors[op].push_back(before);
      successors.at(static_cast<std::size_t>(before)).push_back(static_cast<int>(op));
      layers[op] = std::max(layers[op], layers.at(static_cast<std::size_t>(before)) + 1);
    }
    producers.at(static_cast<std::size_t>(graph.ops[op].outputs.at(0))) = static_cast<int>(op);
  }
  widths.resize(static_cast<std::size_t>(*std::max_element(layers.begin(), layers.end())) + 1);
  adjacent.resize(widths.size() - 1);
  for (std::size_t op = 0; op < graph.ops.size(); ++op) {
    ++widths[static_cast<std::size_t>(layers[op])];
    edges += static_cast<std::int64_t>(predecessors[op].size());
    for (const int before : predecessors[op]) {
      const int from = layers[static_cast<std::size_t>(before)];
      if (layers[op] == from + 1) {
        ++adjacent[static_cast<std::size_t>(from)];
      } else {
        spans.push_back(layers[op] - from);
      }
    }
  }
}

double LayerShape::mean_width() const {
  return (static_cast<double>(layers.size()) - 2) / (depth() - 2);
}

double LayerShape::density() const {
  std::int64_t chosen = 0;
  std::int64_t free = 0;
  for (std::size_t layer = 0; layer < adjacent.size(); ++layer) {
    const std::int64_t needed = std::max(widths[layer], widths[layer + 1]);
    chosen += adjacent[layer] - needed;
    free += widths[layer] * widths[layer + 1] - needed;
  }
  return static_cast<double>(chosen) / static_cast<double>(free);
}

double LayerShape::correlation() const {
  const auto count = static_cast<double>(layers.size());
  const double middle = (count - 1) / 2;
  double mean = 0;
  for (const int layer : layers) mean += layer / count;
  double products = 0;
  double positions = 0;
  double depths = 0;
  for (std::size_t op = 0; op < layers.size(); ++op) {
    const double x = static_cast<double>(op) - middle;
    const double y = layers[op] - mean;
    products += x * y;
    positions += x * x;
    depths += y * y;
  }
  return products / std::sqrt(positions * depths);
}

}  // namespace remora::generate
