// SPDX-License-Identifier: Apache-2.0
#include "engine/sweep/probe.hpp"

#include <algorithm>
#include <cstdint>

#include "engine/deadline.hpp"
#include "engine/search/answer.hpp"
#include "engine/search/first_bound.hpp"
#include "engine/search/phases.hpp"
#include "engine/search/start.hpp"
#include "engine/solve.hpp"
#include "engine/sweep/adapt.hpp"

namespace remora {
namespace {

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

void Probe::offer(const Solution& solution, Bytes found_under) {
  if (!better(instance_, solution, state_.incumbent)) return;
  state_.incumbent = solution;
  found_under_ = found_under;
  state_.history.push_back({seconds_, instance_.baseline_duration() + solution.extra, solution.peak, "another budget"});
}

void Probe::adapt_from(const Probe& other, const SittingLimits& limits) {
  if (settled()) return;
  const Deadline deadline(limits.seconds, limits.cancel);
  adapt_plan(other.state_.incumbent.plan, other.budget(), deadline);
  seconds_ += deadline.elapsed();
}

void Probe::adapt_plan(const RecomputePlan& plan, Bytes found_under, const Deadline& deadline) {
  const Adapted adapted = adapt(instance_, plan, seed_of_sitting(options_.seed, sittings_),
                                [&deadline] { return deadline.reached(); });
  state_.work += adapted.work;
  offer(adapted.solution, found_under);
}

std::optional<Duration> Probe::gap() const {
  if (!holds_budget()) return std::nullopt;
  return std::max(Duration(0), state_.incumbent.extra - state_.lower_bound);
}

void Probe::inherit(const Probe& larger) {
  if (larger.state_.infeasible && !state_.infeasible) {
    state_.infeasible = true;
    // What does not fit into the larger budget does not fit into this one.
    description_.certificate = larger.description_.certificate;
  }
  state_.lower_bound = std::max(state_.lower_bound, larger.state_.lower_bound);
}

void Probe::begin(const Deadline& deadline, const Groups* groups) {
  find_first_bound(instance_, options_, deadline, state_, description_);
  if (settled()) return;
  const Solution offered = state_.incumbent;
  start_from_relaxation(instance_, options_, state_);
  // A neighbour's plan that holds the budget goes before the relaxation's, which need not, but costs least.
  if (options_.covering_start && !state_.cover.given_up.empty()) {
    adapt_plan(suggested_plan(instance_, state_.cover), budget(), deadline);
  }
  if (groups != nullptr && !settled()) {
    start_from_groups(instance_, options_, *groups, deadline, state_, description_.solver);
  }
  if (better(instance_, state_.incumbent, offered)) found_under_ = budget();
}

void Probe::sit(const SittingLimits& limits, const Groups* groups) {
  const Deadline deadline(seconds_ + limits.seconds, limits.cancel, seconds_);
  if (sittings_ == 0) begin(deadline, groups);
  SolveOptions options = options_;
  options.seed = seed_of_sitting(options_.seed, sittings_);
  options.work_limit = limits.work > 0 ? state_.work + limits.work : 0;
  if (!settled()) {
    const Solution before = state_.incumbent;
    run_phases(instance_, options, {.cancel = limits.cancel}, deadline, state_, description_.solver);
    if (better(instance_, state_.incumbent, before)) found_under_ = budget();
  }
  seconds_ = deadline.elapsed();
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
  write_answer(instance_, state_, sequence_of(instance_, state_.incumbent.plan), schedule);
  return schedule;
}

}  // namespace remora
