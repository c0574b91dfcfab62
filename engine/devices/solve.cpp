// SPDX-License-Identifier: Apache-2.0
#include "engine/devices/solve.hpp"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "engine/ask/problem.hpp"
#include "engine/devices/overlap.hpp"
#include "engine/devices/sequential.hpp"
#include "model/error.hpp"

namespace remora::devices {

namespace {

void check(const DeviceGraph& graph, const Problem& problem) {
  if (problem.max_computes < 1) throw InputError("max_computes", "must be at least 1");
  if (problem.max_computes > kComputesWithin64Bits)
    throw InputError("max_computes", "of a graph with devices must be at most 64");
  if (problem.budget.size() != graph.devices.size()) throw InputError("budget", "needs an entry for each device");
}

/// The best schedule without memory limits, as far as the bound's assignment is one: every op once.
void describe_baseline(const DeviceGraph& graph, const Problem& problem, DeviceSchedule& schedule) {
  schedule.baseline_peak_memory.assign(graph.devices.size(), Bytes());
  Problem unlimited = problem;
  unlimited.budget.assign(graph.devices.size(), std::nullopt);
  const Bound bound = bound_of(graph, unlimited);
  if (!bound.infeasible.empty()) return;
  schedule.baseline_cost = bound.least;
  unlimited.objective = Objective::duration;
  schedule.baseline_duration = Duration(bound_of(graph, unlimited).least);
  const auto plan = plan_of(graph, problem, bound.assignment);
  if (!plan) return;
  const DeviceEvaluation& evaluation = plan->evaluation;
  schedule.baseline_peak_memory = evaluation.peak;
  schedule.baseline_is_exact = price(problem, evaluation.duration, evaluation.energy) == bound.least;
  if (schedule.baseline_is_exact) schedule.baseline_duration = evaluation.duration;
}

/// With `wish`, which is then set, it ends early where more computes an op are worth more (Turns::choose_computes).
DeviceSchedule solve_or_wish(const DeviceGraph& graph, const Problem& problem, const Options& options, Wish* wish,
                             bool doubts) {
  check(graph, problem);
  const Allowance allowance(limits_of(options), options.cancel);
  DeviceSchedule schedule{.graph = graph.graph.name,
                          .order = problem.order,
                          .objective = problem.objective,
                          .copies = problem.copies,
                          .budget = problem.budget,
                          .duration_limit = problem.duration_limit,
                          .energy_limit = problem.energy_limit};
  schedule.peak_memory.assign(graph.devices.size(), Bytes());
  schedule.solver.version = version();
  schedule.solver.max_computes = problem.max_computes;
  schedule.solver.work_limit = options.work_limit;
  const bool overlaps = problem.copies == CopyMode::overlap;
  (overlaps ? describe_overlapped_baseline : describe_baseline)(graph, problem, schedule);
  const auto turns = (overlaps ? overlapped_turns : sequential_turns)(graph, problem, options, true);
  if (options.teller != nullptr) options.teller->begin(schedule, turns->bound().least);
  if (wish != nullptr) turns->choose_computes(doubts);
  turns->sit(allowance.left());
  turns->write(schedule);
  schedule.solver.seconds = allowance.elapsed();
  if (options.teller != nullptr) options.teller->end(turns->work());
  if (wish != nullptr) *wish = turns->wish();
  return schedule;
}

/// How often an op may run, on all devices together, where that is left to the engine: the problem's number first, and more
/// where that is proved to have no schedule or to be settled, where it finds none, or where one device alone costs less with
/// more than all that is known (Turns::choose_computes).
class Ladder {
 public:
  Ladder(const DeviceGraph& graph, Problem problem, const Options& options)
      : graph_(graph),
        problem_(std::move(problem)),
        options_(options),
        start_(options.start),
        allowance_(limits_of(options), options.cancel) {
    begin_with_start();
  }

