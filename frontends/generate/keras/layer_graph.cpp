// SPDX-License-Identifier: Apache-2.0
#include "frontends/generate/keras/layer_graph.hpp"

#include <algorithm>
#include <cassert>
#include <utility>

namespace remora::generate::keras {
namespace {

/// Of each layer, the length of the longest way from it to the last.
std::vector<int> depths_of(const std::vector<Layer>& layers) {
  std::vector<int> depths(layers.size());
  for (std::size_t layer = layers.size(); layer-- > 0;) {
    for (const LayerId input : layers[layer].inputs) {
      int& depth = depths[static_cast<std::size_t>(input)];
      depth = std::max(depth, depths[layer] + 1);
    }
  }
  return depths;
}

/// The layers as a depth-first walk from the last to its inputs meets them.
std::vector<LayerId> walk_from_last(const std::vector<Layer>& layers) {
  std::vector<LayerId> met;
  std::vector<bool> known(layers.size());
  std::vector<LayerId> waiting{LayerId(layers.size() - 1)};
  while (!waiting.empty()) {
    const LayerId layer = waiting.back();
    waiting.pop_back();
    const auto at = static_cast<std::size_t>(layer);
    if (known[at]) continue;
    known[at] = true;
    met.push_back(layer);
    waiting.insert(waiting.end(), layers[at].inputs.rbegin(), layers[at].inputs.rend());
  }
  return met;
}

}  // namespace

LayerId LayerGraph::add(std::string name, const LayerKind& kind, const std::vector<LayerId>& inputs) {
  Layer layer{.name = std::move(name), .type = type_of(kind)};
  std::vector<Shape> shapes;
  shapes.reserve(inputs.size());
  for (const LayerId input : inputs) {
    shapes.push_back(shape(input));
    if (input != kImage) layer.inputs.push_back(input);
  }
  layer.figures = measure(kind, shapes);
  layers_.push_back(std::move(layer));
  return LayerId(layers_.size() - 1);
}

const Shape& LayerGraph::shape(LayerId layer) const {
  return layer == kImage ? image_ : layers_[static_cast<std::size_t>(layer)].figures.output;
}

std::vector<LayerId> keras_order(const LayerGraph& graph) {
  const std::vector<int> depths = depths_of(graph.layers());
  std::vector<LayerId> order = walk_from_last(graph.layers());
  assert(order.size() == graph.layers().size());
  std::stable_sort(order.begin(), order.end(), [&](LayerId a, LayerId b) {
    return depths[static_cast<std::size_t>(a)] > depths[static_cast<std::size_t>(b)];
  });
  return order;
}

}  // namespace remora::generate::keras
