// SPDX-License-Identifier: Apache-2.0
#include "frontends/onnx/infer/schema_guards.hpp"

#include <algorithm>
#include <map>
#include <string_view>

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

}  // namespace remora::onnx_frontend
