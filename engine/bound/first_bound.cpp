// SPDX-License-Identifier: Apache-2.0
#include "engine/bound/first_bound.hpp"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "engine/bound/cover_mip.hpp"
#include "engine/bound/covering.hpp"
#include "engine/bound/footprint.hpp"

namespace remora {
namespace {

/// CBC's share of the time limit, and its limits.
constexpr double kCoverShare = 0.2;
constexpr double kMostCoverSeconds = 5;
constexpr double kUnlimitedSeconds = 1e9;
/// With more items CBC's presolve alone takes longer than all the time it has, and can't be interrupted: 15 s for
/// nothing on a training step of GPT-2 with 1000 layers (66,010 ops).
constexpr std::size_t kMostItems = 30'000;
constexpr std::int64_t kCoverNodes = 5000;

/// How much of a solve CBC may take.
CoverMipLimits cover_mip_limits(const SolveOptions& options, const Deadline& deadline) {
  CoverMipLimits limits;
  // Under a work limit nothing may depend on time.
  limits.seconds =
      options.work_limit > 0 ? kUnlimitedSeconds : std::min(kMostCoverSeconds, options.time_limit * kCoverShare);
  limits.nodes = kCoverNodes;
  limits.interrupted = [&deadline] { return deadline.reached(); };
  return limits;
}

}  // namespace

void find_first_bound(const Instance& instance, const SolveOptions& options, const Deadline& deadline,
                      SearchState& state, Schedule& schedule) {
  if (state.infeasible) return;
  state.infeasible = least_budget(instance) > instance.budget();
  schedule.certificate = footprint_certificate(instance);
  if (state.infeasible || !options.covering_bound) return;
  // Of a large graph the relaxation alone takes seconds: not after a signal.
  if (deadline.cancel() != nullptr && deadline.cancel()->load(std::memory_order_relaxed)) return;
  CoverProblem& problem = state.cover.problem;
  problem = covering_relaxation(instance, options.covering_limits);
  const auto ascent = covering_bound(problem);
  state.infeasible = ascent.infeasible;
  state.lower_bound = std::max(state.lower_bound, ascent.extra);
  // What is resident at an event is known for the input order only.
  const bool is_certain = instance.options().order == OrderMode::input;
  if (ascent.event.valid() && is_certain) schedule.certificate = cover_certificate(instance, problem, ascent.event);
  const bool exceeded = std::any_of(problem.excess.begin(), problem.excess.end(), [](Bytes b) { return b > Bytes(0); });
  if (state.infeasible || !exceeded || !options.covering_mip || problem.items.size() > kMostItems) return;
  auto mip = solve_cover_mip(problem, cover_mip_limits(options, deadline));
  state.infeasible = mip.infeasible;
  state.lower_bound = std::max(state.lower_bound, mip.bound);
  if (mip.infeasible && is_certain)
    schedule.certificate = cover_certificate(instance, problem, mip.event, mip.given_up);
  state.cover.given_up = std::move(mip.given_up);
  if (options.reduced_costs) state.cover.priced = std::move(mip.priced);
}

}  // namespace remora
