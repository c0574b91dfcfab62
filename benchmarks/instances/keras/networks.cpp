// SPDX-License-Identifier: Apache-2.0
//
// The networks of layers.hpp, layer by layer.

#include <algorithm>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "benchmarks/instances/keras/layers.hpp"

namespace remora::instances::keras {

// VGG-16 and VGG-19 (Simonyan and Zisserman 2015): blocks of convolutions, then three dense layers. All activations
// belong to their layer.

/// The convolutions of each block of VGG-16.
inline constexpr int kVgg16Blocks[] = {2, 2, 3, 3, 3};

/// Adds VGG's blocks from the image on (Simonyan and Zisserman 2015): in each, so many 3x3 convolutions as `blocks`
/// says, the first ones with 64, 128, 256 filters, then 512, and a pooling that halves the image. At most five blocks.
/// Returns each block's pooling.
std::vector<LayerId> add_vgg_blocks(LayerGraph& graph, std::span<const int> blocks);

namespace {

constexpr int kVgg19Blocks[] = {2, 2, 4, 4, 4};

LayerGraph build_vgg(const Shape& image, std::span<const int> blocks) {
  LayerGraph graph(image);
  LayerId x = add_vgg_blocks(graph, blocks).back();
  x = graph.add("flatten", Flatten{}, {x});
  x = graph.add("fc1", Dense{.units = 4096}, {x});
  x = graph.add("fc2", Dense{.units = 4096}, {x});
  graph.add("predictions", Dense{.units = 1000}, {x});
  return graph;
}

}  // namespace

std::vector<LayerId> add_vgg_blocks(LayerGraph& graph, std::span<const int> blocks) {
  std::vector<LayerId> pools;
  LayerId x = LayerGraph::kImage;
  std::int64_t filters = 64;
  for (std::size_t block = 0; block < blocks.size(); ++block) {
    const std::string prefix = "block" + std::to_string(block + 1);
    for (int i = 1; i <= blocks[block]; ++i) {
      x = graph.add(prefix + "_conv" + std::to_string(i), Conv2D{.filters = filters}, {x});
    }
    x = graph.add(prefix + "_pool", MaxPooling2D{}, {x});
    pools.push_back(x);
    filters = std::min<std::int64_t>(2 * filters, 512);
  }
  return pools;
}

LayerGraph build_vgg16(const Shape& image) {
  return build_vgg(image, kVgg16Blocks);
}

LayerGraph build_vgg19(const Shape& image) {
  return build_vgg(image, kVgg19Blocks);
}

// ResNet-50 (He et al. 2016), version 1, with the stride in the first convolution of a block:
//
//     x -> conv 1x1, bn, relu -> conv 3x3, bn, relu -> conv 1x1, bn -> add -> relu
//      `-> conv 1x1, bn (first block of a stage), or x itself ---------^
//
// Convolutions have a bias; paddings at the entrance are layers of their own.

namespace {

struct Stage {
  std::int64_t filters;
  int blocks;
  /// Of the first block.
  std::int64_t stride;
};

constexpr Stage kStages[] = {{64, 3, 1}, {128, 4, 2}, {256, 6, 2}, {512, 3, 2}};

/// A block writes four times as many channels as it has filters inside.
constexpr std::int64_t kExpansion = 4;

class ResnetBuilder {
 public:
  explicit ResnetBuilder(const Shape& image) : graph_(image) {}

  LayerGraph build() {
    LayerId x = add_entrance();
    int number = 2;  // the entrance is stage 1
    for (const Stage& stage : kStages) x = add_stage("conv" + std::to_string(number++), stage, x);
    x = graph_.add("avg_pool", GlobalAveragePooling2D{}, {x});
    graph_.add("predictions", Dense{.units = 1000}, {x});
    return std::move(graph_);
  }

 private:
  LayerId add_entrance() {
    LayerId x = graph_.add("conv1_pad", ZeroPadding2D{.before = 3, .after = 3}, {LayerGraph::kImage});
    const Conv2D first{.filters = 64, .kernel = 7, .stride = 2, .padding = Padding::valid};
    x = activate("conv1", convolve("conv1", first, x));
    x = graph_.add("pool1_pad", ZeroPadding2D{}, {x});
    return graph_.add("pool1_pool", MaxPooling2D{.size = 3, .stride = 2}, {x});
  }

  LayerId add_stage(const std::string& name, const Stage& stage, LayerId x) {
    for (int block = 1; block <= stage.blocks; ++block) {
      x = add_block(name + "_block" + std::to_string(block), stage, block == 1, x);
    }
    return x;
  }

  LayerId add_block(const std::string& name, const Stage& stage, bool first, LayerId x) {
    const std::int64_t stride = first ? stage.stride : 1;
    const std::int64_t wide = kExpansion * stage.filters;
    const LayerId shortcut =
        first ? convolve(name + "_0", Conv2D{.filters = wide, .kernel = 1, .stride = stride}, x) : x;
    x = convolve(name + "_1", Conv2D{.filters = stage.filters, .kernel = 1, .stride = stride}, x);
    x = convolve(name + "_2", Conv2D{.filters = stage.filters}, activate(name + "_1", x));
    x = convolve(name + "_3", Conv2D{.filters = wide, .kernel = 1}, activate(name + "_2", x));
    x = graph_.add(name + "_add", Add{}, {shortcut, x});
    return graph_.add(name + "_out", Activation{}, {x});
  }

