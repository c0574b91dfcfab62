// SPDX-License-Identifier: Apache-2.0
#include "frontends/onnx/model/function_inlining.hpp"

#include <algorithm>
#include <cstddef>
#include <map>
#include <unordered_map>
#include <unordered_set>

#include "frontends/onnx/model/model_names.hpp"
#include "frontends/onnx/model/model_proto.hpp"
#include "frontends/onnx/model/unique_names.hpp"
#include "model/error.hpp"

namespace remora::onnx_frontend {
namespace {

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

class Inliner {
 public:
  Inliner(const onnx::ModelProto& model, std::vector<std::string>& warnings)
      : fresh_values_(model), fresh_nodes_(fresh_values_) {
    for (const auto& function : model.functions()) {
      functions_.emplace(function_key(function.domain(), function.name()), &function);
      warn_about_version(model, function, warnings);
    }
  }

  void expand(const onnx::NodeProto& node) {
    const auto found = functions_.find(function_key(node.domain(), node.op_type()));
    if (found == functions_.end()) {
      if (result_.size() >= kMostNodes) throw InputError(node_place(node), "the model has too many nodes");
      *result_.Add() = node;
      return;
    }
    const onnx::FunctionProto& function = *found->second;
    if (std::find(open_calls_.begin(), open_calls_.end(), &function) != open_calls_.end()) {
      throw InputError(node_place(node), "the model's function " + function.name() + " calls itself");
    }
    open_calls_.push_back(&function);
    for (const onnx::NodeProto& body_node : instantiate(node, function)) expand(body_node);
    open_calls_.pop_back();
  }

  google::protobuf::RepeatedPtrField<onnx::NodeProto> take() { return std::move(result_); }

 private:
  static constexpr int kMostNodes = 10'000'000;

  static void warn_about_version(const onnx::ModelProto& model, const onnx::FunctionProto& function,
                                 std::vector<std::string>& warnings) {
    for (const auto& import : function.opset_import()) {
      const bool default_domain = import.domain().empty() || import.domain() == "ai.onnx";
      if (!default_domain || import.version() == default_opset(model)) continue;
      warnings.push_back("function " + function.name() + " states opset " + std::to_string(import.version()) +
                         ", the model " + std::to_string(default_opset(model)) + "; the model's is used");
    }
  }

  /// The body of `function` with the values and attributes of one call.
  std::vector<onnx::NodeProto> instantiate(const onnx::NodeProto& call, const onnx::FunctionProto& function) {
    const std::string prefix = call_names_.make(call_name(call));
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
    for (onnx::NodeProto& node : body) {
      if (!node.name().empty()) node.set_name(fresh_nodes_.make(prefix + "/" + node.name()));
      for (std::string& input : *node.mutable_input()) rename(input);
      for (std::string& output : *node.mutable_output()) rename(output);
      resolve_attributes(node, attributes);
    }
    return body;
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

  std::unordered_map<std::string, const onnx::FunctionProto*> functions_;
  std::vector<const onnx::FunctionProto*> open_calls_;
  UniqueNames call_names_;
  /// Two, because a value and a node may share a name, as they often do in functions.
  FreshNames fresh_values_;
  FreshNames fresh_nodes_;
  google::protobuf::RepeatedPtrField<onnx::NodeProto> result_;
};

}  // namespace

void inline_functions(onnx::ModelProto& model, std::vector<std::string>& warnings) {
  if (model.functions_size() == 0) return;
  Inliner inliner(model, warnings);
  for (const onnx::NodeProto& node : model.graph().node()) inliner.expand(node);
  *model.mutable_graph()->mutable_node() = inliner.take();
}

}  // namespace remora::onnx_frontend
