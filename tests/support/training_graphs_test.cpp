// SPDX-License-Identifier: Apache-2.0
//
// The training steps against the formulas of their headers, and the rules that they share.
#include "tests/support/training_graphs.hpp"

#include <cstdint>
#include <map>
#include <set>
#include <sstream>
#include <string>

#include <gtest/gtest.h>

#include "frontends/formats/json.hpp"

namespace remora::test {
namespace {

std::int64_t total_bytes(const Graph& graph) {
  std::int64_t bytes = 0;
  for (const Tensor& tensor : graph.tensors) bytes += tensor.size.count();
  return bytes;
}

void expect_totals(const Graph& graph, std::int64_t ops, std::int64_t tensors, std::int64_t bytes) {
  validate(graph);
  EXPECT_EQ(static_cast<std::int64_t>(graph.ops.size()), ops);
  EXPECT_EQ(static_cast<std::int64_t>(graph.tensors.size()), tensors);
  EXPECT_EQ(total_bytes(graph), bytes);
}

/// Forward ops, the loss, then a backward op of each in reverse that takes twice as long and writes its gradients.
void expect_training_step(const Graph& graph) {
  const std::size_t half = graph.ops.size() / 2;
  ASSERT_EQ(graph.ops.size(), 2 * half);
  for (std::size_t i = 0; i < half; ++i) {
    const Op& forward = graph.ops[i];
    const Op& backward = graph.ops[graph.ops.size() - 1 - i];
    EXPECT_EQ(forward.phase, i + 1 == half ? Phase::loss : Phase::forward);
    EXPECT_FALSE(forward.backward_of.valid());
    EXPECT_EQ(backward.phase, Phase::backward);
    EXPECT_EQ(backward.backward_of, OpId(i));
    EXPECT_EQ(backward.duration, forward.duration + forward.duration);
    EXPECT_GT(forward.duration, Duration(0));
  }
  std::set<std::string> kept;
  for (const Tensor& tensor : graph.tensors) {
    if (tensor.keep) kept.insert(tensor.name);
  }
  EXPECT_EQ(kept, std::set<std::string>{"loss"});
}

/// Every gradient is read, and by one op: each is a contribution to one tensor's gradient.
void expect_gradients_used_once(const Graph& graph) {
  std::map<TensorId, int> uses;
  for (const Op& op : graph.ops) {
    for (const TensorId input : op.inputs) ++uses[input];
  }
  for (const Op& op : graph.ops) {
    if (op.phase != Phase::backward) continue;
    for (const TensorId output : op.outputs) {
      EXPECT_EQ(uses[output], graph.tensors[output].size == Bytes(0) ? 0 : 1) << graph.tensors[output].name;
    }
  }
}

void expect_all_rules(const Graph& graph) {
  expect_training_step(graph);
  expect_gradients_used_once(graph);
  std::ostringstream out;
  json::write_graph(out, graph);
  EXPECT_EQ(json::read_graph(json::Text(out.str())), graph);
}

TEST(Chain, HasTheTotalsOfItsFormula) {
  for (const std::int64_t layers : {1, 2, 3, 17}) {
    for (const std::int64_t batch : {1, 6}) {
      const Graph graph = generate_chain({.layers = layers, .batch = batch, .channels = 10});
      const std::int64_t s = 4 * batch * 10;
      expect_totals(graph, 2 * layers + 2, 2 * layers + 3, (2 * layers + 1) * s + 4);
      EXPECT_EQ(graph.fixed_memory, Bytes(8 * layers * 10 * 11));
      expect_all_rules(graph);
    }
  }
}

TEST(Chain, ReadsTheInputOfALayerTwice) {
  const Graph graph = generate_chain({.layers = 3});
  const Op& backward = graph.ops[7 - 1];
  EXPECT_EQ(backward.name, "linear2/backward");
  std::vector<std::string> inputs;
  for (const TensorId input : backward.inputs) inputs.push_back(graph.tensors[input].name);
  EXPECT_EQ(inputs, (std::vector<std::string>{"linear3/gradient0", "linear1"}));
}

TEST(Unet, HasTheTotalsOfItsFormula) {
  for (const std::int64_t levels : {1, 2, 3, 6}) {
    for (const std::int64_t channels : {1, 5}) {
      const Graph graph = generate_unet({.levels = levels, .batch = 3, .channels = channels, .size = 64});
      const std::int64_t b = 4 * 3 * 64 * 64;
      const std::int64_t s = b * channels;
      const std::int64_t t = s >> (levels - 1);
      expect_totals(graph, 10 * (levels - 1) + 6, 11 * (levels - 1) + 7, 23 * s - 21 * t + 3 * b + 4);
      expect_all_rules(graph);
    }
  }
}

TEST(Unet, KeepsASkipOfEveryLevel) {
  const Graph graph = generate_unet({.levels = 4});
  int found = 0;
  for (const Op& op : graph.ops) {
    if (op.type != "Concat") continue;
    ++found;
    const std::string level = op.name.substr(std::string("concat").size());
    EXPECT_EQ(graph.tensors[op.inputs.at(0)].name, "conv" + level);
    EXPECT_EQ(graph.tensors[op.inputs.at(1)].name, "up" + level);
    EXPECT_EQ(graph.tensors[op.inputs.at(0)].size, graph.tensors[op.inputs.at(1)].size);
  }
  EXPECT_EQ(found, 3);
}

TEST(Transformer, HasTheTotalsOfItsFormula) {
  for (const std::int64_t layers : {1, 2, 5}) {
    for (const std::int64_t heads : {1, 4}) {
      const Graph graph = generate_transformer(
          {.layers = layers, .batch = 2, .sequence = 7, .width = 12, .heads = heads, .vocabulary = 31});
      const std::int64_t k = 4 * 2 * 7;
      const std::int64_t t = k * 12;
      const std::int64_t a = k * heads * 7;
      const std::int64_t v = k * 31;
      expect_totals(graph, 24 * layers + 6, 27 * layers + 7, layers * (41 * t + 4 * a) + 2 * t + 2 * v + k + 4);
      expect_all_rules(graph);
    }
  }
}

TEST(Transformer, SumsTheGradientsOfBothBranches) {
  const Graph graph = generate_transformer({.layers = 1});
  for (const Op& op : graph.ops) {
    if (op.name != "layer1/add1/backward") continue;
    std::set<std::string> inputs;
    for (const TensorId input : op.inputs) inputs.insert(graph.tensors[input].name);
    EXPECT_EQ(inputs, (std::set<std::string>{"layer1/add2/gradient0", "layer1/norm2/gradient0"}));
  }
}

}  // namespace
}  // namespace remora::test
