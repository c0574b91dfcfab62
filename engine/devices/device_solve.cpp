// SPDX-License-Identifier: Apache-2.0
#include "engine/devices/device_solve.hpp"

#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "engine/base/deadline.hpp"
#include "engine/base/options.hpp"
#include "engine/devices/device_plan.hpp"
#include "engine/devices/device_program.hpp"
#include "engine/devices/device_search.hpp"
#include "engine/devices/device_state.hpp"
#include "engine/solve.hpp"
#include "model/error.hpp"
#include "model/random.hpp"

namespace remora {
namespace {

/// The graph as one device sees it that does everything itself, what it costs as duration; nothing where it cannot.
std::optional<Graph> alone_on(const DeviceGraph& graph, const DeviceProblem& problem, DeviceId device) {
  Graph alone = graph.graph;
  alone.fixed_memory = graph.devices[device].fixed_memory;
  for (const OpId v : graph.runs.ids()) {
    const RunCost* const run = run_cost(graph, v, device);
    if (run == nullptr) return std::nullopt;
    alone[v].duration = Duration(price(problem, run->duration, run->energy));
    alone[v].workspace = run->workspace;
  }
  return alone;
}

/// Local search, complete search and the relaxation's programs on one incumbent: the first two in turns of growing length, the
/// last in turns too, or in a thread of its own. What the first turn leaves open begins anew from what restricted problems give:
/// one device alone, by the search for one device, and copies without recomputes.
class Turns {
 public:
  Turns(const DeviceGraph& graph, const DeviceProblem& problem, const DeviceSolveOptions& options,
        const Deadline& deadline)
      : graph_(graph),
        problem_(problem),
        options_(options),
        deadline_(deadline),
        local_(graph, problem, options.seed, deadline),
        tree_(graph, problem, [&] { return deadline.reached() || called_; }),
        prover_(graph, problem, options.seed) {
    begin_from(options.start);
  }
  Turns(const Turns&) = delete;
  Turns& operator=(const Turns&) = delete;
  ~Turns() { stop(); }

  void run(DeviceBound& bound) {
    if (start_cost_ < kNoWay) learn(start_cost_, bound);
    const bool beside = options_.threads != 1 && options_.work_limit == 0;
    if (beside) {
      local_.heed(&called_);
      beside_ = std::thread([this] { work_beside(); });
    }
    for (std::int64_t turn = kFirstTurn; !over() && !proved_; turn = std::min(2 * turn, kLongestTurn)) {
      take_news(bound);
      if (proved_) break;
      local_.advance(bound, limited(local_.work() + turn, local_.work()));
      heed_incumbent(bound);
      if (over() || proved_) break;
      const std::int64_t before = outcome_.nodes;
      const bool had = outcome_.steps.has_value();
      const std::int64_t cost = outcome_.cost;
      outcome_ = tree_.advance(limited(before + turn, before) - before);
      proved_ = outcome_.complete;
      if (outcome_.steps && (!had || outcome_.cost < cost)) adopt(*outcome_.steps);
      for (const std::int64_t end = prover_work_ + turn; !beside && !over() && !proved_ && prover_work_ < end;) {
        if (!step_of_prover()) break;
        take_news(bound);
        heed_incumbent(bound);
      }
      if (turn == kFirstTurn && problem_.max_computes > 1) solve_restricted(bound);
    }
    stop();
  }

  /// The best schedule is known, or that there is none.
  [[nodiscard]] bool proved() const { return proved_; }
  [[nodiscard]] std::int64_t work() const {
    return local_.work() + outcome_.nodes + restricted_work_ + (options_.work_limit > 0 ? prover_work_ : 0);
  }

  [[nodiscard]] std::optional<std::int64_t> cost() const {
    if (is_start()) return start_cost_;
    if (!is_local() && !outcome_.steps) return std::nullopt;
    return is_local() ? local_.cost() : outcome_.cost;
  }

  /// The best schedule, with its releases.
  [[nodiscard]] std::vector<DeviceStep> steps() const {
    if (is_start()) return options_.start;
    return is_local() ? with_releases(local_.plan()->evaluation, local_.plan()->plan) : *outcome_.steps;
  }

 private:
  static constexpr std::int64_t kFirstTurn = 250;
  static constexpr std::int64_t kLongestTurn = 64000;
  /// For one neighbourhood of the relaxation.
  static constexpr double kSeconds = 2;
  /// Plans evaluated at most to mend one that somebody else found.
  static constexpr std::int64_t kMending = 4000;
  /// Of the limits, for each restricted problem.
  static constexpr double kShare = 0.1;

  /// So much of the limits; the seconds, of those that are left.
  [[nodiscard]] double share_of_seconds() const {
    return kShare * std::max(0.0, options_.time_limit - deadline_.elapsed());
  }
  [[nodiscard]] std::int64_t share_of_work() const {
    const auto share = static_cast<std::int64_t>(kShare * static_cast<double>(options_.work_limit));
    return options_.work_limit > 0 ? std::max<std::int64_t>(1, limited(share, 0)) : 0;
  }

