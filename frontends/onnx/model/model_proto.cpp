// SPDX-License-Identifier: Apache-2.0
#include "frontends/onnx/model/model_proto.hpp"

#include <algorithm>
#include <array>
#include <functional>
#include <limits>
#include <map>
#include <queue>
#include <set>
#include <string>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include "frontends/formats/wire.hpp"
#include "model/error.hpp"
#include "model/quote.hpp"
#include "onnx/onnx_pb.h"

namespace remora::onnx_frontend {
namespace {

constexpr std::uint64_t kGraphField = 7;

/// True if a part of GraphProto can be parsed by itself. Parts of other kinds are assumed to.
bool parses(std::uint64_t field, std::string_view payload) {
  const auto parse = [&](auto message) {
    return message.ParseFromArray(payload.data(), static_cast<int>(payload.size()));
  };
  switch (field) {
    case 1:
      return parse(onnx::NodeProto());
    case 5:
      return parse(onnx::TensorProto());
    case 11:
    case 12:
    case 13:
      return parse(onnx::ValueInfoProto());
    default:
      return true;
  }
}

const char* graph_part(std::uint64_t field) {
  switch (field) {
    case 1:
      return "graph.node";
    case 5:
      return "graph.initializer";
    case 11:
      return "graph.input";
    case 12:
      return "graph.output";
    case 13:
      return "graph.value_info";
    default:
      return nullptr;
  }
}

/// The first part of the graph that does not parse, or where its fields stop making sense.
std::string damage_in_graph(std::string_view graph, std::size_t& place) {
  std::map<std::uint64_t, int> counts;
  wire::Reader reader(graph);
  std::size_t start = 0;
  while (!reader.at_end()) {
    start = reader.place();
    const auto field = reader.next();
    if (!field) break;
    const int position = counts[field->number]++;
    if (!field->cut && parses(field->number, field->payload)) continue;
    place += start;
    const char* const part = graph_part(field->number);
    return part == nullptr ? "graph" : part + ("[" + std::to_string(position) + "]");
  }
  place += reader.place();
  return "graph";
}

}  // namespace

std::string damage_place(std::string_view content) {
  wire::Reader reader(content);
  std::size_t place = 0;
  std::string part = "model";
  while (!reader.at_end()) {
    place = reader.place();
    const auto field = reader.next();
    if (!field) break;
    if (field->number == kGraphField && field->type == 2) {
      onnx::GraphProto graph;
      if (!field->cut && graph.ParseFromArray(field->payload.data(), static_cast<int>(field->payload.size()))) continue;
      place = static_cast<std::size_t>(field->payload.data() - content.data());
      part = damage_in_graph(field->payload, place);
      break;
    }
    if (field->cut) break;
  }
  return part + ", byte " + std::to_string(place) + " of " + std::to_string(content.size());
}

namespace {

/// The parts of a message that are counted, by the fields that lead into them; `leaf` counts as one.
enum class Part { model, graph, function, node, attribute, leaf };
constexpr std::array<std::tuple<Part, std::uint64_t, Part>, 15> kParts{{{Part::model, kGraphField, Part::graph},
                                                                        {Part::model, 25, Part::function},
                                                                        {Part::function, 7, Part::node},
                                                                        {Part::graph, 1, Part::node},
                                                                        {Part::graph, 5, Part::leaf},
                                                                        {Part::graph, 11, Part::leaf},
                                                                        {Part::graph, 12, Part::leaf},
                                                                        {Part::graph, 13, Part::leaf},
                                                                        {Part::node, 1, Part::leaf},
                                                                        {Part::node, 2, Part::leaf},
                                                                        {Part::node, 5, Part::attribute},
                                                                        {Part::attribute, 6, Part::graph},
                                                                        {Part::attribute, 9, Part::leaf},
                                                                        {Part::attribute, 10, Part::leaf},
                                                                        {Part::attribute, 11, Part::graph}}};

/// How many nodes, names, attributes and the like protobuf would make of it: each takes some 40 to 200 bytes of memory, and
/// perhaps two of the file.
std::size_t parts_in(std::string_view message, Part part, int depth = 0) {  // NOLINT(misc-no-recursion)
  constexpr int kDeepest = 100;                                             // protobuf's own
  std::size_t parts = 1;
  wire::Reader reader(message);
  while (part != Part::leaf && depth < kDeepest && !reader.at_end()) {
    const auto field = reader.next();
    if (!field) break;
    for (const auto& [outer, number, inner] : kParts) {
      if (outer == part && number == field->number) parts += parts_in(field->payload, inner, depth + 1);
    }
  }
  return parts;
}

std::unordered_set<std::string> values_without_node(const onnx::GraphProto& graph) {
  std::unordered_set<std::string> names;
  for (const auto& input : graph.input()) names.insert(input.name());
  for (const auto& initializer : graph.initializer()) names.insert(initializer.name());
  for (const auto& initializer : graph.sparse_initializer()) names.insert(initializer.values().name());
  return names;
}

std::unordered_map<std::string, int> makers_by_value(const onnx::GraphProto& graph,
                                                     const std::unordered_set<std::string>& given) {
  std::unordered_map<std::string, int> makers;
  for (int k = 0; k < graph.node_size(); ++k) {
    for (const std::string& output : graph.node(k).output()) {
      if (output.empty()) continue;
      const auto [place, fresh] = makers.try_emplace(output, k);
      if (!fresh) {
        throw InputError(node_place(graph.node(k)),
                         "makes " + quote(output) + ", which " + node_place(graph.node(place->second)) + " makes too");
      }
      if (given.contains(output)) {
        throw InputError(node_place(graph.node(k)),
                         "makes " + quote(output) + ", which is an input or initializer too");
      }
    }
  }
  return makers;
}

/// Kahn's algorithm, always taking the ready node that comes first in the file.
std::vector<int> topological_order(onnx::GraphProto& graph) {
  const auto given = values_without_node(graph);
  const auto makers = makers_by_value(graph, given);
  const auto node_count = static_cast<std::size_t>(graph.node_size());
  std::vector<std::vector<int>> readers(node_count);
  std::vector<int> waiting(node_count, 0);
  for (int k = 0; k < graph.node_size(); ++k) {
    visit_reads(*graph.mutable_node(k), [&](const std::string& input) {
      if (given.contains(input)) return;
      const auto maker = makers.find(input);
      if (maker == makers.end()) {
        throw InputError(node_place(graph.node(k)), "reads " + quote(input) + ", which nothing in the model makes");
      }
      readers[static_cast<std::size_t>(maker->second)].push_back(k);
      ++waiting[static_cast<std::size_t>(k)];
    });
  }
  std::priority_queue<int, std::vector<int>, std::greater<>> ready;
  for (std::size_t k = 0; k < node_count; ++k) {
    if (waiting[k] == 0) ready.push(static_cast<int>(k));
  }
  std::vector<int> order;
  while (!ready.empty()) {
    const int node = ready.top();
    ready.pop();
    order.push_back(node);
    for (const int reader : readers[static_cast<std::size_t>(node)]) {
      if (--waiting[static_cast<std::size_t>(reader)] == 0) ready.push(reader);
    }
  }
  for (std::size_t k = 0; k < node_count && order.size() < node_count; ++k) {
    if (waiting[k] > 0) throw InputError(node_place(graph.node(static_cast<int>(k))), "is on a cycle, or after one");
  }
  return order;
}

}  // namespace

onnx::ModelProto parse_model(std::string_view content) {
  if (content.empty()) throw InputError("", "the file is empty, not an ONNX model");
  constexpr int kLimit = std::numeric_limits<int>::max();
  if (content.size() >= static_cast<std::size_t>(kLimit)) {
    throw InputError("", "an ONNX file of 2 GiB or more cannot be parsed; save its weights as external data");
  }
  constexpr std::size_t kUsualParts = 1'000'000;
  constexpr std::size_t kBytesOfPart = 6;
  if (parts_in(content, Part::model) > std::max(kUsualParts, content.size() / kBytesOfPart)) {
    throw InputError("", "more parts than a model of this size has: it is damaged, or made to fill the memory");
  }
  google::protobuf::io::ArrayInputStream bytes(content.data(), static_cast<int>(content.size()));
  google::protobuf::io::CodedInputStream stream(&bytes);
  stream.SetTotalBytesLimit(kLimit);
  onnx::ModelProto model;
  if (!model.ParseFromCodedStream(&stream) || !stream.ConsumedEntireMessage()) {
    throw InputError(damage_place(content), "not a whole ONNX model: the file is truncated or damaged");
  }
  if (!model.has_graph()) throw InputError("graph", "missing: the file is truncated, or not an ONNX model");
  if (model.graph().node_size() == 0) throw InputError("graph.node", "the model has no nodes");
  return model;
}

std::int64_t default_opset(const onnx::ModelProto& model) {
  for (const auto& import : model.opset_import()) {
    if (!import.domain().empty() && import.domain() != "ai.onnx") continue;
    if (import.version() < 1 || import.version() > std::numeric_limits<int>::max()) {
      throw InputError("opset_import", "version " + std::to_string(import.version()) + " is not an operator set");
    }
    return import.version();
  }
  constexpr int kFirstWithImports = 3;
  if (model.ir_version() >= kFirstWithImports && model.opset_import_size() == 0) {
    throw InputError("opset_import", "missing: the file is truncated or damaged");
  }
  return 1;
}

std::string node_place(const onnx::NodeProto& node) {
  if (!node.name().empty()) return "node " + printable(node.name()) + " (" + printable(node.op_type()) + ")";
  for (const std::string& output : node.output()) {
    if (!output.empty()) return "node that makes " + quote(output) + " (" + printable(node.op_type()) + ")";
  }
  return "node without name (" + printable(node.op_type()) + ")";
}

void sort_nodes(onnx::GraphProto& graph) {
  const std::vector<int> order = topological_order(graph);
  google::protobuf::RepeatedPtrField<onnx::NodeProto> sorted;
  sorted.Reserve(graph.node_size());
  for (const int k : order) sorted.Add()->Swap(graph.mutable_node(k));
  graph.mutable_node()->Swap(&sorted);
}

onnx::ModelProto prepare_model(std::string_view content, std::vector<std::string>& warnings) {
  onnx::ModelProto model = parse_model(content);
  default_opset(model);
  inline_functions(model, warnings);
  sort_nodes(*model.mutable_graph());
  return model;
}

// set_dimensions of model_proto.hpp.

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

void check_values(const std::map<std::string, std::int64_t>& dimensions) {
  for (const auto& [name, value] : dimensions) {
    if (value < 0) throw InputError("--dim " + name, std::to_string(value) + " is negative");
  }
}

void check_all_used(const std::map<std::string, std::int64_t>& dimensions, const std::set<std::string>& used,
                    const std::set<std::string>& symbols, const std::set<std::string>& positions) {
  for (const auto& [name, value] : dimensions) {
    if (used.contains(name)) continue;
    const std::string present =
        symbols.empty() ? "the model has no symbolic dimensions; those of its inputs are " + list_text(positions)
                        : "the model has " + list_text(symbols);
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
