// SPDX-License-Identifier: Apache-2.0
#include "engine/sweep/sweep.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <optional>
#include <utility>

#include "engine/bound/footprint.hpp"
#include "engine/bound/min_budget.hpp"
#include "engine/deadline.hpp"
#include "engine/search/start.hpp"
#include "engine/solve.hpp"
#include "engine/strategies/method.hpp"
#include "engine/sweep/budget_choice.hpp"
#include "engine/sweep/curve_assembly.hpp"
#include "engine/sweep/probe.hpp"
#include "model/evaluate.hpp"

namespace remora {
namespace {

/// Of what is left of the limits, the first pass over the budgets takes this part, the second this, and the third all.
/// Measured in benchmarks/README.md.
constexpr double kFirstPass = 0.4;
constexpr double kSecondPass = 0.5;
/// What a budget counts in a pass, as a part of the largest gap: at least, and where it has no schedule.
constexpr double kLeastWeight = 0.05;
constexpr double kUnknownWeight = 0.5;
/// Of the time limit, for the least budget's bound.
constexpr double kLeastBudgetShare = 0.05;
/// Groups get the time and the work that a solve of so large a part of the limits would give them.
constexpr double kGroupShare = 0.4;

/// In double, for limits near the largest.
std::int64_t part_of(std::int64_t work, double part) {
  return static_cast<std::int64_t>(std::min(static_cast<double>(work) * part, 9e18));
}

/// By strategies that search.
class SearchSweep {
 public:
  SearchSweep(const Instance& instance, const SolveOptions& options, BudgetChoice choice,
              const SweepCallbacks& callbacks, const Deadline& deadline)
      : instance_(instance),
        options_(options),
        choice_(std::move(choice)),
        callbacks_(callbacks),
        deadline_(deadline),
        count_(choice_.left()) {}

  std::vector<Outcome> run() {
    visit_all_once();
    bool ascending = true;
    revisit(kSecondPass, ascending);
    // What a pass leaves, because budgets were proved or refuted, is for another.
    for (std::int64_t before = -1; work_ > before && !is_over() && !open_probes().empty();) {
      ascending = !ascending;
      before = work_;
      revisit(1.0, ascending);
    }
    std::vector<Outcome> outcomes;
    outcomes.reserve(probes_.size());
    for (const auto& [budget, probe] : probes_) outcomes.push_back({probe.point(), probe.schedule()});
    return outcomes;
  }

 private:
  /// Found when a search first needs a start; null if the strategy wants none.
  const Groups* groups() {
    if (groups_ || !wants_groups(instance_, options_)) return groups_ ? &*groups_ : nullptr;
    SolveOptions options = options_;
    options.time_limit *= kGroupShare;
    if (options.work_limit > 0)
      options.work_limit = std::max<std::int64_t>(1, part_of(options.work_limit, kGroupShare));
    groups_ = find_groups(instance_, options, deadline_, callbacks_.blocks);
    work_ += groups_->work;
    return &*groups_;
  }

  /// What is left of the sweep's limits; without a work limit its work is 0.
  [[nodiscard]] SittingLimits remaining() const {
    return {.seconds = std::max(0.0, options_.time_limit - deadline_.elapsed()),
            .work = std::max<std::int64_t>(0, options_.work_limit - work_),
            .cancel = callbacks_.cancel};
  }

  /// One sitting's part of what is left beyond what `reserved` keeps for later passes.
  [[nodiscard]] SittingLimits share(const SittingLimits& reserved, double part) const {
    SittingLimits limits = remaining();
    limits.seconds = std::max(0.0, (limits.seconds - reserved.seconds) * part);
    // Without a work limit 0 means none; with one there is always a little.
    if (options_.work_limit > 0) limits.work = std::max<std::int64_t>(1, part_of(limits.work - reserved.work, part));
    return limits;
  }

  [[nodiscard]] SittingLimits reserve(double part) const {
    SittingLimits reserved = remaining();
    reserved.seconds *= part;
    reserved.work = part_of(reserved.work, part);
    return reserved;
  }

  [[nodiscard]] bool is_over() const {
    return deadline_.reached() || (options_.work_limit > 0 && work_ >= options_.work_limit);
  }

