// SPDX-License-Identifier: Apache-2.0
#include "engine/search/workers/neighbourhood_workers.hpp"

#include <algorithm>
#include <vector>

#include "engine/base/draw_weighted.hpp"
#include "engine/search/workers/complete_worker.hpp"
#include "model/cp/solve_retention.hpp"

namespace remora {
namespace {

/// A schedule under change, searched neighbourhood by neighbourhood until the round's effort is spent.
class Walk {
 public:
  explicit Walk(const RoundInput& input)
      : input_(input), current_(input.incumbent), view_(input.instance, current_.sequence(input.instance)) {}

  [[nodiscard]] bool over() const { return effort_ >= input_.effort || input_.interrupted(); }
  [[nodiscard]] const Solution& current() const { return current_; }
  [[nodiscard]] const ScheduleView& view() const { return view_; }

  /// Searches with these ops free; takes over what it finds.
  cp::SearchOutcome search(const std::vector<OpId>& free, const cp::Limits& limits, const cp::Inferences& inferences,
                           const cp::SearchSettings& settings, RoundResult& result) {
    const cp::RetentionProblem problem(input_.instance, computes_of(view_.sequence()), free, limits, inferences);
    auto outcome = cp::solve_retention(problem, settings);
    result.work += Work(std::max<std::int64_t>(1, outcome.nodes));
    effort_ += posting_effort(problem) + (outcome.nodes + 1) * node_effort(problem);
    if (!outcome.sequence) return outcome;
    current_ = make_solution(input_.instance, *outcome.sequence);
    view_ = ScheduleView(input_.instance, current_.sequence(input_.instance));
    result.solution = current_;
    return outcome;
  }

 private:
  const RoundInput& input_;
  Solution current_;
  ScheduleView view_;
  Effort effort_ = 0;
};

cp::SearchSettings settings_of(const RoundInput& input, std::int64_t node_limit, Random& random) {
  cp::SearchSettings settings;
  settings.node_limit = node_limit;
  settings.follow_incumbent = random.below(2) == 0;
  settings.seed = random.next();
  settings.interrupted = input.interrupted;
  return settings;
}

}  // namespace

PeakWorker::PeakWorker(const SolveOptions& options, std::uint64_t seed)
    : inferences_(inferences_of(options)),
      node_limit_(options.neighbourhood_nodes),
      random_(seed),
      size_(options.neighbourhood_size) {}

RoundResult PeakWorker::run(const RoundInput& input) {
  constexpr double kLeastStride = 1.0 / 256;
  constexpr double kSizeGrowth = 1.1;
  constexpr double kLeastSize = 8;
  constexpr double kLeastMargin = 1e-4;
  constexpr double kMostMargin = 16;
  RoundResult result;
  const Bytes budget = input.instance.budget();
  for (Walk walk(input); walk.current().peak > budget && !walk.over();) {
    const auto way = static_cast<double>((walk.current().peak - budget).count());
    const auto step = std::max<std::int64_t>(1, static_cast<std::int64_t>(way * stride_));
    const Bytes target = std::max(budget, walk.current().peak - Bytes(step));
    const auto free_ops = relax_above(walk.view(), target, static_cast<int>(size_), random_);
    const auto baseline = static_cast<double>(input.instance.baseline_duration().count());
    const Duration below = walk.current().extra + Duration(1 + static_cast<std::int64_t>(margin_ * baseline));
    cp::SearchSettings settings = settings_of(input, node_limit_, random_);
    settings.first_only = true;
    settings.noise = 0.4;
    const auto outcome = walk.search(free_ops, {target, below}, inferences_, settings, result);
    if (outcome.sequence) {
      margin_ = std::max(kLeastMargin, margin_ * 0.9);
      stride_ = std::min(1.0, stride_ * 1.5);
      continue;
    }
    stride_ = std::max(kLeastStride, stride_ * 0.7);
    if (outcome.complete) {
      margin_ = std::min(kMostMargin, margin_ * 1.3);
      size_ = std::min(size_ * kSizeGrowth, static_cast<double>(input.instance.op_count()));
    } else {
      size_ = std::max(kLeastSize, size_ / kSizeGrowth);
    }
  }
  return result;
}

NeighbourhoodWorker::NeighbourhoodWorker(const SolveOptions& options, std::uint64_t seed)
    : inferences_(inferences_of(options)), node_limit_(options.neighbourhood_nodes), random_(seed) {
  for (Arm& arm : arms_) arm.size = options.neighbourhood_size;
}

void NeighbourhoodWorker::learn(Arm& arm, bool improved, bool complete, int op_count) const {
  constexpr double kLeastWeight = 0.1;
  constexpr double kForgetting = 0.98;
  constexpr double kReward = 0.5;
  constexpr double kGrowth = 1.05;
  constexpr double kShrinkage = 0.97;
  constexpr double kLeastSize = 4;
  arm.weight = std::max(kLeastWeight, arm.weight * kForgetting + (improved ? kReward : 0.0));
  // Exhausted in vain: too small to hold an improvement. Out of nodes: too large to be searched.
  if (!improved) arm.size *= complete ? kGrowth : kShrinkage;
  arm.size = std::clamp(arm.size, kLeastSize, std::max(kLeastSize, static_cast<double>(op_count)));
}

RoundResult NeighbourhoodWorker::run(const RoundInput& input) {
  RoundResult result;
  auto bans = bans_below(input.instance, input.cover, input.incumbent.extra);
  for (Walk walk(input); walk.current().extra > input.lower_bound && !walk.over();) {
    const std::size_t chosen = draw_weighted(arms_.size(), random_, [&](std::size_t i) { return arms_[i].weight; });
    Arm& arm = arms_[chosen];
    const auto free_ops = relax(walk.view(), kRelaxations[chosen], static_cast<int>(arm.size), random_);
    cp::SearchSettings settings = settings_of(input, node_limit_, random_);
    settings.noise = 0.2;
    const auto outcome =
        walk.search(free_ops, {input.instance.budget(), walk.current().extra, bans}, inferences_, settings, result);
    learn(arm, outcome.sequence.has_value(), outcome.complete, input.instance.op_count());
    if (outcome.sequence) bans = bans_below(input.instance, input.cover, walk.current().extra);
  }
  return result;
}

}  // namespace remora
