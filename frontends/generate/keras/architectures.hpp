// SPDX-License-Identifier: Apache-2.0
//
// The networks of Jain et al. 2020 by name, each with the batch and the image of its published graph or, for U-Net, of
// the paper's measurements. For VGG-19 and ResNet-50 no batch is known to us; that of VGG-16 is taken.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <string_view>

#include "frontends/generate/keras/layers.hpp"

namespace remora::generate::keras {

LayerGraph build_vgg16(const Shape& image);
LayerGraph build_vgg19(const Shape& image);
LayerGraph build_mobilenet(const Shape& image);
LayerGraph build_resnet50(const Shape& image);
LayerGraph build_fcn8(const Shape& image);
LayerGraph build_segnet(const Shape& image);
LayerGraph build_unet(const Shape& image);

struct Architecture {
  std::string_view name;
  LayerGraph (*build)(const Shape& image);
  /// The published images in a batch, and their size.
  std::int64_t batch;
  Shape image;
  /// Height and width are multiples of it: every pooling halves them exactly.
  std::int64_t multiple;
};

inline constexpr Shape kSmallImage{.height = 224, .width = 224, .channels = 3};
inline constexpr Shape kStreetImage{.height = 416, .width = 608, .channels = 3};

inline constexpr std::array kArchitectures{
    Architecture{"vgg16", build_vgg16, 256, kSmallImage, 1},
    Architecture{"vgg19", build_vgg19, 256, kSmallImage, 1},
    Architecture{"mobilenet", build_mobilenet, 512, kSmallImage, 1},
    Architecture{"resnet50", build_resnet50, 256, kSmallImage, 1},
    Architecture{"fcn8", build_fcn8, 32, kStreetImage, 32},
    Architecture{"segnet", build_segnet, 32, kStreetImage, 16},
    Architecture{"unet", build_unet, 32, kStreetImage, 16},
};

inline constexpr auto kNetworkNames = [] {
  std::array<std::string_view, kArchitectures.size()> names{};
  std::transform(kArchitectures.begin(), kArchitectures.end(), names.begin(),
                 [](const Architecture& architecture) { return architecture.name; });
  return names;
}();

}  // namespace remora::generate::keras
