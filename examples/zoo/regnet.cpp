// SPDX-License-Identifier: Apache-2.0
//
// RegNet: stages of equal residual blocks, each a 1x1, a grouped 3x3 and a 1x1 convolution of one width ("X block");
// a stage's first block halves the image. The Y block weighs the channels of its 3x3 convolution's output by
// squeeze-and-excitation, from a quarter as many channels as the block reads. The depths and widths of the defaults are
// RegNetX-3.2GF's; RegNetY-3.2GF is
//
//     --block y --depths 2,5,13,1 --widths 72,216,576,1512 --group-width 24
#include <algorithm>
#include <string>

#include "examples/zoo/families.hpp"
#include "examples/zoo/image_layers.hpp"
#include "examples/zoo/layers.hpp"
#include "examples/zoo/text.hpp"

namespace remora::zoo {

namespace {

constexpr std::int64_t kStemWidth = 32;
/// Channels that a Y block reads for each one that it squeezes them to.
constexpr std::int64_t kSqueeze = 4;

struct Block {
  std::int64_t width = 0;
  std::int64_t stride = 1;
  std::int64_t group_width = 1;
  bool squeezes = false;
};

Value convolution_norm(GraphBuilder& graph, const std::string& name, const Value& image, Convolution layer) {
  const auto scope = graph.scope(name);
  layer.bias = false;
  return batch_norm(graph, "bn", convolution(graph, "conv", image, layer));
}

/// The image, each channel times a weight between 0 and 1 that is computed from the means of all.
Value squeeze_and_excite(GraphBuilder& graph, const Value& image, std::int64_t squeezed) {
  const auto scope = graph.scope("squeeze");
  Value x = global_average_pool(graph, "avgpool", image);
  x = relu(graph, "relu", convolution(graph, "reduce", x, {.channels = squeezed, .kernel = 1}));
  x = convolution(graph, "expand", x, {.channels = channels_of(image), .kernel = 1});
  return binary(graph, "Mul", "scaled", image, unary(graph, "Sigmoid", "sigmoid", x));
}

Value residual_block(GraphBuilder& graph, const Value& image, const Block& block) {
  const std::int64_t groups = block.width / std::min(block.group_width, block.width);
  const Convolution grouped{.channels = block.width, .stride = block.stride, .padding = 1, .groups = groups};
  Value x = relu(graph, "relu1", convolution_norm(graph, "1", image, {.channels = block.width, .kernel = 1}));
  x = relu(graph, "relu2", convolution_norm(graph, "2", x, grouped));
  // Rounded to the nearest, as the authors' pycls and torchvision do.
  if (block.squeezes) x = squeeze_and_excite(graph, x, (channels_of(image) + kSqueeze / 2) / kSqueeze);
  x = convolution_norm(graph, "3", x, {.channels = block.width, .kernel = 1});
  Value shortcut = image;
  if (block.stride != 1 || channels_of(image) != block.width) {
    shortcut =
        convolution_norm(graph, "shortcut", image, {.channels = block.width, .kernel = 1, .stride = block.stride});
  }
  return relu(graph, "relu", add(graph, "add", x, shortcut));
}

void regnet(GraphBuilder& graph, const Settings& settings, std::int64_t batch) {
  const std::int64_t size = settings.number("size");
  const std::int64_t group_width = settings.number("group-width");
  const bool squeezes = settings.choice("block") == "y";
  const std::vector<std::int64_t>& depths = settings.numbers("depths");
  const std::vector<std::int64_t>& widths = settings.numbers("widths");
  for (const std::int64_t width : widths) {
    require(width % std::min(group_width, width) == 0,
            text("--widths ", width, ": must be a multiple of --group-width ", group_width, ", or less than it"));
  }
  Value x = graph.input("image", ElementType::float32, {batch, 3, size, size});
  x = relu(graph, "relu", convolution_norm(graph, "stem", x, {.channels = kStemWidth, .stride = 2, .padding = 1}));
  for (std::size_t i = 0; i < depths.size(); ++i) {
    const auto stage = graph.scope(text("stage", i + 1));
    for (std::int64_t j = 0; j < depths[i]; ++j) {
      const auto scope = graph.scope(text("block", j));
      x = residual_block(graph, x, {widths[i], j == 0 ? 2 : 1, group_width, squeezes});
    }
  }
  x = flatten(graph, "flatten", global_average_pool(graph, "avgpool", x));
  graph.output(fully_connected(graph, "fc", x, settings.number("classes")));
}

}  // namespace

std::vector<Architecture> regnet_family() {
  return {{.name = "regnet",
           .summary = "RegNet image classifier, stages of grouped residual blocks",
           .source = "Radosavovic et al. 2020",
           .parameters = {{"size", Range{224, 32, 4096}, "height and width of the image, pixels"},
                          {"block", Choices{"x", "y"}, "y: with squeeze-and-excitation"},
                          {"depths", Ranges{{2, 6, 15, 2}, 1, 256}, "blocks of each stage"},
                          {"widths", Ranges{{96, 192, 432, 1008}, 1, 16384}, "channels of each stage"},
                          {"group-width", Range{48, 1, 16384}, "channels of a group of the 3x3 convolutions"},
                          {"classes", Range{1000, 1, 1000000}, "number of classes"}},
           .build = regnet}};
}

}  // namespace remora::zoo
