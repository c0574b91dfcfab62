// SPDX-License-Identifier: Apache-2.0
#include "engine/curve/probe.hpp"

#include <algorithm>

#include "engine/curve/adapt.hpp"
#include "engine/search/answer.hpp"
#include "engine/bound/first_bound.hpp"
#include "engine/search/start.hpp"
#include "engine/solve.hpp"

namespace remora {
namespace {

/// Workers of graphs up to this size stay for the next sitting. Twenty budgets' workers on a larger one would fill the
/// memory that one search needs twenty times over.
constexpr int kMostOpsToKeepWorkers = 5000;

/// The first sitting's seed is the user's own; the others' must not meet those of the user's other runs: 1, 2, 3.
std::int64_t seed_of_sitting(std::int64_t seed, int sitting) {
  constexpr std::uint64_t kStep = 1'000'003;
  const std::uint64_t sum = static_cast<std::uint64_t>(seed) + kStep * static_cast<std::uint64_t>(sitting);
  return static_cast<std::int64_t>(sum & static_cast<std::uint64_t>(INT64_MAX));
}

}  // namespace

Probe::Probe(const Instance& instance, Bytes budget, const SolveOptions& options)
    : instance_(instance.with_budget(budget)), options_(options), found_under_(budget) {
  description_ = describe_problem(instance_, options);
  state_.incumbent = first_solution(instance_, {});
}

bool Probe::settled() const {
  return is_settled(instance_, state_);
}

std::optional<Duration> Probe::gap() const {
  if (!holds_budget()) return std::nullopt;
  return std::max(Duration(0), state_.incumbent.extra - state_.lower_bound);
}

void Probe::take(const Solution& solution, Bytes found_under, const char* source) {
  if (!better(instance_, solution, state_.incumbent)) return;
  state_.incumbent = solution;
  found_under_ = found_under;
  state_.history.push_back({seconds_, instance_.baseline_duration() + solution.extra, solution.peak, source});
}

void Probe::learn(const Probe& other) {
  take(other.state_.incumbent, other.found_under_, "another budget");
  if (other.budget() < budget()) return;
  state_.lower_bound = std::max(state_.lower_bound, other.state_.lower_bound);
  if (!other.state_.infeasible || state_.infeasible) return;
  state_.infeasible = true;
  // What does not fit into the larger budget does not fit into this one.
  if (!description_.certificate) description_.certificate = other.description_.certificate;
}

void Probe::adapt_plan(const RecomputePlan& plan, const char* source, const Sitting& sitting) {
  if (settled() || sitting.deadline.reached() || state_.work >= sitting.end) return;
  const Adapted adapted = adapt(instance_, plan, static_cast<std::uint64_t>(seed_of_sitting(options_.seed, sittings_)),
                                sitting.end - state_.work, [&] { return sitting.deadline.reached(); });
  state_.work += adapted.work;
  take(adapted.solution, budget(), source);
}

void Probe::begin(Sitting& sitting, const std::function<const Groups*()>& groups) {
  const double before = sitting.deadline.elapsed();
  find_first_bound(instance_, options_, sitting.deadline, state_, description_);
  bound_seconds_ = sitting.deadline.elapsed() - before;
  if (settled()) return;
  start_from_relaxation(instance_, options_, state_);
  // A neighbour's plan that holds the budget goes before the relaxation's, which need not, but costs least.
  if (options_.covering_start && !state_.cover.given_up.empty()) {
    adapt_plan(suggested_plan(instance_, state_.cover), "relaxation", sitting);
  }
  if (settled() || !groups) return;
  // Groups are found for all budgets: their time is not this one's.
  const double used = sitting.deadline.elapsed();
  const Groups* found = groups();
  sitting.deadline = Deadline(sitting.seconds, sitting.deadline.cancel(), used);
  if (found != nullptr) {
    start_from_groups(instance_, options_, *found, sitting.deadline, state_, description_.solver);
  }
}

void Probe::search(const Sitting& sitting) {
  SolveOptions options = options_;
  options.seed = seed_of_sitting(options_.seed, sittings_);
  // What came before the search may have taken all there was; it gets a little all the same.
  if (options_.work_limit > 0) options.work_limit = std::max(sitting.end, state_.work + 1);
  run_phases(instance_, options, {.cancel = sitting.deadline.cancel()}, sitting.deadline, workers_, state_,
             description_.solver);
  if (settled() || instance_.op_count() > kMostOpsToKeepWorkers) workers_ = {};
}

void Probe::sit(const SittingLimits& limits, std::span<const Probe* const> neighbours,
                const std::function<const Groups*()>& groups) {
  const std::int64_t room = INT64_MAX - state_.work;
  const double end = seconds_ + limits.seconds;
  Sitting sitting{end, Deadline(end, limits.cancel, seconds_),
                  state_.work + (limits.work > 0 ? std::min(limits.work, room) : room)};
  for (const Probe* neighbour : neighbours) {
    adapt_plan(neighbour->state_.incumbent.plan, "another budget", sitting);
  }
  const Solution before = state_.incumbent;
  if (sittings_ == 0) begin(sitting, groups);
  if (!settled()) search(sitting);
  if (better(instance_, state_.incumbent, before)) found_under_ = budget();
  seconds_ = sitting.deadline.elapsed();
  ++sittings_;
}

CurvePoint Probe::point() const {
  CurvePoint point{.budget = budget(),
                   .status = state_.infeasible ? Status::infeasible : Status::unknown,
                   .lower_bound = instance_.baseline_duration() + state_.lower_bound,
                   .seconds = seconds_};
  if (!holds_budget()) return point;
  point.duration = instance_.baseline_duration() + state_.incumbent.extra;
  point.status = point.duration <= point.lower_bound ? Status::optimal : Status::feasible;
  point.peak_memory = state_.incumbent.peak;
  point.found_under = found_under_;
  return point;
}

Schedule Probe::schedule() const {
  Schedule schedule = description_;
  schedule.solver.seconds = seconds_;
  schedule.solver.reached_peak = state_.incumbent.peak;
  write_answer(instance_, state_, sequence_of(instance_, state_.incumbent), schedule);
  return schedule;
}

}  // namespace remora
