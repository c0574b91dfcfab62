// SPDX-License-Identifier: Apache-2.0
//
// Residual networks: He et al.'s table 1 with one definition for all depths. The bottleneck block is of "version 1.5":
// it strides in its 3x3 convolution, as torchvision and NVIDIA's reference do, where the paper strides in its first
// 1x1.
#include <array>
#include <string>

#include "examples/zoo/families.hpp"
#include "examples/zoo/image_layers.hpp"
#include "examples/zoo/layers.hpp"
#include "examples/zoo/text.hpp"

namespace remora::zoo {

namespace {

struct Depth {
  const char* name;
  /// Residual blocks of the four layers.
  std::array<int, 4> blocks;
  /// Three convolutions a block (1x1, 3x3, 1x1 to four times the width), not two of 3x3.
  bool bottleneck;
};

constexpr std::array<Depth, 5> kDepths{{{"resnet18", {2, 2, 2, 2}, false},
                                        {"resnet34", {3, 4, 6, 3}, false},
                                        {"resnet50", {3, 4, 6, 3}, true},
                                        {"resnet101", {3, 4, 23, 3}, true},
                                        {"resnet152", {3, 8, 36, 3}, true}}};

Value normed_convolution(GraphBuilder& graph, const std::string& number, const Value& image, Convolution layer) {
  layer.bias = false;
  return batch_norm(graph, "bn" + number, convolution(graph, "conv" + number, image, layer));
}

/// The sum of the block's convolutions and its shortcut, which is a 1x1 convolution where the shape changes.
Value residual_block(GraphBuilder& graph, const std::string& name, const Value& image, std::int64_t width,
                     std::int64_t stride, bool bottleneck) {
  const auto scope = graph.scope(name);
  Value x = image;
  if (bottleneck) {
    x = relu(graph, "relu1", normed_convolution(graph, "1", x, {.channels = width, .kernel = 1}));
    x = relu(graph, "relu2", normed_convolution(graph, "2", x, {.channels = width, .stride = stride, .padding = 1}));
    x = normed_convolution(graph, "3", x, {.channels = 4 * width, .kernel = 1});
  } else {
    x = relu(graph, "relu1", normed_convolution(graph, "1", x, {.channels = width, .stride = stride, .padding = 1}));
    x = normed_convolution(graph, "2", x, {.channels = width, .padding = 1});
  }
  Value shortcut = image;
  if (stride != 1 || channels_of(image) != channels_of(x)) {
    const auto inner = graph.scope("shortcut");
    shortcut = normed_convolution(graph, "", image, {.channels = channels_of(x), .kernel = 1, .stride = stride});
  }
  return relu(graph, "relu", add(graph, "add", x, shortcut));
}

void resnet(GraphBuilder& graph, const Settings& settings, std::int64_t batch, const Depth& depth) {
  const std::int64_t size = settings.number("size");
  std::int64_t width = settings.number("width");
  Value x = graph.input("image", ElementType::float32, {batch, 3, size, size});
  x = normed_convolution(graph, "1", x, {.channels = width, .kernel = 7, .stride = 2, .padding = 3});
  x = max_pool(graph, "maxpool", relu(graph, "relu", x), {.kernel = 3, .stride = 2, .padding = 1});
  for (std::size_t i = 0; i < depth.blocks.size(); ++i, width *= 2) {
    const auto scope = graph.scope(text("layer", i + 1));
    for (int j = 0; j < depth.blocks[i]; ++j) {
      const std::int64_t stride = i > 0 && j == 0 ? 2 : 1;
      x = residual_block(graph, text("block", j), x, width, stride, depth.bottleneck);
    }
  }
  x = flatten(graph, "flatten", global_average_pool(graph, "avgpool", x));
  graph.output(fully_connected(graph, "fc", x, settings.number("classes")));
}

}  // namespace

std::vector<Architecture> resnet_family() {
  std::vector<Architecture> members;
  members.reserve(std::size(kDepths));
  for (const Depth& depth : kDepths) {
    members.push_back({.name = depth.name,
                       .summary = "residual image classifier",
                       .source = depth.bottleneck ? "He et al. 2016, version 1.5" : "He et al. 2016",
                       .parameters = {{"size", Range{224, 32, 4096}, "height and width of the image, pixels"},
                                      {"width", Range{64, 1, 4096}, "channels of the first layer"},
                                      {"classes", Range{1000, 1, 1000000}, "number of classes"}},
                       .build = [depth](GraphBuilder& graph, const Settings& settings, std::int64_t batch) {
                         resnet(graph, settings, batch, depth);
                       }});
  }
  return members;
}

}  // namespace remora::zoo
