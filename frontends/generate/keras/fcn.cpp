// SPDX-License-Identifier: Apache-2.0
//
// FCN-8 on VGG-16 (Long et al. 2015): scores at a 32nd, a 16th and an 8th of the image, the coarse ones upsampled by
// transposed convolutions, cropped, and added.
//
//     block5_pool -> conv6 .. score5 -> up5 -> crop, crop -> add4 -> up4 -> crop, crop -> add3 -> up3 -> softmax
//     block4_pool -> score4 -------------------------------^                               ^
//     block3_pool -> score3 ---------------------------------------------------------------'
#include <string>
#include <vector>

#include "frontends/generate/keras/architectures.hpp"
#include "frontends/generate/keras/segmentation.hpp"
#include "frontends/generate/keras/vgg.hpp"

namespace remora::generate::keras {
namespace {

constexpr Conv2D kScore{.filters = kPixelClasses, .kernel = 1};

LayerId add_classifier(LayerGraph& graph, LayerId x) {
  x = graph.add("conv6", Conv2D{.filters = 4096, .kernel = 7}, {x});
  x = graph.add("dropout6", Dropout{}, {x});
  x = graph.add("conv7", Conv2D{.filters = 4096, .kernel = 1}, {x});
  x = graph.add("dropout7", Dropout{}, {x});
  return graph.add("score5", kScore, {x});
}

/// `x`, twice as large and a little more, cut to the size of `like`: columns first, then rows, a layer each.
LayerId add_doubled(LayerGraph& graph, const std::string& number, LayerId x, LayerId like) {
  x = graph.add("up" + number, Conv2DTranspose{.filters = kPixelClasses}, {x});
  const Shape large = graph.shape(x);
  const Shape small = graph.shape(like);
  x = graph.add("crop_columns" + number, Cropping2D{.columns = large.width - small.width}, {x});
  return graph.add("crop_rows" + number, Cropping2D{.rows = large.height - small.height}, {x});
}

}  // namespace

LayerGraph build_fcn8(const Shape& image) {
  LayerGraph graph(image);
  const std::vector<LayerId> pools = add_vgg_blocks(graph, kVgg16Blocks);
  LayerId x = add_classifier(graph, pools[4]);
  const LayerId score4 = graph.add("score4", kScore, {pools[3]});
  x = graph.add("add4", Add{}, {add_doubled(graph, "5", x, score4), score4});
  const LayerId score3 = graph.add("score3", kScore, {pools[2]});
  x = graph.add("add3", Add{}, {score3, add_doubled(graph, "4", x, score3)});
  x = graph.add("up3", Conv2DTranspose{.filters = kPixelClasses, .kernel = 16, .stride = 8}, {x});
  add_pixel_softmax(graph, x);
  return graph;
}

}  // namespace remora::generate::keras
