// SPDX-License-Identifier: Apache-2.0
//
// What the networks share that label each pixel: FCN-8, SegNet and U-Net, as Jain et al. 2020 take them from the Keras
// implementations of image-segmentation-keras.
#pragma once

#include <string>

#include "frontends/generate/keras/layer_graph.hpp"

namespace remora::generate::keras {

/// The classes that Cityscapes evaluates.
inline constexpr std::int64_t kPixelClasses = 19;

/// Adds padding, a 3x3 convolution and batch normalization: `name`_pad, _conv, _bn. Keeps height and width.
LayerId add_padded_convolution(LayerGraph& graph, const std::string& name, std::int64_t filters, LayerId x);

/// Adds the end of the network: a row of pixels, and softmax.
void add_pixel_softmax(LayerGraph& graph, LayerId x);

}  // namespace remora::generate::keras
