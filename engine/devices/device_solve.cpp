// SPDX-License-Identifier: Apache-2.0
#include "engine/devices/device_solve.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include "engine/base/deadline.hpp"
#include "engine/base/version.hpp"
#include "engine/devices/device_plan.hpp"
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
  DeviceSearch(const DeviceGraph& graph, const DeviceProblem& problem, const DeviceSolveOptions& options,
               const Deadline& deadline)
      : graph_(graph), problem_(problem), options_(options), deadline_(deadline), random_(options.seed) {}

  /// The best plan that breaks no limit; nothing if none was found.
  std::optional<DevicePlan> run(const DeviceBound& bound) {
    std::optional<EvaluatedPlan> first = plan_of(graph_, problem_, bound.assignment);
    for (int tries = 0; !first && tries < kPatience; ++tries) first = plan_of(graph_, problem_, drawn());
    if (!first) return std::nullopt;
    Candidate current = mend(judged(*std::move(first)));
    Candidate best = current;
    for (int idle = 0; !over() && !(best.value.violation == 0 && best.value.cost <= bound.least);) {
      Candidate next = mend(changed(current));
      if (next.value <= current.value) current = next;
      ++idle;
      if (next.value < best.value) {
        best = std::move(next);
        idle = 0;
      } else if (idle >= kPatience) {
        current = best;
        idle = 0;
      }
    }
    if (best.value.violation > 0) return std::nullopt;
    return std::move(best.plan);
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

  [[nodiscard]] bool over() const {
    return deadline_.reached() || (options_.work_limit > 0 && work_ >= options_.work_limit);
  }

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
  const DeviceSolveOptions& options_;
  const Deadline& deadline_;
  Random random_;
  std::int64_t work_ = 0;
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
  const DeviceBound bound = device_bound(graph, problem);
  schedule.lower_bound = bound.least;
  describe_baseline(graph, problem, schedule);
  if (!bound.infeasible.empty()) {
    schedule.status = Status::infeasible;
    schedule.solver.note = bound.infeasible;
    return schedule;
  }
  DeviceSearch search(graph, problem, options, deadline);
  const std::optional<DevicePlan> plan = search.run(bound);
  schedule.solver.work = search.work();
  schedule.solver.seconds = deadline.elapsed();
  if (!plan) return schedule;
  const DeviceEvaluation evaluation = evaluate(graph, *plan);
  schedule.duration = evaluation.duration;
  schedule.energy = evaluation.energy;
  schedule.peak_memory = evaluation.peak;
  schedule.steps = with_releases(evaluation, *plan);
  schedule.status = schedule.cost() <= schedule.lower_bound ? Status::optimal : Status::feasible;
  return schedule;
}

}  // namespace remora
