// SPDX-License-Identifier: Apache-2.0
#include "engine/devices/device_solve.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include "engine/base/deadline.hpp"
#include "engine/base/version.hpp"
#include "engine/devices/device_plan.hpp"
#include "engine/devices/device_space.hpp"
#include "engine/devices/device_state.hpp"
#include "model/error.hpp"
#include "model/random.hpp"

namespace remora {
namespace {

/// Ways to make room at one step that are looked at, at most.
constexpr std::size_t kMostWays = 40;
/// Changes at once before mending.
constexpr std::uint64_t kMostChanges = 4;
/// Without a better plan for so many rounds, the search goes on from the best one.
constexpr int kPatience = 200;

class DeviceSearch {
 public:
  DeviceSearch(const DeviceGraph& graph, const DeviceProblem& problem, std::uint64_t seed, const Deadline& deadline)
      : graph_(graph), problem_(problem), deadline_(deadline), random_(seed) {}

  /// The first plan, in place of the bound's, if it is of the staged form once it is mended.
  void begin_from(DevicePlan plan) { start_ = mended(graph_, problem_, std::move(plan)); }

  /// Searches on until so much work has been done in all.
  void advance(const DeviceBound& bound, std::int64_t work) {
    until_ = work;
    if (!best_) {
      std::optional<EvaluatedPlan> first = start_ ? std::move(start_) : plan_of(graph_, problem_, bound.assignment);
      while (!first && !over()) {
        ++work_;
        first = plan_of(graph_, problem_, drawn());
      }
      if (!first) return;
      current_ = mend(judged(*std::move(first)));
      best_ = current_;
    }
    while (!over() && !(best_->value.violation == 0 && best_->value.cost <= bound.least)) {
      Candidate next = mend(changed(*current_));
      if (next.value <= current_->value) current_ = next;
      ++idle_;
      if (next.value < best_->value) {
        best_ = std::move(next);
        idle_ = 0;
      } else if (idle_ >= kPatience) {
        current_ = best_;
        idle_ = 0;
      }
    }
  }

  /// The best plan that breaks no limit; null if none was found.
  [[nodiscard]] const DevicePlan* plan() const { return best_ && best_->value.violation == 0 ? &best_->plan : nullptr; }
  [[nodiscard]] std::int64_t cost() const { return best_->value.cost; }

  /// Goes on from a plan that somebody else found, if it is better.
  void adopt(DevicePlan plan) {
    std::optional<EvaluatedPlan> whole = mended(graph_, problem_, std::move(plan));
    if (!whole) return;
    Candidate next = judged(*std::move(whole));
    if (best_ && best_->value <= next.value) return;
    best_ = current_ = std::move(next);
    idle_ = 0;
  }

  [[nodiscard]] std::int64_t work() const { return work_; }

 private:
  struct Candidate : EvaluatedPlan {
    PlanValue value{};
  };
  /// Steps more, or an op elsewhere.
  struct Way {
    Insertions insertions{};
    OpId op{};
    DeviceId device{};
  };

  [[nodiscard]] bool over() const { return deadline_.reached() || work_ >= until_; }

  Candidate judged(EvaluatedPlan plan) {
    ++work_;
    const PlanValue value = value_of(graph_, problem_, plan.evaluation);
    return {std::move(plan), value};
  }

  Table<OpId, DeviceId> drawn() {
    Table<OpId, DeviceId> assignment;
    for (const OpId v : graph_.runs.ids()) assignment.push_back(drawn_device(v));
    return assignment;
  }

  DeviceId drawn_device(OpId op) {
    const auto& runs = graph_.runs[op];
    return runs[random_.below(runs.size())].device;
  }

