// SPDX-License-Identifier: Apache-2.0
#include "frontends/onnx/infer/shape_rules.hpp"

#include <algorithm>
#include <limits>
#include <map>

#include "frontends/onnx/infer/shape_rule_functions.hpp"
#include "model/error.hpp"
#include "onnx/onnx_pb.h"

namespace remora::onnx_frontend {
namespace {

/// Opsets count from 1, so such a rule never gives way to libonnx's.
constexpr std::int64_t kAlways = 1;
/// Only where libonnx gives no shape.
constexpr std::int64_t kFallback = std::numeric_limits<std::int64_t>::max();

/// Far beyond any real extent, and small enough for products of two to stay within 64 bits.
std::int64_t checked(std::int64_t amount) {
  constexpr std::int64_t kMost = std::int64_t{1} << 31;
  if (amount > kMost || amount < -kMost) throw InputError("", std::to_string(amount) + " is beyond any real extent");
  return amount;
}

using RuleTable = std::map<std::string_view, ShapeRule, std::less<>>;

RuleTable default_domain_rules() {
  RuleTable table{
      // Definitions that changed after opset 17.
      {"Split", {18, split}},
      {"Pad", {18, pad}},
      {"Resize", {18, resize}},
      {"AveragePool", {19, pool}},
      {"LpPool", {18, pool}},
      {"MaxPool", {22, pool}},
      {"GridSample", {20, grid_sample}},
      {"QuantizeLinear", {19, quantize}},
      {"DequantizeLinear", {19, dequantize}},
      {"GroupNormalization", {kAlways, same_as_first}},
      // Ops that libonnx must not be asked about (schema_guards.hpp).
      {"LayerNormalization", {kAlways, layer_normalization}},
      {"MaxUnpool", {kAlways, unpool}},
      // Ops that came after opset 17.
      {"AffineGrid", {kAlways, affine_grid}},
      {"Attention", {kAlways, attention}},
      {"CenterCropPad", {kAlways, center_crop_pad}},
      {"Col2Im", {kAlways, column_to_image}},
      {"DeformConv", {kAlways, deformable_convolution}},
      {"RMSNormalization", {kAlways, layer_normalization}},
      // Known to libonnx in part.
      {"Einsum", {kFallback, einsum}},
      {"MatMul", {kFallback, matrix_product}},
      {"NonZero", {kFallback, non_zero}},
      {"Range", {kFallback, range}},
  };
  for (const char* op : {"ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2", "ReduceLogSum",
                         "ReduceLogSumExp", "ReduceSumSquare"}) {
    table.insert({op, {18, reduce}});
  }
  table.insert({"ReduceSum", {kFallback, reduce}});
  for (const char* op : {"Gelu", "Mish", "Swish", "RotaryEmbedding", "TensorScatter", "CumProd"}) {
    table.insert({op, {kAlways, same_as_first}});
  }
  for (const char* op : {"BitwiseAnd", "BitwiseOr", "BitwiseXor"}) table.insert({op, {kAlways, broadcast}});
  table.insert({"BitwiseNot", {kAlways, same_as_first}});
  for (const char* op : {"Relu",
                         "LeakyRelu",
                         "PRelu",
                         "Elu",
                         "Celu",
                         "Selu",
                         "ThresholdedRelu",
                         "Sigmoid",
                         "HardSigmoid",
                         "HardSwish",
                         "Tanh",
                         "Softplus",
                         "Softsign",
                         "Softmax",
                         "LogSoftmax",
                         "Hardmax",
                         "Clip",
                         "Exp",
                         "Log",
                         "Sqrt",
                         "Abs",
                         "Neg",
                         "Erf",
                         "Identity",
                         "Dropout",
                         "LRN",
                         "LpNormalization",
                         "Shrink",
                         "BatchNormalization",
                         "InstanceNormalization",
                         "MeanVarianceNormalization",
                         "Reciprocal",
                         "Floor",
                         "Ceil",
                         "Round",
                         "Sign",
                         "Trilu",
                         "CumSum",
                         "ScatterElements",
                         "ScatterND"}) {
    table.insert({op, {kFallback, same_as_first}});
  }
  for (const char* op : {"Add", "Sub", "Mul", "Div", "Pow", "Mod", "Min", "Max", "Sum", "Mean"}) {
    table.insert({op, {kFallback, broadcast}});
  }
  return table;
}

RuleTable microsoft_rules() {
  RuleTable table;
  for (const char* op :
       {"Gelu", "FastGelu", "BiasGelu", "QuickGelu", "RotaryEmbedding", "GroupNorm", "SkipGroupNorm"}) {
    table.insert({op, {kAlways, same_as_first}});
  }
  for (const char* op :
       {"SimplifiedLayerNormalization", "SkipLayerNormalization", "SkipSimplifiedLayerNormalization"}) {
    table.insert({op, {kAlways, layer_normalization}});
  }
  table.insert({"FusedMatMul", {kAlways, matrix_product}});
  return table;
}

}  // namespace

const TensorType& RuleContext::input(std::size_t k) const {
  if (!has_input(k)) throw InputError("", "input " + std::to_string(k) + " is missing");
  return *inputs[k];
}

std::optional<std::vector<std::int64_t>> RuleContext::integers(std::size_t k) const {
  if (!has_input(k)) return std::nullopt;
  if (constants[k] == nullptr || constants[k]->real()) {
    throw InputError("", "input " + std::to_string(k) + " is not a known integer constant");
  }
  for (const std::int64_t element : constants[k]->integers) checked(element);
  return constants[k]->integers;
}

std::int64_t RuleContext::attribute(std::string_view name, std::int64_t otherwise) const {
  return checked(node.attributes.get(name, otherwise));
}

std::vector<std::int64_t> RuleContext::attribute_list(std::string_view name) const {
  std::vector<std::int64_t> list = node.attributes.get(name, std::vector<std::int64_t>{});
  for (const std::int64_t element : list) checked(element);
  return list;
}

std::size_t normalized_axis(std::int64_t axis, std::size_t rank) {
  const auto signed_rank = static_cast<std::int64_t>(rank);
  if (axis < -signed_rank || axis >= signed_rank) {
    throw InputError("", "axis " + std::to_string(axis) + " is outside a tensor of rank " + std::to_string(rank));
  }
  return static_cast<std::size_t>(axis < 0 ? axis + signed_rank : axis);
}

const ShapeRule* find_shape_rule(std::string_view domain, std::string_view op_type) {
  static const RuleTable kDefaultDomain = default_domain_rules();
  static const RuleTable kMicrosoft = microsoft_rules();
  const bool default_domain = domain.empty() || domain == "ai.onnx";
  if (!default_domain && domain != "com.microsoft") return nullptr;
  const RuleTable& table = default_domain ? kDefaultDomain : kMicrosoft;
  const auto found = table.find(op_type);
  return found == table.end() ? nullptr : &found->second;
}

OutputTypes same_as_first(const RuleContext& context) {
  return {context.input(0)};
}

OutputTypes broadcast(const RuleContext& context) {
  Shape result;
  for (std::size_t k = 0; k < context.inputs.size(); ++k) {
    const Shape& shape = context.input(k).shape;
    if (shape.size() > result.size()) result.insert(result.begin(), shape.size() - result.size(), 1);
    const std::size_t offset = result.size() - shape.size();
    for (std::size_t axis = 0; axis < shape.size(); ++axis) {
      std::int64_t& extent = result[offset + axis];
      if (extent != shape[axis] && extent != 1 && shape[axis] != 1) {
        throw InputError(
            "", "shapes " + shape_text(context.input(0).shape) + " and " + shape_text(shape) + " do not broadcast");
      }
      if (extent == 1) extent = shape[axis];
    }
  }
  return {TensorType{.data_type = context.input(0).data_type, .shape = result}};
}

/// Y like X; mean and inverse deviation (float) over the axes from `axis` on. SkipLayerNormalization's fourth output
/// is the sum of its inputs.
OutputTypes layer_normalization(const RuleContext& context) {
  const TensorType& input = context.input(0);
  const std::size_t axis = normalized_axis(context.attribute("axis", -1), input.shape.size());
  Shape statistics = input.shape;
  std::fill(statistics.begin() + static_cast<std::ptrdiff_t>(axis), statistics.end(), 1);
  const TensorType statistic{.data_type = onnx::TensorProto::FLOAT, .shape = statistics};
  return {input, statistic, statistic, input};
}

OutputTypes quantize(const RuleContext& context) {
  TensorType type = context.input(0);
  const std::int64_t wanted = context.attribute("output_dtype", 0);
  if (wanted != 0) {
    type.data_type = static_cast<int>(wanted);
  } else {
    type.data_type = context.has_input(2) ? context.input(2).data_type : static_cast<int>(onnx::TensorProto::UINT8);
  }
  return {type};
}

OutputTypes dequantize(const RuleContext& context) {
  const std::int64_t wanted = context.attribute("output_dtype", context.input(1).data_type);
  return {TensorType{.data_type = static_cast<int>(wanted == 0 ? context.input(1).data_type : wanted),
                     .shape = context.input(0).shape}};
}

}  // namespace remora::onnx_frontend
