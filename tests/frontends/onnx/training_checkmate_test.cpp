// SPDX-License-Identifier: Apache-2.0
//
// The backward pass by Jain et al.'s rule.
#include <cstdint>

#include <gtest/gtest.h>

#include "frontends/onnx/train/training.hpp"
#include "tests/frontends/onnx/training_builder.hpp"

namespace remora::onnx_frontend {
namespace {

using test::expect_well_formed;
using test::find_node;
using test::inputs_of;
using test::kept_values;
using test::Names;
using test::NetworkBuilder;
using test::nodes_of_type;
using test::outputs_of;

constexpr TrainingOptions kCheckmateFixed{.backward = BackwardRule::checkmate};
constexpr TrainingOptions kCheckmateKeep{.backward = BackwardRule::checkmate, .gradients = ParameterGradients::keep};

TEST(CheckmateBackward, ReadsTheValueItsConsumersAndTheirGradients) {
  NetworkBuilder builder;
  const ValueId a = builder.op("Conv", {builder.input("x"), builder.parameter("w")}, "a");
  const ValueId b = builder.op("MaxPool", {a}, "b");
  const Network network =
      differentiate(builder.build({builder.op("Gemm", {b, builder.parameter("v")}, "y")}), kCheckmateFixed);
  expect_well_formed(network);
  EXPECT_EQ(inputs_of(network, "n:y/grad"), (Names{"y", "loss"}));
  EXPECT_EQ(inputs_of(network, "n:b/grad"), (Names{"b", "y", "grad(y)"}));
  EXPECT_EQ(inputs_of(network, "n:a/grad"), (Names{"a", "b", "grad(b)"}));
  EXPECT_EQ(outputs_of(network, "n:a/grad"), (Names{"grad(a)"}));
  EXPECT_EQ(network.extra_fixed_memory, Bytes(128));
  EXPECT_TRUE(nodes_of_type(network, "LossGrad").empty());
}

TEST(CheckmateBackward, TakesTwiceTheForwardTime) {
  NetworkBuilder builder;
  const ValueId y = builder.op("Conv", {builder.input("x"), builder.parameter("w")}, "y");
  const Network network = differentiate(builder.build({y}), kCheckmateFixed);
  const Node* backward = find_node(network, "n:y/grad");
  EXPECT_EQ(backward->attributes.get("duration_factor", std::int64_t{1}), 2);
  EXPECT_EQ(backward->phase, Phase::backward);
  EXPECT_EQ(network.nodes[backward->backward_of].name, "n:y");
}

TEST(CheckmateBackward, SumsSeveralConsumersWithinOneNode) {
  NetworkBuilder builder;
  const ValueId a = builder.op("Conv", {builder.input("x"), builder.parameter("w")}, "a");
  const ValueId b = builder.op("Relu", {a}, "b");
  const Network network = differentiate(builder.build({builder.op("Add", {a, b}, "y")}), kCheckmateFixed);
  expect_well_formed(network);
  EXPECT_EQ(inputs_of(network, "n:a/grad"), (Names{"a", "b", "grad(b)", "y", "grad(y)"}));
  EXPECT_TRUE(nodes_of_type(network, "GradientSum").empty());
}

TEST(CheckmateBackward, FindsConsumersThroughViews) {
  NetworkBuilder builder;
  const ValueId a = builder.op("Conv", {builder.input("x"), builder.parameter("w")}, "a");
  const ValueId flat = builder.view("Flatten", a, "flat");
  const ValueId b = builder.op("Relu", {flat}, "b", {16});
  const Network network = differentiate(builder.build({builder.view("Reshape", b, "y", {4, 4})}), kCheckmateFixed);
  expect_well_formed(network);
  EXPECT_EQ(inputs_of(network, "n:b/grad"), (Names{"b", "loss"}));
  EXPECT_EQ(inputs_of(network, "n:a/grad"), (Names{"a", "b", "grad(b)"}));
  EXPECT_EQ(find_node(network, "n:flat/grad"), nullptr);
}

TEST(CheckmateBackward, UpdatesTheKeptGradientOfASharedWeightInPlace) {
  NetworkBuilder builder;
  const ValueId w = builder.parameter("w");
  const ValueId a = builder.op("MatMul", {builder.input("x"), w}, "a");
  const Network network = differentiate(builder.build({builder.op("MatMul", {a, w}, "y")}), kCheckmateKeep);
  expect_well_formed(network);
  EXPECT_EQ(kept_values(network), (Names{"loss", "grad(w)"}));
  EXPECT_EQ(outputs_of(network, "n:y/grad"), (Names{"grad(y)", "grad(w)"}));
  EXPECT_EQ(inputs_of(network, "n:a/grad"), (Names{"a", "y", "grad(y)", "grad(w)"}));
}

TEST(CheckmateBackward, LeavesOutConsumersThatPassNoGradient) {
  NetworkBuilder builder;
  const ValueId a = builder.op("MatMul", {builder.input("x"), builder.parameter("w")}, "a");
  builder.op("Relu", {a}, "unused");
  const ValueId rounded = builder.op("Round", {a}, "rounded");
  const Network network = differentiate(builder.build({builder.op("Mul", {a, rounded}, "y")}), kCheckmateFixed);
  EXPECT_EQ(inputs_of(network, "n:a/grad"), (Names{"a", "y", "grad(y)"}));
  EXPECT_EQ(find_node(network, "n:unused/grad"), nullptr);
  EXPECT_EQ(find_node(network, "n:rounded/grad"), nullptr);
}

}  // namespace
}  // namespace remora::onnx_frontend
