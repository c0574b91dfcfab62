// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/search/local/plan_evaluator.hpp"
#include "engine/search/worker.hpp"

namespace remora {

/// Puts the plan at hand into the result if it is better than the round's incumbent.
inline void offer(const RoundInput& input, const PlanEvaluator& state, RoundResult& result) {
  Solution solution = make_solution(input.instance, state.plan());
  if (better(input.instance, solution, input.incumbent)) result.solution = std::move(solution);
}

}  // namespace remora
