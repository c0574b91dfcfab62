// SPDX-License-Identifier: Apache-2.0
//
// ResNet-50 (He et al. 2016), version 1, with the stride in the first convolution of a block:
//
//     x -> conv 1x1, bn, relu -> conv 3x3, bn, relu -> conv 1x1, bn -> add -> relu
//      `-> conv 1x1, bn (first block of a stage), or x itself ---------^
//
// Convolutions have a bias; paddings at the entrance are layers of their own.
#include <string>
#include <utility>

#include "frontends/generate/keras/architectures.hpp"

namespace remora::generate::keras {
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

}  // namespace remora::generate::keras
