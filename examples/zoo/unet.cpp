// SPDX-License-Identifier: Apache-2.0
//
// U-Net: an encoder that halves the image, a decoder that doubles it, and at every level a skip connection from one to
// the other. The skip of the first level lives from the first convolutions to the last ones:
//
//     encoder/level1 ---------------------------------> decoder/level1 -> head
//         \ encoder/level2 ------------------> decoder/level2 /
//             \ encoder/level3 ---> decoder/level3 /
//                   \ bottom /
//
// The paper's convolutions are unpadded ("valid", its image of 572 pixels gives 388) and skips are cropped to the
// decoder's size; most implementations pad ("same"), and so does the default here. The dropout at the encoder's end is
// the identity at inference and left out.
#include <string>

#include "examples/zoo/families.hpp"
#include "examples/zoo/image_layers.hpp"
#include "examples/zoo/layers.hpp"
#include "examples/zoo/text.hpp"

namespace remora::zoo {

namespace {

/// Twice a 3x3 convolution and Relu.
Value double_convolution(GraphBuilder& graph, const std::string& name, const Value& image, std::int64_t channels,
                         std::int64_t padding) {
  const auto scope = graph.scope(name);
  Value x = image;
  for (const char* const conv : {"conv1", "conv2"}) {
    x = convolution(graph, conv, x, {.channels = channels, .padding = padding});
    x = relu(graph, std::string(conv) + "/relu", x);
  }
  return x;
}

Value halve(GraphBuilder& graph, const std::string& name, const Value& image) {
  require(size_of(image) % 2 == 0,
          text(name, " meets an odd size of ", size_of(image), " pixels: take another --size or fewer --levels"));
  return max_pool(graph, name, image);
}

/// Doubles `below`, puts the skip before it and convolves both.
Value decode(GraphBuilder& graph, const std::string& name, const Value& below, const Value& skip,
             std::int64_t padding) {
  const auto scope = graph.scope(name);
  const std::int64_t channels = channels_of(skip);
  const Value up = transposed_convolution(graph, "up", below, {.channels = channels, .kernel = 2, .stride = 2});
  const std::int64_t margin = (size_of(skip) - size_of(up)) / 2;
  const Value cropped = crop(graph, "crop", skip, margin, size_of(up));
  const Value both = concatenate_channels(graph, "concat", {cropped, up});
  return double_convolution(graph, "block", both, channels, padding);
}

void unet(GraphBuilder& graph, const Settings& settings, std::int64_t batch) {
  const std::int64_t size = settings.number("size");
  const std::int64_t levels = settings.number("levels");
  const std::int64_t padding = settings.choice("padding") == "same" ? 1 : 0;
  std::int64_t width = settings.number("width");
  Value x = graph.input("image", ElementType::float32, {batch, settings.number("channels"), size, size});
  std::vector<Value> skips;
  for (std::int64_t level = 1; level < levels; ++level, width *= 2) {
    const std::string name = text("encoder/level", level);
    skips.push_back(double_convolution(graph, name, x, width, padding));
    x = halve(graph, name + "/pool", skips.back());
  }
  x = double_convolution(graph, "bottom", x, width, padding);
  for (std::int64_t level = levels - 1; level >= 1; --level) {
    x = decode(graph, text("decoder/level", level), x, skips.back(), padding);
    skips.pop_back();
  }
  graph.output(convolution(graph, "head", x, {.channels = settings.number("classes"), .kernel = 1}));
}

}  // namespace

std::vector<Architecture> unet_family() {
  return {{.name = "unet",
           .summary = "U-Net for image segmentation, long skip connections",
           .source = "Ronneberger et al. 2015; as published: --padding valid --size 572",
           .parameters = {{"size", Range{256, 4, 16384}, "height and width of the image, pixels"},
                          {"levels", Range{5, 2, 10}, "resolutions, the lowest included"},
                          {"width", Range{64, 1, 4096}, "channels of the first level; doubled at each level below"},
                          {"channels", Range{1, 1, 65536}, "channels of the image"},
                          {"classes", Range{2, 1, 65536}, "classes of a pixel"},
                          {"padding", Choices{"same", "valid"}, "of the 3x3 convolutions: with zeros, or none"}},
           .build = unet}};
}

}  // namespace remora::zoo
