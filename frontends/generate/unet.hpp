// SPDX-License-Identifier: Apache-2.0
//
// The training step of a small U-Net (Ronneberger et al. 2015), one convolution where the paper has two:
//
//     conv1 ------------------------------> concat1 -> decode1 -> head -> loss
//       `-> pool1 -> conv2 ------> concat2 -> decode2 -> up1 -'
//                      `-> pool2 -> bottom -> up2 -'
//
// Level l of L has channels 2^(l-1) channels and images of size / 2^(l-1) pixels a side; image and prediction have one
// channel. With b = 4 batch size^2 bytes for these, s = b channels for what level 1 computes and t = s / 2^(L-1) for
// what level L does:
//
//     ops       10 (L - 1) + 6
//     tensors   11 (L - 1) + 7, one of them empty
//     bytes     23 s - 21 t + 3 b + 4
//
// A 3x3 convolution includes its ReLU: its backward op reads input and output, as that of pooling does; concatenation
// reads nothing, up and head, without ReLU, their input (training_step.hpp). `remora_zoo unet` is the published one.
#pragma once

#include <array>
#include <cstdint>

#include "frontends/generate/option_table.hpp"
#include "model/graph.hpp"

namespace remora::generate {

struct UnetOptions {
  std::int64_t levels = 4;
  std::int64_t batch = 4;
  std::int64_t channels = 16;
  std::int64_t size = 128;
};

inline constexpr std::array kUnetTable{
    OptionRow<UnetOptions>{"levels", &UnetOptions::levels, 1, 12, "resolutions, the bottom counted"},
    OptionRow<UnetOptions>{"batch", &UnetOptions::batch, 1, 1024, "images"},
    OptionRow<UnetOptions>{"channels", &UnetOptions::channels, 1, 1024,
                           "channels of the first level, doubled at each level below"},
    OptionRow<UnetOptions>{"size", &UnetOptions::size, 1, 4096,
                           "height and width of the image, pixels, a multiple of 2^(levels - 1)"}};

/// Throws InputError for an option out of its range, for a size that cannot be halved for every level, and where
/// amounts add up to more than 64 bits hold. O(levels).
Graph generate_unet(const UnetOptions& options);

}  // namespace remora::generate
