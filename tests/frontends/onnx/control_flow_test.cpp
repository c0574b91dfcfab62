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

/// The body of a Loop whose state is `state`, with what else is in it.
ModelBuilder loop_body(const Dimensions& state) {
  ModelBuilder body;
  body.input("k", {}, kInt64).input("go", {}, kBool).input("s", state);
  body.node("Identity", {"go"}, {"go_on"}).output("go_on");
  return body;
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

TEST(ControlFlow, OfBranchesOfDifferentShapesTheLargerIsABoundUnlessTheConditionIsKnown) {
  ModelBuilder wide;
  wide.node("Concat", {"x", "x"}, {"r"}).set("axis", 0).output("r");
  ModelBuilder model = with_if(branch("Relu"), wide);
  ModelBuilder known = model;
  model.input("c", {}, kBool);
  const Network network = model.network();
  EXPECT_EQ(value_named(network, "y").shape, (Shape{8, 8}));
  EXPECT_EQ(value_named(network, "z").shape, (Shape{8, 8}));
  ASSERT_EQ(network.warnings.size(), 1U);
  EXPECT_TRUE(contains(network.warnings[0], "branches give 4x8 and 8x8; sizes are upper bounds, for 8x8"))
      << network.warnings[0];
  known.flag("c", true);
  EXPECT_EQ(output_size(known.graph(), op_of(known.graph(), "If")), Bytes(128));
  EXPECT_TRUE(known.network().warnings.empty());
}

TEST(ControlFlow, ShapesOfTheSameSizeAreThoseOfOneBranch) {
  ModelBuilder flat;
  flat.node("Flatten", {"x"}, {"r"}).set("axis", 0).node("Relu", {"r"}, {"r2"}).output("r").output("r2");
  ModelBuilder deep;
  deep.node("Concat", {"x", "x"}, {"q"}).set("axis", 0).node("Relu", {"x"}, {"q2"}).output("q").output("q2");
  ModelBuilder model;
  model.input("input", {4, 8}).input("c", {}, kBool).node("Tanh", {"input"}, {"x"});
  model.node("If", {"c"}, {"y", "z"}, "choice").body("then_branch", flat).body("else_branch", deep);
  model.output("y").output("z");
  const Network network = model.network();
  EXPECT_EQ(value_named(network, "y").shape, (Shape{8, 8}));
  // As large as 1 x 32, the shape in the other branch.
  EXPECT_EQ(value_named(network, "z").shape, (Shape{4, 8}));
}

TEST(ControlFlow, WhatDoesNotFitAGuessedShapeTellsOfTheGuess) {
  ModelBuilder flat;
  flat.node("Flatten", {"x"}, {"r"}).set("axis", 0).output("r");
  ModelBuilder deep;
  deep.node("Concat", {"x", "x"}, {"q"}).set("axis", 0).output("q");
  ModelBuilder model = with_if(flat, deep);
  model.input("c", {}, kBool).weight("w", {32, 8}).node("MatMul", {"z", "w"}, {"product"}, "product").output("product");
  const std::string complaint = model.complaint();
  EXPECT_TRUE(contains(complaint, "node product (MatMul)")) << complaint;
  EXPECT_TRUE(contains(complaint, "sizes before it are a guess: node choice (If)")) << complaint;
}

TEST(ControlFlow, BranchesOfDifferentElementsSayWhyThereIsNoShape) {
  ModelBuilder other;
  other.node("Cast", {"x"}, {"r"}).set("to", std::int64_t{kInt64}).output("r");
  ModelBuilder model = with_if(branch("Relu"), other);
  model.input("c", {}, kBool);
  const std::string complaint = model.complaint();
  EXPECT_TRUE(contains(complaint, "the branches give float and int64 elements")) << complaint;
  EXPECT_FALSE(contains(complaint, "shape_inference")) << complaint;
}

TEST(ControlFlow, ABoundOfANodeWithoutASizeOfDataIsAnError) {
  ModelBuilder model = with_if(branch("Relu"), branch("Relu"));
  model.input("c", {}, kBool);
  OnnxOptions options;
  for (const char* name : {"Tanh", "choice", "z", "If"}) {
    options.bounds = {{name, 64}};
    EXPECT_TRUE(contains(model.complaint(options), "no size depends on its data")) << model.complaint(options);
  }
  // Of a loop whose length is known, nor of what is computed from constants.
  ModelBuilder body = loop_body({4, 8});
  body.node("Tanh", {"s"}, {"t"}).output("t");
  ModelBuilder loop;
  loop.input("x", {4, 8}).integer("n", 5).node("Loop", {"n", "", "x"}, {"y"}, "run").body("body", body).output("y");
  loop.integers("mask", {0, 1, 1}).node("NonZero", {"mask"}, {"where"}, "ones").output("where");
  for (const char* name : {"run", "ones"}) {
    options.bounds = {{name, 3}};
    EXPECT_TRUE(contains(loop.complaint(options), "no size depends on its data")) << loop.complaint(options);
  }
}

TEST(ControlFlow, AShapeThatAnInputDecidesNamesTheInput) {
  ModelBuilder model;
  model.input("x", {1, 8}).input("target", {2}, kInt64).integers("two", {2, 2});
  model.node("Mul", {"target", "two"}, {"twice"}).node("Expand", {"x", "twice"}, {"y"}, "grow").output("y");
  const std::string complaint = model.complaint();
  EXPECT_TRUE(contains(complaint, "depends on the elements of the model's input \"target\"")) << complaint;
  EXPECT_FALSE(contains(complaint, "shape_inference")) << complaint;
}

TEST(ControlFlow, WeightsInABodyAreFixedMemory) {
  ModelBuilder one;
  one.weight("w", {8, 8}).node("MatMul", {"x", "w"}, {"r"}).output("r");
  ModelBuilder model = with_if(one, branch("Relu"));
  model.input("c", {}, kBool);
  EXPECT_EQ(model.graph().fixed_memory, Bytes(256));
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

/// A body that grows its rows to a shape in its state, which it passes on, as linear attention's function does.
TEST(ControlFlow, WhatEveryRoundPassesOnStaysKnown) {
  for (const bool scan : {false, true}) {
    ModelBuilder body;
    if (!scan) body.input("k", {}, kInt64).input("go", {}, kBool).node("Identity", {"go"}, {"go_on"}).output("go_on");
    body.input("shape", {2}, kInt64).input("s", {1, 8});
    if (scan) body.input("row", {8});
    body.node("Identity", {"shape"}, {"same"}).node("Identity", {"same"}, {"again"});
    body.node("Expand", {"s", "shape"}, {"wide"}).node("Tanh", {"wide"}, {"out"});
    body.node("Neg", {"s"}, {"t"}).output("again").output("t").output("out");
    ModelBuilder model;
    model.input("x", {6, 8}).input("start", {1, 8}).integers("to", {4, 8}).integer("n", 6);
    if (scan) {
      model.node("Scan", {"to", "start", "x"}, {"last", "end", "all"}).set("num_scan_inputs", 1).body("body", body);
    } else {
      model.node("Loop", {"n", "", "to", "start"}, {"last", "end", "all"}).body("body", body);
    }
    model.node("Expand", {"end", "last"}, {"y"}).output("all").output("y");
    const Network network = model.network();
    EXPECT_EQ(value_named(network, "all").shape, (Shape{6, 4, 8}));
    EXPECT_EQ(value_named(network, "y").shape, (Shape{4, 8}));
  }
}

TEST(ControlFlow, AValueThatARoundChangesIsNotTakenAsKnown) {
  ModelBuilder body = loop_body({4, 8});
  body.input("shape", {2}, kInt64).input("n2", {2}, kInt64);
  // They change places.
  body.node("Expand", {"s", "shape"}, {"wide"}).node("Tanh", {"s"}, {"t"});
  body.output("t").output("n2").output("shape").output("wide");
  ModelBuilder model;
  model.input("x", {4, 8}).input("n", {}, kInt64).integers("one", {4, 8}).integers("other", {1, 1});
  model.node("Loop", {"n", "", "x", "one", "other"}, {"y", "a", "b", "all"}, "swap").body("body", body).output("all");
  EXPECT_TRUE(contains(model.complaint(), "node swap (Loop)")) << model.complaint();
}

TEST(ControlFlow, ASliceAtTheRoundsNumberIsKnownWhereTwoRoundsAreAlike) {
  ModelBuilder body = loop_body({1, 8});
  body.integers("one", {1}).integers("zero", {0}).node("Reshape", {"k", "one"}, {"first"});
  body.node("Add", {"first", "one"}, {"end"}).node("Slice", {"x", "first", "end", "zero"}, {"row"});
  body.node("Add", {"s", "row"}, {"t"}).output("t");
  body.node("Neg", {"t"}, {"out"}).output("out");
  ModelBuilder model;
  model.input("x", {20, 8}).input("start", {1, 8}).input("n", {}, kInt64).input("go", {}, kBool);
  model.node("Loop", {"n", "go", "start"}, {"y", "all"}, "rows").body("body", body).output("y").output("all");
  EXPECT_TRUE(contains(model.complaint(), "--bound Loop=N")) << model.complaint();
  OnnxOptions options;
  options.bounds = {{"rows", 7}};
  EXPECT_EQ(value_named(model.network(options), "all").shape, (Shape{7, 1, 8}));
  model.value_info("all", {5, 1, 8});
  EXPECT_EQ(value_named(model.network(), "all").shape, (Shape{5, 1, 8}));
}

TEST(ControlFlow, AScanOfVaryingLengthJoinsWhatItsRoundsWrite) {
  ModelBuilder body;
  body.input("s", {8}).input("row", {8});
  body.node("Add", {"s", "row"}, {"t"}).output("t");
  body.node("Concat", {"t", "row"}, {"out"}).set("axis", 0).output("out");
  // Before the inputs: no lengths, lengths that are left out, lengths. Behind them: shapes that are left out.
  for (const Strings& inputs : {Strings{"start", "x"}, Strings{"", "start", "x"}, Strings{"lengths", "start", "x"},
                                Strings{"start", "x", ""}}) {
    ModelBuilder model;
    model.input("x", {6, 8}).input("start", {8}).input("lengths", {1}, kInt64);
    model.node("ScanVarLen", inputs, {"end", "all"}).set("num_scan_inputs", 1).body("body", body);
    model.output("end").output("all");
    const Network network = model.network();
    EXPECT_EQ(value_named(network, "end").shape, (Shape{8}));
    EXPECT_EQ(value_named(network, "all").shape, (Shape{6 * 16}));
  }
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
  for (const char* type : {"If", "Loop", "Scan", "ScanVarLen"}) {
    ModelBuilder model;
    model.input("x", {2}).input("c", {}, kBool).node(type, {"c", "x"}, {"y"}, "branch").output("y");
    EXPECT_TRUE(contains(model.complaint(), "node branch (" + std::string(type) + ")")) << model.complaint();
  }
}

}  // namespace
}  // namespace remora::onnx_frontend::test
