// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "frontends/onnx/infer/shape_rule_functions.hpp"
#include "model/error.hpp"
#include "onnx/onnx_pb.h"

namespace remora::onnx_frontend {
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
