// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>
#include <string_view>
#include <unordered_map>

#include "frontends/onnx/infer/type_inference.hpp"
#include "frontends/onnx/model/model_proto.hpp"
#include "onnx/defs/schema.h"
#include "onnx/onnx_pb.h"
#include "onnx/shape_inference/implementation.h"

namespace remora::onnx_frontend {
namespace {

/// Windows are read by the rank of the data, and steps divide.
std::string window_objection(const RuleContext& context) {
  if (!context.has_input(0)) return {};
  const std::size_t rank = context.inputs[0]->shape.size();
  for (const char* name : {"kernel_shape", "strides", "dilations"}) {
    const auto entries = context.node.attributes.get(name, Shape{});
    if (entries.empty()) continue;
    if (std::any_of(entries.begin(), entries.end(), [](std::int64_t entry) { return entry < 1; })) {
      return std::string(name) + " must be positive";
    }
    if (entries.size() + 2 != rank) {
      return std::string(name) + " does not fit data of shape " + shape_text(context.inputs[0]->shape);
    }
  }
  return {};
}

/// The window's extents come from the weights, the number of strides from the data.
std::string weights_objection(const RuleContext& context, std::size_t weights) {
  if (!context.has_input(0) || !context.has_input(weights)) return {};
  const Shape& data = context.inputs[0]->shape;
  const Shape& window = context.inputs[weights]->shape;
  if (data.size() != window.size()) {
    return "data of shape " + shape_text(data) + " and weights of shape " + shape_text(window) + " differ in rank";
  }
  return window_objection(context);
}

/// An index tuple longer than the data has axes.
std::string gather_objection(const RuleContext& context) {
  if (!context.has_input(0) || !context.has_input(1)) return {};
  const auto rank = static_cast<std::int64_t>(context.inputs[0]->shape.size());
  const Shape& indices = context.inputs[1]->shape;
  const std::int64_t batch_axes = context.node.attributes.get("batch_dims", std::int64_t{0});
  if (indices.empty() || batch_axes < 0 || batch_axes >= std::min(rank, static_cast<std::int64_t>(indices.size())) ||
      indices.back() < 1 || indices.back() > rank - batch_axes) {
    return "indices of shape " + shape_text(indices) + " do not fit data of rank " + std::to_string(rank);
  }
  return {};
}

/// Ops whose inference functions fail in more ways than are worth telling apart; shape_rules has the first two.
std::string unsafe(const RuleContext&) {
  return "libonnx has no safe shape rule for this op";
}

using Guard = std::string (*)(const RuleContext&);

}  // namespace

std::string schema_objection(const RuleContext& context) {
  static const std::map<std::string_view, Guard, std::less<>> kGuards{
      {"Conv", [](const RuleContext& node) { return weights_objection(node, 1); }},
      {"ConvInteger", [](const RuleContext& node) { return weights_objection(node, 1); }},
      {"ConvTranspose", [](const RuleContext& node) { return weights_objection(node, 1); }},
      {"QLinearConv", [](const RuleContext& node) { return weights_objection(node, 3); }},
      {"MaxPool", window_objection},
      {"AveragePool", window_objection},
      {"LpPool", window_objection},
      {"LayerNormalization", unsafe},
      {"MaxUnpool", unsafe},
      {"GatherND", gather_objection},
      {"STFT", unsafe},
  };
  const auto guard = kGuards.find(std::string_view(context.node.type));
  return guard == kGuards.end() ? std::string() : guard->second(context);
}

namespace {

onnx::TypeProto to_proto(const TensorType& type) {
  onnx::TypeProto proto;
  auto& tensor = *proto.mutable_tensor_type();
  tensor.set_elem_type(type.data_type);
  auto& shape = *tensor.mutable_shape();
  for (const std::int64_t extent : type.shape) shape.add_dim()->set_dim_value(extent);
  return proto;
}

std::optional<TensorType> full_type(const onnx::TypeProto& proto) {
  if (!proto.has_tensor_type() || !proto.tensor_type().has_shape()) return std::nullopt;
  TensorType type{.data_type = proto.tensor_type().elem_type()};
  if (!element_type(type.data_type)) return std::nullopt;
  for (const auto& dimension : proto.tensor_type().shape().dim()) {
    if (!dimension.has_dim_value() || dimension.dim_value() < 0) return std::nullopt;
    type.shape.push_back(dimension.dim_value());
  }
  return type;
}

/// The protobuf side of one node's inputs, which libonnx's context points into.
struct ProtoInputs {
  ProtoInputs(const onnx::NodeProto& node, const RuleContext& context) {
    for (int k = 0; k < node.input_size(); ++k) {
      const auto position = static_cast<std::size_t>(k);
      if (node.input(k).empty() || !context.has_input(position)) continue;
      types.emplace(node.input(k), to_proto(*context.inputs[position]));
      if (context.constants[position] != nullptr) {
        data.emplace(node.input(k), onnx_frontend::to_proto(*context.constants[position]));
      }
    }
    for (auto& [name, type] : types) type_pointers[name] = &type;
    for (const auto& [name, tensor] : data) data_pointers[name] = &tensor;
  }

