// SPDX-License-Identifier: Apache-2.0
//
// What holds of every training step, over random networks. Which values need a gradient is found here a second time, by
// plain reachability: forward from the trainable parameters, backward from the outputs.
#include <map>
#include <random>
#include <set>

#include <gtest/gtest.h>

#include "frontends/onnx/train/training.hpp"
#include "tests/frontends/onnx/training_builder.hpp"

namespace remora::onnx_frontend {
namespace {

using test::NetworkBuilder;

/// A random network of unary and binary ops, splits, views, dead ends, shared and derived parameters, ops that stop
/// gradients and ops without a rule.
class RandomNetwork {
 public:
  explicit RandomNetwork(unsigned seed) : random_(seed) {}

  Network build() {
    activations_.push_back(builder_.input("x"));
    parameters_ = {builder_.parameter("w"), builder_.parameter("v", true, {2, 4}), builder_.parameter("c", false)};
    parameters_.push_back(builder_.derived("Transpose", {parameters_[1]}, "v^T"));
    parameters_.push_back(builder_.derived("Mul", {parameters_[0], parameters_[1]}, "w*v"));
    activations_.push_back(builder_.op("MatMul", {activations_[0], parameters_[0]}, "first"));
    const int size = below(12) + 1;
    for (int i = 0; i < size; ++i) add_node("t" + std::to_string(i));
    std::vector<ValueId> outputs{activations_[1]};
    for (int i = below(3); i-- > 0;) outputs.push_back(activation());
    outputs.push_back(activations_.back());
    return builder_.build(outputs);
  }

 private:
  int below(int limit) { return std::uniform_int_distribution<int>(0, limit - 1)(random_); }
  ValueId activation() { return activations_[static_cast<std::size_t>(below(static_cast<int>(activations_.size())))]; }
  ValueId parameter() { return parameters_[static_cast<std::size_t>(below(static_cast<int>(parameters_.size())))]; }

  void add_node(const std::string& name) {
    switch (below(9)) {
      case 0:
        activations_.push_back(builder_.op("Relu", {activation()}, name));
        break;
      case 1:
        activations_.push_back(builder_.op("Add", {activation(), activation()}, name));
        break;
      case 2:
        activations_.push_back(builder_.op("Mul", {activation(), activation()}, name));
        break;
      case 3:
      case 4:
        activations_.push_back(builder_.op("MatMul", {activation(), parameter()}, name));
        break;
      case 5:
        activations_.push_back(builder_.view("Reshape", activation(), name));
        break;
      case 6:
        activations_.push_back(builder_.op("Round", {activation()}, name));
        break;
      case 7:
        activations_.push_back(builder_.op("Frobnicate", {activation(), parameter()}, name));
        break;
      default:
        add_split(name);
    }
  }

  void add_split(const std::string& name) {
    const ValueId whole = activation();
    const std::vector<ValueId> halves{builder_.value(name), builder_.value(name + "'")};
    builder_.node("Split", {whole}, halves);
    activations_.insert(activations_.end(), halves.begin(), halves.end());
  }

