// SPDX-License-Identifier: Apache-2.0
#include "engine/search/workers/annealing_worker.hpp"

#include <algorithm>
#include <cmath>

namespace remora {
namespace {

constexpr double kChainShare = 0.3;
constexpr int kMostChain = 8;
/// A new place for a recompute is mostly the stage of a use.
constexpr double kUseShare = 0.75;

}  // namespace

AnnealingWorker::Walk::Walk(const Solution& begin, const Instance& instance)
    : moves(instance, begin.plan()), rate(exchange_rate(instance)), cooling(annealing_cooling(instance, rate)) {
  for (OpId op{0}; op < instance.op_count(); op = OpId(op + 1)) {
    if (instance.max_computes(op) > 1) ops.push_back(op);
  }
}

AnnealingWorker::AnnealingWorker(std::uint64_t seed) : random_(seed) {}

double AnnealingWorker::price() const {
  return annealing_price(walk_->rate, coolings_);
}

RoundResult AnnealingWorker::run(const RoundInput& input) {
  RoundResult result;
  if (!walk_) walk_.emplace(input.incumbent, input.instance);
  if (walk_->ops.empty()) return result;
  const PlanEvaluator& state = walk_->moves.state();
  Duration best = input.incumbent.peak <= input.instance.budget() ? input.incumbent.extra : Duration::max();
  const Effort begin = effort();
  while (effort() - begin < input.effort && !input.interrupted() && best > input.lower_bound) {
    step();
    offer_cheaper(state, best, result);
    if (!walk_->cooling.cold(effort())) continue;
    walk_->cooling.begin_again(effort());
    ++coolings_;
  }
  if (!result.solution) offer(input, state, result);
  result.work = work_of(effort() - begin);
  return result;
}

double AnnealingWorker::cost() const {
  const PlanEvaluator& state = walk_->moves.state();
  return static_cast<double>(state.overflow().count()) + price() * static_cast<double>(state.extra().count());
}

void AnnealingWorker::step() {
  ++steps_;
  const double most = cost() - walk_->cooling.temperature(effort()) * std::log(1 - random_.unit());
  if (change(walk_->ops[random_.below(walk_->ops.size())]) && cost() <= most) {
    walk_->moves.keep();
  } else {
    walk_->moves.undo_to(0);
  }
}

/// Drops a recompute of the op, adds one, or both. False if there was nothing to do.
bool AnnealingWorker::change(OpId op) {
  const PlanEvaluator& state = walk_->moves.state();
  const auto stages = state.recomputes(op);
  const bool full = static_cast<int>(stages.size()) + 1 >= walk_->moves.instance().max_computes(op);
  const bool drop = !stages.empty() && (full || random_.below(2) == 0);
  if (drop) {
    walk_->moves.remove_chain({stages[random_.below(stages.size())], op});
    if (random_.below(2) == 0) return true;
  }
  const Recompute again{random_stage(op), op};
  if (!state.can_add(again)) return false;
  if (random_.unit() < kChainShare) {
    walk_->moves.add_chain(again, {.most = kMostChain}, random_);
  } else {
    walk_->moves.add(again);
  }
  return true;
}

Stage AnnealingWorker::random_stage(OpId op) {
  const Instance& instance = walk_->moves.instance();
  const auto outputs = instance.outputs(op);
  const TensorId t = outputs[random_.below(outputs.size())];
  const auto users = instance.users(t);
  const Stage last = users.empty() || instance.keep(t) ? instance.op_count() : Stage{users.back()};
  if (!users.empty() && random_.unit() < kUseShare) return users[random_.below(users.size())];
  return op + 1 + static_cast<Stage>(random_.below(static_cast<std::size_t>(last - op)));
}

}  // namespace remora
