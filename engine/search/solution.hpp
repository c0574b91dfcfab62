// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <optional>
#include <span>
#include <utility>
#include <variant>
#include <vector>

#include "model/instance.hpp"
#include "model/sequence.hpp"

namespace remora {

/// A schedule of the instance's problem and what the evaluator says of it: a plan where it is one, else its runs. Shared
/// between workers as plain data.
class Solution {
 public:
  /// The staged form without recomputes.
  Solution() = default;
  Solution(RecomputePlan plan, Duration more, Bytes highest) : extra(more), peak(highest), form_(std::move(plan)) {}
  Solution(std::vector<Compute> computes, Duration more, Bytes highest)
      : extra(more), peak(highest), form_(std::move(computes)) {}

  /// Throws std::bad_variant_access where the instance has no plans.
  [[nodiscard]] const RecomputePlan& plan() const { return std::get<RecomputePlan>(form_); }
  /// Runs of either form.
  [[nodiscard]] Sequence sequence(const Instance& instance) const { return ops_of(computes(instance)); }
  [[nodiscard]] std::vector<Compute> computes(const Instance& instance) const;

  Duration extra{};
  Bytes peak{};

 private:
  std::variant<RecomputePlan, std::vector<Compute>> form_;
};

/// The plan without its useless recomputes, evaluated. The instance is of the staged form.
Solution make_solution(const Instance& instance, RecomputePlan plan);

/// A sequence of the instance's form without its useless recomputes, evaluated.
Solution make_solution(const Instance& instance, std::span<const Compute> sequence);
Solution make_solution(const Instance& instance, std::span<const OpId> sequence);

/// Where a search begins: the input order or, if that is better, the warm start; empty for none. Recomputes beyond an
/// op's limit are left out. Throws InputError for a warm start that is not of the instance's form.
struct FirstSolution {
  std::optional<Solution> solution{};
  /// No choice of modes is allowed, whatever memory it takes; without this and a solution, none was found.
  bool is_infeasible = false;
};
FirstSolution first_solution(const Instance& instance, std::span<const Compute> warm_start);

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
