// SPDX-License-Identifier: Apache-2.0
#include "engine/min_budget.hpp"

#include <algorithm>
#include <cstdint>

#include "engine/base/deadline.hpp"
#include "engine/bound/first_bound.hpp"
#include "engine/solve.hpp"
#include "model/error.hpp"
#include "model/evaluate.hpp"

namespace remora {
namespace {

/// The part of the time limit that the relaxation's bisection may take; the rest is for the search.
constexpr double kRelaxationShare = 0.25;
/// A search may take this part of the time that is left.
constexpr double kSearchShare = 0.3;
/// Searches end when this part of the budget is all that is undecided.
constexpr double kResolution = 1e-4;

/// A search at one budget, ended by the first schedule that holds it.
Schedule search_at(const Instance& instance, SolveOptions options, double seconds, const std::atomic<bool>* cancel) {
  options.time_limit = seconds;
  return solve(
      instance, options,
      {.enough = [&](const Progress& progress) { return progress.peak <= instance.budget(); }, .cancel = cancel});
}

}  // namespace

BudgetBracket bracket_min_budget(const Instance& instance, const SolveOptions& options,
                                 const std::atomic<bool>* cancel) {
  if (instance.has_modes() && !modes_hold(instance, computes_of(input_order(instance)))) {
    throw InputError("modes",
                     "mode 0 of some op weighs more than its computes may: the least budget begins with mode 0");
  }
  const Deadline relaxing(options.time_limit * kRelaxationShare, cancel);
  BudgetBracket bracket{proved_least_budget(instance, relaxing), baseline_peak(instance)};
  // Budgets at which a search found nothing and proved nothing are passed over.
  Bytes doubtful = bracket.proved;
  double left = options.time_limit - relaxing.elapsed();
  const auto is_cancelled = [cancel] { return cancel != nullptr && *cancel; };
  for (bool first = true; left > 0 && bracket.proved < bracket.reached && !is_cancelled(); first = false) {
    const Bytes open = bracket.reached - doubtful;
    if (static_cast<double>(open.count()) <= kResolution * static_cast<double>(bracket.reached.count())) break;
    const Bytes budget = first ? bracket.proved : doubtful + Bytes(open.count() / 2);
    const Schedule schedule = search_at(instance.with_budget(budget), options, left * kSearchShare, cancel);
    left -= schedule.solver.seconds;
    if (schedule.has_schedule()) {
      bracket.reached = std::min(bracket.reached, schedule.peak_memory);
    } else {
      doubtful = budget;
      if (schedule.status == Status::infeasible)
        bracket.proved = budget + Bytes(1);
      else if (schedule.solver.reached_peak > Bytes(0)) {
        bracket.reached = std::min(bracket.reached, schedule.solver.reached_peak);
      }
      doubtful = std::max(doubtful, bracket.proved);
    }
  }
  return bracket;
}

}  // namespace remora
