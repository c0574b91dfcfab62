// SPDX-License-Identifier: Apache-2.0
#include "engine/ask/outcomes.hpp"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>

#include "model/error.hpp"
#include "model/evaluate.hpp"

namespace remora {
namespace {

/// The larger budget takes over the smaller one's schedule if that is shorter than its own.
void serve(const Outcome& smaller, Outcome& larger) {
  if (!smaller.point.has_schedule()) return;
  if (larger.point.has_schedule() && larger.point.duration <= smaller.point.duration) return;
  larger.point.status = Status::feasible;
  larger.point.duration = smaller.point.duration;
  larger.point.peak_memory = smaller.point.peak_memory;
  larger.point.found_under = smaller.point.found_under;
  if (larger.schedule.solver.max_computes < smaller.schedule.solver.max_computes) {
    // Another problem, of which nothing is proved.
    larger.schedule.solver.max_computes = smaller.schedule.solver.max_computes;
    if (!larger.schedule.solver.bound_for_any_number) larger.point.lower_bound = larger.schedule.baseline_duration;
    larger.schedule.certificate.reset();
  }
  larger.schedule.steps = smaller.schedule.steps;
  larger.schedule.duration = smaller.schedule.duration;
  larger.schedule.peak_memory = smaller.schedule.peak_memory;
  larger.schedule.solver.reached_peak = smaller.schedule.peak_memory;
  larger.schedule.solver.note =
      "the schedule of a smaller budget, " + std::to_string(smaller.point.found_under.count()) + " bytes";
}

/// Any bound holds for no schedule, also an integer program's infinity: such a budget has that of the next larger one.
void unbound(Outcome& refuted) {
  refuted.point.lower_bound = refuted.schedule.baseline_duration;
}

/// The smaller budget takes over what is proved for the larger one, with as many computes an op or more, or any number.
void bound(const Outcome& larger, Outcome& smaller) {
  const SolverReport& of_larger = larger.schedule.solver;
  const SolverReport& of_smaller = smaller.schedule.solver;
  if (of_larger.max_computes < of_smaller.max_computes && !of_larger.bound_for_any_number) return;
  // A bound for any number of computes stays one.
  if (of_smaller.bound_for_any_number && !of_larger.bound_for_any_number) return;
  if (larger.point.status == Status::infeasible && smaller.point.status == Status::unknown) {
    smaller.point.status = Status::infeasible;
    smaller.schedule.certificate = larger.schedule.certificate;
    unbound(smaller);
  }
  smaller.point.lower_bound = std::max(smaller.point.lower_bound, larger.point.lower_bound);
}

/// The schedule says what the point says.
void agree(Outcome& outcome) {
  CurvePoint& point = outcome.point;
  if (point.has_schedule()) {
    ensure(point.lower_bound <= point.duration, "sweep: a lower bound is above a schedule");
    point.status = point.duration <= point.lower_bound ? Status::optimal : Status::feasible;
  }
  outcome.schedule.status = point.status;
  outcome.schedule.lower_bound = point.lower_bound;
}

}  // namespace

void make_monotone(std::vector<Outcome>& outcomes) {
  for (std::size_t i = 1; i < outcomes.size(); ++i) serve(outcomes[i - 1], outcomes[i]);
  for (Outcome& outcome : outcomes) {
    if (outcome.point.status == Status::infeasible) unbound(outcome);
  }
  for (std::size_t i = outcomes.size(); i-- > 1;) bound(outcomes[i], outcomes[i - 1]);
  for (Outcome& outcome : outcomes) agree(outcome);
}

SweepResult assemble_curve(const Instance& instance, std::vector<Outcome> outcomes, Bytes least_budget) {
  make_monotone(outcomes);
  SweepResult result;
  Curve& curve = result.curve;
  curve.graph = instance.graph().name;
  curve.order = instance.problem().order;
  curve.max_computes = instance.problem().max_computes;
  curve.fixed_memory = instance.graph().fixed_memory;
  curve.baseline_duration = instance.baseline_duration();
  curve.baseline_peak_memory = baseline_peak(instance);
  curve.least_budget = least_budget;
  curve.points.reserve(outcomes.size());
  result.schedules.reserve(outcomes.size());
  int most = curve.max_computes;
  for (const Outcome& outcome : outcomes) most = std::max(most, outcome.schedule.solver.max_computes);
  for (Outcome& outcome : outcomes) {
    const int computes = outcome.schedule.solver.max_computes;
    outcome.point.max_computes = computes > curve.max_computes ? computes : 0;
    if (outcome.point.status == Status::infeasible && computes == most) {
      curve.least_budget = std::max(curve.least_budget, outcome.point.budget + Bytes(1));
    }
    curve.points.push_back(std::move(outcome.point));
    result.schedules.push_back(std::move(outcome.schedule));
  }
  curve.knee = find_knee(curve);
  return result;
}

namespace {

constexpr double kUnknownHeight = 0.5;

/// Between the durations of all schedules.
double height_of_curve(std::span<const CurvePoint> points) {
  Duration least = Duration::max();
  Duration most{};
  for (const CurvePoint& point : points) {
    if (!point.has_schedule()) continue;
    least = std::min(least, point.duration);
    most = std::max(most, point.duration);
  }
  return least < most ? static_cast<double>((most - least).count()) : 1.0;
}

double height_of(const CurvePoint& low, const CurvePoint& high, double curve) {
  if (!high.has_schedule()) return 0;
  return low.has_schedule() ? static_cast<double>((low.duration - high.duration).count()) : kUnknownHeight * curve;
}

}  // namespace

void check_sweep_options(const SweepOptions& options) {
  if (options.points < 2) throw InputError::of_option("points", "must be at least 2");
  if (!(options.resolution >= 0 && options.resolution <= 1))
    throw InputError::of_option("resolution", "must be from 0 to 1");
  std::vector<Bytes> budgets = options.budgets;
  std::sort(budgets.begin(), budgets.end());
  const auto twice = std::adjacent_find(budgets.begin(), budgets.end());
  if (twice != budgets.end())
    throw InputError::of_option("budgets", std::to_string(twice->count()) + " bytes are there twice");
}

BudgetChoice::BudgetChoice(const Instance& instance, const SweepOptions& options, Bytes least_budget)
    : listed_(options.budgets), least_(least_budget), most_budget_(std::max(least_budget, baseline_peak(instance))) {
  std::sort(listed_.begin(), listed_.end(), std::greater<>());
  most_ = listed_.empty() ? static_cast<std::size_t>(options.points) : listed_.size();
  const auto range = static_cast<double>((most_budget_ - least_).count());
  resolution_ = Bytes(static_cast<std::int64_t>(range * options.resolution));
}

std::optional<Bytes> BudgetChoice::next(std::span<const CurvePoint> points, Bytes reached) {
  if (given_ == most_) return std::nullopt;
  const std::optional<Bytes> budget = listed_.empty() ? bisect(points, reached) : listed_[given_];
  if (budget) ++given_;
  return budget;
}

std::optional<Bytes> BudgetChoice::bisect(std::span<const CurvePoint> points, Bytes reached) const {
  if (given_ == 0) return most_budget_;
  if (given_ == 1) return least_ < most_budget_ ? std::optional<Bytes>(least_) : std::nullopt;
  const bool is_new = !points.front().has_schedule() && reached < most_budget_;
  if (given_ == 2 && is_new) return reached;
  return next_budget(points, resolution_);
}

std::optional<Bytes> next_budget(std::span<const CurvePoint> points, Bytes resolution) {
  const double curve = height_of_curve(points);
  const Bytes least_width = std::max(resolution, Bytes(1));
  double largest = 0;
  std::optional<Bytes> middle;
  for (std::size_t i = 0; i + 1 < points.size(); ++i) {
    const Bytes width = points[i + 1].budget - points[i].budget;
    const double area = height_of(points[i], points[i + 1], curve) * static_cast<double>(width.count());
    if (width <= least_width || area <= largest) continue;
    largest = area;
    middle = points[i].budget + Bytes(width.count() / 2);
  }
  return middle;
}

}  // namespace remora
