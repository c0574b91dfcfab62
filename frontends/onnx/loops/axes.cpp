// SPDX-License-Identifier: Apache-2.0
#include "frontends/onnx/loops/axes.hpp"

#include <cstdint>
#include <utility>

#include "frontends/onnx/loops/loop_nest.hpp"
#include "frontends/onnx/loops/loop_rules.hpp"
#include "model/graph.hpp"
#include "model/table.hpp"

namespace remora::onnx_frontend {
namespace {

class AxisTable {
 public:
  AxisTable(const Network& network, const std::vector<ValueId>& tensor_values, const Graph& graph)
      : network_(network), graph_(graph), tensors_(network.values.size()) {
    for (std::size_t t = 0; t < tensor_values.size(); ++t) tensors_[at(tensor_values[t])] = TensorId(t);
    for (const Node& node : network_.nodes) is_training_ = is_training_ || node.phase == Phase::loss;
  }

  [[nodiscard]] std::vector<Axis> axes(NodeId id) const {
    const Node& node = network_.nodes[id];
    if (node.never_recompute || node.unknown || node.inner) return {};
    const bool is_backward = node.backward_of.valid() && node.type != "GradientSum";
    return is_backward ? backward_axes(node) : forward_axes(node);
  }

 private:
  [[nodiscard]] std::vector<Axis> forward_axes(const Node& node) const {
    const auto nest = find_loops({.network = network_, .node = node, .training = is_training_});
    if (!nest) return {};
    std::vector<TensorUse> uses;
    for (std::size_t k = 0; k < node.outputs.size(); ++k) {
      if (!node.outputs[k].valid()) continue;
      if (!nest->outputs[k]) return {};
      uses.push_back(use_of(node.outputs[k], nest->outputs[k], true));
    }
    for (std::size_t k = 0; k < node.inputs.size(); ++k) add_input(uses, node.inputs[k], nest->inputs[k]);
    return axes_of(nest->extents, uses);
  }

  [[nodiscard]] std::vector<Axis> backward_axes(const Node& node) const {
    const Node& forward = network_.nodes[node.backward_of];
    std::vector<std::int64_t> positions = node.attributes.get("gradient_of", std::vector<std::int64_t>{});
    if (node.type == "LossGrad") {
      for (std::size_t k = 0; k < forward.inputs.size(); ++k) positions.push_back(static_cast<std::int64_t>(k));
    }
    if (positions.empty() || forward.never_recompute != (forward.type == "Dropout")) return {};
    auto nest = find_loops(
        {.network = network_, .node = forward, .training = is_training_, .gradients_of = positions, .backward = true});
    if (!nest) return {};
    if (nest->gradients.empty()) nest->gradients = nest->inputs;
    nest->gradients.resize(nest->inputs.size());
    std::vector<TensorUse> uses;
    for (const ValueId output : node.outputs) {
      if (output.valid() && !add_gradients(uses, output, forward, positions, *nest)) return {};
    }
    for (const ValueId input : node.inputs) {
      if (input.valid()) add_reads(uses, input, forward, *nest);
    }
    return axes_of(nest->extents, uses);
  }

  /// The gradient of one of the forward op's inputs, or of several that are one value; or a token. False for another.
  [[nodiscard]] bool add_gradients(std::vector<TensorUse>& uses, ValueId output, const Node& forward,
                                   const std::vector<std::int64_t>& positions, const LoopNest& nest) const {
    const ValueId of = network_.values[output].gradient_of;
    if (!of.valid()) {
      uses.push_back(use_of(output, LoopDims{}, true));
      return true;
    }
    bool found = false;
    for (const std::int64_t position : positions) {
      if (forward.inputs[at(position)] != of) continue;
      if (!nest.gradients[at(position)]) return false;
      uses.push_back(use_of(output, nest.gradients[at(position)], true));
      found = true;
    }
    return found;
  }

  void add_reads(std::vector<TensorUse>& uses, ValueId input, const Node& forward, const LoopNest& nest) const {
    const ValueId of = network_.values[input].gradient_of;
    bool found = false;
    const auto look = [&](const std::vector<ValueId>& values, const std::vector<std::optional<LoopDims>>& dims) {
      for (std::size_t k = 0; k < values.size(); ++k) {
        if (!values[k].valid() || (values[k] != input && (values[k] != of || &values != &forward.outputs))) continue;
        add_input(uses, input, dims[k]);
        found = true;
      }
    };
    look(forward.outputs, nest.outputs);
    look(forward.inputs, nest.inputs);
    if (!found) add_input(uses, input, std::nullopt);
  }

  /// Parameters are no tensors.
  void add_input(std::vector<TensorUse>& uses, ValueId value, const std::optional<LoopDims>& dims) const {
    if (!value.valid() || network_.values[network_.storage(value)].kind == ValueKind::parameter) return;
    uses.push_back(use_of(value, dims, false));
  }

  [[nodiscard]] TensorUse use_of(ValueId value, std::optional<LoopDims> dims, bool is_output) const {
    const TensorId tensor = tensors_[at(network_.storage(value))];
    return {.tensor = tensor,
            .size = graph_[tensor].size,
            .element_bytes = network_.values[value].type.bytes(),
            .is_output = is_output,
            .dims = std::move(dims)};
  }

  const Network& network_;
  const Graph& graph_;
  /// By value; none for views and parameters.
  std::vector<TensorId> tensors_;
  bool is_training_ = false;
};

}  // namespace

void add_axes(const Network& network, const std::vector<NodeId>& op_nodes, const std::vector<ValueId>& tensor_values,
              Graph& graph) {
  const AxisTable table(network, tensor_values, graph);
  for (std::size_t v = 0; v < op_nodes.size(); ++v) graph.ops[v].axes = table.axes(op_nodes[v]);
  validate(graph);
}

}  // namespace remora::onnx_frontend
