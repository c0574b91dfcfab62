// SPDX-License-Identifier: Apache-2.0
#include "benchmarks/instances/keras/layers.hpp"

#include <algorithm>
#include <cassert>
#include <utility>

namespace remora::instances::keras {
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

namespace {

/// What a window leaves of `length` values in a row.
std::int64_t windows(std::int64_t length, std::int64_t kernel, std::int64_t stride, Padding padding) {
  if (padding == Padding::same) return (length + stride - 1) / stride;
  assert(length >= kernel);
  return (length - kernel) / stride + 1;
}

/// The figures of a layer all of whose parameters are trained.
LayerFigures figures_of(const Shape& output, std::int64_t operations, std::int64_t parameters = 0) {
  return {.output = output, .operations = operations, .parameters = parameters, .trained_parameters = parameters};
}

/// Measures a layer of each kind; of those with one input, `input()` is it.
class Measurement {
 public:
  explicit Measurement(std::span<const Shape> inputs) : inputs_(inputs) { assert(!inputs.empty()); }

  LayerFigures operator()(const Conv2D& layer) const {
    const Shape output = slide(layer.kernel, layer.stride, layer.padding, layer.filters);
    const std::int64_t weights = layer.kernel * layer.kernel * input().channels;
    return figures_of(output, output.values() * weights, layer.filters * (weights + (layer.bias ? 1 : 0)));
  }

  LayerFigures operator()(const Conv2DTranspose& layer) const {
    const auto grow = [&](std::int64_t length) { return (length - 1) * layer.stride + layer.kernel; };
    const Shape output{grow(input().height), grow(input().width), layer.filters};
    return figures_of(output, output.values() * input().channels,
                      layer.kernel * layer.kernel * input().channels * layer.filters);
  }

  LayerFigures operator()(const DepthwiseConv2D& layer) const {
    const Shape output = slide(layer.kernel, layer.stride, layer.padding, input().channels);
    const std::int64_t area = layer.kernel * layer.kernel;
    return figures_of(output, output.values() * area, area * input().channels);
  }

  LayerFigures operator()(const BatchNormalization&) const {
    // Scale and shift are trained, moving mean and variance are not.
    return {.output = input(),
            .operations = 4 * input().values(),
            .parameters = 4 * input().channels,
            .trained_parameters = 2 * input().channels};
  }

  LayerFigures operator()(const Activation&) const { return figures_of(input(), input().values()); }

  LayerFigures operator()(const MaxPooling2D& layer) const {
    return figures_of(slide(layer.size, layer.stride, Padding::valid, input().channels), 0);
  }

  LayerFigures operator()(const GlobalAveragePooling2D&) const { return figures_of({.channels = input().channels}, 0); }

  LayerFigures operator()(const Dense& layer) const {
    assert(input().values() == input().channels);
    return figures_of({.channels = layer.units}, input().channels * layer.units, (input().channels + 1) * layer.units);
  }

  LayerFigures operator()(const Flatten&) const { return figures_of({.channels = input().values()}, 0); }

  LayerFigures operator()(const Reshape& layer) const {
    assert(layer.target.values() == input().values());
    return figures_of(layer.target, 0);
  }

  LayerFigures operator()(const Dropout&) const { return figures_of(input(), 0); }

  LayerFigures operator()(const Add&) const {
    std::int64_t values = 0;
    for (const Shape& shape : inputs_) {
      assert(shape == inputs_.front());
      values += shape.values();
    }
    return figures_of(inputs_.front(), values);
  }

  LayerFigures operator()(const Concatenate&) const {
    Shape output = inputs_.front();
    output.channels = 0;
    for (const Shape& shape : inputs_) {
      assert(shape.height == output.height && shape.width == output.width);
      output.channels += shape.channels;
    }
    return figures_of(output, 0);
  }

  LayerFigures operator()(const ZeroPadding2D& layer) const {
    return figures_of(grown(layer.before + layer.after, layer.before + layer.after), 0);
  }

  LayerFigures operator()(const Cropping2D& layer) const {
    assert(layer.rows >= 0 && layer.rows < input().height && layer.columns >= 0 && layer.columns < input().width);
    return figures_of(grown(-layer.rows, -layer.columns), 0);
  }

  LayerFigures operator()(const UpSampling2D& layer) const {
    const Shape output{input().height * layer.factor, input().width * layer.factor, input().channels};
    return figures_of(output, output.values());
  }

 private:
  [[nodiscard]] const Shape& input() const {
    assert(inputs_.size() == 1);
    return inputs_.front();
  }

  [[nodiscard]] Shape slide(std::int64_t kernel, std::int64_t stride, Padding padding, std::int64_t channels) const {
    return {windows(input().height, kernel, stride, padding), windows(input().width, kernel, stride, padding),
            channels};
  }

  [[nodiscard]] Shape grown(std::int64_t rows, std::int64_t columns) const {
    return {input().height + rows, input().width + columns, input().channels};
  }

  std::span<const Shape> inputs_;
};

}  // namespace

const char* type_of(const LayerKind& kind) {
  return std::visit([](const auto& layer) { return layer.kType; }, kind);
}

LayerFigures measure(const LayerKind& kind, std::span<const Shape> inputs) {
  return std::visit(Measurement(inputs), kind);
}

}  // namespace remora::instances::keras
