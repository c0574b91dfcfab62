// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <unordered_map>
#include <unordered_set>

#include "frontends/onnx/model/model_proto.hpp"
#include "frontends/onnx/model/network.hpp"
#include "model/error.hpp"
#include "model/quote.hpp"
#include "onnx/onnx_pb.h"

namespace remora::onnx_frontend {
namespace {

using Nodes = google::protobuf::RepeatedPtrField<onnx::NodeProto>;
using AttributeTable = std::map<std::string, onnx::AttributeProto>;

std::string function_key(const std::string& domain, const std::string& name) {
  return (domain == "ai.onnx" ? std::string() : domain) + ":" + name;
}

/// Default values of a function's attributes: FunctionProto.attribute_proto, field 11, newer than libonnx 1.12, which
/// therefore keeps it among the unknown fields.
AttributeTable attribute_defaults(const onnx::FunctionProto& function) {
  constexpr int kAttributeProtoField = 11;
  AttributeTable defaults;
  const auto& unknown = function.GetReflection()->GetUnknownFields(function);
  for (int k = 0; k < unknown.field_count(); ++k) {
    const auto& field = unknown.field(k);
    if (field.number() != kAttributeProtoField) continue;
    if (field.type() != google::protobuf::UnknownField::TYPE_LENGTH_DELIMITED) continue;
    onnx::AttributeProto attribute;
    if (attribute.ParseFromString(field.length_delimited())) defaults[attribute.name()] = attribute;
  }
  return defaults;
}

/// How much larger a model may grow by its functions: by as many nodes and calls as there are ops in a large graph, and
/// to 256 MiB more than twice the file. Modules of real models are nested a few dozen deep.
constexpr std::int64_t kMaxGrowth = 1'000'000;
constexpr std::size_t kMaxBytes = std::size_t{1} << 28;
constexpr int kDeepestCalls = 200;

/// The size of a call before anything is written: the number of nodes and calls within it, itself included, and the
/// depth of nested calls.
struct CallSize {
  std::int64_t count = 1;
  int depth = 1;
};

using Functions = std::unordered_map<std::string, const onnx::FunctionProto*>;

/// Calls `visit` with every graph that is an attribute of the node. Those within them are its own business.
template <class Visit>
void visit_bodies(onnx::NodeProto& node, const Visit& visit) {
  for (onnx::AttributeProto& attribute : *node.mutable_attribute()) {
    if (attribute.has_g()) visit(*attribute.mutable_g());
    for (onnx::GraphProto& body : *attribute.mutable_graphs()) visit(body);
  }
}

/// Null where the node is of a standard op.
const onnx::FunctionProto* called(const Functions& functions, const onnx::NodeProto& node) {
  const auto found = functions.find(function_key(node.domain(), node.op_type()));
  return found == functions.end() ? nullptr : found->second;
}

/// Sizes of calls, each function looked at once. Recursion is no deeper than kDeepestCalls.
class CallSizes {
 public:
  explicit CallSizes(const Functions& functions) : functions_(functions) {}

  /// Throws InputError for functions that call themselves or are nested too deep. Sums end above kMaxGrowth.
  CallSize of(const onnx::NodeProto& call, const onnx::FunctionProto& function) {  // NOLINT(misc-no-recursion)
    const auto [place, is_new] = sizes_.try_emplace(&function);
    if (!is_new) {
      if (!place->second) {
        throw InputError(node_place(call), "the model's function " + printable(function.name()) + " calls itself");
      }
      return *place->second;
    }
    if (++open_ > kDeepestCalls) throw too_deep(call);
    CallSize size = of(function.node());
    size.count = std::min(size.count + 1, kMaxGrowth + 1);
    ++size.depth;
    --open_;
    if (size.depth > kDeepestCalls) throw too_deep(call);
    sizes_.insert_or_assign(&function, size);
    return size;
  }