  /// Takes what a problem with fewer choices gives, where that is better.
  void solve_restricted(DeviceBound& bound) {
    for (const DeviceId d : graph_.devices.ids()) {
      if (over() || proved_) return;
      if (const std::optional<Graph> alone = alone_on(graph_, problem_, d)) solve_alone(*alone, d);
      heed_incumbent(bound);
    }
    if (over() || proved_ || graph_.links.empty()) return;
    DeviceProblem once = problem_;
    once.max_computes = 1;
    DeviceBound bound_once = device_bound(graph_, once);
    if (!bound_once.infeasible.empty()) return;
    const DeviceSolveOptions options{.time_limit = share_of_seconds(),
                                     .work_limit = share_of_work(),
                                     .seed = options_.seed,
                                     .threads = 1,
                                     .cancel = options_.cancel};
    const Deadline deadline(options.time_limit, options.cancel);
    Turns copies(graph_, once, options, deadline);
    copies.run(bound_once);
    restricted_work_ += copies.work();
    if (copies.cost()) adopt(copies.steps());
    heed_incumbent(bound);
  }

  void solve_alone(const Graph& alone, DeviceId device) {
    const Instance instance(std::make_shared<const Graph>(alone),
                            {problem_.budget[device].value_or(Bytes::max()), problem_.max_computes});
    SolveOptions options;
    options.time_limit = share_of_seconds();
    options.work_limit = share_of_work();
    options.seed = static_cast<std::int64_t>(options_.seed >> 1U);
    options.threads = options_.threads;
    const Schedule found = remora::solve(instance, options, {.cancel = options_.cancel});
    restricted_work_ += found.solver.work;
    if (!found.has_schedule()) return;
    DevicePlan plan;
    for (const Step& step : found.steps) plan.push_back({.op = step.op, .device = device});
    adopt(std::move(plan));
  }

  /// The local search goes on from it, if it is better once it is mended.
  void adopt(std::vector<DeviceStep> steps) {
    for (DeviceStep& step : steps) step.free.clear();
    local_.adopt(std::move(steps), limited(local_.work() + kMending, local_.work()));
  }

  void begin_from(const std::vector<DeviceStep>& steps) {
    if (steps.empty()) return;
    start_cost_ = cost_of_schedule(graph_, problem_, steps).value_or(kNoWay);
    DevicePlan plan = steps;
    for (DeviceStep& step : plan) step.free.clear();
    local_.begin_from(std::move(plan));
  }

  /// A schedule costs so much: what that says of the bound and the tree.
  void learn(std::int64_t cost, DeviceBound& bound) {
    known_ = cost;
    tree_.require_below(known_);
    const auto interrupted = [&] { return deadline_.reached(); };
    bound.least = std::max(bound.least, device_bound_below(graph_, problem_, known_, interrupted));
    proved_ = proved_ || known_ <= bound.least;
  }

  /// Whether what the search began from is the best so far.
  [[nodiscard]] bool is_start() const {
    return start_cost_ < kNoWay && (local_.plan() == nullptr || local_.cost() > start_cost_) &&
           (!outcome_.steps || outcome_.cost > start_cost_);
  }
  [[nodiscard]] bool is_local() const {
    return local_.plan() != nullptr && (!outcome_.steps || local_.cost() <= outcome_.cost);
  }
  [[nodiscard]] bool over() const {
    return deadline_.reached() || (options_.work_limit > 0 && work() >= options_.work_limit);
  }
  /// As much as the work limit leaves for whoever has done `done`.
  [[nodiscard]] std::int64_t limited(std::int64_t wanted, std::int64_t done) const {
    return options_.work_limit > 0 ? std::min(wanted, done + options_.work_limit - work()) : wanted;
  }

  /// What a new incumbent rules out raises the bound.
  void heed_incumbent(DeviceBound& bound) {
    if (local_.plan() == nullptr || local_.cost() >= known_) return;
    {
      const std::lock_guard lock(mutex_);
      incumbent_ = *local_.plan();
      below_ = local_.cost();
    }
    learn(local_.cost(), bound);
  }

  /// False when there is nothing more to come.
  bool step_of_prover() {
    std::optional<EvaluatedPlan> incumbent;
    DeviceProver::Limits limits;
    {
      const std::lock_guard lock(mutex_);
      incumbent = incumbent_;
      limits.below = below_;
    }
    if (incumbent) limits.incumbent = &*incumbent;
    limits.interrupted = [&] { return deadline_.reached() || stopped_; };
    limits.seconds = options_.work_limit > 0 ? 0 : kSeconds;
    DeviceNews news = prover_.step(limits);
    const std::lock_guard lock(mutex_);
    const bool goes_on = !news.finished;
    prover_work_ += news.work;
    if (!news.plans.empty() || news.infeasible || news.bound > told_) called_ = true;
    told_ = news.bound;
    news_.push_back(std::move(news));
    return goes_on;
  }

  void work_beside() {
    while (!deadline_.reached() && !stopped_ && step_of_prover()) {
    }
  }