  /// The first pass, which finds out which budgets there are. A listed one gets its point also where time is over.
  void visit_all_once() {
    const SittingLimits reserved = reserve(1 - kFirstPass);
    SolveOptions options = options_;
    options.time_limit /= static_cast<double>(count_);
    if (options.work_limit > 0) {
      options.work_limit = std::max<std::int64_t>(1, part_of(options.work_limit, 1.0 / static_cast<double>(count_)));
    }
    while (choice_.is_listed() || !is_over()) {
      const std::optional<Bytes> budget = choice_.next(points(), reached_);
      if (!budget) return;
      Probe& probe = probes_.try_emplace(*budget, instance_, *budget, options).first->second;
      for (const auto& [other_budget, other] : probes_) {
        if (&other != &probe) probe.learn(other);
      }
      const double part = 1.0 / static_cast<double>(choice_.left() + 1);
      if (probe.settled() || is_over()) {
        report(probe);
      } else {
        sit(probe, share(reserved, part));
      }
    }
  }

  [[nodiscard]] std::vector<Probe*> open_probes() {
    std::vector<Probe*> open;
    for (auto& [budget, probe] : probes_) {
      if (!probe.settled()) open.push_back(&probe);
    }
    return open;
  }

  /// Another pass, over what is not settled; who has more to gain gets more.
  void revisit(double part, bool ascending) {
    std::vector<Probe*> open = open_probes();
    if (!ascending) std::reverse(open.begin(), open.end());
    const SittingLimits reserved = reserve(1 - part);
    for (std::size_t i = 0; i < open.size() && !is_over(); ++i) {
      if (open[i]->settled()) continue;
      sit(*open[i], share(reserved, weight_of_first({open.begin() + static_cast<std::ptrdiff_t>(i), open.end()})));
    }
  }

  /// The first one's part of all that there is to gain; more than nothing, and a fair share where it has no schedule.
  static double weight_of_first(const std::vector<Probe*>& open) {
    double most = 1;
    for (const Probe* probe : open)
      most = std::max(most, static_cast<double>(probe->gap().value_or(Duration(0)).count()));
    const auto weight = [most](const Probe& probe) {
      const double gap = probe.gap() ? static_cast<double>(probe.gap()->count()) : kUnknownWeight * most;
      return probe.settled() ? 0 : gap + kLeastWeight * most;
    };
    double sum = 0;
    for (const Probe* probe : open) sum += weight(*probe);
    return weight(*open.front()) / sum;
  }

  void sit(Probe& probe, const SittingLimits& limits) {
    const std::int64_t before = probe.work();
    std::vector<const Probe*> neighbours;
    const auto here = probes_.find(probe.budget());
    if (here != probes_.begin()) neighbours.push_back(&std::prev(here)->second);
    if (std::next(here) != probes_.end()) neighbours.push_back(&std::next(here)->second);
    probe.sit(limits, neighbours, [this] { return groups(); });
    work_ += probe.work() - before;
    reached_ = std::min(reached_, probe.state().incumbent.peak);
    for (auto& [budget, other] : probes_) {
      if (&other != &probe) other.learn(probe);
    }
    report(probe);
  }

  void report(const Probe& probe) const {
    if (!callbacks_.progress) return;
    const CurvePoint point = probe.point();
    const auto settled =
        std::count_if(probes_.begin(), probes_.end(), [](const auto& entry) { return entry.second.settled(); });
    callbacks_.progress({.seconds = deadline_.elapsed(),
                         .budget = point.budget,
                         .status = point.status,
                         .duration = point.duration,
                         .peak = probe.state().incumbent.peak,
                         .lower_bound = point.lower_bound,
                         .points = static_cast<int>(probes_.size()),
                         .settled = static_cast<int>(settled)});
  }

  [[nodiscard]] std::vector<CurvePoint> points() const {
    std::vector<CurvePoint> points;
    points.reserve(probes_.size());
    for (const auto& [budget, probe] : probes_) points.push_back(probe.point());
    return points;
  }

