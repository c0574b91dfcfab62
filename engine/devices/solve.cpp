// SPDX-License-Identifier: Apache-2.0
#include "engine/devices/solve.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <string>
#include <utility>

#include "engine/ask/any_number.hpp"
#include "engine/ask/problem.hpp"
#include "model/error.hpp"

namespace remora::devices {

namespace {

void check(const DeviceGraph& graph, const Problem& problem) {
  if (problem.max_computes < 1) throw InputError::of_option("max_computes", "must be at least 1");
  if (problem.max_computes > kComputesWithin64Bits)
    throw InputError::of_option("max_computes", "of a graph with devices must be at most 64");
  if (problem.budget.size() != graph.devices.size()) throw InputError("budget", "needs an entry for each device");
}

/// The best schedule without memory limits, as far as the bound's assignment is one: every op once.
void describe_baseline(const DeviceGraph& graph, const Problem& problem, const std::function<bool()>& interrupted,
                       DeviceSchedule& schedule) {
  schedule.baseline_peak_memory.assign(graph.devices.size(), Bytes());
  Problem unlimited = problem;
  unlimited.budget.assign(graph.devices.size(), std::nullopt);
  const Bound bound = bound_of(graph, unlimited, interrupted);
  if (bound.is_infeasible()) return;
  schedule.baseline_cost = bound.least;
  unlimited.objective = Objective::duration;
  schedule.baseline_duration = Duration(bound_of(graph, unlimited, interrupted).least);
  const auto plan = plan_of(graph, problem, bound.assignment);
  if (!plan) return;
  const DeviceEvaluation& evaluation = plan->evaluation;
  schedule.baseline_peak_memory = evaluation.peak;
  schedule.baseline_is_exact = price(problem, evaluation.duration, evaluation.energy) == bound.least;
  if (schedule.baseline_is_exact) schedule.baseline_duration = evaluation.duration;
}

/// With `wish`, which is then set, it ends early where more computes an op are worth more (SlicedSearch::choose_computes).
Answer solve_or_wish(const DeviceGraph& graph, const Problem& problem, const Options& options, Wish* wish,
                     bool doubts) {
  check(graph, problem);
  const Allowance allowance(limits_of(options), options.cancel);
  const std::function<bool()> interrupted = past_limit(options);
  Answer answer{.schedule = baseline(graph, problem, interrupted)};
  DeviceSchedule& schedule = answer.schedule;
  schedule.solver.work_limit = options.work_limit;
  const auto search = (problem.copies == CopyMode::overlap ? overlapped_search : sequential_search)(
      graph, problem, options, interrupted, true);
  if (options.reporter != nullptr) options.reporter->begin(schedule, search->bound().least);
  if (wish != nullptr) search->choose_computes(doubts);
  search->run_session(allowance.left());
  search->write(answer);
  schedule.solver.seconds = allowance.elapsed();
  if (options.reporter != nullptr) options.reporter->end(search->work());
  if (wish != nullptr) *wish = search->wish();
  return answer;
}

/// For each op, the most runs on all devices together in schedules that cost less than this one. Costs add up, except
/// for durations that overlap.
Table<OpId, int> runs_that_pay(const DeviceGraph& graph, const Problem& problem, std::int64_t cost) {
  const Instance instance(graph, problem);
  const auto cheapest = [&](OpId op) {
    std::int64_t least = kNoWay;
    for (const RunCost& run : graph.runs[op]) least = std::min(least, instance.run_price(op, run.device));
    return least;
  };
  std::int64_t once = 0;
  for (const OpId op : graph.runs.ids()) once += cheapest(op);
  const bool adds_up = problem.copies == CopyMode::sequential || problem.objective == Objective::energy;
  return computes_that_pay(graph.graph, [&](OpId op) {
    std::int64_t again = std::numeric_limits<std::int64_t>::max();
    if (problem.order == OrderMode::input) {
      again = (instance.op_count() - op) * static_cast<std::int64_t>(graph.runs[op].size());
    }
    const std::int64_t price = cheapest(op);
    if (adds_up && price > 0) again = std::min(again, std::max<std::int64_t>(0, cost - 1 - once) / price);
    return again;
  });
}

/// The most runs of any op in the steps.
int most_runs_in(const std::vector<DeviceStep>& steps) {
  std::map<OpId, int> runs;
  int most = 0;
  for (const DeviceStep& step : steps) {
    if (!step.is_copy()) most = std::max(most, ++runs[step.op]);
  }
  return most;
}

/// How often an op may run, on all devices together, where that is left to the engine: the problem's number first, and more
/// where that is proved to have no schedule, where it finds none, or where one device alone costs less with more than all that is known
/// (SlicedSearch::choose_computes). A schedule that is proved for a number is looked at once more with as many as may pay.
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

  Answer run() {
    for (;;) {
      const bool may_go_on = problem_.max_computes < kMaxComputes && allows_more();
      Wish wish;
      const bool is_first = best_.solver.max_computes == 0;
      Answer found = solve_or_wish(graph_, problem_, options(), may_go_on ? &wish : nullptr, is_first);
      allowance_.spend(Work(found.schedule.solver.work));
      const bool pays = take(std::move(found));
      // A wish whose schedule is known is taken, however late.
      if (!pays || !may_go_on || ((allowance_.is_over() || is_stopped()) && wish.steps.empty())) break;
      if (wish.computes == 0 && !may_hold()) break;
      start_ = !wish.steps.empty() ? std::move(wish.steps) : best_.has_schedule() ? best_.steps : start_;
      problem_.max_computes = std::max(wish.computes, problem_.max_computes + 1);
    }
    if (best_.status == Status::optimal) look_beyond();
    best_.solver.seconds = allowance_.elapsed();
    best_.solver.work = allowance_.spent().count();
    best_.solver.work_limit = options_.work_limit;
    explain();
    return std::move(answer_);
  }

