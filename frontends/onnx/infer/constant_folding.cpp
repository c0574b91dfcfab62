// SPDX-License-Identifier: Apache-2.0
#include "frontends/onnx/infer/constant_folding.hpp"

#include <algorithm>
#include <map>
#include <string_view>

#include "model/error.hpp"

namespace remora::onnx_frontend {
namespace {

struct FoldRow {
  FoldFunction fill;
  /// The op's first inputs, which must be there.
  std::size_t least_inputs = 1;
  /// Every input must broadcast to the output.
  bool broadcasts = false;
};

using FoldTable = std::map<std::string_view, FoldRow, std::less<>>;

const FoldTable& fold_table() {
  static const FoldTable kTable{
      {"Shape", {fold_shape, 1}},
      {"Size", {fold_size, 1}},
      {"ConstantOfShape", {fold_fill, 1}},
      {"Range", {fold_range, 3}},
      {"Reshape", {fold_copy, 1}},
      {"Squeeze", {fold_copy, 1}},
      {"Unsqueeze", {fold_copy, 1}},
      {"Flatten", {fold_copy, 1}},
      {"Identity", {fold_copy, 1}},
      {"Cast", {fold_cast, 1}},
      {"Concat", {fold_concat, 1}},
      {"Gather", {fold_gather, 2}},
      {"Slice", {fold_slice, 1}},
      {"Split", {fold_split, 1}},
      {"Transpose", {fold_transpose, 1}},
      {"Expand", {fold_expand, 1}},
      {"NonZero", {fold_non_zero, 1}},
      {"Where", {fold_where, 3, true}},
      {"Add", {fold_elementwise, 2, true}},
      {"Sub", {fold_elementwise, 2, true}},
      {"Mul", {fold_elementwise, 2, true}},
      {"Div", {fold_elementwise, 2, true}},
      {"Mod", {fold_elementwise, 2, true}},
      {"Pow", {fold_elementwise, 2, true}},
      {"And", {fold_elementwise, 2, true}},
      {"Or", {fold_elementwise, 2, true}},
      {"Equal", {fold_elementwise, 2, true}},
      {"Less", {fold_elementwise, 2, true}},
      {"Greater", {fold_elementwise, 2, true}},
      {"LessOrEqual", {fold_elementwise, 2, true}},
      {"GreaterOrEqual", {fold_elementwise, 2, true}},
      {"Min", {fold_elementwise, 1, true}},
      {"Max", {fold_elementwise, 1, true}},
      {"Neg", {fold_unary, 1}},
      {"Abs", {fold_unary, 1}},
      {"Floor", {fold_unary, 1}},
      {"Ceil", {fold_unary, 1}},
      {"Round", {fold_unary, 1}},
      {"Sqrt", {fold_unary, 1}},
      {"Not", {fold_unary, 1}},
      {"ReduceProd", {fold_reduce_all, 1}},
      {"ReduceSum", {fold_reduce_all, 1}},
      {"ReduceMax", {fold_reduce_all, 1}},
      {"ReduceMin", {fold_reduce_all, 1}},
  };
  return kTable;
}

bool small(const OutputTypes& types) {
  for (const auto& type : types) {
    if (type && element_count(type->shape) > kLargestConstant) return false;
  }
  return true;
}

bool inputs_known(const RuleContext& context) {
  for (std::size_t k = 0; k < context.inputs.size(); ++k) {
    if (context.inputs[k] != nullptr && context.constants[k] == nullptr) return false;
  }
  return true;
}

bool broadcasts_to(const Shape& from, const Shape& to) {
  if (from.size() > to.size()) return false;
  for (std::size_t back = 1; back <= from.size(); ++back) {
    const std::int64_t extent = from[from.size() - back];
    if (extent != 1 && extent != to[to.size() - back]) return false;
  }
  return true;
}

bool fits(const FoldRow& row, const RuleContext& context, const TensorType& output) {
  for (std::size_t k = 0; k < std::max(row.least_inputs, context.inputs.size()); ++k) {
    if (!context.has_input(k)) {
      if (k < row.least_inputs) return false;
    } else if (row.broadcasts && !broadcasts_to(context.inputs[k]->shape, output.shape)) {
      return false;
    }
  }
  return true;
}

bool fill(const FoldRow& row, const FoldContext& context, Constant& constant) {
  try {
    return row.fill(context, constant);
  } catch (const InputError&) {
    return false;  // an axis out of range: the shapes came from the file, and disagree with the node
  }
}

}  // namespace

std::vector<std::optional<Constant>> fold(const RuleContext& context, const OutputTypes& types) {
  std::vector<std::optional<Constant>> result(types.size());
  if (!context.node.domain.empty() && context.node.domain != "ai.onnx") return result;
  const auto entry = fold_table().find(std::string_view(context.node.type));
  if (entry == fold_table().end() || !small(types)) return result;
  const bool shape_only = context.node.type == "Shape" || context.node.type == "Size";
  if (!shape_only && !inputs_known(context)) return result;

  for (std::size_t k = 0; k < types.size(); ++k) {
    if (!types[k] || !fits(entry->second, context, *types[k])) continue;
    Constant constant{.type = *types[k]};
    const bool done = fill(entry->second, {context, k}, constant);
    const auto count = static_cast<std::size_t>(element_count(constant.type.shape));
    if (done && constant.size() == count) result[k] = std::move(constant);
  }
  return result;
}

}  // namespace remora::onnx_frontend
