// SPDX-License-Identifier: Apache-2.0
//
// set_dimensions of model_proto.hpp.
#include <set>
#include <string>
#include <unordered_set>

#include "frontends/onnx/model/model_proto.hpp"
#include "model/error.hpp"

namespace remora::onnx_frontend {
namespace {

std::unordered_set<std::string> initializer_names(const onnx::GraphProto& graph) {
  std::unordered_set<std::string> names;
  for (const auto& initializer : graph.initializer()) names.insert(initializer.name());
  for (const auto& initializer : graph.sparse_initializer()) names.insert(initializer.values().name());
  return names;
}

/// A dimension's option value by its symbolic name or by INPUT[AXIS]; names that matched are noted in `used`.
const std::int64_t* find_value(const std::map<std::string, std::int64_t>& dimensions, const std::string& symbol,
                               const std::string& position, std::set<std::string>& used) {
  for (const std::string& name : {position, symbol}) {
    const auto found = name.empty() ? dimensions.end() : dimensions.find(name);
    if (found == dimensions.end()) continue;
    used.insert(name);
    return &found->second;
  }
  return nullptr;
}

std::string listing(const std::set<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

void check_values(const std::map<std::string, std::int64_t>& dimensions) {
  for (const auto& [name, value] : dimensions) {
    if (value < 1) throw InputError("--dim " + name, std::to_string(value) + " is not positive");
  }
}

void check_all_used(const std::map<std::string, std::int64_t>& dimensions, const std::set<std::string>& used,
                    const std::set<std::string>& symbols, const std::set<std::string>& positions) {
  for (const auto& [name, value] : dimensions) {
    if (used.contains(name)) continue;
    const std::string present =
        symbols.empty() ? "the model has no symbolic dimensions; those of its inputs are " + listing(positions)
                        : "the model has " + listing(symbols);
    throw InputError("--dim " + name, "no dimension of that name; " + present);
  }
}

}  // namespace

void set_dimensions(onnx::GraphProto& graph, const std::map<std::string, std::int64_t>& dimensions) {
  if (dimensions.empty()) return;
  check_values(dimensions);
  const auto constants = initializer_names(graph);
  std::set<std::string> symbols;
  std::set<std::string> positions;
  std::set<std::string> used;
  for (onnx::ValueInfoProto& input : *graph.mutable_input()) {
    if (constants.contains(input.name()) || !input.type().has_tensor_type()) continue;
    if (!input.type().tensor_type().has_shape()) continue;
    auto& shape = *input.mutable_type()->mutable_tensor_type()->mutable_shape();
    for (int axis = 0; axis < shape.dim_size(); ++axis) {
      auto& dimension = *shape.mutable_dim(axis);
      const std::string symbol = dimension.dim_param();
      const std::string position = input.name() + "[" + std::to_string(axis) + "]";
      if (!symbol.empty()) symbols.insert(symbol);
      positions.insert(position);
      const std::int64_t* const value = find_value(dimensions, symbol, position, used);
      if (value != nullptr) dimension.set_dim_value(*value);
    }
  }
  check_all_used(dimensions, used, symbols, positions);
  graph.clear_value_info();
  for (onnx::ValueInfoProto& output : *graph.mutable_output()) {
    if (output.type().has_tensor_type()) output.mutable_type()->mutable_tensor_type()->clear_shape();
  }
}

}  // namespace remora::onnx_frontend
