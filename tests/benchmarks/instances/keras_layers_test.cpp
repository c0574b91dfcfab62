// SPDX-License-Identifier: Apache-2.0
//
// Layers and networks against what is known of them apart from us: Keras' own shapes and parameter counts, and the
// multiply-adds that the networks' papers state.
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "benchmarks/instances/keras/layers.hpp"

namespace remora::instances::keras {
namespace {

void expect_figures(const LayerKind& kind, const std::vector<Shape>& inputs, const LayerFigures& expected) {
  const LayerFigures figures = measure(kind, inputs);
  EXPECT_EQ(figures.output, expected.output) << type_of(kind);
  EXPECT_EQ(figures.operations, expected.operations) << type_of(kind);
  EXPECT_EQ(figures.parameters, expected.parameters) << type_of(kind);
  EXPECT_EQ(figures.trained_parameters, expected.trained_parameters) << type_of(kind);
}

TEST(KerasLayers, ConvolutionsFollowStrideAndPadding) {
  const std::vector<Shape> image{{7, 10, 3}};
  expect_figures(Conv2D{.filters = 8}, image, {{7, 10, 8}, 70 * 8 * 27, 8 * 28, 8 * 28});
  expect_figures(Conv2D{.filters = 8, .stride = 2, .bias = false}, image, {{4, 5, 8}, 20 * 8 * 27, 8 * 27, 8 * 27});
  expect_figures(Conv2D{.filters = 2, .stride = 2, .padding = Padding::valid}, image,
                 {{3, 4, 2}, 12 * 2 * 27, 2 * 28, 2 * 28});
  expect_figures(DepthwiseConv2D{.stride = 2, .padding = Padding::valid}, image, {{3, 4, 3}, 12 * 3 * 9, 27, 27});
  // Checkmate counts the channels in alone; the weights are all there.
  expect_figures(Conv2DTranspose{.filters = 5}, image, {{16, 22, 5}, 16 * 22 * 5 * 3, 16 * 15, 16 * 15});
}

TEST(KerasLayers, OthersCountValuesOrNothing) {
  const std::vector<Shape> image{{4, 6, 5}};
  expect_figures(BatchNormalization{}, image, {{4, 6, 5}, 480, 20, 10});
  expect_figures(Activation{}, image, {{4, 6, 5}, 120});
  expect_figures(UpSampling2D{}, image, {{8, 12, 5}, 480});
  expect_figures(Add{}, {image.front(), image.front()}, {{4, 6, 5}, 240});
  expect_figures(Dense{.units = 7}, {{1, 1, 5}}, {{1, 1, 7}, 35, 42, 42});
  expect_figures(MaxPooling2D{}, image, {{2, 3, 5}});
  expect_figures(MaxPooling2D{.size = 3, .stride = 2}, image, {{1, 2, 5}});
  expect_figures(GlobalAveragePooling2D{}, image, {{1, 1, 5}});
  expect_figures(Flatten{}, image, {{1, 1, 120}});
  expect_figures(Reshape{.target = {24, 1, 5}}, image, {{24, 1, 5}});
  expect_figures(Dropout{}, image, {{4, 6, 5}});
  expect_figures(Concatenate{}, {image.front(), {4, 6, 1}}, {{4, 6, 6}});
  expect_figures(ZeroPadding2D{.before = 0, .after = 1}, image, {{5, 7, 5}});
  expect_figures(Cropping2D{.rows = 1, .columns = 3}, image, {{3, 3, 5}});
}

TEST(KerasLayers, AreOrderedByDepthThenByTheWalkFromTheLast) {
  LayerGraph graph({4, 4, 3});
  const LayerId entrance = graph.add("entrance", Conv2D{.filters = 3}, {LayerGraph::kImage});
  const LayerId shortcut = graph.add("shortcut", Conv2D{.filters = 3}, {entrance});
  const LayerId inner = graph.add("inner", Conv2D{.filters = 3}, {entrance});
  const LayerId last = graph.add("last", Conv2D{.filters = 3}, {inner});
  graph.add("sum", Add{}, {last, shortcut});
  std::vector<std::string> names;
  for (const LayerId layer : keras_order(graph)) names.push_back(graph.layers()[static_cast<std::size_t>(layer)].name);
  // The shortcut was added first, yet is as shallow as `last`, which the walk meets first.
  EXPECT_EQ(names, (std::vector<std::string>{"entrance", "inner", "last", "shortcut", "sum"}));
}

std::int64_t parameters(const LayerGraph& graph) {
  std::int64_t sum = 0;
  for (const Layer& layer : graph.layers()) sum += layer.figures.parameters;
  return sum;
}

std::int64_t trained_parameters(const LayerGraph& graph) {
  std::int64_t sum = 0;
  for (const Layer& layer : graph.layers()) sum += layer.figures.trained_parameters;
  return sum;
}

/// In convolutions and dense layers.
std::int64_t multiply_adds(const LayerGraph& graph) {
  std::int64_t sum = 0;
  for (const Layer& layer : graph.layers()) {
    const std::string_view type = layer.type;
    if (type == "Conv2D" || type == "DepthwiseConv2D" || type == "Dense") sum += layer.figures.operations;
  }
  return sum;
}

TEST(KerasNetworks, HaveTheParametersThatKerasCounts) {
  EXPECT_EQ(parameters(build_vgg16(kSmallImage)), 138'357'544);
  EXPECT_EQ(parameters(build_vgg19(kSmallImage)), 143'667'240);
  EXPECT_EQ(parameters(build_mobilenet(kSmallImage)), 4'253'864);
  EXPECT_EQ(parameters(build_resnet50(kSmallImage)), 25'636'712);
  EXPECT_EQ(trained_parameters(build_mobilenet(kSmallImage)), 4'231'976);
  EXPECT_EQ(trained_parameters(build_resnet50(kSmallImage)), 25'583'592);
}

TEST(KerasNetworks, TakeTheMultiplyAddsThatTheirPapersState) {
  // Billions of them for one image of 224 x 224: He et al. 2016 give 15.3 (convolutions alone), 19.6 and 3.8; Howard et
  // al. 2017 give 0.569.
  EXPECT_NEAR(static_cast<double>(multiply_adds(build_vgg16(kSmallImage))), 15.47e9, 0.01e9);
  EXPECT_NEAR(static_cast<double>(multiply_adds(build_vgg19(kSmallImage))), 19.6e9, 0.05e9);
  EXPECT_NEAR(static_cast<double>(multiply_adds(build_resnet50(kSmallImage))), 3.85e9, 0.05e9);
  EXPECT_NEAR(static_cast<double>(multiply_adds(build_mobilenet(kSmallImage))), 0.569e9, 0.001e9);
}

TEST(KerasNetworks, LabelHalfOrSlightlyMoreThanAllOfTheImage) {
  for (const Architecture& architecture : kArchitectures) {
    if (architecture.multiple == 1) continue;
    const LayerGraph graph = architecture.build({64, 96, 3});
    const Shape labels = graph.layers().back().figures.output;
    // A transposed convolution of kernel 16 and stride 8 adds 8 to what it multiplies.
    const Shape expected = architecture.name == "fcn8" ? Shape{72 * 104, 1, 19} : Shape{32 * 48, 1, 19};
    EXPECT_EQ(labels, expected) << architecture.name;
  }
}

}  // namespace
}  // namespace remora::instances::keras