  std::mt19937 random_;
  NetworkBuilder builder_{};
  std::vector<ValueId> activations_{};
  std::vector<ValueId> parameters_{};
};

/// For each value that gets a gradient: the names of the nodes that contribute to it ("loss" for the loss).
using Contributors = std::map<std::string, std::set<std::string>>;

/// The trainable parameters that each value depends on through differentiable nodes.
std::vector<std::set<std::string>> leaves_of_values(const Network& forward) {
  std::vector<std::set<std::string>> leaves(forward.values.size());
  for (std::size_t i = 0; i < forward.values.size(); ++i) {
    if (forward.values[i].trainable) leaves[i].insert(forward.values[i].name);
  }
  for (const Node& node : forward.nodes) {
    if (node.type == "Round") continue;
    for (const ValueId output : node.outputs) {
      for (const ValueId input : node.inputs) leaves[output].insert(leaves[input].begin(), leaves[input].end());
    }
  }
  return leaves;
}

Contributors expected_contributors(const Network& forward) {
  const std::vector<std::set<std::string>> leaves = leaves_of_values(forward);
  Contributors contributors;
  for (std::size_t i = 0; i < forward.values.size(); ++i) {
    if (forward.values[i].output && !leaves[i].empty()) contributors[forward.values[i].name].insert("loss");
  }
  for (std::size_t i = forward.nodes.size(); i-- > 0;) {
    const Node& node = forward.nodes[i];
    if (node.type == "Round" || node.constant) continue;
    bool reached = false;
    for (const ValueId output : node.outputs) {
      reached = reached || contributors.count(forward.values[output].name) != 0;
    }
    if (!reached) continue;
    for (const ValueId input : node.inputs) {
      const Value& value = forward.values[input];
      const bool parameter = value.kind == ValueKind::parameter;
      if (!parameter && !leaves[input].empty()) contributors[value.name].insert(node.name);
      if (!parameter) continue;
      for (const std::string& leaf : leaves[input]) contributors[leaf].insert(node.name);
    }
  }
  return contributors;
}

/// The forward nodes whose backward nodes are summed in `gradient`; each must contribute once.
void collect_contributors(const Network& network, const std::map<ValueId, const Node*>& producers, ValueId gradient,
                          std::set<std::string>& found) {
  const Node& producer = *producers.at(gradient);
  if (producer.type == "GradientSum") {
    ASSERT_EQ(producer.inputs.size(), 2U);
    for (const ValueId part : producer.inputs) collect_contributors(network, producers, part, found);
    return;
  }
  EXPECT_TRUE(found.insert(network.nodes[producer.backward_of].name).second) << producer.name;
}

/// The contributors to each value's gradient as the network has them. The final gradient of v is named grad(v).
Contributors actual_contributors(const Network& network) {
  std::map<ValueId, const Node*> producers;
  for (const Node& node : network.nodes) {
    for (const ValueId output : node.outputs) producers[output] = &node;
  }
  Contributors contributors;
  for (std::size_t i = 0; i < network.values.size(); ++i) {
    const std::string& name = network.values[i].name;
    if (name.rfind("grad(", 0) != 0 || name.back() != ')') continue;
    const std::string of = name.substr(5, name.size() - 6);
    collect_contributors(network, producers, ValueId(i), contributors[of]);
    const Value* value = test::find_value(network, of);
    EXPECT_TRUE(value != nullptr && network.values[i].shape == value->shape) << of;
  }
  return contributors;
}

/// For each node by name: the names of what it reads.
using ReadsByNode = std::map<std::string, std::set<std::string>>;

/// What grad(u) reads because of the consumer `reader` of u: its results with a gradient, and their gradients.
std::set<std::string> reads_because_of(const Network& forward, const std::string& reader,
                                       const Contributors& contributors) {
  if (reader == "loss") return {"loss"};
  const Node& node = *test::find_node(forward, reader);
  std::set<std::string> reads;
  for (const ValueId result : node.outputs) {
    const std::string& name = forward.values[result].name;
    if (!node.view && contributors.count(name) != 0) reads.insert({name, "grad(" + name + ")"});
  }
  return reads;
}

/// Jain et al.'s rule by a second way: from each value that lives in an output of u, up to the nodes that read it.
ReadsByNode expected_checkmate_reads(const Network& forward) {
  const Contributors contributors = expected_contributors(forward);
  std::map<ValueId, const Node*> producers;
  for (const Node& node : forward.nodes) {
    for (const ValueId output : node.outputs) producers[output] = &node;
  }
  ReadsByNode expected;
  for (std::size_t i = 0; i < forward.values.size(); ++i) {
    const ValueId output = forward.storage(ValueId(i));
    const auto readers = contributors.find(forward.values[i].name);
    const auto producer = producers.find(output);
    if (readers == contributors.end() || producer == producers.end() || producer->second->constant) continue;
    std::set<std::string>& reads = expected[producer->second->name + "/grad"];
    reads.insert(forward.values[output].name);
    for (const std::string& reader : readers->second) reads.merge(reads_because_of(forward, reader, contributors));
  }
  return expected;
}

class RandomTrainingStep : public testing::TestWithParam<unsigned> {};

TEST_P(RandomTrainingStep, HasOneGradientForEachValueThatNeedsOne) {
  const Network forward = RandomNetwork(GetParam()).build();
  const Network network = differentiate(forward, {.gradients = ParameterGradients::keep});
  test::expect_well_formed(network);
  EXPECT_EQ(actual_contributors(network), expected_contributors(forward)) << "seed " << GetParam();
  std::set<std::string> kept{"loss"};
  for (const auto& [name, nodes] : expected_contributors(forward)) {
    if (test::find_value(forward, name)->kind == ValueKind::parameter) kept.insert("grad(" + name + ")");
  }
  const test::Names outputs = test::kept_values(network);
  EXPECT_EQ(std::set<std::string>(outputs.begin(), outputs.end()), kept) << "seed " << GetParam();
}

TEST_P(RandomTrainingStep, CountsEachParameterGradientOnce) {
  const Network forward = RandomNetwork(GetParam()).build();
  Contributors expected = expected_contributors(forward);
  Bytes bytes{};
  for (const Value& value : forward.values) {
    if (value.kind != ValueKind::parameter || expected.erase(value.name) == 0) continue;
    bytes += byte_size(value.shape, value.type);
  }
  const Network precise = differentiate(forward, {});
  test::expect_well_formed(precise);
  EXPECT_EQ(precise.extra_fixed_memory, bytes) << "seed " << GetParam();
  EXPECT_EQ(actual_contributors(precise), expected) << "seed " << GetParam();
  const Network checkmate = differentiate(forward, {.backward = BackwardRule::checkmate});
  EXPECT_EQ(checkmate.extra_fixed_memory, bytes) << "seed " << GetParam();
}

TEST_P(RandomTrainingStep, FollowsCheckmatesRule) {
  const Network forward = RandomNetwork(GetParam()).build();
  const Network network = differentiate(forward, {.backward = BackwardRule::checkmate});
  test::expect_well_formed(network);
  ReadsByNode actual;
  for (const Node& node : network.nodes) {
    if (node.phase != Phase::backward) continue;
    const test::Names reads = test::names_of(network, node.inputs);
    actual[node.name] = std::set<std::string>(reads.begin(), reads.end());
  }
  EXPECT_EQ(actual, expected_checkmate_reads(forward)) << "seed " << GetParam();
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomTrainingStep, testing::Range(0U, 200U));

}  // namespace
}  // namespace remora::onnx_frontend
