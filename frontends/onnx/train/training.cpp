// SPDX-License-Identifier: Apache-2.0
#include "frontends/onnx/train/training.hpp"

#include <utility>

#include "frontends/onnx/train/training_passes.hpp"
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

/// What to differentiate for: the trainable parameters or, where none reaches an output, the floating-point inputs.
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

}  // namespace remora::onnx_frontend