  DeviceSchedule run() {
    for (;;) {
      const bool may_go_on = problem_.max_computes < kMostComputes && allows_more();
      Wish wish;
      const bool is_first = best_.solver.max_computes == 0;
      DeviceSchedule found = solve_or_wish(graph_, problem_, options(), may_go_on ? &wish : nullptr, is_first);
      allowance_.spend(Work(found.solver.work));
      const bool pays = take(std::move(found));
      // What is wished for and known is taken, however late.
      if (!pays || !may_go_on || ((allowance_.is_over() || has_enough()) && wish.steps.empty())) break;
      if (wish.computes == 0 && !may_pay()) break;
      start_ = !wish.steps.empty() ? std::move(wish.steps) : best_.has_schedule() ? best_.steps : start_;
      after_proof_ = wish.computes == 0 && best_.has_schedule();
      problem_.max_computes = std::max(wish.computes, problem_.max_computes + 1);
    }
    best_.solver.seconds = allowance_.elapsed();
    best_.solver.work = allowance_.spent().count();
    best_.solver.work_limit = options_.work_limit;
    explain();
    return std::move(best_);
  }

 private:
  [[nodiscard]] bool has_enough() const { return options_.teller != nullptr && options_.teller->has_enough(); }

  /// A start that holds the budgets with more computes is where it begins.
  void begin_with_start() {
    std::map<OpId, int> computes;
    Problem wider = problem_;
    for (const DeviceStep& step : start_) {
      if (!step.is_copy()) wider.max_computes = std::max(wider.max_computes, ++computes[step.op]);
    }
    if (wider.max_computes > problem_.max_computes && wider.max_computes <= kComputesWithin64Bits &&
        cost_of_schedule(graph_, wider, start_)) {
      problem_ = std::move(wider);
    }
  }

  [[nodiscard]] bool allows_more() const {
    return std::any_of(graph_.graph.ops.begin(), graph_.graph.ops.end(), [&](const Op& op) {
      return op.recompute && op.max_computes.value_or(kMostComputes) > problem_.max_computes;
    });
  }

  [[nodiscard]] Options options() const {
    Options options = within(options_, after_proof_ ? allowance_.again(kPartAfterProof) : allowance_.left());
    options.start = start_;
    return options;
  }

  /// Whether it is the answer so far; false where more computes have brought nothing.
  bool take(DeviceSchedule found) {
    const bool is_first = best_.solver.max_computes == 0;
    const bool had_schedule = best_.has_schedule();
    const bool pays = found.has_schedule() && (!had_schedule || found.cost() < best_.cost());
    if (had_schedule && !pays) return false;
    if (pays && !is_first) reason_ = had_schedule ? kShorter : kHolds;
    best_ = std::move(found);
    return true;
  }

  /// Whether more computes may hold the budgets, or cost less.
  [[nodiscard]] bool may_pay() const {
    if (best_.has_schedule()) return best_.status == Status::optimal && best_.cost() > best_.baseline_cost;
    // What no number of computes can mend.
    Problem most = problem_;
    most.max_computes = kMostComputes;
    return bound_of(graph_, most).infeasible.empty();
  }

  void explain() {
    if (reason_ == nullptr || !best_.has_schedule()) return;
    best_.solver.note = "up to " + std::to_string(best_.solver.max_computes) + " computes an op: " + reason_;
  }

  static constexpr const char* kShorter = "costs less than with fewer";
  static constexpr const char* kHolds = "with fewer none was found";

  const DeviceGraph& graph_;
  Problem problem_;
  const Options& options_;
  std::vector<DeviceStep> start_;
  Allowance allowance_;
  DeviceSchedule best_{};
  bool after_proof_ = false;
  const char* reason_ = nullptr;
};

}  // namespace

DeviceSchedule solve(const DeviceGraph& graph, const Problem& problem, const Options& options) {
  return solve_or_wish(graph, problem, options, nullptr, false);
}

DeviceSchedule solve_with_more_computes(const DeviceGraph& graph, const Problem& problem, const Options& options) {
  return Ladder(graph, problem, options).run();
}

}  // namespace remora::devices
