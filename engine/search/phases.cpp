// SPDX-License-Identifier: Apache-2.0
#include "engine/search/phases.hpp"

#include "engine/search/workers/crew.hpp"

namespace remora {

bool is_settled(const Instance& instance, const SearchState& state) {
  return state.infeasible || (state.incumbent.peak <= instance.budget() && state.incumbent.extra <= state.lower_bound);
}

void run_phases(const Instance& instance, const SolveOptions& options, const SolveCallbacks& callbacks,
                const Deadline& deadline, PhaseWorkers& workers, SearchState& state, SolverReport& report) {
  Rounds rounds(instance, options, callbacks, deadline, state);
  rounds.give_incumbent();
  rounds.report(1, "start");
  const auto holds_budget = [&] { return state.incumbent.peak <= instance.budget(); };
  if (!workers.feasibility) workers.feasibility = make_mix(instance, options, 1);
  rounds.run(1, *workers.feasibility, holds_budget);
  const double begin = deadline.elapsed();
  if (report.phase2_seconds == 0) report.phase1_seconds = begin;
  report.reached_peak = state.incumbent.peak;
  if (holds_budget()) {
    rounds.report(2, "phase 2");
    if (!workers.duration) workers.duration = make_mix(instance, options, 2);
    rounds.run(2, *workers.duration, [&] { return state.incumbent.extra <= state.lower_bound; });
    report.phase2_seconds += deadline.elapsed() - begin;
  }
}

}  // namespace remora
