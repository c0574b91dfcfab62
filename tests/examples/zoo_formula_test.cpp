// SPDX-License-Identifier: Apache-2.0
//
// The architectures' parameters do what they say: parameter counts and shapes by formulas from the papers.
#include <algorithm>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <onnx/checker.h>

#include "tests/examples/zoo_model.hpp"

namespace remora::zoo {

namespace {

std::string output_shape(const onnx::ModelProto& model) {
  onnx::checker::check_model(model);
  return infer_shapes(model).at(model.graph().output(0).name());
}

std::int64_t count_nodes(const onnx::ModelProto& model, const std::string& type) {
  const auto& nodes = model.graph().node();
  return std::count_if(nodes.begin(), nodes.end(), [&](const auto& node) { return node.op_type() == type; });
}

/// A k×k convolution with bias.
std::int64_t convolution_parameters(std::int64_t from, std::int64_t to, std::int64_t kernel) {
  return from * to * kernel * kernel + to;
}

std::int64_t unet_parameters(std::int64_t levels, std::int64_t width, std::int64_t channels, std::int64_t classes) {
  std::int64_t count = convolution_parameters(width, classes, 1);
  std::int64_t from = channels;
  std::int64_t to = width;
  for (std::int64_t level = 1; level <= levels; ++level, from = to, to *= 2) {
    count += convolution_parameters(from, to, 3) + convolution_parameters(to, to, 3);
    if (level == levels) break;
    // The decoder of this level: doubled channels come up, half of what is concatenated.
    count += convolution_parameters(2 * to, to, 2);
    count += convolution_parameters(2 * to, to, 3) + convolution_parameters(to, to, 3);
  }
  return count;
}

TEST(Unet, CountsItsParametersAsTheFormulaDoes) {
  for (const int levels : {2, 3, 5, 6}) {
    for (const int width : {1, 8, 48}) {
      const Given given{{"levels", std::to_string(levels)},
                        {"width", std::to_string(width)},
                        {"size", "64"},
                        {"channels", "3"},
                        {"classes", "5"}};
      EXPECT_EQ(count_parameters(make("unet", given).proto), unet_parameters(levels, width, 3, 5));
    }
  }
  EXPECT_EQ(unet_parameters(5, 64, 1, 2), 31'030'658);
}

TEST(Unet, GivesThePapersOutputWithoutPadding) {
  const onnx::ModelProto model = make("unet", {{"padding", "valid"}, {"size", "572"}}).proto;
  EXPECT_EQ(output_shape(model), "1x2x388x388");
  EXPECT_EQ(count_nodes(model, "Slice"), 4);
}

TEST(Unet, HasOneSkipALevel) {
  const onnx::ModelProto model = make("unet", {{"levels", "7"}, {"size", "128"}, {"width", "4"}}).proto;
  EXPECT_EQ(output_shape(model), "1x2x128x128");
  EXPECT_EQ(count_nodes(model, "Concat"), 6);
  EXPECT_EQ(count_nodes(model, "Slice"), 0);
}

TEST(Unet, RefusesASizeThatDoesNotHalve) {
  EXPECT_THROW(make("unet", {{"size", "250"}}), UsageError);
  EXPECT_THROW(make("unet", {{"padding", "valid"}, {"size", "256"}}), UsageError);
  EXPECT_THROW(make("unet", {{"padding", "valid"}, {"size", "20"}}), UsageError);
}

TEST(Fcn, GivesScoresAsLargeAsTheImageForEverySize) {
  for (int size = 32; size <= 608; size += 37) {
    const std::string text = std::to_string(size);
    const std::string expected = "1x21x" + text + "x" + text;
    EXPECT_EQ(output_shape(make("fcn8", {{"size", text}}).proto), expected);
  }
}

TEST(Gpt2, CountsItsParametersAsTheFormulaDoes) {
  const std::int64_t width = 48;
  const std::int64_t block = 12 * width * width + 13 * width;
  const std::int64_t expected = 101 * width + 40 * width + 3 * block + 2 * width;
  Given given{{"layers", "3"},    {"width", "48"},     {"heads", "4"},
              {"sequence", "32"}, {"positions", "40"}, {"vocabulary", "101"}};
  const onnx::ModelProto model = make("gpt2", given, 2).proto;
  EXPECT_EQ(count_parameters(model), expected);
  EXPECT_EQ(output_shape(model), "2x32x101");
  given["layer-norm"] = "decomposed";
  given["gelu"] = "erf";
  const onnx::ModelProto decomposed = make("gpt2", given, 2).proto;
  EXPECT_EQ(count_parameters(decomposed), expected);
  EXPECT_EQ(output_shape(decomposed), "2x32x101");
  EXPECT_EQ(count_nodes(model, "LayerNormalization"), 7);
  EXPECT_EQ(count_nodes(model, "Tanh"), 3);
  EXPECT_EQ(count_nodes(decomposed, "LayerNormalization"), 0);
  EXPECT_EQ(count_nodes(decomposed, "Sqrt"), 7);
  EXPECT_EQ(count_nodes(decomposed, "Erf"), 3);
}

TEST(Gpt2, RefusesHeadsThatDoNotDivideAndLongSequences) {
  EXPECT_THROW(make("gpt2", {{"heads", "7"}}), UsageError);
  EXPECT_THROW(make("gpt2", {{"sequence", "1025"}}), UsageError);
}

std::int64_t transformer_parameters(std::int64_t encoders, std::int64_t decoders, std::int64_t width, std::int64_t ff,
                                    std::int64_t vocabulary) {
  const std::int64_t attention = 4 * width * width;
  const std::int64_t feed_forward = 2 * width * ff + ff + width;
  const std::int64_t norm = 2 * width;
  return vocabulary * width + encoders * (attention + feed_forward + 2 * norm) +
         decoders * (2 * attention + feed_forward + 3 * norm);
}

TEST(Transformer, CountsItsParametersAsTheFormulaDoes) {
  const Given given{{"encoder-layers", "2"}, {"decoder-layers", "3"}, {"width", "24"},     {"heads", "3"}, {"ff", "50"},
                    {"source", "7"},         {"target", "5"},         {"vocabulary", "31"}};
  const onnx::ModelProto model = make("transformer", given, 4).proto;
  EXPECT_EQ(count_parameters(model), transformer_parameters(2, 3, 24, 50, 31));
  EXPECT_EQ(output_shape(model), "4x5x31");
  EXPECT_EQ(transformer_parameters(6, 6, 512, 2048, 37000), 63'045'632);
}

TEST(Transformer, CanDecomposeLayerNormalization) {
  const onnx::ModelProto model = make("transformer", {{"layer-norm", "decomposed"}}).proto;
  EXPECT_EQ(count_parameters(model), 63'045'632);
  EXPECT_EQ(output_shape(model), "1x128x37000");
  EXPECT_EQ(count_nodes(model, "LayerNormalization"), 0);
}

TEST(Resnet, StridesInTheThreeByThreeConvolution) {
  const onnx::ModelProto model = make("resnet50").proto;
  const auto shapes = infer_shapes(model);
  EXPECT_EQ(shapes.at("layer2/block0/conv1"), "1x128x56x56");
  EXPECT_EQ(shapes.at("layer2/block0/conv2"), "1x128x28x28");
}

std::int64_t regnet_parameters(const std::vector<std::int64_t>& depths, const std::vector<std::int64_t>& widths,
                               std::int64_t group_width, bool squeezes, std::int64_t classes) {
  std::int64_t count = 3 * 9 * 32 + 2 * 32;
  std::int64_t from = 32;
  for (std::size_t i = 0; i < depths.size(); ++i) {
    const std::int64_t to = widths[i];
    const std::int64_t norm = 2 * to;
    count += from * to + norm;  // the shortcut, which changes the shape
    for (std::int64_t j = 0; j < depths[i]; ++j, from = to) {
      count += from * to + norm + 9 * to * std::min(group_width, to) + norm + to * to + norm;
      // Quarters of widths that are no multiple of four are not told apart here.
      if (squeezes) count += convolution_parameters(to, from / 4, 1) + convolution_parameters(from / 4, to, 1);
    }
  }
  return count + from * classes + classes;
}

TEST(Regnet, CountsItsParametersAsTheFormulaDoes) {
  const Given given{{"depths", "1,3,2,1"}, {"widths", "8,24,48,96"}, {"group-width", "24"}, {"classes", "7"}};
  for (const bool squeezes : {false, true}) {
    Given with_block = given;
    with_block["block"] = squeezes ? "y" : "x";
    const onnx::ModelProto model = make("regnet", with_block, 2).proto;
    EXPECT_EQ(count_parameters(model), regnet_parameters({1, 3, 2, 1}, {8, 24, 48, 96}, 24, squeezes, 7));
    EXPECT_EQ(output_shape(model), "2x7");
    // The stem, three a block, a shortcut a stage; two more a block that squeezes.
    EXPECT_EQ(count_nodes(model, "Conv"), 1 + 3 * 7 + 4 + (squeezes ? 2 * 7 : 0));
    EXPECT_EQ(count_nodes(model, "Sigmoid"), squeezes ? 7 : 0);
  }
  EXPECT_EQ(regnet_parameters({2, 6, 15, 2}, {96, 192, 432, 1008}, 48, false, 1000), 15'296'552);
}

TEST(Regnet, HasThePublishedParametersOfRegNetY32) {
  const Given given{{"block", "y"}, {"depths", "2,5,13,1"}, {"widths", "72,216,576,1512"}, {"group-width", "24"}};
  EXPECT_EQ(count_parameters(make("regnet", given).proto), 19'436'338);
}

TEST(Regnet, HalvesTheImageInAStagesFirstGroupedConvolution) {
  const auto shapes = infer_shapes(make("regnet").proto);
  EXPECT_EQ(shapes.at("stem/conv"), "1x32x112x112");
  EXPECT_EQ(shapes.at("stage1/block0/1/conv"), "1x96x112x112");
  EXPECT_EQ(shapes.at("stage1/block0/2/conv"), "1x96x56x56");
  EXPECT_EQ(shapes.at("stage2/block0/shortcut/conv"), "1x192x28x28");
  EXPECT_EQ(shapes.at("stage4/block1/add"), "1x1008x7x7");
}

TEST(MlpMixer, CanDecomposeLayerNormalization) {
  const Given given{{"layer-norm", "decomposed"}, {"gelu", "tanh"}};
  const onnx::ModelProto model = make("mlp-mixer", given).proto;
  EXPECT_EQ(count_parameters(model), 59'880'472);
  EXPECT_EQ(output_shape(model), "1x1000");
}

}  // namespace

}  // namespace remora::zoo
