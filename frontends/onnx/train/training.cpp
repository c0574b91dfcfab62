// SPDX-License-Identifier: Apache-2.0
#include "frontends/onnx/train/training.hpp"

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <utility>

#include "model/error.hpp"
#include "model/quote.hpp"

namespace remora::onnx_frontend {

namespace {

/// The model's floating-point outputs, in the order of the network's values. None of the outputs, floating or not, has
/// to outlive the training step.
std::vector<ValueId> take_outputs(Network& network) {
  std::vector<ValueId> floating;
  for (std::size_t i = 0; i < network.values.size(); ++i) {
    Value& value = network.values[i];
    if (std::exchange(value.output, false) && value.type.floating) floating.push_back(ValueId(i));
  }
  return floating;
}

std::vector<ValueId> that_need_gradients(const std::vector<ValueId>& values, const GradientNeed& need) {
  std::vector<ValueId> needing;
  for (const ValueId value : values) {
    if (need.needs_gradient(value)) needing.push_back(value);
  }
  return needing;
}

/// Chooses what to differentiate for: trainable parameters or, if none reaches an output, floating-point inputs.
GradientNeed choose_need(Network& network, const RuleTable& rules, const std::vector<ValueId>& outputs) {
  GradientNeed of_parameters(network, rules, GradientNeed::Leaves::trainable_parameters);
  if (!that_need_gradients(outputs, of_parameters).empty()) return of_parameters;
  GradientNeed of_inputs(network, rules, GradientNeed::Leaves::floating_inputs);
  if (!that_need_gradients(outputs, of_inputs).empty()) {
    network.warnings.push_back(
        "no output depends on a trainable parameter: the backward pass computes the gradients of the floating-point "
        "inputs instead");
    return of_inputs;
  }
  throw InputError(network.name.empty() ? "network" : "network " + printable(network.name),
                   "cannot derive a training step: no floating-point output depends on a trainable parameter or a "
                   "floating-point input through differentiable ops; read the model without --training");
}

/// The loss is a scalar that the training step reports: it stays to the end, which costs its four bytes.
NodeId append_loss(GradientLedger& ledger, const std::vector<ValueId>& outputs) {
  const ValueId loss = ledger.append_value({.name = "loss", .output = true});
  return ledger.append({.name = "loss", .type = "Loss", .inputs = outputs, .outputs = {loss}, .phase = Phase::loss});
}

}  // namespace

Network differentiate(Network forward, const TrainingOptions& options) {
  // No model is written of a training step, and who runs it by its schedule knows every shape.
  for (Node& node : forward.nodes) node.after.clear();
  const RuleTable rules = RuleTable::standard();
  const std::vector<ValueId> outputs = take_outputs(forward);
  const GradientNeed need = choose_need(forward, rules, outputs);
  GradientLedger ledger(forward, options.gradients);
  TrainingStep step{.network = forward,
                    .rules = rules,
                    .need = need,
                    .ledger = ledger,
                    .forward_nodes = forward.nodes.size(),
                    .predictions = that_need_gradients(outputs, need)};
  step.loss = append_loss(ledger, outputs);
  if (options.backward == BackwardRule::checkmate) {
    append_checkmate_backward(step);
  } else {
    append_precise_backward(step);
  }
  ledger.complete_leaves();
  return forward;
}

GradientLedger::GradientLedger(Network& network, ParameterGradients parameter_gradients)
    : network_(network), parameter_gradients_(parameter_gradients), producers_(network.values.size()) {
  for (const Value& value : network.values) value_names_.make(value.name);
  for (std::size_t i = 0; i < network.nodes.size(); ++i) {
    const Node& node = network.nodes[i];
    node_names_.make(node.name);
    if (node.constant) continue;
    for (const ValueId output : node.outputs) {
      if (output.valid()) producers_[static_cast<std::size_t>(output)] = NodeId(i);
    }
  }
}

bool GradientLedger::has_value(ValueId value) const {
  return network_.values[value].kind != ValueKind::parameter || parameter_gradients_ != ParameterGradients::fixed;
}

void GradientLedger::count_fixed(ValueId parameter) {
  Account& account = accounts_[parameter];
  if (account.counted) return;
  account.counted = true;
  const Value& value = network_.values[parameter];
  network_.extra_fixed_memory =
      sum_of(network_.extra_fixed_memory, byte_size(value.shape, value.type), "gradients of parameters");
}

ValueId GradientLedger::new_contribution(ValueId value) {
  assert(has_value(value));
  const Value of = network_.values[value];
  const int number = ++accounts_[value].contributions;
  return append_value({.name = "grad(" + of.name + ")[" + std::to_string(number) + "]",
                       .shape = of.shape,
                       .type = of.type,
                       .gradient_of = value});
}

void GradientLedger::contribute(ValueId value, ValueId contribution) {
  const ValueId before = std::exchange(accounts_.at(value).sum, contribution);
  if (!before.valid()) return;
  const Value of = network_.values[value];
  const std::string range = "[1.." + std::to_string(accounts_.at(value).contributions) + "]";
  const ValueId sum =
      append_value({.name = "grad(" + of.name + ")" + range, .shape = of.shape, .type = of.type, .gradient_of = value});
  append({.name = "grad(" + of.name + ")/sum" + range,
          .type = "GradientSum",
          .inputs = {before, contribution},
          .outputs = {sum},
          .phase = Phase::backward,
          .backward_of = producers_[value]});
  accounts_.at(value).sum = sum;
}

ValueId GradientLedger::complete(ValueId value) {
  const auto account = accounts_.find(value);
  if (account == accounts_.end() || !account->second.sum.valid()) return ValueId::none();
  const ValueId gradient = account->second.sum;
  if (!std::exchange(account->second.complete, true)) {
    network_.values[gradient].name = value_names_.make("grad(" + network_.values[value].name + ")");
  }
  return gradient;
}

void GradientLedger::complete_leaves() {
  for (const auto& [value, account] : accounts_) {
    const ValueKind kind = network_.values[value].kind;
    if (kind == ValueKind::activation || !account.sum.valid()) continue;
    const ValueId gradient = complete(value);
    if (kind == ValueKind::parameter && parameter_gradients_ == ParameterGradients::accumulate) {
      count_fixed(value);
    } else {
      network_.values[gradient].output = true;
    }
  }
}

NodeId GradientLedger::append(Node node) {
  node.name = node_names_.make(node.name);
  return network_.add_node(std::move(node));
}

ValueId GradientLedger::new_token(const std::string& node_name) {
  return append_value({.name = node_name + "/done", .shape = {0}, .output = true});
}

ValueId GradientLedger::append_value(Value value) {
  value.name = value_names_.make(value.name);
  return network_.add_value(std::move(value));
}

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
