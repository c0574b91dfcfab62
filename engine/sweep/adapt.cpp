// SPDX-License-Identifier: Apache-2.0
#include "engine/sweep/adapt.hpp"

#include <utility>

#include "engine/search/local/plan_moves.hpp"
#include "engine/search/local/repair.hpp"
#include "engine/search/worker.hpp"
#include "model/random.hpp"

namespace remora {
namespace {

/// So many full rounds of a worker at most.
constexpr std::int64_t kMostRounds = 2;

}  // namespace

Adapted adapt(const Instance& instance, const RecomputePlan& plan, std::uint64_t seed,
              const std::function<bool()>& interrupted) {
  PlanMoves moves(instance, plan);
  const PlanEvaluator& state = moves.state();
  const std::int64_t begin = state.effort();
  Random random(seed);
  Repair repair(moves, random);
  const RepairSettings settings{.effort_limit = begin + kMostRounds * kRoundEffort * kLocalPerEffort,
                                .interrupted = interrupted};
  if (state.overflow() > Bytes(0)) repair.run(settings);
  if (state.overflow() == Bytes(0)) repair.prune(interrupted);
  const std::int64_t work = local_work(state.effort() - begin);
  return {make_solution(instance, state.plan()), work};
}

}  // namespace remora
