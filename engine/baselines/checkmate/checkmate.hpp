// SPDX-License-Identifier: Apache-2.0
//
// Checkmate (Jain et al. 2020) as two methods: its mixed integer program solved by CBC (`checkmate`), and its linear
// relaxation with two-phase rounding (`checkmate-lp`).
//
// The program is that of the paper, on the problem that our other strategies solve (program.hpp says where it differs),
// so that the optima are the same. No start, no cuts and no bounds of ours: this is the baseline.
#pragma once

#include "engine/base/method.hpp"

namespace remora {

/// CBC's best solution. Its bound is for the input order; with the free order there is none. O(ops^2 + ops * edges)
/// columns: programs that CBC could not even begin with are refused, and the note says so. What CBC calls infeasible is
/// noted, not claimed. Work: nodes.
MethodResult run_checkmate(const MethodInput& input);

/// The best of many roundings; where none holds the budget, of roundings of relaxations with lower budgets, while there
/// is time. The bound is that of the first relaxation. Work: iterations of the simplex algorithm.
MethodResult run_checkmate_lp(const MethodInput& input);

}  // namespace remora
