// SPDX-License-Identifier: Apache-2.0
//
// U-Net (Ronneberger et al. 2015) on the first four blocks of VGG-16, as Jain et al. 2020 measure it ("vgg_unet"):
// three times up, each time the pooled image of the same size concatenated. The labels are for half the image's height
// and width.
//
//     block4_pool -> decode4 -> up3 -> concat3 -> decode3 -> ... -> decode1 -> score -> softmax
//     block3_pool -----------------------^
//
// A convolution's activation belongs to it, and batch normalization follows. So there are 14 layers in VGG's blocks, 3
// in the first and 5 in each other step of the decoder, and 3 at the end: 35 layers, 37 edges between them (34 in the
// chain and 3 skips), which make 71 ops and 148 edges.
#include <iterator>
#include <span>
#include <string>
#include <vector>

#include "frontends/generate/keras/architectures.hpp"
#include "frontends/generate/keras/segmentation.hpp"
#include "frontends/generate/keras/vgg.hpp"

namespace remora::generate::keras {
namespace {

/// Of the decoder's convolutions at levels 1 to 4.
constexpr std::int64_t kFilters[] = {64, 128, 256, 512};

}  // namespace

LayerGraph build_unet(const Shape& image) {
  LayerGraph graph(image);
  const std::vector<LayerId> pools = add_vgg_blocks(graph, std::span(kVgg16Blocks).first(std::size(kFilters)));
  LayerId x = add_padded_convolution(graph, "decode4", kFilters[3], pools[3]);
  for (std::size_t level = 3; level > 0; --level) {
    const std::string number = std::to_string(level);
    x = graph.add("up" + number, UpSampling2D{}, {x});
    x = graph.add("concat" + number, Concatenate{}, {x, pools[level - 1]});
    x = add_padded_convolution(graph, "decode" + number, kFilters[level - 1], x);
  }
  x = graph.add("score", Conv2D{.filters = kPixelClasses}, {x});
  add_pixel_softmax(graph, x);
  return graph;
}

}  // namespace remora::generate::keras
