// SPDX-License-Identifier: Apache-2.0
//
// A sweep that may compute parts of the graph in slices: one of the graph as it is, one of each slicing, and at every
// budget the best of what they know.
#include <algorithm>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "engine/ask/sliced.hpp"
#include "engine/base/allowance.hpp"
#include "engine/bound/first_bound.hpp"
#include "model/error.hpp"
#include "model/evaluate.hpp"
#include "model/instance.hpp"

namespace remora {
namespace {

/// Parts of what is left: for the graph as it is, and for the choice.
constexpr double kUnslicedShare = 0.4;
constexpr double kSlicingsShare = 0.1;
/// More slicings would each have too little of the limits.
constexpr std::size_t kMostSlicings = 3;

/// A sweep of one graph.
struct Swept {
  std::shared_ptr<const Graph> graph{};
  /// Empty of the graph as it is.
  std::vector<Region> regions{};
  std::vector<NamedRegion> named{};
  SweepResult result{};
};

/// The knowledge of a sweep about a budget, which need not be one of its own.
struct AtBudget {
  /// Number of the point with the best schedule within the budget.
  std::optional<std::size_t> point{};
  bool is_infeasible = false;
  /// The bound, for at most so many runs per op; 0 for any number.
  Duration lower_bound{};
  int max_computes = 0;
};

AtBudget known_at(const Swept& swept, Bytes budget) {
  const Curve& curve = swept.result.curve;
  AtBudget known{.lower_bound = curve.baseline_duration};
  for (std::size_t i = 0; i < curve.points.size() && curve.points[i].budget <= budget; ++i) {
    if (curve.points[i].has_schedule()) known.point = i;
  }
  const auto above =
      std::ranges::find_if(curve.points, [&](const CurvePoint& point) { return point.budget >= budget; });
  if (above == curve.points.end()) return known;
  const SolverReport& report = swept.result.schedules[static_cast<std::size_t>(above - curve.points.begin())].solver;
  known.is_infeasible = above->status == Status::infeasible;
  known.lower_bound = above->lower_bound;
  known.max_computes = report.bound_for_any_number ? 0 : report.max_computes;
  return known;
}

class SlicedSweep {
 public:
  SlicedSweep(const Request& request, const SweepOptions& options, const SweepCallbacks& callbacks)
      : request_(request),
        options_(options),
        callbacks_(callbacks),
        allowance_(limits_of(request.options), callbacks.cancel) {}

  SweepResult result() {
    run({.graph = request_.graph}, allowance_.share(kUnslicedShare));
    std::vector<Slicing> slicings = slicings_asked();
    for (std::size_t i = 0; i < slicings.size(); ++i) {
      const double part = 1.0 / static_cast<double>(slicings.size() - i);
      Swept next{.graph = slicings[i].graph(), .regions = std::move(slicings[i].regions)};
      next.named = with_effects(*request_.graph, next.regions, request_.slices.run).regions;
      run(std::move(next), allowance_.share(part));
    }
    return merged();
  }

 private:
  std::vector<Slicing> slicings_asked() {
    const SliceRequest& asked = request_.slices;
    const Bytes smallest = options_.budgets.empty() ? Bytes() : *std::ranges::min_element(options_.budgets);
    std::vector<Slicing> found;
    if (!asked.regions.empty()) {
      found.push_back(slice_as_asked(*request_.graph, asked.regions, smallest, asked.run));
      return found;
    }
    Allowance choosing(allowance_.share(kSlicingsShare), callbacks_.cancel);
    found = choose_slices(*request_.graph, smallest, asked.run, choosing);
    allowance_.spend(choosing.spent());
    std::erase_if(found, [](const Slicing& slicing) { return slicing.regions.empty(); });
    if (found.size() > kMostSlicings) found.resize(kMostSlicings);
    return found;
  }

  void run(Swept swept, const Limits& limits) {
    Request request = request_;
    request.slices.is_allowed = false;
    request.graph = swept.graph;
    request.options = within(request.options, limits);
    swept.result = sweep(request, options_, callbacks_);
    for (const Schedule& schedule : swept.result.schedules) allowance_.spend(Work(schedule.solver.work));
    all_.push_back(std::move(swept));
  }

  SweepResult merged() {
    std::set<Bytes> budgets;
    for (const Swept& swept : all_) {
      for (const CurvePoint& point : swept.result.curve.points) budgets.insert(point.budget);
    }
    SweepResult merged{.curve = all_.front().result.curve};
    merged.curve.points.clear();
    for (const Swept& swept : all_) {
      merged.curve.least_budget = std::min(merged.curve.least_budget, swept.result.curve.least_budget);
    }
    for (const Bytes budget : budgets) add(budget, merged);
    make_bounds_monotone(merged.curve.points);
    merged.curve.knee = find_knee(merged.curve);
    merged.curve.seconds = allowance_.elapsed();
    return merged;
  }

