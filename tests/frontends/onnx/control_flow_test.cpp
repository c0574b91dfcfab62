// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <gtest/gtest.h>

#include "frontends/onnx/read/onnx_reader.hpp"
#include "tests/frontends/onnx/model_builder.hpp"

namespace remora::onnx_frontend::test {
namespace {

const Op& op_of(const Graph& graph, const std::string& type) {
  const auto found = std::find_if(graph.ops.begin(), graph.ops.end(), [&](const Op& op) { return op.type == type; });
  EXPECT_NE(found, graph.ops.end()) << "no " << type;
  return *found;
}

Bytes output_size(const Graph& graph, const Op& op, std::size_t k = 0) {
  return graph.tensors[op.outputs.at(k)].size;
}

/// y = f(w) of 4 x 8 floats around it, where f has an inner tensor of twice that.
ModelBuilder branch(const std::string& last, const Strings& reads = {"x"}) {
  ModelBuilder body;
  body.node("Concat", {reads[0], "x"}, {"wide"}).set("axis", 0);
  body.node("Relu", {"wide"}, {"wide2"});
  body.node("Split", {"wide2"}, {"half", "rest"}).set("axis", 0);
  body.node(last, {"half"}, {"result"}).output("result");
  return body;
}

ModelBuilder with_if(const ModelBuilder& one, const ModelBuilder& other) {
  ModelBuilder model;
  model.input("input", {4, 8}).node("Tanh", {"input"}, {"x"});
  model.node("If", {"c"}, {"y"}, "choice").body("then_branch", one).body("else_branch", other);
  model.node("Sigmoid", {"y"}, {"z"}).output("z");
  return model;
}

TEST(ControlFlow, AnIfWithAKnownConditionIsItsBranch) {
  ModelBuilder small;
  small.node("Relu", {"x"}, {"r"}).output("r");
  ModelBuilder model = with_if(branch("Relu"), small);
  model.flag("c", false);
  const Graph graph = model.graph();
  const Op& choice = op_of(graph, "If");
  EXPECT_EQ(choice.workspace, Bytes(0));
  EXPECT_EQ(output_size(graph, choice), Bytes(128));
  ModelBuilder other = with_if(branch("Relu"), small);
  other.flag("c", true);
  // 256 B wide, 256 B wide2 and, behind them, halves of 128 B: all but the result of 128 B is inside.
  EXPECT_EQ(op_of(other.graph(), "If").workspace, Bytes(512 - 128));
}

TEST(ControlFlow, AnIfThatDependsOnDataTakesTheLargerBranch) {
  ModelBuilder small;
  small.node("Relu", {"x"}, {"r"}).output("r");
  ModelBuilder model = with_if(small, branch("Relu"));
  model.input("c", {}, kBool);
  const Graph graph = model.graph();
  EXPECT_EQ(op_of(graph, "If").workspace, Bytes(512 - 128));
  // What a body reads of the values around it, its op reads.
  EXPECT_EQ(op_of(graph, "If").inputs.size(), 2U);
}

TEST(ControlFlow, BranchesOfDifferentShapesAreAnErrorUnlessTheConditionIsKnown) {
  ModelBuilder wide;
  wide.node("Concat", {"x", "x"}, {"r"}).set("axis", 0).output("r");
  ModelBuilder model = with_if(branch("Relu"), wide);
  ModelBuilder known = model;
  model.input("c", {}, kBool);
  EXPECT_TRUE(contains(model.complaint(), "node choice (If)")) << model.complaint();
  known.flag("c", false);
  EXPECT_EQ(output_size(known.graph(), op_of(known.graph(), "If")), Bytes(256));
}

TEST(ControlFlow, WeightsInABodyAreFixedMemory) {
  ModelBuilder one;
  one.weight("w", {8, 8}).node("MatMul", {"x", "w"}, {"r"}).output("r");
  ModelBuilder model = with_if(one, branch("Relu"));
  model.input("c", {}, kBool);
  EXPECT_EQ(model.graph().fixed_memory, Bytes(256));
}

/// The body of a Loop whose state is `state`, with what else is in it.
ModelBuilder loop_body(const Dimensions& state) {
  ModelBuilder body;
  body.input("k", {}, kInt64).input("go", {}, kBool).input("s", state);
  body.node("Identity", {"go"}, {"go_on"}).output("go_on");
  return body;
}

TEST(ControlFlow, ALoopWritesWhatItsRoundsWriteOneBehindTheOther) {
  ModelBuilder body = loop_body({4, 8});
  body.node("Tanh", {"s"}, {"t"}).output("t");
  body.node("ReduceSum", {"t"}, {"row"}).output("row");
  ModelBuilder model;
  model.input("x", {4, 8}).integer("n", 5).flag("yes", true);
  model.node("Loop", {"n", "yes", "x"}, {"y", "rows"}).body("body", body);
  model.output("y").output("rows");
  const Graph graph = model.graph();
  const Op& loop = op_of(graph, "Loop");
  EXPECT_EQ(output_size(graph, loop, 0), Bytes(128));
  EXPECT_EQ(output_size(graph, loop, 1), Bytes(5 * 4));
  // The state before the round; the one behind it is the op's output. The row of a round.
  EXPECT_EQ(loop.workspace, Bytes(128 + 4));
  OnnxOptions flops;
  flops.cost = CostModel::flops;
  EXPECT_EQ(op_of(model.graph(flops), "Loop").duration, Duration(5 * (6 * 32 + 32)));
}

TEST(ControlFlow, ALoopWhoseStateGrowsIsReadRoundByRound) {
  ModelBuilder body = loop_body({symbol("rows"), 8});
  body.node("Concat", {"s", "x"}, {"t"}).set("axis", 0).output("t");
  ModelBuilder model;
  model.input("x", {4, 8}).flag("yes", true);
  model.node("Loop", {"n", "yes", "x"}, {"y"}, "grow").body("body", body).output("y");
  ModelBuilder unknown = model;
  model.integer("n", 3);
  EXPECT_EQ(output_size(model.graph(), op_of(model.graph(), "Loop")), Bytes(4 * 128));
  unknown.input("n", {}, kInt64);
  EXPECT_TRUE(contains(unknown.complaint(), "node grow (Loop)")) << unknown.complaint();
}

TEST(ControlFlow, ALoopOfUnknownLengthTakesABound) {
  ModelBuilder body = loop_body({4, 8});
  body.node("Tanh", {"s"}, {"t"}).output("t");
  body.node("Neg", {"t"}, {"out"}).output("out");
  ModelBuilder model;
  model.input("x", {4, 8}).input("n", {}, kInt64);
  model.node("Loop", {"n", "", "x"}, {"y", "all"}, "run").body("body", body).output("all");
  EXPECT_TRUE(contains(model.complaint(), "node run (Loop)")) << model.complaint();
  OnnxOptions options;
  options.bounds = {{"run", 7}};
  const Graph graph = model.graph(options);
  EXPECT_EQ(output_size(graph, op_of(graph, "Loop"), op_of(graph, "Loop").outputs.size() - 1), Bytes(7 * 128));
}

TEST(ControlFlow, AScanRunsAlongItsAxis) {
  ModelBuilder body;
  body.input("s", {8}).input("row", {8});
  body.node("Add", {"s", "row"}, {"t"}).output("t");
  body.node("Tanh", {"t"}, {"out"}).output("out");
  ModelBuilder model;
  model.input("x", {8, 6}).input("start", {8});
  model.node("Scan", {"start", "x"}, {"end", "all"}).set("num_scan_inputs", 1);
  model.set("scan_input_axes", std::vector<std::int64_t>{1}).body("body", body);
  model.output("end").output("all");
  const Graph graph = model.graph();
  const Op& scan = op_of(graph, "Scan");
  EXPECT_EQ(output_size(graph, scan, 0), Bytes(32));
  EXPECT_EQ(output_size(graph, scan, 1), Bytes(6 * 32));
  // State and row before a round, and what it writes.
  EXPECT_EQ(scan.workspace, Bytes(3 * 32));
}

TEST(ControlFlow, BodiesWithinBodiesThatComeToTooMuchAreRefused) {
  // Each round grows the state, so that rounds are read one by one, and those of the inner loop in each of the outer one's.
  ModelBuilder inner = loop_body({symbol("rows"), 8});
  inner.node("Concat", {"s", "x"}, {"t"}).set("axis", 0).output("t");
  ModelBuilder outer;
  outer.input("k2", {}, kInt64).input("go2", {}, kBool).input("s2", {symbol("rows"), 8});
  outer.node("Identity", {"go2"}, {"go_on2"}).output("go_on2");
  outer.node("Loop", {"n", "yes", "s2"}, {"t2"}).body("body", inner).output("t2");
  ModelBuilder model;
  model.input("x", {1, 8}).integer("n", 300).flag("yes", true);
  model.node("Loop", {"n", "yes", "x"}, {"y"}).body("body", outer).output("y");
  EXPECT_TRUE(contains(model.complaint(), "more than 50,000 nodes")) << model.complaint();
}

TEST(ControlFlow, ABodyThatIsMissingIsAnErrorOfItsNode) {
  for (const char* type : {"If", "Loop", "Scan"}) {
    ModelBuilder model;
    model.input("x", {2}).input("c", {}, kBool).node(type, {"c", "x"}, {"y"}, "branch").output("y");
    EXPECT_TRUE(contains(model.complaint(), "node branch (" + std::string(type) + ")")) << model.complaint();
  }
}

}  // namespace
}  // namespace remora::onnx_frontend::test
