// SPDX-License-Identifier: Apache-2.0
//
// What becomes of single nodes when a model is rewritten: copies, views, constants, outputs, bodies.
#include <string>

#include <gtest/gtest.h>

#include "onnx/onnx_pb.h"
#include "rewrite_support.hpp"

namespace remora::onnx_frontend::test {
namespace {

/// A: x -> a, B: a -> b, C: b -> c, D: a, c -> d.
ModelBuilder four_nodes() {
  return ModelBuilder()
      .input("x", {extent(4)})
      .node("Relu", {"x"}, {"a"}, "A")
      .node("Exp", {"a"}, {"b"}, "B")
      .node("Tanh", {"b"}, {"c"}, "C")
      .node("Add", {"a", "c"}, {"d"}, "D")
      .output("d");
}

TEST(NodeCopies, ReadersReadTheLatestCompute) {
  ModelBuilder builder = four_nodes();
  const onnx::ModelProto result = rewritten(builder.proto(), {"A", "B", "C", "A", "D"});
  EXPECT_EQ(lines_of(result), (Strings{"A: x -> a", "B: a -> b", "C: b -> c", "A#2: x -> a#2", "D: a#2 c -> d"}));
  expect_same_outputs(builder.proto(), result);
}

TEST(NodeCopies, WithoutRecomputeTheModelStaysAsItIs) {
  ModelBuilder builder = four_nodes();
  EXPECT_EQ(rewritten(builder.proto(), {"A", "B", "C", "D"}).SerializeAsString(), builder.bytes());
}

TEST(NodeCopies, AnotherOrderIsWrittenToo) {
  ModelBuilder builder;
  builder.input("x", {extent(4)})
      .node("Relu", {"x"}, {"a"}, "A")
      .node("Exp", {"x"}, {"b"}, "B")
      .node("Add", {"a", "b"}, {"c"}, "C")
      .output("c");
  const onnx::ModelProto result = rewritten(builder.proto(), {"B", "A", "C"});
  EXPECT_EQ(lines_of(result), (Strings{"B: x -> b", "A: x -> a", "C: a b -> c"}));
  expect_same_outputs(builder.proto(), result);
}

TEST(NodeCopies, ChainsAreRecomputedFromTheirNewCopies) {
  ModelBuilder builder = four_nodes();
  const onnx::ModelProto result = rewritten(builder.proto(), {"A", "B", "C", "A", "B", "C", "A", "D"});
  EXPECT_EQ(lines_of(result), (Strings{"A: x -> a", "B: a -> b", "C: b -> c", "A#2: x -> a#2", "B#2: a#2 -> b#2",
                                       "C#2: b#2 -> c#2", "A#3: x -> a#3", "D: a#3 c#2 -> d"}));
  expect_same_outputs(builder.proto(), result);
}

TEST(NodeCopies, ViewsFollowTheComputeTheyView) {
  ModelBuilder builder;
  builder.input("x", {extent(4)})
      .integers("flat", {2, 2})
      .node("Relu", {"x"}, {"a"}, "A")
      .node("Reshape", {"a", "flat"}, {"v"}, "V")
      .node("Identity", {"v"}, {"w"}, "W")
      .node("Exp", {"w"}, {"b"}, "B")
      .node("Tanh", {"b"}, {"c"}, "C")
      .node("Add", {"v", "c"}, {"d"}, "D")
      .output("d");
  const onnx::ModelProto result = rewritten(builder.proto(), {"A", "B", "C", "A", "D"});
  EXPECT_EQ(lines_of(result), (Strings{"A: x -> a", "V: a flat -> v", "W: v -> w", "B: w -> b", "C: b -> c",
                                       "A#2: x -> a#2", "V#2: a#2 flat -> v#2", "D: v#2 c -> d"}));
  expect_same_outputs(builder.proto(), result);
}

TEST(NodeCopies, AnOutputIsTheLastCompute) {
  ModelBuilder builder = four_nodes();
  builder.output("a").integers("flat", {2, 2}).node("Reshape", {"a", "flat"}, {"v"}, "V").output("v");
  const onnx::ModelProto result = rewritten(builder.proto(), {"A", "B", "C", "A", "D"});
  EXPECT_EQ(lines_of(result),
            (Strings{"A: x -> a#1", "B: a#1 -> b", "C: b -> c", "A#2: x -> a", "D: a c -> d", "V: a flat -> v"}));
  expect_same_outputs(builder.proto(), result);
}

TEST(NodeCopies, AnOutputThatIsAViewIsOfTheLastCompute) {
  ModelBuilder builder;
  builder.input("x", {extent(4)})
      .integers("flat", {2, 2})
      .node("Relu", {"x"}, {"a"}, "A")
      .node("Reshape", {"a", "flat"}, {"v"}, "V")
      .node("Exp", {"v"}, {"b"}, "B")
      .output("v")
      .output("b");
  const onnx::ModelProto result = rewritten(builder.proto(), {"A", "B", "A"});
  EXPECT_EQ(lines_of(result),
            (Strings{"A: x -> a", "V: a flat -> v#1", "B: v#1 -> b", "A#2: x -> a#2", "V#2: a#2 flat -> v"}));
  expect_same_outputs(builder.proto(), result);
}

TEST(NodeCopies, ConstantsStandOnceBeforeTheirFirstReader) {
  ModelBuilder builder = four_nodes();
  builder.integers("shape", {4}).node("ConstantOfShape", {"shape"}, {"k"}, "K").node("Mul", {"d", "k"}, {"e"}, "E");
  builder.proto().mutable_graph()->mutable_output(0)->set_name("e");
  const onnx::ModelProto result = rewritten(builder.proto(), {"A", "B", "C", "A", "D", "E"});
  EXPECT_EQ(lines_of(result).at(5), "K: shape -> k");
  EXPECT_EQ(lines_of(result).back(), "E: d k -> e");
  expect_same_outputs(builder.proto(), result);
}

TEST(NodeCopies, AShapeIsTakenWhileTheValueIsThere) {
  ModelBuilder builder = four_nodes();
  builder.node("Shape", {"a"}, {"s"}, "S").node("Reshape", {"d", "s"}, {"e"}, "E").output("e");
  const onnx::ModelProto result = rewritten(builder.proto(), {"A", "B", "C", "A", "D"});
  EXPECT_EQ(lines_of(result), (Strings{"A: x -> a", "S: a -> s", "B: a -> b", "C: b -> c", "A#2: x -> a#2",
                                       "D: a#2 c -> d", "E: d s -> e"}));
  expect_same_outputs(builder.proto(), result);
}

/// C reads A's shape and nothing else of it: the one of a, or the one of n that is made of a.
ModelBuilder shape_between(const std::string& shaped = "a") {
  ModelBuilder builder;
  builder.input("x", {extent(4)})
      .node("Relu", {"x"}, {"a"}, "A")
      .node("Neg", {"a"}, {"n"}, "N")
      .node("Shape", {shaped}, {"s"}, "S")
      .node("Exp", {"x"}, {"b"}, "B")
      .node("Reshape", {"b", "s"}, {"v"}, "V")
      .node("Tanh", {"v"}, {"c"}, "C")
      .node("Add", {"c", "a"}, {"d"}, "D")
      .output("d");
  return builder;
}

TEST(NodeCopies, WhoNeedsAShapeComesAfterTheValueThatHasIt) {
  ModelBuilder builder = shape_between();
  const Graph graph = read_onnx(builder.bytes(), "test.onnx", {}).graph;
  ASSERT_EQ(graph.ops[2].name, "C");
  EXPECT_EQ(graph.ops[2].after, std::vector<OpId>{OpId(0)});
  for (const std::size_t other : {0, 1, 3}) EXPECT_TRUE(graph.ops[other].after.empty());
  expect_same_outputs(builder.proto(), rewritten(builder.proto(), {"B", "A", "C", "A", "D"}));
}

TEST(NodeCopies, AShapeOfAValueThatIsDroppedIsNeededAsWell) {
  // The graph has no N: of what it makes only the shape is read.
  ModelBuilder builder = shape_between("n");
  const Graph read = read_onnx(builder.bytes(), "test.onnx", {}).graph;
  ASSERT_EQ(read.ops.size(), 4U);
  ASSERT_EQ(read.ops[2].name, "C");
  EXPECT_EQ(read.ops[2].after, std::vector<OpId>{OpId(0)});
  expect_same_outputs(builder.proto(), rewritten(builder.proto(), {"B", "A", "C", "D"}));
}

TEST(NodeCopies, WhatComesEarlierForItsDataNeedsNoWordAboutTheShape) {
  ModelBuilder builder;
  builder.input("x", {extent(4)})
      .node("Relu", {"x"}, {"a"}, "A")
      .node("Shape", {"a"}, {"s"}, "S")
      .node("Exp", {"a"}, {"b"}, "B")
      .node("Tanh", {"b"}, {"c"}, "C")
      .node("Reshape", {"c", "s"}, {"v"}, "V")
      .node("Tanh", {"v"}, {"d"}, "D")
      .output("d");
  for (const Op& op : read_onnx(builder.bytes(), "test.onnx", {}).graph.ops) EXPECT_TRUE(op.after.empty()) << op.name;
}

TEST(NodeCopies, AShapeThatComesTooLateIsAnError) {
  const ModelBuilder builder = shape_between();
  const std::string content = builder.bytes();
  const LoweredModel lowered = lower_onnx(content, "test.onnx", {});
  try {
    rewrite_model(content, lowered, sequence_of(lowered.graph, {"B", "C", "A", "D"}), {.from = ".", .to = "."});
    FAIL();
  } catch (const InputError& error) {
    EXPECT_TRUE(contains(error.what(), "test.onnx: node C (Tanh): reads a shape")) << error.what();
    EXPECT_TRUE(contains(error.what(), "node A (Relu), which the schedule computes later")) << error.what();
  }
}

TEST(NodeCopies, WhatServesNoOutputStaysOnce) {
  ModelBuilder builder = four_nodes();
  builder.node("Neg", {"b"}, {"unused"}, "N").node("Abs", {"unused"}, {"too"}, "M");
  const onnx::ModelProto result = rewritten(builder.proto(), {"A", "B", "C", "A", "D"});
  EXPECT_EQ(lines_of(result), (Strings{"A: x -> a", "B: a -> b", "N: b -> unused", "M: unused -> too", "C: b -> c",
                                       "A#2: x -> a#2", "D: a#2 c -> d"}));
  expect_same_outputs(builder.proto(), result);
}

TEST(NodeCopies, BodiesReadTheCopyThatIsThere) {
  ModelBuilder builder = four_nodes();
  builder.output("b").flag("yes", true).node("If", {"yes"}, {"unused"}, "I");
  auto& attributes = *builder.proto().mutable_graph()->mutable_node()->rbegin()->mutable_attribute();
  for (const char* const branch : {"then_branch", "else_branch"}) {
    auto& attribute = *attributes.Add();
    attribute.set_name(branch);
    attribute.set_type(onnx::AttributeProto::GRAPH);
    auto& body = *attribute.mutable_g();
    body.set_name(branch);
    auto& node = *body.add_node();
    node.set_op_type("Mul");
    // b is the last compute's name; in the body, "A#2" is taken.
    for (const char* const input : {"a", "b"}) node.add_input(input);
    node.add_output("A#2");
    body.add_output()->set_name("A#2");
  }
  const onnx::ModelProto result = rewritten(builder.proto(), {"A", "B", "C", "A", "D", "B"});
  EXPECT_EQ(lines_of(result), (Strings{"A: x -> a", "B: a -> b#1", "I: yes -> unused", "C: b#1 -> c", "A#3: x -> a#2",
                                       "D: a#2 c -> d", "B#2: a#2 -> b"}));
  for (const auto& attribute : result.graph().node(2).attribute()) {
    EXPECT_EQ(attribute.g().node(0).input(0), "a");
    EXPECT_EQ(attribute.g().node(0).input(1), "b#1");
    EXPECT_EQ(attribute.g().output(0).name(), "A#2");
  }
}

TEST(NodeCopies, RandomNodesRunOnce) {
  ModelBuilder builder = four_nodes();
  builder.node("RandomNormalLike", {"d"}, {"r"}, "R").node("Add", {"r", "d"}, {"e"}, "E").output("e");
  const onnx::ModelProto result = rewritten(builder.proto(), {"A", "B", "C", "A", "D", "R", "A", "D", "E"});
  EXPECT_EQ(lines_of(result).back(), "E: r d -> e");
  expect_same_outputs(builder.proto(), result);
}

TEST(NodeCopies, LongChainsOfConstantsNeedNoStack) {
  constexpr int kLength = 20000;
  ModelBuilder builder;
  builder.input("x", {extent(4)}).weight("k0", {4}).node("Relu", {"x"}, {"a"}, "A");
  for (int i = 1; i <= kLength; ++i) {
    builder.node("Neg", {"k" + std::to_string(i - 1)}, {"k" + std::to_string(i)});
  }
  builder.node("Add", {"a", "k" + std::to_string(kLength)}, {"y"}, "B").output("y");
  const onnx::ModelProto result = rewritten(builder.proto(), {"A", "A", "B"});
  EXPECT_EQ(result.graph().node_size(), kLength + 3);
}

}  // namespace
}  // namespace remora::onnx_frontend::test
