// SPDX-License-Identifier: Apache-2.0
//
// Models whose local functions call each other: a few kilobytes that would grow without end.
#include <string>

#include <gtest/gtest.h>

#include "model_builder.hpp"

namespace remora::onnx_frontend::test {
namespace {

/// Functions F0, F1, ... of one input and one output; each but the first calls the one before it `calls` times in a
/// row, and F0 has `nodes` nodes. The model calls the last.
ModelBuilder nested(int functions, int calls, int nodes) {
  ModelBuilder model;
  model.proto().add_opset_import()->set_domain("own");
  model.proto().mutable_opset_import(1)->set_version(1);
  for (int f = 0; f < functions; ++f) {
    auto& function = *model.proto().add_functions();
    function.set_name("F" + std::to_string(f));
    function.set_domain("own");
    function.add_input("a");
    function.add_output("z");
    const int count = f == 0 ? nodes : calls;
    for (int k = 0; k < count; ++k) {
      auto& node = *function.add_node();
      node.set_op_type(f == 0 ? "Relu" : "F" + std::to_string(f - 1));
      if (f > 0) node.set_domain("own");
      node.add_input(k == 0 ? "a" : "b" + std::to_string(k));
      node.add_output(k + 1 == count ? "z" : "b" + std::to_string(k + 1));
    }
  }
  model.input("x", {4}).node("F" + std::to_string(functions - 1), {"x"}, {"y"}, "call").domain("own").output("y");
  return model;
}

TEST(FunctionInlining, CallsThatDoubleAreCountedBeforeTheyAreWritten) {
  for (const int nodes : {0, 1}) {
    const std::string complaint = nested(64, 2, nodes).complaint();
    EXPECT_TRUE(contains(complaint, "node call (F63)") && contains(complaint, "more than 1000000 nodes and calls"))
        << complaint;
  }
}

TEST(FunctionInlining, CallsNestedThousandsDeepAreRefused) {
  EXPECT_TRUE(contains(nested(20'000, 1, 1).complaint(), "nested deeper than 200"));
  EXPECT_TRUE(contains(nested(201, 1, 1).complaint(), "nested deeper than 200"));
}

TEST(FunctionInlining, DeepAndWideModelsThatCanBeScheduledAreRead) {
  EXPECT_EQ(nested(200, 1, 1).graph().ops.size(), 1U);
  EXPECT_EQ(nested(12, 2, 1).graph().ops.size(), 2048U);
}

/// nested() with an If around its call.
ModelBuilder called_in_a_body(int functions, int calls, int nodes) {
  ModelBuilder model = nested(functions, calls, nodes);
  const onnx::NodeProto call = model.proto().graph().node(0);
  model.proto().mutable_graph()->clear_node();
  model.input("c", {}, kBool).node("If", {"c"}, {"y"}, "choice");
  for (const char* const name : {"then_branch", "else_branch"}) {
    auto& attribute = *model.proto().mutable_graph()->mutable_node(0)->add_attribute();
    attribute.set_name(name);
    attribute.set_type(onnx::AttributeProto::GRAPH);
    *attribute.mutable_g()->add_node() = call;
    attribute.mutable_g()->add_output()->set_name("y");
  }
  return model;
}

TEST(FunctionInlining, ABodyCallsThemAsAGraphDoes) {
  const Graph graph = called_in_a_body(3, 2, 1).graph();
  ASSERT_EQ(graph.ops.size(), 1U);
  // Four Relus behind each other: of the second, input and output take the place of the output and 16 bytes more.
  EXPECT_EQ(graph.ops[0].workspace, Bytes(16));
  EXPECT_TRUE(contains(called_in_a_body(64, 2, 1).complaint(), "more than 1000000 nodes and calls"));
}

/// G(p, q) = If(q) { t = F(p) } else { t = Neg(p) }; its bodies' names are those of the call's values.
TEST(FunctionInlining, NamesInAFunctionsBodiesAreItsOwn) {
  ModelBuilder model = nested(1, 1, 1);
  model.proto().mutable_graph()->clear_node();
  auto& function = *model.proto().add_functions();
  function.set_name("G");
  function.set_domain("own");
  for (const char* const name : {"p", "q"}) function.add_input(name);
  function.add_output("r");
  auto& branch = *function.add_node();
  branch.set_op_type("If");
  branch.add_input("q");
  branch.add_output("r");
  for (const char* const name : {"then_branch", "else_branch"}) {
    auto& attribute = *branch.add_attribute();
    attribute.set_name(name);
    attribute.set_type(onnx::AttributeProto::GRAPH);
    auto& first = *attribute.mutable_g()->add_node();
    const bool calls = attribute.name() == "then_branch";
    first.set_op_type(calls ? "F0" : "Neg");
    if (calls) first.set_domain("own");
    first.add_input("p");
    first.add_output("x");
    auto& second = *attribute.mutable_g()->add_node();
    second.set_op_type("Add");
    second.add_input("x");
    second.add_input("p");
    second.add_output("t");
    attribute.mutable_g()->add_output()->set_name("t");
  }
  model.input("c", {}, kBool).node("G", {"x", "c"}, {"y"}, "call").domain("own");
  const Graph graph = model.graph();
  ASSERT_EQ(graph.ops.size(), 1U);
  EXPECT_EQ(graph.ops[0].inputs.size(), 2U);
  EXPECT_EQ(graph.ops[0].workspace, Bytes(16));
}

TEST(FunctionInlining, AFunctionThatCallsItselfIsRefusedWhereverItIs) {
  ModelBuilder model = nested(4, 1, 1);
  auto& first = *model.proto().mutable_functions(0)->mutable_node(0);
  first.set_op_type("F2");
  first.set_domain("own");
  EXPECT_TRUE(contains(model.complaint(), "calls itself")) << model.complaint();
}

}  // namespace
}  // namespace remora::onnx_frontend::test
