// SPDX-License-Identifier: Apache-2.0
//
// The backward pass as Jain et al. 2020 (Checkmate) extract it from a framework graph, for comparison with published
// schedules: one node grad(u) for each forward node u, in reverse order, which yields the gradient of u's output and
// reads
//
//     u's output,  the outputs of u's consumers,  the gradients of u's consumers
//
//     a -> b -> Loss        grad(b) reads b and the loss;  grad(a) reads a, b and grad(b)
//
// with u's consumers among the nodes that pass a gradient on, the loss included (which has no gradient node of its
// own). The consumers' contributions are summed inside grad(u): there are no explicit sums. Each grad(u) takes twice as
// long as u (attribute "duration_factor"). The rule was checked against the structure of the published training graphs
// (vgg16, fcn_8_vgg, segnet, mobilenet).
//
// Where we differ: views are no ops, so consumers are found through them; a floating-point input of u that gets a
// gradient (a network without trainable parameters) gets none here, as in Checkmate the input layer is no node. A
// parameter's gradient belongs to the nodes that read the parameter: counted once under fixed memory, or under `keep`
// an output of the first such grad(u), which the later ones read and update in place.
#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>

#include "frontends/onnx/train/training.hpp"

namespace remora::onnx_frontend {

namespace {

class CheckmateBackward {
 public:
  explicit CheckmateBackward(TrainingStep& step) : step_(step), network_(step.network), ledger_(step.ledger) {}

  void run();

 private:
  void differentiate_node(NodeId id);
  void append_gradient(NodeId id, const std::vector<ValueId>& outputs, const std::vector<NodeId>& consumers);
  void add_parameter_gradients(const Node& forward, Node& backward);

  /// The tensors that u's gradient is the gradient of: its outputs that a differentiated consumer reads.
  [[nodiscard]] std::vector<ValueId> differentiated_outputs(const Node& node) const;
  [[nodiscard]] std::vector<NodeId> consumers_of(const std::vector<ValueId>& outputs) const;

  TrainingStep& step_;
  Network& network_;
  GradientLedger& ledger_;
  /// By the value whose memory they read: the nodes that have a gradient (or the loss) and pass one on to it.
  std::map<ValueId, std::vector<NodeId>> consumers_{};
  /// What a consumer offers to the gradients of its inputs' producers: its outputs and their gradients.
  std::map<NodeId, std::vector<ValueId>> offers_{};
  /// The gradients of parameters under ParameterGradients::keep.
  std::map<ValueId, ValueId> parameter_gradients_{};
};

void push_unique(std::vector<ValueId>& values, ValueId value) {
  if (std::find(values.begin(), values.end(), value) == values.end()) values.push_back(value);
}

void CheckmateBackward::run() {
  offers_[step_.loss] = network_.nodes[step_.loss].outputs;
  for (const ValueId prediction : step_.predictions) {
    std::vector<NodeId>& consumers = consumers_[network_.storage(prediction)];
    if (consumers.empty()) consumers.push_back(step_.loss);
  }
  for (std::size_t i = step_.forward_nodes; i-- > 0;) differentiate_node(NodeId(i));
}

void CheckmateBackward::differentiate_node(NodeId id) {
  const Node node = network_.nodes[id];
  if (node.constant || node.view) return;
  const std::vector<ValueId> outputs = differentiated_outputs(node);
  if (outputs.empty()) return;
  append_gradient(id, outputs, consumers_of(outputs));
  for (const std::size_t position : step_.need.wanted_inputs(node, step_.rules.rule(node))) {
    std::vector<NodeId>& consumers = consumers_[network_.storage(node.inputs[position])];
    if (consumers.empty() || consumers.back() != id) consumers.push_back(id);
  }
}

std::vector<ValueId> CheckmateBackward::differentiated_outputs(const Node& node) const {
  std::vector<ValueId> outputs;
  for (const ValueId output : node.outputs) {
    const bool needed = output.valid() && step_.need.needs_gradient(output) && consumers_.count(output) != 0;
    if (needed) outputs.push_back(output);
  }
  return outputs;
}

std::vector<NodeId> CheckmateBackward::consumers_of(const std::vector<ValueId>& outputs) const {
  std::vector<NodeId> consumers;
  for (const ValueId output : outputs) {
    const std::vector<NodeId>& more = consumers_.at(output);
    consumers.insert(consumers.end(), more.begin(), more.end());
  }
  // In forward order, each once.
  std::sort(consumers.begin(), consumers.end());
  consumers.erase(std::unique(consumers.begin(), consumers.end()), consumers.end());
  return consumers;
}

void CheckmateBackward::append_gradient(NodeId id, const std::vector<ValueId>& outputs,
                                        const std::vector<NodeId>& consumers) {
  const Node node = network_.nodes[id];
  Node backward{.name = node.name + "/grad",
                .type = node.type + "Grad",
                .domain = node.domain,
                .inputs = outputs,
                .phase = Phase::backward,
                .backward_of = id};
  backward.attributes.set("duration_factor", std::int64_t{2});
  for (const NodeId consumer : consumers) {
    for (const ValueId offer : offers_.at(consumer)) push_unique(backward.inputs, offer);
  }
  std::vector<ValueId>& offers = offers_[id];
  offers = outputs;
  for (const ValueId output : outputs) {
    const ValueId gradient = ledger_.new_contribution(output);
    ledger_.contribute(output, gradient);
    ledger_.complete(output);
    backward.outputs.push_back(gradient);
    offers.push_back(gradient);
  }
  add_parameter_gradients(node, backward);
  ledger_.append(std::move(backward));
}

void CheckmateBackward::add_parameter_gradients(const Node& forward, Node& backward) {
  for (const std::size_t position : step_.need.wanted_inputs(forward, step_.rules.rule(forward))) {
    for (const ValueId target : step_.need.targets(forward.inputs[position])) {
      if (network_.values[target].kind != ValueKind::parameter) continue;
      if (!ledger_.has_value(target)) {
        ledger_.count_fixed(target);
        push_unique(backward.gradients_in_place, target);
        continue;
      }
      const auto known = parameter_gradients_.find(target);
      if (known != parameter_gradients_.end()) {
        const auto own = std::find(backward.outputs.begin(), backward.outputs.end(), known->second);
        if (own == backward.outputs.end()) push_unique(backward.inputs, known->second);
        continue;
      }
      const ValueId gradient = ledger_.new_contribution(target);
      ledger_.contribute(target, gradient);
      backward.outputs.push_back(gradient);
      parameter_gradients_.emplace(target, gradient);
    }
  }
}

}  // namespace

void append_checkmate_backward(TrainingStep& step) {
  CheckmateBackward(step).run();
}

}  // namespace remora::onnx_frontend
