// SPDX-License-Identifier: Apache-2.0
#include "frontends/onnx/infer/schema_guards.hpp"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <string_view>

#include "model/quote.hpp"
#include "onnx/defs/schema.h"
#include "onnx/onnx_pb.h"

namespace remora::onnx_frontend {
namespace {

// Guards for every op.

/// Far beyond any real axis, stride or count. What is not has products and sums within 64 bits.
bool beyond(std::int64_t amount) {
  constexpr std::int64_t kFarthest = std::numeric_limits<std::int32_t>::max();
  return amount > kFarthest || amount < -kFarthest;
}

std::string shape_of(const RuleContext& context, std::size_t k) {
  return "input " + std::to_string(k) + " of shape " + shape_text(context.inputs[k]->shape);
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

/// Verify takes an attribute that stands for one of a function, though it has no value. Those of functions are filled in
/// when the functions are inlined.
std::string reference_without_function(const onnx::NodeProto& node) {
  for (const auto& attribute : node.attribute()) {
    if (attribute.ref_attr_name().empty()) continue;
    return "attribute " + quote(attribute.name()) + " refers to one of a function, outside of any function";
  }
  return {};
}

/// The inference functions cut an axis to 32 bits. (Extents need no look here: readers refuse shapes of more than 2^62
/// elements.)
std::string axis_objection(const RuleContext& context) {
  return beyond(context.node.attributes.get("axis", std::int64_t{0})) ? "axis is beyond any rank" : "";
}

// Guards for some ops.

template <std::size_t kInput, std::size_t kRank>
std::string rank_objection(const RuleContext& context) {
  if (!context.has_input(kInput) || context.inputs[kInput]->shape.size() == kRank) return {};
  return shape_of(context, kInput) + " must have " + std::to_string(kRank) + " axes";
}

std::string matrices_objection(const RuleContext& context) {
  if (std::string objection = rank_objection<0, 2>(context); !objection.empty()) return objection;
  return rank_objection<1, 2>(context);
}

/// Some functions add extents up in 32 bits, others multiply them by numbers of the file.
std::string extents_objection(const RuleContext& context) {
  for (std::size_t k = 0; k < context.inputs.size(); ++k) {
    if (!context.has_input(k)) continue;
    const Shape& shape = context.inputs[k]->shape;
    if (std::any_of(shape.begin(), shape.end(), beyond)) return shape_of(context, k) + " has an axis of 2^31 or more";
  }
  return {};
}

/// Windows are read by the rank of the data, and steps divide. With auto_pad the last step is found by subtraction.
std::string window_objection(const RuleContext& context) {
  if (!context.has_input(0)) return {};
  constexpr std::int64_t kMaxSteps = std::int64_t{1} << 26;
  const Shape& data = context.inputs[0]->shape;
  const auto list = [&](const char* name) { return context.node.attributes.get(name, Shape{}); };
  for (const char* name : {"kernel_shape", "strides", "dilations"}) {
    const Shape entries = list(name);
    if (entries.empty()) continue;
    if (std::any_of(entries.begin(), entries.end(), [](std::int64_t entry) { return entry < 1; })) {
      return std::string(name) + " must be positive";
    }
    if (entries.size() + 2 != data.size()) {
      return std::string(name) + " does not fit data of shape " + shape_text(data);
    }
  }
  for (const char* name : {"kernel_shape", "strides", "dilations", "pads", "output_padding", "output_shape"}) {
    const Shape entries = list(name);
    if (std::any_of(entries.begin(), entries.end(), beyond)) return std::string(name) + " is beyond any real extent";
  }
  const Shape strides = list("strides");
  const bool padded = context.node.attributes.get("auto_pad", std::string("VALID")) != "VALID";
  for (std::size_t k = 0; padded && k < strides.size(); ++k) {
    if (data[k + 2] / strides[k] > kMaxSteps) return "the window has too many places in " + shape_of(context, 0);
  }
  return extents_objection(context);
}

/// The window's extents come from the weights, the number of strides from the data.
template <std::size_t kWeights>
std::string weights_objection(const RuleContext& context) {
  if (!context.has_input(0) || !context.has_input(kWeights)) return {};
  const Shape& data = context.inputs[0]->shape;
  const Shape& window = context.inputs[kWeights]->shape;
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

/// A block's area divides.
std::string block_objection(const RuleContext& context) {
  if (std::string objection = rank_objection<0, 4>(context); !objection.empty()) return objection;
  constexpr std::int64_t kLargestBlock = 1 << 15;
  const std::int64_t block = context.node.attributes.get("blocksize", std::int64_t{0});
  if (block < 1 || block > kLargestBlock) return "blocksize " + std::to_string(block) + " is no extent of a block";
  return extents_objection(context);
}

/// A shape of which only the length is known becomes so many unknown extents.
template <std::size_t kShape>
std::string unknown_extents(const RuleContext& context) {
  constexpr std::int64_t kMaxAxes = 64;
  if (!context.has_input(kShape) || context.constants[kShape] != nullptr) return {};
  const Shape& list = context.inputs[kShape]->shape;
  if (list.size() != 1 || list[0] <= kMaxAxes) return {};
  return shape_of(context, kShape) + " is too long for a shape";
}

/// Counts in input 1, or before opset 11 in `pads`, are added to extents, or multiplied by them.
std::string counts_objection(const RuleContext& context) {
  const Shape pads = context.node.attributes.get("pads", Shape{});
  const Constant* const counts = context.has_input(1) ? context.constants[1] : nullptr;
  const Shape& given = counts == nullptr ? pads : counts->integers;
  if (std::any_of(given.begin(), given.end(), beyond)) return "its counts are beyond any real extent";
  return extents_objection(context);
}

/// Ops whose inference functions fail in more ways than are worth telling apart; shape_rules has all but STFT.
std::string unsafe(const RuleContext&) {
  return "libonnx has no safe shape rule for this op";
}

using Guard = std::string (*)(const RuleContext&);
using GuardTable = std::map<std::string_view, Guard, std::less<>>;

const GuardTable& guard_table() {
  static const GuardTable kTable{
      {"RNN", rank_objection<0, 3>},
      {"GRU", rank_objection<0, 3>},
      {"LSTM", rank_objection<0, 3>},
      {"MaxRoiPool", rank_objection<0, 4>},
      {"Gemm", matrices_objection},
      {"Conv", weights_objection<1>},
      {"ConvInteger", weights_objection<1>},
      {"ConvTranspose", weights_objection<1>},
      {"QLinearConv", weights_objection<3>},
      {"MaxPool", window_objection},
      {"AveragePool", window_objection},
      {"LpPool", window_objection},
      {"GatherND", gather_objection},
      {"DepthToSpace", block_objection},
      {"SpaceToDepth", block_objection},
      {"Expand", unknown_extents<1>},
      {"ConstantOfShape", unknown_extents<0>},
      {"Concat", extents_objection},
      {"Split", extents_objection},
      {"Tile", counts_objection},
      {"Pad", counts_objection},
      {"Einsum", unsafe},
      {"LayerNormalization", unsafe},
      {"MaxUnpool", unsafe},
      {"STFT", unsafe},
  };
  return kTable;
}

}  // namespace

std::string schema_objection(const onnx::OpSchema& schema, const onnx::NodeProto& node, const RuleContext& context) {
  std::string objection = missing_input(schema, context);
  if (objection.empty()) objection = reference_without_function(node);
  if (objection.empty()) objection = axis_objection(context);
  if (!objection.empty()) return objection;
  const auto guard = guard_table().find(std::string_view(context.node.type));
  return guard == guard_table().end() ? std::string() : guard->second(context);
}

}  // namespace remora::onnx_frontend
