// SPDX-License-Identifier: Apache-2.0
//
// The precise backward pass of small networks, node by node.
#include "frontends/onnx/train/training.hpp"

#include <cstdint>
#include <string>

#include <gtest/gtest.h>

#include "model/error.hpp"
#include "tests/frontends/onnx/training_builder.hpp"

namespace remora::onnx_frontend {
namespace {

using test::expect_well_formed;
using test::find_node;
using test::find_value;
using test::inputs_of;
using test::kept_values;
using test::Names;
using test::NetworkBuilder;
using test::nodes_of_type;
using test::outputs_of;

constexpr TrainingOptions kFixed{};
constexpr TrainingOptions kKeep{.gradients = ParameterGradients::keep};

/// x -> Conv(w, b) -> c -> Relu -> r -> MaxPool -> p -> Gemm(v) -> y
Network chain() {
  NetworkBuilder builder;
  const ValueId x = builder.input("x");
  const ValueId w = builder.parameter("w", true, {4, 2});
  const ValueId b = builder.parameter("b", true, {3});
  const ValueId v = builder.parameter("v");
  const ValueId c = builder.op("Conv", {x, w, b}, "c");
  const ValueId r = builder.op("Relu", {c}, "r");
  const ValueId p = builder.op("MaxPool", {r}, "p");
  return builder.build({builder.op("Gemm", {p, v}, "y")});
}

TEST(Differentiate, ReadsWhatEachLayersGradientNeeds) {
  const Network network = differentiate(chain(), kFixed);
  expect_well_formed(network);
  EXPECT_EQ(inputs_of(network, "loss"), (Names{"y"}));
  EXPECT_EQ(inputs_of(network, "loss/grad"), (Names{"y"}));
  EXPECT_EQ(outputs_of(network, "loss/grad"), (Names{"grad(y)"}));
  EXPECT_EQ(inputs_of(network, "n:y/grad"), (Names{"grad(y)", "p", "v"}));
  EXPECT_EQ(outputs_of(network, "n:y/grad"), (Names{"grad(p)"}));
  EXPECT_EQ(inputs_of(network, "n:p/grad"), (Names{"grad(p)", "r", "p"}));
  EXPECT_EQ(inputs_of(network, "n:r/grad"), (Names{"grad(r)", "r"}));
  EXPECT_EQ(inputs_of(network, "n:c/grad"), (Names{"grad(c)", "x"}));
  EXPECT_EQ(network.warnings, Names{});
}

TEST(Differentiate, AnOutputThatIsANumberIsNotReadForItsGradient) {
  NetworkBuilder builder;
  const ValueId w = builder.parameter("w");
  const auto part = [&](const std::string& k) {
    const ValueId y = builder.op("MatMul", {builder.input("x" + k), w}, "y" + k);
    return builder.op("ReduceSum", {y}, "l" + k, Shape{});
  };
  const ValueId a = part("1");
  const ValueId b = part("2");
  const ValueId wide = builder.op("MatMul", {builder.input("x3"), w}, "wide");
  const Network network = differentiate(builder.build({builder.op("Add", {a, b}, "sum", Shape{}), wide}), kFixed);
  expect_well_formed(network);
  EXPECT_EQ(inputs_of(network, "loss"), (Names{"wide", "sum"}));
  EXPECT_EQ(inputs_of(network, "loss/grad"), (Names{"wide"}));
  EXPECT_EQ(outputs_of(network, "loss/grad"), (Names{"grad(wide)", "grad(sum)"}));
}

TEST(Differentiate, SetsPhasesTypesAndOrigins) {
  const Network network = differentiate(chain(), kFixed);
  EXPECT_EQ(find_node(network, "loss")->phase, Phase::loss);
  EXPECT_EQ(find_node(network, "loss/grad")->phase, Phase::backward);
  EXPECT_EQ(network.nodes[find_node(network, "loss/grad")->backward_of].name, "loss");
  const Node* backward = find_node(network, "n:p/grad");
  EXPECT_EQ(backward->type, "MaxPoolGrad");
  EXPECT_EQ(backward->phase, Phase::backward);
  EXPECT_EQ(network.nodes[backward->backward_of].name, "n:p");
  EXPECT_EQ(find_node(network, "n:p")->phase, Phase::forward);
  const std::vector<std::int64_t> weight_and_bias{1, 2};
  EXPECT_EQ(find_node(network, "n:c/grad")->attributes.get("gradient_of", std::vector<std::int64_t>{}),
            weight_and_bias);
}

TEST(Differentiate, CountsParameterGradientsOnceUnderFixedMemory) {
  const Network network = differentiate(chain(), kFixed);
  EXPECT_EQ(network.extra_fixed_memory, Bytes(4 * (8 + 3 + 16)));
  // The first layer computes parameter gradients alone: a token of zero bytes stands for them.
  EXPECT_EQ(outputs_of(network, "n:c/grad"), (Names{"n:c/grad/done"}));
  EXPECT_EQ(byte_size(find_value(network, "n:c/grad/done")->shape, {}), Bytes(0));
  EXPECT_EQ(kept_values(network), (Names{"loss", "n:c/grad/done"}));
}

TEST(Differentiate, KeepsParameterGradientsAsOutputs) {
  const Network network = differentiate(chain(), kKeep);
  expect_well_formed(network);
  EXPECT_EQ(network.extra_fixed_memory, Bytes(0));
  EXPECT_EQ(outputs_of(network, "n:y/grad"), (Names{"grad(p)", "grad(v)"}));
  EXPECT_EQ(outputs_of(network, "n:c/grad"), (Names{"grad(w)", "grad(b)"}));
  EXPECT_EQ(kept_values(network), (Names{"loss", "grad(v)", "grad(w)", "grad(b)"}));
  EXPECT_EQ(find_value(network, "grad(w)")->shape, (Shape{4, 2}));
}

TEST(Differentiate, SumsTheTwoContributionsOfAResidualConnection) {
  NetworkBuilder builder;
  const ValueId stem = builder.op("MatMul", {builder.input("x"), builder.parameter("w")}, "stem");
  const ValueId branch = builder.op("Relu", {stem}, "branch");
  const Network network = differentiate(builder.build({builder.op("Add", {branch, stem}, "y")}), kFixed);
  expect_well_formed(network);
  EXPECT_EQ(inputs_of(network, "n:y/grad"), (Names{"grad(y)"}));
  ASSERT_EQ(nodes_of_type(network, "GradientSum").size(), 1U);
  const Node& sum = *nodes_of_type(network, "GradientSum").front();
  EXPECT_EQ(test::names_of(network, sum.inputs), (Names{"grad(stem)[1]", "grad(stem)[2]"}));
  EXPECT_EQ(test::names_of(network, sum.outputs), (Names{"grad(stem)"}));
  EXPECT_EQ(network.nodes[sum.backward_of].name, "n:stem");
  EXPECT_EQ(sum.phase, Phase::backward);
  EXPECT_EQ(inputs_of(network, "n:stem/grad"), (Names{"grad(stem)", "x"}));
}

TEST(Differentiate, AddsContributionsAsTheyArrive) {
  NetworkBuilder builder;
  const ValueId stem = builder.op("MatMul", {builder.input("x"), builder.parameter("w")}, "stem");
  const ValueId a = builder.op("Relu", {stem}, "a");
  const ValueId b = builder.op("Sigmoid", {stem}, "b");
  const ValueId c = builder.op("Tanh", {stem}, "c");
  const Network network = differentiate(builder.build({builder.op("Sum", {a, b, c}, "y")}), kFixed);
  expect_well_formed(network);
  EXPECT_EQ(outputs_of(network, "n:c/grad"), (Names{"grad(stem)[1]"}));
  EXPECT_EQ(inputs_of(network, "grad(stem)/sum[1..2]"), (Names{"grad(stem)[1]", "grad(stem)[2]"}));
  EXPECT_EQ(inputs_of(network, "grad(stem)/sum[1..3]"), (Names{"grad(stem)[1..2]", "grad(stem)[3]"}));
  EXPECT_EQ(outputs_of(network, "grad(stem)/sum[1..3]"), (Names{"grad(stem)"}));
}

TEST(Differentiate, GivesOneContributionForAValueReadTwiceByOneNode) {
  NetworkBuilder builder;
  const ValueId stem = builder.op("MatMul", {builder.input("x"), builder.parameter("w")}, "stem");
  const Network network = differentiate(builder.build({builder.op("Mul", {stem, stem}, "y")}), kFixed);
  EXPECT_EQ(inputs_of(network, "n:y/grad"), (Names{"grad(y)", "stem"}));
  EXPECT_EQ(outputs_of(network, "n:y/grad"), (Names{"grad(stem)"}));
  EXPECT_TRUE(nodes_of_type(network, "GradientSum").empty());
}

TEST(Differentiate, GivesASharedWeightOneGradient) {
  NetworkBuilder builder;
  const ValueId w = builder.parameter("w");
  const ValueId a = builder.op("MatMul", {builder.input("x"), w}, "a");
  const Network forward = builder.build({builder.op("MatMul", {a, w}, "y")});
  EXPECT_EQ(differentiate(forward, kFixed).extra_fixed_memory, Bytes(64));
  const Network kept = differentiate(forward, kKeep);
  expect_well_formed(kept);
  EXPECT_EQ(kept_values(kept), (Names{"loss", "grad(w)"}));
  ASSERT_EQ(nodes_of_type(kept, "GradientSum").size(), 1U);
  EXPECT_FALSE(nodes_of_type(kept, "GradientSum").front()->backward_of.valid()) << "a parameter has no producer";
}

TEST(Differentiate, GivesTheGradientOfADerivedParameterToItsSource) {
  NetworkBuilder builder;
  const ValueId w = builder.parameter("w");
  const ValueId transposed = builder.derived("Transpose", {w}, "w^T");
  const ValueId a = builder.op("Gather", {w, builder.input("tokens", false)}, "a");
  Network forward = builder.build({builder.op("MatMul", {a, transposed}, "y")});
  EXPECT_EQ(differentiate(forward, kFixed).extra_fixed_memory, Bytes(64));
  forward.values[transposed].trainable = true;
  EXPECT_EQ(differentiate(forward, kFixed).extra_fixed_memory, Bytes(64)) << "what is computed anew is no leaf";
  const Network kept = differentiate(forward, kKeep);
  expect_well_formed(kept);
  EXPECT_EQ(kept_values(kept), (Names{"loss", "grad(w)"}));
  EXPECT_EQ(inputs_of(kept, "n:a/grad"), (Names{"grad(a)", "tokens"}));
  EXPECT_EQ(find_node(kept, "n:w^T/grad"), nullptr) << "constant nodes have no backward";
}

TEST(Differentiate, PassesGradientsThroughViewsWithoutMemory) {
  NetworkBuilder builder;
  const ValueId stem = builder.op("MatMul", {builder.input("x"), builder.parameter("w")}, "stem");
  const ValueId flat = builder.view("Reshape", stem, "flat");
  const Network network = differentiate(builder.build({builder.op("Relu", {flat}, "y", {16})}), kFixed);
  expect_well_formed(network);
  const Node* backward = find_node(network, "n:flat/grad");
  ASSERT_NE(backward, nullptr);
  EXPECT_TRUE(backward->view);
  EXPECT_EQ(test::names_of(network, backward->inputs), (Names{"grad(flat)"}));
  const Value* gradient = find_value(network, "grad(stem)");
  ASSERT_NE(gradient, nullptr);
  EXPECT_EQ(network.values[gradient->view_of].name, "grad(flat)");
  EXPECT_EQ(gradient->shape, (Shape{4, 4}));
}

TEST(Differentiate, SumsContributionsThroughSeveralViewsOfOneValue) {
  NetworkBuilder builder;
  const ValueId stem = builder.op("MatMul", {builder.input("x"), builder.parameter("w")}, "stem");
  const ValueId a = builder.op("Relu", {builder.view("Reshape", stem, "flat")}, "a", {16});
  const ValueId b = builder.op("Tanh", {builder.view("Flatten", stem, "flat2")}, "b", {16});
  const Network network = differentiate(builder.build({a, b}), kFixed);
  expect_well_formed(network);
  EXPECT_EQ(inputs_of(network, "loss"), (Names{"a", "b"}));
  EXPECT_EQ(outputs_of(network, "loss/grad"), (Names{"grad(a)", "grad(b)"}));
  ASSERT_EQ(nodes_of_type(network, "GradientSum").size(), 1U);
  EXPECT_FALSE(find_value(network, "grad(stem)")->view_of.valid());
}

TEST(Differentiate, DoesNotDifferentiateWhatNoParameterReaches) {
  NetworkBuilder builder;
  const ValueId x = builder.input("x");
  const ValueId scaled = builder.op("Mul", {x, builder.parameter("half", false)}, "scaled");
  const ValueId a = builder.op("MatMul", {scaled, builder.parameter("w")}, "a");
  const Network network = differentiate(builder.build({builder.op("Mul", {a, scaled}, "y")}), kFixed);
  expect_well_formed(network);
  // Only one factor needs a gradient: the backward of the product reads the other one alone.
  EXPECT_EQ(inputs_of(network, "n:y/grad"), (Names{"grad(y)", "scaled"}));
  EXPECT_EQ(outputs_of(network, "n:y/grad"), (Names{"grad(a)"}));
  EXPECT_EQ(inputs_of(network, "n:a/grad"), (Names{"grad(a)", "scaled"}));
  EXPECT_EQ(find_node(network, "n:scaled/grad"), nullptr);
}

TEST(Differentiate, StopsAtOpsWithoutDerivativeSilently) {
  NetworkBuilder builder;
  const ValueId a = builder.op("MatMul", {builder.input("x"), builder.parameter("w")}, "a");
  const ValueId rounded = builder.op("Round", {a}, "rounded");
  const Network network = differentiate(builder.build({builder.op("Mul", {a, rounded}, "y")}), kFixed);
  EXPECT_EQ(inputs_of(network, "n:y/grad"), (Names{"grad(y)", "rounded"}));
  EXPECT_EQ(find_node(network, "n:rounded/grad"), nullptr);
  EXPECT_EQ(network.warnings, Names{});
}

TEST(Differentiate, WarnsOnceOfEachOpTypeWithoutRule) {
  NetworkBuilder builder;
  const ValueId a = builder.op("MatMul", {builder.input("x"), builder.parameter("w")}, "a");
  const ValueId b = builder.op("Frobnicate", {a}, "b");
  const Network network = differentiate(builder.build({builder.op("Frobnicate", {b}, "y")}), kFixed);
  EXPECT_EQ(inputs_of(network, "n:b/grad"), (Names{"grad(b)", "a", "b"}));
  ASSERT_EQ(network.warnings.size(), 1U);
  EXPECT_EQ(
      network.warnings.front(),
      "no gradient rule for op type Frobnicate (2 nodes, the first is n:b): its backward is taken to read all its "
      "inputs and outputs");
}

TEST(Differentiate, SavesTheMaskOfATrainingDropout) {
  NetworkBuilder builder;
  const ValueId a = builder.op("MatMul", {builder.input("x"), builder.parameter("w")}, "a");
  const Network network = differentiate(builder.build({builder.op("Dropout", {a}, "y")}), kFixed);
  expect_well_formed(network);
  EXPECT_EQ(outputs_of(network, "n:y"), (Names{"y", "n:y/mask"}));
  EXPECT_EQ(inputs_of(network, "n:y/grad"), (Names{"grad(y)", "n:y/mask"}));
  const Value* mask = find_value(network, "n:y/mask");
  EXPECT_EQ(byte_size(mask->shape, mask->type), Bytes(16));
  EXPECT_FALSE(mask->type.floating);
}

TEST(Differentiate, ReadsOnlyTheGradientsThatHaveArrived) {
  NetworkBuilder builder;
  const ValueId a = builder.op("MatMul", {builder.input("x"), builder.parameter("w")}, "a");
  const ValueId left = builder.value("left");
  const ValueId right = builder.value("right");
  builder.node("Split", {a}, {left, right});
  const Network network = differentiate(builder.build({builder.op("Relu", {right}, "y")}), kFixed);
  EXPECT_EQ(inputs_of(network, "n:left/grad"), (Names{"grad(right)"}));
}

TEST(Differentiate, TakesTheModelsOutputsBack) {
  NetworkBuilder builder;
  const ValueId y = builder.op("MatMul", {builder.input("x"), builder.parameter("w")}, "y");
  const ValueId label = builder.op("ArgMax", {y}, "label");
  Network forward = builder.build({y, label});
  forward.values[label].type = {.bits = 64, .floating = false};
  const Network network = differentiate(forward, kKeep);
  EXPECT_EQ(kept_values(network), (Names{"loss", "grad(w)"}));
  EXPECT_EQ(inputs_of(network, "loss"), (Names{"y"})) << "labels are no predictions";
}

TEST(Differentiate, PassesTheGradientOfAnOutputThatIsReadOn) {
  NetworkBuilder builder;
  const ValueId middle = builder.op("MatMul", {builder.input("x"), builder.parameter("w")}, "middle");
  const Network network = differentiate(builder.build({middle, builder.op("Relu", {middle}, "y")}), kFixed);
  expect_well_formed(network);
  EXPECT_EQ(nodes_of_type(network, "GradientSum").size(), 1U);
  EXPECT_EQ(inputs_of(network, "n:middle/grad"), (Names{"grad(middle)", "x"}));
}

TEST(Differentiate, FallsBackToInputGradientsAndSaysSo) {
  NetworkBuilder builder;
  const ValueId x = builder.input("x");
  const Network network = differentiate(builder.build({builder.op("Relu", {x}, "y")}), kFixed);
  expect_well_formed(network);
  EXPECT_EQ(kept_values(network), (Names{"loss", "grad(x)"}));
  EXPECT_EQ(network.extra_fixed_memory, Bytes(0));
  ASSERT_EQ(network.warnings.size(), 1U);
}

TEST(Differentiate, RefusesANetworkWithNothingToDifferentiate) {
  NetworkBuilder builder;
  const ValueId tokens = builder.input("tokens", false);
  const Network forward = builder.build({builder.op("OneHot", {tokens}, "y")});
  EXPECT_THROW(differentiate(forward, kFixed), InputError);
  EXPECT_THROW(differentiate(Network{}, kFixed), InputError);
}

TEST(Differentiate, NamesStayUniqueWhateverTheModelCallsThings) {
  NetworkBuilder builder;
  const ValueId loss = builder.op("MatMul", {builder.input("grad(loss)"), builder.parameter("w")}, "loss");
  Network forward = builder.build({builder.op("Relu", {loss}, "grad(loss)[1]")});
  forward.nodes.back().name = "loss/grad";
  expect_well_formed(differentiate(forward, kKeep));
}

}  // namespace
}  // namespace remora::onnx_frontend
