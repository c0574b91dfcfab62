// SPDX-License-Identifier: Apache-2.0
#include "frontends/onnx/read/onnx_reader.hpp"

#include <algorithm>
#include <cstdint>
#include <vector>

#include <nlohmann/json.hpp>

#include "frontends/formats/document.hpp"
#include "frontends/formats/wire.hpp"
#include "frontends/machine/machine_json.hpp"
#include "frontends/onnx/loops/axes.hpp"
#include "frontends/onnx/model/model_proto.hpp"
#include "frontends/onnx/model/network.hpp"
#include "frontends/onnx/read/network_builder.hpp"
#include "model/error.hpp"
#include "model/quote.hpp"
#include "onnx/onnx_pb.h"

namespace remora::onnx_frontend {

// Network -> Graph: parameters become fixed memory, views vanish into what they view, and every other node becomes an
// op.

namespace {

/// Names in a file need not be UTF-8, as those of a graph must be; what is not is replaced.
std::string utf8(const std::string& name) {
  const auto ascii = [](char character) { return static_cast<unsigned char>(character) < 0x80; };
  if (std::all_of(name.begin(), name.end(), ascii)) return name;
  return json::parse(json::dump(name)).get<std::string>();
}

class Lowering {
 public:
  Lowering(const Network& network, CostModel cost, const Machine& machine)
      : network_(network),
        cost_(cost),
        machine_(machine),
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

  /// Marks the storages that some op reads or the outputs keep.
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
    for (const Node& node : network_.nodes) {
      if (is_op(node) && node.inner) total = sum_of(total, node.inner->fixed, "fixed_memory");
    }
    for (std::size_t k = 0; k < network_.values.size(); ++k) {
      if (network_.values[k].kind != ValueKind::parameter || !is_read_[k]) continue;
      total = sum_of(total, size_of(ValueId(k)), "fixed_memory");
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
          .duration = duration(network_, id, cost_, machine_),
          .workspace = node.inner ? node.inner->workspace : Bytes(0),
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
    const auto unknown = std::count_if(tensor_values_.begin(), tensor_values_.end(),
                                       [&](ValueId id) { return network_.values[id].unknown; });
    if (unknown > 0) meta["unknown_tensors"] = unknown;
    if (cost_ == CostModel::roofline) {
      meta["device"] = machine_document(machine_);
    }
    return json::dump(meta);
  }

