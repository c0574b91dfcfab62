// SPDX-License-Identifier: Apache-2.0
#include "tests/support/training_step.hpp"

#include <cassert>
#include <utility>

namespace remora::test {

TrainingStep::TrainingStep(const std::string& family) {
  graph_.name = family;
  graph_.meta = R"({"duration_unit":"flop"})";
}

TensorId TrainingStep::add_data(std::string name, std::int64_t values) {
  assert(graph_.ops.empty());
  ++data_count_;
  return graph_.add_tensor(std::move(name), Bytes(kValueBytes * values));
}

TensorId TrainingStep::add_forward(ForwardOp op) {
  const TensorId output = graph_.add_tensor(op.name, Bytes(kValueBytes * op.values));
  graph_.fixed_memory += Bytes(2 * kValueBytes * op.parameters);  // the weights and their gradients
  reads_.push_back(op.reads);
  graph_.add_op({.name = std::move(op.name),
                 .type = std::move(op.type),
                 .duration = Duration(op.flops),
                 .inputs = std::move(op.inputs),
                 .outputs = {output},
                 .phase = Phase::forward});
  return output;
}

Graph TrainingStep::finish(TensorId prediction) {
  gradients_.resize(graph_.tensors.size());
  add_loss(prediction);
  const OpId loss(reads_.size());
  add_backward(loss, BackwardReads::inputs);
  for (std::size_t op = reads_.size(); op > 0; --op) add_backward(OpId(op - 1), reads_[op - 1]);
  validate(graph_);
  return std::move(graph_);
}

void TrainingStep::add_loss(TensorId prediction) {
  const std::int64_t values = graph_.tensors[prediction].size.count() / kValueBytes;
  const TensorId loss = graph_.add_tensor("loss", Bytes(kValueBytes), true);
  gradients_.emplace_back();
  graph_.add_op({.name = "loss",
                 .type = "Loss",
                 .duration = Duration(values),
                 .inputs = {prediction},
                 .outputs = {loss},
                 .phase = Phase::loss});
}

void TrainingStep::add_backward(OpId forward, BackwardReads reads) {
  const Op of = graph_.ops[forward];
  Op op{.name = of.name + "/backward",
        .type = of.type + "Backward",
        .duration = of.duration + of.duration,
        .inputs = gradients_[of.outputs.front()],
        .phase = Phase::backward,
        .backward_of = forward};
  const bool reads_inputs = reads == BackwardReads::inputs || reads == BackwardReads::both;
  const bool reads_output = reads == BackwardReads::output || reads == BackwardReads::both;
  if (reads_inputs) op.inputs.insert(op.inputs.end(), of.inputs.begin(), of.inputs.end());
  if (reads_output) op.inputs.push_back(of.outputs.front());
  for (std::size_t i = 0; i < of.inputs.size(); ++i) {
    const TensorId input = of.inputs[i];
    if (static_cast<std::size_t>(input) < data_count_) continue;
    op.outputs.push_back(graph_.add_tensor(of.name + "/gradient" + std::to_string(i), graph_.tensors[input].size));
    gradients_[input].push_back(op.outputs.back());
  }
  // Every op writes something.
  if (op.outputs.empty()) op.outputs.push_back(graph_.add_tensor(of.name + "/done", Bytes(0)));
  graph_.add_op(std::move(op));
}

}  // namespace remora::test
