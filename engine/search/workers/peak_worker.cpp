// SPDX-License-Identifier: Apache-2.0
#include "engine/search/workers/peak_worker.hpp"

#include <algorithm>

#include "engine/search/workers/complete_worker.hpp"
#include "model/cp/solve_retention.hpp"

namespace remora {
namespace {

constexpr double kLeastStride = 1.0 / 256;
constexpr double kSizeGrowth = 1.1;
constexpr double kLeastWindow = 8;
constexpr double kLeastMargin = 1e-4;
constexpr double kMostMargin = 16;

}  // namespace

PeakWorker::PeakWorker(const SolveOptions& options, std::uint64_t seed)
    : inferences_(inferences_of(options)),
      node_limit_(options.neighbourhood_nodes),
      random_(seed),
      size_(options.neighbourhood_size) {}

RoundResult PeakWorker::run(const RoundInput& input) {
  RoundResult result;
  Solution current = input.incumbent;
  ScheduleView view(input.instance, sequence_of(input.instance, current));
  const Bytes budget = input.instance.budget();
  for (std::int64_t effort = 0; effort < input.effort && current.peak > budget && !input.interrupted();) {
    const auto way = static_cast<double>((current.peak - budget).count());
    const auto step = std::max<std::int64_t>(1, static_cast<std::int64_t>(way * stride_));
    const Bytes target = std::max(budget, current.peak - Bytes(step));
    const auto free_ops = relax_above(view, target, static_cast<int>(size_), random_);
    const auto baseline = static_cast<double>(input.instance.baseline_duration().count());
    const Duration below = current.extra + Duration(1 + static_cast<std::int64_t>(margin_ * baseline));
    const cp::RetentionProblem problem(input.instance, computes_of(view.sequence()), free_ops, {target, below},
                                       inferences_);
    cp::SearchSettings settings;
    settings.node_limit = node_limit_;
    settings.first_only = true;
    settings.noise = 0.4;
    settings.follow_incumbent = random_.below(2) == 0;
    settings.seed = random_.next();
    settings.interrupted = input.interrupted;
    const auto outcome = cp::solve_retention(problem, settings);
    result.work += std::max<std::int64_t>(1, outcome.nodes);
    effort += posting_effort(problem) + (outcome.nodes + 1) * node_effort(problem);
    if (!outcome.sequence) {
      stride_ = std::max(kLeastStride, stride_ * 0.7);
      if (outcome.complete) {
        margin_ = std::min(kMostMargin, margin_ * 1.3);
        size_ = std::min(size_ * kSizeGrowth, static_cast<double>(input.instance.op_count()));
      } else {
        size_ = std::max(kLeastWindow, size_ / kSizeGrowth);
      }
      continue;
    }
    margin_ = std::max(kLeastMargin, margin_ * 0.9);
    stride_ = std::min(1.0, stride_ * 1.5);
    current = make_solution(input.instance, *outcome.sequence);
    view = ScheduleView(input.instance, sequence_of(input.instance, current));
    result.solution = current;
  }
  return result;
}

}  // namespace remora
