// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "engine/curve/passes.hpp"
#include "engine/solve.hpp"

namespace remora {
namespace {

CurvePoint point_of(const Schedule& schedule) {
  CurvePoint point{.budget = schedule.budget,
                   .status = schedule.status,
                   .lower_bound = schedule.lower_bound,
                   .seconds = schedule.solver.seconds};
  if (!schedule.has_schedule()) return point;
  point.duration = schedule.duration;
  point.peak_memory = schedule.peak_memory;
  point.found_under = schedule.budget;
  return point;
}

class MethodSweep {
 public:
  MethodSweep(const SweepInput& input, BudgetChoice choice) : input_(input), choice_(std::move(choice)) {}

  std::vector<Outcome> run() {
    while (choice_.is_listed() || outcomes_.empty() || !input_.deadline.reached()) {
      const std::optional<Bytes> budget = choice_.next(points(), reached_);
      if (!budget) break;
      visit(*budget);
    }
    return std::move(outcomes_);
  }

 private:
  void visit(Bytes budget) {
    Schedule schedule =
        solve(input_.instance.with_budget(budget), options_of_next(), {.cancel = input_.callbacks.cancel});
    work_ += schedule.solver.work;
    if (schedule.solver.reached_peak > Bytes(0)) reached_ = std::min(reached_, schedule.solver.reached_peak);
    const CurvePoint point = point_of(schedule);
    const auto place = std::find_if(outcomes_.begin(), outcomes_.end(),
                                    [&](const Outcome& other) { return other.point.budget > budget; });
    outcomes_.insert(place, {point, std::move(schedule)});
    make_monotone(outcomes_);
    if (!input_.callbacks.progress) return;
    const int count = static_cast<int>(outcomes_.size());
    input_.callbacks.progress({input_.deadline.elapsed(), budget, point.status, point.duration, point.peak_memory,
                               point.lower_bound, count, count});
  }

  /// A share of what is left.
  [[nodiscard]] SolveOptions options_of_next() const {
    SolveOptions options = input_.options;
    const double part = 1.0 / static_cast<double>(choice_.left() + 1);
    options.time_limit = std::max(0.0, input_.options.time_limit - input_.deadline.elapsed()) * part;
    if (input_.options.work_limit > 0) {
      options.work_limit = std::max<std::int64_t>(1, part_of(input_.options.work_limit - work_, part));
    }
    return options;
  }

  [[nodiscard]] std::vector<CurvePoint> points() const {
    std::vector<CurvePoint> points;
    points.reserve(outcomes_.size());
    for (const Outcome& outcome : outcomes_) points.push_back(outcome.point);
    return points;
  }

  const SweepInput& input_;
  BudgetChoice choice_;
  /// By budget, ascending.
  std::vector<Outcome> outcomes_;
  Bytes reached_ = Bytes::max();
  std::int64_t work_ = 0;
};

}  // namespace

std::vector<Outcome> sweep_by_method(const SweepInput& input, BudgetChoice choice) {
  return MethodSweep(input, std::move(choice)).run();
}

}  // namespace remora
