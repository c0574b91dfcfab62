// SPDX-License-Identifier: Apache-2.0
#include "engine/sweep.hpp"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "engine/base/deadline.hpp"
#include "engine/base/work.hpp"
#include "engine/baselines/method.hpp"
#include "engine/bound/first_bound.hpp"
#include "engine/curve/outcomes.hpp"
#include "engine/curve/search_sweep.hpp"
#include "engine/solve.hpp"
#include "model/error.hpp"

namespace remora {
namespace {

/// Of the time limit, for the least budget's bound.
constexpr double kLeastBudgetShare = 0.05;
/// No schedule holds a smaller budget. Bisection begins there, so it is worth some time; a list does without.
Bytes lower_end(const Instance& instance, const SolveOptions& options, const SweepOptions& sweep_options,
                const SweepCallbacks& callbacks) {
  if (!sweep_options.budgets.empty()) return least_budget(instance);
  // Under a work limit nothing may depend on time.
  const double seconds = options.work_limit > 0 ? kNoTimeLimit : options.time_limit * kLeastBudgetShare;
  return proved_least_budget(instance, Deadline(seconds, callbacks.cancel), sweep_options.resolution);
}

/// What one budget's schedule says as a point of the curve.
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

/// The budgets of a method that does not search: each for itself, once, as the choice gives them.
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
    work_ += Work(schedule.solver.work);
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
      options.work_limit = std::max(Work(1), part_of(Work(input_.options.work_limit) - work_, part)).count();
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
  Work work_{};
};

}  // namespace

SweepResult sweep(const Instance& instance, const SolveOptions& options, const SweepOptions& sweep_options,
                  const SweepCallbacks& callbacks) {
  check_problem(instance, options);
  if (instance.has_modes()) throw InputError("modes", "a sweep takes graphs with one mode an op");
  if (is_search(options.strategy) && instance.problem().order == OrderMode::free) {
    throw InputError("order",
                     "a sweep searches in the input order only; sweep the graph with its ops in another order");
  }
  check_sweep_options(sweep_options);
  const Deadline deadline(options.time_limit, callbacks.cancel);
  const Bytes least = lower_end(instance, options, sweep_options, callbacks);
  BudgetChoice choice(instance, sweep_options, least);
  const SweepInput input{instance, options, callbacks, deadline};
  std::vector<Outcome> outcomes = is_search(options.strategy) ? sweep_by_search(input, std::move(choice))
                                                              : MethodSweep(input, std::move(choice)).run();
  SweepResult result = assemble_curve(instance, std::move(outcomes), least);
  result.curve.seconds = deadline.elapsed();
  return result;
}

}  // namespace remora
