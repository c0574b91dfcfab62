// SPDX-License-Identifier: Apache-2.0
//
// Many budgets of one graph: the curve of memory against time, for little more than a solve or two.
//
// Every budget has a search of its own, which is left and taken up again: first all budgets
// from the largest down, so that each starts from its neighbour's schedule with a little more to save; then up and down again,
// until the time is over or everything is proved. What one learns the others get at once: a schedule serves every
// larger budget, and is a start for the smaller ones; a bound holds for every smaller one. What does not depend on
// the budget is found once: the block schedules of groups.
#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "engine/ask/ask.hpp"
#include "engine/ask/outcomes.hpp"
#include "engine/ask/problem.hpp"
#include "engine/ask/search_sweep.hpp"
#include "engine/ask/sliced.hpp"
#include "engine/base/allowance.hpp"
#include "engine/baselines/method.hpp"
#include "engine/bound/first_bound.hpp"
#include "model/error.hpp"

namespace remora {
namespace {

/// The part of the time limit for the minimum budget's bound.
constexpr double kMinBudgetShare = 0.05;
/// No schedule holds a smaller budget. Bisection begins there, so it is worth some time; a list does without.
Bytes lower_end(const Instance& instance, const SweepOptions& sweep_options, const Allowance& allowance) {
  if (!sweep_options.budgets.empty()) return least_budget(instance);
  return proved_least_budget(instance,
                             Deadline(allowance.uncounted_seconds(kMinBudgetShare), allowance.deadline().cancel()),
                             sweep_options.resolution);
}

/// The point of the curve for one budget's schedule.
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

/// Tells of a budget after a solve of its own. `settled` of `budgets` have nothing left to search.
void report(const SweepCallbacks& callbacks, const CurvePoint& point, const Allowance& allowance, std::size_t budgets,
            std::size_t settled) {
  if (!callbacks.progress) return;
  callbacks.progress({allowance.elapsed(), point.budget, point.status, point.duration, point.peak_memory,
                      point.lower_bound, static_cast<int>(budgets), static_cast<int>(settled)});
}

/// The budgets of a method that does not search: each for itself, once, as the choice gives them.
class MethodSweep {
 public:
  MethodSweep(const SweepInput& input, BudgetChoice choice) : input_(input), choice_(std::move(choice)) {}

  std::vector<Outcome> run() {
    while (choice_.is_listed() || outcomes_.empty() || !input_.allowance.deadline().reached()) {
      const std::optional<Bytes> budget = choice_.next(points(), reached_);
      if (!budget) break;
      visit(*budget);
    }
    return std::move(outcomes_);
  }

 private:
  void visit(Bytes budget) {
    const double part = 1.0 / static_cast<double>(choice_.left() + 1);
    Schedule schedule = solve(input_.instance.with_budget(budget), within(input_.options, input_.allowance.share(part)),
                              {.cancel = input_.callbacks.cancel});
    input_.allowance.spend(Work(schedule.solver.work));
    if (schedule.solver.reached_peak > Bytes(0)) reached_ = std::min(reached_, schedule.solver.reached_peak);
    const CurvePoint point = point_of(schedule);
    const auto place = std::find_if(outcomes_.begin(), outcomes_.end(),
                                    [&](const Outcome& other) { return other.point.budget > budget; });
    outcomes_.insert(place, {point, std::move(schedule)});
    make_monotone(outcomes_);
    report(input_.callbacks, point, input_.allowance, outcomes_.size(), outcomes_.size());
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
};

SweepResult sweep_stated(const Instance& instance, const SolveOptions& options, const SweepOptions& sweep_options,
                         const SweepCallbacks& callbacks) {
  check_problem(instance, options);
  expect_one_mode(instance.graph(), "a sweep");
  if (is_search(options.strategy) && instance.problem().order == OrderMode::free) {
    throw InputError::of_option(
        "order", "a sweep searches in the input order only; sweep the graph with its ops in another order");
  }
  check_sweep_options(sweep_options);
  Allowance allowance(limits_of(options), callbacks.cancel);
  const Bytes least = lower_end(instance, sweep_options, allowance);
  BudgetChoice choice(instance, sweep_options, least);
  const SweepInput input{instance, options, callbacks, allowance};
  std::vector<Outcome> outcomes = is_search(options.strategy) ? sweep_by_search(input, std::move(choice))
                                                              : MethodSweep(input, std::move(choice)).run();
  SweepResult result = assemble_curve(instance, std::move(outcomes), least);
  result.curve.seconds = allowance.elapsed();
  return result;
}

/// The part of a sweep that follows after every budget is solved with the instance's number of runs.
class WiderSweep {
 public:
  WiderSweep(const Instance& instance, const SolveOptions& options, const SweepCallbacks& callbacks)
      : instance_(instance),
        wider_(with_computes(instance, instance.problem().max_computes + 1)),
        options_(options),
        callbacks_(callbacks),
        allowance_(limits_of(options), callbacks.cancel) {}

