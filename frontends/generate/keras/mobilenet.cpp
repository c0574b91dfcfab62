// SPDX-License-Identifier: Apache-2.0
//
// MobileNet (Howard et al. 2017), version 1 of full width: a convolution and thirteen blocks, each a depthwise 3x3 and
// a pointwise convolution. After every convolution come batch normalization and activation as layers of their own. A
// depthwise convolution of stride 2 has its padding as a layer, below and on the right only.
#include <string>

#include "frontends/generate/keras/architectures.hpp"

namespace remora::generate::keras {
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

}  // namespace remora::generate::keras
