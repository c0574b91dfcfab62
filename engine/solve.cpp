// SPDX-License-Identifier: Apache-2.0
#include "engine/solve.hpp"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/deadline.hpp"
#include "engine/baselines/method.hpp"
#include "engine/free/free_search.hpp"
#include "engine/groups/groups.hpp"
#include "engine/search/answer.hpp"
#include "engine/bound/first_bound.hpp"
#include "engine/search/phases.hpp"
#include "engine/search/start.hpp"
#include "model/error.hpp"
#include "model/evaluate.hpp"

namespace remora {
namespace {

/// The two phases from the best start there is; in free order, both and the order in turns.
void run_search(const Instance& instance, const SolveOptions& options, const SolveCallbacks& callbacks,
                const Deadline& deadline, SearchState& state, Schedule& schedule) {
  if (state.infeasible) return;
  if (instance.options().order == OrderMode::free) {
    search_free_order(instance, options, callbacks, deadline, state, schedule.solver);
    return;
  }
  start_from_relaxation(instance, options, state);
  if (wants_groups(instance, options) && !is_settled(instance, state)) {
    const Groups groups = find_groups(instance, options, deadline, callbacks.blocks);
    state.work += groups.work;
    start_from_groups(instance, options, groups, deadline, state, schedule.solver);
  }
  const double begin = deadline.elapsed();
  PhaseWorkers workers;
  run_phases(instance, options, callbacks, deadline, workers, state, schedule.solver);
  auto& statistics = schedule.solver.statistics;
  if (!statistics.empty()) statistics.emplace_back("polish_seconds", deadline.elapsed() - begin);
}

/// The one answer of a method of the literature; empty if it has none that the instance permits.
std::vector<OpId> run_method(const Instance& instance, const SolveOptions& options, const SolveCallbacks& callbacks,
                             const Deadline& deadline, SearchState& state, SolverReport& report) {
  if (state.infeasible) return {};
  MethodResult result = method_of(options.strategy)({instance, options, deadline});
  state.lower_bound = std::max(state.lower_bound, result.lower_bound);
  state.work = result.work;
  report.note = std::move(result.note);
  if (result.sequence.empty()) return {};
  if (!is_permitted(instance, result.sequence)) {
    report.note +=
        (report.note.empty() ? "" : "; ") +
        std::string("its sequence is not one of this problem: other order, or more computes of an op than allowed");
    return {};
  }
  const Evaluation evaluation = evaluate(instance, result.sequence);
  report.reached_peak = evaluation.peak;
  const std::string name = strategy_name(options.strategy);
  state.history.push_back({deadline.elapsed(), evaluation.duration, evaluation.peak, name});
  const bool holds_budget = evaluation.peak <= instance.budget();
  if (callbacks.incumbent && holds_budget) {
    callbacks.incumbent(incumbent_of(instance, options, state, result.sequence, deadline));
  }
  if (callbacks.progress) {
    const Duration bound = instance.baseline_duration() + state.lower_bound;
    callbacks.progress(
        {deadline.elapsed(), holds_budget ? 2 : 1, name, evaluation.duration, evaluation.peak, bound, state.work});
  }
  return std::move(result.sequence);
}

}  // namespace

void check_problem(const Instance& instance, const SolveOptions& options) {
  check_options(options);
  if (instance.has_options()) throw InputError("compute_options", "solve takes graphs without options per op");
}

Schedule solve(const Instance& instance, const SolveOptions& options, const SolveCallbacks& callbacks,
               std::span<const OpId> warm_start) {
  check_problem(instance, options);
  const Deadline deadline(options.time_limit, callbacks.cancel);
  Schedule schedule = describe_problem(instance, options);
  SearchState state;
  const bool searches = is_search(options.strategy);
  const bool is_free = instance.options().order == OrderMode::free;
  const std::span<const OpId> start = searches ? warm_start : std::span<const OpId>{};
  state.incumbent = is_free ? first_free_solution(instance, start) : first_solution(instance, start);
  find_first_bound(instance, options, deadline, state, schedule);
  if (searches) {
    run_search(instance, options, callbacks, deadline, state, schedule);
    write_answer(instance, state, sequence_of(instance, state.incumbent), schedule);
  } else {
    const auto sequence = run_method(instance, options, callbacks, deadline, state, schedule.solver);
    write_answer(instance, state, sequence, schedule);
  }
  schedule.solver.seconds = deadline.elapsed();
  return schedule;
}

}  // namespace remora
