// SPDX-License-Identifier: Apache-2.0
#include "frontends/onnx/infer/shape_rules.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

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
      {"Einsum", {kAlways, einsum}},
      // Ops that came after opset 17.
      {"AffineGrid", {kAlways, affine_grid}},
      {"Attention", {kAlways, attention}},
      {"CenterCropPad", {kAlways, center_crop_pad}},
      {"Col2Im", {kAlways, column_to_image}},
      {"DeformConv", {kAlways, deformable_convolution}},
      {"RMSNormalization", {kAlways, layer_normalization}},
      // Known to libonnx in part.
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

namespace {

/// The axes that pads, shapes and the like speak of: all of them where none are given.
std::vector<std::size_t> axes_or_all(const std::optional<std::vector<std::int64_t>>& given, std::size_t rank) {
  std::vector<std::size_t> axes;
  if (given) {
    for (const std::int64_t axis : *given) axes.push_back(normalized_axis(axis, rank));
  } else {
    for (std::size_t axis = 0; axis < rank; ++axis) axes.push_back(axis);
  }
  return axes;
}

}  // namespace

/// Axes are input 1 from opset 18 on (ReduceSum: 13), an attribute before.
OutputTypes reduce(const RuleContext& context) {
  const TensorType& input = context.input(0);
  std::vector<std::int64_t> axes = context.attribute_list("axes");
  if (const auto given = context.integers(1)) axes = *given;
  if (axes.empty() && context.attribute("noop_with_empty_axes", 0) != 0) return {input};
  std::vector<bool> reduced(input.shape.size(), axes.empty());
  for (const std::int64_t axis : axes) reduced[normalized_axis(axis, input.shape.size())] = true;
  const bool keep = context.attribute("keepdims", 1) != 0;
  TensorType result{.data_type = input.data_type, .shape = {}};
  for (std::size_t axis = 0; axis < input.shape.size(); ++axis) {
    if (!reduced[axis]) {
      result.shape.push_back(input.shape[axis]);
    } else if (keep) {
      result.shape.push_back(1);
    }
  }
  return {result};
}

/// Lengths from input 1 (or, before opset 13, an attribute), else equal parts, the last one smaller (opset 18).
OutputTypes split(const RuleContext& context) {
  const TensorType& input = context.input(0);
  const std::size_t axis = normalized_axis(context.attribute("axis", 0), input.shape.size());
  std::vector<std::int64_t> lengths = context.attribute_list("split");
  if (const auto given = context.integers(1)) lengths = *given;
  if (lengths.empty()) {
    const std::int64_t parts = context.attribute("num_outputs", static_cast<std::int64_t>(context.output_count));
    if (parts < 1) throw InputError("", "cannot split into " + std::to_string(parts) + " parts");
    const std::int64_t length = (input.shape[axis] + parts - 1) / parts;
    std::int64_t left = input.shape[axis];
    for (std::size_t k = 0; k < context.output_count; ++k) {
      lengths.push_back(std::min(length, left));
      left -= lengths.back();
    }
  }
  OutputTypes result;
  std::int64_t total = 0;
  for (const std::int64_t length : lengths) {
    TensorType part = input;
    part.shape[axis] = length;
    total += length;
    result.push_back(part);
  }
  if (total != input.shape[axis]) {
    throw InputError("", "the parts' lengths sum to " + std::to_string(total) + ", the axis has " +
                             std::to_string(input.shape[axis]));
  }
  return result;
}

/// Pads from input 1 (or, before opset 11, an attribute); axes from input 3 (opset 18).
OutputTypes pad(const RuleContext& context) {
  TensorType result = context.input(0);
  std::vector<std::int64_t> pads = context.attribute_list("pads");
  if (const auto given = context.integers(1)) pads = *given;
  const std::vector<std::size_t> axes = axes_or_all(context.integers(3), result.shape.size());
  if (pads.size() != 2 * axes.size()) {
    throw InputError("", std::to_string(pads.size()) + " pads for " + std::to_string(axes.size()) + " axes");
  }
  for (std::size_t k = 0; k < axes.size(); ++k) result.shape[axes[k]] += pads[k] + pads[axes.size() + k];
  return {result};
}

/// Only for known elements: otherwise the count depends on the data.
OutputTypes non_zero(const RuleContext& context) {
  const TensorType& input = context.input(0);
  if (context.constants[0] == nullptr) throw InputError("", "the shape depends on the data");
  const Constant& constant = *context.constants[0];
  const auto nonzero = [](auto element) { return std::fpclassify(static_cast<double>(element)) != FP_ZERO; };
  const auto count = constant.real() ? std::count_if(constant.reals.begin(), constant.reals.end(), nonzero)
                                     : std::count_if(constant.integers.begin(), constant.integers.end(), nonzero);
  const auto rank = static_cast<std::int64_t>(input.shape.size());
  return {TensorType{.data_type = onnx::TensorProto::INT64, .shape = {rank, static_cast<std::int64_t>(count)}}};
}

OutputTypes center_crop_pad(const RuleContext& context) {
  TensorType result = context.input(0);
  const std::vector<std::int64_t> listed = context.attribute_list("axes");
  const auto axes = axes_or_all(listed.empty() ? std::nullopt : std::optional(listed), result.shape.size());
  const auto target = context.integers(1);
  if (!target || target->size() != axes.size()) throw InputError("", "the target shape does not fit the axes");
  for (std::size_t k = 0; k < axes.size(); ++k) result.shape[axes[k]] = (*target)[k];
  return {result};
}

OutputTypes range(const RuleContext& context) {
  double bounds[3];
  for (std::size_t k = 0; k < 3; ++k) {
    const Constant* const bound = context.has_input(k) ? context.constants[k] : nullptr;
    if (bound == nullptr || bound->size() != 1) throw InputError("", "the shape depends on the data");
    bounds[k] = bound->real() ? bound->reals[0] : static_cast<double>(bound->integers[0]);
  }
  const double count = std::ceil((bounds[1] - bounds[0]) / bounds[2]);
  constexpr double kMost = 1e15;
  if (!(std::abs(count) < kMost)) throw InputError("", "the range has no usable length");
  return {TensorType{.data_type = context.input(0).data_type,
                     .shape = {std::max<std::int64_t>(0, static_cast<std::int64_t>(count))}}};
}

}  // namespace remora::onnx_frontend