  void take_news(DeviceBound& bound) {
    std::vector<DeviceNews> news;
    {
      const std::lock_guard lock(mutex_);
      news.swap(news_);
      called_ = false;
    }
    for (DeviceNews& item : news) {
      bound.least = std::max(bound.least, item.bound);
      proved_ = proved_ || item.infeasible || (cost() && *cost() <= bound.least);
      for (DevicePlan& plan : item.plans) adopt(std::move(plan));
    }
  }

  void stop() {
    stopped_ = true;
    if (beside_.joinable()) beside_.join();
  }

  const DeviceGraph& graph_;
  const DeviceProblem& problem_;
  const DeviceSolveOptions& options_;
  const Deadline& deadline_;
  DeviceSearch local_;
  /// News have come from the thread beside.
  std::atomic<bool> called_ = false;
  std::atomic<bool> stopped_ = false;
  DeviceTreeSearch tree_;
  DeviceProver prover_;
  DeviceSearchOutcome outcome_;
  /// Of the start, where it is a schedule of the problem.
  std::int64_t start_cost_ = kNoWay;
  /// What the best one known cost when the bound was last looked at.
  std::int64_t known_ = kNoWay;
  std::int64_t restricted_work_ = 0;
  bool proved_ = false;
  std::thread beside_;
  /// Of what follows, and nothing else is shared with the thread.
  std::mutex mutex_;
  std::optional<EvaluatedPlan> incumbent_;
  std::int64_t below_ = kNoWay;
  std::vector<DeviceNews> news_;
  std::int64_t told_ = 0;
  std::int64_t prover_work_ = 0;
};

void check(const DeviceGraph& graph, const DeviceProblem& problem) {
  if (problem.max_computes < 1) throw InputError("max_computes", "must be at least 1");
  if (problem.max_computes > kComputesWithin64Bits)
    throw InputError("max_computes", "of a graph with devices must be at most 64");
  if (problem.budget.size() != graph.devices.size()) throw InputError("budget", "needs an entry for each device");
}

/// The best schedule without memory limits, as far as the bound's assignment is one: every op once.
void describe_baseline(const DeviceGraph& graph, const DeviceProblem& problem, DeviceSchedule& schedule) {
  schedule.baseline_peak_memory.assign(graph.devices.size(), Bytes());
  DeviceProblem unlimited = problem;
  unlimited.budget.assign(graph.devices.size(), std::nullopt);
  const DeviceBound bound = device_bound(graph, unlimited);
  if (!bound.infeasible.empty()) return;
  schedule.baseline_cost = bound.least;
  unlimited.objective = Objective::duration;
  schedule.baseline_duration = Duration(device_bound(graph, unlimited).least);
  const auto plan = plan_of(graph, problem, bound.assignment);
  if (!plan) return;
  const DeviceEvaluation& evaluation = plan->evaluation;
  schedule.baseline_peak_memory = evaluation.peak;
  schedule.baseline_is_exact = price(problem, evaluation.duration, evaluation.energy) == bound.least;
  if (schedule.baseline_is_exact) schedule.baseline_duration = evaluation.duration;
}

}  // namespace

DeviceSolveOptions shared_options(const SolveOptions& options) {
  return {.time_limit = options.time_limit,
          .work_limit = options.work_limit,
          .seed = static_cast<std::uint64_t>(options.seed),
          .threads = options.threads};
}

DeviceSchedule solve(const DeviceGraph& graph, const DeviceProblem& problem, const DeviceSolveOptions& options) {
  check(graph, problem);
  const Deadline deadline(options.time_limit, options.cancel);
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
  if (problem.copies == CopyMode::overlap) {
    schedule.baseline_peak_memory.assign(graph.devices.size(), Bytes());
    solve_overlapped(graph, problem, options, schedule);
    return schedule;
  }
  DeviceBound bound = device_bound(graph, problem);
  schedule.lower_bound = bound.least;
  describe_baseline(graph, problem, schedule);
  if (!bound.infeasible.empty()) {
    schedule.status = Status::infeasible;
    schedule.solver.note = bound.infeasible;
    return schedule;
  }
  Turns turns(graph, problem, options, deadline);
  turns.run(bound);
  schedule.lower_bound = bound.least;
  schedule.solver.work = turns.work();
  schedule.solver.seconds = deadline.elapsed();
  if (turns.proved()) schedule.lower_bound = std::max(schedule.lower_bound, turns.cost().value_or(0));
  if (turns.proved() && !turns.cost()) {
    schedule.status = Status::infeasible;
    schedule.solver.note = "every sequence of runs and copies was searched";
    return schedule;
  }
  if (!turns.cost()) return schedule;
  schedule.steps = turns.steps();
  const DeviceVerdict verdict = verify(graph, schedule);
  schedule.duration = verdict.duration;
  schedule.energy = verdict.energy;
  schedule.peak_memory = verdict.peak;
  schedule.status = schedule.cost() <= schedule.lower_bound ? Status::optimal : Status::feasible;
  return schedule;
}

}  // namespace remora
