// SPDX-License-Identifier: Apache-2.0
//
// VGG-16, configuration D. Its dropout layers are the identity at inference and left out.
#include "examples/zoo/vgg.hpp"

#include <string>

#include "examples/zoo/families.hpp"
#include "examples/zoo/layers.hpp"
#include "examples/zoo/text.hpp"

namespace remora::zoo {

namespace {

void vgg16(GraphBuilder& graph, const Settings& settings, std::int64_t batch) {
  const std::int64_t size = settings.number("size");
  const Value image = graph.input("image", ElementType::float32, {batch, 3, size, size});
  const VggStages stages = vgg16_features(graph, image, 1, {});
  Value x = flatten(graph, "flatten", stages.back());
  for (const char* const name : {"fc6", "fc7"}) {
    x = fully_connected(graph, name, x, 4096);
    x = relu(graph, std::string(name) + "/relu", x);
  }
  graph.output(fully_connected(graph, "fc8", x, settings.number("classes")));
}

}  // namespace

VggStages vgg16_features(GraphBuilder& graph, const Value& image, std::int64_t first_padding, const Pooling& pooling) {
  struct Stage {
    int convolutions;
    std::int64_t channels;
  };
  constexpr std::array<Stage, 5> kStages{{{2, 64}, {2, 128}, {3, 256}, {3, 512}, {3, 512}}};
  VggStages outputs;
  Value x = image;
  for (std::size_t i = 0; i < kStages.size(); ++i) {
    for (int j = 1; j <= kStages[i].convolutions; ++j) {
      const std::string name = text("conv", i + 1, "_", j);
      const std::int64_t padding = i == 0 && j == 1 ? first_padding : 1;
      x = convolution(graph, name, x, {.channels = kStages[i].channels, .padding = padding});
      x = relu(graph, name + "/relu", x);
    }
    x = max_pool(graph, text("pool", i + 1), x, pooling);
    outputs[i] = x;
  }
  return outputs;
}

std::vector<Architecture> vgg_family() {
  return {{.name = "vgg16",
           .summary = "VGG-16 image classifier",
           .source = "Simonyan and Zisserman 2015, configuration D",
           .parameters = {{"size", Range{224, 32, 4096}, "height and width of the image, pixels"},
                          {"classes", Range{1000, 1, 1000000}, "number of classes"}},
           .build = vgg16}};
}

}  // namespace remora::zoo
