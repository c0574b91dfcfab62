// SPDX-License-Identifier: Apache-2.0
#include "engine/baselines/method.hpp"

#include <optional>
#include <utility>
#include <vector>

#include "engine/baselines/chains/checkpoint_sqrt.hpp"
#include "engine/baselines/chains/rotor.hpp"
#include "engine/baselines/checkmate/checkmate.hpp"
#include "engine/baselines/twremat/twremat.hpp"
#include "engine/search/local/local_search.hpp"
#include "model/evaluate.hpp"
#include "model/sequence.hpp"

namespace remora {
namespace {

MethodResult run_none(const MethodInput& input) {
  return {.sequence = input_order(input.instance)};
}

MethodResult run_greedy(const MethodInput& input) {
  RecomputePlan plan = greedy_plan(input.instance, input.deadline);
  return {.sequence = sequence_of(input.instance, without_useless(input.instance, std::move(plan)))};
}

}  // namespace

Method method_of(Strategy strategy) {
  switch (strategy) {
    case Strategy::none:
      return run_none;
    case Strategy::greedy:
      return run_greedy;
    case Strategy::sqrt:
      return run_checkpoint_sqrt;
    case Strategy::rotor:
      return run_rotor;
    case Strategy::twremat:
      return run_twremat;
    case Strategy::checkmate:
      return run_checkmate;
    case Strategy::checkmate_lp:
      return run_checkmate_lp;
    default:
      return nullptr;
  }
}

namespace {

/// The recompute, just before its next use, that lowers the memory at the event most; none if nothing does.
std::optional<Recompute> best_at(EventKey event, PlanMoves& moves, std::vector<TensorId>& crossing,
                                 const Deadline& deadline) {
  const PlanEvaluator& state = moves.state();
  std::optional<Recompute> best;
  Bytes least = state.memory(event);
  moves.find_crossing(event, crossing);
  for (const TensorId t : crossing) {
    if (deadline.cancelled()) return std::nullopt;
    const Recompute again{state.first_use_after(t, event).stage(), state.instance().producer(t)};
    if (EventKey(again) <= event || !state.can_add(again)) continue;
    const std::size_t mark = moves.mark();
    moves.add(again);
    if (state.memory(event) < least) {
      least = state.memory(event);
      best = again;
    }
    moves.undo_to(mark);
  }
  return best;
}

void relieve(EventKey event, PlanMoves& moves, const Deadline& deadline) {
  std::vector<TensorId> crossing;
  while (moves.state().memory(event) > moves.instance().budget() && !deadline.reached()) {
    const auto best = best_at(event, moves, crossing, deadline);
    if (!best) return;
    moves.add(*best);
    moves.keep();
  }
}

}  // namespace

RecomputePlan greedy_plan(const Instance& instance, const Deadline& deadline) {
  PlanMoves moves(instance);
  const EventKey end = EventKey::end(instance.op_count());
  // What is given up at an event runs again later, so that nothing is added behind.
  for (EventKey event = EventKey::first_compute(0); event < end && !deadline.reached();
       event = moves.state().event_after(event)) {
    relieve(event, moves, deadline);
  }
  return moves.state().plan();
}

}  // namespace remora
