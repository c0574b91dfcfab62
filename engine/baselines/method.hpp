// SPDX-License-Identifier: Apache-2.0
//
// The literature's methods behind one interface: an Instance in, one sequence of computes out, and what the method can
// say about the optimum. solve() evaluates the sequence, checks it against the instance's limits and writes it down; a
// method need not hold the budget, only say its best.
//
//     none, greedy (Kumar et al. 2019, section 4), sqrt (Chen et al. 2016), twremat (Kumar et al. 2019, algorithm 1),
//     rotor (Beaumont et al. 2019), checkmate and checkmate-lp (Jain et al. 2020)
#pragma once

#include "engine/base/deadline.hpp"
#include "engine/base/method.hpp"
#include "model/instance.hpp"
#include "model/sequence.hpp"

namespace remora {

/// The method of a strategy; null for strategies that search.
Method method_of(Strategy strategy);

/// Whether the strategy searches, by workers of ours.
inline bool is_search(Strategy strategy) {
  return method_of(strategy) == nullptr;
}

// XLA's rematerialization heuristic, as Kumar et al. 2019, section 4, describe it: goes through the schedule once, and
// where memory is over the limit gives up, one by one, the tensors whose recompute before their next use lowers
// the memory at that point most, until it fits or nothing lowers it any more.
//
//     budget 3    A B C D E, E reads a and d; at C a, b, c and d would be resident
//                 a goes first: A runs again right before E

/// A plan of the staged form, which may exceed the budget. The heuristic looks neither ahead nor at durations. At the
/// deadline it ends with the plan so far.
/// O(events over the budget * tensors alive there * what their recomputes change).
RecomputePlan greedy_plan(const Instance& instance, const Deadline& deadline);

}  // namespace remora
