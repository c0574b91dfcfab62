// SPDX-License-Identifier: Apache-2.0
#include "engine/search/workers/relaxation_workers.hpp"

#include <algorithm>
#include <utility>

#include "engine/search/workers/cp_workers.hpp"
#include "model/evaluate.hpp"

namespace remora {
namespace {

constexpr double kFirstShare = 0.25;
constexpr double kMaxShare = 1.0;
/// Widening tries are worth less than the first search.
constexpr double kWideningPart = 4;
/// With more items the master takes a round and the subproblem too many: measured on rl500, which has 1567, it only
/// cost.
constexpr std::size_t kMaxItems = 1000;
constexpr int kWidenings = 8;
constexpr std::int64_t kMasterNodes = 2000;
/// The effort of solving the master, per item.
constexpr Effort kMasterEffort = 3000;

}  // namespace

BendersWorker::BendersWorker(const SolveOptions& options, std::uint64_t seed)
    : inferences_(inferences_of(options)), random_(seed), share_(kFirstShare) {}

bool BendersWorker::ready(const RoundInput& input) {
  if (rest_ > 0) {
    --rest_;
    return false;
  }
  return !exhausted_ && !input.cover.given_up.empty() && input.cover.problem.items.size() <= kMaxItems;
}

RoundResult BendersWorker::run(const RoundInput& input) {
  RoundResult result;
  Solution incumbent = input.incumbent;
  for (Effort effort = 0; !exhausted_ && effort < input.effort && !input.interrupted();) {
    if (incumbent.extra <= std::max(input.lower_bound, result.lower_bound)) break;
    const Effort spent = iterate(input, incumbent, result);
    if (spent == 0 || rest_ > 0 || result.work >= input.work) break;
    effort += spent;
  }
  return result;
}

Effort BendersWorker::iterate(const RoundInput& input, Solution& incumbent, RoundResult& result) {
  const CoverProblem& problem = input.cover.problem;
  CoverMipLimits limits{
      .nodes = kMasterNodes, .interrupted = input.interrupted, .cuts = cuts_, .cutoff = incumbent.extra};
  const CoverMipResult master = solve_cover_mip(problem, limits);
  Effort effort = kMasterEffort * static_cast<Effort>(problem.items.size());
  result.lower_bound = std::max(result.lower_bound, std::min(master.bound, incumbent.extra));
  if (!master.complete || result.lower_bound >= incumbent.extra) {
    exhausted_ = !master.complete;
    return 0;
  }
  std::vector<bool> allowed = master.given_up;
  for (std::size_t i = 0; i < allowed.size(); ++i) {
    if (!can_be_banned(input.instance, problem.items[i])) allowed[i] = true;
  }
  const auto outcome = search_within(input, incumbent, allowed, share_, input.work - result.work, effort);
  result.work += Work(outcome.nodes);
  if (outcome.sequence) {
    incumbent = make_solution(input.instance, *outcome.sequence);
    result.solution = incumbent;
    // As good as the relaxation: no cut is needed any more.
    if (incumbent.extra <= std::max(input.lower_bound, result.lower_bound)) return effort;
  }
  if (!outcome.complete) {
    // Too hard: again later, with more nodes. The others must not wait for long.
    share_ = std::min(kMaxShare, 2 * share_);
    rest_ = next_rest_;
    next_rest_ *= 2;
    return effort;
  }
  widen(input, incumbent, allowed, effort, result);
  CoverCut cut;
  for (std::size_t i = 0; i < allowed.size(); ++i) {
    if (!allowed[i]) cut.push_back(static_cast<int>(i));
  }
  // Nothing else to give up: the search has looked at everything.
  if (cut.empty()) result.lower_bound = std::max(result.lower_bound, incumbent.extra);
  cuts_.push_back(std::move(cut));
  return effort;
}

cp::SearchOutcome BendersWorker::search_within(const RoundInput& input, const Solution& incumbent,
                                               const std::vector<bool>& allowed, double share, Work most,
                                               Effort& effort) {
  const auto bans = bans_outside(input.instance, input.cover.problem, allowed);
  const cp::RetentionProblem problem(input.instance, incumbent.computes(input.instance), input_order(input.instance),
                                     {input.instance.budget(), incumbent.extra, bans}, inferences_);
  cp::SearchSettings settings;
  const std::int64_t nodes_of_round = kRoundEffort / node_effort(problem);
  settings.node_limit =
      std::min(most.count(), 1 + static_cast<std::int64_t>(share * static_cast<double>(nodes_of_round)));
  settings.seed = random_.next();
  settings.interrupted = input.interrupted;
  auto outcome = cp::solve_retention(problem, settings);
  effort += posting_effort(problem) + (outcome.nodes + 1) * node_effort(problem);
  return outcome;
}

/// Allows half of what is left as long as that, too, is quickly proved to be in vain.
void BendersWorker::widen(const RoundInput& input, const Solution& incumbent, std::vector<bool>& allowed,
                          Effort& effort, RoundResult& result) {
  for (int attempt = 0; attempt < kWidenings && result.work < input.work; ++attempt) {
    std::vector<bool> more = allowed;
    bool any = false;
    for (std::size_t i = 0; i < more.size(); ++i) {
      if (more[i] || random_.below(2) == 0) continue;
      more[i] = true;
      any = true;
    }
    if (!any) continue;
    const Work most = input.work - result.work;
    const auto outcome = search_within(input, incumbent, more, share_ / kWideningPart, most, effort);
    result.work += Work(outcome.nodes);
    // A schedule found here would be better than the incumbent: it is left for the master to propose.
    if (outcome.complete && !outcome.sequence) allowed = std::move(more);
  }
}

namespace {

/// The number of repairs of each plan.
constexpr std::size_t kRepairsOfPlan = 3;
/// A repair may cost this part more than the incumbent, before what is not needed is taken out.
constexpr std::int64_t kSlackPart = 20;

}  // namespace

/// Before there are any: without a schedule, what the search begins with.
std::span<const RecomputePlan> RoundingWorker::plans(const RoundInput& input) {
  if (input.cover.roundings > 0) return input.cover.rounded.plans;
  if (input.incumbent.peak <= input.instance.budget()) return {};
  if (begin_.empty()) begin_.push_back(input.incumbent.plan());
  return begin_;
}

bool RoundingWorker::ready(const RoundInput& input) {
  if (is_unfinished_) return true;
  if (rounding_ != input.cover.roundings) {
    rounding_ = input.cover.roundings;
    repairs_ = 0;
  }
  return repairs_ < kRepairsOfPlan * plans(input).size();
}

RoundResult RoundingWorker::run(const RoundInput& input) {
  RoundResult result;
  if (!moves_) moves_.emplace(input.instance);
  const PlanEvaluator& state = moves_->state();
  const Effort begin = state.effort();
  Solution best = input.incumbent;
  while (ready(input) && state.effort() - begin < input.effort && !input.interrupted()) {
    if (!std::exchange(is_unfinished_, false)) {
      const std::span<const RecomputePlan> all = plans(input);
      moves_->assign(within_limits(input.instance, all[repairs_++ % all.size()]));
    }
    const bool has_schedule = best.peak <= input.instance.budget();
    const Duration most = has_schedule ? best.extra + Duration(1 + best.extra.count() / kSlackPart) : Duration::max();
    const Effort end = begin + (has_schedule ? 2 : 8) * input.effort;
    Repair repair(*moves_, random_);
    const bool repaired = state.overflow() == Bytes(0) ||
                          repair.run({.below = most, .effort_limit = end, .interrupted = input.interrupted});
    if (repaired) repair.prune(input.interrupted);
    // The first schedule is worth more than one round.
    is_unfinished_ = !repaired && !has_schedule && state.effort() >= end;
    Solution found = make_solution(input.instance, state.plan());
    if (better(input.instance, found, best)) {
      best = found;
      result.solution = std::move(found);
    }
    moves_->keep();
  }
  result.work = work_of(state.effort() - begin);
  return result;
}

}  // namespace remora
