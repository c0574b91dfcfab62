// SPDX-License-Identifier: Apache-2.0
#include "frontends/onnx/read/onnx_reader.hpp"

#include <cstdint>

#include "frontends/onnx/model/model_proto.hpp"
#include "frontends/onnx/model/wire_format.hpp"
#include "frontends/onnx/read/network_builder.hpp"
#include "model/error.hpp"

namespace remora::onnx_frontend {
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

Network read_network(std::string_view content, const OnnxOptions& options) {
  std::vector<std::string> warnings;
  onnx::ModelProto model = prepare_model(content, warnings);
  set_dimensions(*model.mutable_graph(), options.dimensions);
  Network network = NetworkBuilder(model, options.training.has_value()).build();
  network.warnings.insert(network.warnings.begin(), warnings.begin(), warnings.end());
  return network;
}

/// What rows of costs may name: ops, nodes, values; what is no op of the graph stands for none.
interchange::CostNames names_of(const LoweredModel& model) {
  interchange::CostNames names = interchange::cost_names(model.graph);
  std::vector<OpId> ops(model.network.nodes.size());
  for (std::size_t i = 0; i < model.op_nodes.size(); ++i) ops[model.op_nodes[i]] = OpId(i);
  const Network& network = model.network;
  for (std::size_t k = 0; k < network.nodes.size(); ++k) names.emplace(network.nodes[k].name, ops[k]);
  for (std::size_t k = 0; k < network.nodes.size(); ++k) {
    for (const ValueId output : network.nodes[k].outputs) {
      if (output.valid()) names.emplace(network.values[output].name, ops[k]);
    }
  }
  return names;
}

/// What a backward op takes for each unit of its forward op's time: by FLOPs, or, where there are none, by bytes moved.
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
  WireReader reader(content);
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
    LoweredModel model = lower_network(std::move(network), options.cost, options.device);
    if (options.costs) put_costs(model, *options.costs);
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