  SweepResult run(const SweepOptions& sweep_options) {
    constexpr double kPartOfFirst = 0.75;
    SweepResult result =
        sweep_stated(instance_, within(options_, allowance_.share(kPartOfFirst)), sweep_options, callbacks_);
    for (const Schedule& schedule : result.schedules) allowance_.spend(Work(schedule.solver.work));
    std::vector<std::size_t> open = points_to_widen(result.curve);
    if (open.empty() || !allows_more(instance_, wider_)) return result;
    for (std::size_t done = 0; done < open.size(); ++done) widen(result, open[done], open.size() - done);
    std::vector<Outcome> outcomes;
    for (std::size_t i = 0; i < result.schedules.size(); ++i) {
      outcomes.push_back({result.curve.points[i], std::move(result.schedules[i])});
    }
    const Bytes least = is_wider_ ? least_budget(instance_) : result.curve.least_budget;
    result = assemble_curve(instance_, std::move(outcomes), least);
    result.curve.seconds = allowance_.elapsed();
    return result;
  }

 private:
  /// From the largest budget down, those without a schedule first, and those that are proved last.
  [[nodiscard]] std::vector<std::size_t> points_to_widen(const Curve& curve) const {
    std::vector<std::size_t> open;
    for (std::size_t i = curve.points.size(); i-- > 0;) {
      const CurvePoint& point = curve.points[i];
      const bool may_pay =
          point.has_schedule() ? point.duration > curve.baseline_duration : point.budget >= least_budget(instance_);
      if (may_pay) open.push_back(i);
    }
    const auto rank = [&](std::size_t i) {
      const CurvePoint& point = curve.points[i];
      return !point.has_schedule() ? 0 : point.status == Status::optimal ? 2 : 1;
    };
    std::ranges::stable_sort(open, {}, rank);
    return open;
  }

  /// Solves for one budget within a share of what is left.
  void widen(SweepResult& result, std::size_t number, std::size_t shares) {
    CurvePoint& point = result.curve.points[number];
    Schedule& known = result.schedules[number];
    const bool is_known = known.has_schedule();
    // Where time is over, what is proved of fewer computes is still said for what it is.
    if (!is_known && allowance_.is_over()) return;
    const SolveOptions options = within(options_, allowance_.share(1.0 / static_cast<double>(shares)));
    const SolveCallbacks callbacks{.cancel = callbacks_.cancel, .blocks = callbacks_.blocks};
    const double begun = allowance_.elapsed();
    const std::int64_t worked = is_known ? known.solver.work : 0;
    Schedule found = is_known ? solve_beyond(instance_.with_budget(point.budget), options, callbacks, known)
                              : solve_with_more_computes(wider_.with_budget(point.budget), options, callbacks);
    allowance_.spend(Work(found.solver.work - worked));
    const double seconds = point.seconds + allowance_.elapsed() - begun;
    is_wider_ = is_wider_ || !is_known || found.duration < known.duration;
    point = point_of(found);
    point.seconds = seconds;
    known = std::move(found);
    const std::vector<CurvePoint>& points = result.curve.points;
    const auto is_settled = [](const CurvePoint& one) {
      return one.status == Status::optimal || one.status == Status::infeasible;
    };
    report(callbacks_, point, allowance_, points.size(),
           static_cast<std::size_t>(std::count_if(points.begin(), points.end(), is_settled)));
  }

  const Instance& instance_;
  Instance wider_;
  const SolveOptions& options_;
  const SweepCallbacks& callbacks_;
  Allowance allowance_;
  bool is_wider_ = false;
};

}  // namespace

SweepResult sweep(const Request& request, const SweepOptions& options, const SweepCallbacks& callbacks) {
  if (request.slices.is_allowed) return sweep_sliced(request, options, callbacks);
  check_request(request);
  const Instance instance = unbudgeted(request, "a sweep keeps to the input order");
  const bool widens = !request.max_computes && is_search(request.options.strategy);
  SweepResult result = widens ? WiderSweep(instance, request.options, callbacks).run(options)
                              : sweep_stated(instance, request.options, options, callbacks);
  for (const Schedule& schedule : result.schedules) expect_valid(instance, schedule);
  return result;
}

}  // namespace remora
