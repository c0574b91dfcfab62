// SPDX-License-Identifier: Apache-2.0
//
// An op as nested loops, and the axes (model/axes.hpp) along which it can be cut.
//
//     MatMul, x [b, t, k] and w [k, n]     loops b, t, k, n    y [b, t, n] += x [b, t, k] * w [k, n]
//
// An axis is a loop or, where all tensors have them next to each other, several as one: here b and t, whose rows are
// b * t. Outputs without the loop are sums over it. A dimension without a loop is not cut: what a softmax normalizes.
//
// The gradient of an op has the same loops: that of an input the input's, summed over those that the input lacks.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "model/axes.hpp"
#include "model/types.hpp"

namespace remora::onnx_frontend {

inline constexpr int kNoLoop = -1;

/// A dimension of a tensor, or a part of one: rows that an iteration touches, as in Cut.
struct LoopDim {
  int loop = kNoLoop;
  std::int64_t extent = 1;
  std::int64_t step = 1;
  std::int64_t offset = 0;
  std::int64_t length = 1;

  /// One row for each iteration.
  [[nodiscard]] bool plain() const { return step == 1 && offset == 0 && length == 1; }
};

/// The dimensions of a tensor, the outermost first; those of extent 1 may be left out.
using LoopDims = std::vector<LoopDim>;

struct LoopNest {
  /// By loop: the number of its iterations.
  std::vector<std::int64_t> extents{};
  /// By position of the op's inputs and outputs. An input without any is read whole.
  std::vector<std::optional<LoopDims>> inputs{};
  std::vector<std::optional<LoopDims>> outputs{};
  /// The same for the gradients of inputs, where they differ from the inputs.
  std::vector<std::optional<LoopDims>> gradients{};

  int add_loop(std::int64_t extent) {
    extents.push_back(extent);
    return static_cast<int>(extents.size()) - 1;
  }
};

/// A tensor as an op uses it.
struct TensorUse {
  TensorId tensor{};
  Bytes size{};
  /// Whole bytes of an element; 0 where it has a part of one.
  std::int64_t element_bytes = 0;
  bool is_output = false;
  /// None: read whole. An output without any is summed over every loop.
  std::optional<LoopDims> dims{};
};

/// The axes of an op with these loops and uses, of two iterations or more. A tensor may have several uses: what they do
/// not cut alike is whole.
std::vector<Axis> axes_of(const std::vector<std::int64_t>& extents, const std::vector<TensorUse>& uses);

}  // namespace remora::onnx_frontend
