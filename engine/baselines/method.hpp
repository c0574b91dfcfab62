// SPDX-License-Identifier: Apache-2.0
//
// The literature's methods behind one interface: an Instance in, one sequence of computes out, and what the method can
// say about the optimum. solve() evaluates the sequence, checks it against the instance's limits and writes it down; a
// method need not hold the budget, only say its best.
//
//     none, greedy (Kumar et al. 2019, section 4), sqrt (Chen et al. 2016), twremat (Kumar et al. 2019, algorithm 1),
//     rotor (Beaumont et al. 2019), checkmate and checkmate-lp (Jain et al. 2020)
#pragma once

#include "engine/base/method.hpp"

namespace remora {

/// The method of a strategy; null for strategies that search.
Method method_of(Strategy strategy);

/// Whether the strategy searches, by workers of ours.
inline bool is_search(Strategy strategy) {
  return method_of(strategy) == nullptr;
}

}  // namespace remora
