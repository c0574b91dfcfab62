// SPDX-License-Identifier: Apache-2.0
//
// Many budgets of one device: the curve of its memory against time, while the other devices keep the budgets that they have.
//
// Two rounds. The first goes from the largest budget down, so that each search starts from its neighbour's schedule with a little
// more to save, and takes half of the time; the second spends the rest on the budgets that are not settled. What one learns the
// others get: a schedule serves every larger budget, a bound holds for every smaller one, and below a budget that is proved
// infeasible all are.
#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "engine/devices/sliced_search.hpp"
#include "engine/devices/solve.hpp"
#include "model/error.hpp"

namespace remora::devices {
namespace {

constexpr int kRounds = 2;

class Sweep {
 public:
  Sweep(const DeviceGraph& graph, const Problem& problem, DeviceId device, std::vector<Bytes> budgets,
        const Options& options, const std::function<void(const SweepProgress&)>& listener)
      : graph_(graph),
        problem_(problem),
        device_(device),
        budgets_(std::move(budgets)),
        options_(options),
        listener_(listener),
        allowance_(limits_of(options), options.cancel) {
    std::sort(budgets_.begin(), budgets_.end());
    check();
    points_.resize(budgets_.size());
    under_.assign(budgets_.size(), Bytes(0));
    seconds_.assign(budgets_.size(), 0);
  }

  SweepResult run() {
    // With the whole limit, as `baseline` of a request, so that percentages are of what the curve reports.
    whole_ = baseline(graph_, problem_, past_limit(options_));
    for (int round = 1; round <= kRounds; ++round) {
      for (std::size_t i = budgets_.size(); i-- > 0 && !allowance_.is_over();) {
        if (!is_settled(i)) search(i, round);
      }
    }
    for (std::size_t i = 0; i < points_.size(); ++i) {
      // Budgets that no search has reached.
      if (!points_[i]) points_[i] = solve(graph_, problem_of(i), {.time_limit = 0}).schedule;
    }
    share();
    return result();
  }

 private:
  void check() const {
    if (budgets_.empty()) throw InputError::of_option("budgets", "there is none");
    if (budgets_.front() < Bytes(0)) throw InputError::of_option("budgets", "must not be negative");
    const auto twice = std::adjacent_find(budgets_.begin(), budgets_.end());
    if (twice != budgets_.end())
      throw InputError::of_option("budgets", std::to_string(twice->count()) + " bytes are there twice");
    if (problem_.objective != Objective::duration)
      throw InputError::of_option("objective", "a sweep's is the duration");
  }

  [[nodiscard]] Problem problem_of(std::size_t i) const {
    Problem problem = problem_;
    problem.budget[device_] = budgets_[i];
    return problem;
  }

  [[nodiscard]] bool is_settled(std::size_t i) const {
    return points_[i] && (points_[i]->status == Status::optimal || points_[i]->status == Status::infeasible);
  }

  /// How many budgets of this round are still to be searched, this one and the smaller ones; the second round's come to the first.
  [[nodiscard]] int still_to_search(std::size_t i, int round) const {
    int count = 0;
    for (std::size_t k = 0; k <= i; ++k) count += is_settled(k) ? 0 : 1;
    return count + (kRounds - round) * static_cast<int>(budgets_.size());
  }

  void search(std::size_t i, int round) {
    Options options = within(options_, allowance_.equal_share(still_to_search(i, round)));
    options.seed = options_.seed + static_cast<std::uint64_t>(round - 1);
    options.start = start_for(i);
    DeviceSchedule found = solve(graph_, problem_of(i), options).schedule;
    allowance_.spend(Work(found.solver.work));
    seconds_[i] += found.solver.seconds;
    take(i, std::move(found));
    share();
    if (!listener_) return;
    int settled = 0;
    for (std::size_t k = 0; k < points_.size(); ++k) settled += is_settled(k) ? 1 : 0;
    const CurvePoint point = point_of(i);
    listener_({allowance_.elapsed(), point.budget, point.status, point.duration, point.peak_memory, point.lower_bound,
               static_cast<int>(points_.size()), settled});
  }

  /// The known steps for this budget, or otherwise for the nearest one.
  [[nodiscard]] std::vector<DeviceStep> start_for(std::size_t i) const {
    for (std::size_t away = 0; away < points_.size(); ++away) {
      if (i + away < points_.size() && has_steps(i + away)) return points_[i + away]->steps;
      if (away <= i && has_steps(i - away)) return points_[i - away]->steps;
    }
    return options_.start;
  }

  [[nodiscard]] bool has_steps(std::size_t i) const { return points_[i] && points_[i]->has_schedule(); }

