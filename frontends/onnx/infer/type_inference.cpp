// SPDX-License-Identifier: Apache-2.0
#include "frontends/onnx/infer/type_inference.hpp"

#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <string_view>
#include <unordered_map>

#include "frontends/onnx/infer/schema_guards.hpp"
#include "frontends/onnx/model/model_proto.hpp"
#include "model/error.hpp"
#include "model/quote.hpp"
#include "onnx/defs/schema.h"
#include "onnx/onnx_pb.h"
#include "onnx/shape_inference/implementation.h"

namespace remora::onnx_frontend {
namespace {

/// The type that the file states for a value, if it is a tensor whose extents are all numbers.
std::optional<TensorType> stated_type(const onnx::ValueInfoProto& value) {
  if (!value.type().has_tensor_type() || !value.type().tensor_type().has_shape()) return std::nullopt;
  TensorType type{.data_type = value.type().tensor_type().elem_type()};
  if (!element_type(type.data_type)) return std::nullopt;
  for (const auto& dimension : value.type().tensor_type().shape().dim()) {
    if (!dimension.has_dim_value() || dimension.dim_value() < 0) return std::nullopt;
    type.shape.push_back(dimension.dim_value());
  }
  return type;
}

/// Bodies of ops that Remora does not know; libonnx must not be asked about them.
void refuse_bodies(const onnx::NodeProto& node) {
  if (has_bodies(node))
    throw InputError(node_place(node), "has a body, and is not If, Loop, Scan or ScanVarLen: no rule knows it");
}

[[noreturn]] void refuse_sequence(const onnx::NodeProto& node) {
  throw UnknownSize(
      node_place(node),
      "handles a sequence, an optional or a map, whose size is not known in advance; export the model so "
      "that it passes tensors (Split or Concat instead of sequence ops), or cut the graph before this node");
}

/// By name, because libonnx's rules for some of them are not safe to ask.
void refuse_sequence_ops(const onnx::NodeProto& node) {
  constexpr std::array<std::string_view, 12> kSequenceOps{"SequenceMap",    "SequenceConstruct",  "SequenceEmpty",
                                                          "SequenceInsert", "SequenceErase",      "SequenceAt",
                                                          "SequenceLength", "SplitToSequence",    "ConcatFromSequence",
                                                          "Optional",       "OptionalGetElement", "OptionalHasElement"};
  if (std::find(kSequenceOps.begin(), kSequenceOps.end(), node.op_type()) != kSequenceOps.end()) refuse_sequence(node);
}

/// True if every wanted output has a type.
bool complete(const OutputTypes& types, const std::vector<bool>& wanted) {
  for (std::size_t k = 0; k < wanted.size(); ++k) {
    if (wanted[k] && (k >= types.size() || !types[k])) return false;
  }
  return true;
}

/// Takes over from `other` what `types` lacks.
void fill(OutputTypes& types, const OutputTypes& other) {
  for (std::size_t k = 0; k < types.size() && k < other.size(); ++k) {
    if (!types[k]) types[k] = other[k];
  }
}

/// Why there is no shape.
struct Failure {
  std::string text{};
  /// The text says what to do about it.
  bool has_remedy = false;
  bool is_misfit = false;
};

void apply_rule(const ShapeRule& rule, const RuleContext& context, OutputTypes& types, Failure& failure) {
  try {
    fill(types, rule.infer(context));
  } catch (const ExtentOfData& error) {
    failure = {.text = error.what(), .has_remedy = true};
  } catch (const Misfit& error) {
    failure = {.text = error.what(), .is_misfit = true};
  } catch (const InputError& error) {
    if (failure.text.empty()) failure.text = error.what();
  }
}

std::string unknown_shape(const onnx::NodeProto& node, const OutputTypes& types, const std::vector<bool>& wanted,
                          const Failure& failure, const std::string& list_from) {
  if (failure.has_remedy) return failure.text;
  std::string text = failure.text.empty() ? std::string() : failure.text + "; so ";
  text += "the shape of its output";
  for (std::size_t k = 0; k < wanted.size(); ++k) {
    if (!wanted[k] || types[k]) continue;
    text += " " + quote(node.output(static_cast<int>(k)));
    break;
  }
  text += " is not known";
  if (!list_from.empty()) {
    return text + "; it depends on the elements of the model's input " + quote(list_from) +
           ": make that a constant, or state the shape in a value_info entry";
  }
  return text +
         "; state it in the file: run the model through onnx.shape_inference.infer_shapes or onnxsim with fixed input "
         "shapes, or add a value_info entry";
}

/// Extents that no memory holds would only overflow later; elements of no known width have no size.
void check_types(const onnx::NodeProto& node, const OutputTypes& types) {
  constexpr std::int64_t kMaximum = std::int64_t{1} << 40;
  for (const auto& type : types) {
    if (!type) continue;
    const auto elements = element_type(type->data_type);
    if (!elements) throw UnknownSize(node_place(node), data_type_name(type->data_type) + " elements have no size");
    for (const std::int64_t extent : type->shape) {
      if (extent >= 0 && extent <= kMaximum) continue;
      throw InputError(node_place(node), "its output has the impossible shape " + shape_text(type->shape));
    }
    try {
      byte_size(type->shape, *elements);
    } catch (const InputError& error) {
      throw InputError(node_place(node), error.what());
    }
  }
}

}  // namespace

TypeInference::TypeInference(const onnx::GraphProto& graph, std::int64_t opset) : opset_(opset) {
  const auto note = [&](const onnx::ValueInfoProto& value) {
    if (const auto type = stated_type(value)) stated_.insert_or_assign(value.name(), *type);
  };
  std::for_each(graph.output().begin(), graph.output().end(), note);
  std::for_each(graph.value_info().begin(), graph.value_info().end(), note);
}

std::vector<std::string> TypeInference::warnings() const {
  if (unconfirmed_.empty()) return warnings_;
  constexpr std::size_t kShown = 6;
  const auto shown = static_cast<std::ptrdiff_t>(std::min(kShown, unconfirmed_.size()));
  const std::vector<std::string> first(unconfirmed_.begin(), std::next(unconfirmed_.begin(), shown));
  std::string names = list_text(first, printable);
  if (unconfirmed_.size() > kShown) names += ", ...";
  std::vector<std::string> all{"opset " + std::to_string(opset_) + ": shapes of " + names +
                               " are those of opset 17, and the file does not state them (onnx.shape_inference does)"};
  all.insert(all.end(), warnings_.begin(), warnings_.end());
  return all;
}

InferredOutputs TypeInference::infer(onnx::NodeProto& node, const RuleContext& context, const std::vector<bool>& wanted,
                                     const BodyTypes* of_bodies) {
  refuse_sequence_ops(node);
  InferredOutputs result{.types = OutputTypes(context.output_count), .optional = {}};
  Failure failure;
  if (of_bodies != nullptr) {
    fill(result.types, of_bodies->types);
    failure = {.text = of_bodies->unknown, .has_remedy = !of_bodies->unknown.empty()};
  }
  const ShapeRule* const rule =
      of_bodies != nullptr ? nullptr : find_shape_rule(context.node.domain, context.node.type);
  const bool rule_first = rule != nullptr && context.opset >= rule->preferred_from;
  if (rule_first) apply_rule(*rule, context, result.types, failure);

  if (rule == nullptr && of_bodies == nullptr) refuse_bodies(node);
  const SchemaAnswer answer = of_bodies != nullptr ? SchemaAnswer() : infer_by_schema(node, context);
  if (answer.not_a_tensor) refuse_sequence(node);
  // An op that libonnx does not know may leave out all outputs but the first.
  result.optional = answer.optional_outputs;
  for (std::size_t k = result.optional.size(); k < context.output_count; ++k) {
    result.optional.push_back(k > 0 && of_bodies == nullptr);
  }
  if (!rule_first && of_bodies == nullptr) {
    fill(result.types, answer.outputs);
    failure.text = answer.failure;
    // Newer opsets allow more types (bfloat16 nearly everywhere), of which libonnx would complain.
    const bool known_opset = opset_ <= kNewestKnownOpset;
    if (known_opset && !answer.complaint.empty()) {
      warn_once("types of " + node.op_type(), node_place(node) + ": " + answer.complaint);
    }
    if (!known_opset) prefer_stated(node, result.types);
    const bool has_rule = rule != nullptr && !rule->checks_inputs;
    if (!known_opset && !has_rule && !complete(stated(node), wanted)) unconfirmed_.insert(node.op_type());
    if (has_rule && !complete(result.types, wanted)) apply_rule(*rule, context, result.types, failure);
  }
  if (!complete(result.types, wanted)) fall_back_to_stated(node, result.types, wanted);
  if (rule != nullptr && rule->checks_inputs && complete(result.types, wanted)) {
    OutputTypes unused(context.output_count);
    apply_rule(*rule, context, unused, failure);
  }
  if (failure.is_misfit && context.is_exact) throw InputError(node_place(node), failure.text);
  if (!complete(result.types, wanted)) {
    throw UnknownSize(node_place(node), unknown_shape(node, result.types, wanted, failure, context.list_from));
  }
  check_types(node, result.types);
  return result;
}

InferredOutputs TypeInference::infer_from_statements(const onnx::NodeProto& node) const {
  InferredOutputs result{.types = stated(node), .optional = {}};
  result.optional.resize(result.types.size());
  check_types(node, result.types);
  return result;
}

OutputTypes TypeInference::stated(const onnx::NodeProto& node) const {
  OutputTypes types(static_cast<std::size_t>(node.output_size()));
  for (std::size_t k = 0; k < types.size(); ++k) {
    const auto found = stated_.find(node.output(static_cast<int>(k)));
    if (found != stated_.end()) types[k] = found->second;
  }
  return types;
}

/// An op may have changed after the library's opset in a way that Remora's rules do not cover; the exporter knew.
void TypeInference::prefer_stated(const onnx::NodeProto& node, OutputTypes& types) {
  for (std::size_t k = 0; k < types.size(); ++k) {
    const auto stated = stated_.find(node.output(static_cast<int>(k)));
    if (!types[k] || stated == stated_.end() || types[k]->shape == stated->second.shape) continue;
    // Some exporters state 0 where they do not know.
    if (element_count(stated->second.shape) == 0) continue;
    warn_once("differs " + node.op_type(), node_place(node) + ": the file states " + shape_text(stated->second.shape) +
                                               ", opset 17 gives " + shape_text(types[k]->shape) +
                                               "; the file's shape is used");
    types[k] = stated->second;
  }
}

void TypeInference::fall_back_to_stated(const onnx::NodeProto& node, OutputTypes& types,
                                        const std::vector<bool>& wanted) {
  fill(types, stated(node));
  if (!complete(types, wanted)) return;
  warn_once("stated " + node.domain() + ":" + node.op_type(),
            node_place(node) + ": no shape rule; the shapes that the file states are used for ops of this type");
}

void TypeInference::warn_once(const std::string& key, const std::string& line) {
  if (warned_.insert(key).second) warnings_.push_back(line);
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

/// Verify refuses a node for them, though what they say does not decide shapes (Cast's `saturate` of opset 19).
void remove_unknown_attributes(const onnx::OpSchema& schema, onnx::NodeProto& node) {
  auto& attributes = *node.mutable_attribute();
  for (int k = attributes.size(); k-- > 0;) {
    if (schema.attributes().count(attributes[k].name()) == 0) attributes.erase(attributes.begin() + k);
  }
}

/// As ONNX 1.12 takes it, or with the options that later ones want (Debian 13's 1.17).
template <class Context>
Context context_of(onnx::NodeProto& node, const ProtoInputs& inputs) {
  const std::unordered_map<std::string, const onnx::SparseTensorProto*> sparse;
  if constexpr (requires { Context(node, inputs.type_pointers, inputs.data_pointers, sparse); }) {
    return Context(node, inputs.type_pointers, inputs.data_pointers, sparse);
  } else {
    return Context(node, inputs.type_pointers, inputs.data_pointers, sparse, onnx::ShapeInferenceOptions());
  }
}

void run(const onnx::OpSchema& schema, onnx::NodeProto& node, const ProtoInputs& inputs, SchemaAnswer& answer) {
  auto context = context_of<onnx::shape_inference::InferenceContextImpl>(node, inputs);
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
  answer.failure = schema_objection(*schema, node, context);
  if (!answer.failure.empty()) return answer;
  const ProtoInputs inputs(node, context);
  run(*schema, node, inputs, answer);
  return answer;
}

}  // namespace remora::onnx_frontend
