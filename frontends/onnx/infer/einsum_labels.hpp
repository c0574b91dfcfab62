// SPDX-License-Identifier: Apache-2.0
//
// The labels of an Einsum equation with the operands' extents:
//
//     "bij,bjk->bik" of 2x3x4 and 2x4x5:    b = 2, i = 3, j = 4, k = 5;    result 2x3x5, 120 combinations
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "frontends/onnx/model/network.hpp"

namespace remora::onnx_frontend {

/// The result's shape. Without an arrow it has the ellipsis and then, in alphabetical order, the labels that occur
/// once. Throws InputError for an equation that does not fit the operands.
Shape einsum_shape(std::string_view equation, const std::vector<const Shape*>& operands);

/// The number of combinations of all labels, the axes of an ellipsis included; stops at 2^62. Throws InputError like
/// einsum_shape.
std::int64_t einsum_combinations(std::string_view equation, const std::vector<const Shape*>& operands);

}  // namespace remora::onnx_frontend
