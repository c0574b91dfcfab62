// SPDX-License-Identifier: Apache-2.0
//
// SegNet (Badrinarayanan et al. 2017) in its small form: four levels down, each a padded convolution, batch
// normalization, activation and pooling, and four up, with upsampling between them. There are no skips, and the labels
// are for half the image's height and width.
#include <string>

#include "frontends/generate/keras/architectures.hpp"
#include "frontends/generate/keras/segmentation.hpp"

namespace remora::generate::keras {
namespace {

constexpr std::int64_t kEncoderFilters[] = {64, 128, 256, 256};
constexpr std::int64_t kDecoderFilters[] = {512, 256, 128, 64};

}  // namespace

LayerGraph build_segnet(const Shape& image) {
  LayerGraph graph(image);
  LayerId x = LayerGraph::kImage;
  int level = 0;
  for (const std::int64_t filters : kEncoderFilters) {
    const std::string name = "encode" + std::to_string(++level);
    x = add_padded_convolution(graph, name, filters, x);
    x = graph.add(name + "_relu", Activation{}, {x});
    x = graph.add(name + "_pool", MaxPooling2D{}, {x});
  }
  for (const std::int64_t filters : kDecoderFilters) {
    const std::string name = "decode" + std::to_string(level--);
    x = add_padded_convolution(graph, name, filters, x);
    if (level > 0) x = graph.add("up" + std::to_string(level), UpSampling2D{}, {x});
  }
  x = graph.add("score", Conv2D{.filters = kPixelClasses}, {x});
  add_pixel_softmax(graph, x);
  return graph;
}

}  // namespace remora::generate::keras
