// SPDX-License-Identifier: Apache-2.0
#include "engine/curve/outcomes.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "model/ensure.hpp"
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
  larger.schedule.steps = smaller.schedule.steps;
  larger.schedule.duration = smaller.schedule.duration;
  larger.schedule.peak_memory = smaller.schedule.peak_memory;
  larger.schedule.solver.reached_peak = smaller.schedule.peak_memory;
  larger.schedule.solver.note =
      "the schedule of a smaller budget, " + std::to_string(smaller.point.found_under.count()) + " bytes";
}

/// The smaller budget takes over what is proved for the larger one.
void bound(const Outcome& larger, Outcome& smaller) {
  smaller.point.lower_bound = std::max(smaller.point.lower_bound, larger.point.lower_bound);
  if (larger.point.status == Status::infeasible && smaller.point.status == Status::unknown) {
    smaller.point.status = Status::infeasible;
    smaller.schedule.certificate = larger.schedule.certificate;
  }
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
  for (Outcome& outcome : outcomes) {
    if (outcome.point.status == Status::infeasible) {
      curve.least_budget = std::max(curve.least_budget, outcome.point.budget + Bytes(1));
    }
    curve.points.push_back(std::move(outcome.point));
    result.schedules.push_back(std::move(outcome.schedule));
  }
  curve.knee = find_knee(curve);
  return result;
}

}  // namespace remora