  /// The step and device at which most is above a budget.
  [[nodiscard]] std::optional<std::pair<int, DeviceId>> worst(const DeviceEvaluation& evaluation) const {
    std::optional<std::pair<int, DeviceId>> found;
    Bytes most;
    for (const DeviceId d : graph_.devices.ids()) {
      for (std::size_t i = 0; problem_.budget[d] && i < evaluation.memory[d].size(); ++i) {
        const Bytes above = evaluation.memory[d][i] - *problem_.budget[d];
        if (above <= most) continue;
        most = above;
        found = {static_cast<int>(i), d};
      }
    }
    return found;
  }

  /// Makes room where most is missing, as long as that mends something.
  Candidate mend(Candidate candidate) {
    while (candidate.value.violation > 0 && !over()) {
      const auto place = worst(candidate.evaluation);
      if (!place) return candidate;
      std::vector<Way> ways;
      for (Insertions& insertions :
           making_room(graph_, problem_, candidate.plan, candidate.evaluation, place->first, place->second)) {
        ways.push_back({.insertions = std::move(insertions)});
      }
      add_relocations(candidate, *place, ways);
      random_.shuffle(ways);
      if (ways.size() > kMostWays) ways.resize(kMostWays);
      std::optional<Candidate> best;
      double best_score = 0;
      for (const Way& way : ways) {
        if (over()) break;
        std::optional<EvaluatedPlan> whole =
            mended(graph_, problem_,
                   way.op.valid() ? relocated(graph_, candidate.plan, way.op, way.device)
                                  : with_steps(candidate.plan, way.insertions));
        if (!whole) continue;
        Candidate next = judged(*std::move(whole));
        if (next.value.violation >= candidate.value.violation) continue;
        const auto mends = static_cast<double>(candidate.value.violation - next.value.violation);
        const auto dearer = static_cast<double>(std::max<std::int64_t>(0, next.value.cost - candidate.value.cost));
        const double score = mends / (1.0 + dearer) * (0.7 + 0.6 * random_.unit());
        if (best && score <= best_score) continue;
        best_score = score;
        best = std::move(next);
      }
      if (!best) return candidate;
      candidate = *std::move(best);
    }
    return candidate;
  }

  /// The run at the place, and those that made what stays there, elsewhere.
  void add_relocations(const Candidate& candidate, const std::pair<int, DeviceId>& place, std::vector<Way>& ways) {
    const auto add = [&](OpId op) {
      for (const RunCost& run : graph_.runs[op]) {
        if (run.device != place.second) ways.push_back({.op = op, .device = run.device});
      }
    };
    const DeviceStep& step = candidate.plan[at(place.first)];
    if (!step.is_copy()) add(step.op);
    for (const Stay& stay : candidate.evaluation.stays) {
      const bool crosses =
          stay.residence.device == place.second && stay.first_step < place.first && stay.last_step >= place.first;
      const DeviceStep& maker = candidate.plan[at(stay.first_step)];
      if (crosses && !maker.is_copy()) add(maker.op);
    }
  }

  /// Some copies and recomputes less, or some ops elsewhere; the same plan if that leads nowhere.
  Candidate changed(const Candidate& candidate) {
    DevicePlan plan = candidate.plan;
    const std::uint64_t changes = 1 + random_.below(kMostChanges);
    for (std::uint64_t i = 0; i < changes; ++i) {
      if (random_.below(3) == 0 && graph_.devices.size() > 1) {
        const OpId op(random_.below(graph_.runs.size()));
        plan = relocated(graph_, plan, op, drawn_device(op));
      } else {
        take_out(plan);
      }
    }
    std::optional<EvaluatedPlan> whole = mended(graph_, problem_, std::move(plan));
    if (whole) return judged(*std::move(whole));
    ++work_;
    return candidate;
  }

  void take_out(DevicePlan& plan) {
    std::vector<bool> seen(graph_.graph.ops.size(), false);
    std::vector<std::size_t> places;
    for (std::size_t i = 0; i < plan.size(); ++i) {
      if (plan[i].is_copy() || seen[plan[i].op.index()]) places.push_back(i);
      if (!plan[i].is_copy()) seen[plan[i].op.index()] = true;
    }
    if (places.empty()) return;
    plan.erase(plan.begin() + static_cast<std::ptrdiff_t>(places[random_.below(places.size())]));
  }

