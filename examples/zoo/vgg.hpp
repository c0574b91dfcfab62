// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>

#include "examples/zoo/graph_builder.hpp"
#include "examples/zoo/image_layers.hpp"

namespace remora::zoo {

/// The outputs of VGG-16's five pooling layers, of 64, 128, 256, 512 and 512 channels.
using VggStages = std::array<Value, 5>;

/// VGG-16 without its classifier. `first_padding` is the zero padding of the first convolution, which FCN enlarges;
/// all others have 1.
VggStages vgg16_features(GraphBuilder& graph, const Value& image, std::int64_t first_padding, const Pooling& pooling);

}  // namespace remora::zoo
