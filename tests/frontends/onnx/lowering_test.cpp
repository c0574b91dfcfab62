// SPDX-License-Identifier: Apache-2.0
//
// From network to graph: what becomes a tensor, an op, fixed memory.
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "model_builder.hpp"
#include "onnx/onnx_pb.h"

namespace remora::onnx_frontend::test {
namespace {

TEST(Lowering, SmallNetHasTheBytesComputedByHand) {
  ModelBuilder model;
  model.input("x", {1, 3, 8, 8}).weight("w", {4, 3, 3, 3}).weight("b", {4}).weight("unused", {1000});
  model.integers("flat", {1, -1}).weight("g", {144, 10});
  model.node("Conv", {"x", "w", "b"}, {"c"}, "conv").node("Relu", {"c"}, {"r"}, "relu");
  model.node("Reshape", {"r", "flat"}, {"v"}, "view").node("MatMul", {"v", "g"}, {"y"}, "product").output("y");
  const Graph graph = model.graph();
  EXPECT_EQ(graph.fixed_memory, Bytes((4 * 27 + 4 + 1440) * 4));
  ASSERT_EQ(graph.tensors.size(), 4U);
  EXPECT_EQ(graph.tensors[0].name, "x");
  EXPECT_EQ(graph.tensors[0].size, Bytes(3 * 64 * 4));
  EXPECT_EQ(graph.tensors[1].size, Bytes(4 * 36 * 4));
  EXPECT_EQ(graph.tensors[3].size, Bytes(40));
  EXPECT_TRUE(graph.tensors[3].keep);
  EXPECT_FALSE(graph.tensors[2].keep);
  ASSERT_EQ(graph.ops.size(), 3U);
  EXPECT_EQ(graph.ops[0].name, "conv");
  EXPECT_EQ(graph.ops[0].type, "Conv");
  EXPECT_EQ(graph.ops[2].inputs, graph.ops[1].outputs);
  EXPECT_EQ(graph.ops[0].phase, Phase::forward);
}

TEST(Lowering, OutputThatIsAViewKeepsItsStorage) {
  ModelBuilder model;
  model.input("x", {2, 6}).node("Relu", {"x"}, {"r"}).node("Flatten", {"r"}, {"y"}).output("y");
  const Graph graph = model.graph();
  ASSERT_EQ(graph.tensors.size(), 2U);
  EXPECT_TRUE(graph.tensors[1].keep);
}

TEST(Lowering, RepeatedInputsAreOne) {
  const Graph graph = ModelBuilder().input("x", {2}).node("Mul", {"x", "x"}, {"y"}).output("y").graph();
  EXPECT_EQ(graph.ops[0].inputs.size(), 1U);
}

TEST(Lowering, ParameterThatIsAnOutputIsFixedMemory) {
  ModelBuilder model;
  model.input("x", {2}).weight("w", {8}).node("Relu", {"x"}, {"y"}).output("y").output("w");
  EXPECT_EQ(model.graph().fixed_memory, Bytes(32));
}

TEST(Lowering, ElementTypesDecideBytes) {
  ModelBuilder model;
  model.input("x", {10}).node("Cast", {"x"}, {"h"}).set("to", onnx::TensorProto::FLOAT16);
  model.node("Cast", {"h"}, {"b"}).set("to", kBool).node("Not", {"b"}, {"y"}).output("y");
  const Graph graph = model.graph();
  EXPECT_EQ(graph.tensors[1].size, Bytes(20));
  EXPECT_EQ(graph.tensors[2].size, Bytes(10));
}

TEST(Lowering, FourBitElementsRoundUpToWholeBytes) {
  EXPECT_EQ(byte_size({5}, {.bits = 4, .floating = false}), Bytes(3));
  EXPECT_EQ(byte_size({16, 3}, {.bits = 4, .floating = false}), Bytes(24));
  EXPECT_EQ(byte_size({}, {}), Bytes(4));
  EXPECT_EQ(byte_size({7, 0}, {}), Bytes(0));
}

TEST(Lowering, ImpossibleSizesAreErrors) {
  EXPECT_THROW(element_count({std::int64_t{1} << 40, std::int64_t{1} << 40}), InputError);
  EXPECT_THROW(byte_size({std::int64_t{1} << 61}, {.bits = 128, .floating = true}), InputError);
  EXPECT_EQ(element_count({std::int64_t{1} << 62, 0}), 0);
}

TEST(Lowering, TrainingStepPointsItsBackwardOpsAtForwardOps) {
  ModelBuilder model;
  model.input("x", {2, 6}).weight("w", {6, 6}).node("MatMul", {"x", "w"}, {"m"}, "product");
  model.node("Flatten", {"m"}, {"v"}, "view").node("Relu", {"v"}, {"y"}, "relu").output("y");
  OnnxOptions options;
  options.training.emplace();
  const Graph graph = model.graph(options);
  EXPECT_EQ(graph.fixed_memory, Bytes(2 * 144));
  int backward = 0;
  for (const Op& op : graph.ops) {
    const bool of_forward = op.backward_of.valid() && graph.ops[op.backward_of].phase == Phase::forward;
    if (!of_forward) continue;
    ++backward;
    EXPECT_EQ(graph.ops[op.backward_of].type + "Grad", op.type);
  }
  EXPECT_EQ(backward, 2);
}

TEST(Lowering, MetaSaysWhereTheGraphCameFrom) {
  ModelBuilder model;
  model.proto().set_producer_name("odd \xff bytes");
  model.input("x", {2}).node("Relu", {"x"}, {"y"}).output("y");
  const auto meta = nlohmann::json::parse(model.graph().meta);
  EXPECT_EQ(meta.at("source"), "test.onnx");
  EXPECT_EQ(meta.at("opset"), 17);
  EXPECT_EQ(meta.at("cost_model"), "roofline");
  EXPECT_EQ(meta.at("duration_unit"), "ns");
  EXPECT_EQ(meta.at("device").at("name"), "generic accelerator");
  EXPECT_FALSE(nlohmann::json::parse(model.graph({.cost = CostModel::unit}).meta).contains("device"));
}

}  // namespace
}  // namespace remora::onnx_frontend::test
