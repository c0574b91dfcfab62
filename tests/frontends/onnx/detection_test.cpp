// SPDX-License-Identifier: Apache-2.0
//
// Detectors as torch.onnx exports them: images are resized and padded to computed sizes, and how many boxes are left
// depends on the data.
#include <algorithm>
#include <fstream>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "model/evaluate.hpp"
#include "model/instance.hpp"
#include "model/verify.hpp"
#include "model_builder.hpp"

namespace remora::onnx_frontend::test {
namespace {

std::string text_of(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

OnnxOptions bounds(std::map<std::string, std::int64_t> given) {
  OnnxOptions options;
  options.bounds = std::move(given);
  return options;
}

class Detection : public testing::TestWithParam<const char*> {
 protected:
  [[nodiscard]] std::string bytes() const { return text_of(std::string(REMORA_DATA_DIR "/detection/") + GetParam()); }
};

TEST_P(Detection, IsReadWithUpperBounds) {
  const Network network = build_network(bytes(), GetParam(), bounds({{"NonZero", 1000}, {"NonMaxSuppression", 1000}}));
  // Boxes, labels and scores of at most five detections.
  std::vector<Shape> outputs;
  for (const Value& value : network.values) {
    if (value.output) outputs.push_back(value.shape);
  }
  std::sort(outputs.begin(), outputs.end());
  EXPECT_EQ(outputs, (std::vector<Shape>{{5}, {5}, {5, 4}}));
}

TEST_P(Detection, HasATrainingStep) {
  OnnxOptions options = bounds({{"NonZero", 1000}, {"NonMaxSuppression", 1000}});
  const std::size_t forward = read_onnx(bytes(), GetParam(), options).graph.ops.size();
  options.training.emplace();
  const auto graph = std::make_shared<const Graph>(read_onnx(bytes(), GetParam(), options).graph);
  // Nothing flows back through sorting, choosing and counting boxes.
  EXPECT_GT(graph->ops.size(), forward * 3 / 2);
  const Instance instance(graph, {});
  EXPECT_TRUE(verify(*graph, schedule_of(instance, input_order(instance))).valid());
}

TEST_P(Detection, SaysWhichBoundIsMissing) {
  for (const auto& [given, missing] : {std::pair{"NonMaxSuppression", "NonZero"}, {"NonZero", "NonMaxSuppression"}}) {
    try {
      read_onnx(bytes(), GetParam(), bounds({{given, 1000}}));
      ADD_FAILURE() << "was read";
    } catch (const InputError& error) {
      EXPECT_TRUE(contains(error.what(), std::string("--bound ") + missing + "=N")) << error.what();
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Exports, Detection, testing::Values("fasterrcnn.onnx", "retinanet.onnx"),
                         [](const auto& one) { return std::string(one.param).substr(0, 5); });

/// A bound for all nodes of a type does not make any of them larger than its data can.
TEST(Bounds, NoMoreThanTheDataHave) {
  ModelBuilder model;
  model.input("x", {2, 3}).input("keep", {3}, kBool).input("boxes", {1, 4, 4}).input("scores", {1, 2, 4});
  model.node("NonZero", {"x"}, {"n"}).output("n");
  model.node("Compress", {"x", "keep"}, {"c"}).set("axis", std::int64_t{1}).output("c");
  model.node("Unique", {"x"}, {"u", "first", "which", "often"}).output("u").output("which");
  model.node("Unique", {"x"}, {"rows"}).set("axis", std::int64_t{0}).output("rows");
  model.node("NonMaxSuppression", {"boxes", "scores"}, {"s"}).output("s");
  const auto all = [](std::int64_t bound) {
    return bounds({{"NonZero", bound}, {"Compress", bound}, {"Unique", bound}, {"NonMaxSuppression", bound}});
  };
  const Network most = model.network(all(1000));
  EXPECT_EQ(value_named(most, "n").shape, (Shape{2, 6}));
  EXPECT_EQ(value_named(most, "c").shape, (Shape{2, 3}));
  EXPECT_EQ(value_named(most, "u").shape, (Shape{6}));
  EXPECT_EQ(value_named(most, "rows").shape, (Shape{2, 3}));
  EXPECT_EQ(value_named(most, "s").shape, (Shape{8, 3}));
  const Network fewer = model.network(all(1));
  EXPECT_EQ(value_named(fewer, "n").shape, (Shape{2, 1}));
  EXPECT_EQ(value_named(fewer, "c").shape, (Shape{2, 1}));
  EXPECT_EQ(value_named(fewer, "u").shape, (Shape{1}));
  EXPECT_EQ(value_named(fewer, "which").shape, (Shape{6}));
  EXPECT_EQ(value_named(fewer, "rows").shape, (Shape{1, 3}));
  EXPECT_EQ(value_named(fewer, "s").shape, (Shape{1, 3}));
}

}  // namespace
}  // namespace remora::onnx_frontend::test