  const Network& network_;
  CostModel cost_;
  const Machine& machine_;
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

Graph lower(const Network& network, CostModel cost, const Machine& machine) {
  return Lowering(network, cost, machine).run().graph;
}

LoweredModel lower_network(Network network, CostModel cost, const Machine& machine) {
  LoweredModel lowered = Lowering(network, cost, machine).run();
  lowered.network = std::move(network);
  return lowered;
}

namespace {

/// The wire type that ModelProto gives a field: 0 for a number, 2 for bytes; -1 for a field that it does not have.
int model_field_type(std::uint64_t field) {
  switch (field) {
    case 1:  // ir_version
    case 5:  // model_version
      return 0;
    case 2:   // producer_name
    case 3:   // producer_version
    case 4:   // domain
    case 6:   // doc_string
    case 7:   // graph
    case 8:   // opset_import
    case 14:  // metadata_props
    case 20:  // training_info
    case 25:  // functions
    case 26:  // configuration, from IR version 11 on
      return 2;
    default:
      return -1;
  }
}

/// An extent of 0 that the file states may mean an empty cache, or that an exporter did not know.
void warn_of_zeros(const onnx::GraphProto& graph, const OnnxOptions& options, std::vector<std::string>& warnings) {
  for (const auto& input : graph.input()) {
    const auto& shape = input.type().tensor_type().shape();
    for (int axis = 0; axis < shape.dim_size(); ++axis) {
      const std::string name = input.name() + "[" + std::to_string(axis) + "]";
      if (!shape.dim(axis).has_dim_value() || shape.dim(axis).dim_value() != 0 || options.dimensions.contains(name))
        continue;
      warnings.push_back("input " + printable(input.name()) + ": dimension " + std::to_string(axis) +
                         " is 0, so it has no elements; --dim " + printable(name) + "=VALUE gives it another size");
    }
  }
}

/// A length of 0 is that of a cache at the beginning; but of a batch it leaves nothing to compute.
void warn_of_emptiness(const OnnxOptions& options, Network& network) {
  const auto is_left = [](const Value& value) {
    return value.output && (value.unknown || element_count(value.shape) > 0);
  };
  if (std::ranges::any_of(network.values, is_left)) return;
  for (const auto& [name, extent] : options.dimensions) {
    if (extent != 0) continue;
    network.warnings.push_back("--dim " + printable(name) + "=0 leaves no output any elements");
    return;
  }
}

Network read_network(std::string_view content, const OnnxOptions& options) {
  ensure(!options.training || !options.allow_unknown, "a training step needs every size");
  std::vector<std::string> warnings;
  onnx::ModelProto model = prepare_model(content, warnings);
  if (!options.allow_external) check_external_data(model, options.folder);
  warn_of_zeros(model.graph(), options, warnings);
  set_dimensions(*model.mutable_graph(), options.dimensions);
  Network network = NetworkBuilder(model, options).build();
  warn_of_emptiness(options, network);
  network.warnings.insert(network.warnings.begin(), warnings.begin(), warnings.end());
  return network;
}

/// The names allowed in rows of costs: ops, nodes, values; a name that is no op of the graph maps to none.
interchange::CostNames names_of(const LoweredModel& model) {
  interchange::CostNames names = interchange::cost_names(model.graph);
  std::vector<OpId> ops(model.network.nodes.size());
  for (std::size_t i = 0; i < model.op_nodes.size(); ++i) ops[model.op_nodes[i]] = OpId(i);
  const Network& network = model.network;
  for (const std::string& name : network.unrolled) names.emplace(name, OpId());
  for (std::size_t k = 0; k < network.nodes.size(); ++k) names.emplace(network.nodes[k].name, ops[k]);
  for (std::size_t k = 0; k < network.nodes.size(); ++k) {
    for (const ValueId output : network.nodes[k].outputs) {
      if (output.valid()) names.emplace(network.values[output].name, ops[k]);
    }
  }
  return names;
}

/// The time of a backward op per unit of its forward op's time: by FLOPs, or, without any, by bytes moved.
double backward_ratio(const Network& network, NodeId backward, NodeId forward) {
  const auto ratio = [](std::int64_t of, std::int64_t to) { return static_cast<double>(of) / static_cast<double>(to); };
  if (const std::int64_t base = flops(network, forward); base > 0) return ratio(flops(network, backward), base);
  const std::int64_t moved = bytes_moved(network, forward).count();
  return moved > 0 ? ratio(bytes_moved(network, backward).count(), moved) : 1.0;
}

void put_costs(LoweredModel& model, const interchange::CostTable& costs) {
  const auto ratio = [&](OpId backward, OpId forward) {
    return backward_ratio(model.network, model.op_nodes[static_cast<std::size_t>(backward)],
                          model.op_nodes[static_cast<std::size_t>(forward)]);
  };
  model.covered = interchange::apply_costs(model.graph, costs, names_of(model), ratio);
}

}  // namespace

/// Walks the fields of ModelProto without looking into them. The last one may be cut, so that a truncated model is
/// still taken for one and reported as such.
bool looks_like_onnx(std::string_view content) {
  wire::Reader reader(content);
  bool any = false;
  while (!reader.at_end()) {
    const auto field = reader.next();
    if (!field) return any;
    if (field->type != model_field_type(field->number)) return false;
    any = true;
  }
  return any;
}

Network build_network(std::string_view content, const std::string& source, const OnnxOptions& options) {
  try {
    Network network = read_network(content, options);
    network.source = source;
    return network;
  } catch (const InputError& error) {
    throw InputError(source, one_line(error.what()));
  }
}

LoweredModel lower_onnx(std::string_view content, const std::string& source, const OnnxOptions& options) {
  Network network = build_network(content, source, options);
  try {
    if (options.training) network = differentiate(std::move(network), *options.training);
    LoweredModel model = lower_network(std::move(network), options.cost, options.machine);
    if (options.costs) put_costs(model, *options.costs);
    if (options.axes == AxesWanted::all) {
      add_axes(model.network, model.op_nodes, model.tensor_values, model.graph);
    } else if (options.axes == AxesWanted::writable) {
      model.writable = add_writable_axes(model.network, model.op_nodes, model.tensor_values, model.graph);
    }
    return model;
  } catch (const InputError& error) {
    throw InputError(source, one_line(error.what()));
  }
}

OnnxResult read_onnx(std::string_view content, const std::string& source, const OnnxOptions& options) {
  LoweredModel model = lower_onnx(content, source, options);
  return {.graph = std::move(model.graph),
          .covered = std::move(model.covered),
          .warnings = std::move(model.network.warnings)};
}

}  // namespace remora::onnx_frontend