  const Instance& instance_;
  const SolveOptions& options_;
  BudgetChoice choice_;
  const SweepCallbacks& callbacks_;
  const Deadline& deadline_;
  std::size_t count_;
  std::map<Bytes, Probe> probes_;
  std::optional<Groups> groups_;
  Bytes reached_ = Bytes::max();
  std::int64_t work_ = 0;
};

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

/// By methods that do not search: each budget for itself.
class MethodSweep {
 public:
  MethodSweep(const Instance& instance, const SolveOptions& options, BudgetChoice choice,
              const SweepCallbacks& callbacks, const Deadline& deadline)
      : instance_(instance),
        options_(options),
        choice_(std::move(choice)),
        callbacks_(callbacks),
        deadline_(deadline) {}

  std::vector<Outcome> run() {
    while (choice_.is_listed() || !deadline_.reached()) {
      const std::optional<Bytes> budget = choice_.next(points(), reached_);
      if (!budget) break;
      visit(*budget);
    }
    return std::move(outcomes_);
  }

 private:
  void visit(Bytes budget) {
    Schedule schedule = solve(instance_.with_budget(budget), options_of_next(), {.cancel = callbacks_.cancel});
    work_ += schedule.solver.work;
    if (schedule.solver.reached_peak > Bytes(0)) reached_ = std::min(reached_, schedule.solver.reached_peak);
    const CurvePoint point = point_of(schedule);
    const auto place = std::find_if(outcomes_.begin(), outcomes_.end(),
                                    [&](const Outcome& other) { return other.point.budget > budget; });
    outcomes_.insert(place, {point, std::move(schedule)});
    make_monotone(outcomes_);
    if (!callbacks_.progress) return;
    const int count = static_cast<int>(outcomes_.size());
    callbacks_.progress({deadline_.elapsed(), budget, point.status, point.duration, point.peak_memory,
                         point.lower_bound, count, count});
  }

  /// A share of what is left.
  [[nodiscard]] SolveOptions options_of_next() const {
    SolveOptions options = options_;
    const double part = 1.0 / static_cast<double>(choice_.left() + 1);
    options.time_limit = std::max(0.0, options_.time_limit - deadline_.elapsed()) * part;
    if (options_.work_limit > 0) {
      options.work_limit = std::max<std::int64_t>(1, part_of(options_.work_limit - work_, part));
    }
    return options;
  }

  [[nodiscard]] std::vector<CurvePoint> points() const {
    std::vector<CurvePoint> points;
    points.reserve(outcomes_.size());
    for (const Outcome& outcome : outcomes_) points.push_back(outcome.point);
    return points;
  }

  const Instance& instance_;
  const SolveOptions& options_;
  BudgetChoice choice_;
  const SweepCallbacks& callbacks_;
  const Deadline& deadline_;
  /// By budget, ascending.
  std::vector<Outcome> outcomes_;
  Bytes reached_ = Bytes::max();
  std::int64_t work_ = 0;
};

/// No schedule holds a smaller budget. Bisection begins there, so it is worth some time; a list does without.
Bytes lower_end(const Instance& instance, const SolveOptions& options, const SweepOptions& sweep_options,
                const SweepCallbacks& callbacks) {
  if (!sweep_options.budgets.empty()) return least_budget(instance);
  // Under a work limit nothing may depend on time.
  const double seconds = options.work_limit > 0 ? kNoTimeLimit : options.time_limit * kLeastBudgetShare;
  return proved_least_budget(instance, Deadline(seconds, callbacks.cancel), sweep_options.resolution);
}

}  // namespace

SweepResult sweep(const Instance& instance, const SolveOptions& options, const SweepOptions& sweep_options,
                  const SweepCallbacks& callbacks) {
  check_problem(instance, options);
  check_sweep_options(sweep_options);
  const Deadline deadline(options.time_limit, callbacks.cancel);
  const Bytes least = lower_end(instance, options, sweep_options, callbacks);
  BudgetChoice choice(instance, sweep_options, least);
  std::vector<Outcome> outcomes = is_search(options.strategy)
                                      ? SearchSweep(instance, options, std::move(choice), callbacks, deadline).run()
                                      : MethodSweep(instance, options, std::move(choice), callbacks, deadline).run();
  SweepResult result = assemble_curve(instance, std::move(outcomes), least);
  result.curve.seconds = deadline.elapsed();
  return result;
}

}  // namespace remora