  std::unordered_map<std::string, onnx::TypeProto> types;
  std::unordered_map<std::string, onnx::TensorProto> data;
  std::unordered_map<std::string, onnx::TypeProto*> type_pointers;
  std::unordered_map<std::string, const onnx::TensorProto*> data_pointers;
};

std::vector<bool> optional_outputs(const onnx::OpSchema& schema, std::size_t count) {
  std::vector<bool> optional(count, false);
  for (std::size_t k = 0; k < count && k < schema.outputs().size(); ++k) {
    optional[k] = schema.outputs()[k].GetOption() == onnx::OpSchema::Optional;
  }
  return optional;
}

/// Verify sees that no single input is left out, but not that none of a variadic list is; the inference functions then
/// follow a null pointer.
std::string missing_input(const onnx::OpSchema& schema, const RuleContext& context) {
  for (std::size_t k = 0; k < context.inputs.size(); ++k) {
    const std::size_t formal = std::min(k + 1, schema.inputs().size());
    if (formal == 0 || context.has_input(k)) continue;
    const auto& parameter = schema.inputs()[formal - 1];
    if (parameter.GetOption() == onnx::OpSchema::Optional) continue;
    return "input " + std::to_string(k) + " (" + parameter.GetName() + ") is left out";
  }
  return {};
}

/// Verify refuses a node for them, though what they say does not decide shapes (Cast's `saturate` of opset 19).
void remove_unknown_attributes(const onnx::OpSchema& schema, onnx::NodeProto& node) {
  auto& attributes = *node.mutable_attribute();
  for (int k = attributes.size(); k-- > 0;) {
    if (schema.attributes().count(attributes[k].name()) == 0) attributes.erase(attributes.begin() + k);
  }
}

void run(const onnx::OpSchema& schema, onnx::NodeProto& node, const ProtoInputs& inputs, SchemaAnswer& answer) {
  onnx::shape_inference::InferenceContextImpl context(node, inputs.type_pointers, inputs.data_pointers, {});
  try {
    schema.GetTypeAndShapeInferenceFunction()(context);
  } catch (const std::exception& error) {
    answer.failure = one_line(error.what());
    return;
  }
  for (const onnx::TypeProto& type : context.allOutputTypes_) {
    answer.not_a_tensor |= type.value_case() != onnx::TypeProto::VALUE_NOT_SET && !type.has_tensor_type();
    answer.outputs.push_back(full_type(type));
  }
  try {
    schema.CheckInputOutputType(context);
  } catch (const std::exception& error) {
    answer.complaint = one_line(error.what());
  }
}

}  // namespace

SchemaAnswer infer_by_schema(onnx::NodeProto& node, const RuleContext& context) {
  SchemaAnswer answer;
  const bool default_domain = node.domain().empty() || node.domain() == "ai.onnx";
  const int version = static_cast<int>(default_domain ? std::min(context.opset, kNewestKnownOpset) : context.opset);
  const onnx::OpSchema* const schema =
      onnx::OpSchemaRegistry::Schema(node.op_type(), version, default_domain ? std::string() : node.domain());
  if (schema == nullptr) return answer;
  answer.known = true;
  answer.optional_outputs = optional_outputs(*schema, static_cast<std::size_t>(node.output_size()));
  remove_unknown_attributes(*schema, node);
  try {
    schema->Verify(node);
  } catch (const std::exception& error) {
    // The inference functions are written for verified nodes.
    answer.failure = one_line(error.what());
    return answer;
  }
  answer.failure = missing_input(*schema, context);
  if (answer.failure.empty()) answer.failure = schema_objection(context);
  if (!answer.failure.empty()) return answer;
  const ProtoInputs inputs(node, context);
  run(*schema, node, inputs, answer);
  return answer;
}

}  // namespace remora::onnx_frontend
