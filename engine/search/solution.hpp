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
inline bool better(const Instance& instance, const Solution& a, const Solution& b) {
  const Bytes peak_a = std::max(a.peak, instance.budget());
  const Bytes peak_b = std::max(b.peak, instance.budget());
  return peak_a != peak_b ? peak_a < peak_b : a.extra < b.extra;
}

}  // namespace remora