 private:
  [[nodiscard]] bool is_stopped() const { return options_.reporter != nullptr && options_.reporter->is_stopped(); }

  /// A start that holds the budgets with more computes is where it begins.
  void begin_with_start() {
    Problem wider = problem_;
    wider.max_computes = std::max(wider.max_computes, most_runs_in(start_));
    if (wider.max_computes > problem_.max_computes && wider.max_computes <= kComputesWithin64Bits &&
        cost_of_schedule(graph_, wider, start_)) {
      problem_ = std::move(wider);
    }
  }

  [[nodiscard]] bool allows_more() const {
    return std::any_of(graph_.graph.ops.begin(), graph_.graph.ops.end(), [&](const Op& op) {
      return op.recompute && op.max_computes.value_or(kMaxComputes) > problem_.max_computes;
    });
  }

  [[nodiscard]] Options options() const {
    Options options = within(options_, allowance_.left());
    options.start = start_;
    return options;
  }

  /// Returns true if it is the answer so far; false if more runs have brought nothing.
  bool take(Answer found) {
    const bool is_first = best_.solver.max_computes == 0;
    const bool had_schedule = best_.has_schedule();
    const DeviceSchedule& schedule = found.schedule;
    const bool pays = schedule.has_schedule() && (!had_schedule || schedule.cost() < best_.cost());
    if (had_schedule && !pays) return false;
    if (pays && !is_first) reason_ = had_schedule ? kShorter : kHolds;
    answer_ = std::move(found);
    return true;
  }

  /// The best schedule is proved for the problem's computes: whether more give a cheaper one.
  void look_beyond() {
    int proved = problem_.max_computes;
    const Table<OpId, int> pays = runs_that_pay(graph_, problem_, best_.cost());
    const int most = pays.empty() ? 1 : *std::max_element(pays.begin(), pays.end());
    best_.solver.optimal_for_max_computes = kAnyNumber;
    // From two on, what an op costs again does not depend on how often.
    std::int64_t bound = proved > 1 ? best_.baseline_cost : 0;
    if (most <= proved || bound >= best_.cost()) return;
    if (!allowance_.is_over() && !is_stopped()) {
      problem_.max_computes = std::min(most, static_cast<int>(kComputesWithin64Bits));
      Options options = within(options_, allowance_.left());
      options.start = best_.steps;
      Answer answer = solve(graph_, problem_, options);
      DeviceSchedule& found = answer.schedule;
      allowance_.spend(Work(found.solver.work));
      const bool is_proved = found.status == Status::optimal;
      bound = most <= problem_.max_computes ? found.lower_bound : found.baseline_cost;
      found.solver.max_computes = std::max(proved, most_runs_in(found.steps));
      if (is_proved) proved = problem_.max_computes;
      take(std::move(answer));
    }
    bound = std::min(bound, best_.cost());
    const bool is_whole = bound == best_.cost();
    const bool is_part = !is_whole && best_.status == Status::optimal;
    best_.lower_bound = bound;
    best_.status = is_whole ? Status::optimal : Status::feasible;
    best_.solver.optimal_for_max_computes = is_whole ? kAnyNumber : is_part ? proved : 0;
  }

  /// True if more runs may fit within the budgets that the problem's number does not.
  [[nodiscard]] bool may_hold() const {
    if (best_.has_schedule()) return false;
    // Infeasible with any number of runs.
    Problem most = problem_;
    most.max_computes = kMaxComputes;
    return !bound_of(graph_, most, [&] { return allowance_.deadline().reached(); }).is_infeasible();
  }

  void explain() {
    if (reason_ == nullptr || !best_.has_schedule()) return;
    best_.solver.note = "up to " + std::to_string(best_.solver.max_computes) + " runs per op: " + reason_;
  }

  static constexpr const char* kShorter = "costs less than with fewer";
  static constexpr const char* kHolds = "with fewer none was found";

  const DeviceGraph& graph_;
  Problem problem_;
  const Options& options_;
  std::vector<DeviceStep> start_;
  Allowance allowance_;
  Answer answer_{};
  DeviceSchedule& best_ = answer_.schedule;
  const char* reason_ = nullptr;
};

}  // namespace

DeviceSchedule baseline(const DeviceGraph& graph, const Problem& problem, const std::function<bool()>& interrupted) {
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
  const bool overlaps = problem.copies == CopyMode::overlap;
  (overlaps ? describe_overlapped_baseline : describe_baseline)(graph, problem, interrupted, schedule);
  return schedule;
}

Answer solve(const DeviceGraph& graph, const Problem& problem, const Options& options) {
  return solve_or_wish(graph, problem, options, nullptr, false);
}

Answer solve_with_more_computes(const DeviceGraph& graph, const Problem& problem, const Options& options) {
  return Ladder(graph, problem, options).run();
}

}  // namespace remora::devices
