// SPDX-License-Identifier: Apache-2.0
//
// Remora's own shape rules, one per op type, for what Debian's libonnx (opset 17) does not know or knows in an older
// form: ops that came later (Gelu, RMSNormalization, Attention), ops whose definition changed since (Split with
// num_outputs, reductions with axes as input), and frequent ops of com.microsoft.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "frontends/onnx/infer/constant.hpp"
#include "frontends/onnx/model/network.hpp"

namespace remora::onnx_frontend {

/// One node whose output types are wanted.
struct RuleContext {
  const Node& node;
  std::int64_t opset = 0;
  /// By position; null where an optional input is left out.
  std::vector<const TensorType*> inputs{};
  /// By position; null where the elements are not known.
  std::vector<const Constant*> constants{};
  std::size_t output_count = 0;

  [[nodiscard]] bool has_input(std::size_t k) const { return k < inputs.size() && inputs[k] != nullptr; }
  /// Throws InputError if input k is left out.
  [[nodiscard]] const TensorType& input(std::size_t k) const;
  /// The integers of input k; none if it is left out. Throws InputError if it is there but not known.
  [[nodiscard]] std::optional<std::vector<std::int64_t>> integers(std::size_t k) const;
  [[nodiscard]] std::int64_t attribute(std::string_view name, std::int64_t otherwise) const;
  /// Empty if it is left out.
  [[nodiscard]] std::vector<std::int64_t> attribute_list(std::string_view name) const;
};

/// Types of the outputs by position; none for one that the rule does not know.
using OutputTypes = std::vector<std::optional<TensorType>>;

struct ShapeRule {
  /// From this opset on the rule comes before libonnx's, which knows an older definition; below it only if libonnx
  /// gives no shape.
  std::int64_t preferred_from = 0;
  /// Throws InputError if the inputs do not fit the op.
  std::function<OutputTypes(const RuleContext&)> infer{};
};

/// The rule of an op type, null if there is none. `domain` is empty for the default one.
const ShapeRule* find_shape_rule(std::string_view domain, std::string_view op_type);

/// `axis` counted from the front. Throws InputError outside [-rank, rank).
std::size_t normalized_axis(std::int64_t axis, std::size_t rank);

// The rules that find_shape_rule's table lists, grouped by what they do. Each throws InputError if inputs do not fit.

// shape_rules.cpp: the shape of an input.
OutputTypes same_as_first(const RuleContext& context);
OutputTypes broadcast(const RuleContext& context);
OutputTypes layer_normalization(const RuleContext& context);
OutputTypes quantize(const RuleContext& context);
OutputTypes dequantize(const RuleContext& context);

// shape_rules.cpp: extents cut, joined, grown, counted.
OutputTypes reduce(const RuleContext& context);
OutputTypes split(const RuleContext& context);
OutputTypes pad(const RuleContext& context);
OutputTypes non_zero(const RuleContext& context);
OutputTypes center_crop_pad(const RuleContext& context);
OutputTypes range(const RuleContext& context);

// shape_rules_products.cpp: images and volumes, products.
OutputTypes pool(const RuleContext& context);
OutputTypes unpool(const RuleContext& context);
OutputTypes resize(const RuleContext& context);
OutputTypes deformable_convolution(const RuleContext& context);
OutputTypes column_to_image(const RuleContext& context);
OutputTypes grid_sample(const RuleContext& context);
OutputTypes affine_grid(const RuleContext& context);
OutputTypes attention(const RuleContext& context);
OutputTypes matrix_product(const RuleContext& context);
OutputTypes einsum(const RuleContext& context);

// The labels of an Einsum equation with the operands' extents:
//
//     "bij,bjk->bik" of 2x3x4 and 2x4x5:    b = 2, i = 3, j = 4, k = 5;    result 2x3x5, 120 combinations

/// The result's shape. Without an arrow it has the ellipsis and then, in alphabetical order, the labels that occur
/// once. Throws InputError for an equation that does not fit the operands.
Shape einsum_shape(std::string_view equation, const std::vector<const Shape*>& operands);

/// The number of combinations of all labels, the axes of an ellipsis included; stops at 2^62. Throws InputError like
/// einsum_shape.
std::int64_t einsum_combinations(std::string_view equation, const std::vector<const Shape*>& operands);

}  // namespace remora::onnx_frontend
