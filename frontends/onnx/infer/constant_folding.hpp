// SPDX-License-Identifier: Apache-2.0
//
// The elements of small tensors that are computed from constants and shapes alone: what exporters write to compute a
// target shape (Shape, Gather, Concat, Mul, Cast, ...). Exact for integers; reals in double.
#pragma once

#include <optional>
#include <vector>

#include "frontends/onnx/infer/constant.hpp"
#include "frontends/onnx/infer/shape_rules.hpp"

namespace remora::onnx_frontend {

/// By position of the outputs, whose types must be in `types`; none where the elements are not known: an input is
/// unknown, the tensor is large, or the op is not one that shape computations use. Never throws for a lack of
/// knowledge.
std::vector<std::optional<Constant>> fold(const RuleContext& context, const OutputTypes& types);

}  // namespace remora::onnx_frontend
