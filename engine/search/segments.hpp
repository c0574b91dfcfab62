// SPDX-License-Identifier: Apache-2.0
//
// Starts by checkpoints (Chen et al. 2016, section 3, for any graph): the ops up to the fullest event are cut into
// segments where little is resident; what one segment reads of another stays, and the rest of a segment runs again when it
// is read after the fullest event, each op as late as those that read it allow.
//
//     ops        a b c | d e f | g h i      j  k  l ...       a tensor of d read by g stays;
//                                  ^ fullest   ^ reads e      e runs again in k's stage, and reads d
//
// Cuts are tried for many lengths: those of the least sum of what crosses them, and equal lengths with some slack. Then
// segments that need not run again, the last first, do not. No phases are needed.
//
// Where that does not hold the budget and ops may run three times, segments are cut once more: when a segment runs again,
// what crosses its inner cuts stays, and the rest of an inner part runs a third time, when it is read after the fullest event.
// Where that does not either and ops may run four times, inner parts are cut again, and so on up to eight computes (Griewank
// and Walther's recursion, 2000).
#pragma once

#include "engine/bound/periods/period_solver.hpp"
#include "engine/search/search.hpp"
#include "engine/search/solution.hpp"
#include "model/instance.hpp"

namespace remora {

/// The best of these plans: within the budget and the shortest, or of the lowest peak. The instance is of the staged form
/// and has one mode an op. Some hundred replays: 2 ms on a graph of 500 ops, 0.1 s on one of 6,000.
Solution start_from_segments(const Instance& instance, const Interrupted& interrupted);
/// Offers the search this, unless its options say no.
void start_from_checkpoints(Search& search);
/// The same if it holds the budget and costs no more than four times the bound: else a search does better to look for a first
/// schedule of its own.
void start_from_cheap_checkpoints(Search& search);

}  // namespace remora
