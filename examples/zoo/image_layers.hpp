// SPDX-License-Identifier: Apache-2.0
//
// Layers of convolutional networks on square images, [batch, channels, size, size]. Lengths are in pixels.
// All throw UsageError if the image is too small for the layer.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "examples/zoo/graph_builder.hpp"

namespace remora::zoo {

struct Convolution {
  /// Of the output.
  std::int64_t channels = 0;
  std::int64_t kernel = 3;
  std::int64_t stride = 1;
  /// Zeros added on each of the four sides.
  std::int64_t padding = 0;
  std::int64_t groups = 1;
  bool bias = true;
};

struct Pooling {
  std::int64_t kernel = 2;
  std::int64_t stride = 2;
  std::int64_t padding = 0;
  /// Keep a last window that hangs over the edge, as Caffe does.
  bool cutoff = false;
};

std::int64_t channels_of(const Value& image);
std::int64_t size_of(const Value& image);

/// Weight: [channels, in / groups, kernel, kernel].
Value convolution(GraphBuilder& graph, std::string_view name, const Value& image, const Convolution& layer);

/// The transposed convolution ("up-convolution"): size (in - 1)·stride + kernel - 2·padding. Not grouped.
Value transposed_convolution(GraphBuilder& graph, std::string_view name, const Value& image, const Convolution& layer);

/// Scale and shift are weights; the running mean and variance are not.
Value batch_norm(GraphBuilder& graph, std::string_view name, const Value& image);

Value max_pool(GraphBuilder& graph, std::string_view name, const Value& image, const Pooling& pooling = {});

/// [batch, channels, 1, 1].
Value global_average_pool(GraphBuilder& graph, std::string_view name, const Value& image);

/// The window [offset, offset + size) of both spatial axes; no node if that is the whole image.
Value crop(GraphBuilder& graph, std::string_view name, const Value& image, std::int64_t offset, std::int64_t size);

/// Images of one size, channels one after the other.
Value concatenate_channels(GraphBuilder& graph, std::string_view name, const std::vector<Value>& images);

}  // namespace remora::zoo
