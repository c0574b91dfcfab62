// SPDX-License-Identifier: Apache-2.0
#include "engine/search/workers/complete_worker.hpp"

#include <algorithm>

#include "model/evaluate.hpp"

namespace remora {
namespace {

constexpr std::int64_t kFirstPassNodes = 1000;
constexpr double kWidthGrowth = 1.6;
constexpr double kFirstGapPart = 0.25;
constexpr double kGapPartShrinkage = 0.4;
/// Passes given up with a schedule in hand before the ceiling becomes that schedule's cost.
constexpr int kPassesGivenUp = 4;
/// Ceilings start this part of the baseline duration above the bound.
constexpr double kFirstWidth = 0.002;
/// Passes that look for a schedule vary the order of choices; the first one does not.
constexpr double kNoise = 0.3;

bool holds_budget(const RoundInput& input) {
  return input.incumbent.peak <= input.instance.budget();
}

}  // namespace

cp::Inferences inferences_of(const SolveOptions& options) {
  return {.forced_recompute = options.forced_recompute,
          .impossible_recompute = options.impossible_recompute,
          .useless_recompute = options.useless_recompute,
          .later_recompute = options.later_recompute,
          .cover_bound = options.cover_bound,
          .dear_recompute = options.dear_recompute};
}

CompleteWorker::Pass::Pass(const RoundInput& input, Duration ceiling, std::int64_t limit,
                           const cp::Inferences& inferences, const cp::SearchSettings& settings)
    : problem(input.instance, input.incumbent.computes(input.instance), input_order(input.instance),
              {input.instance.budget(), ceiling, bans_below(input.instance, input.cover, ceiling)}, inferences),
      search(problem, settings),
      below(ceiling),
      node_limit(limit) {}

CompleteWorker::CompleteWorker(const SolveOptions& options, std::uint64_t seed)
    : inferences_(inferences_of(options)),
      seed_(seed),
      pass_nodes_(kFirstPassNodes),
      width_(kFirstWidth),
      gap_part_(kFirstGapPart) {}

Duration CompleteWorker::ceiling(const RoundInput& input) const {
  const auto least = static_cast<double>(input.lower_bound.count());
  if (holds_budget(input)) {
    const double gap = static_cast<double>(input.incumbent.extra.count()) - least;
    const Duration below = input.lower_bound + Duration(1 + static_cast<std::int64_t>(gap_part_ * gap));
    return std::min(below, input.incumbent.extra);
  }
  const double above = width_ * static_cast<double>(input.instance.baseline_duration().count()) + 1;
  // A ceiling above everything that can be paid is none.
  if (least + above > static_cast<double>(input.instance.all_recomputes().count())) return Duration::max();
  return input.lower_bound + Duration(static_cast<std::int64_t>(above));
}

void CompleteWorker::begin_pass(const RoundInput& input) {
  cp::SearchSettings settings;
  settings.noise = passes_ % 2 == 0 ? 0.0 : kNoise;
  settings.seed = seed_ + static_cast<std::uint64_t>(passes_);
  // A pass lives longer than the round, and the round's question does not.
  settings.interrupted = [this] { return interrupted_ != nullptr && (*interrupted_)(); };
  const Duration below = ceiling(input);
  const bool last = holds_budget(input) && below == input.incumbent.extra;
  pass_ = std::make_unique<Pass>(input, below, last ? INT64_MAX : pass_nodes_, inferences_, settings);
  ++passes_;
}

RoundResult CompleteWorker::run(const RoundInput& input) {
  RoundResult result;
  interrupted_ = &input.interrupted;
  Solution incumbent = input.incumbent;
  Duration lower_bound = input.lower_bound;
  Effort effort = 0;
  while (effort < input.effort && !result.infeasible && !input.interrupted()) {
    const RoundInput now{input.instance, incumbent, lower_bound, input.cover, input.interrupted, input.effort};
    if (holds_budget(now) && incumbent.extra <= lower_bound) break;
    effort += search_on(now, input.effort - effort, result);
    lower_bound = std::max(lower_bound, result.lower_bound);
    if (result.solution) incumbent = *result.solution;
  }
  interrupted_ = nullptr;
  return result;
}

/// Goes on with the present pass, or begins one, for about `effort`. Returns the effort spent.
Effort CompleteWorker::search_on(const RoundInput& input, Effort effort, RoundResult& result) {
  if (!pass_) begin_pass(input);
  const bool feasible = holds_budget(input);
  if (feasible) pass_->search.require_below(input.incumbent.extra);
  const Duration below = feasible ? std::min(pass_->below, input.incumbent.extra) : pass_->below;

  const std::int64_t before = pass_->search.advance(0).nodes;
  const Effort of_node = node_effort(pass_->problem);
  const Effort of_posting = posting_effort(pass_->problem);
  const std::int64_t share = std::max<std::int64_t>(1, effort / of_node);
  const cp::SearchOutcome outcome = pass_->search.advance(std::min(share, pass_->node_limit - before));
  if (outcome.sequence) {
    Solution found = make_solution(input.instance, *outcome.sequence);
    if (better(input.instance, found, input.incumbent)) result.solution = std::move(found);
  }
  if (outcome.complete) {
    // Everything below the ceiling, or below what was found on the way, has been looked at.
    const Duration proved = outcome.sequence ? std::min(outcome.extra, below) : below;
    result.infeasible = proved == Duration::max();
    if (!result.infeasible) result.lower_bound = std::max(result.lower_bound, proved);
    pass_.reset();
    width_ *= kWidthGrowth;
    gap_part_ = std::min(1.0, gap_part_ * kWidthGrowth);
  } else if (outcome.nodes >= pass_->node_limit) {
    const bool unlimited = pass_->below == Duration::max();
    pass_.reset();
    give_up_pass(feasible, unlimited);
  }
  result.work += Work(outcome.nodes - before);
  return of_posting + (outcome.nodes - before) * of_node;
}

/// A pass ran out of nodes. With a schedule in hand it aimed at too high a bound: try a lower ceiling, and after a few
/// of those only the last proof is left. Without one the ceiling was too low to find any: try a higher one, and beyond
/// all ceilings begin again. Either way work harder.
void CompleteWorker::give_up_pass(bool feasible, bool unlimited) {
  pass_nodes_ += pass_nodes_ / 4;
  if (!feasible) {
    width_ = unlimited ? kFirstWidth : width_ * kWidthGrowth;
  } else {
    gap_part_ = ++given_up_ > kPassesGivenUp ? 1.0 : gap_part_ * kGapPartShrinkage;
  }
}

}  // namespace remora
