// SPDX-License-Identifier: Apache-2.0
//
// What the workers of the local search share, in whatever order: what memory and time are worth to each other, how
// annealings cool down, and how a plan is offered to a round.
#pragma once

#include <cstddef>

#include "engine/base/cooling.hpp"
#include "engine/search/local/plan_evaluator.hpp"
#include "engine/search/worker.hpp"
#include "model/instance.hpp"

namespace remora {

/// What memory and time are worth to each other in an instance, so that the local search needs no units.
struct ExchangeRate {
  /// Bytes times events that all tensors occupy from their compute to their last use, an op on average.
  double area_of_op = 0;
  /// Bytes times events that a unit of time buys, were every tensor recomputed once.
  double area_of_time = 0;
};

ExchangeRate exchange_rate(const Instance& instance);

/// The temperature of an instance's annealing, in bytes times events.
Cooling annealing_cooling(const Instance& instance, const ExchangeRate& rate);

/// The price of a unit of time in a cooling, a part of what it is worth on average; the coolings go through several
/// parts in turn.
double annealing_price(const ExchangeRate& rate, std::size_t cooling);

/// Puts the plan at hand into the result if it is better than the round's incumbent.
void offer(const RoundInput& input, const PlanEvaluator& state, RoundResult& result);

/// The same for a plan within the budget: if it is cheaper than `best`, which then is its cost. What is useless in the
/// plan does not count.
void offer_cheaper(const PlanEvaluator& state, Duration& best, RoundResult& result);

}  // namespace remora
