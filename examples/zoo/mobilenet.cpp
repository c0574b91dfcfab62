// SPDX-License-Identifier: Apache-2.0
//
// MobileNet, version 1: depthwise separable convolutions. Relu6 is written as Clip, as exporters do.
#include <array>
#include <string>

#include "examples/zoo/families.hpp"
#include "examples/zoo/image_layers.hpp"
#include "examples/zoo/layers.hpp"
#include "examples/zoo/text.hpp"

namespace remora::zoo {

namespace {

Value convolution_norm_relu6(GraphBuilder& graph, const std::string& name, const Value& image, Convolution layer) {
  const auto scope = graph.scope(name);
  layer.bias = false;
  const Value x = batch_norm(graph, "bn", convolution(graph, "conv", image, layer));
  return graph.node("Clip", "relu6", {x, graph.scalar(0.0F), graph.scalar(6.0F)}, x.shape);
}

void mobilenet(GraphBuilder& graph, const Settings& settings, std::int64_t batch) {
  struct Block {
    std::int64_t widths;  // output channels, in first widths
    std::int64_t stride;
  };
  constexpr std::array<Block, 13> kBlocks{
      {{2, 1}, {4, 2}, {4, 1}, {8, 2}, {8, 1}, {16, 2}, {16, 1}, {16, 1}, {16, 1}, {16, 1}, {16, 1}, {32, 2}, {32, 1}}};
  const std::int64_t size = settings.number("size");
  const std::int64_t width = settings.number("width");
  Value x = graph.input("image", ElementType::float32, {batch, 3, size, size});
  x = convolution_norm_relu6(graph, "stem", x, {.channels = width, .stride = 2, .padding = 1});
  for (std::size_t i = 0; i < kBlocks.size(); ++i) {
    const auto scope = graph.scope(text("block", i + 1));
    const std::int64_t channels = channels_of(x);
    x = convolution_norm_relu6(graph, "depthwise", x,
                               {.channels = channels, .stride = kBlocks[i].stride, .padding = 1, .groups = channels});
    x = convolution_norm_relu6(graph, "pointwise", x, {.channels = width * kBlocks[i].widths, .kernel = 1});
  }
  x = flatten(graph, "flatten", global_average_pool(graph, "avgpool", x));
  graph.output(fully_connected(graph, "fc", x, settings.number("classes")));
}

}  // namespace

std::vector<Architecture> mobilenet_family() {
  return {{.name = "mobilenet",
           .summary = "MobileNet image classifier, depthwise separable convolutions",
           .source = "Howard et al. 2017",
           .parameters = {{"size", Range{224, 32, 4096}, "height and width of the image, pixels"},
                          {"width", Range{32, 1, 4096}, "channels of the first convolution"},
                          {"classes", Range{1000, 1, 1000000}, "number of classes"}},
           .build = mobilenet}};
}

}  // namespace remora::zoo
