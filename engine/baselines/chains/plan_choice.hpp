// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "model/instance.hpp"
#include "model/recompute_plan.hpp"

namespace remora {

/// Of the plans offered, the shortest that holds the budget; while none does, the one with the least peak.
class PlanChoice {
 public:
  explicit PlanChoice(const Instance& instance) : instance_(instance) {}

  /// Whether the plan holds the budget. One evaluation.
  bool offer(const RecomputePlan& plan);

  /// Whether any plan held the budget.
  [[nodiscard]] bool holds() const { return offers_ > 0 && peak_ <= instance_.budget(); }
  /// The best plan's sequence; empty before the first offer.
  [[nodiscard]] const std::vector<OpId>& best() const { return best_; }
  [[nodiscard]] std::int64_t offers() const { return offers_; }

 private:
  const Instance& instance_;
  std::vector<OpId> best_;
  Duration duration_{};
  Bytes peak_{};
  std::int64_t offers_ = 0;
};

}  // namespace remora
