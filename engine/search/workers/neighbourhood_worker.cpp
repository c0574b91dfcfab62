// SPDX-License-Identifier: Apache-2.0
#include "engine/search/workers/neighbourhood_worker.hpp"

#include <algorithm>

#include "engine/base/draw_weighted.hpp"
#include "engine/search/workers/complete_worker.hpp"
#include "model/cp/solve_retention.hpp"

namespace remora {
namespace {

constexpr double kLeastWeight = 0.1;
constexpr double kForgetting = 0.98;
constexpr double kReward = 0.5;
constexpr double kGrowth = 1.05;
constexpr double kShrinkage = 0.97;
constexpr double kLeastSize = 4;

}  // namespace

NeighbourhoodWorker::NeighbourhoodWorker(const SolveOptions& options, std::uint64_t seed)
    : inferences_(inferences_of(options)), node_limit_(options.neighbourhood_nodes), random_(seed) {
  for (Arm& arm : arms_) arm.size = options.neighbourhood_size;
}

void NeighbourhoodWorker::learn(Arm& arm, bool improved, bool complete, int op_count) const {
  arm.weight = std::max(kLeastWeight, arm.weight * kForgetting + (improved ? kReward : 0.0));
  // Exhausted in vain: too small to hold an improvement. Out of nodes: too large to be searched.
  if (!improved) arm.size *= complete ? kGrowth : kShrinkage;
  arm.size = std::clamp(arm.size, kLeastSize, std::max(kLeastSize, static_cast<double>(op_count)));
}

RoundResult NeighbourhoodWorker::run(const RoundInput& input) {
  RoundResult result;
  Solution current = input.incumbent;
  ScheduleView view(input.instance, sequence_of(input.instance, current));
  auto bans = bans_below(input.instance, input.cover, current.extra);
  for (std::int64_t effort = 0; effort < input.effort && !input.interrupted();) {
    if (current.extra <= input.lower_bound) break;
    const std::size_t chosen = draw_weighted(arms_.size(), random_, [&](std::size_t i) { return arms_[i].weight; });
    Arm& arm = arms_[chosen];
    const auto free_ops = relax(view, kRelaxations[chosen], static_cast<int>(arm.size), random_);
    const cp::RetentionProblem problem(input.instance, computes_of(view.sequence()), free_ops,
                                       {input.instance.budget(), current.extra, bans}, inferences_);
    cp::SearchSettings settings;
    settings.node_limit = node_limit_;
    settings.follow_incumbent = random_.below(2) == 0;
    settings.noise = 0.2;
    settings.seed = random_.next();
    settings.interrupted = input.interrupted;
    const auto outcome = cp::solve_retention(problem, settings);
    result.work += std::max<std::int64_t>(1, outcome.nodes);
    effort += posting_effort(problem) + (outcome.nodes + 1) * node_effort(problem);
    learn(arm, outcome.sequence.has_value(), outcome.complete, input.instance.op_count());
    if (!outcome.sequence) continue;
    current = make_solution(input.instance, *outcome.sequence);
    view = ScheduleView(input.instance, sequence_of(input.instance, current));
    bans = bans_below(input.instance, input.cover, current.extra);
    result.solution = current;
  }
  return result;
}

}  // namespace remora
