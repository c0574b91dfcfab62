// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <utility>

#include "engine/search/local/plan_evaluator.hpp"
#include "engine/search/worker.hpp"

namespace remora {

/// Puts the plan at hand into the result if it is better than the round's incumbent.
inline void offer(const RoundInput& input, const PlanEvaluator& state, RoundResult& result) {
  Solution solution = make_solution(input.instance, state.plan());
  if (better(input.instance, solution, input.incumbent)) result.solution = std::move(solution);
}

/// The same for a plan within the budget: if it is cheaper than `best`, which then is its cost. What is useless in the
/// plan does not count.
inline void offer_cheaper(const PlanEvaluator& state, Duration& best, RoundResult& result) {
  if (state.overflow() > Bytes(0) || state.extra() >= best) return;
  result.solution = make_solution(state.instance(), state.plan());
  best = result.solution->extra;
}

}  // namespace remora
