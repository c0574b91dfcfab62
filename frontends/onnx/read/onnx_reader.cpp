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
    return lower_network(std::move(network), options.cost, options.device);
  } catch (const InputError& error) {
    throw InputError(source, one_line(error.what()));
  }
}

OnnxResult read_onnx(std::string_view content, const std::string& source, const OnnxOptions& options) {
  LoweredModel model = lower_onnx(content, source, options);
  return {.graph = std::move(model.graph), .warnings = std::move(model.network.warnings)};
}

}  // namespace remora::onnx_frontend
