// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <atomic>
#include <climits>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "engine/ask/ask.hpp"
#include "engine/ask/problem.hpp"
#include "engine/base/allowance.hpp"
#include "engine/baselines/method.hpp"
#include "engine/bound/first_bound.hpp"
#include "engine/groups/hierarchical.hpp"
#include "engine/search/search.hpp"
#include "engine/search/segments.hpp"
#include "engine/search/workers/crew.hpp"
#include "model/error.hpp"
#include "model/evaluate.hpp"
#include "model/sequence.hpp"

namespace remora {
namespace {

/// The part of the time limit that the relaxation's bisection may take; the rest is for the search.
constexpr double kRelaxationShare = 0.25;
/// A search may take this part of the limits that are left.
constexpr double kSearchShare = 0.3;
/// Searches end when this part of the budget is all that is undecided.
constexpr double kResolution = 1e-4;

/// A part of what is left: where work is counted of that alone, so that no share of the time ends a search before.
Limits share_of(const Allowance& allowance, double part) {
  return {allowance.uncounted_seconds(part), allowance.share(part).work};
}

/// A search at one budget from a known sequence, ended by the first schedule within it; true if it was proved infeasible. What has
/// a smaller peak than what is known is taken over.
bool search_proves_infeasible(const Instance& instance, const SolveOptions& options, Allowance& allowance,
                              BudgetBracket& bracket) {
  const auto starts = [&](Search& search) {
    if (!has_plans(instance)) return;
    start_from_checkpoints(search);
    if (wants_groups(instance, options)) start_from_groups(search, nullptr);
  };
  // The mode relaxation proves; the bisection has bounded the others.
  Search search(instance, options,
                {.crew = input_order_crew, .starts = {{When::after_bound, starts}}, .proves = !has_plans(instance)},
                bracket.sequence);
  search.listen({.enough = [&](const Progress&) { return search.holds_budget(); }});
  search.run_session({Deadline(options.time_limit, allowance.deadline().cancel()), work_limit(options.work_limit)});
  allowance.spend(search.work() + work_of_look(instance));
  if (search.infeasible()) return true;
  if (search.incumbent().peak < bracket.reached) {
    bracket.reached = search.incumbent().peak;
    bracket.sequence = search.incumbent().computes(instance);
  }
  return false;
}

/// For the staged form with this number of runs per op: bisects for the lower end, then searches at that budget (phase
/// 1). The options have its part of the allowance. `start`: a sequence of the instance's problem to begin with.
BudgetBracket bracket_staged(const Instance& instance, const SolveOptions& options, Allowance& all,
                             const std::vector<Compute>& start = {}) {
  const std::vector<Compute> plain = computes_of(input_order(instance));
  if (!modes_hold(instance, plain)) {
    throw InputError(
        "modes",
        "mode 0 of some op counts as more runs than allowed: the search for the minimum budget begins with mode 0");
  }
  Allowance allowance(limits_of(options), all.deadline().cancel());
  const Deadline relaxing(allowance.uncounted_seconds(kRelaxationShare), allowance.deadline().cancel());
  const std::int64_t steps =
      part_of(allowance.limits().work, kRelaxationShare).count() / work_of_look(instance).count();
  const auto most_steps = static_cast<int>(std::clamp<std::int64_t>(steps, 1, INT_MAX));
  BudgetBracket bracket{.proved = proved_least_budget(instance, relaxing, 0, most_steps),
                        .sequence = start.empty() ? plain : start,
                        .max_computes = instance.problem().max_computes};
  bracket.reached = evaluate(instance, bracket.sequence).peak;
  // Budgets at which a search found nothing and proved nothing are passed over.
  Bytes doubtful = bracket.proved;
  SolveOptions some = options;
  // Its integer program is not counted, and there would be one for each budget.
  if (allowance.counts_work() && some.covering == Covering::on) some.covering = Covering::lp;
  for (bool first = true; !allowance.is_over() && bracket.proved < bracket.reached; first = false) {
    const Bytes open = bracket.reached - doubtful;
    if (static_cast<double>(open.count()) <= kResolution * static_cast<double>(bracket.reached.count())) break;
    // The byte below what was reached has been tried.
    if (!first && open == Bytes(1)) break;
    const Bytes budget = first ? bracket.proved : doubtful + Bytes(open.count() / 2);
    some = within(some, share_of(allowance, kSearchShare));
    const Instance limited = instance.with_budget(budget);
    if (search_proves_infeasible(limited, some, allowance, bracket)) bracket.proved = budget + Bytes(1);
    if (bracket.reached > budget) doubtful = std::max(budget, bracket.proved);
  }
  all.spend(allowance.spent());
  return bracket;
}

/// The same with the instance's computes an op or more: half of what is left for each number of computes, as long as one
/// more reaches less. What is proved is of the number that the bracket says.
BudgetBracket bracket_staged_with_more(const Instance& instance, const SolveOptions& options, Allowance& allowance) {
  constexpr double kPartOfRest = 0.5;
  BudgetBracket best;
  for (Instance stated = instance;;) {
    const int most = stated.problem().max_computes + 1;
    Instance next = with_computes(stated, most);
    const bool is_last = most > kMaxComputes || !allows_more(stated, next);
    const SolveOptions some = within(options, share_of(allowance, is_last ? 1 : kPartOfRest));
    BudgetBracket found = bracket_staged(stated, some, allowance, best.sequence);
    const bool pays = best.max_computes == 0 || found.reached < best.reached;
    if (pays) best = std::move(found);
    if (!pays || is_last || allowance.is_over() || best.reached <= least_budget(instance)) return best;
    stated = std::move(next);
  }
}

/// In free order the lower end is what one op alone needs, and one search at that budget gives the upper end. Of a peak above the budget it
/// gives no schedule: a second search, at that peak, does.
BudgetBracket bracket_free(const Instance& instance, const SolveOptions& options, Allowance& allowance) {
  BudgetBracket bracket{least_budget(instance), baseline_peak(instance), computes_of(input_order(instance)),
                        instance.problem().max_computes};
  Bytes budget = bracket.proved;
  for (const double part : {0.5, 1.0}) {
    const SolveOptions some = within(options, share_of(allowance, part));
    const Schedule schedule = solve(instance.with_budget(budget), some, {.cancel = allowance.deadline().cancel()});
    allowance.spend(Work(schedule.solver.work));
    if (schedule.has_schedule() && schedule.peak_memory < bracket.reached) {
      bracket.reached = schedule.peak_memory;
      bracket.sequence = computes_of(schedule);
    }
    budget = schedule.solver.reached_peak;
    if (schedule.has_schedule() || budget <= bracket.proved || budget >= bracket.reached) break;
  }
  return bracket;
}

}  // namespace

Work work_of_look(const Instance& instance) {
  constexpr std::size_t kSizeOfWork = 10;
  std::size_t size = 0;
  for (const OpId op : instance.ops()) size += 1 + instance.inputs(op).size();
  return Work(static_cast<std::int64_t>(1 + size / kSizeOfWork));
}

BudgetBracket least_budget(const Instance& instance, const SolveOptions& options, bool with_more,
                           Allowance& allowance) {
  const SolveOptions all = within(options, allowance.left());
  if (instance.problem().order == OrderMode::free) return bracket_free(instance, all, allowance);
  return with_more ? bracket_staged_with_more(instance, all, allowance) : bracket_staged(instance, all, allowance);
}

BudgetBracket least_budget(const Request& request, const std::atomic<bool>* cancel) {
  check_request(request);
  if (!is_search(request.options.strategy)) {
    throw InputError::of_option("strategy",
                                "the minimum budget is found by search; methods of the literature do not give one");
  }
  const Instance instance = unbudgeted(request, "the minimum budget is that of one order");
  Allowance allowance(limits_of(request.options), cancel);
  return least_budget(instance, request.options, !request.max_computes, allowance);
}

}  // namespace remora
