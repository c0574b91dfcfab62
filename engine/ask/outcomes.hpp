// SPDX-License-Identifier: Apache-2.0
//
// Outcomes of a sweep's budgets, and the choice of the next one.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "engine/ask/ask.hpp"
#include "model/instance.hpp"

namespace remora {

/// One budget's outcome.
struct Outcome {
  CurvePoint point{};
  Schedule schedule{};
};

/// A larger budget takes over schedules of a smaller one, and a proof for a larger one holds for the smaller. Where
/// computes an op differ (of the schedules' reports), what is proved holds for as many or fewer.
/// Outcomes ascend by budget.
void make_monotone(std::vector<Outcome>& outcomes);

/// The outcomes, by budget ascending, made monotone, as a curve. `least_budget`: proved by other means.
SweepResult assemble_curve(const Instance& instance, std::vector<Outcome> outcomes, Bytes least_budget);

// Which budget to look at next: recursive bisection of the curve.
//
//     time |  o              Between two neighbours the curve lies in the rectangle that they span, for it never rises.
//          |  +------+       The next budget is the middle of the largest one; where neighbours agree there is none.
//          |  |      |
//          |  +------o
//          |         +---o
//          +---------------- budget

/// Throws InputError for options out of range, and for a budget that is there twice.
void check_sweep_options(const SweepOptions& options);

/// The budgets of a sweep, one after the other: the caller's from the largest down; or else the input order's peak, the
/// least budget, a budget that is known to do, and then by bisection.
class BudgetChoice {
 public:
  BudgetChoice(const Instance& instance, const SweepOptions& options, Bytes least_budget);

  /// `points`: of the budgets so far, ascending. `reached`: the smallest peak of any schedule seen.
  std::optional<Bytes> next(std::span<const CurvePoint> points, Bytes reached);

  /// True if the caller said which.
  [[nodiscard]] bool is_listed() const { return !listed_.empty(); }
  /// Budgets still to come, at most.
  [[nodiscard]] std::size_t left() const { return most_ - given_; }

 private:
  std::optional<Bytes> bisect(std::span<const CurvePoint> points, Bytes reached) const;

  /// Descending.
  std::vector<Bytes> listed_;
  std::size_t most_ = 0;
  std::size_t given_ = 0;
  Bytes least_{};
  Bytes most_budget_{};
  Bytes resolution_{};
};

/// The middle between two of the points, or nothing where all neighbours agree or are no further apart than
/// `resolution`. Points ascend by budget. Next to a point without a schedule nothing is known: the rectangle
/// there is taken to be half as high as the curve. Nothing lies below a budget proved infeasible and the next.
std::optional<Bytes> next_budget(std::span<const CurvePoint> points, Bytes resolution);

}  // namespace remora