  LayerId convolve(const std::string& name, const Conv2D& layer, LayerId x) {
    x = graph_.add(name + "_conv", layer, {x});
    return graph_.add(name + "_bn", BatchNormalization{}, {x});
  }

  LayerId activate(const std::string& name, LayerId x) { return graph_.add(name + "_relu", Activation{}, {x}); }

  LayerGraph graph_;
};

}  // namespace

LayerGraph build_resnet50(const Shape& image) {
  return ResnetBuilder(image).build();
}

// MobileNet (Howard et al. 2017), version 1 of full width: a convolution and thirteen blocks, each a depthwise 3x3 and
// a pointwise convolution. After every convolution come batch normalization and activation as layers of their own. A
// depthwise convolution of stride 2 has its padding as a layer, below and on the right only.

namespace {

struct Block {
  std::int64_t filters;
  std::int64_t stride;
};

constexpr Block kBlocks[] = {{64, 1},  {128, 2}, {128, 1}, {256, 2}, {256, 1},  {512, 2}, {512, 1},
                             {512, 1}, {512, 1}, {512, 1}, {512, 1}, {1024, 2}, {1024, 1}};

constexpr ZeroPadding2D kPadding{.before = 0, .after = 1};

LayerId normalize(LayerGraph& graph, const std::string& name, LayerId x) {
  x = graph.add(name + "_bn", BatchNormalization{}, {x});
  return graph.add(name + "_relu", Activation{}, {x});
}

LayerId add_block(LayerGraph& graph, const Block& block, const std::string& number, LayerId x) {
  const bool strided = block.stride != 1;
  if (strided) x = graph.add("conv_pad_" + number, kPadding, {x});
  const Padding padding = strided ? Padding::valid : Padding::same;
  x = graph.add("conv_dw_" + number, DepthwiseConv2D{.stride = block.stride, .padding = padding}, {x});
  x = normalize(graph, "conv_dw_" + number, x);
  x = graph.add("conv_pw_" + number, Conv2D{.filters = block.filters, .kernel = 1, .bias = false}, {x});
  return normalize(graph, "conv_pw_" + number, x);
}

}  // namespace

LayerGraph build_mobilenet(const Shape& image) {
  LayerGraph graph(image);
  LayerId x = graph.add("conv1_pad", kPadding, {LayerGraph::kImage});
  x = graph.add("conv1", Conv2D{.filters = 32, .stride = 2, .padding = Padding::valid, .bias = false}, {x});
  x = normalize(graph, "conv1", x);
  int number = 0;
  for (const Block& block : kBlocks) x = add_block(graph, block, std::to_string(++number), x);
  x = graph.add("global_average_pooling", GlobalAveragePooling2D{}, {x});
  x = graph.add("reshape_1", Reshape{.target = graph.shape(x)}, {x});
  x = graph.add("dropout", Dropout{}, {x});
  x = graph.add("conv_preds", Conv2D{.filters = 1000, .kernel = 1}, {x});
  x = graph.add("reshape_2", Reshape{.target = graph.shape(x)}, {x});
  graph.add("act_softmax", Activation{}, {x});
  return graph;
}

// Networks that label each pixel.

// What the networks share that label each pixel: FCN-8, SegNet and U-Net, as Jain et al. 2020 take them from the Keras
// implementations of image-segmentation-keras.

/// The classes that Cityscapes evaluates.
inline constexpr std::int64_t kPixelClasses = 19;

/// Adds padding, a 3x3 convolution and batch normalization: `name`_pad, _conv, _bn. Keeps height and width.
LayerId add_padded_convolution(LayerGraph& graph, const std::string& name, std::int64_t filters, LayerId x);

/// Adds the end of the network: a row of pixels, and softmax.
void add_pixel_softmax(LayerGraph& graph, LayerId x);

LayerId add_padded_convolution(LayerGraph& graph, const std::string& name, std::int64_t filters, LayerId x) {
  x = graph.add(name + "_pad", ZeroPadding2D{}, {x});
  x = graph.add(name + "_conv", Conv2D{.filters = filters, .padding = Padding::valid}, {x});
  return graph.add(name + "_bn", BatchNormalization{}, {x});
}

void add_pixel_softmax(LayerGraph& graph, LayerId x) {
  const Shape pixels = graph.shape(x);
  x = graph.add("reshape", Reshape{.target = {pixels.height * pixels.width, 1, pixels.channels}}, {x});
  graph.add("softmax", Activation{}, {x});
}

// FCN-8 on VGG-16 (Long et al. 2015): scores at a 32nd, a 16th and an 8th of the image, the coarse ones upsampled by
// transposed convolutions, cropped, and added.
//
//     block5_pool -> conv6 .. score5 -> up5 -> crop, crop -> add4 -> up4 -> crop, crop -> add3 -> up3 -> softmax
//     block4_pool -> score4 -------------------------------^                               ^
//     block3_pool -> score3 ---------------------------------------------------------------'

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

// SegNet (Badrinarayanan et al. 2017) in its small form: four levels down, each a padded convolution, batch
// normalization, activation and pooling, and four up, with upsampling between them. There are no skips, and the labels
// are for half the image's height and width.

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

}  // namespace remora::instances::keras
