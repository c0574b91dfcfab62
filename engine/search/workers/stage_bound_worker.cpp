// SPDX-License-Identifier: Apache-2.0
#include "engine/search/workers/stage_bound_worker.hpp"

#include <algorithm>

#include "engine/bound/stage_mip.hpp"

namespace remora {
namespace {

/// About two seconds of the others' work.
constexpr int kRoundsBefore = 20;
constexpr std::int64_t kMostColumns = 20'000;
constexpr std::int64_t kNodes = 200;
/// Its part of the time limit, and its limit. Under a work limit only the nodes count.
constexpr double kShare = 0.2;
constexpr double kMostSeconds = 8;
constexpr double kNoLimit = 1e9;

}  // namespace

StageBoundWorker::StageBoundWorker(const SolveOptions& options)
    : seconds_(options.work_limit > 0 ? kNoLimit : std::min(kMostSeconds, kShare * options.time_limit)) {}

bool StageBoundWorker::ready(const RoundInput& input) {
  const CoverProblem& problem = input.cover.problem;
  if (done_ || problem.items.empty() || ++rounds_ <= kRoundsBefore) return false;
  if (rounds_ == kRoundsBefore + 1) done_ = stage_mip_columns(input.instance, problem) > kMostColumns;
  return !done_;
}

RoundResult StageBoundWorker::run(const RoundInput& input) {
  RoundResult result;
  done_ = true;
  const CoverProblem& problem = input.cover.problem;
  CoverMipLimits limits{
      .seconds = seconds_, .nodes = kNodes, .interrupted = input.interrupted, .ceiling = input.incumbent.extra};
  result.lower_bound = solve_stage_mip(input.instance, problem, limits).bound;
  return result;
}

}  // namespace remora
