// SPDX-License-Identifier: Apache-2.0
#include "frontends/onnx/train/training_need.hpp"

#include <algorithm>

namespace remora::onnx_frontend {

namespace {

bool is_leaf(const Value& value, GradientNeed::Leaves leaves) {
  if (!value.type.floating) return false;
  if (leaves == GradientNeed::Leaves::floating_inputs) return value.kind == ValueKind::input;
  return value.kind == ValueKind::parameter && value.trainable;
}

}  // namespace

GradientNeed::GradientNeed(const Network& network, const RuleTable& rules, Leaves leaves)
    : targets_(network.values.size()) {
  for (std::size_t i = 0; i < network.values.size(); ++i) {
    if (is_leaf(network.values[i], leaves)) targets_[i] = {ValueId(i)};
  }
  for (const Node& node : network.nodes) propagate(network, node, rules.rule(node));
}

Positions GradientNeed::wanted_inputs(const Node& node, const Rule& rule) const {
  Positions wanted;
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    if (!node.inputs[i].valid() || !needs_gradient(node.inputs[i])) continue;
    if (find_operand(rule, i) != nullptr) wanted.push_back(i);
  }
  return wanted;
}

std::vector<ValueId> GradientNeed::leaves_of(const Node& node, const Positions& wanted) const {
  std::vector<ValueId> leaves;
  for (const std::size_t position : wanted) {
    for (const ValueId leaf : targets_[node.inputs[position]]) {
      if (std::find(leaves.begin(), leaves.end(), leaf) == leaves.end()) leaves.push_back(leaf);
    }
  }
  return leaves;
}

void GradientNeed::propagate(const Network& network, const Node& node, const Rule& rule) {
  const Positions wanted = wanted_inputs(node, rule);
  if (wanted.empty()) return;
  for (std::size_t i = 0; i < node.outputs.size() && i < rule.differentiable_outputs; ++i) {
    const ValueId output = node.outputs[i];
    if (!output.valid() || !network.values[output].type.floating) continue;
    targets_[output] = node.constant ? leaves_of(node, wanted) : std::vector<ValueId>{output};
  }
}

}  // namespace remora::onnx_frontend
