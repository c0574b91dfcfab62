// SPDX-License-Identifier: Apache-2.0
#include "engine/search/complete_worker.hpp"

#include <algorithm>

namespace remora {
namespace {

/// A round's share of the work, in nodes of a problem with kUsualCopies copies; larger ones get fewer.
constexpr std::int64_t kNodesPerRound = 6000;
constexpr std::int64_t kUsualCopies = 100;
constexpr std::int64_t kFirstPassNodes = 1000;
constexpr double kWidthGrowth = 1.6;
/// Ceilings start this part of the baseline duration above the bound.
constexpr double kFirstWidth = 0.002;
/// Passes that look for a schedule vary the order of choices; the first one does not.
constexpr double kNoise = 0.3;

/// What every recompute that is allowed would cost together.
double all_recomputes(const Instance& instance) {
  double total = 0;
  for (int v = 0; v < instance.op_count(); ++v) {
    const int recomputes = instance.max_computes(OpId(v)) - 1;
    total += static_cast<double>(instance.duration(OpId(v)).count()) * recomputes;
  }
  return total;
}

std::int64_t nodes_per_round(int copies) {
  return std::max<std::int64_t>(100, kNodesPerRound * kUsualCopies / (kUsualCopies + copies));
}

}  // namespace

cp::Inferences inferences_of(const SolveOptions& options) {
  return {.forced_recompute = options.forced_recompute,
          .impossible_recompute = options.impossible_recompute,
          .useless_recompute = options.useless_recompute,
          .cover_bound = options.cover_bound,
          .dear_recompute = options.dear_recompute};
}

CompleteWorker::Pass::Pass(const RoundInput& input, Duration ceiling, std::int64_t limit,
                           const cp::Inferences& inferences, const cp::SearchSettings& settings)
    : problem(input.instance, input.incumbent.plan, input_order(input.instance), {input.instance.budget(), ceiling},
              inferences),
      search(problem, settings),
      below(ceiling),
      node_limit(limit) {}

CompleteWorker::CompleteWorker(const SolveOptions& options, std::uint64_t seed)
    : inferences_(inferences_of(options)), seed_(seed), pass_nodes_(kFirstPassNodes), width_(kFirstWidth) {}

Duration CompleteWorker::ceiling(const RoundInput& input) const {
  const bool feasible = input.incumbent.peak <= input.instance.budget();
  const Duration most = feasible ? input.incumbent.extra : Duration::max();
  const auto baseline = static_cast<double>(input.instance.baseline_duration().count());
  const double above = width_ * baseline + 1;
  // A ceiling above everything that can be paid is none.
  if (static_cast<double>(input.lower_bound.count()) + above > all_recomputes(input.instance)) return most;
  return std::min(input.lower_bound + Duration(static_cast<std::int64_t>(above)), most);
}

void CompleteWorker::begin_pass(const RoundInput& input) {
  cp::SearchSettings settings;
  settings.noise = passes_ % 2 == 0 ? 0.0 : kNoise;
  settings.seed = seed_ + static_cast<std::uint64_t>(passes_);
  settings.interrupted = input.interrupted;
  const Duration below = ceiling(input);
  const bool last = input.incumbent.peak <= input.instance.budget() && below == input.incumbent.extra;
  pass_ = std::make_unique<Pass>(input, below, last ? INT64_MAX : pass_nodes_, inferences_, settings);
  ++passes_;
}

RoundResult CompleteWorker::run(const RoundInput& input) {
  RoundResult result;
  if (!pass_) begin_pass(input);
  const bool feasible = input.incumbent.peak <= input.instance.budget();
  if (feasible) pass_->search.require_below(input.incumbent.extra);
  const Duration below = feasible ? std::min(pass_->below, input.incumbent.extra) : pass_->below;

  const std::int64_t before = pass_->search.advance(0).nodes;
  const auto& outcome = pass_->search.advance(nodes_per_round(pass_->problem.copy_count()));
  result.work = outcome.nodes - before;
  if (outcome.plan) {
    Solution found = make_solution(input.instance, *outcome.plan);
    if (better(input.instance, found, input.incumbent)) result.solution = std::move(found);
  }
  if (outcome.complete) {
    // Everything below the ceiling, or below what was found on the way, has been looked at.
    const Duration proved = outcome.plan ? std::min(outcome.extra, below) : below;
    result.infeasible = proved == Duration::max();
    if (!result.infeasible) result.lower_bound = proved;
    pass_.reset();
    // Nothing there: look further up, the faster the longer there is no schedule.
    if (!feasible) width_ *= kWidthGrowth;
  } else if (outcome.nodes >= pass_->node_limit) {
    // Lost its way: a higher ceiling makes schedules easier to find; beyond all ceilings, begin again and work harder.
    const bool unlimited = pass_->below == Duration::max();
    pass_.reset();
    width_ = unlimited ? kFirstWidth : width_ * kWidthGrowth;
    pass_nodes_ += pass_nodes_ / 4;
  }
  return result;
}

}  // namespace remora
