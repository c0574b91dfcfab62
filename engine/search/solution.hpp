// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>

#include "model/evaluate.hpp"
#include "model/instance.hpp"
#include "model/recompute_plan.hpp"

namespace remora {

/// A plan and what the evaluator says of it. Shared between workers as plain data.
struct Solution {
  RecomputePlan plan{};
  Duration extra{};
  Bytes peak{};
};

/// The plan without its useless recomputes, evaluated.
inline Solution make_solution(const Instance& instance, RecomputePlan plan) {
  Solution solution;
  solution.plan = without_useless(instance, std::move(plan));
  solution.extra = extra_duration(instance, solution.plan);
  solution.peak = evaluate(instance, sequence_of(instance, solution.plan)).peak;
  return solution;
}

/// The same of a staged sequence.
inline Solution make_solution(const Instance& instance, std::span<const Compute> sequence) {
  return make_solution(instance, plan_of(instance, ops_of(sequence)));
}

/// Phase 1 wants a lower max(peak, budget) (Moccasin, eq. 12), then less time; phase 2, where both hold the budget,
/// just less time.
inline bool better(const Instance& instance, Bytes peak_a, Duration time_a, Bytes peak_b, Duration time_b) {
  const Bytes above_a = std::max(peak_a, instance.budget());
  const Bytes above_b = std::max(peak_b, instance.budget());
  return above_a != above_b ? above_a < above_b : time_a < time_b;
}

inline bool better(const Instance& instance, const Solution& a, const Solution& b) {
  return better(instance, a.peak, a.extra, b.peak, b.extra);
}

}  // namespace remora
