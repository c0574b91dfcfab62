// SPDX-License-Identifier: Apache-2.0
#include "frontends/onnx/infer/shape_rules.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <utility>

#include "frontends/onnx/model/elementwise.hpp"
#include "model/error.hpp"
#include "model/types.hpp"
#include "onnx/onnx_pb.h"

namespace remora::onnx_frontend {
namespace {

/// Opsets count from 1, so such a rule never gives way to libonnx's.
constexpr std::int64_t kAlways = 1;
/// Only where libonnx gives no shape.
constexpr std::int64_t kFallback = std::numeric_limits<std::int64_t>::max();

/// Far beyond any real extent, and small enough for products of two to stay within 64 bits.
std::int64_t checked(std::int64_t amount) {
  constexpr std::int64_t kMaximum = std::int64_t{1} << 31;
  if (amount > kMaximum || amount < -kMaximum)
    throw InputError("", std::to_string(amount) + " is beyond any real extent");
  return amount;
}

using ShapeRules = std::map<std::string_view, ShapeRule, std::less<>>;

ShapeRules default_domain_rules() {
  ShapeRules table{
      // Definitions that changed after opset 17.
      {"Split", {18, split}},
      {"Pad", {18, pad}},
      {"Resize", {18, resize}},
      {"AveragePool", {kAlways, pool}},
      {"LpPool", {kAlways, pool}},
      {"MaxPool", {kAlways, pool}},
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
      {"DeformConv", {kAlways, convolution}},
      {"RMSNormalization", {kAlways, layer_normalization}},
      // Known to libonnx in part.
      {"Cast", {kFallback, cast}},
      {"GatherND", {kFallback, gather_nd}},
      {"GreaterOrEqual", {kFallback, compare}},
      {"LessOrEqual", {kFallback, compare}},
      {"Concat", {kFallback, concat, true}},
      {"Conv", {kFallback, convolution, true}},
      {"Gemm", {kFallback, gemm, true}},
      {"MatMul", {kFallback, matrix_product}},
      {"OneHot", {kFallback, one_hot}},
      {"Slice", {kFallback, slice}},
      {"Squeeze", {kFallback, squeeze}},
      {"STFT", {kAlways, stft}},
      // Whose shapes depend on data, where those are not known.
      {"Compress", {kAlways, compress}},
      {"NonMaxSuppression", {kAlways, non_max_suppression}},
      {"NonZero", {kFallback, non_zero}},
      {"Unique", {kAlways, unique}},
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
  for (const char* op :
       {"Softmax", "LogSoftmax", "Hardmax", "LRN", "LpNormalization", "BatchNormalization", "InstanceNormalization",
        "MeanVarianceNormalization", "Trilu", "CumSum", "ScatterElements", "ScatterND"}) {
    table.insert({op, {kFallback, same_as_first}});
  }
  for (const char* op : kMappedOps) table.insert({op, {kFallback, same_as_first}});
  for (const char* op : kArithmeticOps) table.insert({op, {kFallback, broadcast}});
  return table;
}

ShapeRules microsoft_rules() {
  ShapeRules table;
  for (const char* op :
       {"Gelu", "FastGelu", "BiasGelu", "QuickGelu", "RotaryEmbedding", "GroupNorm", "SkipGroupNorm"}) {
    table.insert({op, {kAlways, same_as_first}});
  }
  for (const char* op :
       {"SimplifiedLayerNormalization", "SkipLayerNormalization", "SkipSimplifiedLayerNormalization"}) {
    table.insert({op, {kAlways, layer_normalization}});
  }
  for (const char* op : {"QLinearSigmoid", "QLinearLeakyRelu", "QLinearSoftmax", "BiasAdd", "BiasSoftmax"}) {
    table.insert({op, {kAlways, same_as_first}});
  }
  table.insert({"FusedGemm", {kAlways, gemm}});
  for (const char* op : {"FusedMatMul", "TransposeMatMul"}) table.insert({op, {kAlways, matrix_product}});
  for (const char* op : {"QLinearAdd", "QLinearMul"}) table.insert({op, {kAlways, quantized_broadcast}});
  table.merge(ShapeRules{{"Attention", {kAlways, fused_attention}},
                         {"MultiHeadAttention", {kAlways, multi_head_attention}},
                         {"GroupQueryAttention", {kAlways, group_query_attention}},
                         {"EmbedLayerNormalization", {kAlways, embedding_normalization}},
                         {"MatMulNBits", {kAlways, low_bit_product}},
                         {"FusedConv", {kAlways, convolution}},
                         {"QLinearAveragePool", {kAlways, pool}},
                         {"QLinearGlobalAveragePool", {kAlways, global_pool}},
                         {"QLinearConcat", {kAlways, quantized_concat}}});
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

std::optional<std::int64_t> RuleContext::integer(std::size_t k) const {
  const auto list = integers(k);
  if (!list) return std::nullopt;
  if (list->size() != 1) throw InputError("", "input " + std::to_string(k) + " must be one number");
  return list->front();
}

std::int64_t RuleContext::attribute(std::string_view name, std::int64_t otherwise) const {
  return checked(node.attributes.get(name, otherwise));
}

std::vector<std::int64_t> RuleContext::attribute_list(std::string_view name) const {
  std::vector<std::int64_t> list = node.attributes.get(name, std::vector<std::int64_t>{});
  for (const std::int64_t element : list) checked(element);
  return list;
}

std::optional<std::int64_t> RuleContext::user_bound() const {
  if (bound && needs_bound != nullptr) *needs_bound = true;
  return bound;
}

std::int64_t RuleContext::extent_of_data(std::int64_t most) const {
  if (const auto given = user_bound()) return std::min(*given, most);
  throw ExtentOfData("", "the shape depends on the data; give an upper bound with --bound " + node.type + "=N");
}

std::size_t normalized_axis(std::int64_t axis, std::size_t rank) {
  if (const auto position = axis_of(axis, rank)) return *position;
  throw InputError("", "axis " + std::to_string(axis) + " is outside a tensor of rank " + std::to_string(rank));
}

const ShapeRule* find_shape_rule(std::string_view domain, std::string_view op_type) {
  static const ShapeRules kDefaultDomain = default_domain_rules();
  static const ShapeRules kMicrosoft = microsoft_rules();
  static const ShapeRules kPreview{{"FlexAttention", {kAlways, attention}}};
  static const ShapeRules kNone;
  const ShapeRules& table = domain.empty() || domain == "ai.onnx" ? kDefaultDomain
                            : domain == "com.microsoft"           ? kMicrosoft
                            : domain == "ai.onnx.preview"         ? kPreview
                                                                  : kNone;
  const auto found = table.find(op_type);
  return found == table.end() ? nullptr : &found->second;
}

OutputTypes same_as_first(const RuleContext& context) {
  return {context.input(0)};
}

OutputTypes cast(const RuleContext& context) {
  TensorType type = context.input(0);
  type.data_type = static_cast<int>(context.attribute("to", 0));
  return {type};
}

OutputTypes compare(const RuleContext& context) {
  OutputTypes result = broadcast(context);
  result[0]->data_type = onnx::TensorProto::BOOL;
  return result;
}

Shape broadcast_shape(const std::vector<const Shape*>& shapes) {
  Shape result;
  for (const Shape* const shape : shapes) {
    if (shape->size() > result.size()) result.insert(result.begin(), shape->size() - result.size(), 1);
    const std::size_t offset = result.size() - shape->size();
    for (std::size_t axis = 0; axis < shape->size(); ++axis) {
      std::int64_t& extent = result[offset + axis];
      if (extent != (*shape)[axis] && extent != 1 && (*shape)[axis] != 1) {
        throw Misfit("", "shapes " + shape_text(*shapes.front()) + " and " + shape_text(*shape) + " do not broadcast");
      }
      if (extent == 1) extent = (*shape)[axis];
    }
  }
  return result;
}

OutputTypes broadcast(const RuleContext& context) {
  std::vector<const Shape*> shapes;
  for (std::size_t k = 0; k < context.inputs.size(); ++k) shapes.push_back(&context.input(k).shape);
  return {TensorType{.data_type = context.input(0).data_type, .shape = broadcast_shape(shapes)}};
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

/// com.microsoft: tensor, scale and zero point of one operand, then of the other.
OutputTypes quantized_broadcast(const RuleContext& context) {
  return {TensorType{.data_type = context.input(0).data_type,
                     .shape = broadcast_shape({&context.input(0).shape, &context.input(3).shape})}};
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

/// Starts, ends and axes from inputs 1 to 3 (or, before opset 10, attributes), steps from input 4. Ends may be far out.
OutputTypes slice(const RuleContext& context) {
  TensorType result = context.input(0);
  const auto read = [&](std::size_t k, const char* name) {
    if (!context.has_input(k)) return context.node.attributes.get(name, std::vector<std::int64_t>{});
    if (context.constants[k] == nullptr) throw InputError("", std::string("its ") + name + " are not known");
    return context.constants[k]->integers;
  };
  const auto starts = read(1, "starts");
  const auto ends = read(2, "ends");
  const auto listed = read(3, "axes");
  const auto steps = read(4, "steps");
  const auto axes = axes_or_all(listed.empty() ? std::nullopt : std::optional(listed), result.shape.size());
  if (ends.size() != starts.size() || axes.size() < starts.size()) throw InputError("", "starts and ends do not fit");
  for (std::size_t k = 0; k < starts.size(); ++k) {
    std::int64_t& extent = result.shape[axes[k]];
    const std::int64_t step = k < steps.size() ? steps[k] : 1;
    if (step == 0) throw InputError("", "a step is 0");
    // Going down, the first place is the last element at most, and the end may lie before the first.
    const std::int64_t least = step > 0 ? 0 : -1;
    const auto place = [&](std::int64_t at) {
      return std::clamp(at < 0 ? std::max(at, -extent - 1) + extent : std::min(at, extent), least, extent + least);
    };
    const std::int64_t span = step > 0 ? place(ends[k]) - place(starts[k]) : place(starts[k]) - place(ends[k]);
    const std::int64_t stride = std::max<std::int64_t>(1, std::min(std::abs(std::max(step, -extent - 1)), extent + 1));
    extent = span > 0 ? (span + stride - 1) / stride : 0;
  }
  return {result};
}

/// Axes from input 1 (or, before opset 13, an attribute); without them all that are 1.
OutputTypes squeeze(const RuleContext& context) {
  const TensorType& input = context.input(0);
  std::vector<std::int64_t> axes = context.attribute_list("axes");
  if (const auto given = context.integers(1)) axes = *given;
  std::vector<bool> dropped(input.shape.size());
  for (std::size_t axis = 0; axis < dropped.size(); ++axis) dropped[axis] = axes.empty() && input.shape[axis] == 1;
  for (const std::int64_t axis : axes) dropped[normalized_axis(axis, input.shape.size())] = true;
  TensorType result{.data_type = input.data_type};
  for (std::size_t axis = 0; axis < dropped.size(); ++axis) {
    if (!dropped[axis]) result.shape.push_back(input.shape[axis]);
    if (dropped[axis] && input.shape[axis] != 1) throw InputError("", "an axis to drop is not 1");
  }
  return {result};
}

/// Index tuples along the last axis of input 1, behind axes that both share.
OutputTypes gather_nd(const RuleContext& context) {
  const TensorType& data = context.input(0);
  const Shape& indices = context.input(1).shape;
  const std::int64_t shared = context.attribute("batch_dims", 0);
  if (indices.empty() || shared < 0 || indices.back() < 1 ||
      shared + indices.back() > static_cast<std::int64_t>(data.shape.size())) {
    throw InputError("", "the indices do not fit the data");
  }
  TensorType result{.data_type = data.data_type, .shape = {indices.begin(), indices.end() - 1}};
  result.shape.insert(result.shape.end(), data.shape.begin() + shared + indices.back(), data.shape.end());
  return {result};
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

namespace {

/// How many elements of a known input are not zero.
std::optional<std::int64_t> nonzeros(const RuleContext& context, std::size_t k) {
  if (!context.has_input(k) || context.constants[k] == nullptr) return std::nullopt;
  const Constant& constant = *context.constants[k];
  const auto nonzero = [](auto element) { return std::fpclassify(static_cast<double>(element)) != FP_ZERO; };
  return constant.real() ? std::count_if(constant.reals.begin(), constant.reals.end(), nonzero)
                         : std::count_if(constant.integers.begin(), constant.integers.end(), nonzero);
}

}  // namespace

OutputTypes non_zero(const RuleContext& context) {
  const auto rank = static_cast<std::int64_t>(context.input(0).shape.size());
  const auto known = nonzeros(context, 0);
  const std::int64_t count = known ? *known : context.extent_of_data(element_count(context.input(0).shape));
  return {TensorType{.data_type = onnx::TensorProto::INT64, .shape = {rank, count}}};
}

/// At most all boxes of every class and batch, each with a score.
OutputTypes non_max_suppression(const RuleContext& context) {
  const std::int64_t count = context.extent_of_data(element_count(context.input(1).shape));
  return {TensorType{.data_type = onnx::TensorProto::INT64, .shape = {count, 3}}};
}

OutputTypes compress(const RuleContext& context) {
  TensorType result = context.input(0);
  const auto known = nonzeros(context, 1);
  const std::int64_t count = known ? *known : context.extent_of_data(element_count(context.input(1).shape));
  if (context.node.attributes.has("axis")) {
    result.shape[normalized_axis(context.attribute("axis", 0), result.shape.size())] = count;
  } else {
    result.shape = {count};
  }
  return {result};
}

/// The distinct elements or slices; where each stands first; which one each is; how often each is there.
OutputTypes unique(const RuleContext& context) {
  TensorType result = context.input(0);
  const bool by_axis = context.node.attributes.has("axis");
  const std::size_t axis = by_axis ? normalized_axis(context.attribute("axis", 0), result.shape.size()) : 0;
  if (!by_axis) result.shape = {element_count(result.shape)};
  const std::int64_t all = result.shape[axis];
  const std::int64_t count = context.extent_of_data(all);
  result.shape[axis] = count;
  const TensorType counts{.data_type = onnx::TensorProto::INT64, .shape = {count}};
  return {result, counts, TensorType{.data_type = onnx::TensorProto::INT64, .shape = {all}}, counts};
}

OutputTypes one_hot(const RuleContext& context) {
  TensorType result{.data_type = context.input(2).data_type, .shape = context.input(0).shape};
  const auto depth = context.integer(1);
  if (!depth) throw InputError("", "the depth is missing");
  const std::size_t axis = normalized_axis(context.attribute("axis", -1), result.shape.size() + 1);
  result.shape.insert(result.shape.begin() + static_cast<std::ptrdiff_t>(axis), *depth);
  return {result};
}

/// Frames of the signal, each with its frequencies as complex numbers.
OutputTypes stft(const RuleContext& context) {
  const TensorType& signal = context.input(0);
  const auto step = context.integer(1);
  const auto stated = context.integer(3);
  const bool by_window = !stated && context.has_input(2) && context.input(2).shape.size() == 1;
  if (signal.shape.size() < 2 || !step || *step < 1 || (!stated && !by_window)) {
    throw InputError("", "a signal of rank 2 or 3, the step and the frame's length or a window must be known");
  }
  const std::int64_t length = stated ? *stated : context.input(2).shape[0];
  if (length < 1 || length > signal.shape[1]) throw InputError("", "the frame is longer than the signal");
  const std::int64_t frames = (signal.shape[1] - length) / *step + 1;
  const std::int64_t bins = context.attribute("onesided", 1) != 0 ? length / 2 + 1 : length;
  return {TensorType{.data_type = signal.data_type, .shape = {signal.shape[0], frames, bins, 2}}};
}

namespace {

/// Joins every `stride`th input from `first` on.
OutputTypes concat_from(const RuleContext& context, std::size_t first, std::size_t stride, std::int64_t usual_axis) {
  TensorType result = context.input(first);
  const std::size_t axis = normalized_axis(context.attribute("axis", usual_axis), result.shape.size());
  for (std::size_t k = first + stride; k < context.inputs.size(); k += stride) {
    Shape part = context.input(k).shape;
    if (part.size() != result.shape.size()) throw Misfit("", "the parts' ranks differ");
    const std::int64_t joined = saturating_sum(result.shape[axis], std::exchange(part[axis], result.shape[axis]));
    if (part != result.shape) {
      throw Misfit("", "shapes " + shape_text(context.input(first).shape) + " and " +
                           shape_text(context.input(k).shape) + " differ outside axis " + std::to_string(axis));
    }
    result.shape[axis] = joined;
  }
  return {result};
}

}  // namespace

OutputTypes concat(const RuleContext& context) {
  constexpr std::int64_t kUsualAxis = 1;  // before opset 4
  return concat_from(context, 0, 1, kUsualAxis);
}

/// com.microsoft: scale and zero point of the result, then tensor, scale and zero point of each part.
OutputTypes quantized_concat(const RuleContext& context) {
  return concat_from(context, 2, 3, 0);
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
    if (bound == nullptr || bound->size() != 1) {
      return {TensorType{.data_type = context.input(0).data_type, .shape = {context.extent_of_data()}}};
    }
    bounds[k] = bound->real() ? bound->reals[0] : static_cast<double>(bound->integers[0]);
  }
  const double count = std::ceil((bounds[1] - bounds[0]) / bounds[2]);
  constexpr double kMaximum = 1e15;
  if (!(std::abs(count) < kMaximum)) throw InputError("", "the range has no usable length");
  return {TensorType{.data_type = context.input(0).data_type,
                     .shape = {std::max<std::int64_t>(0, static_cast<std::int64_t>(count))}}};
}

}  // namespace remora::onnx_frontend
