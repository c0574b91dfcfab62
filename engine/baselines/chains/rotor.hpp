// SPDX-License-Identifier: Apache-2.0
//
// Rotor (Beaumont et al. 2019) on a training graph: blocks between 1-separators (block_chain.hpp), their costs
// (chain.hpp), the dynamic program for all amounts of memory at once (rotor_table.hpp), and of its schedules the
// shortest that the evaluator finds within the budget. The dynamic program counts a little too much memory, so it is
// asked for more than the budget too.
#pragma once

#include "engine/base/method.hpp"

namespace remora {

/// No sequence, and a note, for graphs without phases and those that make one block. O(blocks^3 slots), with more than
/// 150 blocks joined to so many; the plan that holds the budget in the least time, else the one with the least peak.
MethodResult run_rotor(const MethodInput& input);

}  // namespace remora
