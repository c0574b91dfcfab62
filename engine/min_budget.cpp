// SPDX-License-Identifier: Apache-2.0
#include "engine/min_budget.hpp"

#include <algorithm>
#include <cstdint>

#include "engine/base/deadline.hpp"
#include "engine/bound/first_bound.hpp"
#include "engine/groups/composition.hpp"
#include "engine/groups/hierarchical.hpp"
#include "engine/search/search.hpp"
#include "engine/search/workers/crew.hpp"
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

/// A search at one budget from a known sequence, ended by the first schedule that holds it; whether it was refuted. What has
/// a smaller peak than what is known is taken over.
bool refuted_by_search(const Instance& instance, const SolveOptions& options, const Deadline& deadline,
                       BudgetBracket& bracket) {
  const auto groups = [&](Search& search) {
    if (!instance.has_modes() && wants_groups(instance, options)) start_from_groups(search, nullptr);
  };
  Search search(instance, options, {instance.has_modes() ? mode_crew : input_order_crew, {groups}}, bracket.sequence);
  search.listen({.enough = [&](const Progress&) { return search.holds_budget(); }});
  search.sit({deadline, work_limit(options.work_limit)});
  if (search.infeasible()) return true;
  if (search.incumbent().peak < bracket.reached) {
    bracket.reached = search.incumbent().peak;
    if (!instance.has_modes()) bracket.sequence = ops_of(search.incumbent().computes(instance));
  }
  return false;
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
  if (!instance.has_modes()) bracket.sequence = input_order(instance);
  // Budgets at which a search found nothing and proved nothing are passed over.
  Bytes doubtful = bracket.proved;
  const auto is_cancelled = [cancel] { return cancel != nullptr && *cancel; };
  double left = options.time_limit - relaxing.elapsed();
  for (bool first = true; left > 0 && bracket.proved < bracket.reached && !is_cancelled(); first = false) {
    const Bytes open = bracket.reached - doubtful;
    if (static_cast<double>(open.count()) <= kResolution * static_cast<double>(bracket.reached.count())) break;
    const Bytes budget = first ? bracket.proved : doubtful + Bytes(open.count() / 2);
    const Deadline deadline(left * kSearchShare, cancel);
    const Instance limited = instance.with_budget(budget);
    if (refuted_by_search(limited, options, deadline, bracket)) bracket.proved = budget + Bytes(1);
    left -= deadline.elapsed();
    if (bracket.reached > budget) doubtful = std::max(budget, bracket.proved);
  }
  return bracket;
}

}  // namespace remora
