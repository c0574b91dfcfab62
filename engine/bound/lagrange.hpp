// SPDX-License-Identifier: Apache-2.0
//
// What prices prove about a covering problem, in exact arithmetic.
//
// A price p(k) >= 0 a byte at each event k turns the covering constraints into a reward: any choice of items costs at
// least
//
//     L(p) = sum of p(k) * excess(k)  +  for each op, the least sum of  cost(i) - sum over k of p(k) * gain(i, k)
//                                        over at most C_v - 1 of its items
//
// with gain(i, k) never counted beyond excess(k) (Lagrangian relaxation). Whatever the prices, that is a lower bound;
// an LP solver's dual values make it a good one, and their rounding errors do no harm: they are rounded to integers
// here, and everything is summed in 128 bits.
#pragma once

#include <span>
#include <vector>

#include "engine/bound/covering.hpp"

namespace remora {

struct PricedBound {
  /// No choice of items that covers every excess costs less.
  Duration bound{};
  /// By item: what a choice with this item costs more than `bound` at least.
  std::vector<Duration> penalties{};
};

/// `prices`: by event, in durations a byte; negative ones count as 0. O(events * gaps across them).
PricedBound priced_bound(const CoverProblem& problem, std::span<const double> prices);

/// Whether the prices prove that no choice of items covers every excess, whatever it costs: their reward for all that
/// the limits allow is below what they ask for.
bool proves_infeasible(const CoverProblem& problem, std::span<const double> prices);

}  // namespace remora