  /// The size of a list of nodes, with those in their bodies.
  CallSize of(const Nodes& nodes) {  // NOLINT(misc-no-recursion)
    CallSize size{0, 0};
    const auto add = [&](const CallSize& part) {
      size.count = std::min(size.count + part.count, kMaxGrowth + 1);
      size.depth = std::max(size.depth, part.depth);
    };
    visit_nodes(nodes, [&](const onnx::NodeProto& node) {
      const onnx::FunctionProto* const inner = called(functions_, node);
      add(inner == nullptr ? CallSize{1, 0} : of(node, *inner));
    });
    return size;
  }

 private:
  static InputError too_deep(const onnx::NodeProto& call) {
    return {node_place(call), "calls of the model's functions are nested deeper than " + std::to_string(kDeepestCalls)};
  }

  const Functions& functions_;
  /// None while a function is looked at.
  std::unordered_map<const onnx::FunctionProto*, std::optional<CallSize>> sizes_;
  int open_ = 0;
};

class Inliner {
 public:
  Inliner(const onnx::ModelProto& model, std::vector<std::string>& warnings)
      : most_bytes_(kMaxBytes + 2 * model.ByteSizeLong()), fresh_values_(model), fresh_nodes_(fresh_values_) {
    for (const auto& function : model.functions()) {
      functions_.emplace(function_key(function.domain(), function.name()), &function);
      warn_about_version(model, function, warnings);
    }
  }

  /// Throws InputError, before anything is written, where the calls of these nodes come to too much.
  void check_growth(const Nodes& nodes) const {
    CallSizes sizes(functions_);
    std::int64_t growth = 0;
    visit_nodes(nodes, [&](const onnx::NodeProto& node) {
      const onnx::FunctionProto* const function = called(functions_, node);
      if (function != nullptr) growth += sizes.of(node, *function).count;
      if (growth <= kMaxGrowth) return;
      throw InputError(node_place(node), "the model's functions, written out, have more than " +
                                             std::to_string(kMaxGrowth) + " nodes and calls");
    });
  }

  /// Recursion is as deep as check_growth allows.
  void expand_all(Nodes& nodes) {  // NOLINT(misc-no-recursion)
    Nodes expanded;
    for (onnx::NodeProto& node : nodes) expand(node, expanded);
    nodes.Swap(&expanded);
  }

 private:
  void expand(onnx::NodeProto& node, Nodes& expanded) {  // NOLINT(misc-no-recursion)
    const onnx::FunctionProto* const function = called(functions_, node);
    if (function != nullptr) {
      for (onnx::NodeProto& body_node : instantiate(node, *function)) expand(body_node, expanded);
      return;
    }
    count_bytes(node, node.ByteSizeLong());
    visit_bodies(node, [&](onnx::GraphProto& body) { expand_all(*body.mutable_node()); });
    expanded.Add()->Swap(&node);
  }

  /// Names of calls in calls are long, and a body may hold data.
  void count_bytes(const onnx::NodeProto& node, std::size_t bytes) {
    bytes_ += bytes;
    if (bytes_ <= most_bytes_) return;
    throw InputError(node_place(node), "the model's functions, written out, exceed twice the file and 256 MiB");
  }

  static void warn_about_version(const onnx::ModelProto& model, const onnx::FunctionProto& function,
                                 std::vector<std::string>& warnings) {
    for (const auto& import : function.opset_import()) {
      const bool default_domain = import.domain().empty() || import.domain() == "ai.onnx";
      if (!default_domain || import.version() == default_opset(model)) continue;
      warnings.push_back("function " + printable(function.name()) + " states opset " +
                         std::to_string(import.version()) + ", the model " + std::to_string(default_opset(model)) +
                         "; the model's is used");
    }
  }

