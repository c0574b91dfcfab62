// SPDX-License-Identifier: Apache-2.0
#include "engine/search/start.hpp"

#include <string>
#include <utility>
#include <vector>

#include "engine/bound/cover_facts.hpp"
#include "engine/groups/hierarchical.hpp"
#include "model/error.hpp"

namespace remora {

Solution first_solution(const Instance& instance, std::span<const OpId> warm_start) {
  Solution plain = make_solution(instance, RecomputePlan{});
  if (warm_start.empty()) return plain;
  if (!is_staged(instance, warm_start)) {
    throw InputError("warm start",
                     "its first computes don't follow the input order, or the recomputes of a stage don't");
  }
  Solution warm = make_solution(instance, within_limits(instance, plan_of(instance, warm_start)));
  return better(instance, warm, plain) ? warm : plain;
}

void start_from_relaxation(const Instance& instance, const SolveOptions& options, SearchState& state) {
  if (!options.covering_start || state.cover.given_up.empty()) return;
  Solution suggested = make_solution(instance, suggested_plan(instance, state.cover));
  if (better(instance, suggested, state.incumbent)) state.incumbent = std::move(suggested);
}

bool wants_groups(const Instance& instance, const SolveOptions& options) {
  if (options.strategy == Strategy::hierarchical) return true;
  return options.strategy == Strategy::automatic && options.hierarchy && hierarchy_pays(instance);
}

void start_from_groups(const Instance& instance, const SolveOptions& options, const Groups& groups,
                       const Deadline& deadline, SearchState& state, SolverReport& report) {
  const bool asked = options.strategy == Strategy::hierarchical;
  report.note = (asked ? "" : "large training graph, so started from groups: ") + groups.note;
  report.statistics = groups.statistics;
  if (!groups.complete) return;
  HierarchicalResult result = compose_groups(groups, instance, options, deadline);
  report.statistics.insert(report.statistics.end(), result.statistics.begin(), result.statistics.end());
  state.work += result.work;
  if (!better(instance, result.solution, state.incumbent)) return;
  state.incumbent = std::move(result.solution);
  state.history.push_back(
      {deadline.elapsed(), instance.baseline_duration() + state.incumbent.extra, state.incumbent.peak, "hierarchy"});
}

}  // namespace remora