  void add(Bytes budget, SweepResult& merged) const {
    std::vector<AtBudget> known;
    for (const Swept& swept : all_) known.push_back(known_at(swept, budget));
    const std::size_t best = best_of(known);
    const Swept& swept = all_[best];
    const Curve& curve = swept.result.curve;
    const auto own = std::ranges::find(curve.points, budget, &CurvePoint::budget);
    const std::size_t number = known[best].point           ? *known[best].point
                               : own != curve.points.end() ? static_cast<std::size_t>(own - curve.points.begin())
                                                           : 0;
    CurvePoint point = curve.points[number];
    Schedule schedule = swept.result.schedules[number];
    point.budget = budget;
    point.lower_bound = bound_of(known, std::max(schedule.solver.max_computes, curve.max_computes));
    schedule.budget = budget;
    schedule.lower_bound = known[best].lower_bound;
    if (known[best].point) {
      point.status = Status::feasible;
      schedule.status = schedule.duration <= schedule.lower_bound ? Status::optimal : Status::feasible;
    } else {
      const bool all = std::ranges::all_of(known, &AtBudget::is_infeasible);
      point.status = schedule.status = all ? Status::infeasible : Status::unknown;
      if (!all) schedule.certificate.reset();
    }
    if (point.has_schedule() && best > 0) state_slices(swept, known.front(), schedule);
    point.slices = schedule.slices ? most_slices(swept) : 0;
    merged.sliced.push_back(schedule.slices ? swept.graph : nullptr);
    merged.curve.points.push_back(std::move(point));
    merged.schedules.push_back(std::move(schedule));
  }

  /// A weaker bound holds, too; any bound holds where there is no schedule.
  static void make_bounds_monotone(std::vector<CurvePoint>& points) {
    for (std::size_t i = points.size(); i-- > 1;) {
      if (points[i - 1].status == Status::infeasible) points[i - 1].lower_bound = points[i].lower_bound;
    }
    for (std::size_t i = 1; i < points.size(); ++i) {
      points[i].lower_bound = std::min(points[i].lower_bound, points[i - 1].lower_bound);
    }
    for (CurvePoint& point : points) {
      if (!point.has_schedule()) continue;
      ensure(point.lower_bound <= point.duration, "sweep: a lower bound is above a schedule in slices");
      point.status = point.lower_bound == point.duration ? Status::optimal : Status::feasible;
    }
  }

  /// The sweep with the shortest schedule, the graph as it is before others; that one if there is no schedule.
  std::size_t best_of(const std::vector<AtBudget>& known) const {
    std::size_t best = 0;
    const auto duration = [&](std::size_t i) {
      return known[i].point ? all_[i].result.curve.points[*known[i].point].duration : Duration::max();
    };
    for (std::size_t i = 1; i < known.size(); ++i) {
      if (duration(i) < duration(best)) best = i;
    }
    return best;
  }

  /// No schedule is shorter, in the slices of any of the sweeps or without, that runs an op at most so often.
  Duration bound_of(const std::vector<AtBudget>& known, int max_computes) const {
    Duration bound = Duration::max();
    for (std::size_t i = 0; i < known.size(); ++i) {
      if (known[i].is_infeasible) continue;
      const bool holds = known[i].max_computes == 0 || known[i].max_computes >= max_computes;
      bound = std::min(bound, holds ? known[i].lower_bound : all_[i].result.curve.baseline_duration);
    }
    return bound == Duration::max() ? all_.front().result.curve.baseline_duration : bound;
  }

  static int most_slices(const Swept& swept) {
    int most = 0;
    for (const Region& region : swept.regions) most = std::max(most, region.slices);
    return most;
  }

  void state_slices(const Swept& swept, const AtBudget& whole, Schedule& schedule) const {
    const Curve& curve = all_.front().result.curve;
    schedule.baseline_duration = curve.baseline_duration;
    schedule.baseline_peak_memory = curve.baseline_peak_memory;
    ScheduleSlices& slices = schedule.slices.emplace();
    slices.regions = swept.named;
    slices.run = request_.slices.run;
    slices.whole_status = whole.is_infeasible ? Status::infeasible : Status::unknown;
    if (whole.point) {
      slices.whole_duration = curve.points[*whole.point].duration;
      slices.whole_status = slices.whole_duration <= whole.lower_bound ? Status::optimal : Status::feasible;
    }
    slices.whole_lower_bound = whole.lower_bound;
    slices.whole_max_computes = whole.max_computes;
  }

  const Request& request_;
  const SweepOptions& options_;
  const SweepCallbacks& callbacks_;
  Allowance allowance_;
  /// That of the graph as it is first.
  std::vector<Swept> all_{};
};

}  // namespace

SweepResult sweep_sliced(const Request& request, const SweepOptions& options, const SweepCallbacks& callbacks) {
  check_sliceable(request);
  SweepResult result = SlicedSweep(request, options, callbacks).result();
  for (std::size_t i = 0; i < result.schedules.size(); ++i) {
    if (!result.schedules[i].has_schedule()) continue;
    const Graph& graph = result.sliced[i] ? *result.sliced[i] : *request.graph;
    ensure(verify(graph, result.schedules[i]).valid(), "sweep: a schedule in slices does not verify");
  }
  return result;
}

}  // namespace remora