  /// The body of `function` with the values and attributes of one call.
  std::vector<onnx::NodeProto> instantiate(const onnx::NodeProto& call, const onnx::FunctionProto& function) {
    const std::string prefix = call_names_.make(call_name(call));
    count_bytes(call, call.ByteSizeLong() + prefix.size());
    std::unordered_map<std::string, std::string> renamed;
    for (int k = 0; k < function.input_size(); ++k) {
      renamed[function.input(k)] = k < call.input_size() ? call.input(k) : std::string();
    }
    for (int k = 0; k < function.output_size(); ++k) {
      // An output that is an input too would need a copy; ONNX does not allow it.
      if (k < call.output_size() && !call.output(k).empty()) renamed[function.output(k)] = call.output(k);
    }
    AttributeTable attributes = attribute_defaults(function);
    for (const auto& attribute : call.attribute()) attributes[attribute.name()] = attribute;

    const auto rename = [&](std::string& value) {
      if (value.empty()) return;
      const auto [place, fresh] = renamed.try_emplace(value);
      if (fresh) place->second = fresh_values_.make(prefix + "/" + value);
      value = place->second;
    };
    std::vector<onnx::NodeProto> body(function.node().begin(), function.node().end());
    for (onnx::NodeProto& node : body) bind(node, prefix, rename, attributes);
    return body;
  }

  /// Gives the node the names and attributes of one call. What its bodies define is renamed as well: the names of the call's own values
  /// may stand there.
  template <class Rename>
  void bind(onnx::NodeProto& node, const std::string& prefix, const Rename& rename,  // NOLINT(misc-no-recursion)
            const AttributeTable& attributes) {
    if (!node.name().empty()) node.set_name(fresh_nodes_.make(prefix + "/" + node.name()));
    for (std::string& input : *node.mutable_input()) rename(input);
    for (std::string& output : *node.mutable_output()) rename(output);
    resolve_attributes(node, attributes);
    visit_bodies(node, [&](onnx::GraphProto& graph) {
      for (auto* const values : {graph.mutable_input(), graph.mutable_output(), graph.mutable_value_info()}) {
        for (onnx::ValueInfoProto& value : *values) rename(*value.mutable_name());
      }
      for (onnx::TensorProto& tensor : *graph.mutable_initializer()) rename(*tensor.mutable_name());
      for (onnx::SparseTensorProto& tensor : *graph.mutable_sparse_initializer()) {
        rename(*tensor.mutable_values()->mutable_name());
      }
      for (onnx::NodeProto& inner : *graph.mutable_node()) bind(inner, prefix, rename, attributes);
    });
  }

  static std::string call_name(const onnx::NodeProto& call) {
    if (!call.name().empty()) return call.name();
    return call.output_size() > 0 && !call.output(0).empty() ? call.output(0) : call.op_type();
  }

  /// Replaces references to the function's attributes by their values; one without value is left out.
  static void resolve_attributes(onnx::NodeProto& node, const AttributeTable& attributes) {
    google::protobuf::RepeatedPtrField<onnx::AttributeProto> resolved;
    for (const auto& attribute : node.attribute()) {
      if (attribute.ref_attr_name().empty()) {
        *resolved.Add() = attribute;
        continue;
      }
      const auto found = attributes.find(attribute.ref_attr_name());
      if (found == attributes.end()) continue;
      onnx::AttributeProto& value = *resolved.Add();
      value = found->second;
      value.set_name(attribute.name());
    }
    node.mutable_attribute()->Swap(&resolved);
  }

  Functions functions_;
  std::size_t bytes_ = 0;
  std::size_t most_bytes_;
  UniqueNames call_names_;
  /// Two, because a value and a node may share a name, as they often do in functions.
  FreshNames fresh_values_;
  FreshNames fresh_nodes_;
};

}  // namespace

void inline_functions(onnx::ModelProto& model, std::vector<std::string>& warnings) {
  if (model.functions_size() == 0) return;
  Inliner inliner(model, warnings);
  inliner.check_growth(model.graph().node());
  inliner.expand_all(*model.mutable_graph()->mutable_node());
}

}  // namespace remora::onnx_frontend
