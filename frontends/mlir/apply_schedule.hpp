// SPDX-License-Identifier: Apache-2.0
//
// Writes a schedule into its block: ops move into the order of the steps, a unit that runs again is cloned, and every
// use reads the copy that the latest step before it made, as the evaluator (model/evaluate.hpp) has it.
//
//     steps   A B C A D                    %a  = A
//                                          %b  = B(%a)
//     D reads A's second copy; the         %c  = C(%b)
//     first one's buffer goes after B      %a2 = A   {remora.copy = 5}
//                                          %d  = D(%c, %a2)
//
// Releases are not written: the buffer deallocation frees each buffer after its last use, and that is where the
// schedule releases it. What is not a unit is treated as follows.
//
//   - Each compute has destinations of its own (tensor.empty, fill), so that bufferization gives it its own buffer.
//   - A view is made anew for each copy of its source, where it is first needed.
//   - Clones and destinations carry `remora.copy`, a number of their own in the block: CSE merges only ops whose
//     attributes are equal, so it cannot undo the recompute.
//   - Resident ops stay where they are, before everything else.
#pragma once

#include <span>

#include "frontends/mlir/block_units.hpp"
#include "model/types.hpp"

namespace remora::mlir_frontend {

inline constexpr const char* kCopyAttribute = "remora.copy";

/// Whether each unit's destinations stand next to it, with at most residents and views in between, and so belong to no
/// other unit. If not, the block takes more memory than its graph says, and even its own order has to be written.
bool destinations_in_place(const BlockUnits& units);

/// `sequence`: the units by number, each at least once, in which what every one reads is computed earlier.
void apply_schedule(mlir::Block& block, const BlockUnits& units, std::span<const OpId> sequence);

}  // namespace remora::mlir_frontend