  const DeviceGraph& graph_;
  const DeviceProblem& problem_;
  const Deadline& deadline_;
  Random random_;
  std::optional<EvaluatedPlan> start_;
  std::optional<Candidate> current_;
  std::optional<Candidate> best_;
  /// Rounds without a better one.
  int idle_ = 0;
  std::int64_t work_ = 0;
  std::int64_t until_ = 0;
};

/// Local search and complete search in turns of growing length, on one incumbent.
class Turns {
 public:
  Turns(const DeviceGraph& graph, const DeviceProblem& problem, const DeviceSolveOptions& options,
        const Deadline& deadline)
      : graph_(graph),
        problem_(problem),
        options_(options),
        deadline_(deadline),
        local_(graph, problem, options.seed, deadline),
        tree_(graph, problem, [&] { return deadline.reached(); }) {
    begin_from(options.start);
  }

  void run(DeviceBound& bound) {
    if (start_cost_ < kNoWay) learn(start_cost_, bound);
    for (std::int64_t turn = kFirstTurn; !over() && !proved_; turn = std::min(2 * turn, kLongestTurn)) {
      local_.advance(bound, limited(local_.work() + turn, local_.work()));
      if (local_.plan() != nullptr && local_.cost() < known_) learn(local_.cost(), bound);
      if (over() || proved_) break;
      const std::int64_t before = outcome_.nodes;
      const bool had = outcome_.steps.has_value();
      const std::int64_t cost = outcome_.cost;
      outcome_ = tree_.advance(limited(before + turn, before) - before);
      proved_ = outcome_.complete;
      if (outcome_.steps && (!had || outcome_.cost < cost)) local_.adopt(*outcome_.steps);
    }
  }

  /// The best schedule is known, or that there is none.
  [[nodiscard]] bool proved() const { return proved_; }
  [[nodiscard]] std::int64_t work() const { return local_.work() + outcome_.nodes; }

  [[nodiscard]] std::optional<std::int64_t> cost() const {
    if (is_start()) return start_cost_;
    if (!is_local() && !outcome_.steps) return std::nullopt;
    return is_local() ? local_.cost() : outcome_.cost;
  }

  /// The best schedule, with its releases.
  [[nodiscard]] std::vector<DeviceStep> steps() const {
    if (is_start()) return options_.start;
    return is_local() ? with_releases(evaluate(graph_, *local_.plan()), *local_.plan()) : *outcome_.steps;
  }

 private:
  static constexpr std::int64_t kFirstTurn = 250;
  static constexpr std::int64_t kLongestTurn = 64000;

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
    proved_ = known_ <= bound.least;
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

  const DeviceGraph& graph_;
  const DeviceProblem& problem_;
  const DeviceSolveOptions& options_;
  const Deadline& deadline_;
  DeviceSearch local_;
  DeviceTreeSearch tree_;
  DeviceSearchOutcome outcome_;
  /// Of the start, where it is a schedule of the problem.
  std::int64_t start_cost_ = kNoWay;
  /// What the best one known cost when the bound was last looked at.
  std::int64_t known_ = kNoWay;
  bool proved_ = false;
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

DeviceSchedule solve(const DeviceGraph& graph, const DeviceProblem& problem, const DeviceSolveOptions& options) {
  check(graph, problem);
  const Deadline deadline(options.time_limit, options.cancel);
  DeviceSchedule schedule{.graph = graph.graph.name,
                          .order = problem.order,
                          .objective = problem.objective,
                          .budget = problem.budget,
                          .duration_limit = problem.duration_limit,
                          .energy_limit = problem.energy_limit};
  schedule.peak_memory.assign(graph.devices.size(), Bytes());
  schedule.solver.version = version();
  schedule.solver.max_computes = problem.max_computes;
  schedule.solver.work_limit = options.work_limit;
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
