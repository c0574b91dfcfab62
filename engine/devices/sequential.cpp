// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "engine/base/deadline.hpp"
#include "engine/base/options.hpp"
#include "engine/devices/plan.hpp"
#include "engine/devices/program.hpp"
#include "engine/devices/search.hpp"
#include "engine/devices/solve.hpp"
#include "engine/devices/state.hpp"
#include "engine/devices/turns.hpp"
#include "model/error.hpp"

namespace remora::devices {
namespace {

/// Local search, complete search and the relaxation's programs on one incumbent: the first two in turns of growing length, the
/// last in turns too, or in a thread of its own.
class SequentialTurns final : public Turns {
 public:
  SequentialTurns(const DeviceGraph& graph, const Problem& problem, const Options& options, Bound bound, bool shares)
      : Turns(graph, problem, options, std::move(bound), shares),
        tree_(graph_, problem_, [&] { return turn_.reached() || called_; }),
        prover_(graph_, problem_, options.seed) {
    local_.heed(&called_);
  }
  SequentialTurns(const SequentialTurns&) = delete;
  SequentialTurns& operator=(const SequentialTurns&) = delete;
  ~SequentialTurns() override { stop(); }

  [[nodiscard]] std::int64_t work() const override {
    return Turns::work() + nodes_ + (options_.work_limit > 0 ? prover_work_ : 0);
  }

 protected:
  void search() override {
    const bool beside = options_.threads != 1 && options_.work_limit == 0;
    stopped_ = false;
    for (; !over() && !finished(); turn_length_ = std::min(2 * turn_length_, kLongestTurn)) {
      take_news();
      if (finished()) break;
      const std::int64_t plans = begin_turn(turn_length_);
      local_.advance(bound_, limited(local_.work() + plans, local_.work()));
      take_found();
      heed_incumbent();
      if (over() || finished()) break;
      search_tree();
      if (!beside) ask_prover(plans);
      let_members_sit();
      // Not beside members' first sittings: they have all threads.
      if (beside && !beside_.joinable() && !over() && !finished()) beside_ = std::thread([this] { work_beside(); });
    }
    stop();
  }

  [[nodiscard]] std::unique_ptr<Member> copies_alone(const Problem& once, const Options& options) const override {
    return sequential_turns(graph_, once, options, false);
  }

  /// What a new incumbent rules out raises the bound.
  void heed_incumbent() override {
    if (best_cost_ >= known_) return;
    known_ = best_cost_;
    {
      const std::lock_guard lock(mutex_);
      if (local_.plan() != nullptr && local_.cost() == known_) incumbent_ = *local_.plan();
      below_ = known_;
    }
    tree_.require_below(known_);
    const auto interrupted = [&] { return deadline_.reached(); };
    bound_.least = std::max(bound_.least, bound_below(graph_, problem_, known_, interrupted));
  }

 private:
  static constexpr std::int64_t kFirstTurn = 250;
  static constexpr std::int64_t kLongestTurn = 64000;
  /// For one neighbourhood of the relaxation.
  static constexpr double kSeconds = 2;

  /// The best schedule is known, or that there is none.
  void prove() {
    if (best_cost_ < kNoWay) {
      bound_.least = std::max(bound_.least, best_cost_);
    } else {
      bound_.infeasible = "every sequence of runs and copies was searched";
    }
  }

  void search_tree() {
    const std::int64_t nodes = begin_turn(turn_length_);
    const TreeOutcome& outcome = tree_.advance(limited(nodes_ + nodes, nodes_) - nodes_);
    nodes_ = outcome.nodes;
    if (outcome.steps && outcome.cost < best_cost_) take(*outcome.steps);
    if (outcome.complete) prove();
  }

  void ask_prover(std::int64_t work) {
    for (const std::int64_t end = prover_work_ + work; !over() && !finished() && prover_work_ < end;) {
      if (!step_of_prover()) return;
      take_news();
    }
  }

