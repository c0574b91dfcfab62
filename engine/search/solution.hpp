// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include "model/instance.hpp"
#include "model/recompute_plan.hpp"

namespace remora {

/// A schedule of the instance's problem and what the evaluator says of it. Shared between workers as plain data.
struct Solution {
  /// Of the staged form.
  RecomputePlan plan{};
  /// Of the free order; empty in the staged form, where the plan says it.
  std::vector<OpId> sequence{};
  Duration extra{};
  Bytes peak{};
};

/// The plan without its useless recomputes, evaluated. The instance is of the staged form.
Solution make_solution(const Instance& instance, RecomputePlan plan);

/// A sequence of the instance's form without its useless recomputes, evaluated.
Solution make_solution(const Instance& instance, std::span<const Compute> sequence);
Solution make_solution(const Instance& instance, std::span<const OpId> sequence);

std::vector<OpId> sequence_of(const Instance& instance, const Solution& solution);

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
