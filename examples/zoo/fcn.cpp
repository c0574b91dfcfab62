// SPDX-License-Identifier: Apache-2.0
//
// FCN-8s on VGG-16: the classifier becomes convolutional, and its coarse scores are doubled, added to those of pool4,
// doubled, added to those of pool3, and enlarged eight times.
//
//     image -> pool3 -> pool4 -> pool5 -> fc6 -> fc7 -> score_fr
//                |        |                                | x2
//                |        +-- score_pool4 -- crop -------> +
//                |                                         | x2
//                +----------- score_pool3 -- crop -------> +
//                                                          | x8 -- crop -> scores, as large as the image
//
// The first convolution pads by 100 so that fc6's 7x7 window fits any image; the crop offsets follow from that padding
// and from Caffe's rounding up in pooling, and are the published ones. Dropout is the identity at inference and left
// out.
#include <string>

#include "examples/zoo/families.hpp"
#include "examples/zoo/image_layers.hpp"
#include "examples/zoo/layers.hpp"
#include "examples/zoo/vgg.hpp"

namespace remora::zoo {

namespace {

constexpr std::int64_t kFirstPadding = 100;
constexpr std::int64_t kPool4Offset = 5;
constexpr std::int64_t kPool3Offset = 9;
constexpr std::int64_t kImageOffset = 31;

Value enlarge(GraphBuilder& graph, const std::string& name, const Value& scores, std::int64_t factor) {
  return transposed_convolution(
      graph, name, scores, {.channels = channels_of(scores), .kernel = 2 * factor, .stride = factor, .bias = false});
}

/// Adds to `coarse` the scores that a 1x1 convolution gives the finer features `pool`.
Value fuse(GraphBuilder& graph, const std::string& pool_name, const Value& coarse, const Value& pool,
           std::int64_t offset) {
  const std::string name = "score_" + pool_name;
  const Value scores = convolution(graph, name, pool, {.channels = channels_of(coarse), .kernel = 1});
  const Value cropped = crop(graph, name + "/crop", scores, offset, size_of(coarse));
  return add(graph, "fuse_" + pool_name, coarse, cropped);
}

void fcn8(GraphBuilder& graph, const Settings& settings, std::int64_t batch) {
  const std::int64_t size = settings.number("size");
  const std::int64_t classes = settings.number("classes");
  const Value image = graph.input("image", ElementType::float32, {batch, 3, size, size});
  const VggStages pools = vgg16_features(graph, image, kFirstPadding, {.cutoff = true});
  Value x = relu(graph, "fc6/relu", convolution(graph, "fc6", pools[4], {.channels = 4096, .kernel = 7}));
  x = relu(graph, "fc7/relu", convolution(graph, "fc7", x, {.channels = 4096, .kernel = 1}));
  x = convolution(graph, "score_fr", x, {.channels = classes, .kernel = 1});
  x = fuse(graph, "pool4", enlarge(graph, "upscore2", x, 2), pools[3], kPool4Offset);
  x = fuse(graph, "pool3", enlarge(graph, "upscore_pool4", x, 2), pools[2], kPool3Offset);
  graph.output(crop(graph, "score", enlarge(graph, "upscore8", x, 8), kImageOffset, size));
}

}  // namespace

std::vector<Architecture> fcn_family() {
  return {{.name = "fcn8",
           .summary = "FCN-8s on VGG-16 for image segmentation",
           .source = "Long et al. 2015",
           .parameters = {{"size", Range{500, 32, 8192}, "height and width of the image, pixels"},
                          {"classes", Range{21, 1, 65536}, "classes of a pixel, the background counted"}},
           .build = fcn8}};
}

}  // namespace remora::zoo