  /// False when there is nothing more to come.
  bool step_of_prover() {
    std::optional<EvaluatedPlan> incumbent;
    Prover::Limits limits;
    {
      const std::lock_guard lock(mutex_);
      incumbent = incumbent_;
      limits.below = below_;
    }
    if (incumbent) limits.incumbent = &*incumbent;
    limits.interrupted = [&] {
      rests_.wait(true);
      return deadline_.reached() || stopped_;
    };
    limits.seconds = options_.work_limit > 0 ? 0 : kSeconds;
    News news = prover_.step(limits);
    const std::lock_guard lock(mutex_);
    const bool goes_on = !news.finished;
    prover_work_ += news.work;
    if (!news.plans.empty() || news.infeasible || news.bound > told_) called_ = true;
    told_ = news.bound;
    has_bound_ = true;
    news_.push_back(std::move(news));
    return goes_on;
  }

  void work_beside() {
    while (!deadline_.reached() && !stopped_ && step_of_prover()) {
    }
  }

  void take_news() {
    std::vector<News> news;
    {
      const std::lock_guard lock(mutex_);
      news.swap(news_);
      called_ = false;
    }
    for (News& item : news) {
      bound_.least = std::max(bound_.least, item.bound);
      for (Plan& plan : item.plans) adopt(std::move(plan));
      heed_incumbent();
      if (item.infeasible) prove();
    }
  }

  /// A program that is being solved beside waits at the next question whether it is to end. Not the first: until then there is
  /// no bound to speak of.
  void rest(bool waits) override {
    rests_ = waits && has_bound_;
    rests_.notify_all();
  }

  void stop() {
    stopped_ = true;
    rest(false);
    if (beside_.joinable()) beside_.join();
  }

  /// News have come from the thread beside.
  std::atomic<bool> called_ = false;
  std::atomic<bool> stopped_ = false;
  std::atomic<bool> rests_ = false;
  std::atomic<bool> has_bound_ = false;
  TreeSearch tree_;
  Prover prover_;
  std::int64_t turn_length_ = kFirstTurn;
  std::int64_t nodes_ = 0;
  /// What the best one known cost when the bound was last looked at.
  std::int64_t known_ = kNoWay;
  std::thread beside_;
  /// Of what follows, and nothing else is shared with the thread.
  std::mutex mutex_;
  std::optional<EvaluatedPlan> incumbent_;
  std::int64_t below_ = kNoWay;
  std::vector<News> news_;
  std::int64_t told_ = 0;
  std::int64_t prover_work_ = 0;
};

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

}  // namespace

std::unique_ptr<Turns> sequential_turns(const DeviceGraph& graph, const Problem& problem, const Options& options,
                                        bool shares) {
  return std::make_unique<SequentialTurns>(graph, problem, options, bound_of(graph, problem), shares);
}

Options shared_options(const SolveOptions& options) {
  return {.time_limit = options.time_limit,
          .work_limit = options.work_limit,
          .seed = static_cast<std::uint64_t>(options.seed),
          .threads = options.threads};
}

DeviceSchedule solve_or_wish(const DeviceGraph& graph, const Problem& problem, const Options& options, Wish* wish,
                             bool doubts) {
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
  const bool overlaps = problem.copies == CopyMode::overlap;
  (overlaps ? describe_overlapped_baseline : describe_baseline)(graph, problem, schedule);
  const auto turns = (overlaps ? overlapped_turns : sequential_turns)(graph, problem, options, true);
  if (wish != nullptr) turns->choose_computes(doubts);
  turns->sit(std::max(0.0, options.time_limit - deadline.elapsed()),
             options.work_limit > 0 ? options.work_limit : kNoWay);
  turns->write(schedule);
  schedule.solver.seconds = deadline.elapsed();
  if (wish != nullptr) *wish = turns->wish();
  return schedule;
}

DeviceSchedule solve(const DeviceGraph& graph, const Problem& problem, const Options& options) {
  return solve_or_wish(graph, problem, options, nullptr, false);
}

}  // namespace remora::devices
