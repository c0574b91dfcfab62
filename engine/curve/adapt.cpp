// SPDX-License-Identifier: Apache-2.0
#include "engine/curve/adapt.hpp"

#include <algorithm>

#include "engine/search/local/plan_moves.hpp"
#include "engine/search/local/repair.hpp"
#include "engine/search/worker.hpp"
#include "model/random.hpp"

namespace remora {
namespace {

/// So many full rounds of a worker at most.
constexpr std::int64_t kMostEffort = 2 * kRoundEffort * kLocalPerEffort;

}  // namespace

Adapted adapt(const Instance& instance, const RecomputePlan& plan, std::uint64_t seed, std::int64_t most_work,
              const std::function<bool()>& interrupted) {
  PlanMoves moves(instance, plan);
  const PlanEvaluator& state = moves.state();
  const std::int64_t begin = state.effort();
  // One unit of work is a thousand of local effort (local_work).
  const std::int64_t end = begin + std::min(kMostEffort, std::min(most_work, kMostEffort) * 1000);
  const std::function<bool()> over = [&] { return state.effort() >= end || interrupted(); };
  Random random(seed);
  Repair repair(moves, random);
  if (state.overflow() > Bytes(0)) repair.run({.effort_limit = end, .interrupted = over});
  if (state.overflow() == Bytes(0)) repair.prune(over);
  const std::int64_t work = local_work(state.effort() - begin);
  return {make_solution(instance, state.plan()), work};
}

}  // namespace remora
