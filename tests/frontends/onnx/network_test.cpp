// SPDX-License-Identifier: Apache-2.0
//
// What build_network makes of a model: parameters, views, names, weights, randomness, dead nodes, local functions.
#include <gtest/gtest.h>

#include "model_builder.hpp"
#include "onnx/onnx_pb.h"

namespace remora::onnx_frontend::test {
namespace {

TEST(Network, InitializersListedAsInputsAreParameters) {
  ModelBuilder model;
  model.input("x", {1, 4}).input("w", {4, 5}).weight("w", {4, 5}).node("MatMul", {"x", "w"}, {"y"}).output("y");
  const Network network = model.network();
  EXPECT_EQ(value_named(network, "w").kind, ValueKind::parameter);
  EXPECT_EQ(value_named(network, "x").kind, ValueKind::input);
  EXPECT_EQ(model.graph().tensors.size(), 2U);
}

TEST(Network, NodesOnConstantsAloneAreConstant) {
  ModelBuilder model;
  model.input("x", {2, 4}).weight("w", {5, 4}).node("Transpose", {"w"}, {"wt"}, "turn");
  model.node("MatMul", {"x", "wt"}, {"y"}, "product").output("y");
  const Network network = model.network();
  EXPECT_TRUE(node_named(network, "turn").constant);
  EXPECT_EQ(value_named(network, "wt").kind, ValueKind::parameter);
  EXPECT_FALSE(node_named(network, "product").constant);
  // Only the transposed weights are read when the schedule runs.
  EXPECT_EQ(model.graph().fixed_memory, Bytes(80));
}

TEST(Network, MissingAndRepeatedNodeNamesBecomeUnique) {
  const Network network = ModelBuilder()
                              .input("x", {4})
                              .node("Relu", {"x"}, {"a"}, "act")
                              .node("Relu", {"a"}, {"b"}, "act")
                              .node("Tanh", {"b"}, {"c"})
                              .node("Tanh", {"c"}, {"d"}, "act#2")
                              .output("d")
                              .network();
  EXPECT_EQ(node_names(network), (Strings{"act", "act#3", "Tanh_2", "act#2"}));
}

TEST(Network, ReshapesAndTheLikeAreViews) {
  ModelBuilder model;
  model.input("x", {1, 2, 6}).integers("shape", {3, 4}).integers("axes", {0});
  model.node("Relu", {"x"}, {"r"}, "relu");
  model.node("Reshape", {"r", "shape"}, {"a"}, "reshape");
  model.node("Unsqueeze", {"a", "axes"}, {"b"}, "unsqueeze");
  model.node("Squeeze", {"b", "axes"}, {"c"}, "squeeze");
  model.node("Identity", {"c"}, {"d"}, "identity");
  model.node("Flatten", {"d"}, {"e"}, "flatten");
  model.node("Cast", {"e"}, {"f"}, "cast").set("to", kFloat);
  model.node("Dropout", {"f"}, {"g"}, "dropout");
  model.node("Concat", {"g"}, {"h"}, "concat").set("axis", 0);
  model.node("Tanh", {"h"}, {"y"}, "tanh").output("y");
  const Network network = model.network();
  for (const Node& node : network.nodes) EXPECT_EQ(node.view, node.name != "relu" && node.name != "tanh") << node.name;
  EXPECT_EQ(network.values[network.storage(node_named(network, "tanh").inputs[0])].name, "r");

  const Graph graph = model.graph();
  ASSERT_EQ(graph.ops.size(), 2U);
  EXPECT_EQ(graph.ops[1].inputs, graph.ops[0].outputs);
}

TEST(Network, TransposeIsAViewOnlyIfElementsStayInPlace) {
  ModelBuilder model;
  model.input("x", {1, 4, 1, 5}).node("Relu", {"x"}, {"r"});
  model.node("Transpose", {"r"}, {"a"}, "units").set("perm", std::vector<std::int64_t>{2, 1, 0, 3});
  model.node("Transpose", {"a"}, {"b"}, "moves").set("perm", std::vector<std::int64_t>{0, 3, 2, 1});
  model.output("b");
  const Network network = model.network();
  EXPECT_TRUE(node_named(network, "units").view);
  EXPECT_FALSE(node_named(network, "moves").view);
}

TEST(Network, ViewOfAParameterCountsOnce) {
  ModelBuilder model;
  model.input("x", {2, 6}).weight("w", {12}).integers("shape", {2, 6}).node("Reshape", {"w", "shape"}, {"v"});
  model.node("Add", {"x", "v"}, {"a"}).node("Mul", {"a", "v"}, {"b"});
  model.node("Flatten", {"b"}, {"c"}).node("Identity", {"w"}, {"same"}).integers("flat", {12});
  model.node("Reshape", {"c", "flat"}, {"d"}).node("Sub", {"d", "same"}, {"y"}).output("y");
  EXPECT_EQ(model.graph().fixed_memory, Bytes(48));
}

TEST(Network, UnusedOptionalOutputsAreDroppedButNotRequiredOnes) {
  ModelBuilder model;
  model.input("x", {1, 1, 4, 4}).integers("parts", {2, 2});
  model.node("MaxPool", {"x"}, {"p", "indices"}, "pool").set("kernel_shape", std::vector<std::int64_t>{1, 1});
  model.node("Split", {"p", "parts"}, {"a", "b"}, "split").set("axis", 2);
  model.output("a");
  const Network network = model.network();
  EXPECT_FALSE(node_named(network, "pool").outputs[1].valid());
  EXPECT_TRUE(node_named(network, "split").outputs[1].valid());
}

TEST(Network, DeadNodesAreDroppedWithAWarning) {
  const Network network = ModelBuilder()
                              .input("x", {4})
                              .node("Relu", {"x"}, {"y"}, "live")
                              .node("Tanh", {"x"}, {"a"}, "dead")
                              .node("NoSuchOp", {"a"}, {"b"}, "dead_too")
                              .output("y")
                              .network();
  EXPECT_EQ(node_names(network), (Strings{"live"}));
  ASSERT_EQ(network.warnings.size(), 1U);
  EXPECT_TRUE(contains(network.warnings[0], "2 nodes") && contains(network.warnings[0], "dead_too"));
}

TEST(Network, WhatOnlyAShapeReadsIsDead) {
  ModelBuilder model;
  model.input("x", {2, 6}).node("Tanh", {"x"}, {"t"}, "only_shape").node("Shape", {"t"}, {"s"});
  model.node("Relu", {"x"}, {"r"}).node("Expand", {"r", "s"}, {"e"}).node("Exp", {"e"}, {"y"}).output("y");
  const Graph graph = model.graph();
  ASSERT_EQ(graph.ops.size(), 2U);
  EXPECT_EQ(graph.fixed_memory, Bytes(0));
}

TEST(Network, RandomOpsRunOnce) {
  ModelBuilder model;
  model.input("x", {2, 6}).node("RandomNormalLike", {"x"}, {"n"}, "noise");
  model.node("RandomUniform", {}, {"u"}, "uniform").set("shape", std::vector<std::int64_t>{2, 6});
  model.node("Add", {"x", "n"}, {"a"}, "add").node("Add", {"a", "u"}, {"y"}, "add2").output("y");
  const Network network = model.network();
  EXPECT_TRUE(node_named(network, "noise").never_recompute);
  EXPECT_TRUE(node_named(network, "uniform").never_recompute);
  EXPECT_FALSE(node_named(network, "uniform").constant);
  EXPECT_FALSE(node_named(network, "add").never_recompute);
  const Graph graph = model.graph();
  EXPECT_FALSE(graph.ops[0].recompute);
  EXPECT_TRUE(graph.ops[2].recompute);
}

/// Whether the Dropout of a model is random; it must be a view otherwise.
bool drops(std::int64_t opset, bool training_request, int training_mode) {
  ModelBuilder model(opset);
  model.input("x", {2, 6}).weight("w", {6, 6}).node("MatMul", {"x", "w"}, {"m"});
  if (training_mode >= 0) {
    model.reals("ratio", {0.5F}).flag("mode", training_mode == 1);
    model.proto().mutable_graph()->mutable_initializer(1)->clear_dims();
    model.node("Dropout", {"m", "ratio", "mode"}, {"d"}, "dropout");
  } else {
    model.node("Dropout", {"m"}, {"d"}, "dropout");
  }
  model.node("Relu", {"d"}, {"y"}).output("y");
  OnnxOptions options;
  if (training_request) options.training.emplace();
  const Network network = model.network(options);
  const Node& dropout = node_named(network, "dropout");
  EXPECT_NE(dropout.view, dropout.never_recompute);
  return dropout.never_recompute;
}

TEST(Network, DropoutDropsWhereItsTrainingModeSaysSo) {
  for (const bool training_request : {false, true}) {
    EXPECT_TRUE(drops(13, training_request, 1));
    EXPECT_FALSE(drops(13, training_request, 0));
    EXPECT_FALSE(drops(13, training_request, -1));
    EXPECT_FALSE(drops(9, training_request, -1));
    EXPECT_EQ(drops(6, training_request, -1), training_request);
  }
}

TEST(Network, WeightsAreTrainableAndSettingsAreNot) {
  ModelBuilder model;
  model.input("x", {1, 3, 4, 4}).weight("w", {3, 3, 1, 1}).weight("scalar", {});
  for (const char* name : {"scale", "bias", "mean", "variance"}) model.weight(name, {3});
  model.node("Conv", {"x", "w"}, {"c"});
  model.node("BatchNormalization", {"c", "scale", "bias", "mean", "variance"}, {"n"});
  model.node("Mul", {"n", "scalar"}, {"y"}).output("y");
  const Network network = model.network();
  for (const char* name : {"w", "scale", "bias"}) EXPECT_TRUE(value_named(network, name).trainable) << name;
  for (const char* name : {"scalar", "mean", "variance", "x", "c"}) {
    EXPECT_FALSE(value_named(network, name).trainable) << name;
  }
}

TEST(Network, ConstantOfShapeMakesWeightsUnlessItsShapeComesFromData) {
  ModelBuilder model;
  model.input("x", {2, 6}).integers("shape", {6, 6}).node("ConstantOfShape", {"shape"}, {"w"});
  model.node("MatMul", {"x", "w"}, {"m"}).node("Shape", {"m"}, {"s"}).node("ConstantOfShape", {"s"}, {"zeros"});
  model.node("Add", {"m", "zeros"}, {"y"}).output("y");
  const Network network = model.network();
  EXPECT_TRUE(value_named(network, "w").trainable);
  EXPECT_FALSE(value_named(network, "zeros").trainable);
  EXPECT_EQ(value_named(network, "zeros").kind, ValueKind::parameter);
  EXPECT_EQ(model.graph().fixed_memory, Bytes(6 * 6 * 4 + 2 * 6 * 4));
}

TEST(Network, SparseInitializersAreParameters) {
  ModelBuilder model;
  model.input("x", {2, 100}).node("MatMul", {"x", "w"}, {"y"}).output("y");
  auto& sparse = *model.proto().mutable_graph()->add_sparse_initializer();
  sparse.mutable_values()->set_name("w");
  sparse.mutable_values()->set_data_type(kFloat);
  sparse.mutable_values()->add_dims(3);
  sparse.add_dims(100);
  sparse.add_dims(10);
  EXPECT_EQ(model.graph().fixed_memory, Bytes(100 * 10 * 4));
}

TEST(Network, LocalFunctionsAreInlined) {
  ModelBuilder model;
  model.input("x", {2, 6}).node("Block", {"x"}, {"y"}, "encoder").domain("house").set("slope_axis", 1).output("y");
  auto& function = *model.proto().add_functions();
  function.set_name("Block");
  function.set_domain("house");
  function.add_input("a");
  function.add_output("b");
  function.add_attribute("slope_axis");
  auto& relu = *function.add_node();
  relu.set_op_type("Relu");
  relu.set_name("relu");
  relu.add_input("a");
  relu.add_output("t");
  auto& softmax = *function.add_node();
  softmax.set_op_type("Softmax");
  softmax.add_input("t");
  softmax.add_output("b");
  auto& axis = *softmax.add_attribute();
  axis.set_name("axis");
  axis.set_ref_attr_name("slope_axis");
  axis.set_type(onnx::AttributeProto::INT);
  const Network network = model.network();
  EXPECT_EQ(node_names(network), (Strings{"encoder/relu", "Softmax_1"}));
  EXPECT_EQ(network.nodes[1].attributes.get("axis", std::int64_t{-1}), 1);
  EXPECT_EQ(value_named(network, "encoder/t").shape, (Shape{2, 6}));

  *softmax.mutable_op_type() = "Block";
  softmax.set_domain("house");
  EXPECT_TRUE(contains(model.complaint(), "calls itself")) << model.complaint();
}

TEST(Network, SequencesAreAnErrorThatNamesTheNode) {
  ModelBuilder model;
  model.input("x", {2, 3}).node("SequenceConstruct", {"x", "x"}, {"s"}, "list");
  model.node("ConcatFromSequence", {"s"}, {"y"}).set("axis", 0).output("y");
  EXPECT_TRUE(contains(model.complaint(), "node list (SequenceConstruct)")) << model.complaint();
  EXPECT_TRUE(contains(model.complaint(), "sequence")) << model.complaint();
}

TEST(Network, ShapeThatDependsOnDataIsAnErrorWithARemedy) {
  ModelBuilder model;
  model.input("x", {2, 3}).node("NonZero", {"x"}, {"n"}, "where").output("n");
  const std::string complaint = model.complaint();
  EXPECT_TRUE(contains(complaint, "node where (NonZero)") && contains(complaint, "--bound NonZero=N")) << complaint;
  OnnxOptions options;
  for (const char* name : {"where", "n", "NonZero"}) {
    options.bounds = {{name, 5}};
    const Network network = model.network(options);
    EXPECT_EQ(value_named(network, "n").shape, (Shape{2, 5}));
    EXPECT_TRUE(contains(network.warnings.back(), "upper bounds")) << network.warnings.back();
  }
  options.bounds = {{"n", 5}, {"nowhere", 5}};
  EXPECT_TRUE(contains(model.complaint(options), "--bound nowhere")) << model.complaint(options);
}

TEST(Network, UnknownOpIsAnErrorUnlessTheFileStatesItsShape) {
  ModelBuilder model;
  model.input("x", {2, 3}).node("Mystery", {"x"}, {"m"}, "odd").domain("house");
  model.node("Relu", {"m"}, {"y"}).output("y");
  EXPECT_TRUE(contains(model.complaint(), "node odd (Mystery)")) << model.complaint();
  model.value_info("m", {5, 7});
  const Network network = model.network();
  EXPECT_EQ(value_named(network, "y").shape, (Shape{5, 7}));
  ASSERT_EQ(network.warnings.size(), 1U);
  EXPECT_TRUE(contains(network.warnings[0], "the file states"));
}

TEST(Network, InputsOfWrongShapeAreAnErrorOfTheirNode) {
  ModelBuilder model;
  model.input("x", {2, 3}).weight("w", {4, 5}).node("MatMul", {"x", "w"}, {"y"}, "product").output("y");
  EXPECT_TRUE(contains(model.complaint(), "node product (MatMul)")) << model.complaint();
}

}  // namespace
}  // namespace remora::onnx_frontend::test
