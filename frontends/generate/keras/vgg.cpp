// SPDX-License-Identifier: Apache-2.0
//
// VGG-16 and VGG-19 (Simonyan and Zisserman 2015): blocks of convolutions, then three dense layers. All activations
// belong to their layer.
#include "frontends/generate/keras/vgg.hpp"

#include <algorithm>
#include <string>

#include "frontends/generate/keras/architectures.hpp"

namespace remora::generate::keras {
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

}  // namespace remora::generate::keras
