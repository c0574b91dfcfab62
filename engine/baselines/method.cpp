// SPDX-License-Identifier: Apache-2.0
#include "engine/baselines/method.hpp"

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/baselines/chains/checkpoint_sqrt.hpp"
#include "engine/baselines/chains/rotor.hpp"
#include "engine/search/local/local_search.hpp"
#include "model/evaluate.hpp"
#include "model/sequence.hpp"

namespace remora {
namespace {

/// The part of the time limit for constructing starts.
constexpr double kPartForStarts = 0.05;
/// The effort limit of greedy as a start: a hundredth of a second.
constexpr Effort kEffortOfStart = 5'000'000;
constexpr int kMaxOpsUnderWorkLimit = 5'000;

MethodResult run_none(const MethodInput& input) {
  return {.sequence = input_order(input.instance)};
}

MethodResult run_greedy(const MethodInput& input) {
  RecomputePlan plan = greedy_plan(input.instance, input.deadline);
  return {.sequence = sequence_of(input.instance, evaluate_plan(input.instance, std::move(plan)).plan)};
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
    default:
      return nullptr;
  }
}

Source source_of(Strategy strategy) {
  switch (strategy) {
    case Strategy::greedy:
      return Source::greedy;
    case Strategy::sqrt:
      return Source::sqrt;
    case Strategy::rotor:
      return Source::rotor;
    default:
      return Source::none;
  }
}

namespace {

std::optional<Instance> without_in_place(const Instance& instance) {
  if (!instance.has_in_place()) return std::nullopt;
  Graph graph = instance.graph();
  for (Op& op : graph.ops) op.in_place.clear();
  return Instance(std::make_shared<const Graph>(std::move(graph)), instance.problem());
}

}  // namespace

MethodResult run_method(Method method, const MethodInput& input) {
  const std::optional<Instance> plain = without_in_place(input.instance);
  MethodResult result = method({plain ? *plain : input.instance, input.options, input.deadline, input.most});
  if (!plain) return result;
  result.lower_bound = Duration(0);
  result.note +=
      std::string(result.note.empty() ? "" : "; ") + "it counts every output in addition to the inputs (in_place)";
  return result;
}

Construction construct(const Instance& instance, const SolveOptions& options, const Deadline& deadline, Effort most) {
  const bool counts = options.work_limit > 0 && most == INT64_MAX;
  if (!options.segments || (counts && instance.op_count() > kMaxOpsUnderWorkLimit)) return {};
  const auto holds = [&](const Sequence& sequence) {
    return !sequence.empty() && is_permitted(instance, sequence) &&
           evaluate(instance, sequence).peak <= instance.budget();
  };
  SolveOptions asked = options;
  for (const Strategy strategy : {Strategy::rotor, Strategy::sqrt}) {
    if (deadline.reached()) return {};
    asked.strategy = strategy;
    MethodResult result = run_method(method_of(strategy), {instance, asked, deadline, most});
    if (holds(result.sequence)) return {std::move(result.sequence), source_of(strategy)};
  }
  if (deadline.reached()) return {};
  RecomputePlan plan = greedy_plan(instance, deadline, std::min(most, kEffortOfStart));
  Sequence sequence = sequence_of(instance, evaluate_plan(instance, std::move(plan)).plan);
  if (holds(sequence)) return {std::move(sequence), Source::greedy};
  return {};
}

void start_from_construction(Search& search) {
  const SolveOptions& options = search.options();
  if (search.holds_budget() || search.infeasible() || !is_whole_search(options)) return;
  // Under a work limit nothing may depend on time.
  const bool counts = options.work_limit > 0;
  const double left = std::max(0.0, options.time_limit - search.deadline().elapsed());
  const Deadline deadline(counts ? left : std::min(left, kPartForStarts * options.time_limit),
                          search.deadline().cancel());
  Construction found = construct(search.instance(), options, deadline);
  if (!found.sequence.empty()) search.offer(make_solution(search.instance(), found.sequence), found.source);
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

void relieve(EventKey event, PlanMoves& moves, const Deadline& deadline, Effort most) {
  std::vector<TensorId> crossing;
  const auto is_over = [&] { return deadline.reached() || moves.state().effort() > most; };
  while (moves.state().memory(event) > moves.instance().budget() && !is_over()) {
    const auto best = best_at(event, moves, crossing, deadline);
    if (!best) return;
    moves.add(*best);
    moves.keep();
  }
}

}  // namespace

RecomputePlan greedy_plan(const Instance& instance, const Deadline& deadline, Effort most) {
  PlanMoves moves(instance);
  const EventKey end = EventKey::end(instance.op_count());
  // Tensors given up at an event are recomputed later, so nothing is added behind.
  for (EventKey event = EventKey::first_compute(0);
       event < end && !deadline.reached() && moves.state().effort() <= most; event = moves.state().event_after(event)) {
    relieve(event, moves, deadline, most);
  }
  return moves.state().plan();
}

}  // namespace remora
