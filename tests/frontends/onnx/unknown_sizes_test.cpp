// SPDX-License-Identifier: Apache-2.0
//
// Planning around what nobody can size (OnnxOptions::allow_unknown): it counts as nothing, what makes or reads it runs
// once, and all else is planned.
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "frontends/text/text.hpp"
#include "model_builder.hpp"
#include "rewrite_support.hpp"

namespace remora::onnx_frontend::test {
namespace {

OnnxOptions allow() {
  return {.allow_unknown = true};
}

/// x -> Relu a -> NonZero n -> Transpose t -> GatherND picked -> Exp stated -> Erf y, of which the file states the size of
/// `stated` alone; and a chain of its own beside it, a -> Exp b -> Erf z.
ModelBuilder two_parts() {
  ModelBuilder model;
  model.input("x", {4, 8}).node("Relu", {"x"}, {"a"}, "A").node("NonZero", {"a"}, {"n"}, "N");
  model.node("Transpose", {"n"}, {"t"}, "T").node("GatherND", {"a", "t"}, {"picked"}, "G");
  model.node("Exp", {"picked"}, {"stated"}, "L").value_info("stated", {35});
  model.node("Erf", {"stated"}, {"y"}, "Y").output("y");
  model.node("Exp", {"a"}, {"b"}, "B").node("Erf", {"b"}, {"z"}, "Z").output("z");
  return model;
}

Strings unknown_values(const Network& network) {
  Strings names;
  for (const Value& value : network.values) {
    if (value.unknown) names.push_back(value.name);
  }
  return names;
}

Strings unknown_nodes(const Network& network) {
  Strings names;
  for (const Node& node : network.nodes) {
    if (node.unknown) names.push_back(node.name);
  }
  return names;
}

TEST(UnknownSizes, BeforeAndBehindAreKnown) {
  const ModelBuilder model = two_parts();
  EXPECT_TRUE(contains(model.complaint(), "node N (NonZero)")) << model.complaint();
  EXPECT_TRUE(contains(model.complaint(), "; --allow-unknown plans around it")) << model.complaint();
  OnnxOptions training;
  training.training.emplace();
  EXPECT_FALSE(contains(model.complaint(training), "--allow-unknown")) << model.complaint(training);
  const Network network = model.network(allow());
  EXPECT_EQ(unknown_values(network), (Strings{"n", "t", "picked"}));
  EXPECT_EQ(unknown_nodes(network), (Strings{"N", "T", "G", "L"}));
  EXPECT_EQ(value_named(network, "stated").shape, (Shape{35}));
  EXPECT_EQ(value_named(network, "y").shape, (Shape{35}));
  ASSERT_EQ(network.warnings.size(), 1U);
  EXPECT_TRUE(network.warnings[0].starts_with("the size of 3 values is unknown")) << network.warnings[0];
  EXPECT_TRUE(contains(network.warnings[0], "4 nodes run once; the first: node N (NonZero)")) << network.warnings[0];
}

TEST(UnknownSizes, AreNotCountedAndNotMadeAgain) {
  const Graph graph = two_parts().graph(allow());
  EXPECT_EQ(text::unknown_tensors_of(graph), 3);
  EXPECT_EQ(text::unknown_tensors_of(ModelBuilder().input("x", {2}).node("Erf", {"x"}, {"y"}).output("y").graph()), 0);
  for (const Op& op : graph.ops) {
    const bool unknown = contains("NTGL", op.name);
    EXPECT_EQ(op.recompute, !unknown) << op.name;
    // Of unknown work at least what is known of it counts: what it reads.
    EXPECT_GT(op.duration, Duration(0)) << op.name;
    for (const TensorId output : op.outputs)
      EXPECT_EQ(graph[output].size > Bytes(0), !contains("NTG", op.name)) << op.name;
  }
}

TEST(UnknownSizes, ABoundMakesThemKnown) {
  OnnxOptions options = allow();
  options.bounds = {{"NonZero", 6}};
  const Network network = two_parts().network(options);
  EXPECT_EQ(unknown_values(network), (Strings{}));
  EXPECT_EQ(value_named(network, "picked").shape, (Shape{6}));
}

TEST(UnknownSizes, WhatReadsTheShapeOnlyRuns) {
  ModelBuilder model;
  model.input("x", {4, 8}).node("NonZero", {"x"}, {"n"}, "N").node("Shape", {"n"}, {"s"}, "S");
  model.node("ConstantOfShape", {"s"}, {"c"}, "C").output("c");
  const Network network = model.network(allow());
  EXPECT_EQ(unknown_nodes(network), (Strings{"N", "S", "C"}));
  for (const Node& node : network.nodes) EXPECT_FALSE(node.constant || node.view) << node.name;
  EXPECT_EQ(model.graph(allow()).ops.size(), 3U);
}

TEST(UnknownSizes, SequencesStringsAndBodies) {
  ModelBuilder model;
  model.input("x", {2, 3}).node("SequenceConstruct", {"x", "x"}, {"s"}, "list");
  model.node("ConcatFromSequence", {"s"}, {"y"}, "join").set("axis", std::int64_t{0}).output("y");
  model.node("Cast", {"x"}, {"text"}, "words").set("to", std::int64_t{onnx::TensorProto::STRING}).output("text");
  model.flag("always", true).integer("rounds", 3);
  ModelBuilder body;
  body.input("i", {}, kInt64).input("going", {}, kBool).node("Identity", {"going"}, {"on"});
  body.node("NonZero", {"x"}, {"found"}).output("on").output("found");
  model.node("Loop", {"rounds", "always"}, {"all"}, "loop").body("body", body).output("all");
  EXPECT_FALSE(model.complaint().empty());
  EXPECT_EQ(unknown_nodes(model.network(allow())), (Strings{"list", "join", "words", "loop"}));
}

/// The nodes of unknown size stay in the model, each once and behind what it reads.
TEST(UnknownSizes, TheRewrittenModelComputesTheSame) {
  ModelBuilder model = two_parts();
  const Graph graph = model.graph(allow());
  const onnx::ModelProto again =
      rewritten(model.proto(), sequence_of(graph, {"A", "B", "A", "N", "T", "G", "L", "Y", "Z"}), allow());
  EXPECT_EQ(again.graph().node_size(), 9);
  expect_same_outputs(model.proto(), again);
}

}  // namespace
}  // namespace remora::onnx_frontend::test
