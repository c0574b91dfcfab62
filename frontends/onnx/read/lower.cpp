// SPDX-License-Identifier: Apache-2.0
//
// Network -> Graph: parameters become fixed memory, views vanish into what they view, and every other node becomes an
// op.
#include <algorithm>
#include <vector>

#include <nlohmann/json.hpp>

#include "frontends/onnx/model/unique_names.hpp"
#include "frontends/onnx/read/onnx_reader.hpp"
#include "model/error.hpp"
#include "model/quote.hpp"

namespace remora::onnx_frontend {
namespace {

/// Names in a file need not be UTF-8, as those of a graph must be; what is not is replaced.
std::string utf8(const std::string& name) {
  const auto ascii = [](char character) { return static_cast<unsigned char>(character) < 0x80; };
  if (std::all_of(name.begin(), name.end(), ascii)) return name;
  const std::string text = nlohmann::json(name).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  return nlohmann::json::parse(text).get<std::string>();
}

class Lowering {
 public:
  Lowering(const Network& network, CostModel cost, const Device& device)
      : network_(network),
        cost_(cost),
        device_(device),
        tensors_(network.values.size()),
        ops_(network.nodes.size()),
        is_read_(network.values.size(), false) {}

  LoweredModel run() {
    mark_reads();
    graph_.name = network_.name.empty() ? "onnx" : utf8(network_.name);
    graph_.fixed_memory = fixed_memory();
    for (std::size_t k = 0; k < network_.values.size(); ++k) {
      if (network_.values[k].kind == ValueKind::input && is_read_[k]) add_tensor(ValueId(k));
    }
    for (std::size_t k = 0; k < network_.nodes.size(); ++k) {
      if (is_op(network_.nodes[k])) add_op(NodeId(k));
    }
    mark_outputs();
    graph_.meta = meta();
    validate(graph_);
    return {.graph = std::move(graph_), .op_nodes = std::move(op_nodes_), .tensor_values = std::move(tensor_values_)};
  }

 private:
  static bool is_op(const Node& node) { return !node.constant && !node.view; }
  [[nodiscard]] ValueId storage(ValueId id) const { return network_.storage(id); }

  [[nodiscard]] Bytes size_of(ValueId value) const {
    return byte_size(network_.values[value].shape, network_.values[value].type);
  }

  /// What some op reads or the outputs keep, by storage.
  void mark_reads() {
    for (const Node& node : network_.nodes) {
      if (!is_op(node)) continue;
      for (const ValueId input : node.inputs) {
        if (input.valid()) is_read_[storage(input)] = true;
      }
    }
    for (std::size_t k = 0; k < network_.values.size(); ++k) {
      if (network_.values[k].output) is_read_[storage(ValueId(k))] = true;
    }
  }

  /// Parameters that some op reads, each once however many views of it are read.
  [[nodiscard]] Bytes fixed_memory() const {
    Bytes total = network_.extra_fixed_memory;
    for (std::size_t k = 0; k < network_.values.size(); ++k) {
      if (network_.values[k].kind != ValueKind::parameter || !is_read_[k]) continue;
      const Bytes size = size_of(ValueId(k));
      if (size > Bytes::max() - total) throw InputError("fixed_memory", "the parameters exceed 2^63 bytes");
      total += size;
    }
    return total;
  }

  TensorId add_tensor(ValueId id) {
    const Value& value = network_.values[id];
    tensors_[id] = graph_.add_tensor(tensor_names_.make(utf8(value.name)), size_of(id));
    tensor_values_.push_back(id);
    return tensors_[id];
  }

  void add_op(NodeId id) {
    const Node& node = network_.nodes[id];
    Op op{.name = op_names_.make(utf8(node.name)),
          .type = utf8(node.type),
          .duration = duration(network_, id, cost_, device_),
          .inputs = inputs_of(node),
          .recompute = !node.never_recompute,
          .phase = node.phase};
    for (const ValueId output : node.outputs) {
      if (output.valid()) op.outputs.push_back(add_tensor(output));
    }
    op.after.reserve(node.after.size());
    for (const NodeId earlier : node.after) op.after.push_back(ops_[earlier]);
    if (node.backward_of.valid()) op.backward_of = ops_[node.backward_of];
    ops_[id] = graph_.add_op(std::move(op));
    op_nodes_.push_back(id);
  }

  /// The tensors behind the node's inputs, parameters left out, each once.
  [[nodiscard]] std::vector<TensorId> inputs_of(const Node& node) const {
    std::vector<TensorId> inputs;
    for (const ValueId input : node.inputs) {
      if (!input.valid() || network_.values[storage(input)].kind == ValueKind::parameter) continue;
      const TensorId tensor = tensors_[storage(input)];
      if (!tensor.valid()) throw InputError("node " + printable(node.name), "reads a value before anything makes it");
      if (std::find(inputs.begin(), inputs.end(), tensor) == inputs.end()) inputs.push_back(tensor);
    }
    return inputs;
  }

  /// Inputs of the graph stay resident anyway, so only what an op makes is kept.
  void mark_outputs() {
    for (std::size_t k = 0; k < network_.values.size(); ++k) {
      if (!network_.values[k].output) continue;
      const ValueId behind = storage(ValueId(k));
      if (network_.values[behind].kind != ValueKind::activation || !tensors_[behind].valid()) continue;
      graph_.tensors[tensors_[behind]].keep = true;
    }
  }

  [[nodiscard]] std::string meta() const {
    nlohmann::ordered_json meta;
    if (!network_.source.empty()) meta["source"] = network_.source;
    meta["format"] = "onnx";
    if (!network_.producer.empty()) meta["producer"] = network_.producer;
    if (network_.opset > 0) meta["opset"] = network_.opset;
    meta["cost_model"] = cost_model_name(cost_);
    meta["duration_unit"] = duration_unit(cost_);
    if (cost_ == CostModel::roofline) {
      meta["device"] = {{"name", device_.name},
                        {"peak_flops", device_.peak_flops},
                        {"bandwidth", device_.bandwidth},
                        {"launch_overhead", device_.launch_overhead}};
    }
    return meta.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  }

  const Network& network_;
  CostModel cost_;
  const Device& device_;
  Graph graph_;
  /// By value: the tensor that it became, none for views and parameters.
  std::vector<TensorId> tensors_;
  /// By node: the op that it became, none for views and constant nodes.
  std::vector<OpId> ops_;
  std::vector<bool> is_read_;
  std::vector<NodeId> op_nodes_;
  std::vector<ValueId> tensor_values_;
  UniqueNames tensor_names_;
  UniqueNames op_names_;
};

}  // namespace

Graph lower(const Network& network, CostModel cost, const Device& device) {
  return Lowering(network, cost, device).run().graph;
}

LoweredModel lower_network(Network network, CostModel cost, const Device& device) {
  LoweredModel lowered = Lowering(network, cost, device).run();
  lowered.network = std::move(network);
  return lowered;
}

}  // namespace remora::onnx_frontend
