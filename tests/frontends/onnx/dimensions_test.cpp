// SPDX-License-Identifier: Apache-2.0
//
// Symbolic and open dimensions of inputs.
#include <gtest/gtest.h>

#include "model_builder.hpp"

namespace remora::onnx_frontend::test {
namespace {

ModelBuilder symbolic_model() {
  return ModelBuilder()
      .input("x", {symbol("batch"), 3, symbol("size"), symbol("size")})
      .weight("w", {4, 3, 3, 3})
      .node("Conv", {"x", "w"}, {"c"})
      .node("Relu", {"c"}, {"y"})
      .value_info("c", {symbol("batch"), 4, symbol("a"), symbol("b")})
      .output("y");
}

OnnxOptions with(std::map<std::string, std::int64_t> dimensions) {
  return {.dimensions = std::move(dimensions)};
}

TEST(Dimensions, UnsetNameIsAnErrorWithTheRemedy) {
  const std::string complaint = symbolic_model().complaint(with({{"size", 8}}));
  EXPECT_TRUE(contains(complaint, "input x") && contains(complaint, "--dim batch=VALUE")) << complaint;
}

TEST(Dimensions, SetNamesReachEveryShape) {
  const Network network = symbolic_model().network(with({{"batch", 8}, {"size", 10}}));
  EXPECT_EQ(value_named(network, "x").shape, (Shape{8, 3, 10, 10}));
  EXPECT_EQ(value_named(network, "y").shape, (Shape{8, 4, 8, 8}));
}

TEST(Dimensions, UnknownNameIsAnErrorThatListsTheNames) {
  const std::string complaint = symbolic_model().complaint(with({{"batch", 8}, {"sequence", 3}}));
  EXPECT_TRUE(contains(complaint, "sequence") && contains(complaint, "batch, size")) << complaint;
}

TEST(Dimensions, ValueMustNotBeNegative) {
  EXPECT_TRUE(contains(symbolic_model().complaint(with({{"batch", -1}})), "--dim batch"));
}

TEST(Dimensions, OpenDimensionIsSetByInputAndAxis) {
  ModelBuilder model;
  model.input("x", {symbol(""), 4}).node("Relu", {"x"}, {"y"}).output("y");
  EXPECT_TRUE(contains(model.complaint(), "--dim x[0]=VALUE")) << model.complaint();
  EXPECT_EQ(value_named(model.network(with({{"x[0]", 5}})), "y").shape, (Shape{5, 4}));
}

TEST(Dimensions, OneOfTheUsersThatLeavesNothingIsToldIfItDoes) {
  const Network nothing = symbolic_model().network(with({{"batch", 0}, {"size", 10}}));
  ASSERT_EQ(nothing.warnings.size(), 1U);
  EXPECT_EQ(nothing.warnings[0], "--dim batch=0 leaves no output any elements");
  ModelBuilder cached;
  cached.input("x", {2, 4})
      .input("past", {symbol("length"), 4})
      .node("Concat", {"past", "x"}, {"y"})
      .set("axis", std::int64_t{0});
  EXPECT_TRUE(cached.output("y").network(with({{"length", 0}})).warnings.empty());
}

TEST(Dimensions, AnEmptyOneIsToldAsWhatItIs) {
  ModelBuilder model;
  model.input("x", {2, 0}).node("Relu", {"x"}, {"y"}).output("y");
  const Network empty = model.network();
  EXPECT_EQ(value_named(empty, "y").shape, (Shape{2, 0}));
  ASSERT_EQ(empty.warnings.size(), 1U);
  EXPECT_TRUE(contains(empty.warnings[0], "dimension 1 is 0")) << empty.warnings[0];
  EXPECT_TRUE(contains(empty.warnings[0], "--dim x[1]=VALUE")) << empty.warnings[0];
  const Network set = model.network(with({{"x[1]", 5}}));
  EXPECT_EQ(value_named(set, "y").shape, (Shape{2, 5}));
  EXPECT_TRUE(set.warnings.empty());
  ModelBuilder open;
  open.input("x", {-1, 4}).node("Relu", {"x"}, {"y"}).output("y");
  EXPECT_TRUE(contains(open.complaint(), "dimension 0 is -1; set it with --dim x[0]=VALUE")) << open.complaint();
}

/// What has no elements is known; to go through the other axes, which may be of any length, would take for ever.
TEST(Dimensions, AnEmptyOneBesideALongOneIsRead) {
  constexpr std::int64_t kLong = 2147483647;
  ModelBuilder model;
  model.input("x", {kLong, 3, 0})
      .weight("index", {1}, kInt64)
      .node("Gather", {"x", "index"}, {"y"})
      .set("axis", std::int64_t{1});
  model.proto().mutable_graph()->mutable_initializer(0)->add_int64_data(1);
  model.output("y");
  EXPECT_EQ(value_named(model.network(), "y").shape, (Shape{kLong, 1, 0}));
}

TEST(Dimensions, FixedDimensionCanBeChangedByInputAndAxis) {
  ModelBuilder model;
  model.input("x", {1, 4}).node("Relu", {"x"}, {"y"}).output("y").value_info("y", {1, 4});
  EXPECT_EQ(value_named(model.network(with({{"x[0]", 32}})), "y").shape, (Shape{32, 4}));
}

TEST(Dimensions, ShapesThatTheFileStatesAreForgottenWhenADimensionIsSet) {
  // Only the stated shape knows this op, and it rests on a batch of 1.
  ModelBuilder model;
  model.input("x", {symbol("batch"), 4}).node("Mystery", {"x"}, {"y"}).domain("house").value_info("y", {1, 4});
  model.output("y");
  const std::string complaint = model.complaint(with({{"batch", 8}}));
  EXPECT_TRUE(contains(complaint, "Mystery") && contains(complaint, "not known")) << complaint;
}

TEST(Dimensions, InputWithoutShapeIsAnError) {
  ModelBuilder model;
  model.input("x", {}).node("Relu", {"x"}, {"y"}).output("y");
  model.proto().mutable_graph()->mutable_input(0)->mutable_type()->mutable_tensor_type()->clear_shape();
  EXPECT_TRUE(contains(model.complaint(), "input x: has no shape")) << model.complaint();
}

TEST(Dimensions, SymbolsOfInputsThatNobodyReadsDoNotMatter) {
  EXPECT_EQ(ModelBuilder()
                .input("x", {2})
                .input("unused", {symbol("who")})
                .node("Relu", {"x"}, {"y"})
                .output("y")
                .complaint(),
            "");
}

}  // namespace
}  // namespace remora::onnx_frontend::test
