// SPDX-License-Identifier: Apache-2.0
#include "engine/curve/probe.hpp"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "engine/groups/hierarchical.hpp"
#include "engine/search/local/plan_moves.hpp"
#include "engine/search/local/repair.hpp"
#include "engine/search/workers/crew.hpp"
#include "model/random.hpp"

namespace remora {
namespace {

/// Workers of graphs up to this size stay for the next sitting. Twenty budgets' workers on a larger one would fill the
/// memory that one search needs twenty times over.
constexpr int kMostOpsToKeepWorkers = 5000;

/// A plan is made to fit in so many full rounds of a worker at most.
constexpr Effort kMostEffortToFit = 2 * kRoundEffort;

/// The first sitting's seed is the user's own; the others' must not meet those of the user's other runs: 1, 2, 3.
std::int64_t seed_of_sitting(std::int64_t seed, int sitting) {
  constexpr std::uint64_t kStep = 1'000'003;
  const std::uint64_t sum = static_cast<std::uint64_t>(seed) + kStep * static_cast<std::uint64_t>(sitting);
  return static_cast<std::int64_t>(sum & static_cast<std::uint64_t>(INT64_MAX));
}

}  // namespace

Probe::Probe(const Instance& instance, Bytes budget, const SolveOptions& options, std::function<const Groups*()> groups)
    : instance_(instance.with_budget(budget)),
      search_(instance_, options,
              {input_order_crew,
               {[this](Search&) { start_from_relaxation(); },
                [this, groups = std::move(groups)](Search&) { start_from_shared(groups); }}}),
      found_under_(budget) {}

std::optional<Duration> Probe::gap() const {
  if (!search_.holds_budget()) return std::nullopt;
  return std::max(Duration(0), search_.incumbent().extra - search_.lower_bound());
}

void Probe::learn(const Probe& other) {
  if (search_.offer(other.search_.incumbent(), Source::another_budget)) found_under_ = other.found_under_;
  if (other.budget() < budget()) return;
  search_.raise_bound(other.search_.lower_bound());
  // What does not fit into the larger budget does not fit into this one.
  if (other.search_.infeasible() && !search_.infeasible()) search_.refute(other.search_.certificate());
}

/// A neighbour's plan that holds the budget goes before the relaxation's, which need not, but costs least.
void Probe::start_from_relaxation() {
  if (!search_.options().covering_start || search_.cover().given_up.empty()) return;
  fit(suggested_plan(instance_, search_.cover()), Source::relaxation, search_.deadline());
}

/// Groups are found for all budgets: their time is not this one's.
void Probe::start_from_shared(const std::function<const Groups*()>& groups) {
  const double before = search_.elapsed();
  const Groups* found = groups();
  search_.excuse(search_.elapsed() - before);
  if (found != nullptr) start_from_groups(search_, *found);
}

/// Makes a plan, of another budget perhaps, fit this one: recomputes are added until the budget holds, then those that
/// it does not need are taken out. Stops early where the sitting does.
void Probe::fit(const RecomputePlan& plan, Source source, const Deadline& deadline) {
  if (settled() || deadline.reached() || search_.work() >= end_) return;
  PlanMoves moves(instance_, plan);
  const PlanEvaluator& state = moves.state();
  const Effort begin = state.effort();
  const Effort end = begin + std::min(kMostEffortToFit, effort_of(end_ - search_.work()));
  const std::function<bool()> over = [&] { return state.effort() >= end || deadline.reached(); };
  Random random(static_cast<std::uint64_t>(seed_of_sitting(search_.options().seed, sittings_)));
  Repair repair(moves, random);
  if (state.overflow() > Bytes(0)) repair.run({.effort_limit = end, .interrupted = over});
  if (state.overflow() == Bytes(0)) repair.prune(over);
  search_.charge(work_of(state.effort() - begin));
  search_.offer(make_solution(instance_, state.plan()), source);
}

void Probe::sit(const SittingLimits& limits, std::span<const Probe* const> neighbours) {
  const double used = search_.elapsed();
  const Deadline deadline(used + limits.seconds, limits.cancel, used);
  end_ = plus(search_.work(), limits.work);
  const Solution before = search_.incumbent();
  for (const Probe* neighbour : neighbours) {
    fit(neighbour->search_.incumbent().plan(), Source::another_budget, deadline);
  }
  search_.set_seed(seed_of_sitting(search_.options().seed, sittings_));
  search_.sit({deadline, end_});
  if (settled() || instance_.op_count() > kMostOpsToKeepWorkers) search_.dismiss_workers();
  if (better(instance_, search_.incumbent(), before)) found_under_ = budget();
  ++sittings_;
}

CurvePoint Probe::point() const {
  CurvePoint point{.budget = budget(),
                   .status = search_.infeasible() ? Status::infeasible : Status::unknown,
                   .lower_bound = instance_.baseline_duration() + search_.lower_bound(),
                   .seconds = search_.elapsed()};
  if (!search_.holds_budget()) return point;
  point.duration = instance_.baseline_duration() + search_.incumbent().extra;
  point.status = point.duration <= point.lower_bound ? Status::optimal : Status::feasible;
  point.peak_memory = search_.incumbent().peak;
  point.found_under = found_under_;
  return point;
}

Schedule Probe::schedule() const {
  Schedule schedule = search_.answer();
  schedule.solver.reached_peak = search_.incumbent().peak;
  return schedule;
}

}  // namespace remora
