// SPDX-License-Identifier: Apache-2.0
//
// The axes of a model's operators of which TFLite has the slices: operators of the same kind that read and write rows
// of one dimension of their tensors (docs/design/slices.md).
//
//     CONV_2D, SAME, x [1, 64, 64, 8] -> y [1, 64, 64, 8], a kernel of 3     rows 16 .. 31 of y:
//     SLICE of rows 15 .. 32 of x, PAD of its columns, and a CONV_2D of that, VALID
//
// So a slice computes what the whole does, bit for bit in integers. What has no such slices has no axis: a mean over
// windows that hang over the edge, weights of single channels, activations that are quantized while they are read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "frontends/tflite/model.hpp"
#include "model/axes.hpp"

namespace remora::tflite {

/// Rows of one dimension of a tensor that a range of iterations touches, as in Cut.
struct DimCut {
  std::size_t dim = 0;
  std::int64_t rows = 1;
  std::int64_t step = 1;
  std::int64_t offset = 0;
  std::int64_t length = 1;

  /// As far as they exist.
  [[nodiscard]] Range rows_of(Range iterations) const;
  /// With those that do not.
  [[nodiscard]] Range window_of(Range iterations) const;
  friend bool operator==(const DimCut&, const DimCut&) = default;
};

/// An axis by the positions of the operator's inputs; its one output is cut without a window.
struct OpAxis {
  std::int64_t extent = 1;
  /// None of what is read whole.
  std::vector<std::optional<DimCut>> inputs{};
  DimCut output{};
};

/// The axes of an operator, of two iterations or more.
std::vector<OpAxis> axes_of(const Model& model, const Operator& op);

/// How windows of a convolution or a pool lie along a spatial dimension, 1 or 2.
struct Window {
  std::int64_t stride = 1;
  /// Rows of padding before the first one.
  std::int64_t before = 0;
  /// Rows that it reaches over, holes included.
  std::int64_t length = 1;
};

/// The windows of a CONV_2D, a DEPTHWISE_CONV_2D or a pool.
Window window_of(const Model& model, const Operator& op, std::size_t dim);

}  // namespace remora::tflite
