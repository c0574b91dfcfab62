// SPDX-License-Identifier: Apache-2.0
//
// The two ways to derive the backward pass.
#include <algorithm>
#include <cassert>
#include <cstdint>
#include <iterator>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "frontends/onnx/train/training.hpp"
#include "model/quote.hpp"

namespace remora::onnx_frontend {

// BackwardRule::precise: by the rules of training_rules.hpp.
//
//     forward    x --Conv--> a --Relu--> b --Loss--> loss            Conv reads w
//     backward   LossGrad(b) -> grad b;  ReluGrad(grad b, b) -> grad a;  ConvGrad(grad a, x) -> (gradient of w)
//
// One backward node for each forward node, whatever the number of gradients it computes; the attribute "gradient_of"
// lists the inputs, by position, whose gradients those are, for the cost model to count. Views have backward views.

namespace {

struct UnknownType {
  std::string type{};
  std::string first_node{};
  int nodes = 0;
};

class PreciseBackward {
 public:
  explicit PreciseBackward(TrainingStep& step) : step_(step), network_(step.network), ledger_(step.ledger) {}

  void run();

 private:
  void append_loss_gradient();
  void differentiate_node(NodeId id);
  void differentiate_view(NodeId id, ValueId output, ValueId gradient);
  void append_backward(NodeId id, const std::vector<ValueId>& gradients);
  void save_mask(NodeId id, std::size_t position);
  std::vector<ValueId> contribution_values(const std::vector<ValueId>& operands, Node& backward);
  void append_and_contribute(Node backward, const std::vector<ValueId>& targets);
  void note_unknown(const Node& node);
  void warn_of_unknown();

  /// The gradients of the node's outputs, by position; none where no gradient has arrived.
  [[nodiscard]] std::vector<ValueId> arrived_gradients(const Node& node);

