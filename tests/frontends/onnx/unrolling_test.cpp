// SPDX-License-Identifier: Apache-2.0
//
// In a training step the rounds of loops are ops of their own. What they compute is compared with the same written by hand.
#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "frontends/formats/interchange.hpp"
#include "frontends/onnx/read/onnx_reader.hpp"
#include "model/evaluate.hpp"
#include "tests/frontends/onnx/model_builder.hpp"
#include "tests/frontends/onnx/rewrite_support.hpp"

namespace remora::onnx_frontend::test {
namespace {

OnnxOptions training() {
  OnnxOptions options;
  options.training.emplace();
  return options;
}

bool keeps_elements(const Node& node) {
  constexpr const char* kTypes[] = {"Identity", "Reshape", "Squeeze", "Unsqueeze"};
  return std::any_of(std::begin(kTypes), std::end(kTypes), [&](const char* type) { return node.type == type; });
}

/// What each value is computed from, by name; names of what the network computes do not count.
std::map<std::string, std::string> meanings(const Network& network) {
  std::vector<std::string> meaning(network.values.size());
  for (std::size_t k = 0; k < network.values.size(); ++k) meaning[k] = network.values[k].name;
  for (const Node& node : network.nodes) {
    std::string text = node.type + std::to_string(node.attributes.get("axis", std::int64_t{0}));
    for (const ValueId input : node.inputs) {
      const auto& elements = network.values[input].constant;
      text += " (";
      if (elements.empty()) text += meaning[static_cast<std::size_t>(input)];
      for (const std::int64_t element : elements) text += " " + std::to_string(element);
      text += ")";
    }
    for (std::size_t k = 0; k < node.outputs.size(); ++k) {
      if (!node.outputs[k].valid()) continue;
      auto& result = meaning[static_cast<std::size_t>(node.outputs[k])];
      result = keeps_elements(node) ? meaning[static_cast<std::size_t>(node.inputs[0])]
                                    : std::to_string(std::hash<std::string>()(text)) + "." + std::to_string(k);
    }
  }
  std::map<std::string, std::string> by_name;
  for (std::size_t k = 0; k < network.values.size(); ++k) by_name.emplace(network.values[k].name, meaning[k]);
  return by_name;
}

void expect_same(const ModelBuilder& loop, const ModelBuilder& by_hand, const Strings& outputs) {
  const Network network = loop.network(training());
  EXPECT_EQ(
      std::count_if(network.nodes.begin(), network.nodes.end(), [](const Node& node) { return bool(node.inner); }), 0);
  auto of_loop = meanings(network);
  auto of_hand = meanings(by_hand.network(training()));
  for (const std::string& output : outputs) {
    EXPECT_EQ(of_loop.at(output), of_hand.at(output)) << output;
    EXPECT_EQ(value_named(network, output).shape, value_named(by_hand.network(training()), output).shape) << output;
  }
}

std::int64_t count_of(const Graph& graph, const std::string& type) {
  return std::count_if(graph.ops.begin(), graph.ops.end(), [&](const Op& op) { return op.type == type; });
}

/// s, row -> tanh(s w + row), the same.
ModelBuilder cell() {
  ModelBuilder body;
  body.input("s", {2, 8}).input("row", {2, 8});
  body.node("MatMul", {"s", "w"}, {"product"}, "multiply").node("Add", {"product", "row"}, {"sum"});
  body.node("Tanh", {"sum"}, {"t"}).node("Neg", {"t"}, {"u"}).output("t").output("u");
  return body;
}

/// Of three rounds: `parts` are what they read, in their order.
void cells_by_hand(ModelBuilder& model, const Strings& parts) {
  std::string state = "start";
  for (std::size_t k = 0; k < parts.size(); ++k) {
    const std::string round = std::to_string(k);
    model.node("MatMul", {state, "w"}, {"p" + round}).node("Add", {"p" + round, parts[k]}, {"s" + round});
    model.node("Tanh", {"s" + round}, {"t" + round}).node("Neg", {"t" + round}, {"u" + round});
    state = "t" + round;
  }
}

ModelBuilder model_of_cells(std::int64_t opset = 17) {
  ModelBuilder model(opset);
  model.weight("w", {8, 8}).input("start", {2, 8});
  return model;
}

TEST(Unrolling, AScanIsItsRounds) {
  ModelBuilder scan = model_of_cells();
  scan.input("x", {3, 2, 8}).node("Scan", {"start", "x"}, {"end", "all"}, "rnn").set("num_scan_inputs", 1);
  scan.body("body", cell()).output("end").output("all");
  ModelBuilder hand = model_of_cells();
  hand.input("x", {3, 2, 8}).integers("ones", {1, 1, 1}).integers("slice", {2, 8}).integers("row", {1, 2, 8});
  hand.node("Split", {"x", "ones"}, {"x0", "x1", "x2"}).set("axis", std::int64_t{0});
  for (const std::string k : {"0", "1", "2"}) hand.node("Reshape", {"x" + k, "slice"}, {"y" + k});
  cells_by_hand(hand, {"y0", "y1", "y2"});
  for (const std::string k : {"0", "1", "2"}) hand.node("Reshape", {"u" + k, "row"}, {"v" + k});
  hand.node("Concat", {"v0", "v1", "v2"}, {"all"}).set("axis", std::int64_t{0});
  hand.node("Identity", {"t2"}, {"end"}).output("end").output("all");
  expect_same(scan, hand, {"end", "all"});
  EXPECT_NO_THROW(node_named(scan.network(training()), "rnn[2]/multiply"));
}

TEST(Unrolling, AScanBackwardsAlongAnotherAxis) {
  ModelBuilder scan = model_of_cells(12);
  scan.input("x", {2, 3, 8}).node("Scan", {"start", "x"}, {"end", "all"}).set("num_scan_inputs", 1);
  scan.set("scan_input_axes", std::vector<std::int64_t>{1}).set("scan_input_directions", std::vector<std::int64_t>{1});
  scan.set("scan_output_axes", std::vector<std::int64_t>{-1});
  scan.set("scan_output_directions", std::vector<std::int64_t>{1});
  scan.body("body", cell()).output("end").output("all");
  ModelBuilder hand = model_of_cells(12);
  hand.input("x", {2, 3, 8}).integers("slice", {2, 8}).integers("column", {2, 8, 1});
  hand.node("Split", {"x"}, {"x0", "x1", "x2"}).set("axis", std::int64_t{1});
  hand.set("split", std::vector<std::int64_t>{1, 1, 1});
  for (const std::string k : {"0", "1", "2"}) hand.node("Reshape", {"x" + k, "slice"}, {"y" + k});
  cells_by_hand(hand, {"y2", "y1", "y0"});
  for (const std::string k : {"0", "1", "2"}) hand.node("Reshape", {"u" + k, "column"}, {"v" + k});
  hand.node("Concat", {"v2", "v1", "v0"}, {"all"}).set("axis", std::int64_t{2});
  hand.node("Identity", {"t2"}, {"end"}).output("end").output("all");
  expect_same(scan, hand, {"end", "all"});
}

/// The body of a loop: the row of its round, then the cell; the loop ends on the count alone.
ModelBuilder loop_body() {
  ModelBuilder body;
  body.input("k", {}, kInt64).input("go", {}, kBool).input("s", {2, 8});
  body.node("Identity", {"go"}, {"go_on"}).node("Gather", {"x", "k"}, {"row"});
  body.node("MatMul", {"s", "w"}, {"product"}).node("Add", {"product", "row"}, {"sum"});
  body.node("Tanh", {"sum"}, {"t"}).node("Neg", {"t"}, {"u"}).output("go_on").output("t").output("u");
  return body;
}

ModelBuilder model_of_loop(std::int64_t rounds) {
  ModelBuilder loop = model_of_cells();
  loop.input("x", {3, 2, 8}).integer("n", rounds);
  loop.node("Loop", {"n", "", "start"}, {"end", "all"}, "loop").body("body", loop_body()).output("end").output("all");
  return loop;
}

TEST(Unrolling, ALoopIsItsRounds) {
  ModelBuilder hand = model_of_cells();
  hand.input("x", {3, 2, 8}).integers("row", {1, 2, 8});
  for (const std::int64_t k : {0, 1, 2}) {
    hand.integer("k" + std::to_string(k), k).node("Gather", {"x", "k" + std::to_string(k)}, {"y" + std::to_string(k)});
  }
  cells_by_hand(hand, {"y0", "y1", "y2"});
  for (const std::string k : {"0", "1", "2"}) hand.node("Reshape", {"u" + k, "row"}, {"v" + k});
  hand.node("Concat", {"v0", "v1", "v2"}, {"all"}).set("axis", std::int64_t{0});
  hand.node("Identity", {"t2"}, {"end"}).output("end").output("all");
  expect_same(model_of_loop(3), hand, {"end", "all"});
}

TEST(Unrolling, InALoopTheIfOfAKnownConditionIsItsBranch) {
  ModelBuilder branch;
  branch.node("Neg", {"s"}, {"r"}).output("r");
  ModelBuilder other;
  other.weight("inner", {8, 8}).node("MatMul", {"s", "inner"}, {"r"}).output("r");
  ModelBuilder body;
  body.input("k", {}, kInt64).input("go", {}, kBool).input("s", {2, 8}).integer("one", 1);
  body.node("Identity", {"go"}, {"go_on"}).node("Less", {"k", "one"}, {"first"});
  body.node("If", {"first"}, {"t"}).body("then_branch", branch).body("else_branch", other);
  body.output("go_on").output("t");
  ModelBuilder loop;
  loop.input("x", {2, 8}).integer("n", 3).node("Loop", {"n", "", "x"}, {"y"}).body("body", body).output("y");
  const Graph graph = loop.graph(training());
  EXPECT_EQ(count_of(graph, "Neg"), 1);
  EXPECT_EQ(count_of(graph, "MatMul"), 2);
  EXPECT_EQ(count_of(graph, "MatMulGrad"), 2);
  EXPECT_EQ(count_of(graph, "If") + count_of(graph, "Loop"), 0);
}

TEST(Unrolling, WhatIsComputedFromWeightsIsComputedOnce) {
  ModelBuilder body;
  body.input("s", {2, 8}).input("row", {2, 8}).weight("inner", {8, 8});
  body.node("Transpose", {"w"}, {"turned"}, "turn").node("Add", {"turned", "inner"}, {"both"});
  body.node("MatMul", {"s", "both"}, {"product"}).node("Add", {"product", "row"}, {"t"}).output("t");
  ModelBuilder scan = model_of_cells();
  scan.input("x", {3, 2, 8}).node("Scan", {"start", "x"}, {"end"}, "rnn").set("num_scan_inputs", 1);
  scan.body("body", body).output("end");
  const Graph graph = scan.graph(training());
  EXPECT_EQ(count_of(graph, "MatMul"), 3);
  // The sum of both, which ops read and which is trained, and its gradient.
  EXPECT_EQ(graph.fixed_memory, Bytes(2 * 256));
}

TEST(Unrolling, AnEmptyBodyOfManyRoundsIsLeftAsItIs) {
  ModelBuilder body;
  body.input("k", {}, kInt64).input("go", {}, kBool).input("s", {2, 8}).output("go").output("s");
  ModelBuilder loop;
  loop.input("x", {2, 8}).integer("n", 1'000'000'000).weight("w", {8, 8}).node("MatMul", {"x", "w"}, {"p"});
  loop.node("Loop", {"n", "", "p"}, {"y"}).body("body", body).output("y");
  EXPECT_EQ(count_of(loop.graph(training()), "Loop"), 1);
}

TEST(Unrolling, WhatARoundSavesIsOneTensorAmongOthers) {
  const Graph graph = model_of_loop(3).graph(training());
  for (const char* type : {"MatMul", "MatMulGrad", "Tanh", "TanhGrad", "AddGrad"}) EXPECT_EQ(count_of(graph, type), 3);
  // The weight and its gradient, once; beside them numbers of rounds.
  EXPECT_GE(graph.fixed_memory, Bytes(2 * 256));
  EXPECT_LE(graph.fixed_memory, Bytes(2 * 256 + 4 * 8));
  const Instance instance(std::make_shared<const Graph>(graph), {.max_computes = 2, .order = OrderMode::free});
  EXPECT_GT(baseline_peak(instance), graph.fixed_memory);
  // As one op the loop is left where no gradients are asked for.
  EXPECT_EQ(count_of(model_of_loop(3).graph(), "Loop"), 1);
}

TEST(Unrolling, WeightsScannedByTheRoundHaveOneGradient) {
  ModelBuilder body;
  body.input("s", {2, 8}).input("layer", {8, 8});
  body.node("MatMul", {"s", "layer"}, {"product"}).node("Tanh", {"product"}, {"t"}).output("t");
  ModelBuilder model;
  model.input("x", {2, 8}).weight("layers", {5, 8, 8});
  model.node("Scan", {"x", "layers"}, {"y"}).set("num_scan_inputs", 1).body("body", body).output("y");
  const Graph graph = model.graph(training());
  EXPECT_EQ(count_of(graph, "MatMulGrad"), 5);
  EXPECT_EQ(graph.fixed_memory, Bytes(2 * 5 * 256));
  // Each backward op writes the gradient of its own layer.
  OnnxOptions roofline = training();
  roofline.machine.launch_overhead = 0;
  roofline.machine.rates["fp32"] = 1e30;
  roofline.machine.bandwidth = 1e9;
  for (const Op& op : model.graph(roofline).ops) {
    if (op.type != "MatMulGrad") continue;
    EXPECT_LT(op.duration, Duration(2 * 256 + 4 * 64)) << op.name;
  }
}

TEST(Unrolling, TooManyRoundsStayOneOpAndTell) {
  const Network network = model_of_loop(3'500).network(training());
  EXPECT_TRUE(node_named(network, "loop").inner.has_value());
  const bool told = std::any_of(network.warnings.begin(), network.warnings.end(), [](const std::string& warning) {
    return contains(warning, "node loop (Loop): its rounds are too many to be ops of their own (3500 of 12 nodes");
  });
  EXPECT_TRUE(told);
  // It saves the state of each round: two rows of 8. The backward runs a round again: row, product, sum and two results.
  const Graph graph = model_of_loop(3'500).graph(training());
  const auto op = [&](const std::string& type) {
    return *std::find_if(graph.ops.begin(), graph.ops.end(), [&](const Op& one) { return one.type == type; });
  };
  const TensorId states = op("Loop").outputs.back();
  EXPECT_EQ(graph.tensors[states].size, Bytes(3'500 * 64));
  const Op backward = op("LoopGrad");
  EXPECT_NE(std::find(backward.inputs.begin(), backward.inputs.end(), states), backward.inputs.end());
  EXPECT_GE(backward.workspace, Bytes(5 * 64));
}

TEST(Unrolling, AnIfOfAnUnknownConditionStaysOneOp) {
  ModelBuilder branch;
  branch.node("MatMul", {"x", "w"}, {"r"}).output("r");
  ModelBuilder model = model_of_cells();
  model.input("x", {2, 8}).input("c", {}, kBool);
  model.node("If", {"c"}, {"y"}, "choice").body("then_branch", branch).body("else_branch", branch).output("y");
  EXPECT_EQ(count_of(model.graph(training()), "If"), 1);
  EXPECT_EQ(count_of(model.graph(training()), "IfGrad"), 1);
}

TEST(Unrolling, ALoopThatTheUserBoundsIsUnrolledToTheBound) {
  ModelBuilder loop = model_of_cells();
  loop.input("x", {3, 2, 8}).input("n", {}, kInt64);
  loop.node("Loop", {"n", "", "start"}, {"end", "all"}, "loop").body("body", loop_body()).output("end").output("all");
  OnnxOptions options = training();
  options.bounds = {{"loop", 3}};
  EXPECT_EQ(count_of(loop.graph(options), "MatMulGrad"), 3);
}

TEST(Unrolling, ATableOfCostsMayNameTheLoop) {
  OnnxOptions options = training();
  options.costs = interchange::read_costs("name,duration\nloop,77\n", "costs.csv");
  EXPECT_EQ(model_of_loop(3).complaint(options), "");
  options.costs = interchange::read_costs("name,duration\nnowhere,77\n", "costs.csv");
  EXPECT_NE(model_of_loop(3).complaint(options), "");
}

TEST(Unrolling, NamesOfTheModelStayItsOwn) {
  ModelBuilder loop = model_of_loop(2);
  loop.node("Neg", {"start"}, {"loop[0]/t"}, "loop[0]/t").output("loop[0]/t");
  EXPECT_EQ(loop.complaint(training()), "");
}

TEST(Unrolling, OfUnrolledRoundsThereIsNoScheduleInTheModelsNames) {
  const LoweredModel lowered = lower_onnx(model_of_loop(2).bytes(), "test.onnx", training());
  Sequence all;
  for (std::size_t k = 0; k < lowered.graph.ops.size(); ++k) all.push_back(OpId(k));
  const Schedule schedule = schedule_of(lowered.graph, all);
  try {
    runtime_schedule(lowered, schedule);
    ADD_FAILURE() << "was written";
  } catch (const InputError& error) {
    EXPECT_TRUE(contains(error.what(), "is of a round of a loop")) << error.what();
  }
}

}  // namespace
}  // namespace remora::onnx_frontend::test
