// SPDX-License-Identifier: Apache-2.0
//
// The elements of small tensors that are computed from constants and shapes alone: what exporters write to compute a
// target shape (Shape, Gather, Concat, Mul, Cast, ...). Exact for integers; reals in double.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "frontends/onnx/infer/shape_rules.hpp"

namespace remora::onnx_frontend {

/// By position of the outputs, whose types must be in `types`; none where the elements are not known: an input is
/// unknown, the tensor is large, or the op is not one that shape computations use. Never throws for a lack of
/// knowledge.
std::vector<std::optional<Constant>> fold(const RuleContext& context, const OutputTypes& types);

// The functions that constant_folding's table lists. Each fills the elements of one output, whose type is set, and
// returns whether it could; all present inputs of the node are known (Shape and Size look at types only).

struct FoldContext {
  const RuleContext& node;
  /// The position of the wanted output.
  std::size_t output = 0;

  [[nodiscard]] bool has(std::size_t k) const { return node.has_input(k); }
  /// Only for an input that is there.
  [[nodiscard]] const Constant& input(std::size_t k) const { return *node.constants[k]; }
  [[nodiscard]] std::size_t input_count() const { return node.inputs.size(); }
};

using FoldFunction = bool (*)(const FoldContext& context, Constant& result);

// fold_layout.cpp: elements are moved.
bool fold_shape(const FoldContext& context, Constant& result);
bool fold_size(const FoldContext& context, Constant& result);
bool fold_fill(const FoldContext& context, Constant& result);
bool fold_copy(const FoldContext& context, Constant& result);
bool fold_concat(const FoldContext& context, Constant& result);
bool fold_gather(const FoldContext& context, Constant& result);
bool fold_slice(const FoldContext& context, Constant& result);
bool fold_split(const FoldContext& context, Constant& result);
bool fold_transpose(const FoldContext& context, Constant& result);
bool fold_expand(const FoldContext& context, Constant& result);

// fold_arithmetic.cpp: elements are computed.
bool fold_range(const FoldContext& context, Constant& result);
bool fold_cast(const FoldContext& context, Constant& result);
bool fold_non_zero(const FoldContext& context, Constant& result);
bool fold_where(const FoldContext& context, Constant& result);
bool fold_elementwise(const FoldContext& context, Constant& result);
bool fold_unary(const FoldContext& context, Constant& result);
bool fold_reduce(const FoldContext& context, Constant& result);

/// For element `flat` of a tensor of shape `to`, the element of one of shape `from`, which broadcasts to it.
std::size_t broadcast_index(std::size_t flat, const Shape& from, const Shape& to);

/// Appends element `k` of `from`, which has the same kind of elements.
void append(Constant& result, const Constant& from, std::size_t k);

}  // namespace remora::onnx_frontend