  TrainingStep& step_;
  Network& network_;
  GradientLedger& ledger_;
  /// In the order of discovery: the backward pass meets the last forward node first.
  std::vector<UnknownType> unknown_{};
};

void PreciseBackward::run() {
  append_loss_gradient();
  for (std::size_t i = step_.forward_nodes; i-- > 0;) differentiate_node(NodeId(i));
  warn_of_unknown();
}

/// The gradient of a loss reads what the loss reads: probabilities and labels, predictions and targets. Where the model
/// gives a number, that is a loss already, and its gradient is one: so the parts of a sum may run one after the other.
void PreciseBackward::append_loss_gradient() {
  Node gradient{.name = "loss/grad", .type = "LossGrad", .phase = Phase::backward, .backward_of = step_.loss};
  std::copy_if(step_.predictions.begin(), step_.predictions.end(), std::back_inserter(gradient.inputs),
               [&](ValueId value) { return !network_.values[value].shape.empty(); });
  const std::vector<ValueId> targets = contribution_values(step_.predictions, gradient);
  append_and_contribute(std::move(gradient), targets);
}

void PreciseBackward::differentiate_node(NodeId id) {
  const Node node = network_.nodes[id];
  if (node.constant) return;
  const std::vector<ValueId> gradients = arrived_gradients(node);
  if (std::none_of(gradients.begin(), gradients.end(), [](ValueId gradient) { return gradient.valid(); })) return;
  const auto outputs =
      std::count_if(node.outputs.begin(), node.outputs.end(), [](ValueId output) { return output.valid(); });
  // Views of all parts of a tensor: their gradients are put together once.
  if (!node.view || outputs > 1) {
    append_backward(id, gradients);
    return;
  }
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    if (gradients[i].valid()) differentiate_view(id, node.outputs[i], gradients[i]);
  }
}

std::vector<ValueId> PreciseBackward::arrived_gradients(const Node& node) {
  std::vector<ValueId> gradients(node.outputs.size());
  for (std::size_t i = 0; i < node.outputs.size(); ++i) {
    if (node.outputs[i].valid()) gradients[i] = ledger_.complete(node.outputs[i]);
  }
  return gradients;
}

/// The gradient of what is viewed is the gradient of the view, seen in the other shape.
void PreciseBackward::differentiate_view(NodeId id, ValueId output, ValueId gradient) {
  const Node node = network_.nodes[id];
  const auto viewed = std::find_if(node.inputs.begin(), node.inputs.end(), [&](ValueId input) {
    return input.valid() && network_.storage(input) == network_.storage(output);
  });
  assert(viewed != node.inputs.end());
  Node backward{.name = node.name + "/grad",
                .type = node.type + "Grad",
                .inputs = {gradient},
                .phase = Phase::backward,
                .backward_of = id,
                .view = true};
  const std::vector<ValueId> targets = contribution_values({*viewed}, backward);
  // Nothing to see where the gradient is only added to a resident buffer.
  if (backward.outputs.empty()) return;
  const auto elements = [&](ValueId value) { return element_count(network_.values[value].shape); };
  for (const ValueId contribution : backward.outputs) {
    // A window onto a part of a tensor (and a derived parameter's leaf) has to be written out.
    if (elements(contribution) != elements(gradient)) backward.view = false;
  }
  if (backward.view) {
    for (const ValueId contribution : backward.outputs) network_.values[contribution].view_of = gradient;
  }
  append_and_contribute(std::move(backward), targets);
}

void PreciseBackward::append_backward(NodeId id, const std::vector<ValueId>& gradients) {
  const Rule rule = step_.rules.rule(network_.nodes[id]);
  if (!step_.rules.knows(network_.nodes[id])) note_unknown(network_.nodes[id]);
  if (rule.mask) save_mask(id, *rule.mask);

  const Node node = network_.nodes[id];
  const Positions wanted = step_.need.wanted_inputs(node, rule);
  assert(!wanted.empty());
  Node backward{.name = node.name + "/grad",
                .type = node.type + "Grad",
                .domain = node.domain,
                .phase = Phase::backward,
                .backward_of = id};
  backward.attributes.set("gradient_of", std::vector<std::int64_t>(wanted.begin(), wanted.end()));
  if (node.inner) {
    // It runs each round again, from the state that was saved, with all that the round makes.
    backward.inner =
        InnerRun{.workspace = sum_of(node.inner->made, node.inner->workspace, "node " + printable(node.name))};
    backward.attributes.set("duration_factor", std::int64_t{3});
  }
  const auto read = [&](ValueId value) {
    const auto known = std::find(backward.inputs.begin(), backward.inputs.end(), value);
    if (value.valid() && known == backward.inputs.end()) backward.inputs.push_back(value);
  };
  for (const ValueId gradient : gradients) read(gradient);
  const Reads reads = reads_of(rule, node, wanted);
  for (const std::size_t position : reads.inputs) read(node.inputs[position]);
  for (const std::size_t position : reads.outputs) read(node.outputs[position]);

  std::vector<ValueId> operands;
  for (const std::size_t position : wanted) operands.push_back(node.inputs[position]);
  const std::vector<ValueId> targets = contribution_values(operands, backward);
  append_and_contribute(std::move(backward), targets);
}

/// Gives the forward node the output that its backward reads, if the network has dropped it.
void PreciseBackward::save_mask(NodeId id, std::size_t position) {
  const Node& node = network_.nodes[id];
  if (position < node.outputs.size() && node.outputs[position].valid()) return;
  const ValueId mask = ledger_.append_value({.name = node.name + "/mask",
                                             .shape = network_.values[node.outputs[0]].shape,
                                             .type = {.bits = 8, .floating = false}});
  std::vector<ValueId>& outputs = network_.nodes[id].outputs;
  if (outputs.size() <= position) outputs.resize(position + 1);
  outputs[position] = mask;
}

/// Makes the contributions to the gradients of `operands` outputs of `backward`, one a target however often it is an
/// operand, and returns the targets in the same order. Gradients of parameters under ParameterGradients::fixed are
/// counted instead; a node left without outputs gets a token, for its work has to be done all the same.
std::vector<ValueId> PreciseBackward::contribution_values(const std::vector<ValueId>& operands, Node& backward) {
  std::vector<ValueId> targets;
  Bytes in_place;
  for (const ValueId operand : operands) {
    for (const ValueId target : step_.need.targets(operand)) {
      if (!ledger_.has_value(target)) {
        ledger_.count_fixed(target);
        backward.gradients_in_place.push_back(target);
        // A part of a parameter has its part of the gradient.
        const auto size = [&](ValueId id) { return byte_size(network_.values[id].shape, network_.values[id].type); };
        in_place = sum_of(in_place, std::min(size(target), size(operand)), "node " + printable(backward.name));
        continue;
      }
      if (std::find(targets.begin(), targets.end(), target) != targets.end()) continue;
      targets.push_back(target);
      backward.outputs.push_back(ledger_.new_contribution(target));
    }
  }
  if (in_place > Bytes(0)) backward.attributes.set(std::string(kBytesWrittenInPlace), in_place.count());
  if (targets.empty() && !backward.view) backward.outputs.push_back(ledger_.new_token(backward.name));
  return targets;
}

void PreciseBackward::append_and_contribute(Node backward, const std::vector<ValueId>& targets) {
  const std::vector<ValueId> contributions = backward.outputs;
  ledger_.append(std::move(backward));
  for (std::size_t i = 0; i < targets.size(); ++i) ledger_.contribute(targets[i], contributions[i]);
}

void PreciseBackward::note_unknown(const Node& node) {
  const std::string type = node.domain.empty() ? node.type : node.domain + "." + node.type;
  auto known =
      std::find_if(unknown_.begin(), unknown_.end(), [&](const UnknownType& unknown) { return unknown.type == type; });
  if (known == unknown_.end()) known = unknown_.insert(unknown_.end(), UnknownType{.type = type});
  ++known->nodes;
  known->first_node = node.name;
}

void PreciseBackward::warn_of_unknown() {
  for (const UnknownType& unknown : unknown_) {
    network_.warnings.push_back("no gradient rule for op type " + unknown.type + " (" + std::to_string(unknown.nodes) +
                                (unknown.nodes == 1 ? " node, " : " nodes, the first is ") + unknown.first_node +
                                "): its backward is taken to read all its inputs and outputs");
  }
}

}  // namespace

void append_precise_backward(TrainingStep& step) {
  PreciseBackward(step).run();
}

// BackwardRule::checkmate: as Jain et al. 2020 (Checkmate) extract the backward pass from a framework graph, for
// comparison with published schedules: one node grad(u) for each forward node u, in reverse order, which yields the
// gradient of u's output and reads
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
  /// The values that a consumer offers to the gradients of its inputs' producers: its outputs and their gradients.
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
