// SPDX-License-Identifier: Apache-2.0
//
// The axes of the ops of a model of which ONNX has the slices: nodes of the same type that read and write parts of the
// op's values.
//
//     Conv, x [1, 8, 64, 64] -> y [1, 8, 64, 64], a kernel of 3     rows 16 .. 31 of y:
//     Slice of rows 15 .. 32 of x, and a Conv of them without padding of rows
//
// So each axis is a loop over one dimension of every value that it cuts. A rule that is right for the whole op need not
// be for a slice: a causal mask depends on where a row is, a mean on how many rows there are. Those have no such axis,
// and so have weights that another node reads, too, or whose elements are outside of the file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "frontends/onnx/model/network.hpp"
#include "model/axes.hpp"
#include "model/graph.hpp"

namespace remora::onnx_frontend {

/// Entries of one dimension of a value that a range of iterations touches.
struct DimCut {
  std::size_t dim = 0;
  /// Number for each row.
  std::int64_t entries = 1;
  std::int64_t rows = 1;
  /// As in Cut.
  std::int64_t step = 1;
  std::int64_t offset = 0;
  std::int64_t length = 1;

  /// As far as they exist.
  [[nodiscard]] Range entries_of(Range iterations) const {
    const Range found = rows_of({.rows = rows, .step = step, .offset = offset, .length = length}, iterations);
    return {found.begin * entries, found.end * entries};
  }
};

/// An axis by the positions of the node's inputs and outputs.
struct WritableAxis {
  /// None of what is read whole.
  std::vector<std::optional<DimCut>> inputs{};
  /// None of what is summed, or not used.
  std::vector<std::optional<DimCut>> outputs{};
};

/// Gives each op of the network's graph these axes; by op, what they are in the model. `op_nodes` and `tensor_values`
/// are those of LoweredModel. Not for a training step. The operator set must be at least kLeastOpsetOfSlices.
std::vector<std::vector<WritableAxis>> add_writable_axes(const Network& network, const std::vector<NodeId>& op_nodes,
                                                         const std::vector<ValueId>& tensor_values, Graph& graph);

/// Since then, there is ScatterND, and Slice and Pad have their settings as inputs.
inline constexpr std::int64_t kLeastOpsetOfSlices = 11;

}  // namespace remora::onnx_frontend
