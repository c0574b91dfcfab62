// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <vector>

#include "frontends/generate/keras/layer_graph.hpp"

namespace remora::generate::keras {

/// The convolutions of each block of VGG-16.
inline constexpr int kVgg16Blocks[] = {2, 2, 3, 3, 3};

/// Adds VGG's blocks from the image on (Simonyan and Zisserman 2015): in each, so many 3x3 convolutions as `blocks`
/// says, the first ones with 64, 128, 256 filters, then 512, and a pooling that halves the image. At most five blocks.
/// Returns each block's pooling.
std::vector<LayerId> add_vgg_blocks(LayerGraph& graph, std::span<const int> blocks);

}  // namespace remora::generate::keras
