// SPDX-License-Identifier: Apache-2.0
//
// A module's graph with the axes of its ops, and the module with regions in slices (docs/design/slices.md).
//
//     dot: x, w -> y, rows 512 .. 1023 of 2048 in the second of four slices; y is assembled
//
//     slice: x -> rows of x            dot: rows of x, w -> rows of y
//     dynamic-update-slice: y so far, rows of y, 512 -> y so far, in its memory
//
// What all readers read in the same slices is not put together. Terms of a sum are added. Arrays are taken as they lie
// in memory, as blocks of bytes, so that bitcasts serve for every layout. The result is an ordinary module, which is
// planned as any other.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "frontends/hlo/axes.hpp"
#include "frontends/hlo/reader.hpp"
#include "model/slices.hpp"

namespace remora::hlo {

/// The graph of a module with axes. Sizes are exact, not multiples of 64 bytes, since blocks make up an array.
struct SliceableGraph {
  Graph graph{};
  /// By op, as many as it has axes in `graph`.
  std::vector<std::vector<InstructionAxis>> axes{};
  /// By tensor: its array, as a message.
  std::vector<std::string> shapes{};
  /// By instruction whose result is one array: the tensor that it is, or is a view of; none of arguments and constants.
  std::vector<TensorId> tensors{};
};

/// Ops that may run only once, and those that write where an operand lies, have no axes.
SliceableGraph sliceable_graph(const LoweredModule& lowered);

/// The cost of slices on the module's machine.
SliceRun slice_run(const Machine& machine);

/// The module with these regions of the sliceable graph in slices, in the order of `slice` of that graph. The result is
/// read again. Throws InputError where `slice` or the reader does.
std::string slice_module(const LoweredModule& lowered, const SliceableGraph& sliceable,
                         std::span<const Region> regions);

}  // namespace remora::hlo
