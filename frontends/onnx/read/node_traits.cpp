// SPDX-License-Identifier: Apache-2.0
#include "frontends/onnx/read/node_traits.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <string_view>
#include <vector>

namespace remora::onnx_frontend {
namespace {

template <std::size_t Size>
bool listed(const std::array<std::string_view, Size>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

bool default_domain(const Node& node) {
  return node.domain.empty() || node.domain == "ai.onnx";
}

/// The extents that are not 1 keep their order, so the elements keep their places.
bool keeps_elements(const Shape& shape, std::vector<std::int64_t> order) {
  if (order.empty()) {
    for (std::size_t axis = shape.size(); axis-- > 0;) order.push_back(static_cast<std::int64_t>(axis));
  }
  std::int64_t before = -1;
  for (const std::int64_t axis : order) {
    if (axis < 0 || axis >= static_cast<std::int64_t>(shape.size())) return false;
    if (shape[static_cast<std::size_t>(axis)] == 1) continue;
    if (axis < before) return false;
    before = axis;
  }
  return true;
}

bool single_input(const RuleContext& context) {
  return std::count_if(context.inputs.begin(), context.inputs.end(),
                       [](const auto* type) { return type != nullptr; }) == 1;
}

}  // namespace

bool is_view(const RuleContext& context, const OutputTypes& types, bool training) {
  constexpr std::array<std::string_view, 5> kAlways{"Reshape", "Flatten", "Squeeze", "Unsqueeze", "Identity"};
  constexpr std::array<std::string_view, 3> kOfSameType{"Cast", "CastLike", "Expand"};
  constexpr std::array<std::string_view, 5> kOfOneInput{"Concat", "Sum", "Min", "Max", "Mean"};
  const std::string_view type = context.node.type;
  if (!default_domain(context.node) || !context.has_input(0) || types.empty() || !types[0]) return false;
  if (listed(kAlways, type)) return true;
  if (listed(kOfSameType, type)) return *types[0] == context.input(0);
  if (listed(kOfOneInput, type)) return single_input(context);
  if (type == "Transpose") return keeps_elements(context.input(0).shape, context.attribute_list("perm"));
  if (type == "Dropout") {
    const auto& outputs = context.node.outputs;
    return !drops(context, training) && (outputs.size() < 2 || !outputs[1].valid());
  }
  return false;
}

bool drops(const RuleContext& context, bool training) {
  constexpr std::int64_t kFirstWithModeInput = 12;
  constexpr std::int64_t kFirstWithoutTestAttribute = 7;
  if (context.opset >= kFirstWithModeInput) {
    if (!context.has_input(2)) return false;
    const Constant* const mode = context.constants[2];
    return mode == nullptr || mode->integers.empty() || mode->integers.front() != 0;
  }
  if (context.opset >= kFirstWithoutTestAttribute) return false;
  return training && context.node.attributes.get("is_test", std::int64_t{0}) == 0;
}

bool is_random(const RuleContext& context, bool training) {
  constexpr std::array<std::string_view, 6> kRandom{"RandomNormal",      "RandomNormalLike", "RandomUniform",
                                                    "RandomUniformLike", "Multinomial",      "Bernoulli"};
  if (!default_domain(context.node)) return false;
  return listed(kRandom, context.node.type) || (context.node.type == "Dropout" && drops(context, training));
}

bool reads_shape_only(const Node& node) {
  return default_domain(node) && (node.type == "Shape" || node.type == "Size");
}

bool reads_weight(const Node& node, std::size_t position) {
  // The positions that hold settings and statistics, by op type.
  static const std::map<std::string_view, std::vector<std::size_t>, std::less<>> kSettings{
      {"BatchNormalization", {3, 4}},
      {"Bernoulli", {0}},
      {"Clip", {1, 2}},
      {"DequantizeLinear", {1, 2}},
      {"Dropout", {1}},
      {"OneHot", {1, 2}},
      {"Multinomial", {0}},
      {"NonMaxSuppression", {0, 1, 2, 3, 4}},
      {"Pad", {2}},
      {"Pow", {1}},
      {"QuantizeLinear", {1, 2}},
      {"Range", {0, 1, 2}},
      {"Resize", {1, 2}},
      {"RotaryEmbedding", {1, 2}},
      {"Upsample", {1}},
      {"RandomNormalLike", {0}},
      {"RandomUniformLike", {0}},
  };
  const auto found = kSettings.find(std::string_view(node.type));
  if (found == kSettings.end()) return true;
  return std::find(found->second.begin(), found->second.end(), position) == found->second.end();
}

}  // namespace remora::onnx_frontend
