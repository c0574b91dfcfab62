// SPDX-License-Identifier: Apache-2.0
//
// Axes of an op: loops with independent iterations, and what a range of iterations touches of each tensor
// (docs/design/slices.md).
//
// A tensor is divided along one dimension: it consists of equal blocks, a block of `rows` rows, a row of `stride`
// bytes, in row-major order. A range of rows is the same range of bytes in every block:
//
//     float32 [2][4][8], cut along the dimension of 4: rows 4, stride 32, two blocks of 128 bytes
//     rows 1 and 2:   . # # .   . # # .       bytes 32 .. 95 of each block
//
// Iteration i touches the rows from i * step + offset on, `length` of them, as far as they exist: a convolution's input
// has its stride as step, its negated padding as offset and its dilated kernel as length.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "model/api.hpp"
#include "model/types.hpp"

namespace remora {

/// A tensor of an op whose rows belong to iterations of an axis. An output has no window: offset 0, and as long as the
/// step, so that each of its rows belongs to one iteration.
struct Cut {
  TensorId tensor{};
  std::int64_t rows = 1;
  /// From one row to the next.
  Bytes stride{};
  std::int64_t step = 1;
  std::int64_t offset = 0;
  std::int64_t length = 1;

  [[nodiscard]] Bytes block() const { return Bytes(rows * stride.count()); }

  friend bool operator==(const Cut&, const Cut&) = default;
};

/// The largest number of an axis but a stride: a product of two, and some more of them, stays within 64 bits.
inline constexpr std::int64_t kMaxAxisNumber = std::numeric_limits<std::int32_t>::max();

struct Axis {
  /// The number of iterations.
  std::int64_t extent = 1;
  /// Inputs and outputs, each once. An input that is not here is read whole, also if the op reads it in both ways.
  std::vector<Cut> cuts{};
  /// The outputs of which each range of iterations gives one term, and that are the sum of the terms. All other
  /// outputs are cut.
  std::vector<TensorId> sums{};
  /// The part of the op's workspace that each iteration needs; the rest is for any number of iterations.
  Bytes workspace{};

  friend bool operator==(const Axis&, const Axis&) = default;
};

/// Rows or iterations, half-open.
struct Range {
  std::int64_t begin = 0;
  std::int64_t end = 0;

  [[nodiscard]] bool empty() const { return begin >= end; }
  [[nodiscard]] std::int64_t size() const { return end - begin; }
  friend bool operator==(Range, Range) = default;
};

/// The cut of the tensor, or null where the axis does not cut it.
REMORA_API const Cut* cut_of(const Axis& axis, TensorId tensor);

/// The rows that a range of iterations touches, which may be none.
REMORA_API Range rows_of(const Cut& cut, Range iterations);

struct Graph;
struct Op;

/// Checks the axes of an op of a graph that is sound otherwise (`validate` calls it). Throws InputError with the path
/// of the op before that of the fault ("ops[3].axes[0].cut[1].rows"): an extent, number of rows, stride, step or
/// length below 1, a tensor that is not of the op or mentioned twice, an output that is neither cut nor summed, a cut
/// output with a window or with rows that do not belong to one iteration each, a tensor that does not consist of such
/// blocks, iterations that need more than the op's workspace, and numbers above 2147483647.
REMORA_API void check_axes(const Graph& graph, const Op& op, const std::string& path);

}  // namespace remora
