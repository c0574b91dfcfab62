// SPDX-License-Identifier: Apache-2.0
//
// From the units of an SSA block to a graph: op k is unit k.
//
//   - Tensor results of units are the graph's tensors, with the bytes of their static types. What the terminator reads
//     is kept; through a view, its source is.
//   - Tensor arguments and constants are inputs of the graph: resident throughout, and counted. The caller owns the
//     one, the program's data section the other, and neither can go. For an arena, in which they do not lie, their sum
//     is the graph's fixed memory.
//   - Other results (scalars, tensors of unknown size) have 0 bytes and their unit runs once.
//   - Units with effects keep their order; those that may fault (divisions) stay behind the effects before them.
//   - An op's `location` says where it stands in its file.
#pragma once

#include <string>

#include "frontends/mlir/block_units.hpp"
#include "model/graph.hpp"

namespace remora::mlir_frontend {

/// What becomes of tensor arguments and constants.
enum class Residents { inputs, fixed_memory };

/// `name`: the graph's, as a rule the function's.
Graph graph_from_block(mlir::Block& block, const BlockUnits& units, std::string name, Residents residents);

/// Whether no schedule's bytes or duration can exceed 64 bits.
bool sums_fit(const Graph& graph, int max_computes);

}  // namespace remora::mlir_frontend