  /// Keeps the better schedule and the better bound of two answers.
  void take(std::size_t i, DeviceSchedule found) {
    std::optional<DeviceSchedule>& point = points_[i];
    if (found.has_schedule()) under_[i] = has_steps(i) && point->duration <= found.duration ? under_[i] : budgets_[i];
    if (!point) {
      point = std::move(found);
      return;
    }
    const std::int64_t bound = std::max(point->lower_bound, found.lower_bound);
    const bool better = found.status == Status::infeasible || !point->has_schedule() ||
                        (found.has_schedule() && found.duration < point->duration);
    if (better) point = std::move(found);
    raise_bound(*point, bound);
  }

  static void raise_bound(DeviceSchedule& point, std::int64_t bound) {
    point.lower_bound = std::max(point.lower_bound, bound);
    if (point.has_schedule()) {
      point.status = point.duration.count() <= point.lower_bound ? Status::optimal : Status::feasible;
    }
  }

  /// Hands schedules up, and bounds and infeasibility down.
  void share() {
    for (std::size_t i = 0; i + 1 < points_.size(); ++i) {
      if (!has_steps(i)) continue;
      if (has_steps(i + 1) && points_[i + 1]->duration <= points_[i]->duration) continue;
      DeviceSchedule up = *points_[i];
      up.budget[device_] = budgets_[i + 1];
      if (problem_.copies == CopyMode::overlap) {
        // Steps that waited for memory may wait less.
        const DeviceVerdict verdict = verify(graph_, up);
        up.duration = verdict.duration;
        up.peak_memory = verdict.peak;
      }
      up.lower_bound = points_[i + 1] ? points_[i + 1]->lower_bound : 0;
      up.status = up.duration.count() <= up.lower_bound ? Status::optimal : Status::feasible;
      points_[i + 1] = std::move(up);
      under_[i + 1] = under_[i];
    }
    for (std::size_t i = points_.size() - 1; i-- > 0;) {
      if (!points_[i + 1]) continue;
      if (points_[i + 1]->status == Status::infeasible && (!points_[i] || points_[i]->status != Status::infeasible)) {
        points_[i] = points_[i + 1];
        points_[i]->budget[device_] = budgets_[i];
      }
      if (points_[i]) raise_bound(*points_[i], points_[i + 1]->lower_bound);
    }
  }

  [[nodiscard]] CurvePoint point_of(std::size_t i) const {
    const DeviceSchedule& known = *points_[i];
    CurvePoint point{.budget = budgets_[i], .status = known.status, .lower_bound = Duration(known.lower_bound)};
    if (!point.has_schedule()) return point;
    point.duration = known.duration;
    point.peak_memory = known.peak_memory[device_];
    point.found_under = under_[i];
    return point;
  }

  SweepResult result() {
    SweepResult result;
    Curve& curve = result.curve;
    curve.graph = graph_.graph.name;
    curve.device = graph_.devices[device_].name;
    curve.order = problem_.order;
    curve.max_computes = problem_.max_computes;
    curve.fixed_memory = graph_.devices[device_].fixed_memory;
    curve.baseline_duration = whole_.baseline_duration;
    curve.baseline_peak_memory = whole_.baseline_peak_memory[device_];
    curve.least_budget = base_memory(graph_)[device_];
    for (std::size_t i = 0; i < points_.size(); ++i) {
      CurvePoint point = point_of(i);
      point.seconds = seconds_[i];
      if (point.status == Status::infeasible)
        curve.least_budget = std::max(curve.least_budget, point.budget + Bytes(1));
      curve.points.push_back(std::move(point));
      result.schedules.push_back(*std::move(points_[i]));
    }
    curve.knee = find_knee(curve);
    curve.seconds = allowance_.elapsed();
    return result;
  }

  const DeviceGraph& graph_;
  const Problem& problem_;
  DeviceId device_;
  /// Ascending.
  std::vector<Bytes> budgets_;
  const Options& options_;
  const std::function<void(const SweepProgress&)>& listener_;
  Allowance allowance_;
  /// By budget.
  std::vector<std::optional<DeviceSchedule>> points_;
  std::vector<Bytes> under_;
  std::vector<double> seconds_;
  DeviceSchedule whole_;
};

}  // namespace

SweepResult sweep(const DeviceGraph& graph, const Problem& problem, DeviceId device, std::vector<Bytes> budgets,
                  const Options& options, const std::function<void(const SweepProgress&)>& listener) {
  if (problem.budget.size() != graph.devices.size()) throw InputError("budget", "needs an entry for each device");
  return Sweep(graph, problem, device, std::move(budgets), options, listener).run();
}

}  // namespace remora::devices
