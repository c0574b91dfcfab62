// SPDX-License-Identifier: Apache-2.0
#include "frontends/generate/keras/segmentation.hpp"

namespace remora::generate::keras {

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

}  // namespace remora::generate::keras
